// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/text/text.hpp>

#include <algorithm>

#include <cuota/core/detail/text/json.hpp>

#include "fuzz/fuzz.hpp"

namespace {

bool is_utf8_without_controls(std::string_view text) {
    for (std::size_t at = 0; at != text.size();) {
        std::size_t const length = cuota::detail::utf8_length(text, at);
        auto const first = static_cast<unsigned char>(text[at]);
        if (length == 0 || length > text.size() - at || first < 0x20 || first == 0x7F) return false;
        at += length;
    }
    return true;
}

}  // namespace

// Names are arbitrary bytes. In a line of the screen they must not exceed their width or break the line, and in JSON they must not end the
// string early.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view const name = fuzz::text_of(data, size).substr(1);
    std::size_t const most = 4 + data[0] % 64;
    fuzz::is_read_or_refused(size, 32, [&] {
        std::string const shown = cuota::detail::shown(name, most);
        fuzz::expect(shown.size() <= most, "a name takes the room it has");
        fuzz::expect(is_utf8_without_controls(shown), "a name on a screen is text");
        fuzz::expect(cuota::detail::columns_of(shown) <= shown.size(), "no column without a byte");

        std::string const json = cuota::detail::json_string(name);
        fuzz::expect(is_utf8_without_controls(json) && json.front() == '"' && json.back() == '"',
                     "JSON is text");
        std::size_t at = 1;
        while (at < json.size() && json[at] != '"') at += json[at] == '\\' ? 2 : 1;
        fuzz::expect(at == json.size() - 1, "a string of JSON ends at its end");
    });
    return 0;
}
