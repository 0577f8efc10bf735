// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of a pool, for any number of threads and streams: who has which, and what must be over before another
/// may. Knows nothing of where segments come from, or of who pays for them.
#pragma once

#include <algorithm>
#include <condition_variable>
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
#include <cuota/pool/grow_window.hpp>
#include <cuota/pool/idle_choice.hpp>
#include <cuota/pool/live_report.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/pool/stream_order.hpp>

namespace cuota::inline v0::detail {

/// A run of bytes as a source gave it, and as it was charged.
struct segment {
    void* at;
    std::size_t bytes;
    friend bool operator==(segment const&, segment const&) noexcept = default;
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
            stats_.reserved -= whole.size;
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

    /// Takes out what serves best to give back `surplus` bytes, none that are kept, once nothing uses it any more; nothing
    /// when there is none, or no need. Which: choose_idle. It counts as reserved until it is `gone`.
    /// Waits without the lock. Throws: cuda_error, std::bad_alloc; unchanged then.
    [[nodiscard]] std::optional<idle_memory> take_out(std::size_t surplus, kept_addresses const& kept = {}) {
        return take_out_of([surplus] { return surplus; }, kept);
    }
    /// As take_out, to come down to `keep` bytes.
    [[nodiscard]] std::optional<idle_memory> take_out_above(std::size_t keep) {
        return take_out_of(
            [&] {
                std::size_t const staying = stats_.reserved - leaving_;
                return staying - std::min(staying, keep);
            },
            {});
    }
    /// Of what was taken out, the first `bytes` were given back; pages beyond that, and all of a segment for 0, are free
    /// as before.
    void gone(idle_memory const& out, std::size_t bytes) noexcept {
        {
            std::scoped_lock const lock{guard_};
            leaving_ -= out.bytes;
            gone_ += bytes;
            stats_.reserved -= bytes;
            if (out.is_paged) blocks_.let_go(*out.in, bytes);
            else if (bytes == 0) blocks_.put_back_segment(*out.in);
            else forget(*out.in);
        }
        left_.notify_all();
    }
    /// Waits until some of what others have taken out is gone, or back; returns the bytes that are gone.
    std::size_t wait_for_leaving() noexcept {
        std::unique_lock lock{guard_};
        std::size_t const before = leaving_;
        std::size_t const gone_before = gone_;
        left_.wait(lock, [&] { return leaving_ < before || leaving_ == 0 || gone_ != gone_before; });
        return gone_ - gone_before;
    }
    /// What giving back `wanted` bytes would come to, what is about to be gone among them.
    [[nodiscard]] std::size_t could_take_out(std::size_t wanted,
                                             kept_addresses const& kept = {}) const noexcept {
        auto const lock = lock_all();
        std::size_t const given = could_be_idle(blocks_, wanted, kept);
        return given >= wanted ? given : given + leaving_;
    }

    // --- growth by pages ---

    /// Enters the range that pages come to. Throws: std::bad_alloc.
    void add_range(std::byte* at, std::size_t bytes, std::size_t page) { blocks_.add_range(at, bytes, page); }

    /// Where pages would serve a request best; nothing when there are no addresses for it. As of now.
    [[nodiscard]] std::optional<grow_window> could_grow(std::size_t bytes, growth_aim aim) const {
        auto const lock = lock_all();
        return choose_window(blocks_, round_up(bytes, block::granule), aim);
    }
    /// Holds such a window, of at most `most` bytes to be mapped, so that nobody else has it; nothing when there is none.
    /// Throws: std::bad_alloc; unchanged then.
    [[nodiscard]] std::optional<grow_window> hold(std::size_t bytes, growth_aim aim, std::size_t most) {
        auto const lock = lock_all();
        auto window = choose_window(blocks_, round_up(bytes, block::granule), aim);
        if (!window || window->missing > most) return std::nullopt;
        window->first = &blocks_.hold_window(*window->first, window->at, window->end);
        return window;
    }
    /// Takes `bytes` of a held window that is mapped by now. Throws: as try_take; the window is held then.
    [[nodiscard]] void* take_of_grown(grow_window const& window, stream_ref const* s, std::size_t bytes,
                                      label const& who, lifespan meant = lifespan::scratch) {
        std::size_t const size = round_up(bytes, block::granule);
        std::scoped_lock const lock{guard_};
        make_peak_known(size);
        // First: for a new stream what is held ready becomes free, perhaps beside the window.
        if (s) (void)lane_of(*s);
        wait_set waits;
        auto const add = [&](block const* b) {
            wait_set also = b ? b->waits.copy() : wait_set{};
            waits.merge(also);
        };
        // What others gave back beside it meanwhile will be one block with it.
        block const* last = window.first;
        add(last->before && last->before->may_merge() ? last->before : nullptr);
        block_index::for_each_part(*window.first, window.end, [&](block const& b) { add(last = &b); });
        add(last->after && last->after->may_merge() ? last->after : nullptr);
        blocks_.prepare_take();
        order_before_use(waits, s);
        block& whole = join(window, std::move(waits));
        return count(take(whole, size, bytes, who, meant), s);
    }
    /// A held window that is mapped by now is free.
    void add_grown(grow_window const& window) noexcept {
        std::scoped_lock const lock{guard_};
        (void)join(window, {});
    }
    /// A held window, of which nothing is mapped, is as it was.
    void give_up(grow_window const& window) noexcept {
        std::scoped_lock const lock{guard_};
        blocks_.undo_window(*window.first, window.end);
    }
    /// The largest request that fits when pages of `spent` bytes are to be had, what is idle among them.
    [[nodiscard]] std::size_t largest_grown(std::size_t spent) const noexcept {
        auto const lock = lock_all();
        return largest_window(blocks_, spent);
    }
    /// visit(at, bytes) for all that is mapped, whoever uses it. At the end.
    template <class Visit>
    void for_each_mapped(Visit visit) const {
        blocks_.for_each_mapped(visit);
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
        now.segments = segments_.size() + blocks_.mapped_runs();
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
        auto const write = [&](block& b) {
            b.requested = bytes;
            b.name = who.name;
            b.where = who.where;
            b.born = {steps_.now(), meant};
            b.become(block::state::live);
        };
        block* const b = fronts_.of(*me).try_take(*me, s.id(), round_up(bytes, block::granule), write);
        if (!b) return nullptr;
        (void)requested_->try_charge(bytes);  // it has no limit
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
        order_before_use(b->waits, s);
        return count(take(*b, size, bytes, who, meant), s);
    }

    [[nodiscard]] bool is_out_of_step(lifespan meant) const noexcept {
        return meant == lifespan::step && !steps_.is_open();
    }

    // --- all that follows under the lock ---

    [[nodiscard]] block* find(std::size_t size, stream_ref const* s, lifespan meant) {
        // First: for a stream that is new, what is held ready comes in, and is merged with what is free.
        std::uint32_t const own = s ? lane_of(*s) : stream_order::nobody;
        if (meant == lifespan::persistent) return choose_block_to_keep(blocks_, size);
        return choose_block(blocks_, order_, size, own, slack_for(stats_.allocated + size, stats_.reserved));
    }
    // What a step takes comes from the other end than what stays, so that it leaves one hole behind.
    [[nodiscard]] block& take(block& b, std::size_t size, std::size_t bytes, label const& who,
                              lifespan meant) {
        auto const from = meant == lifespan::step ? block_index::side::high : block_index::side::low;
        return blocks_.take(b, size, bytes, who, {steps_.now(), meant}, from);
    }
    void order_before_use(wait_set const& waits, stream_ref const* s) {
        if (!s) return waits.for_each([&](wait_point point) { order_.wait_on_host(point); });
        std::uint32_t const lane = lane_of(*s);
        waits.for_each([&](wait_point point) {
            if (!order_.is_ready(point, lane)) order_.wait(*s, lane, point);
        });
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

    // --- segments and pages ---

    template <class Surplus>
    [[nodiscard]] std::optional<idle_memory> take_out_of(Surplus surplus, kept_addresses const& kept) {
        std::vector<shared<stream_mark>> waits;
        std::optional<idle_memory> out;
        {
            auto const lock = lock_all();
            if (surplus() == 0 || !(out = choose_idle(blocks_, surplus(), kept))) return std::nullopt;
            out->in->waits.for_each([&](wait_point point) {
                if (!order_.is_known_done(point)) waits.push_back(order_.to_wait_for(point));
            });
            if (out->is_paged) out->in = &blocks_.hold_pages(*out->in, out->at, out->bytes);
            else blocks_.hold_segment(*out->in);
            leaving_ += out->bytes;
        }
        try {
            for (auto const& mark : waits) mark->synchronize();
        } catch (...) {
            gone(*out, 0);
            throw;
        }
        return out;
    }

    [[nodiscard]] block& enter(segment const& s) {
        segments_.reserve(segments_.size() + 1);
        block& whole = blocks_.add_segment(s.at, s.bytes);
        segments_.push_back(s);
        count_reserved(s.bytes);
        return whole;
    }
    // The source may have given the address away again, and another thread have entered that by now.
    void forget(block& whole) noexcept {
        segments_.erase(std::ranges::find(segments_, segment{whole.at, whole.size}));
        blocks_.remove_segment(whole);
    }
    [[nodiscard]] block& join(grow_window const& window, wait_set waits) noexcept {
        count_reserved(window.missing);
        return blocks_.join_window(*window.first, window.end, std::move(waits));
    }
    void count_reserved(std::size_t bytes) noexcept {
        stats_.reserved += bytes;
        stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
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
    std::size_t leaving_ = 0;       // of what is reserved: taken out, and not gone
    std::size_t gone_ = 0;          // in all, so far
    std::condition_variable left_;  // some of it is
    bool closed_ = false;
};

}  // namespace cuota::inline v0::detail
