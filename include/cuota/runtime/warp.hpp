// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Threads of a kernel that work on one thing together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/runtime/kernel_launch.hpp>

namespace cuota::inline v0::detail {

/// Threads that run together and can pass values to each other: 32 on a GPU, and on the host one, which does the work of all. Code
/// that divides its work by `lane` and `threads` is the same on both, and so are its results where their order does not matter.
/// All threads of a warp make the same calls of its functions, in the same order.
class warp {
public:
#if defined(__CUDA_ARCH__)
    static constexpr unsigned threads = 32;
#else
    static constexpr unsigned threads = 1;
#endif
    /// The one that this thread belongs to. A grid's blocks are of whole warps.
    CUOTA_KERNEL explicit warp(kernel_thread t) : lane_{static_cast<unsigned>(t.index % threads)} {}

    /// This thread's number: 0 to threads - 1.
    [[nodiscard]] CUOTA_KERNEL unsigned lane() const { return lane_; }

    /// Whether it is true in any thread.
    [[nodiscard]] CUOTA_KERNEL bool any(bool mine) const {
#if defined(__CUDA_ARCH__)
        return __any_sync(everyone, mine) != 0;
#else
        return mine;
#endif
    }
    /// The largest of all threads' numbers, none of which is below 0 or a NaN.
    [[nodiscard]] CUOTA_KERNEL float largest(float mine) const {
#if defined(__CUDA_ARCH__)
        unsigned bits = __float_as_uint(mine);  // of such numbers in the order of the numbers
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
    /// Words of 32 bits: bit b of words[w] is is_set(32 * w + b), which may be called for all bits before any word is known.
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

/// Enqueues f(i, warp) for every i < n: all threads of one warp call it with the same i. n = 0 enqueues nothing.
/// As for_each_index else.
template <class F>
void for_each_by_warp(stream_ref s, std::size_t n, F f, char const* name, place where = place::here()) {
    constexpr std::size_t warps = kernel_grid::threads / 32;  // of a block
    if (n == 0) return;
    launch_kernel(s, kernel_grid{n / warps + (n % warps != 0 ? 1 : 0), true},
                  each_by_warp<F>{n, std::move(f)}, name, where);
}

}  // namespace cuota::inline v0::detail
