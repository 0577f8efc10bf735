// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

/// Stream capture, and graphs.
///
/// What is enqueued on a capturing stream becomes a node, which keeps the operation itself: `run` is called at
/// each launch. A launch is work of its stream. Chains of nodes lie on streams of their own that nobody else
/// can name, so branches run side by side or in either order, and every tool that knows the order of streams
/// (scheduler, race checker, ThreadSanitizer) knows that of a graph.
///
/// Memory nodes are missing: cudaMallocAsync and cudaFreeAsync in a capture are refused with
/// cudaErrorStreamCaptureUnsupported and invalidate it, where CUDA would capture them.
namespace cuota::inline v0::simulator {

struct graph_node {
    cudaGraphNodeType type;
    device* owner;                      ///< of the stream that it was captured from
    std::vector<std::size_t> after;     ///< earlier nodes of its graph, by their place there
    std::vector<operation_ref> work{};  ///< several for the rows of a copy
    std::shared_ptr<event> about{};     ///< to be recorded or waited for at each launch
    std::vector<std::pair<char const*, ordering::declaration>> touches{};
    std::uint64_t call = 0;     ///< of the call that made it
    bool excused = false;       ///< the program has said that nothing in the stream comes after it
    std::uintptr_t handle = 0;  ///< zero until somebody asks for it
};

/// Nodes come after all that they depend on, since nothing can depend on a node yet to be made.
struct graph {
    std::vector<std::shared_ptr<graph_node>> nodes;
    bool capturing = false;
};

/// A capture from its begin to its end, on all of its streams.
struct capture {
    unsigned long long id;
    std::shared_ptr<graph> into;  ///< null once it has ended
    cudaGraph_t handle;
    stream* origin;  ///< compared, never followed
    cudaStreamCaptureMode mode;
    std::uint64_t thread;  ///< that began it
    bool invalid = false;
    call_sites::site begun{};
    std::vector<std::weak_ptr<stream>> streams{};
    std::vector<cudaGraphNode_t> told_tips{};  ///< what cudaStreamGetCaptureInfo has pointed to
    std::vector<cudaGraphEdgeData> told_edges{};
};

struct graph_exec {
    /// One node of the graph, or of a graph inside it, which is null where something inside is over.
    struct step {
        std::shared_ptr<graph_node> node;
        device* owner;
        std::vector<std::size_t> after;
        std::size_t lane = 0;
    };

    std::shared_ptr<graph> of;
    device* owner;
    unsigned long long flags;
    std::vector<step> steps;
    std::vector<device*> lane_owners{};  ///< a lane is a chain of steps, each after the one before it
    std::vector<stream_handle> lanes{};  ///< made when first needed; the launching stream stands for one
    operation_ref last{};                ///< the end of the latest launch
};

/// What a call leaves to be dropped after it, without the lock: kernels in it are the program's.
template <class T>
class dropped_after {
public:
    dropped_after() = default;
    ~dropped_after() {
        sanitizer::quiet quiet;  // not around the call: edges would be lost in two that nest
        value = {};
    }
    dropped_after(dropped_after const&) = delete;
    dropped_after& operator=(dropped_after const&) = delete;

    T value{};
};

// ---- capture.cpp ----

/// A dependency of captured work, as an event. For `event.cpp` and `stream.cpp`: the rules of events and captures.
cudaError_t record_in_capture(stream& s, std::shared_ptr<event> const& e, unsigned flags);
cudaError_t wait_in_capture(stream_handle const& s, std::shared_ptr<event> const& e, unsigned flags);
/// An event that was last recorded in a capture has no state to ask for: cudaErrorCapturedEvent.
cudaError_t refuse_captured(event const& e);
/// The stream goes away, and no capture can be right without it. What is left of one is to be dropped without
/// the lock, as its kernels are the program's.
std::shared_ptr<graph> leave_capture(stream& s);
/// Why the capture, if there is one, does not let this call use the stream; cudaSuccess if it does.
cudaError_t refusal_of_use(stream const& s, function f);
/// A call that CUDA forbids: it gets the error, and the capture is invalid.
cudaError_t invalidate(capture& c, cudaError_t error);

// ---- graph.cpp ----

cudaGraphNode_t handle_of(std::shared_ptr<graph_node> const& n);
/// Its streams go when their work is done.
void drop_lanes(guard& lock, graph_exec& e);
/// The graph and its nodes have no handles any more.
std::shared_ptr<graph> forget_graph(cudaGraph_t handle);

/// For `leaks`: one line for each graph and each executable graph.
std::vector<std::string> describe_graphs();

// ---- stream.cpp ----

stream_handle make_stream(device& d, unsigned flags, int priority);

}  // namespace cuota::inline v0::simulator
