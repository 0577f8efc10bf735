// expect: use of deleted function|call to deleted constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#ifdef CUOTA_FIXED
using kind = cuota::pinned_memory;
#else
using kind = cuota::device_memory;  // the first access by the host would fault
#endif

void make() { cuota::pinned_buffer<float> buffer{4, kind{}}; }
