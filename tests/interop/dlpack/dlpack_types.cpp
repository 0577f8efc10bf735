// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/dlpack/dlpack_types.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>

#include "interop/made_tensor.hpp"
#include "support/catch.hpp"

using interop_tests::four_floats;

namespace {

template <class T>
std::string name() {
    return cuota::detail::type_text(cuota::dlpack_type_of<T>::value);
}

}  // namespace

static_assert(cuota::dlpack_element<float> && cuota::dlpack_element<four_floats>);
static_assert(!cuota::dlpack_element<float*> && !cuota::dlpack_element<std::string>);

TEST_CASE("element types have DLPack's names", "[interop][dlpack]") {
    CHECK(name<float>() == "float32");
    CHECK(name<double>() == "float64");
    CHECK(name<cuota::half>() == "float16");
    CHECK(name<cuota::bfloat16>() == "bfloat16");
    CHECK(name<std::int8_t>() == "int8");
    CHECK(name<std::uint8_t>() == "uint8");
    CHECK(name<std::byte>() == "uint8");
    CHECK(name<std::int64_t>() == "int64");
    CHECK(name<unsigned long long>() == "uint64");
    CHECK(name<bool>() == "bool8");
    CHECK(name<std::complex<float>>() == "complex64");
    CHECK(name<std::complex<double>>() == "complex128");
    CHECK(name<four_floats>() == "float32 x 4");
    CHECK(cuota::detail::type_text({17, 4, 1}) == "code17_4");
}

TEST_CASE("device types of tensors have names", "[interop][dlpack]") {
    auto const text = [](int type, int id) {
        cuota::dlpack::device of{};
        of.device_type = static_cast<decltype(of.device_type)>(type);
        of.device_id = id;
        return cuota::detail::device_text(of);
    };
    CHECK(text(1, 0) == "host memory");
    CHECK(text(2, 3) == "CUDA device 3");
    CHECK(text(3, 0) == "pinned host memory");
    CHECK(text(13, 0) == "managed memory");
    CHECK(text(10, 0) == "device type 10");
}
