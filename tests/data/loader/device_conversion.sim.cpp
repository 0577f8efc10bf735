// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/device_conversion.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/converted_dataset.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/runtime/for_each_index.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

using cuota::element_type;
using cuota::memory_dataset;
using support::machine;
using support::mentions;
using support::thrown;

namespace {

struct copy_bytes {
    cuota::device_span<std::byte const> from;
    cuota::device_span<std::byte> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};

// Returns a field's bytes of all samples, in order, as delivered on the device.
std::string delivered(cuota::batch_loader& loader, std::size_t field) {
    cuota::stream const s;
    std::string all;
    for (cuota::batch b : loader.epoch(0)) {
        auto const from = b.view<std::byte>(s, field);
        cuota::device_buffer<std::byte> seen{from.size(), s, cuota::device_memory{}, cuota::no_init};
        cuota::for_each_index(s, seen.size(), copy_bytes{from, seen.write(s)});
        for (std::byte const x : seen.to_vector(s)) all += static_cast<char>(x);
    }
    return all;
}

template <class From>
void expect_as_on_the_host(element_type to) {
    constexpr std::size_t width = 3;
    std::vector<From> values(7 * width);
    for (std::size_t i = 0; i != values.size(); ++i) {
        float const x = static_cast<float>(i) * 5.25f - (std::is_unsigned_v<From> ? 0.0f : 40.0f);
        values[i] = static_cast<From>(x);
    }
    memory_dataset const from{"x", values, {width}};
    std::vector<cuota::conversion> const wanted{{"x", to, 0.3, -1.5}};
    cuota::batch_loader there{
        from, {.batch_size = 3, .transform = cuota::converted_on_device(from.fields(), wanted)}};
    INFO(cuota::fields_text(from.fields()) << " to " << cuota::element_name(to));
    CHECK(there.fields()[0].type == to);
    std::vector<std::uint64_t> const all{0, 1, 2, 3, 4, 5, 6};
    CHECK(delivered(there, 0) == support::gathered(cuota::converted_dataset{from, wanted}, all).at(0));
}

template <class From>
void expect_as_on_the_host() {
    for (element_type const to :
         {element_type::f16, element_type::bf16, element_type::f32, element_type::f64})
        expect_as_on_the_host<From>(to);
}

}  // namespace

TEST_CASE("numbers that are converted on the device equal those that are converted on the host",
          "[data][device_conversion]") {
    machine const on;
    expect_as_on_the_host<std::uint8_t>();
    expect_as_on_the_host<std::int8_t>();
    expect_as_on_the_host<std::uint16_t>();
    expect_as_on_the_host<std::int16_t>();
    expect_as_on_the_host<std::uint32_t>();
    expect_as_on_the_host<std::int32_t>();
    expect_as_on_the_host<std::uint64_t>();
    expect_as_on_the_host<std::int64_t>();
    expect_as_on_the_host<cuota::half>();
    expect_as_on_the_host<cuota::bfloat16>();
    expect_as_on_the_host<float>();
    expect_as_on_the_host<double>();
}

TEST_CASE("fields that are not converted on the device are unchanged", "[data][device_conversion]") {
    machine const on;
    cuota::zip_dataset const from{
        memory_dataset{"pixels", std::vector<std::uint8_t>{0, 51, 255, 128, 7, 9}, {2}},
        memory_dataset{"labels", std::vector<std::int32_t>{-1, 2, 77}}};
    cuota::batch_loader loader{
        from,
        {.batch_size = 2,
         .transform = cuota::converted_on_device(from.fields(), {{"pixels", element_type::f32}})}};
    CHECK(cuota::fields_text(loader.fields()) == "pixels f32[2], labels i32");
    CHECK(loader.plan().host_slot.sample_bytes == 2 + 4);
    CHECK(loader.plan().device_slot.sample_bytes == 8 + 4);
    std::string const labels = delivered(loader, 1);
    std::vector<std::int32_t> seen(labels.size() / sizeof(std::int32_t));
    std::memcpy(seen.data(), labels.data(), labels.size());
    CHECK(seen == std::vector<std::int32_t>{-1, 2, 77});
}

TEST_CASE("an invalid conversion on the device is refused", "[data][device_conversion]") {
    memory_dataset const from{"x", std::vector<float>{1, 2}, {2}};
    auto const refused = [&](std::vector<cuota::conversion> const& wanted) {
        return std::string{thrown<cuota::usage_error>([&] {
                               (void)cuota::converted_on_device(from.fields(), wanted);
                           }).what()};
    };
    CHECK(mentions(refused({{"y", element_type::f16}}), "batch: cannot convert field y: no such field"));
    CHECK(mentions(refused({{"x", element_type::i32}}), "field x f32[2]: cannot convert to i32"));

    machine const on;
    memory_dataset const other{"x", std::vector<float>{1, 2, 3}, {3}};
    auto const how = cuota::converted_on_device(from.fields(), {{"x", element_type::f16}});
    CHECK(mentions(thrown<cuota::usage_error>([&] {
                       (void)cuota::batch_loader{other, {.batch_size = 1, .transform = how}};
                   }).what(),
                   "the transform takes x f32[2]"));
}
