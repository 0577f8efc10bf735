// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Counts blocks by step, tag and call site.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/report/recording/recording.hpp>

namespace cuota::inline v0::detail::diagnosis {

/// One tag and call site in one step.
struct site_step {
    std::size_t step = 0;
    std::size_t taken = 0;  ///< blocks allocated
    std::size_t given = 0;  ///< of these, freed in this step
    /// Older blocks freed in this step.
    std::size_t given_older = 0;
    std::size_t taken_bytes = 0;
    std::size_t live_bytes = 0;  ///< bytes of this step's live blocks
    std::size_t at_once = 0;     ///< maximum of `live_bytes`
    std::size_t stayed = 0;      ///< blocks of this step live when the last step ended
    std::int64_t growth = 0;     ///< bytes allocated - bytes freed
};

/// One tag and call site; steps without events are left out.
struct site_account {
    std::uint16_t source = 0;
    std::uint32_t site = 0;
    std::vector<site_step> steps{};
};

/// Accounts by steps. A step extends from one step_ended to the next: step 0 may include setup or have begun before the recording. Events
/// after the last step_ended are not counted. Sources without steps use those of the pool with the most.
class step_account {
public:
    explicit step_account(recording const& r);

    /// Returns the accounts by their first events.
    [[nodiscard]] std::vector<site_account> const& sites() const noexcept { return sites_; }
    /// Returns whether any step ended; otherwise no accounts exist.
    [[nodiscard]] bool has_steps() const noexcept { return clock_.has_value(); }
    [[nodiscard]] std::size_t steps_of(std::uint16_t source) const noexcept;
    /// Returns the source that supplies the steps of `source`.
    [[nodiscard]] std::size_t clock_of(std::uint16_t source) const noexcept;

private:
    struct where_kept {
        std::size_t account = 0;
        std::size_t step = 0;  // index in its steps
    };
    struct address_of {
        std::uint16_t source;
        std::uint64_t address;
        friend bool operator==(address_of const&, address_of const&) noexcept = default;
    };
    struct hash {
        [[nodiscard]] std::size_t operator()(address_of a) const noexcept;
    };

    void apply(recording const& r, memory_event const& e);
    void take(memory_event const& e, std::uint32_t site, std::size_t step);
    void give(memory_event const& e, std::uint32_t site, std::size_t step);
    [[nodiscard]] site_step& step_at(where_kept at) noexcept { return sites_[at.account].steps[at.step]; }
    [[nodiscard]] where_kept entry(std::uint16_t source, std::uint32_t site, std::size_t step);

    std::vector<std::size_t> ends_;       // steps of each source
    std::optional<std::size_t> clock_{};  // the source with the most steps
    std::vector<std::size_t> now_{};      // steps ended so far
    std::vector<site_account> sites_{};
    std::map<std::pair<std::uint16_t, std::uint32_t>, std::size_t> accounts_{};  // indices in sites_
    std::unordered_map<address_of, std::pair<where_kept, std::size_t>, hash> open_{};
};

}  // namespace cuota::inline v0::detail::diagnosis

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail::diagnosis {

CUOTA_INLINE step_account::step_account(recording const& r) : ends_(r.sources.size()) {
    for (memory_event const& e : r.events)
        if (e.kind == event_kind::step_ended && e.source < ends_.size()) ++ends_[e.source];
    auto const most = std::ranges::max_element(ends_);
    if (most == ends_.end() || *most == 0) return;
    clock_ = static_cast<std::size_t>(most - ends_.begin());
    now_.resize(ends_.size());
    for (memory_event const& e : r.events)
        if (e.source < ends_.size()) apply(r, e);
}

CUOTA_INLINE std::size_t step_account::steps_of(std::uint16_t source) const noexcept {
    return clock_ ? ends_[clock_of(source)] : 0;
}

CUOTA_INLINE std::size_t step_account::clock_of(std::uint16_t source) const noexcept {
    return ends_[source] != 0 ? source : *clock_;
}

CUOTA_INLINE std::size_t step_account::hash::operator()(address_of a) const noexcept {
    std::uint64_t const mixed = (a.address ^ (std::uint64_t{a.source} << 48)) * 0x9E37'79B9'7F4A'7C15;
    return mixed ^ mixed >> 32;
}

CUOTA_INLINE void step_account::apply(recording const& r, memory_event const& e) {
    if (e.kind == event_kind::step_ended) {
        ++now_[e.source];
        return;
    }
    if (e.kind != event_kind::allocated && e.kind != event_kind::free_requested) return;
    std::size_t const step = now_[clock_of(e.source)];
    if (step == steps_of(e.source)) return;  // after the last step
    std::uint32_t const site = e.site < r.sites.size() ? e.site : 0;
    if (e.kind == event_kind::allocated) take(e, site, step);
    else give(e, site, step);
}

CUOTA_INLINE void step_account::take(memory_event const& e, std::uint32_t site, std::size_t step) {
    where_kept const at = entry(e.source, site, step);
    site_step& s = sites_[at.account].steps[at.step];
    ++s.taken;
    ++s.stayed;
    s.taken_bytes += e.size;
    s.live_bytes += e.size;
    s.at_once = std::max(s.at_once, s.live_bytes);
    s.growth += static_cast<std::int64_t>(e.size);
    open_[{e.source, e.address}] = {at, e.size};
}

CUOTA_INLINE void step_account::give(memory_event const& e, std::uint32_t site, std::size_t step) {
    auto const open = open_.find({e.source, e.address});
    if (open == open_.end()) {  // from before the recording, or overwritten
        site_step& now = step_at(entry(e.source, site, step));
        ++now.given_older;
        now.growth -= static_cast<std::int64_t>(e.size);
        return;
    }
    auto const [taken, size] = open->second;
    open_.erase(open);
    where_kept const at = entry(e.source, sites_[taken.account].site, step);  // the site of its allocation
    site_step& then = step_at(taken);
    site_step& now = step_at(at);
    then.live_bytes -= size;
    now.growth -= static_cast<std::int64_t>(size);
    --then.stayed;
    if (then.step == step) ++now.given;
    else ++now.given_older;
}

CUOTA_INLINE auto step_account::entry(std::uint16_t source, std::uint32_t site, std::size_t step)
    -> where_kept {
    auto const [known, is_new] = accounts_.try_emplace({source, site}, sites_.size());
    if (is_new) sites_.push_back({source, site, {}});
    std::vector<site_step>& steps = sites_[known->second].steps;
    if (steps.empty() || steps.back().step != step) steps.push_back({.step = step});
    return {known->second, steps.size() - 1};
}

}  // namespace cuota::inline v0::detail::diagnosis

#endif
