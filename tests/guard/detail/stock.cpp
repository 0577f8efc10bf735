// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/stock.hpp>

#include <cuota/guard/detail/ledger.hpp>

#include "support/catch.hpp"

using cuota::detail::stock;
using cuota::detail::thread_slot;

namespace {

struct shelf {
    cuota::detail::intrusive_ptr<cuota::detail::ledger> node =
        cuota::detail::intrusive_ptr<cuota::detail::ledger>::make(
            "node", 100u, cuota::detail::intrusive_ptr<cuota::detail::ledger>{});
    thread_slot me;
    thread_slot other;
    stock ready;
};

}  // namespace

TEST_CASE("only the owner of a stock can use it", "[guard][stock]") {
    shelf s;
    REQUIRE(!s.ready.try_use(s.me, 0));
    s.ready.open(*s.node, s.me);
    s.ready.extend(50, 20);
    REQUIRE(s.ready.idle() == 30);
    REQUIRE(!s.ready.try_use(s.other, 1));
    REQUIRE(!s.ready.try_put_back(s.other, 1));
    REQUIRE(s.ready.try_use(s.me, 30));
    REQUIRE(!s.ready.try_use(s.me, 1));
    REQUIRE(s.ready.try_put_back(s.me, 50));
    REQUIRE(!s.ready.try_put_back(s.me, 1));
    REQUIRE(!s.ready.try_use(s.me, 51));
    REQUIRE(!s.ready.try_use(s.me, static_cast<std::size_t>(-1)));
    REQUIRE(s.me.sections % 2 == 0);
}

TEST_CASE("a stock's coming bytes are in use until they are put back or have arrived", "[guard][stock]") {
    shelf s;
    REQUIRE(!s.ready.try_use_coming(s.me, 0));
    s.ready.open(*s.node, s.me);
    s.ready.extend(50, 20);
    REQUIRE(!s.ready.try_use_coming(s.me, 31));
    REQUIRE(!s.ready.try_use_coming(s.other, 1));
    REQUIRE(s.ready.try_use_coming(s.me, 10));
    REQUIRE(s.ready.try_use_coming(s.me, 5));
    REQUIRE(s.ready.coming() == 15);
    REQUIRE(s.ready.idle() == 15);
    REQUIRE(!s.ready.try_end_coming(s.other, 5, true));
    REQUIRE(s.ready.try_end_coming(s.me, 5, true));
    REQUIRE(!s.ready.try_end_coming(s.me, 11, true));
    REQUIRE(s.ready.try_end_coming(s.me, 10, false));
    REQUIRE(s.ready.coming() == 0);
    REQUIRE(s.ready.used() == 25);
    REQUIRE(s.ready.try_use_coming(s.me, 5));
    s.ready.close();
    REQUIRE(!s.ready.try_use_coming(s.me, 1));
    REQUIRE(!s.ready.try_end_coming(s.me, 5, true));
    REQUIRE(s.ready.coming() == 5);
    s.ready.clear();
    REQUIRE(s.ready.coming() == 0);
    REQUIRE(s.me.sections % 2 == 0);
}

TEST_CASE("a stock that was closed cannot be used", "[guard][stock]") {
    shelf s;
    s.ready.open(*s.node, s.me);
    s.ready.extend(50, 20);
    s.ready.close();
    REQUIRE(!s.ready.try_use(s.me, 1));
    REQUIRE(!s.ready.try_put_back(s.me, 1));
    REQUIRE(s.ready.used() == 20);
    s.ready.clear();
    REQUIRE(!s.ready.is_open());
    REQUIRE(s.ready.idle() == 0);
}
