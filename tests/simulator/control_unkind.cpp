// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/graphs.hpp"
#include "simulator/process.hpp"

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>

// Behavior that CUDA's documentation leaves open, chosen contrary to that of most drivers.

using namespace control;

namespace {

constexpr std::size_t size = 1000;

/// A machine with one unkind choice, which counts races and has memory with the given checks.
struct unkind_machine {
    explicit unkind_machine(sim::unkindness how, sim::memory_checks checks = sim::memory_checks::heap) {
        sim::set_memory_checks(checks);
        sim::set_race_checks(sim::race_checks::report);
        sim::set_unkindness(how);
    }
    machine m;
};

/// Waits for host functions without a CUDA call.
void wait_for_count(std::atomic<int>& count, int wanted) {
    for (int now = count; now != wanted; now = count) count.wait(now);
}

void count_one(void* data) {
    auto& count = *static_cast<std::atomic<int>*>(data);
    ++count;
    count.notify_all();
}

bool has_place(std::vector<std::string> const& lines, std::string const& words) {
    for (auto const& line : lines)
        if (line.find(words) != std::string::npos) return true;
    return false;
}

}  // namespace

TEST_CASE("serialised host functions: one that blocks delays those of other streams and no other work",
          "[simulator][unkind]") {
    auto const kind = GENERATE(false, true);
    unkind_machine const on{{.serial_host = !kind}};
    capture_bench t;
    std::atomic<int> called{0};
    begin_capture(t.blocking);
    REQUIRE(cudaLaunchHostFunc(t.blocking, count_one, &called) == cudaSuccess);
    executable const graph{end_capture(t.blocking)};
    auto const call_back = [](cudaStream_t, cudaError_t, void* data) { count_one(data); };
    gate closed{t.a};
    closed.wait_until_reached();
    auto const c = new_stream(cudaStreamNonBlocking);
    REQUIRE(cudaLaunchHostFunc(t.b, count_one, &called) == cudaSuccess);
    REQUIRE(cudaStreamAddCallback(c, call_back, &called, 0) == cudaSuccess);
    graph.launch(t.blocking);
    if (kind) {
        wait_for_count(called, 3);
        CHECK_FALSE(closed.passed());
    } else {
        auto const d = new_stream(cudaStreamNonBlocking);  // other work continues
        t.set(1, d);
        CHECK(cudaStreamSynchronize(d) == cudaSuccess);
        CHECK_FALSE(closed.passed());
        for (auto const s : {t.b, c, t.blocking}) CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
        std::this_thread::sleep_for(std::chrono::milliseconds{10});  // time to go wrong
        CHECK(called == 0);
        CHECK(cudaStreamDestroy(d) == cudaSuccess);
    }
    closed.open();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(called == 3);
    CHECK(cudaStreamDestroy(c) == cudaSuccess);
}

TEST_CASE("serialised host functions keep the order of their stream", "[simulator][unkind]") {
    unkind_machine const on{{.serial_host = true}};
    struct note {
        std::vector<int>* to;
        int what;
    };
    auto const write_down = [](void* data) {
        auto const& n = *static_cast<note const*>(data);
        n.to->push_back(n.what);
    };
    std::vector<int> notes[4];
    std::vector<note> all;
    for (int i = 0; i != 100; ++i) all.push_back({&notes[i % 4], i / 4});
    std::vector<cudaStream_t> streams;
    for (int i = 0; i != 4; ++i) streams.push_back(new_stream(cudaStreamNonBlocking));
    for (std::size_t i = 0; i != all.size(); ++i)
        REQUIRE(cudaLaunchHostFunc(streams[i % 4], write_down, &all[i]) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    for (auto const& n : notes) {
        REQUIRE(n.size() == 25);
        for (int i = 0; i != 25; ++i) CHECK(n[static_cast<std::size_t>(i)] == i);
    }
    for (auto const s : streams) CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("an immediate free does not wait, and reports work that may still use the memory",
          "[simulator][unkind]") {
    auto const checks = GENERATE(sim::memory_checks::heap, sim::memory_checks::strict);
    unkind_machine const on{{.free_at_once = true}, checks};
    auto const s = new_stream(cudaStreamNonBlocking);
    alignas(4096) static unsigned char page[4096];
    auto* const d = device_memory(size);
    auto* const pinned = pinned_memory(size);
    REQUIRE(cudaHostRegister(page, sizeof page, cudaHostRegisterDefault) == cudaSuccess);
    REQUIRE(cudaMemset(d, 0, size) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    auto const enqueue = [&] {
        if (under_thread_sanitizer) {  // ends the program for the races, so the accesses are only declared
            cuota_simulator_declare(s, d, size, 1);
            cuota_simulator_declare(s, pinned, size, 1);
            cuota_simulator_declare(s, page, size, 1);
            return launch(s, "copies", [] {});
        }
        if (auto const e = cudaMemcpyAsync(pinned, d, size, cudaMemcpyDefault, s)) return e;
        return cudaMemcpyAsync(page, d, size, cudaMemcpyDefault, s);
    };
    auto const free_all = [&] {
        CHECK(cudaFree(d) == cudaSuccess);
        CHECK(cudaFreeHost(pinned) == cudaSuccess);
        CHECK(cudaHostUnregister(page) == cudaSuccess);
        CHECK(sim::live().device_allocations + sim::live().pinned_allocations == 0);
    };
    SECTION("after it has finished, nothing is reported") {
        REQUIRE(enqueue() == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
        free_all();
        CHECK(sim::misuse().races == 0);
        CHECK(sim::misuse().total() == 0);
    }
    SECTION("while it is running") {
        {
            sim::hold const still;
            REQUIRE(enqueue() == cudaSuccess);
            free_all();  // otherwise it would never return
        }
        CHECK(sim::misuse().races == 3);
        CHECK(has_place(sim::race_reports(), "cudaFree at control_unkind.cpp:"));
        CHECK(has_place(sim::race_reports(), "cudaFreeHost at control_unkind.cpp:"));
        CHECK(has_place(sim::race_reports(), "cudaHostUnregister at control_unkind.cpp:"));
        if (!under_thread_sanitizer) {  // the device would have read freed memory
            CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
            CHECK(sim::misuse().illegal_accesses == 1);
        }
    }
    (void)cudaStreamDestroy(s);
    (void)cudaGetLastError();
}

TEST_CASE("an immediate free on a failed device is not a race", "[simulator][unkind]") {
    unkind_machine const on{{.free_at_once = true}};
    auto const s = new_stream(cudaStreamNonBlocking);
    auto const other = new_stream(cudaStreamNonBlocking);
    auto* const d = device_memory(size);
    cuota_simulator_declare(other, d, size, 1);
    REQUIRE(launch(other, "writes", [] {}) == cudaSuccess);
    bool const has_failed = GENERATE(true, false);
    if (has_failed)
        REQUIRE(launch(s, "bad", [] { throw std::runtime_error{"index 7 of 5"}; }) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == (has_failed ? cudaErrorLaunchFailure : cudaSuccess));
    CHECK(cudaFree(d) == (has_failed ? cudaErrorLaunchFailure : cudaSuccess));
    CHECK(sim::misuse().races == (has_failed ? 0 : 1));
    (void)cudaStreamDestroy(other);
    (void)cudaStreamDestroy(s);
    (void)cudaGetLastError();
}

TEST_CASE("memory that is freed at once is not reused while work may access it", "[simulator][unkind]") {
    if (under_thread_sanitizer) CUOTA_SKIP("it would rightly end the program");
    if (under_address_sanitizer) CUOTA_SKIP("it would rightly end the program");
    unkind_machine const on{{.free_at_once = true}};
    auto const s = new_stream(cudaStreamNonBlocking);
    auto const before = free_bytes();
    auto* const d = static_cast<unsigned char*>(device_memory(size));
    std::promise<void> freed, reached;
    REQUIRE(launch(s, "late", [&] {
                reached.set_value();
                freed.get_future().wait();
                CHECK(d[7] == 0xdd);
                d[7] = 1;  // into freed memory
            }) == cudaSuccess);
    reached.get_future().wait();
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(free_bytes() == before);  // the memory counts as free again
    std::vector<void*> others;
    for (int i = 0; i != 20; ++i) others.push_back(device_memory(size));
    for (auto* const p : others) CHECK(p != d);
    freed.set_value();
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    for (auto* const p : others) CHECK(all_are(contents(p, 256), 0xcd));
    for (auto* const p : others) CHECK(cudaFree(p) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("stale errors: each call finds an earlier error of other code", "[simulator][unkind]") {
    unkind_machine const on{{.stale_errors = true}};
    auto const stale = cudaErrorInvalidTexture;
    int device = 0;
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(cudaPeekAtLastError() == stale);
    CHECK(cudaGetLastError() == stale);
    CHECK(cudaGetLastError() == cudaSuccess);  // the reporting functions leave none
    auto const s = new_stream();
    (void)cudaGetLastError();
    bool has_run = false;
    CHECK(launch(s, "good", [&has_run] { has_run = true; }) == cudaSuccess);
    CHECK(cudaGetLastError() == stale);  // set by a successful launch
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(has_run);
    CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);  // an older one persists
    CHECK(cudaGetErrorName(stale) == std::string{"cudaErrorInvalidTexture"});
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    sim::set_unkindness({});
    (void)cudaGetLastError();
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("the environment can choose the unkind behaviours", "[simulator][unkind]") {
    auto const name = "the environment can choose the unkind behaviours";
    if (auto const* const wanted = std::getenv("CUOTA_PLANTED")) {
        auto const chosen = [] {
            auto const [serial, at_once, stale] = sim::current_unkindness();
            return std::string{serial ? "s" : ""} + (at_once ? "f" : "") + (stale ? "e" : "");
        };
        CHECK(chosen() == wanted);
        sim::set_unkindness({});
        CHECK(chosen().empty());
        sim::reset();
        CHECK(chosen() == wanted);
        return;
    }
    CHECK(run_again("CUOTA_PLANTED=sfe CUOTA_SIM_UNKIND=all", name).status == 0);
    CHECK(run_again("CUOTA_PLANTED=s CUOTA_SIM_UNKIND=serial-host", name).status == 0);
    CHECK(run_again("CUOTA_PLANTED=fe CUOTA_SIM_UNKIND=stale-errors,free-at-once", name).status == 0);
    CHECK(run_again("CUOTA_PLANTED=s CUOTA_SIM_UNKIND=free-at-once", name).status > 0);
    auto const wrong = run_again("CUOTA_PLANTED=s CUOTA_SIM_UNKIND=serial-host,rude", name);
    CHECK(wrong.status == 2);
    CHECK(wrong.text.find("CUOTA_SIM_UNKIND=\"serial-host,rude\" is not all, or a list of") !=
          std::string::npos);
}
