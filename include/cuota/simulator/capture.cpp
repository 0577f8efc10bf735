// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>

// Operations on capturing streams, and forbidden calls.
namespace cuota::inline v0::simulator {
namespace {

std::uint64_t call_number = 0;  ///< of calls during captures

std::uint64_t this_thread() {
    static std::atomic<std::uint64_t> threads{0};
    thread_local auto const mine = ++threads;
    return mine;
}

cudaGraphNodeType type_of(function f) {
    switch (f) {
        case function::cudaMemcpyAsync:
        case function::cudaMemcpyPeerAsync:
        case function::cudaMemcpy2DAsync:
        case function::cudaMemcpyBatchAsync: return cudaGraphNodeTypeMemcpy;
        case function::cudaMemsetAsync:
        case function::cuMemsetD8Async:
        case function::cuMemsetD16Async:
        case function::cuMemsetD32Async:
        case function::cudaMemset2DAsync: return cudaGraphNodeTypeMemset;
        case function::cudaLaunchHostFunc: return cudaGraphNodeTypeHost;
        case function::cudaMallocAsync:
        case function::cudaMallocFromPoolAsync: return cudaGraphNodeTypeMemAlloc;
        case function::cudaFreeAsync: return cudaGraphNodeTypeMemFree;
        default: return cudaGraphNodeTypeKernel;
    }
}

bool can_be_captured(function f) {
    switch (f) {
        case function::cudaMemcpyAsync:
        case function::cudaMemcpyPeerAsync:
        case function::cudaMemcpy2DAsync:
        case function::cudaMemcpyBatchAsync:
        case function::cudaMemsetAsync:
        case function::cudaMemset2DAsync:
        case function::cuMemsetD8Async:
        case function::cuMemsetD16Async:
        case function::cuMemsetD32Async:
        case function::cudaLaunchHostFunc:
        case function::cudaMallocAsync:
        case function::cudaMallocFromPoolAsync:
        case function::cudaFreeAsync:
        case function::cudaLaunchKernel:
        case function::cuota_simulator_launch:
        case function::cudaEventRecord:
        case function::cudaEventRecordWithFlags:
        case function::cudaStreamWaitEvent:
        case function::cudaStreamUpdateCaptureDependencies: return true;
        default: return false;
    }
}

/// Queries without work; driver 580 returns an error for a capturing stream nevertheless.
bool only_asks(function f) {
    switch (f) {
        case function::cudaStreamGetId:
        case function::cudaStreamGetFlags:
        case function::cudaStreamGetPriority:
        case function::cudaStreamGetDevice:
        case function::cuStreamGetCtx: return true;
        default: return false;
    }
}

bool asks_about_captures(function f) {
    return f == function::cudaStreamIsCapturing || f == function::cudaStreamGetCaptureInfo;
}

/// Calls that CUDA documents as potentially unsafe.
bool unsafe(function f) {
    switch (f) {
        case function::cudaMalloc:
        case function::cudaMallocManaged:
        case function::cudaMallocHost:
        case function::cudaHostAlloc:
        case function::cudaFree:
        case function::cudaFreeHost:
        case function::cudaHostRegister:
        case function::cudaHostUnregister:
        case function::cudaEventQuery:
        case function::cudaEventSynchronize: return true;
        default: return false;
    }
}

/// Further calls that may wait, allocate, free, create, destroy or map.
bool perhaps_unsafe(function f) {
    switch (f) {
        case function::cudaSetDevice:
        case function::cudaInitDevice:
        case function::cudaMemGetInfo:
        case function::cudaStreamCreate:
        case function::cudaStreamCreateWithFlags:
        case function::cudaStreamCreateWithPriority:
        case function::cudaStreamDestroy:
        case function::cudaStreamSynchronize:
        case function::cudaStreamQuery:
        case function::cudaEventCreate:
        case function::cudaEventCreateWithFlags:
        case function::cudaEventDestroy:
        case function::cudaEventElapsedTime:
        case function::cudaMemPoolCreate:
        case function::cudaMemPoolDestroy:
        case function::cudaMemPoolGetAttribute:
        case function::cudaMemPoolSetAttribute:
        case function::cudaMemPoolTrimTo:
        case function::cudaDeviceGetDefaultMemPool:
        case function::cudaDeviceEnablePeerAccess:
        case function::cudaDeviceDisablePeerAccess:
        case function::cuCtxPushCurrent:
        case function::cuCtxPopCurrent:
        case function::cuDevicePrimaryCtxRetain:
        case function::cuDevicePrimaryCtxRelease:
        case function::cuMemGetAllocationGranularity:
        case function::cuMemAddressReserve:
        case function::cuMemAddressFree:
        case function::cuMemCreate:
        case function::cuMemRelease:
        case function::cuMemMap:
        case function::cuMemUnmap:
        case function::cuMemSetAccess:
        case function::cudaGraphDestroy:
        case function::cudaGraphInstantiate:
        case function::cudaGraphInstantiateWithFlags:
        case function::cudaGraphInstantiateWithParams:
        case function::cudaGraphExecUpdate:
        case function::cudaGraphExecDestroy:
        case function::cudaGraphUpload: return true;
        default: return false;
    }
}

/// Unsafe calls that use a default stream: its own rule is applied first.
bool synchronous(function f) {
    switch (f) {
        case function::cudaMemcpy:
        case function::cudaMemcpy2D:
        case function::cudaMemcpyPeer:
        case function::cudaMemset:
        case function::cudaMemset2D: return true;
        default: return false;
    }
}

template <class Which>
bool has_stream(capture const& c, Which which) {
    return std::any_of(c.streams.begin(), c.streams.end(), [&](auto const& weak) {
        auto const s = weak.lock();
        return s && which(*s);
    });
}

template <class Which>
cudaError_t invalidate_all(cudaError_t error, Which which) {
    auto result = cudaSuccess;
    for (auto const& c : the_machine().captures)
        if (which(*c)) result = invalidate(*c, error);
    return result;
}

cudaError_t refuse_unsafe() {
    if (caller.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
    return invalidate_all(cudaErrorStreamCaptureUnsupported, [me = this_thread()](capture const& c) {
        if (c.invalid) return false;
        if (c.thread == me) return c.mode != cudaStreamCaptureModeRelaxed;
        return c.mode == cudaStreamCaptureModeGlobal && caller.capture_mode == cudaStreamCaptureModeGlobal;
    });
}

bool makes_legacy_unusable(capture const& c, device const& d) {
    return has_stream(c, [&d](stream const& s) { return &s.owner == &d && s.blocking(); });
}

cudaError_t refuse_legacy(device const& d) {
    return invalidate_all(cudaErrorStreamCaptureImplicit,
                          [&d](capture const& c) { return makes_legacy_unusable(c, d); });
}

cudaError_t refuse_device(device const& d) {
    return invalidate_all(cudaErrorStreamCaptureUnsupported, [&d](capture const& c) {
        return has_stream(c, [&d](stream const& s) { return &s.owner == &d; });
    });
}

void finish(capture& c) {
    for (auto const& weak : c.streams)
        if (auto const s = weak.lock()) s->capturing = {};
    c.into->capturing = false;
    c.into = nullptr;
    std::erase_if(the_machine().captures, [&c](auto const& other) { return other.get() == &c; });
}

/// Whether a node does not precede the origin's present position.
bool unjoined(graph const& g, std::vector<std::size_t> const& tips) {
    std::vector<bool> joined(g.nodes.size());
    for (auto const tip : tips) joined[tip] = true;
    for (auto i = g.nodes.size(); i-- != 0;) {
        if (!joined[i] && !g.nodes[i]->excused) return true;
        for (auto const before : g.nodes[i]->after) joined[before] = true;
    }
    return false;
}

void add_tips(std::vector<std::size_t>& to, std::vector<std::size_t> const& more) {
    for (auto const tip : more)
        if (std::find(to.begin(), to.end(), tip) == to.end()) to.push_back(tip);
}

cudaError_t note_refusal(cudaError_t error, capture const* c) {
    auto line = this_call() + " breaks the rules of stream capture: " + text_of(error);
    if (c) line += "; the capture began" + call_sites::mark(c->begun);
    note_misuse(the_machine().misuse.bad_captures, std::move(line));
    return error;
}

bool is_mode(cudaStreamCaptureMode mode) {
    return mode == cudaStreamCaptureModeGlobal || mode == cudaStreamCaptureModeThreadLocal ||
           mode == cudaStreamCaptureModeRelaxed;
}

cudaStreamCaptureStatus status_of(stream const& s) {
    if (!s.capturing.in) return cudaStreamCaptureStatusNone;
    return s.capturing.in->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

cudaError_t begin(stream_handle const& s, cudaStreamCaptureMode mode) {
    static unsigned long long captures = 0;
    if (!is_mode(mode)) return cudaErrorInvalidValue;
    if (s->legacy) return note_refusal(cudaErrorStreamCaptureUnsupported, nullptr);
    if (s->capturing.in) return invalidate(*s->capturing.in, cudaErrorIllegalState);
    if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
    auto& m = the_machine();
    auto g = std::make_shared<graph>();
    g->capturing = true;
    auto const handle = reinterpret_cast<cudaGraph_t>(m.graphs.add(g, present_call()));
    auto c =
        std::make_shared<capture>(capture{++captures, std::move(g), handle, s.get(), mode, this_thread()});
    c->begun = here();
    c->streams.push_back(s);
    s->capturing = {c, {}};
    m.captures.push_back(std::move(c));
    return cudaSuccess;
}

cudaError_t why_not(capture const& c, stream const& s) {
    if (failure_of(s.owner) != cudaSuccess || c.invalid) return cudaErrorStreamCaptureInvalidated;
    return unjoined(*c.into, s.capturing.tips) ? note_refusal(cudaErrorStreamCaptureUnjoined, &c)
                                               : cudaSuccess;
}

cudaError_t end(stream_handle const& s, cudaGraph_t* out, std::shared_ptr<graph>& dropped) {
    *out = nullptr;
    auto const c = s->capturing.in;
    if (!c) return cudaErrorIllegalState;
    if (c->origin != s.get()) return invalidate(*c, cudaErrorStreamCaptureUnmatched);
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != this_thread())
        return note_refusal(cudaErrorStreamCaptureWrongThread, c.get());
    auto const error = why_not(*c, *s);
    finish(*c);
    if (error != cudaSuccess) {
        dropped = forget_graph(c->handle);
        return error;
    }
    ++the_machine().live.graphs;
    *out = c->handle;
    return cudaSuccess;
}

graph_node& add_node(stream& s, cudaGraphNodeType type) {
    auto& [in, tips] = s.capturing;
    auto& nodes = in->into->nodes;
    auto n = std::make_shared<graph_node>(graph_node{.type = type, .owner = &s.owner, .after = tips});
    n->call = call_number;
    nodes.push_back(std::move(n));
    tips = {nodes.size() - 1};
    return *nodes.back();
}

}  // namespace

cudaError_t invalidate(capture& c, cudaError_t error) {
    c.invalid = true;
    return note_refusal(error, &c);
}

cudaError_t refusal(function f) {
    ++call_number;
    if (f == function::cudaDeviceSynchronize) return refuse_device(current_device());
    if (f == function::cudaMemcpyPeer)
        if (auto const error = refuse_legacy(current_device()); error != cudaSuccess) return error;
    bool const is_refused =
        unsafe(f) || f == function::cudaMemcpyPeer ||
        (the_machine().capture_mode == capture_checks::every_slow_call && perhaps_unsafe(f));
    return is_refused ? refuse_unsafe() : cudaSuccess;
}

cudaError_t refusal_of_use(stream const& s, function f) {
    if (s.legacy && asks_about_captures(f)) {
        auto const& all = the_machine().captures;
        bool const unusable = std::any_of(all.begin(), all.end(),
                                          [&s](auto const& c) { return makes_legacy_unusable(*c, s.owner); });
        return unusable ? cudaErrorStreamCaptureImplicit : cudaSuccess;
    }
    if (asks_about_captures(f) || (only_asks(f) && !s.capturing.in)) return cudaSuccess;
    if (s.legacy)
        if (auto const error = refuse_legacy(s.owner); error != cudaSuccess) return error;
    if (!s.capturing.in) return synchronous(f) ? refuse_unsafe() : cudaSuccess;
    auto& c = *s.capturing.in;
    if (c.invalid) return cudaErrorStreamCaptureInvalidated;
    return can_be_captured(f) ? cudaSuccess : invalidate(c, cudaErrorStreamCaptureUnsupported);
}

void add_to_capture(stream& s, operation_ref work) {
    auto const& [in, tips] = s.capturing;
    auto const& nodes = in->into->nodes;
    bool const more_of_it =
        tips.size() == 1 && nodes[tips[0]]->call == call_number;  // the next row of a copy
    auto& n = more_of_it ? *nodes[tips[0]] : add_node(s, type_of(caller.calling));
    work->from = here();
    work->node = &n;
    n.work.push_back(std::move(work));
}

cudaError_t record_in_capture(stream& s, std::shared_ptr<event> const& e, unsigned flags) {
    if (flags == cudaEventRecordExternal) add_node(s, cudaGraphNodeTypeEventRecord).about = e;
    else e->captured = s.capturing;
    return cudaSuccess;
}

cudaError_t wait_in_capture(stream_handle const& s, std::shared_ptr<event> const& e, unsigned flags) {
    auto const from = e->captured.in, to = s->capturing.in;
    if (flags == cudaEventWaitExternal) {
        if (!to) return cudaErrorInvalidValue;
        add_node(*s, cudaGraphNodeTypeWaitEvent).about = e;
        return cudaSuccess;
    }
    if (!from) return e->recorded ? invalidate(*to, cudaErrorStreamCaptureIsolation) : cudaSuccess;
    if (!from->into) return to ? invalidate(*to, cudaErrorStreamCaptureIsolation) : refuse_captured(*e);
    if (from->invalid) return cudaErrorStreamCaptureInvalidated;
    if (to && to != from) {
        to->invalid = true;
        return invalidate(*from, cudaErrorStreamCaptureMerge);
    }
    if (s->legacy) return invalidate(*from, cudaErrorStreamCaptureUnsupported);
    if (!to) from->streams.push_back(s);
    s->capturing.in = from;
    add_tips(s->capturing.tips, e->captured.tips);
    return cudaSuccess;
}

cudaError_t refuse_captured(event const& e) {
    auto& c = *e.captured.in;
    return c.into ? invalidate(c, cudaErrorCapturedEvent) : note_refusal(cudaErrorCapturedEvent, &c);
}

std::shared_ptr<graph> leave_capture(stream& s) {
    auto const c = std::exchange(s.capturing, {}).in;
    if (!c) return nullptr;
    invalidate(*c, cudaErrorStreamCaptureInvalidated);
    if (c->origin != &s) return nullptr;
    finish(*c);  // no stream could end it
    return forget_graph(c->handle);
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
    return api(function::cudaStreamBeginCapture, [&](guard&) {
        auto const s = known_stream(handle);
        return s ? begin(s, mode) : bad_handle();
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
    dropped_after<std::shared_ptr<graph>> broken;
    return api(function::cudaStreamEndCapture, [&](guard&) {
        auto const s = known_stream(handle);
        if (!s) return bad_handle();
        return out ? end(s, out, broken.value) : cudaErrorInvalidValue;
    });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
    return api(function::cudaStreamIsCapturing, [&](guard&) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (!status) return cudaErrorInvalidValue;
        *status = status_of(*s);
        return cudaSuccess;
    });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    return api(function::cudaThreadExchangeStreamCaptureMode, [&](guard&) {
        if (!mode || !is_mode(*mode)) return cudaErrorInvalidValue;
        std::swap(*mode, caller.capture_mode);
        return cudaSuccess;
    });
}

namespace {

cudaError_t tell(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                 cudaGraph_t* into, cudaGraphNode_t const** tips, cudaGraphEdgeData const** edges,
                 size_t* count) {
    return api(function::cudaStreamGetCaptureInfo, [&](guard&) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (!status || (edges && !tips)) return cudaErrorInvalidValue;
        *status = status_of(*s);
        if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
        auto& c = *s->capturing.in;
        if (id) *id = c.id;
        if (into) *into = c.handle;
        if (count) *count = s->capturing.tips.size();
        if (!tips) return cudaSuccess;
        auto& told = c.told_tips;
        told.clear();
        for (auto const tip : s->capturing.tips) told.push_back(handle_of(c.into->nodes[tip]));
        *tips = told.data();
        if (edges) {
            c.told_edges.assign(told.size(), cudaGraphEdgeData{});
            *edges = c.told_edges.data();
        }
        return cudaSuccess;
    });
}

}  // namespace

#if CUDART_VERSION >= 13000  // in 12 both have fewer parameters, and the first another name
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* into, cudaGraphNode_t const** tips,
                                     cudaGraphEdgeData const** edges, size_t* count) {
    return tell(handle, status, id, into, tips, edges, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* nodes,
                                                cudaGraphEdgeData const* edges, size_t count,
                                                unsigned int flags) {
    return api(function::cudaStreamUpdateCaptureDependencies, [&](guard&) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (!s->capturing.in) return cudaErrorIllegalState;
        if (edges || (!nodes && count != 0) || flags > cudaStreamSetCaptureDependencies)
            return cudaErrorInvalidValue;
        std::vector<std::size_t> tips;
        auto const& all = s->capturing.in->into->nodes;
        for (std::size_t i = 0; i < count; ++i) {
            auto const found = std::find(all.begin(), all.end(), the_machine().graph_nodes.find(nodes[i]));
            if (found == all.end()) return cudaErrorInvalidValue;
            tips.push_back(static_cast<std::size_t>(found - all.begin()));
        }
        if (flags == cudaStreamSetCaptureDependencies)
            for (auto const old : std::exchange(s->capturing.tips, {})) all[old]->excused = true;
        add_tips(s->capturing.tips, tips);
        return cudaSuccess;
    });
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* into, cudaGraphNode_t const** tips,
                                     size_t* count) {
    return tell(handle, status, id, into, tips, nullptr, count);
}
#endif
