// expect: has no member named .begin.|no member named 'begin'
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <cuota/buffer/device_buffer.hpp>

float sum(cuota::device_buffer<float> const& buffer, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    auto const elements = buffer.to_vector(s);
#else
    auto const& elements = buffer;  // host code would read device memory
    (void)s;
#endif
    return std::accumulate(elements.begin(), elements.end(), 0.0f);
}
