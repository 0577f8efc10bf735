// expect: will be destroyed at the end of the full-expression
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>

void launch(float const* x);

void use(cuota::device_buffer<float>& buffer, cuota::stream_ref s) {
    launch(buffer.read(s));  // the lease outlives the launch
#ifdef CUOTA_FIXED
    auto const lease = buffer.read(s);
    float const* const p = lease;
#else
    float const* const p = buffer.read(s);  // the lease is destroyed here
#endif
    launch(p);
}
