// expect: capture the device_span of a lease, not the lease
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/runtime/for_each_index.hpp>

void count(cuota::stream& s, cuota::device_buffer<int>& x) {
    auto lease = x.write(s);
#ifdef CUOTA_FIXED
    cuota::for_each_index(s, 10, [to = lease.span()](std::size_t i) { to[i] = static_cast<int>(i); });
#else
    cuota::for_each_index(s, 10,
                          [to = std::move(lease)](std::size_t i) { to.span()[i] = static_cast<int>(i); });
#endif
}
