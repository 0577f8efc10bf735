// expect: use of deleted function|overload resolution selected deleted operator
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>

float first(cuota::device_buffer<float> const& buffer, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    return buffer.to_vector(s)[0];
#else
    return buffer.read(s)[0];  // a lease converts to a pointer that the host cannot use
#endif
}
