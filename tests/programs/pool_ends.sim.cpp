// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Pools that end while threads allocate: earlier allocations stay valid, later requests are misuse, and all memory is freed.
// For as long as one likes: CUOTA_STRESS=<allocations, in all>.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::word;

namespace simulator = cuota::simulator;

namespace {

constexpr std::size_t threads = 4;
constexpr std::size_t requests = 60;  // of each thread on each pool

struct counts {
    std::atomic<std::size_t> made = 0, refused = 0, after_its_end = 0, wrong = 0;
    std::mutex guard;
    std::string other;  // the first error of a type that must not come
};

// Buffers of one thread, which outlive the pool and the stream that they are at home on; half of them end on another thread.
class allocating_thread {
public:
    allocating_thread(cuota::any_resource from, std::uint64_t seed, counts& seen)
        : from_{std::move(from)}, draw_{seed}, seen_{seen} {}

    void run(std::atomic<std::size_t>& ready, std::atomic<bool> const& go) {
        {
            cuota::stream const home;
            ++ready;
            go.wait(false);
            for (std::size_t i = 0; i != requests; ++i) request(home);
        }
        cuota::stream const other;
        for (auto const& b : kept_)
            if (draw_() % 4 == 0) look(b, other);
        std::erase_if(kept_, [this](auto const&) { return draw_() % 2 == 0; });
    }

private:
    struct buffer {
        cuota::device_buffer<word> words;
        word value;
    };

    void request(cuota::stream const& home) {
        try {
            std::size_t const count = 1 + draw_() % (draw_() % 10 == 0 ? 300'000 : 2'000);
            auto const value = static_cast<word>(draw_());
            kept_.push_back({cuota::device_buffer<word>{count, value, home, from_}, value});
            ++seen_.made;
            if (draw_() % 2 == 0) std::swap(kept_[draw_() % kept_.size()], kept_.back()), kept_.pop_back();
        } catch (cuota::usage_error const&) { ++seen_.after_its_end; } catch (cuota::out_of_memory const&) {
            ++seen_.refused;
            kept_.clear();
        } catch (std::exception const& e) {
            std::scoped_lock const lock{seen_.guard};
            if (seen_.other.empty()) seen_.other = e.what();
        }
    }
    void look(buffer const& b, cuota::stream const& s) {
        if (!support::all_are(b.words.to_vector(s), b.value)) ++seen_.wrong;
    }

    cuota::any_resource from_;
    std::mt19937_64 draw_;
    counts& seen_;
    std::vector<buffer> kept_;
};

enum class source { pages, segments, async, capped };

std::unique_ptr<cuota::scoped_pool> pool_of(cuota::budget const& account, source from) {
    using pool = cuota::scoped_pool;
    switch (from) {
        case source::pages: return std::make_unique<pool>(account);
        case source::segments:
            return std::make_unique<pool>(account,
                                          cuota::pool_options{.growth = cuota::pool_growth::segments});
        case source::async:
            return std::make_unique<pool>(account, cuota::any_resource{cuota::async_memory{}});
        default: return std::make_unique<pool>(account, cuota::pool_options{.max_size = 4_MiB});
    }
}

std::size_t rounds() {
    char const* const told = std::getenv("CUOTA_STRESS");
    return std::max<std::size_t>(8, told ? std::strtoull(told, nullptr, 10) / (threads * requests)
                                         : support::rounds<std::size_t>(60));
}

}  // namespace

TEST_CASE("a pool may be destroyed while threads allocate from it, and before its buffers and streams",
          "[programs][pool_ends][threads][stress]") {
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    cuota::budget const root{"root", 32_MiB};
    counts seen;
    std::mt19937_64 draw{1};
    std::size_t const all_rounds = rounds();
    for (std::size_t round = 0; round != all_rounds; ++round) {
        INFO("round " << round);
        auto pool = pool_of(root, static_cast<source>(round % 4));
        std::optional<cuota::step_plan> plan{std::in_place, pool->resource()};
        std::vector<allocating_thread> all;
        all.emplace_back(pool->resource(), draw(), seen);
        all.emplace_back(pool->persistent(), draw(), seen);
        all.emplace_back(cuota::tracked<cuota::pool_resource>{pool->resource(), "tracked"}, draw(), seen);
        all.emplace_back(plan->resource(), draw(), seen);
        std::atomic<std::size_t> ready = 0;
        std::atomic<bool> go = false;
        std::vector<std::thread> running;
        for (auto& one : all) running.emplace_back([&] { one.run(ready, go); });
        while (ready != threads) std::this_thread::yield();
        go = true;
        go.notify_all();
        for (std::size_t made = seen.made, until = made + draw() % 200, looks = 0;
             seen.made < until && looks != 2'000; ++looks)
            std::this_thread::yield();
        if (round % 3 == 0) try {
                pool->close();
            } catch (cuota::usage_error const&) {}
        plan.reset();
        pool.reset();
        for (std::thread& t : running) t.join();
        if (round % 2 == 0) all.clear();
        else std::thread{[&] { all.clear(); }}.join();

        for (std::string const& told : machine.errors.take()) {
            INFO(told);
            REQUIRE(told.starts_with("cuota::usage_error"));  // that names what was alive
        }
        REQUIRE(seen.other.empty());
        REQUIRE(seen.wrong == 0);
        REQUIRE(root.held() == 0);
        REQUIRE(simulator::live().device_bytes == 0);
    }
    std::string const text = std::to_string(seen.made) + " made, " + std::to_string(seen.refused) +
                             " refused, " + std::to_string(seen.after_its_end) + " asked for after the end";
    INFO(text);
    if (std::getenv("CUOTA_STRESS")) WARN(text);
    for (std::string const& told : simulator::race_reports()) UNSCOPED_INFO(told);
    CHECK(simulator::misuse().total() == 0);
    CHECK(seen.made > all_rounds);
    CHECK(seen.after_its_end > 0);
}
