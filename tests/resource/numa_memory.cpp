// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/numa_memory.hpp>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>

#include "support/catch.hpp"
#include "support/numa.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::numa_memory;
using cuota::numa_node;

namespace {

numa_node first_node() { return cuota::numa_nodes().at(0); }

bool is_said(std::string const& text, std::string const& part) {
    return text.find(part) != std::string::npos;
}

std::vector<int> processors_of_this_thread() {
    cpu_set_t set;
    REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
    std::vector<int> all;
    for (int i = 0; i != CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &set)) all.push_back(i);
    return all;
}

// Returns the exception that `action` throws on a thread whose system call fails with `error`.
template <class Error, class Action>
Error thrown_without(long call, unsigned error, Action action) {
    return support::thrown<Error>([&] { (void)support::without_call(call, error, action); });
}

}  // namespace

TEST_CASE("numa_memory behaves as a resource", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    support::behaves_as_a_resource(numa_memory{first_node()});
    CHECK(support::placed_mappings() == 0);
}

TEST_CASE("every page of numa_memory is resident, and on its node", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    for (numa_node const node : cuota::numa_nodes()) {
        numa_memory memory{node};
        CHECK(memory.node() == node);
        for (std::size_t const bytes : {std::size_t{1}, std::size_t{3_MiB} + 1, std::size_t{260_MiB}}) {
            void* const p = memory.allocate_sync(bytes, memory.granularity());
            CHECK(support::placed_mappings() == 1);
            CHECK(support::is_there(p, bytes));
            CHECK(support::lies_on(node.number(), p, bytes, bytes > 4_MiB ? 256_KiB : 4_KiB));
            memory.deallocate_sync(p, bytes, memory.granularity());
            CHECK(support::placed_mappings() == 0);
        }
        CHECK_THROWS_AS(memory.allocate_sync(1, 2 * memory.granularity()), cuota::usage_error);
    }
}

TEST_CASE("numa_memory of different nodes is not equal", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    auto const nodes = cuota::numa_nodes();
    for (std::size_t i = 0; i != nodes.size(); ++i)
        for (std::size_t j = 0; j != nodes.size(); ++j)
            CHECK((numa_memory{nodes[i]} == numa_memory{nodes[j]}) == (i == j));
}

TEST_CASE("a node without memory is misuse, and the error names the nodes with memory",
          "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    auto const nodes = cuota::numa_nodes();
    REQUIRE(!nodes.empty());
    for (numa_node const node : nodes) {
        CHECK(numa_node{node.number()} == node);
        CHECK(node.memory().total > 0);
        CHECK(node.memory().free <= node.memory().total);
    }
    for (int const none : {-1, nodes.back().number() + 1, 1023, 1024, 1 << 20}) {
        auto const error = support::thrown<cuota::usage_error>([&] { (void)numa_node{none}; });
        CHECK(is_said(error.what(), "numa_node: node " + std::to_string(none) + " has no memory"));
        CHECK(is_said(error.what(), "nodes with memory: " + std::to_string(nodes[0].number())));
        CHECK(is_said(error.where().file, "numa_memory.cpp"));
    }
}

TEST_CASE("a request larger than its node is refused before pages are touched", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    numa_node const node = first_node();
    auto const refused = support::thrown<cuota::out_of_memory>(
        [&] { (void)numa_memory{node}.allocate_sync(node.memory().total + 1, 256, {"slots"}); });
    CHECK(is_said(refused.what(), "; NUMA node " + std::to_string(node.number()) + " has "));
    CHECK(refused.info().request.name == cuota::tag{"slots"});
    CHECK(refused.info().max_fit > 0);
    CHECK(refused.info().max_fit < node.memory().total);
    CHECK(support::placed_mappings() == 0);

    if (!support::takes_filters()) return;
    CHECK_THROWS_AS(
        support::without_call(SYS_mbind, EPERM,  // a call of mbind would be noticed
                              [&] { (void)numa_memory{node}.allocate_sync(node.memory().total + 1); }),
        cuota::out_of_memory);
}

TEST_CASE("numa_memory throws out_of_memory if pages are not on the node, and unmaps them",
          "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    if (!support::takes_filters()) CUOTA_SKIP("the kernel takes no filters of system calls");
    numa_node const node = first_node();
    // A move_pages without effect reports pages that are not on the node and does not move them.
    auto const refused = thrown_without<cuota::out_of_memory>(
        SYS_move_pages, 0, [&] { (void)numa_memory{node}.allocate_sync(3_MiB + 1); });
    CHECK(is_said(refused.what(), "cause      not enough free memory on the NUMA node; NUMA node "));
    CHECK(refused.info().requested == 3_MiB + 1);
    CHECK(refused.info().charged == 3_MiB + numa_memory::granularity());
    CHECK(support::placed_mappings() == 0);
}

TEST_CASE("pages on another node are moved to the requested node", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    if (!support::takes_filters()) CUOTA_SKIP("the kernel takes no filters of system calls");
    auto const nodes = cuota::numa_nodes();
    if (nodes.size() < 2) CUOTA_SKIP("this machine has one NUMA node");
    for (numa_node const wanted : nodes) {
        bool is_there = false;
        // Without mbind, pages are on the node of the running thread, which is wrong for at least one of two nodes.
        REQUIRE(support::without_call(SYS_mbind, 0, [&] {
            numa_memory memory{wanted};
            void* const p = memory.allocate_sync(3_MiB);
            is_there = support::lies_on(wanted.number(), p, 3_MiB);
            memory.deallocate_sync(p, 3_MiB);
        }));
        CHECK(is_there);
    }
}

TEST_CASE("an error of the kernel is thrown with its code, and nothing is allocated",
          "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    if (!support::takes_filters()) CUOTA_SKIP("the kernel takes no filters of system calls");
    numa_node const node = first_node();
    auto const number = std::to_string(node.number());
    auto const allocate = [&] { (void)numa_memory{node}.allocate_sync(3_MiB); };

    auto const no_place = thrown_without<std::system_error>(SYS_mbind, EPERM, allocate);
    CHECK(no_place.code() == std::errc::operation_not_permitted);
    CHECK(is_said(no_place.what(), "mbind failed for NUMA node " + number));
    CHECK(support::placed_mappings() == 0);

    auto const no_answer = thrown_without<std::system_error>(SYS_move_pages, ENOSYS, allocate);
    CHECK(no_answer.code() == std::errc::function_not_supported);
    CHECK(is_said(no_answer.what(), "move_pages failed for NUMA node " + number));
    CHECK(support::placed_mappings() == 0);

    auto const no_nodes =
        thrown_without<std::system_error>(SYS_get_mempolicy, ENOSYS, [&] { (void)numa_node{node.number()}; });
    CHECK(no_nodes.code() == std::errc::function_not_supported);
    CHECK(is_said(no_nodes.what(), "get_mempolicy failed for NUMA node " + number));
    bool has_nodes = true;
    (void)support::without_call(SYS_get_mempolicy, ENOSYS, [&] { has_nodes = !cuota::numa_nodes().empty(); });
    CHECK(!has_nodes);
}

TEST_CASE("a bound thread runs on those of its allowed processors that are on the node",
          "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    auto const before = processors_of_this_thread();
    for (numa_node const node : cuota::numa_nodes()) {
        std::vector<int> expected;
        for (int const i : before)
            if (::numa_node_of_cpu(i) == node.number()) expected.push_back(i);
        if (expected.empty()) continue;  // a node without processors
        std::vector<int> bound, of_one;
        std::thread{[&] {
            cuota::bind_this_thread(node);
            bound = processors_of_this_thread();
        }}.join();
        CHECK(bound == expected);
        std::thread{[&] {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(expected.back(), &one);
            REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
            cuota::bind_this_thread(node);
            of_one = processors_of_this_thread();
        }}.join();
        CHECK(of_one == std::vector{expected.back()});
    }
    CHECK(processors_of_this_thread() == before);
}

TEST_CASE("bind_this_thread throws the reason if it cannot bind the thread", "[resource][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    if (!support::takes_filters()) CUOTA_SKIP("the kernel takes no filters of system calls");
    numa_node const node = first_node();
    auto const bind = [&] { cuota::bind_this_thread(node); };
    auto const nowhere = thrown_without<cuota::usage_error>(SYS_sched_getaffinity, 0, bind);
    CHECK(is_said(nowhere.what(), "has no processor of NUMA node " + std::to_string(node.number())));
    auto const no_answer = thrown_without<std::system_error>(SYS_sched_getaffinity, EPERM, bind);
    CHECK(is_said(no_answer.what(), "sched_getaffinity failed"));
    auto const refused = thrown_without<std::system_error>(SYS_sched_setaffinity, EPERM, bind);
    CHECK(refused.code() == std::errc::operation_not_permitted);
    CHECK(is_said(refused.what(), "sched_setaffinity failed"));
}
