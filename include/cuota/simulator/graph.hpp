// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

/// Stream capture and graphs; see docs/design/simulator.md.
namespace cuota::inline v0::simulator {

struct graph_node {
    cudaGraphNodeType type;
    device* owner;
    std::vector<std::size_t> after;     ///< the nodes that it depends on
    std::vector<operation_ref> work{};  ///< several for the rows of a copy
    std::shared_ptr<event> about{};     ///< recorded or waited for at each launch
    allocation_ref memory{};            ///< of memory nodes
    std::vector<std::pair<char const*, ordering::declaration>> touches{};
    std::uint64_t call = 0;     ///< number of the call that made it
    bool excused = false;       ///< removed from the stream's dependencies by the program
    std::uintptr_t handle = 0;  ///< zero until a handle is requested
};

/// The nodes are in topological order.
struct graph {
    std::vector<std::shared_ptr<graph_node>> nodes;
    bool capturing = false;
    std::size_t executables = 0;
};

struct capture {
    unsigned long long id;
    std::shared_ptr<graph> into;  ///< null after its end
    cudaGraph_t handle;
    stream* origin;  ///< only compared
    cudaStreamCaptureMode mode;
    std::uint64_t thread;
    bool invalid = false;
    call_sites::site begun{};
    std::vector<std::weak_ptr<stream>> streams{};
    std::vector<cudaGraphNode_t> told_tips{};  ///< the array that cudaStreamGetCaptureInfo returned
    std::vector<cudaGraphEdgeData> told_edges{};
};

struct graph_exec {
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
    std::vector<device*> lane_owners{};
    std::vector<stream_handle> lanes{};  ///< created on first use; the launching stream is one of them
    operation_ref last{};
    std::size_t memory_needed = 0;         ///< bytes, by allocation nodes
    device* memory_on = nullptr;           ///< null: it has none
    unsigned long long memory_stream = 0;  ///< id of the stream of its last launch
};

/// A value that is destroyed after the call has released the lock, because it contains the program's kernels.
template <class T>
class dropped_after {
public:
    dropped_after() = default;
    ~dropped_after() {
        sanitizer::quiet quiet;  // Not around the call: two nested scopes would lose ThreadSanitizer's edges.
        value = {};
    }
    dropped_after(dropped_after const&) = delete;
    dropped_after& operator=(dropped_after const&) = delete;

    T value{};
};

// ---- capture.cpp ----

cudaError_t record_in_capture(stream& s, std::shared_ptr<event> const& e, unsigned flags);
cudaError_t wait_in_capture(stream_handle const& s, std::shared_ptr<event> const& e, unsigned flags);
cudaError_t refuse_captured(event const& e);
/// Invalidates the capture. The returned graph must be destroyed without the lock.
std::shared_ptr<graph> leave_capture(stream& s);
cudaError_t refusal_of_use(stream const& s, function f);
/// Counts the misuse and returns `error`.
cudaError_t invalidate(capture& c, cudaError_t error);

// ---- graph.cpp ----

cudaGraphNode_t handle_of(std::shared_ptr<graph_node> const& n);
/// Called for an executable that is destroyed; its work may still run.
void end_executable(guard& lock, graph_exec& e);
/// Removes the nodes' handles, too.
std::shared_ptr<graph> forget_graph(cudaGraph_t handle);

std::vector<std::string> describe_graphs();

// ---- graph_memory.cpp ----

bool has_memory_nodes(graph const& g);
/// Returns bytes.
std::size_t needed_by(graph const& g);
/// Called for each graph and executable that has the nodes, when it is made.
void hold_memory(graph const& g);
/// Same, when it is destroyed.
void let_go_of_memory(graph const& g);
void end_leaving();
cudaError_t allocate_in_graph(guard& lock, void** out, std::size_t bytes, stream_handle const& s,
                              function by);
cudaError_t free_in_graph(guard& lock, void* address, stream_handle const& s);
cudaError_t free_outside(guard& lock, allocation_ref const& a, stream_handle const& s);
cudaError_t free_outside(guard& lock, allocation_ref const& a);
/// Returns an error if memory of an earlier launch has not been freed.
cudaError_t refusal_of_launch(graph_exec const& e);
cudaError_t take_graph_memory(graph_exec& e, stream const& s);
void begin_graph_memory(graph_exec const& e);
/// Called for an executable that is destroyed.
void leave_graph_memory(graph_exec const& e);
/// Returns the device's memory, also that of executables.
void forget_graph_memory(device& d);
/// Same, and frees the blocks that launches have left. No work may run.
void reset_graph_memory(device& d);
/// Returns the memory of executables that do not run.
void trim_graph_memory(device& d);

// ---- stream.cpp ----

stream_handle make_stream(device& d, unsigned flags, int priority);

}  // namespace cuota::inline v0::simulator
