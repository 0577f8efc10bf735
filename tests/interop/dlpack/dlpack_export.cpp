// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/dlpack/dlpack_export.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

std::vector<std::int64_t> values(std::int64_t const* first, int count) { return {first, first + count}; }

}  // namespace

TEST_CASE("a buffer is moved into a tensor with its shape, type and device", "[interop][dlpack]") {
    cuota::budget const budget{"all", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const s;
    cuota::device_buffer<float> x{24, s, pool};
    auto tensor = cuota::to_dlpack(std::move(x), {2, 3, 4}, s);
    CHECK(x.is_empty());
    CHECK(tensor.tensor().ndim == 3);
    CHECK(values(tensor.tensor().shape, 3) == std::vector<std::int64_t>{2, 3, 4});
    CHECK(values(tensor.tensor().strides, 3) == std::vector<std::int64_t>{12, 4, 1});
    CHECK(cuota::detail::type_text(tensor.tensor().dtype) == "float32");
    CHECK(cuota::detail::device_text(tensor.tensor().device) == "CUDA device 0");
    CHECK(tensor.tensor().byte_offset == 0);
    CHECK_FALSE(tensor.is_read_only());
    CHECK(pool.stats().live_blocks == 1);

    auto* const taken = std::move(tensor).release();
    CHECK(taken->version.major == 1);
    CHECK(pool.stats().live_blocks == 1);
    taken->deleter(taken);
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("a tensor that is never released frees its memory", "[interop][dlpack]") {
    cuota::budget const budget{"all", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const s;
    { auto const gone = cuota::to_dlpack(cuota::device_buffer<int>{10, s, pool}, s); }
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("a shape with another number of elements is refused, and the buffer is unchanged",
          "[interop][dlpack]") {
    cuota::stream const s;
    cuota::device_buffer<float> x{24, s, cuota::device_memory{}};
    std::vector<cuota::dlpack_shape> const wrong{{5, 5}, {},       {24, 0},
                                                 {-24},  {-4, -6}, {std::int64_t{1} << 62, 4, 2}};
    for (cuota::dlpack_shape const& shape : wrong) {
        auto const error =
            thrown<cuota::usage_error>([&] { (void)cuota::to_dlpack(std::move(x), shape, s); });
        CHECK(has(error.what(), "shape " + shape.text() + " does not match 24 elements"));
        CHECK(x.size() == 24);
    }
    CHECK(cuota::dlpack_shape{}.text() == "()");
    CHECK(cuota::dlpack_shape{2, 3}.text() == "(2, 3)");
}

TEST_CASE("one element or no elements make a valid tensor", "[interop][dlpack]") {
    cuota::stream const s;
    auto const one = cuota::to_dlpack(cuota::device_buffer<double>{1, s, cuota::device_memory{}}, {}, s);
    CHECK(one.tensor().ndim == 0);
    auto const none =
        cuota::to_dlpack(cuota::device_buffer<double>{0, s, cuota::device_memory{}}, {3, 0, 2}, s);
    CHECK(none.tensor().ndim == 3);
    CHECK(values(none.tensor().strides, 3) == std::vector<std::int64_t>{1, 1, 1});
}

TEST_CASE("a buffer with an open lease on another stream cannot be exported", "[interop][dlpack]") {
    cuota::stream const s;
    cuota::stream const other;
    cuota::device_buffer<int> x{4, s, cuota::device_memory{}};
    {
        auto const open = x.read(other);
        CHECK_THROWS_AS(cuota::to_dlpack(std::move(x), s), cuota::usage_error);
    }
    CHECK(x.size() == 4);
    auto const now = cuota::to_dlpack(std::move(x), s);
}

TEST_CASE("a tensor of a shared buffer has a lease on its stream and keeps the buffer alive",
          "[interop][dlpack]") {
    cuota::stream const s;
    cuota::stream const other;
    auto x = std::make_shared<cuota::device_buffer<int>>(std::span<int const>{std::vector{1, 2, 3, 4}}, s,
                                                         cuota::device_memory{});
    std::weak_ptr<cuota::device_buffer<int>> const seen = x;
    SECTION("a writable tensor excludes all other leases") {
        auto tensor = std::make_unique<cuota::dlpack_tensor>(cuota::to_dlpack(x, {2, 2}, s));
        CHECK_FALSE(tensor->is_read_only());
        CHECK_THROWS_AS((void)x->read(other), cuota::usage_error);
        tensor.reset();
        CHECK(x->to_vector(other) == std::vector{1, 2, 3, 4});
    }
    SECTION("a read-only tensor allows other readers") {
        auto const tensor = cuota::to_dlpack(std::shared_ptr<cuota::device_buffer<int> const>{x}, {2, 2}, s);
        CHECK(tensor.is_read_only());
        CHECK(x->to_vector(other) == std::vector{1, 2, 3, 4});
        CHECK_THROWS_AS(x->write(other), cuota::usage_error);
    }
    SECTION("the tensor keeps the buffer alive") {
        auto tensor = std::make_unique<cuota::dlpack_tensor>(cuota::to_dlpack(std::move(x), {4}, s));
        CHECK_FALSE(seen.expired());
        tensor.reset();
        CHECK(seen.expired());
    }
    CHECK_THROWS_AS(cuota::to_dlpack(std::shared_ptr<cuota::device_buffer<int>>{}, {0}, s),
                    cuota::usage_error);
}

TEST_CASE("the structure of DLPack before 1.0 owns its memory, and cannot be read-only",
          "[interop][dlpack]") {
    cuota::budget const budget{"all", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const s;
    auto* const old =
        cuota::to_dlpack(cuota::device_buffer<std::uint8_t>{6, s, pool}, {2, 3}, s).release_unversioned();
    CHECK(values(old->dl_tensor.shape, 2) == std::vector<std::int64_t>{2, 3});
    CHECK(pool.stats().live_blocks == 1);
    old->deleter(old);
    CHECK(pool.stats().live_blocks == 0);

    auto const x = std::make_shared<cuota::device_buffer<int> const>(4, s, pool);
    CHECK_THROWS_AS(cuota::to_dlpack(x, {4}, s).release_unversioned(), cuota::usage_error);
    CHECK(x.use_count() == 1);
}

TEST_CASE("tensors of managed and pinned memory have the right device types", "[interop][dlpack]") {
    cuota::stream const s;
    auto const managed = cuota::to_dlpack(cuota::device_buffer<int>{4, s, cuota::managed_memory{}}, s);
    CHECK(cuota::detail::device_text(managed.tensor().device) == "managed memory");
    CHECK(managed.tensor().device.device_id == 0);

    cuota::pinned_buffer<float> host{6};
    host.write()[5] = 7;
    auto pinned = cuota::to_dlpack(std::move(host), {2, 3});
    CHECK(host.is_empty());
    CHECK(cuota::detail::device_text(pinned.tensor().device) == "pinned host memory");
    CHECK(static_cast<float const*>(pinned.tensor().data)[5] == 7);
    auto const plain = cuota::to_dlpack(cuota::pinned_buffer<float>{6}, {6}, cuota::dlpack_host::plain);
    CHECK(cuota::detail::device_text(plain.tensor().device) == "host memory");
    CHECK_THROWS_AS(cuota::to_dlpack(cuota::pinned_buffer<float>{6}, {7}), cuota::usage_error);
}

TEST_CASE("shared pinned memory stays alive as long as its tensor", "[interop][dlpack]") {
    auto host = std::make_shared<cuota::pinned_buffer<int>>(3);
    std::weak_ptr<cuota::pinned_buffer<int>> const seen = host;
    auto const read_only = cuota::to_dlpack(std::shared_ptr<cuota::pinned_buffer<int> const>{host}, {3});
    CHECK(read_only.is_read_only());
    {
        auto const tensor = cuota::to_dlpack(std::move(host), {3});
        CHECK_FALSE(tensor.is_read_only());
        CHECK(tensor.tensor().data == read_only.tensor().data);
    }
    CHECK_FALSE(seen.expired());
    CHECK_THROWS_AS(cuota::to_dlpack(std::shared_ptr<cuota::pinned_buffer<int>>{}, {0}), cuota::usage_error);
    CHECK_THROWS_AS(cuota::to_dlpack(std::shared_ptr<cuota::pinned_buffer<int> const>{}, {0}),
                    cuota::usage_error);
}

TEST_CASE("streams have DLPack's numbers", "[interop][dlpack]") {
    CHECK(cuota::dlpack_stream(1)->get() == cudaStreamLegacy);
    CHECK(cuota::dlpack_stream(2)->get() == cudaStreamPerThread);
    CHECK_FALSE(cuota::dlpack_stream(-1));
    cuota::stream const s;
    CHECK(cuota::dlpack_stream(cuota::dlpack_stream_number(s))->get() == s.get());
    CHECK(cuota::dlpack_stream_number(cudaStream_t{}) == 1);
    CHECK(cuota::dlpack_stream_number(cudaStreamLegacy) == 1);
    CHECK(cuota::dlpack_stream_number(cudaStreamPerThread) == 2);
    for (std::int64_t const wrong : {0, -2, -1000})
        CHECK(has(thrown<cuota::usage_error>([&] { (void)cuota::dlpack_stream(wrong); }).what(),
                  "stream " + std::to_string(wrong)));
}

TEST_CASE("a dlpack_tensor that was moved from or released refuses access", "[interop][dlpack][moved_from]") {
    cuota::stream const s;
    cuota::device_memory memory;
    auto first = cuota::to_dlpack(cuota::device_buffer<int>{10, s, memory}, s);
    auto second{std::move(first)};
    CHECK(second.tensor().ndim == 1);
    CHECK_THROWS_AS(first.tensor(), cuota::usage_error);
    CHECK_THROWS_AS(first.is_read_only(), cuota::usage_error);
    CHECK(std::move(first).release() == nullptr);
    first = std::move(second);
    CHECK(first.tensor().ndim == 1);
    CHECK_THROWS_AS(std::move(second).release_unversioned(), cuota::usage_error);
}
