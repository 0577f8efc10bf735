// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Messages from a pattern: `message("{} of {} bytes", {name, count})` compiles to half the code of a chain of `+`.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// One value of a message. It refers to text: use it only within the full expression that makes it.
class message_value {
public:
    message_value(char const* text) noexcept : at_{text}, n_{until_zero} {}
    message_value(std::string_view text) noexcept : at_{text.data()}, n_{text.size()} {}
    message_value(std::string const& text) noexcept : at_{text.data()}, n_{text.size()} {}
    message_value(tag name) noexcept : message_value{name.text()} {}
    /// Formats like source_location_text, or like shown(where, most) if most != 0.
    message_value(source_location where, std::uint32_t most = 0) noexcept
        : at_{where.file}, n_{where.line}, most_{most}, kind_{kind::location} {}
    template <std::integral Number>
        requires(!std::is_same_v<Number, bool> && !std::is_same_v<Number, char>)
    message_value(Number n)
    noexcept
        : n_{static_cast<std::uint64_t>(n)},
          kind_{std::is_signed_v<Number> ? kind::signed_number : kind::number} {}
    message_value(double n) noexcept : n_{std::bit_cast<std::uint64_t>(n)}, kind_{kind::real_number} {}

    [[nodiscard]] static message_value bytes(std::size_t n) noexcept { return {kind::bytes, n}; }
    [[nodiscard]] static message_value at_least(std::size_t n) noexcept { return {kind::at_least, n}; }
    [[nodiscard]] static message_value count(std::uint64_t n) noexcept { return {kind::count, n}; }
    [[nodiscard]] static message_value name(std::string_view name, std::uint32_t most) noexcept {
        message_value result{name};
        result.kind_ = kind::name;
        result.most_ = most;
        return result;
    }

    /// Pads the value like padded(text, columns).
    [[nodiscard]] message_value padded_to(std::size_t columns) const noexcept {
        message_value result = *this;
        result.columns_ = static_cast<std::uint16_t>(columns);
        return result;
    }

    void append_to(std::string& to) const;

private:
    enum class kind : std::uint8_t {
        text,
        name,
        location,
        number,
        signed_number,
        real_number,
        bytes,
        at_least,
        count
    };
    static constexpr std::uint64_t until_zero = ~std::uint64_t{0};

    message_value(kind k, std::uint64_t n) noexcept : n_{n}, kind_{k} {}

    [[nodiscard]] std::string text() const;  // without padding

    char const* at_ = nullptr;
    std::uint64_t n_;
    std::uint32_t most_ = 0;
    std::uint16_t columns_ = 0;  // 0: no padding
    kind kind_ = kind::text;
};

[[nodiscard]] inline message_value as_bytes(std::size_t n) noexcept { return message_value::bytes(n); }
[[nodiscard]] inline message_value as_count(std::uint64_t n) noexcept { return message_value::count(n); }
/// Formats like shown(name, most).
[[nodiscard]] inline message_value as_name(std::string_view name, std::size_t most) noexcept {
    return message_value::name(name, static_cast<std::uint32_t>(most));
}
/// Formats like shown(where, most).
[[nodiscard]] inline message_value as_location(source_location where, std::uint32_t most) noexcept {
    return {where, most};
}
[[nodiscard]] inline message_value at_least(std::size_t n) noexcept { return message_value::at_least(n); }

/// Replaces each "{}" of the pattern by the next value; the lint `messages` checks their numbers.
[[nodiscard]] std::string message(char const* pattern, std::initializer_list<message_value> values);

void append_message(std::string& to, char const* pattern, std::initializer_list<message_value> values);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cstring>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string message_value::text() const {
    auto const all = [&] { return std::string_view{at_, n_ == until_zero ? std::strlen(at_) : n_}; };
    source_location const where{at_, static_cast<unsigned>(n_)};
    bool const is_negative = kind_ == kind::signed_number && static_cast<std::int64_t>(n_) < 0;
    std::string number;
    switch (kind_) {
        case kind::text: return std::string{all()};
        case kind::name: return shown(all(), most_);
        case kind::location: return most_ == 0 ? source_location_text(where) : shown(where, most_);
        case kind::real_number: return real_text(std::bit_cast<double>(n_));
        case kind::bytes: return bytes_text(n_);
        case kind::at_least: return at_least_text(n_);
        case kind::count: return count_text(n_);
        case kind::number:
        case kind::signed_number: break;
    }
    if (is_negative) number += '-';
    append_number(number, is_negative ? 0 - n_ : n_);
    return number;
}

CUOTA_INLINE void message_value::append_to(std::string& to) const {
    std::string const made = text();
    to += made;
    if (columns_ != 0) to.append(padding(made, columns_), ' ');
}

CUOTA_INLINE void append_message(std::string& to, char const* pattern,
                                 std::initializer_list<message_value> values) {
    for (message_value const& value : values) {
        char const* const at = std::strstr(pattern, "{}");
        if (at == nullptr) break;
        to.append(pattern, at);
        value.append_to(to);
        pattern = at + 2;
    }
    to.append(pattern);
}

CUOTA_INLINE std::string message(char const* pattern, std::initializer_list<message_value> values) {
    std::string text;
    append_message(text, pattern, values);
    return text;
}

}  // namespace cuota::inline v0::detail

#endif
