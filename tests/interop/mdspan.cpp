// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A matrix as the mdspan of CUDA's standard library and, if available, of the host's.
#include <cuda/std/mdspan>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>
#include <version>

#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_matrix.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"

using cuota::device_matrix;

namespace {

struct of_cuda {
    template <class T, class Index = std::size_t>
    using matrix = cuda::std::mdspan<T, cuda::std::dextents<Index, 2>, cuda::std::layout_stride>;
    template <class T>
    using packed = cuda::std::mdspan<T, cuda::std::dextents<std::size_t, 2>>;
    template <class T>
    using of_three_rows = cuda::std::mdspan<T, cuda::std::extents<std::size_t, 3, cuda::std::dynamic_extent>,
                                            cuda::std::layout_stride>;
    template <class T>
    using vector = cuda::std::mdspan<T, cuda::std::dextents<std::size_t, 1>, cuda::std::layout_stride>;
};

#if defined(__cpp_lib_mdspan)
struct of_std {
    template <class T, class Index = std::size_t>
    using matrix = std::mdspan<T, std::dextents<Index, 2>, std::layout_stride>;
    template <class T>
    using packed = std::mdspan<T, std::dextents<std::size_t, 2>>;
    template <class T>
    using of_three_rows =
        std::mdspan<T, std::extents<std::size_t, 3, std::dynamic_extent>, std::layout_stride>;
    template <class T>
    using vector = std::mdspan<T, std::dextents<std::size_t, 1>, std::layout_stride>;
};
#define CUOTA_MDSPANS of_cuda, of_std
#else
#define CUOTA_MDSPANS of_cuda
#endif

// Excludes mdspans without a pitch, and index types that are too narrow for the count.
template <class Library>
constexpr bool converts_as_it_should =
    std::convertible_to<device_matrix<int>, typename Library::template matrix<int>>&&
        std::convertible_to<device_matrix<int const>, typename Library::template matrix<int const>>&&
            std::convertible_to<device_matrix<int>, typename Library::template matrix<int, std::int64_t>> &&
    !std::convertible_to<device_matrix<int const>, typename Library::template matrix<int>> &&
    !std::convertible_to<device_matrix<int>, typename Library::template matrix<float>> &&
    !std::convertible_to<device_matrix<int>, typename Library::template matrix<int, int>> &&
    !std::convertible_to<device_matrix<int>, typename Library::template packed<int>> &&
    !std::convertible_to<device_matrix<int>, typename Library::template of_three_rows<int>> &&
    !std::convertible_to<device_matrix<int>, typename Library::template vector<int>>;

struct count_cells {
    of_cuda::matrix<int> cells;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        auto const columns = cells.extent(1);
        cells(i / columns, i % columns) = static_cast<int>(i) + 1;
    }
};

}  // namespace

TEMPLATE_TEST_CASE("a device_matrix is an mdspan of the same elements", "[interop][mdspan]", CUOTA_MDSPANS) {
    static_assert(converts_as_it_should<TestType>);
    std::vector<int> some(40);
    device_matrix<int> const m{cuota::device_span<int>{some.data(), 40}, 3, 4, 10};

    typename TestType::template matrix<int> const all = m;
    typename TestType::template matrix<int, std::int64_t> const part = m.submatrix(1, 2, 2, 1);

    CHECK(all.extent(0) == 3);
    CHECK(all.extent(1) == 4);
    CHECK(all.stride(0) == 10);
    CHECK(all.stride(1) == 1);
    CHECK(&all.accessor().access(all.data_handle(), all.mapping()(2, 3)) == &some[23]);
    CHECK(part.extent(0) == 2);
    CHECK(part.extent(1) == 1);
    CHECK(part.data_handle() == &some[12]);
    CHECK(part.mapping()(1, 0) == 10);
}

TEST_CASE("a kernel accesses the cells of a device_matrix through an mdspan", "[interop][mdspan][gpu]") {
    cuota::stream const stream;
    cuota::device_buffer<int> numbers{7, stream, cuota::device_memory{}};
    {
        auto const lease = numbers.write();
        device_matrix const m{lease, 2, 3, 4};
        cuota::for_each_index(stream, m.size(), count_cells{m}, "count_cells");
    }
    CHECK(numbers.to_vector(stream) == std::vector<int>{1, 2, 3, 0, 4, 5, 6});
}
