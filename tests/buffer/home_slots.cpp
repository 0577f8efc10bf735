// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/home_slots.hpp>

#include <string>
#include <thread>

#include "support/catch.hpp"

using cuota::place;
using cuota::detail::home_slots;

namespace {

struct mine : home_slots {
    mine() {
        belong_to(cuota::detail::this_thread());
        allow(true, true);
    }
};

}  // namespace

TEST_CASE("slots of nobody are entered by nobody", "[buffer][home_slots]") {
    home_slots none;
    none.allow(true, true);
    CHECK_FALSE(none.may_begin(false));
    CHECK_FALSE(none.may_begin(true));
    CHECK(none.try_begin(false, {}) == 0);
    CHECK(none.are_free());
    none.belong_to(nullptr);
    none.allow(true, true);
    CHECK_FALSE(none.may_begin(false));
}

TEST_CASE("their owner enters them, when it may, and no other thread does", "[buffer][home_slots]") {
    mine slots;
    CHECK(slots.may_begin(false));
    CHECK(slots.may_begin(true));
    std::thread{[&] {
        CHECK_FALSE(slots.may_begin(false));
        CHECK(slots.try_begin(true, {}) == 0);
    }}.join();
    slots.allow(true, false);
    CHECK(slots.may_begin(false));
    CHECK_FALSE(slots.may_begin(true));
    CHECK(slots.try_begin(true, {}) == 0);
    CHECK(slots.try_begin(false, {}) == 1);
    slots.end(1, false);
}

TEST_CASE("there are five, each is known while it is open, and any may be next", "[buffer][home_slots]") {
    mine slots;
    CHECK(slots.is_first_free());
    CHECK(slots.begin_first(false, {"a.cpp", 1}) == 1);
    CHECK_FALSE(slots.is_first_free());
    for (unsigned i = 2; i <= home_slots::count; ++i) CHECK(slots.try_begin(false, {"a.cpp", i}) == i);
    CHECK(slots.try_begin(false, {"a.cpp", 6}) == 0);

    slots.end(3, false);
    CHECK_FALSE(slots.are_free());
    CHECK(slots.try_begin(true, {"b.cpp", 7}) == 3);
    auto const open = slots.open();
    CHECK(open);
    CHECK(open->writes);
    CHECK(std::string{open->where.file} == "b.cpp");
    CHECK(open->where.line == 7);

    for (std::uint64_t i = 1; i <= home_slots::count; ++i) slots.end(i, i == 3);
    CHECK(slots.are_free());
    CHECK_FALSE(slots.open());
}

TEST_CASE("what has ended is told once", "[buffer][home_slots]") {
    mine slots;
    CHECK_FALSE(slots.take_done().read);
    std::uint64_t const a = slots.try_begin(false, {});
    CHECK_FALSE(slots.take_done().read);
    slots.end(a, false);
    auto const first = slots.take_done();
    CHECK(first.read);
    CHECK_FALSE(first.written);
    CHECK_FALSE(slots.take_done().read);

    std::uint64_t const b = slots.try_begin(true, {});
    std::thread{[&] { slots.end(b, true); }}.join();  // by another thread
    auto const second = slots.take_done();
    CHECK_FALSE(second.read);
    CHECK(second.written);
}
