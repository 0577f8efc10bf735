// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Planned steps as text, validated when read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <cuota/core/config.hpp>
#include <cuota/pool/planning/planned_step.hpp>

namespace cuota::inline v0 {

/// Returns the text of a planned step: a line with version and totals, column names, and a line per request in order. A request outside of
/// the slab has no offset.
///
///     # cuota step plan 1: requests=2 peak=768 lower_bound=768 hash=1e3a…
///     id,lower,upper,size,offset
///     0,0,3,500,0
///     1,1,2,256,512
/// Throws: std::bad_alloc. Cost: linear in the requests. Example: tests/pool/planning/plan_file.cpp
[[nodiscard]] std::string plan_text(planned_step const& step);

/// Parses and validates a text. Throws: data_error with `name`, line and reason.
[[nodiscard]] planned_step parse_plan(std::string_view text, std::string const& name);

/// Writes the text to a file. On failure, an existing file is unchanged. Throws: data_error with the system's reason.
void save_plan(planned_step const& step, std::string const& path);

/// Reads a file of save_plan. Throws: data_error with the reason.
[[nodiscard]] planned_step load_plan(std::string const& path);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

inline constexpr std::string_view plan_title = "# cuota step plan ";
inline constexpr std::string_view plan_columns = "id,lower,upper,size,offset";

class plan_parser {
public:
    plan_parser(std::string_view text, std::string const& name) : text_{text}, name_{name} {}

    [[nodiscard]] planned_step parse();

private:
    [[noreturn]] void fail(std::string const& why) const;
    [[nodiscard]] bool is_at_end() const noexcept { return next_ >= text_.size(); }
    std::string_view next_line();

    template <class Number>
    [[nodiscard]] Number number(char const* what, std::string_view text, int base = 10) const {
        Number value{};
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
        if (error != std::errc{} || end != text.data() + text.size())
            fail(std::string{what} + " '" + std::string{text.substr(0, 40)} + "' is not a valid number");
        return value;
    }
    [[nodiscard]] std::string_view cut_before(char separator, char const* what);
    template <class Number>
    [[nodiscard]] Number fact(std::string_view what, char separator, int base = 10) {
        std::string const name{what};
        if (!rest_.starts_with(name + '=')) fail(name + " is missing");
        rest_.remove_prefix(what.size() + 1);
        std::string_view const field =
            separator == '\n' ? std::exchange(rest_, {}) : cut_before(separator, name.c_str());
        return number<Number>(name.c_str(), field, base);
    }

    [[nodiscard]] std::uint64_t read_title(planned_step& step);
    void read_request(planned_step& step);
    void check(planned_step const& step) const;

    void check_peak(planned_step const& step) const;

    std::string_view text_;
    std::string const& name_;
    std::string_view rest_;  // of the line
    std::size_t begin_ = 0, next_ = 0, line_ = 0;
    std::size_t expected_ = 0, total_ = 0;
};

struct file_closer {
    void operator()(std::FILE* f) const noexcept { (void)std::fclose(f); }
};
using plan_stream = std::unique_ptr<std::FILE, file_closer>;

[[noreturn]] void fail_on(std::string const& path, std::uint64_t offset, char const* what);

CUOTA_INLINE planned_step plan_parser::parse() {
    planned_step step;
    std::uint64_t const hash = read_title(step);
    std::size_t const count = expected_;
    if (next_line() != plan_columns) fail("the columns are not " + std::string{plan_columns});
    while (!is_at_end()) read_request(step);
    if (step.requests.size() != count)
        fail(std::to_string(step.requests.size()) + " requests; the first line states " +
             std::to_string(count));
    if (step.hash() != hash) fail("the hash does not match the requests: the file was changed");
    check(step);
    return step;
}

CUOTA_INLINE void plan_parser::fail(std::string const& why) const {
    throw_data_error(name_, begin_, "line {}: {}", {line_, why});
}

CUOTA_INLINE std::string_view plan_parser::next_line() {
    if (is_at_end()) fail("unexpected end of file");
    begin_ = next_;
    ++line_;
    std::size_t const end = std::min(text_.find('\n', begin_), text_.size());
    next_ = end + 1;
    rest_ = text_.substr(begin_, end - begin_);
    if (rest_.ends_with('\r')) rest_.remove_suffix(1);
    return rest_;
}

CUOTA_INLINE std::string_view plan_parser::cut_before(char separator, char const* what) {
    std::size_t const at = rest_.find(separator);
    if (at == std::string_view::npos) fail("ends after " + std::string{what});
    std::string_view const field = rest_.substr(0, at);
    rest_.remove_prefix(at + 1);
    return field;
}

CUOTA_INLINE std::uint64_t plan_parser::read_title(planned_step& step) {
    if (!next_line().starts_with(plan_title))
        fail("not a step plan: it must begin with '# cuota step plan '");
    rest_.remove_prefix(plan_title.size());
    if (std::string_view const version = cut_before(':', "the version"); version != "1")
        fail("version '" + std::string{version.substr(0, 40)} + "' is not supported; supported: 1");
    if (rest_.starts_with(' ')) rest_.remove_prefix(1);
    expected_ = fact<std::size_t>("requests", ' ');
    step.peak = fact<std::size_t>("peak", ' ');
    step.lower_bound = fact<std::size_t>("lower_bound", ' ');
    return fact<std::uint64_t>("hash", '\n', 16);
}

CUOTA_INLINE void plan_parser::read_request(planned_step& step) {
    (void)next_line();
    auto const id = number<std::size_t>("id", cut_before(',', "the id"));
    if (id != step.requests.size())
        fail("id is " + std::to_string(id) + ", expected " + std::to_string(step.requests.size()));
    planned_request r{};
    r.live.from = number<std::uint64_t>("lower", cut_before(',', "lower"));
    r.live.until = number<std::uint64_t>("upper", cut_before(',', "upper"));
    r.live.size = number<std::size_t>("size", cut_before(',', "size"));
    r.is_planned = !rest_.empty();
    if (r.is_planned) r.offset = number<std::size_t>("offset", rest_);
    if (r.live.from >= r.live.until) fail("the lifetime " + lifetime_text(r.live) + " is empty or reversed");
    if (r.live.size == 0) fail("size is 0");
    if (id != 0 && r.live.from <= step.requests.back().live.from)
        fail("lower must be above that of the previous request");
    auto const rounded = checked_round_up(r.live.size, block::granularity);
    auto const sum = rounded ? checked_add(total_, *rounded) : std::nullopt;
    if (!sum) fail("the total size exceeds the range of std::size_t");
    total_ = *sum;
    step.requests.push_back(r);
}

CUOTA_INLINE void plan_parser::check(planned_step const& step) const {
    auto const blocks = planned_lifetimes(step);
    offset_plan plan{{}, step.peak, step.lower_bound, block::granularity, false};
    std::size_t bound = 0;
    for (lifetime_part const& part : independent_parts(blocks, checked_sizes(blocks, block::granularity, {})))
        bound = std::max(bound, part.most_alive);
    if (bound != step.lower_bound)
        fail("lower_bound is " + std::to_string(step.lower_bound) + ", expected " + std::to_string(bound));
    std::vector<lifetime> rounded = blocks;
    for (lifetime& l : rounded) l.size = round_up(l.size, block::granularity);
    for (planned_request const& r : step.requests) plan.offsets.push_back(r.offset);
    auto const wrong = check_offsets(rounded, plan);
    if (!wrong) return check_peak(step);
    std::string const first = "request " + std::to_string(wrong->first);
    if (wrong->first == wrong->second)
        fail(first + ": the offset is not a multiple of " + std::to_string(block::granularity) +
             ", or the end exceeds the peak");
    fail(first + " and request " + std::to_string(wrong->second) + " overlap");
}

CUOTA_INLINE void plan_parser::check_peak(planned_step const& step) const {
    std::size_t end = 0;
    for (planned_request const& r : step.requests)
        if (r.is_planned) end = std::max(end, r.offset + round_up(r.live.size, block::granularity));
    if (end != step.peak) fail("peak is " + std::to_string(step.peak) + ", expected " + std::to_string(end));
}

CUOTA_INLINE void fail_on(std::string const& path, std::uint64_t offset, char const* what) {
    throw_data_error(path, offset, "{}{}", {what, std::system_category().message(errno)});
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string plan_text(planned_step const& step) {
    std::array<char, 17> hash{};
    std::snprintf(hash.data(), hash.size(), "%016llx", static_cast<unsigned long long>(step.hash()));
    std::string text =
        std::string{detail::plan_title} + "1: requests=" + std::to_string(step.requests.size()) +
        " peak=" + std::to_string(step.peak) + " lower_bound=" + std::to_string(step.lower_bound) +
        " hash=" + hash.data() + '\n' + std::string{detail::plan_columns} + '\n';
    for (std::size_t i = 0; i != step.requests.size(); ++i) {
        planned_request const& r = step.requests[i];
        text += std::to_string(i) + ',' + std::to_string(r.live.from) + ',' + std::to_string(r.live.until) +
                ',' + std::to_string(r.live.size) + ',' + (r.is_planned ? std::to_string(r.offset) : "") +
                '\n';
    }
    return text;
}

CUOTA_INLINE planned_step parse_plan(std::string_view text, std::string const& name) {
    return detail::plan_parser{text, name}.parse();
}

CUOTA_INLINE void save_plan(planned_step const& step, std::string const& path) {
    std::string const text = plan_text(step);
    std::string const fresh = path + ".new";
    {
        detail::plan_stream file{std::fopen(fresh.c_str(), "wb")};
        if (!file) detail::fail_on(path, 0, "cannot write: ");
        bool const written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
        if (std::fclose(file.release()) == 0 && written && std::rename(fresh.c_str(), path.c_str()) == 0)
            return;
    }
    int const error = errno;
    (void)std::remove(fresh.c_str());
    errno = error;
    detail::fail_on(path, 0, "cannot write: ");
}

CUOTA_INLINE planned_step load_plan(std::string const& path) {
    detail::plan_stream const file{std::fopen(path.c_str(), "rb")};
    if (!file) detail::fail_on(path, 0, "cannot open: ");
    std::string text;
    std::array<char, 1 << 14> part{};
    while (std::size_t const got = std::fread(part.data(), 1, part.size(), file.get()))
        text.append(part.data(), got);
    if (std::ferror(file.get()) != 0) detail::fail_on(path, text.size(), "cannot read: ");
    return parse_plan(text, path);
}

}  // namespace cuota::inline v0

#endif
