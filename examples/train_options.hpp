// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The command line of train.cpp.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <cuota/core/bytes.hpp>

namespace train {

using namespace cuota::literals;

/// The command line makes no sense; the message names the option.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct options {
    std::string images{};  // IDX, plain or .gz; empty: a synthetic set is written first
    std::string labels{};
    bool is_npy = false;
    std::size_t device_budget = 2_MiB;
    std::size_t pinned_budget = 1_MiB;
    std::size_t batch = 64;
    std::size_t epochs = 5;
    std::size_t hidden = 128;
    std::size_t workers = 1;
    std::uint64_t seed = 1;
    double rate = 0.1;
    bool help = false;
};

inline constexpr char const* usage =
    "usage: train [--images FILE --labels FILE | --npy X Y] [options]\n"
    "\n"
    "Trains an image classifier (one hidden layer) from files on disk, one batch at a time, inside two "
    "budgets.\n"
    "The last fifth of the samples is held out. Without files it writes a synthetic set to disk first.\n"
    "\n"
    "  --images FILE --labels FILE   IDX files, plain or .gz\n"
    "  --npy X Y                     .npy files: X u8 or f32 with samples first, Y integers\n"
    "  --device-budget SIZE          what the program may hold on the device      (2MiB)\n"
    "  --pinned-budget SIZE          what it may hold in page-locked host memory  (1MiB)\n"
    "  --batch N                     samples in a batch                           (64)\n"
    "  --epochs N                    passes over the data                         (5)\n"
    "  --hidden N                    units of the hidden layer                    (128)\n"
    "  --workers N                   threads that read                            (1)\n"
    "  --seed N                      of the shuffle and the first weights         (1)\n"
    "  --rate X                      learning rate                                (0.1)\n"
    "SIZE is bytes, or a number with KiB, MiB or GiB.\n";

namespace detail {

template <class Number>
Number number(std::string_view option, std::string_view text) {
    Number value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        throw usage_error{std::string{option} + ": '" + std::string{text} + "' is not a number it can take"};
    return value;
}

inline std::size_t positive(std::string_view option, std::string_view text) {
    auto const value = number<std::size_t>(option, text);
    if (value == 0) throw usage_error{std::string{option} + " must be at least 1"};
    return value;
}

inline std::size_t size(std::string_view option, std::string_view text) {
    std::size_t unit = 1;
    std::string_view digits = text;
    for (auto const& [suffix, bytes] : {std::pair{"KiB", 1_KiB}, {"MiB", 1_MiB}, {"GiB", 1_GiB}})
        if (digits.ends_with(suffix)) {
            digits.remove_suffix(3);
            unit = bytes;
            break;
        }
    auto const bytes = cuota::checked_mul(positive(option, digits), unit);
    if (!bytes)
        throw usage_error{std::string{option} + ": '" + std::string{text} +
                          "' is more than can be addressed"};
    return *bytes;
}

}  // namespace detail

/// Throws: usage_error.
inline options parse(std::vector<std::string_view> const& arguments) {
    options o;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        std::string_view const option = arguments[at];
        auto const value = [&]() -> std::string_view {
            if (at + 1 >= arguments.size()) throw usage_error{std::string{option} + " needs a value"};
            return arguments[++at];
        };
        if (option == "--images") o.images = value();
        else if (option == "--labels") o.labels = value();
        else if (option == "--npy") {
            o.is_npy = true;
            o.images = value();
            o.labels = value();
        } else if (option == "--device-budget") o.device_budget = detail::size(option, value());
        else if (option == "--pinned-budget") o.pinned_budget = detail::size(option, value());
        else if (option == "--batch") o.batch = detail::positive(option, value());
        else if (option == "--epochs") o.epochs = detail::positive(option, value());
        else if (option == "--hidden") o.hidden = detail::positive(option, value());
        else if (option == "--workers") o.workers = detail::positive(option, value());
        else if (option == "--seed") o.seed = detail::number<std::uint64_t>(option, value());
        else if (option == "--rate") o.rate = detail::number<double>(option, value());
        else if (option == "--help" || option == "-h") o.help = true;
        else throw usage_error{"unknown option '" + std::string{option} + "'"};
    }
    if (o.images.empty() != o.labels.empty()) throw usage_error{"--images and --labels go together"};
    if (o.workers > 64) throw usage_error{"--workers: more than 64 threads would only wait for each other"};
    if (!(o.rate > 0)) throw usage_error{"--rate must be above 0"};
    return o;
}

}  // namespace train
