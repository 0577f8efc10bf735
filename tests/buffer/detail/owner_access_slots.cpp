// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/detail/owner_access_slots.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/look_until.hpp"
#include "support/rounds.hpp"

using cuota::source_location;
using cuota::detail::owner_access_slots;

namespace {

struct mine : owner_access_slots {
    mine() {
        count_as_used();
        set_owner(cuota::detail::this_thread());
        allow(true, true);
    }
};

}  // namespace

TEST_CASE("slots without an owner cannot be entered", "[buffer][owner_access_slots]") {
    owner_access_slots none;
    none.allow(true, true);
    CHECK_FALSE(none.may_begin_first(false));
    CHECK_FALSE(none.may_begin_first(true));
    CHECK(none.try_begin(false, {}) == 0);
    CHECK(none.are_free());
    none.set_owner(nullptr);
    none.allow(true, true);
    CHECK_FALSE(none.may_begin_first(false));
}

TEST_CASE("only the owner enters its slots, and only when allowed", "[buffer][owner_access_slots]") {
    mine slots;
    CHECK(slots.may_begin_first(false));
    CHECK(slots.may_begin_first(true));
    bool other_may = true;
    std::uint64_t others = 1;
    std::thread{[&] {
        other_may = slots.may_begin_first(false);
        others = slots.try_begin(true, {});
    }}.join();
    CHECK_FALSE(other_may);
    CHECK(others == 0);
    slots.allow(true, false);
    CHECK(slots.may_begin_first(false));
    CHECK_FALSE(slots.may_begin_first(true));
    CHECK(slots.try_begin(true, {}) == 0);
    CHECK(slots.try_begin(false, {}) == 1);
    CHECK(slots.try_begin(false, {}) == 3);
    CHECK(slots.try_begin(true, {}) == 0);
    slots.end(3, false);
    CHECK(slots.try_end_first(false));
    CHECK(slots.may_begin_first(false));
    slots.allow(false, false);
    CHECK(slots.try_begin(false, {}) == 0);
    CHECK(slots.are_free());
}

TEST_CASE("one slot is for reads, one for writes and three for either, and an open access is found",
          "[buffer][owner_access_slots]") {
    mine slots;
    slots.begin_first(false, {"a.cpp", 1});
    CHECK_FALSE(slots.may_begin_first(false));
    CHECK(slots.may_begin_first(true));
    for (unsigned i = 3; i <= owner_access_slots::count; ++i)
        CHECK(slots.try_begin(false, {"a.cpp", i}) == i);
    CHECK(slots.try_begin(false, {"a.cpp", 6}) == 0);
    CHECK(slots.try_begin(true, {"a.cpp", 7}) == owner_access_slots::first_number(true));
    CHECK(slots.try_begin(true, {"a.cpp", 8}) == 0);
    CHECK(slots.open()->where.line == 7);

    slots.end(4, false);
    CHECK(slots.try_end_first(true));
    CHECK_FALSE(slots.are_free());
    CHECK_FALSE(slots.open()->writes);
    CHECK(slots.try_begin(true, {}) == 2);
    CHECK(slots.try_begin(true, {"b.cpp", 9}) == 4);
    CHECK(slots.try_end_first(true));
    auto const open = slots.open();
    REQUIRE(open);
    CHECK(open->writes);
    CHECK(std::string{open->where.file} == "b.cpp");
    CHECK(open->where.line == 9);

    for (std::uint64_t const i : {1u, 3u, 4u, 5u}) slots.end(i, i == 4);
    CHECK(slots.are_free());
    CHECK_FALSE(slots.open());
}

TEST_CASE("open accesses stay open when allow changes, and end as before", "[buffer][owner_access_slots]") {
    mine slots;
    slots.begin_first(false, {"a.cpp", 1});
    slots.allow(true, false);
    CHECK(slots.open()->where.line == 1);
    CHECK_FALSE(slots.may_begin_first(true));
    slots.end(owner_access_slots::first_number(false), false);
    CHECK(slots.may_begin_first(false));
}

TEST_CASE("an access that ends after its buffer is refused by try_end_first and ended by end",
          "[buffer][owner_access_slots]") {
    mine slots;
    slots.begin_first(true, {"a.cpp", 1});
    slots.set_owner(nullptr);
    CHECK_FALSE(slots.try_end_first(true));
    CHECK_FALSE(slots.are_free());
    slots.end(owner_access_slots::first_number(true), true);
    CHECK(slots.are_free());
    CHECK_FALSE(slots.may_begin_first(true));
}

TEST_CASE("take_done returns finished accesses once", "[buffer][owner_access_slots]") {
    mine slots;
    auto const at_first = slots.take_done();
    CHECK(at_first.read);
    CHECK(at_first.written);
    CHECK_FALSE(slots.take_done().read);
    std::uint64_t const a = slots.try_begin(false, {});
    CHECK(a == owner_access_slots::first_number(false));
    CHECK_FALSE(slots.take_done().read);
    slots.end(a, false);
    auto const first = slots.take_done();
    CHECK(first.read);
    CHECK_FALSE(first.written);
    CHECK_FALSE(slots.take_done().read);

    std::uint64_t const b = slots.try_begin(true, {});
    std::thread{[&] { slots.end(b, true); }}.join();
    auto const second = slots.take_done();
    CHECK_FALSE(second.read);
    CHECK(second.written);
}

TEST_CASE("an access begins by one comparison when another has ended since the last take_done",
          "[buffer][owner_access_slots]") {
    owner_access_slots slots;
    CHECK_FALSE(slots.take_done().written);
    slots.set_owner(cuota::detail::this_thread());
    slots.allow(true, true);
    for (int looks = 0; looks != 2; ++looks) {
        CHECK_FALSE(slots.may_begin_first(true));
        CHECK(slots.try_begin(true, {"a.cpp", 1}) == owner_access_slots::first_number(true));
        CHECK(slots.try_end_first(true));
        CHECK(slots.may_begin_first(true));
        CHECK(slots.take_done().written);
    }
    CHECK_FALSE(slots.take_done().written);
}

TEST_CASE("take_done returns a finished access while the next is open, and the next when it ends",
          "[buffer][owner_access_slots]") {
    mine slots;
    slots.begin_first(true, {"a.cpp", 1});
    CHECK(slots.take_done().written);
    CHECK(slots.open()->where.line == 1);
    CHECK_FALSE(slots.take_done().written);
    slots.allow(true, false);
    CHECK(slots.open()->writes);
    slots.end(owner_access_slots::first_number(true), true);
    CHECK(slots.take_done().written);

    std::uint64_t const others[] = {slots.try_begin(false, {}), slots.try_begin(false, {})};
    CHECK_FALSE(slots.take_done().read);
    slots.end(others[1], false);  // in a slot for reads and writes
    CHECK(slots.take_done().read);
    CHECK_FALSE(slots.take_done().read);
    slots.end(others[0], false);
    CHECK(slots.take_done().read);
}

TEST_CASE("take_done in another thread misses no finished access of the owner",
          "[buffer][owner_access_slots][threads]") {
    mine slots;
    (void)slots.take_done();
    int const rounds = support::rounds(20'000);
    std::atomic<int> used = 0, looked = 0;
    int missed = 0;
    std::thread other{[&] {
        for (int round = 1; round <= rounds; ++round) {
            bool told = false;
            support::look_until([&] {
                told |= slots.take_done().read;
                return used == round;
            });
            told |= slots.take_done().read;
            if (!told) ++missed;
            looked = round;
        }
    }};
    for (int round = 1; round <= rounds; ++round) {
        slots.end(slots.try_begin(false, {}), false);
        used = round;
        support::look_until([&] { return looked == round; });
    }
    other.join();
    CHECK(missed == 0);
}
