// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a library with hidden visibility and definitions of its own does with objects of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>

struct library_calls {
    /// Reports a misuse to the error sink.
    void (*report_misuse)();
    /// Takes memory of device 0 beside all budgets.
    void* (*take)(std::size_t bytes);
    void (*give)(void* p, std::size_t bytes);
    /// x[i] += 1, by scratch of the pool that is gone at return. Throws: as the pool and the lease.
    void (*step)(cuota::scoped_pool& pool, cuota::stream_ref s, cuota::device_buffer<float>& x);
    /// Throws: as budget::charge. Refunds at once.
    void (*charge)(cuota::budget& account, std::size_t bytes);
    std::size_t (*size_of)(cuota::lease<float const> const& lease);
    std::uint64_t (*id_of_default_stream)();
    bool (*is_captured)(cuota::stream_ref s);
};

/// By dlsym.
extern "C" [[gnu::visibility("default")]] library_calls const* calls_of_library();
