// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Device memory with an owner.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/lease.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/for_each_index.hpp>

namespace cuota::inline v0 {

/// Spelled by those who fill the memory themselves, and must.
struct no_init_t {};
inline constexpr no_init_t no_init{};

/// Every byte zero. What one gets without saying anything, too.
struct zeroed_t {};
inline constexpr zeroed_t zeroed{};

namespace detail {

template <class T>
struct fill_with {
    T* to;
    T value;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = value; }
};

}  // namespace detail

/// `size()` elements of T in device memory, from a resource, on a home stream.
///
/// The home stream is where the memory becomes valid and where it is given back; the buffer keeps a share of it.
/// Kernels reach the elements through leases: `read(s)` and `write(s)`. A lease on another stream waits for what the
/// home stream and earlier writers did, and giving the memory back waits for every lease, in stream order: the host
/// waits for nothing.
///
/// Move-only; moved-from is empty and usable: it can be resized. Zero elements are legal.
/// Units:   counts are elements.
/// Throws:  budget_exceeded or out_of_memory when the memory is refused; misuse for memory that kernels cannot reach;
///          cuda_error. Operations that throw change nothing.
/// Threads: different buffers from any thread; one buffer's leases from any thread, the rest from one at a time.
template <class T>
class device_buffer {
    static_assert(std::is_trivially_copyable_v<T>, "device memory is copied byte by byte");
    static_assert(!std::is_const_v<T>, "a buffer that nobody can fill is of no use");

public:
    using value_type = T;

    /// count elements, all bytes zero.
    device_buffer(std::size_t count, stream_ref home, any_resource memory, tag name = {},
                  place where = place::here())
        : device_buffer{count, home, std::move(memory), zeroed, name, where} {}
    device_buffer(std::size_t count, stream_ref home, any_resource memory, zeroed_t, tag name = {},
                  place where = place::here())
        : device_buffer{count, home, std::move(memory), no_init, name, where} {
        rt::fill_bytes(data_, 0, bytes(), home, where);
    }
    /// count copies of value.
    device_buffer(std::size_t count, T const& value, stream_ref home, any_resource memory, tag name = {},
                  place where = place::here())
        : device_buffer{count, home, std::move(memory), no_init, name, where} {
        for_each_index(home, count, detail::fill_with<T>{data_, value}, "fill", where);
    }
    /// count elements of whatever the memory held before.
    device_buffer(std::size_t count, stream_ref home, any_resource memory, no_init_t, tag name = {},
                  place where = place::here())
        : home_{home}, memory_{std::move(memory)} {
        if (memory_.kind() == memory_kind::pinned)
            throw misuse{"a device_buffer was to be made of host memory", where};
        label const who = label_for<T>(name, where);
        data_ =
            static_cast<T*>(memory_.allocate(home_, detail::bytes_of(count, who), default_alignment, who));
        count_ = count;
    }
    /// A copy of host elements. Waits for the copy: the host's memory is free to change or go at return.
    device_buffer(std::span<T const> host, stream_ref home, any_resource memory, tag name = {},
                  place where = place::here())
        : device_buffer{host.size(), home, std::move(memory), no_init, name, where} {
        copy_from(host, home, where);
    }
    // Host memory as device memory: the address would fault in the first kernel.
    template <host_only_resource R, class... Rest>
    device_buffer(std::size_t, stream_ref, R, Rest...) = delete;
    template <host_only_resource R, class... Rest>
    device_buffer(std::size_t, T const&, stream_ref, R, Rest...) = delete;
    template <host_only_resource R, class... Rest>
    device_buffer(std::span<T const>, stream_ref, R, Rest...) = delete;

    device_buffer(device_buffer&& other) noexcept
        : data_{std::exchange(other.data_, nullptr)},
          count_{std::exchange(other.count_, 0)},
          home_{other.home_},
          memory_{other.memory_},
          uses_{std::move(other.uses_)} {}
    device_buffer& operator=(device_buffer&& other) noexcept {
        if (this == &other) return *this;
        release();
        data_ = std::exchange(other.data_, nullptr);
        count_ = std::exchange(other.count_, 0);
        home_ = other.home_;
        memory_ = other.memory_;
        uses_ = std::move(other.uses_);
        return *this;
    }
    device_buffer(device_buffer const&) =
        delete;  // a copy costs device memory and a transfer: say so with clone
    device_buffer& operator=(device_buffer const&) = delete;
    ~device_buffer() { release(); }

    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(T); }
    [[nodiscard]] bool is_empty() const noexcept { return count_ == 0; }
    [[nodiscard]] stream_ref home() const noexcept { return home_; }
    [[nodiscard]] any_resource const& memory() const noexcept { return memory_; }

    /// Borrows the elements for work on s that only reads them.
    /// Order: s waits for the home stream and earlier writers, if it is another. Throws: misuse, cuda_error.
    [[nodiscard]] lease<T const> read(stream_ref s, place where = place::here()) const {
        std::uint64_t const id = uses().begin(s, false, where);
        return {device_span<T const>{data_, count_}, uses_, id, s};
    }
    [[nodiscard]] lease<T const> read(place where = place::here()) const { return read(home_, where); }

    /// Borrows the elements for work on s that may change them.
    /// Order: s waits for the home stream and all earlier uses on other streams. Throws: misuse, cuda_error.
    [[nodiscard]] lease<T> write(stream_ref s, place where = place::here()) {
        std::uint64_t const id = uses().begin(s, true, where);
        return {device_span<T>{data_, count_}, uses_, id, s};
    }
    [[nodiscard]] lease<T> write(place where = place::here()) { return write(home_, where); }

    /// Replaces all elements. Waits for the copy: the host's memory is free to change or go at return.
    /// Throws: misuse when the counts differ; cuda_error.
    void copy_from(std::span<T const> host, stream_ref s, place where = place::here()) {
        check_count(host.size(), where);
        lease<T> const mine = write(s, where);
        rt::copy_to_device(data_, host.data(), bytes(), s, where);
        s.synchronize(where);
    }

    /// Copies all elements to the host and waits for them. Throws: misuse when the counts differ; cuda_error.
    void copy_to(std::span<T> host, stream_ref s, place where = place::here()) const {
        check_count(host.size(), where);
        lease<T const> const mine = read(s, where);
        rt::copy_to_host(host.data(), data_, bytes(), s, where);
        s.synchronize(where);
    }
    [[nodiscard]] std::vector<T> to_vector(stream_ref s, place where = place::here()) const {
        std::vector<T> host(count_);
        copy_to(host, s, where);
        return host;
    }

    /// Another buffer with the same elements, from the same resource; s is its home.
    [[nodiscard]] device_buffer clone(stream_ref s, tag name = {}, place where = place::here()) const {
        device_buffer copy{count_, s, memory_, no_init, name, where};
        lease<T const> const mine = read(s, where);
        rt::copy_on_device(copy.data_, data_, bytes(), s, where);
        return copy;
    }

    /// Changes the count; elements that stay keep their value, new ones are zero. Takes the new memory before it
    /// gives the old back. Throws: as on construction; unchanged then.
    void resize(std::size_t count, tag name = {}, place where = place::here()) {
        if (count == count_) return;
        device_buffer next{count, home_, memory_, no_init, name, where};
        std::size_t const kept = (count < count_ ? count : count_) * sizeof(T);
        {
            lease<T const> const mine = read(home_, where);
            rt::copy_on_device(next.data_, data_, kept, home_, where);
        }
        rt::fill_bytes(reinterpret_cast<std::byte*>(next.data_) + kept, 0, next.bytes() - kept, home_, where);
        *this = std::move(next);
    }

private:
    void release() noexcept {
        if (uses_) uses_->join_home();
        uses_ = {};
        if (data_) memory_.deallocate(home_, std::exchange(data_, nullptr), bytes());
        count_ = 0;
    }

    void check_count(std::size_t count, place where) const {
        if (count != count_)
            throw misuse{"a copy of " + std::to_string(count) + " elements and a buffer of " +
                             std::to_string(count_) + " do not match",
                         where};
    }

    // Made with the first lease, by whichever thread takes it.
    [[nodiscard]] detail::stream_uses& uses() const {
        static std::mutex making;
        std::scoped_lock const lock{making};
        if (!uses_) uses_ = shared<detail::stream_uses>::make(home_);
        return *uses_;
    }

    T* data_ = nullptr;
    std::size_t count_ = 0;
    stream_share home_;
    any_resource memory_;
    mutable shared<detail::stream_uses> uses_;
};

}  // namespace cuota::inline v0
