// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/budgeted.hpp>

#include <functional>
#include <string>

#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/worker.hpp"

using namespace cuota::literals;
using cuota::budget;
using cuota::budgeted;

// Its memory kind is its upstream's, as far as the type determines it.
static_assert(cuota::device_accessible_resource<budgeted<cuota::device_memory>> &&
              !cuota::host_accessible_resource<budgeted<cuota::device_memory>>);
static_assert(cuota::host_accessible_resource<budgeted<cuota::pinned_memory>> &&
              !cuota::device_accessible_resource<budgeted<cuota::pinned_memory>>);
static_assert(cuota::host_accessible_resource<budgeted<cuota::managed_memory>> &&
              cuota::device_accessible_resource<budgeted<cuota::managed_memory>>);
static_assert(cuota::host_accessible_resource<budgeted<cuota::any_resource>> &&
              cuota::device_accessible_resource<budgeted<cuota::any_resource>>);
static_assert(sizeof(budgeted<cuota::any_resource>) == sizeof(void*));
template <class R>
concept has_device = requires(R const& r) {
    r.device();
};
static_assert(has_device<budgeted<cuota::async_memory>> && !has_device<budgeted<cuota::pinned_memory>>);
// It requires a budget, and a budget does not convert to it implicitly.
static_assert(!std::is_default_constructible_v<budgeted<>> && !std::is_convertible_v<budget, budgeted<>>);

namespace {

// Throws for requests of 13 bytes, after `before_refusal`.
struct moody {
    std::function<void()> const* before_refusal = nullptr;

    void* allocate(cuota::stream_ref, std::size_t n, std::size_t a) { return allocate_sync(n, a); }
    void deallocate(cuota::stream_ref, void* p, std::size_t n, std::size_t a) noexcept {
        deallocate_sync(p, n, a);
    }
    void* allocate_sync(std::size_t n, std::size_t) {
        if (n == 13) {
            if (before_refusal) (*before_refusal)();
            throw std::runtime_error{"not thirteen"};
        }
        return ::operator new(n);
    }
    void deallocate_sync(void* p, std::size_t, std::size_t) noexcept { ::operator delete(p); }
    std::size_t granularity() const { return 64; }
    cuota::memory_kind kind() const { return cuota::memory_kind::pinned; }
    bool operator==(moody const&) const = default;
};

}  // namespace

TEST_CASE("budgeted behaves as a resource", "[guard][budgeted]") {
    budget b{"b", 1_GiB};
    SECTION("of device memory") { support::behaves_as_a_resource(budgeted<cuota::device_memory>{b}); }
    SECTION("of async memory") { support::behaves_as_a_resource(budgeted<cuota::async_memory>{b}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(budgeted<cuota::managed_memory>{b}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(budgeted<cuota::pinned_memory>{b}); }
    SECTION("of any resource") {
        support::behaves_as_a_resource(budgeted<cuota::any_resource>{b, cuota::device_memory{}});
    }
    SECTION("as any resource") {
        support::behaves_as_a_resource(cuota::any_resource{budgeted<cuota::device_memory>{b}});
    }
    SECTION("of a budget without a limit") {
        support::behaves_as_a_resource(budgeted<cuota::device_memory>{budget{"all", cuota::unlimited, b}});
    }
    SECTION("of another budget's memory") {
        support::behaves_as_a_resource(budgeted<budgeted<>>{budget{"inner", 1_GiB}, budgeted<>{b}});
    }
    REQUIRE(b.held() == 0);
}

TEST_CASE("budgeted charges the bytes that upstream allocates", "[guard][budgeted]") {
    budget b{"b", 10'000};
    budgeted<> memory{b};
    void* const p = memory.allocate_sync(1);
    REQUIRE(b.held() == 512);
    void* const q = memory.allocate_sync(513);
    REQUIRE(b.held() == 512 + 1024);
    REQUIRE(memory.account() == b);
    memory.deallocate_sync(p, 1);
    REQUIRE(b.held() == 1024);
    memory.deallocate_sync(q, 513);
    REQUIRE(b.held() == 0);

    budgeted<cuota::pinned_memory> pinned{b};
    void* const r = pinned.allocate_sync(1);
    REQUIRE(b.held() == 1);
    pinned.deallocate_sync(r, 1);
}

TEST_CASE("budgeted refuses before it calls upstream, with all facts", "[guard][budgeted]") {
    budget b{"trainer", 10_KiB};
    budgeted<> memory{b};
    std::size_t const before = cuota::detail::taken_on(memory.device());
    void* const small = memory.allocate_sync(1000, 256, {"biases", {"train.cpp", 3}});
    void* const large = memory.allocate_sync(5000, 256, {"weights", {"train.cpp", 2}});

    auto const refused = support::thrown<cuota::budget_exceeded>([&] {
        (void)memory.allocate_sync(8000, 256, cuota::label_for<float>("activations", {"train.cpp", 9}));
    });
    cuota::refusal const& facts = refused.info();
    REQUIRE(cuota::detail::taken_on(memory.device()) == before + 1024 + 5120);
    REQUIRE(facts.requested == 8000);
    REQUIRE(facts.charged == 8192);
    REQUIRE(facts.granularity == 512);
    REQUIRE(facts.budgets.size() == 1);
    REQUIRE(facts.budgets[0].held == 1024 + 5120);
    REQUIRE(facts.max_fit == 4096);
    REQUIRE(facts.max_fit_count() == 1024);
    REQUIRE(facts.holders.size() == 2);
    REQUIRE(facts.holders[0].name == cuota::tag{"weights"});
    REQUIRE(facts.holders[0].bytes == 5120);
    REQUIRE(facts.holders[1].name == cuota::tag{"biases"});
    REQUIRE(facts.device);
    REQUIRE(facts.device->ordinal == memory.device().ordinal());
    REQUIRE(facts.device->own == before + 1024 + 5120);
    REQUIRE(support::has(refused.what(),
                         "\n  held by    weights 5.0 KiB (train.cpp:2), biases 1.0 KiB (train.cpp:3)\n"));
    REQUIRE(support::has(refused.what(), "\n  help       raise the limit of trainer to 14.0 KiB"
                                         "\n  or         request at most 1'024 floats (4.0 KiB)"
                                         "\n  or         free 5.0 KiB: weights (train.cpp:2)"));
    memory.deallocate_sync(small, 1000);
    memory.deallocate_sync(large, 5000);
}

TEST_CASE("a request of max_fit bytes fits, and one more byte does not", "[guard][budgeted]") {
    budget b{"b", 10'000};
    budgeted<> memory{b};
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { (void)memory.allocate_sync(20'000); });
    std::size_t const most = refused.info().max_fit;
    REQUIRE_THROWS_AS(memory.allocate_sync(most + 1), cuota::budget_exceeded);
    void* const p = memory.allocate_sync(most);
    memory.deallocate_sync(p, most);
    REQUIRE(b.held() == 0);
}

TEST_CASE("budgeted refunds the charge if upstream throws", "[guard][budgeted]") {
    budget root{"gpu", 1000};
    budget b{"b", 1000, root};
    budgeted<moody> memory{b};
    REQUIRE_THROWS_AS(memory.allocate_sync(13), std::runtime_error);
    REQUIRE_THROWS_AS(memory.allocate(cudaStreamPerThread, 13), std::runtime_error);
    REQUIRE(b.held() == 0);
    REQUIRE(root.held() == 0);
    REQUIRE(b.peak() == 0);  // failed allocations do not count
}

TEST_CASE(
    "the peak does not include a refused request, also if another thread sets the peak during the request",
    "[guard][budgeted]") {
    budget root{"gpu", 1000};
    budget b{"b", 1000, root};
    support::worker other;
    std::function<void()> const charge_elsewhere = [&] { other.run([&] { b.charge(200); }); };
    budgeted<moody> memory{b, moody{&charge_elsewhere}};
    bool const stock_pays = GENERATE(false, true);
    CAPTURE(stock_pays);
    if (stock_pays) memory.deallocate_sync(memory.allocate_sync(100), 100);
    REQUIRE_THROWS_AS(memory.allocate_sync(13), std::runtime_error);
    CHECK(b.held() == 200);
    CHECK(b.peak() == 200);
    CHECK(root.peak() == 200);
    void* const p = memory.allocate_sync(60);
    CHECK(b.peak() == 264);
    memory.deallocate_sync(p, 60);
    b.refund(200);
}

TEST_CASE("a wrong size, a double free and a foreign pointer are reported, and nothing is freed",
          "[guard][budgeted]") {
    support::captured_errors errors;
    budget b{"trainer", 10'000};
    budgeted<moody> memory{b};
    void* const p = memory.allocate_sync(100, 16, {"weights", {"train.cpp", 4}});

    memory.deallocate_sync(p, 99);
    REQUIRE(errors.take() ==
            std::vector<std::string>{"cuota::usage_error: budget trainer: deallocate with the "
                                     "wrong size: 99 B, allocated 100 B (train.cpp:4)"});
    REQUIRE(b.held() == 128);

    budgeted<moody> other{budget{"other", 100}};
    void* const foreign = other.allocate_sync(4);
    memory.deallocate(cudaStreamPerThread, foreign, 4);
    REQUIRE(errors.take().size() == 1);
    REQUIRE(b.held() == 128);
    other.deallocate_sync(foreign, 4);
    REQUIRE(errors.count() == 0);

    memory.deallocate_sync(p, 100);
    REQUIRE(b.held() == 0);
    memory.deallocate_sync(p, 100);
    auto const told = errors.take();
    REQUIRE(told.size() == 1);
    REQUIRE(support::has(told[0], "budget trainer: deallocate of an unknown pointer"));
    REQUIRE(b.held() == 0);
}

TEST_CASE("copies of budgeted are equal, and two separately made ones are not", "[guard][budgeted]") {
    budget b{"b", 10'000};
    budgeted<> const a{b};
    budgeted<> const copy{a};
    REQUIRE(a == copy);
    REQUIRE(!(a == budgeted<>{b}));
}

TEST_CASE("budgeted keeps its budget alive, and copies keep the memory alive", "[guard][budgeted]") {
    auto memory = std::make_unique<budgeted<moody>>(budget{"b", 1000});
    budgeted<moody> copy{*memory};
    void* const p = memory->allocate_sync(100);
    memory.reset();
    REQUIRE(copy.account().held() == 128);
    copy.deallocate_sync(p, 100);
    REQUIRE(copy.account().held() == 0);
}

TEST_CASE("a refusal does not list a holder that was destroyed", "[guard][budgeted]") {
    budget b{"b", 1000};
    {
        budgeted<moody> memory{b};
        memory.deallocate_sync(memory.allocate_sync(64), 64);
    }
    b.charge(900);
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { b.charge(200); });
    REQUIRE(refused.info().holders.size() == 1);
    b.refund(900);
}
