// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Samples of different lengths whose rows contain their own number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/samplers/permutation.hpp>

namespace support {

/// The numbers 0, 1, ... partitioned into samples of the given lengths.
struct ragged_texts {
    explicit ragged_texts(std::vector<std::uint64_t> of)
        : lengths{std::move(of)}, offsets(lengths.size() + 1) {
        std::inclusive_scan(lengths.begin(), lengths.end(), offsets.begin() + 1);
    }
    /// Makes `samples` samples of random lengths in [0, most].
    [[nodiscard]] static ragged_texts any(std::size_t samples, std::uint64_t most, std::uint64_t seed = 1) {
        std::vector<std::uint64_t> made;
        for (std::size_t i = 0; i != samples; ++i)
            made.push_back(cuota::detail::mixed(seed * 1000 + i + 1) % (most + 1));
        return ragged_texts{std::move(made)};
    }

    [[nodiscard]] std::vector<std::uint32_t> all_words() const {
        std::vector<std::uint32_t> words(static_cast<std::size_t>(offsets.back()));
        std::iota(words.begin(), words.end(), 0U);
        return words;
    }
    /// Returns the words of the given samples, concatenated.
    [[nodiscard]] std::vector<std::uint32_t> words_of(std::vector<std::uint64_t> const& samples) const {
        std::vector<std::uint32_t> words;
        for (std::uint64_t const sample : samples)
            for (std::uint64_t w = offsets[sample]; w != offsets[sample + 1]; ++w)
                words.push_back(static_cast<std::uint32_t>(w));
        return words;
    }
    /// Returns the offset of each sample in words_of(samples).
    [[nodiscard]] std::vector<std::uint64_t> offsets_of(std::vector<std::uint64_t> const& samples) const {
        std::vector<std::uint64_t> made{0};
        for (std::uint64_t const sample : samples) made.push_back(made.back() + lengths[sample]);
        return made;
    }

    [[nodiscard]] cuota::ragged_dataset<cuota::memory_dataset> words() const {
        return {cuota::memory_dataset{"words", all_words()}, offsets};
    }
    /// Fields "words u32[*]" and "class u16"; the class is the sample's number times 3.
    [[nodiscard]] auto classed() const {
        std::vector<std::uint16_t> classes;
        for (std::size_t i = 0; i != lengths.size(); ++i)
            classes.push_back(static_cast<std::uint16_t>(3 * i));
        return cuota::zip_dataset{words(), cuota::memory_dataset{"class", classes}};
    }

    std::vector<std::uint64_t> lengths;
    std::vector<std::uint64_t> offsets;
};

}  // namespace support
