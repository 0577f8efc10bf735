// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reports of tracked memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/leak_summary.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// A block of tracked memory.
///
/// Blocks allocated before a query of the resource have smaller numbers than later ones. Between queries threads number independently, and
/// an age is about the number of allocations of the busiest thread.
struct tracked_block {
    void const* at = nullptr;             ///< its first byte
    std::size_t bytes = 0;                ///< as requested
    tag name{};                           ///< empty: untagged
    source_location where{};              ///< call site
    std::optional<std::uint64_t> stream;  ///< `id()` of its stream; empty: allocated synchronously
    std::uint64_t number = 0;             ///< in the order of allocations, from 1
    std::uint64_t age = 0;                ///< allocations made since
};

/// The blocks of one tag.
struct tracked_tag {
    tag name{};                ///< empty: untagged
    std::size_t blocks = 0;    ///< number of blocks
    std::size_t bytes = 0;     ///< total as requested
    std::uint64_t oldest = 0;  ///< age of its oldest block
};

/// Order of the blocks in a report.
enum class tracked_order {
    oldest,   ///< ascending by number
    largest,  ///< descending by bytes, then by age
};

/// Blocks of tracked memory and their totals. Example: tests/guard/tracked_report.cpp
struct tracked_report {
    std::vector<tracked_block> blocks;  ///< in the requested order
    std::vector<tracked_tag> tags;      ///< most bytes first
    std::size_t bytes = 0;              ///< as requested

    [[nodiscard]] bool is_empty() const noexcept { return blocks.empty(); }     ///< no blocks
    [[nodiscard]] std::size_t count() const noexcept { return blocks.size(); }  ///< number of blocks

    /// Returns "2 blocks of 5.0 KiB", and a line per tag and block. Throws: std::bad_alloc.
    [[nodiscard]] std::string text() const;
};

/// Changes since a snapshot.
struct tracked_diff {
    tracked_report allocated{};  ///< allocated since and live
    tracked_report freed{};      ///< freed since; ages as of the snapshot

    /// Returns whether both are empty.
    [[nodiscard]] bool is_empty() const noexcept { return allocated.is_empty() && freed.is_empty(); }
    /// Returns both reports. Throws: std::bad_alloc.
    [[nodiscard]] std::string text() const;
};

namespace detail {

/// Throws: std::bad_alloc.
[[nodiscard]] tracked_report report_of(std::vector<tracked_block> blocks, tracked_order first);

[[nodiscard]] std::string blocks_text(std::size_t count, std::size_t bytes);
[[nodiscard]] std::string ago_text(std::uint64_t age);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <map>

namespace cuota::inline v0 {

CUOTA_INLINE std::string tracked_diff::text() const {
    return detail::message("allocated since: {}\nfreed since: {}", {allocated.text(), freed.text()});
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE tracked_report report_of(std::vector<tracked_block> blocks, tracked_order first) {
    tracked_report r;
    std::map<std::string_view, tracked_tag> by_tag;
    for (tracked_block const& b : blocks) {
        tracked_tag& t = by_tag[b.name.text()];
        t.name = b.name;
        ++t.blocks;
        t.bytes += b.bytes;
        t.oldest = std::max(t.oldest, b.age);
        r.bytes += b.bytes;
    }
    for (auto const& [name, t] : by_tag) r.tags.push_back(t);
    std::sort(r.tags.begin(), r.tags.end(), [](tracked_tag const& a, tracked_tag const& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes
                                  : std::string_view{a.name.text()} < std::string_view{b.name.text()};
    });
    std::sort(blocks.begin(), blocks.end(), [first](tracked_block const& a, tracked_block const& b) {
        if (first == tracked_order::largest && a.bytes != b.bytes) return a.bytes > b.bytes;
        return a.number < b.number;
    });
    r.blocks = std::move(blocks);
    return r;
}

CUOTA_INLINE std::string blocks_text(std::size_t count, std::size_t bytes) {
    return count_text(count) + (count == 1 ? " block of " : " blocks of ") + bytes_text(bytes);
}

CUOTA_INLINE std::string ago_text(std::uint64_t age) {
    return count_text(age) + (age == 1 ? " allocation ago" : " allocations ago");
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string tracked_report::text() const {
    constexpr std::size_t shown = 16;
    std::string text = detail::blocks_text(blocks.size(), bytes);
    auto const rest = [&](std::size_t all, char const* what) {
        if (all > shown)
            detail::append_message(text, "\n  and {} more {}", {detail::as_count(all - shown), what});
    };
    for (std::size_t i = 0; tags.size() > 1 && i != std::min(tags.size(), shown); ++i) {
        tracked_tag const& t = tags[i];
        detail::append_message(
            text, "\n  {}{}",
            {detail::padded(detail::shown(t.name.is_empty() ? "untagged" : t.name.text(), 38), 40),
             detail::blocks_text(t.blocks, t.bytes)});
    }
    rest(tags.size(), "tags");
    for (std::size_t i = 0; i != std::min(blocks.size(), shown); ++i) {
        tracked_block const& b = blocks[i];
        text +=
            "\n  " + detail::leak_summary::line_of(b.name, b.where, b.bytes) + ", " + detail::ago_text(b.age);
        if (b.stream) detail::append_message(text, ", on stream {}", {*b.stream});
    }
    rest(blocks.size(), "blocks");
    return text;
}

}  // namespace cuota::inline v0

#endif
