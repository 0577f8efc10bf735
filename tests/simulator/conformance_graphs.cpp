// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/graphs.hpp"

#include <algorithm>
#include <cstring>
#include <string>

// Graphs made by capture: the comments of cudaGraphLaunch, cudaGraphInstantiate, cudaGraphExecDestroy and the queries in
// cuda_runtime_api.h; CUDA C++ Programming Guide, "CUDA Graphs".

using namespace conformance;

namespace {

/// Host functions that log the order of their calls.
struct diary {
    std::string text;
    struct line {
        diary* of;
        char what;
    };
    std::vector<std::unique_ptr<line>> lines;

    void note(char what, cudaStream_t s) {
        lines.push_back(std::make_unique<line>(line{this, what}));
        auto const call = [](void* data) {
            auto const* const l = static_cast<line const*>(data);
            l->of->text += l->what;
        };
        REQUIRE(cudaLaunchHostFunc(s, call, lines.back().get()) == cudaSuccess);
    }
};

std::size_t node_count(cudaGraph_t g) {
    std::size_t count = 0;
    REQUIRE(cudaGraphGetNodes(g, nullptr, &count) == cudaSuccess);
    return count;
}

std::vector<int> kinds_of(cudaGraph_t g) {
    auto count = node_count(g);
    std::vector<cudaGraphNode_t> nodes(count);
    std::vector<int> kinds(cudaGraphNodeTypeCount);
    REQUIRE(cudaGraphGetNodes(g, nodes.data(), &count) == cudaSuccess);
    for (auto* const n : nodes) {
        auto type = cudaGraphNodeTypeEmpty;
        REQUIRE(cudaGraphNodeGetType(n, &type) == cudaSuccess);
        ++kinds[static_cast<std::size_t>(type)];
    }
    return kinds;
}

}  // namespace

TEST_CASE("each launch runs all nodes of the graph in order", "[simulator][graphs]") {
    capture_bench t;
    diary d;
    begin_capture(t.a);
    for (char const c : {'x', 'y', 'z'}) d.note(c, t.a);
    executable const e{end_capture(t.a)};
    CHECK(d.text.empty());
    for (int i = 0; i < 3; ++i) e.launch(t.a);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(d.text == "xyzxyzxyz");
}

TEST_CASE("a graph runs in the order of the stream in which it is launched", "[simulator][graphs]") {
    capture_bench t;
    diary d;
    begin_capture(t.b);
    d.note('g', t.b);
    executable const e{end_capture(t.b)};
    gate closed{t.a};
    d.note('<', t.a);
    e.launch(t.a);
    d.note('>', t.a);
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);            // the capturing stream is irrelevant
    std::this_thread::sleep_for(std::chrono::milliseconds{10});  // time to go wrong
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(d.text == "<g>");
}

TEST_CASE("every branch of a graph waits for earlier work of the stream", "[simulator][graphs]") {
    capture_bench t;
    begin_capture(t.b);
    REQUIRE(cudaEventRecord(t.forked, t.b) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(t.blocking, t.forked, 0) == cudaSuccess);
    REQUIRE(cudaMemsetAsync(t.pinned, 1, t.bytes, t.b) == cudaSuccess);
    t.set(2, t.blocking);
    REQUIRE(cudaEventRecord(t.joined, t.blocking) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(t.b, t.joined, 0) == cudaSuccess);
    executable const e{end_capture(t.b)};
    gate closed{t.a};
    t.set(1, t.a);
    e.launch(t.a);
    std::this_thread::sleep_for(std::chrono::milliseconds{10});  // time to go wrong
    closed.open();
    CHECK(all_are(contents(t.device, t.bytes), 2));
}

TEST_CASE("later work of the stream waits for every branch of a graph", "[simulator][graphs]") {
    capture_bench t;
    begin_capture(t.a);
    t.fork();
    t.set(1, t.a);
    gate inside{t.b};  // no node of the graph follows it
    t.join();
    executable const e{end_capture(t.a)};
    e.launch(t.a);
    CHECK(returns_after(inside, [&] { return cudaStreamSynchronize(t.a); }));
}

TEST_CASE("the legacy stream orders graphs like other work", "[simulator][graphs]") {
    capture_bench t;
    diary d;
    begin_capture(t.a);
    d.note('1', t.a);
    t.fork();
    d.note('2', t.b);
    t.join();
    executable const e{end_capture(t.a)};
    gate closed{t.blocking};
    d.note('0', t.blocking);
    e.launch(cudaStreamLegacy);
    d.note('3', t.blocking);
    std::this_thread::sleep_for(std::chrono::milliseconds{10});  // time to go wrong
    closed.open();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(d.text == "0123");
}

TEST_CASE("launches of one executable graph do not overlap", "[simulator][graphs]") {
    capture_bench t;
    begin_capture(t.a);
    t.set(1, t.a);
    executable const e{end_capture(t.a)};
    gate closed{t.a};
    e.launch(t.a);
    e.launch(t.b);
    CHECK(cudaStreamQuery(t.b) == cudaErrorNotReady);
    CHECK(returns_after(closed, [&] { return cudaStreamSynchronize(t.b); }));
}

TEST_CASE("two executables of one graph run independently", "[simulator][graphs]") {
    capture_bench t;
    begin_capture(t.a);
    // Not a memset: two concurrent ones would race. Not a host function: it might have to wait for the gate's.
    REQUIRE(cudaEventRecordWithFlags(t.joined, t.a, cudaEventRecordExternal) == cudaSuccess);
    auto const g = end_capture(t.a);
    cudaGraphExec_t other = nullptr;
    REQUIRE(cudaGraphInstantiate(&other, g, 0) == cudaSuccess);
    executable const e{g};
    gate closed{t.a};
    e.launch(t.a);
    CHECK(cudaGraphLaunch(other, t.b) == cudaSuccess);
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
    CHECK_FALSE(closed.passed());
    closed.open();
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(other) == cudaSuccess);
}

TEST_CASE("a join runs after all branches", "[simulator][graphs]") {
    capture_bench t;
    diary d;
    begin_capture(t.a);
    d.note('(', t.a);
    t.fork();
    t.set(1, t.a);
    d.note('b', t.b);
    t.join();
    d.note(')', t.a);
    executable const e{end_capture(t.a)};
    for (int i = 0; i < 20; ++i) e.launch(t.a);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    std::string expected;
    for (int i = 0; i < 20; ++i) expected += "(b)";
    CHECK(d.text == expected);
}

TEST_CASE("an executable graph outlives its graph, and a launched graph outlives its executable",
          "[simulator][graphs]") {
    capture_bench t;
    begin_capture(t.a);
    t.fork();
    t.set(3, t.b);
    t.join();
    gate* closed = nullptr;
    {
        executable const e{end_capture(t.a)};
        closed = new gate{t.a};
        e.launch(t.a);
    }
    closed->open();
    CHECK(all_are(contents(t.device, t.bytes), 3));
    delete closed;
}

TEST_CASE("a graph's copies read their sources anew at each launch", "[simulator][graphs]") {
    capture_bench t;
    std::vector<unsigned char> out(t.bytes);
    begin_capture(t.a);
    REQUIRE(cudaMemcpyAsync(t.device, t.pinned, t.bytes, cudaMemcpyHostToDevice, t.a) == cudaSuccess);
    executable const e{end_capture(t.a)};
    for (int value = 1; value < 4; ++value) {
        std::memset(t.pinned, value, t.bytes);
        e.launch(t.a);
        CHECK(all_are(contents(t.device, t.bytes), static_cast<unsigned char>(value)));
    }
}

TEST_CASE("a graph's nodes and dependencies can be queried", "[simulator][graphs]") {
    capture_bench t;
    diary d;
    begin_capture(t.a);
    t.set(1, t.a);
    t.fork();
    d.note('h', t.b);
    REQUIRE(cudaMemcpyAsync(t.pinned, t.device, t.bytes, cudaMemcpyDeviceToHost, t.a) == cudaSuccess);
    t.join();
    REQUIRE(cudaMemset2DAsync(t.device, 16, 2, 8, 4, t.a) == cudaSuccess);  // one node of four rows
    auto const g = end_capture(t.a);
    REQUIRE(node_count(g) == 4);

    cudaGraphNode_t nodes[6];
    std::fill_n(nodes, 6, reinterpret_cast<cudaGraphNode_t>(1));
    std::size_t count = 6;
    CHECK(cudaGraphGetNodes(g, nodes, &count) == cudaSuccess);
    CHECK(count == 4);
    CHECK(nodes[4] == nullptr);  // unused entries are cleared
    CHECK(nodes[5] == nullptr);
    auto const kinds = kinds_of(g);
    CHECK(kinds[cudaGraphNodeTypeMemset] == 2);
    CHECK(kinds[cudaGraphNodeTypeMemcpy] == 1);
    CHECK(kinds[cudaGraphNodeTypeHost] == 1);

    cudaGraphNode_t root = nullptr;
    CHECK(cudaGraphGetRootNodes(g, nullptr, &count) == cudaSuccess);
    REQUIRE(count == 1);
    CHECK(cudaGraphGetRootNodes(g, &root, &count) == cudaSuccess);
    CHECK(count == 1);
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &count) == cudaSuccess);
    CHECK(count == 4);
    cudaGraphNode_t from[4], to[4];
    CHECK(cudaGraphGetEdges(g, from, to, nullptr, &count) == cudaSuccess);
    CHECK(std::count(from, from + 4, root) == 2);
    CHECK(std::count(to, to + 4, root) == 0);
    CHECK(cudaGraphNodeGetDependencies(root, nullptr, nullptr, &count) == cudaSuccess);
    CHECK(count == 0);
    cudaGraphNode_t next[4];
    count = 4;
    CHECK(cudaGraphNodeGetDependentNodes(root, next, nullptr, &count) == cudaSuccess);
    CHECK(count == 2);
    CHECK(next[2] == nullptr);
#endif
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
}

TEST_CASE("an empty graph can be launched", "[simulator][graphs]") {
    capture_bench t;
    cudaGraph_t g = nullptr;
    CHECK(cudaGraphCreate(&g, 1) == cudaErrorInvalidValue);
    REQUIRE(cudaGraphCreate(&g, 0) == cudaSuccess);
    CHECK(node_count(g) == 0);
    executable const e{g};
    e.launch(t.a);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
}

TEST_CASE("a clone is independent of its graph", "[simulator][graphs]") {
    capture_bench t;
    begin_capture(t.a);
    t.set(4, t.a);
    auto const g = end_capture(t.a);
    cudaGraph_t clone = nullptr;
    cudaGraphNode_t node = nullptr, cloned = nullptr;
    std::size_t one = 1;
    REQUIRE(cudaGraphGetNodes(g, &node, &one) == cudaSuccess);
    REQUIRE(cudaGraphClone(&clone, g) == cudaSuccess);
    CHECK(clone != g);
    REQUIRE(cudaGraphGetNodes(clone, &cloned, &one) == cudaSuccess);
    CHECK(cloned != node);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
    CHECK(node_count(clone) == 1);
    executable const e{clone};
    e.launch(t.a);
    CHECK(all_are(contents(t.device, t.bytes), 4));
}

TEST_CASE("a graph can be instantiated in three ways and uploaded", "[simulator][graphs]") {
    capture_bench t;
    cudaGraph_t g = nullptr;
    cudaGraphExec_t e = nullptr;
    REQUIRE(cudaGraphCreate(&g, 0) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&e, g, 0x100) == cudaErrorInvalidValue);
    REQUIRE(cudaGraphInstantiateWithFlags(&e, g, cudaGraphInstantiateFlagUseNodePriority) == cudaSuccess);
    unsigned long long flags = 0;
    CHECK(cudaGraphExecGetFlags(e, &flags) ==
          cudaSuccess);  // some drivers return no flags for an empty graph
    CHECK((flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagUseNodePriority)) == 0);
    CHECK(cudaGraphExecDestroy(e) == cudaSuccess);
    cudaGraphInstantiateParams wanted{};
    wanted.uploadStream = t.a;
    wanted.flags = cudaGraphInstantiateFlagUpload;
    REQUIRE(cudaGraphInstantiateWithParams(&e, g, &wanted) == cudaSuccess);
    CHECK(wanted.result_out == cudaGraphInstantiateSuccess);
    CHECK(cudaGraphExecGetFlags(e, &flags) == cudaSuccess);
    CHECK(flags == 0);  // the upload is not a property of the graph
    CHECK(cudaGraphUpload(e, t.a) == cudaSuccess);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(e) == cudaSuccess);
    CHECK(cudaGraphDestroy(g) == cudaSuccess);
}

TEST_CASE("an executable graph can be updated with a graph of the same shape", "[simulator][graphs]") {
    capture_bench t;
    auto const shaped = [&](int value, bool in_order, bool more) {
        begin_capture(t.a);
        if (!in_order) t.fork();
        t.set(value, t.a);
        if (in_order) t.fork();
        REQUIRE(cudaMemcpyAsync(t.pinned, t.device, 1, cudaMemcpyDeviceToHost, t.b) == cudaSuccess);
        if (more) t.set(value, t.a);
        t.join();
        return end_capture(t.a);
    };
    executable const e{shaped(1, true, false)};
    gate closed{t.a};
    e.launch(t.a);  // a launched graph does not change any more
    auto const same = shaped(2, true, false);
    cudaGraphExecUpdateResultInfo told{};
    auto const update = [&] { return cudaGraphExecUpdate(e.get(), same, &told); };
    CHECK(may_wait_for(closed, update) == cudaSuccess);
    CHECK(told.result == cudaGraphExecUpdateSuccess);
    CHECK(told.errorNode == nullptr);
    CHECK(cudaGraphDestroy(same) == cudaSuccess);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(t.pinned[0] == 1);
    e.launch(t.a);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(t.pinned[0] == 2);

    auto const longer = shaped(3, true, true);
    CHECK(cudaGraphExecUpdate(e.get(), longer, &told) == cudaErrorGraphExecUpdateFailure);
    CHECK(told.result == cudaGraphExecUpdateErrorTopologyChanged);
    CHECK(told.errorNode == nullptr);
    CHECK(cudaGraphDestroy(longer) == cudaSuccess);
    auto const looser = shaped(3, false, false);
    CHECK(cudaGraphExecUpdate(e.get(), looser, &told) == cudaErrorGraphExecUpdateFailure);
    CHECK(told.result == cudaGraphExecUpdateErrorTopologyChanged);
    CHECK(told.errorNode != nullptr);
    CHECK(cudaGraphDestroy(looser) == cudaSuccess);
    begin_capture(t.a);
    t.set(4, t.a);
    t.set(4, t.a);
    auto const other = end_capture(t.a);
    CHECK(cudaGraphExecUpdate(e.get(), other, &told) == cudaErrorGraphExecUpdateFailure);
    CHECK(told.result == cudaGraphExecUpdateErrorNodeTypeChanged);
    CHECK(told.errorNode != nullptr);
    CHECK(cudaGraphDestroy(other) == cudaSuccess);
}
