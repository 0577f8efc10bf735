// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A graph's use of a step plan's slab.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/steps/planned_slabs.hpp>
#include <cuota/pool/detail/steps/step_router.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

/// A graph's reference to a step plan (State) and the slabs that served requests in its capture.
template <class State>
class step_in_graph final : public graph_use {
public:
    /// Throws: usage_error while another capture uses the plan; std::bad_alloc.
    step_in_graph(State& of, std::span<std::uint64_t const> streams) : of_{intrusive_ptr<State>::of(of)} {
        of_->server().with_router([&](step_router& r) { r.slabs().order().begin_capture(streams); });
    }
    ~step_in_graph() override {
        of_->server().with_router([&](step_router&) {
            for (used const& u : slabs_) u.slab->let_go_of_graph();
        });
        of_->server().give_back_idle();
    }

    /// The capture uses the current slab. Throws: std::bad_alloc.
    void look_at_slab() {
        of_->server().with_router([&](step_router& r) {
            planned_slab* const now = r.slabs().now();
            if (!now || std::ranges::find(slabs_, now, &used::slab) != slabs_.end()) return;
            slabs_.push_back({now, 0});
            now->keep_for_graph();
        });
    }

    void about_to_end() override {}
    void ended() noexcept override {
        of_->server().with_router([&](step_router& r) {
            r.slabs().order().end_capture();
            for (used& u : slabs_) u.until = u.slab->end_capture();
        });
    }
    void begin_launch(stream_ref s, source_location where) override {
        light_unique_ptr<host_waits> left;
        of_->server().with_router([&](step_router& r) {
            stream_order& order = r.slabs().order();
            order.drop_host_waits_on_throw([&] {
                for (used const& u : slabs_) u.slab->begin_launch(order, s, u.until, where);
            });
            left = order.take_host_waits();
        });
        if (left) left->wait();
    }
    void end_launch(stream_ref s, bool) noexcept override {
        bool const is_known = report_failure_of([&] {
            of_->server().with_router([&](step_router& r) {
                for (used const& u : slabs_) u.slab->end_launch(r.slabs().order(), s);
            });
        });
        if (!is_known) rt::drain(s);  // its order cannot be recorded
    }

private:
    struct used {
        planned_slab* slab;
        std::uint64_t until;  // last turn of the capture
    };
    intrusive_ptr<State> const of_;
    std::vector<used> slabs_;
};

}  // namespace cuota::inline v0::detail
