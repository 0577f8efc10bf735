// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The random programs of adversary.sim.cpp, of two to four threads that share budgets, pools, a cache and memory of graphs. A refused
// thread stops the others: it requests the same again, as another thread may have held the memory for a moment, and the oracle judges a
// further refusal. For as long as one likes: CUOTA_ADVERSARY=<programs of each kind>.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "programs/adversary_counts.hpp"
#include "programs/adversary_program.hpp"
#include "programs/adversary_scene.hpp"
#include "support/catch.hpp"

namespace {

using namespace adversary;

// One program: all threads meet after each round, and the accounts are compared.
void run(device_kind kind, std::uint64_t seed, counts& seen) {
    std::size_t const threads = 2 + seed % 3;
    scene in{kind, seed, threads};
    std::deque<program> programs;
    for (std::size_t t = 0; t != threads; ++t) programs.emplace_back(in, 10 * seed + t);
    std::vector<std::thread> all;
    for (program& p : programs)
        all.emplace_back([&] {
            for (int round = 0; round != 3; ++round) {
                p.run(8);
                in.others.meet([&] { in.compare(p.seen); });
            }
            p.clear();
        });
    for (std::thread& t : all) t.join();
    in.end(seen);
    for (program const& p : programs) seen.add(p.seen);
}

}  // namespace

TEST_CASE("no refusal is wrong and no byte is lost by threads beside programs that allocate at any time",
          "[programs][adversary][threads]") {
    device_kind const kind = all_kinds[GENERATE(range(0, kinds))];
    std::size_t const programs = programs_of_each_kind(60);
    counts const seen =
        require_right(kind, programs, [&](std::uint64_t seed, counts& all) { run(kind, seed, all); });
    INFO("kind " << static_cast<int>(kind) << ": " << seen.text());
    CHECK(seen.judged > programs);
    CHECK(2 * seen.judged > seen.refusals);
    CHECK(seen.requests > 40 * programs);
}
