// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/device_matrix.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::device_matrix;
using cuota::device_span;
using support::thrown;

static_assert(std::is_trivially_copyable_v<device_matrix<double>>);
static_assert(CUOTA_CHECKED || sizeof(device_matrix<double>) == sizeof(void*) + 3 * sizeof(std::size_t));
static_assert(std::convertible_to<device_matrix<int>, device_matrix<int const>>);
static_assert(!std::convertible_to<device_matrix<int const>, device_matrix<int>>);
static_assert(!std::convertible_to<device_matrix<int>, device_matrix<float>>);
static_assert(std::is_same_v<device_matrix<int const>::element_type, int const>);

namespace {

// Only a named lease converts to a matrix: a temporary would end before the matrix is used.
template <class T, class From>
constexpr bool can_be_made = std::is_constructible_v<device_matrix<T>, From, std::size_t, std::size_t>&&
    std::is_constructible_v<device_matrix<T>, From, std::size_t, std::size_t, std::size_t>;
template <class T, class From>
constexpr bool cannot_be_made =
    !std::is_constructible_v<device_matrix<T>, From, std::size_t, std::size_t> &&
    !std::is_constructible_v<device_matrix<T>, From, int, int> &&
    !std::is_constructible_v<device_matrix<T>, From, std::size_t, std::size_t, std::size_t>;
static_assert(can_be_made<int, cuota::lease<int>&> && can_be_made<int const, cuota::lease<int> const&> &&
              can_be_made<int const, cuota::lease<int const>&> && can_be_made<int, device_span<int>>);
static_assert(cannot_be_made<int, cuota::lease<int>> && cannot_be_made<int const, cuota::lease<int>> &&
              cannot_be_made<int const, cuota::lease<int const>> &&
              cannot_be_made<int const, cuota::lease<int const> const>);
static_assert(cannot_be_made<int, cuota::lease<int const>&> && cannot_be_made<int, device_span<int const>>);

// Returns an address that host code must not dereference.
int* nowhere() { return reinterpret_cast<int*>(std::size_t{4096}); }

struct write_cells {
    device_matrix<int> to;
    CUOTA_KERNEL void operator()(std::size_t) const {
        to(0, 0) = 1;
        to(1, 2) = 2;
        to.row(0)[2] = 3;
        to.submatrix(1, 0, 1, 2)(0, 1) = 4;
    }
};

std::string text_of(auto action) { return thrown<cuota::usage_error>(action).what(); }

}  // namespace

TEST_CASE("a device_matrix returns its address and shape", "[buffer][device_matrix]") {
    device_matrix<int> const some{device_span<int>{nowhere(), 12}, 3, 4};
    device_matrix<int const> const to_read = some;
    device_matrix<int> const none;

    CHECK(some.data() == nowhere());
    CHECK(some.rows() == 3);
    CHECK(some.columns() == 4);
    CHECK(some.pitch() == 4);
    CHECK(some.size() == 12);
    CHECK_FALSE(some.is_empty());
    CHECK(to_read.data() == nowhere());
    CHECK(to_read.rows() == 3);
    CHECK(to_read.columns() == 4);
    CHECK(to_read.pitch() == 4);
    CHECK(none.is_empty());
    CHECK(none.rows() == 0);
    CHECK(device_matrix{device_span<int>{}, 0, 7}.is_empty());
    CHECK(device_matrix{device_span<int>{}, 7, 0}.rows() == 7);
}

TEST_CASE("rows and submatrices of a device_matrix keep its pitch", "[buffer][device_matrix]") {
    device_matrix<int> const some{device_span<int>{nowhere(), 100}, 5, 6, 20};
    device_matrix<int> const part = some.submatrix(1, 2, 3, 4);

    CHECK(some.row(0).data() == nowhere());
    CHECK(some.row(4).data() == nowhere() + 80);
    CHECK(some.row(4).size() == 6);
    CHECK(part.data() == nowhere() + 22);
    CHECK(part.rows() == 3);
    CHECK(part.columns() == 4);
    CHECK(part.pitch() == 20);
    CHECK(part.row(2).data() == nowhere() + 62);
    CHECK(part.row(2).size() == 4);
    CHECK(part.submatrix(1, 1, 1, 1).data() == nowhere() + 43);
    CHECK(some.submatrix(5, 6, 0, 0).is_empty());
}

TEST_CASE("a device_matrix of another size than its span is misuse", "[buffer][device_matrix]") {
    device_span<int> const ten{nowhere(), 10};
    constexpr auto huge = ~std::size_t{0};

    CHECK(text_of([&] {
              (void)device_matrix{ten, 3, 4};
          }) ==
          "cuota::usage_error: a device_matrix of 3 x 4 elements does not fit in a device_span of 10 ints");
    CHECK_THROWS_AS((device_matrix{ten, 3, 3}), cuota::usage_error);
    CHECK_THROWS_AS((device_matrix{ten, 0, 0}), cuota::usage_error);
    CHECK_THROWS_AS((device_matrix{ten, 10, 0}), cuota::usage_error);
    CHECK_THROWS_AS((device_matrix{ten, huge, 10}), cuota::usage_error);
    CHECK_THROWS_AS((device_matrix{ten, huge / 2 + 6, 2}), cuota::usage_error);  // the product wraps to 10
    CHECK_THROWS_AS((device_matrix{device_span<int>{}, 1, 1}), cuota::usage_error);
    CHECK_NOTHROW((device_matrix{ten, 2, 5}));
    CHECK_NOTHROW((device_matrix{ten, 10, 1}));
}

TEST_CASE("a device_matrix whose rows overlap or exceed its span is misuse", "[buffer][device_matrix]") {
    device_span<int> const ten{nowhere(), 10};
    constexpr auto huge = ~std::size_t{0};

    CHECK(text_of([&] {
              (void)device_matrix{ten, 3, 2, 5};
          }) == "cuota::usage_error: a device_matrix of 3 x 2 elements at a pitch of 5 does not fit in a "
                "device_span of 10 ints");
    CHECK_THROWS_AS((device_matrix{ten, 2, 3, 2}), cuota::usage_error);
    CHECK_THROWS_AS((device_matrix{ten, 1, 11, 11}), cuota::usage_error);
    CHECK_THROWS_AS((device_matrix{ten, huge, 1, huge}), cuota::usage_error);
    CHECK_THROWS_AS((device_matrix{ten, 2, 1, huge}), cuota::usage_error);
    CHECK_NOTHROW((device_matrix{ten, 3, 2, 4}));  // the last row needs no padding
    CHECK_NOTHROW((device_matrix{ten, 1, 1, huge}));
    CHECK_NOTHROW((device_matrix{ten, 0, 4, 8}));
    CHECK_NOTHROW((device_matrix{ten, 5, 0, 0}));
}

TEST_CASE("a row or submatrix outside a device_matrix is misuse", "[buffer][device_matrix]") {
    device_matrix<int> const some{device_span<int>{nowhere(), 12}, 3, 4};
    constexpr auto huge = ~std::size_t{0};

    CHECK(text_of([&] { (void)some.row(3); }) ==
          "cuota::usage_error: row 3 is outside a device_matrix of 3 x 4 ints");
    CHECK(text_of([&] { (void)some.submatrix(1, 2, 3, 1); }) ==
          "cuota::usage_error: 3 x 1 elements from (1, 2) are outside a device_matrix of 3 x 4 ints");
    CHECK_THROWS_AS(some.submatrix(1, 2, 1, 3), cuota::usage_error);
    CHECK_THROWS_AS(some.submatrix(4, 0, 0, 0), cuota::usage_error);
    CHECK_THROWS_AS(some.submatrix(0, 5, 0, 0), cuota::usage_error);
    CHECK_THROWS_AS(some.submatrix(1, 0, huge, 1), cuota::usage_error);
    CHECK_THROWS_AS(some.submatrix(0, 1, 1, huge), cuota::usage_error);
    CHECK_THROWS_AS(device_matrix<int>{}.row(0), cuota::usage_error);
}

TEST_CASE("a kernel accesses every element of a device_matrix through rows and submatrices",
          "[buffer][device_matrix][gpu]") {
    cuota::stream const stream;
    cuota::device_buffer<int> numbers{7, stream, cuota::device_memory{}};
    {
        auto const lease = numbers.write(stream);
        cuota::for_each_index(stream, 1, write_cells{device_matrix{lease, 2, 3, 4}});
    }
    CHECK(numbers.to_vector(stream) == std::vector<int>{1, 0, 3, 0, 0, 4, 2});
}

#if CUOTA_CHECKED
TEST_CASE("access to an element of a device_matrix by host code is misuse", "[buffer][device_matrix]") {
    device_matrix<int> const some{device_span<int>{nowhere(), 12}, 3, 4};

    CHECK(text_of([&] { (void)some(0, 0); }) ==
          "cuota::usage_error: host code touched an element of a device_matrix; only a kernel may");
    CHECK(text_of([&] { (void)some(3, 0); }) ==
          "cuota::usage_error: element (3, 0) is outside a device_matrix of 3 x 4 ints");
    CHECK_THROWS_AS(some(0, 4), cuota::usage_error);
#if defined(__cpp_multidimensional_subscript)
    CHECK_THROWS_AS((some[0, 4]), cuota::usage_error);
#endif
}

TEST_CASE("errors of a device_matrix name the buffer and the call site of the lease it was made from",
          "[buffer][device_matrix]") {
    cuota::stream const stream;
    cuota::device_buffer<float> buffer{12, stream, cuota::device_memory{}, "weights"};
    auto const lease = buffer.write(stream, {"src/train.cpp", 41});
    device_matrix const some{lease, 3, 4};
    static_assert(std::is_same_v<decltype(some), device_matrix<float> const>);
    std::string const whose = ": weights, leased at train.cpp:41";

    CHECK(text_of([&] {
              (void)device_matrix{lease, 4, 4};
          }) ==
          "cuota::usage_error: a device_matrix of 4 x 4 elements does not fit in a device_span of 12 floats" +
              whose);
    CHECK(text_of([&] { (void)some(1, 4); }) ==
          "cuota::usage_error: element (1, 4) is outside a device_matrix of 3 x 4 floats" + whose);
    CHECK(text_of([&] { (void)some.row(1)[4]; }) ==
          "cuota::usage_error: index 4 is outside a device_span of 4 floats" + whose);
    CHECK(text_of([&] { (void)device_matrix<float const>{some.submatrix(1, 1, 2, 2)}.row(2); }) ==
          "cuota::usage_error: row 2 is outside a device_matrix of 2 x 2 floats" + whose);
}
#endif
