// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/resource/pageable_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/training/batches/with_retry.hpp>

#include "programs/adversary_scene.hpp"

namespace adversary {

/// One thread of a random program.
class program {
public:
    program(scene& in, std::uint64_t seed) : in_{in}, draw_{seed} { in_.enter(mine_); }
    program(program const&) = delete;
    program& operator=(program const&) = delete;
    ~program() { in_.leave(mine_); }

    void run(int steps) {
        for (int i = 0; i != steps; ++i) {
            in_.others.pass();
            act();
            if (!in_.is_restless && below(4) == 0) in_.change_others(draw_);
            step();
            act();
        }
    }
    /// Releases all memory of the thread.
    void clear() {
        buffers_.clear();
        frame_.reset();
        plan_.reset();
        for (auto const& [p, bytes] : blocks_) in_.plain.deallocate_sync(p, bytes);
        blocks_.clear();
        mine_.reserved.reset();
        mine_.is_loader_idle = false;
        mine_.loader.reset();
        for (cuota::stream& s : mine_.streams) s.synchronize();
        graphs_.clear();
        mine_.in_graphs = 0;
    }

    counts seen;

private:
    using buffer = cuota::device_buffer<char>;

    struct open_frame {
        explicit open_frame(cuota::scoped_pool& of) : in{of.frame()} {}
        cuota::frame in;
    };
    struct graph {
        cuota::graph_exec exec;
        std::size_t bytes;  // of its block
    };
    struct planned {
        planned(cuota::scoped_pool const& of, std::vector<std::size_t> sizes)
            : plan{of.resource()}, blocks{std::move(sizes)} {}
        cuota::step_plan plan;
        std::vector<std::size_t> blocks;
        bool is_recorded = false;
    };

    [[nodiscard]] std::size_t below(std::size_t n) { return draw_() % n; }
    [[nodiscard]] std::size_t some_bytes() {
        return below(3) == 0 ? 1 + below(4'000) : below(4) == 0 ? below(16_MiB) + 1 : below(2_MiB) + 1;
    }
    [[nodiscard]] cuota::scoped_pool& some_pool() { return in_.pools[below(2)]; }
    [[nodiscard]] cuota::stream& some_stream() { return mine_.streams[below(2)]; }

    void act() {
        ++own_actions_;
        ++in_.actions;
    }
    [[nodiscard]] std::size_t actions_of_others() const { return in_.actions - own_actions_; }

    void step() {
        switch (below(3) == 0 ? favorite_ : below(20)) {
            case 0:
            case 1:
            case 2: return take_buffer();
            case 3: return take_block();
            case 4: return take_buffer_of(in_.ordered);
            case 5:
            case 6:
            case 7: return release_buffer();
            case 8: return release_block();
            case 9: return (void)request([this, bytes = some_bytes()] { in_.idle->fill(bytes); });
            case 10: return change_limit();
            case 11: return change_reservation();
            case 12:
            case 13: return use_frame();
            case 14: return train();
            case 15: return train_by_plan();
            case 16:
            case 17: return use_graph();
            default: return use_loader();
        }
    }
    void take_buffer() { take_buffer_of(some_pool().resource()); }
    template <class Resource>
    void take_buffer_of(Resource const& from) {
        auto const& stream = some_stream();
        std::size_t const bytes = some_bytes();
        (void)request([&] {
            buffers_.emplace_back(bytes, stream, cuota::any_resource{from}, cuota::no_init, "buffer");
        });
    }
    void release_buffer() {
        if (!buffers_.empty())
            buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(below(buffers_.size())));
    }
    void take_block() {
        std::size_t const bytes = some_bytes();
        (void)request([&] {
            blocks_.emplace_back(in_.plain.allocate_sync(bytes, 256, {"block", {}}), bytes);
        });
    }
    void release_block() {
        if (blocks_.empty()) return;
        in_.plain.deallocate_sync(blocks_.back().first, blocks_.back().second);
        blocks_.pop_back();
    }
    void change_limit() {
        std::size_t const limit = below(32_MiB);
        cuota::when_held const excess = below(3) == 0 ? cuota::when_held::keep : cuota::when_held::refuse;
        (void)request([&] { in_.child.set_limit(limit, excess); });
        if (below(2) == 0) in_.child.set_limit(4_MiB + below(24) * 1_MiB, cuota::when_held::keep);
    }
    void change_reservation() {
        auto& reserved = mine_.reserved;
        if (reserved && below(2) == 0) return reserved.reset();
        std::size_t const bytes = below(4_MiB);
        if (!reserved) return (void)request([&] { reserved.emplace(in_.root.reserve(bytes, "reserved")); });
        (void)request([&] { reserved->grow(bytes); });
    }

    void use_frame() {
        if (frame_ && below(3) == 0) return frame_.reset();
        if (!frame_) frame_ = std::make_unique<open_frame>(some_pool());
        for (std::size_t i = 1 + below(3); i != 0; --i) {
            std::size_t const bytes = some_bytes();
            auto const& stream = some_stream();
            (void)request([&] { (void)frame_->in.allocate(stream, bytes, "in a frame"); });
        }
        ++seen.frames;
    }

    // Trains with a batch; a step that is refused is tried again in smaller parts.
    void train() {
        std::size_t const at = below(2);
        std::size_t const samples = 1 + below(16), layers = 1 + below(3), bytes = 1 + below(512_KiB);
        auto const& stream = some_stream();
        bool const is_step = below(2) == 0 && !in_.is_in_step[at].exchange(true);
        auto const run = [&](cuota::any_resource const& from) {
            std::size_t done = 0;
            auto const step = [&](cuota::micro_batch part) {
                std::vector<buffer> activations;
                for (std::size_t i = 0; i != layers; ++i)
                    require([&] {
                        activations.emplace_back(part.count * bytes, stream, from, cuota::no_init,
                                                 "activation");
                    });
                done += part.count;
            };
            try {
                auto const how = cuota::with_retry(samples, step, {.on_start = [&] { done = 0; }});
                if (done != samples) seen.note(seen.unequal, "a step left out samples");
                seen.smaller_steps += how.refusals != 0;
                ++seen.steps;
            } catch (cuota::out_of_memory const&) { act(); }  // also a part of one sample was refused
        };
        if (is_step) {
            run(in_.pools[at].begin_step().resource());
            in_.is_in_step[at] = false;
        } else {
            auto const frame = in_.pools[at].frame();
            run(frame.resource());
        }
    }
    void train_by_plan() {
        if (plan_ && below(4) == 0) return plan_.reset();
        if (!plan_) {
            std::vector<std::size_t> blocks;
            for (std::size_t i = 1 + below(4); i != 0; --i) blocks.push_back(1 + below(1_MiB));
            plan_ = std::make_unique<planned>(some_pool(), std::move(blocks));
        }
        auto const& stream = some_stream();
        try {
            auto const open = plan_->plan.begin();
            std::vector<buffer> activations;
            for (std::size_t const bytes : plan_->blocks)
                require([&] {
                    activations.emplace_back(bytes, stream, cuota::any_resource{plan_->plan.resource()},
                                             cuota::no_init, "planned");
                });
            ++seen.steps;
        } catch (cuota::out_of_memory const&) { return act(); }
        if (std::exchange(plan_->is_recorded, true)) return;
        (void)request([&] { plan_->plan.prepare(); });
    }

    // Graphs of a library that allocates in its captures.
    void use_graph() {
        using cuota::rt::check;
        auto const& stream = some_stream();
        if (graphs_.size() == 5 || (!graphs_.empty() && below(4) == 0)) {
            std::size_t const at = below(graphs_.size());
            mine_.in_graphs -= graphs_[at].bytes;
            graphs_.erase(graphs_.begin() + static_cast<std::ptrdiff_t>(at));
        }
        if (graphs_.empty() || below(3) == 0) {
            std::size_t const bytes = 512 * (1 + below(8_MiB / 512));
            graphs_.push_back({in_.graphs.capture(stream,
                                                  [&] {
                                                      void* p = nullptr;
                                                      check(cudaMallocAsync(&p, bytes, stream.get()),
                                                            "cudaMallocAsync");
                                                      check(cudaFreeAsync(p, stream.get()), "cudaFreeAsync");
                                                  }),
                               bytes});
            mine_.in_graphs += bytes;
            mine_.has_graphs = true;
        }
        for (std::size_t i = 1 + below(3); i != 0; --i) {
            auto& chosen = graphs_[below(graphs_.size())].exec;
            auto const& on = some_stream();
            if (!request([&] { chosen.launch(on); })) ++seen.launches;
            if (below(4) != 0) on.synchronize();
        }
    }

    [[nodiscard]] static auto samples(std::size_t bytes) {
        return cuota::callable_dataset{
            "samples",
            100,
            {{"bytes", cuota::element_type::u8, {bytes}}},
            [](std::span<std::uint64_t const> wanted, std::span<std::span<std::byte> const> out) {
                std::memset(out[0].data(), static_cast<int>(wanted[0]), out[0].size());
            }};
    }
    void use_loader() {
        auto& loader = mine_.loader;
        if (loader && below(4) == 0) {
            mine_.is_loader_idle = false;
            return loader.reset();
        }
        if (!loader) {
            cuota::loader_options how{.batch_size = 1 + below(50),
                                      .device_budget = below(2) == 0 ? in_.root : in_.child,
                                      .host_memory = cuota::pageable_memory{}};
            how.device_slots = 1 + below(3);
            if (below(4) != 0) how.reclaim_priority = static_cast<int>(below(2));
            gives_idle_ = how.reclaim_priority.has_value();
            auto const from = samples(1 + below(40'000));
            (void)request([&] { loader.emplace(from, how); });
            mine_.is_loader_idle = loader && gives_idle_;
            return;
        }
        mine_.is_loader_idle = false;
        {
            std::optional<cuota::epoch_range> epoch;
            (void)request([&] { epoch.emplace(loader->epoch(below(9))); });
            for (std::size_t i = below(3); epoch && i != 0; --i) {
                if (!epoch->next()) break;
                ++seen.batches;
                take_buffer();
            }
        }
        mine_.is_loader_idle = gives_idle_;
    }

    // Bytes above the soft limit.
    [[nodiscard]] static std::size_t over_soft_limit() {
        auto const limits = cuota::device{0}.limits();
        return limits && limits->used > limits->soft ? limits->used - limits->soft : 0;
    }
    // Makes a request, and judges a refusal, of which it returns the exception.
    template <class Request>
    std::exception_ptr request(Request make) {
        ++seen.requests;
        auto const changes = sim::other_programs(0).changes;
        std::size_t const actions = actions_of_others(), over = over_soft_limit(),
                          taken_back = in_.taken_back_of_graphs(), held = in_.root.held();
        bool const graphs_run = in_.has_running_graphs(mine_);
        try {
            make();
            // Charges of up to 64 KiB need no query.
            if (in_.looks_always && in_.is_single && over_soft_limit() > over + taken_back + 64_KiB)
                seen.note(seen.over_soft, "over the soft limit by " + std::to_string(over_soft_limit()) +
                                              ", before by " + std::to_string(over) + "; held " +
                                              std::to_string(in_.root.held()) + ", before " +
                                              std::to_string(held) + "; taken back of graphs " +
                                              std::to_string(in_.taken_back_of_graphs()) + ", before " +
                                              std::to_string(taken_back));
            return nullptr;
        } catch (cuota::out_of_memory const& refused) {
            act();
            ++seen.refusals;
            if (!dynamic_cast<cuota::budget_exceeded const*>(&refused)) ++seen.driver_refusals;
            bool is_granted = false;
            in_.others.alone([&] {
                bool const is_disturbed =
                    graphs_run || sim::other_programs(0).changes != changes || actions_of_others() != actions;
                in_.pause_others();
                in_.wait_for_streams();
                is_granted = judge(make, refused.what(), is_disturbed);
                in_.resume_others();
            });
            return is_granted ? nullptr : std::current_exception();
        }
    }
    // Tries again while no other thread or program runs, by itself and after all idle memory was released. Returns whether that was granted.
    template <class Request>
    [[nodiscard]] bool judge(Request& make, std::string const& text, bool is_disturbed) {
        auto const still = refusal_now(make);
        if (!still) {
            if (is_disturbed) ++seen.disturbed;
            else seen.note(seen.contradicted, "granted when tried again: " + text);
            return true;
        }
        ++seen.judged;
        in_.release_idle();
        try {
            make();
            seen.note(seen.contradicted, "granted after idle memory was released: " + *still);
            return true;
        } catch (cuota::out_of_memory const& again) {
            if (in_.fits(again.info()))
                seen.note(seen.contradicted, std::string{"CUDA has the memory: "} + again.what());
            return false;
        }
    }
    // Makes a request; returns the text of its refusal.
    template <class Request>
    [[nodiscard]] static std::optional<std::string> refusal_now(Request& make) {
        try {
            make();
            return std::nullopt;
        } catch (cuota::out_of_memory const& refused) { return refused.what(); }
    }
    // Makes a request without which the caller cannot go on.
    template <class Request>
    void require(Request make) {
        if (auto const refused = request(std::move(make))) std::rethrow_exception(refused);
    }

    scene& in_;
    std::mt19937_64 draw_;
    std::size_t const favorite_ = below(20);  // a step that it takes more often than the others
    std::size_t own_actions_ = 0;
    holdings mine_;
    bool gives_idle_ = false;
    std::vector<std::pair<void*, std::size_t>> blocks_;
    std::vector<buffer> buffers_;
    std::vector<graph> graphs_;
    std::unique_ptr<open_frame> frame_;
    std::unique_ptr<planned> plan_;
};

}  // namespace adversary
