// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>
#include <cstdio>

// Graphs and the queries of their nodes and edges.
namespace cuota::inline v0::simulator {
namespace {

using nodes = std::vector<std::shared_ptr<graph_node>>;

cudaError_t bad_graph() {
    bad_handle();
    return cudaErrorInvalidValue;
}

template <class Use>
cudaError_t with_graph(function f, cudaGraph_t handle, Use use) {
    return api(f, [&](guard&) {
        auto const g = the_machine().graphs.find(handle);
        return g ? use(*g) : bad_graph();
    });
}

/// Fills the rest of the array with null.
template <class At>
cudaError_t give(std::size_t have, std::size_t* count, bool wanted, At at) {
    if (!count) return cudaErrorInvalidValue;
    if (wanted)
        for (std::size_t i = 0; i < *count; ++i) at(i, i < have);
    *count = wanted ? std::min(*count, have) : have;
    return cudaSuccess;
}

cudaError_t give(nodes const& all, cudaGraphNode_t* out, std::size_t* count) {
    return give(all.size(), count, out != nullptr,
                [&](std::size_t i, bool there) { out[i] = there ? handle_of(all[i]) : nullptr; });
}

struct edge {
    std::size_t from, to;
};

std::vector<edge> edges_of(graph const& g) {
    std::vector<edge> all;
    for (std::size_t to = 0; to < g.nodes.size(); ++to)
        for (auto const from : g.nodes[to]->after) all.push_back({from, to});
    return all;
}

/// A node's graph and index, among graphs with a handle.
struct home {
    std::shared_ptr<graph> in;
    std::size_t place = 0;
};

home home_of(std::shared_ptr<graph_node> const& n) {
    home found;
    the_machine().graphs.for_each([&](std::shared_ptr<graph> const& g, origin const&) {
        auto const at = std::find(g->nodes.begin(), g->nodes.end(), n);
        if (at != g->nodes.end()) found = {g, static_cast<std::size_t>(at - g->nodes.begin())};
    });
    return found;
}

template <class Pick>
cudaError_t neighbours(function f, cudaGraphNode_t handle, cudaGraphNode_t* out, std::size_t* count,
                       Pick pick) {
    return api(f, [&](guard&) {
        auto const n = the_machine().graph_nodes.find(handle);
        if (!n) return bad_graph();
        auto const [g, place] = home_of(n);
        nodes found;
        if (g)
            for (auto const& e : edges_of(*g))
                if (auto const other = pick(e, place)) found.push_back(g->nodes[*other]);
        return give(found, out, count);
    });
}

char const* name_of(cudaGraphNodeType type) {
    switch (type) {
        case cudaGraphNodeTypeKernel: return "kernel";
        case cudaGraphNodeTypeMemcpy: return "memcpy";
        case cudaGraphNodeTypeMemset: return "memset";
        case cudaGraphNodeTypeHost: return "host";
        case cudaGraphNodeTypeWaitEvent: return "event wait";
        case cudaGraphNodeTypeEventRecord: return "event record";
        case cudaGraphNodeTypeMemAlloc: return "memory allocation";
        case cudaGraphNodeTypeMemFree: return "memory free";
        default: return "empty";
    }
}

cudaError_t print(graph const& g, char const* path) {
    auto* const file = std::fopen(path, "w");
    if (!file) return cudaErrorOperatingSystem;
    std::fprintf(file, "digraph dot {\n");
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        std::fprintf(file, "  node_%zu [label=\"%s\"];\n", i, name_of(g.nodes[i]->type));
    for (auto const& [from, to] : edges_of(g)) std::fprintf(file, "  node_%zu -> node_%zu;\n", from, to);
    std::fprintf(file, "}\n");
    return std::fclose(file) == 0 ? cudaSuccess : cudaErrorOperatingSystem;
}

std::shared_ptr<graph> copy_of(graph const& g) {
    auto copy = std::make_shared<graph>();
    for (auto const& n : g.nodes) {
        copy->nodes.push_back(std::make_shared<graph_node>(*n));
        copy->nodes.back()->handle = 0;
    }
    return copy;
}

}  // namespace

cudaGraphNode_t handle_of(std::shared_ptr<graph_node> const& n) {
    if (n->handle == 0) n->handle = the_machine().graph_nodes.add(n);
    return reinterpret_cast<cudaGraphNode_t>(n->handle);
}

std::shared_ptr<graph> forget_graph(cudaGraph_t handle) {
    auto& m = the_machine();
    auto g = m.graphs.remove(handle, here());
    if (!g) return nullptr;
    for (auto const& n : g->nodes)
        if (auto const known = std::exchange(n->handle, 0); known != 0)
            m.graph_nodes.remove(reinterpret_cast<void*>(known));
    let_go_of_memory(*g);
    return g;
}

std::vector<std::string> describe_graphs() {
    std::vector<std::string> lines;
    auto& m = the_machine();
    auto const add = [&lines](std::string what, graph const& g, origin const& from) {
        auto const n = g.nodes.size();
        lines.push_back(what + " of " + std::to_string(n) + (n == 1 ? " node" : " nodes") + from.text());
    };
    m.graphs.for_each([&](auto const& g, origin const& from) {
        if (!g->capturing) add("graph", *g, from);
    });
    m.graph_execs.for_each([&](auto const& e, origin const& from) { add("executable graph", *e->of, from); });
    return lines;
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaGraphCreate(cudaGraph_t* out, unsigned int flags) {
    return api(function::cudaGraphCreate, [&](guard&) {
        if (!out || flags != 0) return cudaErrorInvalidValue;
        auto& m = the_machine();
        *out = reinterpret_cast<cudaGraph_t>(m.graphs.add(std::make_shared<graph>(), present_call()));
        ++m.live.graphs;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
    dropped_after<std::shared_ptr<graph>> gone;
    return api(function::cudaGraphDestroy, [&](guard&) {
        auto& m = the_machine();
        auto const g = m.graphs.find(handle);
        if (!g) return bad_graph();
        if (g->capturing) return cudaErrorInvalidValue;
        gone.value = forget_graph(handle);
        --m.live.graphs;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphClone(cudaGraph_t* out, cudaGraph_t handle) {
    return with_graph(function::cudaGraphClone, handle, [&](graph& g) {
        if (!out || g.capturing) return cudaErrorInvalidValue;
        if (has_memory_nodes(g)) return cudaErrorNotSupported;
        *out = reinterpret_cast<cudaGraph_t>(the_machine().graphs.add(copy_of(g), present_call()));
        ++the_machine().live.graphs;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* out, size_t* count) {
    return with_graph(function::cudaGraphGetNodes, handle,
                      [&](graph& g) { return give(g.nodes, out, count); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* out, size_t* count) {
    return with_graph(function::cudaGraphGetRootNodes, handle, [&](graph& g) {
        nodes roots;
        std::copy_if(g.nodes.begin(), g.nodes.end(), std::back_inserter(roots),
                     [](auto const& n) { return n->after.empty(); });
        return give(roots, out, count);
    });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle, cudaGraphNodeType* type) {
    return api(function::cudaGraphNodeGetType, [&](guard&) {
        auto const n = the_machine().graph_nodes.find(handle);
        if (!n) return bad_graph();
        if (!type) return cudaErrorInvalidValue;
        *type = n->type;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t handle, char const* path, unsigned int) {
    return with_graph(function::cudaGraphDebugDotPrint, handle,
                      [&](graph& g) { return path ? print(g, path) : cudaErrorInvalidValue; });
}

#if CUDART_VERSION >= 13000  // without edge data in 12
cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* data, size_t* count) {
    return with_graph(function::cudaGraphGetEdges, handle, [&](graph& g) {
        if (!from != !to || (data && !from)) return cudaErrorInvalidValue;
        auto const all = edges_of(g);
        return give(all.size(), count, from != nullptr, [&](std::size_t i, bool there) {
            from[i] = there ? handle_of(g.nodes[all[i].from]) : nullptr;
            to[i] = there ? handle_of(g.nodes[all[i].to]) : nullptr;
            if (data) data[i] = {};
        });
    });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* out, cudaGraphEdgeData* data,
                                         size_t* count) {
    if (out && data && count) std::fill_n(data, *count, cudaGraphEdgeData{});
    return neighbours(function::cudaGraphNodeGetDependencies, node, out, count,
                      [](edge const& e, std::size_t place) {
                          return e.to == place ? std::optional{e.from} : std::nullopt;
                      });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* out,
                                           cudaGraphEdgeData* data, size_t* count) {
    if (out && data && count) std::fill_n(data, *count, cudaGraphEdgeData{});
    return neighbours(function::cudaGraphNodeGetDependentNodes, node, out, count,
                      [](edge const& e, std::size_t place) {
                          return e.from == place ? std::optional{e.to} : std::nullopt;
                      });
}
#endif
