// expect: no matching (function|constructor)
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_matrix.hpp>

void use(cuota::device_buffer<float>& buffer, cuota::stream_ref s) {
    auto lease = buffer.read(s);
#ifdef CUOTA_FIXED
    cuota::device_matrix<float const> matrix{lease, 3, 4};
#else
    cuota::device_matrix<float> matrix{lease, 3, 4};
#endif
    (void)matrix;
}
