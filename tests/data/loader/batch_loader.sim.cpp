// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/batch_loader.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/converted_dataset.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/peer_access.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using support::machine;
using support::numbered_source;
using support::seen_by;

namespace {

std::vector<std::uint64_t> order_of(cuota::batch_loader& loader, std::uint64_t epoch) {
    return support::order_of(loader.epoch(epoch));
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> v) {
    std::ranges::sort(v);
    return v;
}

std::vector<std::uint64_t> counted(std::uint64_t n) {
    std::vector<std::uint64_t> v(n);
    for (std::uint64_t i = 0; i != n; ++i) v[i] = i;
    return v;
}

template <class Error, class Action>
std::string message_of(Action action) {
    try {
        action();
    } catch (Error const& e) { return e.what(); }
    FAIL("nothing was thrown");
    return {};
}

struct widen {
    cuota::device_span<cuota::half const> from;
    cuota::device_span<float> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = static_cast<float>(from[i]); }
};

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace

static_assert(!std::is_copy_constructible_v<cuota::batch> &&
              std::is_nothrow_move_constructible_v<cuota::batch>);
static_assert(!std::is_copy_constructible_v<cuota::batch_loader> &&
              !std::is_copy_constructible_v<cuota::epoch_range>);
static_assert(!std::is_copy_assignable_v<cuota::batch> && std::is_nothrow_move_assignable_v<cuota::batch>);

TEST_CASE("batch_loader copies every sample to the device, in order, with a partial last batch",
          "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{23}, {.batch_size = 5}};
    std::uint32_t expected = 0;
    std::uint64_t batches = 0;
    for (cuota::batch b : loader.epoch(0)) {
        CHECK(b.index() == batches++);
        CHECK(b.size() == (b.index() == 4 ? 3 : 5));
        for (std::uint32_t const value : seen_by(s, b)) CHECK(value == expected++);
    }
    CHECK(batches == 5);
    CHECK(expected == 23);
}

TEST_CASE("batch_loader drops the last batch if last_batch is drop", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{23},
                               {.batch_size = 5, .last_batch = cuota::last_batch_policy::drop}};
    CHECK(order_of(loader, 0) == counted(20));
}

TEST_CASE("batch_loader of an empty dataset has no batches", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{0}, {.batch_size = 5}};
    CHECK(order_of(loader, 0).empty());
    CHECK(order_of(loader, 1).empty());
}

TEST_CASE("a batch has a view of each field", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{8}, {.batch_size = 8}};
    auto epoch = loader.epoch(0);
    std::optional<cuota::batch> const b = epoch.next();
    REQUIRE(b);
    CHECK(b->view<std::uint32_t>(s, 0).size() == 40);
    CHECK(b->view<std::uint64_t>(s, 1).size() == 8);
    CHECK(b->view<std::byte>(s, 1).size() == 64);
    CHECK(reinterpret_cast<std::uintptr_t>(b->view<std::uint64_t>(s, 1).data()) % cuota::default_alignment ==
          0);
    CHECK(!epoch.next());
    CHECK(!epoch.next());
}

TEST_CASE("batch_loader's order depends only on the seed and the epoch, not on the workers",
          "[data][batch_loader]") {
    machine const on;
    auto const order = [](std::size_t workers, std::optional<std::uint64_t> seed, std::uint64_t epoch) {
        cuota::batch_loader loader{numbered_source{101}, {.batch_size = 7, .seed = seed, .workers = workers}};
        return order_of(loader, epoch);
    };
    auto const reference = order(1, 42, 3);
    CHECK(sorted(reference) == counted(101));
    CHECK(reference != counted(101));
    for (std::size_t const workers : {1, 2, 3, 5}) CHECK(order(workers, 42, 3) == reference);
    CHECK(order(1, 42, 4) != reference);
    CHECK(order(1, 43, 3) != reference);
    CHECK(order(3, std::nullopt, 9) == counted(101));
}

TEST_CASE("batch_loader repeats an epoch in the same order", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{50}, {.batch_size = 8, .seed = 1, .workers = 2}};
    auto const first = order_of(loader, 5);
    CHECK(order_of(loader, 6) != first);
    CHECK(order_of(loader, 5) == first);
}

TEST_CASE("samples() returns the numbers of the samples that are on the device", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{64}, {.batch_size = 6, .seed = 9, .workers = 3}};
    for (cuota::batch b : loader.epoch(2)) {
        auto const values = seen_by(s, b);
        CHECK(std::vector<std::uint64_t>(values.begin(), values.end()) ==
              std::vector<std::uint64_t>(b.samples().begin(), b.samples().end()));
    }
}

// ---- memory ----

TEST_CASE("batch_loader does not allocate and does not synchronize with the device while it loads",
          "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{400}, {.batch_size = 8, .seed = 1, .workers = 2}};
    auto const run = [&](std::uint64_t epoch) {
        for (cuota::batch b : loader.epoch(epoch)) (void)b.view<std::uint32_t>(s);
    };
    auto const allocations = sim::allocation_calls();
    auto const events = sim::calls("cudaEventCreateWithFlags");
    for (std::uint64_t epoch = 0; epoch != 10; ++epoch) run(epoch);
    CHECK(sim::allocation_calls() == allocations);
    // At most one event per slot on each side, created at its first use.
    CHECK(sim::calls("cudaEventCreateWithFlags") - events <=
          loader.plan().device_slots + loader.plan().host_slots);
    CHECK(sim::calls("cudaDeviceSynchronize") == 0);
    CHECK(sim::calls("cudaStreamSynchronize") == 0);
    CHECK(sim::calls("cudaFree") == 0);
}

// ---- views ----

#if CUOTA_CHECKED
TEST_CASE("a batch's view names the call site where it was requested", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{4}, {.batch_size = 4}};
    auto epoch = loader.epoch(0);
    auto const b = epoch.next();
    auto const view = b->view<std::uint32_t>(s, 0, {"src/train.cpp", 33});

    CHECK(has(message_of<cuota::usage_error>([&] { (void)view.span()[20]; }),
              "index 20 is outside a device_span of 20 elements: batch, leased at train.cpp:33"));
}
#endif

TEST_CASE("a batch makes a stream wait for its copy only once", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{4}, {.batch_size = 4}};
    auto epoch = loader.epoch(0);
    auto const b = epoch.next();
    auto const waits = sim::calls("cudaStreamWaitEvent");
    (void)b->view<std::uint32_t>(s);
    auto const after_first = sim::calls("cudaStreamWaitEvent");
    (void)b->view<std::uint32_t>(s);
    b->used_on(s);
    CHECK(after_first - waits <= 1);  // none if the copy is known to have finished
    CHECK(sim::calls("cudaStreamWaitEvent") == after_first);
}

// ---- misuse ----

TEST_CASE("batch refuses invalid views", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{numbered_source{4}, {.batch_size = 4}};
    auto epoch = loader.epoch(0);
    std::optional<cuota::batch> b = epoch.next();

    CHECK(has(message_of<cuota::usage_error>([&] { (void)b->view<float>(s); }),
              "cannot view field numbers u32[5] of a batch as f32"));
    CHECK(has(message_of<cuota::usage_error>([&] { (void)b->view<std::byte>(s, 2); }),
              "field index 2 is out of range: a batch has 2"));
    CHECK_THROWS_AS(b->view<std::uint32_t>(cudaStreamLegacy), cuota::usage_error);
    CHECK_THROWS_AS(b->view<std::uint32_t>(cudaStream_t{}), cuota::usage_error);
    cuota::batch const moved = std::move(*b);
    CHECK_THROWS_AS(b->view<std::uint32_t>(s), cuota::usage_error);
    CHECK_THROWS_AS(b->size(), cuota::usage_error);
    CHECK(moved.size() == 4);
}

TEST_CASE("batch_loader refuses the next batch if the caller holds every slot", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{10}, {.batch_size = 2, .device_slots = 2}};
    auto epoch = loader.epoch(0);
    std::optional<cuota::batch> first = epoch.next();
    std::optional<cuota::batch> second = epoch.next();
    CHECK(has(message_of<cuota::usage_error>([&] { (void)epoch.next(); }), "device_slots"));
    first.reset();  // out of order: any slot may be reused
    std::optional<cuota::batch> third = epoch.next();
    REQUIRE(third);
    CHECK(third->index() == 2);
    CHECK(second->samples()[0] == 2);
    CHECK(third->samples()[0] == 4);
}

TEST_CASE("an epoch_range that was moved from refuses use", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{10}, {.batch_size = 2}};
    auto epoch = loader.epoch(0);
    auto moved = std::move(epoch);
    CHECK_THROWS_AS(epoch.next(), cuota::usage_error);
    CHECK(moved.next()->index() == 0);
}

TEST_CASE("an epoch delivers each batch once, however many iterators it has", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{10}, {.batch_size = 2}};
    auto epoch = loader.epoch(0);
    auto first = epoch.begin();
    auto second = epoch.begin();  // which goes on, and drops what nobody took
    {
        cuota::batch const taken = *second;
        CHECK(taken.index() == 1);
        cuota::batch const nothing = *first;
        CHECK_THROWS_AS(nothing.size(), cuota::usage_error);
    }
    ++first;
    CHECK((*second).index() == 2);
}

TEST_CASE("a dataset that starts an epoch of its own loader is refused in place of its batch",
          "[data][batch_loader]") {
    machine const on;
    std::atomic<cuota::batch_loader*> self = nullptr;
    numbered_source from{20};
    from.before_each([&](auto) {
        if (auto* const loader = self.load()) (void)loader->epoch(5);
    });
    cuota::batch_loader loader{from, {.batch_size = 4, .workers = 2}};
    self = &loader;
    CHECK(support::has(support::thrown<cuota::usage_error>([&] {
                           for (cuota::batch const b : loader.epoch(0)) (void)b.size();
                       }).what(),
                       "an epoch is already running"));
    self = nullptr;
    CHECK(order_of(loader, 1).size() == 20);
}

// ---- ends of all kinds ----

TEST_CASE("a loader destroyed in its own loop ends the epoch with usage_error, and the batch stays valid",
          "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    std::optional<cuota::batch_loader> loader{std::in_place, numbered_source{40},
                                              cuota::loader_options{.batch_size = 4}};
    std::size_t batches = 0;
    CHECK_THROWS_AS(
        [&] {
            for (cuota::batch const b : loader->epoch(0)) {
                if (++batches == 2) loader.reset();
                std::vector<std::uint32_t> const seen = seen_by(s, b);
                CHECK(std::equal(seen.begin(), seen.end(), b.samples().begin(), b.samples().end()));
            }
        }(),
        cuota::usage_error);
    CHECK(batches >= 2);
    CHECK(batches < 10);
}

TEST_CASE("batch_loader can be destroyed while a worker reads", "[data][batch_loader]") {
    machine const on;
    std::latch reading{1};
    std::atomic<bool> go_on = false;
    numbered_source from{20};
    from.before_each([&](auto) {
        reading.count_down();
        go_on.wait(false);
    });
    std::thread releaser;
    {
        cuota::batch_loader loader{from, {.batch_size = 20}};
        auto const epoch = loader.epoch(0);
        reading.wait();
        releaser = std::thread{[&] {
            go_on = true;
            go_on.notify_all();
        }};
    }
    releaser.join();
}

TEST_CASE("wait_for waits for the next batch no longer than the given time", "[data][batch_loader]") {
    using namespace std::chrono_literals;
    machine const on;
    std::atomic<bool> go_on = false;
    std::atomic<bool> fails = false;
    numbered_source from{12};
    from.before_each([&](std::span<std::uint64_t const> samples) {
        if (samples[0] == 4) go_on.wait(false);
        if (fails && samples[0] == 8) throw cuota::data_error{"numbers", 8, "bad"};
    });
    cuota::batch_loader loader{from, {.batch_size = 4}};
    {
        auto epoch = loader.epoch(0);
        CHECK(epoch.wait_for(1h));
        CHECK(epoch.next());
        CHECK_FALSE(epoch.wait_for(5ms));
        CHECK_FALSE(epoch.wait_for(0ms));
        CHECK_FALSE(epoch.wait_for(-1h));
        go_on = true;
        go_on.notify_all();
        CHECK(epoch.wait_for(1h));
        CHECK(epoch.wait_for(0ms));
        CHECK(epoch.next()->index() == 1);
        CHECK(epoch.wait_for(1h));
        CHECK(epoch.next());
        CHECK(epoch.wait_for(0ms));  // the epoch has finished
        CHECK_FALSE(epoch.next());
        auto const moved = std::move(epoch);
        CHECK_THROWS_AS((void)epoch.wait_for(0ms), cuota::usage_error);
    }
    fails = true;
    auto epoch = loader.epoch(1);
    (void)epoch.next();
    (void)epoch.next();
    CHECK(epoch.wait_for(1h));
    CHECK_THROWS_AS(epoch.next(), cuota::data_error);
    CHECK(epoch.wait_for(0ms));
}

TEST_CASE("wait_for does not wait if all slots of the epoch are held", "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{12}, {.batch_size = 4, .device_slots = 1}};
    auto epoch = loader.epoch(0);
    auto const first = epoch.next();
    CHECK(epoch.wait_for(std::chrono::nanoseconds::max()));
    CHECK_THROWS_AS(epoch.next(), cuota::usage_error);
}

TEST_CASE("batch_loader throws the failure of a copy, and the next epoch is complete",
          "[data][batch_loader]") {
    machine const on;
    cuota::batch_loader loader{numbered_source{20}, {.batch_size = 4}};
    char const* const call = GENERATE("cudaMemcpyAsync", "cudaEventRecord", "cudaEventSynchronize");
    std::uint64_t const nth = GENERATE(1, 3);
    sim::fail_call(call, nth);
    bool failed = false;
    try {
        (void)order_of(loader, 0);
    } catch (cuota::cuda_error const& error) {
        failed = true;
        CHECK(error.call() == call);
    }
    // Five batches go through three slots, so workers wait for at least two events.
    if (nth == 1) CHECK(failed);
    sim::clear_faults();
    CHECK(order_of(loader, 1) == counted(20));
}

TEST_CASE("when any CUDA call fails, batch_loader leaks nothing", "[data][batch_loader]") {
    machine on;
    cuota::budget const device{"device", cuota::unlimited};
    cuota::budget const pinned{"pinned", cuota::unlimited};
    support::survives_every_failure(on, [&] {
        cuota::stream const s;
        cuota::batch_loader loader{numbered_source{30},
                                   {.batch_size = 4, .device_budget = device, .pinned_budget = pinned}};
        for (cuota::batch b : loader.epoch(0)) (void)b.view<std::uint32_t>(s);
    });
    CHECK(device.held() == 0);
    CHECK(pinned.held() == 0);
}

TEST_CASE("batch_loader leaks nothing when the device is lost or calls fail at random",
          "[data][batch_loader]") {
    for (unsigned round = 0; round != 60; ++round) {
        machine on;
        cuota::budget const device{"device", cuota::unlimited};
        cuota::budget const pinned{"pinned", cuota::unlimited};
        bool const by_chance = round % 2 == 0;
        unsigned const lost_at = round / 2 % 15;
        if (by_chance)
            for (char const* const name :
                 {"cudaMalloc", "cudaHostAlloc", "cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent",
                  "cudaEventCreateWithFlags"})
                sim::fail_randomly(name, 0.03, round);
        try {
            cuota::stream const s;
            cuota::batch_loader loader{numbered_source{60},
                                       {.batch_size = 4, .device_budget = device, .pinned_budget = pinned}};
            unsigned seen = 0;
            for (cuota::batch b : loader.epoch(0)) {
                (void)b.view<std::uint32_t>(s);
                if (!by_chance && seen++ == lost_at) sim::lose_device(0);
            }
            CHECK((by_chance || lost_at == 14));  // the last batch needs no further call
        } catch (cuota::cuda_error const&) {
        } catch (cuota::out_of_memory const&) {}
        sim::clear_faults();
        sim::reset();
        (void)on.errors.take();
        CHECK(device.held() == 0);
        CHECK(pinned.held() == 0);
        CHECK(sim::live().total() == 0);
    }
}

TEST_CASE("batch_loader can be destroyed at any point of an epoch", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    std::uint64_t random = 1;
    auto const below = [&](std::uint64_t n) { return (random = cuota::detail::mixed(random + 1)) % n; };
    for (int round = 0; round != 150; ++round) {
        std::uint64_t const throw_at = below(80);
        std::uint64_t const leave_at = below(12);
        bool const consumer_throws = below(4) == 0;
        numbered_source from{40};
        from.before_each([=](std::span<std::uint64_t const> samples) {
            if (std::ranges::find(samples, throw_at) != samples.end()) throw std::runtime_error{"a worker's"};
        });
        std::vector<cuota::batch> kept;
        try {
            cuota::batch_loader loader{from,
                                       {.batch_size = 4,
                                        .seed = below(9),
                                        .workers = 1 + below(3),
                                        .device_slots = 2 + below(2),
                                        .host_slots = 1 + below(4)}};
            for (cuota::batch b : loader.epoch(below(3))) {
                (void)b.view<std::uint32_t>(s);
                if (b.index() == leave_at) {
                    if (consumer_throws) throw std::runtime_error{"the consumer's"};
                    kept.push_back(std::move(b));
                    break;
                }
            }
        } catch (std::runtime_error const&) {}
    }
}

// ---- a batch of any size that fits ----

TEST_CASE("batch_loader chooses the largest batch that fits and reports it", "[data][batch_loader]") {
    machine const on;
    cuota::budget const device{"device", 20'000};
    cuota::batch_loader loader{numbered_source{1000},
                               {.batch_size = cuota::automatic_batch, .device_budget = device}};
    std::size_t const chosen = loader.plan().batch_size;
    CHECK(device.held() == loader.plan().device_bytes);
    CHECK(order_of(loader, 0) == counted(1000));
    CHECK_THROWS_AS(
        (cuota::batch_loader{numbered_source{1000},
                             {.batch_size = chosen + 1, .device_budget = cuota::budget{"as large", 20'000}}}),
        cuota::budget_exceeded);
    CHECK(has(message_of<cuota::budget_exceeded>([] {
                  cuota::batch_loader{
                      numbered_source{10},
                      {.batch_size = cuota::automatic_batch, .device_budget = cuota::budget{"small", 64}}};
              }),
              "small"));
}

TEST_CASE("batch_loader delivers floats that were converted to halves", "[data][batch_loader]") {
    machine const on;
    cuota::stream const s;
    cuota::converted_dataset const from{
        cuota::memory_dataset{"x", std::vector<float>{0.5f, 1.5f, -2.0f, 65504.0f}},
        {{"x", cuota::element_type::f16}}};
    cuota::batch_loader loader{from, {.batch_size = 4}};
    CHECK(loader.plan().host_slot.sample_bytes == 2);
    auto epoch = loader.epoch(0);
    auto const b = epoch.next();
    cuota::device_buffer<float> seen{4, s, cuota::device_memory{}};
    cuota::for_each_index(s, 4, widen{b->view<cuota::half>(s), seen.write(s)});
    CHECK(seen.to_vector(s) == std::vector<float>{0.5f, 1.5f, -2.0f, 65504.0f});
}

TEST_CASE("a batch can be viewed on another device's stream only if that device can access its memory",
          "[data][batch_loader][peers]") {
    machine const on{{.devices = 2}};
    std::optional<cuota::stream> far;
    {
        cuota::device_scope const there{cuota::device{1}};
        far.emplace();
    }
    cuota::batch_loader loader{numbered_source{8}, {.batch_size = 4}};
    auto epoch = loader.epoch(0);
    cuota::batch const b = *epoch.next();
    std::string const why = message_of<cuota::usage_error>([&] { (void)b.view<std::uint32_t>(*far); });
    CHECK(has(why, "a batch in memory of device 0"));
    CHECK(has(why, "stream of device 1"));

    cuota::rt::allow_reach(cuota::device{1}, cuota::device{0});
    CHECK_NOTHROW(b.view<std::uint32_t>(*far));
}
