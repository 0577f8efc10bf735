// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/threads/biased_ownership.hpp>

#include <atomic>
#include <thread>

#include "support/catch.hpp"

using cuota::detail::biased_ownership;
using cuota::detail::owner_section;
using cuota::detail::thread_slot;

namespace {

struct thing : biased_ownership {
    bool try_use(thread_slot& me) {
        owner_section const here{me};
        if (!is_mine(me)) return false;
        ++uses;
        return true;
    }
    [[nodiscard]] bool seen(thread_slot const& me) const { return was_mine(me); }

    int uses = 0;  // protected by the bias, without a lock
};

}  // namespace

TEST_CASE("only the thread that has the bias may use the object, until the bias is closed",
          "[core][biased_ownership]") {
    thread_slot me;
    thread_slot other;
    thing t;
    CHECK(!t.try_use(me));
    t.begin_bias(me);
    CHECK((t.try_use(me) && t.is_of(me) && t.seen(me)));
    CHECK((!t.try_use(other) && !t.is_of(other) && !t.seen(other)));
    t.close();
    CHECK((!t.try_use(me) && !t.is_of(me) && !t.seen(me)));
    CHECK(t.holder() == &me);
    t.begin_bias(other);
    CHECK((t.try_use(other) && !t.try_use(me)));
    CHECK(t.uses == 2);
}

TEST_CASE("the bias is offered less often after each revocation, until it was used enough",
          "[core][biased_ownership]") {
    thread_slot me;
    thing t;
    unsigned waited = 0;
    for (int i = 0; i != 20; ++i) {
        unsigned here = 0;
        while (!t.should_bias()) ++here;
        REQUIRE(here >= waited);
        waited = here;
        t.begin_bias(me);
        t.close();
        t.note_revocation();
    }
    REQUIRE(waited == 1023);
    while (!t.should_bias()) {}
    t.begin_bias(me);
    for (int i = 0; i != 2048; ++i) REQUIRE(t.try_use(me));
    t.close();
    t.note_revocation();
    REQUIRE(t.should_bias());
}

TEST_CASE("the owner's writes are visible to the thread that revokes the bias, and no more follow",
          "[core][biased_ownership]") {
    for (int round = 0; round != 200; ++round) {
        thing t;
        std::atomic<bool> begun = false;
        std::atomic<bool> over = false;
        int done = 0;
        thread_slot* record = nullptr;
        std::thread owner{[&] {
            thread_slot& me = *cuota::detail::this_thread();
            record = &me;
            t.begin_bias(me);
            begun = true;
            while (!over)
                while (t.try_use(me)) ++done;
        }};
        while (!begun) std::this_thread::yield();
        t.close();
        if (cuota::detail::fences_are_asymmetric()) cuota::detail::asymmetric_fence_heavy();
        cuota::detail::wait_for_owner_section(*record);
        int const uses = t.uses;
        t.uses = -1;  // now owned by this thread alone
        over = true;
        owner.join();
        REQUIRE(t.uses == -1);
        REQUIRE(done == uses);
    }
}
