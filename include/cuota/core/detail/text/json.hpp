// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// JSON on one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0::detail {

/// Returns a JSON string. Bytes that are not valid UTF-8 become U+FFFD.
[[nodiscard]] std::string json_string(std::string_view text);

/// Returns an integer; null for `unlimited`.
[[nodiscard]] std::string json_size(std::size_t bytes);

/// Builds an object member by member. Keys must not need escapes.
class json_object {
public:
    json_object& add(char const* key, std::string_view text) { return add_json(key, json_string(text)); }
    json_object& add(char const* key, char const* text) { return add(key, std::string_view{text}); }
    json_object& add(char const* key, std::size_t bytes) { return add_json(key, json_size(bytes)); }
    template <class Bool>
    requires std::is_same_v<Bool, bool> json_object& add(char const* key, Bool is) {
        return add_json(key, is ? "true" : "false");
    }
    /// Adds a value that is already JSON.
    json_object& add_json(char const* key, std::string_view json);
    [[nodiscard]] std::string text() const { return '{' + members_ + '}'; }

private:
    std::string members_;
};

template <class Items, class ToJson>
[[nodiscard]] std::string json_list(Items const& items, ToJson to_json, std::size_t most = unlimited) {
    std::string result{'['};
    std::size_t count = 0;
    for (auto const& item : items) {
        if (count == most) break;
        if (count++ != 0) result += ',';
        result += to_json(item);
    }
    return result += ']';
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string json_string(std::string_view text) {
    std::string result{'"'};
    for (std::size_t at = 0; at != text.size();) {
        std::size_t const length = utf8_length(text, at);
        char const c = text[at];
        auto const code = static_cast<unsigned char>(c);
        if (length == 0) result += "\\ufffd";
        else if (c == '"' || c == '\\') (result += '\\') += c;
        else if (c == '\n') result += "\\n";
        else if (c == '\t') result += "\\t";
        else if (code < 0x20 || code == 0x7F)
            ((result += "\\u00") += "0123456789abcdef"[code >> 4]) += "0123456789abcdef"[code & 15];
        else result += text.substr(at, length);
        at += length == 0 ? 1 : length;
    }
    return result += '"';
}

CUOTA_INLINE std::string json_size(std::size_t bytes) {
    return bytes == unlimited ? "null" : std::to_string(bytes);
}

CUOTA_INLINE json_object& json_object::add_json(char const* key, std::string_view json) {
    ((((members_ += members_.empty() ? "\"" : ",\"") += key) += "\":") += json);
    return *this;
}

}  // namespace cuota::inline v0::detail

#endif
