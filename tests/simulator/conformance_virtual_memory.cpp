// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/virtual_memory.hpp"

#include <cstdint>
#include <string>

using namespace conformance;

TEST_CASE("the driver's functions are looked up by name and version", "[simulator][virtual_memory]") {
    auto status = cudaDriverEntryPointSymbolNotFound;
    void* f = nullptr;
    REQUIRE(cudaGetDriverEntryPointByVersion("cuMemMap", &f, 12000, cudaEnableDefault, &status) ==
            cudaSuccess);
    CHECK(status == cudaDriverEntryPointSuccess);
    CHECK(f != nullptr);

    SECTION("an unknown name returns no function") {
        CHECK(cudaGetDriverEntryPointByVersion("cuMemMapp", &f, 12000, cudaEnableDefault, &status) ==
              cudaSuccess);
        CHECK(status == cudaDriverEntryPointSymbolNotFound);
        CHECK(f == nullptr);
    }
    SECTION("a version before the function's first returns none") {
        CHECK(cudaGetDriverEntryPointByVersion("cuMemMap", &f, 10000, cudaEnableDefault, &status) ==
              cudaSuccess);
        CHECK(status == cudaDriverEntryPointVersionNotSufficent);
        CHECK(f == nullptr);
    }
    SECTION("a future version is an error") {
        CHECK(cudaGetDriverEntryPointByVersion("cuMemMap", &f, 99000, cudaEnableDefault, &status) ==
              cudaErrorInvalidValue);
        (void)cudaGetLastError();
    }
    SECTION("the status may be null") {
        CHECK(cudaGetDriverEntryPointByVersion("cuMemMap", &f, 12000, cudaEnableDefault, nullptr) ==
              cudaSuccess);
        CHECK(f != nullptr);
    }
}

TEST_CASE("the driver's errors have names", "[simulator][virtual_memory]") {
    driver const d;
    char const* text = nullptr;
    CHECK(d.error_name(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
    CHECK(std::string{text} == "CUDA_ERROR_OUT_OF_MEMORY");
    CHECK(d.error_string(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
    CHECK(std::string{text} == "out of memory");
    CHECK(d.error_name(static_cast<CUresult>(12), &text) == CUDA_ERROR_INVALID_VALUE);
    CHECK(text == nullptr);
}

TEST_CASE("the driver's current device equals the runtime's", "[simulator][virtual_memory]") {
    driver const d;
    CUdevice index = 7;
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(d.current(&index) == CUDA_SUCCESS);
    CHECK(index == 0);
    CHECK(d.device(&index, 0) == CUDA_SUCCESS);
    CHECK(d.device(&index, 1000) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("physical memory is allocated in multiples of the granularity", "[simulator][virtual_memory]") {
    driver const d;
    CHECK(d.granularity() % 4096 == 0);
    auto const wanted = on_device(0);
    CUmemGenericAllocationHandle h = 0;
    CHECK(d.create(&h, 0, &wanted, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(d.create(&h, d.granularity() + 4096, &wanted, 0) == CUDA_ERROR_INVALID_VALUE);
    auto const nowhere = on_device(1000);
    CHECK(d.create(&h, d.granularity(), &nowhere, 0) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("mapped memory is device memory", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, bytes};
    memory const m{d, bytes};
    mapped const here{d, r.start, m};

    auto* const p = pointer(r.start);
    REQUIRE(cudaMemset(p, 9, bytes) == cudaSuccess);
    CHECK(all_are(contents(p, bytes), 9));
    cudaPointerAttributes facts{};
    REQUIRE(cudaPointerGetAttributes(&facts, pointer(r.start + 100)) == cudaSuccess);
    CHECK(facts.type == cudaMemoryTypeDevice);
    CHECK(facts.device == 0);
    CHECK(facts.devicePointer == pointer(r.start + 100));
}

TEST_CASE("memory that is mapped twice has the same contents at both addresses",
          "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 2 * bytes};
    memory const m{d, bytes};
    mapped const first{d, r.start, m}, second{d, r.start + bytes, m};
    REQUIRE(cudaMemset(pointer(r.start), 4, bytes) == cudaSuccess);
    CHECK(all_are(contents(pointer(r.start + bytes), bytes), 4));
}

TEST_CASE("adjacent mappings can be accessed as one range", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 3 * bytes};
    memory const a{d, bytes}, b{d, bytes};
    mapped const first{d, r.start, a}, second{d, r.start + bytes, b};

    auto* const across = pointer(r.start + bytes - 512);
    REQUIRE(cudaMemset(across, 3, 1024) == cudaSuccess);
    CHECK(all_are(contents(across, 1024), 3));
    memory const c{d, bytes};  // contents persist when the range grows
    mapped const third{d, r.start + 2 * bytes, c};
    CHECK(all_are(contents(across, 1024), 3));
    CHECK(cudaMemset(pointer(r.start), 1, 3 * bytes) == cudaSuccess);
}

TEST_CASE("contents belong to the physical memory, not to its address", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, bytes}, other{d, bytes};
    memory const m{d, bytes};
    {
        mapped const here{d, r.start, m};
        REQUIRE(cudaMemset(pointer(r.start), 6, bytes) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    mapped const there{d, other.start, m};
    CHECK(all_are(contents(pointer(other.start), bytes), 6));
}

TEST_CASE("a new mapping has no access", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, bytes};
    memory const m{d, bytes};
    REQUIRE(d.map(r.start, bytes, 0, m.handle, 0) == CUDA_SUCCESS);
    auto const here = on_device(0).location;
    unsigned long long flags = 99;
    CHECK(d.get_access(&flags, &here, r.start) == CUDA_SUCCESS);
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemAccessDesc wanted{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(d.set_access(r.start, bytes, &wanted, 1) == CUDA_SUCCESS);
    CHECK(d.get_access(&flags, &here, r.start + 5) == CUDA_SUCCESS);
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    REQUIRE(d.unmap(r.start, bytes) == CUDA_SUCCESS);

    REQUIRE(d.map(r.start, bytes, 0, m.handle, 0) == CUDA_SUCCESS);
    CHECK(d.get_access(&flags, &here, r.start) == CUDA_SUCCESS);
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
}

TEST_CASE("a range cannot be mapped twice at a time", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 3 * bytes};
    memory const m{d, bytes}, large{d, 2 * bytes};
    REQUIRE(d.map(r.start, bytes, 0, m.handle, 0) == CUDA_SUCCESS);
    CHECK(d.map(r.start, bytes, 0, m.handle, 0) != CUDA_SUCCESS);
    CHECK(d.map(r.start, 2 * bytes, 0, large.handle, 0) != CUDA_SUCCESS);
    CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
    CHECK(d.map(r.start, 2 * bytes, 0, large.handle, 0) == CUDA_SUCCESS);
    CHECK(d.unmap(r.start, bytes) != CUDA_SUCCESS);  // part of a mapping
    CHECK(d.unmap(r.start + bytes, bytes) != CUDA_SUCCESS);
    CHECK(d.unmap(r.start, 2 * bytes) == CUDA_SUCCESS);
}

TEST_CASE("memory is mapped in whole multiples of the granularity, within a reservation",
          "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 2 * bytes};
    memory const m{d, bytes};
    CHECK(d.map(r.start, 2 * bytes, 0, m.handle, 0) != CUDA_SUCCESS);
    CHECK(d.map(r.start + 4096, bytes, 0, m.handle, 0) != CUDA_SUCCESS);
    auto* const plain = device_memory(4 * bytes);
    auto const inside = (reinterpret_cast<CUdeviceptr>(plain) + bytes - 1) / bytes * bytes;
    CHECK(d.map(inside, bytes, 0, m.handle, 0) != CUDA_SUCCESS);
    CHECK(cudaFree(plain) == cudaSuccess);
}

TEST_CASE("one call unmaps several mappings", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 2 * bytes};
    memory const a{d, bytes}, b{d, bytes};
    REQUIRE(d.map(r.start, bytes, 0, a.handle, 0) == CUDA_SUCCESS);
    REQUIRE(d.map(r.start + bytes, bytes, 0, b.handle, 0) == CUDA_SUCCESS);
    CHECK(d.unmap(r.start, 2 * bytes) == CUDA_SUCCESS);
    CHECK(d.map(r.start, bytes, 0, a.handle, 0) == CUDA_SUCCESS);  // both ranges are vacant again
    CHECK(d.map(r.start + bytes, bytes, 0, b.handle, 0) == CUDA_SUCCESS);
    CHECK(d.unmap(r.start, 2 * bytes) == CUDA_SUCCESS);
}

TEST_CASE("one call sets access of, and one unmaps, several mappings of different sizes",
          "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 7 * bytes};
    memory const a{d, bytes}, b{d, 4 * bytes}, c{d, 2 * bytes};
    REQUIRE(d.map(r.start, bytes, 0, a.handle, 0) == CUDA_SUCCESS);
    REQUIRE(d.map(r.start + bytes, 4 * bytes, 0, b.handle, 0) == CUDA_SUCCESS);
    REQUIRE(d.map(r.start + 5 * bytes, 2 * bytes, 0, c.handle, 0) == CUDA_SUCCESS);
    d.open(r.start, 7 * bytes);
    REQUIRE(cudaMemset(pointer(r.start), 5, 7 * bytes) == cudaSuccess);
    CHECK(all_are(contents(pointer(r.start), 7 * bytes), 5));

    CHECK(d.unmap(r.start, 3 * bytes) == CUDA_ERROR_INVALID_VALUE);  // a part of the second mapping
    CHECK(d.unmap(r.start + 2 * bytes, 5 * bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(all_are(contents(pointer(r.start), 7 * bytes), 5));  // nothing was unmapped
    CHECK(d.unmap(r.start + bytes, 6 * bytes) == CUDA_SUCCESS);
    CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
    CHECK(d.map(r.start + 2 * bytes, 4 * bytes, 0, b.handle, 0) == CUDA_SUCCESS);
    CHECK(d.unmap(r.start + 2 * bytes, 4 * bytes) == CUDA_SUCCESS);
}

TEST_CASE("mapped memory outlives its handle", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, bytes};
    auto const wanted = on_device(0);
    CUmemGenericAllocationHandle h = 0;
    REQUIRE(d.create(&h, bytes, &wanted, 0) == CUDA_SUCCESS);
    REQUIRE(d.map(r.start, bytes, 0, h, 0) == CUDA_SUCCESS);
    CHECK(d.release(h) == CUDA_SUCCESS);
    d.open(r.start, bytes);
    REQUIRE(cudaMemset(pointer(r.start), 8, bytes) == cudaSuccess);
    CHECK(all_are(contents(pointer(r.start), bytes), 8));

    CUmemGenericAllocationHandle again = 0;
    REQUIRE(d.retain(&again, pointer(r.start + 17)) == CUDA_SUCCESS);
    CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
    REQUIRE(d.map(r.start, bytes, 0, again, 0) == CUDA_SUCCESS);
    d.open(r.start, bytes);
    CHECK(all_are(contents(pointer(r.start), bytes), 8));
    CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
    CHECK(d.release(again) == CUDA_SUCCESS);
}

TEST_CASE("a reservation is freed only as a whole and when nothing is mapped",
          "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    CUdeviceptr start = 0;
    REQUIRE(d.reserve(&start, 4 * bytes, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(start % bytes == 0);
    CHECK(d.free(start, 2 * bytes) != CUDA_SUCCESS);
    CHECK(d.free(start + bytes, 3 * bytes) != CUDA_SUCCESS);
    CHECK(d.free(start, 4 * bytes) == CUDA_SUCCESS);
}

TEST_CASE("a reservation has the requested alignment", "[simulator][virtual_memory]") {
    driver const d;
    CUdeviceptr start = 0;
    REQUIRE(d.reserve(&start, d.granularity(), 64 * MiB, 0, 0) == CUDA_SUCCESS);
    CHECK(start % (64 * MiB) == 0);
    CHECK(d.free(start, d.granularity()) == CUDA_SUCCESS);
    CHECK(d.reserve(&start, d.granularity(), 3 * MiB, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(d.reserve(&start, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(d.reserve(&start, d.granularity() + 1, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("cudaFree refuses mapped memory", "[simulator][virtual_memory]") {
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, bytes};
    memory const m{d, bytes};
    mapped const here{d, r.start, m};
    CHECK(cudaFree(pointer(r.start)) == cudaErrorInvalidValue);
    CHECK(cudaFreeAsync(pointer(r.start), nullptr) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaMemset(pointer(r.start), 0, bytes) == cudaSuccess);
}

TEST_CASE("an error of the driver does not set the runtime's last error", "[simulator][virtual_memory]") {
    driver const d;
    (void)cudaGetLastError();
    CHECK(d.unmap(0, d.granularity()) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaGetLastError() == cudaSuccess);
}
