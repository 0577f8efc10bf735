// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Numbers in 8 bits each.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/runtime/detail/for_each_element.hpp>
#include <cuota/runtime/detail/warp.hpp>
#include <cuota/training/detail/encode_block.hpp>
#include <cuota/training/detail/int8_codec.hpp>
#include <cuota/training/precision/cast.hpp>

namespace cuota::inline v0::detail {

template <class T>
struct as_float {
    [[nodiscard]] CUOTA_KERNEL float operator()(T x) const { return static_cast<float>(x); }
};

// One kernel writes codes and scales, so that a launch that fails changes neither.
template <class T, std::size_t Block>
struct store_block {
    T const* from;
    signed_code::type* codes;
    float* scales;
    std::size_t count;
    CUOTA_KERNEL void operator()(std::size_t b, warp const& all) const {
        encode_block<signed_code, Block>(b, all, count, from, codes, scales, as_float<T>{});
    }
};

template <class T, std::size_t Block>
struct load_number {
    float const* scales;
    [[nodiscard]] CUOTA_KERNEL T operator()(std::size_t i, signed_code::type code) const {
        return static_cast<T>(signed_code::value(code, scales[i / Block]));
    }
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Stores `size()` numbers in device memory as signed 8-bit multiples of a scale, one per `Block` numbers (Dettmers et al., 8-bit
/// Optimizers via Block-wise Quantization, 2022, but with equidistant levels).
///
///     cuota::quantized<float> kept{n, s, pool, "activations"};
///     kept.store(s, x.read(s));    // x can be freed now
///     kept.load(s, again.write(s));
///
/// Move-only.
/// Error:   |x - x'| <= absmax / 127 / 2, with absmax over the block's finite numbers, for x' loaded as float; plus at most 2^-150 if
///          absmax < 2^-126. Loaded as half or bfloat16, x' is rounded once more. Proof: block_code. Infinite and NaN numbers become NaN,
///          without effect on others; -0 becomes 0. Not valid if denormals are flushed (-ffast-math, --use_fast_math).
/// Order:   of the stream arguments.
/// Threads: as device_buffer.
/// Throws:  as device_buffer; usage_error if counts differ. On failure, nothing is changed or stays allocated.
/// Cost:    1 byte per number and 4 per block. A store reads numbers once if Block is a multiple of 128 up to 1024 and they are aligned to
///          4 elements, otherwise twice.
template <storage_float T, std::size_t Block = 256>
class quantized {
    static_assert(Block != 0, "a block has at least one number");

public:
    using value_type = T;  ///< of a number

    /// Allocates `count` zeros.
    quantized(element_count count, stream_ref home, resource_ref const& memory, tag name = {},
              source_location where = source_location::current())
        : codes_{count, home, memory, name, where}, scales_{blocks(count), home, memory, name, where} {}

    /// Returns the bytes of the two allocations for `count` numbers, each rounded up to `granularity`; `unlimited` on overflow.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t count,
                                                     std::size_t granularity = 1) noexcept {
        return detail::coded_bytes(count, Block, granularity);
    }
    /// Returns the number of blocks of `count` numbers.
    [[nodiscard]] static constexpr std::size_t blocks(std::size_t count) noexcept {
        return count / Block + (count % Block != 0 ? 1 : 0);
    }
    [[nodiscard]] std::size_t size() const noexcept { return codes_.size(); }  ///< number of numbers
    /// Returns the bytes of codes and scales.
    [[nodiscard]] std::size_t bytes() const noexcept { return codes_.bytes() + scales_.bytes(); }
    [[nodiscard]] stream_ref home() const noexcept { return codes_.home(); }  ///< stream of both buffers

    /// Replaces all numbers.
    void store(stream_ref s, device_span<T const> from, source_location where = source_location::current()) {
        detail::check_counts("quantized::store", from.size(), size(), where);
        auto const codes = codes_.write(s, where);
        auto const scales = scales_.write(s, where);
        detail::for_each_by_warp(
            s, scales_.size(),
            detail::store_block<T, Block>{from.data(), codes.span().data(), scales.span().data(), size()},
            "quantized::store", where);
    }

    /// Writes all numbers to `to`.
    void load(stream_ref s, device_span<T> to, source_location where = source_location::current()) const {
        load_as(s, to, where);
    }
    /// Writes all numbers as floats, not rounded to T.
    void load(stream_ref s, device_span<float> to, source_location where = source_location::current()) const
        requires(!std::same_as<T, float>) {
        load_as(s, to, where);
    }

private:
    template <class To>
    void load_as(stream_ref s, device_span<To> to, source_location where) const {
        detail::check_counts("quantized::load", size(), to.size(), where);
        auto const codes = codes_.read(s, where);
        auto const scales = scales_.read(s, where);
        detail::for_each_element(s, size(), codes.span().data(), to.data(),
                                 detail::load_number<To, Block>{scales.span().data()}, "quantized::load",
                                 where);
    }

    device_buffer<detail::signed_code::type> codes_;
    device_buffer<float> scales_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
