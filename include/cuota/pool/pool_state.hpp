// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The machinery of scoped_pool: segments from a source, charged to an account, cut into blocks in stream order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/block_index.hpp>
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
        return take(
            bytes, alignment, who,
            [&](block& b) {
                std::uint32_t const lane = order_.index_of(s);
                b.waits.for_each([&](wait_point point) {
                    if (!order_.is_ready(point, lane)) order_.wait(s, point);
                });
            },
            &s);
    }

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
        return take(
            bytes, alignment, who,
            [&](block& b) { b.waits.for_each([&](wait_point point) { order_.wait_on_host(point); }); },
            nullptr);
    }

    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept {
        std::exception_ptr unordered;
        release(p, bytes, [&] {
            try {
                return wait_set{order_.release_on(order_.index_of(s))};
            } catch (...) {  // the stream cannot be entered: nothing to remember it by, so it must be over
                unordered = std::current_exception();
                rt::drain(s);
                return wait_set{};
            }
        });
        if (unordered) report_failure_of([&] { std::rethrow_exception(unordered); });
    }
    void deallocate_sync(void* p, std::size_t bytes) noexcept {
        release(p, bytes, [] { return wait_set{}; });
    }

    /// Gives wholly free segments back until at most `keep` bytes are reserved, or none is left to give. Waits for
    /// the work that may still use them. Returns the bytes given back.
    std::size_t trim(std::size_t keep) noexcept {
        std::size_t given = 0;
        for (;;) {
            std::optional<segment> s;
            report_failure_of([&] {
                std::scoped_lock const lock{guard_};
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
        std::scoped_lock const lock{guard_};
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
        std::scoped_lock const lock{guard_};
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
        std::scoped_lock const lock{guard_};
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
        std::scoped_lock const lock{guard_};
        closed_ = true;
    }

    /// "3 allocations are still alive: weights 3.8 MiB (train.cpp:10), …"; empty when nothing is.
    [[nodiscard]] std::string survivors() const {
        std::scoped_lock const lock{guard_};
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
        std::scoped_lock const lock{guard_};
        pool_stats now = stats_;
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
    [[nodiscard]] void* take(std::size_t bytes, std::size_t alignment, label const& who, Order order,
                             stream_ref const* s) {
        check_alignment(alignment, who);
        if (bytes == 0) return nullptr;
        std::size_t const size = round_up(bytes, granule);
        {
            std::scoped_lock const lock{guard_};
            check_open(who);
            if (block* const b = find(size, s)) {
                order(*b);
                return count(blocks_.take(*b, size, bytes, who));
            }
        }
        // Without the lock: the budget may ask other pools for memory, and they this one.
        segment const fresh = acquire(size, bytes, who);
        std::unique_lock lock{guard_};
        return count(blocks_.take(enter(fresh, lock), size, bytes, who));
    }

    void check_open(label const& who) const {
        if (closed_) throw misuse{title() + " was asked for memory after its end", who.where};
    }

    // Among the tightest fits: one that this stream need not wait for, else one whose work is over, else the first.
    [[nodiscard]] block* find(std::size_t size, stream_ref const* s) {
        constexpr int looked_at = 16;
        std::optional<std::uint32_t> const lane = s ? std::optional{order_.index_of(*s)} : std::nullopt;
        std::uint32_t const own = lane.value_or(~std::uint32_t{0});
        block* best = nullptr;
        int best_rank = 3;
        int seen = 0;
        blocks_.for_each_fit(size, [&](block& b) {
            if (int const rank = rank_of(b, own); rank < best_rank) {
                best = &b;
                best_rank = rank;
            }
            return best_rank != 0 && ++seen != looked_at;
        });
        return best;
    }
    [[nodiscard]] int rank_of(block const& b, std::uint32_t lane) {
        int rank = 0;
        b.waits.for_each([&](wait_point point) {
            if (order_.is_ordered(point, lane)) return;
            rank = std::max(rank, order_.is_ready(point, lane) ? 1 : 2);
        });
        return rank;
    }

    void* count(block const& b) noexcept {
        stats_.requested += b.requested;
        stats_.allocated += b.size;
        stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
        stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
        return b.at;
    }

    template <class Waits>
    void release(void* p, std::size_t bytes, Waits waits) noexcept {
        if (!p) return;
        bool closed = false;
        bool const released = report_failure_of([&] {
            std::scoped_lock const lock{guard_};
            block* const b = blocks_.find_live(p);
            if (!b)
                throw misuse{
                    title() +
                    ": a pointer was given back that is not alive here (given back twice, or another's)"};
            if (b->requested != bytes)
                throw misuse{title() + ": " + bytes_text(bytes) + " were given back of " + describe(*b),
                             b->where};
            stats_.requested -= b->requested;
            stats_.allocated -= b->size;
            blocks_.release(*b, waits());
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
    stream_order order_;
    std::vector<segment> segments_;
    pool_stats stats_;
    bool closed_ = false;
};

}  // namespace detail

}  // namespace cuota::inline v0
