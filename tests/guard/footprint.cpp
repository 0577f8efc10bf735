// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/footprint.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::batch_fit;
using cuota::budget;
using cuota::copies;
using cuota::footprint;
using cuota::unlimited;

// A number does not convert to copies implicitly, nor a granularity to a plan.
static_assert(!std::is_convertible_v<std::size_t, copies> &&
              !std::is_constructible_v<footprint, std::size_t>);
static_assert(noexcept(std::declval<footprint const&>().largest_batch(std::declval<budget const&>())));

namespace {

__extension__ typedef unsigned __int128 wide;  // no sum in this test overflows it

// Computes a plan's bytes in 128-bit integers, without the library's arithmetic.
[[nodiscard]] wide rounded(wide bytes, std::size_t granularity) {
    wide const rest = bytes % granularity;
    return rest == 0 ? bytes : bytes + (granularity - rest);
}
[[nodiscard]] wide bytes_by_hand(footprint const& plan, std::size_t batch) {
    wide sum = 0;
    for (footprint::part const& p : plan.parts())
        sum += rounded(wide{p.count} * (p.per_sample ? batch : 1) * p.unit_bytes, p.granularity) * p.copies;
    return sum;
}
[[nodiscard]] bool fits_by_hand(footprint const& plan, std::size_t batch, std::size_t available) {
    wide const bytes = bytes_by_hand(plan, batch);
    return bytes < unlimited && bytes <= available;
}

class plans {
public:
    explicit plans(unsigned seed) : random_{seed} {}

    [[nodiscard]] std::size_t up_to(std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{0, most}(random_);
    }
    // Returns a number of any order of magnitude, all equally likely, often next to a power of two or to unlimited.
    [[nodiscard]] std::size_t of_any_size() {
        std::size_t const top = std::size_t{1} << up_to(63);
        std::size_t const around[] = {
            top - 1, top, top + 1, top + up_to(top - 1), unlimited, unlimited - up_to(600)};
        return around[up_to(5)];
    }
    template <class Size>
    [[nodiscard]] footprint with(std::size_t most_parts, std::size_t granule_bits, Size size) {
        footprint plan;
        for (std::size_t left = up_to(most_parts); left != 0; --left)
            plan.add({.name = "part",
                      .count = size(*this),
                      .unit_bytes = std::size_t{1} << up_to(3),
                      .copies = up_to(3),
                      .per_sample = up_to(1) != 0,
                      .granularity = std::size_t{1} << up_to(granule_bits)});
        return plan;
    }

private:
    std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("a footprint adds up its parts, with each allocation rounded up separately", "[guard][footprint]") {
    footprint plan;
    plan.add<float>("weights", 1000)
        .add<float>("adam", 1000, copies(2))
        .per_sample<float>("activations", 100);

    REQUIRE(plan.parts().size() == 3);
    CHECK(plan.parts()[0].bytes(7) == 4096);
    CHECK(plan.parts()[0].requested(7) == 4000);
    CHECK(plan.parts()[1].bytes(7) == 2 * 4096);  // not 8192, which one allocation of 8000 would take
    CHECK(plan.parts()[1].requested(7) == 8000);
    CHECK(plan.parts()[2].bytes(1) == 512);
    CHECK(plan.parts()[2].bytes(7) == 3072);  // 2800 in one allocation
    CHECK(plan.bytes(0) == 3 * 4096);
    CHECK(plan.bytes(1) == 3 * 4096 + 512);
    CHECK(plan.bytes(7) == 3 * 4096 + 3072);
}

TEST_CASE("a part has its name, count, unit, copies and call site", "[guard][footprint]") {
    footprint plan;
    unsigned const line = __LINE__ + 1;
    plan.add<float>("weights", 10, copies{3});
    footprint::part const& p = plan.parts().front();
    CHECK(p.name == cuota::tag{"weights"});
    CHECK(p.count == 10);
    CHECK(p.unit_bytes == 4);
    CHECK(p.copies == 3);
    CHECK(std::string{p.unit} == "floats");
    CHECK(p.where.line == line);
    CHECK(p.granularity == 512);
    CHECK(!p.per_sample);
}

TEST_CASE("an empty plan needs no memory and fits in every budget", "[guard][footprint]") {
    budget full{"full", 0};
    footprint plan;
    CHECK(plan.bytes() == 0);
    CHECK(plan.fits(full));
    CHECK_NOTHROW(plan.check(full));
    CHECK(plan.largest_batch(full).is_unbounded());
    CHECK(plan.reserve(full).bytes() == 0);

    plan.add<float>("no elements", 0).add<float>("no copies", unlimited, copies(0));
    plan.per_sample<float>("no elements", 0).per_sample<float>("no copies", unlimited, copies(0));
    plan.add({.name = "of nothing", .count = unlimited, .unit_bytes = 0, .per_sample = true});
    CHECK(!plan.depends_on_batch());
    CHECK(plan.bytes() == 0);
    CHECK(plan.bytes(unlimited) == 0);
    CHECK(plan.largest_batch(full).is_unbounded());
}

TEST_CASE("parts are rounded to the granularity of their resource", "[guard][footprint]") {
    cuota::scoped_pool pool{budget{"b", 1_MiB}};
    CHECK(footprint{}.add<char>("x", 1).bytes() == 512);
    CHECK(footprint{cuota::device_memory{}}.add<char>("x", 1).bytes() == 512);
    CHECK(footprint{cuota::pinned_memory{}}.add<char>("x", 1).bytes() == 1);
    CHECK(footprint{pool}.add<char>("x", 1).bytes() == 256);
    CHECK(footprint{cuota::any_resource{pool}}.add<char>("x", 1).bytes() == 256);
    CHECK(footprint::with_granularity(1).add<char>("x", 3).bytes() == 3);
    CHECK(footprint::with_granularity(2_MiB).add<char>("x", 3, copies(2)).bytes() == 4_MiB);

    SECTION("also in a plan of several resources") {
        footprint plan{cuota::pinned_memory{}};
        plan.add<char>("staging", 100).add(footprint{pool}.add<char>("scratch", 1).per_sample<char>("x", 1));
        CHECK(plan.bytes(0) == 100 + 256);
        CHECK(plan.bytes(257) == 100 + 256 + 512);
        plan.add(plan);
        CHECK(plan.parts().size() == 6);
        CHECK(plan.bytes(257) == 2 * (100 + 256 + 512));
    }
    SECTION("for parts whose sizes are known at run time only") {
        footprint plan;
        plan.add({.name = "labels", .count = 10, .unit_bytes = 3, .copies = 2, .granularity = 16});
        plan.add({.name = "labels", .count = 10, .unit_bytes = 3});
        CHECK(plan.bytes() == 64 + 512);
        CHECK(support::has(plan.text(0), "2 x 10 elements of 3 B"));
        CHECK(footprint::part{.count = 5, .unit_bytes = 3}.bytes(0) == 15);
    }
}

TEST_CASE("a granularity is a power of two", "[guard][footprint]") {
    footprint plan;
    for (std::size_t const granularity : {std::size_t{0}, std::size_t{3}, unlimited})
        CHECK_THROWS_AS(footprint::with_granularity(granularity), cuota::usage_error);
    unsigned const line = __LINE__ + 2;
    auto const refused = support::thrown<cuota::usage_error>(
        [&] { plan.add({.count = 1, .granularity = 3, .where = cuota::source_location::current()}); });
    CHECK(refused.where().line == line);
    CHECK(plan.parts().empty());
}

TEST_CASE("a sum that overflows is unlimited and does not fit, even without a limit", "[guard][footprint]") {
    budget endless{"endless", unlimited};
    auto const has_no_end = [&](footprint const& plan) {
        CHECK(plan.bytes() == unlimited);
        CHECK(!plan.fits(endless));
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { plan.check(endless); });
        CHECK(refused.info().charged == unlimited);
        CHECK_THROWS_AS(plan.reserve(endless), cuota::budget_exceeded);
        CHECK(endless.held() == 0);
        CHECK(endless.peak() == 0);
        batch_fit const fit = plan.largest_batch(endless);
        CHECK(!fit.fixed_part_fits());
        CHECK(fit.batch == 0);
    };
    SECTION("by its count") { has_no_end(footprint{}.add<double>("x", unlimited / 8 + 1)); }
    SECTION("by the rounding") { has_no_end(footprint{}.add<char>("x", unlimited - 510)); }
    SECTION("by its copies") { has_no_end(footprint{}.add<char>("x", 1, copies(unlimited / 512 + 1))); }
    SECTION("by its parts") {
        footprint plan;
        plan.add<char>("x", unlimited / 2 + 1).add<char>("y", unlimited / 2 + 1);
        has_no_end(plan);
        CHECK(support::has(plan.text(0), "footprint: 16 EiB or more"));
    }
    SECTION("at the largest size") { has_no_end(footprint::with_granularity(1).add<char>("x", unlimited)); }
    SECTION("one byte less is a number") {
        auto const plan = footprint::with_granularity(1).add<char>("x", unlimited - 1);
        CHECK(plan.bytes() == unlimited - 1);
        CHECK(plan.fits(endless));
        CHECK(plan.reserve(endless).bytes() == unlimited - 1);
    }
    SECTION("a batch of 0 makes it 0") {
        footprint plan;
        plan.per_sample<double>("x", unlimited);
        CHECK(plan.bytes(0) == 0);
        CHECK(plan.bytes(1) == unlimited);
        CHECK(plan.largest_batch(endless).batch == 0);
        CHECK(plan.largest_batch(endless).fixed_part_fits());
    }
}

TEST_CASE("a plan that depends on the batch refuses queries without one", "[guard][footprint]") {
    budget b{"b", 10_KiB};
    footprint plan;
    plan.per_sample<char>("x", 1);
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::usage_error>([&] { (void)plan.bytes(); });
    CHECK(refused.where().line == line);
    CHECK_THROWS_AS(plan.fits(b), cuota::usage_error);
    CHECK_THROWS_AS(plan.check(b), cuota::usage_error);
    CHECK_THROWS_AS(plan.reserve(b), cuota::usage_error);
    CHECK(plan.bytes(0) == 0);
}

TEST_CASE("a check that passes charges nothing", "[guard][footprint]") {
    budget b{"b", 10_KiB};
    b.charge(2_KiB);
    auto const plan = footprint{}.add<char>("x", 8_KiB);
    CHECK(plan.fits(b));
    CHECK_NOTHROW(plan.check(b));
    CHECK_NOTHROW(plan.check(b, 1000));
    CHECK(b.held() == 2_KiB);
    CHECK(b.peak() == 2_KiB);
    b.refund(2_KiB);
}

TEST_CASE("a refused check has all facts and charges nothing", "[guard][footprint]") {
    budget root{"gpu", 1_MiB};
    budget b{"trainer", unlimited, root};
    b.charge(100 * 1024, "older");
    footprint plan;
    plan.add<float>("weights", 1000)
        .add<float>("adam", 1000, copies(2))
        .per_sample<float>("activations", 1000);

    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { plan.check(b, 256); });
    cuota::refusal const& facts = refused.info();
    CHECK(facts.requested == 4000 + 8000 + 256 * 4000);
    CHECK(facts.charged == 4096 + 8192 + 256 * 4000);
    CHECK(facts.granularity == 512);
    CHECK(facts.request.name == cuota::tag{"plan"});
    CHECK(facts.request.where.line == line);
    CHECK(facts.budgets.size() == 2);
    CHECK(facts.budgets[facts.refused_by].name == "gpu");
    CHECK(facts.max_fit == 1_MiB - 100 * 1024);
    CHECK(facts.shortfall() == facts.charged - facts.max_fit);
    CHECK(facts.holders.size() == 1);
    CHECK(facts.reclaimed == 0);
    CHECK(facts.cause == "activations 1000.0 KiB + adam 8.0 KiB + 1 more at a batch of 256; the largest "
                         "batch that fits is 233");
    CHECK(support::has(refused.what(), " for plan at footprint.cpp:" + std::to_string(line)));
    CHECK(root.held() == 100 * 1024);
    CHECK(root.peak() == 100 * 1024);
    b.refund(100 * 1024);
}

TEST_CASE("the cause of a refused check is short, and has a note if no batch would fit",
          "[guard][footprint]") {
    budget b{"b", 2048};
    SECTION("the fixed part is too large") {
        auto const plan = footprint{}.add<char>("weights", 2049).per_sample<char>("x", 1);
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { plan.check(b, 3); });
        CHECK(refused.info().cause ==
              "weights 2.5 KiB + x 512 B at a batch of 3; the fixed part alone does not fit");
    }
    SECTION("no sample fits") {
        auto const plan = footprint{}.add<char>("weights", 2048).per_sample<char>("x", 1000);
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { plan.check(b, 3); });
        CHECK(refused.info().cause ==
              "x 3.0 KiB + weights 2.0 KiB at a batch of 3; not even a batch of 1 fits");
    }
    SECTION("the plan does not depend on a batch") {
        footprint plan;
        for (int i = 0; i != 9; ++i) plan.add<char>("x", 1);
        plan.add<char>({}, 513);
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { plan.check(b); });
        CHECK(refused.info().cause == "untagged 1.0 KiB + x 512 B + 8 more");
    }
    SECTION("available bytes are counted in the smallest granularity") {
        auto const plan =
            footprint{}.add<char>("x", 2048).add(footprint::with_granularity(4).add<char>("y", 1));
        auto const refused = support::thrown<cuota::budget_exceeded>([&] { plan.check(b); });
        CHECK(refused.info().granularity == 4);
        CHECK(refused.info().max_fit == 2048);
        CHECK(refused.info().shortfall() == 4);
    }
    CHECK(b.peak() == 0);
}

TEST_CASE("a check does not reclaim memory, and a reservation does", "[guard][footprint]") {
    budget b{"b", 1_MiB};
    cuota::scoped_pool pool{b, {.initial_size = 1_MiB}};
    auto const plan = footprint{}.add<char>("x", 512_KiB);
    CHECK(!plan.fits(b));
    CHECK_THROWS_AS(plan.check(b), cuota::budget_exceeded);
    CHECK(pool.stats().reserved == 1_MiB);

    cuota::reservation const mine = plan.reserve(b);
    CHECK(mine.bytes() == 512_KiB);
    CHECK(pool.stats().reserved == 0);
    CHECK(b.held() == 512_KiB);
}

TEST_CASE("a reservation of a plan has the bytes of the plan", "[guard][footprint]") {
    budget b{"b", 10'000};
    footprint plan;
    plan.add<char>("x", 1000).per_sample<char>("y", 1000);
    {
        cuota::reservation const mine = plan.reserve(b, 2);
        CHECK(mine.bytes() == 1024 + 2048);
        CHECK(b.held() == 1024 + 2048);
        mine.as_budget().charge(1024 + 2048);
        mine.as_budget().refund(1024 + 2048);
    }
    CHECK(b.held() == 0);
    CHECK(b.reserve(plan.bytes(2), "plan").bytes() == 1024 + 2048);
    unsigned const line = __LINE__ + 1;
    auto const refused = support::thrown<cuota::budget_exceeded>([&] { (void)plan.reserve(b, 10); });
    CHECK(refused.info().request.where.line == line);
    CHECK(refused.info().charged == 1024 + 10'240);
    CHECK(b.held() == 0);
}

TEST_CASE("a pool of the plan's size serves all of its parts", "[guard][footprint]") {
    budget b{"b", 64_MiB};
    cuota::stream const stream;
    for (unsigned seed = 0; seed != 20; ++seed) {
        plans random{seed};
        footprint plan;
        for (int i = 0; i != 30; ++i)
            plan.add({.name = "part",
                      .count = random.up_to(5000),
                      .copies = random.up_to(3),
                      .per_sample = random.up_to(1) != 0,
                      .granularity = std::size_t{512} << random.up_to(3)});
        std::size_t const batch = random.up_to(9);
        cuota::scoped_pool pool{b, {.initial_size = plan.bytes(batch)}};
        CHECK(b.held() == plan.bytes(batch));
        std::vector<std::pair<void*, std::size_t>> taken;
        for (footprint::part const& p : plan.parts())
            for (std::size_t i = 0; i != p.copies; ++i) {
                std::size_t const bytes = p.count * (p.per_sample ? batch : 1) * p.unit_bytes;
                taken.emplace_back(pool.allocate(stream, bytes), bytes);
            }
        CHECK(b.held() == plan.bytes(batch));
        for (auto const& [p, bytes] : taken) pool.deallocate(stream, p, bytes);
    }
    CHECK(b.peak() <= 64_MiB);
    CHECK(b.held() == 0);
}

TEST_CASE("the largest batch is the one that trying every batch finds", "[guard][footprint]") {
    plans random{20'260'101};
    std::size_t any = 0;
    std::size_t none = 0;
    std::size_t some = 0;
    std::size_t disagreements = 0;
    int const rounds = support::rounds(120'000);
    for (int round = 0; round != rounds; ++round) {
        footprint const plan = random.with(4, 6, [](plans& r) { return r.up_to(12); });
        std::size_t const available = random.up_to(round % 4 == 0 ? 20 : 400);
        batch_fit const fit = plan.largest_batch_in(available);

        // A sample that needs memory needs at least a byte: if the batch of room + 1 samples fits, all batches fit.
        std::size_t fitting = 0;
        std::size_t fitted = 0;
        for (std::size_t batch = 0; batch <= available + 1; ++batch)
            if (fits_by_hand(plan, batch, available)) {
                fitting = batch;
                ++fitted;
            }
        bool const is_any = fitted == available + 2;
        bool agrees = fit.available == available && fit.fixed_part_fits() == (fitted != 0) &&
                      fit.is_unbounded() == is_any && fit.bytes == bytes_by_hand(plan, is_any ? 0 : fitting);
        if (!is_any)
            agrees = agrees && fit.batch == fitting && fit.next_bytes == bytes_by_hand(plan, fitting + 1) &&
                     fit.next_bytes > available && fitted == (fit.fixed_part_fits() ? fitting + 1 : 0);
        disagreements += !agrees;
        ++(is_any ? any : fitted == 0 ? none : some);
    }
    CHECK(disagreements == 0);
    CHECK(any > support::rounds(1000U));
    CHECK(none > support::rounds(1000U));
    CHECK(some > support::rounds(1000U));
}

TEST_CASE("the largest batch of any plan fits, and the next one does not", "[guard][footprint]") {
    plans random{7};
    std::size_t found = 0;
    int const rounds = support::rounds(100'000);
    for (int round = 0; round != rounds; ++round) {
        footprint const plan = random.with(4, 63, [](plans& r) { return r.of_any_size() >> r.up_to(40); });
        std::size_t const available = random.of_any_size();
        batch_fit const fit = plan.largest_batch_in(available);
        bool right = fit.available == available;
        if (!fits_by_hand(plan, 0, available)) right = right && fit.batch == 0 && !fit.fixed_part_fits();
        else if (!plan.depends_on_batch())
            right = right && fit.is_unbounded() && fits_by_hand(plan, unlimited, available);
        else {
            wide const next = bytes_by_hand(plan, fit.batch + 1);
            right = right && fits_by_hand(plan, fit.batch, available) &&
                    !fits_by_hand(plan, fit.batch + 1, available) &&
                    fit.bytes == bytes_by_hand(plan, fit.batch) &&
                    fit.next_bytes == (next < unlimited ? static_cast<std::size_t>(next) : unlimited);
            found += fit.batch != 0;
        }
        if (!right) FAIL("round " << round << ": " << plan.text(fit.batch) << '\n' << fit.text());
    }
    CHECK(found > support::rounds(1000U));
}

TEST_CASE("the sum of a plan is exact, or unlimited if it overflows", "[guard][footprint]") {
    plans random{3};
    std::size_t endless = 0;
    for (int round = 0; round != 100'000; ++round) {
        footprint const plan = random.with(3, 63, [](plans& r) { return r.of_any_size() >> r.up_to(60); });
        std::size_t const batch = random.of_any_size() >> random.up_to(63);
        wide const bytes = bytes_by_hand(plan, batch);
        bool const is_endless = bytes >= unlimited;
        if (plan.bytes(batch) != (is_endless ? unlimited : static_cast<std::size_t>(bytes)))
            FAIL("round " << round << ", a batch of " << batch << ": " << plan.text(batch));
        endless += is_endless;
    }
    CHECK(endless > 1000);
    CHECK(endless < 99'000);
}

TEST_CASE("the largest batch is limited by the budget and all of its ancestors", "[guard][footprint]") {
    budget root{"gpu", 100};
    budget middle{"model", 80, root};
    budget leaf{"layer", unlimited, middle};
    auto const plan = footprint::with_granularity(1).add<char>("w", 5).per_sample<char>("x", 10);
    CHECK(plan.largest_batch(leaf).batch == 7);
    root.charge(30);
    batch_fit const fit = plan.largest_batch(leaf);
    CHECK(fit.batch == 6);
    CHECK(fit.bytes == 65);
    CHECK(fit.next_bytes == 75);
    CHECK(fit.available == 70);
    CHECK(plan.fits(leaf, 6));
    CHECK(!plan.fits(leaf, 7));
    CHECK_THROWS_AS(plan.check(leaf, 7), cuota::budget_exceeded);
    root.refund(30);
}

TEST_CASE("batch_fit distinguishes fixed parts and samples that do not fit, and batches without limit",
          "[guard][footprint]") {
    auto const plan = footprint::with_granularity(1).add<char>("w", 50).per_sample<char>("x", 10);
    batch_fit const too_large = plan.largest_batch_in(49);
    CHECK(too_large.batch == 0);
    CHECK(!too_large.fixed_part_fits());
    CHECK(too_large.text() == "not even the fixed part fits: 50 B of 49 B");

    batch_fit const no_sample = plan.largest_batch_in(59);
    CHECK(no_sample.batch == 0);
    CHECK(no_sample.fixed_part_fits());
    CHECK(no_sample.next_bytes == 60);
    CHECK(no_sample.text() ==
          "no sample fits: the fixed part takes 50 B of 59 B, and a batch of 1 would take 60 B");

    batch_fit const one = plan.largest_batch_in(60);
    CHECK(one.batch == 1);
    CHECK(one.text() == "a batch of 1 fits: 60 B of 60 B, and 2 would take 70 B");

    batch_fit const any = footprint{}.add<char>("w", 50).largest_batch_in(unlimited);
    CHECK(any.batch == unlimited);
    CHECK(any.is_unbounded());
    CHECK(any.text() == "any batch fits: 512 B, no limit");

    batch_fit const most =
        footprint::with_granularity(1).per_sample<char>("x", 1).largest_batch_in(unlimited);
    CHECK(most.batch == unlimited - 1);
    CHECK(!most.is_unbounded());
    CHECK(most.bytes == unlimited - 1);
    CHECK(most.next_bytes == unlimited);
    CHECK(support::has(most.text(), "18'446'744'073'709'551'615 would take 16 EiB or more"));
}

TEST_CASE("the text of a plan fits on one screen, largest part first", "[guard][footprint]") {
    footprint plan;
    plan.add<float>("weights", 1'000'000).add<float>("adam", 1'000'000, copies(2));
    plan.per_sample<float>("activations", 4096).add<std::int64_t>({}, 1);
    CHECK(plan.text(256) == "footprint at a batch of 256: 15.4 MiB\n"
                            "  adam          7.6 MiB      49.4 %   2 x 1'000'000 floats\n"
                            "  activations   4.0 MiB      25.9 %   4'096 floats per sample\n"
                            "  weights       3.8 MiB      24.7 %   1'000'000 floats\n"
                            "  untagged      512 B         0.0 %   1 element of 8 B");
    CHECK(footprint{}.text(3) == "footprint: 0 B");
    CHECK(footprint{}.add<char>("x", 0).text(3) == "footprint: 0 B\n  x   0 B           0.0 %   0 bytes");

    CHECK(footprint{}.add<char>("a", 1).add<char>("b", 2).text(0) ==
          "footprint: 1.0 KiB\n  a   512 B        50.0 %   1 byte\n  b   512 B        50.0 %   2 bytes");

    std::string const long_name(300, 'n');
    footprint wide_one;
    wide_one.add<char>(cuota::tag::named(long_name), 1).add<char>("x", 1);
    CHECK(support::has(wide_one.text(0), "\n  " + long_name + "  512 B"));
    CHECK(support::has(wide_one.text(0), "\n  x" + std::string(39, ' ') + "512 B"));

    footprint many;
    for (int i = 0; i != 100; ++i) many.add<char>("x", 1);
    std::string const text = many.text(0);
    CHECK(std::count(text.begin(), text.end(), '\n') == 17);
    CHECK(support::has(text, "\n  and 84 more"));
}

TEST_CASE("a check beside other threads is refused only with consistent figures", "[guard][footprint]") {
    budget b{"b", 100};
    auto const plan = footprint::with_granularity(1).add<char>("x", 50);
    std::atomic<bool> is_over = false;
    std::thread other{[&] {
        while (!is_over)
            if (b.try_charge(60)) b.refund(60);
    }};
    std::size_t wrong = 0;
    for (int i = 0; i != 20'000; ++i) {
        try {
            plan.check(b);
        } catch (cuota::budget_exceeded const& refused) {
            wrong += refused.info().shortfall() != 10 || refused.info().max_fit != 40;
        }
    }
    is_over = true;
    other.join();
    CHECK(wrong == 0);
    CHECK(b.held() == 0);
}

TEST_CASE("the example of footprint runs", "[guard][footprint]") {
    budget budget{"trainer", 8_MiB};
    std::size_t const n = 100'000;

    footprint plan;
    plan.add<float>("weights", n).add<float>("adam", n, copies(2)).per_sample<float>("activations", 4096);
    CHECK_THROWS_AS(plan.check(budget, 512),
                    cuota::budget_exceeded);  // throws budget_exceeded; charges nothing
    std::size_t const batch = plan.largest_batch(budget).batch;
    cuota::reservation const mine = plan.reserve(budget, batch);

    CHECK(batch == 438);
    CHECK(mine.bytes() == plan.bytes(batch));
    CHECK(!plan.fits(budget, 1));
}
