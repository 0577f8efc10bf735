// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Every door of the library that takes a size, a count or a number, and sizes at which sums, products and round-ups overflow: each
// is served or throws an error with a type, no account wraps around, and nothing is left.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/append_buffer.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/scratch_arena.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/device_resident_dataset.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budget_alert.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/guarded.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
constexpr std::size_t sizes[]{most,         most - 1, most - 255, most - 511,           most - 4'095,
                              most - 2_MiB, most / 2, most / 4,   std::size_t{1} << 63, most / 8};

struct scene {
    cuota::budget account{"account", cuota::unlimited};
    cuota::scoped_pool pages{account};
    cuota::scoped_pool segments{account, {.growth = cuota::pool_growth::segments}};
    cuota::stream s{};
};

[[nodiscard]] cuota::memory_dataset numbers() { return {"numbers", std::vector<float>(64)}; }

std::size_t batches_of(cuota::loader_options how) {
    cuota::batch_loader loader{numbers(), how};
    std::size_t batches = 0;
    for (cuota::batch b : loader.epoch(0)) batches += b.size() != 0;
    return batches;
}

struct door {
    char const* name;
    void (*open)(scene& in, std::size_t n);
};
// Each releases the memory that it allocates.
constexpr door doors[]{
    {"charge",
     [](scene& in, std::size_t n) {
         in.account.charge(n);
         in.account.refund(n);
     }},
    {"charge twice",
     [](scene& in, std::size_t n) {
         in.account.charge(n);
         bool const twice = in.account.try_charge(n);
         in.account.refund(n);
         if (twice) in.account.refund(n);
     }},
    {"charge inside a limit",
     [](scene& in, std::size_t n) {
         cuota::budget outer{"outer", 100, in.account};
         cuota::budget inner{"inner", cuota::unlimited, outer};
         inner.charge(n);
     }},
    {"limit",
     [](scene& in, std::size_t n) {
         cuota::budget limited{"limited", n, in.account};
         limited.charge(n);
         limited.refund(n);
     }},
    {"reserve",
     [](scene& in, std::size_t n) {
         auto reserved = in.account.reserve(n);
         auto inside = reserved.as_budget();
         inside.charge(n);
         inside.refund(n);
         reserved.shrink(n);
     }},
    {"reserve and grow",
     [](scene& in, std::size_t n) {
         auto reserved = in.account.reserve(5);
         reserved.grow(n);
     }},
    {"alert", [](scene& in, std::size_t n) { cuota::budget_alert const w{in.account, {n}, 1, [](cuota::alert_event const&) {}}; }},
    {"pool by pages",
     [](scene& in, std::size_t n) { in.pages.deallocate(in.s, in.pages.allocate(in.s, n), n); }},
    {"pool by pages, aligned",
     [](scene& in, std::size_t n) { in.pages.deallocate(in.s, in.pages.allocate(in.s, n, 2_MiB), n); }},
    {"pool by segments",
     [](scene& in, std::size_t n) { in.segments.deallocate(in.s, in.segments.allocate(in.s, n), n); }},
    {"pool by segments, aligned",
     [](scene& in, std::size_t n) { in.segments.deallocate(in.s, in.segments.allocate(in.s, n, 2_MiB), n); }},
    {"pool, initial", [](scene& in, std::size_t n) { cuota::scoped_pool const pool{in.account, {.initial_size = n}}; }},
    {"pool, cap",
     [](scene& in, std::size_t n) {
         cuota::scoped_pool pool{in.account, {.max_size = n}};
         cuota::device_buffer<float> const x{100, in.s, pool};
     }},
    {"pool, alignment", [](scene& in, std::size_t n) { cuota::scoped_pool const pool{in.account, {.alignment = n}}; }},
    {"trim", [](scene& in, std::size_t n) { (void)in.pages.trim(n); }},
    {"frame",
     [](scene& in, std::size_t n) {
         auto frame = in.pages.frame();
         (void)frame.allocate(in.s, 10);
         (void)frame.allocate(in.s, n);
     }},
    {"step",
     [](scene& in, std::size_t n) {
         auto const step = in.pages.begin_step();
         step.deallocate(in.s, step.allocate(in.s, n), n);
     }},
    {"step_plan",
     [](scene& in, std::size_t n) {
         cuota::step_plan plan{in.pages.resource()};
         auto const step = plan.begin();
         cuota::device_buffer<char> const x{n, in.s, plan.resource()};
     }},
    {"device_buffer of bytes", [](scene& in, std::size_t n) { cuota::device_buffer<char> const x{n, in.s, in.pages}; }},
    {"device_buffer of doubles",
     [](scene& in, std::size_t n) { cuota::device_buffer<double> const x{n, in.s, in.segments}; }},
    {"resize",
     [](scene& in, std::size_t n) {
         cuota::device_buffer<double> x{5, in.s, in.pages};
         x.resize(n);
     }},
    {"copy of a part",
     [](scene& in, std::size_t n) {
         cuota::device_buffer<double> x{5, in.s, in.pages};
         cuota::device_buffer<double> const y{5, in.s, in.pages};
         x.copy_from(y, {1, 1, n}, in.s);
     }},
    {"copy from a place",
     [](scene& in, std::size_t n) {
         cuota::device_buffer<double> x{5, in.s, in.pages};
         cuota::device_buffer<double> const y{5, in.s, in.pages};
         x.copy_from(y, {n, 1, 2}, in.s);
     }},
    {"append_buffer", [](scene& in, std::size_t n) { cuota::append_buffer<double> const x{n, in.s, in.pages}; }},
    {"scratch_arena", [](scene& in, std::size_t n) { cuota::scratch_arena const x{n, in.s, in.pages}; }},
    {"pinned_buffer", [](scene& in, std::size_t n) { cuota::pinned_buffer<double> const x{n, in.account}; }},
    {"staging_ring, bytes", [](scene& in, std::size_t n) { cuota::staging_ring const x{3, n, in.account}; }},
    {"staging_ring, slots", [](scene& in, std::size_t n) { cuota::staging_ring const x{n, 3, in.account}; }},
    {"mirrored_buffer",
     [](scene& in, std::size_t n) {
         cuota::mirrored_buffer<double> x{n, in.s, in.pages.resource(), cuota::budgeted<cuota::pinned_memory>{in.account}};
         (void)x.read_host();
     }},
    {"device_memory", [](scene&, std::size_t n) { cuota::device_memory m; m.deallocate_sync(m.allocate_sync(n), n); }},
    {"async_memory",
     [](scene& in, std::size_t n) { cuota::async_memory m; m.deallocate(in.s, m.allocate(in.s, n), n); }},
    {"managed_memory", [](scene&, std::size_t n) { cuota::managed_memory m; m.deallocate_sync(m.allocate_sync(n), n); }},
    {"pinned_memory", [](scene&, std::size_t n) { cuota::pinned_memory m; m.deallocate_sync(m.allocate_sync(n), n); }},
    {"budgeted",
     [](scene& in, std::size_t n) {
         cuota::budgeted<cuota::device_memory> m{in.account};
         m.deallocate_sync(m.allocate_sync(n), n);
     }},
    {"tracked",
     [](scene&, std::size_t n) {
         cuota::tracked<cuota::device_memory> m;
         m.deallocate_sync(m.allocate_sync(n), n);
     }},
    {"guarded",
     [](scene&, std::size_t n) {
         cuota::guarded<cuota::device_memory> m;
         m.deallocate_sync(m.allocate_sync(n), n);
     }},
    {"loader, batch", [](scene& in, std::size_t n) { (void)batches_of({.batch_size = n, .device_budget = in.account, .pinned_budget = in.account}); }},
    {"loader, device slots",
     [](scene& in, std::size_t n) {
         (void)batches_of({.batch_size = 4, .device_budget = in.account, .pinned_budget = in.account, .device_slots = n});
     }},
    {"loader, host slots",
     [](scene& in, std::size_t n) {
         (void)batches_of({.batch_size = 4, .device_budget = in.account, .pinned_budget = in.account, .host_slots = n});
     }},
    {"loader, workers",
     [](scene& in, std::size_t n) {
         (void)batches_of({.batch_size = 4, .device_budget = in.account, .pinned_budget = in.account, .workers = n});
     }},
    {"loader, epoch",
     [](scene&, std::size_t n) {
         cuota::batch_loader loader{numbers(), {.batch_size = 4, .seed = n}};
         for (cuota::batch const b : loader.epoch(n)) (void)b.size();
     }},
    {"loader, position",
     [](scene&, std::size_t n) {
         cuota::batch_loader loader{numbers(), {.batch_size = 4}};
         auto from = loader.state();
         from.position = n;
         auto epoch = loader.epoch(from);
         (void)epoch.next();
     }},
    {"resident data",
     [](scene& in, std::size_t n) {
         cuota::device_resident_dataset const all{numbers(), {.batch_size = n, .device_budget = in.account, .pinned_budget = in.account}};
     }},
    {"recorder", [](scene& in, std::size_t n) { cuota::recorder const r{in.account, {.capacity = n}}; }}};

}  // namespace

TEST_CASE("an impossible size is served or refused with a typed error by every function",
          "[programs][sizes]") {
    support::machine machine;
    scene in;
    std::size_t refused = 0;
    for (door const& one : doors)
        for (std::size_t const n : sizes) {
            INFO(one.name << " of " << n);
            std::string other;
            try {
                one.open(in, n);
            } catch (cuota::usage_error const&) { ++refused; } catch (cuota::out_of_memory const&) {
                ++refused;
            } catch (std::exception const& e) { other = e.what(); }
            REQUIRE(other.empty());
            in.pages.trim();
            in.segments.trim();
            REQUIRE(in.account.held() == 0);
            REQUIRE(simulator::live().device_bytes == 0);
            REQUIRE(simulator::live().pinned_bytes == 0);
            REQUIRE(machine.errors.take().empty());
        }
    CHECK(refused > 250);
    CHECK(simulator::misuse().total() == 0);
}

TEST_CASE("a wrong size of a deallocation or refund is reported and does not wrap an account around",
          "[programs][sizes]") {
    support::machine machine;
    scene in;
    for (std::size_t const n : sizes) {
        INFO(n);
        in.account.charge(5);
        in.account.refund(n);
        CHECK(in.account.held() == 5);
        in.account.refund(5);
        CHECK(machine.errors.take().size() == 1);
        for (cuota::scoped_pool* const pool : {&in.pages, &in.segments}) {
            void* const p = pool->allocate(in.s, 100);
            pool->deallocate(in.s, p, n);
            CHECK(machine.errors.take().size() == 1);
            CHECK(pool->stats().live_blocks == 1);
            pool->deallocate(in.s, p, 100);
            CHECK(pool->stats().live_blocks == 0);
            pool->trim();
        }
        CHECK(in.account.held() == 0);
    }
    CHECK(machine.errors.take().empty());
}
