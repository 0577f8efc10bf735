// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "part.hpp"

#include <cuota/runtime/for_each_index.hpp>

void PART::add_index(cuota::stream_ref stream, cuota::device_span<int> to) {
    cuota::for_each_index(stream, to.size(),
                          [=] CUOTA_KERNEL(std::size_t i) { to[i] += static_cast<int>(i); });
}
