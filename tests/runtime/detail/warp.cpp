// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/detail/warp.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/device_bytes.hpp"

using cuota::detail::for_each_by_warp;
using cuota::detail::warp;

namespace {

constexpr std::size_t row = 100;  // not a multiple of the warp size

struct largest_of_row {
    float const* from;
    float* to;
    CUOTA_KERNEL void operator()(std::size_t r, warp const& all) const {
        float most = 0;
        for (std::size_t i = all.lane(); i < row; i += warp::threads) {
            float const x = from[r * row + i];
            most = x > most ? x : most;
        }
        float const largest = all.largest(most);
        if (all.lane() == 0) to[r] = largest;
    }
};

struct any_odd_in_row {
    unsigned const* from;
    unsigned* to;
    CUOTA_KERNEL void operator()(std::size_t r, warp const& all) const {
        bool is_odd = false;
        for (std::size_t i = all.lane(); i < row; i += warp::threads) is_odd |= from[r * row + i] % 2 != 0;
        bool const is_any = all.any(is_odd);
        if (all.lane() == 0) to[r] = is_any;
    }
};

struct is_multiple_of {
    unsigned first, n;
    [[nodiscard]] CUOTA_KERNEL bool operator()(unsigned i) const { return (first + i) % n == 0; }
};
struct multiples_as_bits {
    std::uint32_t* to;
    CUOTA_KERNEL void operator()(std::size_t group, warp const& all) const {
        std::uint32_t words[3];
        all.vote(is_multiple_of{static_cast<unsigned>(group) * 96, 7}, words);
        for (unsigned w = all.lane(); w < 3; w += warp::threads) to[group * 3 + w] = words[w];
    }
};

template <class T>
std::vector<T> read(support::device_bytes const& from, cuota::stream_ref s) {
    std::vector<T> all(from.size() / sizeof(T));
    from.read(std::as_writable_bytes(std::span{all}), s);
    return all;
}

}  // namespace

TEST_CASE("the threads of a warp compute the maximum of their numbers", "[runtime][warp][gpu]") {
    cuota::stream const s;
    for (std::size_t const rows : {1u, 7u, 8u, 9u, 20'000u}) {
        std::vector<float> host(rows * row);
        for (std::size_t i = 0; i != host.size(); ++i) host[i] = static_cast<float>(i % row);
        // The maximum is in a different thread in each row, and close to the limits of float.
        for (std::size_t r = 0; r != rows; ++r) host[r * row + r % row] = r % 2 == 0 ? 3e38f : 1e3f;
        for (std::size_t i = 0; i != row; ++i) host[i] = i == 77 ? 1e-45f : 0.0f;
        support::device_bytes const from{host.size() * sizeof(float)};
        support::device_bytes const to{rows * sizeof(float)};
        from.write(std::as_bytes(std::span{host}), s);
        for_each_by_warp(s, rows,
                         largest_of_row{static_cast<float const*>(from.at()), static_cast<float*>(to.at())},
                         "largest_of_row");
        auto const got = read<float>(to, s);
        CHECK(got[0] == 1e-45f);
        for (std::size_t r = 1; r != rows; ++r)
            if (got[r] != (r % 2 == 0 ? 3e38f : 1e3f)) FAIL("row " << r << " of " << rows << ": " << got[r]);
    }
}

TEST_CASE("the threads of a warp compute whether any of them has found an element", "[runtime][warp][gpu]") {
    cuota::stream const s;
    constexpr std::size_t rows = 2 * row + 1;
    std::vector<unsigned> host(rows * row, 2);
    for (std::size_t r = 1; r < rows; r += 2) host[r * row + r / 2] = 3;
    support::device_bytes const from{host.size() * sizeof(unsigned)};
    support::device_bytes const to{rows * sizeof(unsigned)};
    from.write(std::as_bytes(std::span{host}), s);
    for_each_by_warp(s, rows,
                     any_odd_in_row{static_cast<unsigned const*>(from.at()), static_cast<unsigned*>(to.at())},
                     "any_odd_in_row");
    auto const got = read<unsigned>(to, s);
    for (std::size_t r = 0; r != rows; ++r)
        if (got[r] != r % 2) FAIL("row " << r);
}

TEST_CASE("the vote of a warp is written as bits of words", "[runtime][warp][gpu]") {
    cuota::stream const s;
    constexpr std::size_t groups = 1000;
    support::device_bytes const to{groups * 3 * sizeof(std::uint32_t)};
    for_each_by_warp(s, groups, multiples_as_bits{static_cast<std::uint32_t*>(to.at())}, "multiples_as_bits");
    auto const got = read<std::uint32_t>(to, s);
    for (std::size_t i = 0; i != groups * 96; ++i)
        if ((got[i / 32] >> (i % 32) & 1u) != (i % 7 == 0)) FAIL(i);
}

TEST_CASE("a launch over 0 rows does nothing", "[runtime][warp][gpu]") {
    cuota::stream const s;
    for_each_by_warp(s, 0, multiples_as_bits{nullptr}, "multiples_as_bits");
    s.synchronize();
}
