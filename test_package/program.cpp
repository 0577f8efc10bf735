// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/device_memory.hpp>

using namespace cuota::literals;

int main() {
    cuota::budget budget{"program", 1_MiB};
    cuota::budgeted memory{budget, cuota::device_memory{}};
    cuota::stream stream;
    cuota::device_buffer<float> const small{1000, stream, memory};
    try {
        cuota::device_buffer<float> const large{1'000'000, stream, memory};
    } catch (cuota::budget_exceeded const& refused) {
        std::puts(refused.what());
        return 0;
    }
    return 1;
}
