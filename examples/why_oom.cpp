// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Explains an out-of-memory error of PyTorch from its memory snapshot: the request, the holders, and the least memory for these blocks.
///
/// Exit status: 0 on success; 2 for an invalid command line; 1 for an invalid file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/cuota.hpp>
#include <cuota/pool/planning/offset_plan.hpp>
#include <cuota/report.hpp>

#include "command_line.hpp"
#include "recorded_blocks.hpp"

namespace {

using command_line::usage_error;

constexpr char const* usage =
    "usage: why_oom SNAPSHOT [options]\n"
    "\n"
    "Explains the last out-of-memory error of each device from a memory snapshot of PyTorch\n"
    "(torch.cuda.memory._record_memory_history, then _dump_snapshot). Without an error, explains the peak.\n"
    "The blocks are replayed through a pool on addresses without memory.\n"
    "\n"
    "  --limit SIZE  memory to compare with, such as 24GiB  (what the device had)\n"
    "  --html FILE   writes the timeline as a page for a browser\n";

struct command {
    std::string input{}, html{};
    std::optional<std::size_t> limit{};
    bool help = false;
};

command parse(std::vector<std::string_view> const& arguments) {
    command c;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        std::string_view const option = arguments[at];
        auto const value = [&] {
            if (at + 1 >= arguments.size()) throw usage_error{std::string{option} + " needs a value"};
            return arguments[++at];
        };
        if (option == "--limit") c.limit = command_line::size(option, value());
        else if (option == "--html") c.html = value();
        else if (option == "--help" || option == "-h") c.help = true;
        else if (option.starts_with("-")) throw usage_error{"unknown option '" + std::string{option} + "'"};
        else if (!c.input.empty())
            throw usage_error{"one file at a time, not also '" + std::string{option} + "'"};
        else c.input = option;
    }
    if (c.input.empty() && !c.help) throw usage_error{"a file is needed"};
    return c;
}

std::string size(std::size_t bytes) { return cuota::bytes_text(bytes); }

std::string user(cuota::recording const& r, std::uint32_t site) {
    cuota::event_site const& by = r.sites.at(site);
    std::string text = by.name.is_empty() ? "an unknown caller" : by.name.text();
    if (*by.where.file != '\0') text += " (" + cuota::source_location_text(by.where) + ")";
    return text;
}

/// A moment of one device's trace: a refused request, or the peak.
struct moment {
    std::uint16_t pool;  // index in recording::sources
    std::uint64_t at;    // nanoseconds
    std::size_t events;  // count of earlier events
    std::optional<cuota::memory_event> refused{};
    std::size_t count = 0;  // refusals of this device
};

std::vector<moment> moments_of(cuota::recording const& r) {
    std::vector<moment> found;
    for (std::size_t source = 0; source != r.sources.size(); ++source) {
        if (r.sources[source].kind != cuota::source_kind::pool) continue;
        moment m{static_cast<std::uint16_t>(source), 0, r.events.size()};
        auto const budget = r.sources[source].budget;
        for (std::size_t i = 0; i != r.events.size(); ++i) {
            if (r.events[i].kind != cuota::event_kind::refused || r.events[i].source != budget) continue;
            m.refused = r.events[i];
            m.at = r.events[i].at;
            m.events = i;
            ++m.count;
        }
        if (!m.refused) m.at = cuota::usage_over_time(r, {.sources = {m.pool}}).total.peak_at;
        found.push_back(m);
    }
    return found;
}

/// An allocation or a free of a replay.
struct step {
    std::uint64_t at;
    bool begins;
    std::size_t block;
};

/// The blocks of one device up to a moment, and the request that was refused at that moment.
class device_replay {
public:
    device_replay(cuota::recording const& r, moment const& until)
        : all_{r}, budget_{r.sources[until.pool].budget.value()} {
        for (trace::recorded_block b : trace::recorded_blocks(r))
            if (b.source == until.pool && b.life.from <= until.events) {
                b.life.until = std::min<std::uint64_t>(b.life.until, until.events + 2);
                blocks_.push_back(b);
            }
        if (until.refused)
            blocks_.push_back({{until.events + 1, until.events + 2, until.refused->bytes},
                               until.pool,
                               until.refused->site});
        for (std::size_t i = 0; i != blocks_.size(); ++i) {
            steps_.push_back({blocks_[i].life.from, true, i});
            steps_.push_back({blocks_[i].life.until, false, i});
        }
        std::stable_sort(steps_.begin(), steps_.end(), [](step const& a, step const& b) {
            return a.at != b.at ? a.at < b.at : a.begins < b.begins;
        });
    }

    [[nodiscard]] std::size_t live_peak() const {
        std::size_t live = 0, peak = 0;
        for (step const& s : steps_) {
            std::size_t const bytes = blocks_[s.block].life.size;
            live = s.begins ? live + bytes : live - bytes;
            peak = std::max(peak, live);
        }
        return peak;
    }
    /// Returns the text of the first refusal of a pool with this limit; nullopt if it serves all.
    [[nodiscard]] std::optional<std::string> refusal_under(std::size_t limit) const {
        cuota::budget account{all_.sources[budget_].name, limit};
        cuota::scoped_pool pool{account, cuota::dry_run_memory{}};
        cuota::stream const s;
        std::vector<void*> at(blocks_.size());
        std::optional<std::string> refusal;
        for (step const& now : steps_) {
            trace::recorded_block const& b = blocks_[now.block];
            cuota::event_site const& by = all_.sites.at(b.site);
            if (now.begins) {
                try {
                    at[now.block] = pool.resource().allocate(s, b.life.size, 256, {by.name, by.where});
                } catch (cuota::out_of_memory const& refused) {
                    refusal = refused.what();
                    break;
                }
            } else {
                pool.resource().deallocate(s, std::exchange(at[now.block], nullptr), b.life.size);
            }
        }
        for (std::size_t i = 0; i != at.size(); ++i)
            if (at[i]) pool.resource().deallocate(s, at[i], blocks_[i].life.size);
        return refusal;
    }
    /// Returns the least limit, in steps of 2 MiB, under which a pool serves all blocks.
    [[nodiscard]] std::size_t least_limit() const {
        constexpr std::size_t page = std::size_t{2} << 20;
        std::size_t refused = live_peak() / page, served = refused + 1;  // in pages
        while (refusal_under(served * page)) refused = std::exchange(served, served + served / 8 + 1);
        while (served - refused > 1) {
            std::size_t const middle = refused + (served - refused) / 2;
            (refusal_under(middle * page) ? refused : served) = middle;
        }
        return served * page;
    }
    /// Returns the bytes that planned offsets take; nullopt for more blocks than are planned quickly.
    [[nodiscard]] std::optional<std::size_t> planned() const {
        if (blocks_.size() > 50'000) return std::nullopt;
        std::vector<cuota::lifetime> lives;
        for (trace::recorded_block const& b : blocks_)
            if (b.life.from != b.life.until && b.life.size != 0) lives.push_back(b.life);
        return cuota::plan_offsets(lives).peak;
    }

private:
    cuota::recording const& all_;
    std::uint16_t budget_;
    std::vector<trace::recorded_block> blocks_;
    std::vector<step> steps_;
};

void print_holders(cuota::recording const& r, moment const& m) {
    auto const use =
        cuota::usage_over_time(r, {.by = cuota::group_by::site, .max_groups = 200, .sources = {m.pool}});
    std::vector<cuota::usage_share> shares;
    for (cuota::usage_curve const& part : use.parts)
        if (part.merged == 0) shares.push_back({part.name, cuota::usage_at(part, m.at)});
    std::stable_sort(shares.begin(), shares.end(),
                     [](auto const& a, auto const& b) { return a.bytes > b.bytes; });
    std::size_t const live = std::max<std::size_t>(cuota::usage_at(use.total, m.at), 1);
    std::size_t const reserved = cuota::usage_at(use.reserved, m.at);
    std::printf("  reserved %s, of which %s were live\n", size(reserved).c_str(), size(live).c_str());
    std::size_t rest = live;
    for (std::size_t i = 0; i != std::min<std::size_t>(shares.size(), 8) && shares[i].bytes != 0; ++i) {
        rest -= std::min(rest, shares[i].bytes);
        std::printf("    %10s  %3zu %%  %s\n", size(shares[i].bytes).c_str(), shares[i].bytes * 100 / live,
                    shares[i].name.c_str());
    }
    if (rest > live / 100) std::printf("    %10s  %3zu %%  others\n", size(rest).c_str(), rest * 100 / live);
}

void explain(command const& c, cuota::recording const& r, moment const& m) {
    std::string const& device = r.sources[m.pool].name;
    std::size_t limit = c.limit.value_or(cuota::unlimited);
    if (m.refused) {
        std::size_t const had = r.sources[m.refused->source].limit;
        std::printf("%s: refused %s for %s%s\n", device.c_str(), size(m.refused->bytes).c_str(),
                    user(r, m.refused->site).c_str(), m.count == 1 ? "" : ", the last of several refusals");
        std::printf("  %s were reserved by PyTorch, and %s were free on the device\n",
                    size(m.refused->size).c_str(), size(had - m.refused->size).c_str());
        if (!c.limit) limit = had;
    } else {
        std::printf("%s: no request was refused; at the peak:\n", device.c_str());
    }
    print_holders(r, m);

    device_replay const replay{r, m};
    std::printf("  the same blocks: %s live at once", size(replay.live_peak()).c_str());
    if (auto const planned = replay.planned()) std::printf(", %s by planned offsets", size(*planned).c_str());
    std::size_t const least = replay.least_limit();
    std::printf(", %s by a cuota::scoped_pool\n", size(least).c_str());
    if (limit == cuota::unlimited) return;
    if (auto const refusal = replay.refusal_under(limit))
        std::printf("  a pool of %s would refuse as well:\n\n%s\n", size(limit).c_str(), refusal->c_str());
    else std::printf("  a pool of %s would serve them\n", size(limit).c_str());
}

void run(command const& c) {
    cuota::imported_recording const from = cuota::read_pytorch_snapshot(cuota::file{c.input});
    for (std::string const& repair : from.repairs)
        std::fprintf(stderr, "%s: %s\n", c.input.c_str(), repair.c_str());
    if (!c.html.empty()) cuota::write_timeline_file(c.html, from.content);
    std::vector<moment> const all = moments_of(from.content);
    if (all.empty()) throw cuota::data_error{c.input, 0, "the snapshot has no device"};
    for (moment const& m : all) explain(c, from.content, m);
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run("why_oom", usage, {argv + 1, argv + argc}, parse, run);
}
