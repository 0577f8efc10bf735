// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/detail/encode_block.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <cuota/core/half.hpp>
#include <cuota/training/precision/quantized.hpp>

#include "support/catch.hpp"
#include "support/device_bytes.hpp"

using cuota::detail::signed_code;

static_assert(cuota::detail::block_in_registers<256>::fits && cuota::detail::block_in_registers<128>::fits);
static_assert(!cuota::detail::block_in_registers<64>::fits && !cuota::detail::block_in_registers<2048>::fits);

namespace {

struct coded {
    std::vector<signed_code::type> codes;
    std::vector<float> scales;
    friend bool operator==(coded const&, coded const&) = default;
};

template <class T>
coded coded_on_host(std::span<T const> from, std::size_t block) {
    coded all;
    for (std::size_t begin = 0; begin < from.size(); begin += block) {
        auto const part = from.subspan(begin, std::min(block, from.size() - begin));
        float most = 0;
        for (T const x : part)
            most = cuota::detail::finite_max(most, cuota::detail::magnitude(static_cast<float>(x)));
        all.scales.push_back(signed_code::code::scale(most));
        for (T const x : part) all.codes.push_back(signed_code::of(static_cast<float>(x), all.scales.back()));
    }
    return all;
}

template <std::size_t Block, class T>
coded coded_on_device(std::vector<T> const& host, std::size_t begin, std::size_t codes_at) {
    cuota::stream const s;
    std::size_t const count = host.size() - begin;
    std::size_t const blocks = (count + Block - 1) / Block;
    support::device_bytes const from{host.size() * sizeof(T)};
    support::device_bytes const codes{codes_at + count + 1};
    support::device_bytes const scales{blocks * sizeof(float)};
    from.write(std::as_bytes(std::span{host}), s);
    cuota::rt::fill_bytes(codes.at(), 0x77, codes.size(), s);
    auto* const first = static_cast<signed_code::type*>(codes.at()) + codes_at;
    cuota::detail::for_each_by_warp(
        s, blocks,
        cuota::detail::store_block<T, Block>{static_cast<T const*>(from.at()) + begin, first,
                                             static_cast<float*>(scales.at()), count},
        "store_block");
    coded all{std::vector<signed_code::type>(codes.size()), std::vector<float>(blocks)};
    codes.read(std::as_writable_bytes(std::span{all.codes}), s);
    scales.read(std::as_writable_bytes(std::span{all.scales}), s);
    CHECK(all.codes.back() == 0x77);  // nothing is written beside the codes
    if (codes_at != 0) CHECK(all.codes[codes_at - 1] == 0x77);
    all.codes.pop_back();
    all.codes.erase(all.codes.begin(), all.codes.begin() + static_cast<std::ptrdiff_t>(codes_at));
    return all;
}

template <class T>
std::vector<T> some_numbers(std::size_t count) {
    std::mt19937 random{static_cast<unsigned>(count)};
    std::vector<T> all;
    for (std::size_t i = 0; i != count; ++i) {
        float x = static_cast<float>(static_cast<int>(random() % 20'001) - 10'000) * 1e-3f;
        if (random() % 100 == 0) x = std::numeric_limits<float>::infinity();
        if (random() % 100 == 0) x = std::numeric_limits<float>::quiet_NaN();
        all.push_back(static_cast<T>(x));
    }
    return all;
}

template <std::size_t Block, class T>
void expect_codes() {
    for (std::size_t const count : {1u, 31u, 33u, 255u, 256u, 257u, 1024u, 5000u}) {
        auto const host = some_numbers<T>(count + 4);
        for (std::size_t const begin : {0u, 1u, 2u, 4u})
            for (std::size_t const codes_at : {0u, 1u, 4u})
                CHECK((coded_on_device<Block, T>(host, begin, codes_at) ==
                       coded_on_host<T>(std::span{host}.subspan(begin), Block)));
    }
}

}  // namespace

TEMPLATE_TEST_CASE("a warp computes the same codes as the host, for blocks of any size and alignment",
                   "[training][encode_block][gpu]", float, cuota::half) {
    expect_codes<1, TestType>();
    expect_codes<3, TestType>();
    expect_codes<32, TestType>();
    expect_codes<100, TestType>();
    expect_codes<128, TestType>();
    expect_codes<256, TestType>();
    expect_codes<1024, TestType>();
    expect_codes<4096, TestType>();
}
