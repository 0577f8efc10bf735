// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

// The simulator from outside of a program: environment variables, the report at exit, forked children.

using namespace control;

namespace {

constexpr char const* plain_test = "a program that allocates, frees and queries the free memory";

outcome run_plain(std::string const& variables) {
    // Only the simulator's accounting is tested, so LeakSanitizer must not fail leaking children.
    return run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_SIM_REPORT=stderr " + variables, plain_test);
}

}  // namespace

TEST_CASE("a program that allocates, frees and queries the free memory", "[simulator][process]") {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    auto const before = free_bytes();
    auto* const d = device_memory(1000);
    CHECK(cudaFreeHost(pinned_memory(1000)) == cudaSuccess);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFree(nullptr) == cudaSuccess);
    std::size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
    CHECK(free == before);
    int count = 0;
    CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
    for (int i = 0; i < count; ++i) {
        CHECK(cudaSetDevice(i) == cudaSuccess);
        CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
        CHECK(total >= 4096);
    }
    CHECK(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("the report at exit shows what was used", "[simulator][process]") {
    auto const r = run_plain("");
    INFO(r.text);
    CHECK(r.status == 0);
    CHECK(r.report.at("live_device_allocations") == 0);
    CHECK(r.report.at("live_pinned_allocations") == 0);
    CHECK(r.report.at("live_streams") == 0);
    CHECK(r.report.at("live_events") == 0);
    CHECK(r.report.at("live_pools") == 0);
    CHECK(r.report.at("peak_device_bytes") == 1024);
    CHECK(r.report.at("peak_pinned_bytes") == 1000);
    CHECK(r.report.at("allocation_calls") == 2);
    CHECK(r.report.at("faults_injected") == 0);
    CHECK(r.report.at("misuse") == 0);
    CHECK(r.report.at("calls.cudaMalloc") == 1);
    CHECK(r.report.at("calls.cudaFree") == 2);
    CHECK(r.report.count("calls.cudaStreamCreate") == 0);
    CHECK(r.report.at("calls") >= 6);
}

TEST_CASE("the report at exit can be written to a file", "[simulator][process]") {
    auto const file = std::filesystem::temp_directory_path() / ("cuota_report_" + std::to_string(getpid()));
    CHECK(run_plain("CUOTA_SIM_REPORT=" + file.string()).report.empty());
    CHECK(std::filesystem::file_size(file) > 100);
    std::filesystem::remove(file);
}

TEST_CASE("the environment can make calls fail", "[simulator][process]") {
    SECTION("one function, which causes a leak") {
        auto const r = run_plain("CUOTA_SIM_FAIL=cudaFree:1");
        INFO(r.text);
        CHECK(r.status != 0);
        CHECK(r.report.at("faults_injected") == 1);
        CHECK(r.report.at("live_device_allocations") == 1);
    }
    SECTION("any function") {
        auto const r = run_plain("CUOTA_SIM_FAIL=any:4");
        CHECK(r.status != 0);
        CHECK(r.report.at("faults_injected") == 1);
        CHECK(r.report.at("calls.cudaMallocHost") == 1);
        CHECK(r.report.at("live_pinned_allocations") == 0);
    }
    SECTION("from that call on") {
        auto const r = run_plain("CUOTA_SIM_FAIL=cudaFree:2:sticky");
        CHECK(r.status != 0);
        CHECK(r.report.at("faults_injected") == 1);
        CHECK(r.report.at("live_device_allocations") == 0);
    }
    SECTION("no call, if there are fewer") {
        auto const r = run_plain("CUOTA_SIM_FAIL=cudaFree:3");
        CHECK(r.status == 0);
        CHECK(r.report.at("faults_injected") == 0);
    }
}

TEST_CASE("the environment can make calls fail at random and by size", "[simulator][process]") {
    SECTION("always") {
        auto const r = run_plain("CUOTA_SIM_FAIL=cudaMemGetInfo:100%");
        INFO(r.text);
        CHECK(r.status != 0);
        CHECK(r.report.at("faults_injected") >= 1);
        CHECK(r.report.count("calls.cudaMalloc") == 0);  // a test stops at the first
    }
    SECTION("never") {
        auto const r = run_plain("CUOTA_SIM_FAIL=any:0%:seed=7");
        CHECK(r.status == 0);
        CHECK(r.report.at("faults_injected") == 0);
    }
    SECTION("the same calls for the same seed, others for another") {
        auto const calls = [](std::string const& chance) {
            auto report = run_plain("CUOTA_SIM_DEVICES=16 CUOTA_SIM_FAIL=cudaSetDevice:" + chance).report;
            return report.at("faults_injected");
        };
        auto const first = calls("50%:seed=1");
        CHECK(first == calls("50%"));
        CHECK(first == calls("50.0%:seed=1"));
        bool differs = false;
        for (int seed = 2; seed <= 20; ++seed)
            differs = differs || calls("50%:seed=" + std::to_string(seed)) != first;
        CHECK(differs);
    }
    SECTION("larger allocations") {
        auto const r = run_plain("CUOTA_SIM_FAIL='>999'");
        INFO(r.text);
        CHECK(r.status != 0);
        CHECK(r.report.at("faults_injected") == 1);
        CHECK(run_plain("CUOTA_SIM_FAIL='>1000'").status == 0);
    }
    SECTION("several faults") {
        auto const r = run_plain("CUOTA_SIM_FAIL='cudaFree:9,cudaFree:2:sticky,any:0%,>1MiB'");
        CHECK(r.status != 0);
        CHECK(r.report.at("faults_injected") == 1);
    }
}

TEST_CASE("the environment can set other programs' memory and jitter", "[simulator][process]") {
    CHECK(run_plain("CUOTA_SIM_MEMORY=1MiB CUOTA_SIM_OTHERS=1020KiB").status == 0);
    CHECK(run_plain("CUOTA_SIM_MEMORY=1MiB CUOTA_SIM_OTHERS=1MiB").status != 0);  // too little left
    CHECK(run_plain("CUOTA_SIM_JITTER=100us").status == 0);
    CHECK(run_plain("CUOTA_SIM_JITTER=0.1ms:seed=3").status == 0);
}

TEST_CASE("the environment can set the machine's shape", "[simulator][process]") {
    CHECK(run_plain("CUOTA_SIM_DEVICES=3").report.at("calls.cudaSetDevice") == 4);
    CHECK(run_plain("CUOTA_SIM_MEMORY=4KiB").status == 0);
    CHECK(run_plain("CUOTA_SIM_MEMORY=4096").status == 0);
    CHECK(run_plain("CUOTA_SIM_MEMORY=512").status != 0);
    CHECK(run_plain("CUOTA_SIM_MEMORY=1MiB CUOTA_SIM_DEVICES=0").status != 0);
}

TEST_CASE("an invalid variable ends the program with one line that names it", "[simulator][process]") {
    auto const wrong = GENERATE(
        "CUOTA_SIM_DEVICES=many", "CUOTA_SIM_DEVICES=17", "CUOTA_SIM_DEVICES=-1", "CUOTA_SIM_DEVICES=''",
        "CUOTA_SIM_MEMORY=8GB", "CUOTA_SIM_MEMORY=0", "CUOTA_SIM_MEMORY=99999999999TiB",
        "CUOTA_SIM_FAIL=cudaMalloc", "CUOTA_SIM_FAIL=cudaNothing:1", "CUOTA_SIM_FAIL=any:0",
        "CUOTA_SIM_FAIL=any:1:often", "CUOTA_SIM_FAIL=cudaGetLastError:1", "CUOTA_SIM_FAIL=''",
        "CUOTA_SIM_FAIL=cudaFree:1,", "CUOTA_SIM_FAIL=,cudaFree:1", "CUOTA_SIM_FAIL=any:101%",
        "CUOTA_SIM_FAIL=any:-5%", "CUOTA_SIM_FAIL=any:%", "CUOTA_SIM_FAIL=any:nan%",
        "CUOTA_SIM_FAIL=any:5%:seed=", "CUOTA_SIM_FAIL=any:5%:sticky", "CUOTA_SIM_FAIL=any:5:seed=2",
        "CUOTA_SIM_FAIL=cudaNothing:5%", "CUOTA_SIM_FAIL='>'", "CUOTA_SIM_FAIL='>1GB'", "CUOTA_SIM_JITTER=''",
        "CUOTA_SIM_JITTER=200", "CUOTA_SIM_JITTER=-1us", "CUOTA_SIM_JITTER=1us:seed=x", "CUOTA_SIM_OTHERS=''",
        "CUOTA_SIM_OTHERS=2GB");
    INFO(wrong);
    auto const r = run_plain(wrong);
    INFO(r.text);
    CHECK(r.status == 2);
    std::string const name{wrong, 0, std::string{wrong}.find('=')};
    CHECK(r.text.find(name) != std::string::npos);
    CHECK(std::count(r.text.begin(), r.text.end(), '\n') == 1);
}

TEST_CASE("a forked child can use new streams and its parent's", "[simulator][process]") {
    if (under_thread_sanitizer) CUOTA_SKIP("it lets no child of a program with threads start threads");
    machine m;
    auto const s = new_stream();
    REQUIRE(launch(s, "k", [] {}) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    auto const child = fork();
    if (child == 0) {
        std::atomic<int> runs{0};
        bool good = launch(s, "k", [&] { ++runs; }) == cudaSuccess &&
                    launch(nullptr, "k", [&] { ++runs; }) == cudaSuccess;
        good = good && cudaDeviceSynchronize() == cudaSuccess && runs == 2;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("static objects can free memory after main", "[simulator][process]") {
    constexpr char const* name = "static objects can free memory after main";
    struct holder {
        ~holder() {
            (void)cudaStreamSynchronize(s);
            std::printf("freed: %s, %s\n", cudaGetErrorName(cudaFree(memory)),
                        cudaGetErrorName(cudaStreamDestroy(s)));
            std::fflush(stdout);
        }
        void* memory = device_memory(100);
        cudaStream_t s = new_stream();
    };
    if (std::getenv("CUOTA_PLANTED")) {
        static holder const one;
        REQUIRE(cudaMemsetAsync(one.memory, 1, 100, one.s) == cudaSuccess);
        return;
    }
    auto const r = run_again("CUOTA_SIM_REPORT=stderr CUOTA_PLANTED=1", name);
    INFO(r.text);
    CHECK(r.status == 0);
    CHECK(r.text.find("freed: cudaSuccess, cudaSuccess") != std::string::npos);
    CHECK(r.report.at("live_device_allocations") == 0);
    CHECK(r.report.at("live_streams") == 0);
    CHECK(r.report.at("misuse") == 0);
}

TEST_CASE("a program ends even if work is still queued", "[simulator][process]") {
    constexpr char const* name = "a program ends even if work is still queued";
    if (std::getenv("CUOTA_PLANTED")) {
        static auto* const never = new sim::hold;  // never destroyed
        (void)never;
        auto const s = new_stream();
        auto* const d = device_memory(100);
        REQUIRE(cudaMemsetAsync(d, 1, 100, s) == cudaSuccess);
        REQUIRE(cudaLaunchHostFunc(
                    s, [](void*) { std::puts("it ran"); }, nullptr) == cudaSuccess);
        std::exit(3);
    }
    auto const r = run_again("ASAN_OPTIONS=detect_leaks=0 CUOTA_SIM_REPORT=stderr CUOTA_PLANTED=1", name);
    INFO(r.text);
    CHECK(r.status == 3);
    CHECK(r.text.find("it ran") == std::string::npos);
    CHECK(r.report.at("live_device_allocations") == 1);
}
