// expect: use of deleted function|call to deleted constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <cuota/buffer/device_buffer.hpp>

cuota::device_buffer<float> moved(cuota::device_buffer<float>& from) {
#ifdef CUOTA_FIXED
    return std::move(from);
#else
    return from;  // an implicit device allocation and transfer
#endif
}
