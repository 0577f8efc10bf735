// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

// Ten bugs of CUDA programs, each with its corrected twin, under ten seeds. The table lists each bug's detector by build: the simulator
// with strict memory in the plain build, the sanitizer in its build. In every build all detectors must be silent about the twin.
// CUOTA_PLANTED_TABLE prints the counts.

using namespace control;

namespace {

constexpr int seeds = 10, enough = 9;
constexpr int count = 4096;
constexpr std::size_t whole = count * sizeof(int);

void seed_the_machine(int seed) {
    sim::set_jitter(static_cast<std::uint64_t>(seed), std::chrono::microseconds{300});
}

/// The objects that the programs use. Elements are ints: byte by byte, g++ 12's ThreadSanitizer misses races.
struct workbench {
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = new_event(cudaEventDisableTiming);
    int* device = static_cast<int*>(device_memory(whole));
    int* pinned = reinterpret_cast<int*>(pinned_memory(whole));
    bool fixed;
    bool right = true;  ///< the values that the host has read are correct

    explicit workbench(bool is_fixed) : fixed{is_fixed} {
        REQUIRE(cudaMemset(device, 0, whole) == cudaSuccess);
        std::fill_n(pinned, count, 0);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    workbench(workbench const&) = delete;
    workbench& operator=(workbench const&) = delete;
    /// The device may have failed.
    ~workbench() {
        (void)cudaDeviceSynchronize();
        (void)cudaFree(device);
        (void)cudaFreeHost(pinned);
        (void)cudaEventDestroy(event);
        (void)cudaStreamDestroy(a);
        (void)cudaStreamDestroy(b);
    }

    static void write(cudaStream_t s, void* to, int value, int n = count) {
        auto* const p = static_cast<int*>(to);
        cuota_simulator_declare(s, p, static_cast<std::size_t>(n) * sizeof(int), 1);
        REQUIRE(launch(s, "write", [=] {
                    for (int i = 0; i < n; ++i) p[i] = value;
                }) == cudaSuccess);
    }
    void order(cudaStream_t first, cudaStream_t then) const {
        REQUIRE(cudaEventRecord(event, first) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(then, event, 0) == cudaSuccess);
    }
    void download(cudaStream_t s) const {
        REQUIRE(cudaMemcpyAsync(pinned, device, whole, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    }
    void must_be(int value) {
        for (int i = 0; i < count; ++i) right = right && pinned[i] == value;
    }
};

/// The detectors of a bug by build, named by sections of a child's output. In brackets: detects it sometimes; counted but not required.
/// Empty: not run in that build.
struct planted {
    char const* name;
    char const *plain, *asan, *tsan;
    void (*program)(workbench&);
};

constexpr planted table[] = {
    {"missing event between two streams", "order", "order", "tsan",
     [](workbench& w) {
         w.write(w.a, w.device, 1);
         if (w.fixed) w.order(w.a, w.b);
         w.write(w.b, w.device, 2);
     }},
    {"host reads pinned buffer before sync", "(value)", "(value)", "tsan",
     [](workbench& w) {
         w.write(w.a, w.device, 1);
         w.download(w.a);
         if (w.fixed) REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess);
         w.must_be(1);
     }},
    {"use of async-freed memory by another stream", "strict", "asan", "",
     [](workbench& w) {
         void* p = nullptr;
         REQUIRE(cudaMallocAsync(&p, whole, w.a) == cudaSuccess);
         if (!w.fixed) REQUIRE(cudaFreeAsync(p, w.a) == cudaSuccess);
         REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess);
         w.write(w.b, p, 1);
         if (w.fixed) REQUIRE(cudaFreeAsync(p, w.b) == cudaSuccess);
     }},
    {"pool hands block to other stream without event", "order", "order", "tsan",
     [](workbench& w) {
         std::vector<int*> blocks{w.device};
         auto const take = [&](cudaStream_t before, cudaStream_t s) {
             auto* const block = blocks.back();
             blocks.pop_back();
             if (w.fixed && before != s) w.order(before, s);
             return block;
         };
         auto* const first = take(w.a, w.a);
         w.write(w.a, first, 1);
         blocks.push_back(first);
         w.write(w.b, take(w.a, w.b), 2);
     }},
    {"host dereferences device memory", "strict", "", "",
     [](workbench& w) {
         REQUIRE(cudaMemcpy(w.pinned, w.device, whole, cudaMemcpyDeviceToHost) == cudaSuccess);
         auto const volatile* const p = w.fixed ? w.pinned : w.device;
         w.right = p[0] == 0;
     }},
    {"cudaMalloc leak", "leak", "lsan", "",
     [](workbench& w) {
         auto* const p = device_memory(whole);
         w.write(w.a, p, 1);
         REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess);
         if (w.fixed) REQUIRE(cudaFree(p) == cudaSuccess);
     }},
    {"out-of-bounds kernel", "strict", "asan", "",
     [](workbench& w) { w.write(w.a, w.device, 1, count + !w.fixed); }},
    {"use on stream B before cudaMallocAsync on A is reached", "order", "(order) (asan)", "tsan",
     [](workbench& w) {
         void* p = nullptr;
         w.write(w.a, w.device, 1);  // gives the stream some work first
         REQUIRE(cudaMallocAsync(&p, whole, w.a) == cudaSuccess);
         if (w.fixed) w.order(w.a, w.b);
         w.write(w.b, p, 1);
         (void)cudaStreamSynchronize(w.b);
         (void)cudaFreeAsync(p, w.b);
     }},
    {"use of the middle of a large block before cudaMallocAsync on another stream is reached", "order",
     "(order) (asan)", "tsan",
     [](workbench& w) {
         constexpr std::size_t large = std::size_t{8} << 20;
         void* p = nullptr;
         w.write(w.a, w.device, 1);
         REQUIRE(cudaMallocAsync(&p, large, w.a) == cudaSuccess);
         if (w.fixed) w.order(w.a, w.b);
         w.write(w.b, static_cast<int*>(p) + large / 2 / sizeof(int), 1);
         (void)cudaStreamSynchronize(w.b);
         (void)cudaFreeAsync(p, w.a);
     }},
    {"pinned source overwritten while copy in flight", "(value)", "(value)", "tsan",
     [](workbench& w) {
         std::fill_n(w.pinned, count, 1);
         REQUIRE(cudaMemcpyAsync(w.device, w.pinned, whole, cudaMemcpyHostToDevice, w.a) == cudaSuccess);
         if (w.fixed) REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess);
         std::fill_n(w.pinned, count, 2);
         REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess);
         w.download(w.a);
         REQUIRE(cudaStreamSynchronize(w.a) == cudaSuccess);
         w.must_be(1);
     }},
    {"event recorded on the wrong stream", "order (value)", "order (value)", "tsan",
     [](workbench& w) {
         w.write(w.a, w.device, 1);
         REQUIRE(cudaEventRecord(w.event, w.fixed ? w.a : w.b) == cudaSuccess);
         REQUIRE(cudaStreamWaitEvent(w.b, w.event, 0) == cudaSuccess);
         w.download(w.b);
         REQUIRE(cudaStreamSynchronize(w.b) == cudaSuccess);
         w.must_be(1);
     }},
};

constexpr char const* expected(planted const& p) {
    return under_thread_sanitizer ? p.tsan : under_address_sanitizer ? p.asan : p.plain;
}

// ---- the child ----

/// Runs a program once, and prints the simulator's counts and whether the values are correct.
void run_once(planted const& p, bool fixed, int seed) {
    std::size_t alive = 0;
    bool right = true;
    {
        seed_the_machine(seed);
        workbench w{fixed};
        auto const before = sim::live().total();
        p.program(w);
        (void)cudaDeviceSynchronize();
        alive = sim::live().total() - before;
        right = w.right;
    }
    auto const wrong = sim::misuse();
    if (wrong.races != 0) std::fputs("[order]\n", stderr);
    if (wrong.total() != wrong.races) std::fputs("[strict]\n", stderr);
    if (alive != 0) std::fputs("[leak]\n", stderr);
    if (!right) std::fputs("[value]\n", stderr);
    std::fputs("[end]\n", stderr);
}

/// A bug may end its process, so each run has its own.
void run_all_seeds(planted const& p, bool fixed) {
    for (int seed = 1; seed <= seeds; ++seed) {
        std::fprintf(stderr, "[seed]\n");
        auto const child = fork();  // of a process that has not started a thread yet
        REQUIRE(child >= 0);
        if (child == 0) {
            run_once(p, fixed, seed);
            std::exit(0);
        }
        REQUIRE(waitpid(child, nullptr, 0) == child);
    }
}

// ---- the parent ----

struct mode {
    char const* name;
    char const* sign;
};
constexpr mode modes[] = {
    {"order", "[order]"},
    {"strict", "[strict]"},
    {"strict", "cuota simulator: host code"},
    {"leak", "[leak]"},
    {"value", "[value]"},
    {"asan", "ERROR: AddressSanitizer"},
    {"lsan", "ERROR: LeakSanitizer"},
    {"tsan", "WARNING: ThreadSanitizer"},
};

struct findings {
    std::map<std::string, int> by_mode;  ///< number of seeds
    int complete = 0;                    ///< seeds that ran to completion
    int begun = 0;
};

findings findings_of(std::string const& text) {
    findings result;
    for (auto at = text.find("[seed]"); at != text.npos; ++result.begun) {
        auto const next = text.find("[seed]", at + 1);
        auto const section = text.substr(at, next - at);
        std::map<std::string, int> here;
        for (auto const& [name, sign] : modes)
            if (section.find(sign) != section.npos) here[name] = 1;
        for (auto const& [name, one] : here) result.by_mode[name] += one;
        result.complete += section.find("[end]") != section.npos;
        at = next;
    }
    return result;
}

outcome run_in_child(std::size_t index, bool fixed) {
    std::string const checks = under_thread_sanitizer || under_address_sanitizer ? "CUOTA_SIM_CHECKS=heap "
                                                                                 : "CUOTA_SIM_CHECKS=strict ";
    return run_again(checks + "CUOTA_SIM_RACES=report CUOTA_PLANTED=" + (fixed ? "+" : "-") +
                         std::to_string(index),
                     "planted bugs are found, and their correct twins are clean");
}

std::string in_words(findings const& f) {
    std::string all;
    for (auto const& [name, n] : f.by_mode) all += ' ' + name + ' ' + std::to_string(n);
    return all.empty() ? " -" : all;
}

void check_twin(std::size_t index) {
    auto const r = run_in_child(index, true);
    INFO(r.text);
    CHECK(r.status == 0);
    auto const f = findings_of(r.text);
    CHECK(f.begun == seeds);
    CHECK(f.complete == seeds);
    CHECK(f.by_mode.empty());
}

void check_bug(std::size_t index) {
    std::string_view const wanted = expected(table[index]);
    if (wanted.empty()) return;  // tested in another build: see the table
    auto const r = run_in_child(index, false);
    auto const f = findings_of(r.text);
    if (std::getenv("CUOTA_PLANTED_TABLE"))
        std::cout << "  " << std::left << std::setw(56) << table[index].name << in_words(f) << std::endl;
    INFO(r.text);
    CHECK(f.begun == seeds);
    std::istringstream words{std::string{wanted}};
    for (std::string word; words >> word;)
        if (word.front() != '(') {
            INFO(word);
            CHECK((f.by_mode.count(word) ? f.by_mode.at(word) : 0) >= enough);
        }
}

/// Returns whether at least one build detects it always.
constexpr bool is_found(planted const& p) {
    for (auto const* const modes_of_build : {p.plain, p.asan, p.tsan})
        if (*modes_of_build != '\0' && *modes_of_build != '(') return true;
    return false;
}
static_assert(std::size(table) == 11 && std::all_of(std::begin(table), std::end(table), is_found));

}  // namespace

TEST_CASE("planted bugs are found, and their correct twins are clean", "[simulator][planted]") {
    if (auto const* const which = std::getenv("CUOTA_PLANTED"))
        return run_all_seeds(table[std::strtoul(which + 1, nullptr, 10)], *which == '+');
    for (std::size_t i = 0; i < std::size(table); ++i) DYNAMIC_SECTION(table[i].name) {
            check_bug(i);
            check_twin(i);
        }
}
