// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/device_span.hpp>

#include <concepts>
#include <cstddef>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::device_span;
using support::has;
using support::thrown;

static_assert(std::is_trivially_copyable_v<device_span<double>>);
static_assert(CUOTA_CHECKED || sizeof(device_span<double>) == sizeof(void*) + sizeof(std::size_t));
static_assert(std::convertible_to<device_span<int>, device_span<int const>>);
static_assert(!std::convertible_to<device_span<int const>, device_span<int>>);
static_assert(!std::convertible_to<device_span<int>, device_span<float>>);
static_assert(!std::ranges::range<device_span<int>>);  // host algorithms must not iterate over it
static_assert(std::is_same_v<device_span<int const>::element_type, int const>);

namespace {

// Returns an address that host code must not dereference.
int* nowhere() { return reinterpret_cast<int*>(std::size_t{4096}); }

struct write_parts {
    device_span<int> to;
    CUOTA_KERNEL void operator()(std::size_t) const {
        to.first(1)[0] = 1;
        to.subspan(1, 2)[1] = 2;
        to.last(1)[0] = 3;
    }
};
struct number_elements {
    device_span<int> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = static_cast<int>(i); }
};

}  // namespace

TEST_CASE("a device_span returns its address and size", "[buffer][device_span]") {
    device_span<int> const some{nowhere(), 10};
    device_span<int const> const to_read = some;
    device_span<int> const none;

    CHECK(some.data() == nowhere());
    CHECK(some.size() == 10);
    CHECK(some.bytes() == 10 * sizeof(int));
    CHECK_FALSE(some.is_empty());
    CHECK(to_read.data() == nowhere());
    CHECK(to_read.size() == 10);
    CHECK(none.data() == nullptr);
    CHECK(none.is_empty());
}

TEST_CASE("part of a device_span is a device_span, and a range outside it is misuse",
          "[buffer][device_span]") {
    device_span<int> const some{nowhere(), 10};

    CHECK(some.subspan(3, 4).data() == nowhere() + 3);
    CHECK(some.subspan(3, 4).size() == 4);
    CHECK(some.subspan(10, 0).is_empty());
    CHECK(some.first(10).size() == 10);
    CHECK(some.last(3).data() == nowhere() + 7);
    CHECK(some.last(3).size() == 3);
    CHECK(some.last(10).data() == nowhere());
    CHECK(some.last(0).is_empty());
    CHECK(device_span<int>{}.first(0).is_empty());
    CHECK(device_span<int>{}.last(0).is_empty());
    CHECK_THROWS_AS(some.subspan(3, 8), cuota::usage_error);
    CHECK_THROWS_AS(some.subspan(11, 0), cuota::usage_error);
    CHECK_THROWS_AS(some.first(11), cuota::usage_error);
    CHECK_THROWS_AS(some.last(11), cuota::usage_error);
    CHECK_THROWS_AS(some.subspan(2, static_cast<std::size_t>(-1)), cuota::usage_error);
    auto const text_of = [](auto action) { return std::string{thrown<cuota::usage_error>(action).what()}; };
    CHECK(text_of([&] { (void)some.subspan(3, 8); }) ==
          "cuota::usage_error: 8 elements from index 3 are outside a device_span of 10 ints");
    CHECK(text_of([&] { (void)some.last(11); }) ==
          "cuota::usage_error: 11 elements from index 0 are outside a device_span of 10 ints");
}

TEST_CASE("a kernel accesses every element of a device_span", "[buffer][device_span][gpu]") {
    cuota::stream const stream;
    cuota::device_buffer<int> numbers{10'000, stream, cuota::device_memory{}};
    cuota::for_each_index(stream, numbers.size(), number_elements{numbers.write(stream)});

    std::vector<int> expected(numbers.size());
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(numbers.to_vector(stream) == expected);
}

TEST_CASE("kernels divide device_spans into parts", "[buffer][device_span][gpu]") {
    cuota::stream const stream;
    cuota::device_buffer<int> numbers{4, stream, cuota::device_memory{}};
    cuota::for_each_index(stream, 1, write_parts{numbers.write(stream)});
    CHECK(numbers.to_vector(stream) == std::vector<int>{1, 0, 2, 3});
}

#if CUOTA_CHECKED
TEST_CASE("access to an element of a device_span by host code is misuse", "[buffer][device_span]") {
    device_span<int> const some{nowhere(), 10};

    CHECK(has(thrown<cuota::usage_error>([&] { (void)some[0]; }).what(),
              "host code touched an element of a device_span; only a kernel may"));
    CHECK(has(thrown<cuota::usage_error>([&] { (void)some[10]; }).what(),
              "index 10 is outside a device_span of 10 ints"));
    CHECK_THROWS_AS(device_span<int>{}[0], cuota::usage_error);
}

TEST_CASE("errors of a device_span name the buffer and the call site of the lease it was made from",
          "[buffer][device_span]") {
    cuota::stream const stream;
    cuota::device_buffer<float> made{10, stream, cuota::device_memory{}, "weights"};
    cuota::device_buffer<float> buffer{std::move(made)};
    auto const lease = buffer.write(stream, {"src/train.cpp", 41});
    auto const other = buffer.read({"src/train.cpp", 42});
    auto const text_of = [](auto action) { return std::string{thrown<cuota::usage_error>(action).what()}; };
    device_span<float const> const part = lease.span().first(9).last(8).subspan(1, 7);

    CHECK(text_of([&] { (void)lease.span()[12]; }) == "cuota::usage_error: index 12 is outside a device_span "
                                                      "of 10 floats: weights, leased at train.cpp:41");
    CHECK(text_of([&] { (void)lease.span()[3]; }) == "cuota::usage_error: host code touched an element of a "
                                                     "device_span; only a kernel may: weights, leased at "
                                                     "train.cpp:41");
    CHECK(text_of([&] { (void)lease.span().first(11); }) ==
          "cuota::usage_error: 11 elements from index 0 are outside a device_span of 10 floats: weights, "
          "leased at "
          "train.cpp:41");
    CHECK(
        text_of([&] { (void)part[7]; }) ==
        "cuota::usage_error: index 7 is outside a device_span of 7 floats: weights, leased at train.cpp:41");
    CHECK(text_of([&] { (void)other.span()[10]; }) == "cuota::usage_error: index 10 is outside a device_span "
                                                      "of 10 floats: weights, leased at train.cpp:42");
}
#endif
