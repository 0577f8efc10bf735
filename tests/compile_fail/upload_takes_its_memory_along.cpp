// expect: no matching function for call|cannot bind rvalue reference
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <cuota/buffer/async_copy.hpp>

auto start(cuota::pinned_buffer<float>& from, cuota::device_buffer<float>& to, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    return cuota::upload(std::move(from), to, s);
#else
    return cuota::upload(from, to, s);  // the caller could change or free it during the copy
#endif
}
