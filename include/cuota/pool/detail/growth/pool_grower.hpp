// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Growth of a pool by pages or by a segment, or a refusal.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/growth/pool_release.hpp>

namespace cuota::inline v0::detail {

/// Allocates the first block of new memory.
struct taking {
    block_pool& blocks;
    stream_ref const* s;
    block_request const& r;
    host_waits*& left;  // for block_pool::waited_for

    [[nodiscard]] void* operator()(segment const& fresh) const { return blocks.take_of_new(fresh, s, r); }
    [[nodiscard]] void* operator()(growth_candidate const& window) const;
};
/// Adds new memory as a free block.
struct adding {
    block_pool& blocks;

    void* operator()(segment const& fresh) const;
    void* operator()(growth_candidate const& window) const;
};

/// Charges and acquires memory and adds it by `taking` or `adding`. Holds no lock, as the budget may call other pools, and those this one.
/// Threads: any.
class pool_grower {
public:
    pool_grower(pool_memory& memory, pool_release& release) noexcept : memory_{memory}, release_{release} {}

    /// Acquires `bytes` for a request of `requested` bytes and its alignment. On a throw, nothing was acquired. Throws: as scoped_pool.
    template <class Enter>
    void* grow(std::size_t bytes, std::size_t requested, label const& who, Enter enter) {
        reclaim_record record;
        if (memory_.page() != 0)
            if (void* const p = by_pages(bytes, who, record, enter)) return p;
        return by_segment(bytes, requested, who, record, enter);
    }
    /// Maps the held mapping again as two, if account and device have room for it: other threads may take its bytes meanwhile. Reports
    /// failures; a part that cannot be mapped again stays unmapped.
    void split(mapping_split const& held, label const& who) noexcept;
    /// Sets pool_options::remap_above. Not during another call.
    void remap_above(double times) noexcept { remap_above_ = times; }
    /// Acquires exactly `bytes`.
    void reserve(std::size_t bytes, label const& who);

private:
    static constexpr std::size_t granularity = pool_memory::granularity;

    [[nodiscard]] ledger& node() const noexcept { return memory_.node(); }

    // --- pages ---

    // Tries pages and segments in the order of docs/design/growth.md.
    template <class Enter>
    [[nodiscard]] void* by_pages(std::size_t bytes, label const& who, reclaim_record& record, Enter enter) {
        std::size_t const ample = memory_.ample(bytes);
        if (ample != bytes && excess_with(ample, bytes) == 0)
            if (void* const p = map(ample, bytes, who, growth_aim::least_missing, nullptr, enter)) return p;
        if (void* const p = map(bytes, bytes, who, growth_aim::least_missing, nullptr, enter)) return p;
        std::size_t const exact = round_up(round_up(bytes, granularity), memory_.segment_granularity());
        if (node().try_charge_coming(exact))
            if (auto const fresh = memory_.take_segment(exact, nullptr)) return use(*fresh, enter);
        if (void* const p = map(bytes, bytes, who, growth_aim::least_missing, &record, enter)) return p;
        return map(bytes, bytes, who, growth_aim::least_in_all, &record, enter);
    }

    // Without a record, no holder is called.
    [[nodiscard]] bool try_charge(std::size_t bytes, reclaim_record* record);

    // Charges and maps a window of `bytes` for a request of `request` bytes, and calls enter(window). Null, without a change, if budget,
    // device or addresses do not suffice.
    template <class Enter>
    [[nodiscard]] void* map(std::size_t bytes, std::size_t request, label const& who, growth_aim aim,
                            reclaim_record* record, Enter enter) {
        std::optional<driver_relief> relief;
        if (record && memory_.on()) relief.emplace(*memory_.on());
        for (;;) {
            auto const plan = memory_.blocks().could_grow(bytes, aim);
            if (!plan) return nullptr;
            pool_release::keeping const keep{release_, {plan->at, plan->end, plan->idle}};
            if (remap(plan->missing, bytes)) continue;
            if (!try_charge(plan->missing, record)) return nullptr;
            auto const held =
                hold(plan->missing, [&] { return memory_.blocks().hold(bytes, aim, plan->missing); });
            if (!held) continue;  // another thread changed the blocks
            if (void* const p = memory_.map(*held, request, who, enter)) return p;
            // The device has less than the budget; other idle memory may cover the rest.
            if (!record) return nullptr;
            if (relief && relief->relieve(held->missing)) continue;
            if (release_.reclaim(held->missing) != 0) continue;
            if (relief) record->told.insert(record->told.end(), relief->told().begin(), relief->told().end());
            return nullptr;
        }
    }
    // The bytes above pool_options::remap_above after mapping `fresh` bytes for a request.
    [[nodiscard]] std::size_t excess_with(std::size_t fresh, std::size_t bytes) const noexcept;
    // Unmaps pages elsewhere that no work uses, if mapping `missing` bytes would leave an excess. Returns whether the window may have changed.
    [[nodiscard]] bool remap(std::size_t missing, std::size_t bytes) noexcept;
    // Holds find() for the charged bytes; refunds the excess.
    template <class Find>
    [[nodiscard]] std::optional<growth_candidate> hold(std::size_t charged, Find find) {
        std::optional<growth_candidate> window;
        try {
            window = find();
        } catch (...) {
            memory_.did_not_come(charged);
            throw;
        }
        std::size_t const needed = window ? window->missing : 0;
        if (charged != needed) memory_.did_not_come(charged - needed);
        return window;
    }
    // Maps these pages by one mapping, if they are still unmapped.
    void map_at(std::byte* at, std::size_t bytes, label const& who);

    // --- segments ---

    template <class Enter>
    void* by_segment(std::size_t bytes, std::size_t requested, label const& who, reclaim_record& record,
                     Enter enter) {
        return use(take_segment(round_up(bytes, granularity), requested, who, record), enter);
    }
    // On a throw, releases the segment.
    template <class Enter>
    void* use(segment const& fresh, Enter enter) {
        try {
            return enter(fresh);
        } catch (...) {
            memory_.give_back(fresh);
            throw;
        }
    }

    // Acquires at least `size` bytes, with some in advance, after releasing segments that growing requests left (docs/design/growth.md).
    [[nodiscard]] segment take_segment(std::size_t size, std::size_t requested, label const& who,
                                       reclaim_record& record);

    // --- refusals ---

    [[nodiscard]] std::size_t ample_segment(std::size_t size, std::size_t exact) noexcept;
    void charge_or_explain(std::size_t bytes, charge_request const& request, reclaim_record& record);
    [[noreturn]] void refuse(std::size_t exact, charge_request const& request, reclaim_record& record);
    // Bytes that may be lost before an aligned address.
    [[nodiscard]] static std::size_t skipped_of(std::size_t exact, charge_request const& request) noexcept;
    [[nodiscard]] std::size_t largest_grown(std::size_t spent) const noexcept;

    // The pool's part of a refusal.
    class this_pool final : public asked_pool {
    public:
        this_pool(block_pool const& blocks, std::size_t bytes) noexcept : blocks_{blocks}, bytes_{bytes} {}
        [[nodiscard]] std::size_t largest_free() const noexcept override { return blocks_.largest_free(); }
        [[nodiscard]] CUOTA_INLINE_IN_PLACE bool could_serve_if(
            std::span<allocation_group const> released) const override;

    private:
        block_pool const& blocks_;
        std::size_t const bytes_;
    };

    pool_memory& memory_;
    pool_release& release_;
    double remap_above_ = std::numeric_limits<double>::infinity();
    std::atomic<std::size_t> reserved_ahead_ = 0;  // kept idle for reserve()
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void* taking::operator()(growth_candidate const& window) const {
    return blocks.take_of_grown(window, s, r, left);
}

CUOTA_INLINE void* adding::operator()(segment const& fresh) const {
    blocks.add(fresh);
    return fresh.at;
}

CUOTA_INLINE void* adding::operator()(growth_candidate const& window) const {
    blocks.add_grown(window);
    return window.at;
}

CUOTA_INLINE void pool_grower::reserve(std::size_t bytes, label const& who) {
    adding const enter{memory_.blocks()};
    bool const is_whole_pages = memory_.page() != 0 && bytes % memory_.page() == 0;
    reclaim_record record;
    reserved_ahead_ += bytes;  // first: a concurrent request must not release it
    try {
        if (is_whole_pages && map(bytes, bytes, who, growth_aim::least_missing, nullptr, enter)) return;
        (void)by_segment(bytes, bytes, who, record, enter);
    } catch (...) {
        reserved_ahead_ -= bytes;
        throw;
    }
}

CUOTA_INLINE bool pool_grower::try_charge(std::size_t bytes, reclaim_record* record) {
    if (!record) return node().try_charge_coming(bytes);
    return try_charge_by([&] { return node().charge_coming_or_say(bytes); }, node(), bytes, *record);
}

CUOTA_INLINE std::size_t pool_grower::excess_with(std::size_t fresh, std::size_t bytes) const noexcept {
    auto const [peak, staying] = memory_.blocks().figures_with(bytes);
    double const bound = static_cast<double>(peak) * remap_above_;
    if (!(bound < 0x1p62)) return 0;  // more than any device has, or infinity
    std::size_t const most =
        std::max(round_up(static_cast<std::size_t>(bound), memory_.page()), reserved_ahead_.load());
    std::size_t const all = saturating_add(staying, fresh);
    return all - std::min(all, most);
}

CUOTA_INLINE bool pool_grower::remap(std::size_t missing, std::size_t bytes) noexcept {
    std::size_t const excess = std::min(missing, excess_with(missing, bytes));
    if (excess == 0) return false;
    std::size_t const idle = release_.reclaimable(excess);
    if (idle < excess) memory_.blocks().note_excess();
    // A request that does not fit anyway changes nothing.
    if (saturating_add(node().available(), idle) < missing) return false;
    return release_.release_completed(excess) != 0;
}

CUOTA_INLINE void pool_grower::split(mapping_split const& held, label const& who) noexcept {
    idle_memory const& whole = held.whole;
    if (!memory_.has_room(whole.bytes)) return memory_.blocks().gone(whole, false);
    if (memory_.give_back(whole) == 0) return;
    report_failure_of([&] {
        map_at(whole.at, held.first, who);
        map_at(whole.at + held.first, whole.bytes - held.first, who);
    });
}

CUOTA_INLINE void pool_grower::map_at(std::byte* at, std::size_t bytes, label const& who) {
    if (!node().try_charge_coming(bytes)) return;
    auto const held = hold(bytes, [&] { return memory_.blocks().hold_at(at, bytes); });
    if (held) (void)memory_.map_as_one(*held, who, adding{memory_.blocks()});
}

CUOTA_INLINE segment pool_grower::take_segment(std::size_t size, std::size_t requested, label const& who,
                                               reclaim_record& record) {
    std::size_t const step = memory_.segment_granularity();
    std::size_t const exact = round_up(size, step);
    std::size_t const ample = ample_segment(size, exact);
    if (ample > exact && node().try_charge_coming(ample))
        if (auto const s = memory_.take_segment(ample, nullptr)) return *s;

    charge_request const request{requested, std::max(step, granularity), who, memory_.on()};
    charge_or_explain(exact, request, record);
    if (auto const s = memory_.take_segment(exact, &record.told)) return *s;
    // this pool's idle memory may cover the rest
    std::size_t const trimmed = release_.trim(0);
    if (trimmed != 0) {
        record.told.push_back({memory_.blocks().title(), exact, trimmed, 0});
        charge_or_explain(exact, request, record);
        if (auto const s = memory_.take_segment(exact, &record.told)) return *s;
    }
    refuse(exact, request, record);
}

CUOTA_INLINE std::size_t pool_grower::ample_segment(std::size_t size, std::size_t exact) noexcept {
    std::size_t const step = memory_.segment_granularity();
    std::size_t const usual = std::max(exact, round_up(memory_.blocks().reserved() / 8 / size * size, step));
    if (memory_.page() != 0) return usual;  // pages are released one by one
    std::size_t const for_growth = saturating_add(exact, round_down(exact / 8, step));
    auto const [peak, staying] = memory_.blocks().figures_with(size);
    std::size_t const all = saturating_add(staying, std::max(usual, for_growth));
    std::size_t const most = saturating_add(saturating_add(peak, peak / 2), reserved_ahead_.load());
    std::size_t const hoard = all - std::min(all, most);
    return hoard != 0 && release_.shrink_by(hoard) != 0 ? std::max(usual, for_growth) : usual;
}

CUOTA_INLINE void pool_grower::charge_or_explain(std::size_t bytes, charge_request const& request,
                                                 reclaim_record& record) {
    this_pool const pool{memory_.blocks(), bytes};
    charge_coming(
        node(), bytes, request, record,
        [&](refusal& facts) {
            facts.max_fit = std::max({facts.max_fit, facts.largest_free, largest_grown(facts.max_fit)});
            facts.max_fit -= std::min(facts.max_fit, skipped_of(bytes, request));
        },
        &pool);
}

CUOTA_INLINE_IN_PLACE bool pool_grower::this_pool::could_serve_if(
    std::span<allocation_group const> released) const {
    return blocks_.idle_if_released(released).largest >= blocks_.size_of(bytes_);
}

CUOTA_INLINE void pool_grower::refuse(std::size_t exact, charge_request const& request,
                                      reclaim_record& record) {
    this_pool const pool{memory_.blocks(), exact};
    refusal r = facts_of(node(), exact, request, record, &pool);
    note_given(r, record.told);
    r.cause = "within budget, but the upstream resource of " + memory_.blocks().title() + " is out of memory";
    r.max_fit = r.largest_free;
    if (r.device) {
        std::size_t const left = std::min(r.device->free, node().available());
        r.max_fit = std::max({r.max_fit, round_down(left, request.granularity), largest_grown(left)});
    }
    r.max_fit -= std::min(r.max_fit, skipped_of(exact, request));
    out_of_memory const refused{std::move(r)};
    node().tell_observers([&](budget_observer& o) { o.refused(node(), refused); });
    throw refused;
}

CUOTA_INLINE std::size_t pool_grower::skipped_of(std::size_t exact, charge_request const& request) noexcept {
    return exact - std::min(exact, round_up(request.requested, request.granularity));
}

CUOTA_INLINE std::size_t pool_grower::largest_grown(std::size_t spent) const noexcept {
    return memory_.page() != 0 ? memory_.blocks().largest_grown(spent) : 0;
}

}  // namespace cuota::inline v0::detail

#endif
