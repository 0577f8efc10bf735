// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"
#include "simulator/virtual_memory.hpp"

#include <filesystem>
#include <optional>
#include <system_error>

#include <sys/resource.h>
#include <sys/stat.h>

using namespace control;

TEST_CASE("physical memory is counted from its creation until its last handle and mapping",
          "[simulator][virtual_memory]") {
    machine m{{.devices = 1, .capacity = 8 * MiB}};
    driver const d;
    auto const bytes = 4 * MiB;
    {
        range const r{d, bytes};
        CHECK(sim::live().address_ranges == 1);
        CHECK(free_bytes() == 8 * MiB);  // reserved addresses use no memory
        auto const wanted = on_device(0);
        CUmemGenericAllocationHandle h = 0, more = 0;
        REQUIRE(d.create(&h, bytes, &wanted, 0) == CUDA_SUCCESS);
        CHECK(free_bytes() == 4 * MiB);
        CHECK(sim::live().device_bytes == bytes);
        CHECK(sim::leaks().size() == 2);  // including the range
        CHECK(d.create(&more, 6 * MiB, &wanted, 0) == CUDA_ERROR_OUT_OF_MEMORY);

        REQUIRE(d.map(r.start, bytes, 0, h, 0) == CUDA_SUCCESS);
        REQUIRE(d.release(h) == CUDA_SUCCESS);
        CHECK(free_bytes() == 4 * MiB);
        CHECK(sim::live().device_allocations == 1);
        REQUIRE(d.unmap(r.start, bytes) == CUDA_SUCCESS);
        CHECK(free_bytes() == 8 * MiB);
        CHECK(sim::live().device_allocations == 0);
        CHECK(d.release(h) == CUDA_ERROR_INVALID_VALUE);
        CHECK(sim::misuse().bad_handles == 1);
    }
    CHECK(sim::peak_device_bytes() == bytes);
    CHECK(sim::leaks().empty());
}

TEST_CASE("the driver's functions can fail by name and are counted", "[simulator][virtual_memory]") {
    machine m;
    driver const d;
    auto const wanted = on_device(0);
    CUmemGenericAllocationHandle h = 0;
    sim::fail_call("cuMemCreate", 1);
    CHECK(d.create(&h, 2 * MiB, &wanted, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(sim::live().device_allocations == 0);
    sim::fail_call("cuMemCreate", 1, cudaErrorMemoryAllocation);
    CHECK(d.create(&h, 2 * MiB, &wanted, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(sim::calls("cuMemCreate") == 2);
    CHECK(sim::allocation_calls() == 2);

    CUdeviceptr start = 0;
    sim::fail_call("cuMemAddressReserve", 1);
    CHECK(d.reserve(&start, 2 * MiB, 0, 0, 0) == CUDA_ERROR_UNKNOWN);
    CHECK(start == 0);
    range const r{d, 2 * MiB};
    memory const p{d, 2 * MiB};
    sim::fail_call("cuMemMap", 1, cudaErrorMemoryAllocation);
    CHECK(d.map(r.start, 2 * MiB, 0, p.handle, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    mapped const here{d, r.start, p};
    sim::fail_call("cuMemUnmap", 1, cudaErrorInvalidValue);
    CHECK(d.unmap(r.start, 2 * MiB) == CUDA_ERROR_INVALID_VALUE);
    CHECK(sim::faults_injected() == 5);
}

TEST_CASE("a kernel can access adjacent mappings", "[simulator][virtual_memory]") {
    machine m;
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 2 * bytes};
    memory const a{d, bytes}, b{d, bytes};
    mapped const first{d, r.start, a}, second{d, r.start + bytes, b};
    auto const s = new_stream();
    auto* const numbers = static_cast<unsigned*>(pointer(r.start));
    auto const count = 2 * bytes / sizeof(unsigned);
    REQUIRE(launch(s, "fill", [=] {
                for (std::size_t i = 0; i < count; ++i) numbers[i] = 0x05050505U;
            }) == cudaSuccess);
    CHECK(all_are(contents(numbers, 2 * bytes), 5));
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("new physical memory is filled with a pattern", "[simulator][virtual_memory]") {
    machine m;
    sim::set_memory_checks(sim::memory_checks::heap);
    driver const d;
    range const r{d, d.granularity()};
    for (int round = 0; round < 2; ++round) {
        memory const p{d, d.granularity()};
        mapped const here{d, r.start, p};
        CHECK(all_are(contents(pointer(r.start), d.granularity()), 0xcd));
        REQUIRE(cudaMemset(pointer(r.start), 1, d.granularity()) == cudaSuccess);
    }
}

TEST_CASE("copies to memory that is read-only or has no access are refused", "[simulator][virtual_memory]") {
    machine m;
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, bytes};
    memory const p{d, bytes};
    mapped const here{d, r.start, p};
    REQUIRE(cudaMemset(pointer(r.start), 2, bytes) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);

    CUmemAccessDesc wanted{on_device(0).location, CU_MEM_ACCESS_FLAGS_PROT_READ};
    REQUIRE(d.set_access(r.start, bytes, &wanted, 1) == CUDA_SUCCESS);
    CHECK(all_are(contents(pointer(r.start), bytes), 2));
    CHECK(cudaMemset(pointer(r.start), 3, bytes) == cudaErrorInvalidValue);

    wanted.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    REQUIRE(d.set_access(r.start, bytes, &wanted, 1) == CUDA_SUCCESS);
    char byte = 0;
    CHECK(cudaMemcpy(&byte, pointer(r.start), 1, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    CHECK(sim::misuse().bad_ranges == 2);
}

TEST_CASE("work that reaches unmapped memory fails the device", "[simulator][virtual_memory]") {
    machine m;
    sim::set_race_checks(sim::race_checks::report);
    driver const d;
    auto const bytes = d.granularity();
    auto const s = new_stream(cudaStreamNonBlocking);
    {
        range const r{d, 2 * bytes};
        memory const a{d, bytes}, b{d, bytes};
        REQUIRE(d.map(r.start, bytes, 0, a.handle, 0) == CUDA_SUCCESS);
        REQUIRE(d.map(r.start + bytes, bytes, 0, b.handle, 0) == CUDA_SUCCESS);
        d.open(r.start, 2 * bytes);
        auto const late = GENERATE(0, 1);
        {
            sim::hold closed;
            REQUIRE(cudaMemsetAsync(pointer(r.start), 1, 2 * bytes, s) == cudaSuccess);
            REQUIRE(d.unmap(r.start + (late ? bytes : 0), bytes) == CUDA_SUCCESS);
        }
        CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
        std::string const fault = cuota_simulator_fault();
        INFO(fault);
        CHECK(fault.find("cudaMemsetAsync at control_virtual_memory.cpp:") == 0);
        CHECK(fault.find(" ran after its memory was freed: byte 0 of #") != std::string::npos);
        CHECK(fault.find(", freed by cuMemUnmap at control_virtual_memory.cpp:") != std::string::npos);
        // It unmaps anyway, and returns the error.
        CHECK(d.unmap(r.start + (late ? 0 : bytes), bytes) == CUDA_ERROR_ILLEGAL_ADDRESS);
        sim::reset();
    }
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("unmapping memory that work may use is a race", "[simulator][virtual_memory][races]") {
    if (under_thread_sanitizer) CUOTA_SKIP("it would rightly end the program");
    machine m;
    sim::set_race_checks(sim::race_checks::report);
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, bytes};
    memory const a{d, bytes};
    auto const s = new_stream(cudaStreamNonBlocking);
    for (bool const waits : {true, false}) {
        REQUIRE(d.map(r.start, bytes, 0, a.handle, 0) == CUDA_SUCCESS);
        d.open(r.start, bytes);
        std::optional<sim::hold> still;
        if (!waits) still.emplace();
        REQUIRE(cudaMemsetAsync(pointer(r.start), 1, bytes, s) == cudaSuccess);
        if (waits) REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
        CHECK(sim::misuse().races == (waits ? 0 : 1));
    }
    CHECK(sim::race_reports().back().find("cuMemUnmap at control_virtual_memory.cpp:") == 0);
    CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);  // the memset ran too late
    (void)cudaStreamDestroy(s);
    sim::reset();
    (void)cudaGetLastError();
}

TEST_CASE("work enqueued before a remapping does not access the new memory", "[simulator][virtual_memory]") {
    machine m;
    sim::set_race_checks(sim::race_checks::report);
    driver const d;
    auto const bytes = d.granularity();
    auto const s = new_stream(cudaStreamNonBlocking);
    {
        range const r{d, bytes};
        memory const before{d, bytes}, after{d, bytes};
        REQUIRE(d.map(r.start, bytes, 0, before.handle, 0) == CUDA_SUCCESS);
        d.open(r.start, bytes);
        {
            sim::hold closed;
            REQUIRE(cudaMemsetAsync(pointer(r.start), 1, bytes, s) == cudaSuccess);
            REQUIRE(d.unmap(r.start, bytes) == CUDA_SUCCESS);
            REQUIRE(d.map(r.start, bytes, 0, after.handle, 0) == CUDA_SUCCESS);
            d.open(r.start, bytes);
        }
        CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
        sim::reset();
        CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
    }
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("many small physical allocations do not need one file each", "[simulator][virtual_memory]") {
    struct few_files {
        explicit few_files(rlim_t most) {
            REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
            rlimit const now{most, before.rlim_max};
            REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
        }
        few_files(few_files const&) = delete;
        few_files& operator=(few_files const&) = delete;
        ~few_files() { ::setrlimit(RLIMIT_NOFILE, &before); }
        rlimit before{};
    } const limit{64};
    machine m{{.devices = 1, .capacity = std::size_t{8} << 30}};
    driver const d;
    std::vector<CUmemGenericAllocationHandle> handles(200);
    auto const wanted = on_device(0);
    for (auto& h : handles) REQUIRE(d.create(&h, 2 * MiB, &wanted, 0) == CUDA_SUCCESS);
    for (auto const h : handles) REQUIRE(d.release(h) == CUDA_SUCCESS);
    CHECK(free_bytes() == std::size_t{8} << 30);
}

TEST_CASE("free physical memory keeps at most 256 MiB of the host's memory", "[simulator][virtual_memory]") {
    auto const on_the_host = [] {
        std::size_t bytes = 0;
        for (auto const& file : std::filesystem::directory_iterator{"/proc/self/fd"}) {
            std::error_code none;
            struct stat what {};
            auto const name = std::filesystem::read_symlink(file, none).string();
            if (name.find("simulated device memory") != std::string::npos &&
                ::stat(file.path().c_str(), &what) == 0)
                bytes += static_cast<std::size_t>(what.st_blocks) * 512;
        }
        return bytes;
    };
    machine m{{.devices = 1, .capacity = std::size_t{8} << 30}};
    sim::set_memory_checks(sim::memory_checks::heap);
    driver const d;
    auto const wanted = on_device(0);
    for (int round = 0; round != 2; ++round) {
        std::vector<CUmemGenericAllocationHandle> handles(150);  // 300 MiB
        for (auto& h : handles) REQUIRE(d.create(&h, 2 * MiB, &wanted, 0) == CUDA_SUCCESS);
        CHECK(on_the_host() >= 300 * MiB);
        for (auto const h : handles) REQUIRE(d.release(h) == CUDA_SUCCESS);
        CHECK(on_the_host() <= 256 * MiB);
        CHECK(on_the_host() >= 200 * MiB);
    }
}

TEST_CASE("a race is found in each of a copy's mappings", "[simulator][virtual_memory][races]") {
    if (under_thread_sanitizer) CUOTA_SKIP("it would report the race as well");
    machine m;
    sim::set_race_checks(sim::race_checks::report);
    driver const d;
    auto const bytes = d.granularity();
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    {
        range const r{d, 3 * bytes};
        memory const p{d, bytes}, q{d, bytes}, last{d, bytes};
        mapped const first{d, r.start, p}, second{d, r.start + bytes, q}, third{d, r.start + 2 * bytes, last};
        auto const wrong = GENERATE(0, 1, 2);
        REQUIRE(cudaMemsetAsync(pointer(r.start + static_cast<std::size_t>(wrong) * bytes + 100), 1, 8, a) ==
                cudaSuccess);
        REQUIRE(cudaMemsetAsync(pointer(r.start), 2, 3 * bytes, b) == cudaSuccess);
        CHECK(sim::misuse().races == 1);
        cuota_simulator_declare(a, pointer(r.start + 100), 3 * bytes - 100, 0);
        REQUIRE(launch(a, "reader", [] {}) == cudaSuccess);
        CHECK(sim::misuse().races == 4);  // it conflicts with the second memset in all three
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
    }
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}
