// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The command line of train.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <cuota/core/bytes.hpp>

#include "command_line.hpp"

namespace train {

using namespace cuota::literals;

using command_line::usage_error;
using cuota::unlimited;

struct options {
    std::string images{};  // IDX file, plain or .gz; if empty, a synthetic data set is written first
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
    std::string timeline{};  // file for a drawing of memory over time
    bool help = false;

    // Options of the deep network, which is trained if a strategy is named.
    std::string strategy{};
    std::string sweep{};            // file for a drawing of how `auto` performs with less and less memory
    double memory = 100;            // percent of the activation memory of the naive strategy
    std::size_t steps = unlimited;  // maximum number of batches
    std::size_t layers = 24;
    std::size_t width = 64;
    double dropout = 0;
};

inline constexpr std::array strategies{"naive", "micro", "checkpoint", "offload", "half", "auto"};

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
    "  --timeline FILE               draws the memory over time, as a page for a browser\n"
    "\n"
    "With a strategy it trains a network of many layers, for whose activations there is less memory than "
    "they\n"
    "would take. The budget of the device follows from --memory, the rate is 0.001 if not given:\n"
    "\n"
    "  --strategy NAME               naive: everything is kept; micro: the batch in parts that fit;\n"
    "                                checkpoint: what was dropped is run again; offload: it waits in the "
    "host;\n"
    "                                half: kept in 16 bits; auto: the fastest that fits and changes no "
    "result\n"
    "  --memory PERCENT              of what naive takes for activations          (100)\n"
    "  --sweep FILE.svg              auto at 100, 50, 25 and 12.5 %, drawn\n"
    "  --layers N                    hidden layers, at least 12                   (24)\n"
    "  --width N                     units of each                                (64)\n"
    "  --dropout X                   share of units that a step leaves out        (0)\n"
    "  --steps N                     batches, if fewer than the epochs have\n"
    "SIZE is bytes, or a number with KiB, MiB or GiB.\n";

/// Throws usage_error if the options of the deep network are invalid.
inline void check_deep(options const& o) {
    if (std::ranges::find(strategies, o.strategy) == strategies.end())
        throw usage_error{"--strategy: '" + o.strategy +
                          "' is none of naive, micro, checkpoint, offload, half and auto"};
    if (!o.sweep.empty() && o.strategy != "auto") throw usage_error{"--sweep is of --strategy auto"};
    if (!(o.memory > 0 && o.memory <= 1000)) throw usage_error{"--memory must be above 0 and at most 1000 %"};
    if (o.layers < 12) throw usage_error{"--layers must be at least 12"};
    if (!(o.dropout >= 0 && o.dropout < 1)) throw usage_error{"--dropout must be from 0 to less than 1"};
}

/// Throws: usage_error.
inline options parse(std::vector<std::string_view> const& arguments) {
    options o;
    double rate = 0;
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
        } else if (option == "--device-budget") o.device_budget = command_line::size(option, value());
        else if (option == "--pinned-budget") o.pinned_budget = command_line::size(option, value());
        else if (option == "--batch") o.batch = command_line::positive(option, value());
        else if (option == "--epochs") o.epochs = command_line::positive(option, value());
        else if (option == "--hidden") o.hidden = command_line::positive(option, value());
        else if (option == "--workers") o.workers = command_line::positive(option, value());
        else if (option == "--seed") o.seed = command_line::number<std::uint64_t>(option, value());
        else if (option == "--rate") o.rate = rate = command_line::number<double>(option, value());
        else if (option == "--strategy") o.strategy = value();
        else if (option == "--sweep") o.sweep = value();
        else if (option == "--timeline") o.timeline = value();
        else if (option == "--memory") o.memory = command_line::number<double>(option, value());
        else if (option == "--layers") o.layers = command_line::positive(option, value());
        else if (option == "--width") o.width = command_line::positive(option, value());
        else if (option == "--dropout") o.dropout = command_line::number<double>(option, value());
        else if (option == "--steps") o.steps = command_line::positive(option, value());
        else if (option == "--help" || option == "-h") o.help = true;
        else throw usage_error{"unknown option '" + std::string{option} + "'"};
    }
    if (o.images.empty() != o.labels.empty()) throw usage_error{"--images and --labels go together"};
    if (o.workers > 64) throw usage_error{"--workers: more than 64 threads would only wait for each other"};
    if (!(o.rate > 0)) throw usage_error{"--rate must be above 0"};
    if (!o.sweep.empty() && o.strategy.empty()) o.strategy = "auto";
    if (!o.strategy.empty() && !o.timeline.empty())
        throw usage_error{"--timeline goes without --strategy: its step lives in one planned slab"};
    if (!o.strategy.empty()) {
        check_deep(o);
        if (rate == 0) o.rate = 0.001;
    }
    return o;
}

}  // namespace train
