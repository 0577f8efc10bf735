// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Holders of memory as lines of a refusal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/refusal.hpp>

namespace cuota::inline v0::detail {

// For example "2 others 7 B" for the holders from `first` on.
[[nodiscard]] std::string others_text(std::vector<allocation_group> const& holders, std::size_t first);

// Adds up holders of one name; their call site is dropped.
void merge_names(std::vector<allocation_group>& holders);
// Lists the holders in up to `lines` lines. In full: all of them with their call sites, or nothing. Otherwise the largest, with call sites if
// there is room, and the sum of those that do not fit.
[[nodiscard]] std::string holders_list(std::vector<allocation_group> const& holders, std::size_t lines,
                                       bool in_full);
// Lists the holders in full, or else by name.
[[nodiscard]] std::string holders_text(std::vector<allocation_group> holders, std::size_t lines);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <string_view>

#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/suggestions.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string others_text(std::vector<allocation_group> const& holders, std::size_t first) {
    if (first >= holders.size()) return {};
    std::size_t bytes = 0;
    for (std::size_t i = first; i != holders.size(); ++i) bytes = saturating_add(bytes, holders[i].bytes);
    std::size_t const count = holders.size() - first;
    return message("{}{}{}", {as_count(count), count == 1 ? " other " : " others ", as_bytes(bytes)});
}

CUOTA_INLINE void merge_names(std::vector<allocation_group>& holders) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i != holders.size(); ++i) {
        std::size_t same = 0;
        while (same != kept && !(holders[same].name == holders[i].name)) ++same;
        if (same == kept) holders[kept++] = holders[i];
        else {
            holders[same].bytes = saturating_add(holders[same].bytes, holders[i].bytes);
            holders[same].where = {};
        }
    }
    holders.resize(kept);
    sort_stably(holders, std::greater<>{}, &allocation_group::bytes);
}

CUOTA_INLINE std::string holders_text(std::vector<allocation_group> holders, std::size_t lines) {
    std::string text = holders_list(holders, lines, true);
    if (!text.empty()) return text;
    merge_names(holders);
    return holders_list(holders, lines, false);
}

CUOTA_INLINE std::string holders_list(std::vector<allocation_group> const& holders, std::size_t lines,
                                      bool in_full) {
    constexpr std::size_t most_named = 32;
    std::size_t const most = std::min(holders.size(), most_named);
    if (in_full && most != holders.size()) return {};
    std::vector<std::string> names(most);
    std::vector<std::string> with_sites(most);
    for (std::size_t i = 0; i != most; ++i) {
        allocation_group nameless = holders[i];
        nameless.where = {};
        append_holder(names[i], nameless, true);
        append_holder(with_sites[i], holders[i], true);
    }
    // The first `named` holders, the first `placed` of them with call sites; empty if they need more lines.
    auto const listed = [&](std::size_t named, std::size_t placed) {
        std::string text;
        std::size_t line = 1;
        std::size_t begin = 0;
        auto const add = [&](std::string_view item) {
            if (text.size() - begin + 2 + item.size() > suggestion_columns && text.size() != begin) {
                text += ",\n             ";
                begin = text.size();
                ++line;
            } else if (!text.empty()) {
                text += ", ";
            }
            text += item;
        };
        for (std::size_t i = 0; i != named; ++i) add(i < placed ? with_sites[i] : names[i]);
        if (std::string const others = others_text(holders, named); !others.empty()) add(others);
        return line <= lines ? text : std::string{};
    };
    if (in_full) return listed(most, most);
    std::size_t named = most;
    while (named > 1 && listed(named, 0).empty()) --named;
    std::size_t placed = named;
    while (placed != 0 && listed(named, placed).empty()) --placed;
    return listed(named, placed);
}

}  // namespace cuota::inline v0::detail

#endif
