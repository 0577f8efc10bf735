// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/slot_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

using cuota::slot_layout;
using cuota::detail::sample_list;
using cuota::detail::slot_parts;
using enum cuota::element_type;

TEST_CASE("slot_layout places fields one after the other, each aligned", "[data][slot_layout]") {
    std::vector<cuota::field> const fields{{"a", u8, {100}}, {"b", f32, {}}, {"c", u8, {}}};
    slot_layout const three = slot_layout::of(fields, 3, "x");
    CHECK(three == slot_layout{105, 512 + 256 + 256, {0, 512, 768}});
    CHECK(slot_layout::of({}, 3, "x") == slot_layout{});
}

TEST_CASE("slot_layout begins with the row offsets of ragged fields", "[data][slot_layout]") {
    std::vector<cuota::field> const fields{
        {"words", u16, {}, true}, {"class", u8, {}}, {"frames", f32, {10}, true}};
    CHECK(slot_layout::of(fields, 40, "x", 100) ==
          slot_layout{8 + 8 + 1, 2 * 512 + 256 + 256 + 4096, {1024, 1280, 1536}, 2 + 40});
    CHECK_THROWS_AS(slot_layout::of(fields, 40, "x", ~std::size_t{0} / 4), cuota::usage_error);
    CHECK_THROWS_AS(slot_layout::of(fields, ~std::size_t{0}, "x", 1), cuota::usage_error);
}

TEST_CASE("a full batch has the offsets of its layout, and a smaller batch is packed more closely",
          "[data][slot_layout]") {
    std::vector<cuota::field> const fields{
        {"words", u16, {}, true}, {"class", u8, {}}, {"frames", f32, {10}, true}};
    slot_layout const layout = slot_layout::of(fields, 40, "x", 100);
    sample_list full = sample_list::with_room(40, 2);
    full.row_offsets[0].back() = full.row_offsets[1].back() = 100;
    slot_parts const all{fields, full};
    for (std::size_t k = 0; k != 3; ++k) CHECK(all.field_at(k).begin == layout.offsets[k]);
    CHECK(all.row_offsets(1).begin == 512);
    CHECK(all.row_offsets(1).size == 41 * 8);
    CHECK(all.used_bytes() == 1536 + 4000);
    CHECK(all.used_bytes() <= layout.bytes);

    sample_list few;
    few.numbers = {7, 3};
    few.row_offsets = {{0, 130, 200}, {0, 0, 1}};
    slot_parts const some{fields, few};
    CHECK(some.row_offsets(0).size == 24);
    CHECK(some.row_offsets(1).begin == 256);
    CHECK(some.field_at(0).begin == 512);
    CHECK(some.field_at(0).size == 400);
    CHECK(some.field_at(1).begin == 1024);
    CHECK(some.field_at(1).size == 2);
    CHECK(some.field_at(2).begin == 1280);
    CHECK(some.used_bytes() == 1280 + 40);

    sample_list none;
    none.row_offsets = {{0}, {0}};
    CHECK(slot_parts{fields, none}.used_bytes() == 256 + 8);  // offsets exist, with no rows
    CHECK(slot_parts{{}, sample_list{}}.used_bytes() == 0);
}

TEST_CASE("slot_layout refuses more bytes than an address space has", "[data][slot_layout]") {
    std::vector<cuota::field> const large{{"a", f64, {std::size_t{1} << 40}}};
    auto const error = support::thrown<cuota::usage_error>(
        [&] { (void)slot_layout::of(large, std::size_t{1} << 30, "cats"); });
    CHECK(support::mentions(error.what(), "a batch of cats is larger than any address space"));
}

TEST_CASE("a field of a slot can be viewed by its type or as bytes", "[data][slot_layout]") {
    std::vector<cuota::field> const fields{{"a", u8, {100}}, {"b", f32, {2}}};
    slot_layout const layout = slot_layout::of(fields, 3, "x");
    std::vector<std::byte> memory(layout.bytes);
    sample_list two;
    two.numbers = {5, 6};
    cuota::detail::slot_contents const slot{memory.data(), fields, &two};
    auto const b = slot.view<float const>(1, "it", {});
    CHECK(static_cast<void const*>(b.data()) == memory.data() + 256);
    CHECK(b.size() == 4);
    CHECK(slot.view<std::byte>(0, "it", {}).size() == 200);
    CHECK_THROWS_AS(slot.view<double>(1, "it", {}), cuota::usage_error);
    CHECK_THROWS_AS(slot.view<float>(2, "it", {}), cuota::usage_error);
    auto const only_b = slot.only(1, 1);
    CHECK(only_b.view<float>(0, "it", {}).data() == b.data());
    CHECK_THROWS_AS(only_b.view<float>(1, "it", {}), cuota::usage_error);
}

TEST_CASE("a ragged field of a slot can be viewed as rows and row offsets", "[data][slot_layout]") {
    std::vector<cuota::field> const fields{{"class", u8, {}}, {"words", u16, {}, true}};
    slot_layout const layout = slot_layout::of(fields, 3, "x", 8);
    std::vector<std::byte> memory(layout.bytes);
    sample_list two;
    two.numbers = {5, 6};
    two.row_offsets = {{0, 3, 7}};
    cuota::detail::slot_contents const slot{memory.data(), fields, &two};
    CHECK(slot.view<std::uint16_t const>(1, "it", {}).size() == 7);
    CHECK(slot.view<std::uint8_t>(0, "it", {}).size() == 2);
    auto const offsets = slot.row_offsets(1, "it", {});
    CHECK(static_cast<void const*>(offsets.data()) == memory.data());
    CHECK(offsets.size() == 3);
    auto const error = support::thrown<cuota::usage_error>([&] { (void)slot.row_offsets(0, "it", {}); });
    CHECK(support::mentions(error.what(), "cannot return row offsets: field class u8 of it is not ragged"));
    CHECK_THROWS_AS(slot.row_offsets(2, "it", {}), cuota::usage_error);
}
