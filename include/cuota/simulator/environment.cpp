// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include <pthread.h>

// What happens when the library is loaded and when the program ends.
namespace cuota::inline v0::simulator {
namespace {

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

std::optional<std::size_t> bytes(std::string_view text) {
    constexpr std::pair<std::string_view, int> suffixes[] = {
        {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    int shift = 0;
    for (auto const& [suffix, power] : suffixes)
        if (text.ends_with(suffix)) {
            text.remove_suffix(suffix.size());
            shift = power;
            break;
        }
    auto const value = number(text);
    if (!value || *value > (~std::uint64_t{0} >> shift)) return std::nullopt;
    return *value << shift;
}

/// NAME:N, any:N, either with :sticky
bool plan(std::string_view text) {
    auto const colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    std::string const name{text.substr(0, colon)};
    auto count = text.substr(colon + 1);
    auto kind = fault_kind::once;
    constexpr std::string_view sticky = ":sticky";
    if (count.ends_with(sticky)) {
        count.remove_suffix(sticky.size());
        kind = fault_kind::until_cleared;
    }
    auto const nth = number(count);
    if (!nth) return false;
    try {
        fail_call(name == "any" ? nullptr : name.c_str(), *nth, cudaSuccess, kind);
    } catch (std::invalid_argument const&) { return false; }
    return true;
}

std::optional<order_checks> order_named(std::string_view text) {
    if (text == "off") return order_checks::off;
    if (text == "report") return order_checks::report;
    if (text == "fatal") return order_checks::fatal;
    return std::nullopt;
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
    print("peak_device_bytes", peak);  // of the fullest device
    print("peak_pinned_bytes", m.pinned_peak);
    print("allocation_calls", allocation_calls());
    print("calls", calls());
    print("faults_injected", faults_injected());
    print("misuse", misuse().total());
    print("races", misuse().races);
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

/// Work that never ran is dropped, after its thread's claims on it have become ours.
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
        auto const n = bytes(value);
        if (!n || *n == 0)
            refuse("CUOTA_SIM_MEMORY", value, "an amount of memory such as 8GiB, 512MiB or 1048576");
        shape.capacity = *n;
    }
    if (auto const* const value = std::getenv("CUOTA_SIM_ORDER")) {
        auto const checks = order_named(value);
        if (!checks) refuse("CUOTA_SIM_ORDER", value, "off, report or fatal");
        the_machine().order_checker.initial = *checks;
    }
    reset(shape);
    pthread_atfork(prepare_to_fork, after_fork_in_parent, after_fork_in_child);
    if (auto const* const value = std::getenv("CUOTA_SIM_FAIL"))
        if (!plan(value))
            refuse("CUOTA_SIM_FAIL", value,
                   "FUNCTION:N, any:N or either with :sticky, N from 1, of a known function");
}

/// Runs after the program's own static destructors.
[[gnu::destructor]] void end() {
    sanitizer::quiet quiet;
    the_machine().unloading = true;
    stop_workers();
    drop_queued_work();
    report_as_asked();
}

}  // namespace
}  // namespace cuota::inline v0::simulator
