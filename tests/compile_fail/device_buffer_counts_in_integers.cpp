// expect: no matching (function for call|constructor for initialization)
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

#ifdef CUOTA_FIXED
using number = long;
#else
using number = double;  // 0.1 * 30 may give 3 or 2 elements
#endif

void make(number count, cuota::stream_ref s) {
    cuota::device_buffer<float> buffer(count, s, cuota::device_memory{});
}
