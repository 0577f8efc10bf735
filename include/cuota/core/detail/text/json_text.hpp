// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Feeds text to nlohmann's JSON parser. Requires nlohmann's JSON library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// A JSON text and the position up to which it was read: the parser reports a position only for its own errors, not for those of a caller.
class json_text {
public:
    explicit json_text(std::string_view text) noexcept : text_{text} {}
    json_text(json_text const&) = delete;
    json_text& operator=(json_text const&) = delete;

    /// Calls the SAX callbacks. Returns false, without any call, for a text with a zero byte: the parser would take it for the end.
    /// Throws: as the callbacks.
    template <class Sax>
    [[nodiscard]] bool parse(Sax& sax) {
        if (std::size_t const zero = text_.find('\0'); zero != std::string_view::npos) {
            furthest_ += zero;
            return false;
        }
        (void)nlohmann::json::sax_parse(bytes{text_.data(), &furthest_},
                                        bytes{text_.data() + text_.size(), &furthest_}, &sax);
        return true;
    }
    [[nodiscard]] std::uint64_t offset() const noexcept {
        return static_cast<std::uint64_t>(furthest_ - text_.data());
    }
    /// Returns the text of a parser's error without its number.
    [[nodiscard]] static std::string reason(nlohmann::json::exception const& error) {
        std::string_view why = std::string_view{error.what()}.substr(0, 200);
        if (std::size_t const number = why.find("] "); number != std::string_view::npos)
            why.remove_prefix(number + 2);
        return std::string{why};
    }

private:
    class bytes {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = char;
        using difference_type = std::ptrdiff_t;
        using pointer = char const*;
        using reference = char const&;

        bytes(char const* at, char const** furthest) noexcept : at_{at}, furthest_{furthest} {}
        reference operator*() const noexcept { return *at_; }
        bytes& operator++() noexcept {
            *furthest_ = ++at_;
            return *this;
        }
        void operator++(int) noexcept { ++*this; }
        friend bool operator==(bytes a, bytes b) noexcept { return a.at_ == b.at_; }

    private:
        char const* at_;
        char const** furthest_;
    };

    std::string_view text_;
    char const* furthest_ = text_.data();
};

}  // namespace cuota::inline v0::detail
