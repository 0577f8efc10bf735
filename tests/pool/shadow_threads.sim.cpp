// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Random walks of several threads through one pool, on shared streams.
#include <cuota/pool/scoped_pool.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pool/shadowed.hpp"
#include "pool/walker.hpp"
#include "support/catch.hpp"
#include "support/machine.hpp"

using namespace cuota::literals;
using namespace pool_tests;
namespace simulator = cuota::simulator;

namespace {

class exchange {
public:
    // Stores `mine` and returns the block that was there.
    [[nodiscard]] std::optional<held> swap(std::size_t place, std::optional<held> mine) {
        std::scoped_lock const lock{guard_};
        return std::exchange(places_[place % places_.size()], mine);
    }

private:
    std::mutex guard_;
    std::array<std::optional<held>, 8> places_;
};

void run_beside_others(walker& me, cuota::scoped_pool& pool, exchange& between, std::size_t cap,
                       std::uint64_t operations, std::atomic<std::uint64_t>& wrong_releases) {
    auto const allocate = [&] {
        try {
            me.allocate(me.any_stream(), me.any_bytes());
        } catch (cuota::out_of_memory const&) { me.give_any(); }
    };
    auto const hand_over = [&] {
        std::optional<held> mine;
        if (!me.live().empty()) mine = me.drop(me.any_live());
        if (auto const got = between.swap(me.random()(), mine)) me.live().push_back(*got);
    };
    for (std::uint64_t i = 0; i != operations; ++i) {
        std::size_t const dice = me.random()() % 1024;
        bool const more = me.live().size() < 100;
        if (dice < 800 && me.random()() % 8 < (more ? 5 : 3)) allocate();
        else if (dice < 800) me.give_any();
        else if (dice < 900) hand_over();
        else if (dice < 1000) try {
                me.pairs();
            } catch (cuota::out_of_memory const&) { me.give_any(); }
        else if (dice < 1008) wrong_releases += me.give_wrongly();
        else if (dice < 1012) pool.trim(me.random()() % cap);
        else if (dice < 1016) (void)pool.largest_free();
        else if (cuota::pool_stats const s = pool.stats();
                 s.requested > s.allocated || s.allocated > s.reserved || s.reserved > cap)
            throw std::logic_error{"the figures are of no one moment"};
    }
}

}  // namespace

TEST_CASE("a pool matches its shadow after random walks of several threads on shared streams",
          "[pool][scoped_pool][threads][stress]") {
    constexpr std::size_t threads = 4;
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    std::size_t const count = GENERATE(1U, 4U, 16U);
    bool const by_pages = GENERATE(false, true);
    std::size_t const cap = by_pages ? 16_MiB : 4_MiB;
    std::uint64_t const operations = by_pages ? share_of(1, 400) : share_of(6, 2'000);
    shadow beside;
    cuota::budget budget{"walk", cap};
    streams on{count};
    cuota::scoped_pool pool = make_pool(budget, beside, by_pages ? grown_by::pages : grown_by::segments, cap,
                                        {}, count == 1 ? 2_MiB : 8_MiB);
    exchange between;
    std::vector<walker> walkers;
    for (std::size_t t = 0; t != threads; ++t)
        walkers.emplace_back(pool, beside, on, 10 * count + t, by_pages ? sizes_about_a_page : small_sizes);
    std::atomic<std::uint64_t> wrong_releases = 0;
    std::mutex guard;
    std::string failure;

    for (int round = 0; round != 4; ++round) {
        std::vector<std::thread> all;
        for (walker& me : walkers)
            all.emplace_back([&] {
                try {
                    run_beside_others(me, pool, between, cap, operations / threads / 4, wrong_releases);
                } catch (std::exception const& e) {
                    std::scoped_lock const lock{guard};
                    failure = e.what();
                }
            });
        for (std::thread& t : all) t.join();
        REQUIRE(failure.empty());
        REQUIRE(beside.wrong().empty());
        auto const is = pool.stats();
        auto expected = beside.expected();
        CHECK(is.peak_requested >= expected.peak_requested);
        CHECK(is.peak_allocated >= expected.peak_allocated);
        CHECK(is.peak_reserved <= cap);
        expected.peak_requested = is.peak_requested;  // threads report to the shadow a little later
        expected.peak_allocated = is.peak_allocated;
        expected.peak_reserved = is.peak_reserved;
        INFO(text_of(is) << "is not " << text_of(expected));
        REQUIRE(is_same(is, expected));
        CHECK(budget.held() == is.reserved);
        CHECK(simulator::live().device_bytes == is.reserved);
    }
    for (std::size_t place = 0; place != 8; ++place)
        if (auto const left = between.swap(place, std::nullopt)) walkers[0].give(*left);
    for (walker& me : walkers) me.give_all();
    pool.trim();
    CHECK(simulator::live().device_bytes == 0);
    CHECK(machine.errors.take().size() == wrong_releases);
    no_race();
    CHECK(pool.stats().thread_cache_hits > 0);
    tell(by_pages ? "threads, pages" : "threads", count,
         std::to_string(pool.stats().thread_cache_hits) + " taken again, " +
             std::to_string(pool.stats().stream_waits) + " waits");
}
