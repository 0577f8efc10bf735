// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The requests of a program's step and their offsets in a slab.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/planning/offset_plan.hpp>

namespace cuota::inline v0 {

/// One request of a step. `live` counts the step's allocations and frees from 0.
/// Example: tests/pool/planning/planned_step.cpp
struct planned_request {
    lifetime live;           ///< from allocation to free
    std::size_t offset = 0;  ///< in the slab
    /// Whether it is in the slab; false if live at the step's end.
    bool is_planned = true;

    /// Compares all three.
    friend bool operator==(planned_request const&, planned_request const&) noexcept = default;
};

/// The requests of a step and their slab. Example: tests/pool/planning/planned_step.cpp
struct planned_step {
    std::vector<planned_request> requests;  ///< in order
    std::size_t peak = 0;                   ///< bytes of the slab
    std::size_t lower_bound = 0;            ///< maximum of planned live bytes

    /// Returns a hash of sizes and lifetimes, the same on every platform.
    [[nodiscard]] std::uint64_t hash() const noexcept;
    /// Compares all.
    friend bool operator==(planned_step const&, planned_step const&) noexcept = default;
};

namespace detail {

/// Returns the lifetimes; unplanned requests get size 0.
[[nodiscard]] std::vector<lifetime> planned_lifetimes(planned_step const& step);

/// Plans offsets and slab. Strong guarantee. Throws: as plan_offsets.
void place_requests(planned_step& step, plan_options options);

[[noreturn]] void refuse_request_order(std::size_t row, source_location where);

/// The requests that used each request's bytes last: in this step before it, otherwise in the previous step.
class last_users {
public:
    explicit last_users(planned_step const& step);

    [[nodiscard]] std::span<std::uint32_t const> of(std::uint32_t request) const noexcept;

private:
    std::vector<std::uint32_t> begins_;  // by request, into all_
    std::vector<std::uint32_t> all_;
};

}  // namespace detail

/// Plans a step of known requests in order of allocation, with times in any increasing count. Throws: usage_error that names the row, if
/// they are not in order; as plan_offsets. Cost: as plan_offsets.
/// Example: tests/pool/planning/step_plan.cpp
[[nodiscard]] planned_step plan_requests(std::span<lifetime const> requests, plan_options const& options = {},
                                         source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <iterator>
#include <map>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/pool/detail/blocks/block.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE std::uint64_t planned_step::hash() const noexcept {
    std::uint64_t h = 0xcbf29ce484222325U;  // FNV-1a over bytes (Fowler, Noll, Vo)
    auto const add = [&](std::uint64_t number) {
        for (int shift = 0; shift != 64; shift += 8) h = (h ^ (number >> shift & 0xff)) * 0x100000001b3U;
    };
    for (planned_request const& r : requests) {
        add(r.live.from);
        add(r.live.until);
        add(r.live.size);
        add(r.is_planned);
    }
    return h;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<lifetime> planned_lifetimes(planned_step const& step) {
    std::vector<lifetime> blocks;
    for (planned_request const& r : step.requests)
        blocks.push_back({r.live.from, r.live.until, r.is_planned ? r.live.size : 0});
    return blocks;
}

CUOTA_INLINE void place_requests(planned_step& step, plan_options options) {
    options.alignment = block::granularity;
    offset_plan const found = plan_offsets(planned_lifetimes(step), options);
    for (std::size_t i = 0; i != step.requests.size(); ++i) step.requests[i].offset = found.offsets[i];
    step.peak = found.peak;
    step.lower_bound = found.lower_bound;
}

CUOTA_INLINE void refuse_request_order(std::size_t row, source_location where) {
    throw_usage_error(
        where,
        "planned_step: request {} does not come after the previous one; list requests in the order "
        "of allocation",
        {row});
}

/// The last user of each byte.
class users_by_byte {
public:
    void note(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& into) const;
    void put(std::size_t begin, std::size_t end, std::uint32_t user);

private:
    struct stretch {
        std::size_t end;
        std::uint32_t user;
    };

    void cut(std::size_t where);

    std::map<std::size_t, stretch> users_;
};

CUOTA_INLINE last_users::last_users(planned_step const& step) {
    users_by_byte users;
    for (bool const is_first_step : {true, false})
        for (std::uint32_t i = 0; i != step.requests.size(); ++i) {
            if (!is_first_step) begins_.push_back(static_cast<std::uint32_t>(all_.size()));
            planned_request const& r = step.requests[i];
            if (!r.is_planned || r.live.size == 0) continue;
            std::size_t const end = r.offset + round_up(r.live.size, block::granularity);
            if (!is_first_step) users.note(r.offset, end, all_);
            users.put(r.offset, end, i);
        }
    begins_.push_back(static_cast<std::uint32_t>(all_.size()));
}

CUOTA_INLINE std::span<std::uint32_t const> last_users::of(std::uint32_t request) const noexcept {
    return {all_.data() + begins_[request], all_.data() + begins_[request + 1]};
}

CUOTA_INLINE void users_by_byte::note(std::size_t begin, std::size_t end,
                                      std::vector<std::uint32_t>& into) const {
    auto const mine = static_cast<std::ptrdiff_t>(into.size());
    for (auto at = std::prev(users_.upper_bound(begin)); at != users_.end() && at->first < end; ++at)
        if (at->second.end > begin) into.push_back(at->second.user);
    std::sort(into.begin() + mine, into.end());
    into.erase(std::unique(into.begin() + mine, into.end()), into.end());
}

CUOTA_INLINE void users_by_byte::put(std::size_t begin, std::size_t end, std::uint32_t user) {
    cut(begin);
    cut(end);
    users_.erase(users_.lower_bound(begin), users_.lower_bound(end));
    users_.emplace(begin, stretch{end, user});
}

CUOTA_INLINE void users_by_byte::cut(std::size_t where) {
    auto const next = users_.lower_bound(where);
    if (next == users_.begin()) return;
    stretch& before = std::prev(next)->second;
    if (before.end <= where) return;
    users_.emplace_hint(next, where, before);
    before.end = where;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE planned_step plan_requests(std::span<lifetime const> requests, plan_options const& options,
                                        source_location where) {
    planned_step step;
    for (lifetime const& live : requests) {
        std::size_t const row = step.requests.size();
        if (row != 0 && live.from <= requests[row - 1].from) detail::refuse_request_order(row, where);
        step.requests.push_back({live});
    }
    detail::place_requests(step, options);
    return step;
}

}  // namespace cuota::inline v0

#endif
