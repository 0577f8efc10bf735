// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One array for both sides: at most one copy on each, moved when the other side wants it, given up when told to.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// `size()` elements of T that host code and kernels both work on.
///
/// There is at most one copy in page-locked host memory and one on the device, and one of them, or both, has the present
/// values. A side that wants them gets them from the other, if its own are old, and memory for them, if it has none;
/// whoever is about to change them makes the other side's old. So nothing is copied that is there already, and nothing is
/// held twice that is told to go: `release_host` after the upload, `offload` while others need the device's memory.
///
/// Move-only; moved-from has no elements. Its elements' bytes are zero at first, and cost no memory until a side asks.
/// Units:   counts are elements.
/// Throws:  budget_exceeded or out_of_memory when a side's memory is refused; misuse for memory that a side cannot reach,
///          and while a lease is open on what is to go; cuda_error. The values are what they were then.
/// Order:   `read`, `write`, `fetch` and `offload` in that of the stream given; host code waits for what it looks at.
/// Threads: one at a time.
/// Cost:    a side's memory when it is first asked for, bytes() each; a copy only to a side whose values are old.
/// Example:
///     cuota::host_device<float> moments{n, stream, pool.resource(), cuota::budgeted<cuota::pinned_memory>{host_budget}};
///     cuota::for_each_index(stream, n, update{moments.write(stream), weights.write(stream)});
///     moments.offload(copies);   // the device's bytes go back when the copy is over
///     moments.fetch(copies);     // ahead of the next step
template <class T>
class host_device {
public:
    using value_type = T;  ///< of both sides

    /// home: of the device's copy, see device_buffer.
    host_device(element_count count, stream_ref home, any_resource device_memory,
                any_resource host_memory = any_pinned_memory(), tag name = {}, place where = place::here())
        : count_{count},
          home_{home},
          device_memory_{std::move(device_memory)},
          host_memory_{std::move(host_memory)},
          name_{name} {
        (void)detail::bytes_of(count_, label_for<T>(name_, where));
        if (device_memory_.kind() == memory_kind::pinned)
            detail::throw_misuse(where,
                                 "host_device: cannot use a resource of host memory for the device's side");
        if (host_memory_.kind() == memory_kind::device)
            detail::throw_misuse(where,
                                 "host_device: cannot use a resource of device memory for the host's side");
    }

    /// Takes both sides' memory; no CUDA call. The other one has no elements then, and keeps its resources.
    host_device(host_device&& other) noexcept
        : count_{std::exchange(other.count_, 0)},
          home_{other.home_},
          device_memory_{other.device_memory_},
          host_memory_{other.host_memory_},
          name_{other.name_},
          host_{std::exchange(other.host_, std::nullopt)},
          device_{std::exchange(other.device_, std::nullopt)},
          host_is_present_{std::exchange(other.host_is_present_, false)},
          device_is_present_{std::exchange(other.device_is_present_, false)} {}
    /// Gives its own memory back first; then as above.
    host_device& operator=(host_device&& other) noexcept {
        if (this != &other) {
            std::destroy_at(this);
            std::construct_at(this, std::move(other));
        }
        return *this;
    }
    ~host_device() = default;

    [[nodiscard]] std::size_t size() const noexcept { return count_; }               ///< elements
    [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }  ///< of one side
    [[nodiscard]] stream_ref home() const noexcept { return home_; }  ///< stream of the device's copy

    /// Whether it holds bytes() of pinned memory now.
    [[nodiscard]] bool has_host_memory() const noexcept { return host_.has_value(); }
    /// Of the device's likewise.
    [[nodiscard]] bool has_device_memory() const noexcept { return device_.has_value(); }
    /// True when host code would find the present values without a copy; of kernels likewise.
    [[nodiscard]] bool is_on_host() const noexcept { return host_is_present_; }
    /// As is_on_host, for kernels.
    [[nodiscard]] bool is_on_device() const noexcept { return device_is_present_; }

    // --- host code ---

    /// The elements, to look at. Waits for the copy, if one is needed or under way.
    [[nodiscard]] std::span<T const> read_host(place where = place::here()) {
        bring_to_host(home_, where);
        return std::as_const(*host_).read();
    }
    /// The elements, to change: the device's are old then. Waits as read_host, and for copies out of them.
    [[nodiscard]] std::span<T> write_host(place where = place::here()) {
        bring_to_host(home_, where);
        std::span<T> const all = host_->write();
        device_is_present_ = false;
        return all;
    }
    /// The same for who writes all of them: nothing is copied, and what was there is undefined.
    [[nodiscard]] std::span<T> overwrite_host(place where = place::here()) {
        if (device_) device_->check_not_written("overwritten by host code", where);
        have_host(where, [](pinned_buffer<T>&) {});
        std::span<T> const all = host_->write();
        host_is_present_ = true;
        device_is_present_ = false;
        return all;
    }

    // --- kernels: leases as of a device_buffer ---

    /// Order: s waits for the copy from the host, if one is needed, and as device_buffer::read. The host does not wait.
    [[nodiscard]] lease<T const> read(stream_ref s, place where = place::here()) {
        bring_to_device(s, where);
        return std::as_const(*device_).read(s, where);
    }
    /// The host's elements are old then.
    [[nodiscard]] lease<T> write(stream_ref s, place where = place::here()) {
        bring_to_device(s, where);
        lease<T> all = device_->write(s, where);
        host_is_present_ = false;
        return all;
    }
    /// The same for who writes all of them: nothing is copied, and what was there is undefined.
    [[nodiscard]] lease<T> overwrite(stream_ref s, place where = place::here()) {
        refuse_in_capture(s, where);
        have_device(where, [](device_buffer<T>&) {});
        lease<T> all = device_->write(s, where);
        device_is_present_ = true;
        host_is_present_ = false;
        return all;
    }

    // --- ahead of time, and no longer ---

    /// Starts what `read` would have to copy, on a stream of copies; the host goes on, and so does other work.
    void fetch(stream_ref copies, place where = place::here()) { bring_to_device(copies, where); }
    /// The elements go to the host, on a stream of copies, and the device's memory back, in order of what used it: the
    /// host waits for nothing.
    void offload(stream_ref copies, place where = place::here()) {
        if (!device_) return;
        device_->check_not_borrowed("offloaded", where);
        if (device_is_present_) bring_to_host(copies, where);
        device_.reset();
        device_is_present_ = false;
    }
    /// Gives the host's memory back; the device gets the elements first, if it has not got them. Waits for copies out of it.
    void release_host(place where = place::here()) {
        if (!host_) return;
        if (host_is_present_) bring_to_device(home_, where);
        host_.reset();
        host_is_present_ = false;
    }

private:
    // Both sides old: elements that nobody has touched yet.
    [[nodiscard]] bool is_untouched() const noexcept { return !host_is_present_ && !device_is_present_; }

    // A side that has no memory gets some, `fill` its values, in memory that it has or gets. Unchanged when either throws.
    template <class Fill>
    void have_host(place where, Fill fill) {
        if (host_) return fill(*host_);
        pinned_buffer<T> fresh{count_, host_memory_, name_, where};  // of zeros
        fill(fresh);
        host_.emplace(std::move(fresh));
    }
    template <class Fill>
    void have_device(place where, Fill fill) {
        if (device_) return fill(*device_);
        device_buffer<T> fresh{count_, home_, device_memory_, no_init, name_, where};
        fill(fresh);
        device_.emplace(std::move(fresh));
    }

    // Which side has the present values is known of what was enqueued, and a graph would change that at each launch.
    static void refuse_in_capture(stream_ref s, place where) {
        rt::refuse_captured(s, "a host_device was used", "use a device_buffer, and copy outside", where);
    }
    void bring_to_host(stream_ref copies, place where) {
        refuse_in_capture(copies, where);
        if (host_is_present_) return;
        bool const is_zero = is_untouched();
        if (!is_zero) device_->check_not_written("read by host code", where);
        have_host(where, [&](pinned_buffer<T>& to) {
            if (!is_zero) to.download(*device_, copies, where);
        });
        host_is_present_ = true;
    }
    void bring_to_device(stream_ref copies, place where) {
        refuse_in_capture(copies, where);
        if (device_is_present_) return;
        bool const is_zero = is_untouched();
        have_device(where, [&](device_buffer<T>& to) {
            if (!is_zero) return host_->upload(to, copies, where);
            auto const all = to.write(copies, where);
            rt::fill_bytes(all.span().data(), 0, bytes(), copies, where);
        });
        device_is_present_ = true;
    }

    std::size_t count_;
    stream_share home_;
    any_resource device_memory_;
    any_resource host_memory_;
    tag name_;
    std::optional<pinned_buffer<T>> host_;
    std::optional<device_buffer<T>> device_;
    bool host_is_present_ = false;
    bool device_is_present_ = false;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
