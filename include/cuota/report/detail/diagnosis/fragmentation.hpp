// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Finds the live blocks that fragment free memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/report/detail/diagnosis/finding_words.hpp>
#include <cuota/report/diagnosis/diagnosis_options.hpp>
#include <cuota/report/diagnosis/finding.hpp>
#include <cuota/report/snapshot/memory_snapshot.hpp>

namespace cuota::inline v0::detail::diagnosis {

// Pending blocks count, because they become free without the program.
[[nodiscard]] bool will_be_free(block_info const& b) noexcept;

/// Blocks [first, last) of a segment.
struct free_window {
    segment_info const* segment = nullptr;
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t free = 0;  ///< bytes of free blocks
    std::size_t live = 0;  ///< bytes of live blocks
    std::size_t blocks = 0;

    [[nodiscard]] std::size_t piece() const noexcept { return free + live; }
    [[nodiscard]] bool is_better_than(free_window const& other) const noexcept;
};

/// Finds the window with the most free bytes among those with live <= price * free.
///
/// Let v(block) = price * size for free and -size for live blocks: the windows are those with sum v >= 0. For each end, the best window
/// begins at the first border with a prefix sum of at most that of the end. Only borders with a prefix sum below all earlier ones qualify,
/// so binary search finds it in O(log n).
class window_search {
public:
    window_search(segment_info const& s, double price) : segment_{s}, price_{price} {}

    [[nodiscard]] std::optional<free_window> run();

private:
    struct border {
        double sum = 0;  // prefix sum of v
        std::size_t index = 0;
        std::size_t free = 0, live = 0, blocks = 0;  // totals before this border
    };

    void begin_again();
    void add_live(std::size_t size);
    void add_free(std::size_t i, std::size_t size);

    segment_info const& segment_;
    double const price_;
    border now_{};
    std::vector<border> begins_{};  // in descending order of sum
    std::optional<free_window> best_{};
};

/// Free memory in segments that are only released as a whole.
struct free_pieces {
    std::size_t stuck = 0;    ///< free bytes in segments with live blocks
    std::size_t largest = 0;  ///< the largest piece, with whole segments
    free_window best{};
    free_window fullest{};  ///< the segment with most of `stuck`

    explicit free_pieces(pool_info const& p, double price);

private:
    void add(segment_info const& s, double price);
    free_window measure(segment_info const& s);
};

/// Counts live blocks by tag and call site, the most first.
struct window_blocks {
    struct group {
        tag name{};
        source_location where{};
        std::size_t blocks = 0;
        std::size_t bytes = 0;
        std::size_t strayed = 0;  // scratch blocks that outlived their step
    };
    std::vector<group> groups{};

    explicit window_blocks(free_window const& w);
    [[nodiscard]] std::size_t strayed() const noexcept;

private:
    static auto key(group const& g) {
        return std::tuple{std::string_view{g.name.text()}, std::string_view{g.where.file}, g.where.line};
    }
    void merge();
};

// Formats "3 blocks, most of them of log (train.cpp:17),".
[[nodiscard]] std::string words_for(free_window const& w, window_blocks const& who);

/// Names the live blocks of the best window if it is at least twice the largest free piece; otherwise those of the segment with most free
/// bytes.
void find_fragmentation(pool_info const& p, diagnosis_options const& o, std::vector<finding>& to);

}  // namespace cuota::inline v0::detail::diagnosis

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE bool will_be_free(block_info const& b) noexcept {
    return b.use == block_use::free || b.use == block_use::pending;
}

CUOTA_INLINE bool free_window::is_better_than(free_window const& other) const noexcept {
    if (free != other.free) return free > other.free;
    return live != other.live ? live < other.live : blocks < other.blocks;
}

CUOTA_INLINE std::optional<free_window> window_search::run() {
    for (std::size_t i = 0; i != segment_.blocks.size(); ++i) {
        block_info const& b = segment_.blocks[i];
        if (b.use == block_use::releasing) begin_again();
        else if (will_be_free(b)) add_free(i, b.size);
        else add_live(b.size);
    }
    return best_;
}

CUOTA_INLINE void window_search::begin_again() {  // no window spans memory in transition
    begins_.clear();
    now_ = {};
}

CUOTA_INLINE void window_search::add_live(std::size_t size) {
    now_.sum -= static_cast<double>(size);
    now_.live += size;
    ++now_.blocks;
}

CUOTA_INLINE void window_search::add_free(std::size_t i, std::size_t size) {
    now_.index = i;
    if (begins_.empty() || now_.sum < begins_.back().sum) begins_.push_back(now_);
    now_.sum += price_ * static_cast<double>(size);
    now_.free += size;
    auto const begin =
        std::ranges::lower_bound(begins_, -now_.sum, {}, [](border const& b) { return -b.sum; });
    if (begin == begins_.end()) return;
    free_window const found{&segment_,
                            begin->index,
                            i + 1,
                            now_.free - begin->free,
                            now_.live - begin->live,
                            now_.blocks - begin->blocks};
    if (!best_ || found.is_better_than(*best_)) best_ = found;
}

CUOTA_INLINE free_pieces::free_pieces(pool_info const& p, double price) {
    for (segment_info const& s : p.segments)
        if (!s.is_paged) add(s, price);
        else measure(s);  // free pages are released individually
}

CUOTA_INLINE void free_pieces::add(segment_info const& s, double price) {
    free_window const all = measure(s);
    if (all.free == 0 || all.free == s.size) return;
    stuck += all.free;
    if (all.is_better_than(fullest)) fullest = all;
    if (auto const found = window_search{s, price}.run(); found && found->is_better_than(best)) best = *found;
}

CUOTA_INLINE free_window free_pieces::measure(segment_info const& s) {
    free_window all{&s, 0, 0, 0, 0, 0};
    std::size_t run = 0;
    std::size_t live = 0, blocks = 0;  // since the last free piece
    for (std::size_t i = 0; i != s.blocks.size(); ++i) {
        block_info const& b = s.blocks[i];
        if (!will_be_free(b)) {
            run = 0;
            if (b.use == block_use::live && all.free != 0) live += b.size, ++blocks;
            continue;
        }
        if (all.free == 0) all.first = i;
        all.last = i + 1;
        all.free += b.size;
        all.live += std::exchange(live, 0);
        all.blocks += std::exchange(blocks, 0);
        run += b.size;
        largest = std::max(largest, run);
    }
    return all;
}

CUOTA_INLINE window_blocks::window_blocks(free_window const& w) {
    for (std::size_t i = w.first; i != w.last; ++i)
        if (block_info const& b = w.segment->blocks[i]; b.use == block_use::live) {
            bool const strayed = b.lifetime == lifetime_hint::scratch && b.age != 0;
            groups.push_back({b.name, b.where, 1, b.size, strayed});
        }
    merge();
    sort_stably(groups, [](group const& a, group const& b) {
        return a.blocks != b.blocks ? a.blocks > b.blocks : a.bytes > b.bytes;
    });
}

CUOTA_INLINE std::size_t window_blocks::strayed() const noexcept {
    std::size_t count = 0;
    for (group const& g : groups) count += g.strayed;
    return count;
}

CUOTA_INLINE void window_blocks::merge() {
    sort_stably(groups, [](group const& a, group const& b) { return key(a) < key(b); });
    std::size_t kept = 0;
    for (std::size_t i = 1; i < groups.size(); ++i) {
        if (key(groups[i]) != key(groups[kept])) {
            groups[++kept] = groups[i];
            continue;
        }
        groups[kept].blocks += groups[i].blocks;
        groups[kept].bytes += groups[i].bytes;
        groups[kept].strayed += groups[i].strayed;
    }
    if (!groups.empty()) groups.resize(kept + 1);
}

CUOTA_INLINE std::string words_for(free_window const& w, window_blocks const& who) {
    window_blocks::group const& most = who.groups.front();
    return counted(w.blocks, "block") + (who.groups.size() == 1 ? " of " : ", most of them of ") +
           words_for(most.name, most.where) + ',';
}

CUOTA_INLINE void find_fragmentation(pool_info const& p, diagnosis_options const& o,
                                     std::vector<finding>& to) {
    free_pieces const free{p, o.fragmentation_max_cost};
    if (free.stuck < o.fragmentation_bytes) return;
    if (static_cast<double>(free.largest) > o.fragmentation_largest * static_cast<double>(free.stuck)) return;
    bool const is_cheap = free.best.blocks != 0 && free.best.piece() >= 2 * free.largest;
    free_window const& shown_one = is_cheap ? free.best : free.fullest;
    finding f{finding_kind::fragmentation, severity::warning};
    f.text = "fragmentation of " + words_for("pool", p.name) + ": " + bytes_text(free.stuck) +
             " are free, the largest piece is " + bytes_text(free.largest);
    if (shown_one.blocks != 0) {
        window_blocks const who{shown_one};
        f.name = who.groups.front().name;
        f.where = who.groups.front().where;
        f.text += is_cheap
                      ? "; without " + words_for(shown_one, who) + ' ' + bytes_text(shown_one.live) + ", " +
                            bytes_text(shown_one.piece()) + " would be contiguous"
                      : "; in one segment, " + words_for(shown_one, who) + ' ' + bytes_text(shown_one.live) +
                            ", separate " + bytes_text(shown_one.free) + " of free memory";
        if (who.strayed() * 2 > shown_one.blocks)
            f.text += "; they outlive their steps: allocate them from persistent()";
    }
    f.bytes = free.stuck;
    f.subject = p.name;
    f.reference_bytes = free.largest;
    f.count = shown_one.blocks;
    f.coalesced_bytes = is_cheap ? shown_one.piece() : 0;
    to.push_back(std::move(f));
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
