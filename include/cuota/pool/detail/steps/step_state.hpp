// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The implementation of step_plan.
#pragma once

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/text/leak_summary.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/steps/step_in_graph.hpp>
#include <cuota/pool/detail/steps/step_server.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>

namespace cuota::inline v0::detail {

/// One step at a time. Threads: any.
class step_state final : public ref_counted {
public:
    step_state(any_resource upstream, step_plan_options wanted)
        : server_{std::move(upstream)}, options_{wanted} {}
    ~step_state();

    [[nodiscard]] step_server& server() noexcept { return server_; }

    /// In a capture, registers the slab with the graph before a request on s. Throws: usage_error if another active capture uses it;
    /// cuda_error, std::bad_alloc. Cost: a load, as a capturing thread has no thread record.
    void look_for_capture(stream_ref s);
    /// Does the same for a free; an error fails the capture.
    void look_for_capture_of_end(stream_ref s) noexcept;

    void begin_step(source_location where);
    void end_step() noexcept;
    [[nodiscard]] bool is_recording() const noexcept;

    void rerecord(source_location where);
    void use(planned_step step, source_location where);
    void prepare(source_location where);

    void close() noexcept;

    [[nodiscard]] planned_step planned() const;
    [[nodiscard]] planned_step planned_or_throw(source_location where) const;
    [[nodiscard]] step_plan_stats stats() const;
    [[nodiscard]] std::vector<allocation_group> outlived() const;

private:
    [[gnu::noinline]] void enter_capture(stream_ref s) { keep_slab_for_capture(s); }
    void keep_slab_for_capture(stream_ref s);

    // Calls f while no step can begin, next(router) when one can again.
    template <class F, class G>
    void between_steps(F f, source_location where, G next) {
        server_.with_router([&](step_router& r) {
            r.check_open(where);
            if (is_open_)
                throw_usage_error(where, "step_plan: not allowed while a step is open; end the step first");
            is_open_ = true;
        });
        try {
            server_.give_back_idle();
            f();
        } catch (...) {
            server_.with_router([&](step_router&) { is_open_ = false; });
            throw;
        }
        server_.with_router([&](step_router& r) {
            is_open_ = false;
            next(r);
        });
    }

    // Called by the thread that set is_open_.

    void make_ready();
    void place_all();
    void take_slab();
    // Discards the plan; its slab is freed once idle.
    void forget();

    // Keeps a recording with requests for the next step.
    void keep(step_recorder& ended);

    step_server server_;
    step_plan_options const options_;

    // Protected by the router's lock, or owned by the thread that set is_open_.
    bool is_open_ = false;  // in a step, or an operation between steps
    std::optional<planned_step> step_;
    bool is_placed_ = false;  // all have offsets
    bool has_slab_ = false;
    bool was_refused_ = false;                 // the slab
    std::vector<allocation_group> unplanned_;  // left live by the recorded step
    int exceptions_ = 0;                       // uncaught when the step began
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE step_state::~step_state() = default;

CUOTA_INLINE void step_state::look_for_capture(stream_ref s) {
    if (!this_thread_slot()) [[unlikely]]
        enter_capture(s);
}

CUOTA_INLINE void step_state::look_for_capture_of_end(stream_ref s) noexcept {
    if (!this_thread_slot()) [[unlikely]]
        try {
            enter_capture(s);
        } catch (...) {
            if (auto* const scope = capture_scope::here()) scope->fail(std::current_exception());
        }
}

CUOTA_INLINE void step_state::begin_step(source_location where) {
    between_steps(
        [&] {
            if (step_) make_ready();
        },
        where,
        [&](step_router& r) {
            if (step_) r.begin_planned_step();
            else r.begin_recorded_step();
            exceptions_ = std::uncaught_exceptions();
            is_open_ = true;
        });
}

CUOTA_INLINE void step_state::end_step() noexcept {
    report_failure_of([&] {
        server_.with_router([&](step_router& r) {
            is_open_ = false;
            std::optional<step_recorder> ended = r.end_step();
            if (ended && std::uncaught_exceptions() <= exceptions_) keep(*ended);
        });
    });
}

CUOTA_INLINE bool step_state::is_recording() const noexcept {
    return server_.with_router([](step_router const& r) { return r.is_recording(); });
}

CUOTA_INLINE void step_state::rerecord(source_location where) {
    between_steps([&] { forget(); }, where, [](step_router&) {});
}

CUOTA_INLINE void step_state::use(planned_step step, source_location where) {
    between_steps([&] { forget(); }, where,
                  [&](step_router&) {
                      step_ = std::move(step);
                      is_placed_ = true;
                  });
}

CUOTA_INLINE void step_state::prepare(source_location where) {
    between_steps(
        [&] {
            if (!step_) throw_usage_error(where, "step_plan: cannot prepare: no step has been recorded");
            place_all();
            take_slab();
        },
        where, [](step_router&) {});
}

CUOTA_INLINE void step_state::close() noexcept {
    report_failure_of([&] {
        detail::leak_summary left;
        for (allocation_group const& h : server_.with_router([](step_router& r) {
                 r.close();
                 std::vector<allocation_group> all;
                 r.slabs().allocation_groups(all, true);
                 return all;
             }))
            left.add(h.name, h.where, h.bytes);
        if (left.count() != 0) throw_usage_error("step_plan destroyed while {}", {left.text()});
    });
    report_failure_of([&] {
        server_.with_router([&](step_router& r) {
            if (!is_open_) r.slabs().retire();
        });
    });
    server_.give_back_idle();
}

CUOTA_INLINE planned_step step_state::planned() const {
    return server_.with_router([&](step_router const&) { return is_placed_ ? *step_ : planned_step{}; });
}

CUOTA_INLINE planned_step step_state::planned_or_throw(source_location where) const {
    return server_.with_router([&](step_router const&) {
        if (!is_placed_) throw_usage_error(where, "step_plan: cannot save: it has no plan yet");
        return *step_;
    });
}

CUOTA_INLINE step_plan_stats step_state::stats() const {
    return server_.with_router([&](step_router const& r) {
        step_plan_stats now = r.stats();
        if (is_placed_) {
            now.requests = step_->requests.size();
            now.peak = step_->peak;
            now.lower_bound = step_->lower_bound;
        }
        return now;
    });
}

CUOTA_INLINE std::vector<allocation_group> step_state::outlived() const {
    return server_.with_router([&](step_router const& r) {
        std::vector<allocation_group> all = unplanned_;
        r.slabs().allocation_groups(all, !is_open_);
        return all;
    });
}

CUOTA_INLINE void step_state::keep_slab_for_capture(stream_ref s) {
    capture_scope* const scope = capture_of(s);
    if (!scope) return;
    using in_graph = step_in_graph<step_state>;
    scope
        ->use_of<in_graph>(this,
                           [&] {
                               return intrusive_ptr<in_graph>::adopt(new in_graph{*this, scope->ids()});
                           })
        .look_at_slab();
}

CUOTA_INLINE void step_state::make_ready() {
    place_all();
    if (was_refused_) return;
    try {
        take_slab();
    } catch (out_of_memory const&) { was_refused_ = true; }
}

CUOTA_INLINE void step_state::place_all() {
    if (is_placed_) return;
    planned_step step = *step_;
    place_requests(step, {.time_limit = options_.time_limit});
    server_.with_router([&](step_router&) {
        step_ = std::move(step);
        is_placed_ = true;
    });
}

CUOTA_INLINE void step_state::take_slab() {
    if (!has_slab_) server_.take_slab(*step_, options_.name);
    has_slab_ = true;
}

CUOTA_INLINE void step_state::forget() {
    server_.with_router([&](step_router& r) {
        r.slabs().retire();
        step_.reset();
        unplanned_.clear();
        is_placed_ = has_slab_ = was_refused_ = false;
    });
    server_.give_back_idle();
}

CUOTA_INLINE void step_state::keep(step_recorder& ended) {
    std::vector<allocation_group> alive = ended.outlived();
    planned_step step = ended.end();
    if (step.requests.empty()) return;
    step_ = std::move(step);
    unplanned_ = std::move(alive);
}

}  // namespace cuota::inline v0::detail

#endif
