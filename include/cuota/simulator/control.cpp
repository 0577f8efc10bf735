// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"
#include "link.hpp"
#include "scheduler.hpp"
#include "virtual_memory.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <stdexcept>

namespace cuota::inline v0::simulator {
namespace {

function must_be_known(char const* name) {
    auto const f = function_named(name ? name : "");
    if (!f)
        throw std::invalid_argument{std::string{"the simulator does not define the function "} +
                                    (name ? name : "(null)")};
    return *f;
}

device& must_exist(int index) {
    auto* const d = find_device(index);
    if (!d) throw std::invalid_argument{"simulated device " + std::to_string(index) + " does not exist"};
    return *d;
}

std::uint64_t calls_of(function f) {
    return the_machine().calls[static_cast<std::size_t>(f)].load(std::memory_order_relaxed);
}

template <class Include>
std::uint64_t sum_of_calls(Include include) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < function_count; ++i)
        if (auto const f = static_cast<function>(i); include(trait_of(f))) sum += calls_of(f);
    return sum;
}

void make_new(pool& p) {
    p.open_to = 0;
    p.threshold = 0;
    p.follow_events = p.opportunistic = p.internal_dependencies = 1;
    trim_pool(p, 0);
    p.used_peak = p.used;
    p.reserved_peak = p.reserved();
}

void make_new(device& d, options const& wanted) {
    auto const& nodes = wanted.host_nodes;
    auto const index = nodes.size() == 1 ? 0 : static_cast<std::size_t>(d.index);
    d.host_numa_node = index < nodes.size() ? nodes[index] : -1;
    d.capacity = wanted.capacity;
    d.others = 0;
    d.others_probability = 0;
    d.others_changes = 0;
    d.page_cache = 0;
    d.unusable = 0;
    d.limits = {};
    d.reaches = 0;
    d.has_context = false;
    d.contexts_made = 0;
    d.failure = cudaSuccess;
    d.failure_text.clear();
    make_new(*d.default_pool);
    make_new(*d.managed_pool);
    forget_graph_memory(d);
    d.current_pool_handle = d.default_pool_handle;
    d.current_managed_pool_handle = d.managed_pool_handle;
    d.peak = d.used;
}

void check_host_nodes(options const& wanted) {
    auto const& nodes = wanted.host_nodes;
    if (nodes.size() > 1 && nodes.size() != static_cast<std::size_t>(wanted.devices))
        throw std::invalid_argument{
            "the simulator needs one host node for all devices or one for each, not " +
            std::to_string(nodes.size()) + " for " + std::to_string(wanted.devices)};
    for (int const node : nodes)
        if (node < -1) throw std::invalid_argument{"host node " + std::to_string(node) + " does not exist"};
}

void forget_faults() {
    auto& m = the_machine();
    m.faults.clear();
    m.random_faults.clear();
    m.has_plans = m.has_restless_programs;
    m.largest_allocation = SIZE_MAX;
}

void forget_misuse() {
    auto& x = the_machine().misuse;
    for (auto* const c :
         {&x.double_frees, &x.foreign_frees, &x.bad_ranges, &x.bad_directions, &x.bad_handles,
          &x.calls_in_callbacks, &x.device_kernels, &x.bad_launches, &x.bad_captures, &x.races,
          &x.host_accesses, &x.illegal_accesses, &x.out_of_bounds, &x.uninitialized_reads})
        *c = 0;
    std::lock_guard lock{the_machine().misuse_mutex};
    the_machine().misuse_lines.clear();
    the_machine().misuse_mode = the_machine().initial_misuse;
}

void choose(memory_checks wanted) {
    // ThreadSanitizer does not let a program handle its own faults.
    if (sanitizer::watches_threads() && wanted == memory_checks::strict) wanted = memory_checks::heap;
    the_machine().memory_mode = wanted;
    the_machine().deep_sites = wanted == memory_checks::strict;
}

void choose(unkindness wanted) {
    the_machine().serial_host = wanted.serial_host;
    the_machine().free_at_once = wanted.free_at_once;
    the_machine().stale_errors = wanted.stale_errors;
}

std::vector<std::string> with_places(std::vector<std::string> lines) {
    call_sites::resolve(lines);
    return lines;
}

}  // namespace

std::string describe(allocation const& a) {
    constexpr char const* kinds[] = {"device", "managed", "pinned", "registered"};
    std::ostringstream line;
    line << '#' << a.number << ' ';
    if (a.tag && *a.tag) line << '"' << a.tag << "\", ";
    line << kinds[static_cast<int>(a.kind)] << " memory, " << a.bytes << " bytes at " << a.address()
         << ", device " << a.device << ", from " << name_of(a.made_by) << call_sites::mark(a.made_at);
    return line.str();
}

std::string describe(allocation const& a, std::size_t offset) {
    auto text = describe(a);
    auto next = a.blocks.upper_bound(offset);
    if (next == a.blocks.begin()) return text;
    auto const& b = std::prev(next)->second;
    if (offset >= b.end) return text;
    std::ostringstream more;
    more << ", in block ";
    if (b.tag && *b.tag) more << '"' << b.tag << "\", ";
    more << in_bytes(b.bytes) << " at " << reinterpret_cast<void*>(~b.disguise) << ", allocated"
         << call_sites::mark(b.made_at);
    return text + more.str();
}

void reset(options wanted) {
    sanitizer::quiet quiet;
    auto& m = the_machine();
    guard lock{m.mutex};
    if (wanted.devices < 0 || wanted.devices > most_devices)
        throw std::invalid_argument{"the simulator supports 0 to " + std::to_string(most_devices) +
                                    " devices"};
    check_host_nodes(wanted);
    end_leaving();
    if (m.holds != 0) throw std::logic_error{"the simulator cannot be reset while a hold stops all work"};
    bool const changes = wanted.devices != m.devices || wanted.capacity != m.capacity ||
                         wanted.host_nodes != m.host_nodes || wanted.has_peer_access != m.has_peer_access ||
                         wanted.maps_for_rdma != m.maps_for_rdma || wanted.is_integrated != m.is_integrated;
    if (changes && m.live.total() != 0)
        throw std::logic_error{"the simulator cannot change its shape while " +
                               std::to_string(m.live.total()) + " objects are alive"};
    for (auto const& d : m.all_devices) wait_for_device(lock, *d);
    m.devices = wanted.devices;
    m.capacity = wanted.capacity;
    m.host_nodes = wanted.host_nodes;
    m.has_peer_access = wanted.has_peer_access;
    m.maps_for_rdma = wanted.maps_for_rdma;
    m.is_integrated = wanted.is_integrated;
    m.has_restless_programs = false;
    for (auto const& d : m.all_devices) make_new(*d, wanted);
    forget_faults();
    m.injected = 0;
    m.recently_freed.clear();
    for (auto& c : m.calls) c = 0;
    forget_misuse();
    choose(m.initial_memory);
    m.on_host_access = host_access::abort;
    m.capture_mode = capture_checks::named;
    m.event_waits = {};
    ordering::reset();
    m.pinned_peak = m.live.pinned_bytes;
    set_jitter(m.initial_jitter_seed, m.initial_jitter);
    timing::reset();
    choose(m.initial_unkindness);
    end_rests();
    end_leaving();
    late::choose(lock, m.initial_schedule, m.initial_seed);
    ++m.epoch;
}

void set_unkindness(unkindness wanted) { choose(wanted); }

unkindness current_unkindness() {
    auto const& m = the_machine();
    return {m.serial_host, m.free_at_once, m.stale_errors};
}

options shape() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    auto const& m = the_machine();
    return {m.devices, m.capacity, m.host_nodes, m.has_peer_access, m.maps_for_rdma, m.is_integrated};
}

live_counts live() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    end_leaving();
    return the_machine().live;
}

std::vector<std::string> leaks() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    end_leaving();
    auto all = describe_physical_memory();
    for (auto const& [key, a] : the_machine().memory)
        if (a->kind != memory_kind::registered && !a->mapped) all.emplace_back(a->number, describe(*a));
    std::sort(all.begin(), all.end());
    std::vector<std::string> lines;
    for (auto& [number, line] : all) lines.push_back(std::move(line));
    auto const add = [&lines](auto const& one, origin const& from) { lines.push_back(describe(*one, from)); };
    the_machine().streams.for_each(add);
    the_machine().events.for_each(add);
    the_machine().pools.for_each([&](std::shared_ptr<pool> const& p, origin const& from) {
        if (!p->is_default) add(p, from);
    });
    for (auto& line : describe_reservations()) lines.push_back(std::move(line));
    for (auto& line : describe_graphs()) lines.push_back(std::move(line));
    return with_places(std::move(lines));
}

misuse_counts misuse() {
    auto const& x = the_machine().misuse;
    return {x.double_frees,       x.foreign_frees,    x.bad_ranges,    x.bad_directions,     x.bad_handles,
            x.calls_in_callbacks, x.device_kernels,   x.bad_launches,  x.bad_captures,       x.races,
            x.host_accesses,      x.illegal_accesses, x.out_of_bounds, x.uninitialized_reads};
}

std::size_t peak_device_bytes(int index) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    return must_exist(index).peak;
}

std::size_t peak_pinned_bytes() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    return the_machine().pinned_peak;
}

void reset_peaks() {
    sanitizer::quiet quiet;
    auto& m = the_machine();
    guard lock{m.mutex};
    for (auto const& d : m.all_devices) d->peak = d->used;
    m.pinned_peak = m.live.pinned_bytes;
}

std::uint64_t calls(char const* name) { return calls_of(must_be_known(name)); }

std::uint64_t calls() {
    return sum_of_calls([](trait t) { return t != trait::about; });
}

std::uint64_t allocation_calls() {
    return sum_of_calls([](trait t) { return t == trait::allocates; });
}

void fail_call(char const* name, std::uint64_t nth, cudaError_t code, fault_kind kind) {
    sanitizer::quiet quiet;
    if (nth == 0) throw std::invalid_argument{"calls are counted from 1"};
    std::optional<function> only;
    if (name) only = must_be_known(name);
    if (only && trait_of(*only) == trait::about)
        throw std::invalid_argument{std::string{name} + " never fails"};
    auto& m = the_machine();
    guard lock{m.mutex};
    m.faults.push_back({only, nth, code, kind});
    m.has_plans = true;
}

void clear_faults() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    forget_faults();
}

std::uint64_t faults_injected() { return the_machine().injected; }

void set_other_programs(int index, std::size_t bytes) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    must_exist(index).others = bytes;
}

void set_restless_programs(int index, std::size_t most, double probability, std::uint64_t seed) {
    sanitizer::quiet quiet;
    if (!(probability >= 0 && probability <= 1)) throw std::invalid_argument{"a probability is from 0 to 1"};
    auto& m = the_machine();
    guard lock{m.mutex};
    auto& d = must_exist(index);
    d.most_others = most;
    d.others_probability = probability;
    m.restless.seed(seed);
    m.has_restless_programs = m.has_plans = true;
}

other_programs_info other_programs(int index) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    auto const& d = must_exist(index);
    return {d.others, d.others_changes};
}

void set_page_cache(int index, std::size_t bytes) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    must_exist(index).page_cache = bytes;
}

void set_unusable_memory(int index, std::size_t bytes) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    must_exist(index).unusable = bytes;
}

void set_memory_limits(int index, memory_limits wanted) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    must_exist(index).limits = wanted;
}

void set_jitter(std::uint64_t seed, std::chrono::microseconds max) {
    sanitizer::quiet quiet;
    auto& m = the_machine();
    std::lock_guard lock{m.jitter_mutex};
    m.jitter.seed(seed);
    m.jitter_us = std::max<std::int64_t>(0, max.count());
}

void set_capture_checks(capture_checks wanted) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    the_machine().capture_mode = wanted;
}

event_wait_counts event_waits() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    return the_machine().event_waits;
}

std::uint64_t contexts_made(int index) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    return must_exist(index).contexts_made;
}

void set_race_checks(race_checks wanted) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    ordering::choose(wanted);
}

std::vector<std::string> race_reports() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    return with_places(the_machine().race_checker.reports);
}

void set_memory_checks(memory_checks wanted) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    choose(wanted);
}

memory_checks current_memory_checks() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    return the_machine().memory_mode;
}

void set_on_misuse(on_misuse wanted) {
    sanitizer::quiet quiet;
    std::lock_guard lock{the_machine().misuse_mutex};
    the_machine().misuse_mode = wanted;
}

std::vector<std::string> misuse_reports() {
    sanitizer::quiet quiet;
    std::vector<std::string> lines;
    {
        std::lock_guard lock{the_machine().misuse_mutex};
        lines = the_machine().misuse_lines;
    }
    return with_places(std::move(lines));
}

void set_host_access(host_access wanted) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    the_machine().on_host_access = wanted;
}

race_check_counts current_race_check_counts() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    return the_machine().race_checker.counts;
}

hold::hold() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    ++the_machine().holds;
}

hold::~hold() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    sanitizer::publish(&the_machine().hold_token);
    if (--the_machine().holds == 0) resume_all();
}

held_call::held_call(const char* function) {
    sanitizer::quiet quiet;
    auto const found = function_named(function);
    if (!found) throw std::invalid_argument{std::string{"no CUDA function is named "} + function};
    auto& m = the_machine();
    std::lock_guard lock{m.held_mutex};
    if (m.held_function) throw std::logic_error{"another call is to be held"};
    m.held_function = found;
    m.is_held_reached = false;
    m.has_held_call = true;
}

held_call::~held_call() { let_go(); }

void held_call::wait_until_reached() {
    sanitizer::quiet quiet;
    auto& m = the_machine();
    std::unique_lock lock{m.held_mutex};
    m.held_changes.wait(lock, [&m] { return m.is_held_reached; });
}

bool held_call::is_reached() const {
    sanitizer::quiet quiet;
    auto& m = the_machine();
    std::lock_guard lock{m.held_mutex};
    return m.is_held_reached;
}

void held_call::let_go() {
    sanitizer::quiet quiet;
    auto& m = the_machine();
    std::lock_guard lock{m.held_mutex};
    m.has_held_call = false;
    m.held_function.reset();
    m.held_changes.notify_all();
}

std::string report() {
    auto const alive = live();
    auto const wrong = misuse();
    std::ostringstream text;
    text << "live    device " << alive.device_allocations << " (" << alive.device_bytes << " bytes)  pinned "
         << alive.pinned_allocations << " (" << alive.pinned_bytes << " bytes)  managed "
         << alive.managed_allocations << " (" << alive.managed_bytes << " bytes)\n"
         << "        streams " << alive.streams << "  events " << alive.events << "  pools " << alive.pools
         << "  graphs " << alive.graphs << "  executable graphs " << alive.graph_execs << "  address ranges "
         << alive.address_ranges << '\n';
    for (int i = 0; i < shape().devices; ++i)
        text << "peak    device " << i << ": " << peak_device_bytes(i) << " bytes\n";
    text << "        pinned: " << peak_pinned_bytes() << " bytes\n"
         << "misuse  double frees " << wrong.double_frees << "  foreign frees " << wrong.foreign_frees
         << "  bad ranges " << wrong.bad_ranges << "  bad directions " << wrong.bad_directions << '\n'
         << "        bad handles " << wrong.bad_handles << "  calls in callbacks " << wrong.calls_in_callbacks
         << "  kernels for a device only " << wrong.device_kernels << "  bad launches " << wrong.bad_launches
         << "  in captures " << wrong.bad_captures << "  races " << wrong.races << '\n'
         << "        host accesses " << wrong.host_accesses << "  illegal accesses " << wrong.illegal_accesses
         << "  out of bounds " << wrong.out_of_bounds << "  uninitialised reads " << wrong.uninitialized_reads
         << '\n';
    for (auto const& line : leaks()) text << "alive   " << line << '\n';
    for (auto const& line : misuse_reports()) text << "misuse  " << line << '\n';
    for (auto const& race : race_reports()) text << "race    " << race << '\n';
    text << "work    by schedule " << schedule_in_words() << ", by a standstill "
         << current_schedule().unseeded << '\n'
         << "faults  injected " << faults_injected() << '\n'
         << "calls   " << calls() << ", of which " << allocation_calls() << " allocate\n";
    for (std::size_t i = 0; i < function_count; ++i)
        if (auto const n = calls_of(static_cast<function>(i)); n != 0)
            text << "        " << std::left << std::setw(34) << function_names[i] << ' ' << n << '\n';
    return text.str();
}

}  // namespace cuota::inline v0::simulator
