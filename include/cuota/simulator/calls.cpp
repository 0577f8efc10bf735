// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

namespace cuota::inline v0::simulator {

thread_local constinit thread_info caller;

machine& the_machine() {
    static auto* const the_one = new machine;
    return *the_one;
}

machine::machine() {
    // All devices exist from the start, so that references stay valid.
    for (int i = 0; i < most_devices; ++i) {
        auto d = std::make_unique<device>(i);
        d->capacity = capacity;
        d->default_pool_handle = reinterpret_cast<cudaMemPool_t>(pools.add(d->default_pool));
        d->managed_pool_handle = reinterpret_cast<cudaMemPool_t>(pools.add(d->managed_pool));
        d->current_pool_handle = d->default_pool_handle;
        d->current_managed_pool_handle = d->managed_pool_handle;
        all_devices.push_back(std::move(d));
    }
}

cudaError_t default_code(function f) {
    return trait_of(f) == trait::allocates ? cudaErrorMemoryAllocation : cudaErrorUnknown;
}

namespace {

cudaError_t planned(function f) {
    auto& m = the_machine();
    if (!m.has_plans.load(std::memory_order_acquire)) return cudaSuccess;
    guard lock{m.mutex};
    let_others_allocate();
    cudaError_t hit = cudaSuccess;
    for (auto& fault : m.faults) {
        if (fault.only ? *fault.only != f : false) continue;
        // Zero: it has applied already, and persists if until_cleared.
        if (fault.calls_left > 0) --fault.calls_left;
        if (fault.calls_left == 0 && hit == cudaSuccess)
            hit = fault.code == cudaSuccess ? default_code(f) : fault.code;
    }
    std::erase_if(m.faults, [](auto const& x) { return x.calls_left == 0 && x.kind == fault_kind::once; });
    m.has_plans = !m.faults.empty() || !m.random_faults.empty() || m.has_restless_programs;
    if (auto const chance = drawn(f); hit == cudaSuccess) hit = chance;
    if (hit != cudaSuccess) ++m.injected;
    return hit;
}

void stop_if_held(function f) {
    auto& m = the_machine();
    std::unique_lock lock{m.held_mutex};
    if (m.held_function != f || m.is_held_reached) return;
    m.is_held_reached = true;
    m.held_changes.notify_all();
    m.held_changes.wait(lock, [&m] { return !m.held_function; });
}

}  // namespace

admission admit(function f) {
    auto& m = the_machine();
    auto const kind = trait_of(f);
    if (m.has_held_call.load(std::memory_order_acquire)) stop_if_held(f);
    m.calls[static_cast<std::size_t>(f)].fetch_add(1, std::memory_order_relaxed);
    caller.calling = f;
    // The call site and tag that the program passed belong to the call after a change of the mode.
    bool const is_about_it = f != function::cudaThreadExchangeStreamCaptureMode;
    caller.from.file = is_about_it ? std::exchange(caller.told_file, nullptr) : nullptr;
    caller.from.line = caller.told_line;
    caller.tag = is_about_it ? std::exchange(caller.told_tag, nullptr) : nullptr;
    if (!caller.from.file) call_sites::take(caller.from, m.deep_sites.load(std::memory_order_relaxed));
    if (kind == trait::about) return {cudaSuccess, true};
    if (m.unloading.load(std::memory_order_relaxed)) return {cudaErrorCudartUnloading, false};
    if (caller.doing != activity::host) {
        auto line = this_call() + (caller.doing == activity::kernel ? " was called inside a kernel"
                                                                    : " was called inside a host function");
        if (caller.running != call_sites::site::unknown)
            line += ", enqueued" + call_sites::mark(caller.running);
        note_misuse(m.misuse.calls_in_callbacks, std::move(line));
        return {cudaErrorNotPermitted, false};
    }
    if (auto const fault = planned(f); fault != cudaSuccess) return {fault, false};
    if (kind == trait::free_of) return {cudaSuccess, true};
    if (m.devices == 0) return {cudaErrorNoDevice, false};
    auto const failure = failure_of(current_device());
    return {failure, failure == cudaSuccess || kind == trait::releases || kind == trait::waits};
}

cudaError_t remember(cudaError_t error) {
    if (error != cudaSuccess) {
        caller.last_error = error;
        caller.last_error_epoch = the_machine().epoch;
    }
    return error;
}

void leave_stale_error() {
    auto& m = the_machine();
    if (!m.stale_errors.load(std::memory_order_relaxed) || caller.doing != activity::host) return;
    bool const is_clean = caller.last_error == cudaSuccess || caller.last_error_epoch != m.epoch;
    if (is_clean) remember(cudaErrorInvalidTexture);
}

cudaError_t failure_of(device const& d) { return d.failure.load(std::memory_order_acquire); }

std::optional<function> function_named(std::string const& name) {
    for (std::size_t i = 0; i < function_count; ++i)
        if (name == function_names[i]) return static_cast<function>(i);
    return std::nullopt;
}

}  // namespace cuota::inline v0::simulator
