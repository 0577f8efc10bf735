// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Device memory of the allocation nodes of graphs, which code that calls cudaMallocAsync in a capture makes.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0::rt {

/// Returns the most bytes that the graph's allocation nodes have allocated at once, in whole pieces of 2 MiB, as the driver takes them; 0
/// without such nodes. Two blocks share memory if the free of one comes before the allocation of the other. Headers of CUDA 12 cannot read
/// programmatic dependencies; no block shares memory in a graph with one.
/// Throws: cuda_error, std::bad_alloc.
/// Cost:   a CUDA call for each node; with allocation nodes also the paths, which take a bit for each node and each free.
[[nodiscard]] std::size_t memory_needed_by(cudaGraph_t graph);

/// Returns the bytes that the driver holds for graphs of this process, in use or not (cudaGraphMemAttrReservedMemCurrent). Throws:
/// cuda_error.
[[nodiscard]] std::size_t memory_of_graphs(device where);

/// Releases memory of graphs that do not run (cudaDeviceGraphMemTrim). Throws: cuda_error.
void trim_memory_of_graphs(device where);

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::rt::detail {

/// The nodes of a graph in an order in which each comes after those that it depends on.
class sorted_nodes {
public:
    sorted_nodes(cudaGraph_t graph, std::vector<cudaGraphNode_t> nodes) : nodes_{std::move(nodes)} {
        std::ranges::sort(nodes_);
        find_edges(graph);
        std::vector<std::size_t> open(nodes_.size());  // dependencies that have no place yet
        for (edge const& e : edges_) ++open[e.to];
        for (std::size_t i = 0; i != nodes_.size(); ++i)
            if (open[i] == 0) order_.push_back(i);
        for (std::size_t at = 0; at != order_.size(); ++at)
            for (edge const& e : from(order_[at]))
                if (--open[e.to] == 0) order_.push_back(e.to);
    }

    struct edge {
        std::size_t from, to;  // indices of nodes
    };
    [[nodiscard]] std::vector<std::size_t> const& order() const noexcept { return order_; }
    [[nodiscard]] cudaGraphNode_t node(std::size_t i) const noexcept { return nodes_[i]; }
    [[nodiscard]] std::span<edge const> from(std::size_t i) const {
        auto const first = std::ranges::lower_bound(edges_, i, {}, &edge::from);
        auto const last = std::ranges::upper_bound(edges_, i, {}, &edge::from);
        return {first, last};
    }

private:
    void find_edges(cudaGraph_t graph) {
        std::size_t count = 0;
        if (!has_edges(edges_of(graph, nullptr, nullptr, &count))) return;
        std::vector<cudaGraphNode_t> from(count), to(count);
        if (!has_edges(edges_of(graph, from.data(), to.data(), &count))) return;
        for (std::size_t i = 0; i != count; ++i) edges_.push_back({index_of(from[i]), index_of(to[i])});
        std::ranges::sort(edges_, {}, &edge::from);
    }
    [[nodiscard]] static bool has_edges(cudaError_t code) {
#if CUDART_VERSION >= 12030 && CUDART_VERSION < 13000
        if (code == cudaErrorLossyQuery) {
            (void)cudaGetLastError();
            return false;
        }
#endif
        check(code, "cudaGraphGetEdges", {});
        return true;
    }
    [[nodiscard]] static cudaError_t edges_of(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                              std::size_t* count) {
#if CUDART_VERSION >= 13000
        std::vector<cudaGraphEdgeData> data(from ? *count : 0);  // without it, some edges are an error
        return cudaGraphGetEdges(graph, from, to, from ? data.data() : nullptr, count);
#else
        return cudaGraphGetEdges(graph, from, to, count);
#endif
    }
    [[nodiscard]] std::size_t index_of(cudaGraphNode_t node) const {
        return static_cast<std::size_t>(std::ranges::lower_bound(nodes_, node) - nodes_.begin());
    }

    std::vector<cudaGraphNode_t> nodes_;
    std::vector<edge> edges_{};  // sorted by `from`
    std::vector<std::size_t> order_{};
};

struct graph_block {
    void* address;
    std::size_t bytes;
    std::size_t freed_by;  // number of the free, from 0; `never`
};
inline constexpr std::size_t never = ~std::size_t{0};

[[nodiscard]] CUOTA_INLINE std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph) {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes", {});
    std::vector<cudaGraphNode_t> nodes(count);
    check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes", {});
    return nodes;
}

[[nodiscard]] CUOTA_INLINE cudaGraphNodeType type_of(cudaGraphNode_t node) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType", {});
    return type;
}

// Fills `before[node]` with the frees that come before it on a path: one bit for each.
class frees_before {
public:
    frees_before(std::size_t nodes, std::size_t frees) : words_{(frees + 63) / 64}, bits_(nodes * words_) {}
    void add(std::size_t node, std::size_t free) noexcept {
        bits_[node * words_ + free / 64] |= std::uint64_t{1} << free % 64;
    }
    void add_all(std::size_t node, std::size_t from) noexcept {
        for (std::size_t i = 0; i != words_; ++i) bits_[node * words_ + i] |= bits_[from * words_ + i];
    }
    [[nodiscard]] bool has(std::size_t node, std::size_t free) const noexcept {
        return (bits_[node * words_ + free / 64] >> free % 64 & 1) != 0;
    }

private:
    std::size_t words_;
    std::vector<std::uint64_t> bits_;
};

}  // namespace cuota::inline v0::rt::detail

namespace cuota::inline v0::rt {

CUOTA_INLINE std::size_t memory_needed_by(cudaGraph_t graph) {
    constexpr std::size_t unit = 512, piece = std::size_t{2} << 20;
    std::vector<cudaGraphNode_t> nodes = detail::nodes_of(graph);
    if (std::ranges::none_of(
            nodes, [](cudaGraphNode_t node) { return detail::type_of(node) == cudaGraphNodeTypeMemAlloc; }))
        return 0;
    detail::sorted_nodes const sorted{graph, std::move(nodes)};
    std::vector<detail::graph_block> blocks;  // in the order of their allocations
    std::size_t all_frees = 0;
    for (std::size_t const i : sorted.order()) {
        cudaGraphNode_t const node = sorted.node(i);
        cudaGraphNodeType const type = detail::type_of(node);
        if (type == cudaGraphNodeTypeMemAlloc) {
            cudaMemAllocNodeParams of{};
            check(cudaGraphMemAllocNodeGetParams(node, &of), "cudaGraphMemAllocNodeGetParams", {});
            blocks.push_back({of.dptr, round_up(of.bytesize, unit), detail::never});
        } else if (type == cudaGraphNodeTypeMemFree) {
            void* address = nullptr;
            check(cudaGraphMemFreeNodeGetParams(node, &address), "cudaGraphMemFreeNodeGetParams", {});
            // Blocks of one address follow each other; the last one is meant.
            auto const last = std::find_if(blocks.rbegin(), blocks.rend(), [&](detail::graph_block const& b) {
                return b.address == address;
            });
            if (last != blocks.rend()) last->freed_by = all_frees;
            ++all_frees;
        }
    }
    detail::frees_before before{sorted.order().size(), all_frees};
    std::size_t allocations = 0, frees = 0, most = 0;
    for (std::size_t const i : sorted.order()) {
        cudaGraphNodeType const type = detail::type_of(sorted.node(i));
        if (type == cudaGraphNodeTypeMemAlloc) {
            std::size_t live = 0;
            for (std::size_t k = 0; k <= allocations; ++k)
                if (blocks[k].freed_by == detail::never || !before.has(i, blocks[k].freed_by))
                    live = cuota::detail::saturating_add(live, blocks[k].bytes);
            most = std::max(most, live);
            ++allocations;
        } else if (type == cudaGraphNodeTypeMemFree) {
            before.add(i, frees++);
        }
        for (auto const& e : sorted.from(i)) before.add_all(e.to, i);
    }
    return round_up(most, piece);
}

CUOTA_INLINE std::size_t memory_of_graphs(device where) {
    relaxed_capture_mode const beside;
    std::uint64_t bytes = 0;
    check(cudaDeviceGetGraphMemAttribute(where.ordinal(), cudaGraphMemAttrReservedMemCurrent, &bytes),
          "cudaDeviceGetGraphMemAttribute", {});
    return bytes;
}

CUOTA_INLINE void trim_memory_of_graphs(device where) {
    relaxed_capture_mode const beside;
    check(cudaDeviceGraphMemTrim(where.ordinal()), "cudaDeviceGraphMemTrim", {});
}

}  // namespace cuota::inline v0::rt

#endif
