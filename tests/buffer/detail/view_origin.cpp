// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A stopped kernel reports its reason to the host: by a record on a GPU, by an exception on the simulator.
#include <cuota/buffer/detail/view_origin.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <typeinfo>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_matrix.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/this_program.hpp"

using cuota::device_matrix;
using cuota::device_span;
using support::has;

namespace {

static_assert(CUOTA_CHECKED || std::is_empty_v<cuota::detail::view_origin>);
static_assert(std::is_trivially_copyable_v<cuota::detail::view_origin>);

template <class T>
bool names_its_checks() {
    std::string const name = typeid(T).name();
    return has(name, CUOTA_CHECKED ? "13checked_views" : "15unchecked_views");
}

// Kernels are named types because nvcc restricts lambdas in device code.
struct read_span {
    device_span<float> from;
    std::size_t at;
    CUOTA_KERNEL void operator()(std::size_t i) const { from[i] = from[at]; }
};
struct read_part {
    device_span<float> from;
    CUOTA_KERNEL void operator()(std::size_t i) const { from[i] = from.last(11)[0]; }
};
struct read_matrix {
    device_matrix<float> from;
    CUOTA_KERNEL void operator()(std::size_t i) const { from(i, 0) = from(i, 5); }
};

// Runs a kernel that leaves a view of ten floats, which makes the device unusable, and prints the next call's error.
template <class Make>
void print_why_it_stopped(Make kernel_on) {
    cuota::stream const s;
    cuota::device_buffer<float> buffer{10, s, cuota::device_memory{}, "weights"};
    auto const lease = buffer.write(s, {"src/train.cpp", 41});
    try {
        cuota::for_each_index(s, 2, kernel_on(lease.span()));
        s.synchronize();
        std::puts("it did not stop");
    } catch (cuota::cuda_error const& error) { std::puts(error.what()); }
}

// Runs this program again with the hidden test below and returns its output.
std::string output_of(std::string const& case_of_it) {
    auto const command = "CUOTA_STOPS_AT=" + case_of_it + " " + support::this_program() + " '[stops]' 2>&1";
    auto* const pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    char line[512];
    while (std::fgets(line, sizeof line, pipe)) text += line;
    (void)pclose(pipe);
    return text;
}

}  // namespace

TEST_CASE("type names of views include whether they are checked", "[buffer][view_origin]") {
    CHECK(names_its_checks<device_span<int>>());
    CHECK(names_its_checks<device_matrix<int>>());
    CHECK(names_its_checks<cuota::lease<int>>());
    CHECK(names_its_checks<cuota::device_buffer<int>>());
    CHECK(names_its_checks<cuota::detail::view_origin>());
}

TEST_CASE("a range is within a size when its end is, also for sizes that would wrap around",
          "[buffer][view_origin]") {
    using cuota::detail::is_within;
    constexpr auto huge = ~std::size_t{0};
    CHECK(is_within(0, 0, 0));
    CHECK(is_within(3, 7, 10));
    CHECK(is_within(10, 0, 10));
    CHECK_FALSE(is_within(3, 8, 10));
    CHECK_FALSE(is_within(11, 0, 10));
    CHECK_FALSE(is_within(2, huge, 10));
    CHECK_FALSE(is_within(huge, 2, 10));
}

#if CUOTA_CHECKED
// The next test runs this one as a separate program for each case.
TEST_CASE("a kernel accesses a view out of range", "[.][stops]") {
    char const* const told = std::getenv("CUOTA_STOPS_AT");
    std::string const at = told ? told : "nothing";
    if (at == "span") print_why_it_stopped([](device_span<float> x) { return read_span{x, 12}; });
    if (at == "pointer")
        print_why_it_stopped([](device_span<float> x) { return read_span{device_span{x.data(), 7}, 12}; });
    if (at == "part") print_why_it_stopped([](device_span<float> x) { return read_part{x}; });
    if (at == "matrix")
        print_why_it_stopped([](device_span<float> x) { return read_matrix{device_matrix{x, 2, 5}}; });
}

TEST_CASE("the next CUDA call tells the host the reason why a kernel stopped", "[buffer][view_origin][gpu]") {
    std::string const by = cuota::is_simulated() ? "threw: " : "a kernel stopped itself: ";
    auto const says = [&](std::string const& test, std::string const& what) {
        std::string const text = output_of(test);
        INFO(text);
        CHECK(has(text, by + "cuota::usage_error: " + what));
    };
    says("span", "index 12 is outside a device_span of 10 floats: weights, leased at train.cpp:41");
    says("pointer", "index 12 is outside a device_span of 7 floats");
    says("part",
         "11 elements from index 0 are outside a device_span of 10 floats: weights, leased at train.cpp:41");
    says("matrix",
         "element (0, 5) is outside a device_matrix of 2 x 5 floats: weights, leased at train.cpp:41");
}
#endif
