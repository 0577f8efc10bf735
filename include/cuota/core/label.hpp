// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The tag and the call site of a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>

namespace cuota::inline v0 {

/// A call site, like std::source_location, which clang 14 lacks.
/// Example: tests/core/label.cpp
struct source_location {
    char const* file = "";  ///< string literal
    unsigned line = 0;      ///< from 1; 0: unknown

    /// Returns the current location; as a default argument, the caller's. Cost: none.
    [[nodiscard]] static constexpr source_location current(char const* file = __builtin_FILE(),
                                                           unsigned line = __builtin_LINE()) noexcept {
        return {file, line};
    }
};

namespace detail {

// std::string, std::string_view and the like.
template <class T>
concept text_of_a_moment =
    std::is_convertible_v<T const&, std::string_view> && !std::is_convertible_v<T const&, char const*>;

template <class T>
concept pointer_to_text = std::is_pointer_v<T> && std::is_convertible_v<T, char const*>;

}  // namespace detail

/// An allocation tag: the purpose of memory, such as "weights". A pointer to text that lives as long as the program. String literals
/// convert, also when forwarded by emplace.
/// Threads: any. Throws: nothing, except `named`. Example: tests/core/label.cpp
class tag {
public:
    constexpr tag() noexcept = default;
    /// Makes a tag from a string literal, or from another array of const char, which must be `static`.
    template <std::size_t Size>
    constexpr tag(char const (&literal)[Size]) noexcept : text_{literal} {}
    /// Rejects mutable character buffers: their text changes or is destroyed.
    template <std::size_t Size>
    tag(char (&not_a_literal)[Size]) = delete;  // a tag is a literal, or tag::named(a string)
    /// Makes a tag from a compile-time constant.
    template <detail::pointer_to_text T>
    consteval tag(T literal) noexcept : text_{literal} {}
    /// Rejects a std::string, which may be destroyed while messages still use the tag.
    template <detail::text_of_a_moment not_a_literal>
    tag(not_a_literal const&) = delete;  // a tag is a literal, or tag::named(a string)

    /// Returns a tag for a name made at run time, which is stored until the program ends: use a bounded set of names.
    /// Throws: std::bad_alloc. Cost: a lock and a binary search.
    CUOTA_PROCESS_STATE [[nodiscard]] static tag named(std::string_view name);

    /// Returns the text, valid until the program ends.
    [[nodiscard]] constexpr char const* text() const noexcept { return text_; }
    /// Returns whether the text is "".
    [[nodiscard]] constexpr bool is_empty() const noexcept { return *text_ == '\0'; }
    /// Compares by text.
    [[nodiscard]] friend bool operator==(tag a, tag b) noexcept {
        return std::string_view{a.text_} == std::string_view{b.text_};
    }

private:
    char const* text_ = "";
};

/// Returns the noun for values of type T in messages, such as "floats" or "elements".
template <class T>
[[nodiscard]] CUOTA_HOST_DEVICE constexpr char const* unit_name() noexcept {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>) return "floats";
    else if constexpr (std::is_same_v<U, double>) return "doubles";
    else if constexpr (std::is_same_v<U, int>) return "ints";
    else if constexpr (sizeof(U) == 1) return "bytes";
    else return "elements";
}

/// The tag, the call site and the unit of a request.
/// Example: tests/core/label.cpp
struct label {
    tag name{};               ///< the purpose of the memory
    source_location where{};  ///< the call site
    /// The unit in messages, such as "floats"; lives as long as the program.
    char const* unit = "bytes";
    std::size_t unit_bytes = 1;  ///< bytes per unit
};

/// Makes the label for elements of type T.
template <class T>
[[nodiscard]] constexpr label label_for(tag name, source_location where) noexcept {
    return {name, where, unit_name<T>(), sizeof(T)};
}

/// Formats a call site as "train.cpp:17"; "" if unknown. Throws: std::bad_alloc.
[[nodiscard]] std::string source_location_text(source_location where);

namespace detail {

/// Returns the call site for the end of a message, such as " (train.cpp:17)"; "" if unknown. Throws: std::bad_alloc.
[[nodiscard]] std::string location_suffix(source_location where);

/// Compares by the text of the tag, then by file, then by line.
[[nodiscard]] int compare_uses(tag a_name, source_location a_where, tag b_name,
                               source_location b_where) noexcept;

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cstring>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE_STATE tag tag::named(std::string_view name) {
    static auto& guard = *new detail::process_lock;
    static auto& names = *new detail::dynamic_array<std::string const*>;  // sorted
    std::lock_guard const lock{guard};
    auto* at = detail::first_not(names.begin(), names.size(),
                                 [&](std::string const* known) { return *known < name; });
    if (at == names.end() || **at != name) {
        auto text = detail::light_unique_ptr<std::string const>::make(name);
        at = names.insert(at, text.get());
        (void)text.detach();  // never destroyed: reports during exit use it
    }
    tag result;
    result.text_ = (*at)->c_str();
    return result;
}

CUOTA_INLINE std::string source_location_text(source_location where) {
    if (where.line == 0) return {};
    char const* const slash = std::strrchr(where.file, '/');
    std::string text = slash != nullptr ? slash + 1 : where.file;
    text += ':';
    detail::append_number(text, where.line);
    return text;
}

CUOTA_INLINE std::string detail::location_suffix(source_location where) {
    std::string const location = source_location_text(where);
    return location.empty() ? "" : " (" + location + ')';
}

CUOTA_INLINE int detail::compare_uses(tag a_name, source_location a_where, tag b_name,
                                      source_location b_where) noexcept {
    if (int const names = std::strcmp(a_name.text(), b_name.text()); names != 0) return names;
    if (int const files = std::strcmp(a_where.file, b_where.file); files != 0) return files;
    return a_where.line < b_where.line ? -1 : a_where.line > b_where.line;
}

}  // namespace cuota::inline v0

#endif
