// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/dlpack/dlpack_import.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "interop/made_tensor.hpp"
#include "support/catch.hpp"
#include "support/kernels.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::dlpack::managed_tensor;
using interop_tests::address;
using interop_tests::made_tensor;
using support::has;
using support::thrown;

namespace {

template <class B>
concept writable = requires(B& b, cuota::stream_ref s) {
    b.write(s);
};

// 24 ints on the device, and the result of importing a tensor of them after `wrong` has changed it.
struct on_device {
    cuota::stream s;
    cuota::device_buffer<int> x{24, s, cuota::device_memory{}};
    int* data = address(x.write(s));  // the buffer has no other use

    template <class T = int>
    std::string refusal(std::function<void(made_tensor<>&)> const& wrong) {
        made_tensor made{data, {2, 3, 4}};
        wrong(made);
        auto const error = thrown<cuota::usage_error>([&] { (void)cuota::from_dlpack<T>(made.get(), s); });
        CHECK(made.deleted() == 1);
        return error.what();
    }
    template <class T = int>
    std::size_t count(std::function<void(made_tensor<>&)> const& change) {
        made_tensor made{data, {2, 3, 4}};
        change(made);
        return cuota::from_dlpack<T>(made.get(), s).size();
    }
};

}  // namespace

TEST_CASE("an imported tensor is read and written through leases, and deleted once", "[interop][dlpack]") {
    on_device memory;
    cuota::stream const other;
    made_tensor made{memory.data, {2, 3, 4}};
    {
        auto x = cuota::from_dlpack<int>(made.get(), memory.s);
        CHECK(x.size() == 24);
        CHECK(x.bytes() == 96);
        CHECK(x.extents() == std::vector<std::int64_t>{2, 3, 4});
        {
            auto const out = x.write(other);
            CHECK_THROWS_AS(x.read(memory.s), cuota::usage_error);
            cuota::for_each_index(other, 24, support::write_value{out.span().data(), 7});
        }
        auto moved = std::move(x);
        CHECK(x.is_empty());
        CHECK(moved.read(memory.s).size() == 24);
        CHECK(made.deleted() == 0);
    }
    CHECK(made.deleted() == 1);
    CHECK(memory.x.to_vector(memory.s)[23] != 0);
}

TEST_CASE("the structure of DLPack before 1.0 can be imported", "[interop][dlpack]") {
    on_device memory;
    made_tensor<managed_tensor> made{memory.data, {24}};
    { CHECK(cuota::from_dlpack<int>(made.get(), memory.s).size() == 24); }
    CHECK(made.deleted() == 1);
    made_tensor<managed_tensor> wrong{memory.data, {24}};
    CHECK_THROWS_AS(cuota::from_dlpack<float>(wrong.get(), memory.s), cuota::usage_error);
    CHECK(wrong.deleted() == 1);
}

TEST_CASE("a tensor of another element type is refused, with both names", "[interop][dlpack]") {
    on_device memory;
    CHECK(has(memory.refusal<float>([](auto&) {}), "DLPack tensor: the element type is int32, not float32"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().dtype.lanes = 2; }), "int32 x 2, not int32"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().dtype.bits = 64; }), "int64, not int32"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().dtype.code = 4; }), "bfloat32, not int32"));
}

TEST_CASE("a tensor of another device or kind of memory is refused, by name", "[interop][dlpack]") {
    on_device memory;
    auto const place = [](int type, int id) {
        return [=](made_tensor<>& t) {
            t.tensor().device = {static_cast<decltype(t.tensor().device.device_type)>(type), id};
        };
    };
    CHECK(has(memory.refusal(place(2, 1)), "in CUDA device 1, not on CUDA device 0"));
    CHECK(has(memory.refusal(place(1, 0)), "in host memory, not on"));
    CHECK(has(memory.refusal(place(3, 0)), "in pinned host memory, not on"));
    CHECK(has(memory.refusal(place(10, 0)), "in device type 10, not on"));
    CHECK(memory.count(place(13, 0)) == 24);
}

TEST_CASE("a tensor that is not contiguous is refused with the wrong stride", "[interop][dlpack]") {
    on_device memory;
    auto const strides = [](std::vector<std::int64_t> of) {
        return [=](made_tensor<>& t) { t.set_strides(of); };
    };
    CHECK(memory.count(strides({12, 4, 1})) == 24);
    CHECK(has(memory.refusal(strides({1, 2, 6})), "dimension 2 has a stride of 6 elements, not 1"));
    CHECK(has(memory.refusal(strides({12, 8, 1})), "dimension 1 has a stride of 8"));
    CHECK(has(memory.refusal(strides({0, 4, 1})), "dimension 0 has a stride of 0"));
    CHECK(has(memory.refusal(strides({-12, 4, 1})), "dimension 0 has a stride of -12"));

    made_tensor one{memory.data, {1, 3, 1}};  // the stride of an extent of 1 is ignored
    one.set_strides({99, 1, -5});
    CHECK(cuota::from_dlpack<int>(one.get(), memory.s).size() == 3);
    made_tensor none{memory.data, {0, 3}};
    none.set_strides({99, 99});
    CHECK(cuota::from_dlpack<int>(none.get(), memory.s).is_empty());
}

TEST_CASE("offsets are applied, and misaligned tensors are refused", "[interop][dlpack]") {
    on_device memory;
    made_tensor made{memory.data, {20}};
    made.tensor().byte_offset = 16;
    {
        auto const x = cuota::from_dlpack<int>(made.get(), memory.s);
        CHECK(address(x.read(memory.s)) == memory.data + 4);
    }
    CHECK(has(memory.refusal([](auto& t) { t.tensor().byte_offset = 2; }),
              "not aligned to 4 bytes: the offset is 2"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().byte_offset = ~std::uint64_t{0}; }),
              "beyond the address space"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().data = nullptr; }),
              "the address of 24 elements is null"));
}

TEST_CASE("invalid shapes are refused", "[interop][dlpack]") {
    on_device memory;
    CHECK(has(memory.refusal([](auto& t) { t.tensor().ndim = -1; }), "-1 dimensions"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().shape = nullptr; }), "3 dimensions, but no shape"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().shape[1] = -3; }), "negative extent -3"));
    CHECK(has(memory.refusal([](auto& t) {
        t.tensor().shape[0] = t.tensor().shape[1] = std::numeric_limits<std::int64_t>::max();
    }),
              "the size in bytes overflows"));
    CHECK(has(memory.refusal([](auto& t) { t.tensor().shape[0] = std::int64_t{1} << 60; }),
              "the size in bytes overflows"));
    CHECK(memory.count([](auto& t) { t.tensor().ndim = 0; }) == 1);
    CHECK(memory.count([](auto& t) {
        t.tensor().shape[0] = 0;
        t.tensor().data = nullptr;
    }) == 0);
}

TEST_CASE("a read-only tensor has const elements", "[interop][dlpack]") {
    on_device memory;
    auto const read_only = [](auto& t) { t->flags = cuota::dlpack::read_only; };
    CHECK(has(memory.refusal(read_only), "read-only"));
    CHECK(memory.count<int const>(read_only) == 24);
    CHECK(memory.count<int const>([](auto&) {}) == 24);
    made_tensor made{memory.data, {24}};
    auto const x = cuota::from_dlpack<int const>(made.get(), memory.s);
    CHECK(x.read(memory.s).size() == 24);
    static_assert(writable<cuota::imported_buffer<int>> && !writable<cuota::imported_buffer<int const>>);
}

TEST_CASE("a tensor of another major version is refused, and only its deleter is used", "[interop][dlpack]") {
    on_device memory;
    CHECK(has(memory.refusal([](auto& t) {
        t->version.major = 2;
        t.tensor().ndim = -1;
    }),
              "DLPack tensor: version 2 is not supported; supported: 1"));
    CHECK(memory.count([](auto& t) { t->version.minor = 99; }) == 24);
    cuota::dlpack::managed_tensor_versioned* const none = nullptr;
    CHECK_THROWS_AS(cuota::from_dlpack<int>(none, memory.s), cuota::usage_error);
    CHECK_THROWS_AS(cuota::from_dlpack_on_host<int>(static_cast<managed_tensor*>(nullptr)),
                    cuota::usage_error);
}

TEST_CASE("a tensor without a deleter can be imported", "[interop][dlpack]") {
    on_device memory;
    CHECK(memory.count([](auto& t) { t->deleter = nullptr; }) == 24);
}

TEST_CASE("a tensor in host memory is imported as a span", "[interop][dlpack]") {
    using cuota::dlpack::device_type;
    std::vector<double> values{1, 2, 3, 4, 5, 6};
    for (device_type const where : {device_type::cpu, device_type::cuda_host}) {
        made_tensor made{values.data(), {2, 3}, where};
        {
            auto x = cuota::from_dlpack_on_host<double>(made.get());
            CHECK(x.extents() == std::vector<std::int64_t>{2, 3});
            CHECK(x.read()[5] == 6);
            x.write()[0] = 9;
            auto const moved = std::move(x);
            CHECK(x.is_empty());
            CHECK(moved.bytes() == 48);
        }
        CHECK(made.deleted() == 1);
    }
    CHECK(values[0] == 9);
    made_tensor wrong{values.data(), {6}, device_type::cuda};
    CHECK(
        has(thrown<cuota::usage_error>([&] { (void)cuota::from_dlpack_on_host<double>(wrong.get()); }).what(),
            "in CUDA device 0, not in host memory"));
    CHECK(wrong.deleted() == 1);
}

TEST_CASE("a moved-from imported_buffer has no elements", "[interop][dlpack][moved_from]") {
    on_device memory;
    made_tensor<> made{memory.data, {24}};
    {
        cuota::imported_buffer<int> first = cuota::from_dlpack<int>(made.get(), memory.s);
        cuota::imported_buffer<int> const second{std::move(first)};
        CHECK(first.is_empty());
        CHECK(first.read(memory.s).size() == 0);
        CHECK(second.read(memory.s).size() == 24);
        CHECK(made.deleted() == 0);
    }
    CHECK(made.deleted() == 1);
}
