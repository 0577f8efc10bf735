// expect: not a constant expression
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

void name_it(cuota::stream& s, char const* name) {
#ifdef CUOTA_FIXED
    cuota::device_buffer<float> const x{10, s, cuota::device_memory{}, cuota::tag::named(name)};
#else
    cuota::device_buffer<float> const x{10, s, cuota::device_memory{}, name};
#endif
}
