// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A slab that serves a planned step by position in the sequence.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/detail/blocks/stream_order.hpp>
#include <cuota/pool/detail/steps/offset_users.hpp>
#include <cuota/pool/planning/planned_step.hpp>

namespace cuota::inline v0::detail {

/// See step_plan_stats.
enum class plan_answer { served, not_plannable, missed_size, missed_beyond_plan, missed_busy };

/// How many planned requests are searched for a size.
inline constexpr std::uint32_t plan_lookahead = 16;

/// Planned requests, their users and pending work. Requests are served in increasing order within a step; docs/design/planned_steps.md has
/// the rules by which their bytes are free. Not thread-safe. Throws: cuda_error, std::bad_alloc where not noexcept.
class planned_slab {
public:
    /// at: `peak` bytes, ready for every stream.
    planned_slab(planned_step const& step, void* at);

    [[nodiscard]] void* at() const noexcept { return at_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] bool holds(void const* p) const noexcept;
    [[nodiscard]] std::size_t live() const noexcept { return live_count_; }
    /// Planned requests left out.
    [[nodiscard]] std::size_t skipped() const noexcept { return skipped_; }

    void begin_step() noexcept;
    void end_step() noexcept;

    [[nodiscard]] std::uint32_t position() const noexcept { return next_; }
    /// Restores position `before` after a failed request, unless others have come after `after`.
    void go_back(std::uint32_t before, std::uint32_t after) noexcept;

    struct result {
        plan_answer answer;
        void* at = nullptr;
    };
    /// Serves the next request in the order of s. In a capture, this may leave waits to the host (stream_order). On a throw, nothing
    /// changes but waits.
    [[nodiscard]] result try_take(stream_order& order, stream_ref s, std::uint32_t stream_index,
                                  std::size_t bytes, label const& who);

    /// Throws: usage_error if no request of that size is live at p.
    [[nodiscard]] std::uint32_t find_live(void const* p, std::size_t bytes) const;
    /// Frees for reuse after `after`: a point of a stream from expect(), or none.
    CUOTA_ALWAYS_INLINE void give_back(std::uint32_t i, wait_point after) noexcept;
    /// Frees a request that was not used: the next users of its bytes wait for all earlier frees.
    void cancel(std::uint32_t i) noexcept;
    /// Prepares for frees in the order of that stream.
    void expect(std::uint32_t stream_index);
    template <class Visit>
    void for_each_latest(Visit visit) const {
        for (std::uint32_t stream_index = 0; stream_index != latest_.size(); ++stream_index)
            if (latest_[stream_index] != 0) visit(wait_point{stream_index, latest_[stream_index]});
    }

    /// Appends live requests of earlier steps, or also of this one.
    void allocation_groups(std::vector<allocation_group>& into, bool of_this_step) const;

    // --- graphs that use the slab ---

    [[nodiscard]] bool is_in_graph() const noexcept { return graphs_ != 0; }
    void keep_for_graph() noexcept { ++graphs_; }
    void let_go_of_graph() noexcept { --graphs_; }
    /// Called after a capture. Returns the last turn in which it may have allocated.
    [[nodiscard]] std::uint64_t end_capture() noexcept;
    /// Lets work on s use all bytes: requests up to turn `until` are the capture's. Throws: usage_error if a later one is live.
    void begin_launch(stream_order& order, stream_ref s, std::uint64_t until, source_location where);
    /// The launch on s is the last use of all bytes.
    void end_launch(stream_order& order, stream_ref s);

private:
    using index = std::uint32_t;
    static constexpr index no_user = offset_users::no_user;
    // ready: freed on this stream; by_plan: free by the plan; checked: no live request overlaps
    enum class freedom { ready, by_plan, checked, taken };

    static constexpr std::uint64_t is_live = 1;
    static constexpr std::uint64_t step_length = 2;

    struct request {
        std::size_t bytes;
        std::size_t offset;
        bool is_planned;
        index spot = 0;
        // last turn | is_live; 0: never served
        std::uint64_t turn = 0;
        wait_point released{};
    };
    struct user_label {
        tag name{};
        source_location where{};
    };

    [[noreturn]] void throw_other_size(index i, std::size_t bytes) const;

    // Ends all conclusions from the plan. Two turns, as a step looks back by one.
    void begin_another_turn() noexcept { now_ += 2 * step_length; }

    void flip(index i) noexcept { live_[i / 64] ^= std::uint64_t{1} << i % 64; }
    template <class Visit>
    void for_each_live(Visit visit) const {
        for (std::size_t w = 0; w != live_.size(); ++w)
            for (std::uint64_t bits = live_[w]; bits != 0; bits &= bits - 1)
                visit(static_cast<index>(64 * w) + static_cast<index>(std::countr_zero(bits)));
    }

    [[nodiscard]] index find(std::size_t bytes) const noexcept;
    result pass(index i, plan_answer answer, void* at = nullptr) noexcept;

    [[nodiscard]] freedom look_at(index i, std::uint32_t stream_index) const noexcept;
    [[nodiscard]] bool is_taken(index i) const noexcept;
    void wait_for_last_users(stream_order& order, stream_ref s, std::uint32_t stream_index, index i) const;
    void wait_for_all(stream_order& order, stream_ref s, std::uint32_t stream_index) const;

    std::byte* at_;
    std::size_t bytes_;
    index count_;
    last_users last_users_;
    std::vector<request> requests_;
    std::vector<user_label> labels_;  // of live requests
    offset_users users_;
    std::vector<std::uint64_t> live_;
    std::size_t live_count_ = 0;
    std::vector<std::uint64_t> latest_;  // by stream index: last ticket
    std::uint64_t now_ = 0;
    index next_ = 0;
    std::size_t skipped_ = 0;
    std::size_t graphs_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE planned_slab::planned_slab(planned_step const& step, void* at)
    : at_{static_cast<std::byte*>(at)},
      bytes_{step.peak},
      count_{static_cast<index>(step.requests.size())},
      last_users_{step},
      labels_(count_),
      users_{count_},
      live_(count_ / 64 + 1, 0) {
    requests_.reserve(count_);
    for (planned_request const& r : step.requests) {
        requests_.push_back({r.live.size, r.offset, r.is_planned && r.live.size != 0});
        if (requests_.back().is_planned) requests_.back().spot = users_.enter(r.offset);
    }
}

CUOTA_INLINE bool planned_slab::holds(void const* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(at_) < bytes_;
}

CUOTA_INLINE void planned_slab::begin_step() noexcept {
    now_ += step_length;
    next_ = 0;
}

CUOTA_INLINE void planned_slab::end_step() noexcept {
    skipped_ += count_ - next_;
    next_ = count_;
}

CUOTA_INLINE void planned_slab::go_back(std::uint32_t before, std::uint32_t after) noexcept {
    if (before == after || next_ != after) return;
    skipped_ -= after - 1 - before;
    next_ = before;
}

CUOTA_INLINE auto planned_slab::try_take(stream_order& order, stream_ref s, std::uint32_t stream_index,
                                         std::size_t bytes, label const& who) -> result {
    if (next_ == count_) return {plan_answer::missed_beyond_plan};
    index const i = find(bytes);
    if (i == no_user) return {plan_answer::missed_size};
    request& r = requests_[i];
    if (!r.is_planned) return pass(i, plan_answer::not_plannable);
    switch (look_at(i, stream_index)) {
        case freedom::ready: break;
        case freedom::by_plan: wait_for_last_users(order, s, stream_index, i); break;
        case freedom::checked: wait_for_all(order, s, stream_index); break;
        case freedom::taken: return pass(i, plan_answer::missed_busy);
    }
    r.turn = now_ | is_live;
    users_.set(r.spot, i);
    labels_[i] = {who.name, who.where};
    flip(i);
    ++live_count_;
    return pass(i, plan_answer::served, at_ + r.offset);
}

CUOTA_INLINE std::uint32_t planned_slab::find_live(void const* p, std::size_t bytes) const {
    auto const offset = static_cast<std::size_t>(static_cast<std::byte const*>(p) - at_);
    index const i = users_.of(offset);
    if (i == no_user) [[unlikely]]
        throw_usage_error(
            "step_plan: deallocate of an unknown pointer (double free, or allocated elsewhere)");
    if (requests_[i].bytes != bytes) [[unlikely]]
        throw_other_size(i, bytes);
    return i;
}

CUOTA_INLINE void planned_slab::give_back(std::uint32_t i, wait_point after) noexcept {
    request& r = requests_[i];
    r.released = after;
    r.turn &= ~is_live;
    users_.set(r.spot, no_user);
    flip(i);
    --live_count_;
    if (after.ticket != 0) latest_[after.stream] = after.ticket;
}

CUOTA_INLINE void planned_slab::cancel(std::uint32_t i) noexcept {
    give_back(i, wait_point{});
    requests_[i].turn = 0;
}

CUOTA_INLINE void planned_slab::expect(std::uint32_t stream_index) {
    if (latest_.size() <= stream_index) [[unlikely]]
        latest_.resize(stream_index + 1, 0);
}

CUOTA_INLINE void planned_slab::allocation_groups(std::vector<allocation_group>& into,
                                                  bool of_this_step) const {
    for_each_live([&](index i) {
        if (of_this_step || (requests_[i].turn & ~is_live) != now_)
            into.push_back({labels_[i].name, labels_[i].where, requests_[i].bytes});
    });
}

CUOTA_INLINE std::uint64_t planned_slab::end_capture() noexcept {
    std::uint64_t const until = now_;
    begin_another_turn();
    return until;
}

CUOTA_INLINE void planned_slab::begin_launch(stream_order& order, stream_ref s, std::uint64_t until,
                                             source_location where) {
    for_each_live([&](index i) {
        if ((requests_[i].turn & ~is_live) <= until) return;
        throw_usage_error(
            where, "graph_exec::launch: {} of the graph's step_plan slab are in use by a later step{}{}",
            {as_bytes(requests_[i].bytes),
             labels_[i].name.is_empty() ? "" : std::string{": "} + labels_[i].name.text(),
             labels_[i].where.line == 0 ? "" : " (" + source_location_text(labels_[i].where) + ')'});
    });
    std::uint32_t const stream_index = order.index_of(s);
    expect(stream_index);
    wait_for_all(order, s, stream_index);
}

CUOTA_INLINE void planned_slab::end_launch(stream_order& order, stream_ref s) {
    std::uint32_t const stream_index = order.index_of(s);
    expect(stream_index);
    latest_[stream_index] = order.release_on(stream_index).ticket;
    begin_another_turn();
}

CUOTA_INLINE void planned_slab::throw_other_size(index i, std::size_t bytes) const {
    tag const name = labels_[i].name;
    throw_usage_error(labels_[i].where, "step_plan: deallocate with the wrong size: {} of {}{}",
                      {as_bytes(bytes), as_bytes(requests_[i].bytes),
                       name.is_empty() ? "" : std::string{" "} + name.text()});
}

CUOTA_INLINE auto planned_slab::find(std::size_t bytes) const noexcept -> index {
    if (requests_[next_].bytes == bytes) [[likely]]
        return next_;
    index const end = next_ + std::min(count_ - next_, plan_lookahead);
    for (index i = next_ + 1; i != end; ++i)
        if (requests_[i].bytes == bytes) return i;
    return no_user;
}

CUOTA_INLINE auto planned_slab::pass(index i, plan_answer answer, void* at) noexcept -> result {
    skipped_ += i - next_;
    next_ = i + 1;
    return {answer, at};
}

CUOTA_INLINE auto planned_slab::look_at(index i, std::uint32_t stream_index) const noexcept -> freedom {
    bool is_ready = true;
    for (index const k : last_users_.of(i)) {
        request const& last = requests_[k];
        if (last.turn != (k < i ? now_ : now_ - step_length)) [[unlikely]]
            return (last.turn & is_live) != 0 || is_taken(i) ? freedom::taken : freedom::checked;
        is_ready &= last.released.stream == stream_index;
    }
    return is_ready ? freedom::ready : freedom::by_plan;
}

CUOTA_INLINE bool planned_slab::is_taken(index i) const noexcept {
    request const& r = requests_[i];
    bool is_met = false;
    for_each_live([&](index k) {
        request const& other = requests_[k];
        is_met |= other.offset < r.offset + r.bytes && r.offset < other.offset + other.bytes;
    });
    return is_met;
}

CUOTA_INLINE void planned_slab::wait_for_last_users(stream_order& order, stream_ref s,
                                                    std::uint32_t stream_index, index i) const {
    for (index const k : last_users_.of(i))
        if (!order.is_ready(requests_[k].released, stream_index))
            order.wait(s, stream_index, requests_[k].released);
}

CUOTA_INLINE void planned_slab::wait_for_all(stream_order& order, stream_ref s,
                                             std::uint32_t stream_index) const {
    for_each_latest([&](wait_point point) {
        if (!order.is_ready(point, stream_index)) order.wait(s, stream_index, point);
    });
}

}  // namespace cuota::inline v0::detail

#endif
