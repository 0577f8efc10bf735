// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Bit mask of kept numbers, with the index of each.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/config.hpp>
#include <cuota/runtime/detail/warp.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/copy.hpp>

namespace cuota::inline v0::detail {

// The number of ones before each group of words is stored, so that each thread finds its element's index alone.
using mask_word = std::uint32_t;
using rank_number = std::uint64_t;
inline constexpr std::size_t word_bits = 32;
inline constexpr std::size_t group_words = 32;
inline constexpr std::size_t group_bits = group_words * word_bits;
inline constexpr std::size_t run_groups = 1024;

[[nodiscard]] CUOTA_HOST_DEVICE constexpr std::size_t parts_of(std::size_t count, std::size_t each) noexcept {
    return count / each + (count % each != 0 ? 1 : 0);
}
[[nodiscard]] CUOTA_KERNEL inline unsigned ones_of(mask_word word) {
#if defined(__CUDA_ARCH__)
    return static_cast<unsigned>(__popc(word));
#else
    return static_cast<unsigned>(std::popcount(word));
#endif
}
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_marked(mask_word const* words, std::size_t i) noexcept {
    return (words[i / word_bits] >> (i % word_bits) & 1u) != 0;
}

template <class T>
struct above_threshold {
    T const* dense;
    float threshold;
    [[nodiscard]] CUOTA_KERNEL bool operator()(std::size_t i) const {
        float const x = static_cast<float>(dense[i]);
        return !(x <= threshold && x >= -threshold);
    }
};
struct kept_by_mask {
    unsigned char const* keep;
    [[nodiscard]] CUOTA_KERNEL bool operator()(std::size_t i) const { return keep[i] != 0; }
};

/// Computes at_once words by a warp; adjacent threads read adjacent elements.
template <class Keeps>
struct mark_words {
    static constexpr unsigned at_once = 8;

    Keeps keeps;
    mask_word* words;
    std::size_t count;
    CUOTA_KERNEL void operator()(std::size_t group, warp const& all) const {
        std::size_t const first = group * at_once;
        std::size_t const begin = first * word_bits;
        mask_word made[at_once];
        all.vote([&](unsigned bit) { return begin + bit < count && keeps(begin + bit); }, made);
        for (unsigned w = 0; w != at_once; ++w)
            if (w % warp::threads == all.lane() && (first + w) * word_bits < count)
                words[first + w] = made[w];
    }
};

struct count_group {
    mask_word const* words;
    rank_number* groups;
    std::size_t word_count;
    CUOTA_KERNEL void operator()(std::size_t g) const {
        std::size_t const begin = g * group_words;
        std::size_t const end = word_count - begin < group_words ? word_count : begin + group_words;
        rank_number sum = 0;
        for (std::size_t w = begin; w != end; ++w) sum += ones_of(words[w]);
        groups[g] = sum;
    }
};
/// Replaces the sums of a run's groups by exclusive prefix sums, and writes the total to runs[r].
struct count_run {
    rank_number* groups;
    rank_number* runs;
    std::size_t group_count;
    CUOTA_KERNEL void operator()(std::size_t r) const {
        std::size_t const begin = r * run_groups;
        std::size_t const end = group_count - begin < run_groups ? group_count : begin + run_groups;
        rank_number sum = 0;
        for (std::size_t g = begin; g != end; ++g) {
            rank_number const mine = groups[g];
            groups[g] = sum;
            sum += mine;
        }
        runs[r] = sum;
    }
};
/// Replaces the sums of runs by exclusive prefix sums, followed by the total. Single-threaded: one run per million elements.
struct sum_runs {
    rank_number* runs;
    std::size_t count;
    CUOTA_KERNEL void operator()(std::size_t) const {
        rank_number sum = 0;
        for (std::size_t r = 0; r != count; ++r) {
            rank_number const mine = runs[r];
            runs[r] = sum;
            sum += mine;
        }
        runs[count] = sum;
    }
};
struct add_runs {
    rank_number* groups;
    rank_number const* runs;
    CUOTA_KERNEL void operator()(std::size_t g) const { groups[g] += runs[g / run_groups]; }
};

[[nodiscard]] CUOTA_KERNEL inline std::size_t rank_of(mask_word const* words,
                                                      rank_number const* before_groups, std::size_t i) {
    std::size_t const own = i / word_bits;
    rank_number rank = before_groups[i / group_bits];
    for (std::size_t w = own / group_words * group_words; w != own; ++w) rank += ones_of(words[w]);
    return rank + ones_of(words[own] & ((mask_word{1} << (i % word_bits)) - 1));
}

template <class T>
struct gather_survivor {
    T const* dense;
    mask_word const* words;
    rank_number const* before_groups;
    T* packed;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        if (is_marked(words, i)) packed[rank_of(words, before_groups, i)] = dense[i];
    }
};
template <class T>
struct scatter_survivor {
    T const* packed;
    mask_word const* words;
    rank_number const* before_groups;
    T* dense;
    T zero;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        dense[i] = is_marked(words, i) ? packed[rank_of(words, before_groups, i)] : zero;
    }
};

/// Returns the number of survivors, and computes those before each group. Waits for the home stream.
[[nodiscard]] std::size_t count_survivors(device_buffer<mask_word> const& mask,
                                          device_buffer<rank_number>& ranks, resource_ref const& memory,
                                          source_location where);

}  // namespace cuota::inline v0::detail

#if CUOTA_PART_KERNELS

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t count_survivors(device_buffer<mask_word> const& mask,
                                         device_buffer<rank_number>& ranks, resource_ref const& memory,
                                         source_location where) {
    stream_ref const s = mask.home();
    char const* const name = "pruned::pack";
    std::size_t const run_count = parts_of(ranks.size(), run_groups);
    device_buffer<rank_number> scratch{run_count + 1, s, memory, no_init, "pruning", where};
    auto const words = mask.read(s, where);
    auto const groups = ranks.write(s, where);
    auto const runs = scratch.write(s, where);
    rank_number* const of_groups = groups.span().data();
    rank_number* const of_runs = runs.span().data();
    for_each_index(s, ranks.size(), count_group{words.span().data(), of_groups, words.size()}, name, where);
    for_each_index(s, run_count, count_run{of_groups, of_runs, ranks.size()}, name, where);
    for_each_index(s, 1, sum_runs{of_runs, run_count}, name, where);
    for_each_index(s, ranks.size(), add_runs{of_groups, of_runs}, name, where);
    rank_number survivors = 0;
    rt::copy_to_host(&survivors, of_runs + run_count, sizeof survivors, s, where);
    rt::synchronize_or_drain(s, where);
    return survivors;
}

}  // namespace cuota::inline v0::detail

#endif
