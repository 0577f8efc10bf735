// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <functional>

// The simulator passes CUDA's ordering and the bounds of its memory on to the sanitizers. Each test runs one bug and its corrected twin in
// child processes: the sanitizer must report the bug and nothing about the twin. control_planted.cpp has more, under ten seeds each.

using namespace control;

namespace {

constexpr int count = 4096;

/// The objects that the programs use. Elements are ints: byte by byte, g++ 12's ThreadSanitizer misses races.
struct workbench {
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event(cudaEventDisableTiming);
    int* device = static_cast<int*>(device_memory(count * sizeof(int)));
    int* pinned = reinterpret_cast<int*>(pinned_memory(count * sizeof(int)));

    ~workbench() {
        (void)cudaDeviceSynchronize();
        (void)cudaFree(device);
        (void)cudaFreeHost(pinned);
        (void)cudaEventDestroy(event);
        (void)cudaStreamDestroy(a);
        (void)cudaStreamDestroy(b);
    }

    static void write(cudaStream_t s, int* p, int n = count) {
        REQUIRE(launch(s, "write", [=] {
                    for (int i = 0; i < n; ++i) p[i] = i;
                }) == cudaSuccess);
    }
    void order(cudaStream_t first, cudaStream_t then) const {
        REQUIRE(cudaEventRecord(event, first) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(then, event, 0) == cudaSuccess);
    }
};

/// In the child, runs the program; in the parent, runs both children and compares.
void planted(std::string const& test, std::function<void(workbench&, bool fixed)> const& program) {
    if (auto const* const fixed = std::getenv("CUOTA_PLANTED")) {
        workbench w;
        program(w, *fixed == '1');
        return;
    }
    // Sanitizers track heap memory only.
    std::string const child = "CUOTA_SIM_CHECKS=heap CUOTA_PLANTED=";
    auto const bug = run_again(child + '0', test), twin = run_again(child + '1', test);
    INFO(twin.text);
    CHECK(bug.status > 0);
    CHECK(bug.text.find("Sanitizer") != std::string::npos);
    CHECK(twin.status == 0);
}

}  // namespace

TEST_CASE("an event recorded too early is a race", "[simulator][sanitizers]") {
    if (!under_thread_sanitizer) CUOTA_SKIP("this build is not under ThreadSanitizer");
    planted("an event recorded too early is a race", [](workbench& w, bool fixed) {
        if (!fixed) w.order(w.a, w.b);
        w.write(w.a, w.device);
        if (fixed) w.order(w.a, w.b);
        w.write(w.b, w.device);
    });
}

TEST_CASE("the default streams order work as CUDA documents", "[simulator][sanitizers]") {
    if (!under_thread_sanitizer) CUOTA_SKIP("this build is not under ThreadSanitizer");
    planted("the default streams order work as CUDA documents", [](workbench& w, bool fixed) {
        auto const s = new_stream(fixed ? cudaStreamDefault : cudaStreamNonBlocking);
        w.write(s, w.device);
        w.write(nullptr, w.device);
        w.write(s, w.device);
        REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
    });
}

TEST_CASE("device, pinned and stream-ordered memory that is never freed is a leak",
          "[simulator][sanitizers]") {
    if (!under_address_sanitizer) CUOTA_SKIP("this build is not under AddressSanitizer");
    auto const planted_leak = [](cudaError_t (*take)(void**), cudaError_t (*give)(void*)) {
        return [=](workbench&, bool fixed) {
            void* p = nullptr;
            REQUIRE(take(&p) == cudaSuccess);
            REQUIRE(cudaDeviceSynchronize() == cudaSuccess);  // cudaFree need not wait for cudaMallocAsync
            if (fixed) REQUIRE(give(p) == cudaSuccess);
        };
    };
    // A child runs all three; each alone causes a report, so the parent runs one at a time.
    auto const* const only = std::getenv("CUOTA_PLANTED_LEAK");
    std::string const kinds[] = {"device", "pinned", "pooled"};
    for (auto const& kind : kinds) {
        if (only && kind != only) continue;
        if (!only) REQUIRE(setenv("CUOTA_PLANTED_LEAK", kind.c_str(), 1) == 0);
        INFO(kind);
        auto const take = kind == "device"   ? [](void** p) { return cudaMalloc(p, 1000); }
                          : kind == "pinned" ? [](void** p) { return cudaMallocHost(p, 1000); }
                                             : [](void** p) { return cudaMallocAsync(p, 1000, nullptr); };
        auto const give =
            kind == "pinned" ? [](void* p) { return cudaFreeHost(p); } : [](void* p) { return cudaFree(p); };
        planted("device, pinned and stream-ordered memory that is never freed is a leak",
                planted_leak(take, give));
        if (!only) REQUIRE(unsetenv("CUOTA_PLANTED_LEAK") == 0);
    }
}
