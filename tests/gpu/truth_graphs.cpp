// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Parts of gpu_truth about graphs: pool memory in a capture, and a captured planned step.
#include <algorithm>
#include <optional>
#include <vector>

#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/graph.hpp>

#include "gpu/truth.hpp"

namespace truth {
namespace {

using cuota::device_buffer;
using cuota::device_span;
using namespace cuota::literals;
using words = device_buffer<std::uint32_t>;

// ---- A step on words, by kernels and by the host.

[[nodiscard]] CUOTA_HOST_DEVICE inline std::uint32_t scrambled(std::uint32_t x, std::size_t i) {
    return x * 1664525U + 1013904223U + static_cast<std::uint32_t>(i);
}
[[nodiscard]] CUOTA_HOST_DEVICE inline std::uint32_t joined(std::uint32_t x, std::uint32_t next) {
    return x ^ (next >> 7);
}

struct scramble {
    device_span<std::uint32_t const> from;
    device_span<std::uint32_t> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = scrambled(from[i], i); }
};
struct join_neighbours {
    device_span<std::uint32_t const> from;
    device_span<std::uint32_t> to;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        to[i] = joined(from[i], from[(i + 1) % from.size()]);
    }
};
struct add {
    device_span<std::uint32_t const> a, b;
    device_span<std::uint32_t> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += a[i] + b[i]; }
};
/// Folds one word of each run of sums.size() words into a sum that depends on the order of all launches.
struct fold {
    device_span<std::uint32_t const> from;
    device_span<std::uint32_t> sums;
    CUOTA_KERNEL void operator()(std::size_t k) const {
        std::uint32_t sum = sums[k] * 31;
        for (std::size_t i = k; i < from.size(); i += sums.size()) sum ^= from[i];
        sums[k] = sum;
    }
};
struct count_up {
    device_span<std::uint64_t> counter;
    CUOTA_KERNEL void operator()(std::size_t) const { ++counter[0]; }
};

struct state {
    state(std::size_t count, cuota::stream_ref s, cuota::scoped_pool& pool)
        : data{count, s, pool, cuota::no_init, "data"},
          sums{64, s, pool, "sums"},
          counter{1, s, pool, "counter"} {
        write_pattern(s, data, 5);
    }
    words data, sums;
    device_buffer<std::uint64_t> counter;
};

/// Computes the same steps on the host.
class expected {
public:
    explicit expected(std::size_t count) : data_(count), sums_(64), a_(count), b_(count) {
        for (std::size_t i = 0; i != count; ++i) data_[i] = word_of(5, i);
    }
    void step() {
        std::size_t const n = data_.size();
        for (std::size_t i = 0; i != n; ++i) a_[i] = scrambled(data_[i], i);
        for (std::size_t i = 0; i != n; ++i) b_[i] = joined(a_[i], a_[i + 1 == n ? 0 : i + 1]);
        for (std::size_t i = 0; i != n; ++i) data_[i] += a_[i] + b_[i];
        for (std::size_t i = 0; i != n; ++i) a_[i] = scrambled(data_[i], i);
        for (std::size_t k = 0; k != sums_.size(); ++k) {
            sums_[k] *= 31;
            for (std::size_t i = k; i < n; i += sums_.size()) sums_[k] ^= a_[i];
        }
        ++steps_;
    }
    void check(state const& of, cuota::stream_ref s, std::string const& what) const {
        expect_equal(what + ": steps counted", of.counter.to_vector(s)[0], steps_);
        expect(of.sums.to_vector(s) == sums_, what + ": the checksums are others than the host's");
        auto const data = of.data.to_vector(s);
        auto const wrong = std::mismatch(data.begin(), data.end(), data_.begin()).first - data.begin();
        expect(data == data_, what + ": word " + std::to_string(wrong) + " is another than the host's");
    }

private:
    std::vector<std::uint32_t> data_, sums_, a_, b_;
    std::uint64_t steps_ = 0;
};

/// Runs one step on stream s and partly on t, with memory of a pool or a plan that is freed within the step.
void run_step(state& of, cuota::resource_ref const& memory, cuota::stream_ref s, cuota::stream_ref t) {
    std::size_t const n = of.data.size();
    {
        words a{n, s, memory, cuota::no_init, "a"};
        cuota::for_each_index(s, n, scramble{of.data.read(s), a.write(s)}, "scramble");
        words b{n, s, memory, cuota::no_init, "b"};
        cuota::for_each_index(t, n, join_neighbours{a.read(t), b.write(t)}, "join_neighbours");
        cuota::for_each_index(s, n, add{a.read(s), b.read(s), of.data.write(s)}, "add");
    }
    words c{n, s, memory, cuota::no_init, "c"};
    cuota::for_each_index(s, n, scramble{of.data.read(s), c.write(s)}, "scramble");
    cuota::for_each_index(s, of.sums.size(), fold{c.read(s), of.sums.write(s)}, "fold");
    cuota::for_each_index(s, 1, count_up{of.counter.write(s)}, "count_up");
}

}  // namespace

std::string capture_with_pool() {
    constexpr int launches = 1000;
    std::size_t const count = on_a_gpu<std::size_t>(16'384, 256);
    cuota::budget const budget{"graphs", 64_MiB};
    std::uint64_t beside = 0;
    {
        cuota::scoped_pool pool{budget};
        cuota::stream const s, t, other;
        device_tally found{other};
        {
            state of{count, s, pool};
            expected host{count};
            // Allocated before the capture and freed in it: every launch writes it, so the graph owns it, too.
            std::optional<words> ended{std::in_place, count, s, pool, cuota::no_init};
            cuota::graph_exec step = cuota::capture({s, t}, [&] {
                run_step(of, pool, s, t);
                cuota::for_each_index(s, count, scramble{of.data.read(s), ended->write(s)}, "scramble");
                ended.reset();
            });
            std::size_t const held = budget.held();

            // Blocks of the graph's sizes from the same pool, allocated between the launches: none may overlap the graph's memory.
            std::vector<words> neighbours;
            std::uint64_t checked = 0;
            for (int i = 0; i != launches; ++i) {
                step.launch(i % 3 == 0 ? t : s);
                host.step();
                if (i % 50 != 0) continue;
                neighbours.push_back({count, other, pool, cuota::no_init, "beside the graph"});
                write_pattern(other, neighbours.back(), 1000 + neighbours.size());
                for (std::size_t k = 0; k != neighbours.size(); ++k)
                    verify_pattern(other, neighbours[k], 1001 + k, found);
                checked += neighbours.size() * count;
            }
            for (std::size_t k = 0; k != neighbours.size(); ++k)
                verify_pattern(other, neighbours[k], 1001 + k, found);
            checked += neighbours.size() * count;
            host.check(of, s, "after 1,000 launches");
            found.expect_right(other, checked, "blocks beside the graph");
            expect(budget.held() <= held + 4_MiB, "launches took memory");
            beside = checked;
        }
        pool.close();
    }
    expect_equal("bytes held at the end", budget.held(), 0U);
    return text("%d launches on two streams, %zu words each; %llu words of other blocks stayed as they were",
                launches, count, static_cast<unsigned long long>(beside));
}

std::string planned_step_in_graph() {
    constexpr int steps = 200;
    std::size_t const count = on_a_gpu<std::size_t>(65'536, 256);
    cuota::budget const budget{"steps", 64_MiB};
    {
        cuota::scoped_pool pool{budget};
        cuota::stream const s;
        expected host{count};
        for (int i = 0; i != steps; ++i) host.step();

        state eager{count, s, pool};
        for (int i = 0; i != steps; ++i) run_step(eager, pool, s, s);
        host.check(eager, s, "steps with memory of a pool");

        auto const planned_step = [&](state& of, cuota::step_plan& plan) {
            auto const step = plan.begin();
            run_step(of, plan.resource(), s, s);
        };
        state planned{count, s, pool};
        cuota::step_plan plan{pool};
        for (int i = 0; i != steps; ++i) planned_step(planned, plan);
        host.check(planned, s, "planned steps");
        expect_equal("requests served from the slab", plan.stats().served, 3U * (steps - 1));

        state replayed{count, s, pool};
        cuota::step_plan captured{pool};
        planned_step(replayed, captured);
        cuota::graph_exec graph = cuota::capture(s, [&] { planned_step(replayed, captured); });
        std::size_t const held = budget.held();
        for (int i = 1; i != steps; ++i) graph.launch(s);
        host.check(replayed, s, "a planned step in a graph");
        expect_equal("bytes held after the launches", budget.held(), held);
        expect_equal("captured requests served from the slab", captured.stats().served, 3U);

        // After the launches, the same plan serves steps outside of a graph.
        planned_step(replayed, captured);
        host.step();
        host.check(replayed, s, "a planned step after the graph");
    }
    expect_equal("bytes held at the end", budget.held(), 0U);
    return text("%d steps of %zu words: by a pool, by a plan and by a graph of the plan", steps, count);
}

}  // namespace truth
