// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Position of a loader, to be saved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// An epoch and a position: enough to resume with any number of workers and processes.
/// Example: auto epoch = loader.epoch(cuota::loader_state::parse(saved));
struct loader_state {
    std::uint64_t epoch = 0;     ///< epoch number
    std::uint64_t position = 0;  ///< positions delivered, over all processes
    std::uint64_t order = 0;     ///< fingerprint of sampler and number of samples

    /// Returns one line, for `parse`.
    [[nodiscard]] std::string text() const;
    /// Parses text(). Throws: usage_error for other text.
    [[nodiscard]] static loader_state parse(std::string_view text,
                                            source_location where = source_location::current());

    friend bool operator==(loader_state const&,
                           loader_state const&) noexcept = default;  ///< compares all members
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <charconv>

namespace cuota::inline v0 {

CUOTA_INLINE std::string loader_state::text() const {
    return detail::message("cuota-loader-state 1 epoch {} position {} order {}", {epoch, position, order});
}

CUOTA_INLINE loader_state loader_state::parse(std::string_view text, source_location where) {
    std::string_view rest = text;
    auto const take = [&](std::string_view word) {
        bool const is_there = rest.starts_with(word);
        if (is_there) rest.remove_prefix(word.size());
        return is_there;
    };
    auto const number = [&](std::uint64_t& to) {
        auto const [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), to);
        bool const is_one = error == std::errc{};
        if (is_one) rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        return is_one;
    };
    loader_state state;
    bool const is_state = take("cuota-loader-state 1 epoch ") && number(state.epoch) && take(" position ") &&
                          number(state.position) && take(" order ") && number(state.order) && rest.empty();
    if (!is_state)
        detail::throw_usage_error(where, "loader_state: cannot parse \"{}\"",
                                  {std::string{text.substr(0, 80)}});
    return state;
}

}  // namespace cuota::inline v0

#endif
