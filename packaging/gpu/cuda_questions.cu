// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cuda_questions [--list | PART...]: what CUDA's documentation leaves open, asked of the runtime and the driver of this machine.
///
/// Prints a line for each answer, all parts in about 15 s on an H100. Only NVIDIA's runtime is in it, so that an answer says
/// something about CUDA and nothing about cuota. The status is 77, with the reason, where no kernel can run; 3 when a call
/// fails that must not.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

void check(cudaError_t code, char const* call, int line) {
    if (code == cudaSuccess) return;
    std::printf("!! line %d: %s: %s\n", line, call, cudaGetErrorName(code));
    std::_Exit(3);
}
void check(CUresult code, char const* call, int line) {
    if (code == CUDA_SUCCESS) return;
    std::printf("!! line %d: %s: CUresult %d\n", line, call, static_cast<int>(code));
    std::_Exit(3);
}
#define CHECKED(call) check((call), #call, __LINE__)

using steady = std::chrono::steady_clock;
constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

[[nodiscard]] double microseconds_since(steady::time_point begin) {
    return std::chrono::duration<double, std::micro>(steady::now() - begin).count();
}
[[nodiscard]] double in_gib(std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(GiB);
}

/// bytes, but at most a quarter of the device's free memory, in whole multiples of unit.
[[nodiscard]] std::size_t at_most_a_quarter(std::size_t bytes, std::size_t unit) {
    std::size_t free = 0, total = 0;
    CHECKED(cudaMemGetInfo(&free, &total));
    return std::max(std::min(bytes, free / 4) / unit, std::size_t{1}) * unit;
}

__global__ void spin(unsigned long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}
__global__ void increment(unsigned* number) { *number += 1; }

[[nodiscard]] cudaStream_t new_stream() {
    cudaStream_t s = nullptr;
    CHECKED(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

/// The driver's calls for virtual memory, by the way that needs no libcuda to link.
class virtual_memory {
public:
    virtual_memory() {
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = 0;
        access.location = properties.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }

    template <class Function>
    [[nodiscard]] static Function entry(char const* name) {
        void* address = nullptr;
        cudaDriverEntryPointQueryResult found{};
        CHECKED(cudaGetDriverEntryPointByVersion(name, &address, 10020, cudaEnableDefault, &found));
        return reinterpret_cast<Function>(address);
    }

    decltype(&cuMemAddressReserve) reserve = entry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
    decltype(&cuMemAddressFree) unreserve = entry<decltype(&cuMemAddressFree)>("cuMemAddressFree");
    decltype(&cuMemCreate) create = entry<decltype(&cuMemCreate)>("cuMemCreate");
    decltype(&cuMemRelease) release = entry<decltype(&cuMemRelease)>("cuMemRelease");
    decltype(&cuMemMap) map = entry<decltype(&cuMemMap)>("cuMemMap");
    decltype(&cuMemUnmap) unmap = entry<decltype(&cuMemUnmap)>("cuMemUnmap");
    decltype(&cuMemSetAccess) set_access = entry<decltype(&cuMemSetAccess)>("cuMemSetAccess");
    CUmemAllocationProp properties{};
    CUmemAccessDesc access{};
};

// ---- facts: what the device is.

void facts() {
    int driver = 0, runtime = 0;
    CHECKED(cudaDriverGetVersion(&driver));
    CHECKED(cudaRuntimeGetVersion(&runtime));
    std::printf("fact  driver for CUDA %d.%d, runtime %d.%d\n", driver / 1000, driver % 1000 / 10,
                runtime / 1000, runtime % 1000 / 10);
    constexpr struct {
        char const* name;
        cudaDeviceAttr attribute;
    } all[] = {
        {"compute capability, major", cudaDevAttrComputeCapabilityMajor},
        {"compute capability, minor", cudaDevAttrComputeCapabilityMinor},
        {"multiprocessors", cudaDevAttrMultiProcessorCount},
        {"copy engines", cudaDevAttrAsyncEngineCount},
        {"pageable memory access (HMM, ATS)", cudaDevAttrPageableMemoryAccess},
        {"concurrent managed access", cudaDevAttrConcurrentManagedAccess},
        {"host pointer of registered memory", cudaDevAttrCanUseHostPointerForRegisteredMem},
        {"host registration", cudaDevAttrHostRegisterSupported},
        {"host NUMA node", cudaDevAttrHostNumaId},
        {"GPUDirect RDMA", cudaDevAttrGPUDirectRDMASupported},
        {"memory pools", cudaDevAttrMemoryPoolsSupported},
    };
    for (auto const& one : all) {
        int value = -1;
        cudaError_t const code = cudaDeviceGetAttribute(&value, one.attribute, 0);
        std::printf("fact  %-36s %d%s\n", one.name, value, code == cudaSuccess ? "" : cudaGetErrorName(code));
        (void)cudaGetLastError();
    }
    std::size_t free = 0, total = 0;
    CHECKED(cudaMemGetInfo(&free, &total));
    std::printf("fact  %.2f GiB free of %.2f GiB\n", in_gib(free), in_gib(total));
}

// ---- codes: which error a call returns that cannot succeed.

void codes() {
    char* device = nullptr;
    CHECKED(cudaMalloc(&device, MiB));
    std::printf("code  cudaMemset2DAsync, pitch 8 below width 16: %s\n",
                cudaGetErrorName(cudaMemset2DAsync(device, 8, 0, 16, 2, nullptr)));
    (void)cudaGetLastError();
    for (std::size_t const bytes :
         {SIZE_MAX, SIZE_MAX - 255, SIZE_MAX / 2, std::size_t{1} << 47, std::size_t{1} << 40}) {
        void* p = nullptr;
        cudaError_t const plain = cudaMalloc(&p, bytes), async = cudaMallocAsync(&p, bytes, nullptr),
                          pinned = cudaHostAlloc(&p, bytes, 0);
        std::printf(
            "code  %zu bytes: cudaMalloc %d, cudaMallocAsync %d, cudaHostAlloc %d (2: out of memory)\n",
            bytes, plain, async, pinned);
        (void)cudaGetLastError();
    }
    (void)cudaSetDevice(99);  // leaves an error behind
    increment<<<1, 1>>>(reinterpret_cast<unsigned*>(device));
    std::printf("code  cudaGetLastError after a valid launch, an older error left behind: %s\n",
                cudaGetErrorName(cudaGetLastError()));
    CHECKED(cudaDeviceSynchronize());
    CHECKED(cudaFree(device));
}

// ---- host_functions: does one that blocks stop those of other streams? If it does for ever, the caller's time limit ends it.

void host_functions() {
    static std::atomic<bool> open{false}, ran{false};
    cudaStream_t const blocked = new_stream(), other = new_stream();
    CHECKED(cudaLaunchHostFunc(
        blocked,
        [](void*) {
            while (!open) std::this_thread::yield();
        },
        nullptr));
    CHECKED(cudaLaunchHostFunc(
        other, [](void*) { ran = true; }, nullptr));
    auto const begin = steady::now();
    while (!ran && microseconds_since(begin) < 500'000) std::this_thread::yield();
    std::printf("host  a function beside one of another stream that blocks: %s after %.0f us\n",
                ran ? "ran" : "SERIALIZED, not run", microseconds_since(begin));
    open = true;
    CHECKED(cudaDeviceSynchronize());
    CHECKED(cudaStreamDestroy(blocked));
    CHECKED(cudaStreamDestroy(other));
}

// ---- captures: which calls are permitted while another library captures in global mode, and does the capture survive them?

class capture_questions {
public:
    capture_questions() {
        CHECKED(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
        CHECKED(cudaEventRecord(event_, other_));
        CHECKED(cudaMalloc(&word_, 256));
        increment<<<1, 1, 0, captured_>>>(word_);  // loads the kernel: a first launch may wait for the device
        CHECKED(cudaDeviceSynchronize());
        CHECKED(virtual_.reserve(&range_, 64 * MiB, 0, 0, 0));
    }

    void ask() {
        each("cudaEventQuery", [&] { return code(cudaEventQuery(event_)); });
        each("cudaEventSynchronize", [&] { return code(cudaEventSynchronize(event_)); });
        each("cudaStreamQuery, another", [&] { return code(cudaStreamQuery(other_)); });
        each("cudaStreamSynchronize, a.", [&] { return code(cudaStreamSynchronize(other_)); });
        each("cudaStreamWaitEvent, outer", [&] { return code(cudaStreamWaitEvent(captured_, event_, 0)); });
        each("cudaMalloc, cudaFree", [&] {
            void* p = nullptr;
            int const made = code(cudaMalloc(&p, MiB));
            if (p) (void)cudaFree(p);
            return made;
        });
        each("cudaMallocHost, FreeHost", [&] {
            void* p = nullptr;
            int const made = code(cudaMallocHost(&p, MiB));
            if (p) (void)cudaFreeHost(p);
            return made;
        });
        each("cudaMemGetInfo", [&] {
            std::size_t free = 0, total = 0;
            return code(cudaMemGetInfo(&free, &total));
        });
        each("cuMemCreate, Map, Unmap", [&] { return map_and_unmap(); });
        each("cudaEventCreate, Destroy", [&] {
            cudaEvent_t made = nullptr;
            int const created = code(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
            if (made) (void)cudaEventDestroy(made);
            return created;
        });
        each("cudaStreamGetId, captured", [&] { return id_of(captured_); });
        each("cudaStreamGetId, another", [&] { return id_of(other_); });
        each("cudaStreamGetDevice, capt.", [&] {
            int device = 0;
            return code(cudaStreamGetDevice(captured_, &device));
        });
        each("cudaStreamGetFlags, capt.", [&] {
            unsigned flags = 0;
            return code(cudaStreamGetFlags(captured_, &flags));
        });
        each("cudaStreamIsCapturing", [&] {
            cudaStreamCaptureStatus status{};
            return code(cudaStreamIsCapturing(captured_, &status));
        });
        each("cudaEventRecord, another", [&] { return code(cudaEventRecord(event_, other_)); });
        each("cudaStreamCreate, Destroy", [&] {
            cudaStream_t made = nullptr;
            int const created = code(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
            if (made) (void)cudaStreamDestroy(made);
            return created;
        });
        each("occupancy, parameters", [&] {
            int blocks = 0;
            std::size_t offset = 0, size = 0;
            int const asked = code(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, increment, 256, 0));
            return asked ? asked
                         : code(cudaFuncGetParamInfo(reinterpret_cast<void const*>(&increment), 0, &offset,
                                                     &size));
        });
        each("cudaPointerGetAttributes", [&] {
            cudaPointerAttributes of{};
            return code(cudaPointerGetAttributes(&of, word_));
        });
        graph_launched_in_a_capture();
    }

    capture_questions(capture_questions const&) = delete;
    capture_questions& operator=(capture_questions const&) = delete;
    ~capture_questions() {
        (void)virtual_.unreserve(range_, 64 * MiB);
        (void)cudaFree(word_);
        (void)cudaEventDestroy(event_);
        (void)cudaStreamDestroy(captured_);
        (void)cudaStreamDestroy(other_);
    }

private:
    enum class caller { same_thread, other_thread, relaxed_thread };
    static constexpr char const* callers[] = {"same thread", "other thread", "relaxed"};

    template <class Code>
    static int code(Code code) {
        return static_cast<int>(code);
    }

    static int id_of(cudaStream_t stream) {
        unsigned long long id = 0;
        return code(cudaStreamGetId(stream, &id));
    }

    int map_and_unmap() {
        CUmemGenericAllocationHandle memory{};
        int failed = code(virtual_.create(&memory, 2 * MiB, &virtual_.properties, 0));
        if (failed) return failed;
        failed = code(virtual_.map(range_, 2 * MiB, 0, memory, 0));
        if (!failed) {
            failed = code(virtual_.set_access(range_, 2 * MiB, &virtual_.access, 1));
            int const unmapped = code(virtual_.unmap(range_, 2 * MiB));
            if (!failed) failed = unmapped;
        }
        (void)virtual_.release(memory);
        return failed;
    }

    // A line: the code by each caller, and "INVALIDATED" where the capture did not survive the call.
    template <class Call>
    void each(char const* name, Call call) {
        std::printf("capt  %-25s", name);
        for (caller const by : {caller::same_thread, caller::other_thread, caller::relaxed_thread}) {
            CHECKED(cudaStreamBeginCapture(captured_, cudaStreamCaptureModeGlobal));
            increment<<<1, 1, 0, captured_>>>(word_);
            int result = 0;
            if (by == caller::other_thread) {
                std::thread{[&] { result = call(); }}.join();
            } else {
                cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
                if (by == caller::relaxed_thread) CHECKED(cudaThreadExchangeStreamCaptureMode(&mode));
                result = call();
                if (by == caller::relaxed_thread) CHECKED(cudaThreadExchangeStreamCaptureMode(&mode));
            }
            cudaGraph_t graph = nullptr;
            bool const survived = cudaStreamEndCapture(captured_, &graph) == cudaSuccess;
            std::printf("  %s %d%s", callers[static_cast<int>(by)], result, survived ? "" : " INVALIDATED");
            if (graph) CHECKED(cudaGraphDestroy(graph));
            (void)cudaGetLastError();
        }
        std::printf("\n");
    }

    void graph_launched_in_a_capture() {
        cudaGraph_t graph = nullptr, outer = nullptr;
        cudaGraphExec_t executable = nullptr;
        CHECKED(cudaStreamBeginCapture(captured_, cudaStreamCaptureModeThreadLocal));
        increment<<<1, 1, 0, captured_>>>(word_);
        CHECKED(cudaStreamEndCapture(captured_, &graph));
        CHECKED(cudaGraphInstantiate(&executable, graph, 0));
        CHECKED(cudaStreamBeginCapture(captured_, cudaStreamCaptureModeThreadLocal));
        cudaError_t const launched = cudaGraphLaunch(executable, captured_);
        cudaError_t const ended = cudaStreamEndCapture(captured_, &outer);
        std::printf("capt  cudaGraphLaunch in a capture: %s, end of the capture: %s\n",
                    cudaGetErrorName(launched), cudaGetErrorName(ended));
        (void)cudaGetLastError();
        if (outer) CHECKED(cudaGraphDestroy(outer));
        CHECKED(cudaGraphExecDestroy(executable));
        CHECKED(cudaGraphDestroy(graph));
    }

    cudaStream_t captured_ = new_stream(), other_ = new_stream();
    cudaEvent_t event_ = nullptr;
    unsigned* word_ = nullptr;
    virtual_memory virtual_;
    CUdeviceptr range_ = 0;
};

void captures() { capture_questions{}.ask(); }

// ---- waits: which calls wait for a kernel of a non-blocking stream that has nothing to do with their memory?

class beside_a_kernel {
public:
    beside_a_kernel() {
        spin<<<1, 1, 0, stream_>>>(1000);
        CHECKED(cudaDeviceSynchronize());
    }
    beside_a_kernel(beside_a_kernel const&) = delete;
    beside_a_kernel& operator=(beside_a_kernel const&) = delete;
    ~beside_a_kernel() { (void)cudaStreamDestroy(stream_); }

    template <class Call>
    void operator()(std::string const& name, Call call) {
        spin<<<1, 1, 0, stream_>>>(60'000'000);
        auto const begin = steady::now();
        call();
        double const took = microseconds_since(begin);
        bool const running = cudaStreamQuery(stream_) == cudaErrorNotReady;
        (void)cudaGetLastError();
        CHECKED(cudaStreamSynchronize(stream_));
        std::printf("wait  %-32s %9.1f us  %s\n", name.c_str(), took,
                    running ? "returned while the kernel ran" : "WAITED");
    }

private:
    cudaStream_t stream_ = new_stream();
};

void waits_of_memory(beside_a_kernel& during) {
    void* p = nullptr;
    for (std::size_t const bytes : {std::size_t{64}, 64 * KiB, MiB, 2 * MiB, 32 * MiB, GiB}) {
        CHECKED(cudaMalloc(&p, bytes));
        during("cudaFree, " + std::to_string(bytes), [&] { CHECKED(cudaFree(p)); });
        during("cudaMalloc, " + std::to_string(bytes), [&] { CHECKED(cudaMalloc(&p, bytes)); });
        CHECKED(cudaFree(p));
    }
    cudaStream_t const other = new_stream();
    CHECKED(cudaMallocAsync(&p, 64 * MiB, other));
    CHECKED(cudaStreamSynchronize(other));
    during("cudaFree, memory of a pool", [&] { CHECKED(cudaFree(p)); });
    CHECKED(cudaStreamDestroy(other));
    CHECKED(cudaMallocManaged(&p, MiB));
    during("cudaFree, managed memory", [&] { CHECKED(cudaFree(p)); });
    CHECKED(cudaMallocHost(&p, 16 * MiB));
    during("cudaFreeHost, 16 MiB", [&] { CHECKED(cudaFreeHost(p)); });
    during("cudaMallocHost, 16 MiB", [&] { CHECKED(cudaMallocHost(&p, 16 * MiB)); });
    CHECKED(cudaFreeHost(p));
    void* const pageable = std::aligned_alloc(4096, 16 * MiB);
    std::memset(pageable, 1, 16 * MiB);
    during("cudaHostRegister, 16 MiB", [&] { CHECKED(cudaHostRegister(pageable, 16 * MiB, 0)); });
    during("cudaHostUnregister", [&] { CHECKED(cudaHostUnregister(pageable)); });
    std::free(pageable);
}

void waits_of_virtual_memory(beside_a_kernel& during) {
    virtual_memory const calls;
    CUdeviceptr range = 0;
    CUmemGenericAllocationHandle memory{};
    CHECKED(calls.reserve(&range, 64 * MiB, 0, 0, 0));
    during("cuMemCreate, Map, SetAccess", [&] {
        CHECKED(calls.create(&memory, 64 * MiB, &calls.properties, 0));
        CHECKED(calls.map(range, 64 * MiB, 0, memory, 0));
        CHECKED(calls.set_access(range, 64 * MiB, &calls.access, 1));
    });
    during("cuMemUnmap, Release", [&] {
        CHECKED(calls.unmap(range, 64 * MiB));
        CHECKED(calls.release(memory));
    });
    CHECKED(calls.unreserve(range, 64 * MiB));
}

void waits() {
    beside_a_kernel during;
    waits_of_memory(during);
    std::size_t free = 0, total = 0;
    during("cudaMemGetInfo", [&] { CHECKED(cudaMemGetInfo(&free, &total)); });
    cudaEvent_t event = nullptr;
    during("cudaEventCreate", [&] { CHECKED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); });
    during("cudaEventDestroy", [&] { CHECKED(cudaEventDestroy(event)); });
    cudaStream_t stream = nullptr;
    during("cudaStreamCreate", [&] { stream = new_stream(); });
    during("cudaStreamDestroy", [&] { CHECKED(cudaStreamDestroy(stream)); });
    waits_of_virtual_memory(during);
}

// ---- pages: the cost of a GiB, by cudaMalloc and by mappings of several sizes.

void map_in_pages(virtual_memory const& calls, CUdeviceptr range, std::size_t page, std::size_t count,
                  bool unmap_at_once) {
    double create = 0, map = 0, release = 0;
    for (std::size_t i = 0; i != count; ++i) {
        CUmemGenericAllocationHandle memory{};
        auto begin = steady::now();
        CHECKED(calls.create(&memory, page, &calls.properties, 0));
        create += microseconds_since(begin);
        begin = steady::now();
        CHECKED(calls.map(range + i * page, page, 0, memory, 0));
        map += microseconds_since(begin);
        begin = steady::now();
        CHECKED(calls.release(memory));
        release += microseconds_since(begin);
    }
    auto begin = steady::now();
    CHECKED(calls.set_access(range, count * page, &calls.access, 1));
    double const access = microseconds_since(begin);
    begin = steady::now();
    if (unmap_at_once) CHECKED(calls.unmap(range, count * page));
    else
        for (std::size_t i = 0; i != count; ++i) CHECKED(calls.unmap(range + i * page, page));
    double const unmap = microseconds_since(begin), gib = in_gib(count * page);
    std::printf("pages of %4zu MiB, us a GiB: create %.0f, map %.0f, release %.0f, access %.0f, unmap %s "
                "%.0f; up %.0f, "
                "down %.0f\n",
                page / MiB, create / gib, map / gib, release / gib, access / gib,
                unmap_at_once ? "at once" : "each", unmap / gib, (create + map + release + access) / gib,
                unmap / gib);
}

void pages() {
    virtual_memory const calls;
    std::size_t const whole = at_most_a_quarter(4 * GiB, GiB);
    for (int turn = 0; turn != 3; ++turn) {
        void* p = nullptr;
        auto begin = steady::now();
        CHECKED(cudaMalloc(&p, whole));
        double const took = microseconds_since(begin);
        begin = steady::now();
        CHECKED(cudaFree(p));
        std::printf("pages cudaMalloc, us a GiB: up %.0f, down %.0f\n", took / in_gib(whole),
                    microseconds_since(begin) / in_gib(whole));
    }
    CUdeviceptr range = 0;
    CHECKED(calls.reserve(&range, whole, 0, 0, 0));
    for (std::size_t const page : {2 * MiB, 20 * MiB, 64 * MiB, GiB})
        for (bool const at_once : {false, true}) map_in_pages(calls, range, page, whole / page, at_once);
    CHECKED(calls.unreserve(range, whole));
}

// ---- pairs: cudaMallocAsync and cudaFreeAsync, with the default pool as it is and with its release threshold at its maximum.

void pairs_by_threads(int threads, char const* threshold) {
    std::vector<std::thread> running;
    std::atomic<long> done{0};
    auto const begin = steady::now();
    for (int k = 0; k != threads; ++k)
        running.emplace_back([&] {
            cudaStream_t const s = new_stream();
            for (std::size_t i = 0; i != 20'000; ++i) {
                void* p = nullptr;
                CHECKED(cudaMallocAsync(&p, 64 * KiB + i % 7 * 4096, s));
                CHECKED(cudaFreeAsync(p, s));
                if (i % 1000 == 999) CHECKED(cudaStreamSynchronize(s));
                ++done;
            }
            CHECKED(cudaStreamDestroy(s));
        });
    for (auto& one : running) one.join();
    std::printf("pair  cudaMallocAsync, cudaFreeAsync, threshold %s, %2d threads: %.2f us each\n", threshold,
                threads, microseconds_since(begin) / static_cast<double>(done) * threads);
}

void pairs() {
    cudaMemPool_t pool = nullptr;
    CHECKED(cudaDeviceGetDefaultMemPool(&pool, 0));
    for (std::uint64_t threshold : {std::uint64_t{0}, UINT64_MAX}) {
        CHECKED(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
        for (int const threads : {1, 4, 16}) pairs_by_threads(threads, threshold == 0 ? "0" : "maximum");
    }
    CHECKED(cudaMemPoolTrimTo(pool, 0));
}

// ---- bandwidth: bytes read and written in a second.

template <class In, class Out, int Each>
__global__ void convert(std::size_t n, In const* in, Out* out) {
    struct alignas(sizeof(In) * Each) inputs {
        In at[Each];
    };
    struct alignas(sizeof(Out) * Each) outputs {
        Out at[Each];
    };
    std::size_t const step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n / Each;
         i += step) {
        inputs const x = reinterpret_cast<inputs const*>(in)[i];
        outputs y;
#pragma unroll
        for (int k = 0; k != Each; ++k) y.at[k] = static_cast<Out>(x.at[k]);
        reinterpret_cast<outputs*>(out)[i] = y;
    }
}

template <class Call>
[[nodiscard]] double seconds_of(cudaStream_t s, Call call) {
    constexpr int turns = 5;
    cudaEvent_t begin = nullptr, end = nullptr;
    CHECKED(cudaEventCreate(&begin));
    CHECKED(cudaEventCreate(&end));
    call();
    CHECKED(cudaEventRecord(begin, s));
    for (int i = 0; i != turns; ++i) call();
    CHECKED(cudaEventRecord(end, s));
    CHECKED(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECKED(cudaEventElapsedTime(&milliseconds, begin, end));
    CHECKED(cudaEventDestroy(begin));
    CHECKED(cudaEventDestroy(end));
    return static_cast<double>(milliseconds) / 1e3 / turns;
}

void print_rate(char const* name, double bytes, double seconds) {
    std::printf("rate  %-30s %8.0f GB/s\n", name, bytes / seconds / 1e9);
}

template <class In, class Out, int Each>
void rate_of_conversion(char const* name, cudaStream_t s, void* from, void* to, std::size_t n) {
    auto const blocks = static_cast<unsigned>(std::min<std::size_t>((n / Each + 255) / 256, 65536));
    double const seconds = seconds_of(s, [&] {
        convert<In, Out, Each><<<blocks, 256, 0, s>>>(n, static_cast<In*>(from), static_cast<Out*>(to));
    });
    print_rate(name, static_cast<double>(n) * (sizeof(In) + sizeof(Out)), seconds);
}

void rates_on_the_device(cudaStream_t s, void* from, void* to, std::size_t bytes) {
    double const copied =
        seconds_of(s, [&] { CHECKED(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s)); });
    print_rate("cudaMemcpyAsync, read+write", 2 * static_cast<double>(bytes), copied);
    print_rate("cudaMemsetAsync", static_cast<double>(bytes),
               seconds_of(s, [&] { CHECKED(cudaMemsetAsync(to, 0, bytes, s)); }));
    std::size_t const n = bytes / 4;
    rate_of_conversion<float, float, 1>("float to float, 1 a thread", s, from, to, n);
    rate_of_conversion<float, float, 4>("float to float, 4 a thread", s, from, to, n);
    rate_of_conversion<std::uint8_t, float, 1>("byte to float, 1 a thread", s, from, to, n);
    rate_of_conversion<std::uint8_t, float, 4>("byte to float, 4 a thread", s, from, to, n);
    rate_of_conversion<std::uint16_t, std::uint16_t, 1>("16 to 16 bits, 1 a thread", s, from, to, n);
    rate_of_conversion<std::uint16_t, std::uint16_t, 8>("16 to 16 bits, 8 a thread", s, from, to, n);
    rate_of_conversion<std::uint8_t, std::uint8_t, 1>("byte to byte, 1 a thread", s, from, to, n);
    rate_of_conversion<std::uint8_t, std::uint8_t, 16>("byte to byte, 16 a thread", s, from, to, n);
}

void rates_of_the_link(cudaStream_t s, void* device) {
    constexpr std::size_t whole = 256 * MiB;
    void* pinned = nullptr;
    CHECKED(cudaMallocHost(&pinned, whole));
    std::memset(pinned, 1, whole);
    for (std::size_t const piece : {256 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB, whole}) {
        auto const copy_all = [&](void* to, void const* from, cudaMemcpyKind direction) {
            return seconds_of(s, [&] {
                for (std::size_t at = 0; at != whole; at += piece)
                    CHECKED(cudaMemcpyAsync(static_cast<char*>(to) + at, static_cast<char const*>(from) + at,
                                            piece, direction, s));
            });
        };
        double const up = copy_all(device, pinned, cudaMemcpyHostToDevice),
                     down = copy_all(pinned, device, cudaMemcpyDeviceToHost);
        std::printf("rate  pinned, pieces of %6zu KiB: up %5.1f, down %5.1f GB/s\n", piece / KiB,
                    static_cast<double>(whole) / up / 1e9, static_cast<double>(whole) / down / 1e9);
    }
    CHECKED(cudaFreeHost(pinned));
}

void bandwidth() {
    cudaStream_t const s = new_stream();
    std::size_t const bytes = at_most_a_quarter(4 * GiB, 256 * MiB);
    void *from = nullptr, *to = nullptr;
    CHECKED(cudaMalloc(&from, bytes));
    CHECKED(cudaMalloc(&to, bytes));
    CHECKED(cudaMemset(from, 0, bytes));
    rates_on_the_device(s, from, to, bytes);
    rates_of_the_link(s, to);
    CHECKED(cudaFree(from));
    CHECKED(cudaFree(to));
    CHECKED(cudaStreamDestroy(s));
}

// ---- graph_memory: what graphs hold on the device, and when they take and return it.

/// What the driver has free, and what it reports about the memory of allocation nodes.
struct graph_memory {
    std::size_t free = 0, total = 0;
    std::uint64_t used = 0, most_used = 0, reserved = 0, most_reserved = 0;

    [[nodiscard]] static graph_memory now() {
        graph_memory m;
        CHECKED(cudaMemGetInfo(&m.free, &m.total));
        CHECKED(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &m.used));
        CHECKED(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &m.most_used));
        CHECKED(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &m.reserved));
        CHECKED(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &m.most_reserved));
        return m;
    }
};

[[nodiscard]] double in_mib(double bytes) { return bytes / static_cast<double>(MiB); }

/// Prints what changed in the driver's free memory since the object was made, and the attributes.
class since_then {
public:
    void print(char const* what) const {
        CHECKED(cudaDeviceSynchronize());
        graph_memory const m = graph_memory::now();
        std::printf("gmem  %-50s taken %8.2f MiB, used %.0f (most %.0f), reserved %.0f (most %.0f)\n", what,
                    in_mib(static_cast<double>(then_.free) - static_cast<double>(m.free)),
                    in_mib(static_cast<double>(m.used)), in_mib(static_cast<double>(m.most_used)),
                    in_mib(static_cast<double>(m.reserved)), in_mib(static_cast<double>(m.most_reserved)));
    }

private:
    graph_memory then_ = graph_memory::now();
};

__global__ void touch(unsigned* block, std::size_t words) {
    for (std::size_t i = threadIdx.x; i < words; i += 1024 * blockDim.x) block[i] = 1;
}

/// A graph of cudaMallocAsync, a kernel and, if `is_freed`, cudaFreeAsync; its allocation stays otherwise. `code` is that of the first
/// call that failed.
struct allocating_graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    void* block = nullptr;
    int captured = 0, ended = 0, instantiated = 0;

    allocating_graph(cudaStream_t s, std::size_t bytes, bool is_freed, unsigned long long flags = 0) {
        CHECKED(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
        captured = static_cast<int>(cudaMallocAsync(&block, bytes, s));
        if (captured == 0) {
            touch<<<1, 32, 0, s>>>(static_cast<unsigned*>(block), bytes / 4);
            if (is_freed) CHECKED(cudaFreeAsync(block, s));
        }
        ended = static_cast<int>(cudaStreamEndCapture(s, &graph));
        if (ended == 0)
            instantiated = static_cast<int>(cudaGraphInstantiateWithFlags(&executable, graph, flags));
        (void)cudaGetLastError();
    }
    allocating_graph(allocating_graph const&) = delete;
    allocating_graph& operator=(allocating_graph const&) = delete;
    ~allocating_graph() { end(); }
    void end() {
        end_executable();
        if (graph) CHECKED(cudaGraphDestroy(graph));
        graph = nullptr;
    }
    void end_executable() {
        if (executable) CHECKED(cudaGraphExecDestroy(executable));
        executable = nullptr;
    }
    int launch(cudaStream_t s) const {
        int code = static_cast<int>(cudaGraphLaunch(executable, s));
        if (int const waited = static_cast<int>(cudaStreamSynchronize(s)); code == 0 && waited != 0) {
            std::printf("(by the wait) ");
            code = waited;
        }
        (void)cudaGetLastError();
        return code;
    }
};

void memory_of_allocation_nodes(cudaStream_t s, cudaStream_t other) {
    since_then const then;
    allocating_graph first{s, 64 * MiB, true};
    then.print("64 MiB in a graph, instantiated");
    CHECKED(cudaGraphUpload(first.executable, s));
    then.print("uploaded");
    CHECKED(cudaGraphLaunch(first.executable, s));
    then.print("launched");
    CHECKED(cudaGraphLaunch(first.executable, s));
    then.print("launched again");
    allocating_graph second{s, 96 * MiB, true};
    then.print("a second graph of 96 MiB, instantiated");
    CHECKED(cudaGraphLaunch(second.executable, s));
    then.print("launched on the same stream");
    CHECKED(cudaGraphLaunch(first.executable, s));
    CHECKED(cudaGraphLaunch(second.executable, other));
    then.print("both launched, on two streams");
    CHECKED(cudaDeviceGraphMemTrim(0));
    then.print("trimmed");
    CHECKED(cudaGraphLaunch(first.executable, s));
    then.print("the first launched after that");
    first.end_executable();
    then.print("its executable destroyed");
    first.end();
    second.end();
    then.print("all destroyed");
    CHECKED(cudaDeviceGraphMemTrim(0));
    then.print("trimmed");
}

void memory_that_stays(cudaStream_t s) {
    since_then const then;
    {
        allocating_graph kept{s, 64 * MiB, false};
        then.print("64 MiB that the graph does not free, instantiated");
        std::printf("gmem  launch: %d; ", kept.launch(s));
        std::printf("again, not freed: %d; ", kept.launch(s));
        std::printf("cudaFreeAsync outside: %d; ", cudaFreeAsync(kept.block, s));
        std::printf("launch: %d; ", kept.launch(s));
        then.print("launched");
        std::printf("gmem  cudaFree: %d; ", cudaFree(kept.block));
        std::printf("launch: %d; ", kept.launch(s));
        std::printf("executable destroyed before its block: %d; ", (kept.end(), 0));
        std::printf("then cudaFree: %d\n", cudaFree(kept.block));
        (void)cudaGetLastError();
        then.print("freed");
    }
    {
        allocating_graph freed{s, 64 * MiB, false, cudaGraphInstantiateFlagAutoFreeOnLaunch};
        std::printf("gmem  with AutoFreeOnLaunch: launch %d, ", freed.launch(s));
        std::printf("again %d; ", freed.launch(s));
        freed.end();
        then.print("destroyed, its block is not freed");
        std::printf("gmem  cudaFree: %d\n", cudaFree(freed.block));
        (void)cudaGetLastError();
    }
    CHECKED(cudaDeviceGraphMemTrim(0));
    then.print("trimmed");
}

void codes_of_allocation_nodes(cudaStream_t s, cudaStream_t other) {
    allocating_graph one{s, MiB, true};
    cudaGraphExec_t second = nullptr;
    cudaGraph_t clone = nullptr, parent = nullptr, graph = nullptr;
    cudaGraphNode_t node = nullptr;
    CHECKED(cudaGraphCreate(&parent, 0));
    std::printf("gmem  of a graph with an allocation: a second cudaGraphInstantiate %d, ",
                cudaGraphInstantiate(&second, one.graph, 0));
    std::printf("cudaGraphClone %d, ", cudaGraphClone(&clone, one.graph));
    std::printf("cudaGraphAddChildGraphNode %d, ",
                cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, one.graph));
    cudaGraphExecUpdateResultInfo updated{};
    std::printf("cudaGraphExecUpdate %d\n", cudaGraphExecUpdate(one.executable, one.graph, &updated));
    (void)cudaGetLastError();
    if (second) CHECKED(cudaGraphExecDestroy(second));
    if (clone) CHECKED(cudaGraphDestroy(clone));
    CHECKED(cudaGraphDestroy(parent));

    for (std::size_t const bytes : {std::size_t{0}, std::size_t{1} << 38, std::size_t{1} << 42, SIZE_MAX}) {
        allocating_graph large{s, bytes, true};
        std::printf(
            "gmem  %zu bytes: cudaMallocAsync in a capture %d, its end %d, instantiated %d, launched %d\n",
            bytes, large.captured, large.ended, large.instantiated, large.executable ? large.launch(s) : -1);
    }

    void *plain = nullptr, *pooled = nullptr, *inner = nullptr, *chosen = nullptr;
    CHECKED(cudaMalloc(&plain, MiB));
    CHECKED(cudaMallocAsync(&pooled, MiB, s));
    CHECKED(cudaStreamSynchronize(s));
    cudaMemPool_t pool = nullptr;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    CHECKED(cudaMemPoolCreate(&pool, &properties));
    auto const in_a_capture = [&](char const* what, auto call) {
        CHECKED(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
        CHECKED(cudaMallocAsync(&inner, MiB, s));
        int const called = static_cast<int>(call());
        cudaStreamCaptureStatus status{};
        CHECKED(cudaStreamIsCapturing(s, &status));
        int const ended = static_cast<int>(cudaStreamEndCapture(s, &graph));
        std::size_t nodes = 0;
        cudaGraphExec_t executable = nullptr;
        int instantiated = -1;
        if (graph) {
            CHECKED(cudaGraphGetNodes(graph, nullptr, &nodes));
            instantiated = static_cast<int>(cudaGraphInstantiate(&executable, graph, 0));
            if (executable) CHECKED(cudaGraphExecDestroy(executable));
            CHECKED(cudaGraphDestroy(graph));
        }
        graph = nullptr;
        (void)cudaGetLastError();
        std::printf("gmem  in a capture, %-44s %d, status %d, end %d, %zu nodes, instantiated %d\n", what,
                    called, static_cast<int>(status), ended, nodes, instantiated);
    };
    in_a_capture("cudaMallocAsync:", [] { return 0; });
    in_a_capture("its block freed twice:", [&] {
        CHECKED(cudaFreeAsync(inner, s));
        return cudaFreeAsync(inner, s);
    });
    in_a_capture("cudaFree of its block:", [&] { return cudaFree(inner); });
    in_a_capture("cudaFreeAsync of its block + 256:",
                 [&] { return cudaFreeAsync(static_cast<char*>(inner) + 256, s); });
    in_a_capture("cudaFreeAsync of it on a stream outside:", [&] { return cudaFreeAsync(inner, other); });
    in_a_capture("cudaFreeAsync of cudaMalloc's memory:", [&] { return cudaFreeAsync(plain, s); });
    in_a_capture("cudaFreeAsync of a pool's block, from outside:", [&] { return cudaFreeAsync(pooled, s); });
    in_a_capture("cudaFreeAsync of null:", [&] { return cudaFreeAsync(nullptr, s); });
    in_a_capture("cudaMallocFromPoolAsync:", [&] { return cudaMallocFromPoolAsync(&chosen, MiB, pool, s); });
    in_a_capture("cudaMemPoolTrimTo:", [&] { return cudaMemPoolTrimTo(pool, 0); });
    in_a_capture("cudaDeviceGraphMemTrim:", [&] { return cudaDeviceGraphMemTrim(0); });
    in_a_capture("cudaDeviceGetGraphMemAttribute:", [&] {
        std::uint64_t value = 0;
        return cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &value);
    });
    in_a_capture("cudaPointerGetAttributes of its block:", [&] {
        cudaPointerAttributes of{};
        cudaError_t const code = cudaPointerGetAttributes(&of, inner);
        std::printf("      type %d, device %d\n", static_cast<int>(of.type), of.device);
        return code;
    });
    CHECKED(cudaMemPoolDestroy(pool));
    CHECKED(cudaFree(plain));
    (void)cudaFreeAsync(pooled, s);
    CHECKED(cudaStreamSynchronize(s));
    (void)cudaGetLastError();
    CHECKED(cudaDeviceGraphMemTrim(0));
}

/// In which pieces the driver takes memory for allocations.
void pieces_of_graph_memory(cudaStream_t s) {
    for (std::size_t const bytes : {std::size_t{512}, MiB, 2 * MiB, 3 * MiB, 33 * MiB, 65 * MiB}) {
        since_then const then;
        allocating_graph const one{s, bytes, true};
        CHECKED(cudaGraphLaunch(one.executable, s));
        then.print(("one allocation of " + std::to_string(bytes) + " bytes, launched").c_str());
        CHECKED(cudaDeviceSynchronize());
        CHECKED(cudaDeviceGraphMemTrim(0));
    }
    since_then const then;
    allocating_graph running{s, 64 * MiB, true};
    spin<<<1, 1, 0, s>>>(20'000'000);
    CHECKED(cudaGraphLaunch(running.executable, s));
    graph_memory const at_once = graph_memory::now();
    std::printf("gmem  64 MiB, right after the launch behind a kernel that runs: reserved %.0f MiB\n",
                in_mib(static_cast<double>(at_once.reserved)));
    std::printf("gmem  trimmed meanwhile: %d, ", cudaDeviceGraphMemTrim(0));
    std::printf("reserved %.0f MiB\n", in_mib(static_cast<double>(graph_memory::now().reserved)));
    then.print("finished");
    CHECKED(cudaDeviceGraphMemTrim(0));
}

/// What executables hold that have no allocation.
void memory_of_executables(cudaStream_t s, unsigned* word) {
    constexpr int count = 200;
    for (int const kernels : {1, 100, 1000}) {
        since_then const then;
        std::vector<cudaGraphExec_t> all(count);
        for (auto& executable : all) {
            cudaGraph_t graph = nullptr;
            CHECKED(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
            for (int i = 0; i != kernels; ++i) increment<<<1, 1, 0, s>>>(word);
            CHECKED(cudaStreamEndCapture(s, &graph));
            CHECKED(cudaGraphInstantiate(&executable, graph, 0));
            CHECKED(cudaGraphDestroy(graph));
        }
        std::string const name = std::to_string(count) + " executables of " + std::to_string(kernels);
        then.print((name + " kernels, instantiated").c_str());
        for (auto const executable : all) CHECKED(cudaGraphLaunch(executable, s));
        then.print((name + " kernels, launched").c_str());
        for (auto const executable : all) CHECKED(cudaGraphExecDestroy(executable));
        then.print((name + " kernels, destroyed").c_str());
        CHECKED(cudaDeviceGraphMemTrim(0));
        then.print((name + " kernels, trimmed").c_str());
    }
    since_then const then;
    for (int turn = 0; turn != 2000;
         ++turn) {  // as a server that captures a new shape each time and keeps none
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        CHECKED(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
        for (int i = 0; i != 100 + turn % 400; ++i) increment<<<1, 1, 0, s>>>(word);
        CHECKED(cudaStreamEndCapture(s, &graph));
        CHECKED(cudaGraphInstantiate(&executable, graph, 0));
        CHECKED(cudaGraphLaunch(executable, s));
        CHECKED(cudaStreamSynchronize(s));
        CHECKED(cudaGraphExecDestroy(executable));
        CHECKED(cudaGraphDestroy(graph));
        if (turn == 0 || turn == 499 || turn == 1999)
            then.print((std::to_string(turn + 1) + " executables, one after the other").c_str());
    }
}

/// Which call fails when the device has no room, and what cudaMalloc does with memory that graphs keep.
void graphs_without_room(cudaStream_t s) {
    since_then const then;
    allocating_graph large{s, GiB, true};
    std::vector<void*> held;
    auto const fill = [&](std::size_t keep_free) {
        for (std::size_t piece = 4 * GiB; piece >= 2 * MiB;) {
            void* p = nullptr;
            std::size_t free = 0, total = 0;
            CHECKED(cudaMemGetInfo(&free, &total));
            if (free < piece + keep_free || cudaMalloc(&p, piece) != cudaSuccess) {
                piece /= 2;
                (void)cudaGetLastError();
            } else held.push_back(p);
        }
    };
    auto const empty = [&] {
        for (void* const p : held) CHECKED(cudaFree(p));
        held.clear();
    };
    fill(512 * MiB);
    then.print("a graph of 1 GiB, instantiated; half of that is free");
    std::printf("gmem  its launch: %d; ", large.launch(s));
    allocating_graph next{s, GiB, true};
    std::printf("another of 1 GiB: captured %d, ended %d, instantiated %d, ", next.captured, next.ended,
                next.instantiated);
    std::printf("launched %d; ", next.executable ? next.launch(s) : -1);
    empty();
    std::printf("with room again: %d\n", large.launch(s));
    then.print("launched, finished");
    fill(0);
    then.print("cudaMalloc until it failed, beside what the graph keeps");
    void* p = nullptr;
    std::printf("gmem  cudaMallocAsync of 256 MiB: %d, ", cudaMallocAsync(&p, 256 * MiB, s));
    (void)cudaGetLastError();
    if (p) CHECKED(cudaFreeAsync(p, s));
    CHECKED(cudaDeviceSynchronize());
    p = nullptr;
    virtual_memory const calls;
    CUmemGenericAllocationHandle handle{};
    int const created = static_cast<int>(calls.create(&handle, 256 * MiB, &calls.properties, 0));
    std::printf("cuMemCreate of 256 MiB: %d\n", created);
    if (created == 0) CHECKED(calls.release(handle));
    then.print("after these");
    std::printf("gmem  the graph's launch: %d\n", large.launch(s));
    std::printf("gmem  cudaMalloc of 512 MiB: %d, ", cudaMalloc(&p, 512 * MiB));
    (void)cudaGetLastError();
    CHECKED(cudaDeviceGraphMemTrim(0));
    if (!p) std::printf("after cudaDeviceGraphMemTrim: %d\n", cudaMalloc(&p, 512 * MiB));
    (void)cudaGetLastError();
    if (p) CHECKED(cudaFree(p));
    empty();
    then.print("all freed");
}

/// Streams for the questions about graphs; their kernels are loaded.
struct streams_of_graphs {
    cudaStream_t first = new_stream(), second = new_stream();
    unsigned* word = nullptr;

    streams_of_graphs() {
        CHECKED(cudaMalloc(&word, 256));
        increment<<<1, 1, 0, first>>>(word);
        touch<<<1, 32, 0, first>>>(word, 1);
        CHECKED(cudaDeviceSynchronize());
    }
    streams_of_graphs(streams_of_graphs const&) = delete;
    streams_of_graphs& operator=(streams_of_graphs const&) = delete;
    ~streams_of_graphs() {
        (void)cudaFree(word);
        (void)cudaStreamDestroy(first);
        (void)cudaStreamDestroy(second);
    }
};

void graph_memory_of_nodes() {
    streams_of_graphs const on;
    memory_of_allocation_nodes(on.first, on.second);
    memory_that_stays(on.first);
    pieces_of_graph_memory(on.first);
}
void graph_codes() {
    streams_of_graphs const on;
    codes_of_allocation_nodes(on.first, on.second);
}
void graph_executables() {
    streams_of_graphs const on;
    memory_of_executables(on.first, on.word);
}
void graph_room() {
    streams_of_graphs const on;
    graphs_without_room(on.first);
}

constexpr struct {
    char const* name;
    void (*ask)();
} parts[] = {{"facts", facts},
             {"codes", codes},
             {"host_functions", host_functions},
             {"captures", captures},
             {"waits", waits},
             {"graph_nodes", graph_memory_of_nodes},
             {"graph_codes", graph_codes},
             {"graph_executables", graph_executables},
             {"graph_room", graph_room},
             {"pages", pages},
             {"pairs", pairs},
             {"bandwidth", bandwidth}};

/// Ends the program with status 77 and the reason where no kernel of this program can run.
void need_a_device() {
    unsigned* word = nullptr;
    cudaError_t code = cudaMalloc(&word, 256);
    if (code == cudaSuccess) {
        increment<<<1, 1>>>(word);
        code = cudaGetLastError();
        if (code == cudaSuccess) code = cudaDeviceSynchronize();
    }
    if (code == cudaSuccess) return CHECKED(cudaFree(word));
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    std::printf("no kernel of this program runs here: %s, %s (the driver supports CUDA %d.%d, the program "
                "has %d.%d)\n",
                cudaGetErrorName(code), cudaGetErrorString(code), driver / 1000, driver % 1000 / 10,
                runtime / 1000, runtime % 1000 / 10);
    std::_Exit(77);
}

[[nodiscard]] bool is_part(std::string_view name) {
    return std::any_of(std::begin(parts), std::end(parts),
                       [&](auto const& part) { return part.name == name; });
}

}  // namespace

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::vector<std::string_view> const wanted(argv + 1, argv + argc);
    if (wanted == std::vector<std::string_view>{"--list"}) {
        for (auto const& part : parts) std::printf("%s\n", part.name);
        return 0;
    }
    if (!std::all_of(wanted.begin(), wanted.end(), is_part)) {
        std::fprintf(stderr, "usage: cuda_questions [--list | PART...]\n");
        return 2;
    }
    need_a_device();
    for (auto const& part : parts) {
        if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), part.name) == wanted.end()) continue;
        auto const begin = steady::now();
        part.ask();
        std::printf("time  %s %.1f s\n", part.name, microseconds_since(begin) / 1e6);
    }
}
