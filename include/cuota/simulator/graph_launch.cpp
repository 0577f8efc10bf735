// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>

// Executable graphs: planning and launching.
namespace cuota::inline v0::simulator {
namespace {

using launch_step = graph_exec::step;
using site_differ = std::vector<std::size_t>;

cudaError_t bad_exec() {
    bad_handle();
    return cudaErrorInvalidValue;
}

/// Assigns the steps to lanes, in which each step depends on its predecessor: lanes add no order.
void choose_lanes(graph_exec& e) {
    site_differ last_of_lane;
    for (std::size_t i = 0; i < e.steps.size(); ++i) {
        auto& s = e.steps[i];
        s.lane = last_of_lane.size();
        for (auto const before : s.after) {
            auto const& b = e.steps[before];
            if (last_of_lane[b.lane] == before && b.owner == s.owner) {
                s.lane = b.lane;
                break;
            }
        }
        if (s.lane == last_of_lane.size()) {
            last_of_lane.push_back(i);
            e.lane_owners.push_back(s.owner);
        }
        last_of_lane[s.lane] = i;
    }
}

void plan(graph_exec& e) {
    e.steps.clear();
    e.lane_owners.clear();
    for (auto const& n : e.of->nodes) e.steps.push_back({n, n->owner, n->after});
    choose_lanes(e);
    e.lanes.resize(e.lane_owners.size());
    e.memory_needed = has_memory_nodes(*e.of) ? needed_by(*e.of) : 0;
}

void begin_use(graph& g) {
    ++g.executables;
    hold_memory(g);
}
void end_use(graph& g) {
    --g.executables;
    let_go_of_memory(g);
}

/// Returns the first differing node, or null if the numbers of nodes differ.
std::pair<cudaGraphExecUpdateResult, std::shared_ptr<graph_node>> difference(graph const& had,
                                                                             graph const& g) {
    if (had.nodes.size() != g.nodes.size()) return {cudaGraphExecUpdateErrorTopologyChanged, nullptr};
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        auto const &was = *had.nodes[i], &is = *g.nodes[i];
        if (was.type != is.type) return {cudaGraphExecUpdateErrorNodeTypeChanged, g.nodes[i]};
        if (was.after != is.after) return {cudaGraphExecUpdateErrorTopologyChanged, g.nodes[i]};
        if (was.owner != is.owner || was.memory != is.memory)
            return {cudaGraphExecUpdateErrorParametersChanged, g.nodes[i]};
    }
    return {cudaGraphExecUpdateSuccess, nullptr};
}

cudaError_t instantiate(cudaGraphExec_t* out, cudaGraph_t handle, unsigned long long flags) {
    constexpr unsigned long long known =
        cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
        cudaGraphInstantiateFlagDeviceLaunch | cudaGraphInstantiateFlagUseNodePriority;
    auto& m = the_machine();
    auto const g = m.graphs.find(handle);
    if (!g) return bad_exec();
    if (!out || g->capturing || (flags & ~known) != 0) return cudaErrorInvalidValue;
    if (flags & cudaGraphInstantiateFlagDeviceLaunch) return cudaErrorNotSupported;
    if (g->executables != 0 && has_memory_nodes(*g)) return cudaErrorNotSupported;
    auto e = std::make_shared<graph_exec>(
        graph_exec{.of = g, .owner = &current_device(), .flags = flags, .steps = {}});
    plan(*e);
    *out = reinterpret_cast<cudaGraphExec_t>(m.graph_execs.add(std::move(e), present_call()));
    begin_use(*g);
    ++m.live.graph_execs;
    return cudaSuccess;
}

void come_after(stream& s, operation& work, operation_ref const& first) {
    ordering::learns(s, first->at);
    order(work, first);
}

/// The work keeps the node alive.
operation_ref work_of(launch_step const& what) {
    if (auto const& e = what.node->about; e && what.node->type == cudaGraphNodeTypeEventRecord) {
        auto when = std::make_shared<std::chrono::steady_clock::time_point>();
        e->when = when;
        e->captured = {};
        return e->recorded = make_task([when] { *when = std::chrono::steady_clock::now(); });
    }
    return make_task([node = what.node] {
        for (auto const& part : node->work) {
            part->run();
            sanitizer::publish(part->token());  // the destruction of the node happens after all launches
        }
    });
}

class launch {
public:
    launch(guard& lock, graph_exec& e, stream_handle const& on) : lock_{lock}, exec_{e}, on_{on} {}

    void operator()() {
        begin_ = make_task([] {});
        // Launches of one executable graph do not overlap.
        if (exec_.last) come_after(*on_, *begin_, exec_.last);
        enqueue(lock_, on_, begin_);
        for (auto const& s : exec_.steps) put(s);
        auto const end = make_task([] {});
        for (std::size_t i = 0; i < exec_.lanes.size(); ++i)
            if (lane(i) != on_) come_after(*on_, *end, lane(i)->last);
        enqueue(lock_, on_, end);
        exec_.last = end;
    }

private:
    void put(launch_step const& what) {
        auto const& s = lane(what.lane);
        auto const work = work_of(what);
        if (what.after.empty() && s != on_) come_after(*s, *work, begin_);
        for (auto const before : what.after)
            if (exec_.steps[before].lane != what.lane) come_after(*s, *work, done_[before]);
        if (what.node->type == cudaGraphNodeTypeWaitEvent && what.node->about->recorded)
            come_after(*s, *work, what.node->about->recorded);
        enqueue(lock_, s, work);
        ordering::replays(*s, *work, *what.node);
        done_.push_back(work);
    }

    stream_handle const& lane(std::size_t index) {
        auto* const owner = exec_.lane_owners[index];
        if (index == 0 && owner == &on_->owner) return on_;
        auto& own = exec_.lanes[index];
        if (!own) own = make_stream(*owner, cudaStreamNonBlocking, on_->priority);
        own->id = on_->id;  // reports show the program's stream
        return own;
    }

    guard& lock_;
    graph_exec& exec_;
    stream_handle const& on_;
    operation_ref begin_;
    std::vector<operation_ref> done_;
};

template <class Use>
cudaError_t with_exec(function f, cudaGraphExec_t exec, cudaStream_t handle, Use use) {
    return api(f, [&](guard& lock) {
        auto const e = the_machine().graph_execs.find(exec);
        if (!e) return bad_exec();
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
        return use(lock, *e, s);
    });
}

}  // namespace

void end_executable(guard& lock, graph_exec& e) {
    for (auto const& lane : e.lanes)
        if (lane) let_go(lock, lane);
    end_use(*e.of);
    leave_graph_memory(e);
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t g, unsigned long long flags) {
    return api(function::cudaGraphInstantiate, [&](guard&) { return instantiate(out, g, flags); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t g, unsigned long long flags) {
    return api(function::cudaGraphInstantiateWithFlags, [&](guard&) { return instantiate(out, g, flags); });
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* out, cudaGraph_t g,
                                           cudaGraphInstantiateParams* wanted) {
    return api(function::cudaGraphInstantiateWithParams, [&](guard&) {
        if (!wanted) return cudaErrorInvalidValue;
        auto const error = instantiate(out, g, wanted->flags);
        wanted->errNode_out = nullptr;
        wanted->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
        return error;
    });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t handle,
                                cudaGraphExecUpdateResultInfo* told) {
    dropped_after<std::pair<std::shared_ptr<graph>, std::vector<graph_exec::step>>> before;
    return api(function::cudaGraphExecUpdate, [&](guard&) {
        auto const e = the_machine().graph_execs.find(exec);
        auto const g = the_machine().graphs.find(handle);
        if (!e || !g) return bad_exec();
        if (!told || g->capturing) return cudaErrorInvalidValue;
        auto const [what, where] = difference(*e->of, *g);
        *told = {};
        told->result = what;
        if (where) told->errorNode = handle_of(where);
        if (what != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
        before.value = {std::exchange(e->of, g), std::move(e->steps)};
        plan(*e);
        begin_use(*g);
        end_use(*before.value.first);
        return cudaSuccess;
    });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
    return api(function::cudaGraphExecGetFlags, [&](guard&) {
        auto const e = the_machine().graph_execs.find(exec);
        if (!e) return bad_exec();
        if (!flags) return cudaErrorInvalidValue;
        *flags = e->flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagUpload);
        return cudaSuccess;
    });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
    return with_exec(function::cudaGraphUpload, exec, handle,
                     [](guard& lock, graph_exec& e, stream_handle const& s) {
                         if (auto const error = take_graph_memory(e, *s); error != cudaSuccess) return error;
                         auto work = make_task([] {});
                         if (e.last) come_after(*s, *work, e.last);
                         enqueue(lock, s, std::move(work));
                         return cudaSuccess;
                     });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
    return with_exec(function::cudaGraphLaunch, exec, handle,
                     [](guard& lock, graph_exec& e, stream_handle const& s) {
                         auto error = refusal_of_launch(e);
                         if (error == cudaSuccess) error = take_graph_memory(e, *s);
                         if (error != cudaSuccess) return error;
                         launch{lock, e, s}();
                         begin_graph_memory(e);
                         return cudaSuccess;
                     });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
    dropped_after<std::shared_ptr<graph_exec>> gone;
    return api(function::cudaGraphExecDestroy, [&](guard& lock) {
        gone.value = the_machine().graph_execs.remove(handle, here());
        if (!gone.value) return bad_exec();
        end_executable(lock, *gone.value);
        --the_machine().live.graph_execs;
        return cudaSuccess;
    });
}
