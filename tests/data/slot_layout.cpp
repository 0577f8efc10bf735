// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/slot_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

using cuota::slot_layout;
using enum cuota::element_type;

TEST_CASE("slot_layout puts field after field, each aligned", "[data][slot_layout]") {
    std::vector<cuota::field> const fields{{"a", u8, {100}}, {"b", f32, {}}, {"c", u8, {}}};
    slot_layout const three = slot_layout::of(fields, 3, "x");
    CHECK(three == slot_layout{105, 512 + 256 + 256, {0, 512, 768}});
    CHECK(three.used_bytes(fields, 3) == 768 + 3);
    CHECK(three.used_bytes(fields, 1) == 768 + 1);
    CHECK(three.used_bytes(fields, 0) == 0);
    CHECK(slot_layout::of({}, 3, "x") == slot_layout{});
    CHECK(slot_layout{}.used_bytes({}, 3) == 0);
}

TEST_CASE("slot_layout refuses more than there are addresses for", "[data][slot_layout]") {
    std::vector<cuota::field> const large{{"a", f64, {std::size_t{1} << 40}}};
    auto const error =
        support::thrown<cuota::misuse>([&] { (void)slot_layout::of(large, std::size_t{1} << 30, "cats"); });
    CHECK(support::mentions(error.what(), "a batch of cats would be larger than any address space"));
}

TEST_CASE("a field of a slot is viewed by its type, or by bytes", "[data][slot_layout]") {
    std::vector<cuota::field> const fields{{"a", u8, {100}}, {"b", f32, {2}}};
    slot_layout const layout = slot_layout::of(fields, 3, "x");
    std::vector<std::byte> memory(layout.bytes);
    cuota::detail::slot_contents const slot{memory.data(), layout.offsets, fields, 2};
    auto const b = slot.view<float const>(1, "it", {});
    CHECK(static_cast<void const*>(b.data()) == memory.data() + 512);
    CHECK(b.size() == 4);
    CHECK(slot.view<std::byte>(0, "it", {}).size() == 200);
    CHECK_THROWS_AS(slot.view<double>(1, "it", {}), cuota::misuse);
    CHECK_THROWS_AS(slot.view<float>(2, "it", {}), cuota::misuse);
    auto const only_b = slot.only(1, 1);
    CHECK(only_b.view<float>(0, "it", {}).data() == b.data());
    CHECK_THROWS_AS(only_b.view<float>(1, "it", {}), cuota::misuse);
}
