// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Thrust's algorithms on leases, in order of a stream, with scratch memory of a resource. Not in all.hpp: it needs CCCL.
#pragma once

/// What nvcc does not compile has Thrust's system for the host, unless the program has chosen.
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

/// The inline namespace of what depends on Thrust's system: a program may have files of several.
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

/// The elements of a lease, for Thrust: begin() and end() are its device_ptr, so that no algorithm takes them for host
/// memory.
///
/// Owns nothing, and ends with the lease: it is not made of a temporary. Its iterators are not checked.
/// Throws: nothing. Cost: a pointer and a size.
/// Example:
///     auto const keys = x.write(s);
///     run_thrust(s, pool, [r = thrust_range{keys}](auto const& on) { thrust::sort(on, r.begin(), r.end()); });
template <class T>
class thrust_range {
public:
    using value_type = std::remove_cv_t<T>;  ///< of the lease, without const
    using iterator = thrust::device_ptr<T>;  ///< not for host code

    thrust_range(lease<T> const& of) noexcept : thrust_range{of.span()} {}  ///< as long as the lease
    template <class U>
    thrust_range(lease<U> const&&) = delete;  // the lease would end before Thrust is done
    /// As long as its memory.
    thrust_range(device_span<T> of) noexcept : first_{of.data()}, size_{of.size()} {}

    [[nodiscard]] iterator begin() const noexcept { return first_; }  ///< the first element
    /// Behind the last.
    [[nodiscard]] iterator end() const noexcept { return first_ + static_cast<std::ptrdiff_t>(size_); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< elements

private:
    iterator first_;
    std::size_t size_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

namespace cuota::inline v0 {

/// A resource as an allocator of bytes in order of one stream: scratch memory for Thrust's policies, of which
/// `par_nosync` gives it back while kernels still use it.
///
/// Copies are the same. The stream must outlive it, as for any stream_ref. Made by run_thrust; by hand for code that takes
/// a policy: thrust::cuda::par_nosync(scratch).on(s.get()).
/// Units: bytes. Threads, throws, cost: as the resource.
class scratch_allocator {
public:
    using value_type = char;  ///< bytes

    /// Takes nothing yet. `where` stands for the scratch in refusals and accounts.
    scratch_allocator(stream_ref s, any_resource memory, place where = place::here()) noexcept
        : stream_{s}, memory_{std::move(memory)}, where_{where} {}

    /// In order of the stream. Throws: what the resource throws.
    [[nodiscard]] char* allocate(std::size_t bytes) {
        return static_cast<char*>(memory_.allocate(stream_, bytes, default_alignment, {"thrust", where_}));
    }
    /// In order of the stream.
    void deallocate(char* p, std::size_t bytes) noexcept { memory_.deallocate(stream_, p, bytes); }

    /// The same stream and resource.
    friend bool operator==(scratch_allocator const& a, scratch_allocator const& b) noexcept {
        return a.stream_ == b.stream_ && a.memory_ == b.memory_;
    }

private:
    stream_ref stream_;
    any_resource memory_;
    place where_;
};

namespace detail {

// What an F gives for a policy, once it has run.
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

// Throws misuse where what Thrust makes of this file's calls cannot run in this program.
inline void check_that_thrust_runs(place where) {
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
    if (is_simulated())
        throw_misuse(
            where, "Thrust of nvcc's making runs on a GPU only, and the program is linked to the simulator");
#else
    if (!is_simulated())
        throw_misuse(where, "compiled without nvcc, so Thrust can run on the simulator only, but the program "
                            "is linked to the real CUDA runtime");
#endif
}

}  // namespace CUOTA_THRUST

}  // namespace detail

inline namespace CUOTA_THRUST {

/// Runs f(policy) in order of s, where policy is what Thrust's algorithms take first; f may call several of them. What f
/// returns is returned: then this waits for s. Without a result it does not wait, and f is copied if it runs later.
///
/// A function to call and no policy to keep, since a policy alone would be right on a GPU only: Thrust's systems for the
/// host run an algorithm where it is called, on the calling thread and at once, before work that the stream still has to
/// do. All that stands in f, the simulator runs when the stream comes to it.
///
/// On a GPU f runs at once on the host, and the policy is `par_nosync` on s: scratch is `memory`'s, in order of s, and may be
/// refused. On the simulator, in a file that nvcc has not compiled, f runs as one kernel of s by Thrust's system for the
/// host, with its scratch on the host's heap; an exception of f ends the device, as a trap would.
/// Iterators are those of a thrust_range, whose leases on s are open during the call. f holds no reference to what ends
/// before s has come there.
/// Threads: any. Cost: nothing beside what the algorithms cost.
/// Throws:  budget_exceeded, out_of_memory for scratch; cuda_error; what f throws; misuse where the file is compiled for a
///          GPU and linked to the simulator, or the reverse. Scratch is given back in each case; what f has enqueued runs.
template <class F>
auto run_thrust(stream_ref s, any_resource memory, F f, place where = place::here()) {
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
    (void)memory;  // of the device, which does not give any to what runs on it
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
