// expect: use of deleted function|call to deleted constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/interop/thrust.hpp>

#include <cuota/buffer/device_buffer.hpp>

auto elements(cuota::device_buffer<float>& x, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    auto const lease = x.write(s);
    return cuota::thrust_range<float>{lease}.size();
#else
    return cuota::thrust_range<float>{x.write(s)}.size();  // the lease is destroyed at the end
#endif
}
