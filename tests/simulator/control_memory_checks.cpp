// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"
#include "simulator/virtual_memory.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

// Findings of strict memory, accesses that it allows, and the consequences of a finding. The individual mistakes are tested in
// control_bugs_*.cpp.

using namespace control;

namespace {

/// A machine with strict memory, independent of the environment.
struct strict_machine : machine {
    explicit strict_machine(sim::options shape = {}) : machine{shape} {
        sim::set_memory_checks(sim::memory_checks::strict);
    }
};

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

std::string this_file(unsigned line) { return "control_memory_checks.cpp:" + std::to_string(line); }

std::string only_misuse() {
    auto const lines = sim::misuse_reports();
    REQUIRE(lines.size() == 1);
    return lines.front();
}

/// Runs a kernel that accesses memory, and returns the device's error afterwards.
template <class F>
cudaError_t run_kernel(F f) {
    REQUIRE(launch(cudaStreamPerThread, "k", f) == cudaSuccess);
    auto const result = cudaStreamSynchronize(cudaStreamPerThread);
    (void)cudaGetLastError();
    return result;
}

}  // namespace

TEST_CASE("kernels, copies and memsets use protected memory like any other", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    auto const count = GENERATE(std::size_t{1}, std::size_t{63}, std::size_t{1024}, std::size_t{300'001});
    auto const bytes = count * sizeof(int);
    std::vector<int> host(count), back(count);
    std::iota(host.begin(), host.end(), 7);
    auto* const a = static_cast<int*>(device_memory(bytes));
    int* b = nullptr;
    REQUIRE(cudaMallocAsync(reinterpret_cast<void**>(&b), bytes, cudaStreamPerThread) == cudaSuccess);
    CHECK(reinterpret_cast<std::uintptr_t>(a) % 256 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(b) % 256 == 0);
    REQUIRE(cudaMemcpy(a, host.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(run_kernel([=] {
              for (std::size_t i = 0; i < count; ++i) b[i] = a[i] + 1;
          }) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(a, b, bytes, cudaMemcpyDeviceToDevice, cudaStreamPerThread) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(back.data(), a, bytes, cudaMemcpyDeviceToHost, cudaStreamPerThread) ==
            cudaSuccess);
    for (int& x : host) ++x;
    CHECK(back == host);
    CHECK(cudaFree(a) == cudaSuccess);
    CHECK(cudaFreeAsync(b, cudaStreamPerThread) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(sim::misuse().total() == 0);
}

TEST_CASE("many kernels use one block concurrently", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    constexpr int streams = 6, rounds = 50;
    auto* const p = static_cast<std::atomic<int>*>(device_memory(sizeof(std::atomic<int>)));
    REQUIRE(cudaMemset(p, 0, sizeof *p) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    std::vector<cudaStream_t> all(streams);
    for (auto& s : all) s = new_stream(cudaStreamNonBlocking);
    for (int i = 0; i < rounds; ++i)
        for (auto const s : all) REQUIRE(launch(s, "add", [p] { p->fetch_add(1); }) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    int sum = 0;
    REQUIRE(cudaMemcpy(&sum, p, sizeof sum, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(sum == streams * rounds);
    for (auto const s : all) CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(sim::misuse().total() == 0);
}

TEST_CASE("host code that accesses device memory ends the program and is named",
          "[simulator][memory_checks]") {
    constexpr char const* name = "host code that accesses device memory ends the program and is named";
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    constexpr unsigned made = __LINE__ + 4, read = __LINE__ + 6, written = __LINE__ + 7;
    if (auto const* const how = std::getenv("CUOTA_PLANTED")) {
        sim::set_memory_checks(sim::memory_checks::strict);
        void* memory = nullptr;
        if (cudaMalloc(&memory, 100) != cudaSuccess) return;
        auto* const p = static_cast<char volatile*>(memory) + 17;
        if (how == std::string{"read"}) std::printf("%d\n", *p);
        else *p = 1;
        return;
    }
    for (std::string const how : {"read", "write"}) {
        auto const r = run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_PLANTED=" + how, name);
        auto const line = this_file(how == "read" ? read : written);
        INFO(r.text);
        CHECK(r.status != 0);
        CHECK(has(r.text, "cuota simulator: host code at " + line + " accesses byte 17 of #"));
        CHECK(has(r.text, "device memory, 100 bytes at 0x"));
        CHECK(has(r.text, "from cudaMalloc at " + this_file(made)));
    }
}

TEST_CASE("a host function may not access device memory", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    constexpr char const* name = "a host function may not access device memory";
    if (std::getenv("CUOTA_PLANTED")) {
        sim::set_memory_checks(sim::memory_checks::strict);
        auto* const p = device_memory(100);
        cudaLaunchHostFunc(
            cudaStreamPerThread, [](void* q) { *static_cast<char volatile*>(q) = 1; }, p);
        cudaStreamSynchronize(cudaStreamPerThread);
        return;
    }
    auto const r = run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_PLANTED=1", name);
    INFO(r.text);
    CHECK(r.status != 0);
    CHECK(has(r.text, "cuota simulator: a host function at control_memory_checks.cpp:"));
    CHECK(has(r.text, " accesses byte 0 of #"));
}

TEST_CASE("a segmentation fault outside of device memory goes to the previous handler",
          "[simulator][memory_checks]") {
    constexpr char const* name = "a segmentation fault outside of device memory goes to the previous handler";
    if (auto const* const how = std::getenv("CUOTA_PLANTED")) {
        auto* const mine = +[](int) {
            std::puts("the program's own handler");
            std::fflush(stdout);
            std::_Exit(7);
        };
        std::signal(SIGSEGV, how[0] == 'h' ? mine : SIG_DFL);
        sim::set_memory_checks(sim::memory_checks::strict);
        auto* const p = device_memory(100);  // from here on faults are handled
        (void)run_kernel([p] { *static_cast<char*>(p) = 1; });
        if (how[0] == 'r') std::raise(SIGSEGV);
        *reinterpret_cast<char volatile*>(std::uintptr_t{16}) = 1;
        return;
    }
    auto const handled = run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_PLANTED=handler", name);
    INFO(handled.text);
    CHECK(handled.status == 7);
    CHECK(has(handled.text, "the program's own handler"));
    CHECK(run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_PLANTED=default", name).status != 0);
    CHECK(run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_PLANTED=raised", name).status != 0);
}

TEST_CASE("a kernel that accesses unallocated memory fails the device", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    auto* const p = static_cast<char*>(device_memory(5000));
    bool const near = GENERATE(true, false);
    auto* const wrong = p + (near ? 5000 + 4095 : 1 << 20);
    unsigned const line = __LINE__ + 1;
    CHECK(run_kernel([=] { *static_cast<char volatile*>(wrong) = 1; }) == cudaErrorIllegalAddress);
    std::string const fault = cuota_simulator_fault();
    INFO(fault);
    CHECK(has(fault, "kernel k at control.hpp:"));
    CHECK(has(fault, " accesses at " + this_file(line) + ' '));
    CHECK(has(fault, near ? " 4096 bytes past the end of #" : " an address that is not allocated"));
    CHECK(only_misuse() == fault);
    CHECK(sim::misuse().out_of_bounds == (near ? 1 : 0));
    CHECK(sim::misuse().illegal_accesses == (near ? 0 : 1));
    // Permanent, like every failure of a device.
    CHECK(cudaMemset(p, 0, 1) == cudaErrorIllegalAddress);
    CHECK(cudaFree(p) == cudaErrorIllegalAddress);
    sim::reset();
    (void)cudaGetLastError();
}

TEST_CASE("a kernel that writes one byte beside its memory is named when it ends",
          "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    auto const bytes = GENERATE(std::size_t{1}, std::size_t{255}, std::size_t{1000}, std::size_t{5003});
    auto const where = GENERATE(-1, -200, 0);
    auto* const p = static_cast<char*>(device_memory(bytes));
    auto const offset = where < 0 ? std::ptrdiff_t{where} : static_cast<std::ptrdiff_t>(bytes);
    CHECK(run_kernel([=] { p[0] = 1, ++p[offset]; }) == cudaSuccess);
    auto const line = only_misuse();
    INFO(line);
    CHECK(has(line, "kernel k at control.hpp:"));
    CHECK(has(line, where == -1 ? "1 byte before #"
                    : where < 0 ? "200 bytes before #"
                                : "1 byte past the end of #"));
    CHECK(sim::misuse().out_of_bounds == 1);
    CHECK(run_kernel([=] { p[0] = 1; }) == cudaSuccess);  // reported once: the guard bytes are restored
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(sim::misuse().total() == 1);
}

TEST_CASE("a kernel that only accesses memory beside its own is stopped there",
          "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    auto* const p = static_cast<char volatile*>(device_memory(1000));
    unsigned const line = __LINE__ + 1;
    CHECK(run_kernel([=] { (void)p[1000]; }) == cudaErrorIllegalAddress);
    CHECK(has(only_misuse(), " accesses at " + this_file(line)));
    CHECK(has(only_misuse(), " 1 byte past the end of #"));
    CHECK(sim::misuse().out_of_bounds == 1);
    (void)cudaFree(const_cast<char*>(p));
    sim::reset();
    (void)cudaGetLastError();
}

TEST_CASE("a write beside pinned or managed memory is reported when it is freed",
          "[simulator][memory_checks]") {
    if (under_address_sanitizer) CUOTA_SKIP("the guard bytes are part of a heap block there, but poisoned");
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    auto* const pinned = pinned_memory(100);
    pinned[100] ^= 1;
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(sim::misuse().out_of_bounds == 1);
    char* managed = nullptr;
    REQUIRE(cudaMallocManaged(reinterpret_cast<void**>(&managed), 100, cudaMemAttachGlobal) == cudaSuccess);
    managed[-1] ^= 1;
    CHECK(cudaFree(managed) == cudaSuccess);
    REQUIRE(sim::misuse_reports().size() == 2);
    CHECK(has(sim::misuse_reports()[0], "out-of-bounds write: 1 byte past the end of #"));
    CHECK(has(sim::misuse_reports()[1], "out-of-bounds write: 1 byte before #"));
    CHECK(
        has(sim::misuse_reports()[1], "; found when it was freed by cudaFree at control_memory_checks.cpp:"));
}

TEST_CASE("a copy of uninitialised memory to the host is reported", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    constexpr std::size_t bytes = 1000;
    auto* const p = static_cast<char*>(device_memory(bytes));
    auto* const q = static_cast<char*>(device_memory(bytes));
    std::vector<char> host(bytes);
    auto const reads = [] { return sim::misuse().uninitialized_reads; };

    REQUIRE(cudaMemset(p, 1, 600) == cudaSuccess);
    CHECK(cudaMemcpy(host.data(), p, 600, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(reads() == 0);
    CHECK(cudaMemcpy(host.data(), p + 8, 600, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(reads() == 1);
    CHECK(has(only_misuse(), " reads byte 600 of #"));
    CHECK(has(only_misuse(), ", which was never written"));

    // Bytes stay unwritten when they are copied on the device; any write ends this, also one by a kernel.
    CHECK(cudaMemcpy(q, p, bytes, cudaMemcpyDeviceToDevice) == cudaSuccess);
    CHECK(cudaMemcpy(host.data(), q, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(reads() == 2);
    CHECK(run_kernel([=] { std::memset(q + 600, 2, 400); }) == cudaSuccess);
    CHECK(cudaMemcpy(host.data(), q, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(reads() == 2);
    CHECK(host[599] == 1);
    CHECK(host[600] == 2);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaFree(q) == cudaSuccess);
}

TEST_CASE("a kernel may use another device's memory only with permission", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m{{.devices = 2}};
    auto* const p = static_cast<char*>(device_memory(16));
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    bool const allowed = GENERATE(true, false);
    if (allowed) REQUIRE(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
    auto const result = run_kernel([=] { *p = 1; });
    CHECK(result == (allowed ? cudaSuccess : cudaErrorIllegalAddress));
    if (!allowed) CHECK(has(only_misuse(), "which device 1 cannot reach"));
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    sim::reset(sim::shape());
    (void)cudaGetLastError();
}

TEST_CASE("the addresses of freed memory remain protected", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    constexpr int rounds = 200;
    std::vector<void*> freed;
    for (int i = 0; i < rounds; ++i) {
        auto* const p = device_memory(100);
        CHECK(std::find(freed.begin(), freed.end(), p) == freed.end());
        freed.push_back(p);
        REQUIRE(cudaFree(p) == cudaSuccess);
    }
    char host = 0;
    CHECK(cudaMemcpy(&host, freed.front(), 1, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    auto const line = only_misuse();
    INFO(line);
    CHECK(has(line, "cudaMemcpy at control_memory_checks.cpp:"));
    CHECK(has(line, ", freed by cudaFree at control_memory_checks.cpp:"));
    CHECK(run_kernel([p = static_cast<char volatile*>(freed.back())] { *p = 1; }) == cudaErrorIllegalAddress);
    sim::reset();
    (void)cudaGetLastError();
}

TEST_CASE("stream-ordered memory is accessible from its allocation until its free",
          "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    bool const early = GENERATE(true, false);
    char* p = nullptr;
    {
        gate g{a};
        REQUIRE(cudaMallocAsync(reinterpret_cast<void**>(&p), 100, a) == cudaSuccess);
        if (early) {
            g.wait_until_reached();  // work that a failed device has not begun is never called
            REQUIRE(launch(b, "early", [p] { *p = 1; }) == cudaSuccess);
            CHECK(cudaStreamSynchronize(b) == cudaErrorIllegalAddress);
            CHECK(has(only_misuse(), ", which is not allocated yet"));
        }
    }
    if (!early) {
        REQUIRE(launch(a, "in order", [p] { *p = 1; }) == cudaSuccess);
        REQUIRE(cudaFreeAsync(p, a) == cudaSuccess);
        CHECK(cudaStreamSynchronize(a) == cudaSuccess);
        REQUIRE(launch(a, "late", [p] { *p = 1; }) == cudaSuccess);
        CHECK(cudaStreamSynchronize(a) == cudaErrorIllegalAddress);
        CHECK(has(only_misuse(), "byte 0 of #"));
        CHECK(has(only_misuse(), ", freed by cudaFreeAsync at control_memory_checks.cpp:"));
    } else {
        (void)cudaFreeAsync(p, a);
    }
    (void)cudaStreamDestroy(a);
    (void)cudaStreamDestroy(b);
    sim::reset();
    (void)cudaGetLastError();
}

TEST_CASE("mapped memory is protected, too", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    driver const d;
    auto const bytes = d.granularity();
    {
        range const r{d, 2 * bytes};
        memory const a{d, bytes}, b{d, bytes};
        mapped const first{d, r.start, a}, second{d, r.start + bytes, b};
        auto* const p = static_cast<int*>(pointer(r.start));
        auto const last = 2 * bytes / sizeof(int) - 1;
        REQUIRE(cudaMemset(p, 0, 2 * bytes) == cudaSuccess);  // across both mappings
        CHECK(run_kernel([=] { p[0] = 1, p[last] = 2; }) == cudaSuccess);
        std::vector<int> host(last + 1);
        REQUIRE(cudaMemcpy(host.data(), p, 2 * bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
        CHECK(host.front() == 1);
        CHECK(host[bytes / sizeof(int)] == 0);
        CHECK(host.back() == 2);
        CHECK(sim::misuse().total() == 0);
    }
}

TEST_CASE("a kernel that writes read-only memory fails the device", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    driver const d;
    auto const bytes = d.granularity();
    {
        range const r{d, bytes};
        memory const a{d, bytes};
        REQUIRE(d.map(r.start, bytes, 0, a.handle, 0) == CUDA_SUCCESS);
        CUmemAccessDesc readable{};
        readable.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        readable.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
        REQUIRE(d.set_access(r.start, bytes, &readable, 1) == CUDA_SUCCESS);
        auto* const p = static_cast<int volatile*>(pointer(r.start));
        CHECK(run_kernel([p] { (void)*p; }) == cudaSuccess);
        CHECK(run_kernel([p] { *p = *p + 1; }) == cudaErrorIllegalAddress);
        CHECK(has(only_misuse(), ", which is read-only"));
        sim::reset();  // makes the device usable for the deallocation
        CHECK(d.unmap(r.start, bytes) == CUDA_SUCCESS);
    }
    (void)cudaGetLastError();
}

TEST_CASE("names and call sites from the program are in the messages", "[simulator][memory_checks]") {
    if (under_thread_sanitizer) CUOTA_SKIP("memory is not closed under ThreadSanitizer");
    strict_machine m;
    cuota_simulator_next_call("/somewhere/train.cpp", 31, "weights");
    auto* const p = device_memory(100);
    auto const leaks = sim::leaks();
    REQUIRE(leaks.size() == 1);
    INFO(leaks.front());
    CHECK(has(leaks.front(), "\"weights\", device memory, 100 bytes"));
    CHECK(has(leaks.front(), "from cudaMalloc at train.cpp:31"));
    cuota_simulator_next_call("/somewhere/train.cpp", 32, "");
    CHECK(cudaMemset(p, 0, 101) == cudaErrorInvalidValue);
    CHECK(has(only_misuse(), "cudaMemset at train.cpp:32 requests 101 bytes from #"));
    CHECK(cudaMemset(p, 0, 100) == cudaSuccess);  // the location was for one call
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaFree(p) == cudaErrorInvalidValue);
    REQUIRE(sim::misuse_reports().size() == 2);
    CHECK(has(sim::misuse_reports()[1], "cudaFree at control_memory_checks.cpp:"));
}

TEST_CASE("memory of an open lease is checked at every launch until the lease ends",
          "[simulator][memory_checks]") {
    machine m;
    sim::set_race_checks(sim::race_checks::report);
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    auto* const p = device_memory(100);
    auto const races = [] { return sim::misuse().races; };
    auto const number = cuota_simulator_borrow(a, p, 100, 1);
    REQUIRE(number != 0);
    REQUIRE(launch(a, "first", [] {}) == cudaSuccess);
    REQUIRE(launch(b, "other", [] {}) == cudaSuccess);
    REQUIRE(launch(a, "second", [] {}) == cudaSuccess);
    CHECK(sim::current_race_check_counts().accesses == 2);
    CHECK(races() == 0);
    cuota_simulator_declare(b, p, 1, 0);
    REQUIRE(launch(b, "reader", [] {}) == cudaSuccess);
    CHECK(races() == 1);
    cuota_simulator_return(number);
    cuota_simulator_return(number);  // no effect
    REQUIRE(launch(a, "third", [] {}) == cudaSuccess);
    CHECK(sim::current_race_check_counts().accesses == 3);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
}

TEST_CASE("the environment chooses the checks and the effect of misuse", "[simulator][memory_checks]") {
    constexpr char const* name = "the environment chooses the checks and the effect of misuse";
    if (std::getenv("CUOTA_PLANTED")) {
        constexpr char const* names[] = {"off", "heap", "strict"};
        std::printf("checks are %s\n", names[static_cast<int>(sim::current_memory_checks())]);
        std::fflush(stdout);
        auto* const p = device_memory(16);
        CHECK(cudaFree(p) == cudaSuccess);
        CHECK(cudaFree(p) == cudaErrorInvalidValue);
        return;
    }
    auto const run = [&](std::string const& variables) {
        return run_again("CUOTA_PLANTED=1 " + variables, name);
    };
    for (std::string const mode : {"off", "heap", "strict"}) {
        auto const r = run("CUOTA_SIM_MISUSE=report CUOTA_SIM_CHECKS=" + mode);
        INFO(r.text);
        CHECK(r.status == 0);
        CHECK(has(r.text, "checks are " + (under_thread_sanitizer && mode == "strict" ? "heap" : mode)));
    }
    auto const fatal = run("CUOTA_SIM_MISUSE=fatal");
    INFO(fatal.text);
    CHECK(fatal.status != 0);
    CHECK(has(fatal.text, "cuota simulator: misuse: cudaFree at control_memory_checks.cpp:"));
    CHECK(has(fatal.text, "frees memory that is already freed: #"));
    CHECK(run("CUOTA_SIM_CHECKS=all").status == 2);
    CHECK(run("CUOTA_SIM_MISUSE=loud").status == 2);
}
