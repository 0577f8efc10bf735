// expect: device memory is copied byte by byte
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <cuota/buffer/device_buffer.hpp>

#ifdef CUOTA_FIXED
using element = float;
#else
using element = std::string;  // its pointer would be invalid on the device
#endif

std::size_t size_of(cuota::device_buffer<element> const& buffer) { return buffer.size(); }
