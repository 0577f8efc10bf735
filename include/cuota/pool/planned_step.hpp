// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What one step of a program asks for, in its order, and where in one slab each request goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/offset_plan.hpp>

namespace cuota::inline v0 {

/// One request of a step. `live` counts the requests and releases of the step, from 0, and has its bytes as they were
/// asked for. Example: tests/pool/planned_step.cpp
struct planned_request {
    lifetime live;           ///< from its request up to its release, and its bytes
    std::size_t offset = 0;  ///< in the slab, bytes
    bool is_planned =
        true;  ///< false when it was still alive at the end of the step: it has no place in the slab

    /// By all three.
    friend bool operator==(planned_request const&, planned_request const&) noexcept = default;
};

/// The requests of a step in their order, and the slab that they fit in. Example: tests/pool/planned_step.cpp
struct planned_step {
    std::vector<planned_request> requests;  ///< the n-th of a step is the n-th here
    std::size_t peak = 0;                   ///< bytes of the slab
    std::size_t lower_bound = 0;  ///< the most that is alive at once of what is planned: no slab is smaller

    /// Of sizes and lifetimes: the same for the same sequence, everywhere.
    [[nodiscard]] std::uint64_t hash() const noexcept;
    /// By the requests with their places, and the slab.
    friend bool operator==(planned_step const&, planned_step const&) noexcept = default;
};

namespace detail {

/// What of a step is planned, as plan_offsets takes it: the rest has no size.
[[nodiscard]] std::vector<lifetime> planned_lifetimes(planned_step const& step);

/// Gives the requests their offsets, and the step its slab. Throws: as plan_offsets; unchanged then.
void place_requests(planned_step& step, plan_options options);

[[noreturn]] void refuse_request_order(std::size_t row, place where);

/// For each request of a step that is served again and again: those that had its bytes last, of this step if they come
/// before it, else of the step before. Mostly one or two each, and on average at most three.
class last_users {
public:
    explicit last_users(planned_step const& step);

    [[nodiscard]] std::span<std::uint32_t const> of(std::uint32_t request) const noexcept;

private:
    std::vector<std::uint32_t> begins_;  // of requests, in all_
    std::vector<std::uint32_t> all_;
};

}  // namespace detail

/// The planned step of requests that are known before any is made: in their order, each from its request up to its
/// release, counted in requests and releases of the step from 0, or by any other count that goes up.
/// Throws: misuse, which names the row, for requests that are not in order, and as plan_offsets.
/// Cost:   that of plan_offsets. Example: as step_plan::expect, tests/pool/step_plan.cpp
[[nodiscard]] planned_step plan_requests(std::span<lifetime const> requests, plan_options const& options = {},
                                         place where = place::here());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <iterator>
#include <map>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/pool/block.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE std::uint64_t planned_step::hash() const noexcept {
    std::uint64_t h = 0xcbf29ce484222325U;  // Fowler, Noll, Vo: FNV-1a, by bytes
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
    options.alignment = block::granule;
    offset_plan const found = plan_offsets(planned_lifetimes(step), options);
    for (std::size_t i = 0; i != step.requests.size(); ++i) step.requests[i].offset = found.offsets[i];
    step.peak = found.peak;
    step.lower_bound = found.lower_bound;
}

CUOTA_INLINE void refuse_request_order(std::size_t row, place where) {
    throw_misuse(
        where,
        "request {} of a step does not come after the one before: list them in the order they are made",
        {row});
}

/// Who had each byte last.
class users_by_byte {
public:
    /// Appends those of [begin, end), each once.
    void note(std::size_t begin, std::size_t end, std::vector<std::uint32_t>& into) const;
    void put(std::size_t begin, std::size_t end, std::uint32_t user);

private:
    struct stretch {
        std::size_t end;
        std::uint32_t user;
    };

    void cut(std::size_t where);

    std::map<std::size_t, stretch> users_;  // by the first byte
};

CUOTA_INLINE last_users::last_users(planned_step const& step) {
    users_by_byte users;
    for (bool const is_first_step : {true, false})
        for (std::uint32_t i = 0; i != step.requests.size(); ++i) {
            if (!is_first_step) begins_.push_back(static_cast<std::uint32_t>(all_.size()));
            planned_request const& r = step.requests[i];
            if (!r.is_planned || r.live.size == 0) continue;
            std::size_t const end = r.offset + round_up(r.live.size, block::granule);
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
                                        place where) {
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
