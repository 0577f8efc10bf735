// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Replays the blocks of a trace file through a pool, a plan or a model of another allocator, and prints how much memory it reserves.
/// A pool does not know future requests; a plan does.
///
/// Exit status: 0 on success; 2 for an invalid command line; 1 for an invalid file or a plan that cannot be made.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <cuota/cuota.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/report.hpp>
#if __has_include(<nlohmann/json.hpp>)
#include <cuota/report/import/chrome_trace.hpp>
#endif

#include "command_line.hpp"
#include "models/pytorch_allocator.hpp"
#include "models/replay.hpp"
#include "models/rmm_arena.hpp"
#include "models/rmm_pool.hpp"
#include "trace_file.hpp"

namespace {

using command_line::usage_error;

constexpr char const* usage =
    "usage: replay_trace FILE [options]\n"
    "\n"
    "Replays recorded blocks through a pool, and prints what it reserved beside what was live. FILE has a "
    "line for\n"
    "each block, after a first line that names its columns: id, lower, upper, size. A block lives from lower "
    "up to,\n"
    "but not in, upper, and has size bytes. Blocks that begin together do so in the order of their lines.\n"
    "FILE may also be a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot), a log of RMM, or, if "
    "this program\n"
    "was built with nlohmann's JSON library, a Chrome trace of PyTorch's profiler with profile_memory=True "
    "or "
    "of cuota.\n"
    "The pool has addresses without memory behind them, so the file may need more than the machine has; no "
    "kernel\n"
    "runs, and the streams are idle but for the waits of the pool.\n"
    "\n"
    "  --policy P    pool: blocks are cut from pages of 2 MiB as they come; plan: the first pass is "
    "recorded, "
    "and the\n"
    "                passes after it, which are what is measured, have one planned slab; or a model of "
    "another allocator:\n"
    "                pytorch, pytorch-expandable, rmm-pool, rmm-arena; rmm-arena needs a cap  (pool)\n"
    "  --streams N   streams that the blocks are taken on in turn                        (1)\n"
    "  --steps N     passes over the file that are measured                              (1)\n"
    "  --cap SIZE    what the pool may reserve: bytes, or a number with KiB, MiB or GiB  (no limit)\n"
    "  --remap-above R         pool_options::remap_above, or inf                         (1.02)\n"
    "  --largest-mapping SIZE  pool_options::largest_mapping                             (64MiB)\n"
    "\n"
    "One line is printed: the most bytes live at once, the most reserved, their ratio, waits put into "
    "streams to\n"
    "hand bytes from one to another, requests that were refused, mappings of pages that were made and "
    "removed, and\n"
    "seconds.\n";

struct command {
    std::string input{};
    std::string_view policy = "pool";
    std::size_t streams = 1;
    std::size_t steps = 1;
    std::size_t cap = cuota::unlimited;
    cuota::pool_options pool{};
    bool help = false;
};

std::string_view known_policy(std::string_view policy) {
    for (std::string_view const known :
         {"pool", "plan", "pytorch", "pytorch-expandable", "rmm-pool", "rmm-arena"})
        if (policy == known) return policy;
    throw usage_error{"--policy: '" + std::string{policy} +
                      "' is not pool, plan, pytorch, pytorch-expandable, rmm-pool or rmm-arena"};
}

double ratio(std::string_view option, std::string_view text) {
    if (text == "inf") return std::numeric_limits<double>::infinity();
    double value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 1))
        throw usage_error{std::string{option} + ": '" + std::string{text} + "' is not a number from 1 on"};
    return value;
}

command parse(std::vector<std::string_view> const& arguments) {
    auto const c =
        command_line::one_file<command>(arguments, [](command& into, std::string_view option, auto value) {
            if (option == "--policy") into.policy = known_policy(value());
            else if (option == "--streams") into.streams = command_line::positive(option, value());
            else if (option == "--steps") into.steps = command_line::positive(option, value());
            else if (option == "--cap") into.cap = command_line::size(option, value());
            else if (option == "--remap-above") into.pool.remap_above = ratio(option, value());
            else if (option == "--largest-mapping")
                into.pool.largest_mapping = command_line::size(option, value());
            else return false;
            return true;
        });
    if (c.streams > 64) throw usage_error{"--streams must be at most 64"};
    bool const is_model = c.policy != "pool" && c.policy != "plan";
    if (is_model && c.streams != 1)
        throw usage_error{"--streams: models of other allocators have one stream"};
    if (c.policy == "rmm-arena" && c.cap == cuota::unlimited)
        throw usage_error{"--policy rmm-arena: the arena never grows; --cap is needed"};
    return c;
}

std::vector<models::step> steps_of(std::vector<cuota::lifetime> const& blocks) {
    return models::steps_of(blocks, [](cuota::lifetime const& b) { return b; });
}

/// Allocates and frees the blocks of the file, repeatedly.
class replay {
public:
    replay(std::vector<cuota::lifetime> const& blocks, std::size_t streams)
        : blocks_{blocks}, steps_{steps_of(blocks)}, streams_(streams), at_(blocks.size()) {}

    void run(cuota::any_resource memory) {
        for (models::step const& now : steps_) {
            cuota::stream const& s = streams_[now.block % streams_.size()];
            if (now.begins) take(memory, s, now.block);
            else give(memory, s, now.block);
        }
    }
    [[nodiscard]] std::size_t live_peak() const { return live_peak_; }
    [[nodiscard]] std::size_t refusals() const { return refusals_; }

private:
    void take(cuota::any_resource& memory, cuota::stream const& s, std::size_t row) {
        try {
            at_[row] = memory.allocate(s, blocks_[row].size);
        } catch (cuota::out_of_memory const&) {
            ++refusals_;
            return;
        }
        live_ += blocks_[row].size;
        live_peak_ = std::max(live_peak_, live_);
    }
    void give(cuota::any_resource& memory, cuota::stream const& s, std::size_t row) {
        if (!at_[row]) return;
        memory.deallocate(s, std::exchange(at_[row], nullptr), blocks_[row].size);
        live_ -= blocks_[row].size;
    }

    std::vector<cuota::lifetime> const& blocks_;
    std::vector<models::step> steps_;
    std::vector<cuota::stream> streams_;
    std::vector<void*> at_;  // null: not live, or refused
    std::size_t live_ = 0, live_peak_ = 0, refusals_ = 0;
};

struct result {
    std::size_t live_peak, reserved_peak, waits, refusals;
    double seconds;
    std::size_t mapped = 0, unmapped = 0;
};

/// Runs `pass` `steps` times and returns the measured result.
template <class Pass>
result measure(command const& c, std::vector<cuota::lifetime> const& blocks, cuota::budget& account,
               Pass pass) {
    replay program{blocks, c.streams};
    account.reset_peak();
    auto const started = std::chrono::steady_clock::now();
    for (std::size_t step = 0; step != c.steps; ++step) pass(program);
    double const took = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return {program.live_peak(), account.peak(), 0, program.refusals(), took};
}

result replay_online(command const& c, std::vector<cuota::lifetime> const& blocks) {
    cuota::budget account{"replay", c.cap};
    cuota::scoped_pool pool{account, cuota::dry_run_memory{}, c.pool};
    result r = measure(c, blocks, account, [&](replay& program) { program.run(pool); });
    cuota::pool_stats const stats = pool.stats();
    r.waits = stats.stream_waits;
    r.mapped = stats.mappings_made;
    r.unmapped = stats.mappings_removed;
    return r;
}

result replay_planned(command const& c, std::vector<cuota::lifetime> const& blocks) {
    cuota::budget account{"replay", c.cap};
    cuota::scoped_pool pool{account, cuota::dry_run_memory{}, c.pool};
    cuota::step_plan plan{pool};
    {
        replay first{blocks, c.streams};
        auto const step = plan.begin();
        first.run(plan);
    }
    pool.trim();
    cuota::pool_stats const before = pool.stats();
    plan.prepare();
    result r = measure(c, blocks, account, [&](replay& program) {
        auto const step = plan.begin();
        program.run(plan);
    });
    cuota::pool_stats const after = pool.stats();
    r.waits = after.stream_waits + plan.stats().stream_waits - before.stream_waits;
    r.mapped = after.mappings_made - before.mappings_made;
    r.unmapped = after.mappings_removed - before.mappings_removed;
    return r;
}

template <class Model>
result replay_model(command const& c, std::vector<cuota::lifetime> const& blocks, Model model) {
    std::vector<models::step> const steps = steps_of(blocks);
    std::vector<std::optional<std::uint64_t>> at(blocks.size());
    std::size_t live = 0;
    result r{};
    auto const started = std::chrono::steady_clock::now();
    for (std::size_t pass = 0; pass != c.steps; ++pass)
        for (models::step const& now : steps) {
            std::size_t const bytes = blocks[now.block].size;
            if (now.begins) {
                at[now.block] = model.allocate(bytes);
                r.refusals += !at[now.block];
                live += at[now.block] ? bytes : 0;
                r.live_peak = std::max(r.live_peak, live);
            } else if (at[now.block]) {
                model.deallocate(*at[now.block], bytes);
                live -= bytes;
            }
        }
    r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    r.reserved_peak = model.peak_reserved();
    return r;
}

result replay_by_policy(command const& c, std::vector<cuota::lifetime> const& blocks) {
    if (c.policy == "pool") return replay_online(c, blocks);
    if (c.policy == "plan") return replay_planned(c, blocks);
    if (c.policy == "pytorch") return replay_model(c, blocks, models::pytorch_allocator{c.cap});
    if (c.policy == "pytorch-expandable")
        return replay_model(c, blocks, models::pytorch_allocator{c.cap, true});
    if (c.policy == "rmm-pool") return replay_model(c, blocks, models::rmm_pool{c.cap});
    return replay_model(c, blocks, models::rmm_arena{c.cap});
}

/// Also reads Chrome traces, where this program was built with JSON.
trace::trace_file read(std::string const& path) {
#if __has_include(<nlohmann/json.hpp>)
    cuota::file const file{path};
    std::array<std::byte, 1> first{};
    if (file.size() != 0) file.read_exact(0, first);
    if (first[0] == std::byte{'{'} || first[0] == std::byte{'['})
        return trace::blocks_of(path, cuota::read_chrome_trace(file));
#endif
    return trace::read(path);
}

void run(command const& c) {
    trace::trace_file const trace = read(c.input);
    result const r = replay_by_policy(c, trace.blocks);
    std::printf("live_peak=%zu reserved_peak=%zu ratio=%.6f waits=%zu refusals=%zu mapped=%zu unmapped=%zu "
                "seconds=%.3f\n",
                r.live_peak, r.reserved_peak,
                r.live_peak == 0 ? 1
                                 : static_cast<double>(r.reserved_peak) / static_cast<double>(r.live_peak),
                r.waits, r.refusals, r.mapped, r.unmapped, r.seconds);
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run("replay_trace", usage, {argv + 1, argv + argc}, parse, run);
}
