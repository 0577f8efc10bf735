// expect: T must not require an alignment above 256 bytes
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>

#ifdef CUOTA_FIXED
struct alignas(256) element {
    float x[64];
};
#else
struct alignas(512) element {  // a resource guarantees 256 bytes only
    float x[128];
};
#endif

std::size_t size_of(cuota::device_buffer<element> const& buffer) { return buffer.size(); }
