// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/loader/usage_gate.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using cuota::detail::reclaiming;
using cuota::detail::usage_gate;

TEST_CASE("memory in use is not released, and idle memory is", "[data][usage_gate]") {
    usage_gate uses;
    REQUIRE(uses.is_idle());
    uses.start();
    uses.add();
    REQUIRE(!uses.is_idle());
    REQUIRE(!uses.try_give());
    uses.drop();
    REQUIRE(!uses.try_give());
    uses.drop();
    REQUIRE(uses.is_idle());
    REQUIRE(uses.try_give());
    uses.freed();
    uses.refunded();
    REQUIRE(uses.is_idle());
}

TEST_CASE("a use waits until the memory that is being released has been refunded", "[data][usage_gate]") {
    usage_gate uses;
    REQUIRE(uses.try_give());
    std::atomic<bool> is_refunded = false;
    std::atomic<bool> was_refunded = false;
    std::thread user{[&] {
        uses.start();
        was_refunded = is_refunded.load();
    }};
    std::this_thread::yield();
    uses.freed();
    std::this_thread::yield();
    is_refunded = true;
    uses.refunded();
    user.join();
    REQUIRE(was_refunded);
}

TEST_CASE("a release waits for brief uses, and is refused during lasting uses", "[data][usage_gate]") {
    usage_gate uses;
    uses.start();
    uses.add_brief();
    uses.add_brief();
    uses.drop();
    REQUIRE(uses.is_idle());
    std::atomic<bool> is_over = false;
    std::atomic<bool> was_over = false;
    std::thread giver{[&] {
        if (!uses.try_give()) return;
        was_over = is_over.load();
        uses.freed();
        uses.refunded();
    }};
    std::this_thread::yield();
    uses.drop_brief();
    std::this_thread::yield();
    is_over = true;
    uses.drop_brief();
    giver.join();
    REQUIRE(was_over);

    uses.start();
    uses.add_brief();
    uses.keep_brief();
    uses.drop();
    REQUIRE(!uses.try_give());
    uses.drop();
    REQUIRE(uses.try_give());
}

TEST_CASE("a function that is called while this thread refunds may start a use", "[data][usage_gate]") {
    usage_gate uses;
    reclaiming const here;
    REQUIRE(uses.try_give());
    REQUIRE(!uses.is_idle());  // without waiting for itself
    uses.freed();
    REQUIRE(uses.is_idle());
    uses.start();
    uses.refunded();
    REQUIRE(!uses.try_give());
}

TEST_CASE("requests during another thread's release are answered after its refund", "[data][usage_gate]") {
    usage_gate uses;
    REQUIRE(uses.try_give());
    std::atomic<bool> is_refunded = false;
    std::atomic<int> answered_early = 0;
    std::vector<std::thread> others;
    others.emplace_back([&] {
        if (!uses.is_idle() || !is_refunded) ++answered_early;
    });
    others.emplace_back([&] {
        if (!uses.try_give() || !is_refunded) ++answered_early;
        uses.freed();
        uses.refunded();
    });
    std::this_thread::yield();
    uses.freed();
    is_refunded = true;
    uses.refunded();
    for (std::thread& other : others) other.join();
    REQUIRE(answered_early == 0);
}

TEST_CASE("uses and releases exclude each other on any number of threads", "[data][usage_gate]") {
    usage_gate uses;
    std::atomic<int> users = 0;
    std::atomic<int> givers = 0;
    std::atomic<int> met = 0;
    std::atomic<int> given = 0;
    int here = 0;  // not atomic: only the use count orders accesses
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&] {
            while (!stop) {
                uses.start();
                ++users;
                if (givers != 0 || here < 0) ++met;
                uses.add();
                uses.drop();
                --users;
                uses.drop();
                std::this_thread::yield();
            }
        });
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&] {
            while (!stop) {
                if (!uses.try_give()) continue;
                if (++givers != 1 || users != 0) ++met;
                ++here;
                ++given;
                --givers;
                uses.freed();
                uses.refunded();
                std::this_thread::yield();
            }
        });
    while (given < 500) std::this_thread::yield();
    stop = true;
    for (std::thread& thread : threads) thread.join();
    REQUIRE(met == 0);
    REQUIRE(here == given);
}
