// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/pytorch.hpp>

#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include <cuota/runtime/rt/copy.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

TEST_CASE("memory for PyTorch is charged to its device's budget and refunded when it is freed",
          "[interop][pytorch]") {
    cuota::pytorch_allocator memory{cuota::device_limits{"64MiB"}};
    cuota::stream const s;
    void* const p = memory.allocate(5_MiB, 0, s.get());
    REQUIRE(p);
    cuota::rt::fill_bytes(p, 1, 5_MiB, s, {});
    CHECK(memory.stats(0).requested == 5_MiB);
    CHECK(memory.account(0).limit() == 64_MiB);
    CHECK(memory.account(0).held() >= 5_MiB);
    CHECK(memory.account(0).name() == "device 0");

    memory.deallocate(p, 5_MiB, 0, s.get());
    CHECK(memory.stats(0).requested == 0);
    CHECK(memory.trim() >= 5_MiB);
    CHECK(memory.account(0).held() == 0);
    CHECK(memory.account(0).peak() >= 5_MiB);
    CHECK(memory.last_failure().empty());
}

TEST_CASE("a request beyond the limit returns null or throws, and later requests that fit succeed",
          "[interop][pytorch]") {
    cuota::pytorch_allocator memory{cuota::device_limits{"64MiB"}};
    cuota::stream const s;
    void* const all = memory.try_allocate(64_MiB, 0, s.get());
    REQUIRE(all);
    CHECK(memory.try_allocate(2_MiB, 0, s.get()) == nullptr);
    CHECK(has(memory.last_failure(), "budget_exceeded: cannot allocate 2.0 MiB"));
    CHECK_THROWS_AS((void)memory.allocate(1, 0, s.get()), std::bad_alloc);
    memory.deallocate(all, 64_MiB, 0, s.get());
    void* const next = memory.try_allocate(2_MiB, 0, s.get());
    CHECK(next);
    memory.deallocate(next, 2_MiB, 0, s.get());
    CHECK(memory.try_allocate(64_MiB + 1, 0, s.get()) == nullptr);
    CHECK(memory.try_allocate(cuota::unlimited, 0, s.get()) == nullptr);
    CHECK(memory.try_allocate(0, 0, s.get()) == nullptr);
    memory.deallocate(nullptr, 0, 0, s.get());
}

TEST_CASE("memory is allocated for all handles of the default streams", "[interop][pytorch]") {
    cuota::pytorch_allocator memory;
    for (cudaStream_t const s : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        void* const p = memory.try_allocate(1_MiB, 0, s);
        CHECK(p);
        memory.record_stream(p, s == nullptr ? cudaStreamPerThread : nullptr);
        memory.deallocate(p, 1_MiB, 0, s);
    }
    CHECK(memory.stats(0).requested == 0);
    CHECK(memory.last_failure().empty());
}

TEST_CASE("lowering a limit releases idle memory, and requests are refused until they fit",
          "[interop][pytorch]") {
    cuota::pytorch_allocator memory{cuota::device_limits{"64MiB"}};
    cuota::stream const s;
    void* const kept = memory.allocate(8_MiB, 0, s.get());
    void* const gone = memory.allocate(32_MiB, 0, s.get());
    memory.deallocate(gone, 32_MiB, 0, s.get());
    CHECK(memory.account(0).held() >= 40_MiB);

    memory.set_limit(0, 4_MiB);
    CHECK(memory.account(0).held() == 8_MiB);
    CHECK(memory.try_allocate(2_MiB, 0, s.get()) == nullptr);
    memory.set_limit(0, 16_MiB);
    void* const next = memory.try_allocate(2_MiB, 0, s.get());
    CHECK(next);
    memory.deallocate(next, 2_MiB, 0, s.get());
    memory.deallocate(kept, 8_MiB, 0, s.get());

    memory.set_fraction(0, 0.5);
    CHECK(memory.account(0).limit() == cuota::device{0}.memory().total / 2);
    CHECK_THROWS_AS(memory.set_fraction(0, 1.5), cuota::usage_error);
    CHECK_THROWS_AS(memory.set_fraction(0, 0.0 / memory.account(0).name().empty()), cuota::usage_error);
    CHECK(memory.account(0).limit() == cuota::device{0}.memory().total / 2);
}

TEST_CASE("a device that does not exist is named by null requests and by exceptions", "[interop][pytorch]") {
    support::captured_errors errors;
    cuota::pytorch_allocator memory;
    cuota::stream const s;
    for (int const device : {-1, cuota::device::count(), 127, 128, 1 << 30}) {
        CHECK(memory.try_allocate(1, device, s.get()) == nullptr);
        CHECK(has(memory.last_failure(), "device " + std::to_string(device)));
        CHECK_THROWS_AS((void)memory.allocate(1, device, s.get()), cuota::usage_error);
    }
    CHECK(errors.take().size() == 5);
    int here = 0;
    memory.deallocate(&here, 4, 0, s.get());  // a device that was never used
    CHECK(has(memory.last_failure(), "deallocate on device 0, where nothing was allocated"));
    CHECK(errors.take().size() == 1);
}

TEST_CASE("freeing twice, with a wrong size or an unknown pointer is reported and changes nothing",
          "[interop][pytorch]") {
    support::captured_errors errors;
    cuota::pytorch_allocator memory;
    cuota::stream const s;
    void* const p = memory.allocate(3_MiB, 0, s.get());
    int foreign = 0;

    memory.deallocate(p, 2_MiB, 0, s.get());
    CHECK(has(memory.last_failure(), "deallocate with the wrong size: 2.0 MiB of"));
    memory.deallocate(&foreign, 4, 0, s.get());
    CHECK(has(memory.last_failure(), "unknown pointer"));
    CHECK(memory.stats(0).requested == 3_MiB);
    memory.deallocate(p, 3_MiB, 0, s.get());
    memory.deallocate(p, 3_MiB, 0, s.get());
    CHECK(has(memory.last_failure(), "double free"));
    CHECK(memory.stats(0).requested == 0);
    CHECK(errors.take().size() == 3);
}

TEST_CASE("limits can be configured until a device's first use", "[interop][pytorch]") {
    cuota::pytorch_allocator memory{cuota::device_limits{"1MiB"}};
    CHECK_THROWS_AS(memory.configure("1MB"), cuota::usage_error);
    memory.configure("32MiB");
    CHECK(memory.account(0).limit() == 32_MiB);
    memory.configure("64MiB");
    CHECK(memory.account(0).limit() == 32_MiB);
}

TEST_CASE("summaries name the budget, the pool and the live bytes", "[interop][pytorch]") {
    cuota::pytorch_allocator memory{cuota::device_limits{"64MiB"}};
    CHECK(memory.summary_text() == "no allocations on any device");
    CHECK(memory.summary_as_json() == "[]");
    CHECK_FALSE(memory.is_initialized(0));
    cuota::stream const s;
    void* const p = memory.allocate(3_MiB, 0, s.get());
    CHECK(memory.is_initialized(0));
    CHECK_FALSE((memory.is_initialized(1) || memory.is_initialized(-1) || memory.is_initialized(1 << 20)));
    CHECK(has(memory.summary_text(), "device 0"));
    CHECK(has(memory.summary_text(), "pytorch"));
    CHECK(has(memory.summary_text(), "64.0 MiB"));
    CHECK(has(memory.summary_as_json(), "\"requested\":3145728"));
    memory.deallocate(p, 3_MiB, 0, s.get());
}

TEST_CASE("a text for C is cut between characters at the buffer's size, and its full length is returned",
          "[interop][pytorch]") {
    std::string const text = "a\u00fcb";  // four bytes
    CHECK(cuota::copy_text(text, nullptr, 10) == 4);
    std::vector<char> into(8, '#');
    CHECK(cuota::copy_text(text, into.data(), 0) == 4);
    CHECK(into[0] == '#');
    CHECK(cuota::copy_text(text, into.data(), 5) == 4);
    CHECK(std::string{into.data()} == text);
    CHECK(cuota::copy_text(text, into.data(), 3) == 4);
    CHECK(std::string{into.data()} == "a");
    CHECK(cuota::copy_text(text, into.data(), 1) == 4);
    CHECK(into[0] == '\0');
    CHECK(cuota::copy_text({}, into.data(), 8) == 0);
}

TEST_CASE("recording starts once and includes existing and later devices", "[interop][pytorch]") {
    cuota::stream const s;
    for (bool const was_there : {false, true}) {
        cuota::pytorch_allocator memory{cuota::device_limits{"64MiB"}};
        CHECK_THROWS_AS(memory.recorded(), cuota::usage_error);
        if (was_there) memory.deallocate(memory.allocate(1_MiB, 0, s.get()), 1_MiB, 0, s.get());
        memory.record({.capacity = 1024});
        CHECK_THROWS_AS(memory.record(), cuota::usage_error);
        memory.deallocate(memory.allocate(3_MiB, 0, s.get()), 3_MiB, 0, s.get());
        CHECK(memory.try_allocate(65_MiB, 0, s.get()) == nullptr);
        std::size_t taken = 0;
        std::size_t refused = 0;
        cuota::recording const all = memory.recorded();
        for (cuota::memory_event const& e : all.events) {
            taken += e.kind == cuota::event_kind::allocated;
            refused += e.kind == cuota::event_kind::refused;
        }
        CHECK(taken == 1);
        CHECK(refused == 1);
    }
}
