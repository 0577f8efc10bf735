// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A child whose parent has static owners of memory that it shares with other libraries.

#include <cstddef>
#include <cstdlib>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/interop/dlpack.hpp>
#include <cuota/interop/pytorch.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/stream.hpp>

#include "interop/made_tensor.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/sanitizer.hpp"
#include "support/traffic.hpp"

using namespace cuota::literals;

namespace {

struct owners {
    owners() { (void)tensor.write(used_on); }

    cuota::stream home{};
    cuota::stream used_on{};
    cuota::device_buffer<int> of_producer{100, home, cuota::device_memory{}};
    cuota::lease<int> lent = of_producer.write(home);
    interop_tests::made_tensor<> made{interop_tests::address(lent), {100}};
    cuota::imported_buffer<int> tensor{cuota::from_dlpack<int>(made.get(), home, cuota::stream_ref{used_on})};
    cuota::dlpack_tensor moved_out{
        cuota::to_dlpack(cuota::device_buffer<int>{100, home, cuota::device_memory{}}, used_on)};
    cuota::pytorch_allocator memory{cuota::device_limits{"8MiB"}};
    void* block = memory.allocate(1_MiB, 0, home.get());
};

}  // namespace

TEST_CASE("a child that has static owners of shared memory exits normally", "[interop][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("a child that has static owners of shared memory exits normally")) return;
    static owners all;
    int wrong = 0;
    {
        support::traffic const beside{
            2, [](std::size_t) { all.memory.record_stream(all.block, all.used_on.get()); },
            [](std::size_t) { (void)all.memory.try_allocate(1_GiB, 0, all.home.get()); }};
        for (int i = 0; i != 20; ++i) wrong += support::status_of_child([] { std::exit(0); }) != 0;
    }
    all.memory.deallocate(all.block, 1_MiB, 0, all.home.get());
    std::exit(wrong == 0 ? 0 : 1);
}
