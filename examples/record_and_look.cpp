// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Records and looks: prints findings about the use of memory, and writes an HTML timeline with every block.
///
/// Writes record_and_look.html into the current folder. Expected output:
///
///     1 problem
///       problem  leak in pool network: log (record_and_look.cpp:32) grew by 195.5 KiB in each of the last 7 steps, 1.3 MiB in total; 7 blocks still live
#include <cstdio>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/diagnosis/diagnosis.hpp>
#include <cuota/report/export/timeline.hpp>
#include <cuota/report/recording/recorder.hpp>

using namespace cuota::literals;
using floats = cuota::device_buffer<float>;

int main() {
    cuota::budget const budget{"trainer", 64_MiB};
    cuota::recorder const recorder{budget};  // records the budget's pools, refusals and steps from here on
    cuota::scoped_pool pool{budget, {.name = "network"}};
    cuota::stream const stream;
    std::vector<floats> log;

    for (int i = 0; i != 8; ++i) {
        auto const step = pool.begin_step();
        floats const activations{1'000'000, stream, step, "activations"};
        log.push_back({50'000, stream, pool, "log"});  // the bug: never cleared
    }

    cuota::recording const seen = recorder.read();
    std::puts(cuota::diagnosis_text(cuota::diagnose(seen)).c_str());
    cuota::write_timeline_file("record_and_look.html", seen);
}
