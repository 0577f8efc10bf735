// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A check of parts of buffers.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

/// Throws usage_error unless elements [offset, offset + count) are within `size` elements. `of` is the class in the message, `whole` the
/// array: "a buffer".
void check_part(char const* of, char const* whole, std::size_t offset, std::size_t count, std::size_t size,
                source_location where);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/text/message.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_part(char const* of, char const* whole, std::size_t offset, std::size_t count,
                             std::size_t size, source_location where) {
    if (offset <= size && count <= size - offset) return;
    throw_usage_error(where, "{}: elements [{}, {} + {}) are outside {} of {}",
                      {of, offset, offset, count, whole, size});
}

}  // namespace cuota::inline v0::detail

#endif
