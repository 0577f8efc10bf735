// expect: device_buffer needs a resource, not a budget: pass scoped_pool
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>

void make(cuota::stream_ref s, cuota::budget const& account) {
#ifdef CUOTA_FIXED
    cuota::device_buffer<float> buffer{4, s, cuota::budgeted<cuota::device_memory>{account}, "x"};
#else
    cuota::device_buffer<float> buffer{4, s, account, "x"};
#endif
}
