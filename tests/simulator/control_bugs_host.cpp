// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/bugs.hpp"
#include "simulator/process.hpp"

#include <cstring>
#include <numeric>

// Host code that dereferences device pointers. This file is compiled with -fnon-call-exceptions, so that the programs can continue after an
// exception; if the faulting instruction is outside of this file, it ends a child process.

using namespace control;

namespace {

constexpr auto host = &sim::misuse_counts::host_accesses;

/// Makes invalid host accesses throw.
template <class Access>
void goes_wrong(trial const& t, Access access) {
    sim::set_host_access(sim::host_access::throw_exception);
    if (t.fixed) access();
    else CHECK_THROWS_AS(access(), sim::host_access_error);
    sim::set_host_access(sim::host_access::abort);
}

constexpr bug accesses[] = {
    {"the host writes an element", host, "host code",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         auto* const x = static_cast<int volatile*>(t.fixed ? static_cast<void*>(t.pinned) : p);
         goes_wrong(t, [&] {
             t.place();
             x[0] = 1;
         });
         t.places.back() += 1;
         CHECK(cudaFree(p) == cudaSuccess);
     }},
    {"the host reads an element", host, "host code",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMalloc(&p, size));
         auto const* const x = static_cast<int volatile*>(t.fixed ? static_cast<void*>(t.pinned) : p);
         int sum = 0;
         goes_wrong(t, [&] {
             t.place();
             sum += x[7];
         });
         t.places.back() += 1;
         CHECK(cudaFree(p) == cudaSuccess);
     }},
    {"the host reads stream-ordered memory, though it has synchronised", host, "accesses byte 28 of #",
     [](trial& t) {
         void* p = nullptr;
         t.place(cudaMallocAsync(&p, size, t.a));
         REQUIRE(cudaMemsetAsync(p, 1, size, t.a) == cudaSuccess);
         REQUIRE(cudaMemcpyAsync(t.pinned, p, size, cudaMemcpyDeviceToHost, t.a) == cudaSuccess);
         REQUIRE(cudaStreamSynchronize(t.a) == cudaSuccess);
         auto const* const x = static_cast<int volatile*>(t.fixed ? static_cast<void*>(t.pinned) : p);
         int sum = 0;
         goes_wrong(t, [&] {
             t.place();
             sum += x[7];
         });
         t.places.back() += 1;
         CHECK(cudaFreeAsync(p, t.a) == cudaSuccess);
     }},
    {"the host writes device memory that is freed", host, "freed by cudaFree at",
     [](trial& t) {
         void* p = nullptr;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         t.place(cudaFree(p));
         auto* const x = static_cast<int volatile*>(t.fixed ? static_cast<void*>(t.pinned) : p);
         goes_wrong(t, [&] {
             t.place();
             x[0] = 1;
         });
         t.places.back() += 1;
     }},
};

/// Programs that run in a child process, which ends when they make the mistake. They return the line that allocated the memory, and print
/// it before the mistake.
struct fatal_bug {
    char const* name;
    char const* words;
    void (*program)(bool fixed, int& made, int& used);
};

void print_places(int made, int used) {
    std::printf("places=%d,%d\n", made, used);
    std::fflush(stdout);
}

constexpr int line_of_use = __LINE__ + 1;
void use(void* p) { *static_cast<int volatile*>(p) = 1; }

constexpr fatal_bug fatal[] = {
    {"the host reads through a library function", "host code",
     [](bool fixed, int& made, int& used) {
         void* p = nullptr;
         made = __LINE__ + 1;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         std::vector<char> to(size);
         used = __LINE__ + 2;
         print_places(made, used);
         if (!fixed) std::memcpy(to.data(), p, to.size());
         REQUIRE(cudaFree(p) == cudaSuccess);
     }},
    {"an algorithm of the host sums up device memory", "host code",
     [](bool fixed, int& made, int& used) {
         void* p = nullptr;
         made = __LINE__ + 1;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         auto const* const x = static_cast<int const*>(p);
         used = __LINE__ + 2;
         print_places(made, used);
         auto const sum = fixed ? 0 : std::accumulate(x, x + 10, 0);
         CHECK(sum == 0);
         REQUIRE(cudaFree(p) == cudaSuccess);
     }},
    {"a host function follows a pointer of the device", "a host function",
     [](bool fixed, int& made, int& used) {
         void* p = nullptr;
         int mine = 0;
         made = __LINE__ + 1;
         REQUIRE(cudaMalloc(&p, size) == cudaSuccess);
         used = line_of_use;
         print_places(made, used);
         REQUIRE(cudaLaunchHostFunc(nullptr, use, fixed ? &mine : p) == cudaSuccess);
         REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
         REQUIRE(cudaFree(p) == cudaSuccess);
     }},
};

constexpr auto fatal_test = "seeded bugs: host accesses that end the program";

}  // namespace

TEST_CASE("seeded bugs: host accesses that throw", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP("under ThreadSanitizer strict memory is plain memory");
    check_all(accesses);
}

TEST_CASE("seeded bugs: host accesses that end the program", "[simulator][bugs]") {
    if (under_thread_sanitizer) CUOTA_SKIP("under ThreadSanitizer strict memory is plain memory");
    if (auto const* const which = std::getenv("CUOTA_SEEDED")) {
        int made = 0, used = 0;
        return fatal[which[0] - '0'].program(which[1] == 'f', made, used);
    }
    for (std::size_t i = 0; i < std::size(fatal); ++i) {
        INFO(fatal[i].name);
        auto const variables =
            "CUOTA_SIM_CHECKS=strict CUOTA_SIM_REPORT=stderr CUOTA_SEEDED=" + std::to_string(i);
        auto const wrong = run_again(variables + 'w', fatal_test),
                   right = run_again(variables + 'f', fatal_test);
        INFO(wrong.text);
        INFO(right.text);
        CHECK(right.status == 0);
        CHECK(right.report.at("misuse") == 0);
        CHECK(wrong.status != 0);
        auto const from = wrong.text.find(std::string{"cuota simulator: "} + fatal[i].words);
        REQUIRE(from != std::string::npos);
        auto const line = wrong.text.substr(from, wrong.text.find('\n', from) - from);
        int made = 0, used = 0;
        REQUIRE(std::sscanf(wrong.text.c_str() + wrong.text.find("places="), "places=%d,%d", &made, &used) ==
                2);
        CHECK(names(line, "control_bugs_host.cpp:" + std::to_string(made)));
        CHECK(names(line, "control_bugs_host.cpp:" + std::to_string(used)));
    }
}
