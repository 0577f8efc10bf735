// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Device memory as a raw pointer with its deleter.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/buffer/detail/check_part.hpp>
#include <cuota/buffer/detail/fill.hpp>
#include <cuota/buffer/detail/owned_block.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>

namespace cuota::inline v0 {

/// Device memory for C APIs. Its holder must call deleter(context) once, from any thread.
struct raw_memory {
    void* data;                               ///< null if bytes is 0
    std::size_t bytes;                        ///< size
    void* context;                            ///< argument of deleter
    void (*deleter)(void* context) noexcept;  ///< frees the memory
};

/// The memory of a former device_buffer as a raw pointer.
///
/// Uses are not tracked: work on the home stream is ordered after all uses of the buffer and before the deallocation; declare other streams
/// with `used_on` (PyTorch's record_stream). Keeps the resource and the home stream alive. Move-only; moved-from is empty. The destructor
/// frees the memory in the order of the home stream.
/// Threads: one at a time.
/// Throws:  nothing unless stated.
/// Cost:    that of a pointer.
/// Example:
///     auto raw = x.release();                                  // x: a device_buffer
///     library_scale(raw.get(), raw.size(), other.get());       // on another stream
///     raw.used_on(other);                                      // orders the deallocation after it
template <class T>
class released_buffer {
public:
    /// Makes an empty one, for a member that is assigned later. Its home is cudaStreamLegacy.
    released_buffer() noexcept = default;
    /// Returns the device pointer, not for host code; null without elements.
    [[nodiscard]] T* get() const noexcept { return static_cast<T*>(block_.at()); }
    [[nodiscard]] std::size_t size() const noexcept { return bytes() / sizeof(T); }  ///< elements
    [[nodiscard]] std::size_t bytes() const noexcept { return block_.bytes(); }      ///< size of the memory
    /// Returns whether it was moved from or reset.
    [[nodiscard]] bool is_empty() const noexcept { return bytes() == 0; }
    /// Returns the home stream.
    [[nodiscard]] stream_ref home() const noexcept { return block_.home(); }

    /// Orders the deallocation after the work on s so far. Throws: cuda_error.
    void used_on(stream_ref s) {
        if (!is_empty() && s != home()) detail::order_after_work_of(home(), s);
    }

    /// Sets all bytes to zero on s, after the work on the home stream so far and before later work there. Throws: cuda_error.
    void zero(stream_ref s, source_location where = source_location::current()) { zero(0, size(), s, where); }
    /// Same for elements [offset, offset + count). Throws: usage_error if the range exceeds the memory; cuda_error.
    void zero(std::size_t offset, std::size_t count, stream_ref s,
              source_location where = source_location::current()) {
        between_home_work(offset, count, s, where,
                          [&](T* first) { rt::fill_bytes(first, 0, count * sizeof(T), s, where); });
    }
    /// Sets all elements to copies of value in the same order. Throws: cuda_error.
    void fill(T const& value, stream_ref s, source_location where = source_location::current()) {
        fill(value, 0, size(), s, where);
    }
    /// Same for elements [offset, offset + count). Throws: usage_error if the range exceeds the memory; cuda_error.
    void fill(T const& value, std::size_t offset, std::size_t count, stream_ref s,
              source_location where = source_location::current()) {
        between_home_work(offset, count, s, where,
                          [&](T* first) { detail::fill<T>(first, count, value, s, where); });
    }

    /// Frees the memory.
    void reset() noexcept { detail::owned_block const gone{std::move(block_)}; }

    /// Transfers ownership, to a small object on the heap. Throws: std::bad_alloc; unchanged on failure.
    [[nodiscard]] raw_memory release() && {
        auto* const owner = new detail::owned_block{std::move(block_)};
        return {owner->at(), owner->bytes(), owner,
                [](void* block) noexcept { delete static_cast<detail::owned_block*>(block); }};
    }

private:
    template <class>
    friend class device_buffer;
    explicit released_buffer(detail::owned_block block) noexcept : block_{std::move(block)} {}

    // Calls work(first element) for a part, between the work on the home stream so far and later work there.
    template <class Work>
    void between_home_work(std::size_t offset, std::size_t count, stream_ref s, source_location where,
                           Work work) {
        detail::check_part("released_buffer", "a buffer", offset, count, size(), where);
        if (count == 0) return;
        if (s != home()) detail::order_after_work_of(s, home());
        work(get() + offset);
        used_on(s);
    }

    detail::owned_block block_;
};

}  // namespace cuota::inline v0
