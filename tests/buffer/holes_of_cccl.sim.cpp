// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Numbered defects of CCCL's cuda::buffer (3.1 to 3.6); the tests show that cuota has none of them. Those that it excludes at compile time
// are in tests/compile_fail. The header comes first to show that it needs no other.
#include <cuota/buffer/device_buffer.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_scalar.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace simulator = cuota::simulator;

namespace {

using numbers = cuota::device_buffer<int>;

template <class B>
concept gives_elements = requires(B& b) {
    b[0u];
}
|| requires(B& b) { *b; };
template <class B>
concept gives_elements_unchecked = requires(B& b) {
    b.get_unsynchronized(0u);
}
|| requires(B& b) { b.data(); }
|| requires(B& b) { b.first(1u); }
|| requires(B& b) { b.last(1u); }
|| requires(B& b) { b.subspan(0u, 1u); }
|| requires(B& b) { b[0u]; }
|| requires(B& b) { b.at(0u); }
|| requires(B& b) { b.front(); };

template <class B>
concept has_iterators = requires(B& b) {
    std::begin(b);
}
|| requires(B& b) { b.begin(); }
|| requires { typename B::iterator; };

// Makes the first call of a program, in layer `layer`.
void make(int layer, cuota::budget const& budget) {
    switch (layer) {
        case 0: return (void)cuota::device::current();
        case 1: return (void)cuota::stream{};
        case 2: return (void)cuota::scoped_pool{budget, cuota::pool_options{.initial_size = 1_MiB}};
        case 3: return (void)cuota::device_memory{}.allocate_sync(100);
        case 4: return (void)numbers{10, cuota::stream_ref{cudaStreamPerThread}, cuota::device_memory{}};
        case 5: return (void)cuota::pinned_buffer<int>{10};
        default: return (void)cuota::staging_ring{2, 100};
    }
}
constexpr int layers = 7;

}  // namespace

// 1
TEST_CASE("an element count whose bytes wrap around is refused by every buffer class", "[buffer][holes]") {
    support::machine const machine;
    cuota::budget budget{"test", 1_MiB};
    cuota::stream const stream;
    cuota::any_resource const memory = cuota::budgeted{budget, cuota::device_memory{}};
    std::size_t const four = cuota::unlimited / 4 + 3;  // 8 bytes as ints if the product wrapped
    numbers some{10, 1, stream, memory};

    auto const error = thrown<cuota::out_of_memory>([&] { numbers const all{four, stream, memory, "all"}; });
    CHECK(error.info().requested == cuota::unlimited);
    CHECK(has(error.what(), "for all"));
    CHECK_THROWS_AS((numbers{four, 7, stream, memory}), cuota::out_of_memory);
    CHECK_THROWS_AS((numbers{four, stream, memory, cuota::no_init}), cuota::out_of_memory);
    CHECK_THROWS_AS(some.resize(four), cuota::out_of_memory);
    CHECK_THROWS_AS(some.resize(four, 7), cuota::out_of_memory);
    CHECK_THROWS_AS(some.resize(four, cuota::discard), cuota::out_of_memory);
    CHECK_THROWS_AS(some.resize(four, cuota::no_init), cuota::out_of_memory);
    CHECK_THROWS_AS((cuota::pinned_buffer<int>{four}), cuota::out_of_memory);
    CHECK_THROWS_AS((cuota::staging_ring{2, cuota::unlimited / 2 + 3}), cuota::out_of_memory);

    CHECK(some.to_vector(stream) == std::vector<int>(10, 1));
    CHECK(budget.held() == some.bytes() / 512 * 512 + 512);
}

// 2
TEST_CASE("no member of a buffer returns elements of device memory, and parts of a span are checked",
          "[buffer][holes]") {
    support::machine const machine;
    cuota::stream const stream;
    CHECK(gives_elements_unchecked<std::vector<int>>);  // the concept detects such members
    CHECK_FALSE(gives_elements_unchecked<numbers>);
    CHECK_FALSE(gives_elements_unchecked<numbers const>);
    CHECK_FALSE(gives_elements_unchecked<cuota::device_scalar<int>>);
    CHECK_FALSE(gives_elements<cuota::lease<int>>);  // it has data(), for calls only

    numbers some{10, 1, stream, cuota::device_memory{}};
    auto const lease = some.write();
    cuota::device_span<int> const span = lease;
    CHECK(span.subspan(2, 8).size() == 8);
    CHECK_THROWS_AS((void)span.subspan(2, 9), cuota::usage_error);
    CHECK_THROWS_AS((void)span.subspan(11, 0), cuota::usage_error);
    CHECK_THROWS_AS((void)span.subspan(cuota::unlimited, 2), cuota::usage_error);
    CHECK_THROWS_AS((void)span.first(11), cuota::usage_error);
}

// 3
TEST_CASE("buffers, spans and leases have no iterators", "[buffer][holes]") {
    CHECK(has_iterators<std::vector<int>>);
    CHECK_FALSE(has_iterators<numbers>);
    CHECK_FALSE(has_iterators<numbers const>);
    CHECK_FALSE(has_iterators<cuota::device_span<int>>);
    CHECK_FALSE(has_iterators<cuota::lease<int const>>);
    CHECK_FALSE(has_iterators<cuota::released_buffer<int>>);
}

// 4: a header that needs nvcc. tests/lint/headers.py compiles each header alone.
TEST_CASE("a buffer is made, filled and copied by a program that the host compiler has compiled",
          "[buffer][holes]") {
    support::machine const machine;
    cuota::stream const stream;
    numbers some{10, 7, stream, cuota::device_memory{}};
    some.resize(20, 8);

    std::vector<int> expected(10, 7);
    expected.resize(20, 8);
    CHECK(some.clone(stream).to_vector(stream) == expected);
}

// 5
TEST_CASE("without a device or a driver, every operation that needs one throws a cuda_error with its code",
          "[buffer][holes]") {
    support::machine machine;
    cuota::budget const budget{"test", 64_MiB};
    cudaError_t const code = GENERATE(cudaErrorNoDevice, cudaErrorInsufficientDriver);
    int const layer = GENERATE(range(0, layers));
    INFO("layer " << layer << ", " << cudaGetErrorName(code));
    simulator::fail_call(nullptr, 1, code, simulator::fault_kind::until_cleared);

    auto const error = thrown<cuota::cuda_error>([&] { make(layer, budget); });

    simulator::clear_faults();
    CHECK(error.code() == code);
    CHECK(has(error.what(), cudaGetErrorName(code)));
    CHECK(support::last_error() == cudaSuccess);
    CHECK(budget.held() == 0);
    (void)machine.errors.take();
}

TEST_CASE("destructors of memory owners report errors after the device is lost, and do not terminate",
          "[buffer][holes]") {
    support::machine machine;
    {
        cuota::stream const stream;
        cuota::stream const other;
        cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
        numbers in_pool{10, 7, stream, pool};
        numbers plain{10, 7, stream, cuota::device_memory{}};
        cuota::device_scalar<int> one{1, stream, pool};
        (void)in_pool.write(other);
        (void)plain.read(other);
        auto const pending = cuota::download(plain, stream);
        auto const raw = numbers{10, 7, stream, pool}.release();
        simulator::lose_device(0);
    }
    CHECK_FALSE(machine.errors.take().empty());  // each owner has reported an error
    machine.reset();
}
