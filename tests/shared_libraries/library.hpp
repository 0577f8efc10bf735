// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Operations of a library with hidden visibility and its own definitions, on objects of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <typeinfo>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/kernel_overflow_error.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/loader/sample_too_long_error.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/guard_violation.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/training/distributed/placement.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

/// All errors of the library, as the calling code knows their types.
[[nodiscard]] static std::span<std::type_info const* const> types_of_errors() {
    static constexpr std::type_info const* all[] = {
        &typeid(cuota::cuda_error),        &typeid(cuota::out_of_memory),
        &typeid(cuota::budget_exceeded),   &typeid(cuota::usage_error),
        &typeid(cuota::data_error),        &typeid(cuota::kernel_overflow_error),
        &typeid(cuota::guard_bytes_error), &typeid(cuota::placement_error),
        &typeid(cuota::rank_lost_error),   &typeid(cuota::sample_too_long_error),
    };
    return all;
}

struct library_calls {
    /// Reports a misuse to the error sink.
    void (*report_misuse)();
    /// Allocates memory of device 0 outside of all budgets.
    void* (*take)(std::size_t bytes);
    void (*give)(void* p, std::size_t bytes);
    /// x[i] += 1, with scratch memory of the pool that is freed before it returns. Throws: as the pool and the lease.
    void (*step)(cuota::scoped_pool& pool, cuota::stream_ref s, cuota::device_buffer<float>& x);
    /// Charges and refunds at once. Throws: as budget::charge.
    void (*charge)(cuota::budget& account, std::size_t bytes);
    std::size_t (*size_of)(cuota::lease<float const> const& lease);
    std::uint64_t (*id_of_default_stream)();
    bool (*is_captured)(cuota::stream_ref s);
    std::span<std::type_info const* const> (*types)();
};

/// For dlsym.
extern "C" [[gnu::visibility("default")]] library_calls const* calls_of_library();
