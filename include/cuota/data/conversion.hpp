// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Conversion of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/half.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

/// Conversion of a field's elements x to x * scale + offset, computed in float, or in double if either type has 8 bytes or the dataset is
/// i32 or u32, and rounded to nearest (f16 and bf16 via float).
struct conversion {
    std::string field;                    ///< name
    element_type to = element_type::f32;  ///< f16, bf16, f32 or f64
    double scale = 1;                     ///< factor
    double offset = 0;                    ///< added after scaling
};

namespace detail {

template <class T>
struct type_tag {
    using type = T;
};

CUOTA_NO_EXEC_CHECK
template <class Action>
CUOTA_HOST_DEVICE void with_element(element_type type, Action action) {
    switch (type) {
        case element_type::u8: return action(type_tag<std::uint8_t>{});
        case element_type::i8: return action(type_tag<std::int8_t>{});
        case element_type::i16: return action(type_tag<std::int16_t>{});
        case element_type::u16: return action(type_tag<std::uint16_t>{});
        case element_type::i32: return action(type_tag<std::int32_t>{});
        case element_type::u32: return action(type_tag<std::uint32_t>{});
        case element_type::i64: return action(type_tag<std::int64_t>{});
        case element_type::u64: return action(type_tag<std::uint64_t>{});
        case element_type::f16: return action(type_tag<half>{});
        case element_type::f32: return action(type_tag<float>{});
        case element_type::f64: return action(type_tag<double>{});
        case element_type::bf16: return action(type_tag<bfloat16>{});
    }
}

/// Represents all values of either type.
template <class From, class To>
using wide_enough = std::conditional_t<
    (sizeof(From) == 8 || sizeof(To) == 8 || (std::is_integral_v<From> && sizeof(From) == 4)), double, float>;

template <class Wide, class From>
[[nodiscard]] CUOTA_HOST_DEVICE Wide widened(From x) noexcept {
    if constexpr (std::is_arithmetic_v<From>) return static_cast<Wide>(x);
    else return static_cast<Wide>(static_cast<float>(x));
}
template <class To, class Wide>
[[nodiscard]] CUOTA_HOST_DEVICE To narrowed(Wide value) noexcept {
    if constexpr (std::is_arithmetic_v<To>) return static_cast<To>(value);
    else return To{static_cast<float>(value)};
}

template <class To, class From>
[[nodiscard]] CUOTA_HOST_DEVICE To converted(From x, wide_enough<From, To> factor,
                                             wide_enough<From, To> offset, bool is_plain) noexcept {
    auto value = widened<wide_enough<From, To>>(x);
    if (!is_plain) value = value * factor + offset;
    return narrowed<To>(value);
}

/// Returns each field's conversion, or nullopt, and updates `fields`.
/// Throws: usage_error, naming `owner`, for an unknown or repeated field, or an unsupported type.
[[nodiscard]] std::vector<std::optional<conversion>> convert_fields(std::vector<field>& fields,
                                                                    std::span<conversion const> wanted,
                                                                    std::string const& owner);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<std::optional<conversion>> convert_fields(std::vector<field>& fields,
                                                                   std::span<conversion const> wanted,
                                                                   std::string const& owner) {
    std::vector<std::optional<conversion>> steps(fields.size());
    for (conversion const& c : wanted) {
        auto const found =
            std::find_if(fields.begin(), fields.end(), [&](field const& f) { return f.name == c.field; });
        if (found == fields.end())
            throw_usage_error("{}: cannot convert field {}: no such field", {owner, c.field});
        std::optional<conversion>& step = steps[static_cast<std::size_t>(found - fields.begin())];
        if (step) throw_usage_error("{}: field {} has more than one conversion", {owner, c.field});
        bool const can_be = c.to == element_type::f16 || c.to == element_type::bf16 ||
                            c.to == element_type::f32 || c.to == element_type::f64;
        if (!can_be)
            throw_usage_error("{}: field {}: cannot convert to {}; supported: f16, bf16, f32, f64",
                              {owner, field_text(*found), element_name(c.to)});
        step = c;
        found->type = c.to;
    }
    return steps;
}

}  // namespace cuota::inline v0::detail

#endif
