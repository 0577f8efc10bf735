// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/thread_tenure.hpp>

#include <atomic>
#include <thread>

#include "support/catch.hpp"

using cuota::detail::section;
using cuota::detail::thread_record;
using cuota::detail::thread_tenure;

namespace {

struct thing : thread_tenure {
    bool try_use(thread_record& me) {
        section const here{me};
        if (!is_mine(me)) return false;
        ++uses;
        return true;
    }
    [[nodiscard]] bool seen(thread_record const& me) const { return was_mine(me); }

    int uses = 0;  // protected by the bias, without a lock
};

}  // namespace

TEST_CASE("a tenure is one thread's, until it is closed", "[core][thread_tenure]") {
    thread_record me;
    thread_record other;
    thing t;
    CHECK(!t.try_use(me));
    t.begin_tenure(me);
    CHECK((t.try_use(me) && t.is_of(me) && t.seen(me)));
    CHECK((!t.try_use(other) && !t.is_of(other) && !t.seen(other)));
    t.close();
    CHECK((!t.try_use(me) && !t.is_of(me) && !t.seen(me)));
    CHECK(t.holder() == &me);
    t.begin_tenure(other);
    CHECK((t.try_use(other) && !t.try_use(me)));
    CHECK(t.uses == 2);
}

TEST_CASE("what is called in again and again does not pay, until it has served", "[core][thread_tenure]") {
    thread_record me;
    thing t;
    unsigned waited = 0;
    for (int i = 0; i != 20; ++i) {
        unsigned here = 0;
        while (!t.pays()) ++here;
        REQUIRE(here >= waited);
        waited = here;
        t.begin_tenure(me);
        t.close();
        t.note_collected();
    }
    REQUIRE(waited == 1023);
    while (!t.pays()) {}
    t.begin_tenure(me);
    for (int i = 0; i != 2048; ++i) REQUIRE(t.try_use(me));
    t.close();
    t.note_collected();
    REQUIRE(t.pays());
}

TEST_CASE("who calls in sees all that the owner did, and he does nothing more", "[core][thread_tenure]") {
    for (int round = 0; round != 200; ++round) {
        thing t;
        std::atomic<bool> begun = false;
        std::atomic<bool> over = false;
        int done = 0;
        thread_record* record = nullptr;
        std::thread owner{[&] {
            thread_record& me = *cuota::detail::this_thread();
            record = &me;
            t.begin_tenure(me);
            begun = true;
            while (!over)
                while (t.try_use(me)) ++done;
        }};
        while (!begun) std::this_thread::yield();
        t.close();
        if (cuota::detail::fences_are_asymmetric()) cuota::detail::heavy_fence();
        cuota::detail::see_section_end(*record);
        int const uses = t.uses;
        t.uses = -1;  // now owned by this thread alone
        over = true;
        owner.join();
        REQUIRE(t.uses == -1);
        REQUIRE(done == uses);
    }
}
