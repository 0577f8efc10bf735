// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A graph's use of the account of its device's graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/label.hpp>
#include <cuota/pool/detail/graph_memory_state.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/virtual_memory.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

/// A graph's use of the account. Threads: those of a graph, one at a time.
class memory_of_graph final : public graph_use {
public:
    explicit memory_of_graph(intrusive_ptr<graph_memory_state> account)
        : account_{std::move(account)}, record_{account_->enter()} {}
    ~memory_of_graph() override { account_->leave(record_); }

    void about_to_end() override {}
    void captured(std::size_t memory) override { account_->set_needed(record_, memory); }
    void ended() noexcept override {}
    void begin_launch(stream_ref s, source_location where) override {
        if (record_.needed == 0) return;
        is_steady_ = steady_on_ == s.id() && account_->try_begin(steady_since_);
        if (is_steady_) return;
        steady_on_ = 0;
        steady_since_ = account_->trims();  // a trim since then makes the next launch charge again
        pending_ = account_->begin_charged(record_, s, where);
        steady_on_ = s.id();
        std::size_t missing = 0;
        try {
            missing = make_room();
        } catch (...) {
            end_launch(s, false);
            throw;
        }
        if (missing == 0) return;
        auto const told = relief_->told();
        end_launch(s, false);
        refuse_on(account_->on(), missing, 1, {account_->name(), where}, "cudaGraphLaunch", told);
    }
    void end_launch(stream_ref, bool is_enqueued) noexcept override {
        if (record_.needed == 0) return;
        relief_.reset();
        has_waited_ = false;
        refusals_ = 0;
        // The driver had released memory of graphs before this launch, as another one has found.
        if (is_steady_ && account_->trims() != steady_since_) end_steadiness();
        std::uint64_t const before = account_->trims() == steady_since_ ? record_.stream_before : 0;
        if (!is_steady_) account_->settle(record_, pending_, is_enqueued ? steady_on_ : before);
        if (!is_enqueued) steady_on_ = 0;
        account_->end();
    }
    [[nodiscard]] bool relieve(std::size_t) noexcept override {
        if (is_steady_) end_steadiness();
        bool is_relieved = false;
        (void)report_failure_of([&] {
            // Another program may take each room that was made: then only idle memory is released, as for every graph.
            if (++refusals_ > 2) return;
            account_->note_refusal(record_, steady_on_);
            is_relieved = make_room() == 0;
        });
        return is_relieved;
    }

private:
    // The driver keeps the part that it got of a launch that it refuses, so it is asked for the memory first. Returns the bytes that it lacks.
    // Throws: cuda_error.
    [[nodiscard]] std::size_t make_room() {
        for (;;) {
            std::size_t const missing = account_->missing_for(record_, steady_on_, pending_);
            if (missing == 0 || rt::has_room(account_->on(), missing)) return 0;
            if (!release(missing)) return missing;
        }
    }
    // Releases first memory of graphs that do not run, which the account as a holder of idle memory cannot while this launch is in progress;
    // last, memory of those that run, when they have ended.
    [[nodiscard]] bool release(std::size_t bytes) {
        if (!relief_) {
            relief_.emplace(account_->on());
            if (account_->trim(&record_) != 0) return true;
        }
        if (relief_->relieve(bytes)) return true;
        return !std::exchange(has_waited_, true) && account_->wait_for_graphs() &&
               account_->trim(&record_) != 0;
    }
    // From now on the launch is settled at its end.
    void end_steadiness() noexcept {
        is_steady_ = false;
        pending_ = 0;
        record_.stream_before = 0;
    }

    intrusive_ptr<graph_memory_state> const account_;
    graph_record& record_;
    std::uint64_t steady_on_ = 0, steady_since_ = 0;
    bool is_steady_ = false;
    std::size_t pending_ = 0;
    std::optional<driver_relief> relief_{};
    bool has_waited_ = false;  // in this launch
    int refusals_ = 0;         // of this launch, by the driver
};

}  // namespace cuota::inline v0::detail
