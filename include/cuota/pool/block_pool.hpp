// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of a pool, for any number of threads and streams: who has which, and what must be over before another
/// may. Knows nothing of where segments come from, or of who pays for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/guard/ledger.hpp>
#include <cuota/pool/block_choice.hpp>
#include <cuota/pool/block_index.hpp>
#include <cuota/pool/front.hpp>
#include <cuota/pool/live_report.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/pool/stream_order.hpp>

namespace cuota::inline v0::detail {

/// A run of bytes as a source gave it, and as it was charged.
struct segment {
    void* at;
    std::size_t bytes;
};

/// Blocks under one lock, but for the small ones that a thread takes again as it gave them back (front.hpp). Whoever
/// asks what there is, or needs what others hold ready, calls that in first: all figures are exact.
class block_pool {
public:
    explicit block_pool(tag name) : name_{name} {}
    block_pool(block_pool const&) = delete;
    block_pool& operator=(block_pool const&) = delete;

    // --- blocks; a null stream stands for the host, which waits for itself ---

    /// `bytes` of what is there, at least 1, in order of s; null when nothing fits. Throws: misuse after close(),
    /// cuda_error, std::bad_alloc; nothing is taken then.
    [[nodiscard]] void* try_take(stream_ref const* s, std::size_t bytes, label const& who,
                                 lifespan meant = lifespan::scratch) {
        if (void* const p = s ? take_ready(*s, bytes, who, meant) : nullptr) return p;
        return take_by_lock(s, bytes, who, meant);
    }

    /// Enters a segment, and takes `bytes` of it. Throws: std::bad_alloc, and the segment is not entered.
    [[nodiscard]] void* take_of_new(segment const& fresh, stream_ref const* s, std::size_t bytes,
                                    label const& who, lifespan meant = lifespan::scratch) {
        std::size_t const size = round_up(bytes, block::granule);
        std::scoped_lock const lock{guard_};
        make_peak_known(size);
        block& whole = enter(fresh);
        try {
            return count(take(whole, size, bytes, who, meant), s);
        } catch (...) {
            forget(whole);
            throw;
        }
    }
    /// Enters a segment. Throws: std::bad_alloc; unchanged then.
    void add(segment const& fresh) {
        std::scoped_lock const lock{guard_};
        (void)enter(fresh);
    }

    /// Back in order of s. What cannot be right goes to the error sink, and changes nothing. True when the pool is
    /// closed: a segment may have become free for good.
    [[nodiscard]] bool give(stream_ref const* s, void* p, std::size_t bytes) noexcept {
        if (!p || (s && put_ready(*s, p, bytes))) return false;
        std::exception_ptr unordered;
        bool closed = false;
        report_failure_of([&] {
            std::scoped_lock const lock{guard_};
            block& b = claim(p, bytes);
            if (!s) put_away(b, {});
            else unordered = put_in_order(b, *s);
            closed = closed_;
        });
        if (unordered) report_failure_of([&] { std::rethrow_exception(unordered); });
        return closed;
    }

    // --- segments ---

    /// Forgets the wholly free segment that serves best to come down to `keep` bytes, once nothing uses it any more;
    /// nothing when there is none, or no need. Which one: the smallest that covers the surplus, else the largest there
    /// is; never more than is asked for, if a smaller one will do. Throws: cuda_error; unchanged then.
    [[nodiscard]] std::optional<segment> take_out(std::size_t keep) {
        auto const lock = lock_all();
        if (stats_.reserved <= keep) return std::nullopt;
        std::size_t const surplus = stats_.reserved - keep;
        block* chosen = nullptr;
        blocks_.for_each_free([&](block& b) {
            if (b.is_whole_segment() && (!chosen || chosen->size < surplus)) chosen = &b;
        });
        if (!chosen) return std::nullopt;
        wait_on_host(*chosen);
        segment const gone{chosen->at, chosen->size};
        forget(*chosen);
        return gone;
    }
    /// What taking out would give, to give back `wanted` bytes.
    [[nodiscard]] std::size_t could_take_out(std::size_t wanted) const noexcept {
        auto const lock = lock_all();
        std::size_t given = 0;
        // The largest segments while one does not do, then the smallest that does.
        blocks_.for_each_free_from_largest([&](block const& b) {
            if (given >= wanted) return false;
            if (!b.is_whole_segment()) return true;
            if (b.size < wanted - given) {
                given += b.size;
                return true;
            }
            blocks_.for_each_fit(wanted - given, [&](block const& fit) {
                if (fit.is_whole_segment()) given += fit.size;
                return !fit.is_whole_segment();
            });
            return false;
        });
        return given;
    }
    /// Waits on the host for what may still use what was given back; what cannot be waited for is reported.
    void wait_for_freed() noexcept {
        auto const lock = lock_all();
        blocks_.for_each_free([&](block const& b) {
            b.waits.for_each(
                [&](wait_point point) { report_failure_of([&] { order_.wait_on_host(point); }); });
        });
    }
    /// All segments, whoever uses them. At the end.
    template <class Visit>
    void for_each_segment(Visit visit) const {
        for (segment const& s : segments_) visit(s);
    }

    /// Nothing can be taken any more.
    void close() noexcept {
        auto const lock = lock_all();
        fronts_.end();
        closed_ = true;
    }

    // --- what there is ---

    [[nodiscard]] pool_stats stats() const noexcept {
        auto const lock = lock_all();
        pool_stats now = stats_;
        budget_facts const asked = requested_->now();
        now.active = stats_.allocated + bytes_in_flight(blocks_, order_);
        now.peak_active = stats_.peak_active =
            std::max({stats_.peak_active, stats_.peak_allocated, now.active});
        now.requested = asked.held;
        now.peak_requested = asked.peak;
        now.live_blocks = blocks_.live_blocks();
        now.free_blocks = blocks_.free_blocks();
        now.largest_free = blocks_.largest_free();
        now.segments = segments_.size();
        now.taken_again = fronts_.taken();
        now.stream_waits = order_.waits();
        return now;
    }
    [[nodiscard]] std::size_t largest_free() const noexcept {
        auto const lock = lock_all();
        return blocks_.largest_free();
    }
    [[nodiscard]] std::size_t reserved() const noexcept {
        std::scoped_lock const lock{guard_};
        return stats_.reserved;
    }

    /// Appends what is live, one entry for each tag and place, and what is free.
    void holdings(std::vector<holding>& into) const {
        auto const lock = lock_all();
        append_holdings(blocks_, into);
        if (std::size_t const cached = stats_.reserved - stats_.allocated; cached != 0)
            into.push_back({tag::named("free in " + title()), {}, cached, true});
    }

    /// Throws: std::bad_alloc.
    [[nodiscard]] std::vector<tag_stats> stats_by_tag() const {
        auto const lock = lock_all();
        return detail::stats_by_tag(blocks_, steps_.now());
    }

    /// What is alive, in words; empty when nothing is. Throws: std::bad_alloc.
    [[nodiscard]] std::string survivors() const {
        auto const lock = lock_all();
        return survivors_of(blocks_, steps_.now(), [](block const&) { return true; }).text();
    }

    /// Throws: misuse when a step is open.
    void begin_step(place where) {
        std::scoped_lock const lock{guard_};
        if (steps_.is_open())
            throw misuse{title() + " was to begin a step before the one that is open has ended", where};
        (void)steps_.go_on();
    }
    /// Returns what was taken for the step and is still alive, in words. Throws: std::bad_alloc; ended all the same.
    [[nodiscard]] std::string end_step() {
        auto const lock = lock_all();
        step_time const now = steps_.go_on();
        birth const in_it{now, lifespan::step};
        return survivors_of(blocks_, now, [&](block const& b) { return b.born == in_it; }).text();
    }

    [[nodiscard]] std::string title() const {
        return name_.is_empty() ? "a pool" : "pool " + std::string{name_.text()};
    }

private:
    // --- without the lock: what this thread holds ready ---

    [[nodiscard]] void* take_ready(stream_ref s, std::size_t bytes, label const& who,
                                   lifespan meant) noexcept {
        thread_record* const me = this_thread();
        if (!me || bytes > front::largest || !s.is_owned()) return nullptr;
        if (meant == lifespan::persistent || is_out_of_step(meant)) return nullptr;
        block* const b = fronts_.of(*me).try_take(*me, s.id(), round_up(bytes, block::granule));
        if (!b) return nullptr;
        (void)requested_->try_charge(bytes);  // it has no limit
        b->requested = bytes;
        b->name = who.name;
        b->where = who.where;
        b->born = {steps_.now(), meant};
        b->become(block::state::live);
        return b->at;
    }
    [[nodiscard]] bool put_ready(stream_ref s, void* p, std::size_t bytes) noexcept {
        thread_record* const me = this_thread();
        if (!me || bytes > front::largest || !s.is_owned()) return false;
        if (!fronts_.of(*me).try_put(*me, p, s.id(), bytes)) return false;
        (void)requested_->try_refund(bytes);
        return true;
    }

    [[nodiscard, gnu::noinline]] void* take_by_lock(stream_ref const* s, std::size_t bytes, label const& who,
                                                    lifespan meant) {
        std::size_t const size = round_up(bytes, block::granule);
        std::scoped_lock const lock{guard_};
        if (is_out_of_step(meant))
            throw misuse{title() + " was asked for memory of a step while none is open", who.where};
        if (closed_) throw misuse{title() + " was asked for memory after its end", who.where};
        make_peak_known(size);
        block* b = find(size, s, meant);
        if (!b) {
            collect();
            b = find(size, s, meant);
        }
        if (!b) return nullptr;
        order_before_use(*b, s);
        return count(take(*b, size, bytes, who, meant), s);
    }

    [[nodiscard]] bool is_out_of_step(lifespan meant) const noexcept {
        return meant == lifespan::step && !steps_.is_open();
    }

    // --- all that follows under the lock ---

    [[nodiscard]] block* find(std::size_t size, stream_ref const* s, lifespan meant) {
        if (meant == lifespan::persistent) return choose_block_to_keep(blocks_, size);
        std::uint32_t const own = s ? lane_of(*s) : stream_order::nobody;
        return choose_block(blocks_, order_, size, own, slack_for(stats_.allocated + size, stats_.reserved));
    }
    // What a step takes comes from the other end than what stays, so that it leaves one hole behind.
    [[nodiscard]] block& take(block& b, std::size_t size, std::size_t bytes, label const& who,
                              lifespan meant) {
        auto const from = meant == lifespan::step ? block_index::end::high : block_index::end::low;
        return blocks_.take(b, size, bytes, who, {steps_.now(), meant}, from);
    }
    void order_before_use(block const& b, stream_ref const* s) {
        if (!s) return wait_on_host(b);
        std::uint32_t const lane = lane_of(*s);
        b.waits.for_each([&](wait_point point) {
            if (!order_.is_ready(point, lane)) order_.wait(*s, lane, point);
        });
    }
    void wait_on_host(block const& b) {
        b.waits.for_each([&](wait_point point) { order_.wait_on_host(point); });
    }

    // What is held ready counts as allocated, and is no part of a peak.
    void make_peak_known(std::size_t size) noexcept {
        if (stats_.allocated + size > stats_.peak_allocated) collect();
    }
    void* count(block& b, stream_ref const* s) noexcept {
        (void)requested_->try_charge(b.requested);  // it has no limit
        stats_.allocated += b.size;
        stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
        if (s && may_be_ready(b, *s)) expect_back(b, *s);
        return b.at;
    }

    // The live block of that many bytes at p, held now: by no other thread, live or ready.
    [[nodiscard]] block& claim(void* p, std::size_t bytes) {
        block* const b = blocks_.find_live(p);
        if (!b || !b->claim(p))
            throw misuse{
                title() +
                ": a pointer was given back that is not alive here (given back twice, or another's)"};
        if (b->requested != bytes) {
            misuse const wrong{title() + ": " + bytes_text(bytes) + " were given back of " + describe(*b),
                               b->where};
            b->become(block::state::live);
            throw wrong;
        }
        (void)requested_->try_refund(bytes);
        return *b;
    }

    // Makes a held block free in order of s, or keeps it ready. Returns what went wrong when s cannot be entered: then
    // there is nothing to remember it by, and it has been waited for.
    [[nodiscard]] std::exception_ptr put_in_order(block& b, stream_ref s) noexcept {
        try {
            std::uint32_t const lane = lane_of(s);
            if (!keep_ready(b, s, lane)) put_away(b, wait_set{order_.release_on(lane)});
            return nullptr;
        } catch (...) {
            rt::drain(s);
            put_away(b, {});
            return std::current_exception();
        }
    }

    // --- what threads hold ready ---

    // What is held ready is not merged, and others may have to go around it: it must be little of the whole.
    [[nodiscard]] bool may_be_ready(block const& b, stream_ref s) const noexcept {
        return s.is_owned() && b.size <= std::min(front::largest, stats_.reserved / 2048);
    }
    // A block that this thread will perhaps give back to its front.
    void expect_back(block& b, stream_ref s) noexcept {
        auto const lane = order_.find(s);
        if (!lane) return;
        b.stream = s.id();
        b.lane = *lane;
        if (thread_record* const me = this_thread(); me && fronts_.of(*me).is_of(*me))
            fronts_.of(*me).remember(b);
    }
    // Keeps a held block for this thread, which gave it back in order of s. False when it cannot.
    [[nodiscard]] bool keep_ready(block& b, stream_ref s, std::uint32_t lane) noexcept {
        thread_record* const me = this_thread();
        front* const mine = me && may_be_ready(b, s) ? fronts_.open_for(*me) : nullptr;
        if (!mine) return false;
        b.stream = s.id();
        b.lane = lane;
        return mine->put(b, [this](block& other) { put_away_ready(other); });
    }
    // It was given back some time ago in order of its stream: what is enqueued there by now is more than it waits for.
    void put_away_ready(block& b) const noexcept { put_away(b, wait_set{order_.release_on_owned(b.lane)}); }
    void put_away(block& b, wait_set waits) const noexcept {
        stats_.allocated -= b.size;
        blocks_.release(b, std::move(waits));
    }
    void collect() const noexcept {
        fronts_.collect([this](block& b) { put_away_ready(b); });
    }
    // The lock, with nothing held ready by anybody: every block is free, or somebody's.
    [[nodiscard]] std::unique_lock<std::mutex> lock_all() const noexcept {
        std::unique_lock lock{guard_};
        collect();
        return lock;
    }
    // What is held ready names lanes, which may become others' when a new stream comes.
    [[nodiscard]] std::uint32_t lane_of(stream_ref s) {
        if (auto const known = order_.find(s)) return *known;
        collect();
        return order_.index_of(s);
    }

    // --- segments ---

    [[nodiscard]] block& enter(segment const& s) {
        segments_.reserve(segments_.size() + 1);
        block& whole = blocks_.add_segment(s.at, s.bytes);
        segments_.push_back(s);
        stats_.reserved += s.bytes;
        stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
        return whole;
    }
    void forget(block& whole) noexcept {
        segments_.erase(std::ranges::find(segments_, static_cast<void*>(whole.at), &segment::at));
        stats_.reserved -= whole.size;
        blocks_.remove_segment(whole);
    }

    tag const name_;
    step_clock steps_;
    shared<ledger> const requested_ = shared<ledger>::make(std::string{}, unlimited, shared<ledger>{});

    // For all below. What is ready is collected also by who only looks: to him nothing has changed.
    mutable std::mutex guard_;
    mutable block_index blocks_;
    mutable fronts fronts_;
    mutable stream_order order_;
    mutable pool_stats stats_;
    std::vector<segment> segments_;
    bool closed_ = false;
};

}  // namespace cuota::inline v0::detail
