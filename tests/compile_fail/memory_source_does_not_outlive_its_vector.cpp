// expect: use of deleted function .*memory_dataset::of\(|call to deleted member function
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <cuota/data/datasets/memory_dataset.hpp>

void read() {
#ifdef CUOTA_FIXED
    cuota::memory_dataset const source{"x", std::vector<float>(10)};
#else
    auto const source = cuota::memory_dataset::of("x", std::vector<float>(10));
#endif
}
