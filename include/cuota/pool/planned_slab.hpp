// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One slab that serves the requests of a planned step, step after step: by their place in the sequence, and only with
/// bytes that nobody has.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/planned_step.hpp>
#include <cuota/pool/stream_order.hpp>

namespace cuota::inline v0::detail {

/// What became of a request.
enum class plan_answer {
    served,
    unplanned,   // the one at its place in the sequence has no place in the slab
    other_size,  // none of that size comes next
    too_many,    // the sequence is over
    in_use       // its bytes are somebody's
};

/// How many requests of a step may be missing in a row: as far ahead a request is looked for by its size.
inline constexpr std::uint32_t plan_lookahead = 16;

/// "2 allocations are still alive: loss 4 B (train.cpp:10), …"
[[nodiscard]] inline std::string survivors_text(std::vector<holding> const& alive) {
    std::string text = std::to_string(alive.size()) +
                       (alive.size() == 1 ? " allocation is" : " allocations are") + " still alive:";
    for (std::size_t i = 0; i != std::min<std::size_t>(alive.size(), 4); ++i) {
        std::string const at = place_text(alive[i].where);
        text += std::string{i == 0 ? " " : ", "} +
                (alive[i].name.is_empty() ? "untagged" : alive[i].name.text()) + ' ' +
                bytes_text(alive[i].bytes) + (at.empty() ? "" : " (" + at + ')');
    }
    return text + (alive.size() > 4 ? ", ..." : "");
}

/// The planned requests, who has which, and what must be over before another may. Not thread-safe.
///
/// Requests are served in rising order within a step. So the bytes of one are free when those that had them last, by the
/// plan, were served in their turn and were given back since: each of those found them free. When one of them was not
/// served, nothing is concluded from the plan: all that is live is looked at, and waited for what was given back on
/// any stream.
class planned_slab {
public:
    /// `at`: peak bytes that every stream may use at once. Throws: std::bad_alloc.
    planned_slab(planned_step const& step, void* at)
        : at_{static_cast<std::byte*>(at)},
          bytes_{step.peak},
          last_users_{step},
          spots_(std::bit_ceil(2 * step.requests.size() + 1)) {
        requests_.reserve(step.requests.size());
        live_.reserve(step.requests.size());
        for (planned_request const& r : step.requests) {
            requests_.push_back({r.live.size, r.offset, 0, r.is_planned && r.live.size != 0});
            if (requests_.back().is_planned) requests_.back().spot = enter(r.offset);
        }
    }

    [[nodiscard]] void* at() const noexcept { return at_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] bool holds(void const* p) const noexcept {
        return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(at_) < bytes_;
    }
    [[nodiscard]] std::size_t live() const noexcept { return live_.size(); }
    /// Requests that were passed over, of all steps.
    [[nodiscard]] std::size_t skipped() const noexcept { return skipped_; }

    void begin_step() noexcept {
        ++step_;
        next_ = 0;
    }
    /// What of the step was not asked for counts as passed over.
    void end_step() noexcept {
        skipped_ += requests_.size() - next_;
        next_ = static_cast<index>(requests_.size());
    }

    struct result {
        plan_answer answer;
        void* at = nullptr;
    };
    /// The next request, in order of s, whose index in `order` is `lane`. Throws: cuda_error, std::bad_alloc; unchanged
    /// then, but for waits.
    [[nodiscard]] result try_take(stream_order& order, stream_ref s, std::uint32_t lane, std::size_t bytes,
                                  label const& who) {
        if (next_ == requests_.size()) return {plan_answer::too_many};
        index const i = find(bytes);
        if (i == nobody) return {plan_answer::other_size};
        request& r = requests_[i];
        if (!r.is_planned) return pass(i, plan_answer::unplanned);
        freedom const found = look_at(i);
        if (found == freedom::taken) return pass(i, plan_answer::in_use);
        if (found == freedom::by_plan) wait_for_last_users(order, s, lane, i);
        else wait_for_all(order, s, lane);
        r.step = step_;
        r.name = who.name;
        r.where = who.where;
        r.live_at = static_cast<index>(live_.size());
        live_.push_back(i);
        spots_[r.spot].user = i;
        return pass(i, plan_answer::served, at_ + r.offset);
    }

    /// The live request that has these bytes: its name in `give_back`. Throws: misuse when there is none of that size.
    [[nodiscard]] std::uint32_t find_live(void const* p, std::size_t bytes) const {
        auto const offset = static_cast<std::size_t>(static_cast<std::byte const*>(p) - at_);
        spot const& there = spots_[find_spot(offset)];
        if (there.offset != offset || there.user == nobody)
            throw misuse{
                "a step_plan: a pointer was given back that is not alive here (given back twice, or never "
                "given)"};
        request const& r = requests_[there.user];
        if (r.bytes != bytes)
            throw misuse{"a step_plan: " + bytes_text(bytes) + " were given back of " + bytes_text(r.bytes) +
                             (r.name.is_empty() ? "" : std::string{" "} + r.name.text()),
                         r.where};
        return there.user;
    }
    /// Others may have its bytes once `after` is over: a point of a stream that is expected, or none.
    void give_back(std::uint32_t i, wait_point after) noexcept {
        request& r = requests_[i];
        r.released = after;
        spots_[r.spot].user = nobody;
        live_[r.live_at] = live_.back();
        requests_[live_.back()].live_at = r.live_at;
        live_.pop_back();
        r.live_at = nobody;
        if (after.ticket != 0) latest_[after.stream] = after.ticket;
    }
    /// Makes room to remember what is given back in order of that lane. Throws: std::bad_alloc; unchanged then.
    void expect(std::uint32_t lane) {
        if (latest_.size() <= lane) latest_.resize(lane + 1, 0);
    }
    /// Calls it with the last point of each stream that something was given back on.
    template <class Visit>
    void for_each_latest(Visit visit) const {
        for (std::uint32_t lane = 0; lane != latest_.size(); ++lane)
            if (latest_[lane] != 0) visit(wait_point{lane, latest_[lane]});
    }

    /// Appends what is live of steps before this one, or of this one as well.
    void holdings(std::vector<holding>& into, bool of_this_step) const {
        for (index const i : live_)
            if (of_this_step || requests_[i].step != step_)
                into.push_back({requests_[i].name, requests_[i].where, requests_[i].bytes});
    }

private:
    using index = std::uint32_t;
    static constexpr index nobody = std::numeric_limits<index>::max();
    enum class freedom { by_plan, by_look, taken };

    struct request {
        std::size_t bytes;
        std::size_t offset;
        index spot;
        bool is_planned;
        index live_at = nobody;  // in live_
        std::uint64_t step = 0;  // that it was served in last; 0: as if before the first
        wait_point released{};
        tag name{};
        place where{};
    };
    // Who has the bytes from an offset on; offsets are few and known, so their table never changes.
    struct spot {
        std::size_t offset = unlimited;
        index user = nobody;
    };

    [[nodiscard]] std::size_t find_spot(std::size_t offset) const noexcept {
        std::size_t const mask = spots_.size() - 1;
        std::size_t at = (offset / block::granule * 0x9e37'79b9'7f4a'7c15U >> 32) & mask;
        while (spots_[at].offset != offset && spots_[at].offset != unlimited) at = (at + 1) & mask;
        return at;
    }
    [[nodiscard]] index enter(std::size_t offset) {
        std::size_t const at = find_spot(offset);
        spots_[at].offset = offset;
        return static_cast<index>(at);
    }

    // The next request of that size, or nobody.
    [[nodiscard]] index find(std::size_t bytes) const noexcept {
        if (requests_[next_].bytes == bytes) [[likely]]
            return next_;
        auto const end = static_cast<index>(std::min<std::size_t>(requests_.size(), next_ + plan_lookahead));
        for (index i = next_; i != end; ++i)
            if (requests_[i].bytes == bytes) return i;
        return nobody;
    }
    result pass(index i, plan_answer answer, void* at = nullptr) noexcept {
        skipped_ += i - next_;
        next_ = i + 1;
        return {answer, at};
    }

    [[nodiscard]] freedom look_at(index i) const noexcept {
        for (index const k : last_users_.of(i)) {
            request const& last = requests_[k];
            if (last.live_at != nobody) return freedom::taken;
            if (last.step != (k < i ? step_ : step_ - 1))
                return is_taken(i) ? freedom::taken : freedom::by_look;
        }
        return freedom::by_plan;
    }
    [[nodiscard]] bool is_taken(index i) const noexcept {
        request const& r = requests_[i];
        for (index const k : live_) {
            request const& other = requests_[k];
            if (other.offset < r.offset + r.bytes && r.offset < other.offset + other.bytes) return true;
        }
        return false;
    }
    void wait_for_last_users(stream_order& order, stream_ref s, std::uint32_t lane, index i) const {
        for (index const k : last_users_.of(i))
            if (!order.is_ready(requests_[k].released, lane)) order.wait(s, lane, requests_[k].released);
    }
    void wait_for_all(stream_order& order, stream_ref s, std::uint32_t lane) const {
        for_each_latest([&](wait_point point) {
            if (!order.is_ready(point, lane)) order.wait(s, lane, point);
        });
    }

    std::byte* at_;
    std::size_t bytes_;
    last_users last_users_;
    std::vector<request> requests_;
    std::vector<spot> spots_;
    std::vector<index> live_;
    std::vector<std::uint64_t> latest_;  // by lane: the ticket of the last release
    std::uint64_t step_ = 0;
    index next_ = 0;
    std::size_t skipped_ = 0;
};

}  // namespace cuota::inline v0::detail
