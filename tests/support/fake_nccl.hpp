// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// State of the fake NCCL that tests set and read; see fake_nccl.cpp.
#pragma once

#include <atomic>

#include <nccl.h>

struct fake_nccl_state {
    std::atomic<int> alive = 0;    ///< live communicators
    std::atomic<int> aborted = 0;  ///< communicators aborted by ncclCommAbort
    std::atomic<int> sums = 0;     ///< all-reduces that all ranks have joined
    std::atomic<ncclResult_t> id_error = ncclSuccess;
    std::atomic<ncclResult_t> finalize_error = ncclSuccess;
    std::atomic<int> fails_rank = -1;  ///< rank whose next all-reduce reports an asynchronous error
};

extern fake_nccl_state fake_nccl;  // only one test at a time
