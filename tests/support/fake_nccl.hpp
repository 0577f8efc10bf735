// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the tests' NCCL is told, and tells: see fake_nccl.cpp.
#pragma once

#include <atomic>

#include <nccl.h>

struct fake_nccl_state {
    std::atomic<int> alive = 0;    ///< communicators
    std::atomic<int> aborted = 0;  ///< by ncclCommAbort
    std::atomic<int> sums = 0;     ///< that all ranks came to
    std::atomic<ncclResult_t> id_error = ncclSuccess;
    std::atomic<ncclResult_t> finalize_error = ncclSuccess;
    std::atomic<int> fails_rank = -1;  ///< whose next all-reduce is found, later, to have failed
};

extern fake_nccl_state fake_nccl;  // one test at a time
