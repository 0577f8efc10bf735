// expect: a tag is a literal, or tag::named\(a string\)
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>

void name_it(cuota::stream& s) {
    char name[8] = "w0";
#ifdef CUOTA_FIXED
    cuota::device_buffer<float> const x{10, s, cuota::device_memory{}, cuota::tag::named(name)};
#else
    cuota::device_buffer<float> const x{10, s, cuota::device_memory{}, name};
#endif
}
