// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Owning handle of a buffer's stream_uses.
#pragma once

#include <atomic>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

class stream_uses;

/// A buffer's stream_uses, created by the first use. Moves with the buffer.
/// Threads: `of` and `of_host_memory` from any thread, others from one at a time.
class buffer_uses {
public:
    buffer_uses() noexcept = default;
    buffer_uses(buffer_uses&& other) noexcept : made_{other.take()} {}
    buffer_uses& operator=(buffer_uses&& other) noexcept;
    ~buffer_uses() = default;

    /// Returns the uses; if none exist, creates them with home stream `home()`. Throws: std::bad_alloc, cuda_error.
    template <class Home>
    [[nodiscard]] stream_uses& of(Home const& home) {
        if (stream_uses* const made = if_any()) [[likely]]
            return *made;
        return made_for(home());
    }
    [[nodiscard]] stream_uses& of_host_memory();
    /// Returns null if none exist.
    [[nodiscard]] stream_uses* if_any() const noexcept { return made_.load(std::memory_order_acquire); }
    /// Releases ownership.
    [[nodiscard]] stream_uses* take() noexcept;
    /// Ends uses that take() returned.
    static void end_at_home(stream_uses& taken) noexcept;
    /// Ends the uses of host memory.
    void end_on_host() noexcept;
    /// Same as in stream_uses, if any exist. Throws: cuda_error.
    void wait_on_host(bool for_writers_only) const;
    /// Same as in stream_uses, if any exist. Throws: misuse.
    void refuse_while_borrowed(char const* done, place where, bool to_write = false) const;

private:
    [[nodiscard]] stream_uses& made_for(stream_ref home);
    // If two threads create the uses, the first one's are kept.
    [[nodiscard]] stream_uses& keep(sole<stream_uses> fresh) noexcept;

    std::atomic<stream_uses*> made_ = nullptr;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/buffer/stream_uses.hpp>
#include <cuota/core/process.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE buffer_uses& buffer_uses::operator=(buffer_uses&& other) noexcept {
    made_.store(other.take(), std::memory_order_relaxed);
    return *this;
}

CUOTA_INLINE void buffer_uses::end_at_home(stream_uses& taken) noexcept { taken.end_at_home(); }

CUOTA_INLINE void buffer_uses::end_on_host() noexcept {
    if (stream_uses* const made = take()) made->end_on_host();
}

CUOTA_INLINE void buffer_uses::wait_on_host(bool for_writers_only) const {
    if (stream_uses* const made = if_any()) made->wait_on_host(for_writers_only);
}

CUOTA_INLINE void buffer_uses::refuse_while_borrowed(char const* done, place where, bool to_write) const {
    if (stream_uses* const made = if_any()) made->refuse_while_borrowed(done, where, to_write);
}

[[gnu::noinline]] CUOTA_INLINE stream_uses& buffer_uses::made_for(stream_ref home) {
    if (process_number::is_cuda_of_parent()) throw_forked();  // the buffer is the parent's
    return keep(sole<stream_uses>::make(home));
}

CUOTA_INLINE stream_uses& buffer_uses::of_host_memory() {
    if (stream_uses* const made = if_any()) return *made;
    return keep(sole<stream_uses>::make());
}

CUOTA_INLINE stream_uses* buffer_uses::take() noexcept {
    stream_uses* const made = if_any();
    made_.store(nullptr, std::memory_order_relaxed);
    return made;
}

CUOTA_INLINE stream_uses& buffer_uses::keep(sole<stream_uses> fresh) noexcept {
    stream_uses* first = nullptr;
    return made_.compare_exchange_strong(first, fresh.get(), std::memory_order_acq_rel) ? *fresh.detach()
                                                                                        : *first;
}

}  // namespace cuota::inline v0::detail

#endif
