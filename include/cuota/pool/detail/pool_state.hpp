// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The implementation of scoped_pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/captured_blocks.hpp>
#include <cuota/pool/detail/growth/pool_grower.hpp>
#include <cuota/pool/detail/growth/pool_memory.hpp>
#include <cuota/pool/detail/growth/pool_release.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::detail {

class CUOTA_PROCESS_TYPE pool_state final : public reclaimable_holder {
public:
    static constexpr std::size_t granularity = pool_memory::granularity;
    static constexpr std::size_t largest_alignment = std::size_t{2} << 20;  ///< usually one page

    /// Forwards to pool_memory; block addresses are multiples of `alignment`, too.
    pool_state(budget account, any_resource source, std::optional<device> where, tag name, int priority = 0,
               light_unique_ptr<mapped_range> pages = {}, std::size_t alignment = granularity,
               device_set peers = {});
    CUOTA_INLINE_IN_PLACE ~pool_state() override;

    /// keeps: the block keeps the pool alive.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment, label const& who,
                                 lifetime_hint lifetime = lifetime_hint::scratch, bool keeps = false);
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment, label const& who,
                                      lifetime_hint lifetime = lifetime_hint::scratch);
    /// Allocates from free blocks only, or returns null.
    [[nodiscard]] void* try_allocate(stream_ref const* s, std::size_t bytes, label const& who);
    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept;
    void deallocate_sync(void* p, std::size_t bytes) noexcept { give(nullptr, p, bytes); }

    /// Frees the blocks of a destroyed graph that have no other owner.
    void end_of_graph(pool_in_graph<pool_state> const& graph) noexcept;
    /// Does the same for graphs of foreign captures. Returns the requested bytes.
    std::size_t release_foreign_graphs() noexcept;
    /// Whether only these graphs use the live blocks.
    [[nodiscard]] bool is_only_for_foreign_graphs() noexcept {
        return graphs_.kept_for_foreign() == stats().live_blocks;
    }

    /// Throws: as allocate.
    void reserve(std::size_t bytes, label const& who);
    std::size_t trim(std::size_t keep) noexcept { return release_.trim(keep); }

    std::size_t reclaim(std::size_t wanted) noexcept override { return release_.reclaim(wanted); }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t reclaimable(std::size_t wanted) const noexcept override;
    [[nodiscard]] std::size_t reclaimable_if(std::span<allocation_group const> released) const override {
        return release_.reclaimable_if(released);
    }
    [[nodiscard]] std::size_t freed() const noexcept override { return blocks().freed(); }
    [[nodiscard]] int priority() const noexcept override { return priority_; }
    void allocation_groups(std::vector<allocation_group>& into) const override {
        blocks().allocation_groups(into);
    }
    [[nodiscard]] std::size_t largest_free() const noexcept override {
        if (is_of_parent()) return report_forked(), 0;
        return blocks().largest_free();
    }
    [[nodiscard]] std::string title() const override { return blocks().title(); }

    /// Sets pool_options::remap_above and largest_mapping. Not during another call.
    void grow_by(double remap_above, std::size_t largest_mapping) noexcept {
        growth_.remap_above(remap_above);
        memory_.limit_mappings(largest_mapping);
    }
    /// Releases no idle memory before it is closed, and has no bound.
    void keep_idle() noexcept {
        release_.keep_idle(true);
        growth_.remap_above(std::numeric_limits<double>::infinity());
    }
    void close_to_requests() noexcept;
    [[nodiscard]] std::string survivors() const { return blocks().survivors(); }
    [[nodiscard]] block_pool& blocks() noexcept { return memory_.blocks(); }
    [[nodiscard]] block_pool const& blocks() const noexcept { return memory_.blocks(); }
    [[nodiscard]] pool_stats stats() const noexcept {
        if (is_of_parent()) return report_forked(), pool_stats{};
        return blocks().stats();
    }

    [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }
    /// Returns the bytes by which the pool grows: a page, or the granularity of segments.
    [[nodiscard]] std::size_t growth_granularity() const noexcept {
        return std::max(memory_.page(), memory_.segment_granularity());
    }
    [[nodiscard]] budget const& account() const noexcept { return memory_.account(); }
    [[nodiscard]] memory_kind kind() const noexcept { return memory_.kind(); }
    [[nodiscard]] std::optional<device> on() const noexcept { return memory_.on(); }

private:
    // Paths with the lock. Arguments by value spare the fast paths copies in memory.
    [[nodiscard, gnu::noinline]] void* take_in_order(stream_ref s, std::size_t bytes, std::size_t alignment,
                                                     label who, lifetime_hint lifetime, bool keeps) {
        if (is_of_parent()) [[unlikely]]
            throw_forked();
        if (captured_streams::are_any() || !s.is_owned()) [[unlikely]]
            return take_beside_captures(s, {bytes, who, lifetime, std::max(alignment, alignment_), keeps});
        return take(&s, {bytes, who, lifetime, std::max(alignment, alignment_), keeps});
    }
    [[gnu::noinline]] void give_in_order(stream_ref s, void* p, std::size_t bytes) noexcept {
        give(&s, p, bytes);
    }
    // In a closed pool, this or another thread may free the last reference to the pool.
    void give(stream_ref const* s, void* p, std::size_t bytes) noexcept;
    [[nodiscard]] void* take(stream_ref const* s, block_request const& r);
    // Retries after growth, as another thread may take the new memory first.
    [[nodiscard]] void* take_aligned(stream_ref const* s, block_request const& r);

    // --- in a capture ---

    [[nodiscard]] pool_in_graph<pool_state>& graph_of(capture_scope& scope);
    [[nodiscard, gnu::noinline]] void* take_beside_captures(stream_ref s, block_request const& r) {
        s.check_reachable(r.who.where);
        if (is_captured(s)) return take_for_graph(s, r);
        std::uint64_t const foreign = s.is_owned() ? 0 : foreign_capture_of(s);
        return foreign == 0 ? take(&s, r) : take_for_foreign_graph(s, foreign, r);
    }
    // The host waits for pending work, as a graph's launch cannot.
    [[nodiscard]] void* take_for_graph(stream_ref s, block_request const& r);
    // Does the same for a foreign capture, without blocks that its streams used before: that work cannot be waited for.
    [[nodiscard]] void* take_for_foreign_graph(stream_ref s, std::uint64_t foreign, block_request const& r);
    // The foreign capture of a native handle, or 0; no CUDA call for a `stream`. Reports errors.
    [[nodiscard]] std::uint64_t foreign_capture_to_give_in(stream_ref const* s) noexcept;
    // Whether the block belongs to a graph, also because a captured stream now freed it. Reports errors.
    [[nodiscard, gnu::noinline]] bool give_to_graph(stream_ref const* s, std::uint64_t foreign, void* p,
                                                    std::size_t bytes) noexcept {
        bool is_kept = true;
        capture_scope* scope = nullptr;
        try {
            scope = s ? capture_of(*s) : nullptr;
            is_kept = graphs_.give(p, bytes, s, scope || foreign != 0, title());
            if (is_kept || (!scope && foreign == 0)) return is_kept;
            blocks().keep_for_graph(p, bytes);
            graphs_.enter(scope ? graph_key{.graph = &graph_of(*scope)} : graph_key{.foreign = foreign}, p,
                          bytes, s->id(), false);
            return true;
        } catch (usage_error const& wrong) { report_error(wrong); } catch (...) {
            if (scope)
                // no graph will use the block
                scope->fail(std::current_exception());
            else report_handled();
            return foreign != 0;  // the graph may use it
        }
        return true;
    }

    int const priority_;
    std::size_t const alignment_;
    graph_blocks graphs_;
    pool_memory memory_;
    pool_release release_{memory_};
    pool_grower growth_{memory_, release_};
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE pool_state::pool_state(budget account, any_resource source, std::optional<device> where,
                                    tag name, int priority, light_unique_ptr<mapped_range> pages,
                                    std::size_t alignment, device_set peers)
    : priority_{priority}, alignment_{std::max(alignment, granularity)}, memory_{std::move(account),
                                                                                 std::move(source),
                                                                                 where,
                                                                                 name,
                                                                                 std::move(pages),
                                                                                 alignment_,
                                                                                 peers} {
    memory_.node().join(*this);
    try {
        if (where) idle_registry::join(*where, *this);
        else if (memory_.kind() == memory_kind::pinned) idle_registry::join(memory_origin::host(), *this);
    } catch (...) {
        memory_.node().leave(*this);
        throw;
    }
}

CUOTA_INLINE_IN_PLACE pool_state::~pool_state() {
    idle_registry::leave(*this);
    memory_.node().leave(*this);
}

CUOTA_INLINE void* pool_state::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                        label const& who, lifetime_hint lifetime, bool keeps) {
    check_alignment(alignment, who, largest_alignment);
    if (void* const p = blocks().take_cached(s, bytes, alignment, who.name, who.where, lifetime, keeps))
        return p;
    return take_in_order(s, bytes, alignment, who, lifetime, keeps);
}

CUOTA_INLINE void* pool_state::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who,
                                             lifetime_hint lifetime) {
    check_alignment(alignment, who, largest_alignment);
    return take(nullptr, {bytes, who, lifetime, std::max(alignment, alignment_)});
}

CUOTA_INLINE void* pool_state::try_allocate(stream_ref const* s, std::size_t bytes, label const& who) {
    if (s) {
        if (void* const p = blocks().take_cached(*s, bytes, granularity, who.name, who.where,
                                                 lifetime_hint::scratch, false))
            return p;
        memory_.refuse_out_of_reach(*s, who);
    }
    return blocks().try_take(s, {bytes, who, lifetime_hint::scratch, alignment_});
}

CUOTA_INLINE void pool_state::deallocate(stream_ref s, void* p, std::size_t bytes) noexcept {
    if (!blocks().put_cached(s, p, bytes)) give_in_order(s, p, bytes);
}

CUOTA_INLINE void pool_state::end_of_graph(pool_in_graph<pool_state> const& graph) noexcept {
    if (is_of_parent()) return;
    while (auto const block = graphs_.release(&graph)) {
        stream_ref const on = block->on ? stream_ref{*block->on} : stream_ref{cudaStreamPerThread};
        give(block->on ? &on : nullptr, block->at, block->bytes);
    }
}

CUOTA_INLINE void pool_state::reserve(std::size_t bytes, label const& who) {
    if (bytes != 0) growth_.reserve(bytes, who);
}

CUOTA_INLINE_IN_PLACE std::size_t pool_state::reclaimable(std::size_t wanted) const noexcept {
    return release_.reclaimable(wanted);
}

CUOTA_INLINE void pool_state::close_to_requests() noexcept {
    release_.keep_idle(false);
    if (blocks().close()) add_ref();
}

CUOTA_INLINE void pool_state::give(stream_ref const* s, void* p, std::size_t bytes) noexcept {
    if (is_of_parent()) [[unlikely]]
        return;
    std::uint64_t const foreign = p ? foreign_capture_to_give_in(s) : 0;
    if ((graphs_.is_any() || capture_scope::here() || foreign != 0) && p) [[unlikely]]
        if (give_to_graph(s, foreign, p, bytes)) return;
    intrusive_ptr<pool_state> closed;
    intrusive_ptr<pool_state> kept;
    blocks().give(s, p, bytes, [&](bool is_last) {
        closed = intrusive_ptr<pool_state>::of(*this);
        if (is_last) kept = intrusive_ptr<pool_state>::adopt(this);
    });
    if (closed) trim(0);
}

CUOTA_INLINE void* pool_state::take(stream_ref const* s, block_request const& r) {
    if (r.bytes == 0) return nullptr;
    memory_.node().refuse_other_state(r.who.where);
    if (s) memory_.refuse_out_of_reach(*s, r.who);
    std::optional<mapping_split> split;
    if (void* const p = blocks().try_take(s, r, &split)) return p;
    if (split) [[unlikely]] {
        growth_.split(*split, r.who);
        if (void* const p = blocks().try_take(s, r)) return p;
    }
    if (r.alignment > granularity) return take_aligned(s, r);
    host_waits* left = nullptr;
    void* const p = growth_.grow(r.bytes, r.bytes, r.who, taking{blocks(), s, r, left});
    return blocks().waited_for(left, p, s, r);
}

CUOTA_INLINE void* pool_state::take_aligned(stream_ref const* s, block_request const& r) {
    std::size_t const skipped = r.alignment - granularity;
    std::size_t const available = checked_add(round_up(r.bytes, alignment_), skipped).value_or(unlimited);
    for (;;) {
        (void)growth_.grow(available, r.bytes, r.who, adding{blocks()});
        if (void* const p = blocks().try_take(s, r)) return p;
    }
}

CUOTA_INLINE pool_in_graph<pool_state>& pool_state::graph_of(capture_scope& scope) {
    return scope.use_of<pool_in_graph<pool_state>>(this, [this] {
        return intrusive_ptr<pool_in_graph<pool_state>>::adopt(new pool_in_graph<pool_state>{*this});
    });
}

CUOTA_INLINE void* pool_state::take_for_graph(stream_ref s, block_request const& r) {
    capture_scope* const scope = capture_of(s);
    if (!scope)
        throw_usage_error(
            r.who.where,
            "{}: cannot allocate on a stream that another thread captures; allocate in that thread",
            {title()});
    if (r.bytes == 0) return nullptr;
    graph_key const graph{.graph = &graph_of(*scope)};
    if (void* const again = graphs_.try_take(graph, r.bytes, r.alignment, s.id()))
        return rt::named_block(again, r.bytes, r.who);
    void* const p = take(&s, r);
    try {
        graphs_.enter(graph, p, r.bytes, s.id(), true);
    } catch (...) {
        blocks().give(nullptr, p, r.bytes, [](bool) {});
        throw;
    }
    return p;
}

CUOTA_INLINE void* pool_state::take_for_foreign_graph(stream_ref s, std::uint64_t foreign,
                                                      block_request const& r) {
    if (graphs_.is_any() && foreign != unknown_capture)
        if (void* const again = graphs_.try_take({.foreign = foreign}, r.bytes, r.alignment, s.id()))
            return rt::named_block(again, r.bytes, r.who);
    return take(nullptr, r);
}

CUOTA_INLINE std::uint64_t pool_state::foreign_capture_to_give_in(stream_ref const* s) noexcept {
    if (!s || s->is_owned()) return 0;
    std::uint64_t foreign = 0;
    // A transient error must not free a block that a graph uses.
    for (int tries = 0; tries != 2; ++tries)
        if (report_failure_of([&] { foreign = foreign_capture_of(*s); })) break;
    return foreign;
}

CUOTA_INLINE std::size_t pool_state::release_foreign_graphs() noexcept {
    std::size_t bytes = 0;
    while (auto const block = graphs_.release_foreign()) {
        bytes += block->bytes;
        stream_ref const on = block->on ? stream_ref{*block->on} : stream_ref{cudaStreamPerThread};
        give(block->on ? &on : nullptr, block->at, block->bytes);
    }
    return bytes;
}

}  // namespace cuota::inline v0::detail

#endif
