// expect: conversion from|no viable conversion
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>

void use(cuota::device_buffer<float>& buffer, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    auto lease = buffer.write(s);
#else
    auto lease = buffer.read(s);  // other streams may be reading at the same time
#endif
    cuota::device_span<float> span = lease;
    (void)span;
}
