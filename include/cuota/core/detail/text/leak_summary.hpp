// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Allocations that outlive their scope, as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// Live allocations, grouped by tag and call site.
class leak_summary {
public:
    /// `age` is the number of steps begun since; 0 is not shown.
    void add(tag name, source_location where, std::size_t bytes, std::uint32_t age = 0);
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// For example "3 allocations are still alive: weights 3 x 3.8 MiB (train.cpp:10)", most bytes first.
    [[nodiscard]] std::string text() const;

    /// For example "weights 3.8 MiB (train.cpp:10)".
    [[nodiscard]] static std::string line_of(tag name, source_location where, std::size_t bytes);

private:
    struct group {
        tag name{};
        source_location where{};
        std::size_t count = 0;
        std::size_t bytes = 0;
        std::size_t each = 0;  // 0: sizes differ
        std::uint32_t oldest = 0;
    };

    static std::string line(group const& g);
    static std::string age_text(group const& g);

    dynamic_array<group> groups_;  // sorted by tag and call site
    std::size_t count_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <algorithm>

#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/text/message.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void leak_summary::add(tag name, source_location where, std::size_t bytes, std::uint32_t age) {
    group const fresh{name, where, 0, 0, bytes, 0};
    auto const compared = [&](group const& g) { return compare_uses(g.name, g.where, name, where); };
    group* at = first_not(groups_.begin(), groups_.size(), [&](group const& g) { return compared(g) < 0; });
    if (at == groups_.end() || compared(*at) != 0) at = groups_.insert(at, fresh);
    group& g = *at;
    ++g.count;
    if (g.each != bytes) g.each = 0;
    g.bytes += bytes;
    g.oldest = std::max(g.oldest, age);
    ++count_;
}

CUOTA_INLINE std::string leak_summary::text() const {
    constexpr std::size_t shown = 4;
    if (count_ == 0) return {};
    dynamic_array<group> most_first = groups_;
    sort_stably(most_first, std::greater<>{}, &group::bytes);

    std::string text =
        std::to_string(count_) + (count_ == 1 ? " allocation is" : " allocations are") + " still alive:";
    group rest;
    for (std::size_t i = 0; i != most_first.size(); ++i) {
        group const& g = most_first[i];
        if (i < shown) {
            text += (i == 0 ? " " : ", ") + line(g);
        } else {
            rest.count += g.count;
            rest.bytes += g.bytes;
        }
    }
    if (rest.count == 0) return text;
    return message("{}, and {} more ({})", {text, rest.count, as_bytes(rest.bytes)});
}

CUOTA_INLINE std::string leak_summary::line_of(tag name, source_location where, std::size_t bytes) {
    group one;
    one.name = name;
    one.where = where;
    one.count = 1;
    one.bytes = one.each = bytes;
    return line(one);
}

CUOTA_INLINE std::string leak_summary::line(group const& g) {
    std::string text = g.name.is_empty() ? "untagged" : g.name.text();
    text += ' ';
    if (g.count > 1 && g.each != 0) append_message(text, "{} x ", {g.count});
    text += bytes_text(g.each != 0 ? g.each : g.bytes);
    if (g.each == 0) append_message(text, " in {} allocations", {g.count});
    std::string notes = source_location_text(g.where);
    if (std::string const age = age_text(g); !age.empty()) notes += (notes.empty() ? "" : ", ") + age;
    return notes.empty() ? text : text + " (" + notes + ')';
}

CUOTA_INLINE std::string leak_summary::age_text(group const& g) {
    if (g.oldest == 0) return {};
    return (g.count > 1 ? "oldest " : "") + std::to_string(g.oldest) +
           (g.oldest == 1 ? " step ago" : " steps ago");
}

}  // namespace cuota::inline v0::detail

#endif
