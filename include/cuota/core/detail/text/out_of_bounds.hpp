// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Out-of-bounds accesses of views, as numbers and as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// The values requested of a view, and its extents.
struct out_of_bounds {
    enum class part : std::uint32_t {
        element,    ///< of a span: index; size
        subspan,    ///< of a span: offset, count; size
        cell,       ///< of a matrix: row, column; rows, columns
        row,        ///< of a matrix: row; rows, columns
        submatrix,  ///< of a matrix: row, column, rows, columns; rows, columns
        matrix,     ///< of a span: rows, columns, pitch; size
    };

    part what;
    std::uint64_t requested[4];
    std::uint64_t has[2];
};

/// For example "index 12 is outside a device_span of 10 floats".
[[nodiscard]] std::string bounds_text(out_of_bounds const& of, char const* unit);

/// For example ": weights, leased at train.cpp:41".
[[nodiscard]] std::string lease_text(tag name, source_location leased);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string bounds_text(out_of_bounds const& of, char const* unit) {
    auto const n = [](std::uint64_t number) { return std::to_string(number); };
    auto const& [a, b, c, d] = of.requested;
    std::string const of_span = message("a device_span of {} {}", {n(of.has[0]), unit});
    std::string const of_matrix =
        message("a device_matrix of {} x {} {}", {n(of.has[0]), n(of.has[1]), unit});
    using enum out_of_bounds::part;
    switch (of.what) {
        case element: return message("index {} is outside {}", {n(a), of_span});
        case subspan:
            return message("{} from index {} {} outside {}",
                           {counted(b, "elements"), n(a), b == 1 ? "is" : "are", of_span});
        case cell: return message("element ({}, {}) is outside {}", {n(a), n(b), of_matrix});
        case row: return message("row {} is outside {}", {n(a), of_matrix});
        case submatrix:
            return message("{} x {} elements from ({}, {}) are outside {}",
                           {n(c), n(d), n(a), n(b), of_matrix});
        case matrix: break;
    }
    std::string const pitch = c == b ? "" : " at a pitch of " + n(c);
    return message("a device_matrix of {} x {} elements{} does not fit in {}", {n(a), n(b), pitch, of_span});
}

CUOTA_INLINE std::string lease_text(tag name, source_location leased) {
    std::string const at = source_location_text(leased);
    std::string text = name.is_empty() && at.empty() ? "" : ": ";
    text += name.text();
    if (!at.empty()) text += (name.is_empty() ? "leased at " : ", leased at ") + at;
    return text;
}

}  // namespace cuota::inline v0::detail

#endif
