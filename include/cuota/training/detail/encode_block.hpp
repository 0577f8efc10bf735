// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Quantization of a block by a warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/runtime/detail/for_each_element.hpp>
#include <cuota/runtime/detail/warp.hpp>
#include <cuota/training/detail/int8_codec.hpp>

namespace cuota::inline v0::detail {

/// A block of numbers in a warp's registers. Each thread has packs of 4, adjacent to those of the next thread.
template <std::size_t Block>
struct block_in_registers {
    static constexpr std::size_t pack = 4;
    static constexpr bool fits = Block % (pack * 32) == 0 && Block <= 1024;
    static constexpr std::size_t packs = fits ? Block / (pack * warp::threads) : 1;  ///< per thread

    float at[packs][pack];

    /// Returns the index of this thread's p-th pack in the block.
    [[nodiscard]] CUOTA_KERNEL static std::size_t offset(std::size_t p, warp const& all) {
        return (p * warp::threads + all.lane()) * pack;
    }
    template <class T>
    [[nodiscard]] CUOTA_KERNEL static bool is_aligned(T const* p) {
        return reinterpret_cast<std::uintptr_t>(p) % alignof(element_pack<T, pack, true>) == 0;
    }
    template <class T>
    [[nodiscard]] CUOTA_KERNEL static element_pack<T, pack, true> load(T const* p) {
        return *pack_at<element_pack<T, pack, true> const>(p);
    }
    [[nodiscard]] CUOTA_KERNEL float largest(warp const& all) const {
        float most = 0;
        for (std::size_t p = 0; p != packs; ++p)
            for (std::size_t i = 0; i != pack; ++i) most = finite_max(most, magnitude(at[p][i]));
        return all.largest(most);
    }
    template <class Code>
    CUOTA_KERNEL void encode(typename Code::code::encoder const& by, typename Code::type* codes,
                             warp const& all) const {
        for (std::size_t p = 0; p != packs; ++p) {
            element_pack<typename Code::type, pack, true> made;
            for (std::size_t i = 0; i != pack; ++i) made.at[i] = Code::of(at[p][i], by);
            store(made, codes + offset(p, all));
        }
    }
};

/// Computes codes and scale of block b of `count` numbers number(from[i]). Reads a whole, aligned block that fits in registers once.
template <class Code, std::size_t Block, class T, class Number>
CUOTA_KERNEL void encode_block(std::size_t b, warp const& all, std::size_t count, T const* from,
                               typename Code::type* codes, float* scales, Number number) {
    using registers = block_in_registers<Block>;
    std::size_t const begin = b * Block;
    std::size_t const end = block_end(begin, Block, count);
    float scale = 0;
    if (registers::fits && end - begin == Block && registers::is_aligned(from + begin) &&
        registers::is_aligned(codes + begin)) {
        registers x;
        for (std::size_t p = 0; p != registers::packs; ++p) {
            auto const had = registers::load(from + begin + registers::offset(p, all));
            for (std::size_t i = 0; i != registers::pack; ++i) x.at[p][i] = number(had.at[i]);
        }
        scale = Code::code::scale(x.largest(all));
        x.template encode<Code>(typename Code::code::encoder{scale}, codes + begin, all);
    } else {
        float most = 0;
        for (std::size_t i = begin + all.lane(); i < end; i += warp::threads)
            most = finite_max(most, magnitude(number(from[i])));
        scale = Code::code::scale(all.largest(most));
        typename Code::code::encoder const by{scale};
        for (std::size_t i = begin + all.lane(); i < end; i += warp::threads)
            codes[i] = Code::of(number(from[i]), by);
    }
    if (all.lane() == 0) scales[b] = scale;
}

}  // namespace cuota::inline v0::detail
