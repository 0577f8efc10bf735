// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Array for host code and kernels, transferred on demand.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// `size()` elements of T for host code and kernels.
///
/// Holds at most one copy in pinned host memory and one in device memory; each is valid or stale. Accessing a side allocates it if
/// necessary and, if it is stale, copies from the other; write access makes the other side stale.
///
/// Move-only; moved-from has no elements. The elements' bytes are initially zero.
/// Units:   counts are elements.
/// Throws:  budget_exceeded or out_of_memory if memory is refused; usage_error for memory that its side cannot access, and while a side to
///          be released is leased; cuda_error. Values are unchanged on failure.
/// Order:   that of the given stream; host accesses wait for their copies.
/// Threads: one at a time.
/// Cost:    bytes() per side, on its first access; a copy only to a stale side.
/// Example:
///     cuota::mirrored_buffer<float> moments{n, stream, pool.resource(), cuota::budgeted<cuota::pinned_memory>{host_budget}};
///     cuota::for_each_index(stream, n, update{moments.write(stream), weights.write(stream)});
///     moments.evict_to_host(copies);       // frees device memory after the copy
///     moments.prefetch_to_device(copies);  // ahead of the next step
template <class T>
class mirrored_buffer {
public:
    using value_type = T;  ///< element type

    /// `home` is the device copy's, see device_buffer.
    mirrored_buffer(element_count count, stream_ref home, any_resource device_memory,
                    any_resource host_memory = default_pinned_resource(), tag name = {},
                    source_location where = source_location::current())
        : count_{count},
          home_{home},
          device_memory_{std::move(device_memory)},
          host_memory_{std::move(host_memory)},
          name_{name} {
        (void)detail::bytes_of(count_, label_for<T>(name_, where));
        if (device_memory_.kind() == memory_kind::pinned)
            detail::throw_usage_error(
                where, "mirrored_buffer: cannot use a resource of host memory for the device's side");
        if (host_memory_.kind() == memory_kind::device)
            detail::throw_usage_error(
                where, "mirrored_buffer: cannot use a resource of device memory for the host's side");
    }

    /// Moves both copies; `other` has no elements and keeps its resources.
    mirrored_buffer(mirrored_buffer&& other) noexcept
        : count_{std::exchange(other.count_, 0)},
          home_{other.home_},
          device_memory_{other.device_memory_},
          host_memory_{other.host_memory_},
          name_{other.name_},
          host_{std::exchange(other.host_, std::nullopt)},
          device_{std::exchange(other.device_, std::nullopt)},
          is_host_valid_{std::exchange(other.is_host_valid_, false)},
          is_device_valid_{std::exchange(other.is_device_valid_, false)} {}
    /// Frees its own memory, then moves.
    mirrored_buffer& operator=(mirrored_buffer&& other) noexcept {
        if (this != &other) {
            std::destroy_at(this);
            std::construct_at(this, std::move(other));
        }
        return *this;
    }
    ~mirrored_buffer() = default;

    [[nodiscard]] std::size_t size() const noexcept { return count_; }               ///< elements
    [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }  ///< per side
    [[nodiscard]] stream_ref home() const noexcept { return home_; }                 ///< of the device copy

    /// Returns whether bytes() of pinned memory are allocated.
    [[nodiscard]] bool has_host_memory() const noexcept { return host_.has_value(); }
    /// Same for device memory.
    [[nodiscard]] bool has_device_memory() const noexcept { return device_.has_value(); }
    /// Returns whether the host copy is valid.
    [[nodiscard]] bool is_host_valid() const noexcept { return is_host_valid_; }
    /// Returns whether the device copy is valid.
    [[nodiscard]] bool is_device_valid() const noexcept { return is_device_valid_; }

    // --- host code ---

    /// Returns the elements for reading. Waits for a needed or pending copy.
    [[nodiscard]] std::span<T const> read_host(source_location where = source_location::current()) {
        bring_to_host(home_, where);
        return std::as_const(*host_).read();
    }
    /// Same for writing; the device copy becomes stale. Waits also for copies out of them.
    [[nodiscard]] std::span<T> write_host(source_location where = source_location::current()) {
        bring_to_host(home_, where);
        std::span<T> const all = host_->write();
        is_device_valid_ = false;
        return all;
    }
    /// Same, to write every element: copies nothing; previous values are undefined.
    [[nodiscard]] std::span<T> overwrite_host(source_location where = source_location::current()) {
        if (device_) device_->check_not_written("be overwritten by host code", where);
        have_host(where, [](pinned_buffer<T>&) {});
        std::span<T> const all = host_->write();
        is_host_valid_ = true;
        is_device_valid_ = false;
        return all;
    }

    // --- kernels: leases as of a device_buffer ---

    /// Borrows the elements for reads by work on s, as device_buffer::read; s waits for a needed copy from the host.
    [[nodiscard]] lease<T const> read(stream_ref s, source_location where = source_location::current()) {
        bring_to_device(s, where);
        return std::as_const(*device_).read(s, where);
    }
    /// Same for writes; the host copy becomes stale.
    [[nodiscard]] lease<T> write(stream_ref s, source_location where = source_location::current()) {
        bring_to_device(s, where);
        lease<T> all = device_->write(s, where);
        is_host_valid_ = false;
        return all;
    }
    /// Same, to write every element, as overwrite_host.
    [[nodiscard]] lease<T> overwrite(stream_ref s, source_location where = source_location::current()) {
        refuse_in_capture(s, where);
        have_device(where, [](device_buffer<T>&) {});
        lease<T> all = device_->write(s, where);
        is_device_valid_ = true;
        is_host_valid_ = false;
        return all;
    }

    // --- prefetch and release ---

    /// Starts the copy that `read` would need.
    void prefetch_to_device(stream_ref copies, source_location where = source_location::current()) {
        bring_to_device(copies, where);
    }
    /// Copies the elements to the host, if needed, and frees the device memory in the order of its uses.
    void evict_to_host(stream_ref copies, source_location where = source_location::current()) {
        if (!device_) return;
        device_->check_not_borrowed("be evicted to the host", where);
        if (is_device_valid_) bring_to_host(copies, where);
        device_.reset();
        is_device_valid_ = false;
    }
    /// Frees the host memory, after a needed copy to the device. Waits for copies out of it.
    void release_host(source_location where = source_location::current()) {
        if (!host_) return;
        if (is_host_valid_) bring_to_device(home_, where);
        host_.reset();
        is_host_valid_ = false;
    }

private:
    // Bytes are zero before the first access.
    [[nodiscard]] bool is_untouched() const noexcept { return !is_host_valid_ && !is_device_valid_; }

    // Allocates the side if necessary and calls fill. On failure, nothing changes.
    template <class Fill>
    void have_host(source_location where, Fill fill) {
        if (host_) return fill(*host_);
        pinned_buffer<T> fresh{count_, host_memory_, name_, where};  // zeroed
        fill(fresh);
        host_.emplace(std::move(fresh));
    }
    template <class Fill>
    void have_device(source_location where, Fill fill) {
        if (device_) return fill(*device_);
        device_buffer<T> fresh{count_, home_, device_memory_, no_init, name_, where};
        fill(fresh);
        device_.emplace(std::move(fresh));
    }

    // Validity is tracked when work is enqueued, and each launch of a graph would change it.
    static void refuse_in_capture(stream_ref s, source_location where) {
        rt::check_not_capturing(s, "mirrored_buffer: cannot be used",
                                "use a device_buffer, and copy outside the capture", where);
    }
    void bring_to_host(stream_ref copies, source_location where) {
        refuse_in_capture(copies, where);
        if (is_host_valid_) return;
        bool const is_zero = is_untouched();
        if (!is_zero) device_->check_not_written("be read by host code", where);
        have_host(where, [&](pinned_buffer<T>& to) {
            if (!is_zero) to.download(*device_, copies, where);
        });
        is_host_valid_ = true;
    }
    void bring_to_device(stream_ref copies, source_location where) {
        refuse_in_capture(copies, where);
        if (is_device_valid_) return;
        bool const is_zero = is_untouched();
        have_device(where, [&](device_buffer<T>& to) {
            if (!is_zero) return host_->upload(to, copies, where);
            auto const all = to.write(copies, where);
            rt::fill_bytes(all.span().data(), 0, bytes(), copies, where);
        });
        is_device_valid_ = true;
    }

    std::size_t count_;
    shared_stream home_;
    any_resource device_memory_;
    any_resource host_memory_;
    tag name_;
    std::optional<pinned_buffer<T>> host_;
    std::optional<device_buffer<T>> device_;
    bool is_host_valid_ = false;
    bool is_device_valid_ = false;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
