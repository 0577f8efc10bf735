// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory limits, parsed from text.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// Limits per device, by ordinal.
///
/// The text is a comma-separated list of items, each for one device or for all devices without an item:
///     6GiB            that many bytes
///     80%             that share of the device's memory
///     0=6GiB,75%      device 0: 6 GiB; all others: three quarters
///     1=unlimited     counted, not limited
/// A size is as parse_bytes takes it; a share is 1 to 100 %.
/// Throws:  usage_error that names the text's source and the wrong item.
/// Threads: any. Example: std::size_t const limit = cuota::device_limits{"80%"}.bytes_for(0, total);
class device_limits {
public:
    device_limits() = default;  ///< every device is `unlimited`
    /// Parses the text; `source` names it in messages.
    explicit device_limits(std::string_view text, std::string_view source = "limits") {
        for (std::string_view rest = text;;) {
            std::size_t const comma = rest.find(',');
            add(rest.substr(0, comma), source);
            if (comma == std::string_view::npos) return;
            rest.remove_prefix(comma + 1);
        }
    }
    /// Parses an environment variable; returns no limits if it is not set.
    [[nodiscard]] static device_limits from_environment(char const* name = "CUOTA_BUDGET") {
        char const* const text = std::getenv(name);
        return text ? device_limits{text, name} : device_limits{};
    }

    /// Returns the limit in bytes for a device with `total` bytes.
    [[nodiscard]] std::size_t bytes_for(int ordinal, std::size_t total) const noexcept {
        auto const own = by_device_.find(ordinal);
        return (own != by_device_.end() ? own->second : for_others_.value_or(amount{})).of(total);
    }

private:
    static constexpr int last_device = 1023;

    struct amount {
        std::size_t bytes = unlimited;
        unsigned percent = 0;  // of the device's memory; 0 if `bytes` applies

        [[nodiscard]] std::size_t of(std::size_t total) const noexcept {
            return percent == 0 ? bytes : total / 100 * percent + total % 100 * percent / 100;
        }
    };

    void add(std::string_view item, std::string_view source) {
        std::size_t const equals = item.find('=');
        if (equals == std::string_view::npos) {
            if (for_others_) refuse(item, source, "repeats the limit of all other devices");
            for_others_ = amount_of(item, item, source);
            return;
        }
        auto const ordinal = number(item.substr(0, equals));
        if (!ordinal || *ordinal > std::size_t{last_device})
            refuse(item, source,
                   "does not start with a device number from 0 to " + std::to_string(last_device));
        if (!by_device_.emplace(static_cast<int>(*ordinal), amount_of(item.substr(equals + 1), item, source))
                 .second)
            refuse(item, source, "repeats the limit of this device");
    }

    [[nodiscard]] static amount amount_of(std::string_view text, std::string_view item,
                                          std::string_view source) {
        if (text == "unlimited") return {};
        if (text.ends_with('%')) {
            auto const share = number(text.substr(0, text.size() - 1));
            if (share && *share != 0 && *share <= 100) return {0, static_cast<unsigned>(*share)};
        }
        auto const bytes = parse_bytes(text);
        if (!bytes || *bytes == 0)
            refuse(item, source,
                   "is not a limit; write 6GiB, 512MiB, 65536, 80% (1 to 100) or unlimited, and not 0");
        return {*bytes, 0};
    }
    [[nodiscard]] static std::optional<std::size_t> number(std::string_view digits) noexcept {
        std::size_t value = 0;
        char const* const end = digits.data() + digits.size();
        auto const [stop, error] = std::from_chars(digits.data(), end, value);
        if (digits.empty() || error != std::errc{} || stop != end) return std::nullopt;
        return value;
    }
    [[noreturn]] static void refuse(std::string_view item, std::string_view source, std::string const& why) {
        detail::throw_usage_error("{}: '{}' {}", {source, detail::as_name(item, 40), why});
    }

    std::map<int, amount> by_device_;
    std::optional<amount> for_others_;
};

}  // namespace cuota::inline v0
