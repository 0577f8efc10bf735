// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Ownership of a loader's memory between its epochs.
#include <cuota/data/detail/loader/loader_memory.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budget_alert.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/registered_memory.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/rounds.hpp"
#include "support/seen_by.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using cuota::batch_loader;
using cuota::budget;
using cuota::loader_options;
using support::machine;
using support::numbered_source;
using support::thrown;

namespace {

// 30 samples in batches of 4; a slot has 512 bytes.
constexpr std::size_t device_bytes = 2 * 512;
constexpr std::size_t pinned_bytes = 3 * 512;
constexpr std::uint64_t samples = 30;

loader_options options_of(std::optional<budget> device, std::optional<budget> pinned,
                          std::optional<int> priority = 0) {
    return {.batch_size = 4,
            .device_budget = std::move(device),
            .pinned_budget = std::move(pinned),
            .reclaim_priority = priority};
}

// Returns the values that a stream reads in an epoch.
std::vector<std::uint32_t> read_epoch(batch_loader& loader, std::uint64_t epoch = 0) {
    cuota::stream const s;
    std::vector<std::uint32_t> all;
    for (cuota::batch b : loader.epoch(epoch)) {
        auto const some = support::seen_by(s, b);
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

std::vector<std::uint32_t> counted(std::uint32_t n) {
    std::vector<std::uint32_t> v(n);
    for (std::uint32_t i = 0; i != n; ++i) v[i] = i;
    return v;
}

// Charges bytes for a scope, which makes other holders release memory.
class pressure {
public:
    pressure(budget b, std::size_t bytes) : budget_{std::move(b)}, bytes_{bytes} { budget_.charge(bytes); }
    pressure(pressure const&) = delete;
    pressure& operator=(pressure const&) = delete;
    ~pressure() { budget_.refund(bytes_); }

private:
    budget budget_;
    std::size_t bytes_;
};

std::vector<cuota::allocation_group> holders_of(budget const& b) {
    budget charged = b;
    return thrown<cuota::budget_exceeded>([&] { charged.charge(b.limit() + 1); }).info().holders;
}

}  // namespace

TEST_CASE("two loaders alternate with memory for one of them", "[data][loader_memory]") {
    machine const on;
    budget const device{"device", device_bytes};
    budget const pinned{"pinned", pinned_bytes};
    batch_loader training{numbered_source{samples}, options_of(device, pinned)};
    batch_loader validation{numbered_source{samples}, options_of(device, pinned)};
    for (std::uint64_t epoch = 0; epoch != 3; ++epoch) {
        CHECK(read_epoch(training, epoch) == counted(samples));
        CHECK(read_epoch(validation, epoch) == counted(samples));
    }
    CHECK(device.held() == device_bytes);
    CHECK(device.peak() == device_bytes);
    CHECK(pinned.peak() == pinned_bytes);
    CHECK(sim::peak_pinned_bytes() == pinned_bytes);
}

TEST_CASE("a loader without a reclaim priority keeps its memory", "[data][loader_memory]") {
    machine const on;
    budget device{"device", device_bytes};
    budget const pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned, std::nullopt)};
    auto const refused = thrown<cuota::budget_exceeded>([&] { device.charge(1); });
    CHECK(refused.info().reclaimable == 0);
    REQUIRE(refused.info().holders.size() == 1);
    CHECK(refused.info().holders[0].name == cuota::tag{"loader slots"});
    CHECK(!refused.info().holders[0].is_cached);
    CHECK(device.held() == device_bytes);
    CHECK(read_epoch(loader) == counted(samples));
}

TEST_CASE("a pool reclaims the slots of an idle loader", "[data][loader_memory]") {
    machine const on;
    budget const device{"device", 4096};
    batch_loader loader{numbered_source{samples}, options_of(device, std::nullopt)};
    cuota::stream const s;
    {
        cuota::scoped_pool pool{device};
        void* const all = pool.allocate(s, 4096);
        CHECK(device.held() == 4096);
        CHECK(sim::live().pinned_bytes == pinned_bytes);  // charged to no budget, so not needed
        pool.deallocate(s, all, 4096);
        CHECK(read_epoch(loader) == counted(samples));  // the loader gets the pool's free memory
        CHECK(pool.stats().reserved == 0);
    }
    CHECK(device.held() == device_bytes);
}

TEST_CASE("a loader's pinned slots are allocated from host_memory and charged by its granularity",
          "[data][loader_memory]") {
    machine const on;
    cuota::stream const s;
    cuota::budget const pinned{"pinned", 1 << 20};
    cuota::loader_options const how{
        .batch_size = 4, .pinned_budget = pinned, .host_memory = cuota::registered_memory{}};
    std::size_t const page = cuota::registered_memory::granularity();
    {
        cuota::batch_loader loader{numbered_source{22}, how};
        CHECK(loader.plan().pinned_bytes == page);  // 3 slots of 512
        CHECK(pinned.held() == page);
        CHECK(sim::calls("cudaHostAlloc") == 0);
        CHECK(sim::calls("cudaHostRegister") == 1);
        std::uint32_t expected = 0;
        for (cuota::batch b : loader.epoch(0))
            for (std::uint32_t const value : support::seen_by(s, b)) CHECK(value == expected++);
        CHECK(expected == 22);
    }
    CHECK(pinned.held() == 0);
    CHECK(sim::calls("cudaHostUnregister") == 1);
    CHECK_THROWS_AS(
        (cuota::batch_loader{numbered_source{22}, {.batch_size = 4, .host_memory = cuota::device_memory{}}}),
        cuota::usage_error);
}

TEST_CASE("a loader releases only the memory that is charged to the budget that is short",
          "[data][loader_memory]") {
    machine const on;
    budget const device{"device", device_bytes};
    budget const pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
    bool const is_device = GENERATE(true, false);
    {
        pressure const some{is_device ? device : pinned, 1};
        CHECK(device.held() == (is_device ? 1 : device_bytes));
        CHECK(pinned.held() == (is_device ? pinned_bytes : 1));
        CHECK(sim::live().device_bytes == (is_device ? 0 : device_bytes));
        CHECK(sim::live().pinned_bytes == (is_device ? pinned_bytes : 0));
    }
    CHECK(read_epoch(loader) == counted(samples));
    CHECK(device.held() == device_bytes);
    CHECK(pinned.held() == pinned_bytes);
}

TEST_CASE("a loader with one budget for both parts releases the part that suffices",
          "[data][loader_memory]") {
    machine const on;
    budget const all{"all", device_bytes + pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(all, all)};
    {
        pressure const little{all, device_bytes};
        CHECK(all.held() == device_bytes + pinned_bytes);
        CHECK(sim::live().device_bytes == 0);
        CHECK(sim::live().pinned_bytes == pinned_bytes);
    }
    CHECK(read_epoch(loader) == counted(samples));
    {
        pressure const more{all, device_bytes + 1};
        CHECK(sim::live().device_bytes == device_bytes);
        CHECK(sim::live().pinned_bytes == 0);
    }
    CHECK(read_epoch(loader) == counted(samples));
    {
        pressure const most{all, device_bytes + pinned_bytes};
        CHECK(sim::live().device_bytes + sim::live().pinned_bytes == 0);
    }
    CHECK(read_epoch(loader) == counted(samples));
}

TEST_CASE("a loader under a reservation releases nothing for requests outside of it",
          "[data][loader_memory]") {
    machine const on;
    budget device{"device", 4096};
    cuota::reservation const mine = device.reserve(device_bytes);
    batch_loader loader{numbered_source{samples}, options_of(mine.as_budget(), std::nullopt)};
    CHECK_THROWS_AS(device.charge(4096 - device_bytes + 1), cuota::budget_exceeded);
    CHECK(mine.as_budget().held() == device_bytes);
    { pressure const inside{mine.as_budget(), 1}; }
    CHECK(mine.as_budget().held() == 0);
    CHECK(read_epoch(loader) == counted(samples));
}

TEST_CASE("the loader with the highest priority releases its memory first", "[data][loader_memory]") {
    machine const on;
    budget const device{"device", 2 * device_bytes};
    batch_loader precious{numbered_source{samples}, options_of(device, std::nullopt, -1)};
    loader_options o = options_of(device, std::nullopt, 3);
    o.name = "cheap slots";
    batch_loader cheap{numbered_source{samples}, o};
    pressure const some{device, 1};
    auto const holders = holders_of(device);
    REQUIRE(holders.size() == 2);
    CHECK(holders[0].name == cuota::tag::named("idle loader slots"));
}

// ---- slots in use ----

TEST_CASE("a loader releases nothing during an epoch", "[data][loader_memory]") {
    machine const on;
    budget device{"device", device_bytes};
    budget pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
    cuota::stream const s;
    std::vector<std::uint32_t> seen;
    for (cuota::batch b : loader.epoch(0)) {
        for (budget* const short_one : {&device, &pinned}) {
            auto const refused = thrown<cuota::budget_exceeded>([&] { short_one->charge(1); });
            CHECK(refused.info().reclaimable == 0);
            CHECK(refused.info().reclaimed == 0);
            CHECK(refused.info().reclaimers->empty());
        }
        auto const some = support::seen_by(s, b);
        seen.insert(seen.end(), some.begin(), some.end());
    }
    CHECK(seen == counted(samples));
    device.charge(1);
    device.refund(1);
}

TEST_CASE("a loader keeps its slots while one of its batches is alive", "[data][loader_memory]") {
    machine const on;
    budget device{"device", device_bytes};
    budget pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
    cuota::stream const s;
    std::optional<cuota::batch> kept;
    for (cuota::batch b : loader.epoch(0)) {
        kept.emplace(std::move(b));
        break;
    }
    CHECK_THROWS_AS(device.charge(1), cuota::budget_exceeded);
    CHECK(support::seen_by(s, *kept) == std::vector<std::uint32_t>{0, 1, 2, 3});
    auto epoch = loader.epoch(1);  // while the batch is alive
    CHECK(epoch.next());
    kept.reset();
    CHECK_THROWS_AS(device.charge(1), cuota::budget_exceeded);
}

TEST_CASE("while a worker reads, its loader keeps the pinned slots but releases the device slots",
          "[data][loader_memory]") {
    machine const on;
    budget const device{"device", device_bytes};
    budget pinned{"pinned", pinned_bytes};
    std::latch reading{1};
    std::latch go_on{1};
    numbered_source from{4};
    from.before_each([&](auto) {
        reading.count_down();
        go_on.wait();
    });
    batch_loader loader{from, options_of(device, pinned)};
    {
        auto const left = loader.epoch(0);
        reading.wait();
    }
    auto const refused = thrown<cuota::budget_exceeded>([&] { pinned.charge(1); });
    CHECK(refused.info().reclaimable == 0);
    { pressure const some{device, 1}; }
    CHECK(sim::live().device_bytes == 0);
    go_on.count_down();
    for (bool has_given = false; !has_given;) try {
            pressure const some{pinned, 1};
            has_given = true;
        } catch (cuota::budget_exceeded const&) { std::this_thread::yield(); }
    CHECK(sim::live().pinned_bytes == 0);
    CHECK(read_epoch(loader) == counted(4));
}

TEST_CASE("a loader can release its memory as soon as an epoch has ended, whatever its workers do",
          "[data][loader_memory][threads]") {
    machine const on;
    std::size_t const workers = GENERATE(std::size_t{1}, std::size_t{3});
    loader_options o = options_of(std::nullopt, std::nullopt);
    o.workers = workers;
    o.host_slots = 2;
    budget const all{"all", cuota::plan_loader(numbered_source{samples}, o).pinned_bytes + device_bytes};
    o.device_budget = o.pinned_budget = all;
    batch_loader loader{numbered_source{samples}, o};
    for (int round = 0; round != 100; ++round) {
        REQUIRE(read_epoch(loader) == counted(samples));
        REQUIRE_NOTHROW(pressure{all, all.limit()});
    }
}

TEST_CASE("a loader waits for work on its slots before it releases them", "[data][loader_memory]") {
    machine const on;
    budget const device{"device", device_bytes};
    batch_loader loader{numbered_source{4}, options_of(device, std::nullopt)};
    cuota::stream const s;
    cuota::device_buffer<std::uint32_t> out{20, s, cuota::device_memory{}};
    s.synchronize();
    std::atomic<bool> has_charged = false;
    std::thread other;
    {
        sim::hold const nothing_runs_yet;
        for (cuota::batch b : loader.epoch(0)) {
            cuota::for_each_index(s, 20, support::copy_numbers{b.view<std::uint32_t>(s), out.write(s)});
            break;
        }
        other = std::thread{[&] {
            pressure const some{device, 1};
            has_charged = true;
        }};
        for (int i = 0; i != 1000; ++i) std::this_thread::yield();
        CHECK(!has_charged);
    }
    other.join();
    CHECK(has_charged);
    CHECK(out.to_vector(s) ==
          std::vector<std::uint32_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3});
}

TEST_CASE("slots are kept if the wait for their work fails, and the failure is reported",
          "[data][loader_memory]") {
    machine on;
    budget device{"device", device_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, std::nullopt)};
    CHECK(read_epoch(loader) == counted(samples));
    sim::fail_call("cudaEventSynchronize", 1);
    auto const refused = thrown<cuota::budget_exceeded>([&] { device.charge(1); });
    CHECK(refused.info().reclaimed == 0);
    CHECK(refused.info().reclaimable == device_bytes);
    CHECK(device.held() == device_bytes);
    CHECK(on.errors.take().size() == 1);
    { pressure const again{device, 1}; }
    CHECK(device.held() == 0);
}

// ---- refusals ----

TEST_CASE("the bytes of a loader are one holder, whose name differs in use and idle",
          "[data][loader_memory]") {
    machine const on;
    budget const all{"all", 10'000};
    auto const line = cuota::source_location::current().line;
    batch_loader loader{numbered_source{samples}, options_of(all, all)};
    auto const idle = holders_of(all);
    REQUIRE(idle.size() == 1);
    CHECK(idle[0].name == cuota::tag{"idle loader slots"});
    CHECK(idle[0].where.line == line + 1);
    CHECK(idle[0].bytes == device_bytes + pinned_bytes);
    CHECK(idle[0].is_cached);

    auto const epoch = loader.epoch(0);
    auto const used = holders_of(all);
    REQUIRE(used.size() == 1);
    CHECK(used[0].name == cuota::tag{"loader slots"});
    CHECK(used[0].where.line == line + 1);
    CHECK(used[0].bytes == device_bytes + pinned_bytes);
    CHECK(!used[0].is_cached);
}

TEST_CASE("a refusal counts the bytes that an idle loader could release", "[data][loader_memory]") {
    machine const on;
    budget device{"device", 4096};
    batch_loader loader{numbered_source{samples}, options_of(device, std::nullopt)};
    pressure const used{device, 2048};
    auto const refused = thrown<cuota::budget_exceeded>([&] { device.charge(2049); });
    CHECK(refused.info().reclaimable == device_bytes);
    CHECK(refused.info().max_fit == 2048);
    CHECK(device.held() == 2048 + device_bytes);
    { pressure const fits{device, 2048}; }
    CHECK(device.held() == 2048);
}

TEST_CASE("the batch size that a refusal suggests fits after idle loaders have released memory",
          "[data][loader_memory]") {
    machine const on;
    bool const is_one = GENERATE(true, false);
    budget const device{"device", 20'000};
    budget const pinned{"pinned", 20'000};
    loader_options o = options_of(device, is_one ? device : pinned);
    batch_loader other{numbered_source{samples}, o};
    o.batch_size = 500;
    std::size_t const fits = thrown<cuota::budget_exceeded>([&] {
                                 batch_loader{numbered_source{1000}, o};
                             })
                                 .info()
                                 .max_fit_count();
    CHECK(device.held() == (is_one ? device_bytes + pinned_bytes : device_bytes));
    REQUIRE(fits > 0);
    o.batch_size = fits + 1;
    CHECK_THROWS_AS((batch_loader{numbered_source{1000}, o}), cuota::budget_exceeded);
    o.batch_size = fits;
    CHECK_NOTHROW(batch_loader{numbered_source{1000}, o});
}

// ---- allocating again ----

TEST_CASE("an epoch is refused while others hold its memory, and can be requested again",
          "[data][loader_memory]") {
    machine const on;
    bool const is_device = GENERATE(true, false);
    budget device{"device", device_bytes};
    budget pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
    auto const before = read_epoch(loader);
    {
        budget const& short_one = is_device ? device : pinned;
        pressure const some{short_one, 200};
        for (int again = 0; again != 2; ++again) {
            auto const line = cuota::source_location::current().line;
            auto const refused = thrown<cuota::budget_exceeded>([&] { (void)loader.epoch(1); });
            cuota::refusal const& facts = refused.info();
            CHECK(facts.requested == (is_device ? device_bytes : pinned_bytes));
            CHECK(facts.budgets[0].name == (is_device ? "device" : "pinned"));
            CHECK(facts.request.name == cuota::tag{"loader slots"});
            CHECK(facts.request.where.line == line + 1);
            // A batch of 4 needs only padding, so no smaller batch would fit.
            CHECK(std::string{facts.request.unit} == "samples in a batch");
            CHECK(facts.max_fit_count() == 0);
            CHECK(short_one.held() == 200);
        }
        CHECK(device.held() == (is_device ? 200 : device_bytes));
        CHECK(pinned.held() == (is_device ? pinned_bytes : 200));
    }
    CHECK(read_epoch(loader) == before);
    { pressure const it_can_give_again{device, 1}; }
    CHECK(read_epoch(loader) == before);
}

TEST_CASE("a refused epoch reports the largest batch that would fit", "[data][loader_memory]") {
    machine const on;
    budget const device{"device", 50'000};
    loader_options o = options_of(device, std::nullopt);
    o.batch_size = 500;
    batch_loader loader{numbered_source{1000}, o};
    pressure const some{device, 30'000};
    std::size_t const fits =
        thrown<cuota::budget_exceeded>([&] { (void)loader.epoch(0); }).info().max_fit_count();
    o.batch_size = fits;
    CHECK_NOTHROW(batch_loader{numbered_source{1000}, o});
    o.batch_size = fits + 1;
    CHECK_THROWS_AS((batch_loader{numbered_source{1000}, o}), cuota::budget_exceeded);
}

TEST_CASE("a refused epoch leaves the held bytes unchanged, also after it had allocated a part",
          "[data][loader_memory]") {
    machine const on;
    budget device{"device", device_bytes};
    budget pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
    { pressure const all{pinned, 1}; }
    {
        pressure const all{device, 1};
        CHECK_THROWS_AS(loader.epoch(0), cuota::budget_exceeded);
        CHECK(pinned.held() == 0);
        CHECK(sim::live().pinned_bytes == 0);
        CHECK(sim::live().device_bytes == 0);
    }
    CHECK(read_epoch(loader) == counted(samples));
}

TEST_CASE("a loader that reallocates its slots does not reclaim memory from itself",
          "[data][loader_memory]") {
    machine const on;
    budget all{"all", device_bytes + pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(all, all)};
    pressure const some{all, device_bytes + 1};  // reclaims the ring's memory
    auto const refused = thrown<cuota::budget_exceeded>([&] { (void)loader.epoch(0); });
    CHECK(refused.info().reclaimable == 0);
    CHECK(refused.info().holders[0].name == cuota::tag{"charged without a tag"});
    CHECK(refused.info().holders[1].name == cuota::tag{"loader slots"});
    CHECK(sim::live().device_bytes == device_bytes);
}

TEST_CASE("an epoch is refused if the device cannot allocate its slots, and can be requested again",
          "[data][loader_memory]") {
    machine const on;
    budget device{"device", device_bytes};
    budget pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
    { pressure const one{device, 1}; }
    { pressure const two{pinned, 1}; }
    char const* const call = GENERATE("cudaMalloc", "cudaHostAlloc");
    sim::fail_call(call, 1, cudaErrorMemoryAllocation);
    CHECK_THROWS_AS(loader.epoch(0), cuota::out_of_memory);
    CHECK(device.held() + pinned.held() == 0);
    CHECK(read_epoch(loader) == counted(samples));
}

TEST_CASE("a loader reallocates its slots on its own device, whichever device is current",
          "[data][loader_memory]") {
    machine const on{{.devices = 2}};
    budget const device{"device", device_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, std::nullopt)};
    std::size_t const free_before = cuota::device{0}.memory().free;
    {
        cuota::device_scope const there{cuota::device{1}};
        { pressure const some{device, 1}; }
        CHECK(cuota::device{0}.memory().free > free_before);
        auto epoch = loader.epoch(0);
        CHECK(epoch.next());
        CHECK(cuota::device::current() == cuota::device{1});
        CHECK(cuota::device{0}.memory().free == free_before);
    }
}

TEST_CASE("a budget alert may start an epoch after a loader has released its memory",
          "[data][loader_memory]") {
    machine const on;
    budget device{"device", device_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, std::nullopt)};
    int fell = 0;
    {
        cuota::budget_alert const alarm{device,
                                        {0.9},
                                        0.1,
                                        [&](cuota::alert_event const& event) {
                                            if (event.rising || fell++ != 0) return;
                                            auto const epoch = loader.epoch(0);
                                            CHECK(device.held() == device_bytes);
                                        },
                                        {.falling = true}};
        pressure const some{device, 1};  // released by a loader that had allocated again meanwhile
        CHECK(device.held() == 1);
    }
    CHECK(fell == 2);
    CHECK(read_epoch(loader) == counted(samples));
}

// ---- failures and threads ----

TEST_CASE("when any call fails, releasing and reallocating slots leaks nothing", "[data][loader_memory]") {
    machine on;
    budget const device{"device", device_bytes};
    budget const pinned{"pinned", pinned_bytes};
    auto const cycle = [&] {
        batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
        cuota::stream const s;
        for (std::uint64_t epoch = 0; epoch != 2; ++epoch) {
            std::uint32_t expected = 0;
            for (cuota::batch b : loader.epoch(epoch))
                for (std::uint64_t const sample : b.samples()) REQUIRE(sample == expected++);
            pressure const one{device, 1};
            pressure const two{pinned, 1};
        }
    };
    auto const seen = support::survives_every_failure(on, cycle);
    CHECK(seen.thrown > 0);
    CHECK(device.held() == 0);
    CHECK(pinned.held() == 0);
}

TEST_CASE("a loader works normally after a failure while it released or reallocated slots",
          "[data][loader_memory]") {
    machine on;
    budget const device{"device", device_bytes};
    budget const pinned{"pinned", pinned_bytes};
    batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
    bool has_failed = true;
    for (std::uint64_t nth = 1; has_failed; ++nth) {
        INFO("call " << nth);
        CHECK(read_epoch(loader) == counted(samples));
        auto const injected = sim::faults_injected();
        sim::fail_call(nullptr, nth);
        try {
            { pressure const one{device, 1}; }
            { pressure const two{pinned, 1}; }
            auto const epoch = loader.epoch(0);
        } catch (cuota::budget_exceeded const&) {
        } catch (cuota::out_of_memory const&) {
        } catch (cuota::cuda_error const&) {}
        has_failed = sim::faults_injected() != injected;
        sim::clear_faults();
        (void)on.errors.take();
    }
    CHECK(read_epoch(loader) == counted(samples));
    CHECK(device.held() == device_bytes);
    CHECK(pinned.held() == pinned_bytes);
    CHECK(sim::live().device_bytes == device_bytes);
    CHECK(sim::live().pinned_bytes == pinned_bytes);
}

TEST_CASE("a wait that failed in an epoch that was left does not fail the next epoch",
          "[data][loader_memory][threads]") {
    machine on;
    {
        batch_loader loader{numbered_source{samples}, options_of(std::nullopt, std::nullopt)};
        for (int round = 0; round != support::rounds(1000); ++round) {
            INFO("round " << round);
            REQUIRE(read_epoch(loader) == counted(samples));
            sim::fail_call("cudaEventSynchronize", 1);
            { auto const left = loader.epoch(1); }
            sim::clear_faults();
        }
    }
    (void)on.errors.take();  // errors of the abandoned epochs' workers
}

TEST_CASE("a loader works while other threads reclaim its memory", "[data][loader_memory][threads]") {
    machine const on;
    budget device{"device", device_bytes};
    budget pinned{"pinned", pinned_bytes};
    std::atomic<int> had = 0;
    std::atomic<int> wrong = 0;
    {
        batch_loader loader{numbered_source{samples}, options_of(device, pinned)};
        std::atomic<bool> stop = false;
        std::vector<std::thread> others;
        for (budget* const wanted : {&device, &pinned})
            others.emplace_back([&, wanted] {
                while (!stop) try {
                        pressure const some{*wanted, 1};
                        ++had;
                    } catch (cuota::budget_exceeded const& refused) {
                        if (refused.info().holders.empty()) ++wrong;
                        std::this_thread::yield();
                    }
            });
        int refused = 0;
        for (int read = 0; read < 200 || had < 200;) try {
                if (read_epoch(loader) != counted(samples)) ++wrong;
                ++read;
            } catch (cuota::budget_exceeded const&) {
                ++refused;
                std::this_thread::yield();
            }
        INFO(refused << " epochs were refused");
        stop = true;
        for (std::thread& other : others) other.join();
    }
    CHECK(wrong == 0);
    CHECK(device.held() == 0);
    CHECK(pinned.held() == 0);
    CHECK(device.peak() == device_bytes);
}

TEST_CASE("two loaders on two threads share memory for one of them", "[data][loader_memory][threads]") {
    machine const on;
    budget const all{"all", device_bytes + pinned_bytes};
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    batch_loader first{numbered_source{samples}, options_of(all, all)};
    batch_loader second{numbered_source{samples}, options_of(all, all)};
    for (batch_loader* const mine : {&first, &second})
        threads.emplace_back([&, mine] {
            for (int read = 0; read != 60;) try {
                    if (read_epoch(*mine) != counted(samples)) ++wrong;
                    ++read;
                } catch (cuota::budget_exceeded const&) { std::this_thread::yield(); }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(all.held() <= device_bytes + pinned_bytes);
    CHECK(all.peak() == device_bytes + pinned_bytes);
}

TEST_CASE("a loader can be destroyed while others reclaim its memory, and frees all of it",
          "[data][loader_memory][threads]") {
    machine const on;
    budget device{"device", device_bytes};
    std::atomic<bool> stop = false;
    std::atomic<int> had = 0;
    std::thread other{[&] {
        while (!stop) try {
                pressure const some{device, 1};
                ++had;
            } catch (cuota::budget_exceeded const&) {}
    }};
    int ended = 0;
    for (int round = 0; round < 300 || had == 0 || ended == 0; ++round) try {
            batch_loader loader{numbered_source{samples}, options_of(device, std::nullopt)};
            if (round % 2 == 0) (void)read_epoch(loader);
            ++ended;
        } catch (cuota::budget_exceeded const&) {}
    CHECK(sim::live().device_bytes == 0);
    CHECK(device.held() <= 1);
    stop = true;
    other.join();
    CHECK(device.held() == 0);
}
