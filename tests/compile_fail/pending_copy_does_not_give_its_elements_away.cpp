// expect: use of deleted function|call to deleted member function
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/async_copy.hpp>

float first(cuota::device_buffer<float> const& from, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    auto const pending = cuota::download(from, s);
    auto const elements = pending.get();
#else
    auto const elements = cuota::download(from, s).get();  // the memory is freed before it is read
#endif
    return elements[0];
}
