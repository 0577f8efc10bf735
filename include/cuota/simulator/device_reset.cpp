// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

// Waits for running work, so that none writes to freed memory.
namespace cuota::inline v0::simulator {
namespace {

struct leftovers {
    std::vector<std::shared_ptr<graph>> graphs;
    std::vector<std::shared_ptr<graph_exec>> execs;
};

template <class T, class Of>
std::vector<std::shared_ptr<T>> take_all(registry<T>& from, Of is_of_device) {
    std::vector<std::shared_ptr<T>> taken;
    from.for_each([&](std::shared_ptr<T> const& one, origin const&) {
        if (is_of_device(*one)) taken.push_back(one);
    });
    for (auto const& one : taken) from.remove(reinterpret_cast<void*>(from.handle_of(one)), here());
    return taken;
}

void drop_streams(guard& lock, device const& d, leftovers& left) {
    auto& m = the_machine();
    for (auto const& s : take_all(m.streams, [&d](stream const& s) { return &s.owner == &d; })) {
        --m.live.streams;
        left.graphs.push_back(leave_capture(*s));
        let_go(lock, s);
    }
}

void drop_events(device const& d) {
    auto& m = the_machine();
    m.live.events -= take_all(m.events, [&d](event const& e) { return &e.owner == &d; }).size();
}

void drop_execs(guard& lock, device const& d, leftovers& left) {
    auto& m = the_machine();
    left.execs = take_all(m.graph_execs, [&d](graph_exec const& e) { return e.owner == &d; });
    m.live.graph_execs -= left.execs.size();
    for (auto const& e : left.execs) end_executable(lock, *e);
}

/// Frees all but pooled, mapped and registered memory, as CUDA does.
void drop_memory(guard& lock, device const& d) {
    std::vector<allocation_ref> all;
    for (auto const& [key, a] : the_machine().memory)
        if (a->device == d.index && !a->from && !a->in_graph && !a->mapped &&
            a->kind != memory_kind::registered)
            all.push_back(a);
    for (auto const& a : all) release(lock, a);
}

}  // namespace
}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaDeviceReset() {
    dropped_after<leftovers> left;
    return api(function::cudaDeviceReset, [&](guard& lock) {
        auto& d = current_device();
        drop_execs(lock, d, left.value);
        drop_streams(lock, d, left.value);
        drop_events(d);
        wait_for_device(lock, d);
        drop_memory(lock, d);
        reset_graph_memory(d);
        d.reaches = 0;
        d.has_context = false;
        trim_at_synchronisation(d);
        return failure_of(d);
    });
}
