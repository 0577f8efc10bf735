// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Runs whole programs on a host without memory. Each request of operator new, on any thread, fails in one run: alone in the first mode
// (or each CUOTA_TEST_DIVISORth), with all later requests in the second (every fifth request in the suite); all of them with
// CUOTA_STRESS. A program continues with the right values or throws std::bad_alloc, and releases all its memory in both cases.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/append_buffer.hpp>
#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_scalar.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/released_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/device_resident_dataset.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budget_alert.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/guarded.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/snapshot/snapshot.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/failing_heap.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::word;

namespace simulator = cuota::simulator;

namespace {

using words = cuota::device_buffer<word>;

// Unlike a check of Catch's, it may be made while the host has no memory.
struct wrong_value {
    unsigned line;
};
void expect(bool right, cuota::source_location where = cuota::source_location::current()) {
    if (!right) throw wrong_value{where.line};
}

struct add {
    cuota::device_span<word> to;
    word by;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += by; }
};
void add_to(words& all, cuota::stream const& s, word by) {
    cuota::for_each_index(s, all.size(), add{all.write(s), by});
}
bool holds(words const& all, cuota::stream const& s, word value) {
    return support::all_are(all.to_vector(s), value);
}

struct append_all {
    cuota::device_appender<word> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to.push_back(static_cast<word>(i)); }
};

// The budgets that a program charges; both hold 0 bytes before and after it.
struct accounts {
    cuota::budget device{"device", 32_MiB};
    cuota::budget host{"host", 32_MiB};
};

// ---- the programs ----

void leases_over_streams(accounts& to) {
    cuota::scoped_pool pool{to.device};
    cuota::stream const s, t;
    {
        words x{5'000, 1u, s, pool, "x"};
        words y{60'000, 2u, t, pool};
        add_to(x, t, 1);
        expect(holds(x, s, 2));
        y.resize(80'000, 2u);
        words const z = y.clone(s);
        x.copy_from(y, {0, 100, 50}, t);
        expect(holds(z, t, 2));
    }
    (void)pool.trim();
}

void blocks_of_many_streams(accounts& to) {
    cuota::scoped_pool pool{to.device, {.growth = cuota::pool_growth::segments}};
    cuota::stream const streams[3];
    std::vector<words> all;
    for (std::size_t i = 0; i != 24; ++i) all.emplace_back(1000 + 500 * i, 7u, streams[i % 3], pool);
    for (std::size_t i = 0; i != 24; i += 2) words const gone{std::move(all[i])};
    expect(holds(all[1], streams[0], 7));
    all.clear();
    words const large{300'000, 3u, streams[0], pool};
    expect(holds(large, streams[1], 3));
}

void refusals(accounts& to) {
    cuota::budget limited{"limited", 8_MiB, to.device};
    cuota::scoped_pool pool{limited};
    cuota::scoped_pool idle{limited};
    cuota::stream const s;
    { words const gone{500'000, s, idle, cuota::no_init}; }
    std::size_t cached = 1_MiB;
    limited.charge(cached);
    struct refund_rest {
        cuota::budget account;
        std::size_t& bytes;
        ~refund_rest() { account.refund(bytes); }
    } const rest{limited, cached};
    cuota::reclaimer const cache{limited, "cache", [&](std::size_t) { return cached; },
                                 [&](std::size_t) {
                                     limited.refund(cached);
                                     return std::exchange(cached, 0);
                                 }};
    std::size_t crossings = 0;
    cuota::budget_alert const watch{
        limited, {0.75}, 0.1, [&](cuota::alert_event const&) { ++crossings; }, {.falling = true}};
    words const x{500'000, 1u, s, pool, "x"};
    words const y{1'400'000, s, pool, cuota::no_init, "y"};  // for which others release memory
    try {
        words const z{1'000'000, s, pool, cuota::no_init, "z"};
        expect(false);
    } catch (cuota::budget_exceeded const& refused) {
        expect(std::string{refused.what()}.starts_with("cuota::budget_exceeded: "));
        expect(limited.last_refusal().has_value());
    }
    auto reserved = to.device.reserve(1000);
    reserved.grow(24);
    reserved.as_budget().charge(512);
    reserved.as_budget().refund(512);
    expect(crossings > 0);
    expect(holds(x, s, 1));
}

void frames_and_steps(accounts& to) {
    cuota::scoped_pool pool{to.device};
    cuota::stream const s, t;
    words const kept{100, 9u, s, pool.persistent()};
    for (int i = 0; i != 3; ++i) {
        auto step = pool.begin_step();
        words const a{5'000, 1u, s, step};
        auto frame = pool.frame();
        words b{3'000, 2u, s, frame};
        (void)frame.allocate(t, 100'000);
        void* const block = frame.allocate(s, 500);
        frame.deallocate(t, block, 500);
        auto inner = frame.nested();
        (void)inner.allocate(s, 777);
        add_to(b, t, 1);
        expect(holds(b, s, 3));
    }
    expect(holds(kept, t, 9));
}

void graphs(accounts& to) {
    cuota::scoped_pool pool{to.device};
    cuota::stream const s, t;
    words x{5'000, 1u, s, pool};
    auto graph = cuota::capture({s, t}, [&] {
        words scratch{5'000, 1u, s, pool};
        add_to(scratch, s, 1);
        add_to(x, t, 2);
    });
    graph.launch(s);
    graph.launch(t);
    expect(holds(x, s, 5));
}

void loader(accounts& to) {
    std::vector<word> numbers(300);
    for (std::size_t i = 0; i != numbers.size(); ++i) numbers[i] = static_cast<word>(i);
    cuota::batch_loader from{cuota::memory_dataset{"numbers", std::move(numbers)},
                             {.batch_size = 16,
                              .device_budget = to.device,
                              .pinned_budget = to.host,
                              .seed = 1,
                              .workers = 2,
                              .time_copies = true,
                              .reclaim_priority = 1}};
    cuota::stream const s;
    for (std::uint64_t epoch = 0; epoch != 2; ++epoch) {
        for (cuota::batch b : from.epoch(epoch)) {
            auto const view = b.view<word>(s);
            std::vector<word> const seen = support::words(s, view.data(), view.bytes());
            for (std::size_t i = 0; i != seen.size(); ++i) expect(seen[i] == b.samples()[i]);
        }
        (void)from.stats();
        if (epoch == 0) {  // it gives its slots back, and takes them again
            to.device.charge(to.device.limit());
            to.device.refund(to.device.limit());
        }
    }
    from.close();
}

void ragged_loader(accounts& to) {
    std::vector<word> rows(500, 4u);
    std::vector<std::uint64_t> begins{0};
    while (begins.back() < 495) begins.push_back(begins.back() + begins.size() % 5);
    begins.push_back(500);
    cuota::batch_loader from{
        cuota::ragged_dataset{cuota::memory_dataset{"rows", std::move(rows)}, std::move(begins)},
        {.batch_size = 20,
         .max_rows = 60,
         .device_budget = to.device,
         .pinned_budget = to.host,
         .workers = 2}};
    cuota::stream const s;
    auto epoch = from.epoch(0);
    for (int i = 0; i != 3; ++i) {
        auto const b = epoch.next();
        expect(b.has_value());
        auto const view = b->view<word>(s);
        expect(support::all_are(support::words(s, view.data(), view.bytes()), 4));
    }
}

void resident(accounts& to) {
    cuota::device_resident_dataset const all{
        cuota::memory_dataset{"numbers", std::vector<word>(300, 6u)},
        {.batch_size = 50, .device_budget = to.device, .pinned_budget = to.host}};
    expect(all.size() == 300);
}

void transfers(accounts& to) {
    cuota::scoped_pool pool{to.device};
    cuota::stream const s, t;
    words x{5'000, 1u, s, pool};
    cuota::staging_ring ring{2, 4096, to.host};
    std::vector<word> const values(5'000, 2u);
    cuota::upload<word>(values, x, ring, s);
    auto const down = cuota::download(x, t, to.host);
    expect(down.get()[4'999] == 2);
    cuota::pinned_buffer<word> up{5'000, to.host};
    for (word& w : up.write()) w = 3;
    up.upload(x, t);
    expect(holds(x, s, 3));
    cuota::mirrored_buffer<word> both{500, s, pool.resource(),
                                      cuota::budgeted<cuota::pinned_memory>{to.host}};
    for (word& w : both.overwrite_host()) w = 1;
    cuota::for_each_index(t, both.size(), add{both.write(t), 4});
    both.evict_to_host(t);
    both.release_host();
    both.prefetch_to_device(s);
    expect(both.read_host()[499] == 5);
}

void appended_and_released(accounts& to) {
    cuota::scoped_pool pool{to.device};
    cuota::stream const s, t;
    cuota::append_buffer<word> found{1'000, s, pool, "found"};
    cuota::for_each_index(t, 600, append_all{found.append(t)});
    expect(found.to_vector(s).size() == 600);
    cuota::device_scalar<word> number{3, s, pool};
    expect(number.get(t) == 3);
    words x{700, 5u, s, pool};
    auto released = x.release();
    released.used_on(t);
    cuota::raw_memory const raw = std::move(released).release();
    raw.deleter(raw.context);
}

void guards_and_reports(accounts& to) {
    cuota::recorder const recorder{to.device, {.capacity = 256}};
    cuota::scoped_pool pool{to.device, {.name = "pool"}};
    cuota::stream const s, t;
    cuota::tracked<cuota::pool_resource> tracked{pool.resource(), "tracked"};
    cuota::guarded<cuota::pool_resource> guarded{pool.resource()};
    words x{500, 1u, s, tracked, "x"};
    words y{500, 2u, t, guarded, "y"};
    add_to(y, s, 1);
    guarded.verify(t);
    expect(tracked.live().blocks.size() == 1);
    {
        auto const same = tracked.expect_no_growth();
        words const z{500, 1u, t, tracked, "z"};
    }
    expect(!cuota::summary(cuota::snapshot_of(to.device)).empty());
    (void)recorder.read();  // errors that it did not see, for lack of memory, were reported
    expect(holds(y, t, 3));
}

void planned_steps(accounts& to) {
    cuota::scoped_pool pool{to.device};
    cuota::stream const s, t;
    cuota::step_plan plan{pool.resource()};
    for (word i = 0; i != 4; ++i) {
        auto const step = plan.begin();
        words x{5'000, i, s, plan.resource()};
        words const y{7'000, 1u, t, plan.resource()};
        add_to(x, t, 1);
        expect(holds(x, s, i + 1));
        expect(holds(y, s, 1));
        if (i == 2) words const deviates{9'000, 1u, t, plan.resource()};
    }
}

struct program {
    char const* name;
    void (*run)(accounts& to);
};
constexpr program programs[]{{"leases over streams", leases_over_streams},
                             {"blocks of many streams", blocks_of_many_streams},
                             {"refusals", refusals},
                             {"frames and steps", frames_and_steps},
                             {"graphs", graphs},
                             {"loader", loader},
                             {"ragged loader", ragged_loader},
                             {"resident data", resident},
                             {"transfers", transfers},
                             {"append_buffer, device_scalar, released_buffer", appended_and_released},
                             {"guards and reports", guards_and_reports},
                             {"planned steps", planned_steps}};

// Counts without allocating. A report may be made of what the host had no memory for; a failed CUDA call is a failure here.
class counting_sink {
public:
    counting_sink()
        : before_{cuota::set_error_sink([this](std::exception const& e) {
              if (dynamic_cast<cuota::cuda_error const*>(&e)) ++cuda_errors;
          })} {}
    counting_sink(counting_sink const&) = delete;
    counting_sink& operator=(counting_sink const&) = delete;
    ~counting_sink() { cuota::set_error_sink(std::move(before_)); }

    std::atomic<int> cuda_errors = 0;

private:
    cuota::error_sink before_;
};

}  // namespace

TEST_CASE("when any request for host memory fails, a program continues or throws bad_alloc and leaks nothing",
          "[programs][host_memory][stress]") {
    auto const how = GENERATE(support::heap_failure::once, support::heap_failure::stays);
    program const& one = programs[GENERATE(range(std::size_t{0}, std::size(programs)))];
    INFO(
        one.name << (how == support::heap_failure::once ? ", one request fails" : ", all further ones fail"));
    support::machine const machine;
    counting_sink const sink;
    accounts to;
    std::size_t const stride = std::getenv("CUOTA_STRESS")           ? 1
                               : how == support::heap_failure::stays ? 5
                                                                     : support::divisor();
    std::size_t threw = 0;
    std::size_t allowed = 0;
    for (bool is_whole = false; !is_whole; allowed += stride) {
        REQUIRE(allowed < 2'000);
        bool is_refused = false;
        unsigned wrong_at = 0;
        std::optional<std::string> other;
        {
            std::exception_ptr met;
            {
                support::failing_heap_of_all const heap{allowed, how};
                try {
                    one.run(to);
                } catch (std::bad_alloc const&) { is_refused = true; } catch (...) {
                    met = std::current_exception();
                }
                is_whole = heap.refused() == 0;
            }
            if (met) try {
                    std::rethrow_exception(met);
                } catch (wrong_value const& wrong) {
                    wrong_at = wrong.line;
                } catch (std::exception const& e) { other = e.what(); }
        }
        threw += is_refused;
        INFO(allowed << " requests succeed" << (other ? ", threw " + *other : ""));
        REQUIRE_FALSE(other);
        REQUIRE(wrong_at == 0);  // the line of what was expected
        REQUIRE((!is_whole || !is_refused));
        REQUIRE(to.device.held() == 0);
        REQUIRE(to.host.held() == 0);
        REQUIRE(simulator::live().total() == 0);
        REQUIRE(sink.cuda_errors == 0);
    }
    CHECK(threw * stride > 3);
    for (std::string const& told : simulator::misuse_reports()) UNSCOPED_INFO(told);
    auto const misuse = simulator::misuse();
    CHECK(misuse.total() ==
          misuse.bad_captures);  // a capture that an exception ends is thrown away with its forks
}
