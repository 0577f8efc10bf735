// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads files of block lifetimes: with one block per line, `id,lower,upper,size`; or memory snapshots of PyTorch and logs of RMM.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/io/file.hpp>
#include <cuota/pool/planning/lifetimes.hpp>
#include <cuota/report/import/pytorch_snapshot.hpp>
#include <cuota/report/import/rmm_log.hpp>

#include "recorded_blocks.hpp"

namespace trace {

/// The blocks of a file; ids[i] belongs to blocks[i].
struct trace_file {
    std::vector<std::string> ids;
    std::vector<cuota::lifetime> blocks;
};

namespace detail {

[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

/// Iterates over the lines of a text, without their line ends (\n or \r\n), and counts them for error messages.
class line_reader {
public:
    line_reader(std::string file, std::string_view text) : file_{std::move(file)}, text_{text} {}

    /// Advances to the next line that is not blank. Returns false at the end of the text.
    [[nodiscard]] bool next() {
        while (next_ < text_.size()) {
            begin_ = next_;
            std::size_t const end = std::min(text_.find('\n', begin_), text_.size());
            next_ = end + 1;
            ++number_;
            line_ = text_.substr(begin_, end - begin_);
            if (line_.ends_with('\r')) line_.remove_suffix(1);
            if (!trimmed(line_).empty()) return true;
        }
        return false;
    }
    [[nodiscard]] std::vector<std::string_view> fields() const {
        std::vector<std::string_view> all;
        for (std::size_t at = 0;; ++at) {
            std::size_t const comma = std::min(line_.find(',', at), line_.size());
            all.push_back(trimmed(line_.substr(at, comma - at)));
            if (comma == line_.size()) return all;
            at = comma;
        }
    }
    [[nodiscard]] std::size_t number() const noexcept { return number_; }
    [[nodiscard]] cuota::data_error error(std::string const& why) const {
        return {file_, begin_, "line " + std::to_string(number_) + ": " + why};
    }

private:
    std::string file_;
    std::string_view text_;
    std::string_view line_;
    std::size_t begin_ = 0, next_ = 0;
    std::size_t number_ = 0;
};

/// Maps the column names of the first line to field indices.
class columns {
public:
    explicit columns(line_reader const& header) {
        std::vector<std::string_view> const names = header.fields();
        count_ = names.size();
        for (std::size_t i = 0; i != wanted.size(); ++i) {
            auto const found = std::find(names.begin(), names.end(), wanted[i]);
            if (found == names.end())
                throw header.error("no column '" + std::string{wanted[i]} +
                                   "': id, lower, upper, size are needed");
            if (std::find(found + 1, names.end(), wanted[i]) != names.end())
                throw header.error("two columns '" + std::string{wanted[i]} + "'");
            place_[i] = static_cast<std::size_t>(found - names.begin());
        }
    }

    [[nodiscard]] std::array<std::string_view, 4> of(line_reader const& line) const {
        std::vector<std::string_view> const fields = line.fields();
        if (fields.size() != count_)
            throw line.error(std::to_string(fields.size()) + " fields; the first line has " +
                             std::to_string(count_));
        std::array<std::string_view, 4> found;
        for (std::size_t i = 0; i != found.size(); ++i) found[i] = fields[place_[i]];
        return found;
    }

private:
    static constexpr std::array<std::string_view, 4> wanted{"id", "lower", "upper", "size"};
    std::array<std::size_t, 4> place_{};
    std::size_t count_ = 0;
};

template <class Number>
[[nodiscard]] Number number(line_reader const& line, char const* name, std::string_view text) {
    Number value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool const whole = end == text.data() + text.size();
    if (error == std::errc{} && whole) return value;
    std::string const shown = std::string{name} + " '" + std::string{text.substr(0, 40)} + "' ";
    if (error == std::errc::result_out_of_range && whole)
        throw line.error(shown + "is more than 64 bits hold");
    if (text.starts_with('-')) throw line.error(shown + "is negative or no number");
    throw line.error(shown + "is not a number");
}

[[nodiscard]] inline cuota::lifetime lifetime_of(line_reader const& line,
                                                 std::array<std::string_view, 4> const& fields) {
    auto const from = number<std::uint64_t>(line, "lower", fields[1]);
    auto const until = number<std::uint64_t>(line, "upper", fields[2]);
    auto const size = number<std::size_t>(line, "size", fields[3]);
    if (from >= until)
        throw line.error("the lifetime [" + std::to_string(from) + ", " + std::to_string(until) + ") is " +
                         (from == until ? "empty" : "reversed"));
    return {from, until, size};
}

[[nodiscard]] inline std::string content(std::string const& path) {
    cuota::file const file{path};
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read_exact(0, std::as_writable_bytes(std::span{text}));
    return text;
}

}  // namespace detail

/// Returns the blocks of a recording; prints its repairs to standard error. Throws: cuota::data_error.
[[nodiscard]] inline trace_file blocks_of(std::string const& path, cuota::imported_recording const& from) {
    for (std::string const& repair : from.repairs)
        std::fprintf(stderr, "%s: %s\n", path.c_str(), repair.c_str());
    trace_file trace;
    for (recorded_block const& block : recorded_blocks(from.content)) {
        trace.ids.push_back(std::to_string(trace.ids.size()));
        trace.blocks.push_back(block.life);
    }
    if (trace.blocks.empty()) throw cuota::data_error{path, 0, "there is no block"};
    std::size_t total = 0;
    for (cuota::lifetime const& block : trace.blocks) {
        auto const sum = cuota::checked_add(total, block.size);
        if (!sum) throw cuota::data_error{path, 0, "the sizes add up to more than 64 bits hold"};
        total = *sum;
    }
    return trace;
}

/// Reads a file of one of three formats. In a table, the first line names the columns in any order, and unknown columns are ignored. The
/// others are snapshots of PyTorch and logs of RMM; their repairs are printed to standard error.
/// Throws: cuota::data_error with the line or the offset, and the reason.
[[nodiscard]] inline trace_file read(std::string const& path) {
    std::string const text = detail::content(path);
    if (text.starts_with('\x80'))
        return blocks_of(path, cuota::read_pytorch_snapshot(std::as_bytes(std::span{text}), path));
    if (text.starts_with("Thread,Time,Action")) return blocks_of(path, cuota::read_rmm_log(text, path));
    detail::line_reader line{path, text};
    if (!line.next())
        throw line.error("the file is empty: a first line with id, lower, upper, size is needed");
    detail::columns const columns{line};
    trace_file trace;
    std::unordered_map<std::string, std::size_t> seen;  // line number by id
    std::size_t total = 0;
    while (line.next()) {
        auto const fields = columns.of(line);
        auto const [first, is_new] = seen.emplace(fields[0], line.number());
        if (fields[0].empty()) throw line.error("the id is empty");
        if (!is_new)
            throw line.error("id '" + first->first + "' is that of line " + std::to_string(first->second) +
                             ", too");
        trace.ids.emplace_back(fields[0]);
        trace.blocks.push_back(detail::lifetime_of(line, fields));
        auto const sum = cuota::checked_add(total, trace.blocks.back().size);
        if (!sum) throw line.error("the sizes add up to more than 64 bits hold");
        total = *sum;
    }
    if (trace.blocks.empty()) throw line.error("no block: only the names of columns are there");
    return trace;
}

}  // namespace trace
