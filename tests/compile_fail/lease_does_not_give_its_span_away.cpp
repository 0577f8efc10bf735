// expect: use of deleted function|call to deleted (member )?function
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>

void use(cuota::device_buffer<float>& buffer, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    auto lease = buffer.write(s);
    cuota::device_span<float> span = lease.span();
#else
    cuota::device_span<float> span =
        buffer.write(s).span();  // the lease is destroyed here, before the kernel uses the span
#endif
    (void)span;
}
