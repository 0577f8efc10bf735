// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Forks of a program whose threads charge and allocate. CUOTA_STRESS=<operations> makes one fork per 10'000 operations, at most 1000.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budget_alert.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/frame.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/traffic.hpp"

namespace simulator = cuota::simulator;
using namespace cuota::literals;

namespace {

int forks() {
    char const* const told = std::getenv("CUOTA_STRESS");
    return told ? static_cast<int>(std::clamp(std::atoll(told) / 10'000, 1LL, 1000LL)) : 30;
}

struct owners {
    cuota::budget account{"program", 256_MiB};
    cuota::scoped_pool pool{account};
    cuota::stream stream{};
    cuota::event event{stream};
    cuota::reservation ahead = account.reserve(1_MiB, "ahead");
    cuota::budget_alert watched{
        account, {cuota::alert_threshold{0.5}}, 0.1, [](cuota::alert_event const&) {}};
    cuota::reclaimer cache{account, "cache", [](std::size_t) { return std::size_t{0}; },
                           [](std::size_t) { return std::size_t{0}; }};
    cuota::frame frame = pool.frame();
    cuota::step_plan plan{cuota::any_resource{pool}};
    cuota::tracked<cuota::budgeted<cuota::device_memory>> tracked{
        cuota::budgeted<cuota::device_memory>{account, cuota::device_memory{}}};
    void* block = pool.allocate(stream, 100'000);
    void* in_frame = frame.allocate(stream, 1'000);
    void* direct = tracked.allocate(stream, 10'000);

    void give_back() {
        pool.deallocate(stream, block, 100'000);
        frame.deallocate(stream, in_frame, 1'000);
        tracked.deallocate(stream, direct, 10'000);
    }
};

// Returns a function that allocates, frees and queries, on a stream of its own.
auto user_of(owners& of) {
    return [&of, s = std::make_shared<cuota::stream>()](std::size_t i) {
        std::size_t const bytes = i % 3 == 0 ? 1'000 : 200'000;
        void* const p = of.pool.allocate(*s, bytes);
        of.pool.deallocate(*s, p, bytes);
        of.account.charge(64);
        of.account.refund(64);
        if (i % 16 == 0) (void)of.pool.stats(), (void)of.account.info();
        if (i % 64 == 0) of.tracked.deallocate(*s, of.tracked.allocate(*s, 512), 512);
        (void)cuota::tag::named("t" + std::to_string(i % 100));
    };
}

// Four threads that allocate, free and query.
class traffic : support::traffic {
public:
    explicit traffic(owners& of)
        : support::traffic{100, user_of(of), user_of(of), user_of(of), user_of(of)} {}
};

}  // namespace

TEST_CASE("a forked child that only calls exit ends, whatever the parent's threads do",
          "[pool][fork][stress]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("a forked child that only calls exit ends*")) return;
    static owners all;
    static thread_local std::optional<cuota::stream> of_thread{std::in_place};
    int wrong = 0;
    {
        traffic const beside{all};
        for (int i = 0; i != forks(); ++i) wrong += support::status_of_child([] { std::exit(0); }) != 0;
    }
    all.give_back();
    std::exit(wrong == 0 ? 0 : 1);
}

TEST_CASE("in a forked child every owner is destroyed without a CUDA call or a report", "[pool][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    std::optional<owners> all{std::in_place};
    {
        traffic const beside{*all};
        for (int i = 0; i != 10; ++i) {
            int const status = support::status_of_child([&] {
                static std::atomic<int> reports = 0;
                cuota::set_error_sink([](std::exception const&) { ++reports; });
                auto const calls = simulator::calls();
                all->give_back();
                all.reset();
                ::_exit(reports != 0 ? 2 : simulator::calls() != calls ? 3 : 0);
            });
            REQUIRE(WIFEXITED(status));
            CHECK(WEXITSTATUS(status) == 0);
        }
    }
    all->give_back();
    all->stream.synchronize();
}

TEST_CASE("in a forked child requests to the parent's objects are misuse that names fork", "[pool][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    owners all;
    {
        traffic const beside{all};
        for (int i = 0; i != 10; ++i) {
            int const status = support::status_of_child([&] {
                static std::atomic<int> reports = 0;
                cuota::set_error_sink([](std::exception const& e) {
                    reports += std::string{e.what()}.find("fork()") != std::string::npos;
                });
                int wrong = 0;
                auto const refuse = [&](auto f) { wrong += !support::is_refused_in_child(f); };
                refuse([&] { all.account.charge(64); });
                refuse([&] { (void)all.account.held(); });
                refuse([&] { (void)all.account.reserve(64); });
                refuse([&] { (void)cuota::budget{"inside", 100, all.account}; });
                refuse([&] { all.ahead.grow(64); });
                refuse([&] { all.ahead.shrink(64); });
                refuse([&] { (void)all.pool.allocate(all.stream, 1'000); });
                refuse([&] { (void)all.pool.allocate(all.stream, 200'000); });
                refuse([&] { (void)all.pool.stats_by_tag(); });
                refuse([&] { (void)all.pool.frame().allocate(all.stream, 100); });
                refuse([&] { all.pool.close(); });
                refuse([&] { (void)all.frame.allocate(all.stream, 100); });
                refuse([&] { (void)all.plan.begin(); });
                refuse([&] { (void)all.tracked.allocate(all.stream, 100); });
                refuse([&] { cuota::stream const s; });
                refuse([&] { (void)cuota::device_memory{}.allocate_sync(100, 256); });
                refuse([&] { all.stream.synchronize(); });
                if (wrong != 0) ::_exit(wrong);
                // Functions that cannot throw report an error and return 0.
                wrong += all.account.try_charge(64);
                wrong += all.account.available() != 0;
                wrong += all.pool.stats().live_blocks != 0;
                wrong += all.pool.largest_free() != 0;
                wrong += all.pool.trim() != 0;
                wrong += reports != 5;
                if (wrong != 0) ::_exit(100 + wrong);
                cuota::budget own{"child", 100};  // the child can use objects that it makes itself
                own.charge(60);
                ::_exit(own.held() == 60 && own.try_charge(40) && !own.try_charge(1) ? 0 : 200);
            });
            REQUIRE(WIFEXITED(status));
            CHECK(WEXITSTATUS(status) == 0);
        }
    }
    all.give_back();
    all.stream.synchronize();
}

TEST_CASE("a forked child may use CUDA when its parent has not used it", "[pool][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("a forked child may use CUDA*")) return;
    cuota::budget of_parent{"parent", 100};
    of_parent.charge(10);
    int const status = support::status_of_child([] {
        cuota::budget account{"child", 64_MiB};
        {
            cuota::scoped_pool pool{account};
            cuota::stream const s;
            pool.deallocate(s, pool.allocate(s, 100'000), 100'000);
            s.synchronize();
        }
        ::_exit(account.held() == 0 ? 0 : 1);
    });
    of_parent.refund(10);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 77);
}
