// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Array in page-locked host memory with asynchronous copies.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include <cuota/buffer/detail/buffer_access.hpp>
#include <cuota/buffer/detail/check_part.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>

namespace cuota::inline v0 {

/// `size()` elements of T in page-locked host memory: exactly that many bytes.
///
/// Copies to and from device_buffers are asynchronous; the destructor waits for them.
///
/// Move-only; moved-from is empty. The elements' bytes are initially zero.
/// Units:   counts are elements.
/// Order:   copies in the order of their stream.
/// Throws:  budget_exceeded, out_of_memory, cuda_error; usage_error, also for memory that the host cannot access. On failure, nothing is
///          allocated.
/// Threads: one at a time.
/// Cost:    page-locking takes about 0.5 s per GiB; reuse buffers.
/// Example:
///     cuota::pinned_buffer<float> host{x.size(), host_budget, "losses"};
///     host.download(x, stream);              // does not block
///     float const first = host.read()[0];    // waits for the copy
template <class T>
class pinned_buffer {
    static_assert(std::is_trivially_copyable_v<T>,
                  "T must be trivially copyable: the device reads and writes it byte by byte");
    static_assert(alignof(T) <= default_alignment, "T must not require an alignment above 256 bytes");

public:
    /// Makes an empty buffer, for a member that is assigned later.
    pinned_buffer() noexcept : memory_{default_pinned_resource()} {}
    /// Allocates from a host-accessible resource.
    explicit pinned_buffer(element_count count, any_resource memory = default_pinned_resource(),
                           tag name = {}, source_location where = source_location::current())
        : memory_{std::move(memory)} {
        if (memory_.kind() == memory_kind::device)
            detail::throw_usage_error(
                where, "pinned_buffer: cannot use a resource of device memory, which the host cannot reach");
        label const who = label_for<T>(name, where);
        data_ = static_cast<T*>(memory_.allocate_sync(detail::bytes_of(count, who), default_alignment, who));
        count_ = count;
        try {
            std::uninitialized_value_construct_n(data_, count_);
        } catch (...) {  // from T's constructor
            release();
            throw;
        }
    }
    /// Same, charged to a budget for host memory.
    pinned_buffer(element_count count, budget const& account, tag name = {},
                  source_location where = source_location::current())
        : pinned_buffer{count, budgeted<pinned_memory>{account}, name, where} {}
    // Host access to device memory would fault.
    template <device_only_resource R, class... Rest>
    pinned_buffer(std::size_t, R, Rest...) = delete;

    /// Moves memory and pending copies; `other` is empty.
    pinned_buffer(pinned_buffer&& other) noexcept
        : data_{detail::taken(other.data_)},
          count_{std::exchange(other.count_, 0)},
          memory_{other.memory_},
          uses_{std::move(other.uses_)} {}
    /// Waits for its copies, frees its memory, then moves.
    pinned_buffer& operator=(pinned_buffer&& other) noexcept {
        if (this == &other) return *this;
        release();
        data_ = detail::taken(other.data_);
        count_ = std::exchange(other.count_, 0);
        memory_ = other.memory_;
        uses_ = std::move(other.uses_);
        return *this;
    }
    pinned_buffer(pinned_buffer const&) = delete;  // locked pages are expensive
    pinned_buffer& operator=(pinned_buffer const&) = delete;
    ~pinned_buffer() { release(); }

    [[nodiscard]] std::size_t size() const noexcept { return count_; }               ///< elements
    [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }  ///< as charged
    /// Returns `size() == 0`.
    [[nodiscard]] bool is_empty() const noexcept { return count_ == 0; }

    /// Waits for copies into the elements and returns them.
    [[nodiscard]] std::span<T const> read() const {
        uses_.wait_on_host(true);
        return {data_, count_};
    }
    /// Waits for all copies and returns the elements.
    [[nodiscard]] std::span<T> write() {
        uses_.wait_on_host(false);
        return {data_, count_};
    }

    /// Enqueues a copy to a buffer of the same count on s. Throws: usage_error if counts differ.
    void upload(device_buffer<T>& to, stream_ref s,
                source_location where = source_location::current()) const {
        check_count(to.size(), where);
        upload(to, {0, 0, size()}, s, where);
    }
    /// Enqueues a copy from a buffer of the same count on s. Throws: usage_error if counts differ.
    void download(device_buffer<T> const& from, stream_ref s,
                  source_location where = source_location::current()) {
        check_count(from.size(), where);
        download(from, {0, 0, size()}, s, where);
    }
    /// Enqueues a copy of a part of this buffer to a part of `to`. Throws: usage_error if a part exceeds its buffer.
    void upload(device_buffer<T>& to, copy_region part, stream_ref s,
                source_location where = source_location::current()) const {
        auto const target = detail::leases_for_copies::write(to, s, where);
        upload(target.span(), part, s, where);
    }
    /// Enqueues a copy of a part of `from` to a part of this buffer. Throws: usage_error if a part exceeds its buffer.
    void download(device_buffer<T> const& from, copy_region part, stream_ref s,
                  source_location where = source_location::current()) {
        auto const source = detail::leases_for_copies::read(from, s, where);
        download(source.span(), part, s, where);
    }

    /// Enqueues a copy to a lease, or to a pointer and a size, of the same count on s. The caller orders other uses of memory that is not
    /// leased, and keeps it until the copy has completed. Throws: usage_error if counts differ.
    void upload(device_span<T> to, stream_ref s, source_location where = source_location::current()) const {
        check_count(to.size(), where);
        upload(to, {0, 0, size()}, s, where);
    }
    /// Enqueues a copy from such memory. Throws: usage_error if counts differ.
    void download(device_span<T const> from, stream_ref s,
                  source_location where = source_location::current()) {
        check_count(from.size(), where);
        download(from, {0, 0, size()}, s, where);
    }
    /// Enqueues a copy of a part of this buffer to a part of such memory. Throws: usage_error if a part exceeds its memory.
    void upload(device_span<T> to, copy_region part, stream_ref s,
                source_location where = source_location::current()) const {
        check_parts(part.from, part.to, part.count, to.size(), where);
        if (part.count == 0) return;
        transfer(s, false, where, [&] {
            rt::copy_to_device(to.data() + part.to, data_ + part.from, part.count * sizeof(T), s, where);
        });
    }
    /// Enqueues a copy of a part of such memory to a part of this buffer. Throws: usage_error if a part exceeds its memory.
    void download(device_span<T const> from, copy_region part, stream_ref s,
                  source_location where = source_location::current()) {
        check_parts(part.to, part.from, part.count, from.size(), where);
        if (part.count == 0) return;
        transfer(s, true, where, [&] {
            rt::copy_to_host(data_ + part.to, from.data() + part.from, part.count * sizeof(T), s, where);
        });
    }

private:
    // Without a home stream, each use records an event.
    template <class Copy>
    void transfer(stream_ref s, bool writes, source_location where, Copy copy) const {
        detail::borrowing const use{uses_.of_host_memory(), s, writes, where};
        copy();
    }

    void release() noexcept {
        uses_.end_on_host();
        if (data_) memory_.deallocate_sync(detail::taken(data_), bytes());
        count_ = 0;
    }

    void check_count(std::size_t count, source_location where) const {
        if (count != count_)
            detail::throw_usage_error(
                where, "pinned_buffer: cannot copy between {} pinned elements and {} on the device",
                {count_, count});
    }

    // Offsets in this buffer, and in device memory of `size` elements.
    void check_parts(std::size_t here, std::size_t there, std::size_t count, std::size_t size,
                     source_location where) const {
        detail::check_part("pinned_buffer", "a buffer", here, count, count_, where);
        detail::check_part("pinned_buffer", "device memory", there, count, size, where);
    }

    T* data_ = nullptr;
    std::size_t count_ = 0;
    any_resource memory_;
    mutable detail::buffer_access uses_;
};

}  // namespace cuota::inline v0
