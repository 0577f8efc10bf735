// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/planning/plan_file.hpp>

#include "fuzz/fuzz.hpp"

// A plan as text: parsing, writing and parsing again gives the same plan.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    cuota::planned_step step;
    if (fuzz::is_read_or_refused(size, 256,
                                 [&] { step = cuota::parse_plan(fuzz::text_of(data, size), "plan"); }))
        fuzz::expect(cuota::parse_plan(cuota::plan_text(step), "again") == step,
                     "a plan comes back from its text");
    return 0;
}
