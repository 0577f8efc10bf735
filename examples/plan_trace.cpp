// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Plans offsets for the blocks of a trace file, so that one slab serves all of them.
/// Reads the lifetime and size of each block, prints the required size of the slab, and writes the offset of each block.
/// plan_a_trace.cpp does the same for the blocks of the program itself.
///
/// Exit status: 0 on success; 2 for an invalid command line; 1 for an invalid file or a plan that does not fit.
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <cuota/cuota.hpp>
#include <cuota/pool/planning/offset_plan.hpp>

#include "command_line.hpp"
#include "trace_file.hpp"

namespace {

using command_line::number;
using command_line::usage_error;

constexpr char const* usage =
    "usage: plan_trace FILE [options]\n"
    "\n"
    "Plans where recorded blocks go in one slab. FILE has a line for each block, after a first line that "
    "names its\n"
    "columns: id, lower, upper, size. A block lives from lower up to, but not in, upper, and has size "
    "bytes.\n"
    "FILE may also be a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot), or a log of RMM.\n"
    "\n"
    "  --capacity N     bytes of the slab: any plan that fits is good enough; it is an error when none is "
    "found\n"
    "  --output FILE    write the blocks with a column more, offset\n"
    "  --time-limit S   seconds to look for a better plan   (9; 60 with --capacity)\n";

struct command {
    std::string input{};
    std::string output{};
    std::optional<std::size_t> capacity{};
    std::optional<double> seconds{};
    bool help = false;
};

double seconds(std::string_view option, std::string_view text) {
    auto const value = number<double>(option, text);
    if (!(value >= 0 && value <= 1e6))
        throw usage_error{std::string{option} + ": '" + std::string{text} + "' is not 0 to 1000000 seconds"};
    return value;
}

command parse(std::vector<std::string_view> const& arguments) {
    return command_line::one_file<command>(arguments, [](command& c, std::string_view option, auto value) {
        if (option == "--capacity") c.capacity = number<std::size_t>(option, value());
        else if (option == "--output") c.output = value();
        else if (option == "--time-limit") c.seconds = seconds(option, value());
        else return false;
        return true;
    });
}

/// Throws: std::system_error.
void write(std::string const& path, trace::trace_file const& trace, cuota::offset_plan const& plan) {
    std::string text = "id,lower,upper,size,offset\n";
    for (std::size_t row = 0; row != trace.blocks.size(); ++row) {
        cuota::lifetime const& block = trace.blocks[row];
        text += trace.ids[row] + ',' + std::to_string(block.from) + ',' + std::to_string(block.until) + ',' +
                std::to_string(block.size) + ',' + std::to_string(plan.offsets[row]) + '\n';
    }
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    bool const written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if ((file && std::fclose(file) != 0) || !written)
        throw std::system_error{errno, std::generic_category(), path + " cannot be written"};
}

void run(command const& c) {
    trace::trace_file const trace = trace::read(c.input);
    auto const started = std::chrono::steady_clock::now();
    double const limit = c.seconds.value_or(c.capacity ? 60 : 9);
    cuota::plan_options options;
    options.capacity = c.capacity.value_or(cuota::unlimited);
    options.time_limit = std::chrono::nanoseconds{std::llround(limit * 1e9)};
    cuota::offset_plan const plan = cuota::plan_offsets(trace.blocks, options);
    double const took = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (auto const wrong = cuota::check_offsets(trace.blocks, plan))
        throw std::logic_error{"the plan is wrong: " + trace.ids[wrong->first] + " and " +
                               trace.ids[wrong->second] + " lie on the same bytes"};
    std::printf("buffers=%zu lower_bound=%zu peak=%zu ratio=%.6f seconds=%.3f\n", trace.blocks.size(),
                plan.lower_bound, plan.peak, plan.ratio(), took);
    if (c.capacity && !plan.fits(*c.capacity))
        throw std::runtime_error{"no plan within " + std::to_string(*c.capacity) + " B was found: " +
                                 (plan.lower_bound > *c.capacity
                                      ? std::to_string(plan.lower_bound) + " B are alive at once"
                                      : "the best takes " + std::to_string(plan.peak) + " B" +
                                            (plan.proven ? ", and none takes less" : ""))};
    if (!c.output.empty()) write(c.output, trace, plan);
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run("plan_trace", usage, {argv + 1, argv + argc}, parse, run);
}
