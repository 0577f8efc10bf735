// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Trains the deep network by a plan, within a budget that leaves a given number of bytes for activations.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/measured.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/training/batches/micro_batches.hpp>
#include <cuota/training/checkpointing/chain_requests.hpp>
#include <cuota/training/checkpointing/checkpointed.hpp>
#include <cuota/training/checkpointing/measure_stages.hpp>
#include <cuota/training/precision/loss_scaler.hpp>
#include <cuota/training/precision/non_finite_check.hpp>

#include "deep_network.hpp"
#include "deep_plan.hpp"
#include "train_data.hpp"
#include "train_options.hpp"

namespace train {

/// Results of a run. Sizes in bytes.
struct deep_result {
    deep_plan plan{};
    std::size_t fixed = 0;  ///< network and loader; the same for every strategy
    cuota::footprint network{};
    std::size_t slots = 0;    ///< device slots of the loader
    std::size_t limit = 0;    ///< limit of the budget
    std::size_t peak = 0;     ///< peak of the budget
    std::size_t driver = 0;   ///< decrease of the free memory of the driver, including other programs
    std::size_t pinned = 0;   ///< peak of pinned memory
    double step_seconds = 0;  ///< measured
    double recomputed = 0;    ///< share of the forward work
    double loss = 0;          ///< mean of the last epoch
    cuota::usage_report activations{};

    [[nodiscard]] std::size_t planned() const { return fixed + plan.slab_bytes; }
};

/// Returns options for a pool of one segment of `bytes` bytes, which keeps fragmentation low.
[[nodiscard]] inline cuota::pool_options one_segment(std::size_t bytes) {
    return {.initial_size = bytes, .max_size = bytes, .growth = cuota::pool_growth::segments};
}
/// Returns the size of a single segment that holds the plan.
[[nodiscard]] inline std::size_t segment_bytes(cuota::footprint const& plan) {
    return cuota::round_up(plan.bytes(), cuota::device_memory::granularity());
}

/// Times of the stages for any number of samples: a constant and a term per sample, fitted to two measurements.
class stage_times {
public:
    stage_times() = default;
    stage_times(std::size_t few, cuota::chain const& of_few, std::size_t many, cuota::chain const& of_many)
        : few_{static_cast<double>(few)},
          many_{static_cast<double>(many)},
          of_few_{of_few},
          of_many_{of_many} {}

    /// Sets the times of a chain for `samples` samples. Without a measurement, each stage takes 1 per sample.
    void set(cuota::chain& c, std::size_t samples) const {
        auto const n = static_cast<double>(samples);
        if (of_many_.stages.empty()) {
            for (cuota::chain_stage& s : c.stages) s.forward_time = s.backward_time = n;
            return;
        }
        for (std::size_t i = 0; i != c.stages.size(); ++i) {
            c.stages[i].forward_time = at(n, of_few_.stages[i].forward_time, of_many_.stages[i].forward_time);
            c.stages[i].backward_time =
                at(n, of_few_.stages[i].backward_time, of_many_.stages[i].backward_time);
        }
        c.offload_time_per_byte = of_many_.offload_time_per_byte;
        c.fetch_time_per_byte = of_many_.fetch_time_per_byte;
    }

private:
    [[nodiscard]] double at(double n, double few, double many) const {
        if (few_ == many_) return many * n / many_;
        double const each = std::clamp((many - few) / (many_ - few_), 0.0, many / many_);
        return many + each * (n - many_);
    }
    double few_ = 1;
    double many_ = 1;
    cuota::chain of_few_;
    cuota::chain of_many_;
};

/// A network, its loader, and the budget that both are charged to. S: the element type of activations.
template <class S>
class deep_run {
public:
    deep_run(options const& how, any_samples const& samples, deep_shape const& shape, std::size_t room)
        : how_{how},
          shape_{shape},
          fixed_{fixed_bytes(how, samples, shape)},
          room_{room},
          device_{"device", cuota::checked_add(fixed_, room).value_or(cuota::unlimited)},
          pinned_{"pinned", how.pinned_budget, cuota::budget::for_host()},
          pool_{device_, network_pool(network_plan(shape))},
          network_{shape, samples.fields()[0].type, how.seed, stream_, pool_},
          loader_{samples, loading(how, shape.batch, device_, pinned_)} {
        if constexpr (is_half) overflow_.emplace(stream_, pool_, cuota::tag{"overflow"});
    }

    /// Returns the chain for `samples` samples at once, with sizes alone.
    [[nodiscard]] static cuota::chain sizes(deep_shape const& shape, std::size_t samples) {
        return chain_of(deep_network<S>::sizes(shape, samples), cuota::pool_resource::granularity());
    }

    /// Returns the plan of a strategy, by the measured times of the stages. Throws: plan_error.
    [[nodiscard]] deep_plan plan(std::string const& strategy) {
        std::size_t const loaded = loader_.plan().pinned_bytes;
        deep_planner const untimed{shape_.batch, how_.pinned_budget - loaded, chains()};
        if (auto const part = untimed.largest_part(room_)) measure_some(*part);
        return deep_planner{shape_.batch, how_.pinned_budget - loaded, chains()}.of(strategy, room_);
    }

    [[nodiscard]] deep_result train(deep_plan const& plan) {
        cuota::step_plan slab{cuota::budgeted<cuota::device_memory>{device_}};
        slab.set_plan(chain_requests(chain_of(deep_network<S>::sizes(shape_, plan.part), 1), plan.schedule),
                      deep_plan::simple_offsets());
        slab.prepare();  // allocates the slab, so that no step is refused later
        cuota::measured const activations{slab.resource()};
        cuota::checkpointed chain{network_.stages(plan.part), plan.schedule, stream_, activations,
                                  cuota::budgeted{pinned_, cuota::pinned_memory{}}};
        deep_result r{.plan = plan, .fixed = fixed_, .limit = device_.limit()};
        r.network = network_plan(shape_);
        r.slots = loader_.plan().device_bytes;
        r.recomputed = plan.recomputed_share(chains()(plan.part));
        auto const started = std::chrono::steady_clock::now();
        std::size_t steps = 0;
        for (std::size_t epoch = 0; epoch != how_.epochs && steps != how_.steps; ++epoch)
            r.loss = one_epoch(epoch, plan.part, slab, chain, steps);
        stream_.synchronize();
        r.step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() /
                         static_cast<double>(std::max<std::size_t>(steps, 1));
        r.activations = activations.report();
        r.peak = device_.peak();
        r.pinned = pinned_.peak();
        std::size_t const free = where_.memory().free;
        r.driver = free_before_ > free ? free_before_ - free : 0;
        return r;
    }

    [[nodiscard]] static std::size_t fixed_bytes(options const& how, any_samples const& samples,
                                                 deep_shape const& shape) {
        return segment_bytes(network_plan(shape)) +
               cuota::plan_loader(samples, loading(how, shape.batch, std::nullopt, std::nullopt))
                   .device_bytes;
    }

private:
    static constexpr bool is_half = std::is_same_v<S, cuota::half>;

    [[nodiscard]] static cuota::footprint network_plan(deep_shape const& shape) {
        auto plan = deep_network<S>::plan(shape, cuota::pool_resource::granularity());
        if (is_half) plan.template add<float>("overflow", 1);
        return plan;
    }
    [[nodiscard]] static cuota::pool_options network_pool(cuota::footprint const& plan) {
        cuota::pool_options o = one_segment(segment_bytes(plan));
        o.name = "network";
        return o;
    }
    [[nodiscard]] static cuota::loader_options loading(options const& how, std::size_t batch,
                                                       std::optional<cuota::budget> const& device,
                                                       std::optional<cuota::budget> const& pinned) {
        cuota::loader_options o{.batch_size = batch, .seed = how.seed, .workers = how.workers};
        o.name = "training slots";
        o.device_budget = device;
        o.pinned_budget = pinned;
        return o;
    }

    [[nodiscard]] deep_planner::chain_of_part chains() const {
        return [shape = shape_, times = times_](std::size_t samples) {
            cuota::chain c = sizes(shape, samples);
            times.set(c, samples);
            return c;
        };
    }

    /// Measures with `part` samples, or halves them until they fit: the pool of the measurement has other holes than the slab.
    void measure_some(std::size_t part) {
        for (;; part /= 2) try {
                return measure(part);
            } catch (cuota::out_of_memory const&) {
                if (part == 1) return;  // plans assume equal times
            }
    }
    /// Measures the stages with `part` samples and with half of them, all activations kept. Parameters do not change.
    void measure(std::size_t part) {
        std::size_t const few = (part + 1) / 2;
        for (cuota::batch const batch : loader_.epoch(0)) {
            set_labels(batch);
            with_samples(batch, [&](auto const& samples) {
                std::size_t const there = samples.size() / shape_.inputs;
                std::size_t const many = std::min(part, there);
                auto const of_many = measure_on(samples, many);
                times_ = {std::min(few, many), measure_on(samples, std::min(few, many)), many, of_many};
            });
            break;
        }
        network_.clear_gradients();
        (void)network_.take_totals();
        device_.reset_peak();
    }
    template <class T>
    [[nodiscard]] cuota::chain measure_on(device_span<T const> samples, std::size_t count) {
        cuota::scoped_pool pool{device_, one_segment(room_)};
        network_.set_part({0, count, shape_.batch});
        return measure_stages(network_.stages(count), samples.first(count * shape_.inputs), stream_,
                              pool.resource(), 3, cuota::budgeted{pinned_, cuota::pinned_memory{}});
    }

    void set_labels(cuota::batch const& batch) {
        cuota::field const& labels = batch.fields()[1];
        with_label_type(labels.type, labels.name, [&](auto label) {
            network_.set_labels(batch.view<decltype(label)>(stream_, 1).span());
        });
    }
    template <class F>
    void with_samples(cuota::batch const& batch, F f) {
        cuota::field const& pixels = batch.fields()[0];
        with_pixel_type(pixels.type, pixels.name,
                        [&](auto pixel) { f(batch.view<decltype(pixel)>(stream_, 0).span()); });
    }

    /// Returns the mean loss.
    double one_epoch(std::size_t epoch, std::size_t part, cuota::step_plan& slab, cuota::checkpointed& chain,
                     std::size_t& steps) {
        std::size_t seen = 0;
        for (cuota::batch const batch : loader_.epoch(epoch)) {
            set_labels(batch);
            with_samples(batch, [&](auto const& samples) {
                std::size_t const count = samples.size() / shape_.inputs;
                add_gradients(samples, count, part, slab, chain, cuota::epoch_key(how_.seed, steps));
                seen += count;
            });
            step();
            if (++steps == how_.steps) break;
        }
        auto const sums = network_.take_totals();
        auto const n = static_cast<double>(seen);
        std::printf("  epoch %zu  loss %.12g  accuracy %.2f %%\n", epoch + 1, sums.loss / n,
                    100 * sums.hits / n);
        std::fflush(stdout);
        return sums.loss / n;
    }

    template <class T>
    void add_gradients(device_span<T const> samples, std::size_t count, std::size_t part,
                       cuota::step_plan& slab, cuota::checkpointed& chain, std::uint64_t seed) {
        for (cuota::micro_batch const some : cuota::micro_batches{count, part}) {
            network_.set_part(some, is_half ? scaler_.scale() : 1);
            auto const step = slab.begin();
            chain.run(samples.subspan(some.first * shape_.inputs, some.count * shape_.inputs), seed);
        }
    }
    void step() {
        if constexpr (is_half) {
            overflow_->reset(stream_);
            auto const gradients = network_.gradients().write(stream_);
            overflow_->unscale(stream_, gradients.span(), scaler_.unscale());
            if (!scaler_.update(overflow_->found(stream_))) return network_.clear_gradients();
        }
        network_.step(static_cast<float>(how_.rate));
    }

    options const& how_;
    deep_shape shape_;
    std::size_t fixed_;
    std::size_t room_;
    cuota::budget device_;
    cuota::budget pinned_;
    cuota::device where_ = cuota::device::current();
    cuota::stream stream_;
    std::size_t free_before_ = where_.memory().free;
    cuota::scoped_pool pool_;
    deep_network<S> network_;
    cuota::batch_loader loader_;
    cuota::loss_scaler scaler_{{.initial_scale = 1024}};
    std::optional<cuota::non_finite_check> overflow_;
    stage_times times_;
};

}  // namespace train
