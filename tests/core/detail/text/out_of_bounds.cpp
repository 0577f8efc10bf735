// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/text/out_of_bounds.hpp>

#include <string>

#include "support/catch.hpp"

using cuota::detail::bounds_text;
using cuota::detail::lease_text;
using cuota::detail::out_of_bounds;
using part = out_of_bounds::part;

TEST_CASE("bounds_text names the indices and the extents of the view", "[core][out_of_bounds]") {
    CHECK(bounds_text({part::element, {12}, {10}}, "floats") ==
          "index 12 is outside a device_span of 10 floats");
    CHECK(bounds_text({part::subspan, {3, 8}, {10}}, "ints") ==
          "8 elements from index 3 are outside a device_span of 10 ints");
    CHECK(bounds_text({part::cell, {3, 1}, {3, 4}}, "bytes") ==
          "element (3, 1) is outside a device_matrix of 3 x 4 bytes");
    CHECK(bounds_text({part::row, {5}, {3, 4}}, "doubles") ==
          "row 5 is outside a device_matrix of 3 x 4 doubles");
    CHECK(bounds_text({part::submatrix, {1, 2, 3, 4}, {3, 4}}, "elements") ==
          "3 x 4 elements from (1, 2) are outside a device_matrix of 3 x 4 elements");
    CHECK(bounds_text({part::matrix, {3, 4, 4}, {10}}, "floats") ==
          "a device_matrix of 3 x 4 elements does not fit in a device_span of 10 floats");
    CHECK(bounds_text({part::matrix, {3, 4, 5}, {10}}, "floats") ==
          "a device_matrix of 3 x 4 elements at a pitch of 5 does not fit in a device_span of 10 floats");
}

TEST_CASE("bounds_text writes the largest numbers in full", "[core][out_of_bounds]") {
    CHECK(bounds_text({part::element, {~std::uint64_t{0}}, {0}}, "floats") ==
          "index 18446744073709551615 is outside a device_span of 0 floats");
}

TEST_CASE("lease_text has the name and the call site of the lease if they are known",
          "[core][out_of_bounds]") {
    CHECK(lease_text("weights", {"src/train.cpp", 41}) == ": weights, leased at train.cpp:41");
    CHECK(lease_text({}, {"train.cpp", 41}) == ": leased at train.cpp:41");
    CHECK(lease_text("weights", {}) == ": weights");
    CHECK(lease_text({}, {}).empty());
}
