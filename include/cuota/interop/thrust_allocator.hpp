// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory of a resource under Thrust's containers. Not in all.hpp: it needs CCCL.
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

/// How a container gives its new elements their values on the simulator: by a kernel of s, and it waits for it. Thrust's
/// systems for the host would do it on the calling thread, which has no business in device memory.
class thrust_elements : public thrust::device_execution_policy<thrust_elements> {
public:
    thrust_elements(stream_ref s, place where) noexcept : stream_{s}, where_{where} {}

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
    place where_;
};

}  // namespace cuota::inline v0::detail::inline CUOTA_THRUST
#endif

namespace cuota::inline v0::inline CUOTA_THRUST {

/// Memory of a resource for Thrust's containers: `thrust::device_vector<T, thrust_allocator<T>>`, charged, tagged and
/// refused as any. Its pointers are Thrust's device_ptr, so that no algorithm takes the elements for those of the host.
///
///     thrust::device_vector<int, thrust_allocator<int>> keys(n, thrust_allocator<int>{stream, pool, "keys"});
///     run_thrust(stream, pool, [from = keys.begin(), to = keys.end()](auto const& on) { thrust::sort(on, from, to); });
///
/// What a container does by itself, Thrust does on the default stream, and waits: so memory is valid on every stream at
/// once. At a container's end it is given back in order of s: work that s has by then may still use it, work of other
/// streams must have ended. A container that is assigned, moved or swapped takes the allocator along. Copies are the same;
/// they keep the resource and the stream. s's device is current while containers are made and changed.
///
/// On the simulator a container gives its elements their values by a kernel. All else that it does by itself, copies and
/// v[i], Thrust's systems for the host do on the calling thread: there CUOTA_SIM_CHECKS=strict reports it, unless the
/// resource is managed_memory; in run_thrust it is a kernel's work as any.
///
/// Units:   elements; count * sizeof(T) is checked.
/// Order:   allocate waits for what used the memory before; deallocate does not wait.
/// Threads: as the resource.
/// Throws:  budget_exceeded, out_of_memory, cuda_error; misuse for host memory, and where the file is compiled for a GPU and
///          linked to the simulator, or the reverse. Nothing is taken then.
/// Cost:    that of the resource's allocate_sync and deallocate.
/// Example: examples/one_budget.cpp
template <class T>
class thrust_allocator {
    static_assert(std::is_trivially_destructible_v<T>, "a container's end runs no kernel, which could fail");
    static_assert(alignof(T) <= default_alignment);

public:
    using value_type = T;                                       ///< an element
    using pointer = thrust::device_ptr<T>;                      ///< not for host code
    using const_pointer = thrust::device_ptr<T const>;          ///< not for host code
    using reference = thrust::device_reference<T>;              ///< reads and writes by copies
    using const_reference = thrust::device_reference<T const>;  ///< reads by copies
    using size_type = std::size_t;                              ///< counts elements
    using difference_type = std::ptrdiff_t;                     ///< counts elements
    // Thrust moves memory from container to container whatever these say: the allocator must go with it.
    using propagate_on_container_copy_assignment = std::true_type;  ///< copied along
    using propagate_on_container_move_assignment = std::true_type;  ///< moved along
    using propagate_on_container_swap = std::true_type;             ///< swapped along
    using is_always_equal = std::false_type;                        ///< resource and stream tell them apart
    /// The same for elements of another type.
    template <class U>
    struct rebind {
        using other = thrust_allocator<U>;  ///< this, of U
    };

    /// Throws: misuse when kernels could not reach the memory.
    thrust_allocator(stream_ref s, any_resource memory, tag name = "thrust", place where = place::here())
        : stream_{s}, memory_{std::move(memory)}, name_{name}, where_{where} {
        if (memory_.kind() == memory_kind::pinned)
            detail::throw_misuse(
                where, "thrust_allocator: cannot use a resource of host memory: name one of device memory");
    }
    // Written out, since nvcc takes what it writes for code of both sides.
    /// A share of the resource and the stream.
    thrust_allocator(thrust_allocator const& other) noexcept
        : stream_{other.stream_}, memory_{other.memory_}, name_{other.name_}, where_{other.where_} {}
    /// Likewise; what this one took has been given back.
    thrust_allocator& operator=(thrust_allocator const& other) noexcept {
        stream_ = other.stream_;
        memory_ = other.memory_;
        name_ = other.name_;
        where_ = other.where_;
        return *this;
    }
    ~thrust_allocator() {}
    /// The same resource, stream and name.
    template <class U>
    thrust_allocator(thrust_allocator<U> const& other) noexcept
        : stream_{other.stream_}, memory_{other.memory_}, name_{other.name_}, where_{other.where_} {}

    /// Bytes count * sizeof(T), valid on every stream. Throws: see above.
    [[nodiscard]] pointer allocate(size_type count) {
        detail::check_that_thrust_runs(where_);
        label const who = label_for<T>(name_, where_);
        void* const p = memory_.allocate_sync(detail::bytes_of(count, who), default_alignment, who);
        return pointer{static_cast<T*>(p)};
    }
    /// In order of s; `count` as it was taken.
    void deallocate(pointer p, size_type count) noexcept {
        memory_.deallocate(stream_, p.get(), count * sizeof(T));
    }

    /// One gives back what the other took.
    template <class U>
    friend bool operator==(thrust_allocator const& a, thrust_allocator<U> const& b) noexcept {
        return a.stream() == b.stream() && a.memory() == b.memory();
    }

    /// What it gives memory back on.
    [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
    [[nodiscard]] any_resource const& memory() const noexcept { return memory_; }  ///< what it takes from

#if THRUST_DEVICE_SYSTEM != THRUST_DEVICE_SYSTEM_CUDA
    using system_type = detail::thrust_elements;
    /// For Thrust, which asks here how to give elements their values.
    [[nodiscard]] system_type& system() noexcept { return elements_; }
#endif

private:
    template <class U>
    friend class thrust_allocator;

    stream_share stream_;
    any_resource memory_;
    tag name_;
    place where_;
#if THRUST_DEVICE_SYSTEM != THRUST_DEVICE_SYSTEM_CUDA
    detail::thrust_elements elements_{stream_, where_};
#endif
};

}  // namespace cuota::inline v0::inline CUOTA_THRUST
