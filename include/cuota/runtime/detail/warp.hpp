// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Cooperation of the threads of a warp in a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/runtime/detail/kernel_launch.hpp>

namespace cuota::inline v0::detail {

/// Threads that run together and exchange values: 32 on a GPU; on the host one, which does all of the work. All threads of a warp must call
/// its functions in the same order.
class warp {
public:
#if defined(__CUDA_ARCH__)
    static constexpr unsigned threads = 32;
#else
    static constexpr unsigned threads = 1;
#endif
    /// Blocks consist of whole warps.
    CUOTA_KERNEL explicit warp(kernel_thread t) : lane_{static_cast<unsigned>(t.index % threads)} {}

    /// Returns this thread's index.
    [[nodiscard]] CUOTA_KERNEL unsigned lane() const { return lane_; }

    [[nodiscard]] CUOTA_KERNEL bool any(bool mine) const {
#if defined(__CUDA_ARCH__)
        return __any_sync(everyone, mine) != 0;
#else
        return mine;
#endif
    }
    /// Returns the maximum. No value may be negative or NaN.
    [[nodiscard]] CUOTA_KERNEL float largest(float mine) const {
#if defined(__CUDA_ARCH__)
        unsigned bits = __float_as_uint(mine);  // non-negative floats compare like their bits
#if __CUDA_ARCH__ >= 800
        bits = __reduce_max_sync(everyone, bits);
#else
        for (int apart = threads / 2; apart != 0; apart /= 2) {
            unsigned const other = __shfl_xor_sync(everyone, bits, apart);
            bits = other > bits ? other : bits;
        }
#endif
        return __uint_as_float(bits);
#else
        return mine;
#endif
    }
    /// Sets bit b of words[w] to `is_set(32 * w + b)`, which may be called for all bits before any word is set.
    template <unsigned Words, class IsSet>
    CUOTA_KERNEL void vote(IsSet const& is_set, std::uint32_t (&words)[Words]) const {
#if defined(__CUDA_ARCH__)
        bool mine[Words];
        for (unsigned w = 0; w != Words; ++w) mine[w] = is_set(32 * w + lane_);
        for (unsigned w = 0; w != Words; ++w) words[w] = __ballot_sync(everyone, mine[w]);
#else
        for (unsigned w = 0; w != Words; ++w) {
            words[w] = 0;
            for (unsigned bit = 0; bit != 32; ++bit)
                words[w] |= static_cast<std::uint32_t>(is_set(32 * w + bit)) << bit;
        }
#endif
    }

private:
    static constexpr unsigned everyone = 0xffff'ffffu;

    unsigned lane_;
};

template <class F>
struct each_by_warp {
    std::size_t n;
    F f;
    CUOTA_KERNEL void operator()(kernel_thread t) {
        warp const mine{t};
        for (std::size_t i = t.index / warp::threads; i < n; i += t.count / warp::threads) f(i, mine);
    }
};

/// Enqueues f(i, warp) for every i < n, which all threads of a warp call.
/// Order, threads, throws: see for_each_index.
template <class F>
void for_each_by_warp(stream_ref s, std::size_t n, F f, char const* name,
                      source_location where = source_location::current()) {
    constexpr std::size_t warps = kernel_grid::threads / 32;  // per block
    if (n == 0) return;
    launch_kernel(s, kernel_grid{n / warps + (n % warps != 0 ? 1 : 0), true},
                  each_by_warp<F>{n, std::move(f)}, name, where);
}

}  // namespace cuota::inline v0::detail
