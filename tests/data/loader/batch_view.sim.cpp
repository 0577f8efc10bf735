// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/batch_view.hpp>

#include <cstdint>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

namespace sim = cuota::simulator;

TEST_CASE("a view of a batch from before a capture cannot be used in it", "[data][batch_view]") {
    support::machine const on;
    cuota::stream const s;
    cuota::batch_loader loader{support::numbered_source{12, 1}, {.batch_size = 4, .device_slots = 2}};
    cuota::device_buffer<std::uint32_t> output{4, s, cuota::device_memory{}};
    for (cuota::batch b : loader.epoch(0)) {
        auto const before = b.view<std::uint32_t>(s);
        auto const refused = [&](auto use) {
            auto const error = support::thrown<cuota::usage_error>([&] { (void)cuota::capture(s, use); });
            return support::has(error.what(), "copy the batch to a buffer of the graph before each launch");
        };
        CHECK(refused([&] { cuota::for_each_index(s, 4, support::copy_numbers{before, output.write(s)}); }));
        CHECK(refused([&] { (void)before.span(); }));
        CHECK(refused([&] { (void)before.data(); }));
        CHECK(refused([&] { (void)before.first(1); }));
        CHECK(refused([&] { (void)before.last(1); }));
        CHECK(refused([&] { (void)before.subspan(1, 2); }));

        // A capture in which the view is held but not used is allowed.
        auto graph = cuota::capture(s, [&] {
            CHECK(before.size() == 4);
            CHECK(before.bytes() == 16);
            CHECK(!before.is_empty());
            auto const to = output.write(s);
            cuota::for_each_index(s, 4, support::write_word{to.span().data(), 7u}, "write");
        });
        graph.launch(s);
        CHECK(output.to_vector(s) == std::vector<std::uint32_t>(4, 7u));
        cuota::for_each_index(s, 4, support::copy_numbers{before, output.write(s)});
        auto const values = output.to_vector(s);
        for (std::size_t i = 0; i != 4; ++i) CHECK(values[i] == b.samples()[i]);
    }
    CHECK(sim::race_reports().empty());
}
