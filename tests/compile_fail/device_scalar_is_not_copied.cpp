// expect: use of deleted function|call to (implicitly-)?deleted (copy )?constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <cuota/buffer/device_scalar.hpp>

cuota::device_scalar<float> moved(cuota::device_scalar<float>& from) {
#ifdef CUOTA_FIXED
    return std::move(from);
#else
    return from;  // an implicit device allocation and transfer
#endif
}
