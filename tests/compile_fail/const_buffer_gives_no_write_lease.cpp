// expect: discards qualifiers|not marked const
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/buffer/device_buffer.hpp>

#ifdef CUOTA_FIXED
using buffer = cuota::device_buffer<float>;
#else
using buffer = cuota::device_buffer<float> const;  // the elements of a const buffer must not change
#endif

std::size_t use(buffer& some, cuota::stream_ref s) { return some.write(s).size(); }
