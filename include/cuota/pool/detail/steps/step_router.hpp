// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Routes requests to the slab or upstream; records and counts them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/pool/detail/steps/planned_slabs.hpp>
#include <cuota/pool/detail/steps/step_recorder.hpp>
#include <cuota/pool/planning/step_plan_stats.hpp>

namespace cuota::inline v0::detail {

/// Not thread-safe. Throws: std::bad_alloc where not noexcept.
class step_router {
public:
    [[nodiscard]] planned_slabs& slabs() noexcept { return slabs_; }
    [[nodiscard]] planned_slabs const& slabs() const noexcept { return slabs_; }
    [[nodiscard]] bool is_served() const noexcept { return phase_ == phase::served; }
    [[nodiscard]] bool is_recording() const noexcept { return recorder_.has_value(); }

    // --- steps ---

    void begin_recorded_step();
    void begin_planned_step() noexcept;
    /// Returns the recording, if any.
    [[nodiscard]] std::optional<step_recorder> end_step() noexcept;
    void close() noexcept { phase_ = phase::closed; }
    void check_open(source_location where) const;

    // --- requests ---

    /// Returns memory from the slab, or null if upstream must serve the request. Throws: usage_error after close; as
    /// planned_slab::try_take.
    [[nodiscard]] void* try_take(stream_ref s, std::size_t bytes, label const& who);
    struct position {
        std::size_t step = 0;
        std::uint32_t next = 0;
    };
    [[nodiscard]] position now() const noexcept;
    /// Restores the position after a refusal upstream, so that a retry matches the same request.
    void note_refused(position before, position after) noexcept;
    /// Records a request served upstream. Strong guarantee.
    void note_taken(void const* p, std::size_t bytes, label const& who);
    /// Counts a request outside the plan. Throws: usage_error after close.
    void note_outside(label const& who);

    /// Frees p in the order of s (null: at once); false if upstream owns it. Strong guarantee. Throws: usage_error for an invalid call;
    /// cuda_error or std::bad_alloc if the order cannot be recorded.
    [[nodiscard]] bool try_give(stream_ref const* s, void const* p, std::size_t bytes);
    /// Frees the result of try_take before any use. Throws: as try_give.
    void cancel(void const* p, std::size_t bytes);

    [[nodiscard]] step_plan_stats stats() const noexcept;

private:
    enum class phase { between, recording, served, missed_no_slab, closed };

    phase phase_ = phase::between;
    planned_slabs slabs_;
    std::optional<step_recorder> recorder_;
    std::array<std::size_t, 5> answers_{};  // by plan_answer
    std::size_t steps_ = 0;
    std::size_t recorded_ = 0;
    std::size_t missed_no_slab_ = 0;
    std::size_t outside_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void step_router::begin_recorded_step() {
    recorder_.emplace();
    phase_ = phase::recording;
    ++steps_;
}

CUOTA_INLINE void step_router::begin_planned_step() noexcept {
    if (slabs_.has_slab()) slabs_.begin_step();
    phase_ = slabs_.has_slab() ? phase::served : phase::missed_no_slab;
    ++steps_;
}

CUOTA_INLINE std::optional<step_recorder> step_router::end_step() noexcept {
    if (phase_ != phase::closed) phase_ = phase::between;
    slabs_.end_step();
    return std::exchange(recorder_, std::nullopt);
}

CUOTA_INLINE void step_router::check_open(source_location where) const {
    if (phase_ == phase::closed) throw_usage_error(where, "step_plan: allocation after its destruction");
}

CUOTA_INLINE void* step_router::try_take(stream_ref s, std::size_t bytes, label const& who) {
    if (phase_ == phase::served) [[likely]] {
        planned_slab::result const found = slabs_.try_take(s, bytes, who);
        ++answers_[static_cast<std::size_t>(found.answer)];
        return found.at;
    }
    check_open(who.where);
    if (phase_ == phase::missed_no_slab) ++missed_no_slab_;
    if (phase_ == phase::between) ++outside_;
    return nullptr;
}

CUOTA_INLINE auto step_router::now() const noexcept -> position {
    return {steps_, phase_ == phase::served ? slabs_.position() : 0};
}

CUOTA_INLINE void step_router::note_refused(position before, position after) noexcept {
    if (phase_ == phase::served && before.step == steps_) slabs_.go_back(before.next, after.next);
}

CUOTA_INLINE void step_router::note_taken(void const* p, std::size_t bytes, label const& who) {
    if (!recorder_) return;
    recorder_->note_taken(p, bytes, who);
    ++recorded_;
}

CUOTA_INLINE void step_router::note_outside(label const& who) {
    check_open(who.where);
    ++outside_;
}

CUOTA_INLINE bool step_router::try_give(stream_ref const* s, void const* p, std::size_t bytes) {
    planned_slab* const slab = slabs_.find(p);
    if (!slab) {
        if (recorder_) recorder_->note_given(p);
        return false;
    }
    std::uint32_t const request = slab->find_live(p, bytes);
    if (s) slabs_.give_back(*slab, request, *s);
    else slab->give_back(request, wait_point{});
    return true;
}

CUOTA_INLINE void step_router::cancel(void const* p, std::size_t bytes) {
    planned_slab* const slab = slabs_.find(p);
    if (slab) slab->cancel(slab->find_live(p, bytes));
}

CUOTA_INLINE step_plan_stats step_router::stats() const noexcept {
    auto const answered = [this](plan_answer a) { return answers_[static_cast<std::size_t>(a)]; };
    step_plan_stats now;
    now.steps = steps_;
    now.recorded = recorded_;
    now.served = answered(plan_answer::served);
    now.not_plannable = answered(plan_answer::not_plannable);
    now.missed_size = answered(plan_answer::missed_size);
    now.missed_beyond_plan = answered(plan_answer::missed_beyond_plan);
    now.missed_busy = answered(plan_answer::missed_busy);
    now.missed_no_slab = missed_no_slab_;
    now.outside = outside_;
    slabs_.count(now);
    return now;
}

}  // namespace cuota::inline v0::detail

#endif
