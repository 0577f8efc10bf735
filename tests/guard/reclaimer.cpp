// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/reclaimer.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::budget;
using cuota::reclaimer;

static_assert(std::is_nothrow_move_constructible_v<reclaimer> && !std::is_copy_constructible_v<reclaimer>);

namespace {

// An application's cache that is charged to a budget.
struct cache {
    budget account;
    std::size_t bytes;
    int calls = 0;

    cache(budget b, std::size_t n) : account{std::move(b)}, bytes{n} { account.charge(n); }
    ~cache() { account.refund(bytes); }
    std::size_t could(std::size_t wanted) const { return std::min(wanted, bytes); }
    std::size_t give(std::size_t wanted) {
        ++calls;
        std::size_t const given = could(wanted);
        bytes -= given;
        account.refund(given);
        return given;
    }
};

reclaimer registered(cache& c, cuota::tag name = "images", int priority = 0) {
    return reclaimer{c.account, name, [&c](std::size_t wanted) { return c.could(wanted); },
                     [&c](std::size_t wanted) { return c.give(wanted); }, priority};
}

}  // namespace

TEST_CASE("a registered cache is called to release the shortfall only", "[guard][reclaimer]") {
    budget b{"b", 100};
    cache images{b, 60};
    reclaimer const r = registered(images);
    b.charge(70);
    REQUIRE(images.bytes == 30);
    REQUIRE(images.calls == 1);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(31); });
    REQUIRE(images.calls == 1);  // releasing 30 would not suffice
    REQUIRE(refused.info().reclaimable == 30);
    REQUIRE(refused.info().max_fit == 30);
    REQUIRE(refused.info().holders.size() == 2);
    REQUIRE(refused.info().holders[1].name == cuota::tag{"images"});
    REQUIRE(refused.info().holders[1].is_cached);
    b.charge(30);
    REQUIRE(images.bytes == 0);
    b.refund(100);
}

TEST_CASE("reclaimers with higher priority are called first", "[guard][reclaimer]") {
    budget b{"b", 100};
    cache precious{b, 40};
    cache cheap{b, 40};
    reclaimer const first = registered(precious, "precious", -1);
    reclaimer const second = registered(cheap, "cheap", 1);
    b.charge(50);
    REQUIRE(precious.bytes == 40);
    REQUIRE(cheap.bytes == 10);
    b.charge(30);
    REQUIRE(precious.bytes == 20);
    REQUIRE(cheap.bytes == 0);
    b.refund(80);
}

TEST_CASE("a cache is not called after its registration was destroyed", "[guard][reclaimer]") {
    budget b{"b", 100};
    cache images{b, 60};
    {
        reclaimer r = registered(images);
        reclaimer moved = std::move(r);
        r = registered(images);
        r = std::move(moved);
    }
    REQUIRE_THROWS_AS(b.charge(70), cuota::budget_exceeded);
    REQUIRE(images.calls == 0);
}

TEST_CASE("an exception of a cache is reported, and nothing counts as released", "[guard][reclaimer]") {
    support::captured_errors errors;
    budget b{"b", 100};
    b.charge(60);
    reclaimer const r{b, "broken", [](std::size_t wanted) { return wanted; },
                      [](std::size_t) -> std::size_t { throw std::runtime_error{"no"}; }};
    REQUIRE_THROWS_AS(b.charge(50), cuota::budget_exceeded);
    REQUIRE(errors.take() == std::vector<std::string>{"reclaimer broken: reclaim() threw: no"});
    reclaimer const odd{b, "odd", [](std::size_t wanted) { return wanted; },
                        [](std::size_t) -> std::size_t { throw 1; }, 1};
    REQUIRE_THROWS_AS(b.charge(50), cuota::budget_exceeded);
    REQUIRE(errors.take() == std::vector<std::string>{
                                 "reclaimer odd: reclaim() threw an exception that is not a std::exception",
                                 "reclaimer broken: reclaim() threw: no"});
    b.refund(60);
}

namespace {

// Reports that it released the requested bytes, but releases nothing.
struct false_cache {
    int calls = 0;
    cuota::source_location where = cuota::source_location::current();

    reclaimer registered(budget const& b, std::size_t could, int priority = 0) {
        auto const give = [this](std::size_t wanted) {
            if (++calls == 1000) throw std::runtime_error{"asked a thousand times"};
            return wanted;
        };
        return reclaimer{b, "entries in use", [could](std::size_t) { return could; }, give, priority, where};
    }
    std::string report(std::string const& claimed) const {
        return "cuota::usage_error: reclaimer entries in use: it returned " + claimed +
               ", but 0 B were refunded to budget b; it is not called again for this request "
               "(reclaimer.cpp:" +
               std::to_string(where.line) + ")";
    }
};

}  // namespace

TEST_CASE("a cache that reports more than it released is called once for a request, and reported",
          "[guard][reclaimer]") {
    support::captured_errors errors;
    budget b{"b", 100};
    b.charge(60);
    false_cache liar;
    reclaimer const r = liar.registered(b, 90);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(50); });
    REQUIRE(liar.calls == 1);
    REQUIRE(errors.take() == std::vector{liar.report("10 B")});
    REQUIRE(refused.info().reclaimed == 0);
    REQUIRE(refused.info().reclaimers->at(0).requested == 10);
    REQUIRE(refused.info().reclaimers->at(0).released == 0);
    REQUIRE(refused.info().reclaimable == 0);  // its estimate is not included in any figure
    REQUIRE(refused.info().max_fit == 40);
    REQUIRE_THROWS_AS(b.charge(50), cuota::budget_exceeded);  // another request
    REQUIRE(liar.calls == 2);
    REQUIRE(errors.take().size() == 1);
    b.refund(60);
}

TEST_CASE("the other caches are called after one that released nothing", "[guard][reclaimer]") {
    support::captured_errors errors;
    budget b{"b", 100};
    cache images{b, 60};
    false_cache liar;
    reclaimer const first = liar.registered(b, 90, 1);
    reclaimer const second = registered(images);
    b.charge(70);
    REQUIRE(liar.calls == 1);
    REQUIRE(images.bytes == 30);
    REQUIRE(errors.take() == std::vector{liar.report("30 B")});
    b.refund(70);
}

TEST_CASE("if a cache releases less than it returns, only the released bytes count", "[guard][reclaimer]") {
    support::captured_errors errors;
    budget b{"b", 100};
    cache images{b, 60};
    reclaimer const r{b, "images", [](std::size_t wanted) { return wanted; },
                      [&](std::size_t wanted) { return images.give(wanted / 2), wanted; }};
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(60); });
    REQUIRE(images.calls == 1);
    REQUIRE(refused.info().reclaimed == 10);
    REQUIRE(refused.info().max_fit == 50);
    REQUIRE(errors.take().size() == 1);
}

TEST_CASE("a request ends while other threads charge and refund, even if a cache reports too much",
          "[guard][reclaimer]") {
    support::captured_errors errors;
    budget b{"b", 1000};
    b.charge(600);
    std::atomic<bool> stop = false;
    std::thread others{[&] {
        while (!stop)
            if (b.try_charge(30)) b.refund(30);
    }};
    false_cache liar;
    {
        reclaimer const r = liar.registered(b, 900);
        for (int i = 0; i != 100; ++i) REQUIRE_THROWS_AS(b.charge(500), cuota::budget_exceeded);
    }
    stop = true;
    others.join();
    REQUIRE(liar.calls <= 100 * 11);  // 1000 bytes in claims of at least 100
    REQUIRE(liar.calls >= 100);
    b.refund(600);
}

TEST_CASE("a cache that reports its release correctly causes no error while other threads charge and refund",
          "[guard][reclaimer]") {
    support::captured_errors errors;
    budget b{"b", 1000};
    std::atomic<bool> stop = false;
    std::thread others{[&] {
        while (!stop)
            if (b.try_charge(300)) b.refund(300);
    }};
    for (int i = 0; i != 2000; ++i) {
        budget inside{"inside", 1000, b};
        try {
            cache images{inside, 300};
            reclaimer const r = registered(images);
            b.charge(701);
            b.refund(701);
        } catch (cuota::budget_exceeded const&) {}
    }
    stop = true;
    others.join();
    REQUIRE(errors.take().empty());
}

TEST_CASE("a cache may charge, and destroy its own registration, while it is called", "[guard][reclaimer]") {
    budget b{"b", 100};
    cache images{b, 60};
    std::unique_ptr<reclaimer> r;
    r = std::make_unique<reclaimer>(
        b, cuota::tag{"images"}, [&](std::size_t wanted) { return images.could(wanted); },
        [&](std::size_t wanted) {
            REQUIRE_THROWS_AS(b.charge(90), cuota::budget_exceeded);
            r.reset();
            return images.give(wanted);
        });
    b.charge(70);
    REQUIRE(images.bytes == 30);
    REQUIRE_THROWS_AS(b.charge(1), cuota::budget_exceeded);
    b.refund(70);
}

TEST_CASE("no call runs after a registration was destroyed", "[guard][reclaimer]") {
    budget b{"b", 100};
    std::atomic<bool> stop = false;
    std::atomic<int> gave = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&] {
            while (!stop) try {
                    b.charge(80);
                    b.refund(80);
                } catch (cuota::budget_exceeded const&) {}
        });
    while (gave < 50) {
        auto images = std::make_unique<std::atomic<std::size_t>>(0);
        reclaimer const r{b, "images",
                          [&](std::size_t wanted) { return std::min<std::size_t>(wanted, *images); },
                          [&](std::size_t) {
                              std::size_t const given = images->exchange(0);
                              b.refund(given);
                              gave += given != 0;
                              return given;
                          }};
        if (b.try_charge(40)) *images = 40;
        std::this_thread::yield();
        b.refund(images->exchange(0));
    }  // the registration is destroyed before the object that it refers to
    stop = true;
    for (std::thread& t : threads) t.join();
    REQUIRE(b.held() == 0);
}

TEST_CASE("caches that charge while they are called do not wait for one another", "[guard][reclaimer]") {
    budget b{"b", 100};
    std::vector<std::unique_ptr<cache>> caches;
    std::vector<reclaimer> all;
    for (int i = 0; i != 2; ++i) {
        caches.push_back(std::make_unique<cache>(b, 0));
        all.emplace_back(
            b, cuota::tag{"c"}, [](std::size_t) { return std::size_t{50}; },
            [&](std::size_t) -> std::size_t {
                try {
                    b.charge(200);  // its refusal queries both caches
                } catch (cuota::budget_exceeded const&) {}
                return 0;
            });
    }
    b.charge(90);
    std::vector<std::thread> threads;
    for (int t = 0; t != 2; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i != 500; ++i) try {
                    b.charge(60);
                } catch (cuota::budget_exceeded const&) {}
        });
    for (std::thread& t : threads) t.join();
    REQUIRE(b.held() == 90);
    b.refund(90);
}

namespace {

// A cache that charges while it holds its own lock, as caches do.
class locked_cache {
public:
    explicit locked_cache(budget b) : account_{std::move(b)} {}
    ~locked_cache() { account_.refund(bytes_); }

    void insert(std::size_t bytes) {
        free_.acquire();
        try {
            account_.charge(bytes, "entry");
            bytes_ += bytes;
        } catch (...) {
            free_.release();
            throw;
        }
        free_.release();
    }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
    std::size_t could() {
        if (!free_.try_acquire()) return 0;
        std::size_t const bytes = bytes_;
        free_.release();
        return bytes;
    }
    std::size_t give(std::size_t wanted) {
        if (!free_.try_acquire()) return 0;
        std::size_t const given = std::min(wanted, bytes_);
        bytes_ -= given;
        account_.refund(given);
        free_.release();
        return given;
    }

    budget account_;
    std::binary_semaphore free_{1};
    std::size_t bytes_ = 0;
    reclaimer registered_{account_, "cache", [this](std::size_t) { return could(); },
                          [this](std::size_t wanted) { return give(wanted); }};
};

}  // namespace

TEST_CASE("a cache that charges under its own lock can release nothing, but releases bytes for other charges",
          "[guard][reclaimer]") {
    budget b{"b", 100};
    locked_cache cache{b};
    cache.insert(60);
    CHECK_THROWS_AS(cache.insert(60), cuota::budget_exceeded);
    CHECK(cache.bytes() == 60);
    b.charge(70);
    CHECK(cache.bytes() == 30);
    CHECK(b.held() == 100);
    b.refund(70);
}

TEST_CASE("threads that insert into caches of one budget do not wait for each other's locks",
          "[guard][reclaimer]") {
    budget b{"b", 1000};
    locked_cache first{b};
    locked_cache second{b};
    auto const work = [](locked_cache& cache) {
        for (int i = 0; i != support::rounds(2000); ++i) try {
                cache.insert(300);
            } catch (cuota::budget_exceeded const&) {  // the other cache has the bytes and holds its lock
            }
    };
    std::thread one{[&] { work(first); }};
    work(second);
    one.join();
    CHECK(b.held() == first.bytes() + second.bytes());
}

TEST_CASE("a thread that charges while a reclaimer waits for it is refused and does not wait",
          "[guard][reclaimer]") {
    budget b{"b", 100};
    std::size_t cached = 60;
    b.charge(cached);
    bool was_refused = false;
    reclaimer const r{b, "cache", [&](std::size_t) { return cached; },
                      [&](std::size_t wanted) {
                          std::thread{[&] {
                              try {
                                  b.charge(50);
                              } catch (cuota::budget_exceeded const&) { was_refused = true; }
                          }}.join();
                          std::size_t const given = std::min(wanted, cached);
                          cached -= given;
                          b.refund(given);
                          return given;
                      }};
    b.charge(60);
    CHECK(was_refused);
    b.refund(60 + cached);
}
