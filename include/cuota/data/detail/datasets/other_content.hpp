// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Recognizes files that are not the expected data.
#pragma once

#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0::detail {

/// Recognizes a file by its first 512 bytes; returns its kind and the remedy, or an empty string.
[[nodiscard]] std::string other_content(file const& from);

/// Throws data_error with other_content, if not empty.
void refuse_other_content(file const& from);

/// Returns parse(). Replaces a data_error by one with the file's kind if recognized.
template <class Parse>
[[nodiscard]] auto parsed(file const& from, Parse const& parse) {
    try {
        return parse();
    } catch (data_error const&) {
        refuse_other_content(from);
        throw;
    }
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string other_content(file const& from) {
    if (from.size() == 0) return "the file is empty: writing or downloading it may have failed";
    std::array<char, 512> memory;
    auto const start = std::span{memory}.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(memory.size(), from.size())));
    from.read_exact(0, std::as_writable_bytes(start));
    std::string_view text{start.data(), start.size()};
    if (text.starts_with("version https://git-lfs.github.com/spec/"))
        return "is a Git LFS pointer, not the data: run 'git lfs pull'";
    if (text.starts_with("\x1f\x8b"))
        return "is compressed by gzip: open it with cuota::open_maybe_gzip (cuota/data/io/gzip.hpp)";
    if (text.starts_with("PK\3\4")) return "is a zip archive, as .npz files are: unpack it";
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    auto const begins_with = [text](std::string_view word) {  // ignores case
        return text.size() >= word.size() &&
               std::equal(word.begin(), word.end(), text.begin(),
                          [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + ('a' - 'A') : b); });
    };
    if (begins_with("<!doctype html") || begins_with("<html"))
        return "is an HTML page, not the data: the server may have answered with an error or a login";
    if (begins_with("<?xml"))
        return "is an XML document, not the data: the server may have answered with an error";
    return {};
}

CUOTA_INLINE void refuse_other_content(file const& from) {
    std::string const found = other_content(from);
    if (!found.empty()) throw_data_error(from.name(), 0, "{}", {found});
}

}  // namespace cuota::inline v0::detail

#endif
