// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Owner of a buffer's access_tracker.
#pragma once

#include <atomic>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/label.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

class access_tracker;

/// An access_tracker, created by the first use.
/// Threads: `of` and `of_host_memory` from any thread, others from one at a time.
class buffer_access {
public:
    buffer_access() noexcept = default;
    buffer_access(buffer_access&& other) noexcept : made_{other.take()} {}
    buffer_access& operator=(buffer_access&& other) noexcept;
    ~buffer_access() = default;

    /// Returns the uses, created with home stream `home()` if necessary. Throws: std::bad_alloc, cuda_error.
    template <class Home>
    [[nodiscard]] access_tracker& of(Home const& home) {
        if (access_tracker* const made = if_any()) [[likely]]
            return *made;
        return made_for(home());
    }
    [[nodiscard]] access_tracker& of_host_memory();
    [[nodiscard]] access_tracker* if_any() const noexcept { return made_.load(std::memory_order_acquire); }
    [[nodiscard]] access_tracker* take() noexcept;
    /// Ends uses that take() returned.
    static void end_at_home(access_tracker& taken) noexcept;
    void end_on_host() noexcept;
    /// Throws: cuda_error.
    void wait_on_host(bool for_writers_only) const;
    /// Throws: usage_error.
    void refuse_while_borrowed(char const* done, source_location where, bool to_write = false) const;

private:
    [[nodiscard]] access_tracker& made_for(stream_ref home);
    // If two threads create the uses, keeps the first one's.
    [[nodiscard]] access_tracker& keep(light_unique_ptr<access_tracker> fresh) noexcept;

    std::atomic<access_tracker*> made_ = nullptr;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/buffer/detail/access_tracker.hpp>
#include <cuota/core/detail/process.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE buffer_access& buffer_access::operator=(buffer_access&& other) noexcept {
    made_.store(other.take(), std::memory_order_relaxed);
    return *this;
}

CUOTA_INLINE void buffer_access::end_at_home(access_tracker& taken) noexcept { taken.end_at_home(); }

CUOTA_INLINE void buffer_access::end_on_host() noexcept {
    if (access_tracker* const made = take()) made->end_on_host();
}

CUOTA_INLINE void buffer_access::wait_on_host(bool for_writers_only) const {
    if (access_tracker* const made = if_any()) made->wait_on_host(for_writers_only);
}

CUOTA_INLINE void buffer_access::refuse_while_borrowed(char const* done, source_location where,
                                                       bool to_write) const {
    if (access_tracker* const made = if_any()) made->refuse_while_borrowed(done, where, to_write);
}

[[gnu::noinline]] CUOTA_INLINE access_tracker& buffer_access::made_for(stream_ref home) {
    if (process_number::is_cuda_of_parent()) throw_forked();  // the buffer is the parent's
    return keep(light_unique_ptr<access_tracker>::make(home));
}

CUOTA_INLINE access_tracker& buffer_access::of_host_memory() {
    if (access_tracker* const made = if_any()) return *made;
    return keep(light_unique_ptr<access_tracker>::make());
}

CUOTA_INLINE access_tracker* buffer_access::take() noexcept {
    access_tracker* const made = if_any();
    made_.store(nullptr, std::memory_order_relaxed);
    return made;
}

CUOTA_INLINE access_tracker& buffer_access::keep(light_unique_ptr<access_tracker> fresh) noexcept {
    access_tracker* first = nullptr;
    return made_.compare_exchange_strong(first, fresh.get(), std::memory_order_acq_rel) ? *fresh.detach()
                                                                                        : *first;
}

}  // namespace cuota::inline v0::detail

#endif
