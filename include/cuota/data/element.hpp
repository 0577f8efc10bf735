// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Element types and fields.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/half.hpp>

namespace cuota::inline v0 {

/// Type of one element, in this machine's byte order.
enum class element_type : std::uint8_t {
    u8,   ///< unsigned, 8 bits; also bool and bytes
    i8,   ///< signed
    i16,  ///< signed
    u16,  ///< unsigned
    i32,  ///< signed
    u32,  ///< unsigned
    i64,  ///< signed
    u64,  ///< unsigned
    f16,  ///< IEEE half: `half`
    f32,  ///< float
    f64,  ///< double
    bf16  ///< upper 16 bits of a float: `bfloat16`
};

/// Returns the size in bytes.
[[nodiscard]] constexpr std::size_t element_bytes(element_type type) noexcept {
    constexpr std::array<std::uint8_t, 12> sizes{1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    return sizes[static_cast<std::uint8_t>(type)];
}

/// Returns a name such as "f32".
[[nodiscard]] constexpr char const* element_name(element_type type) noexcept {
    constexpr std::array<char const*, 12> names{"u8",  "i8",  "i16", "u16", "i32", "u32",
                                                "i64", "u64", "f16", "f32", "f64", "bf16"};
    return names[static_cast<std::uint8_t>(type)];
}

namespace detail {

template <class T>
concept element_like = std::same_as<T, std::byte> || std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, half> || std::same_as<T, bfloat16> ||(std::integral<T> && sizeof(T) <= 8);

template <class T>
consteval element_type integer_element() {
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
        case 1: return is_signed ? element_type::i8 : element_type::u8;
        case 2: return is_signed ? element_type::i16 : element_type::u16;
        case 4: return is_signed ? element_type::i32 : element_type::u32;
        default: return is_signed ? element_type::i64 : element_type::u64;
    }
}

}  // namespace detail

/// Returns the element type of T; bool and std::byte are u8.
template <class T>
    requires detail::element_like<std::remove_cv_t<T>>
[[nodiscard]] consteval element_type element_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>) return element_type::f32;
    else if constexpr (std::is_same_v<U, double>) return element_type::f64;
    else if constexpr (std::is_same_v<U, half>) return element_type::f16;
    else if constexpr (std::is_same_v<U, bfloat16>) return element_type::bf16;
    else if constexpr (std::is_same_v<U, std::byte>) return element_type::u8;
    else return detail::integer_element<U>();
}

/// A named array in every sample (image, label). In a ragged field, a sample has any number of rows (words, frames) of this shape.
struct field {
    std::string name;                      ///< for messages and lookup
    element_type type = element_type::u8;  ///< of each element
    std::vector<std::size_t> shape{};      ///< extents, slowest first; {} is a scalar
    bool is_ragged = false;                ///< rows vary per sample

    /// Returns the elements per sample, or per row if ragged. Throws: usage_error on overflow.
    [[nodiscard]] std::size_t count() const;
    /// Returns the bytes per sample or row. Throws: as count.
    [[nodiscard]] std::size_t bytes() const { return or_misuse(checked_mul(count(), element_bytes(type))); }

    friend bool operator==(field const&, field const&) = default;  ///< compares all members

private:
    [[nodiscard]] std::size_t or_misuse(std::optional<std::size_t> product) const;
};

/// Returns "images u8[28, 28]", "words u32[*]". Throws: std::bad_alloc.
[[nodiscard]] std::string field_text(field const& f);

/// Returns "images u8[28, 28], labels u8". Throws: std::bad_alloc.
[[nodiscard]] std::string fields_text(std::span<field const> fields);

namespace detail {

[[nodiscard]] std::size_t ragged_count(std::span<field const> fields) noexcept;
/// Throws: usage_error, naming `what`, if a field is ragged.
void expect_no_ragged(std::span<field const> fields, std::string const& what);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

namespace cuota::inline v0 {

CUOTA_INLINE std::size_t field::count() const {
    std::size_t product = 1;
    for (std::size_t const extent : shape) product = or_misuse(checked_mul(product, extent));
    return product;
}

CUOTA_INLINE std::size_t field::or_misuse(std::optional<std::size_t> product) const {
    if (!product) detail::throw_usage_error("field {}: one sample is larger than any address space", {name});
    return *product;
}

CUOTA_INLINE std::string field_text(field const& f) {
    std::string text = detail::message("{} {}", {f.name, element_name(f.type)});
    if (f.shape.empty() && !f.is_ragged) return text;
    text += f.is_ragged ? "[*" : "[";
    char const* separator = f.is_ragged ? ", " : "";
    for (std::size_t const extent : f.shape) {
        text += separator + std::to_string(extent);
        separator = ", ";
    }
    return text + ']';
}

CUOTA_INLINE std::string fields_text(std::span<field const> fields) {
    std::string text;
    for (field const& f : fields) text += (text.empty() ? "" : ", ") + field_text(f);
    return text.empty() ? "no fields" : text;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t ragged_count(std::span<field const> fields) noexcept {
    std::size_t count = 0;
    for (field const& f : fields) count += f.is_ragged;
    return count;
}

CUOTA_INLINE void expect_no_ragged(std::span<field const> fields, std::string const& what) {
    for (field const& f : fields)
        if (f.is_ragged) throw_usage_error("{}: ragged fields are not supported: {}", {what, field_text(f)});
}

}  // namespace cuota::inline v0::detail

#endif
