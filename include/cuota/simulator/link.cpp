// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <thread>

#include <sys/prctl.h>

namespace cuota::inline v0::simulator {
namespace timing {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr std::size_t intervals_kept = 10'000;

/// Has its own mutex, because work waits without the machine's lock.
struct clockwork {
    std::mutex mutex;
    std::atomic<bool> timed{false};
    link_options link, initial;
    std::map<std::string, nanoseconds, std::less<>> kernels;
    /// When each engine becomes free.
    std::array<std::array<std::vector<clock::time_point>, 3>, most_devices> free_at;
    /// The number of copies up to the delayed one, and its delay.
    std::vector<std::pair<std::uint64_t, nanoseconds>> delays;
    std::deque<work_interval> work_intervals;
    clock::time_point start = clock::now();
};

clockwork& the_clockwork() {
    static auto* const the_one = new clockwork;
    return *the_one;
}

std::uint64_t speed_of(link_options const& link, work_kind what) {
    switch (what) {
        case work_kind::to_device: return link.to_device;
        case work_kind::to_host: return link.to_host;
        default: return link.on_device;
    }
}

nanoseconds time_of(link_options const& link, work_kind what, std::size_t bytes, bool has_latency) {
    auto const speed = speed_of(link, what);
    auto const moving =
        speed == 0 ? 0.0 : std::ceil(static_cast<double>(bytes) * 1e9 / static_cast<double>(speed));
    return nanoseconds{static_cast<std::int64_t>(moving)} + (has_latency ? link.latency : nanoseconds{0});
}

void note(clockwork& c, work_interval one) {
    if (c.work_intervals.size() == intervals_kept) c.work_intervals.pop_front();
    c.work_intervals.push_back(one);
}

nanoseconds since_start(clockwork const& c, clock::time_point t) { return t - c.start; }

/// With the default timer slack, Linux may wake a thread 50 us late.
void sleep_until(clock::time_point when) {
    if (when <= clock::now()) return;
    auto& m = the_machine();
    auto const usual = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1);
    ++m.delayed;
    std::this_thread::sleep_until(when);
    --m.delayed;
    if (usual > 0) prctl(PR_SET_TIMERSLACK, usual);
}

nanoseconds take_delay(clockwork& c) {
    nanoseconds sum{0};
    for (auto& [left, by] : c.delays)
        if (--left == 0) sum += by;
    std::erase_if(c.delays, [](auto const& one) { return one.first == 0; });
    return sum;
}

bool anything(clockwork const& c) {
    auto const& l = c.link;
    bool const link = l.to_device || l.to_host || l.on_device || l.latency.count() || l.kernel.count();
    return link || !c.kernels.empty() || !c.delays.empty();
}

void begin_anew(clockwork& c, link_options const& wanted) {
    c.link = wanted;
    c.work_intervals.clear();
    c.start = clock::now();
    for (auto& device : c.free_at)
        for (auto& engines : device) engines.assign(static_cast<std::size_t>(wanted.engines), c.start);
    c.timed = anything(c);
}

// ---- Parsing of CUOTA_SIM_LINK ----

struct measure {
    double value;
    std::string_view unit;
};

std::optional<measure> measured(std::string_view text) {
    double value = 0;
    auto const [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
    return measure{value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<double> in_units_of(std::string_view text,
                                  std::initializer_list<std::pair<std::string_view, double>> units) {
    auto const m = measured(text);
    if (!m) return std::nullopt;
    for (auto const& [name, factor] : units)
        if (m->unit == name && m->value * factor <= 1e18) return m->value * factor;
    return std::nullopt;
}

bool read_speed(std::string_view text, std::initializer_list<std::uint64_t*> out) {
    auto const speed = in_units_of(text, {{"KB/s", 1e3},
                                          {"MB/s", 1e6},
                                          {"GB/s", 1e9},
                                          {"TB/s", 1e12},
                                          {"KiB/s", 0x1p10},
                                          {"MiB/s", 0x1p20},
                                          {"GiB/s", 0x1p30},
                                          {"TiB/s", 0x1p40}});
    if (!speed || *speed < 1) return false;
    for (auto* const one : out) *one = static_cast<std::uint64_t>(*speed);
    return true;
}

bool read_time(std::string_view text, nanoseconds& out) {
    auto const time = time_named(text);
    out = time.value_or(out);
    return time.has_value();
}

bool read_engines(std::string_view text, int& out) {
    auto const m = measured(text);
    if (!m || !m->unit.empty() || m->value != std::floor(m->value) || m->value < 1 || m->value > 16)
        return false;
    out = static_cast<int>(m->value);
    return true;
}

bool read_part(std::string_view part, link_options& link) {
    auto const equals = part.find('=');
    if (equals == std::string_view::npos)
        return read_speed(part, {&link.to_device, &link.to_host}) || read_time(part, link.latency);
    auto const name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "h2d") return read_speed(value, {&link.to_device});
    if (name == "d2h") return read_speed(value, {&link.to_host});
    if (name == "d2d") return read_speed(value, {&link.on_device});
    if (name == "latency") return read_time(value, link.latency);
    if (name == "kernel") return read_time(value, link.kernel);
    return name == "engines" && read_engines(value, link.engines);
}

}  // namespace

std::optional<work_kind> way(bool from_device, bool to_device) {
    if (from_device && to_device) return work_kind::on_device;
    if (to_device) return work_kind::to_device;
    if (from_device) return work_kind::to_host;
    return std::nullopt;
}

copy_on_link::copy_on_link(std::optional<work_kind> what, int device, std::size_t bytes, bool has_latency) {
    auto& c = the_clockwork();
    if (!what || !c.timed.load(std::memory_order_relaxed)) return;
    clock::time_point moves{};
    {
        std::lock_guard lock{c.mutex};
        auto& engines = c.free_at[static_cast<std::size_t>(device)][static_cast<std::size_t>(*what)];
        auto const engine = std::min_element(engines.begin(), engines.end());
        auto const begin = std::max(clock::now(), *engine);
        auto const late = take_delay(c);
        moves = begin + late + (has_latency ? c.link.latency : nanoseconds{0});
        end_ = begin + late + time_of(c.link, *what, bytes, has_latency);
        *engine = end_;
        note(c, {*what, device, static_cast<int>(engine - engines.begin()), bytes, since_start(c, begin),
                 since_start(c, end_)});
    }
    sleep_until(moves);
}

copy_on_link::~copy_on_link() { sleep_until(end_); }

kernel_on_device::kernel_on_device(std::string const& name, int device) : device_{device} {
    auto& c = the_clockwork();
    if (!c.timed.load(std::memory_order_relaxed)) return;
    std::lock_guard lock{c.mutex};
    auto const own = c.kernels.find(name);
    least_ = own == c.kernels.end() ? c.link.kernel : own->second;
    begin_ = clock::now();
}

kernel_on_device::~kernel_on_device() {
    if (!least_) return;
    sleep_until(begin_ + *least_);
    auto& c = the_clockwork();
    std::lock_guard lock{c.mutex};
    note(c, {work_kind::kernel, device_, 0, 0, since_start(c, begin_), since_start(c, clock::now())});
}

std::optional<nanoseconds> time_named(std::string_view text) {
    auto const time = in_units_of(text, {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}});
    if (!time) return std::nullopt;
    return nanoseconds{static_cast<std::int64_t>(*time)};
}

std::optional<link_options> link_named(std::string_view text) {
    link_options link;
    for (;;) {
        auto const comma = text.find(',');
        if (!read_part(text.substr(0, comma), link)) return std::nullopt;
        if (comma == std::string_view::npos) return link;
        text.remove_prefix(comma + 1);
    }
}

void set_initial(link_options const& wanted) { the_clockwork().initial = wanted; }

void reset() {
    auto& c = the_clockwork();
    std::lock_guard lock{c.mutex};
    c.kernels.clear();
    c.delays.clear();
    begin_anew(c, c.initial);
}

}  // namespace timing

using timing::the_clockwork;

void set_link(link_options const& wanted) {
    sanitizer::quiet quiet;
    if (wanted.engines < 1 || wanted.engines > 16)
        throw std::invalid_argument{"the number of copy engines in a direction must be from 1 to 16"};
    if (wanted.latency.count() < 0 || wanted.kernel.count() < 0)
        throw std::invalid_argument{"times must not be negative"};
    auto& c = the_clockwork();
    std::lock_guard lock{c.mutex};
    timing::begin_anew(c, wanted);
}

link_options current_link() {
    sanitizer::quiet quiet;
    auto& c = the_clockwork();
    std::lock_guard lock{c.mutex};
    return c.link;
}

void set_kernel_time(char const* name, std::chrono::nanoseconds time) {
    sanitizer::quiet quiet;
    if (!name || time.count() < 0)
        throw std::invalid_argument{"a kernel needs a name, and its time must not be negative"};
    auto& c = the_clockwork();
    std::lock_guard lock{c.mutex};
    c.kernels[name] = time;
    c.timed = true;
}

void delay_copy(std::uint64_t nth, std::chrono::nanoseconds by) {
    sanitizer::quiet quiet;
    if (nth == 0 || by.count() < 0)
        throw std::invalid_argument{"copies are counted from 1, and the delay must not be negative"};
    auto& c = the_clockwork();
    std::lock_guard lock{c.mutex};
    c.delays.emplace_back(nth, by);
    c.timed = true;
}

std::vector<work_interval> work_intervals() {
    sanitizer::quiet quiet;
    auto& c = the_clockwork();
    std::lock_guard lock{c.mutex};
    return {c.work_intervals.begin(), c.work_intervals.end()};
}

}  // namespace cuota::inline v0::simulator
