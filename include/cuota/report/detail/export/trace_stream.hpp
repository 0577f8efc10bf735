// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internal to `chrome_trace`: writes its events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/json.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

class trace_stream {
public:
    explicit trace_stream(std::ostream& to) : to_{to} {}

    void put(std::string_view text);
    void add(json_object const& event);
    /// Throws: data_error with the bytes written before.
    void flush();

private:
    std::ostream& to_;
    std::string text_;
    std::uint64_t written_ = 0;
    bool is_first_ = true;
};

/// Formats nanoseconds exactly as microseconds.
[[nodiscard]] std::string trace_time(std::uint64_t ns);

/// Returns the members of all events.
[[nodiscard]] json_object trace_event(char const* phase, std::size_t process, std::string_view name,
                                      std::uint64_t at);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE void trace_stream::put(std::string_view text) {
    text_ += text;
    if (text_.size() > (1U << 16)) flush();
}

CUOTA_INLINE void trace_stream::add(json_object const& event) {
    put(is_first_ ? "\n" : ",\n");
    is_first_ = false;
    put(event.text());
}

CUOTA_INLINE void trace_stream::flush() {
    if (!to_.write(text_.data(), static_cast<std::streamsize>(text_.size())).flush())
        throw_data_error("Chrome trace", written_, "writing failed");
    written_ += text_.size();
    text_.clear();
}

CUOTA_INLINE std::string trace_time(std::uint64_t ns) {
    std::string const part = std::to_string(ns % 1000);
    return std::to_string(ns / 1000) + '.' + std::string(3 - part.size(), '0') + part;
}

CUOTA_INLINE json_object trace_event(char const* phase, std::size_t process, std::string_view name,
                                     std::uint64_t at) {
    json_object e;
    e.add("ph", phase).add("pid", process).add("tid", process);
    e.add_json("ts", trace_time(at)).add("name", name);
    return e;
}

}  // namespace cuota::inline v0::detail

#endif
