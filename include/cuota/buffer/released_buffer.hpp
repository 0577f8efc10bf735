// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Device memory as a pointer, with all that it takes to give it back.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/buffer/owned_block.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0 {

/// Device memory for a C API: plain words, which own. Whoever has them calls give_back(owner), once, from any thread.
struct raw_memory {
    void* data;                               ///< device memory; null when there are no bytes
    std::size_t bytes;                        ///< size
    void* owner;                              ///< what give_back wants
    void (*give_back)(void* owner) noexcept;  ///< to be called once, from any thread; destroys owner
};

/// The memory that was a device_buffer's: a raw pointer for C APIs and other libraries, and its owner.
///
/// Nobody orders the work that uses it. On the home stream it comes after all uses of the buffer and before the
/// release; what is done on another stream is to be told by `used_on`. Keeps the resource and the home stream.
/// Move-only; moved-from is empty. Its end gives the memory back, in order of the home stream.
/// Threads: one at a time.
/// Throws:  nothing but where it says so.
/// Cost:    that of a pointer; `detach` takes a little heap memory.
/// Example:
///     auto raw = x.release();                                  // a device_buffer's
///     library_scale(raw.get(), raw.size(), other.get());       // on a stream that the buffer knows nothing of
///     raw.used_on(other);                                      // so the memory waits for it
template <class T>
class released_buffer {
public:
    /// In device memory: not for host code. Null when there are no elements.
    [[nodiscard]] T* get() const noexcept { return static_cast<T*>(block_.at()); }
    [[nodiscard]] std::size_t size() const noexcept { return bytes() / sizeof(T); }  ///< elements
    [[nodiscard]] std::size_t bytes() const noexcept { return block_.bytes(); }      ///< size of the memory
    /// No elements; moved from or reset.
    [[nodiscard]] bool is_empty() const noexcept { return bytes() == 0; }
    /// Where the memory is given back.
    [[nodiscard]] stream_ref home() const noexcept { return block_.home(); }

    /// The memory is given back after what is enqueued on s by now; no host wait. Throws: cuda_error.
    void used_on(stream_ref s) {
        if (!is_empty() && s != home()) detail::order_after_work_of(home(), s);
    }

    /// Gives the memory back now.
    void reset() noexcept { detail::owned_block const gone{std::move(block_)}; }

    /// The same as plain words, for an API that takes a pointer and a function to call at the end.
    /// Throws: std::bad_alloc; unchanged then.
    [[nodiscard]] raw_memory detach() && {
        auto* const owner = new detail::owned_block{std::move(block_)};
        return {owner->at(), owner->bytes(), owner,
                [](void* block) noexcept { delete static_cast<detail::owned_block*>(block); }};
    }

private:
    template <class>
    friend class device_buffer;
    explicit released_buffer(detail::owned_block block) noexcept : block_{std::move(block)} {}

    detail::owned_block block_;
};

}  // namespace cuota::inline v0
