// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Blocks of a pool with the order of its streams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/pool/detail/blocks/block_index.hpp>
#include <cuota/pool/detail/blocks/byte_counters.hpp>
#include <cuota/pool/detail/blocks/fit_policy.hpp>
#include <cuota/pool/detail/blocks/live_report.hpp>
#include <cuota/pool/detail/blocks/stream_order.hpp>
#include <cuota/pool/detail/growth/growth_candidate.hpp>
#include <cuota/pool/detail/growth/mapping_split.hpp>
#include <cuota/pool/detail/growth/mark_schedule.hpp>
#include <cuota/pool/detail/growth/release_policy.hpp>
#include <cuota/pool/pool_stats.hpp>

namespace cuota::inline v0::detail {

/// A segment that was charged.
struct segment {
    void* at;
    std::size_t bytes;
    friend bool operator==(segment const&, segment const&) noexcept = default;
};

/// Which idle memory may be taken out: `completed` memory is not used by any work, so the caller need not wait.
enum class idle_choice { any, completed };

struct block_request {
    std::size_t bytes;  ///< at least 1
    label const& who;
    lifetime_hint lifetime = lifetime_hint::scratch;
    std::size_t alignment = block::granularity;  ///< a power of two
    bool keeps = false;                          ///< keeps the pool alive
};

/// A stream and its index, or the host, which waits itself.
struct block_user {
    stream_ref const* stream = nullptr;
    std::uint32_t stream_index = stream_order::no_stream;
};

/// Free, live and held blocks, and holes that are being mapped. Requires the pool's lock. Throws: cuda_error, std::bad_alloc where not
/// noexcept. On a throw, no block or segment changes, except where noted.
class block_heap {
public:
    explicit block_heap(std::size_t granularity = block::granularity) noexcept : granularity_{granularity} {}

    /// These three functions need no lock.
    [[nodiscard]] std::size_t granularity() const noexcept { return granularity_; }
    [[nodiscard]] std::size_t size_of(std::size_t bytes) const noexcept {
        return round_up(bytes, granularity_);
    }
    /// size_of without an overflow check.
    [[nodiscard]] std::size_t size_of_small(std::size_t bytes) const noexcept;

    // --- blocks ---

    [[nodiscard]] block* find(block_request const& r, std::uint32_t stream_index);
    /// Allocates from a found block and makes the user wait for its pending work. If the host must wait (stream_order::has_host_waits),
    /// the block is withheld and counts nowhere until `arrived` or `did_not_come`.
    [[nodiscard]] block& take(block& b, block_request const& r, block_user const& user);
    /// Binds a block to a stream, which stays registered until the block is freed.
    void keep_stream(block& b, std::uint32_t stream_index) noexcept;
    /// Makes a withheld block live after the host's wait. Throws: std::bad_alloc.
    void arrived(block& b);
    /// Frees it after a wait that failed; its next user waits for the pending work.
    void did_not_come(block& b, wait_set pending) noexcept;
    /// Frees a live or held block.
    void give(block& b, wait_set waits) noexcept;
    /// Whether a free should be followed by stream_order::look_and_mark.
    [[nodiscard]] bool is_mark_due() noexcept {
        return marks_.is_due(counters_.freed(), counters_.reserved());
    }
    [[nodiscard]] bool would_peak(std::size_t bytes) const noexcept {
        return counters_.would_peak(bytes, size_of(bytes));
    }

    // --- segments ---

    void add(segment const& fresh) { (void)enter(fresh); }
    [[nodiscard]] block& take_of_new(segment const& fresh, block_request const& r);
    template <class Visit>
    void for_each_segment(Visit visit) const {
        for (segment const& s : segments_) visit(s);
    }

    // --- pages ---

    /// Holds the best window with at most `most` bytes to map, if any.
    [[nodiscard]] std::optional<growth_candidate> hold(std::size_t size, growth_aim aim, std::size_t most);
    /// Holds exactly these pages, if they are still unmapped.
    [[nodiscard]] std::optional<growth_candidate> hold_at(std::byte* at, std::size_t bytes);
    /// Allocates from a held, mapped window, like `take`. On a throw, it stays held, as in the next function.
    [[nodiscard]] block& take_of_grown(growth_candidate const& window, block_request const& r,
                                       block_user const& user);
    void add_grown(growth_candidate const& window) { (void)join(window, waits_of(window)); }
    /// Restores a held window after unmapping. Returns the bytes that could not be unmapped; they stay reserved and unusable.
    std::size_t give_up(growth_candidate const& window) noexcept;

    // --- release of idle memory ---

    /// Holds the idle memory outside of `kept` that best covers `surplus` bytes, if any; it counts as reserved until gone(). The caller
    /// waits for its pending work as for that of `take`; `completed` has none.
    [[nodiscard]] std::optional<idle_memory> take_out(std::size_t surplus, kept_addresses const& kept,
                                                      idle_choice which = idle_choice::any);
    /// Does so with the mapping to divide before `r` is allocated from `b`, if there is one that no work uses.
    [[nodiscard]] std::optional<mapping_split> take_out_to_split(block& b, block_request const& r);
    /// Ends a take_out: the memory was released or is free again.
    void gone(idle_memory const& out, bool is_gone) noexcept;

    /// Waits on the host for the pending work of free blocks; reports failures. For destructors, without the lock.
    void wait_for_freed() noexcept;

    /// Notes that the pool exceeds its bound by more than its idle mappings.
    void note_excess() noexcept {
        splits_.note_excess(counters_.freed(), std::max(counters_.peak_allocated(), block::granularity));
    }
    [[nodiscard]] bool is_fragmented() const noexcept { return splits_.is_fragmented(); }
    [[nodiscard]] bool splits() const noexcept { return splits_.splits(counters_.freed()); }

    // --- figures ---

    /// Leaves `thread_cache_hits` at 0.
    [[nodiscard]] pool_stats stats() noexcept;
    [[nodiscard]] byte_counters& counters() noexcept { return counters_; }
    [[nodiscard]] byte_counters const& counters() const noexcept { return counters_; }
    [[nodiscard]] block_index& blocks() noexcept { return blocks_; }
    [[nodiscard]] block_index const& blocks() const noexcept { return blocks_; }
    [[nodiscard]] stream_order& order() noexcept { return order_; }
    [[nodiscard]] step_clock& steps() noexcept { return steps_; }
    /// Needs no lock.
    [[nodiscard]] step_clock const& steps() const noexcept { return steps_; }

private:
    void let_stream_go(block& b) noexcept;
    [[nodiscard]] block* choose(block_requirements const& needed, lifetime_hint lifetime,
                                std::uint32_t stream_index);
    void order_before_use(wait_set const& waits, block_user const& user);
    // Blocks for a step are cut from the end opposite to persistent ones.
    [[nodiscard]] static block_index::side side_of(lifetime_hint lifetime) noexcept {
        return lifetime == lifetime_hint::step ? block_index::side::high : block_index::side::low;
    }
    [[nodiscard]] block& cut(block& b, block_request const& r);

    [[nodiscard]] block& enter(segment const& s);
    // Compares sizes, too: a new segment may be at the same address.
    void forget(block& whole) noexcept;
    // Includes those of adjacent free blocks, with which the window will be merged.
    [[nodiscard]] static wait_set waits_of(growth_candidate const& window);
    [[nodiscard]] block& join(growth_candidate const& window, wait_set waits) noexcept;

    std::size_t const granularity_;
    block_index blocks_;
    stream_order order_;
    step_clock steps_;
    dynamic_array<segment> segments_;
    byte_counters counters_;
    mark_schedule marks_;
    split_schedule splits_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t block_heap::size_of_small(std::size_t bytes) const noexcept {
    return round_down(bytes + (granularity_ - 1), granularity_);
}

CUOTA_INLINE block* block_heap::find(block_request const& r, std::uint32_t stream_index) {
    block_requirements const exact{size_of(r.bytes), r.alignment};
    block* const b = choose(exact, r.lifetime, stream_index);
    if (b || r.alignment <= block::granularity) return b;
    return choose(exact.anywhere(), r.lifetime, stream_index);
}

CUOTA_INLINE block& block_heap::take(block& b, block_request const& r, block_user const& user) {
    return order_.drop_host_waits_on_throw([&]() -> block& {
        order_before_use(b.waits, user);
        return cut(b, r);
    });
}

CUOTA_INLINE void block_heap::keep_stream(block& b, std::uint32_t stream_index) noexcept {
    order_.keep(stream_index);
    let_stream_go(b);
    b.note->stream_index = stream_index;
    b.keeps_stream(true);
}

CUOTA_INLINE void block_heap::give(block& b, wait_set waits) noexcept {
    let_stream_go(b);
    counters_.remove(b);
    blocks_.release(b, std::move(waits));
}

CUOTA_INLINE block& block_heap::take_of_new(segment const& fresh, block_request const& r) {
    block& whole = enter(fresh);
    try {
        return cut(whole, r);
    } catch (...) {
        counters_.remove_reserved(whole.size);
        forget(whole);
        throw;
    }
}

CUOTA_INLINE std::optional<growth_candidate> block_heap::hold(std::size_t size, growth_aim aim,
                                                              std::size_t most) {
    auto window = choose_window(blocks_, size, aim);
    if (!window || window->missing > most) return std::nullopt;
    window->first = &blocks_.hold_window(*window->first, window->at, window->end);
    return window;
}

CUOTA_INLINE std::optional<growth_candidate> block_heap::hold_at(std::byte* at, std::size_t bytes) {
    block* const hole = blocks_.hole_around(at, bytes);
    if (!hole) return std::nullopt;
    growth_candidate window{hole, at, at + bytes, bytes, 0};
    window.first = &blocks_.hold_window(*hole, window.at, window.end);
    return window;
}

CUOTA_INLINE block& block_heap::take_of_grown(growth_candidate const& window, block_request const& r,
                                              block_user const& user) {
    wait_set waits = waits_of(window);
    blocks_.prepare_take();
    return order_.drop_host_waits_on_throw([&]() -> block& {
        order_before_use(waits, user);
        return cut(join(window, std::move(waits)), r);
    });
}

CUOTA_INLINE std::size_t block_heap::give_up(growth_candidate const& window) noexcept {
    std::size_t const kept = blocks_.undo_window(*window.first, window.end);
    counters_.add_reserved(kept);
    return kept;
}

CUOTA_INLINE std::optional<idle_memory> block_heap::take_out(std::size_t surplus, kept_addresses const& kept,
                                                             idle_choice which) {
    if (which == idle_choice::completed) order_.look_and_mark();
    auto out = choose_idle(
        blocks_, surplus, kept,
        [&](block const& b) { return which == idle_choice::any || order_.was_over(b.waits); },
        which == idle_choice::any ? idle_order::smallest_first : idle_order::largest_first);
    if (!out) return out;
    order_.drop_host_waits_on_throw([&] {
        out->in->waits.for_each([&](wait_point point) { order_.wait_on_host(point); });
        if (out->is_paged) out->in = &blocks_.hold_pages(*out->in, out->at, out->bytes);
        else blocks_.hold_segment(*out->in);
    });
    counters_.add_leaving(out->bytes);
    return out;
}

CUOTA_INLINE std::optional<mapping_split> block_heap::take_out_to_split(block& b, block_request const& r) {
    if (r.alignment > block::granularity) return std::nullopt;
    auto split = choose_split(blocks_, b, size_of(r.bytes), side_of(r.lifetime));
    if (!split) return split;
    order_.look_and_mark();
    if (!order_.was_over(b.waits)) return std::nullopt;
    split->whole.in = &blocks_.hold_pages(b, split->whole.at, split->whole.bytes);
    counters_.add_leaving(split->whole.bytes);
    return split;
}

CUOTA_INLINE void block_heap::gone(idle_memory const& out, bool is_gone) noexcept {
    counters_.remove_leaving(out.bytes);
    if (!is_gone) return blocks_.put_back(*out.in);
    counters_.remove_reserved(out.bytes);
    if (out.is_paged) blocks_.let_go(*out.in);
    else forget(*out.in);
}

CUOTA_INLINE void block_heap::wait_for_freed() noexcept {
    blocks_.for_each_free([&](block const& b) {
        b.waits.for_each([&](wait_point point) {
            if (!report_failure_of([&] { order_.wait_now(point); }))
                order_.drain(point);  // the memory is freed next, also after a failure
        });
    });
}

CUOTA_INLINE pool_stats block_heap::stats() noexcept {
    pool_stats now;
    counters_.write_to(now, bytes_in_flight(blocks_, order_));
    now.live_blocks = blocks_.live_blocks();
    now.free_blocks = blocks_.free_blocks();
    now.largest_free = blocks_.largest_free();
    now.segments = segments_.size() + blocks_.mapped_runs();
    now.stream_waits = order_.waits();
    now.mappings_made = blocks_.mappings().made();
    now.mappings_removed = blocks_.mappings().removed();
    return now;
}

CUOTA_INLINE void block_heap::let_stream_go(block& b) noexcept {
    if (!b.keeps_stream()) return;
    order_.let_go(b.note->stream_index);
    b.keeps_stream(false);
}

CUOTA_INLINE block* block_heap::choose(block_requirements const& needed, lifetime_hint lifetime,
                                       std::uint32_t stream_index) {
    if (is_fragmented() && lifetime != lifetime_hint::persistent && needed.size >= blocks_.page())
        if (block* const b = choose_lowest(blocks_, order_, needed, stream_index)) return b;
    if (lifetime != lifetime_hint::persistent)
        return choose_block(blocks_, order_, needed, stream_index,
                            slack_for(counters_.allocated() + needed.size, counters_.reserved()));
    block* const b = choose_block_to_keep(blocks_, needed);
    return !b || is_available(*b, order_, stream_index)
               ? b
               : choose_available_block(blocks_, order_, needed, stream_index);
}

CUOTA_INLINE void block_heap::order_before_use(wait_set const& waits, block_user const& user) {
    waits.for_each([&](wait_point point) {
        if (!user.stream) return order_.wait_on_host(point);
        if (order_.is_ordered(point, user.stream_index) || order_.is_ready(point, user.stream_index)) return;
        order_.wait(*user.stream, user.stream_index, point);
    });
}

CUOTA_INLINE block& block_heap::cut(block& b, block_request const& r) {
    block& taken = blocks_.take(b, size_of(r.bytes), r.bytes, r.who, {steps_.now(), r.lifetime},
                                side_of(r.lifetime), r.alignment);
    if (order_.has_host_waits()) [[unlikely]]
        blocks_.withhold(taken);
    else counters_.add(taken);
    return taken;
}

CUOTA_INLINE void block_heap::arrived(block& b) {
    blocks_.admit(b);
    counters_.add(b);
}

CUOTA_INLINE void block_heap::did_not_come(block& b, wait_set pending) noexcept {
    blocks_.cancel(b, std::move(pending));
}

CUOTA_INLINE block& block_heap::enter(segment const& s) {
    segments_.reserve(segments_.size() + 1);
    block& whole = blocks_.add_segment(s.at, s.bytes);
    segments_.push_back(s);
    counters_.add_reserved(s.bytes);
    return whole;
}

CUOTA_INLINE void block_heap::forget(block& whole) noexcept {
    segments_.erase(segments_.find_if([&](segment const& s) {
        return s == segment{whole.at(), whole.size};
    }));
    blocks_.remove_segment(whole);
}

CUOTA_INLINE wait_set block_heap::waits_of(growth_candidate const& window) {
    wait_set waits;
    auto const add = [&](block const* b) {
        wait_set also = b ? b->waits.copy() : wait_set{};
        waits.merge(also);
    };
    block const* last = window.first;
    add(last->before && last->before->may_merge() ? last->before : nullptr);
    block_index::for_each_part(*window.first, window.end, [&](block const& b) { add(last = &b); });
    add(last->after && last->after->may_merge() ? last->after : nullptr);
    return waits;
}

CUOTA_INLINE block& block_heap::join(growth_candidate const& window, wait_set waits) noexcept {
    counters_.add_reserved(window.missing);
    marks_.note_growth(counters_.freed(), counters_.reserved());
    return blocks_.join_window(*window.first, window.end, window.sizes, std::move(waits));
}

}  // namespace cuota::inline v0::detail

#endif
