// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/dlpack.hpp>

#include <complex>
#include <cstdint>
#include <numeric>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>

#include "interop/made_tensor.hpp"
#include "support/catch.hpp"

using namespace cuota::literals;
using interop_tests::address;

namespace {

template <class T>
void goes_out_and_comes_back() {
    cuota::budget const budget{"all", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const home;
    cuota::stream const there;
    std::vector<T> values(24);
    for (std::size_t i = 0; i != values.size(); ++i)
        values[i] = static_cast<T>(static_cast<unsigned char>(i));
    {
        cuota::device_buffer<T> x{values, home, pool};
        auto back = cuota::from_dlpack<T>(cuota::to_dlpack(std::move(x), {4, 6}, there).release(), there);
        CHECK(back.extents() == std::vector<std::int64_t>{4, 6});
        cuota::device_buffer<T> copy{24, there, pool};
        auto const from = back.read(there);
        cuota::rt::copy_on_device(address(copy.write(there)), from.span().data(), back.bytes(), there, {});
        CHECK(copy.to_vector(there) == values);
    }
    CHECK(pool.stats().live_blocks == 0);
}

}  // namespace

TEST_CASE("a tensor that is exported and imported keeps its values, shape and type", "[interop][dlpack]") {
    goes_out_and_comes_back<float>();
    goes_out_and_comes_back<std::uint8_t>();
    goes_out_and_comes_back<std::int64_t>();
    goes_out_and_comes_back<std::complex<double>>();
}

TEST_CASE("pinned memory that is exported can be imported as host memory", "[interop][dlpack]") {
    cuota::pinned_buffer<int> x{6};
    std::iota(x.write().begin(), x.write().end(), 1);
    auto const back = cuota::from_dlpack_on_host<int>(cuota::to_dlpack(std::move(x), {2, 3}).release());
    CHECK(std::vector<int>(back.read().begin(), back.read().end()) == std::vector{1, 2, 3, 4, 5, 6});
    auto const plain = cuota::from_dlpack_on_host<int const>(
        cuota::to_dlpack(cuota::pinned_buffer<int>{6}, {6}, cuota::dlpack_host::plain).release_unversioned());
    CHECK(plain.size() == 6);
}
