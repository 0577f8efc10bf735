// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A stable sort that is compiled once for all types: each instance of std::stable_sort costs the compiler 0.1 s.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0::detail {

/// Whether element a comes before element b of the sequence `all`.
using stands_before = bool (*)(void const* all, std::size_t a, std::size_t b);

// Merges the sorted ranges [from, middle) and [middle, until) of `order` into `into`.
void merge_runs(std::size_t const* order, std::size_t* into, std::size_t from, std::size_t middle,
                std::size_t until, stands_before before, void const* all);

/// Returns the indices in stable order.
[[nodiscard]] std::vector<std::size_t> sorted_order(std::size_t count, stands_before before, void const* all);

/// Sorts stably by less(key(a), key(b)). For short or rarely sorted sequences: each comparison is a call through a pointer.
/// Throws: std::bad_alloc, exceptions of less and key; no element is moved.
template <class Array, class Less = std::less<>, class Key = std::identity>
void sort_stably(Array& all, Less less = {}, Key key = {}) {
    using T = typename Array::value_type;
    static_assert(std::is_nothrow_move_constructible_v<T>);
    struct question {
        T const* first;
        Less& less;
        Key& key;
    };
    question const requested{all.data(), less, key};
    std::vector<std::size_t> const order = sorted_order(
        all.size(),
        [](void const* of, std::size_t a, std::size_t b) -> bool {
            auto const& [first, is_less, key_of] = *static_cast<question const*>(of);
            if constexpr (std::is_member_pointer_v<Key>) return is_less(first[a].*key_of, first[b].*key_of);
            else return is_less(key_of(first[a]), key_of(first[b]));
        },
        &requested);
    Array sorted;
    sorted.reserve(all.size());
    for (std::size_t const i : order) sorted.push_back(std::move(all[i]));
    all.swap(sorted);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void merge_runs(std::size_t const* order, std::size_t* into, std::size_t from,
                             std::size_t middle, std::size_t until, stands_before before, void const* all) {
    std::size_t left = from;
    std::size_t right = middle;
    for (std::size_t at = from; at != until; ++at) {
        bool const is_right = left == middle || (right != until && before(all, order[right], order[left]));
        into[at] = order[is_right ? right++ : left++];
    }
}

CUOTA_INLINE std::vector<std::size_t> sorted_order(std::size_t count, stands_before before, void const* all) {
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i != count; ++i) order[i] = i;
    std::vector<std::size_t> merged(count);
    for (std::size_t run = 1; run < count; run *= 2) {
        for (std::size_t from = 0; from < count; from += 2 * run)
            merge_runs(order.data(), merged.data(), from, std::min(from + run, count),
                       std::min(from + 2 * run, count), before, all);
        order.swap(merged);
    }
    return order;
}

}  // namespace cuota::inline v0::detail

#endif
