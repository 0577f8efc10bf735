// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Meaning of stream 0 in a file that is compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM.
#pragma once

#include <cuota/runtime/stream.hpp>

namespace support {

[[nodiscard]] cuota::stream_ref zero_in_per_thread_file();

}  // namespace support
