// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1

#include "support/per_thread_default.hpp"

cuota::stream_ref support::zero_in_per_thread_file() { return cudaStream_t{}; }
