// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Random programs under a device's budget, beside other programs that allocate and free between their calls, or before any CUDA call, on
// devices of each kind. An oracle judges each refusal: it releases all idle memory, requests the same again, and then asks CUDA itself.
// For as long as one likes: CUOTA_ADVERSARY=<programs of each kind>.
#include <cstddef>
#include <cstdint>

#include "programs/adversary_counts.hpp"
#include "programs/adversary_program.hpp"
#include "programs/adversary_scene.hpp"
#include "support/catch.hpp"

TEST_CASE("no refusal is wrong and no byte is lost beside programs that allocate at any time",
          "[programs][adversary]") {
    using namespace adversary;
    device_kind const kind = all_kinds[GENERATE(range(0, kinds))];
    std::size_t const programs = programs_of_each_kind(300);
    counts const seen = require_right(kind, programs, [&](std::uint64_t seed, counts& all) {
        scene in{kind, seed};
        program p{in, seed};
        for (int i = 0; i != 5; ++i) {
            p.run(10);
            in.compare(p.seen);
        }
        p.clear();
        in.end(p.seen);
        all.add(p.seen);
    });
    INFO("kind " << static_cast<int>(kind) << ": " << seen.text());
    CHECK(2 * seen.judged > programs);
    CHECK(seen.requests > 15 * programs);
    // Launches that the driver refuses lose memory. They are rare, because room is made first; without that they are three times more frequent.
    CHECK(40 * seen.lost <= programs + 120);
}
