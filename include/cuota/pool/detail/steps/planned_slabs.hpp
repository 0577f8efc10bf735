// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The slab of a step plan, and earlier ones still in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/steps/planned_slab.hpp>
#include <cuota/pool/planning/step_plan_stats.hpp>

namespace cuota::inline v0::detail {

/// The slabs and the order of their streams. Not thread-safe. Throws: cuda_error, std::bad_alloc where not noexcept.
///
/// A slab is retired with its plan: it serves no requests, and is idle once all are freed and no graph uses it.
class planned_slabs {
public:
    [[nodiscard]] bool has_slab() const noexcept { return now_ != nullptr; }
    [[nodiscard]] planned_slab* now() noexcept { return now_.get(); }
    [[nodiscard]] stream_order& order() noexcept { return order_; }
    /// Requires that none is set.
    void put(std::unique_ptr<planned_slab> fresh) noexcept { now_ = std::move(fresh); }
    /// Strong guarantee.
    void retire();

    /// Removes an idle retired slab, if any. While its last uses are under way, returns null, and order() has waits of the host: call it
    /// again afterwards.
    [[nodiscard]] std::unique_ptr<planned_slab> take_idle();
    [[nodiscard]] std::unique_ptr<planned_slab> take_any() noexcept;
    /// Waits on the host for the work before its frees; for a destructor, without the lock.
    void wait_for_releases(planned_slab const& slab);

    void begin_step() noexcept { now_->begin_step(); }
    void end_step() noexcept;
    /// These three functions require a slab.
    [[nodiscard]] std::uint32_t position() const noexcept { return now_->position(); }
    void go_back(std::uint32_t before, std::uint32_t after) noexcept { now_->go_back(before, after); }
    [[nodiscard]] planned_slab::result try_take(stream_ref s, std::size_t bytes, label const& who);

    [[nodiscard]] planned_slab* find(void const* p) noexcept;
    /// Frees in the order of s. Strong guarantee.
    void give_back(planned_slab& slab, std::uint32_t request, stream_ref s);

    /// Appends live requests; of the current step only if of_this_step.
    void allocation_groups(std::vector<allocation_group>& into, bool of_this_step) const;
    void count(step_plan_stats& stats) const noexcept;

private:
    stream_order order_;
    std::unique_ptr<planned_slab> now_;
    std::vector<std::unique_ptr<planned_slab>> retired_;
    std::size_t skipped_ = 0;  // of retired slabs
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void planned_slabs::retire() {
    if (!now_) return;
    retired_.push_back(nullptr);
    skipped_ += now_->skipped();
    retired_.back() = std::move(now_);
}

CUOTA_INLINE std::unique_ptr<planned_slab> planned_slabs::take_idle() {
    auto const found =
        std::ranges::find_if(retired_, [](auto const& s) { return s->live() == 0 && !s->is_in_graph(); });
    if (found == retired_.end()) return nullptr;
    order_.drop_host_waits_on_throw(
        [&] { (*found)->for_each_latest([&](wait_point point) { order_.wait_on_host(point); }); });
    if (order_.has_host_waits()) return nullptr;
    std::unique_ptr<planned_slab> idle = std::move(*found);
    retired_.erase(found);
    return idle;
}

CUOTA_INLINE std::unique_ptr<planned_slab> planned_slabs::take_any() noexcept {
    if (retired_.empty()) return std::move(now_);
    std::unique_ptr<planned_slab> last = std::move(retired_.back());
    retired_.pop_back();
    return last;
}

CUOTA_INLINE void planned_slabs::wait_for_releases(planned_slab const& slab) {
    slab.for_each_latest([this](wait_point point) { order_.wait_now(point); });
}

CUOTA_INLINE void planned_slabs::end_step() noexcept {
    if (now_) now_->end_step();
}

CUOTA_INLINE planned_slab::result planned_slabs::try_take(stream_ref s, std::size_t bytes, label const& who) {
    return order_.drop_host_waits_on_throw(
        [&] { return now_->try_take(order_, s, order_.index_of(s), bytes, who); });
}

CUOTA_INLINE planned_slab* planned_slabs::find(void const* p) noexcept {
    if (now_ && now_->holds(p)) [[likely]]
        return now_.get();
    for (auto const& slab : retired_)
        if (slab->holds(p)) return slab.get();
    return nullptr;
}

CUOTA_INLINE void planned_slabs::give_back(planned_slab& slab, std::uint32_t request, stream_ref s) {
    std::uint32_t const stream_index = order_.index_of(s);
    slab.expect(stream_index);
    slab.give_back(request, order_.release_on(stream_index));
}

CUOTA_INLINE void planned_slabs::allocation_groups(std::vector<allocation_group>& into,
                                                   bool of_this_step) const {
    for (auto const& slab : retired_) slab->allocation_groups(into, true);
    if (now_) now_->allocation_groups(into, of_this_step);
}

CUOTA_INLINE void planned_slabs::count(step_plan_stats& stats) const noexcept {
    stats.stream_waits = order_.waits();
    stats.has_slab = has_slab();
    stats.skipped = skipped_;
    for (auto const& slab : retired_) stats.live += slab->live();
    if (!now_) return;
    stats.live += now_->live();
    stats.skipped += now_->skipped();
}

}  // namespace cuota::inline v0::detail

#endif
