// expect: use of deleted function|call to deleted constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#ifdef CUOTA_FIXED
using kind = cuota::device_memory;
#else
using kind = cuota::pinned_memory;  // the first kernel would fault
#endif

void make(cuota::stream_ref s) { cuota::device_buffer<float> buffer{4, s, kind{}}; }
