// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A loader whose pinned slots and workers are bound to a NUMA node.
#include <cuota/data/loader/batch_loader.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>

#include <cuota/resource/numa_memory.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/machine.hpp"
#include "support/numa.hpp"
#include "support/numbered_source.hpp"
#include "support/seen_by.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using cuota::numa_memory;
using cuota::numa_node;
using support::machine;
using support::numbered_source;

namespace {

// Records whether gathers write to memory of the node, and whether they run on it.
struct looking_source {
    struct notes {
        std::atomic<int> gathers = 0, elsewhere = 0, by_others = 0;
    };
    numbered_source inside;
    int node;
    std::shared_ptr<notes> seen = std::make_shared<notes>();

    std::uint64_t size() const noexcept { return inside.size(); }
    std::span<cuota::field const> fields() const noexcept { return inside.fields(); }
    std::string name() const { return inside.name(); }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        inside.gather(samples, out);
        ++seen->gathers;
        for (std::span<std::byte> const field : out)
            seen->elsewhere += !support::lies_on(node, field.data(), field.size());
        seen->by_others += ::numa_node_of_cpu(::sched_getcpu()) != node;
    }
};

std::vector<std::uint32_t> read_epoch(cuota::batch_loader& loader, std::uint64_t epoch) {
    cuota::stream const s;
    std::vector<std::uint32_t> all;
    for (cuota::batch b : loader.epoch(epoch)) {
        auto const some = support::seen_by(s, b);
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

bool has_processors(numa_node node) {
    cpu_set_t ours;
    if (::sched_getaffinity(0, sizeof ours, &ours) != 0) return false;
    for (int i = 0; i != CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &ours) && ::numa_node_of_cpu(i) == node.number()) return true;
    return false;
}

cuota::loader_options on_node(numa_node node) {
    cuota::loader_options wanted{.batch_size = 4, .seed = 7, .workers = 3, .host_memory = numa_memory{node}};
    if (has_processors(node)) wanted.worker_init = [node](std::size_t) { cuota::bind_this_thread(node); };
    return wanted;
}

}  // namespace

TEST_CASE("a loader on a NUMA node delivers the same batches as elsewhere",
          "[data][batch_loader][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    machine const on;
    cuota::batch_loader plain{numbered_source{61}, {.batch_size = 4, .seed = 7}};
    for (numa_node const node : cuota::numa_nodes()) {
        looking_source const from{numbered_source{61}, node.number()};
        {
            cuota::batch_loader placed{from, on_node(node)};
            CHECK(support::placed_mappings() != 0);
            for (std::uint64_t epoch = 0; epoch != 3; ++epoch)
                CHECK(read_epoch(placed, epoch) == read_epoch(plain, epoch));
        }
        CHECK(from.seen->gathers >= 3 * 16);
        CHECK(from.seen->elsewhere == 0);
        CHECK((from.seen->by_others == 0 || !has_processors(node)));
        CHECK(support::placed_mappings() == 0);
    }
}

TEST_CASE("when any call fails, a loader on a NUMA node leaks nothing", "[data][batch_loader][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    machine on;
    cuota::stream const s;
    numa_node const node = cuota::numa_nodes().at(0);
    auto const seen =
        support::survives_every_failure(on,
                                        [&] {
                                            REQUIRE(support::placed_mappings() == 0);
                                            cuota::batch_loader loader{numbered_source{9}, on_node(node)};
                                            for (cuota::batch b : loader.epoch(0)) b.used_on(s);
                                        },
                                        {cudaErrorMemoryAllocation});
    CHECK(seen.thrown > 0);
    CHECK(support::placed_mappings() == 0);
}

TEST_CASE("the construction of a loader throws if the kernel refuses to place its pages",
          "[data][batch_loader][numa_memory]") {
    if (auto const why = support::no_numa(); !why.empty()) CUOTA_SKIP(why);
    if (!support::takes_filters()) CUOTA_SKIP("the kernel takes no filters of system calls");
    machine const on;
    numa_node const node = cuota::numa_nodes().at(0);
    auto const refused = support::thrown<std::system_error>([&] {
        (void)support::without_call(SYS_mbind, EPERM, [&] {
            cuota::batch_loader const loader{numbered_source{9}, on_node(node)};
        });
    });
    CHECK(refused.code() == std::errc::operation_not_permitted);
    CHECK(support::placed_mappings() == 0);
}
