// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Who asks: a tag and a call site, carried with a request at the price of a few pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>

namespace cuota::inline v0 {

/// A call site. As std::source_location, which clang 14 does not have; `place::here()` as a default argument is the
/// place of the call that left it out. Example: tests/core/label.cpp
struct place {
    char const* file = "";  ///< a literal's text: lives as long as the program
    unsigned line = 0;      ///< from 1; 0: nobody gave a place

    /// Where it stands; as a default argument, where the call does. At compile time: for nothing.
    [[nodiscard]] static constexpr place here(char const* file = __builtin_FILE(),
                                              unsigned line = __builtin_LINE()) noexcept {
        return {file, line};
    }
};

namespace detail {

// std::string, std::string_view and the like. A char const* is one where it is known at compile time only.
template <class T>
concept text_of_a_moment =
    std::is_convertible_v<T const&, std::string_view> && !std::is_convertible_v<T const&, char const*>;

template <class T>
concept pointer_to_text = std::is_pointer_v<T> && std::is_convertible_v<T, char const*>;

}  // namespace detail

/// A name for what memory is used for: "weights", "activations". One pointer; the text lives as long as the program.
///
/// A string literal converts for nothing, also where it is forwarded: by emplace, std::make_unique or std::make_shared. A name made at
/// run time goes through `tag::named`.
/// Threads: any. Throws: nothing, but for `named`. Cost: a pointer to copy. Example: tests/core/label.cpp
class tag {
public:
    constexpr tag() noexcept = default;
    /// Of a string literal. An array of constant characters is taken for one: declare an array of your own `static`.
    template <std::size_t Size>
    constexpr tag(char const (&literal)[Size]) noexcept : text_{literal} {}
    /// A buffer of characters is no literal: its text changes or ends.
    template <std::size_t Size>
    tag(char (&not_a_literal)[Size]) = delete;  // a tag is a literal, or tag::named(a string)
    /// Of a pointer that is known when it is compiled.
    template <detail::pointer_to_text T>
    consteval tag(T literal) noexcept : text_{literal} {}
    /// A std::string may be gone, and its text with it, while messages still name the tag: `tag::named` keeps a copy.
    template <detail::text_of_a_moment not_a_literal>
    tag(not_a_literal const&) = delete;  // a tag is a literal, or tag::named(a string)

    /// A tag for a name that is not a literal. Kept until the program ends: name things, not events.
    /// Throws: std::bad_alloc. Cost: a lock and a look-up.
    CUOTA_PROCESS_STATE [[nodiscard]] static tag named(std::string_view name);

    /// Never null; "" when empty. Lives until the program ends.
    [[nodiscard]] constexpr char const* text() const noexcept { return text_; }
    [[nodiscard]] constexpr bool is_empty() const noexcept { return *text_ == '\0'; }  ///< no name was given
    /// By the text. Cost: linear in its length.
    [[nodiscard]] friend bool operator==(tag a, tag b) noexcept {
        return std::string_view{a.text_} == std::string_view{b.text_};
    }

private:
    char const* text_ = "";
};

/// What one counts in when speaking of a T: "floats", "bytes"; "elements" where English has no word for it.
template <class T>
[[nodiscard]] CUOTA_HOST_DEVICE constexpr char const* unit_name() noexcept {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>) return "floats";
    else if constexpr (std::is_same_v<U, double>) return "doubles";
    else if constexpr (std::is_same_v<U, int>) return "ints";
    else if constexpr (sizeof(U) == 1) return "bytes";
    else return "elements";
}

/// A request's tag, call site and unit, for messages and accounts. Passed by reference; copied by those who keep it.
/// Example: tests/core/label.cpp
struct label {
    tag name{};                  ///< what the memory is for
    place where{};               ///< who asks
    char const* unit = "bytes";  ///< what the request counts in: "floats"; lives as long as the program
    std::size_t unit_bytes = 1;  ///< bytes of one
};

/// The label of a request for elements of type T.
template <class T>
[[nodiscard]] constexpr label label_for(tag name, place where) noexcept {
    return {name, where, unit_name<T>(), sizeof(T)};
}

/// "train.cpp:17"; empty for a place that nobody gave. Throws: std::bad_alloc.
[[nodiscard]] std::string place_text(place where);

namespace detail {

/// Which of two uses comes first, by the texts of tag and file, then by the line: below 0, 0 or above 0.
[[nodiscard]] int compare_uses(tag a_name, place a_where, tag b_name, place b_where) noexcept;

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cstring>

#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE tag tag::named(std::string_view name) {
    static auto& guard = *new detail::process_lock;
    static auto& names = *new detail::dynamic_array<std::string const*>;  // sorted
    std::lock_guard const lock{guard};
    auto* at = detail::first_not(names.begin(), names.size(),
                                 [&](std::string const* known) { return *known < name; });
    if (at == names.end() || **at != name) {
        auto text = sole<std::string const>::make(name);
        at = names.insert(at, text.get());
        (void)text.detach();  // never destroyed: reports at the very end of the program still name it
    }
    tag result;
    result.text_ = (*at)->c_str();
    return result;
}

CUOTA_INLINE std::string place_text(place where) {
    if (where.line == 0) return {};
    char const* const slash = std::strrchr(where.file, '/');
    std::string text = slash != nullptr ? slash + 1 : where.file;
    text += ':';
    detail::append_number(text, where.line);
    return text;
}

CUOTA_INLINE int detail::compare_uses(tag a_name, place a_where, tag b_name, place b_where) noexcept {
    if (int const names = std::strcmp(a_name.text(), b_name.text()); names != 0) return names;
    if (int const files = std::strcmp(a_where.file, b_where.file); files != 0) return files;
    return a_where.line < b_where.line ? -1 : a_where.line > b_where.line;
}

}  // namespace cuota::inline v0

#endif
