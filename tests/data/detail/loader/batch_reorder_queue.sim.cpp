// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/loader/batch_reorder_queue.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuota/buffer/staging_ring.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"

using cuota::detail::batch_reorder_queue;
using cuota::detail::sample_list;
using support::machine;

namespace {

constexpr std::uint64_t step = 4;  // positions

// A batch_reorder_queue and the ring that supplies its batches.
struct line_and_ring {
    explicit line_and_ring(std::size_t places, std::size_t slots, std::uint64_t batches)
        : ring{places, 64}, line{places, slots, sample_list::with_room(4, 0)} {
        line.open();
        line.begin(0, batches * step);
    }
    [[nodiscard]] batch_reorder_queue::claim claim() {
        return line.claim_next(line.next_step(line.generation()).value() + step);
    }
    bool fill(batch_reorder_queue::claim const& mine) {
        std::optional<cuota::staging_ring::staging_slot> lease = ring.acquire();
        sample_list samples = sample_list::with_room(4, 0);
        samples.numbers.assign(1, mine.batch);
        return line.fill(mine, lease, samples, nullptr);
    }
    bool fail(batch_reorder_queue::claim const& mine, char const* why) {
        std::optional<cuota::staging_ring::staging_slot> none;
        sample_list samples;
        return line.fill(mine, none, samples, std::make_exception_ptr(std::runtime_error{why}));
    }
    // Performs all possible copies and returns their batches, by sample.
    std::vector<std::uint64_t> copy_all() {
        std::vector<std::uint64_t> copied;
        while (auto const job = line.next_copy()) {
            copied.push_back(job->from->samples.numbers.at(0));
            job->from->filled.reset();
            line.copied();
        }
        return copied;
    }

    cuota::staging_ring ring;
    batch_reorder_queue line;
};

using list = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("batches are claimed in order, filled in any order, and copied in order",
          "[data][batch_reorder_queue]") {
    machine const on;
    line_and_ring l{4, 3, 5};
    auto const a = l.claim();
    auto const b = l.claim();
    CHECK(l.line.next_step(l.line.generation()) == 2 * step);
    auto const c = l.claim();
    CHECK(l.fill(c));
    CHECK(l.fill(b));
    CHECK(l.copy_all().empty());
    CHECK_FALSE(l.line.has_ready());
    CHECK(l.fill(a));
    CHECK(l.copy_all() == list{0, 1, 2});
    for (std::uint64_t i = 0; i != 3; ++i) CHECK(l.line.deliver().index == i);
    CHECK(l.line.all_slots_held());
    CHECK(l.line.position() == 3 * step);
}

TEST_CASE("a copy uses the slot that has been free for the longest time", "[data][batch_reorder_queue]") {
    machine const on;
    line_and_ring l{2, 3, 9};
    std::vector<std::uint32_t> slots;
    for (int i = 0; i != 6; ++i) {  // each batch ends before the next is delivered
        l.fill(l.claim());
        l.copy_all();
        slots.push_back(l.line.deliver().slot);
        l.line.give_back(slots.back());
    }
    CHECK(slots == std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2});
}

TEST_CASE("a copy waits for a slot, and uses the slot that was returned first",
          "[data][batch_reorder_queue]") {
    machine const on;
    line_and_ring l{4, 2, 9};
    for (int i = 0; i != 4; ++i) l.fill(l.claim());
    CHECK(l.copy_all() == list{0, 1});
    auto const first = l.line.deliver();
    auto const second = l.line.deliver();
    CHECK(l.line.held() == 2);
    CHECK(l.line.all_slots_held());
    l.line.give_back(second.slot);
    l.line.give_back(first.slot);
    CHECK(l.line.held() == 0);
    CHECK(l.copy_all() == list{2, 3});
    CHECK(l.line.deliver().slot == second.slot);
    CHECK(l.line.deliver().slot == first.slot);
}

TEST_CASE("a failure replaces its batch, and no batch after it is claimed", "[data][batch_reorder_queue]") {
    machine const on;
    line_and_ring l{6, 3, 9};
    auto const a = l.claim();
    auto const b = l.claim();
    auto const c = l.claim();
    CHECK(l.fail(c, "third"));
    CHECK_FALSE(l.line.has_work());
    CHECK_FALSE(l.line.next_step(l.line.generation()));
    CHECK(l.fail(b, "second"));
    CHECK(l.copy_all().empty());
    CHECK_FALSE(l.line.failure_here());
    CHECK(l.fill(a));
    CHECK(l.copy_all() == list{0});
    CHECK_FALSE(l.line.failure_here());  // the first batch precedes it
    (void)l.line.deliver();
    REQUIRE(l.line.failure_here());
    CHECK_THROWS_WITH(std::rethrow_exception(l.line.failure_here()), "second");

    l.line.close();
    l.line.open();
    l.line.begin(0, 2 * step);
    CHECK_FALSE(l.line.failure_here());
    l.fill(l.claim());
    CHECK(l.copy_all() == list{0});
}

TEST_CASE("a batch that was claimed in an earlier epoch is discarded", "[data][batch_reorder_queue]") {
    machine const on;
    line_and_ring l{3, 2, 5};
    auto const old = l.claim();
    l.fill(l.claim());
    l.line.close();
    CHECK_FALSE(l.line.has_work());
    l.line.open();
    CHECK_FALSE(l.line.has_work());
    std::uint64_t const before = l.line.generation();
    l.line.begin(0, step);
    CHECK_FALSE(l.line.next_step(before));
    CHECK_FALSE(l.fill(old));
    CHECK_FALSE(l.fail(old, "late"));
    CHECK(l.line.has_work());
    l.fill(l.claim());
    CHECK(l.copy_all() == list{0});
    (void)l.line.deliver();
    CHECK(l.line.is_over());
}

TEST_CASE("an epoch may end at the position where a further batch was searched",
          "[data][batch_reorder_queue]") {
    machine const on;
    line_and_ring l{3, 2, 5};
    l.fill(l.claim());
    CHECK(l.copy_all() == list{0});
    l.line.ends_here();
    CHECK_FALSE(l.line.has_work());
    CHECK_FALSE(l.line.is_over());  // one batch remains to be delivered
    (void)l.line.deliver();
    CHECK(l.line.is_over());
    CHECK(l.line.position() == step);
}

TEST_CASE("slots that were copied but not delivered are returned when the epoch ends",
          "[data][batch_reorder_queue]") {
    machine const on;
    line_and_ring l{3, 2, 5};
    l.fill(l.claim());
    l.fill(l.claim());
    CHECK(l.copy_all() == list{0, 1});
    auto const kept = l.line.deliver();
    l.line.close();
    CHECK(l.line.held() == 1);
    l.line.give_back(kept.slot);
    CHECK(l.line.held() == 0);
}
