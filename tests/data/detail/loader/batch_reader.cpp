// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/loader/batch_reader.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/detail/loader/loader_config.hpp>
#include <cuota/data/detail/loader/loader_times.hpp>
#include <cuota/data/loader/slot_layout.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/numbered_source.hpp"
#include "support/ragged_texts.hpp"

using cuota::detail::any_dataset;
using cuota::detail::batch_reader;
using cuota::detail::loader_config;
using cuota::detail::slot_part;
using cuota::detail::slot_parts;
using cuota::detail::worker_times;
using numbers = std::vector<std::uint64_t>;

namespace {

template <class T>
std::vector<T> in_place(std::vector<std::byte> const& slot, slot_part part) {
    REQUIRE(part.end() <= slot.size());
    std::vector<T> values(part.size / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), slot.data() + part.begin, part.size);
    return values;
}

}  // namespace

TEST_CASE("batch_reader draws the positions of a batch and reads their samples into a slot",
          "[data][batch_reader]") {
    any_dataset const from{support::numbered_source{20, 2}};
    loader_config const shape{from, {.batch_size = 4}};
    batch_reader reader{shape, from};
    std::vector<std::byte> slot(shape.plan.host_slot.bytes);
    worker_times taken;
    reader.draw(0, {6, 3, 9}, taken);
    reader.fill(slot, taken);
    CHECK(reader.samples().numbers == numbers{6, 7, 8});
    slot_parts const places{shape.fields, reader.samples()};
    CHECK(in_place<std::uint32_t>(slot, places.field_at(0)) == std::vector<std::uint32_t>{6, 6, 7, 7, 8, 8});
    CHECK(in_place<std::uint64_t>(slot, places.field_at(1)) == numbers{18, 21, 24});
    CHECK(taken.reading.count() > 0);
    CHECK(taken.waiting.count() == 0);
}

TEST_CASE("batch_reader draws batches by rows, and writes the row offsets before the rows",
          "[data][batch_reader]") {
    support::ragged_texts const texts{{3, 1, 5, 2}};
    any_dataset const from{texts.classed()};
    loader_config const shape{from, {.batch_size = 4, .max_rows = 8, .shard = {1, 2}}};
    batch_reader reader{shape, from};
    std::vector<std::byte> slot(shape.plan.host_slot.bytes);
    worker_times taken;
    auto const dealt = reader.draw_rows(0, 0, taken);
    REQUIRE(dealt);
    CHECK(dealt->first == 2);  // the other process has the first two samples
    CHECK(dealt->end == 4);
    support::heap_watch const watch;
    reader.fill(slot, taken);
    std::size_t const allocations = watch.allocations();
    CHECK(allocations == 0);
    slot_parts const places{shape.fields, reader.samples()};
    CHECK(in_place<std::uint64_t>(slot, places.row_offsets(0)) == numbers{0, 5, 7});
    CHECK(in_place<std::uint32_t>(slot, places.field_at(0)) == texts.words_of({2, 3}));
    CHECK(in_place<std::uint16_t>(slot, places.field_at(1)) == std::vector<std::uint16_t>{6, 9});
}
