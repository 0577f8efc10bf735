// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads the events of a Chrome trace. Requires nlohmann's JSON library.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/json_text.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

/// The members of an event that tell of memory; absent ones are empty.
struct chrome_event {
    std::string phase{}, name{}, category{};
    std::string process{}, thread{}, id{};       ///< numbers as text
    std::uint64_t offset = 0;                    ///< where it ends in the file
    std::optional<std::uint64_t> at{}, lasts{};  ///< nanoseconds

    // Arguments: those of PyTorch's profiler, then those of write_chrome_trace.
    std::optional<std::int64_t> bytes{};
    std::optional<std::uint64_t> device{}, device_kind{};
    std::optional<std::uint64_t> address{};
    std::optional<std::uint64_t> size{}, held{}, limit{}, stream{};
    std::string tag{}, location{}, title{};  ///< `title`: of metadata
    bool is_live_at_end = false;
};

/// Calls see(event) for each event of a trace, from nlohmann's SAX events, so a large file needs no tree.
template <class See>
class chrome_events {
public:
    chrome_events(std::string_view text, std::string_view name, See see)
        : json_{text}, name_{name}, see_{std::move(see)} {}

    /// Throws: data_error for text that is not JSON or not a trace; as `see`.
    void read() {
        if (!json_.parse(*this)) fail("contains a zero byte");
        if (events_depth_ == 0) fail("is not a Chrome trace: it has no list of events");
    }

    // SAX callbacks.
    bool null() { return true; }
    bool binary(nlohmann::json::binary_t&) { return true; }
    bool boolean(bool value) {
        if (is_argument() && key_ == "live_at_end") now_.is_live_at_end = value;
        return true;
    }
    bool number_integer(std::int64_t value) {  // negative
        if (is_argument() && key_ == "Bytes" && value >= -most_bytes) now_.bytes = value;
        if (is_member()) set_text(std::to_string(value));
        return true;
    }
    bool number_unsigned(std::uint64_t value) {
        if (is_argument()) set_argument(value);
        else if (is_member()) set_number(std::to_string(value));
        return true;
    }
    bool number_float(double, std::string const& text) {
        if (is_member()) set_number(text);
        return true;
    }
    bool string(std::string& value) {
        if (is_argument()) set_argument(value);
        else if (is_member()) set_text(std::move(value));
        return true;
    }
    bool start_object(std::size_t) {
        ++depth_;
        if (events_depth_ != 0 && depth_ == events_depth_ + 1) now_ = {};
        if (events_depth_ != 0 && depth_ == events_depth_ + 2 && key_ == "args") arguments_depth_ = depth_;
        return true;
    }
    bool key(std::string& name) {
        if (depth_ <= events_depth_ + 2) key_ = std::move(name);
        return true;
    }
    bool end_object() {
        if (events_depth_ != 0 && depth_ == events_depth_ + 1) {
            now_.offset = json_.offset();
            see_(now_);
        }
        if (depth_-- == arguments_depth_) arguments_depth_ = 0;
        return true;
    }
    bool start_array(std::size_t) {
        ++depth_;
        if (depth_ == 1 || (depth_ == 2 && events_depth_ == 0 && key_ == "traceEvents"))
            events_depth_ = depth_;
        return true;
    }
    bool end_array() {
        // A later member of the outer object is not an event.
        if (depth_-- == events_depth_) events_depth_ = ended;
        return true;
    }
    bool parse_error(std::size_t, std::string const&, nlohmann::json::exception const& error) {
        std::string const why = json_text::reason(error);
        throw_data_error(std::string{name_}, json_.offset(), "is not valid JSON: {}", {as_name(why, 160)});
    }

private:
    static constexpr std::size_t ended = ~std::size_t{0} / 2;
    static constexpr std::int64_t most_bytes = std::int64_t{1} << 62;  // more than any device has

    [[noreturn]] void fail(char const* why) const {
        throw_data_error(std::string{name_}, json_.offset(), why, {});
    }
    [[nodiscard]] bool is_member() const { return events_depth_ != 0 && depth_ == events_depth_ + 1; }
    [[nodiscard]] bool is_argument() const { return arguments_depth_ != 0 && depth_ == arguments_depth_; }

    // Microseconds with a fraction, as nanoseconds; empty if they are negative or too many.
    [[nodiscard]] static std::optional<std::uint64_t> nanoseconds(std::string_view text) {
        std::uint64_t whole = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
        constexpr std::uint64_t most = ~std::uint64_t{0} / 2000;
        if (error != std::errc{} || whole > most) return std::nullopt;
        std::uint64_t ns = whole * 1000;
        std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
        if (rest.empty()) return ns;
        if (rest.find_first_of("eE") != std::string_view::npos) {
            double us = 0;
            if (std::from_chars(text.data(), text.data() + text.size(), us).ec != std::errc{})
                return std::nullopt;
            if (!(us >= 0 && us <= static_cast<double>(most))) return std::nullopt;
            return static_cast<std::uint64_t>(us * 1000);
        }
        std::uint64_t unit = 100;
        for (std::size_t i = 1; i != rest.size() && unit != 0; ++i, unit /= 10)
            ns += static_cast<std::uint64_t>(rest[i] - '0') * unit;
        return ns;
    }

    void set_number(std::string const& text) {
        if (key_ == "ts") now_.at = nanoseconds(text);
        else if (key_ == "dur") now_.lasts = nanoseconds(text);
        else set_text(text);
    }
    void set_text(std::string text) {
        if (key_ == "ph") now_.phase = std::move(text);
        else if (key_ == "name") now_.name = std::move(text);
        else if (key_ == "cat") now_.category = std::move(text);
        else if (key_ == "pid") now_.process = std::move(text);
        else if (key_ == "tid") now_.thread = std::move(text);
        else if (key_ == "id") now_.id = std::move(text);
    }
    void set_argument(std::uint64_t value) {
        if (key_ == "Bytes" || key_ == "bytes") {
            if (value <= std::uint64_t{most_bytes}) now_.bytes = static_cast<std::int64_t>(value);
        } else if (key_ == "Device Id") now_.device = value;
        else if (key_ == "Device Type") now_.device_kind = value;
        else if (key_ == "Addr") now_.address = value;
        else if (key_ == "size") now_.size = value;
        else if (key_ == "held") now_.held = value;
        else if (key_ == "limit") now_.limit = value;
    }
    void set_argument(std::string& text) {
        auto const number = [&]() -> std::optional<std::uint64_t> {
            std::uint64_t value = 0;
            auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
            return value;
        };
        if (key_ == "address") now_.address = number();
        else if (key_ == "stream") now_.stream = number();
        else if (key_ == "tag") now_.tag = std::move(text);
        else if (key_ == "location") now_.location = std::move(text);
        else if (key_ == "name") now_.title = std::move(text);
    }

    json_text json_;
    std::string_view name_;
    See see_;
    std::size_t depth_ = 0;
    std::size_t events_depth_ = 0;     // of the list of events; 0: not begun
    std::size_t arguments_depth_ = 0;  // of the arguments of an event; 0: outside
    std::string key_{};
    chrome_event now_{};
};

}  // namespace cuota::inline v0::detail
