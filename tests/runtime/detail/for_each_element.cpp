// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/detail/for_each_element.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <cuota/core/half.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/device_bytes.hpp"

using cuota::detail::for_each_element;
using cuota::detail::pack_of;
using cuota::detail::pack_split;

static_assert(pack_of(4, 4) == 4 && pack_of(2, 2) == 8 && pack_of(1, 1) == 16 && pack_of(16, 16) == 1);
static_assert(pack_of(2, 4) == 4 && pack_of(4, 2) == 4 && pack_of(1, 4) == 4 && pack_of(1, 2) == 8);
static_assert(pack_of(1, 8) == 4 && pack_of(2, 8) == 2 && pack_of(0, 8) == 2 && pack_of(4, 0) == 4);
static_assert(pack_of(12, 4) == 0 && pack_of(0, 3) == 0 && pack_of(32, 32) == 0);

namespace {

template <class From, class To>
struct plus_index {
    [[nodiscard]] CUOTA_KERNEL To operator()(std::size_t i, From x) const {
        return static_cast<To>(static_cast<To>(x) + static_cast<To>(i % 100));
    }
};

struct index_times {
    unsigned factor;
    [[nodiscard]] CUOTA_KERNEL std::uint64_t operator()(std::size_t i) const { return i * factor; }
};

/// Each thread counts its odd elements and adds the count in finish().
struct count_odd {
    unsigned* sum;
    unsigned mine = 0;
    CUOTA_KERNEL void operator()(std::size_t, std::uint16_t x) { mine += x & 1u; }
    CUOTA_KERNEL void finish(cuota::detail::warp const&) const {
#if defined(__CUDA_ARCH__)
        atomicAdd(sum, mine);
#else
        *sum += mine;
#endif
    }
};

struct twelve_bytes {
    std::uint32_t word[3];
    friend bool operator==(twelve_bytes const&, twelve_bytes const&) = default;
};
struct sixteen_bytes {
    std::uint32_t word[4];
    friend bool operator==(sixteen_bytes const&, sixteen_bytes const&) = default;
};
template <class T>
struct same_value {
    T value;
    [[nodiscard]] CUOTA_KERNEL T operator()(std::size_t) const { return value; }
};

// Checks that elements are copied from any offset to any offset, with any alignment, and that no neighbors are changed.
template <class From, class To>
void expect_all(std::size_t count, std::size_t from_at, std::size_t to_at) {
    cuota::stream const s;
    std::vector<From> host(from_at + count + 1);
    for (std::size_t i = 0; i != host.size(); ++i) host[i] = static_cast<From>(i % 100);
    support::device_bytes const from{host.size() * sizeof(From)};
    support::device_bytes const to{(to_at + count + 1) * sizeof(To)};
    from.write(std::as_bytes(std::span{host}), s);
    cuota::rt::fill_bytes(to.at(), 0x11, to.size(), s);
    auto* const first = static_cast<To*>(to.at()) + to_at;
    auto const* const source = static_cast<From const*>(from.at()) + from_at;
    for_each_element(s, count, source, first, plus_index<From, To>{}, "plus_index");
    std::vector<To> got(to_at + count + 1);
    to.read(std::as_writable_bytes(std::span{got}), s);
    To beside{};
    std::memset(&beside, 0x11, sizeof beside);
    for (std::size_t i = 0; i != got.size(); ++i) {
        bool const is_written = i >= to_at && i < to_at + count;
        To const expected = is_written ? static_cast<To>(static_cast<To>(host[from_at + i - to_at]) +
                                                         static_cast<To>((i - to_at) % 100))
                                       : beside;
        if (got[i] != expected) FAIL(count << " from " << from_at << " to " << to_at << ": element " << i);
    }
}

template <class From, class To>
void expect_all_of_types() {
    for (std::size_t const count : {1u, 2u, 3u, 15u, 16u, 17u, 64u, 1000u})
        for (std::size_t const from_at : {0u, 1u, 3u, 4u, 8u})
            for (std::size_t const to_at : {0u, 1u, 2u, 8u, 15u}) expect_all<From, To>(count, from_at, to_at);
    expect_all<From, To>(300'000, 0, 0);
    expect_all<From, To>(300'000, 1, 1);
    expect_all<From, To>(300'000, 0, 1);
}

}  // namespace

TEST_CASE("elements are split into those before the first aligned one, whole packs and the rest",
          "[runtime][for_each_element]") {
    auto const at = [](std::uintptr_t address) { return reinterpret_cast<void const*>(address); };
    auto const floats = [&](std::size_t count, std::uintptr_t a, std::uintptr_t b) {
        return pack_split::of(count, 4, {at(a), 4, at(b), 4});
    };
    auto const is = [](pack_split const& s, std::size_t head, std::size_t packs) {
        return s.head == head && s.packs == packs;
    };
    CHECK(is(floats(100, 0x1000, 0x2000), 0, 25));
    CHECK(is(floats(103, 0x1004, 0x2004), 3, 25));
    CHECK(floats(103, 0x1004, 0x2004).singles(4) == 3);
    CHECK(floats(103, 0x1000, 0x2000).single(0, 4) == 100);
    CHECK(floats(104, 0x1004, 0x2004).single(3, 4) == 103);
    CHECK(is(floats(100, 0x1004, 0x2008), 100, 0));  // the two arrays are never aligned together
    CHECK(floats(100, 0x1004, 0x2008).single(99, 4) == 99);
    CHECK(is(floats(2, 0x1004, 0x2004), 2, 0));  // ends before the first aligned element
    // A pack of four halves is aligned to 8 bytes, a pack of four floats to 16.
    CHECK(is(pack_split::of(100, 4, {at(0x1002), 2, at(0x2004), 4}), 3, 24));
    CHECK(is(pack_split::of(100, 4, {at(0x1008), 2, at(0x2000), 4}), 0, 25));
    CHECK(is(pack_split::of(100, 4, {at(0x1004), 2, at(0x2000), 4}), 100, 0));
    // A split of one array.
    CHECK(is(pack_split::of(100, 2, {nullptr, 0, at(0x2008), 8}), 1, 49));
}

TEST_CASE("every element is read and written once for any alignment of the memory",
          "[runtime][for_each_element][gpu]") {
    expect_all_of_types<float, float>();
    expect_all_of_types<std::uint8_t, float>();
    expect_all_of_types<float, std::uint16_t>();
    expect_all_of_types<std::uint16_t, double>();
    expect_all_of_types<std::uint8_t, std::uint8_t>();
    expect_all_of_types<std::int64_t, std::uint8_t>();
}

TEST_CASE("elements may be replaced in place", "[runtime][for_each_element][gpu]") {
    cuota::stream const s;
    std::vector<float> host(5001, 2.0f);
    support::device_bytes const memory{host.size() * sizeof(float)};
    memory.write(std::as_bytes(std::span{host}), s);
    auto* const at = static_cast<float*>(memory.at()) + 1;
    float const* const from = at;
    for_each_element(s, host.size() - 1, from, at, plus_index<float, float>{}, "plus_index");
    memory.read(std::as_writable_bytes(std::span{host}), s);
    CHECK(host[0] == 2);
    for (std::size_t i = 1; i != host.size(); ++i)
        if (host[i] != 2 + static_cast<float>((i - 1) % 100)) FAIL(i);
}

TEST_CASE("without an input, elements are computed from their indices", "[runtime][for_each_element][gpu]") {
    cuota::stream const s;
    for (std::size_t const at : {0u, 1u})
        for (std::size_t const count : {1u, 2u, 3u, 999u, 100'000u}) {
            support::device_bytes const memory{(at + count) * sizeof(std::uint64_t)};
            void const* const nothing = nullptr;
            for_each_element(s, count, nothing, static_cast<std::uint64_t*>(memory.at()) + at, index_times{3},
                             "index_times");
            std::vector<std::uint64_t> got(at + count);
            memory.read(std::as_writable_bytes(std::span{got}), s);
            for (std::size_t i = 0; i != count; ++i)
                if (got[at + i] != i * 3) FAIL(i);
        }
}

TEMPLATE_TEST_CASE("elements of any size are written", "[runtime][for_each_element][gpu]", twelve_bytes,
                   sixteen_bytes) {
    cuota::stream const s;
    TestType const value{{1, 2, 3}};
    std::vector<TestType> got(1000);
    support::device_bytes const memory{got.size() * sizeof(TestType)};
    void const* const nothing = nullptr;
    for_each_element(s, got.size(), nothing, static_cast<TestType*>(memory.at()), same_value<TestType>{value},
                     "same_value");
    memory.read(std::as_writable_bytes(std::span{got}), s);
    CHECK(got == std::vector<TestType>(1000, value));
}

TEST_CASE("a thread keeps its state over all of its elements, and each launch starts anew",
          "[runtime][for_each_element][gpu]") {
    cuota::stream const s;
    support::device_bytes const sum{sizeof(unsigned)};
    for (std::size_t const count : {1u, 7u, 8u, 31u, 32u, 33u, 257u, 100'001u}) {
        std::vector<std::uint16_t> host(count, 3);
        host[count / 2] = 2;
        support::device_bytes const from{count * sizeof(std::uint16_t)};
        from.write(std::as_bytes(std::span{host}), s);
        cuota::rt::fill_bytes(sum.at(), 0, sizeof(unsigned), s);
        void* const nothing = nullptr;
        for (int round = 0; round != 2; ++round)
            for_each_element(s, count, static_cast<std::uint16_t const*>(from.at()), nothing,
                             count_odd{static_cast<unsigned*>(sum.at())}, "count_odd");
        unsigned got = 0;
        sum.read(std::as_writable_bytes(std::span{&got, 1}), s);
        CHECK(got == 2 * (count - 1));
    }
}

TEST_CASE("a launch over 0 elements does nothing", "[runtime][for_each_element][gpu]") {
    cuota::stream const s;
    float const* const nowhere = nullptr;
    float* const nor_there = nullptr;
    for_each_element(s, 0, nowhere, nor_there, plus_index<float, float>{}, "plus_index");
    s.synchronize();
}
