// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/recording/held_pieces.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cuota/core/label.hpp>
#include <cuota/guard/detail/budget_observer.hpp>
#include <cuota/report/detail/recording/recorder_state.hpp>
#include <cuota/report/recording/recording.hpp>

#include "support/catch.hpp"

using cuota::event_kind;
using cuota::event_source;
using cuota::memory_event;
using cuota::recording;
using cuota::source_kind;
using cuota::source_location;
using cuota::detail::held_piece;
using cuota::detail::held_pieces;
using cuota::detail::recorder_state;

namespace {

struct two_budgets {
    two_budgets() {
        for (std::uint16_t& budget : budgets) {
            event_source facts;
            facts.kind = source_kind::budget;
            budget = state.add_source(std::move(facts));
        }
    }
    recorder_state state{16, 16, source_location::current()};
    std::uint16_t budgets[2]{};
    held_pieces pieces{state};
};

held_piece piece_at(std::uintptr_t address, cuota::tag name, std::size_t bytes = 100) {
    held_piece piece;
    piece.which = reinterpret_cast<void const*>(address);
    piece.name = name;
    piece.where = source_location::current();
    piece.bytes = bytes;
    return piece;
}

std::vector<event_kind> kinds_of(recording const& r, std::uint64_t address) {
    std::vector<event_kind> kinds;
    for (memory_event const& e : r.events)
        if (e.address == address) kinds.push_back(e.kind);
    return kinds;
}

}  // namespace

TEST_CASE("a piece is recorded as a block, and when it is removed, as freed", "[report][held_pieces]") {
    two_budgets on;
    on.pieces.add(piece_at(0x1000, "ring"), on.budgets[0]);
    on.pieces.add(piece_at(0x2000, "ring"), on.budgets[0]);
    CHECK(on.pieces.all().size() == 2);
    on.pieces.remove(reinterpret_cast<void const*>(0x1000));
    on.pieces.remove(reinterpret_cast<void const*>(0x3000));  // unknown
    CHECK(on.pieces.all().size() == 1);
    recording const r = on.state.read();
    CHECK(kinds_of(r, 0x1000) ==
          std::vector{event_kind::allocated, event_kind::free_requested, event_kind::free_completed});
    CHECK(kinds_of(r, 0x2000) == std::vector{event_kind::allocated});
    CHECK(r.events.size() == 4);
    CHECK(r.events.front().bytes == 100);
}

TEST_CASE("holders with the same tag, memory kind and budget are one resource", "[report][held_pieces]") {
    two_budgets on;
    held_piece in_host_memory = piece_at(0x5000, "ring");
    in_host_memory.memory = cuota::memory_kind::pinned;
    on.pieces.add(piece_at(0x1000, "ring"), on.budgets[0]);
    on.pieces.add(piece_at(0x2000, "ring"), on.budgets[0]);
    on.pieces.add(piece_at(0x3000, "slots"), on.budgets[0]);
    on.pieces.add(piece_at(0x4000, "ring"), on.budgets[1]);
    on.pieces.add(in_host_memory, on.budgets[0]);
    std::vector<std::uint16_t> sources;
    for (held_pieces::piece const& piece : on.pieces.all())
        sources.push_back(static_cast<std::uint16_t>(piece.source - on.budgets[1]));
    CHECK(sources == std::vector<std::uint16_t>{1, 1, 2, 3, 4});
    recording const r = on.state.read();
    event_source const& last = r.sources.back();
    CHECK(last.kind == source_kind::resource);
    CHECK(last.name == "ring");
    CHECK(last.memory == cuota::memory_kind::pinned);
    CHECK(last.budget == on.budgets[0]);
}

TEST_CASE("add_older adds an allocation for each piece that has no event in the recording",
          "[report][held_pieces]") {
    two_budgets on;
    on.pieces.add(piece_at(0x1000, "ring", 7), on.budgets[0]);
    for (int i = 0; i != 20; ++i) {
        on.pieces.add(piece_at(0x2000, "ring"), on.budgets[0]);
        on.pieces.remove(reinterpret_cast<void const*>(0x2000));
    }
    on.pieces.add(piece_at(0x2000, "ring"), on.budgets[0]);
    recording r = on.state.read();
    CHECK(kinds_of(r, 0x1000).empty());
    std::size_t const told = r.events.size();
    held_pieces::add_older(r, on.pieces.all());
    REQUIRE(r.events.size() == told + 1);
    CHECK(r.events.front().kind == event_kind::allocated);
    CHECK(r.events.front().address == 0x1000);
    CHECK(r.events.front().bytes == 7);
    CHECK(r.events.front().at == r.events[1].at);
    CHECK(r.sites[r.events.front().site].name == cuota::tag{"ring"});
    held_pieces::add_older(r, on.pieces.all());
    CHECK(r.events.size() == told + 1);
}
