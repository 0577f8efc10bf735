// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The machinery of scoped_pool: segments from a source, charged to an account, cut into blocks in stream order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/block_index.hpp>
#include <cuota/pool/front.hpp>
#include <cuota/pool/stream_order.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0 {

/// What a pool holds, at one moment and at most. Bytes; requested <= allocated <= reserved.
struct pool_stats {
    std::size_t requested = 0;  ///< live, as asked for
    std::size_t allocated = 0;  ///< live, rounded up to the pool's granule
    std::size_t reserved = 0;   ///< segments taken from the source
    std::size_t peak_requested = 0;
    std::size_t peak_allocated = 0;
    std::size_t peak_reserved = 0;
    std::size_t live_blocks = 0;
    std::size_t free_blocks = 0;
    std::size_t largest_free = 0;  ///< the largest free block
    std::size_t segments = 0;
    std::size_t stream_waits = 0;  ///< waits put into streams to hand memory from one to another
};

namespace detail {

class pool_state final : public stakeholder {
public:
    static constexpr std::size_t granule = 256;  // of blocks; what CUDA promises as alignment

    pool_state(budget account, any_resource source, std::optional<device> where, tag name, int priority = 0)
        : account_{std::move(account)},
          source_{std::move(source)},
          device_{where},
          name_{name},
          priority_{priority} {
        node().join(*this);
    }
    ~pool_state() {
        node().leave(*this);
        // Segments that are still in use have no owner left who could use or return them. What was freed in them may
        // still be in use by a stream, and not every source waits for that.
        blocks_.for_each_free([&](block const& b) {
            b.waits.for_each(
                [&](wait_point point) { report_failure_of([&] { order_.wait_on_host(point); }); });
        });
        for (segment const& s : segments_) give_back(s);
    }

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment, label const& who) {
        check_alignment(alignment, who);
        if (void* const p = take_ready(s, bytes, who)) return p;
        return take(
            bytes, who,
            [&](block& b) {
                std::uint32_t const lane = lane_of(s);
                b.waits.for_each([&](wait_point point) {
                    if (!order_.is_ready(point, lane)) order_.wait(s, lane, point);
                });
            },
            &s);
    }

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
        check_alignment(alignment, who);
        return take(
            bytes, who,
            [&](block& b) { b.waits.for_each([&](wait_point point) { order_.wait_on_host(point); }); },
            nullptr);
    }

    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept {
        if (put_ready(s, p, bytes)) return;
        std::exception_ptr unordered;
        release(p, bytes, [&](block& b) {
            try {
                std::uint32_t const lane = lane_of(s);
                if (keep_ready(b, s, lane)) return;
                put_away(b, wait_set{order_.release_on(lane)});
            } catch (...) {  // the stream cannot be entered: nothing to remember it by, so it must be over
                unordered = std::current_exception();
                rt::drain(s);
                put_away(b, {});
            }
        });
        if (unordered) report_failure_of([&] { std::rethrow_exception(unordered); });
    }
    void deallocate_sync(void* p, std::size_t bytes) noexcept {
        release(p, bytes, [this](block& b) { put_away(b, {}); });
    }

    /// Gives wholly free segments back until at most `keep` bytes are reserved, or none is left to give. Waits for
    /// the work that may still use them. Returns the bytes given back.
    std::size_t trim(std::size_t keep) noexcept {
        std::size_t given = 0;
        for (;;) {
            std::optional<segment> s;
            report_failure_of([&] {
                auto const lock = lock_all();
                s = take_out(stats_.reserved > keep ? stats_.reserved - keep : 0);
            });
            if (!s) return given;
            give_back(*s);
            given += s->bytes;
        }
    }

    std::size_t reclaim(std::size_t wanted) noexcept override {
        std::size_t const reserved = stats().reserved;
        return trim(reserved > wanted ? reserved - wanted : 0);
    }

    [[nodiscard]] std::size_t reclaimable(std::size_t wanted) const noexcept override {
        std::size_t given = 0;
        auto const lock = lock_all();
        // As trim does it: the largest segments while one does not do, then the smallest that does.
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

    [[nodiscard]] int priority() const noexcept override { return priority_; }

    void holdings(std::vector<holding>& into) const override {
        auto const lock = lock_all();
        std::map<std::pair<std::string_view, std::pair<std::string_view, unsigned>>, holding> by_tag;
        blocks_.for_each_live([&](block const& b) {
            auto& h = by_tag[{b.name.text(), {b.where.file, b.where.line}}];
            h.name = b.name;
            h.where = b.where;
            h.bytes += b.size;
        });
        for (auto const& [key, h] : by_tag) into.push_back(h);
        if (std::size_t const cached = stats_.reserved - stats_.allocated; cached != 0)
            into.push_back({tag::named("free in " + title()), {}, cached, true});
    }

    [[nodiscard]] std::size_t largest_free() const noexcept override {
        auto const lock = lock_all();
        return blocks_.largest_free();
    }

    /// Reserves a segment before anybody asks. Throws: as allocate.
    void reserve(std::size_t bytes, label const& who) {
        if (bytes == 0) return;
        segment const s = acquire(round_up(bytes, granule), bytes, who);
        std::unique_lock lock{guard_};
        (void)enter(s, lock);
    }

    void close_to_requests() noexcept {
        auto const lock = lock_all();
        fronts_.end();
        closed_ = true;
    }

    /// "3 allocations are still alive: weights 3.8 MiB (train.cpp:10), …"; empty when nothing is.
    [[nodiscard]] std::string survivors() const {
        auto const lock = lock_all();
        if (blocks_.live_blocks() == 0) return {};
        std::size_t const live = blocks_.live_blocks();
        std::string text =
            std::to_string(live) + (live == 1 ? " allocation is" : " allocations are") + " still alive:";
        std::size_t shown = 0;
        blocks_.for_each_live([&](block const& b) {
            if (shown++ >= 4) return;
            text += std::string{shown > 1 ? "," : ""} + ' ' + describe(b);
        });
        return text + (live > 4 ? ", ..." : "");
    }

    [[nodiscard]] pool_stats stats() const noexcept {
        auto const lock = lock_all();
        pool_stats now = stats_;
        budget_facts const asked = requested_->now();
        now.requested = asked.held;
        now.peak_requested = asked.peak;
        now.live_blocks = blocks_.live_blocks();
        now.free_blocks = blocks_.free_blocks();
        now.largest_free = blocks_.largest_free();
        now.segments = segments_.size();
        now.stream_waits = order_.waits();
        return now;
    }

    [[nodiscard]] budget const& account() const noexcept { return account_; }
    [[nodiscard]] memory_kind kind() const noexcept { return source_.kind(); }
    [[nodiscard]] std::string title() const override {
        return name_.is_empty() ? "a pool" : "pool " + std::string{name_.text()};
    }

private:
    struct segment {
        void* at;
        std::size_t bytes;  // as asked of the source, and charged
    };

    [[nodiscard]] ledger& node() const noexcept { return budget_access::node(account_); }

    static std::string describe(block const& b) {
        std::string const at = place_text(b.where);
        return (b.name.is_empty() ? "untagged" : b.name.text()) + std::string{" "} + bytes_text(b.requested) +
               (at.empty() ? "" : " (" + at + ')');
    }

    // Order puts the waits in front of the block's next use; it may throw, and nothing is taken then.
    template <class Order>
    [[nodiscard]] void* take(std::size_t bytes, label const& who, Order order, stream_ref const* s) {
        if (bytes == 0) return nullptr;
        std::size_t const size = round_up(bytes, granule);
        {
            std::scoped_lock const lock{guard_};
            check_open(who);
            if (stats_.allocated + size > stats_.peak_allocated) collect();  // what is ready is no new peak
            block* b = find(size, s);
            if (!b) {
                collect();
                b = find(size, s);
            }
            if (b) {
                order(*b);
                return count(blocks_.take(*b, size, bytes, who), s);
            }
        }
        // Without the lock: the budget may ask other pools for memory, and they this one.
        segment const fresh = acquire(size, bytes, who);
        std::unique_lock lock{guard_};
        return count(blocks_.take(enter(fresh, lock), size, bytes, who), s);
    }

    void check_open(label const& who) const {
        if (closed_) throw misuse{title() + " was asked for memory after its end", who.where};
    }

    // Of the blocks that fit about as well as the tightest, the one that takes the fewest waits; the tightest of those.
    [[nodiscard]] block* find(std::size_t size, stream_ref const* s) {
        constexpr int looked_at = 16;
        std::uint32_t const own = s ? lane_of(*s) : ~std::uint32_t{0};
        block* best = nullptr;
        int best_rank = 0;
        int seen = 0;
        std::size_t too_large = 0;
        blocks_.for_each_fit(size, [&](block& b) {
            if (!best) too_large = b.size + slack_of(b.size, size);
            else if (b.size >= too_large) return false;
            if (int const rank = rank_of(b, own); !best || rank < best_rank) {
                best = &b;
                best_rank = rank;
            }
            return best_rank != 0 && ++seen != looked_at;
        });
        return best;
    }

    // How much larger than the tightest fit a block may be for the sake of fewer waits; with 0, the tightest at the
    // lowest address is taken whatever it takes. What is cut out of larger blocks is missed when memory is short, so
    // that a pool which is nearly full cannot afford it: in bench/fragmentation.cpp a quarter costs no refusal at 60 %
    // live, and would cost some at 70 %. Of small blocks, many are of one size: which of those is taken matters little.
    [[nodiscard]] std::size_t slack_of(std::size_t tightest, std::size_t wanted) const noexcept {
        std::size_t const eighths = (stats_.allocated + wanted) / (stats_.reserved / 8 + 1);
        if (eighths < 5) return tightest / 4;
        return tightest <= free_bins::largest_of_one_size ? 1 : 0;
    }

    // 0: nothing to wait for; 1: that took a look at an event; else how many waits it would take, and one more.
    [[nodiscard]] int rank_of(block const& b, std::uint32_t lane) {
        bool looked = false;
        int waits = 0;
        b.waits.for_each([&](wait_point point) {
            if (order_.is_ordered(point, lane)) return;
            looked = true;
            waits += !order_.is_ready(point, lane);
        });
        return looked + waits;
    }

    void* count(block& b, stream_ref const* s) noexcept {
        (void)requested_->try_charge(b.requested);
        stats_.allocated += b.size;
        stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
        if (s && s->is_owned() && b.size <= largest_ready()) {
            auto const lane = order_.find(*s);
            if (!lane) return b.at;
            b.stream = s->id();
            b.lane = *lane;
            if (thread_record* const me = this_thread(); me && fronts_.of(*me).is_of(*me))
                fronts_.of(*me).remember(b);
        }
        return b.at;
    }

    // --- without the lock: what this thread holds ready ---

    [[nodiscard]] void* take_ready(stream_ref s, std::size_t bytes, label const& who) noexcept {
        thread_record* const me = this_thread();
        if (!me || bytes == 0 || bytes > front::largest || !s.is_owned()) return nullptr;
        block* const b = fronts_.of(*me).try_take(*me, s.id(), round_up(bytes, granule));
        if (!b) return nullptr;
        (void)requested_->try_charge(bytes);
        b->requested = bytes;
        b->name = who.name;
        b->where = who.where;
        b->become(block::state::live);
        return b->at;
    }
    [[nodiscard]] bool put_ready(stream_ref s, void* p, std::size_t bytes) noexcept {
        thread_record* const me = this_thread();
        if (!me || !p || bytes > front::largest || !s.is_owned()) return false;
        if (!fronts_.of(*me).try_put(*me, p, s.id(), bytes)) return false;
        (void)requested_->try_refund(bytes);
        return true;
    }

    // --- under the lock: what threads hold ready ---

    // Keeps a held block for this thread, which gave it back in order of s. False when it cannot.
    [[nodiscard]] bool keep_ready(block& b, stream_ref s, std::uint32_t lane) noexcept {
        thread_record* const me = this_thread();
        if (!me || b.size > largest_ready() || !s.is_owned()) return false;
        front* const mine = fronts_.open_for(*me);
        if (!mine) return false;
        b.stream = s.id();
        b.lane = lane;
        return mine->put(b, [this](block& other) { put_away_ready(other); });
    }
    // What is held ready is not merged, and others may have to go around it: it must be little of the whole.
    [[nodiscard]] std::size_t largest_ready() const noexcept {
        return std::min(front::largest, stats_.reserved / 2048);
    }
    // It was given back some time ago in order of its stream: what is enqueued there by now is more than it waits for.
    void put_away_ready(block& b) noexcept { put_away(b, wait_set{order_.release_on_owned(b.lane)}); }
    void put_away(block& b, wait_set waits) noexcept {
        stats_.allocated -= b.size;
        blocks_.release(b, std::move(waits));
    }
    void collect() const noexcept {
        fronts_.collect([this](block& b) { const_cast<pool_state*>(this)->put_away_ready(b); });
    }
    // The lock, with nothing held ready by anybody: every block is free, or somebody's.
    [[nodiscard]] std::unique_lock<std::mutex> lock_all() const {
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

    // put(block) makes a held block free, or keeps it.
    template <class Put>
    void release(void* p, std::size_t bytes, Put put) noexcept {
        if (!p) return;
        bool closed = false;
        bool const released = report_failure_of([&] {
            std::scoped_lock const lock{guard_};
            block* const b = blocks_.find_live(p);
            if (!b || !b->claim(p))
                throw misuse{
                    title() +
                    ": a pointer was given back that is not alive here (given back twice, or another's)"};
            if (b->requested != bytes) {
                misuse wrong{title() + ": " + bytes_text(bytes) + " were given back of " + describe(*b),
                             b->where};
                b->become(block::state::live);
                throw wrong;
            }
            (void)requested_->try_refund(bytes);
            put(*b);
            closed = closed_;
        });
        if (released && closed) trim(0);
    }

    // A segment of at least `size` bytes, charged and taken. A little more than that while the account has room,
    // so that small requests do not each become a call: an eighth of what there is, the most that may be wasted, in
    // whole multiples of the request, so that requests of one size fill the account to its last byte.
    [[nodiscard]] segment acquire(std::size_t size, std::size_t asked, label const& who) {
        std::size_t const step = source_.granule();
        std::size_t const exact = round_up(size, step);
        std::size_t const ample = std::max(exact, round_up(stats().reserved / 8 / size * size, step));
        if (ample > exact && node().try_charge(ample))
            if (auto const s = acquire_charged(ample)) return *s;

        charge_request const request{asked, std::max(step, granule), who, device_};
        charge_or_explain(exact, request);
        if (auto const s = acquire_charged(exact)) return *s;
        // The device has less than the budget says. What this pool does not use may be what is missing.
        std::size_t const trimmed = trim(0);
        if (trimmed != 0) {
            charge_or_explain(exact, request);
            if (auto const s = acquire_charged(exact)) return *s;
        }
        refuse(exact, request, trimmed);
    }

    // Takes a segment that has been charged; gives the charge back and answers nothing when the source refuses.
    [[nodiscard]] std::optional<segment> acquire_charged(std::size_t bytes) {
        void* p = nullptr;
        try {
            p = source_.allocate_sync(bytes, granule, label{name_, {}});
        } catch (out_of_memory const&) {
            account_.refund(bytes);
            return std::nullopt;
        } catch (...) {
            account_.refund(bytes);
            throw;
        }
        if (reinterpret_cast<std::uintptr_t>(p) % granule != 0) {
            give_back({p, bytes});
            throw misuse{title() + ": its source does not align memory to the " + std::to_string(granule) +
                         " bytes that it was asked for"};
        }
        return segment{p, bytes};
    }

    void charge_or_explain(std::size_t bytes, charge_request const& request) {
        try {
            charge(node(), bytes, request);
        } catch (budget_exceeded const& refused) {
            refusal facts = refused.facts();
            facts.largest_free = largest_free();  // the one that is ours to give
            facts.would_fit = std::max(facts.would_fit, facts.largest_free);
            throw budget_exceeded{std::move(facts)};
        }
    }

    [[noreturn]] void refuse(std::size_t exact, charge_request const& request, std::size_t trimmed) {
        refusal r = detail::facts_of(node(), exact, request);
        if (trimmed != 0) r.reclaimers->insert(r.reclaimers->begin(), {title(), exact, trimmed, 0});
        r.reclaimed = trimmed;
        r.cause = "the budget would allow it, but " + title() + " got too little memory from its source";
        r.largest_free = r.would_fit = largest_free();
        if (r.device)
            r.would_fit =
                std::max(r.would_fit, round_down(std::min(r.device->free, account_.room()), request.granule));
        throw out_of_memory{std::move(r)};
    }

    // On a throw the segment has been given back, without the lock: who watches the budget may ask this pool.
    block& enter(segment const& s, std::unique_lock<std::mutex>& lock) {
        try {
            segments_.reserve(segments_.size() + 1);
            block& whole = blocks_.add_segment(s.at, s.bytes);
            segments_.push_back(s);
            stats_.reserved += s.bytes;
            stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
            return whole;
        } catch (...) {
            lock.unlock();
            give_back(s);
            throw;
        }
    }

    // Under the lock: forgets the wholly free segment that fits a surplus best: the smallest that covers it, else the
    // largest there is; never more than is asked for, if a smaller one will do. Waits until nothing uses it.
    // Throws: cuda_error; unchanged then.
    [[nodiscard]] std::optional<segment> take_out(std::size_t surplus) {
        if (surplus == 0) return std::nullopt;
        block* chosen = nullptr;
        blocks_.for_each_free([&](block& b) {
            if (b.is_whole_segment() && (!chosen || chosen->size < surplus)) chosen = &b;
        });
        if (!chosen) return std::nullopt;
        chosen->waits.for_each([&](wait_point point) { order_.wait_on_host(point); });
        auto const found = std::ranges::find(segments_, static_cast<void*>(chosen->at), &segment::at);
        segment const s = *found;
        segments_.erase(found);
        stats_.reserved -= s.bytes;
        blocks_.remove_segment(*chosen);
        return s;
    }

    void give_back(segment const& s) noexcept {
        source_.deallocate_sync(s.at, s.bytes, granule);
        account_.refund(s.bytes);
    }

    budget account_;
    any_resource source_;
    std::optional<device> const device_;
    tag const name_;
    int const priority_;

    mutable std::mutex guard_;  // for all below
    block_index blocks_;
    mutable fronts fronts_;
    shared<ledger> const requested_ = shared<ledger>::make(std::string{}, unlimited, shared<ledger>{});
    stream_order order_;
    std::vector<segment> segments_;
    pool_stats stats_;
    bool closed_ = false;
};

}  // namespace detail

}  // namespace cuota::inline v0
