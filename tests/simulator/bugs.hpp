// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cuda.h>

#include "simulator/control.hpp"

/// Seeded bugs: small programs with one bug each, and the same programs corrected. The simulator must report the bug in one line that names
/// its source locations, and nothing for the corrected program.
namespace control {

inline constexpr std::size_t size = 1000;

inline char* bytes(void* p) { return static_cast<char*>(p); }

// Kernels are called with the address that they access. The simulator must detect their accesses, not the sanitizers.
[[gnu::noinline, gnu::no_sanitize_address, gnu::no_sanitize_thread]] inline void write_byte(void* p) {
    *static_cast<char volatile*>(p) = 1;
}
[[gnu::noinline, gnu::no_sanitize_address, gnu::no_sanitize_thread]] inline void read_byte(void* p) {
    (void)*static_cast<char volatile*>(p);
}
inline void nothing(void*) {}

/// Frees after all work of the current device has finished; a free alone need not wait for it.
inline cudaError_t free_when_done(void* p) {
    (void)cudaDeviceSynchronize();
    return cudaFree(p);
}

/// The objects that a seeded program uses.
struct trial {
    explicit trial(bool is_fixed) : fixed{is_fixed}, wrong{!is_fixed} {
        sim::set_memory_checks(sim::memory_checks::strict);
        sim::set_race_checks(sim::race_checks::report);
        for (auto* const s : {&a, &b}) *s = new_stream(cudaStreamNonBlocking);
        blocking = new_stream();
        for (auto* const e : {&event, &other}) *e = new_event(cudaEventDisableTiming);
        device = bytes(device_memory(size));
        pinned = bytes(pinned_memory(size));
        REQUIRE(cudaMemset(device, 7, size) == cudaSuccess);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
    trial(trial const&) = delete;
    trial& operator=(trial const&) = delete;
    /// The device may have failed: these calls return errors but free the objects anyway.
    ~trial() {
        (void)cudaSetDevice(0);
        (void)cudaDeviceSynchronize();
        (void)cudaFree(device);
        (void)cudaFreeHost(pinned);
        for (auto const s : {a, b, blocking}) (void)cudaStreamDestroy(s);
        for (auto const e : {event, other}) (void)cudaEventDestroy(e);
        for (auto const& f : left_over) f();
        (void)cudaDeviceSynchronize();
    }

    /// Records the caller's line as one that the report must name. The result of the CUDA call is ignored.
    void place(cudaError_t = cudaSuccess, int line = __builtin_LINE()) { places.push_back(line); }
    void place(CUresult, int line = __builtin_LINE()) { places.push_back(line); }

    void order(cudaStream_t first, cudaStream_t then) const {
        REQUIRE(cudaEventRecord(event, first) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(then, event, 0) == cudaSuccess);
    }
    /// Registers the cleanup of objects that a program leaks.
    void finally(std::function<void()> f) { left_over.push_back(std::move(f)); }

    bool const fixed, wrong;
    machine m{{.devices = 2}};
    cudaStream_t a{}, b{}, blocking{};  ///< a and b are non-blocking streams
    cudaEvent_t event{}, other{};
    char* device{};  ///< written by all operations
    char* pinned{};
    std::vector<int> places;
    std::vector<std::function<void()>> left_over;
};

struct bug {
    char const* name;
    std::uint64_t sim::misuse_counts::*counter;  ///< null: a leak
    char const* words;                           ///< text that the report must contain
    void (*program)(trial&);
};

inline std::string joined(std::vector<std::string> const& lines) {
    std::string all;
    for (auto const& line : lines) all += line + '\n';
    return all;
}

/// Returns whether the text contains "file:line", and not only as the prefix of a longer number.
inline bool names(std::string_view text, std::string const& place) {
    for (auto at = text.find(place); at != text.npos; at = text.find(place, at + 1)) {
        auto const end = at + place.size();
        if (end == text.size() || text[end] < '0' || text[end] > '9') return true;
    }
    return false;
}

inline std::vector<std::string> reports_since(std::vector<std::string> const& leaked_before) {
    auto all = sim::misuse_reports();
    for (auto& line : sim::race_reports()) all.push_back(std::move(line));
    for (auto& line : sim::leaks())
        if (std::find(leaked_before.begin(), leaked_before.end(), line) == leaked_before.end())
            all.push_back(std::move(line));
    return all;
}

/// Runs the program with and without its bug. Each bug must be reported in one line that names all its locations.
inline void check(bug const& one, std::string_view file) {
    INFO(one.name);
    file.remove_prefix(file.rfind('/') + 1);
    for (bool const fixed : {false, true}) {
        INFO((fixed ? "put right" : "wrong"));
        trial t{fixed};
        auto const before = sim::leaks();
        one.program(t);
        (void)cudaSetDevice(0);
        (void)cudaDeviceSynchronize();
        auto const reports = reports_since(before);
        INFO(joined(reports));
        if (fixed) {
            CHECK(reports.empty());
            CHECK(sim::misuse().total() == 0);
            CHECK(std::string_view{cuota_simulator_fault()}.empty());
            continue;
        }
        auto const tells = [&](std::string const& line) {
            bool all = line.find(one.words) != line.npos;
            for (auto const place : t.places)
                all = all && names(line, std::string{file} + ':' + std::to_string(place));
            return all;
        };
        std::string wanted{one.words};
        for (auto const place : t.places) wanted += ", :" + std::to_string(place);
        INFO("wanted: " << wanted);
        REQUIRE(!t.places.empty());
        CHECK(std::any_of(reports.begin(), reports.end(), tells));
        if (one.counter) CHECK(sim::misuse().*one.counter >= 1);
    }
}

inline void check_all(std::span<bug const> bugs, char const* file = __builtin_FILE()) {
    for (auto const& one : bugs) DYNAMIC_SECTION(one.name) {
            check(one, file);
        }
}

}  // namespace control
