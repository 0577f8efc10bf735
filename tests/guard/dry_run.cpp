// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/dry_run.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/kernels.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::any_resource;
using cuota::batch_fit;
using cuota::budget;
using cuota::device_buffer;
using cuota::dry_run;
using cuota::dry_run_memory;
using cuota::no_init;
using cuota::unlimited;
using cuota::usage_report;

// The host cannot read these addresses, so this is not a host_accessible_resource.
static_assert(!cuota::host_accessible_resource<dry_run_memory> &&
              !cuota::host_accessible_resource<cuota::measured<dry_run_memory>>);

namespace {

[[nodiscard]] std::uintptr_t number(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }

// Has a peak of `bytes` bytes.
auto const allocation_group = [](std::size_t bytes, auto& memory) {
    void* const p = memory.allocate_sync(bytes);
    memory.deallocate_sync(p, bytes);
};

}  // namespace

TEST_CASE("dry_run_memory fulfils the contract of a resource, except for accesses", "[guard][dry_run]") {
    dry_run_memory memory;
    CHECK(memory.granularity() == 512);
    CHECK(memory.allocate_sync(0) == nullptr);
    CHECK(memory.allocate(cudaStreamPerThread, 0) == nullptr);
    memory.deallocate_sync(nullptr, 0);
    support::detail::way const ordered{support::detail::resource_under_test{memory}, cudaStreamPerThread,
                                       false};
    support::detail::honours_or_refuses_alignments(ordered);
    support::detail::refuses_the_impossible(ordered);
    dry_run_memory const copy{memory};
    CHECK(copy == memory);
    CHECK(!(dry_run_memory{} == memory));
}

TEST_CASE("addresses of dry_run_memory are aligned, distinct and outside of any program's address space",
          "[guard][dry_run]") {
    for (std::size_t const granularity : {std::size_t{1}, std::size_t{512}, 2_MiB}) {
        dry_run_memory memory{granularity};
        CHECK(memory.granularity() == granularity);
        std::uintptr_t end = std::uintptr_t{1} << 63;  // the addresses above belong to the kernel
        for (std::size_t const bytes : {1_KiB, std::size_t{1}, 3_GiB, std::size_t{257}, 5_MiB}) {
            void* const p = memory.allocate_sync(bytes);
            CHECK(number(p) >= end);
            CHECK(number(p) % std::max(granularity, std::size_t{256}) == 0);
            CHECK(number(p) + bytes > number(p));
            end = number(p) + bytes;
            memory.deallocate_sync(p, bytes);  // the address is not reused
        }
    }
}

TEST_CASE("the granularity of dry_run_memory is a power of two", "[guard][dry_run]") {
    for (std::size_t const granularity : {std::size_t{0}, std::size_t{3}, unlimited}) {
        CHECK_THROWS_AS(dry_run_memory{granularity}, cuota::usage_error);
        CHECK_THROWS_AS(dry_run([](auto&) {}, granularity), cuota::usage_error);
    }
}

TEST_CASE("dry_run_memory refuses requests when its addresses are used up", "[guard][dry_run]") {
    SECTION("in several allocations") {
        dry_run_memory memory;
        std::size_t taken = 0;
        auto const refused = support::thrown<cuota::out_of_memory>([&] {
            for (;; ++taken)
                (void)memory.allocate_sync(std::size_t{1} << 50, 256, {"weights", {"train.cpp", 5}});
        });
        CHECK(taken == 31);  // 32 PiB minus a remainder
        CHECK(refused.info().request.where.line == 5);
        CHECK(refused.info().requested == std::size_t{1} << 50);
        CHECK(support::has(refused.info().cause, "dry_run: the address range has 32.0 PiB"));
        std::size_t const rest = refused.info().max_fit;
        CHECK_THROWS_AS(memory.allocate_sync(rest + 1), cuota::out_of_memory);
        void* const last = memory.allocate_sync(rest);
        CHECK(number(last) + rest > number(last));
        CHECK_THROWS_AS(memory.allocate_sync(1), cuota::out_of_memory);
    }
    SECTION("by a granularity that is larger than the range") {
        dry_run_memory memory{std::size_t{1} << 63};
        CHECK_THROWS_AS(memory.allocate_sync(1), cuota::out_of_memory);
    }
}

TEST_CASE("threads may allocate from dry_run_memory at the same time", "[guard][dry_run]") {
    dry_run_memory memory;
    std::vector<std::vector<support::detail::block>> blocks(4);
    std::vector<std::thread> threads;
    for (auto& mine : blocks)
        threads.emplace_back([&] {
            for (std::size_t i = 1; i != 500; ++i) mine.push_back({memory.allocate_sync(i), i, 0});
        });
    for (std::thread& t : threads) t.join();
    std::vector<support::detail::block> all;
    for (auto const& mine : blocks) all.insert(all.end(), mine.begin(), mine.end());
    CHECK(support::detail::are_distinct(all));
}

TEST_CASE("a dry run reports the peak of the code that it ran, and allocates no memory", "[guard][dry_run]") {
    std::size_t const before = cuota::detail::taken_on(cuota::device::current());
    usage_report const seen = dry_run([&](auto& memory) {
        void* const weights = memory.allocate_sync(1_GiB, 256, {"weights", {"train.cpp", 3}});
        void* const scratch =
            memory.allocate_sync(std::size_t{1} << 42, 256, {"scratch"});  // more than any machine has
        CHECK(cuota::detail::taken_on(cuota::device::current()) == before);
        memory.deallocate_sync(scratch, std::size_t{1} << 42);
        memory.deallocate_sync(weights, 1_GiB);
    });
    CHECK(seen.peak == (std::size_t{1} << 42) + 1_GiB);
    CHECK(seen.allocations == 2);
    CHECK(seen.live.empty());
    CHECK(seen.by_tag[0].name == cuota::tag{"scratch"});
    CHECK(seen.by_tag[1].at_peak == 1_GiB);
}

TEST_CASE("a dry run rounds to the given granularity", "[guard][dry_run]") {
    auto const two = [](any_resource memory) {
        void* const p = memory.allocate_sync(1);
        void* const q = memory.allocate_sync(513);
        memory.deallocate_sync(p, 1);
        memory.deallocate_sync(q, 513);
    };
    CHECK(dry_run(two).peak == 512 + 1024);
    CHECK(dry_run(two, 1).peak == 514);
    CHECK(dry_run(two, 2_MiB).peak == 4_MiB);
    CHECK(dry_run([](auto&) {}).peak == 0);
}

TEST_CASE("a dry run supports uninitialized buffers and pools", "[guard][dry_run]") {
    cuota::stream const stream;
    SECTION("buffers") {
        usage_report const seen = dry_run([&](any_resource memory) {
            device_buffer<float> const weights{std::size_t{1} << 40, stream, memory, no_init, "weights"};
            device_buffer<float> moved{1000, stream, memory, no_init, "activations"};
            device_buffer<float> const here = std::move(moved);
            device_buffer<char> const none{0, stream, memory, no_init};
        });
        CHECK(seen.peak == (std::size_t{4} << 40) + 4096);
        CHECK(seen.live.empty());
    }
    SECTION("a pool, whose segments are measured") {
        usage_report const seen = dry_run([&](any_resource memory) {
            cuota::scoped_pool pool{memory};
            for (int round = 0; round != 10; ++round) {
                device_buffer<char> const a{10'000, stream, pool, no_init};
                device_buffer<char> const b{50'000, stream, pool, no_init};
            }
            CHECK(pool.stats().peak_reserved == 10'240 + 50'176);
        });
        CHECK(seen.peak == 10'240 + 50'176);
        CHECK(seen.allocations == 2);
        CHECK(seen.live.empty());
    }
}

TEST_CASE("a dry run lists allocations that were not freed, which may be freed later", "[guard][dry_run]") {
    cuota::stream const stream;
    std::vector<device_buffer<float>> kept;
    unsigned line = 0;
    usage_report const seen = dry_run([&](any_resource memory) {
        auto const here = cuota::source_location::current();
        line = here.line;
        kept.emplace_back(1000, stream, memory, no_init, cuota::tag{"weights"}, here);
        kept.emplace_back(1000, stream, memory, no_init, cuota::tag{"weights"},
                          cuota::source_location{"train.cpp", 2});
        device_buffer<float> const gone{1000, stream, memory, no_init, "scratch"};
    });
    REQUIRE(seen.live.size() == 2);
    CHECK(seen.live_bytes() == 8192);
    CHECK(seen.live[0].name == cuota::tag{"weights"});
    CHECK((seen.live[0].where.line == line || seen.live[1].where.line == line));
    CHECK(seen.allocations - seen.releases == 2);
    kept.clear();
}

TEST_CASE("an exception in a dry run is rethrown, and nothing is leaked", "[guard][dry_run]") {
    cuota::stream const stream;
    SECTION("out of dry_run") {
        CHECK_THROWS_AS(dry_run([&](any_resource memory) {
                            device_buffer<float> const a{1000, stream, memory, no_init};
                            throw std::runtime_error{"no"};
                        }),
                        std::runtime_error);
    }
    SECTION("with a report up to the exception") {
        cuota::measured memory{dry_run_memory{}};
        try {
            device_buffer<float> const a{1000, stream, memory, no_init, "weights"};
            throw std::runtime_error{"no"};
        } catch (std::runtime_error const&) {}
        CHECK(memory.report().peak == 4096);
        CHECK(memory.report().live.empty());
    }
    SECTION("also if a request exceeds the range of addresses") {
        CHECK_THROWS_AS(dry_run([&](any_resource memory) {
                            device_buffer<float> const a{unlimited / 2, stream, memory, no_init};
                        }),
                        cuota::out_of_memory);
    }
}

TEST_CASE("a dry run counts allocations of several threads exactly", "[guard][dry_run]") {
    usage_report const seen = dry_run([](auto& memory) {
        std::vector<std::thread> threads;
        std::vector<void*> taken(4);
        for (void*& p : taken)
            threads.emplace_back([&] {
                for (int i = 0; i != 200; ++i) memory.deallocate_sync(memory.allocate_sync(512), 512);
                p = memory.allocate_sync(10'000);
            });
        for (std::thread& t : threads) t.join();
        for (void* p : taken) memory.deallocate_sync(p, 10'000);
    });
    CHECK(seen.peak == 4 * 10'240);
    CHECK(seen.allocations == 4 * 201);
    CHECK(seen.live.empty());
}

TEST_CASE("a dry run on real memory runs the kernels and has the same peak", "[guard][dry_run]") {
    cuota::stream const stream;
    std::vector<unsigned char> result;
    usage_report const seen = cuota::dry_run_on(cuota::device_memory{}, [&](any_resource memory) {
        device_buffer<unsigned char> a{10'000, stream, memory, "activations"};
        device_buffer<unsigned char> const zero{5000, stream, memory, "scratch"};
        {
            cuota::lease<unsigned char> const to = a.write(stream);
            cuota::for_each_index(stream, to.size(), support::write_pattern{to.span().data(), 3});
        }
        result = a.to_vector(stream);
    });
    CHECK(support::has_pattern(result.data(), result.size(), 3));
    CHECK(seen.granularity == 512);
    CHECK(seen.peak == 10'240 + 5120);
    CHECK(seen.live.empty());
    usage_report const dry = dry_run([&](any_resource memory) {
        device_buffer<unsigned char> const a{10'000, stream, memory, no_init, "activations"};
        device_buffer<unsigned char> const b{5000, stream, memory, no_init, "scratch"};
    });
    CHECK(dry.peak == seen.peak);
    CHECK(dry.text() == seen.text());
}

TEST_CASE("the footprint of a dry run can be checked against a budget", "[guard][dry_run]") {
    usage_report const seen = dry_run([](auto& memory) { allocation_group(5000, memory); });
    budget b{"trainer", 5120};
    CHECK_NOTHROW(seen.footprint().check(b));
    b.charge(1);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { seen.footprint().check(b); });
    CHECK(refused.info().charged == 5120);
    CHECK(refused.info().cause == "untagged 5.0 KiB");
    CHECK(b.held() == 1);
    b.refund(1);
}

TEST_CASE("the largest batch that fits and the next one that does not were both run", "[guard][dry_run]") {
    budget b{"b", 100'000};
    b.charge(1000);
    std::vector<std::size_t> tried;
    for (std::size_t const largest : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17},
                                      std::size_t{1000}, std::size_t{1} << 40, unlimited}) {
        tried.clear();
        batch_fit const found =
            cuota::largest_batch_that_fits(b, 1, largest, [&](std::size_t batch, auto& memory) {
                tried.push_back(batch);
                void* const fixed = memory.allocate_sync(4000);  // rounded to 4096
                device_buffer<float> const samples{batch, cudaStreamPerThread, memory, no_init};
                device_buffer<float> const more{cuota::checked_mul(batch, 1500).value_or(unlimited),
                                                cudaStreamPerThread, memory, no_init};
                memory.deallocate_sync(fixed, 4000);
            });
        INFO("up to " << largest);
        CHECK(found.available == 99'000);
        CHECK(found.is_monotone);
        CHECK(found.runs == tried.size());
        CHECK(found.runs <= 2 + 64);
        std::sort(tried.begin(), tried.end());
        CHECK(std::adjacent_find(tried.begin(), tried.end()) == tried.end());
        CHECK(std::count(tried.begin(), tried.end(), found.batch) == 1);
        if (largest <= 15) {
            CHECK(found.batch == largest);
            CHECK(found.next == 0);
        } else {
            CHECK(found.batch == 15);
            CHECK(found.bytes == 4096 + 512 + 90'112);
            CHECK(found.next == 16);
            CHECK(found.next_bytes == (found.runs == 2 ? 4096 + 512 + 96'256 : found.next_bytes));
            CHECK(found.next_bytes > found.available);
            CHECK(std::count(tried.begin(), tried.end(), 16) == 1);
        }
    }
    CHECK(b.held() == 1000);
    CHECK(b.peak() == 1000);
    b.refund(1000);
}

TEST_CASE("the largest batch is 0 if no batch fits", "[guard][dry_run]") {
    budget b{"b", 1000};
    batch_fit const found = cuota::largest_batch_that_fits(
        b, 4, 64, [](std::size_t batch, auto& memory) { allocation_group(1000 * batch, memory); });
    CHECK(found.batch == 0);
    CHECK(found.bytes == 0);
    CHECK(found.next == 4);
    CHECK(found.next_bytes == 4096);
    CHECK(found.runs == 1);

    auto const run = [](std::size_t, auto&) {};
    CHECK_THROWS_AS(cuota::largest_batch_that_fits(b, 0, 4, run), cuota::usage_error);
    CHECK_THROWS_AS(cuota::largest_batch_that_fits(b, 5, 4, run), cuota::usage_error);
    CHECK_THROWS_AS(
        cuota::largest_batch_that_fits(b, 1, 4, [](std::size_t, auto&) { throw std::runtime_error{"no"}; }),
        std::runtime_error);
}

TEST_CASE("a run that is refused memory does not fit, even without a limit", "[guard][dry_run]") {
    budget endless{"endless", unlimited};
    batch_fit const found =
        cuota::largest_batch_that_fits(endless, 1, 1'000'000, [](std::size_t batch, auto& memory) {
            allocation_group(batch << 50, memory);
        });
    CHECK(found.batch == 31);  // PiB; a dry run has 32 PiB of addresses
    CHECK(found.next == 32);
    CHECK(found.next_bytes == unlimited);
    CHECK(found.is_monotone);
}

TEST_CASE("the largest batch uses the given granularity", "[guard][dry_run]") {
    budget b{"b", 10_MiB};
    batch_fit const found = cuota::largest_batch_that_fits(
        b, 1, 100,
        [](std::size_t batch, any_resource memory) {
            std::vector<void*> taken(batch);
            for (void*& p : taken) p = memory.allocate_sync(1);
            for (void* p : taken) memory.deallocate_sync(p, 1);
        },
        2_MiB);
    CHECK(found.batch == 5);
    CHECK(found.bytes == 10_MiB);
    CHECK(found.next_bytes == 12_MiB);
}

TEST_CASE("a larger batch that needs less memory is reported, and the result still fits",
          "[guard][dry_run]") {
    budget b{"b", 10'240};
    auto const check = [&](auto peak) {
        batch_fit const found = cuota::largest_batch_that_fits(
            b, 1, 100, [&](std::size_t batch, auto& memory) { allocation_group(peak(batch), memory); }, 128);
        CHECK(!found.is_monotone);
        CHECK(peak(found.batch) <= 10'240);
        CHECK(found.bytes == peak(found.batch));
        CHECK(found.next == found.batch + 1);
        CHECK(peak(found.next) > 10'240);
    };
    // Like a library that switches algorithms at some batch size.
    SECTION("less than one that does not fit") {
        check([](std::size_t n) { return n < 60 ? n * 1024 : n * 128; });
    }
    SECTION("less than one that fits") {
        check([](std::size_t n) { return n == 1 ? 8192 : n * 128; });
    }
}

TEST_CASE("a largest batch that needs less memory than the smallest is reported", "[guard][dry_run]") {
    budget b{"b", 10'240};
    batch_fit const found = cuota::largest_batch_that_fits(
        b, 1, 10, [](std::size_t batch, auto& memory) { allocation_group(5120 / batch, memory); }, 128);
    CHECK(found.batch == 10);
    CHECK(found.bytes == 512);
    CHECK(found.next == 0);
    CHECK(!found.is_monotone);
}

TEST_CASE("the examples of dry_run run", "[guard][dry_run]") {
    cuota::stream const stream;
    budget budget{"trainer", 1_MiB};
    auto const build_model = [](cuota::stream_ref s, any_resource memory) {
        return device_buffer<float>{1'000'000, s, memory, no_init, "weights"};
    };
    usage_report const seen = dry_run([&](any_resource memory) { build_model(stream, memory); });
    CHECK_THROWS_AS(seen.footprint().check(budget), cuota::budget_exceeded);

    auto const step = [](cuota::stream_ref s, any_resource memory) {
        device_buffer<float> const activations{1000, s, memory, "activations"};
    };
    usage_report const real =
        cuota::dry_run_on(cuota::device_memory{}, [&](any_resource memory) { step(stream, memory); });
    CHECK(real.peak == 4096);
}
