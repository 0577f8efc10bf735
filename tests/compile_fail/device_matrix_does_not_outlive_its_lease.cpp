// expect: use of deleted function|call to deleted (member )?(function|constructor)
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_matrix.hpp>

void use(cuota::device_buffer<float>& buffer, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    auto lease = buffer.write(s);
    cuota::device_matrix matrix{lease, 3, 4};
#else
    cuota::device_matrix matrix{buffer.write(s), 3,
                                4};  // the lease is destroyed here, before the kernel uses the matrix
#endif
    (void)matrix;
}
