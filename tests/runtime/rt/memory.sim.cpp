// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>

#include <cuota/runtime/rt/copy.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"

namespace rt = cuota::rt;

TEST_CASE("an allocation that does not fit returns null and leaves no error", "[runtime][memory]") {
    support::machine const sim{{1, std::size_t{1} << 20}};
    cuota::stream const s;
    REQUIRE(rt::device_allocate(std::size_t{2} << 20) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
    REQUIRE(rt::async_allocate(std::size_t{2} << 20, s) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
    cuota::simulator::fail_call("cudaHostAlloc", 1);
    REQUIRE(rt::pinned_allocate(16) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
    cuota::simulator::fail_call("cudaMallocManaged", 1);
    REQUIRE(rt::managed_allocate(16) == nullptr);
    REQUIRE(support::last_error() == cudaSuccess);
}

TEST_CASE("an allocation that fails for another reason throws", "[runtime][memory]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::simulator::fail_call("cudaMalloc", 1, cudaErrorUnknown);
    REQUIRE_THROWS_AS(rt::device_allocate(16), cuota::cuda_error);
    cuota::simulator::fail_call("cudaMallocAsync", 1, cudaErrorNotSupported);
    REQUIRE_THROWS_AS(rt::async_allocate(16, s), cuota::cuda_error);
    cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorUnknown);
    REQUIRE_THROWS_AS(rt::pinned_allocate(16), cuota::cuda_error);
    cuota::simulator::fail_call("cudaMallocManaged", 1, cudaErrorUnknown);
    REQUIRE_THROWS_AS(rt::managed_allocate(16), cuota::cuda_error);
}

TEST_CASE("a free that fails once is reported and retried", "[runtime][memory]") {
    support::machine sim;
    cuota::stream const s;
    void* const device = rt::device_allocate(16);
    void* const async = rt::async_allocate(16, s);
    void* const pinned = rt::pinned_allocate(16);
    void* const managed = rt::managed_allocate(16);
    cuota::simulator::fail_call("cudaFree", 1, cudaErrorUnknown);
    REQUIRE(rt::device_free(device));
    cuota::simulator::fail_call("cudaFreeAsync", 1, cudaErrorUnknown);
    REQUIRE(rt::async_free(async, s));
    cuota::simulator::fail_call("cudaFreeHost", 1, cudaErrorUnknown);
    REQUIRE(rt::pinned_free(pinned));
    cuota::simulator::fail_call("cudaFree", 1, cudaErrorUnknown);
    REQUIRE(rt::device_free(managed));
    REQUIRE(sim.errors.take().size() == 4);
}

TEST_CASE("a free that is refused returns false", "[runtime][memory]") {
    support::machine sim;
    int local = 0;
    REQUIRE(!rt::device_free(&local));
    REQUIRE(!rt::pinned_free(&local));
    REQUIRE(sim.errors.take().size() == 2);
}

TEST_CASE("device_of returns the device of an address, if it has one", "[runtime][memory]") {
    support::machine const sim{{2, std::size_t{16} << 20}};
    for (int i = 0; i != 2; ++i) {
        cuota::device const wanted{i};
        void* p = nullptr;
        void* managed = nullptr;
        {
            cuota::device_scope const here{wanted};
            p = rt::device_allocate(1000);
            managed = rt::managed_allocate(1000);
        }
        CHECK(rt::device_of(p) == wanted);
        CHECK(rt::device_of(static_cast<std::byte*>(p) + 999) == wanted);
        CHECK(rt::device_of(managed) == wanted);
        rt::device_free(p);
        rt::device_free(managed);
    }
    void* const pinned = rt::pinned_allocate(1000);
    CHECK_FALSE(rt::device_of(pinned));
    rt::pinned_free(pinned);
    int local = 0;
    CHECK_FALSE(rt::device_of(&local));
    cuota::simulator::fail_call("cudaPointerGetAttributes", 1, cudaErrorUnknown);
    CHECK_THROWS_AS(rt::device_of(&local), cuota::cuda_error);
}

namespace {

// Two pages on both sides of a boundary between parts, at which registrations end.
class pages_of_two_parts {
public:
    static constexpr std::size_t bytes = 2 * 4096;

    pages_of_two_parts() {
        // Searches for unmapped addresses in the lower half of the address space.
        for (std::uintptr_t part = 5; at_ == MAP_FAILED && part != 400; ++part) {
            auto* const wanted = reinterpret_cast<void*>(part * rt::registered_part - bytes / 2);
            at_ = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        }
        REQUIRE(at_ != MAP_FAILED);
    }
    pages_of_two_parts(pages_of_two_parts const&) = delete;
    pages_of_two_parts& operator=(pages_of_two_parts const&) = delete;
    ~pages_of_two_parts() { ::munmap(at_, bytes); }
    [[nodiscard]] std::byte* at() const noexcept { return static_cast<std::byte*>(at_); }

private:
    void* at_ = MAP_FAILED;
};

}  // namespace

TEST_CASE("pages are locked in parts that the driver accepts, either all or none", "[runtime][memory]") {
    support::machine machine;
    pages_of_two_parts const pages;
    support::calls_since const locked{"cudaHostRegister"};
    support::calls_since const unlocked{"cudaHostUnregister"};
    SECTION("all parts") {
        REQUIRE(rt::lock_pages(pages.at(), pages.bytes));
        CHECK(locked.count() == 2);
        CHECK(rt::unlock_pages(pages.at(), pages.bytes));
        CHECK(unlocked.count() == 2);
    }
    SECTION("none if memory does not suffice for the second part") {
        cuota::simulator::fail_call("cudaHostRegister", 2, cudaErrorMemoryAllocation);
        CHECK_FALSE(rt::lock_pages(pages.at(), pages.bytes));
        CHECK(unlocked.count() == 1);
    }
    SECTION("none if locking the second part fails") {
        cuota::simulator::fail_call("cudaHostRegister", 2, cudaErrorUnknown);
        CHECK_THROWS_AS((void)rt::lock_pages(pages.at(), pages.bytes), cuota::cuda_error);
        CHECK(unlocked.count() == 1);
    }
    SECTION("a part that cannot be unlocked is reported, and the others are unlocked") {
        REQUIRE(rt::lock_pages(pages.at(), pages.bytes));
        REQUIRE(cudaHostUnregister(pages.at()) == cudaSuccess);
        CHECK_FALSE(rt::unlock_pages(pages.at(), pages.bytes));
        CHECK(machine.errors.take().size() == 1);
    }
    cudaPointerAttributes of{};
    for (std::size_t part : {std::size_t{0}, pages.bytes / 2}) {
        REQUIRE(cudaPointerGetAttributes(&of, pages.at() + part) == cudaSuccess);
        CHECK(of.type == cudaMemoryTypeUnregistered);
    }
}

TEST_CASE("a copy between a device and pages of two parts is split into two copies", "[runtime][memory]") {
    support::machine machine;
    pages_of_two_parts const pages;
    cuota::stream const s;
    REQUIRE(rt::lock_pages(pages.at(), pages.bytes));
    void* const there = rt::device_allocate(pages.bytes);
    std::memset(pages.at(), 3, pages.bytes);
    support::calls_since const copies{"cudaMemcpyAsync"};
    rt::copy_to_device(there, pages.at(), pages.bytes, s);
    CHECK(copies.count() == 2);
    s.synchronize();
    std::memset(pages.at(), 0, pages.bytes);
    rt::copy_to_host(pages.at() + 1, static_cast<std::byte*>(there) + 1, pages.bytes - 1, s);
    CHECK(copies.count() == 4);
    s.synchronize();
    CHECK(pages.at()[0] == std::byte{0});
    for (std::size_t i = 1; i != pages.bytes; ++i) REQUIRE(pages.at()[i] == std::byte{3});
    cuota::simulator::fail_call("cudaMemcpyAsync", 2, cudaErrorUnknown);
    CHECK_THROWS_AS(rt::copy_anywhere(there, pages.at(), pages.bytes, s), cuota::cuda_error);
    CHECK(s.is_idle());
    rt::device_free(there);
    CHECK(rt::unlock_pages(pages.at(), pages.bytes));
    CHECK(cuota::simulator::misuse_reports().empty());
}
