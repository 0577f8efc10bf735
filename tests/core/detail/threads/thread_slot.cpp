// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/threads/thread_slot.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include <pthread.h>
#include <sched.h>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"

using cuota::detail::owner_section;
using cuota::detail::this_thread;
using cuota::detail::thread_slot;

namespace {

// Destroyed after the thread's record, if it was constructed before it.
struct last_of_a_thread {
    thread_slot** tell = nullptr;
    ~last_of_a_thread() {
        if (tell) *tell = this_thread();
    }
};
last_of_a_thread& this_thread_last() {
    static thread_local last_of_a_thread last;
    return last;
}

}  // namespace

TEST_CASE("threads that run at the same time have slots of their own, numbered without gaps",
          "[core][thread_slot]") {
    constexpr std::size_t count = 20;
    thread_slot* const mine = this_thread();
    std::vector<thread_slot*> seen(count);
    std::latch all{count};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i != count; ++i)
        threads.emplace_back([&, i] {
            seen[i] = this_thread();
            if (seen[i] != this_thread()) seen[i] = nullptr;
            all.arrive_and_wait();
        });
    for (std::thread& t : threads) t.join();
    seen.push_back(mine);
    std::ranges::sort(seen);
    REQUIRE(seen.front() != nullptr);
    REQUIRE(std::ranges::adjacent_find(seen) == seen.end());
    std::ranges::sort(seen, {}, &thread_slot::index);
    REQUIRE(std::ranges::adjacent_find(seen, {}, &thread_slot::index) == seen.end());

    // Records of ended threads are reused: threads that run one after another need no further records.
    unsigned const before = seen.back()->index;
    for (int i = 0; i != 100; ++i) std::thread{[&] { REQUIRE(this_thread()->index <= before); }}.join();
}

TEST_CASE("a thread that is ending has no slot", "[core][thread_slot]") {
    thread_slot* seen = nullptr;
    std::thread{[&] {
        this_thread_last().tell = &seen;
        seen = this_thread();
        REQUIRE(seen != nullptr);
    }}.join();
    REQUIRE(seen == nullptr);
}

TEST_CASE("a thread that could not allocate a slot gets one once host memory is available",
          "[core][thread_slot]") {
    // Covers the program's first request for a record too, when this test runs alone.
    thread_slot* later = nullptr;
    std::thread{[&] {
        {
            support::failing_heap const heap{0};
            (void)this_thread();
        }
        later = this_thread();
    }}.join();
    REQUIRE(later != nullptr);
}

TEST_CASE("the revoking thread waits for a section that may not have seen its change",
          "[core][thread_slot]") {
    // Repeats Dekker's argument: at least one of the owner in its section and the revoking thread must see the other.
    for (bool const asymmetric : {true, false}) {
        if (asymmetric && !cuota::detail::fences_are_asymmetric()) continue;
        thread_slot owner;
        owner.asymmetric = asymmetric;
        std::atomic<int> is_his = 0;
        std::atomic<bool> stop = false;
        // Written by the owner in its sections and by the revoking thread after them.
        std::atomic<long> balance = 0;
        std::thread works{[&] {
            while (!stop) {
                owner_section const here{owner};
                if (is_his.load(std::memory_order_seq_cst) == 0) continue;
                long const now = balance.load(std::memory_order_relaxed);
                balance.store(now + 1, std::memory_order_relaxed);
                balance.store(now, std::memory_order_relaxed);
            }
        }};
        bool untouched = true;
        for (int i = 0; i != 20'000; ++i) {
            is_his.store(1, std::memory_order_seq_cst);
            is_his.store(0, std::memory_order_seq_cst);
            if (asymmetric) cuota::detail::asymmetric_fence_heavy();
            wait_for_owner_section(owner);
            untouched = untouched && balance.load(std::memory_order_relaxed) == 0;
            balance.store(5, std::memory_order_relaxed);
            untouched = untouched && balance.load(std::memory_order_relaxed) == 5;
            balance.store(0, std::memory_order_relaxed);
        }
        stop = true;
        works.join();
        REQUIRE(untouched);
    }
}

TEST_CASE("a thread that waits for a section lets a thread of lower priority run", "[core][thread_slot]") {
    // With real-time scheduling on one processor, a thread that only yields starves a thread of lower priority.
    std::atomic<bool> was_refused = false;
    cuota::detail::thread_slot record;
    record.sections = 1;  // inside a section
    auto const run_on_one_processor = [](std::thread& which, int priority) {
        cpu_set_t first;
        CPU_ZERO(&first);
        CPU_SET(sched_getcpu(), &first);
        sched_param const urgent{priority};
        return pthread_setaffinity_np(which.native_handle(), sizeof first, &first) == 0 &&
               pthread_setschedparam(which.native_handle(), SCHED_FIFO, &urgent) == 0;
    };
    std::atomic<bool> may_begin = false;
    std::thread low{[&] {
        while (!may_begin) std::this_thread::sleep_for(std::chrono::microseconds{100});
        if (!was_refused)
            std::this_thread::sleep_for(std::chrono::milliseconds{20});  // until the other thread waits
        record.sections.store(2, std::memory_order_release);
    }};
    std::thread high{[&] {
        while (!may_begin) std::this_thread::sleep_for(std::chrono::microseconds{100});
        cuota::detail::wait_for_owner_section(record);
    }};
    was_refused = !run_on_one_processor(low, 1) || !run_on_one_processor(high, 2);
    may_begin = true;
    high.join();
    low.join();
    if (was_refused) WARN("not run: this system does not let the test have real-time priorities");
    CHECK(record.sections.load() == 2);
}
