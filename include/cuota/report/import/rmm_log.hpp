// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads the logs of RMM's logging_resource_adaptor.
#pragma once

#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/data/io/file.hpp>
#include <cuota/report/import/imported_recording.hpp>

namespace cuota::inline v0 {

/// Reads a log with the columns Thread, Time, Action, Pointer, Size and Stream. Actions are `allocate`,
/// `allocate failure` and `free`; they become events of one resource, and failures its refusals. The recording begins at the first line; a
/// time of day that is more than twelve hours earlier than the previous one is of the next day.
///
/// Throws: data_error with line and offset for a file that is no such log; std::bad_alloc.
/// Cost:   O(n log n) in the lines: 0.3 us and 110 bytes for each, on one core of a server.
/// Threads: any.
/// Example: tests/report/import/rmm_log.cpp
[[nodiscard]] imported_recording read_rmm_log(file const& from);
/// Same, of a file in memory; `name` is for messages.
[[nodiscard]] imported_recording read_rmm_log(std::string_view text, std::string_view name);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/detail/datasets/other_content.hpp>
#include <cuota/report/detail/import/repair_counter.hpp>

namespace cuota::inline v0::detail {

class rmm_log_importer {
public:
    rmm_log_importer(std::string_view text, std::string_view name) : text_{text}, name_{name} {}

    [[nodiscard]] imported_recording run();

private:
    using fields = std::array<std::string_view, 6>;
    enum column { thread, time, action, pointer, size, stream };

    // Reads the next line that is not empty; returns false at the end.
    [[nodiscard]] bool next_line();
    [[nodiscard]] fields split();
    [[noreturn]] void fail(char const* pattern, std::initializer_list<message_value> values) const;
    // Returns a whole number, also a hexadecimal one after 0x.
    [[nodiscard]] std::optional<std::uint64_t> number(std::string_view text) const noexcept;
    [[nodiscard]] std::uint64_t required(std::string_view text, char const* what) const;
    [[nodiscard]] std::uint64_t time_of(std::string_view text);
    void read(fields const& line);

    std::string_view text_;
    std::string name_;
    std::size_t next_ = 0;
    std::size_t offset_ = 0;  // of the line
    std::size_t number_ = 0;  // of the line, from 1
    std::string_view line_;
    imported_recording found_;
    std::optional<std::uint64_t> first_us_;
    std::uint64_t day_us_ = 0;   // of the days before
    std::uint64_t last_us_ = 0;  // time of day of the previous line
    std::uint64_t last_at_ = 0;
    std::map<std::uint64_t, std::size_t> live_;  // bytes by address
    repair_counter early_, unknown_, freed_, taken_twice_;
};

CUOTA_INLINE void rmm_log_importer::fail(char const* pattern,
                                         std::initializer_list<message_value> values) const {
    std::string const why = message(pattern, values);
    throw_data_error(name_, offset_, "line {}: {}", {as_count(number_), why});
}

CUOTA_INLINE bool rmm_log_importer::next_line() {
    while (next_ < text_.size()) {
        offset_ = next_;
        std::size_t const end = std::min(text_.find('\n', next_), text_.size());
        next_ = end + 1;
        ++number_;
        line_ = text_.substr(offset_, end - offset_);
        if (line_.ends_with('\r')) line_.remove_suffix(1);
        if (!line_.empty()) return true;
    }
    return false;
}

CUOTA_INLINE rmm_log_importer::fields rmm_log_importer::split() {
    fields found;
    std::string_view rest = line_;
    for (std::size_t i = 0; i != found.size(); ++i) {
        std::size_t const comma = rest.find(',');
        bool const is_last = i + 1 == found.size();
        if (is_last != (comma == std::string_view::npos))
            fail("{} fields are expected, between commas", {as_count(found.size())});
        found[i] = rest.substr(0, comma);
        if (!is_last) rest.remove_prefix(comma + 1);
    }
    return found;
}

CUOTA_INLINE std::optional<std::uint64_t> rmm_log_importer::number(std::string_view text) const noexcept {
    int const base = text.starts_with("0x") ? 16 : 10;
    if (base == 16) text.remove_prefix(2);
    std::uint64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
}

CUOTA_INLINE std::uint64_t rmm_log_importer::required(std::string_view text, char const* what) const {
    auto const value = number(text);
    if (!value) fail("the {} {} is not a number", {what, as_name(text, 40)});
    return *value;
}

// Reads hours:minutes:seconds.microseconds.
CUOTA_INLINE std::uint64_t rmm_log_importer::time_of(std::string_view text) {
    constexpr std::uint64_t day = 24 * std::uint64_t{3'600'000'000};
    auto const part = [&](std::size_t at, std::size_t count, std::uint64_t most) {
        std::optional<std::uint64_t> const value = number(text.substr(at, count));
        if (!value || *value > most)
            fail("the time {} is not hours:minutes:seconds.microseconds", {as_name(text, 40)});
        return *value;
    };
    if (text.size() != 15 || text[2] != ':' || text[5] != ':' || (text[8] != '.' && text[8] != ':'))
        fail("the time {} is not hours:minutes:seconds.microseconds", {as_name(text, 40)});
    std::uint64_t const us =
        ((part(0, 2, 23) * 60 + part(3, 2, 59)) * 60 + part(6, 2, 60)) * 1'000'000 + part(9, 6, 999'999);
    if (us + day / 2 < last_us_) day_us_ += day;
    last_us_ = us;
    if (!first_us_) first_us_ = us;
    std::uint64_t const now = day_us_ + us;
    std::uint64_t const at = now < *first_us_ ? 0 : (now - *first_us_) * 1000;
    if (at < last_at_ || now < *first_us_) early_.count(offset_);
    return last_at_ = std::max(at, last_at_);
}

CUOTA_INLINE void rmm_log_importer::read(fields const& line) {
    memory_event e;
    e.source = 1;
    if (line[action] == "allocate") e.kind = event_kind::allocated;
    else if (line[action] == "free") e.kind = event_kind::free_requested;
    else if (line[action] == "allocate failure") e.kind = event_kind::refused;
    else return unknown_.count(offset_);
    e.at = time_of(line[time]);
    e.bytes = required(line[size], "size");
    // Default streams may have names.
    if (auto const known = number(line[stream])) e.stream = *known;
    if (e.kind != event_kind::refused) {
        e.size = e.bytes;
        e.address = required(line[pointer], "pointer");
        auto const [block, is_new] = live_.try_emplace(e.address, e.bytes);
        if (e.kind == event_kind::allocated) {
            if (!is_new) taken_twice_.count(offset_);
            block->second = e.bytes;
        } else {
            if (is_new) freed_.count(offset_);
            else e.bytes = e.size = block->second;
            live_.erase(block);
            if (is_new) return;
        }
    }
    found_.content.events.push_back(e);
}

CUOTA_INLINE imported_recording rmm_log_importer::run() {
    if (!next_line() || line_ != "Thread,Time,Action,Pointer,Size,Stream")
        fail("is not a log of RMM, which begins with Thread,Time,Action,Pointer,Size,Stream", {});
    found_.content.sites.emplace_back();
    found_.content.sources = {{source_kind::program, "RMM"}, {source_kind::resource, "RMM"}};
    while (next_line()) read(split());
    early_.append_to(
        found_.repairs,
        "{} lines are earlier than their predecessors and got the same times; the first is at byte {}");
    unknown_.append_to(found_.repairs, "{} lines of unknown actions were left out; the first is at byte {}");
    freed_.append_to(found_.repairs,
                     "{} frees of pointers that are not allocated were left out; the first is at byte {}");
    taken_twice_.append_to(
        found_.repairs,
        "{} allocations at pointers that were not freed ended the earlier blocks; the first is at byte {}");
    return std::move(found_);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE imported_recording read_rmm_log(file const& from) {
    std::string text(from.size(), '\0');
    from.read_exact(0, std::as_writable_bytes(std::span{text}));
    return detail::parsed(from, [&] { return read_rmm_log(text, from.name()); });
}

CUOTA_INLINE imported_recording read_rmm_log(std::string_view text, std::string_view name) {
    return detail::rmm_log_importer{text, name}.run();
}

}  // namespace cuota::inline v0

#endif
