// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The machinery of step_plan: what is recorded, what is planned, the slab, and what everything else is served by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/error_sink.hpp>
#include <cuota/core/tenured_lock.hpp>
#include <cuota/pool/planned_slab.hpp>
#include <cuota/pool/step_plan_stats.hpp>
#include <cuota/pool/step_recorder.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0::detail {

class step_state final : public ref_counted {
public:
    step_state(any_resource upstream, step_plan_options wanted)
        : upstream_{std::move(upstream)}, options_{wanted} {}
    ~step_state() {
        // What is still alive has no owner left who could use it.
        if (slab_) give_back(*slab_);
        for (auto const& slab : retired_) give_back(*slab);
    }

    // --- requests ---

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment, label const& who) {
        check_alignment(alignment, who);
        if (bytes == 0) return nullptr;
        taken const found = lock_.run([&] { return take(s, bytes, who); });
        if (found.at) [[likely]]
            return found.at;
        void* const p = upstream_.allocate(s, bytes, alignment, who);
        if (!found.is_to_note) return p;
        try {
            lock_.run([&] { note(p, bytes, who); });
        } catch (...) {
            upstream_.deallocate(s, p, bytes, alignment);
            throw;
        }
        return p;
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return;
        given result;
        lock_.run([&] { give(result, &s, p, bytes); });
        if (result.is_done) [[likely]]
            return;
        if (result.error) report_failure_of([&] { std::rethrow_exception(result.error); });
        if (result.is_unordered) {
            rt::drain(s);
            deallocate_sync(p, bytes, alignment);
        } else if (!result.error) {
            upstream_.deallocate(s, p, bytes, alignment);
        }
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
        check_alignment(alignment, who);
        if (bytes == 0) return nullptr;
        lock_.run([&] {
            check_open(who);
            ++stats_.outside;
        });
        return upstream_.allocate_sync(bytes, alignment, who);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return;
        given result;
        lock_.run([&] { give(result, nullptr, p, bytes); });
        if (result.is_done) return;
        if (result.error) report_failure_of([&] { std::rethrow_exception(result.error); });
        else upstream_.deallocate_sync(p, bytes, alignment);
    }
    [[nodiscard]] memory_kind kind() const noexcept { return upstream_.kind(); }

    // --- steps ---

    void begin_step(place where) {
        between_steps(
            [&] {
                if (step_) make_ready();
            },
            where, true);
    }
    void end_step() noexcept {
        report_failure_of([&] {
            lock_.run_alone([&] {
                bool const was_recorded = std::exchange(phase_, phase::idle) == phase::recording;
                is_open_ = false;
                if (slab_) slab_->end_step();
                std::optional<step_recorder> ended = std::exchange(recorder_, std::nullopt);
                if (was_recorded && std::uncaught_exceptions() <= exceptions_) keep(*ended);
            });
        });
    }
    [[nodiscard]] bool is_recording() const noexcept {
        return lock_.run([&] { return phase_ == phase::recording; });
    }

    void record_again(place where) {
        between_steps([&] { forget(); }, where);
    }
    void use(planned_step step, place where) {
        between_steps(
            [&] {
                forget();
                lock_.run_alone([&] {
                    step_ = std::move(step);
                    is_placed_ = true;
                });
            },
            where);
    }
    void prepare(place where) {
        between_steps(
            [&] {
                if (!step_) throw misuse{"a step_plan was to be prepared before a step was recorded", where};
                place_all();
                if (!slab_) take_slab();
            },
            where);
    }

    /// No more requests. What is alive in the slab is reported.
    void close() noexcept {
        report_failure_of([&] {
            auto const left = lock_.run_alone([&] {
                is_closed_ = true;
                return alive();
            });
            if (!left.empty()) throw misuse{"a step_plan ended while " + survivors_text(left)};
        });
        report_failure_of([&] {
            lock_.run_alone([&] {
                if (slab_ && !is_open_) retire_slab();
            });
        });
        give_back_idle();
    }

    // --- what there is ---

    [[nodiscard]] planned_step planned() const {
        return lock_.run_alone([&] { return step_ && is_placed_ ? *step_ : planned_step{}; });
    }
    [[nodiscard]] planned_step planned_or_throw(place where) const {
        return lock_.run_alone([&] {
            if (!step_ || !is_placed_) throw misuse{"a step_plan has no plan to save", where};
            return *step_;
        });
    }
    [[nodiscard]] step_plan_stats stats() const {
        return lock_.run_alone([&] {
            step_plan_stats now = stats_;
            now.stream_waits = order_.waits();
            now.has_slab = slab_ != nullptr;
            for (auto const& slab : retired_) now.live += slab->live();
            if (slab_) {
                now.live += slab_->live();
                now.skipped += slab_->skipped();
            }
            if (step_ && is_placed_) {
                now.requests = step_->requests.size();
                now.peak = step_->peak;
                now.lower_bound = step_->lower_bound;
            }
            return now;
        });
    }
    [[nodiscard]] std::vector<holding> survivors() const {
        return lock_.run_alone([&] {
            std::vector<holding> all = unplanned_;
            for (auto const& slab : retired_) slab->holdings(all, true);
            if (slab_) slab_->holdings(all, !is_open_);
            return all;
        });
    }

private:
    enum class phase { idle, recording, replaying, without_slab };
    struct taken {
        void* at;
        bool is_to_note;
    };
    struct given {
        bool is_done = false;
        bool is_unordered = false;  // nothing to remember its order by: to be waited for
        std::exception_ptr error{};
    };

    // --- requests, by one thread at a time ---

    void check_open(label const& who) const {
        if (is_closed_) throw misuse{"a step_plan was asked for memory after its end", who.where};
    }
    [[nodiscard]] taken take(stream_ref s, std::size_t bytes, label const& who) {
        check_open(who);
        if (phase_ == phase::replaying) [[likely]] {
            planned_slab::result const found = slab_->try_take(order_, s, lane_of(s, *slab_), bytes, who);
            ++count_of(found.answer);
            return {found.at, false};
        }
        if (phase_ == phase::without_slab) ++stats_.without_slab;
        if (phase_ == phase::idle) ++stats_.outside;
        return {nullptr, phase_ == phase::recording};
    }
    void note(void const* p, std::size_t bytes, label const& who) {
        if (phase_ != phase::recording) return;
        recorder_->note_taken(p, bytes, who);
        ++stats_.recorded;
    }
    void give(given& result, stream_ref const* s, void* p, std::size_t bytes) noexcept {
        try {
            planned_slab* const slab = slab_of(p);
            if (!slab) {
                if (recorder_) recorder_->note_given(p);
                return;
            }
            std::uint32_t const i = slab->find_live(p, bytes);
            result.is_unordered = s != nullptr;
            slab->give_back(i, s ? order_.release_on(lane_of(*s, *slab)) : wait_point{});
            result.is_unordered = false;
            result.is_done = true;
        } catch (...) { result.error = std::current_exception(); }
    }
    [[nodiscard]] planned_slab* slab_of(void const* p) noexcept {
        if (slab_ && slab_->holds(p)) [[likely]]
            return slab_.get();
        for (auto const& slab : retired_)
            if (slab->holds(p)) return slab.get();
        return nullptr;
    }
    [[nodiscard]] std::uint32_t lane_of(stream_ref s, planned_slab& slab) {
        std::uint32_t const lane = order_.index_of(s);
        slab.expect(lane);
        return lane;
    }
    [[nodiscard]] std::size_t& count_of(plan_answer answer) noexcept {
        switch (answer) {
            case plan_answer::served: return stats_.served;
            case plan_answer::unplanned: return stats_.unplanned;
            case plan_answer::other_size: return stats_.other_size;
            case plan_answer::too_many: return stats_.too_many;
            case plan_answer::in_use: break;
        }
        return stats_.in_use;
    }

    // --- between steps, by the thread that opened one ---

    // Does it with a step open, so that no other begins. The step stays open, and gets its phase, if that is wanted.
    template <class F>
    void between_steps(F f, place where, bool to_begin = false) {
        lock_.run_alone([&] {
            check_open(label{{}, where});
            if (is_open_)
                throw misuse{"a step_plan was asked for what has to wait for the end of its step", where};
            is_open_ = true;
        });
        try {
            give_back_idle();
            f();
        } catch (...) {
            lock_.run_alone([&] { is_open_ = false; });
            throw;
        }
        lock_.run_alone([&] {
            if (to_begin) set_out();
            else is_open_ = false;
        });
    }
    void set_out() {
        if (!step_) recorder_.emplace();
        else if (slab_) slab_->begin_step();
        phase_ = !step_ ? phase::recording : slab_ ? phase::replaying : phase::without_slab;
        exceptions_ = std::uncaught_exceptions();
        ++stats_.steps;
    }
    void make_ready() {
        place_all();
        if (slab_ || was_refused_) return;
        try {
            take_slab();
        } catch (out_of_memory const&) { was_refused_ = true; }
    }
    void place_all() {
        if (is_placed_) return;
        planned_step step = *step_;
        place_requests(step, {.time_limit = options_.time_limit});
        lock_.run_alone([&] {
            step_ = std::move(step);
            is_placed_ = true;
        });
    }
    void take_slab() {
        std::size_t const bytes = step_->peak;
        void* const at = upstream_.allocate_sync(bytes, block::granule, label{options_.name, {}});
        try {
            auto fresh = std::make_unique<planned_slab>(*step_, at);
            lock_.run_alone([&] { slab_ = std::move(fresh); });
        } catch (...) {
            upstream_.deallocate_sync(at, bytes, block::granule);
            throw;
        }
    }
    // The plan, and the slab as soon as nobody has anything of it.
    void forget() {
        lock_.run_alone([&] {
            retired_.reserve(retired_.size() + 1);
            if (slab_) retire_slab();
            step_.reset();
            unplanned_.clear();
            is_placed_ = was_refused_ = false;
        });
        give_back_idle();
    }
    void keep(step_recorder& ended) {
        std::vector<holding> survivors = ended.survivors();
        planned_step step = ended.end();
        if (step.requests.empty()) return;
        step_ = std::move(step);
        unplanned_ = std::move(survivors);
    }

    // --- slabs ---

    void retire_slab() {
        stats_.skipped += slab_->skipped();
        retired_.push_back(std::move(slab_));
    }
    // Those that nobody has anything of, once what may still use them is over. One that cannot be waited for is kept, and
    // that is reported.
    void give_back_idle() noexcept {
        for (;;) {
            std::unique_ptr<planned_slab> gone;
            report_failure_of([&] { gone = lock_.run_alone([&] { return take_idle(); }); });
            if (!gone) return;
            upstream_.deallocate_sync(gone->at(), gone->bytes(), block::granule);
        }
    }
    [[nodiscard]] std::unique_ptr<planned_slab> take_idle() {
        auto const found = std::find_if(retired_.begin(), retired_.end(),
                                        [](auto const& slab) { return slab->live() == 0; });
        if (found == retired_.end()) return nullptr;
        (*found)->for_each_latest([&](wait_point point) { order_.wait_on_host(point); });
        std::unique_ptr<planned_slab> gone = std::move(*found);
        retired_.erase(found);
        return gone;
    }
    // At the end.
    void give_back(planned_slab const& slab) noexcept {
        slab.for_each_latest(
            [&](wait_point point) { report_failure_of([&] { order_.wait_on_host(point); }); });
        upstream_.deallocate_sync(slab.at(), slab.bytes(), block::granule);
    }
    [[nodiscard]] std::vector<holding> alive() const {
        std::vector<holding> all;
        for (auto const& slab : retired_) slab->holdings(all, true);
        if (slab_) slab_->holdings(all, true);
        return all;
    }

    any_resource upstream_;
    step_plan_options const options_;
    mutable tenured_lock lock_;

    // All that follows by one thread at a time.
    phase phase_ = phase::idle;
    bool is_open_ = false;  // a step, or what must not come between two
    bool is_closed_ = false;
    stream_order order_;
    std::unique_ptr<planned_slab> slab_;
    std::vector<std::unique_ptr<planned_slab>> retired_;  // of plans before: somebody has bytes of them
    std::optional<planned_step> step_;
    bool is_placed_ = false;    // every request of it
    bool was_refused_ = false;  // its slab
    std::optional<step_recorder> recorder_;
    std::vector<holding> unplanned_;
    int exceptions_ = 0;  // on their way when the step began
    step_plan_stats stats_;
};

}  // namespace cuota::inline v0::detail
