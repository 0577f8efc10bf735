// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "closed_memory.hpp"
#include "graph.hpp"

#include <algorithm>

// Memory nodes: the addresses belong to the graph, the device's memory to the executables that run. Where CUDA's documents leave a rule
// open, it is that of driver 580 (bench/results/2026-11-28-h100.txt).
namespace cuota::inline v0::simulator {
namespace {

constexpr std::size_t piece = std::size_t{2} << 20;  // in which the device's memory is taken

std::size_t in_pieces(std::size_t bytes) { return (bytes + piece - 1) / piece * piece; }

bool is_allocation(graph_node const& n) { return n.type == cudaGraphNodeTypeMemAlloc; }

/// Calls use for each block that a launch does not free.
template <class Use>
void each_kept(graph const& g, Use use) {
    for (auto const& n : g.nodes)
        if (is_allocation(*n) && !n->memory->in_graph->is_freed) use(*n->memory);
}

bool is_of(allocation const& a, graph const& g) { return a.in_graph->of.lock().get() == &g; }

/// Calls use for each block of another graph that a launch frees.
template <class Use>
void each_freed_of_others(graph const& g, Use use) {
    for (auto const& n : g.nodes)
        if (n->type == cudaGraphNodeTypeMemFree && !is_of(*n->memory, g)) use(n->memory);
}

bool is_running(graph_exec const& e) { return e.last && !e.last->done; }

/// Executables that ran last on one stream share memory; those of different streams do not.
template <class Which>
std::size_t shared_by_streams(device& d, Which which) {
    std::map<unsigned long long, std::size_t> most;
    auto const add = [&most](unsigned long long stream, std::size_t bytes) {
        auto& on_stream = most[stream];
        on_stream = std::max(on_stream, bytes);
    };
    the_machine().graph_execs.for_each([&](auto const& e, origin const&) {
        if (e->memory_on == &d && which(*e)) add(e->memory_stream, e->memory_needed);
    });
    std::erase_if(d.graphs.of_destroyed, [](auto const& one) { return one.work->done != 0; });
    for (auto const& one : d.graphs.of_destroyed) add(one.stream, one.bytes);
    std::size_t sum = 0;
    for (auto const& [stream, bytes] : most) sum += bytes;
    return sum;
}

/// The block's address is valid until work that was enqueued before has finished.
void end_block(allocation_ref const& a) {
    the_machine().leaving.push_back({a, under_way()});
    end_leaving();
}

void leave(allocation_ref const& a) {
    auto& block = *a->in_graph;
    if (block.holders == 0 && !block.is_taken) end_block(a);
}

void begin_life(allocation& a) {
    sanitizer::allow(a.address(), a.bytes);
    sanitizer::claim(a.address(), a.bytes);
    fill_new(a.address(), a.block, a.bytes);
    a.now = allocation::phase::live;
}

void end_life(allocation& a, device& d, char const* by) {
    if (a.now != allocation::phase::live)
        illegal_access(d, std::string{by} + " frees memory of a graph that is not allocated: " + describe(a));
    check_guards(a);
    a.now = allocation::phase::released;
    if (a.block.shift == 0) sanitizer::forbid(a.address(), a.bytes);
}

}  // namespace

std::size_t needed_by(graph const& g) {
    // Memory is reused if its free precedes the allocation on each path.
    std::vector<std::vector<bool>> before(g.nodes.size());
    std::size_t most = 0;
    for (std::size_t i = 0; i != g.nodes.size(); ++i) {
        before[i].resize(g.nodes.size());
        for (auto const from : g.nodes[i]->after) {
            before[i][from] = true;
            for (std::size_t k = 0; k != from; ++k)
                if (before[from][k]) before[i][k] = true;
        }
        if (!is_allocation(*g.nodes[i])) continue;
        std::size_t live = 0;
        for (std::size_t k = 0; k <= i; ++k) {
            if (!is_allocation(*g.nodes[k])) continue;
            auto const& block = *g.nodes[k]->memory->in_graph;
            bool const is_reused = block.is_freed && block.freed_by < i && before[i][block.freed_by];
            if (!is_reused) live += in_units(g.nodes[k]->memory->bytes);
        }
        most = std::max(most, live);
    }
    return in_pieces(most);
}

bool has_memory_nodes(graph const& g) {
    return std::any_of(g.nodes.begin(), g.nodes.end(), [](auto const& n) { return n->memory != nullptr; });
}

void hold_memory(graph const& g) {
    for (auto const& n : g.nodes)
        if (is_allocation(*n)) ++n->memory->in_graph->holders;
}

void let_go_of_memory(graph const& g) {
    for (auto const& n : g.nodes)
        if (is_allocation(*n)) {
            --n->memory->in_graph->holders;
            leave(n->memory);
        }
}

void end_leaving() {
    std::erase_if(the_machine().leaving, [](leaving_memory const& one) {
        auto const is_done = [](operation_ref const& work) { return work->done != 0; };
        if (!std::all_of(one.until.begin(), one.until.end(), is_done)) return false;
        forget_memory(one.memory);
        std::erase(the_machine().recently_freed, one.memory);  // its own frees are told, not its end
        one.memory->now = allocation::phase::released;
        sanitizer::allow(one.memory->address(), one.memory->bytes);
        give_memory(one.memory->address(), one.memory->block, one.memory->bytes);
        return true;
    });
}

cudaError_t allocate_in_graph(guard& lock, void** out, std::size_t bytes, stream_handle const& s,
                              function by) {
    if (too_large(bytes) || bytes > s->owner.capacity) return cudaErrorMemoryAllocation;
    backing block;
    void* const address = take_device_memory(block, bytes);
    if (!address) return cudaErrorMemoryAllocation;
    auto const give = [&](void* unused) { give_memory(unused, block, bytes); };
    std::unique_ptr<void, decltype(give)> owned{address, give};
    auto in_graph = std::make_shared<graph_block>();
    in_graph->of = s->capturing.in->into;
    in_graph->holders = 1;
    auto const a = note_memory(address, block, bytes, memory_kind::device, s->owner.index, by);
    a->in_graph = std::move(in_graph);
    a->now = allocation::phase::pending;
    operation_ref const work = make_task([a] { begin_life(*a); });
    try {
        enqueue(lock, s, work);
    } catch (...) {
        forget_memory(a);
        throw;
    }
    work->node->memory = a;
    owned.release();
    if (block.shift == 0) sanitizer::forbid(address, bytes);
    *out = address;
    ordering::access const born[] = {{a.get(), 0, bytes, ordering::use::begins}};
    ordering::accesses(*s, *work, name_of(by), born);
    return cudaSuccess;
}

cudaError_t free_in_graph(guard& lock, void* address, stream_handle const& s) {
    auto const a = find_memory(address);
    auto const& g = *s->capturing.in->into;
    if (!a || a->address() != address || !a->in_graph) return refuse_free(address);
    if (a->in_graph->is_freed) {
        note_misuse(the_machine().misuse.double_frees,
                    this_call() + " frees memory that the graph frees already: " + describe(*a) +
                        freed_text(*a));
        return cudaErrorInvalidValue;
    }
    operation_ref const work = make_task([a, d = &s->owner] { end_life(*a, *d, "a graph's free node"); });
    enqueue(lock, s, work);
    work->node->memory = a;
    if (is_of(*a, g)) {  // else a launch frees the block of another graph
        a->in_graph->is_freed = true;
        a->in_graph->freed_by = g.nodes.size() - 1;
    }
    a->freed_at = here();
    a->freed_by = caller.calling;
    ordering::access const whole[] = {{a.get(), 0, a->bytes, ordering::use::ends}};
    ordering::accesses(*s, *work, name_of(caller.calling), whole);
    return cudaSuccess;
}

cudaError_t free_outside(guard& lock, allocation_ref const& a, stream_handle const& s) {
    if (!a->in_graph->is_taken) return refuse_free(a->address());
    a->in_graph->is_taken = false;
    operation_ref work;
    try {
        work = make_task([a, d = &s->owner] { end_life(*a, *d, "cudaFreeAsync"); });
        enqueue(lock, s, work);
    } catch (...) {
        a->in_graph->is_taken = true;
        throw;
    }
    ordering::access const whole[] = {{a.get(), 0, a->bytes, ordering::use::writes}};
    ordering::accesses(*s, *work, name_of(caller.calling), whole);
    leave(a);
    return failure_of(s->owner);
}

cudaError_t free_outside(guard& lock, allocation_ref const& a) {
    if (!a->in_graph->is_taken) return refuse_free(a->address());
    a->in_graph->is_taken = false;
    auto& d = *the_machine().all_devices[static_cast<std::size_t>(a->device)];
    wait_before_free(lock, d);
    if (failure_of(d) == cudaSuccess) end_life(*a, d, "cudaFree");
    leave(a);
    return failure_of(d);
}

cudaError_t refusal_of_launch(graph_exec const& e) {
    bool is_taken = false, is_missing = false;
    each_kept(*e.of, [&](allocation const& a) { is_taken = is_taken || a.in_graph->is_taken; });
    each_freed_of_others(*e.of,
                         [&](allocation_ref const& a) { is_missing = is_missing || !a->in_graph->is_taken; });
    bool const is_refused = is_taken && !(e.flags & cudaGraphInstantiateFlagAutoFreeOnLaunch);
    return is_refused || is_missing ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t take_graph_memory(graph_exec& e, stream const& s) {
    if (e.memory_needed == 0) return cudaSuccess;
    auto& d = s.owner;
    auto const stream_before = std::exchange(e.memory_stream, s.id);
    auto* const device_before = std::exchange(e.memory_on, &d);
    auto const all = shared_by_streams(d, [](graph_exec const&) { return true; });
    auto& graphs = d.graphs;
    if (all > graphs.used && !take_from_device(d, all - graphs.used)) {
        // The driver keeps the part that it got.
        auto const part = std::min(d.free() / piece * piece, all - graphs.used);
        if (take_from_device(d, part)) graphs.lost += part;
        graphs.note_peaks();
        e.memory_stream = stream_before;
        e.memory_on = device_before;
        return cudaErrorMemoryAllocation;
    }
    graphs.used = std::max(graphs.used, all);
    graphs.note_peaks();
    return cudaSuccess;
}

void leave_graph_memory(graph_exec const& e) {
    if (e.memory_on && is_running(e))
        e.memory_on->graphs.of_destroyed.push_back({e.last, e.memory_stream, e.memory_needed});
}

void begin_graph_memory(graph_exec const& e) {
    each_kept(*e.of, [](allocation const& a) { a.in_graph->is_taken = true; });
    each_freed_of_others(*e.of, [](allocation_ref const& a) {
        a->in_graph->is_taken = false;
        leave(a);
    });
}

void forget_graph_memory(device& d) {
    give_to_device(d, d.graphs.reserved());
    d.graphs = {};
}

void reset_graph_memory(device& d) {
    std::vector<allocation_ref> kept;
    for (auto const& [key, a] : the_machine().memory)
        if (a->in_graph && a->device == d.index && a->in_graph->is_taken) kept.push_back(a);
    for (auto const& a : kept) {
        a->in_graph->is_taken = false;
        a->now = allocation::phase::released;
        leave(a);
    }
    forget_graph_memory(d);
}

void trim_graph_memory(device& d) {
    auto const kept = shared_by_streams(d, is_running);
    the_machine().graph_execs.for_each([&](auto const& e, origin const&) {
        if (e->memory_on == &d && !is_running(*e)) e->memory_on = nullptr;
    });
    if (kept >= d.graphs.used) return;
    give_to_device(d, d.graphs.used - kept);
    d.graphs.used = kept;
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

namespace {

template <class Use>
cudaError_t with_device(function f, int index, Use use) {
    return api(f, [&](guard&) {
        auto* const d = find_device(index);
        return d ? use(*d) : cudaErrorInvalidDevice;
    });
}

}  // namespace

cudaError_t cudaDeviceGraphMemTrim(int index) {
    return with_device(function::cudaDeviceGraphMemTrim, index, [](device& d) {
        trim_graph_memory(d);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int index, cudaGraphMemAttributeType which, void* value) {
    return with_device(function::cudaDeviceGetGraphMemAttribute, index, [&](device& d) {
        if (!value) return cudaErrorInvalidValue;
        auto const& graphs = d.graphs;
        auto& number = *static_cast<std::uint64_t*>(value);
        switch (which) {
            case cudaGraphMemAttrUsedMemCurrent: number = graphs.used; return cudaSuccess;
            case cudaGraphMemAttrUsedMemHigh: number = graphs.most_used; return cudaSuccess;
            case cudaGraphMemAttrReservedMemCurrent: number = graphs.reserved(); return cudaSuccess;
            case cudaGraphMemAttrReservedMemHigh: number = graphs.most_reserved; return cudaSuccess;
            default: return cudaErrorInvalidValue;
        }
    });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int index, cudaGraphMemAttributeType which, void* value) {
    return with_device(function::cudaDeviceSetGraphMemAttribute, index, [&](device& d) {
        if (!value || *static_cast<std::uint64_t const*>(value) != 0) return cudaErrorInvalidValue;
        switch (which) {
            case cudaGraphMemAttrUsedMemHigh: d.graphs.most_used = d.graphs.used; return cudaSuccess;
            case cudaGraphMemAttrReservedMemHigh:
                d.graphs.most_reserved = d.graphs.reserved();
                return cudaSuccess;
            default: return cudaErrorInvalidValue;
        }
    });
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t handle, cudaMemAllocNodeParams* out) {
    return api(function::cudaGraphMemAllocNodeGetParams, [&](guard&) {
        auto const n = the_machine().graph_nodes.find(handle);
        if (!n || !is_allocation(*n) || !out) return cudaErrorInvalidValue;
        *out = {};
        out->poolProps.allocType = cudaMemAllocationTypePinned;
        out->poolProps.location = {cudaMemLocationTypeDevice, n->owner->index};
        out->bytesize = n->memory->bytes;
        out->dptr = n->memory->address();
        return cudaSuccess;
    });
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t handle, void* out) {
    return api(function::cudaGraphMemFreeNodeGetParams, [&](guard&) {
        auto const n = the_machine().graph_nodes.find(handle);
        if (!n || n->type != cudaGraphNodeTypeMemFree || !out) return cudaErrorInvalidValue;
        *static_cast<void**>(out) = n->memory->address();
        return cudaSuccess;
    });
}
