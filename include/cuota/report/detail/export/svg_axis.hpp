// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Computes axes with round ticks.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// A tick in bytes or nanoseconds, and its label.
struct axis_tick {
    double value = 0;
    std::string text{};
};

struct axis_ticks {
    char const* unit = "";
    std::vector<axis_tick> ticks{};
};

struct axis_unit {
    char const* name;
    double size;
    bool is_whole;  // the smallest unit
};

/// Formats tenths: "2.5" for 25.
[[nodiscard]] std::string tenths_text(std::uint64_t tenths, bool with_decimal);

/// Returns at most `most` + 1 ticks in [first, last]: multiples of 1, 2 or 5 times a power of ten, in the largest unit u with last - first
/// >= fill * u.
[[nodiscard]] axis_ticks round_ticks(double first, double last, std::size_t most,
                                     std::span<axis_unit const> units, double fill);

inline constexpr axis_unit byte_units[] = {
    {"B", 1, true},         {"KiB", 0x1p10, false}, {"MiB", 0x1p20, false}, {"GiB", 0x1p30, false},
    {"TiB", 0x1p40, false}, {"PiB", 0x1p50, false}, {"EiB", 0x1p60, false}};
inline constexpr axis_unit time_units[] = {{"ns", 1, true},   {"us", 1e3, false},   {"ms", 1e6, false},
                                           {"s", 1e9, false}, {"min", 60e9, false}, {"h", 3600e9, false}};

[[nodiscard]] axis_ticks byte_ticks(double last, std::size_t most);
[[nodiscard]] axis_ticks time_ticks(double first, double last, std::size_t most);

/// Formats nanoseconds with one decimal: "12.3 ms".
[[nodiscard]] std::string time_text(std::uint64_t ns);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string tenths_text(std::uint64_t tenths, bool with_decimal) {
    std::string const whole = std::to_string(tenths / 10);
    return with_decimal ? whole + '.' + static_cast<char>('0' + tenths % 10) : whole;
}

CUOTA_INLINE axis_ticks round_ticks(double first, double last, std::size_t most,
                                    std::span<axis_unit const> units, double fill) {
    axis_unit unit = units.front();
    for (axis_unit const& u : units)
        if (last - first >= fill * u.size) unit = u;
    double const tenth = unit.size / 10;
    std::uint64_t step = unit.is_whole ? 10 : 1;
    for (int turn = 0; static_cast<double>(step) * tenth * static_cast<double>(most) < last - first; ++turn)
        step = turn % 3 == 1 ? step / 2 * 5 : step * 2;  // 1, 2, 5, 10
    axis_ticks result{unit.name, {}};
    double const spacing = static_cast<double>(step) * tenth;
    for (auto i = static_cast<std::uint64_t>(std::ceil(first / spacing));
         static_cast<double>(i) * spacing <= last; ++i)
        result.ticks.push_back({static_cast<double>(i) * spacing, tenths_text(i * step, step % 10 != 0)});
    return result;
}

CUOTA_INLINE axis_ticks byte_ticks(double last, std::size_t most) {
    return round_ticks(0, last, most, byte_units, 1);
}

CUOTA_INLINE axis_ticks time_ticks(double first, double last, std::size_t most) {
    return round_ticks(first, last, most, time_units, 2);
}

CUOTA_INLINE std::string time_text(std::uint64_t ns) {
    axis_unit unit = time_units[0];
    for (axis_unit const& u : time_units)
        if (static_cast<double>(ns) >= u.size) unit = u;
    auto const tenths = static_cast<std::uint64_t>(std::llround(static_cast<double>(ns) / unit.size * 10));
    return tenths_text(tenths, !unit.is_whole) + ' ' + unit.name;
}

}  // namespace cuota::inline v0::detail

#endif
