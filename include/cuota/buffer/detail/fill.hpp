// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Fills device memory with copies of a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/runtime/detail/for_each_element.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::detail {

[[nodiscard]] inline bool is_word_repeated(void const* value, std::size_t bytes,
                                           std::uint32_t word) noexcept {
    if (bytes % sizeof word != 0) return false;
    for (std::size_t at = 0; at != bytes; at += sizeof word)
        if (std::memcmp(static_cast<std::byte const*>(value) + at, &word, sizeof word) != 0) return false;
    return true;
}

/// The bytes of a value: one kernel fills with all types of a size, also those that nvcc does not accept in a kernel's name. In words where
/// the alignment permits, because a kernel would take bytes apart one by one.
template <std::size_t Bytes, std::size_t Alignment>
struct alignas(Alignment) value_bytes {
    using word = std::conditional_t<Alignment % 4 == 0, std::uint32_t, std::byte>;
    word at[Bytes / sizeof(word)];
};

template <class T>
struct fill_with {
    T value;
    [[nodiscard]] CUOTA_KERNEL T operator()(std::size_t) const { return value; }
};

/// Enqueues a fill, by the driver if the value repeats a word of 1, 2 or 4 bytes.
template <class T>
void fill(T* first, std::size_t count, T const& value, stream_ref s, source_location where) {
    constexpr bool is_one_word = sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4;
    rt::fill_word word{0, is_one_word ? sizeof(T) : sizeof word.bits};
    std::memcpy(&word.bits, &value, std::min(sizeof(T), sizeof word.bits));
    if constexpr (is_one_word) {
        rt::fill_words(first, word, count, s, where);
    } else {
        if (is_word_repeated(&value, sizeof(T), word.bits))
            return rt::fill_words(first, word, count * (sizeof(T) / word.bytes), s, where);
        rt::access_annotation const written{s, first, count * sizeof(T), true};
        using bytes = value_bytes<sizeof(T), alignof(T)>;
        fill_with<bytes> with{};
        std::memcpy(&with.value, &value, sizeof(T));
        void const* const nothing = nullptr;
        for_each_element(s, count, nothing, reinterpret_cast<bytes*>(first), with, "fill", where);
    }
}

}  // namespace cuota::inline v0::detail
