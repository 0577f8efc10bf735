// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a view does not have: in numbers, which a kernel can write down, and in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// Something that was asked of a view, and what the view has.
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
    std::uint64_t asked[4];
    std::uint64_t has[2];
};

/// "index 12 is outside a device_span of 10 floats". Throws: std::bad_alloc.
[[nodiscard]] std::string bounds_text(out_of_bounds const& of, char const* unit);

/// ": weights, leased at train.cpp:41", as far as there is a name and a place. Throws: std::bad_alloc.
[[nodiscard]] std::string lease_text(tag name, place leased);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string bounds_text(out_of_bounds const& of, char const* unit) {
    auto const n = [](std::uint64_t number) { return std::to_string(number); };
    auto const& [a, b, c, d] = of.asked;
    std::string const of_span = "a device_span of " + n(of.has[0]) + ' ' + unit;
    std::string const of_matrix = "a device_matrix of " + n(of.has[0]) + " x " + n(of.has[1]) + ' ' + unit;
    using enum out_of_bounds::part;
    switch (of.what) {
        case element: return "index " + n(a) + " is outside " + of_span;
        case subspan: return n(b) + " elements from index " + n(a) + " are outside " + of_span;
        case cell: return "element (" + n(a) + ", " + n(b) + ") is outside " + of_matrix;
        case row: return "row " + n(a) + " is outside " + of_matrix;
        case submatrix:
            return n(c) + " x " + n(d) + " elements from (" + n(a) + ", " + n(b) + ") are outside " +
                   of_matrix;
        case matrix: break;
    }
    std::string const pitch = c == b ? "" : " at a pitch of " + n(c);
    return n(a) + " x " + n(b) + " elements" + pitch + " do not make a matrix of " + of_span;
}

CUOTA_INLINE std::string lease_text(tag name, place leased) {
    std::string const at = place_text(leased);
    std::string text = name.is_empty() && at.empty() ? "" : ": ";
    text += name.text();
    if (!at.empty()) text += (name.is_empty() ? "leased at " : ", leased at ") + at;
    return text;
}

}  // namespace cuota::inline v0::detail

#endif
