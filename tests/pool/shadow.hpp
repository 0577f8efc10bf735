// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Model of a pool, kept by the pool's user and its upstreams, for tests that walk through a pool at random.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/label.hpp>
#include <cuota/pool/lifetime_hint.hpp>
#include <cuota/pool/pool_stats.hpp>

namespace pool_tests {

/// Live blocks, segments and mapped pages by address. wrong() returns the first claim that did not hold. Once a failed unmapping has left
/// pages that the pool may be unable to use, claims about free memory are not checked (is_exact). Threads: any.
class shadow {
public:
    static constexpr std::size_t granularity = 256;

    // --- called by the pool's user: after an allocation, before a deallocation ---

    void took(void const* p, std::size_t bytes, cuota::tag name = {},
              cuota::lifetime_hint lifetime = cuota::lifetime_hint::scratch) {
        std::scoped_lock const lock{guard_};
        std::uintptr_t const at = address(p);
        std::uintptr_t const end = at + cuota::round_up(bytes, granularity);
        claim(at % granularity == 0, "a block is aligned");
        claim(covers(segments_, at, end) || covers(mapped_, at, end),
              "a block lies in a segment or in mapped pages");
        auto const after = live_.lower_bound(at);
        claim(after == live_.end() || end <= after->first, "a block ends before the next live one");
        claim(after == live_.begin() || end_of(*std::prev(after)) <= at,
              "a block begins after the live one before it");
        claim_of_free(came_ == 0 || !gone_.empty() || came_ == least_,
                      "a pool maps no more than a request lacks");
        fresh_.clear();
        live_.emplace(at, block{end - at, bytes, name, lifetime, steps_});
        requested_ += bytes;
        allocated_ += end - at;
        peak_requested_ = std::max(peak_requested_, requested_);
        peak_allocated_ = std::max(peak_allocated_, allocated_);
        peak_reserved_ = std::max(peak_reserved_, reserved_);
    }
    /// Called after a failed operation: memory that it reserved and the pool keeps counts for the peak.
    void failed() {
        std::scoped_lock const lock{guard_};
        peak_reserved_ = std::max(peak_reserved_, reserved_);
        fresh_.clear();
    }
    void gives(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        claim(live_.erase(address(p)) == 1, "what is given back was live");
        requested_ -= bytes;
        allocated_ -= cuota::round_up(bytes, granularity);
    }
    /// Sets the bytes of the next request; 0 if unknown. For tests with one thread.
    void wants(std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        wanted_ = bytes;
        came_ = 0;
        gone_.clear();
        fresh_.clear();
    }
    /// Checks a refusal for lack of memory, by a pool that may reserve `limit` bytes from upstreams that have them.
    void refused(std::size_t bytes, std::size_t limit) {
        std::scoped_lock const lock{guard_};
        if (!is_exact_) return;
        std::size_t const size = cuota::round_up(bytes, granularity);
        std::size_t const in_use = reserved_ - idle();
        claim(largest_gap() < bytes, "what fits a gap is not refused");
        claim(in_use + size > limit, "what fits beside what is in use is not refused");
        auto const pages = least_pages(size, pages_counted::missing_and_idle);
        claim(!pages || in_use + *pages > limit, "what free pages and others to be had hold is not refused");
    }
    /// Returns the least and the most bytes that trim(keep) may release, if the pool has pages only. The two agree to the page if each
    /// mapping is one page.
    [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> to_trim(std::size_t keep) const {
        std::scoped_lock const lock{guard_};
        if (page_ == 0 || !segments_.empty() || !is_exact_) return std::nullopt;
        std::size_t largest = 0;
        for (auto const& [at, bytes] : mappings_) largest = std::max(largest, bytes);
        std::size_t const wanted = reserved_ - std::min(reserved_, keep);
        return std::pair{std::min(idle(), cuota::round_up(wanted, page_)),
                         std::min(idle(), wanted == 0 ? 0 : wanted - 1 + largest)};
    }
    void trimmed(std::size_t keep) {
        std::scoped_lock const lock{guard_};
        claim_of_free(reserved_ <= keep || idle() == 0,
                      "a trim releases all idle memory above the kept bytes");
    }

    void step_begins() {
        std::scoped_lock const lock{guard_};
        ++steps_;
        is_in_step_ = true;
    }
    void step_ends() {
        std::scoped_lock const lock{guard_};
        is_in_step_ = false;
    }
    /// Returns true if the block was allocated for the step that is open.
    [[nodiscard]] bool is_for_the_step(void const* p) const {
        std::scoped_lock const lock{guard_};
        auto const found = live_.find(address(p));
        return found != live_.end() && is_for_the_step(found->second);
    }
    [[nodiscard]] std::map<std::string, std::vector<std::size_t>> meant_for_the_step() const {
        std::scoped_lock const lock{guard_};
        std::map<std::string, std::vector<std::size_t>> all;
        for (auto const& [at, b] : live_)
            if (is_for_the_step(b)) all[b.name.text()].push_back(b.requested);
        return all;
    }

    // --- called by its upstreams ---

    void segment_comes(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        claim_of_free(wanted_ == 0 || largest_gap() < wanted_,
                      "a pool allocates a segment only when nothing fits");
        segments_.emplace(address(p), bytes);
        reserved_ += bytes;
        peak_reserved_ = std::max(peak_reserved_, reserved_);
    }
    void segment_goes(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        auto const segment = segments_.find(address(p));
        claim(segment != segments_.end() && segment->second == bytes, "a segment goes back as it came");
        claim(!any_live(address(p), address(p) + bytes), "nothing is live in a segment that goes");
        segments_.erase(address(p));
        reserved_ -= bytes;
    }
    void segment_is_lost(void* p) {
        std::scoped_lock const lock{guard_};
        lost_.push_back(p);
    }
    [[nodiscard]] std::vector<void*> take_lost() {
        std::scoped_lock const lock{guard_};
        return std::exchange(lost_, {});
    }

    /// Sets the range of the pages. Its last page is never mapped, so that unmapped addresses follow all others.
    void has_range(void const* p, std::size_t bytes, std::size_t page) {
        std::scoped_lock const lock{guard_};
        range_at_ = address(p);
        range_end_ = range_at_ + bytes - page;
        page_ = page;
    }
    void pages_come(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        std::uintptr_t const at = address(p);
        claim(at % page_ == 0 && bytes % page_ == 0 && at >= range_at_ && at + bytes <= range_end_,
              "what is mapped are pages of the range");
        claim(!overlaps(mapped_, at, at + bytes), "no page is mapped twice");
        if (wanted_ != 0 && came_ == 0 && !gone_.contains(at)) {  // else a mapping is divided
            claim_of_free(largest_gap() < wanted_, "a pool maps pages only when nothing fits");
            least_ = least_pages(cuota::round_up(wanted_, granularity), pages_counted::missing).value_or(0);
        }
        if (wanted_ != 0) came_ += bytes;
        insert(mapped_, at, bytes);
        mappings_.emplace(at, bytes);
        for (std::size_t i = 0; i < bytes; i += page_) fresh_.insert(at + i);
        reserved_ += bytes;  // the peak counts only if a block uses it, as the growth may fail
    }
    void pages_go(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        std::uintptr_t const at = address(p);
        claim(at % page_ == 0 && bytes % page_ == 0, "what is unmapped are pages");
        claim(covers(mapped_, at, at + bytes), "what is unmapped was mapped");
        claim(!any_live(at, at + bytes), "nothing is live in pages that go");
        if (wanted_ != 0)
            for (std::size_t i = 0; i < bytes; i += page_) gone_.insert(at + i);
        erase(mapped_, at, bytes);
        std::uintptr_t gone = at;
        for (auto m = mappings_.find(at); m != mappings_.end() && m->first == gone && gone < at + bytes;) {
            gone += m->second;
            m = mappings_.erase(m);
        }
        claim(gone == at + bytes, "what is unmapped are whole mappings");
        reserved_ -= bytes;
    }
    /// These pages could not be unmapped. If they were mapped for the request in progress, the pool may have been restoring the state
    /// before it: it cannot use them then (block_index::undo_window).
    void pages_stay(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        for (std::size_t i = 0; i < bytes; i += page_)
            is_exact_ = is_exact_ && !fresh_.contains(address(p) + i);
    }

    // --- results ---

    /// Returns the statistics of a pool that merges all adjacent free memory. Cache hits and waits are not counted.
    [[nodiscard]] cuota::pool_stats expected() const {
        std::scoped_lock const lock{guard_};
        cuota::pool_stats s;
        s.requested = requested_;
        s.allocated = allocated_;
        s.reserved = reserved_;
        s.peak_requested = peak_requested_;
        s.peak_allocated = peak_allocated_;
        s.peak_reserved = peak_reserved_;
        s.live_blocks = live_.size();
        for_each_gap([&](std::size_t, std::size_t) { ++s.free_blocks; });
        s.largest_free = largest_gap();
        s.segments = segments_.size() + mapped_.size();
        return s;
    }
    [[nodiscard]] std::map<std::string, cuota::tag_stats> by_tag() const {
        std::scoped_lock const lock{guard_};
        std::map<std::string, cuota::tag_stats> all;
        for (auto const& [at, b] : live_) {
            cuota::tag_stats& t = all[b.name.text()];
            ++t.live_blocks;
            t.requested += b.requested;
            t.allocated += b.size;
            t.oldest = std::max(t.oldest, steps_ - b.step);
        }
        return all;
    }
    [[nodiscard]] std::size_t allocated() const {
        std::scoped_lock const lock{guard_};
        return allocated_;
    }
    /// Returns false once pages may be mapped that the pool cannot use.
    [[nodiscard]] bool is_exact() const {
        std::scoped_lock const lock{guard_};
        return is_exact_;
    }
    [[nodiscard]] std::size_t reserved() const {
        std::scoped_lock const lock{guard_};
        return reserved_;
    }
    [[nodiscard]] std::string wrong() const {
        std::scoped_lock const lock{guard_};
        return wrong_;
    }

private:
    struct block {
        std::size_t size;
        std::size_t requested;
        cuota::tag name;
        cuota::lifetime_hint lifetime;
        std::size_t step;  // number of steps begun before it
    };
    using runs = std::map<std::uintptr_t, std::size_t>;  // bytes by first address

    [[nodiscard]] static std::uintptr_t address(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }
    [[nodiscard]] static std::uintptr_t end_of(std::pair<std::uintptr_t const, block> const& b) {
        return b.first + b.second.size;
    }
    [[nodiscard]] static std::uintptr_t end_of(runs::value_type const& r) { return r.first + r.second; }

    [[nodiscard]] bool is_for_the_step(block const& b) const {
        return is_in_step_ && b.lifetime == cuota::lifetime_hint::step && b.step == steps_;
    }
    void claim(bool holds, char const* what) {
        if (!holds && wrong_.empty()) wrong_ = what;
    }
    void claim_of_free(bool holds, char const* what) { claim(holds || !is_exact_, what); }

    [[nodiscard]] static bool covers(runs const& all, std::uintptr_t at, std::uintptr_t end) {
        auto const after = all.upper_bound(at);
        return after != all.begin() && end <= end_of(*std::prev(after));
    }
    template <class Map>
    [[nodiscard]] static bool overlaps(Map const& all, std::uintptr_t at, std::uintptr_t end) {
        auto const after = all.lower_bound(end);
        return after != all.begin() && end_of(*std::prev(after)) > at;
    }
    [[nodiscard]] bool any_live(std::uintptr_t at, std::uintptr_t end) const {
        return overlaps(live_, at, end);
    }
    // Adjacent runs are merged.
    static void insert(runs& all, std::uintptr_t at, std::size_t bytes) {
        auto after = all.lower_bound(at);
        if (after != all.end() && after->first == at + bytes) {
            bytes += after->second;
            after = all.erase(after);
        }
        if (after != all.begin() && end_of(*std::prev(after)) == at) std::prev(after)->second += bytes;
        else all.emplace(at, bytes);
    }
    static void erase(runs& all, std::uintptr_t at, std::size_t bytes) {
        auto const after = all.upper_bound(at);
        if (after == all.begin()) return;
        auto const run = std::prev(after);
        auto const [from, size] = *run;
        all.erase(run);
        if (from < at) all.emplace(from, at - from);
        if (from + size > at + bytes) all.emplace(at + bytes, from + size - at - bytes);
    }

    // Calls visit(from, to) for each span between live blocks in [from, to).
    template <class Visit>
    void for_each_span(std::uintptr_t at, std::uintptr_t end, Visit visit) const {
        for (auto b = live_.lower_bound(at); b != live_.end() && b->first < end; ++b) {
            if (b->first > at) visit(at, b->first);
            at = end_of(*b);
        }
        if (at < end) visit(at, end);
    }
    // Calls visit(bytes, idle) for each gap; `idle` bytes of it can be released.
    template <class Visit>
    void for_each_gap(Visit visit) const {
        for (auto const& s : segments_)
            for_each_span(s.first, end_of(s), [&](std::uintptr_t from, std::uintptr_t to) {
                visit(to - from, to - from == s.second ? s.second : 0);
            });
        for (auto const& run : mapped_)
            for_each_span(run.first, end_of(run), [&](std::uintptr_t from, std::uintptr_t to) {
                std::size_t whole = 0;
                for (auto m = mappings_.lower_bound(from); m != mappings_.end() && end_of(*m) <= to; ++m)
                    whole += m->second;
                visit(to - from, whole);
            });
    }
    [[nodiscard]] std::size_t largest_gap() const {
        std::size_t largest = 0;
        for_each_gap([&](std::size_t gap, std::size_t) { largest = std::max(largest, gap); });
        return largest;
    }
    [[nodiscard]] std::size_t idle() const {
        std::size_t all = 0;
        for_each_gap([&](std::size_t, std::size_t whole) { all += whole; });
        return all;
    }

    [[nodiscard]] runs::const_iterator mapping_of(std::uintptr_t page) const {
        auto const after = mappings_.upper_bound(page);
        if (after == mappings_.begin() || end_of(*std::prev(after)) <= page) return mappings_.end();
        return std::prev(after);
    }

    enum class pages_counted { missing, missing_and_idle };
    /// Returns the lowest cost of a free run of `size` addresses in the range, or nothing if none exists. Tries each run that begins or
    /// ends at a page boundary or next to a live block. A mapping that could be released costs all its bytes.
    [[nodiscard]] std::optional<std::size_t> least_pages(std::size_t size, pages_counted what) const {
        std::optional<std::size_t> least;
        if (page_ == 0) return least;
        for_each_span(range_at_, range_end_, [&](std::uintptr_t from, std::uintptr_t to) {
            if (to - from < size) return;
            auto const consider = [&](std::uintptr_t at) {
                if (at < from || at + size > to) return;
                std::size_t cost = 0;
                for (auto p = cuota::round_down(at, page_); p < at + size;) {
                    auto const m = mapping_of(p);
                    bool const is_idle = m != mappings_.end() && m->first >= from && end_of(*m) <= to;
                    if (m == mappings_.end()) cost += page_;
                    else if (is_idle && what == pages_counted::missing_and_idle) cost += m->second;
                    p = m == mappings_.end() ? p + page_ : end_of(*m);
                }
                least = std::min(least.value_or(cost), cost);
            };
            consider(from);
            consider(to - size);
            for (auto edge = cuota::round_up(from, page_); edge <= to; edge += page_) {
                consider(edge);
                if (edge - from >= size) consider(edge - size);
            }
        });
        return least;
    }

    mutable std::mutex guard_;
    std::map<std::uintptr_t, block> live_;
    runs segments_;
    runs mapped_;
    runs mappings_;
    std::set<std::uintptr_t> fresh_;  // pages mapped for the request in progress
    bool is_exact_ = true;
    std::uintptr_t range_at_ = 0;
    std::uintptr_t range_end_ = 0;
    std::size_t page_ = 0;
    std::size_t requested_ = 0;
    std::size_t allocated_ = 0;
    std::size_t reserved_ = 0;
    std::size_t peak_requested_ = 0;
    std::size_t peak_allocated_ = 0;
    std::size_t peak_reserved_ = 0;
    std::size_t steps_ = 0;  // begun
    bool is_in_step_ = false;
    std::size_t wanted_ = 0;
    std::size_t came_ = 0;           // bytes mapped for the request
    std::set<std::uintptr_t> gone_;  // pages unmapped for it
    std::size_t least_ = 0;          // bytes that had to be mapped
    std::vector<void*> lost_;
    std::string wrong_;
};

}  // namespace pool_tests
