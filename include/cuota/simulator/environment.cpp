// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"
#include "scheduler.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include <cuda_runtime_api.h>
#include <pthread.h>

#include <cuota/core/bytes.hpp>
#include <cuota/version.hpp>

// Initialization when the library is loaded, and the actions at exit.
namespace cuota::inline v0::simulator {
namespace {

// cuota_import_simulator of cuota_link.cmake reads it in the compiled library.
#define CUOTA_TEXT_OF(x) #x
#define CUOTA_VERSION_TEXT(major, minor, patch, cudart)                                                      \
    "cuota " CUOTA_TEXT_OF(major) "." CUOTA_TEXT_OF(minor) "." CUOTA_TEXT_OF(                                \
        patch) ", simulated runtime for CUDART_VERSION " CUOTA_TEXT_OF(cudart)
[[gnu::used]] char const built_as[] =
    CUOTA_VERSION_TEXT(CUOTA_VERSION_MAJOR, CUOTA_VERSION_MINOR, CUOTA_VERSION_PATCH, CUDART_VERSION);
#undef CUOTA_VERSION_TEXT
#undef CUOTA_TEXT_OF

[[noreturn]] void refuse(char const* variable, char const* value, char const* expected) {
    std::fprintf(stderr, "cuota simulator: %s=\"%s\" is not %s\n", variable, value, expected);
    std::fflush(stderr);
    std::_Exit(2);
}

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

bool take_end(std::string_view& text, std::string_view end) {
    if (!text.ends_with(end)) return false;
    text.remove_suffix(end.size());
    return true;
}

/// Returns 1 if the text has no seed.
std::optional<std::uint64_t> take_seed(std::string_view& text) {
    constexpr std::string_view mark = ":seed=";
    auto const at = text.find(mark);
    if (at == std::string_view::npos) return 1;
    auto const seed = number(text.substr(at + mark.size()));
    text = text.substr(0, at);
    return seed;
}

/// Parses P% or P%:seed=S.
bool plan_by_chance(char const* name, std::string_view text) {
    auto const seed = take_seed(text);
    if (!seed || !take_end(text, "%")) return false;
    double percent = 0;
    auto const [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), percent, std::chars_format::fixed);
    if (error != std::errc{} || end != text.data() + text.size()) return false;
    fail_randomly(name, percent / 100, *seed);
    return true;
}

/// Parses N or N:sticky.
bool plan_by_count(char const* name, std::string_view text) {
    auto const kind = take_end(text, ":sticky") ? fault_kind::until_cleared : fault_kind::once;
    auto const nth = number(text);
    if (nth) fail_call(name, *nth, cudaSuccess, kind);
    return nth.has_value();
}

/// Parses >BYTES, or a function or "any" with a colon and one of the above.
bool plan_one(std::string_view text) {
    if (text.starts_with('>')) {
        auto const most = parse_bytes(text.substr(1));
        if (most) fail_larger_than(*most);
        return most.has_value();
    }
    auto const colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    std::string const named{text.substr(0, colon)};
    auto const* const name = named == "any" ? nullptr : named.c_str();
    auto const how = text.substr(colon + 1);
    try {
        return how.find('%') == std::string_view::npos ? plan_by_count(name, how) : plan_by_chance(name, how);
    } catch (std::invalid_argument const&) { return false; }
}

bool plan(std::string_view text) {
    for (;;) {
        auto const comma = text.find(',');
        if (!plan_one(text.substr(0, comma))) return false;
        if (comma == std::string_view::npos) return true;
        text.remove_prefix(comma + 1);
    }
}

/// Parses 200us or 200us:seed=3.
bool choose_jitter(std::string_view text) {
    auto const seed = take_seed(text);
    auto const most = timing::time_named(text);
    if (!seed || !most) return false;
    auto& m = the_machine();
    m.initial_jitter = std::chrono::duration_cast<std::chrono::microseconds>(*most);
    m.initial_jitter_seed = *seed;
    return true;
}

std::optional<race_checks> race_checks_named(std::string_view text) {
    if (text == "off") return race_checks::off;
    if (text == "report") return race_checks::report;
    if (text == "fatal") return race_checks::fatal;
    return std::nullopt;
}

std::optional<memory_checks> checks_named(std::string_view text) {
    if (text == "off") return memory_checks::off;
    if (text == "heap") return memory_checks::heap;
    if (text == "strict") return memory_checks::strict;
    return std::nullopt;
}

/// Parses workers, late or late:SEED.
bool choose_schedule(std::string_view text) {
    auto& m = the_machine();
    if (text == "workers") return true;
    constexpr std::string_view late = "late", with_seed = "late:";
    auto seed = std::optional<std::uint64_t>{};
    if (text.starts_with(with_seed)) seed = number(text.substr(with_seed.size()));
    else if (text == late) seed = std::random_device{}();
    if (!seed) return false;
    m.initial_schedule = schedule::late;
    m.initial_seed = *seed;
    return true;
}

bool choose_unkindness(std::string_view text) {
    auto& chosen = the_machine().initial_unkindness;
    if (text == "all") {
        chosen = {true, true, true};
        return true;
    }
    for (;;) {
        auto const comma = text.find(',');
        auto const name = text.substr(0, comma);
        if (name == "serial-host") chosen.serial_host = true;
        else if (name == "free-at-once") chosen.free_at_once = true;
        else if (name == "stale-errors") chosen.stale_errors = true;
        else return false;
        if (comma == std::string_view::npos) return true;
        text.remove_prefix(comma + 1);
    }
}

void write_report(std::FILE* out) {
    auto const print = [out](char const* key, std::uint64_t value) {
        std::fprintf(out, "%s=%llu\n", key, static_cast<unsigned long long>(value));
    };
    auto const& m = the_machine();
    std::uint64_t peak = 0;
    for (auto const& d : m.all_devices) peak = std::max<std::uint64_t>(peak, d->peak);
    print("live_device_allocations", m.live.device_allocations);
    print("live_managed_allocations", m.live.managed_allocations);
    print("live_pinned_allocations", m.live.pinned_allocations);
    print("live_streams", m.live.streams);
    print("live_events", m.live.events);
    print("live_pools", m.live.pools);
    print("live_graphs", m.live.graphs);
    print("live_graph_execs", m.live.graph_execs);
    print("live_address_ranges", m.live.address_ranges);
    print("peak_device_bytes", peak);  // maximum over all devices
    print("peak_pinned_bytes", m.pinned_peak);
    print("allocation_calls", allocation_calls());
    print("calls", calls());
    print("faults_injected", faults_injected());
    print("misuse", misuse().total());
    print("races", misuse().races);
    std::fprintf(out, "schedule=%s\n", schedule_in_words().c_str());
    print("schedule_unseeded", current_schedule().unseeded);
    for (std::size_t i = 0; i < function_count; ++i)
        if (auto const n = m.calls[i].load(); n != 0)
            print((std::string{"calls."} + function_names[i]).c_str(), n);
}

void report_as_asked() {
    auto const* const where = std::getenv("CUOTA_SIM_REPORT");
    if (!where || !*where) return;
    if (std::string_view{where} == "stderr") return write_report(stderr);
    if (auto* const file = std::fopen(where, "w")) {
        write_report(file);
        std::fclose(file);
    } else {
        std::fprintf(stderr, "cuota simulator: cannot write the report to \"%s\"\n", where);
    }
}

/// Called after stop_workers.
void drop_queued_work() {
    auto& m = the_machine();
    std::deque<operation_ref> left;
    {
        guard lock{m.mutex};
        auto const take = [&left](stream& s) {
            for (auto& work : std::exchange(s.queue, {})) left.push_back(std::move(work));
            s.last = nullptr;
        };
        for (auto const& d : m.all_devices) {
            take(*d->legacy);
            for (auto const& s : d->streams) take(*s);
        }
    }
    for (auto const& work : left) {
        work->after.clear();
        work->on = nullptr;
    }
}

[[gnu::constructor]] void read_environment() {
    sanitizer::quiet quiet;
    options shape;
    if (auto const* const value = std::getenv("CUOTA_SIM_DEVICES")) {
        auto const n = number(value);
        if (!n || *n > most_devices) refuse("CUOTA_SIM_DEVICES", value, "a number of devices from 0 to 16");
        shape.devices = static_cast<int>(*n);
    }
    if (auto const* const value = std::getenv("CUOTA_SIM_MEMORY")) {
        auto const n = parse_bytes(value);
        if (!n || *n == 0)
            refuse("CUOTA_SIM_MEMORY", value, "an amount of memory such as 8GiB, 512MiB or 1048576");
        shape.capacity = *n;
    }
    if (auto const* const value = std::getenv("CUOTA_SIM_RACES")) {
        auto const checks = race_checks_named(value);
        if (!checks) refuse("CUOTA_SIM_RACES", value, "off, report or fatal");
        the_machine().race_checker.initial = *checks;
    }
    if (auto const* const value = std::getenv("CUOTA_SIM_CHECKS")) {
        auto const checks = checks_named(value);
        if (!checks) refuse("CUOTA_SIM_CHECKS", value, "off, heap or strict");
        the_machine().initial_memory = *checks;
    }
    if (auto const* const value = std::getenv("CUOTA_SIM_MISUSE")) {
        std::string_view const text{value};
        if (text != "report" && text != "fatal") refuse("CUOTA_SIM_MISUSE", value, "report or fatal");
        the_machine().initial_misuse = text == "fatal" ? on_misuse::fatal : on_misuse::report;
    }
    if (auto const* const value = std::getenv("CUOTA_SIM_SCHEDULE"))
        if (!choose_schedule(value)) refuse("CUOTA_SIM_SCHEDULE", value, "workers, late or late:SEED");
    if (auto const* const value = std::getenv("CUOTA_SIM_LINK")) {
        auto const link = timing::link_named(value);
        if (!link) refuse("CUOTA_SIM_LINK", value, "speeds, times and engines such as 25GB/s,10us,engines=2");
        timing::set_initial(*link);
    }
    if (auto const* const value = std::getenv("CUOTA_SIM_JITTER"))
        if (!choose_jitter(value)) refuse("CUOTA_SIM_JITTER", value, "a time such as 200us or 200us:seed=3");
    if (auto const* const value = std::getenv("CUOTA_SIM_UNKIND"))
        if (!choose_unkindness(value))
            refuse("CUOTA_SIM_UNKIND", value, "all, or a list of serial-host, free-at-once and stale-errors");
    reset(shape);
    if (auto const* const value = std::getenv("CUOTA_SIM_OTHERS")) {
        auto const n = parse_bytes(value);
        if (!n) refuse("CUOTA_SIM_OTHERS", value, "an amount of memory such as 2GiB or 1048576");
        for (int i = 0; i < shape.devices; ++i) set_other_programs(i, *n);
    }
    pthread_atfork(prepare_to_fork, after_fork_in_parent, after_fork_in_child);
    if (auto const* const value = std::getenv("CUOTA_SIM_FAIL"))
        if (!plan(value))
            refuse(
                "CUOTA_SIM_FAIL", value,
                "a list of NAME:N, NAME:N:sticky, NAME:P%, NAME:P%:seed=S and >BYTES, where NAME is a known "
                "function or any, and N counts from 1");
    if (auto const* const value = std::getenv("CUOTA_SIM_SCHEDULE");
        value && std::string_view{value} == "late")
        std::fprintf(stderr, "cuota simulator: CUOTA_SIM_SCHEDULE=%s\n", schedule_in_words().c_str());
}

/// Runs after the program's static destructors.
[[gnu::destructor]] void end() {
    sanitizer::quiet quiet;
    the_machine().unloading = true;
    stop_workers();
    drop_queued_work();
    report_as_asked();
}

}  // namespace
}  // namespace cuota::inline v0::simulator
