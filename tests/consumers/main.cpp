// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The smallest program that needs all of the package: the headers, the CUDA headers and a runtime to call.
#include <cuota/cuota.hpp>

#include <cstdio>

using namespace cuota::literals;

int main() {
    cuota::budget budget{"consumer", 1_MiB};
    cuota::stream stream;
    stream.synchronize();
    bool const kept = budget.try_charge(1_MiB) && !budget.try_charge(1);
    std::printf("cuota %d.%d.%d: %s\n", CUOTA_VERSION_MAJOR, CUOTA_VERSION_MINOR, CUOTA_VERSION_PATCH,
                kept ? "the limit was kept" : "the limit was not kept");
    return kept ? 0 : 1;
}
