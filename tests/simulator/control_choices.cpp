// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"
#include "simulator/graphs.hpp"
#include "simulator/virtual_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

// Choices of the simulator that CUDA leaves open. A GPU may behave differently: no conformance_*.cpp tests these claims, and no program may
// rely on them.

using namespace control;

namespace {

constexpr std::size_t size = stopped_stream::size;

}  // namespace

// The header: pointers "that do not match the direction of the copy" are undefined behaviour. If the device can read any host memory, such
// a copy succeeds; elsewhere it may end the process.
TEST_CASE("a copy whose direction does not fit its pointers is an invalid value", "[simulator][copies]") {
    std::vector<unsigned char> host(size);
    machine m;
    stopped_stream t;
    auto const copy = [&](void* to, void const* from, cudaMemcpyKind kind) {
        return cudaMemcpyAsync(to, from, size, kind, t.stream);
    };
    CHECK(copy(t.device, host.data(), cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
    CHECK(copy(host.data(), t.device, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
    CHECK(copy(host.data(), t.device, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemsetAsync(host.data(), 0, size, t.stream) == cudaErrorInvalidValue);
    CHECK(sim::misuse().bad_directions == 4);
}

TEST_CASE("a copy from pageable memory does not wait, one between host memories runs in stream order",
          "[simulator][copies]") {
    std::vector<unsigned char> source(size, 7), target(size, 0);
    machine m;
    stopped_stream t;
    REQUIRE(cudaMemcpyAsync(t.device, source.data(), size, cudaMemcpyHostToDevice, t.stream) == cudaSuccess);
    CHECK_FALSE(t.closed.passed());
    CHECK(returns_after(t.closed, [&] {
        return cudaMemcpyAsync(target.data(), source.data(), size, cudaMemcpyHostToHost, t.stream);
    }));
}

TEST_CASE("a memset of a rectangle that is wider than its pitch is an invalid value", "[simulator][copies]") {
    machine m;
    stopped_stream t;
    CHECK(cudaMemset2DAsync(t.device, 4, 0, 5, 2, t.stream) == cudaErrorInvalidValue);
}

#if CUDART_VERSION >= 13000
TEST_CASE("a batch of copies does not wait", "[simulator][copies]") {
    std::vector<unsigned char> const pageable(size, 3);  // outlives the work that reads it
    machine m;
    stopped_stream t;
    bool const in_order = GENERATE(false, true);
    void* const to[] = {t.device};
    void const* const from[] = {in_order ? pageable.data() : t.pinned};
    std::size_t const sizes[] = {100};
    std::size_t first = 0;
    cudaMemcpyAttributes how{};
    how.srcAccessOrder = in_order ? cudaMemcpySrcAccessOrderStream : cudaMemcpySrcAccessOrderDuringApiCall;
    CHECK(cudaMemcpyBatchAsync(to, from, sizes, 1, &how, &first, 1, t.stream) == cudaSuccess);
    CHECK_FALSE(t.closed.passed());
}
#endif

// The header: a call of CUDA inside a host function "may result in cudaErrorNotPermitted, but this is not required".
TEST_CASE("host functions and callbacks may not call CUDA", "[simulator][streams]") {
    machine m;
    cudaError_t inside[2] = {};
    auto const s = new_stream();
    auto const allocate = [](void* data) {
        void* p = nullptr;
        *static_cast<cudaError_t*>(data) = cudaMalloc(&p, 16);
    };
    auto const ask = [](cudaStream_t, cudaError_t, void* data) {
        int device = 0;
        *static_cast<cudaError_t*>(data) = cudaGetDevice(&device);
    };
    REQUIRE(cudaLaunchHostFunc(s, allocate, &inside[0]) == cudaSuccess);
    REQUIRE(cudaStreamAddCallback(s, ask, &inside[1], 0) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(inside[0] == cudaErrorNotPermitted);
    CHECK(inside[1] == cudaErrorNotPermitted);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("exchanging a null or unknown capture mode is an invalid value", "[simulator][capture]") {
    machine m;
    auto wrong = static_cast<cudaStreamCaptureMode>(3);
    CHECK(cudaThreadExchangeStreamCaptureMode(&wrong) == cudaErrorInvalidValue);
    CHECK(cudaThreadExchangeStreamCaptureMode(nullptr) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST_CASE("an external event is pending as soon as its graph is launched", "[simulator][capture]") {
    machine m;
    capture_bench t;
    begin_capture(t.a);
    REQUIRE(cudaEventRecordWithFlags(t.joined, t.a, cudaEventRecordExternal) == cudaSuccess);
    executable const e{end_capture(t.a)};
    gate closed{t.a};
    e.launch(t.a);
    CHECK(cudaEventQuery(t.joined) == cudaErrorNotReady);
    CHECK(returns_after(closed, [&] { return cudaEventSynchronize(t.joined); }));
}

TEST_CASE("an executable graph is updated without a wait, and a graph that does not fit changes nothing",
          "[simulator][graphs]") {
    machine m;
    capture_bench t;
    auto const setting = [&](int value, int times) {
        begin_capture(t.a);
        for (int i = 0; i != times; ++i) t.set(value, t.a);
        return end_capture(t.a);
    };
    executable const e{setting(1, 1)};
    auto const other = setting(2, 1), longer = setting(3, 2);
    gate closed{t.a};
    e.launch(t.a);
    cudaGraphExecUpdateResultInfo told{};
    CHECK(cudaGraphExecUpdate(e.get(), other, &told) == cudaSuccess);
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(all_are(contents(t.device, t.bytes), 1));
    CHECK(cudaGraphExecUpdate(e.get(), longer, &told) == cudaErrorGraphExecUpdateFailure);
    e.launch(t.a);
    CHECK(all_are(contents(t.device, t.bytes), 2));
    for (auto const g : {other, longer}) CHECK(cudaGraphDestroy(g) == cudaSuccess);
}

TEST_CASE("an event of a capture cannot be queried, timed or not", "[simulator][capture]") {
    machine m;
    capture_bench t;
    auto const e = new_event(GENERATE(cudaEventDefault, cudaEventDisableTiming));
    begin_capture(t.a);
    REQUIRE(cudaEventRecord(e, t.a) == cudaSuccess);
    CHECK(cudaGraphDestroy(end_capture(t.a)) == cudaSuccess);
    CHECK(cudaEventQuery(e) == cudaErrorCapturedEvent);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
}

TEST_CASE("an external event outside of a capture is an illegal state", "[simulator][capture]") {
    machine m;
    capture_bench t;
    CHECK(cudaEventRecordWithFlags(t.forked, t.a, cudaEventRecordExternal) == cudaErrorIllegalState);
    CHECK(cudaStreamWaitEvent(t.a, t.forked, cudaEventWaitExternal) == cudaErrorIllegalState);
}

// Driver 580 returns this error; CUDA's documentation has no rule for it.
TEST_CASE("a graph cannot be launched into a capture", "[simulator][capture]") {
    machine m;
    capture_bench t;
    begin_capture(t.a);
    t.set(1, t.a);
    executable const e{end_capture(t.a)};
    begin_capture(t.b);
    CHECK(cudaGraphLaunch(e.get(), t.b) == cudaErrorStreamCaptureUnsupported);
    CHECK(end_broken_capture(t.b) == cudaErrorStreamCaptureInvalidated);
    CHECK(sim::misuse().bad_captures >= 1);
}

TEST_CASE("a block with more threads than the maximum has an occupancy of zero", "[simulator][kernels]") {
    machine m;
    auto const kernel = reinterpret_cast<void const*>(+[] {});
    int blocks = -1;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 2048, 0) == cudaSuccess);
    CHECK(blocks == 0);
}

TEST_CASE("free bytes are exact, and a refused allocation changes nothing", "[simulator][memory]") {
    machine m;
    auto const before = free_bytes();
    auto* const p = device_memory(std::size_t{8} << 20);
    CHECK(free_bytes() == before - (std::size_t{8} << 20));
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(free_bytes() == before);
    auto const bytes = GENERATE_COPY(before + 1, std::numeric_limits<std::size_t>::max());
    void* none = nullptr;
    CHECK(cudaMalloc(&none, bytes) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocHost(&none, std::numeric_limits<std::size_t>::max() / 2) == cudaErrorMemoryAllocation);
    CHECK(none == nullptr);
    (void)cudaGetLastError();
    CHECK(free_bytes() == before);
}

// The header of cudaFree: "this API may perform implicit synchronization".
TEST_CASE("freeing device memory waits for the device", "[simulator][memory]") {
    machine m;
    sim::set_unkindness({});
    auto const s = new_stream(cudaStreamNonBlocking);
    auto* const p = device_memory(1000);
    gate closed{s};
    REQUIRE(cudaMemsetAsync(p, 1, 1000, s) == cudaSuccess);
    CHECK(returns_after(closed, [&] { return cudaFree(p); }));
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("cudaFreeAsync frees only memory of a pool, and only once", "[simulator][pools]") {
    machine m;
    auto const s = new_stream();
    auto* const plain = device_memory(100);
    CHECK(cudaFreeAsync(plain, s) == cudaErrorInvalidValue);
    CHECK(cudaFree(plain) == cudaSuccess);
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, 100, s) == cudaSuccess);
    CHECK(cudaFreeAsync(p, s) == cudaSuccess);
    CHECK(cudaFreeAsync(p, s) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("pool memory that cudaFree has freed does not count as used", "[simulator][pools]") {
    machine m;
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
    void* p = nullptr;
    REQUIRE(cudaMallocAsync(&p, size, nullptr) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    std::uint64_t used = 1;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
    CHECK(used == 0);
}

TEST_CASE("an executable graph has the flags with which it was instantiated", "[simulator][graphs]") {
    machine m;
    cudaGraph_t g = nullptr;
    cudaGraphExec_t e = nullptr;
    REQUIRE(cudaGraphCreate(&g, 0) == cudaSuccess);
    REQUIRE(cudaGraphInstantiateWithFlags(&e, g, cudaGraphInstantiateFlagUseNodePriority) == cudaSuccess);
    unsigned long long flags = 0;
    CHECK(cudaGraphExecGetFlags(e, &flags) == cudaSuccess);
    CHECK(flags == cudaGraphInstantiateFlagUseNodePriority);
    CHECK(cudaGraphExecDestroy(e) == cudaSuccess);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
}

#if CUDART_VERSION >= 13000
TEST_CASE("advice for an unknown device is an invalid device", "[simulator][managed]") {
    machine m;
    void* p = nullptr;
    REQUIRE(cudaMallocManaged(&p, size) == cudaSuccess);
    cudaMemLocation const nowhere{cudaMemLocationTypeDevice, 1000};
    CHECK(cudaMemPrefetchAsync(p, size, nowhere, 0, nullptr) == cudaErrorInvalidDevice);
    CHECK(cudaMemAdvise(p, size, cudaMemAdviseSetPreferredLocation, nowhere) == cudaErrorInvalidDevice);
    (void)cudaGetLastError();
    CHECK(cudaFree(p) == cudaSuccess);
}
#endif

TEST_CASE("a copy beyond the mappings is an invalid value", "[simulator][virtual_memory]") {
    machine m;
    driver const d;
    auto const bytes = d.granularity();
    range const r{d, 2 * bytes};
    memory const a{d, bytes};
    mapped const first{d, r.start, a};
    CHECK(cudaMemset(pointer(r.start + bytes - 512), 3, 1024) == cudaErrorInvalidValue);
    CHECK(cudaMemset(pointer(r.start + bytes), 3, 1) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(pointer(r.start), pointer(r.start + bytes), 16, cudaMemcpyDefault) ==
          cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

TEST_CASE("invalid calls of the driver's virtual memory are invalid values", "[simulator][virtual_memory]") {
    machine m;
    driver const d;
    auto const bytes = d.granularity();
    CHECK(bytes == 2 * MiB);
    range const r{d, 3 * bytes};
    memory const one{d, bytes}, two{d, 2 * bytes};
    auto const here = on_device(0).location;
    CUmemAccessDesc const wanted{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    unsigned long long flags = 99;
    auto const no = CUDA_ERROR_INVALID_VALUE;
    SECTION("setting access where nothing is mapped") {
        CHECK(d.get_access(&flags, &here, r.start) == no);
        CHECK(d.set_access(r.start, bytes, &wanted, 1) == no);
    }
    SECTION("mapping over another mapping") {
        REQUIRE(d.map(r.start, bytes, 0, one.handle, 0) == CUDA_SUCCESS);
        CHECK(d.map(r.start, bytes, 0, one.handle, 0) == no);
        CHECK(d.map(r.start, 2 * bytes, 0, two.handle, 0) == no);
        CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
    }
    SECTION("a mapping that exceeds its reservation or memory") {
        CHECK(d.map(r.start + 2 * bytes, 2 * bytes, 0, two.handle, 0) == no);
        CHECK(d.map(r.start, 2 * bytes, 0, one.handle, 0) == no);
        CHECK(d.map(r.start + 4096, bytes, 0, one.handle, 0) == no);
    }
    SECTION("unmapping part of a mapping") {
        REQUIRE(d.map(r.start, 2 * bytes, 0, two.handle, 0) == CUDA_SUCCESS);
        CHECK(d.unmap(r.start, bytes) == no);
        CHECK(d.unmap(r.start + bytes, bytes) == no);
        CHECK(d.unmap(r.start + bytes, 2 * bytes) == no);
        CHECK(d.unmap(r.start, 2 * bytes) == CUDA_SUCCESS);
        CHECK(d.unmap(r.start, 2 * bytes) == no);
    }
    SECTION("freeing part of a reservation, or freeing it twice") {
        CUdeviceptr start = 0;
        REQUIRE(d.reserve(&start, 4 * bytes, 0, 0, 0) == CUDA_SUCCESS);
        CHECK(d.free(start, 2 * bytes) == no);
        CHECK(d.free(start + bytes, 3 * bytes) == no);
        CHECK(d.free(start, 4 * bytes) == CUDA_SUCCESS);
        CHECK(d.free(start, 4 * bytes) == no);
    }
}

// Observed with driver 580: the documentation of these calls does not mention captures.
TEST_CASE("querying a capturing stream's id, device or flags fails and ends the capture",
          "[simulator][capture]") {
    machine const m;
    cudaStream_t const s = new_stream(cudaStreamNonBlocking);
    unsigned long long id = 0;
    int device = 0;
    unsigned flags = 0;
    auto const refused = [&](auto call) {
        REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) == cudaSuccess);
        CHECK(call() == cudaErrorStreamCaptureUnsupported);
        cudaGraph_t graph = nullptr;
        CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
        CHECK(graph == nullptr);
        (void)cudaGetLastError();
    };
    refused([&] { return cudaStreamGetId(s, &id); });
    refused([&] { return cudaStreamGetDevice(s, &device); });
    refused([&] { return cudaStreamGetFlags(s, &flags); });
    CHECK(cudaStreamGetId(s, &id) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}
