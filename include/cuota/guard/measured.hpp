// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Measures memory use.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/guard/detail/resource_adaptor_base.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Memory use of one tag.
struct tag_usage {
    tag name{};                   ///< empty: untagged
    std::size_t at_peak = 0;      ///< live bytes when the total first reached its peak
    std::size_t peak = 0;         ///< most live bytes of this tag
    std::size_t allocations = 0;  ///< number of allocations
};

/// Memory use of a measured resource. Allocations are rounded up to the granularity.
struct usage_report {
    std::size_t granularity = 1;         ///< bytes
    std::size_t peak = 0;                ///< most live bytes at one moment
    std::size_t allocations = 0;         ///< without those of 0 bytes
    std::size_t releases = 0;            ///< allocations freed
    std::vector<tag_usage> by_tag;       ///< descending by `at_peak`, which sums to `peak`
    std::vector<allocation_group> live;  ///< by tag and call site, in descending order

    /// Returns the live bytes.
    [[nodiscard]] std::size_t live_bytes() const noexcept;
    /// Returns the peak as a plan with one part per tag. Throws: std::bad_alloc.
    [[nodiscard]] cuota::footprint footprint() const;
    /// Returns peak, tags and live memory. Throws: std::bad_alloc.
    [[nodiscard]] std::string text() const;
};

namespace detail {

/// Records of a measured resource. Threads: any.
class measured_accounting {
public:
    measured_accounting();
    ~measured_accounting();

    struct entry {
        std::size_t requested;
        allocation_group held;
        void* of_tag;
    };

    /// Throws: std::bad_alloc; nothing is counted.
    void enter(void* p, std::size_t bytes, std::size_t cost, label const& who);
    /// Removes the record of p before upstream can reuse the address; the block is live until count_out. Reports an unknown p or a wrong
    /// size.
    [[nodiscard]] bool forget(void* p, std::size_t bytes, entry& known) noexcept;
    void count_out(entry const& e) noexcept;
    [[nodiscard]] usage_report report(std::size_t granularity) const;

private:
    struct tables;
    light_unique_ptr<tables> tables_;
};

template <resource Upstream>
class measured_state final : public ref_counted {
public:
    explicit measured_state(Upstream upstream) : upstream_{std::move(upstream)} {}

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        void* const p = order.take(upstream_, bytes, alignment, who);
        if (!p) return nullptr;
        try {
            state_.enter(p, bytes, round_up(bytes, upstream_.granularity()), who);
        } catch (...) {
            order.give(upstream_, p, bytes, alignment);
            throw;
        }
        return p;
    }
    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return;
        measured_accounting::entry known{};
        if (!state_.forget(p, bytes, known)) return;
        order.give(upstream_, p, bytes, alignment);
        state_.count_out(known);
    }

    [[nodiscard]] usage_report report() const { return state_.report(upstream_.granularity()); }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    Upstream upstream_;
    measured_accounting state_;
};

}  // namespace detail

/// Resource adaptor that measures Upstream's memory: the peak, the tags at the peak, and memory not freed.
///
/// Below a pool it measures the segments, above a pool its users' memory. A budget of `report().peak` bytes is the smallest that suffices
/// for the same calls. Copies share the same state.
///
/// Units:   bytes, rounded up to Upstream's granularity.
/// Order:   that of Upstream.
/// Threads: any, if Upstream allows it.
/// Throws:  what Upstream throws; std::bad_alloc. Invalid deallocations are reported to the error sink as misuse; nothing is freed.
/// Cost:    a lock and a table entry per call.
/// Example: tests/guard/measured.cpp
template <resource Upstream = device_memory>
class measured : public detail::resource_adaptor_base<Upstream, detail::measured_state<Upstream>> {
public:
    /// Uses a default-constructed Upstream.
    measured() requires std::default_initializable<Upstream> : measured{Upstream{}} {}
    /// Starts to count.
    // No other type: a measured<any_resource> could be converted to its own upstream.
    template <std::same_as<Upstream> U>
    explicit measured(U upstream)
        : measured::resource_adaptor_base{
              detail::intrusive_ptr<detail::measured_state<Upstream>>::make(std::move(upstream))} {}

    /// Returns the use so far.
    [[nodiscard]] usage_report report() const { return this->state().report(); }
};

/// `measured memory{pool.resource()}`
template <resource Upstream>
measured(Upstream) -> measured<Upstream>;

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>

namespace cuota::inline v0::detail {

struct measured_accounting::tables {
    struct of_tag {
        tag_usage seen;
        std::size_t live = 0;
    };

    // Sorts by at_peak, then peak, descending, then name.
    static void sort_by_peak(std::vector<tag_usage>& tags);
    // Throws: usage_error; nothing is changed.
    [[nodiscard]] entry forget(void* p, std::size_t bytes);

    object_lock guard{};
    std::unordered_map<void*, entry> live{};
    std::unordered_map<std::string_view, of_tag> tags{};  // entries do not move
    std::size_t live_bytes = 0;
    std::size_t peak = 0;
    std::size_t releases = 0;
    bool is_at_peak = false;  // true: the tags' bytes at the peak are the present ones
};

CUOTA_INLINE measured_accounting::measured_accounting() : tables_{light_unique_ptr<tables>::make()} {}

CUOTA_INLINE measured_accounting::~measured_accounting() = default;

CUOTA_INLINE void measured_accounting::enter(void* p, std::size_t bytes, std::size_t cost, label const& who) {
    tables& all = *tables_;
    region_lock const lock{all.guard};
    tables::of_tag& of_tag = all.tags[who.name.text()];
    of_tag.seen.name = who.name;
    all.live.emplace(p, entry{bytes, {who.name, who.where, cost}, &of_tag});
    of_tag.live += cost;
    of_tag.seen.peak = std::max(of_tag.seen.peak, of_tag.live);
    ++of_tag.seen.allocations;
    all.live_bytes += cost;
    if (all.live_bytes <= all.peak) return;
    all.peak = all.live_bytes;
    all.is_at_peak = true;
}

CUOTA_INLINE bool measured_accounting::forget(void* p, std::size_t bytes, entry& known) noexcept {
    return report_failure_of([&] {
        region_lock const lock{tables_->guard};
        known = tables_->forget(p, bytes);
    });
}

CUOTA_INLINE void measured_accounting::count_out(entry const& e) noexcept {
    tables& all = *tables_;
    region_lock const lock{all.guard};
    if (std::exchange(all.is_at_peak, false))
        for (auto& [name, of_tag] : all.tags) of_tag.seen.at_peak = of_tag.live;
    static_cast<tables::of_tag*>(e.of_tag)->live -= e.held.bytes;
    all.live_bytes -= e.held.bytes;
    ++all.releases;
}

CUOTA_INLINE usage_report measured_accounting::report(std::size_t granularity) const {
    tables& all = *tables_;
    region_lock const lock{all.guard};
    usage_report r{granularity, all.peak, 0, all.releases, {}, {}};
    for (auto const& [name, of_tag] : all.tags) {
        if (of_tag.seen.allocations == 0) continue;  // its first record failed
        r.by_tag.push_back(of_tag.seen);
        if (all.is_at_peak) r.by_tag.back().at_peak = of_tag.live;
        r.allocations += of_tag.seen.allocations;
    }
    for (auto const& [p, e] : all.live) r.live.push_back(e.held);
    sum_up(r.live);
    tables::sort_by_peak(r.by_tag);
    return r;
}

CUOTA_INLINE measured_accounting::entry measured_accounting::tables::forget(void* p, std::size_t bytes) {
    auto const found = live.find(p);
    if (found == live.end())
        throw_usage_error(
            "measured memory: deallocate of an unknown pointer (double free, or allocated elsewhere)");
    entry const e = found->second;
    if (e.requested != bytes)
        throw_usage_error(e.held.where, "measured memory: deallocate with the wrong size: {}, allocated {}",
                          {as_bytes(bytes), as_bytes(e.requested)});
    live.erase(found);
    return e;
}

CUOTA_INLINE void measured_accounting::tables::sort_by_peak(std::vector<tag_usage>& tags) {
    std::sort(tags.begin(), tags.end(), [](tag_usage const& a, tag_usage const& b) {
        if (a.at_peak != b.at_peak) return a.at_peak > b.at_peak;
        if (a.peak != b.peak) return a.peak > b.peak;
        return std::string_view{a.name.text()} < b.name.text();
    });
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(labeled_resource<measured<device_memory>> &&
              device_accessible_resource<measured<device_memory>>);
static_assert(!host_accessible_resource<measured<device_memory>> && sizeof(measured<device_memory>) == 8);

CUOTA_INLINE std::size_t usage_report::live_bytes() const noexcept {
    std::size_t bytes = 0;
    for (allocation_group const& h : live) bytes += h.bytes;
    return bytes;
}

CUOTA_INLINE cuota::footprint usage_report::footprint() const {
    cuota::footprint plan = cuota::footprint::with_granularity(granularity);
    for (tag_usage const& t : by_tag)
        if (t.at_peak != 0) plan.add<std::byte>(t.name, t.at_peak, copies{1}, source_location{});
    return plan;
}

CUOTA_INLINE std::string usage_report::text() const {
    std::size_t const shown = std::min(by_tag.size(), std::size_t{16});
    std::size_t width = 12;
    for (std::size_t i = 0; i != shown; ++i)
        width = std::min(std::max(width, detail::tag_text(by_tag[i].name).size() + 3), std::size_t{40});
    std::string text = detail::message(
        "peak {}; {} allocations, {} not freed",
        {detail::as_bytes(peak), detail::as_count(allocations), detail::as_count(allocations - releases)});
    if (shown != 0)
        detail::append_message(text, "\n  {}at peak     own peak    allocations",
                               {detail::padded("tag", width)});
    for (std::size_t i = 0; i != shown; ++i)
        detail::append_message(text, "\n  {}{}{}{}",
                               {detail::padded(detail::tag_text(by_tag[i].name), width),
                                detail::padded(bytes_text(by_tag[i].at_peak), 12),
                                detail::padded(bytes_text(by_tag[i].peak), 12),
                                detail::as_count(by_tag[i].allocations)});
    text += detail::rest_text("\n  and ", by_tag.size() - shown);
    if (!live.empty()) detail::append_message(text, "\n  not freed: {}", {detail::holders_text(live, 3)});
    return text;
}

}  // namespace cuota::inline v0

#endif
