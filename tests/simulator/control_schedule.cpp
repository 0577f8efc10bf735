// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include <unistd.h>

// The seeded schedule: work runs as late as the rules of order allow, in an order that the seed determines.

using namespace control;

namespace {

constexpr std::uint64_t seeds = 40;

/// A machine with the late schedule, and its streams.
struct late_machine {
    explicit late_machine(std::uint64_t seed, std::size_t stream_count = 2) {
        sim::set_schedule(sim::schedule::late, seed);
        for (std::size_t i = 0; i < stream_count; ++i) streams.push_back(new_stream(cudaStreamNonBlocking));
    }
    ~late_machine() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        for (auto const s : streams) CHECK(cudaStreamDestroy(s) == cudaSuccess);
    }
    late_machine(late_machine const&) = delete;
    late_machine& operator=(late_machine const&) = delete;

    machine m;
    std::vector<cudaStream_t> streams;
};

/// Returns the result of `observe` from a run in which only the seed decided. On a busy machine that may need several runs.
template <class Observe>
auto by_seed_alone(Observe observe) {
    for (;;) {
        auto const before = sim::current_schedule().unseeded;
        auto const seen = observe();
        if (sim::current_schedule().unseeded == before) return seen;
    }
}

/// A random program of kernels, host functions and events on several streams, enqueued by one host thread.
class random_program {
public:
    explicit random_program(unsigned seed) : draw_{seed} {}

    /// Returns the operations in the order in which they ran.
    std::vector<int> run(std::uint64_t schedule_seed, std::size_t stream_count, int length) {
        late_machine late{schedule_seed, stream_count};
        last_.assign(stream_count, -1);
        std::vector<cudaEvent_t> const events{new_event(), new_event(), new_event()};
        std::vector<std::vector<int>> recorded(events.size());
        std::vector<std::vector<int>> open(stream_count);  // the predecessors of the stream's next operation
        for (int i = 0; i < length; ++i) {
            auto const on = draw_() % stream_count;
            auto const event = draw_() % events.size();
            auto const s = late.streams[on];
            switch (draw_() % 8) {
                case 0: (void)cudaStreamSynchronize(s); break;
                case 1: (void)cudaStreamQuery(s); break;
                case 2:
                    CHECK(cudaEventRecord(events[event], s) == cudaSuccess);
                    recorded[event] = open[on];
                    if (last_[on] >= 0) recorded[event].push_back(last_[on]);
                    break;
                case 3:
                    CHECK(cudaStreamWaitEvent(s, events[event], 0) == cudaSuccess);
                    open[on].insert(open[on].end(), recorded[event].begin(), recorded[event].end());
                    break;
                default: enqueue(s, on, i, draw_() % 2 == 0, std::exchange(open[on], {})); break;
            }
        }
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        for (auto const e : events) CHECK(cudaEventDestroy(e) == cudaSuccess);
        return order_;
    }

    /// Returns pairs of operations of which the first had to precede the second.
    [[nodiscard]] std::vector<std::pair<int, int>> const& promised() const { return promised_; }

private:
    void enqueue(cudaStream_t s, std::size_t on, int name, bool kernel, std::vector<int> after) {
        if (last_[on] >= 0) after.push_back(last_[on]);
        for (int const first : after) promised_.emplace_back(first, name);
        last_[on] = name;
        if (kernel) {
            REQUIRE(launch(s, "k", [this, name] { note(name); }) == cudaSuccess);
        } else {
            auto* const data = new std::function<void()>{[this, name] { note(name); }};
            auto const call = [](void* f) {
                std::unique_ptr<std::function<void()>> const mine{static_cast<std::function<void()>*>(f)};
                (*mine)();
            };
            REQUIRE(cudaLaunchHostFunc(s, call, data) == cudaSuccess);
        }
    }

    void note(int name) {
        std::lock_guard lock{mutex_};
        order_.push_back(name);
    }

    std::mt19937 draw_;
    std::mutex mutex_;
    std::vector<int> order_, last_;
    std::vector<std::pair<int, int>> promised_;
};

std::vector<int> order_of(std::uint64_t schedule_seed) {
    return by_seed_alone([&] { return random_program{7}.run(schedule_seed, 12, 400); });
}

constexpr char const* needs_late_work = "under ThreadSanitizer each stream has a worker of its own";

std::size_t place_of(std::vector<int> const& order, int name) {
    return static_cast<std::size_t>(std::find(order.begin(), order.end(), name) - order.begin());
}

}  // namespace

TEST_CASE("with one host thread, the seed determines the order of all work", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    auto const first = order_of(1);
    CHECK(first.size() > 150);
    CHECK(order_of(1) == first);
    std::set<std::vector<int>> different;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) different.insert(order_of(seed));
    CHECK(different.size() == 10);
}

TEST_CASE("the late schedule keeps all guaranteed order", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    for (unsigned seed = 1; seed <= seeds; ++seed) {
        random_program program{seed};
        auto const order = program.run(seed, 1 + seed % 7, 120);
        for (auto const& [first, second] : program.promised()) {
            INFO("seed " << seed << ": " << first << " before " << second);
            CHECK(place_of(order, first) < place_of(order, second));
            CHECK(place_of(order, second) < order.size());
        }
    }
}

TEST_CASE("the late schedule runs no work before a host thread waits", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    bool const early = by_seed_alone([] {
        late_machine late{1};
        std::atomic<bool> ran{false};
        REQUIRE(launch(late.streams[0], "k", [&] { ran = true; }) == cudaSuccess);
        bool const before = ran;
        REQUIRE(cudaStreamSynchronize(late.streams[0]) == cudaSuccess);
        CHECK(ran);
        return before;
    });
    CHECK_FALSE(early);
}

TEST_CASE("a wait runs the required work, and more with other seeds", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    std::set<int> others;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        others.insert(by_seed_alone([seed] {
            std::atomic<int> ran{0};
            late_machine late{seed, 4};
            for (auto const s : late.streams) REQUIRE(launch(s, "k", [&] { ++ran; }) == cudaSuccess);
            REQUIRE(cudaStreamSynchronize(late.streams[0]) == cudaSuccess);
            return ran.load();
        }));
    CHECK(others.count(1) == 1);  // only itself
    CHECK(others.size() >= 3);
}

TEST_CASE("a missing wait between two streams is visible in both directions", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    std::set<int> seen;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        late_machine late{seed};
        int value = 0, result = -1;
        REQUIRE(launch(late.streams[0], "write", [&] { value = 1; }) == cudaSuccess);
        REQUIRE(launch(late.streams[1], "read", [&] { result = value; }) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        seen.insert(result);
    }
    CHECK(seen == std::set<int>{0, 1});
}

TEST_CASE("a loop of queries ends, and its first query returns not ready", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        late_machine late{seed, 3};
        auto const done = new_event();
        for (int i = 0; i < 20; ++i)
            for (auto const s : late.streams) REQUIRE(launch(s, "k", [] {}) == cudaSuccess);
        REQUIRE(cudaEventRecord(done, late.streams[0]) == cudaSuccess);
        CHECK(cudaEventQuery(done) == cudaErrorNotReady);
        while (cudaEventQuery(done) != cudaSuccess) {}
        CHECK(cudaStreamQuery(late.streams[0]) == cudaSuccess);
        while (cudaStreamQuery(late.streams[1]) != cudaSuccess) {}
        CHECK(cudaEventDestroy(done) == cudaSuccess);
    }
}

TEST_CASE("a program that waits without CUDA continues", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    std::promise<void> all;
    std::atomic<int> left{20};
    late_machine late{3};
    auto const before = sim::current_schedule().unseeded;
    for (int i = 0; i < 10; ++i)
        for (auto const s : late.streams)
            REQUIRE(launch(s, "k", [&] {
                        if (--left == 0) all.set_value();
                    }) == cudaSuccess);
    all.get_future().wait();
    CHECK(sim::current_schedule().unseeded >= before + 20);
}

TEST_CASE("work also runs if the program only queries or enqueues", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    std::atomic<bool> ran{false};
    late_machine late{4};
    REQUIRE(launch(late.streams[0], "k", [&] { ran = true; }) == cudaSuccess);
    SECTION("querying the free memory") {
        std::size_t free = 0, total = 0;
        while (!ran) (void)cudaMemGetInfo(&free, &total);
    }
    SECTION("enqueuing more work") {
        while (!ran) {
            REQUIRE(launch(late.streams[1], "k", [] {}) == cudaSuccess);
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
    }
    SECTION("querying the time between events") {
        auto const begin = new_event(), end = new_event();
        REQUIRE(cudaEventRecord(begin, late.streams[0]) == cudaSuccess);
        REQUIRE(cudaEventRecord(end, late.streams[0]) == cudaSuccess);
        float ms = -1;
        while (cudaEventElapsedTime(&ms, begin, end) == cudaErrorNotReady) {}
        CHECK(ms >= 0);
        CHECK(cudaEventDestroy(begin) == cudaSuccess);
        CHECK(cudaEventDestroy(end) == cudaSuccess);
    }
}

TEST_CASE("work that waits for other streams or for the host does not block", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        std::promise<void> second, third, host;
        late_machine late{seed, 3};
        REQUIRE(launch(late.streams[0], "first", [&] { second.get_future().wait(); }) == cudaSuccess);
        REQUIRE(launch(late.streams[1], "second", [&] {
                    third.get_future().wait();
                    second.set_value();
                }) == cudaSuccess);
        REQUIRE(launch(late.streams[2], "third", [&] {
                    host.get_future().wait();
                    third.set_value();
                }) == cudaSuccess);
        CHECK(cudaStreamQuery(late.streams[0]) == cudaErrorNotReady);
        auto const free = new_stream(cudaStreamNonBlocking);
        REQUIRE(launch(free, "k", [] {}) == cudaSuccess);
        CHECK(cudaStreamSynchronize(free) == cudaSuccess);  // no matter what else has begun
        host.set_value();
        CHECK(cudaStreamSynchronize(late.streams[0]) == cudaSuccess);
        CHECK(cudaStreamDestroy(free) == cudaSuccess);
    }
}

TEST_CASE("several host threads can wait, and each stream runs one operation at a time",
          "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        late_machine late{seed, 4};
        std::array<std::atomic<int>, 4> inside{}, runs{};
        std::atomic<bool> twice{false};
        auto const work = [&](unsigned first) {
            for (unsigned i = first; i < first + 100; ++i) {
                auto const on = i % 4;
                (void)launch(late.streams[on], "k", [&, on] {
                    if (++inside[on] != 1) twice = true;
                    ++runs[on];
                    std::this_thread::yield();
                    --inside[on];
                });
                if (i % 5 == 0) (void)cudaStreamSynchronize(late.streams[i / 5 % 4]);
                if (i % 17 == 0) (void)cudaStreamQuery(late.streams[i / 17 % 4]);
            }
            (void)cudaDeviceSynchronize();
        };
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 3; ++i) threads.emplace_back(work, i);
        for (auto& t : threads) t.join();
        CHECK_FALSE(twice);
        CHECK(runs[0] + runs[1] + runs[2] + runs[3] == 300);
    }
}

TEST_CASE("holds, jitter and lost devices work with the late schedule", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    std::promise<void> done;
    late_machine late{5};
    std::atomic<int> ran{0};
    auto const count = [&] { ++ran; };
    SECTION("a hold") {
        std::thread waiting;
        {
            sim::hold closed;
            REQUIRE(launch(late.streams[0], "k", count) == cudaSuccess);
            CHECK(cudaStreamQuery(late.streams[0]) == cudaErrorNotReady);
            CHECK_THROWS_AS(sim::set_schedule(sim::schedule::workers), std::logic_error);
            waiting = std::thread{[&] { (void)cudaStreamSynchronize(late.streams[0]); }};
            std::this_thread::sleep_for(std::chrono::milliseconds{60});
            CHECK(ran == 0);
        }
        waiting.join();
        CHECK(ran == 1);
    }
    SECTION("the end of a hold without a wait") {
        {
            sim::hold closed;
            REQUIRE(launch(late.streams[0], "k", [&] { done.set_value(); }) == cudaSuccess);
            std::this_thread::sleep_for(std::chrono::milliseconds{60});
        }
        done.get_future().wait();
    }
    SECTION("jitter") {
        sim::set_jitter(1, std::chrono::microseconds{200});
        for (int i = 0; i < 50; ++i) REQUIRE(launch(late.streams[i % 2], "k", count) == cudaSuccess);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(ran == 50);
    }
    SECTION("a lost device") {
        REQUIRE(launch(late.streams[0], "k", count) == cudaSuccess);
        sim::lose_device(0);
        CHECK(cudaStreamSynchronize(late.streams[0]) == cudaErrorDevicesUnavailable);
        CHECK(ran == 0);
        sim::reset();
    }
}

TEST_CASE("the late schedule runs work of destroyed streams, too", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    late_machine late{1, 0};
    int ran = 0;
    for (int i = 0; i < 20; ++i) {
        auto const s = new_stream();
        REQUIRE(launch(s, "k", [&] { ++ran; }) == cudaSuccess);
        CHECK(cudaStreamDestroy(s) == cudaSuccess);
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(ran == 20);
}

TEST_CASE("the schedule changes after all work has run, and a reset restores it", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    machine m;
    auto const usual = sim::current_schedule();
    int ran = 0;
    sim::set_schedule(sim::schedule::late, 11);
    CHECK(sim::current_schedule().how == sim::schedule::late);
    CHECK(sim::current_schedule().seed == 11);
    CHECK(sim::report().find("late:11") != std::string::npos);
    REQUIRE(launch(nullptr, "k", [&] { ++ran; }) == cudaSuccess);
    sim::set_schedule(sim::schedule::workers);
    CHECK(ran == 1);
    REQUIRE(launch(nullptr, "k", [&] { ++ran; }) == cudaSuccess);
    sim::set_schedule(sim::schedule::late, 12);
    CHECK(ran == 2);
    sim::reset();
    CHECK(sim::current_schedule().how == usual.how);
    CHECK(sim::current_schedule().seed == usual.seed);
}

TEST_CASE("a forked child keeps the late schedule", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    late_machine late{2};
    REQUIRE(launch(late.streams[0], "k", [] {}) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(late.streams[0]) == cudaSuccess);
    std::atomic<int> ran{0};
    for (auto const s : late.streams) REQUIRE(launch(s, "k", [&] { ++ran; }) == cudaSuccess);
    auto const child = fork();
    if (child == 0) {
        while (ran != 2) {}  // the parent's queued work, without a wait
        bool good = launch(late.streams[0], "k", [&] { ++ran; }) == cudaSuccess;
        good = good && cudaDeviceSynchronize() == cudaSuccess && ran == 3;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a program whose schedule is set by the environment", "[simulator][schedule]") {
    machine m;
    auto const s = new_stream();
    int ran = 0;
    REQUIRE(launch(s, "k", [&] { ++ran; }) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(ran == 1);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a program with a race whose schedule is set by the environment", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP("ThreadSanitizer reports the race too");
    machine m;
    bool const fatal = std::getenv("CUOTA_TEST_RACE_IS_FATAL") != nullptr;
    sim::set_race_checks(fatal ? sim::race_checks::fatal : sim::race_checks::report);
    auto* const d = device_memory(64);
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    CHECK(cudaMemsetAsync(d, 1, 64, a) == cudaSuccess);
    CHECK(cudaMemsetAsync(d, 2, 64, b) == cudaSuccess);
    CHECK(sim::misuse().races == 1);
    CHECK(sim::race_reports().size() == 1);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

TEST_CASE("the environment can set the schedule and its seed, which are reported", "[simulator][schedule]") {
    if (under_thread_sanitizer) CUOTA_SKIP(needs_late_work);
    auto const run = [](std::string const& variables, char const* test) {
        return run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_SIM_REPORT=stderr " + variables, test);
    };
    auto const* const plain = "a program whose schedule is set by the environment";
    CHECK(run("CUOTA_SIM_SCHEDULE=workers", plain).text.find("schedule=workers") != std::string::npos);
    CHECK(run("CUOTA_SIM_SCHEDULE=late:42", plain).text.find("schedule=late:42") != std::string::npos);

    auto const drawn = run("CUOTA_SIM_SCHEDULE=late", plain).text;
    INFO(drawn);
    std::string const told = "CUOTA_SIM_SCHEDULE=";
    REQUIRE(drawn.find(told + "late:") != std::string::npos);
    auto const seed =
        drawn.substr(drawn.find(told) + told.size(), drawn.find('\n') - drawn.find(told) - told.size());
    CHECK(drawn.find("schedule=" + seed) != std::string::npos);

    auto const race = run("CUOTA_TEST_RACE_IS_FATAL=1 CUOTA_SIM_SCHEDULE=late:42",
                          "a program with a race whose schedule is set by the environment");
    CHECK(race.status != 0);
    CHECK(race.text.find("race: ") != std::string::npos);
    CHECK(race.text.find("(schedule late:42)") != std::string::npos);

    auto const wrong = GENERATE("''", "early", "late:", "late:x", "workers:1");
    auto const refused = run(std::string{"CUOTA_SIM_SCHEDULE="} + wrong, plain);
    CHECK(refused.status == 2);
    CHECK(std::count(refused.text.begin(), refused.text.end(), '\n') == 1);
}
