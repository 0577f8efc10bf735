// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Runs Thrust's algorithms on leases, in the order of a stream, with scratch memory from a resource. Requires CCCL.
#pragma once

/// Without nvcc, uses Thrust's host system unless the program chose one.
#if !defined(__CUDACC__) && !defined(THRUST_DEVICE_SYSTEM)
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <cuota/buffer/lease.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/for_each_index.hpp>

/// Inline namespace of everything that depends on Thrust's device system; it may differ between files.
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
#include <thrust/system_error.h>
#define CUOTA_THRUST thrust_on_cuda
#elif THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_OMP
#define CUOTA_THRUST thrust_on_omp
#elif THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_TBB
#define CUOTA_THRUST thrust_on_tbb
#else
#define CUOTA_THRUST thrust_on_cpp
#endif

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// The elements of a lease for Thrust. Iterators are device_ptrs, so that algorithms do not treat them as host memory.
///
/// Non-owning, valid as long as the lease. Iterators are not checked. Throws: nothing.
/// Example:
///     auto const keys = x.write(s);
///     run_thrust(s, pool, [r = thrust_range{keys}](auto const& on) { thrust::sort(on, r.begin(), r.end()); });
template <class T>
class thrust_range {
public:
    using value_type = std::remove_cv_t<T>;  ///< without const
    using iterator = thrust::device_ptr<T>;  ///< not for host code

    thrust_range(lease<T> const& of) noexcept : thrust_range{of.span()} {}  ///< valid as long as the lease
    template <class U>
    thrust_range(lease<U> const&&) = delete;  // the lease would be destroyed before Thrust has finished
    /// Valid as long as the memory.
    thrust_range(device_span<T> of) noexcept : first_{of.data()}, size_{of.size()} {}

    [[nodiscard]] iterator begin() const noexcept { return first_; }  ///< first element
    /// One past the last element.
    [[nodiscard]] iterator end() const noexcept { return first_ + static_cast<std::ptrdiff_t>(size_); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< elements

private:
    iterator first_;
    std::size_t size_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

namespace cuota::inline v0 {

/// A resource as a byte allocator in the order of one stream, for `par_nosync`, which frees scratch while kernels still use it.
///
/// Copies are equal. The stream must outlive it. Prefer run_thrust to thrust::cuda::par_nosync(scratch).on(s.get()).
/// Threads, throws, cost: as the resource.
class scratch_allocator {
public:
    using value_type = char;  ///< bytes

    /// `where` is the call site of refusals.
    scratch_allocator(stream_ref s, any_resource memory,
                      source_location where = source_location::current()) noexcept
        : stream_{s}, memory_{std::move(memory)}, where_{where} {}

    /// Allocates in the order of the stream.
    [[nodiscard]] char* allocate(std::size_t bytes) {
        return static_cast<char*>(memory_.allocate(stream_, bytes, default_alignment, {"thrust", where_}));
    }
    /// Deallocates in the order of the stream.
    void deallocate(char* p, std::size_t bytes) noexcept { memory_.deallocate(stream_, p, bytes); }

    /// Returns whether stream and resource are the same.
    friend bool operator==(scratch_allocator const& a, scratch_allocator const& b) noexcept {
        return a.stream_ == b.stream_ && a.memory_ == b.memory_;
    }

private:
    stream_ref stream_;
    any_resource memory_;
    source_location where_;
};

namespace detail {

template <class R>
class thrust_result {
public:
    template <class F, class Policy>
    void run(F& f, Policy const& on) {
        value_.emplace(f(on));
    }
    [[nodiscard]] R take() { return *std::move(value_); }

private:
    std::optional<R> value_;
};

inline namespace CUOTA_THRUST {

// Throws usage_error if this file's Thrust calls cannot run in this program.
inline void check_that_thrust_runs(source_location where) {
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
    if (is_simulated())
        throw_usage_error(where,
                          "this file was compiled by nvcc for Thrust's CUDA backend, but the program is "
                          "linked to the simulator");
#else
    if (!is_simulated())
        throw_usage_error(
            where,
            "this file was compiled without nvcc, so Thrust runs on the simulator only, but the program "
            "is linked to the real CUDA runtime");
#endif
}

}  // namespace CUOTA_THRUST

}  // namespace detail

inline namespace CUOTA_THRUST {

/// Runs f(policy) in the order of s; `policy` is the first argument of Thrust's algorithms, of which f may call several. Returns f's result
/// after waiting for s; without a result, does not wait.
///
/// On a GPU f runs immediately on the host, and the policy is `par_nosync` on s with scratch from `memory`. On the simulator, in a file not
/// compiled by nvcc, a copy of f runs as one kernel of s by Thrust's host system, with scratch on the host's heap; an exception of f makes
/// the device fail. (A returned policy would run before pending work of s there.) Leases on s must stay open during the call. f must not
/// refer to objects that are destroyed before s reaches it.
/// Threads: any.
/// Cost:    only that of the algorithms.
/// Throws:  budget_exceeded, out_of_memory for scratch; cuda_error; f's exceptions; usage_error if the file is compiled for a GPU and
///          linked to the simulator, or the reverse. Scratch is always freed; work that f has enqueued runs.
template <class F>
auto run_thrust(stream_ref s, any_resource memory, F f, source_location where = source_location::current()) {
    detail::check_that_thrust_runs(where);
    device_scope const here{s.device()};
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
    scratch_allocator scratch{s, std::move(memory), where};
    try {
        return f(thrust::cuda::par_nosync(scratch).on(s.get()));
    } catch (thrust::system_error const& error) {
        if (error.code().category() == thrust::cuda_category())
            rt::check(static_cast<cudaError_t>(error.code().value()), "thrust", where);
        throw;
    }
#else
    (void)memory;  // device memory, which the simulator does not use for scratch
    using result = decltype(f(thrust::device));
    if constexpr (std::is_void_v<result>) {
        detail::enqueue_on_simulator(
            s, [f = std::move(f)]() mutable { f(thrust::device); }, "thrust", where);
    } else {
        auto const out = std::make_shared<detail::thrust_result<result>>();
        detail::enqueue_on_simulator(
            s, [f = std::move(f), out]() mutable { out->run(f, thrust::device); }, "thrust", where);
        s.synchronize(where);
        return out->take();
    }
#endif
}

}  // namespace CUOTA_THRUST

}  // namespace cuota::inline v0
