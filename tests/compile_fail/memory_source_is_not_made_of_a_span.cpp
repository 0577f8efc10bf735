// expect: use of deleted function .*memory_dataset\(|call to deleted constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <utility>
#include <vector>

#include <cuota/data/datasets/memory_dataset.hpp>

void read(std::vector<float> values) {
#ifdef CUOTA_FIXED
    cuota::memory_dataset const source{"x", std::move(values)};
#else
    cuota::memory_dataset const source{"x", std::span{values}};
#endif
}
