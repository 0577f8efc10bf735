// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The operations of each of the three libraries.
#pragma once

#include <cstddef>

#include <cuota/buffer/device_span.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/stream.hpp>

#define DECLARE_PART(name)                                                                                   \
    namespace name {                                                                                         \
    /* Hands an error to the program's error sink. */                                                        \
    void report();                                                                                           \
    /* Takes that many bytes of the program's pool for the time of the call; held meanwhile. */              \
    std::size_t take(cuota::budget const& of, cuota::scoped_pool& pool, std::size_t bytes);                  \
    /* Adds its index to each element, by a kernel of its own. */                                            \
    void add_index(cuota::stream_ref stream, cuota::device_span<int> to);                                    \
    }

DECLARE_PART(three_static)
DECLARE_PART(three_shared)
DECLARE_PART(three_header_only)
