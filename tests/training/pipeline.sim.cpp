// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/pipeline.hpp>

#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/simulator/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/number_chain.hpp"
#include "support/thrown.hpp"

using cuota::budget;
using cuota::checkpoint_stage;
using cuota::pipeline;
using cuota::stage_run;
using support::word;

static_assert(!std::is_copy_constructible_v<pipeline>);

namespace {

using budgeted_lane = cuota::budgeted<cuota::device_memory>;

// Sums of gradients that tell in which order they were added.
struct fold_numbers {
    support::const_words in, result, saved, scratch, gradient;
    support::words sums;
    CUOTA_KERNEL void operator()(std::size_t p) const {
        word sum = sums[p];
        for (support::const_words const from : {in, result, saved, scratch, gradient})
            for (std::size_t i = 0; i != from.size(); ++i)
                sum = sum * 31 + from[i] * static_cast<word>(2 * p + 1) + static_cast<word>(i);
        sums[p] = sum;
    }
};

// Streams, one for each device of the machine.
[[nodiscard]] std::vector<cuota::stream> streams_of_devices(std::size_t devices) {
    std::vector<cuota::stream> all;
    for (std::size_t d = 0; d != devices; ++d) {
        cuota::device_scope const here{cuota::device{static_cast<int>(d)}};
        all.emplace_back();
    }
    return all;
}

/// Stages whose parameters' gradients are on the devices that run them.
class spread_numbers {
public:
    static constexpr std::size_t parameters = 2;

    spread_numbers(std::vector<support::number_stage> shape, std::vector<std::size_t> const& first,
                   std::vector<cuota::stream> const& streams, std::size_t parts)
        : shape_{std::move(shape)} {
        for (std::size_t i = 0; i != shape_.size(); ++i) {
            while (device_ + 1 < first.size() && first[device_ + 1] <= i) ++device_;
            homes_.push_back(streams[device_]);
            cuota::device_memory const memory{streams[device_].device()};
            sums_.push_back({parameters, streams[device_], memory, "sums"});
        }
        for (std::size_t m = 0; m != parts; ++m) {
            inputs_.push_back({200 + 10 * m, streams[0], cuota::device_memory{cuota::device{0}}, "part"});
            cuota::for_each_index(streams[0], inputs_[m].size(),
                                  support::fill_numbers{inputs_[m].write(streams[0]), static_cast<word>(m)},
                                  "fill");
        }
        for (auto const& input : inputs_) borrowed_.push_back(input.read(streams[0]));
    }

    [[nodiscard]] std::vector<checkpoint_stage> stages() {
        std::vector<checkpoint_stage> all;
        for (support::number_stage const& s : shape_) {
            checkpoint_stage one;
            one.name = "spread stage";
            one.output_bytes = s.output * sizeof(word);
            one.saved_bytes = s.saved * sizeof(word);
            one.forward_scratch = s.forward_scratch * sizeof(word);
            one.backward_scratch = s.backward_scratch * sizeof(word);
            one.forward = [this](stage_run const& run) { forward(run); };
            one.backward = [this](stage_run const& run) { backward(run); };
            all.push_back(std::move(one));
        }
        return all;
    }
    [[nodiscard]] std::vector<support::const_words> inputs() const {
        std::vector<support::const_words> all;
        for (auto const& lease : borrowed_) all.push_back(lease.span());
        return all;
    }
    [[nodiscard]] std::vector<word> sums() const {
        std::vector<word> all;
        for (std::size_t i = 0; i != sums_.size(); ++i)
            for (word const one : sums_[i].to_vector(homes_[i])) all.push_back(one);
        return all;
    }
    void clear() {
        for (std::size_t i = 0; i != sums_.size(); ++i)
            sums_[i].copy_from(std::vector<word>(parameters), homes_[i]);
    }

    std::size_t fail_at = 0;  ///< the call of a stage that throws; 0: none
    std::size_t calls = 0;
    bool was_elsewhere = false;  ///< a stage ran while another device than its stream's was current

private:
    void forward(stage_run const& run) {
        count_call(run);
        auto const s = run.stream();
        auto const scratch = run.scratch<word>();
        cuota::for_each_index(s, scratch.size(), support::fill_numbers{scratch, 5}, "fill");
        auto const out = run.output<word>();
        cuota::for_each_index(
            s, out.size(), support::forward_numbers{run.input<word>(), scratch, out, run.seed()}, "forward");
        auto const saved = run.saved<word>();
        cuota::for_each_index(s, saved.size(), support::save_numbers{run.input<word>(), saved, run.seed()},
                              "save");
    }
    void backward(stage_run const& run) {
        count_call(run);
        auto const s = run.stream();
        auto const scratch = run.scratch<word>();
        cuota::for_each_index(s, scratch.size(), support::fill_numbers{scratch, 6}, "fill");
        auto const in = run.input<word>();
        auto const result = run.result<word>();
        auto const saved = run.saved<word>();
        auto const gradient = run.output_gradient<word>();
        auto const out = run.input_gradient<word>();
        cuota::for_each_index(s, out.size(), support::back_numbers{in, result, saved, scratch, gradient, out},
                              "back");
        cuota::for_each_index(s, parameters,
                              fold_numbers{in, result, saved, scratch, gradient, sums_[run.stage()].write(s)},
                              "fold");
    }
    void count_call(stage_run const& run) {
        was_elsewhere = was_elsewhere || !(cuota::device::current() == run.stream().device());
        ++calls;
        if (fail_at != 0 && --fail_at == 0) throw std::runtime_error{"a stage that fails"};
    }

    std::vector<support::number_stage> shape_;
    std::size_t device_ = 0;
    std::vector<cuota::stream_ref> homes_;
    std::vector<cuota::device_buffer<word>> sums_;
    std::vector<cuota::device_buffer<word>> inputs_;
    std::vector<cuota::lease<word const>> borrowed_;
};

/// Forward and backward of one micro-batch after the other on one device, everything kept: written out, with no executor.
[[nodiscard]] std::vector<word> sums_of_one_device(std::vector<support::number_stage> const& shape,
                                                   std::size_t parts, std::uint64_t seed) {
    std::vector<cuota::stream> const one = streams_of_devices(1);
    cuota::stream_ref const s = one[0];
    spread_numbers net{shape, {0}, one, parts};
    auto const stages = net.stages();
    using bytes = cuota::device_buffer<std::byte>;
    auto const make = [&](std::size_t n) { return bytes{n, s, cuota::device_memory{}}; };
    std::vector<support::const_words> const inputs = net.inputs();
    for (std::size_t m = 0; m != parts; ++m) {
        std::vector<bytes> outputs, saved;
        bytes gradient = make(0);
        auto const range = [&](bytes& b) {
            auto const lease = b.write(s);
            return stage_run::values::range{lease.span().data(), b.bytes()};
        };
        auto const input = [&](std::size_t i) {
            if (i != 0) return range(outputs[i - 1]);
            auto* const at = const_cast<word*>(inputs[m].data());
            return stage_run::values::range{reinterpret_cast<std::byte*>(at), inputs[m].bytes()};
        };
        for (std::size_t i = 0; i != stages.size(); ++i) {
            outputs.push_back(make(stages[i].output_bytes));
            saved.push_back(make(stages[i].saved_bytes));
            bytes scratch = make(stages[i].forward_scratch);
            stage_run::values v;
            v.input = input(i);
            v.output = range(outputs[i]);
            v.saved = range(saved[i]);
            v.scratch = range(scratch);
            stages[i].forward({s, {{}, i, m, cuota::detail::stage_seed(seed, i, m), false, true, false}, v});
        }
        for (std::size_t i = stages.size(); i-- != 0;) {
            bytes next = make(i == 0 ? 0 : stages[i - 1].output_bytes);
            bytes scratch = make(stages[i].backward_scratch);
            stage_run::values v;
            v.input = input(i);
            v.output = range(outputs[i]);
            v.saved = range(saved[i]);
            v.scratch = range(scratch);
            v.output_gradient = range(gradient);
            v.input_gradient = range(next);
            stages[i].backward({s, {{}, i, m, cuota::detail::stage_seed(seed, i, m), true, true, false}, v});
            gradient = std::move(next);
        }
    }
    return net.sums();
}

/// A pipeline over devices 0 to D - 1, each with a budget.
struct pipeline_case {
    pipeline_case(std::size_t devices, std::size_t micro_batches, unsigned seed)
        : parts{micro_batches}, streams{streams_of_devices(devices)} {
        std::mt19937 random{seed};
        std::size_t stages = 0;
        for (std::size_t d = 0; d != devices; ++d) {
            first.push_back(stages);
            stages += 1 + random() % 3;
        }
        shape = support::random_number_stages(stages, seed);
        for (std::size_t d = 0; d != devices; ++d) budgets.emplace_back("lane", cuota::unlimited);
        net = std::make_unique<spread_numbers>(shape, first, streams, parts);
    }
    [[nodiscard]] std::vector<cuota::pipeline_device> devices(std::vector<budget> const& of) const {
        std::vector<cuota::pipeline_device> all;
        for (std::size_t d = 0; d != streams.size(); ++d)
            all.push_back({streams[d], budgeted_lane{of[d], cuota::device_memory{streams[d].device()}}});
        return all;
    }
    [[nodiscard]] std::vector<cuota::pipeline_device> devices() const { return devices(budgets); }

    std::size_t parts;
    std::vector<cuota::stream> streams;
    std::vector<std::size_t> first{};
    std::vector<support::number_stage> shape{};
    std::vector<budget> budgets{};
    std::unique_ptr<spread_numbers> net{};
};

[[nodiscard]] std::vector<std::size_t> peaks_of(std::vector<budget> const& budgets) {
    std::vector<std::size_t> all;
    for (budget const& b : budgets) all.push_back(b.peak());
    return all;
}

}  // namespace

TEST_CASE("a pipeline's gradients are those of one device bit for bit, and its peaks are those foretold",
          "[training][pipeline]") {
    support::machine const machine{{.devices = 4}};
    for (std::size_t devices = 1; devices != 5; ++devices)
        for (std::size_t const parts : {1u, 2u, 5u}) {
            INFO(devices << " devices, " << parts << " micro-batches");
            pipeline_case c{devices, parts, static_cast<unsigned>(10 * devices + parts)};
            pipeline net{c.net->stages(), c.first, parts, c.devices()};
            net.run(c.net->inputs(), 3);
            CHECK(c.net->sums() == sums_of_one_device(c.shape, parts, 3));
            CHECK(peaks_of(c.budgets) == net.peaks());
            CHECK(net.peaks() ==
                  pipeline_peaks(cuota::chain_of(c.net->stages(), cuota::device_memory::granule()), c.first,
                                 parts));
            CHECK(c.net->calls == 2 * parts * c.shape.size());
            CHECK(!c.net->was_elsewhere);
            for (budget const& b : c.budgets) CHECK(b.held() == 0);
            for (cuota::stream const& s : c.streams) s.synchronize();
        }
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("pipelines over pools serve step after step, and hold no more than one step's peak",
          "[training][pipeline]") {
    support::machine const machine{{.devices = 3}};
    pipeline_case c{3, 4, 77};
    std::vector<std::unique_ptr<cuota::scoped_pool>> pools;
    std::vector<cuota::pipeline_device> devices;
    for (std::size_t d = 0; d != 3; ++d) {
        cuota::device_scope const here{c.streams[d].device()};
        pools.push_back(std::make_unique<cuota::scoped_pool>(c.budgets[d]));
        devices.push_back({c.streams[d], pools[d]->resource()});
    }
    {
        pipeline net{c.net->stages(), c.first, 4, devices};
        for (std::uint64_t step = 0; step != 5; ++step) {
            c.net->clear();
            net.run(c.net->inputs(), step);
            CHECK(c.net->sums() == sums_of_one_device(c.shape, 4, step));
        }
        for (std::size_t d = 0; d != 3; ++d) CHECK(pools[d]->stats().peak_allocated == net.peaks()[d]);
        // No wait in between: steps overlap.
        c.net->clear();
        for (std::uint64_t step = 0; step != 3; ++step) net.run(c.net->inputs(), 1);
        for (std::size_t d = 0; d != 3; ++d) CHECK(pools[d]->stats().peak_allocated == net.peaks()[d]);
    }
    for (cuota::stream const& s : c.streams) s.synchronize();
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("the host waits for nothing while a pipeline's step is enqueued", "[training][pipeline]") {
    support::machine const machine{{.devices = 3}};
    pipeline_case c{3, 4, 78};
    std::vector<std::unique_ptr<cuota::scoped_pool>> pools;
    std::vector<cuota::pipeline_device> devices;
    for (std::size_t d = 0; d != 3; ++d) {
        cuota::device_scope const here{c.streams[d].device()};
        pools.push_back(
            std::make_unique<cuota::scoped_pool>(c.budgets[d], cuota::pool_options{.initial = 4 << 20}));
        devices.push_back({c.streams[d], pools[d]->resource()});
    }
    pipeline net{c.net->stages(), c.first, 4, devices};
    {
        support::gate const closed{c.streams[0]};  // a wait would last for ever
        net.run(c.net->inputs(), 3);
        CHECK(!c.streams[2].is_idle());
    }
    CHECK(c.net->sums() == sums_of_one_device(c.shape, 4, 3));
}

TEST_CASE("a pipeline is refused at every limit below a device's peak, leaves nothing, and runs again",
          "[training][pipeline]") {
    support::machine const machine{{.devices = 3}};
    pipeline_case c{3, 3, 5};
    std::vector<word> const right = sums_of_one_device(c.shape, 3, 9);
    std::vector<std::size_t> const peaks = pipeline{c.net->stages(), c.first, 3, c.devices()}.peaks();
    std::size_t refused = 0;
    for (std::size_t d = 0; d != 3; ++d)
        for (std::size_t limit = 0; limit < peaks[d]; limit += 512) {
            std::vector<budget> tight;
            for (std::size_t i = 0; i != 3; ++i) tight.emplace_back("tight", i == d ? limit : peaks[i]);
            auto const before = cuota::simulator::live();
            {
                pipeline net{c.net->stages(), c.first, 3, c.devices(tight)};
                CHECK_THROWS_AS(net.run(c.net->inputs(), 9), cuota::budget_exceeded);
                ++refused;
                for (budget const& b : tight) CHECK(b.held() == 0);
            }
            CHECK(cuota::simulator::live().device_bytes == before.device_bytes);
            CHECK(cuota::simulator::live().total() == before.total());
        }
    CHECK(refused > 30);
    std::vector<budget> exact;
    for (std::size_t const peak : peaks) exact.emplace_back("exact", peak);
    pipeline net{c.net->stages(), c.first, 3, c.devices(exact)};
    {
        cuota::reservation const others = exact[1].reserve(512);
        CHECK_THROWS_AS(net.run(c.net->inputs(), 9), cuota::budget_exceeded);
    }
    c.net->clear();
    net.run(c.net->inputs(), 9);
    CHECK(c.net->sums() == right);
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("a stage that throws in a pipeline leaves nothing held, whichever call it is",
          "[training][pipeline]") {
    support::machine const machine{{.devices = 2}};
    pipeline_case c{2, 3, 6};
    std::vector<word> const right = sums_of_one_device(c.shape, 3, 1);
    pipeline net{c.net->stages(), c.first, 3, c.devices()};
    auto const before = cuota::simulator::live();
    std::size_t const calls = 2 * 3 * c.shape.size();
    for (std::size_t nth = 1; nth <= calls; ++nth) {
        c.net->fail_at = nth;
        CHECK_THROWS_AS(net.run(c.net->inputs(), 1), std::runtime_error);
        for (budget const& b : c.budgets) CHECK(b.held() == 0);
        for (cuota::stream const& s : c.streams) CHECK(s.is_idle());
        CHECK(cuota::simulator::live().device_bytes == before.device_bytes);
    }
    c.net->clear();
    net.run(c.net->inputs(), 1);
    CHECK(c.net->sums() == right);
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("a pipeline survives every failing CUDA call", "[training][pipeline]") {
    support::machine machine{{.devices = 2}};
    pipeline_case c{2, 2, 1};
    auto const inputs = c.net->inputs();
    auto const seen = support::survives_every_failure(machine, [&] {
        pipeline net{c.net->stages(), c.first, 2, c.devices()};
        net.run(inputs, 1);
        for (cuota::stream const& s : c.streams) s.synchronize();
    });
    CHECK(seen.thrown > 50);
    CHECK(seen.silent == 0);
    for (budget const& b : c.budgets) CHECK(b.held() == 0);
    CHECK(cuota::simulator::misuse().total() == 0);
}

TEST_CASE("a pipeline that cannot be is misuse, and nothing of it stays", "[training][pipeline]") {
    support::machine const machine{{.devices = 2}};
    pipeline_case c{2, 2, 2};
    auto const devices = c.devices();
    auto const stages = c.net->stages();
    auto const before = cuota::simulator::live().total();
    using cuota::misuse;
    CHECK_THROWS_AS((pipeline{stages, {0}, 2, devices}), misuse);
    CHECK_THROWS_AS((pipeline{stages, {0, 0}, 2, devices}), misuse);
    CHECK_THROWS_AS((pipeline{stages, c.first, 0, devices}), misuse);
    auto broken = stages;
    broken.back().backward = nullptr;
    auto const told = support::thrown<misuse>([&] { pipeline const net{broken, c.first, 2, devices}; });
    CHECK(std::string{told.what()}.find("of a pipeline has no backward function") != std::string::npos);
    pipeline net{stages, c.first, 2, devices};
    auto inputs = c.net->inputs();
    inputs.pop_back();
    CHECK_THROWS_AS(net.run(inputs, 1), misuse);
    CHECK(c.net->calls == 0);
    CHECK(cuota::simulator::live().total() > before);
}
