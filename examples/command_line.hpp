// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Command-line parsing that the examples share.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>

namespace command_line {

/// Thrown for an invalid command line; the message names the reason.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Parses all of `text` as a number. Throws: usage_error that names the option.
template <class Number>
[[nodiscard]] Number number(std::string_view option, std::string_view text) {
    Number value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        throw usage_error{std::string{option} + ": '" + std::string{text} + "' is not a number it can take"};
    return value;
}

/// Parses a number that is at least 1. Throws: usage_error.
[[nodiscard]] inline std::size_t positive(std::string_view option, std::string_view text) {
    auto const value = number<std::size_t>(option, text);
    if (value == 0) throw usage_error{std::string{option} + " must be at least 1"};
    return value;
}

/// Parses a size in bytes, such as 6GiB or 1.5MiB. Throws: usage_error, also for 0.
[[nodiscard]] inline std::size_t size(std::string_view option, std::string_view text) {
    auto const bytes = cuota::parse_bytes(text);
    if (!bytes || *bytes == 0)
        throw usage_error{std::string{option} + ": '" + std::string{text} +
                          "' is not a size; write 6GiB, 1.5MiB or 65536, and not 0"};
    return *bytes;
}

/// Parses the options of a program that reads one file: `input` and `help` of the command are set here. apply(option, value) handles another
/// option, whose argument value() returns, and returns false for one that it does not know. Throws: usage_error.
template <class Command, class Apply>
[[nodiscard]] Command one_file(std::vector<std::string_view> const& arguments, Apply apply) {
    Command c;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        std::string_view const option = arguments[at];
        auto const value = [&] {
            if (at + 1 >= arguments.size()) throw usage_error{std::string{option} + " needs a value"};
            return arguments[++at];
        };
        if (option == "--help" || option == "-h") {
            c.help = true;
        } else if (option.starts_with("-")) {
            if (!apply(c, option, value)) throw usage_error{"unknown option '" + std::string{option} + "'"};
        } else if (!c.input.empty()) {
            throw usage_error{"one file at a time, not also '" + std::string{option} + "'"};
        } else {
            c.input = option;
        }
    }
    if (c.input.empty() && !c.help) throw usage_error{"a file is needed"};
    return c;
}

/// Body of main: parses the arguments and calls run(command), or prints the usage on request. Prints errors to standard error. Returns the
/// exit status: 0 on success, 2 for a usage_error, 1 for any other exception.
template <class Parse, class Run>
[[nodiscard]] int run(char const* program, char const* usage, std::vector<std::string_view> const& arguments,
                      Parse parse, Run run) {
    try {
        auto const command = parse(arguments);
        if (command.help) std::fputs(usage, stdout);
        else run(command);
        return 0;
    } catch (usage_error const& error) {
        std::fprintf(stderr, "%s: %s\n%s", program, error.what(), usage);
        return 2;
    } catch (std::exception const& error) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s: %s\n", program, error.what());
        return 1;
    }
}

}  // namespace command_line
