// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/measured.hpp>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::dry_run_memory;
using cuota::measured;
using cuota::tag;
using cuota::usage_report;

// Its memory kind is its upstream's, as far as the type determines it.
static_assert(cuota::device_accessible_resource<measured<>> && !cuota::host_accessible_resource<measured<>>);
static_assert(cuota::host_accessible_resource<measured<cuota::pinned_memory>> &&
              !cuota::device_accessible_resource<measured<cuota::pinned_memory>>);
static_assert(cuota::host_accessible_resource<measured<cuota::any_resource>> &&
              cuota::device_accessible_resource<measured<cuota::any_resource>>);
static_assert(sizeof(measured<cuota::any_resource>) == sizeof(void*));
template <class R>
concept has_device = requires(R const& r) {
    r.device();
};
static_assert(has_device<measured<cuota::async_memory>> && !has_device<measured<cuota::pinned_memory>>);

namespace {

cuota::tag_usage of(usage_report const& seen, tag name) {
    for (cuota::tag_usage const& t : seen.by_tag)
        if (t.name == name) return t;
    return {"not there"};
}

cuota::label as(tag name, unsigned line = 1) { return {name, {"train.cpp", line}}; }

}  // namespace

TEST_CASE("measured behaves as a resource", "[guard][measured]") {
    SECTION("of device memory") { support::behaves_as_a_resource(measured<>{}); }
    SECTION("of async memory") { support::behaves_as_a_resource(measured<cuota::async_memory>{}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(measured<cuota::managed_memory>{}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(measured<cuota::pinned_memory>{}); }
    SECTION("of any resource") {
        support::behaves_as_a_resource(measured{cuota::any_resource{cuota::device_memory{}}});
    }
    SECTION("as any resource") { support::behaves_as_a_resource(cuota::any_resource{measured<>{}}); }
    SECTION("of measured memory") { support::behaves_as_a_resource(measured<measured<>>{measured<>{}}); }
}

TEST_CASE("the first report of measured is empty", "[guard][measured]") {
    usage_report const seen = measured<dry_run_memory>{}.report();
    CHECK(seen.granularity == 512);
    CHECK(seen.peak == 0);
    CHECK(seen.allocations == 0);
    CHECK(seen.releases == 0);
    CHECK(seen.by_tag.empty());
    CHECK(seen.live.empty());
    CHECK(seen.live_bytes() == 0);
    CHECK(seen.footprint().bytes() == 0);
    CHECK(seen.text() == "peak 0 B; 0 allocations, 0 not freed");
}

TEST_CASE("the peak is that of simultaneous allocations, each rounded up separately", "[guard][measured]") {
    measured<dry_run_memory> memory;
    void* const a = memory.allocate_sync(1);
    void* const b = memory.allocate_sync(513);
    CHECK(memory.report().peak == 512 + 1024);
    memory.deallocate_sync(a, 1);
    void* const c = memory.allocate_sync(512);
    CHECK(memory.report().peak == 512 + 1024);
    memory.deallocate_sync(b, 513);
    memory.deallocate_sync(c, 512);
    void* const d = memory.allocate(cudaStreamPerThread, 1537);
    usage_report const seen = memory.report();
    CHECK(seen.peak == 2048);
    CHECK(seen.allocations == 4);
    CHECK(seen.releases == 3);
    CHECK(seen.live_bytes() == 2048);
    memory.deallocate(cudaStreamPerThread, d, 1537);
    CHECK(memory.report().live_bytes() == 0);
    CHECK(memory.report().peak == 2048);
}

TEST_CASE("0 bytes are not an allocation", "[guard][measured]") {
    measured<dry_run_memory> memory;
    CHECK(memory.allocate_sync(0) == nullptr);
    CHECK(memory.allocate(cudaStreamPerThread, 0) == nullptr);
    memory.deallocate_sync(nullptr, 0);
    CHECK(memory.report().allocations == 0);
    CHECK(memory.report().by_tag.empty());
}

TEST_CASE("each tag has its bytes at the overall peak and its own peak", "[guard][measured]") {
    measured<dry_run_memory> memory;
    void* const weights = memory.allocate_sync(1000, 256, as("weights"));
    void* const early = memory.allocate_sync(3000, 256, as("scratch"));
    memory.deallocate_sync(early, 3000);
    void* const first = memory.allocate_sync(2000, 256, as("activations"));
    void* const second = memory.allocate_sync(2500, 256, as("activations"));
    void* const small = memory.allocate_sync(100, 256, as("scratch"));  // the peak
    CHECK(of(memory.report(), "scratch").at_peak == 512);               // also before the peak has passed
    memory.deallocate_sync(second, 2500);
    memory.deallocate_sync(small, 100);
    void* const more = memory.allocate_sync(2000, 256, as("weights", 7));  // more weights than at the peak

    usage_report const seen = memory.report();
    CHECK(seen.peak == 1024 + 2048 + 2560 + 512);
    CHECK(seen.by_tag.size() == 3);
    CHECK(seen.by_tag[0].name == tag{"activations"});
    CHECK(seen.by_tag[0].at_peak == 2048 + 2560);
    CHECK(seen.by_tag[0].peak == 2048 + 2560);
    CHECK(seen.by_tag[0].allocations == 2);
    CHECK(of(seen, "weights").at_peak == 1024);
    CHECK(of(seen, "weights").peak == 1024 + 2048);
    CHECK(of(seen, "weights").allocations == 2);
    CHECK(of(seen, "scratch").at_peak == 512);
    CHECK(of(seen, "scratch").peak == 3072);
    CHECK(of(seen, "scratch").allocations == 2);

    REQUIRE(seen.live.size() == 3);
    CHECK(seen.live[0].name == tag{"activations"});
    CHECK(seen.live[0].bytes == 2048);
    CHECK(seen.live_bytes() == 1024 + 2048 + 2048);
    CHECK(seen.text() == "peak 6.0 KiB; 6 allocations, 3 not freed\n"
                         "  tag           at peak     own peak    allocations\n"
                         "  activations   4.5 KiB     4.5 KiB     2\n"
                         "  weights       1.0 KiB     3.0 KiB     2\n"
                         "  scratch       512 B       3.0 KiB     2\n"
                         "  not freed: activations 2.0 KiB (train.cpp:1), weights 2.0 KiB (train.cpp:7), "
                         "weights 1.0 KiB (train.cpp:1)");
    for (auto const& [p, bytes] : {std::pair{weights, 1000}, {first, 2000}, {more, 2000}})
        memory.deallocate_sync(p, static_cast<std::size_t>(bytes));
    CHECK(memory.report().live.empty());
}

TEST_CASE("of equal peaks the first one is reported", "[guard][measured]") {
    measured<dry_run_memory> memory;
    void* p = memory.allocate_sync(1000, 256, as("first"));
    memory.deallocate_sync(p, 1000);
    p = memory.allocate_sync(1000, 256, as("second"));
    usage_report const seen = memory.report();
    CHECK(of(seen, "first").at_peak == 1024);
    CHECK(of(seen, "second").at_peak == 0);
    CHECK(of(seen, "second").peak == 1024);
    memory.deallocate_sync(p, 1000);
}

TEST_CASE("tags with equal texts are one tag", "[guard][measured]") {
    measured<dry_run_memory> memory;
    void* const p = memory.allocate_sync(1, 256, as("weights"));
    void* const q = memory.allocate_sync(1, 256, as(tag::named("weights")));
    void* const r = memory.allocate_sync(1, 256, as({}));
    CHECK(memory.report().by_tag.size() == 2);
    CHECK(of(memory.report(), "weights").allocations == 2);
    CHECK(support::has(memory.report().text(), "\n  untagged    512 B"));
    memory.deallocate_sync(p, 1);
    memory.deallocate_sync(q, 1);
    memory.deallocate_sync(r, 1);
}

TEST_CASE("the text of a report with many tags fits on one screen", "[guard][measured]") {
    measured<dry_run_memory> memory;
    std::vector<void*> taken;
    for (int i = 0; i != 30; ++i)
        taken.push_back(memory.allocate_sync(1, 256, as(tag::named("part " + std::to_string(i)))));
    for (void* p : taken) memory.deallocate_sync(p, 1);
    std::string const text = memory.report().text();
    CHECK(std::count(text.begin(), text.end(), '\n') == 18);
    CHECK(support::has(text, "\n  part 0      512 B"));
    CHECK(support::has(text, "\n  and 14 more"));
}

TEST_CASE("the footprint of a report has the bytes of its peak, by tag", "[guard][measured]") {
    measured<dry_run_memory> memory{dry_run_memory{4096}};
    void* const p = memory.allocate_sync(1000, 256, as("weights"));
    void* const q = memory.allocate_sync(5000, 256, as("scratch"));
    memory.deallocate_sync(q, 5000);
    void* const r = memory.allocate_sync(1, 256, as("late"));
    auto const plan = memory.report().footprint();
    CHECK(plan.parts().size() == 2);
    CHECK(plan.bytes() == memory.report().peak);
    CHECK(plan.parts()[0].name == tag{"scratch"});
    CHECK(plan.parts()[0].bytes(0) == 8192);
    CHECK_NOTHROW(plan.check(budget{"b", 3 * 4096}));
    CHECK_THROWS_AS(plan.check(budget{"b", 3 * 4096 - 1}), cuota::budget_exceeded);
    memory.deallocate_sync(p, 1000);
    memory.deallocate_sync(r, 1);
}

TEST_CASE("measured does not count requests that upstream refused", "[guard][measured]") {
    budget b{"b", 2048};
    measured memory{cuota::budgeted<dry_run_memory>{b, dry_run_memory{}}};
    void* const p = memory.allocate_sync(1000, 256, as("weights"));
    auto const refused = support::thrown<cuota::budget_exceeded>(
        [&] { (void)memory.allocate_sync(1025, 256, as("activations", 9)); });
    CHECK(refused.info().request.where.line == 9);
    usage_report const seen = memory.report();
    CHECK(seen.peak == 1024);
    CHECK(seen.allocations == 1);
    CHECK(seen.by_tag.size() == 1);
    memory.deallocate_sync(p, 1000);
    CHECK(b.held() == 0);
}

TEST_CASE("without host memory for its records, measured allocates nothing", "[guard][measured]") {
    budget b{"b", 1_MiB};
    measured memory{cuota::budgeted<dry_run_memory>{b, dry_run_memory{}}};
    std::size_t refused = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        void* p = nullptr;
        try {
            support::failing_heap const heap{allowed};
            p = memory.allocate_sync(1000, 256, as("weights"));
        } catch (std::bad_alloc const&) {
            ++refused;
            CHECK(b.held() == 0);
            CHECK(memory.report().allocations == 0);
            CHECK(memory.report().by_tag.empty());
            CHECK(memory.report().peak == 0);
            continue;
        }
        memory.deallocate_sync(p, 1000);
        break;
    }
    CHECK(refused >= 3);  // allocations for the budgeted entry, the tag and the entry
    CHECK(memory.report().peak == 1024);
    CHECK(b.held() == 0);
}

TEST_CASE("measured reports a wrong size, a double free and a foreign pointer, and frees nothing",
          "[guard][measured]") {
    support::captured_errors errors;
    measured<dry_run_memory> memory;
    measured<dry_run_memory> other;
    void* const p = memory.allocate_sync(100, 16, as("weights", 4));
    void* const foreign = other.allocate_sync(4);
    void* const theirs = other.allocate_sync(4);  // an address that `memory` has not allocated

    memory.deallocate_sync(p, 99);
    CHECK(errors.take() ==
          std::vector<std::string>{"cuota::usage_error: measured memory: deallocate with the "
                                   "wrong size: 99 B, allocated 100 B (train.cpp:4)"});
    memory.deallocate(cudaStreamPerThread, theirs, 4);
    auto told = errors.take();
    REQUIRE(told.size() == 1);
    CHECK(support::has(told[0], "deallocate of an unknown pointer"));
    CHECK(memory.report().releases == 0);
    CHECK(memory.report().live_bytes() == 512);

    memory.deallocate_sync(p, 100);
    memory.deallocate_sync(p, 100);
    CHECK(errors.take().size() == 1);
    CHECK(memory.report().releases == 1);
    other.deallocate_sync(foreign, 4);
    other.deallocate_sync(theirs, 4);
    CHECK(errors.count() == 0);
}

TEST_CASE("copies of measured are equal, and two separately made ones are not", "[guard][measured]") {
    measured<dry_run_memory> const a;
    measured<dry_run_memory> copy{a};
    CHECK(a == copy);
    CHECK(!(a == measured<dry_run_memory>{}));
    void* const p = copy.allocate_sync(1);
    CHECK(a.report().peak == 512);
    copy.deallocate_sync(p, 1);
}

TEST_CASE("measured agrees with a naive model over random traces, and a budget of the peak suffices",
          "[guard][measured]") {
    constexpr tag names[] = {"weights", "activations", "scratch", ""};
    struct live_block {
        void* at;
        std::size_t bytes;
        std::size_t tag;
    };
    for (unsigned seed = 0; seed != 200; ++seed) {
        auto const trace = [&](auto& memory, auto&& after_each) {
            std::mt19937 random{seed};
            std::vector<live_block> live;
            try {
                for (int step = 0; step != 300; ++step) {
                    if (live.empty() || random() % 5 < 3) {
                        std::size_t const bytes = random() % 3000;
                        std::size_t const t = random() % 4;
                        live.push_back({memory.allocate_sync(bytes, 256, as(names[t])), bytes, t});
                    } else {
                        std::swap(live[random() % live.size()], live.back());
                        memory.deallocate_sync(live.back().at, live.back().bytes);
                        live.pop_back();
                    }
                    after_each(live);
                }
            } catch (...) {
                for (live_block const& b : live) memory.deallocate_sync(b.at, b.bytes);
                throw;
            }
            for (live_block const& b : live) memory.deallocate_sync(b.at, b.bytes);
        };

        std::size_t peak = 0;
        std::size_t at_peak[4] = {};
        std::size_t peaks[4] = {};
        measured<dry_run_memory> memory;
        trace(memory, [&](std::vector<live_block> const& live) {
            std::size_t now[4] = {};
            for (live_block const& b : live) now[b.tag] += (b.bytes + 511) / 512 * 512;
            std::size_t const sum = now[0] + now[1] + now[2] + now[3];
            if (sum > peak) std::copy_n(now, 4, at_peak);
            peak = std::max(peak, sum);
            for (int t = 0; t != 4; ++t) peaks[t] = std::max(peaks[t], now[t]);
        });
        usage_report const seen = memory.report();
        INFO("seed " << seed);
        REQUIRE(seen.peak == peak);
        REQUIRE(seen.live.empty());
        REQUIRE(seen.footprint().bytes() == peak);
        for (std::size_t t = 0; t != 4; ++t) {
            REQUIRE(of(seen, names[t]).at_peak == at_peak[t]);
            REQUIRE(of(seen, names[t]).peak == peaks[t]);
        }

        budget enough{"enough", peak};
        cuota::budgeted<dry_run_memory> under{enough, dry_run_memory{}};
        REQUIRE_NOTHROW(trace(under, [](auto&) {}));
        budget short_of_one{"short of one", peak - 1};
        cuota::budgeted<dry_run_memory> too_little{short_of_one, dry_run_memory{}};
        REQUIRE_THROWS_AS(trace(too_little, [](auto&) {}), cuota::budget_exceeded);
        REQUIRE(enough.held() + short_of_one.held() == 0);
    }
}

TEST_CASE("measured counts allocations of several threads exactly", "[guard][measured]") {
    measured<dry_run_memory> memory;
    constexpr std::size_t threads = 4;
    std::atomic<std::size_t> ready = 0;
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i != threads; ++i)
        workers.emplace_back([&, i] {
            cuota::label const who = as(i % 2 ? tag{"odd"} : tag{"even"});
            for (int round = 0; round != 500; ++round) {
                void* const p = memory.allocate_sync(512, 256, who);
                void* const q = memory.allocate(cudaStreamPerThread, 1, 256, who);
                memory.deallocate_sync(p, 512);
                memory.deallocate(cudaStreamPerThread, q, 1);
            }
            void* const held = memory.allocate_sync(4096, 256, who);
            for (++ready; ready != threads;) std::this_thread::yield();  // every thread holds a block
            memory.deallocate_sync(held, 4096);
        });
    for (std::thread& t : workers) t.join();
    usage_report const seen = memory.report();
    CHECK(seen.peak == threads * 4096);
    CHECK(of(seen, "odd").at_peak == threads / 2 * 4096);
    CHECK(of(seen, "even").peak == threads / 2 * 4096);
    CHECK(seen.allocations == threads * 1001);
    CHECK(seen.releases == threads * 1001);
    CHECK(seen.live.empty());
}

TEST_CASE("measured below a pool counts its segments, and above a pool the users' blocks",
          "[guard][measured]") {
    measured<> below;
    cuota::scoped_pool pool{cuota::any_resource{below}};
    measured over{pool.resource()};
    CHECK(over.granularity() == 256);
    void* const p = over.allocate_sync(10'000, 256, as("weights"));
    void* const q = over.allocate_sync(100, 256, as("weights"));
    over.deallocate_sync(p, 10'000);
    over.deallocate_sync(q, 100);
    CHECK(over.report().peak == 10'240 + 256);
    CHECK(below.report().peak == pool.stats().peak_reserved);
    CHECK(below.report().live_bytes() == pool.stats().reserved);
    pool.close();
    CHECK(below.report().live.empty());
}

TEST_CASE("a pool may free measured memory within another request", "[guard][measured]") {
    budget b{"b", 1_MiB};
    measured below{cuota::budgeted<>{b}};
    cuota::scoped_pool idle{
        b, cuota::any_resource{measured<cuota::pinned_memory>{}}, {.initial_size = 1_MiB}};
    void* const p = below.allocate_sync(1_MiB);  // the pool releases its segment, through measured memory
    CHECK(below.report().peak == 1_MiB);
    CHECK(idle.stats().reserved == 0);
    below.deallocate_sync(p, 1_MiB);
}
