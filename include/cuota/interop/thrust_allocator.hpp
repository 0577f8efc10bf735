// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Allocator for Thrust's containers with memory from a resource. Requires CCCL.
#pragma once

#include <cuota/interop/thrust.hpp>

#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/uninitialized_fill.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/core/error.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/stream.hpp>

#if THRUST_DEVICE_SYSTEM != THRUST_DEVICE_SYSTEM_CUDA
namespace cuota::inline v0::detail::inline CUOTA_THRUST {

/// Initializes a container's elements on the simulator by a kernel of s, and waits: Thrust's host systems would access device memory on the
/// calling thread.
class thrust_elements : public thrust::device_execution_policy<thrust_elements> {
public:
    thrust_elements(stream_ref s, source_location where) noexcept : stream_{s}, where_{where} {}

private:
    template <class F>
    void run(F f) const {
        device_scope const here{stream_.device()};
        detail::enqueue_on_simulator(
            stream_, [f] { f(); }, "thrust", where_);
        stream_.synchronize(where_);
    }
    // Thrust finds these two by the type of their first argument.
    template <class At, class Size, class T>
    friend At uninitialized_fill_n(thrust_elements& by, At first, Size n, T const& value) {
        by.run([first, n, value] { thrust::uninitialized_fill_n(thrust::device, first, n, value); });
        return first + static_cast<typename At::difference_type>(n);
    }
    template <class At, class Size, class F>
    friend At for_each_n(thrust_elements& by, At first, Size n, F f) {
        by.run([first, n, f] { thrust::for_each_n(thrust::device, first, n, f); });
        return first + static_cast<typename At::difference_type>(n);
    }

    stream_ref stream_;
    source_location where_;
};

}  // namespace cuota::inline v0::detail::inline CUOTA_THRUST
#endif

namespace cuota::inline v0::inline CUOTA_THRUST {

/// Memory of a resource for Thrust's containers. Its pointers are device_ptrs, so that algorithms do not treat the elements as host memory.
///
/// Thrust runs a container's own operations on the default stream and waits. The container's destructor frees memory in the order of s;
/// work on other streams must have finished. Assignment, move and swap of containers propagate the allocator. Copies are equal and keep the
/// resource and the stream alive. The device of s must be current while containers are created and changed.
///
/// On the simulator, operations of the container other than initialization, such as v[i], run on the calling thread:
/// CUOTA_SIM_CHECKS=strict reports them unless the resource is managed_memory. Within run_thrust they are part of its kernel.
///
/// Order:   allocate waits for earlier uses of the memory; deallocate does not wait.
/// Threads: as the resource.
/// Throws:  budget_exceeded, out_of_memory, cuda_error; usage_error for host memory, and if the file is compiled for a GPU and linked to
///          the simulator, or the reverse. On failure, nothing is allocated.
/// Cost:    that of the resource's allocate_sync and deallocate.
/// Example: examples/one_budget.cpp
template <class T>
class thrust_allocator {
    static_assert(std::is_trivially_destructible_v<T>,
                  "destroying a container runs no kernel, which could fail");
    static_assert(alignof(T) <= default_alignment);

public:
    using value_type = T;                                       ///< element type
    using pointer = thrust::device_ptr<T>;                      ///< not for host code
    using const_pointer = thrust::device_ptr<T const>;          ///< not for host code
    using reference = thrust::device_reference<T>;              ///< reads and writes by copies
    using const_reference = thrust::device_reference<T const>;  ///< reads by copies
    using size_type = std::size_t;                              ///< counts elements
    using difference_type = std::ptrdiff_t;                     ///< counts elements
    // Thrust moves memory regardless of these; the allocator must go with it.
    using propagate_on_container_copy_assignment = std::true_type;  ///< copied along
    using propagate_on_container_move_assignment = std::true_type;  ///< moved along
    using propagate_on_container_swap = std::true_type;             ///< swapped along
    using is_always_equal = std::false_type;                        ///< depends on resource and stream
    /// Rebinds to another element type.
    template <class U>
    struct rebind {
        using other = thrust_allocator<U>;  ///< for U
    };

    /// Throws: usage_error if kernels cannot access the memory.
    thrust_allocator(stream_ref s, any_resource memory, tag name = "thrust",
                     source_location where = source_location::current())
        : stream_{s}, memory_{std::move(memory)}, name_{name}, where_{where} {
        if (memory_.kind() == memory_kind::pinned)
            detail::throw_usage_error(where,
                                      "thrust_allocator: the resource provides host memory, which kernels "
                                      "cannot access; use device memory");
    }
    // Written out: nvcc treats defaulted ones as host and device code.
    /// Shares the resource and the stream.
    thrust_allocator(thrust_allocator const& other) noexcept
        : stream_{other.stream_}, memory_{other.memory_}, name_{other.name_}, where_{other.where_} {}
    /// Same; all memory from this one must have been freed.
    thrust_allocator& operator=(thrust_allocator const& other) noexcept {
        stream_ = other.stream_;
        memory_ = other.memory_;
        name_ = other.name_;
        where_ = other.where_;
        return *this;
    }
    ~thrust_allocator() {}
    /// Keeps resource, stream and name.
    template <class U>
    thrust_allocator(thrust_allocator<U> const& other) noexcept
        : stream_{other.stream_}, memory_{other.memory_}, name_{other.name_}, where_{other.where_} {}

    /// Allocates memory that is valid on every stream.
    [[nodiscard]] pointer allocate(size_type count) {
        detail::check_that_thrust_runs(where_);
        label const who = label_for<T>(name_, where_);
        void* const p = memory_.allocate_sync(detail::bytes_of(count, who), default_alignment, who);
        return pointer{static_cast<T*>(p)};
    }
    /// Deallocates in the order of s, with the `count` of the allocation.
    void deallocate(pointer p, size_type count) noexcept {
        memory_.deallocate(stream_, p.get(), count * sizeof(T));
    }

    /// Returns whether either can deallocate the other's memory.
    template <class U>
    friend bool operator==(thrust_allocator const& a, thrust_allocator<U> const& b) noexcept {
        return a.stream() == b.stream() && a.memory() == b.memory();
    }

    /// Stream that orders deallocations.
    [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
    [[nodiscard]] any_resource const& memory() const noexcept { return memory_; }  ///< the upstream

#if THRUST_DEVICE_SYSTEM != THRUST_DEVICE_SYSTEM_CUDA
    using system_type = detail::thrust_elements;
    /// For Thrust.
    [[nodiscard]] system_type& system() noexcept { return elements_; }
#endif

private:
    template <class U>
    friend class thrust_allocator;

    shared_stream stream_;
    any_resource memory_;
    tag name_;
    source_location where_;
#if THRUST_DEVICE_SYSTEM != THRUST_DEVICE_SYSTEM_CUDA
    detail::thrust_elements elements_{stream_, where_};
#endif
};

}  // namespace cuota::inline v0::inline CUOTA_THRUST
