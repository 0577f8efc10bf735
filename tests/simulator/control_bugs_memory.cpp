// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/bugs.hpp"
#include "simulator/process.hpp"
#include "simulator/virtual_memory.hpp"

// Programs that misuse memory. The report must name the mistake and the location where the memory was allocated or freed. Three have one
// location only: memory that the runtime does not manage, and leaks.

using namespace control;

namespace {

constexpr auto illegal = &sim::misuse_counts::illegal_accesses;
constexpr auto outside = &sim::misuse_counts::out_of_bounds;
constexpr auto ranges = &sim::misuse_counts::bad_ranges;
constexpr auto directions = &sim::misuse_counts::bad_directions;
constexpr auto again = &sim::misuse_counts::double_frees;
constexpr auto foreign = &sim::misuse_counts::foreign_frees;
constexpr auto unwritten = &sim::misuse_counts::uninitialized_reads;
constexpr std::uint64_t sim::misuse_counts::*leak = nullptr;
constexpr auto down = cudaMemcpyDeviceToHost, up = cudaMemcpyHostToDevice, across = cudaMemcpyDeviceToDevice;

// Kernels that access their own memory first, so that it is accessible when they make the mistake.
void write_to_its_end(void* p) {
    write_byte(p);
    write_byte(bytes(p) + size - 1);
}
void write_one_too_many(void* p) {
    write_byte(p);
    write_byte(bytes(p) + size);
}
void write_from_one_too_low(void* p) {
    write_byte(p);
    write_byte(bytes(p) - 1);
}

constexpr bug kernels[] = {
    {"a kernel writes one byte too many", outside, "wrote 1 byte past the end of",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         auto const body = t.fixed ? write_to_its_end : write_one_too_many;
         t.place(cuota_simulator_launch(t.a, "fill", body, nullptr, p));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a kernel writes from one byte too low", outside, "wrote 1 byte before",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         auto const body = t.fixed ? write_to_its_end : write_from_one_too_low;
         t.place(cuota_simulator_launch(t.a, "fill", body, nullptr, p));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a kernel touches nothing but the byte behind", outside, "1 byte past the end of",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         auto* const q = bytes(p) + (t.fixed ? size - 1 : size);
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, q));
         (void)free_when_done(p);
     }},
    {"a kernel reads on the page behind", outside, "bytes past the end of",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         auto* const q = bytes(p) + (t.fixed ? 0 : 4096);
         t.place(cuota_simulator_launch(t.a, "sum", read_byte, nullptr, q));
         (void)free_when_done(p);
     }},
    {"a kernel's index is negative", outside, "8192 bytes before",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, 16 * KiB));
         auto* const q = bytes(p) + (t.fixed ? 8192 : -8192);
         t.place(cuota_simulator_launch(t.a, "sum", read_byte, nullptr, q));
         (void)free_when_done(p);
     }},
    {"a kernel uses memory after cudaFree", illegal, "freed by cudaFree at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         if (t.wrong) t.place(cudaFree(p));
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, p));
         if (t.fixed) CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a kernel uses memory after cudaFreeAsync on its own stream", illegal, "freed by cudaFreeAsync at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, t.a) == cudaSuccess);
         if (t.wrong) t.place(cudaFreeAsync(p, t.a));
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, p));
         if (t.fixed) CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
     }},
    {"a kernel uses memory before its cudaMallocAsync", illegal, "which is not allocated yet",
     [](trial& t) {
         void* p = nullptr;
         gate g{t.a};
         t.place(cudaMallocAsync(&p, size, t.a));
         if (t.fixed) g.open();
         if (t.fixed) t.order(t.a, t.b);
         t.place(cuota_simulator_launch(t.b, "fill", write_byte, nullptr, p));
         (void)cudaStreamSynchronize(t.b);
         g.open();
         (void)cudaFreeAsync(p, t.a);
     }},
    {"a kernel uses another device's memory", illegal, "which device 0 cannot reach",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaSetDevice(1) == cudaSuccess);
         t.place(cudaMalloc(&p, size));
         REQUIRE(cudaSetDevice(0) == cudaSuccess);
         if (t.fixed) REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, p));
         (void)cudaStreamSynchronize(t.a);
         (void)free_when_done(p);
     }},
    {"a kernel has the old pointer of memory that was freed and allocated anew", illegal,
     "freed by cudaFree at",
     [](trial& t) {
         void *p = nullptr, *q = nullptr;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         t.place(cudaFree(p));
         REQUIRE(cudaMalloc(&q, size) == cudaSuccess);
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, t.fixed ? q : p));
         (void)free_when_done(q);
     }},
};

constexpr bug copies[] = {
    {"a copy that runs past the end", ranges, "requests 1001 bytes from #",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         std::vector<char> from(size + 1);
         t.place(cudaMemcpyAsync(p, from.data(), size + t.wrong, up, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a copy that begins before the start", ranges, "requests 1000 bytes from 16 bytes before",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, 2 * size));
         auto* const to = bytes(p) + (t.fixed ? 16 : -16);
         t.place(cudaMemcpyAsync(to, t.pinned, size, up, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a memset of elements that counts bytes", ranges, "requests 4000 bytes from #",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         t.place(cudaMemsetAsync(p, 0, t.fixed ? size : size * sizeof(int), t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a rectangle with the pitch of another", ranges, "requests 1324 bytes from #",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, 10 * 100));
         auto const pitch = t.fixed ? std::size_t{100} : std::size_t{136};
         t.place(cudaMemset2DAsync(p, pitch, 0, 100, 10, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a rectangle with width and height confused", ranges, "requests",
     [](trial& t) {
         void* p = nullptr;
         constexpr std::size_t width = 100, height = 10;
         t.place(cudaMalloc(&p, width * height));
         auto const w = t.fixed ? width : height, h = t.fixed ? height : width;
         t.place(cudaMemcpy2DAsync(p, width, t.pinned, t.fixed ? width : height, w, h, up, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a copy from memory that was freed", ranges, "freed by cudaFree at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         REQUIRE(cudaMemset(p, 1, size) == cudaSuccess);
         REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
         if (t.wrong) t.place(cudaFree(p));
         t.place(cudaMemcpy(t.pinned, p, size, down));
         if (t.fixed) CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a copy to memory that was freed in stream order", ranges, "freed by cudaFreeAsync at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, t.a) == cudaSuccess);
         if (t.wrong) t.place(cudaFreeAsync(p, t.a));
         t.place(cudaMemcpyAsync(p, t.pinned, size, up, t.a));
         if (t.fixed) CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
     }},
    {"a copy that says the opposite of what it does", directions, "has the wrong direction",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         t.place(cudaMemcpyAsync(p, t.pinned, size, t.fixed ? up : down, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a copy on the device whose source is pinned", directions, "has the wrong direction",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocHost(&p, size));
         std::fill_n(bytes(p), size, 'x');
         t.place(cudaMemcpyAsync(t.device, p, size, t.fixed ? up : across, t.a));
         CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
         CHECK(cudaFreeHost(p) == cudaSuccess);
     }},
    {"a memset of pageable memory", directions, "which the runtime did not allocate",
     [](trial& t) {
         std::vector<char> host(size);
         t.place(cudaMemsetAsync(t.fixed ? t.device : host.data(), 0, size, t.a));
     }},
};

constexpr bug frees[] = {
    {"cudaFree twice", again, "freed by cudaFree at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         t.place(cudaFree(p));
         if (t.wrong) t.place(cudaFree(p));
     }},
    {"cudaFreeAsync twice", again, "freed by cudaFreeAsync at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, t.a) == cudaSuccess);
         t.place(cudaFreeAsync(p, t.a));
         if (t.wrong) t.place(cudaFreeAsync(p, t.b));
     }},
    {"cudaFreeHost twice", again, "freed by cudaFreeHost at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocHost(&p, size) == cudaSuccess);
         t.place(cudaFreeHost(p));
         if (t.wrong) t.place(cudaFreeHost(p));
     }},
    {"cudaFree of what cudaFreeAsync has freed", again, "freed by cudaFreeAsync at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, size, t.a) == cudaSuccess);
         t.place(cudaFreeAsync(p, t.a));
         if (t.wrong) t.place(cudaFree(p));
     }},
    {"cudaFree of a local variable", foreign, "the runtime did not allocate it",
     [](trial& t) {
         int local = 0;
         if (t.wrong) t.place(cudaFree(&local));
     }},
    {"cudaFreeHost of memory that the program owns", foreign, "the runtime did not allocate it",
     [](trial& t) {
         std::vector<char> host(size);
         if (t.wrong) t.place(cudaFreeHost(host.data()));
     }},
    {"cudaFree of an address inside", foreign, "it is byte 512 of #",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         if (t.wrong) t.place(cudaFree(bytes(p) + 512));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"cudaFreeHost of device memory", foreign, "device memory",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         if (t.wrong) t.place(cudaFreeHost(p));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"cudaFree of pinned memory", foreign, "pinned memory",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMallocHost(&p, size) == cudaSuccess);
         REQUIRE(cudaFreeHost(p) == cudaSuccess);
         t.place(cudaMallocHost(&p, size));  // most likely at the same address
         if (t.wrong) t.place(cudaFree(p));
         CHECK(cudaFreeHost(p) == cudaSuccess);
     }},
    {"cudaFreeAsync of what cudaMalloc gave", foreign, "from cudaMalloc at",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         if (t.wrong) t.place(cudaFreeAsync(p, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
};

constexpr bug leaks[] = {
    {"device memory that nobody frees", leak, "device memory, 1000 bytes",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         if (t.fixed) CHECK(free_when_done(p) == cudaSuccess);
         else t.finally([p] { (void)free_when_done(p); });
     }},
    {"pinned memory that nobody frees", leak, "pinned memory, 1000 bytes",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocHost(&p, size));
         if (t.fixed) CHECK(cudaFreeHost(p) == cudaSuccess);
         else t.finally([p] { (void)cudaFreeHost(p); });
     }},
    {"managed memory that nobody frees", leak, "managed memory, 1000 bytes",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocManaged(&p, size, cudaMemAttachGlobal));
         if (t.fixed) CHECK(free_when_done(p) == cudaSuccess);
         else t.finally([p] { (void)free_when_done(p); });
     }},
    {"stream-ordered memory that nobody frees", leak, "from cudaMallocAsync at",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocAsync(&p, size, t.a));
         if (t.fixed) CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
         else t.finally([p] { (void)free_when_done(p); });
     }},
    {"physical memory that nobody releases", leak, "from cuMemCreate at",
     [](trial& t) {
         driver const d;
         auto const wanted = on_device(0);
         CUmemGenericAllocationHandle h = 0;
         t.place(d.create(&h, d.granularity(), &wanted, 0));
         if (t.fixed) CHECK(d.release(h) == CUDA_SUCCESS);
         else t.finally([h] { (void)driver{}.release(h); });
     }},
    {"a range of addresses that nobody frees", leak, "from cuMemAddressReserve at",
     [](trial& t) {
         driver const d;
         CUdeviceptr start = 0;
         t.place(d.reserve(&start, d.granularity(), 0, 0, 0));
         if (t.fixed) CHECK(d.free(start, d.granularity()) == CUDA_SUCCESS);
         else t.finally([start] { (void)driver{}.free(start, driver{}.granularity()); });
     }},
};

constexpr bug contents_nobody_wrote[] = {
    {"new device memory read by the host", unwritten, "which was never written",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         if (t.fixed) REQUIRE(cudaMemset(p, 0, size) == cudaSuccess);
         t.place(cudaMemcpy(t.pinned, p, size, down));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"new stream-ordered memory read by the host", unwritten, "which was never written",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocAsync(&p, size, t.a));
         if (t.fixed) REQUIRE(cudaMemsetAsync(p, 0, size, t.a) == cudaSuccess);
         t.place(cudaMemcpyAsync(t.pinned, p, size, down, t.a));
         CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
     }},
    {"the last quarter of a buffer never filled", unwritten, "reads byte 752 of #",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         REQUIRE(cudaMemsetAsync(p, 0, t.fixed ? size : 752, t.a) == cudaSuccess);
         t.place(cudaMemcpyAsync(t.pinned, p, size, down, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
     }},
    {"a copy of new memory read by the host", unwritten, "which was never written",
     [](trial& t) {
         void *p = nullptr, *q = nullptr;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         t.place(cudaMalloc(&q, size));
         if (t.fixed) REQUIRE(cudaMemsetAsync(p, 0, size, t.a) == cudaSuccess);
         REQUIRE(cudaMemcpyAsync(q, p, size, across, t.a) == cudaSuccess);
         t.place(cudaMemcpyAsync(t.pinned, q, size, down, t.a));
         CHECK(free_when_done(p) == cudaSuccess);
         CHECK(cudaFree(q) == cudaSuccess);
     }},
};

constexpr bug host_memory[] = {
    {"the host writes behind pinned memory", outside, "1 byte past the end of",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocHost(&p, size));
         write_byte(bytes(p) + size - t.fixed);
         t.place(cudaFreeHost(p));
     }},
    {"the host writes before pinned memory", outside, "4 bytes before",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocHost(&p, size));
         write_byte(bytes(p) + (t.fixed ? 0 : -4));
         t.place(cudaFreeHost(p));
     }},
    {"a kernel writes behind managed memory", outside, "1 byte past the end of",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocManaged(&p, size, cudaMemAttachGlobal));
         auto const body = t.fixed ? write_to_its_end : write_one_too_many;
         REQUIRE(cuota_simulator_launch(t.a, "fill", body, nullptr, p) == cudaSuccess);
         (void)cudaStreamSynchronize(t.a);
         t.place(cudaFree(p));
     }},
};

/// Reserved addresses, the first part of which is mapped. Frees them even if the device has failed, without a report.
struct address_space {
    driver const d;
    std::size_t const granularity = d.granularity();
    CUdeviceptr start = 0;
    CUmemGenericAllocationHandle handle = 0;

    address_space() {
        auto const wanted = on_device(0);
        REQUIRE(d.create(&handle, granularity, &wanted, 0) == CUDA_SUCCESS);
    }
    address_space(address_space const&) = delete;
    address_space& operator=(address_space const&) = delete;
    ~address_space() {
        (void)cudaDeviceSynchronize();
        (void)d.unmap(start, granularity);
        (void)d.release(handle);
        (void)d.free(start, 2 * granularity);
    }

    CUresult reserve() { return d.reserve(&start, 2 * granularity, 0, 0, 0); }
    [[nodiscard]] CUresult open(CUmemAccess_flags how = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) const {
        CUmemAccessDesc const wanted{on_device(0).location, how};
        return d.set_access(start, granularity, &wanted, 1);
    }
};

constexpr auto read_only = CU_MEM_ACCESS_FLAGS_PROT_READ, read_write = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

constexpr bug mappings[] = {
    {"a mapping undone while a memset still wants it", illegal, "freed by cuMemUnmap at",
     [](trial& t) {
         address_space v;
         REQUIRE(v.reserve() == CUDA_SUCCESS);
         REQUIRE(v.d.map(v.start, v.granularity, 0, v.handle, 0) == CUDA_SUCCESS);
         REQUIRE(v.open() == CUDA_SUCCESS);
         gate g{t.a};
         t.place(cudaMemsetAsync(pointer(v.start), 1, size, t.a));
         if (t.fixed) g.open();
         if (t.fixed) REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
         t.place(v.d.unmap(v.start, v.granularity));
         g.open();
         (void)cudaStreamSynchronize(t.a);
     }},
    {"a kernel uses a mapping that is undone", illegal, "freed by cuMemUnmap at",
     [](trial& t) {
         address_space v;
         REQUIRE(v.reserve() == CUDA_SUCCESS);
         REQUIRE(v.d.map(v.start, v.granularity, 0, v.handle, 0) == CUDA_SUCCESS);
         REQUIRE(v.open() == CUDA_SUCCESS);
         if (t.wrong) t.place(v.d.unmap(v.start, v.granularity));
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, pointer(v.start)));
     }},
    {"a kernel uses addresses that nothing is mapped at", illegal, "where nothing is mapped",
     [](trial& t) {
         address_space v;
         t.place(v.d.reserve(&v.start, 2 * v.granularity, 0, 0, 0));
         REQUIRE(v.d.map(v.start, v.granularity, 0, v.handle, 0) == CUDA_SUCCESS);
         REQUIRE(v.open() == CUDA_SUCCESS);
         auto* const p = bytes(pointer(v.start)) + (t.fixed ? 0 : v.granularity);
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, p));
     }},
    {"a kernel writes what it may only read", illegal, "which is read-only",
     [](trial& t) {
         address_space v;
         REQUIRE(v.reserve() == CUDA_SUCCESS);
         t.place(v.d.map(v.start, v.granularity, 0, v.handle, 0));
         REQUIRE(v.open(read_only) == CUDA_SUCCESS);
         auto const body = t.fixed ? read_byte : write_byte;
         t.place(cuota_simulator_launch(t.a, "fill", body, nullptr, pointer(v.start)));
     }},
    {"a kernel uses a mapping that nobody has opened", illegal, "which device 0 cannot reach",
     [](trial& t) {
         address_space v;
         REQUIRE(v.reserve() == CUDA_SUCCESS);
         t.place(v.d.map(v.start, v.granularity, 0, v.handle, 0));
         if (t.fixed) REQUIRE(v.open() == CUDA_SUCCESS);
         t.place(cuota_simulator_launch(t.a, "fill", write_byte, nullptr, pointer(v.start)));
     }},
    {"a memset of what may only be read", ranges, "requests 1000 bytes from #",
     [](trial& t) {
         address_space v;
         REQUIRE(v.reserve() == CUDA_SUCCESS);
         t.place(v.d.map(v.start, v.granularity, 0, v.handle, 0));
         REQUIRE(v.open(t.fixed ? read_write : read_only) == CUDA_SUCCESS);
         t.place(cudaMemsetAsync(pointer(v.start), 1, size, t.a));
     }},
};

constexpr auto why_not = "under ThreadSanitizer strict memory is plain memory";

}  // namespace

TEST_CASE("seeded bugs: kernels that access memory outside of their allocations", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(kernels);
}

TEST_CASE("seeded bugs: copies and memsets", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(copies);
}

TEST_CASE("seeded bugs: frees", "[simulator][bugs]") { check_all(frees); }

TEST_CASE("seeded bugs: memory that leaks", "[simulator][bugs]") { check_all(leaks); }

TEST_CASE("seeded bugs: contents that were never written", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(contents_nobody_wrote);
}

TEST_CASE("seeded bugs: writes beside host memory", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(host_memory);
}

TEST_CASE("seeded bugs: mappings", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP(why_not);
    check_all(mappings);
}
