// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Numbers kept in 8 bits each, with a step for every block of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/runtime/for_each_element.hpp>
#include <cuota/runtime/warp.hpp>
#include <cuota/training/block_code.hpp>
#include <cuota/training/cast.hpp>
#include <cuota/training/encode_block.hpp>

namespace cuota::inline v0::detail {

template <class T>
struct as_float {
    [[nodiscard]] CUOTA_KERNEL float operator()(T x) const { return static_cast<float>(x); }
};

// A warp a block, and one kernel: a launch that fails leaves the codes as they were.
template <class T, std::size_t Block>
struct store_block {
    T const* from;
    signed_code::type* codes;
    float* steps;
    std::size_t count;
    CUOTA_KERNEL void operator()(std::size_t b, warp const& all) const {
        encode_block<signed_code, Block>(b, all, count, from, codes, steps, as_float<T>{});
    }
};

template <class T, std::size_t Block>
struct load_number {
    float const* steps;
    [[nodiscard]] CUOTA_KERNEL T operator()(std::size_t i, signed_code::type code) const {
        return static_cast<T>(signed_code::value(code, steps[i / Block]));
    }
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// `size()` numbers in device memory, stored as signed multiples of a step, one step for each `Block` of them: activations
/// between forward and backward, or an optimiser's state (Dettmers et al., 8-bit Optimizers via Block-wise Quantization,
/// 2022, with equal steps).
///
///     cuota::quantised<float> kept{n, s, pool, "activations"};
///     kept.store(s, x.read(s));    // x can go now
///     kept.load(s, again.write(s));
///
/// Error:   |x - x'| <= absmax / 127 / 2, with the absmax of the block's finite numbers: exactly, in real numbers, for x'
///          loaded as a float and an absmax of 2^-126 or more. Under that there are no floats to keep it with: at most
///          2^-150 is added. Loaded as half or bfloat16, x' is rounded to the nearest once more. block_code says why.
///          Numbers that are infinite or none become NaN, each for itself; -0 becomes 0.
///          Not in programs that are compiled to flush denormals (-ffast-math, --use_fast_math).
/// Order:   of the streams that are given. Move-only. Threads: as device_buffer.
/// Throws:  as device_buffer; a refusal leaves nothing behind. misuse when counts differ. Throwing changes nothing.
/// Cost:    1 byte a number and 4 a block: a quarter of floats, and 1.6 %. A store has 32 threads for each block. It reads numbers
///          once where Block is 128, 256, 512 or 1024 and they begin at a multiple of 4 elements' bytes; else twice.
template <stored_float T, std::size_t Block = 256>
class quantised {
    static_assert(Block != 0, "a block has a number at least");

public:
    using value_type = T;  ///< of a number as it is stored and loaded

    /// count zeros.
    quantised(element_count count, stream_ref home, resource_ref const& memory, tag name = {},
              place where = place::here())
        : codes_{count, home, memory, name, where}, steps_{blocks(count), home, memory, name, where} {}

    /// What `count` numbers take: two allocations, each rounded up to the granule of where they come from, or not at all.
    /// `unlimited`: more than can be said.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t count, std::size_t granule = 1) noexcept {
        return detail::coded_bytes(count, Block, granule);
    }
    /// Of Block numbers each; the last may be shorter.
    [[nodiscard]] static constexpr std::size_t blocks(std::size_t count) noexcept {
        return count / Block + (count % Block != 0 ? 1 : 0);
    }
    [[nodiscard]] std::size_t size() const noexcept { return codes_.size(); }  ///< numbers
    /// Of codes and steps.
    [[nodiscard]] std::size_t bytes() const noexcept { return codes_.bytes() + steps_.bytes(); }
    [[nodiscard]] stream_ref home() const noexcept { return codes_.home(); }  ///< where both are given back

    /// Replaces all numbers.
    void store(stream_ref s, device_span<T const> from, place where = place::here()) {
        detail::check_counts("quantised::store", from.size(), size(), where);
        auto const codes = codes_.write(s, where);
        auto const steps = steps_.write(s, where);
        detail::for_each_by_warp(
            s, steps_.size(),
            detail::store_block<T, Block>{from.data(), codes.span().data(), steps.span().data(), size()},
            "quantised::store", where);
    }

    /// Writes all numbers to `to`.
    void load(stream_ref s, device_span<T> to, place where = place::here()) const { load_as(s, to, where); }
    /// As floats: not rounded to T.
    void load(stream_ref s, device_span<float> to, place where = place::here()) const
        requires(!std::same_as<T, float>) {
        load_as(s, to, where);
    }

private:
    template <class To>
    void load_as(stream_ref s, device_span<To> to, place where) const {
        detail::check_counts("quantised::load", size(), to.size(), where);
        auto const codes = codes_.read(s, where);
        auto const steps = steps_.read(s, where);
        detail::for_each_element(s, size(), codes.span().data(), to.data(),
                                 detail::load_number<To, Block>{steps.span().data()}, "quantised::load",
                                 where);
    }

    device_buffer<detail::signed_code::type> codes_;
    device_buffer<float> steps_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
