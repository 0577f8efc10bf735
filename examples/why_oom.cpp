// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Explains an out-of-memory error of PyTorch from its memory snapshot: the request, the holders, and the memory that allocators need.
///
/// Exit status: 0 on success; 2 for an invalid command line; 1 for an invalid file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/cuota.hpp>
#include <cuota/pool/planning/offset_plan.hpp>
#include <cuota/report.hpp>

#include "command_line.hpp"
#include "models/pytorch_allocator.hpp"
#include "models/replay.hpp"
#include "models/rmm_arena.hpp"
#include "models/rmm_pool.hpp"
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
    return command_line::one_file<command>(arguments, [](command& c, std::string_view option, auto value) {
        if (option == "--limit") c.limit = command_line::size(option, value());
        else if (option == "--html") c.html = value();
        else return false;
        return true;
    });
}

std::string size(std::size_t bytes) { return cuota::bytes_text(bytes); }

std::string name_of(cuota::event_site const& by) {
    std::string text = by.name.is_empty() ? "an unknown caller" : by.name.text();
    if (*by.where.file != '\0') text += " (" + cuota::source_location_text(by.where) + ")";
    return text;
}

/// The least limit of each model takes about ten replays, so larger traces are not replayed through models.
constexpr std::size_t most_blocks_for_models = 200'000;

/// The trace of one device, with its last refusal if there was one.
struct device_trace {
    std::uint16_t pool;  // index in recording::sources
    std::optional<cuota::memory_event> refused{};
    std::uint64_t events = 0;  // number of events before it, or of all
    std::size_t refusals = 0;
};

std::vector<device_trace> traces_of(cuota::recording const& r) {
    std::vector<device_trace> found;
    for (std::size_t source = 0; source != r.sources.size(); ++source) {
        if (r.sources[source].kind != cuota::source_kind::pool) continue;
        device_trace d{static_cast<std::uint16_t>(source), {}, r.events.size()};
        for (std::size_t i = 0; i != r.events.size(); ++i) {
            if (r.events[i].kind != cuota::event_kind::refused ||
                r.events[i].source != r.sources[source].budget)
                continue;
            d.refused = r.events[i];
            d.events = i;
            ++d.refusals;
        }
        found.push_back(d);
    }
    return found;
}

/// The blocks of one device up to a moment, and the request that was refused at that moment.
class device_replay {
public:
    device_replay(cuota::recording const& r, device_trace const& until)
        : budget_{r.sources[r.sources[until.pool].budget.value()].name} {
        for (trace::recorded_block b : trace::recorded_blocks(r))
            if (b.source == until.pool && b.life.from <= until.events) {
                b.life.until = std::min<std::uint64_t>(b.life.until, until.events + 2);
                blocks_.push_back(b);
            }
        if (until.refused)
            blocks_.push_back({{until.events + 1, until.events + 2, until.refused->bytes},
                               until.pool,
                               r.sites.at(until.refused->site)});
        for (trace::recorded_block const& b : blocks_) sizes_.push_back(b.life.size);
        steps_ = models::steps_of(blocks_, [](trace::recorded_block const& b) { return b.life; });
    }

    struct peak {
        std::uint64_t at = 0;  // number of an event
        std::size_t bytes = 0;
    };
    [[nodiscard]] peak live_peak() const {
        std::size_t live = 0;
        peak most;
        for (models::step const& s : steps_) {
            std::size_t const bytes = sizes_[s.block];
            live = s.begins ? live + bytes : live - bytes;
            if (live > most.bytes) most = {s.at, live};
        }
        return most;
    }
    /// Returns the live bytes of each call site after the event of this number, the largest first.
    [[nodiscard]] std::vector<std::pair<std::string, std::size_t>> holders_at(std::uint64_t number) const {
        std::map<std::string, std::size_t> live;
        for (trace::recorded_block const& b : blocks_)
            if (b.life.from <= number && number < b.life.until) live[name_of(b.by)] += b.life.size;
        std::vector<std::pair<std::string, std::size_t>> found{live.begin(), live.end()};
        std::stable_sort(found.begin(), found.end(),
                         [](auto const& a, auto const& b) { return a.second > b.second; });
        return found;
    }
    /// The text of a pool's first refusal, if any, and the most bytes that it reserved.
    struct outcome {
        std::optional<std::string> refusal{};
        std::size_t reserved = 0;
    };
    /// Replays through a pool with this limit until it refuses. `sizes`: bytes of each block.
    [[nodiscard]] outcome by_pool(std::size_t limit, std::vector<std::size_t> const& sizes) const {
        cuota::budget account{budget_, limit};
        cuota::scoped_pool pool{account, cuota::dry_run_memory{}};
        cuota::pool_resource memory = pool.resource();
        cuota::stream const s;
        std::vector<void*> at(blocks_.size());
        outcome found;
        for (models::step const& now : steps_) {
            cuota::event_site const& by = blocks_[now.block].by;
            if (now.begins) {
                try {
                    at[now.block] = memory.allocate(s, sizes[now.block], 256, {by.name, by.where});
                } catch (cuota::out_of_memory const& refused) {
                    found.refusal = refused.what();
                    break;
                }
            } else {
                memory.deallocate(s, std::exchange(at[now.block], nullptr), sizes[now.block]);
            }
        }
        for (std::size_t i = 0; i != at.size(); ++i)
            if (at[i]) memory.deallocate(s, at[i], sizes[i]);
        found.reserved = account.peak();
        return found;
    }
    [[nodiscard]] outcome by_pool(std::size_t limit) const { return by_pool(limit, sizes_); }
    /// Returns by how many percent the blocks of this call site alone must shrink so that a pool with this limit serves all; nullopt if that
    /// does not suffice.
    [[nodiscard]] std::optional<unsigned> cut_that_suffices(std::string const& site,
                                                            std::size_t limit) const {
        std::vector<std::size_t> of_site;
        for (std::size_t i = 0; i != blocks_.size(); ++i)
            if (name_of(blocks_[i].by) == site) of_site.push_back(i);
        auto const serves_after = [&](unsigned percent) {
            std::vector<std::size_t> sizes = sizes_;
            for (std::size_t const i : of_site)
                sizes[i] = std::max<std::size_t>(sizes[i] / 100 * (100 - percent), 1);
            return !by_pool(limit, sizes).refusal;
        };
        if (!serves_after(100)) return std::nullopt;
        unsigned refused = 0, served = 100;
        while (served - refused > 1) {
            unsigned const middle = (served + refused) / 2;
            (serves_after(middle) ? served : refused) = middle;
        }
        return served;
    }
    /// Returns the least limit under which a pool serves all blocks; nullopt for blocks that no device can hold.
    [[nodiscard]] std::optional<std::size_t> least_limit() const {
        return models::least_limit(live_peak().bytes,
                                   [&](std::uint64_t limit) { return !by_pool(limit).refusal; });
    }
    /// The bytes that an allocator reserves without a limit, if it grows at all, and its least limit.
    struct memory_of_model {
        std::optional<std::uint64_t> reserved{}, least{};
    };
    /// `make(limit)` returns a model.
    template <class Make>
    [[nodiscard]] memory_of_model needs(Make make, bool grows) const {
        auto const size_of = [&](std::size_t block) { return std::uint64_t{sizes_[block]}; };
        memory_of_model found;
        if (grows) {
            auto model = make(models::unlimited);
            if (models::serves(model, steps_, size_of)) found.reserved = model.peak_reserved();
        }
        found.least = models::least_limit(live_peak().bytes, [&](std::uint64_t limit) {
            auto model = make(limit);
            return models::serves(model, steps_, size_of);
        });
        return found;
    }
    [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
    /// Returns the bytes that planned offsets take; nullopt for more blocks than are planned quickly.
    [[nodiscard]] std::optional<std::size_t> planned() const {
        if (blocks_.size() > 50'000) return std::nullopt;
        std::vector<cuota::lifetime> lives;
        for (trace::recorded_block const& b : blocks_)
            if (b.life.from != b.life.until && b.life.size != 0) lives.push_back(b.life);
        return cuota::plan_offsets(lives).peak;
    }

private:
    std::string budget_;
    std::vector<trace::recorded_block> blocks_;
    std::vector<std::size_t> sizes_;
    std::vector<models::step> steps_;
};

void print_holders(device_replay const& replay, std::uint64_t number) {
    auto const holders = replay.holders_at(number);
    std::size_t live = 0;
    for (auto const& [name, bytes] : holders) live += bytes;
    std::printf("  live: %s\n", size(live).c_str());
    std::size_t rest = live;
    auto const print = [live](std::size_t bytes, char const* name) {
        double const share = static_cast<double>(bytes) / static_cast<double>(live);
        std::printf("    %10s  %3.0f %%  %s\n", size(bytes).c_str(), 100 * share, name);
    };
    for (std::size_t i = 0; i != std::min<std::size_t>(holders.size(), 8); ++i) {
        rest -= holders[i].second;
        print(holders[i].second, holders[i].first.c_str());
    }
    if (rest != 0) print(rest, "others");
}

/// Prints what these blocks take from cuota's pool, from planned offsets, and from models of other allocators.
void print_needs(device_replay const& replay, std::size_t live) {
    auto const text = [](auto const& bytes) { return bytes ? size(*bytes) : std::string{"-"}; };
    auto const print = [&](char const* name, auto const& reserved, auto const& least) {
        std::printf("    %-34s %12s %12s\n", name, text(reserved).c_str(), text(least).c_str());
    };
    std::printf("  the same blocks                          reserved  least limit\n");
    std::optional<std::size_t> const at_once = live, none;
    print("live at once", none, at_once);
    auto const planned = replay.planned();
    print("planned offsets", planned, planned);
    auto const least = replay.least_limit();
    print("cuota::scoped_pool", least ? std::optional{replay.by_pool(cuota::unlimited).reserved} : none,
          least);
    if (!least) return std::printf("  no device can hold them\n"), void();
    if (replay.blocks() > most_blocks_for_models) {
        std::printf("  other allocators: not computed for more than %zu blocks\n", most_blocks_for_models);
        return;
    }
    auto const print_model = [&](char const* name, bool grows, auto make) {
        auto const needs = replay.needs(make, grows);
        print(name, needs.reserved, needs.least);
    };
    print_model("PyTorch", true, [](std::uint64_t limit) { return models::pytorch_allocator{limit}; });
    print_model("PyTorch, expandable_segments", true, [](std::uint64_t limit) {
        return models::pytorch_allocator{limit, true};
    });
    print_model("rmm::pool_memory_resource", true,
                [](std::uint64_t limit) { return models::rmm_pool{limit}; });
    print_model("rmm::arena_memory_resource", false,
                [](std::uint64_t limit) { return models::rmm_arena{limit}; });
}

/// Prints the refusal of a pool; and for each of the largest holders at an event, how much less it alone would have to take.
void print_refusal(device_replay const& replay, std::size_t limit, std::string const& text,
                   std::uint64_t number) {
    std::printf("  a pool of %s would refuse as well:\n\n%s\n\n", size(limit).c_str(), text.c_str());
    auto const holders = replay.holders_at(number);
    std::size_t told = 0;
    for (std::size_t i = 0; i != std::min<std::size_t>(holders.size(), 5); ++i) {
        auto const percent = replay.cut_that_suffices(holders[i].first, limit);
        if (!percent) continue;
        if (told++ == 0) std::printf("  the pool would serve them if one of these took less memory:\n");
        std::printf("    %3u %% less  %s\n", *percent, holders[i].first.c_str());
    }
    if (told == 0)
        std::printf("  no single call site of the largest can be cut enough for the pool to serve them\n");
}

void explain(command const& c, cuota::recording const& r, device_trace const& d) {
    std::string const& name = r.sources[d.pool].name;
    device_replay const replay{r, d};
    auto const peak = replay.live_peak();
    std::size_t limit = c.limit.value_or(cuota::unlimited);
    if (d.refused) {
        std::size_t const had = r.sources[d.refused->source].limit;
        std::printf("%s: refused %s for %s%s\n", name.c_str(), size(d.refused->bytes).c_str(),
                    name_of(r.sites.at(d.refused->site)).c_str(),
                    d.refusals == 1 ? "" : ", the last of several refusals");
        std::printf("  reserved by PyTorch: %s, free on the device: %s\n", size(d.refused->size).c_str(),
                    size(had - d.refused->size).c_str());
        if (!c.limit) limit = had;
        print_holders(replay, d.events);
    } else {
        std::printf("%s: no request was refused; at the peak:\n", name.c_str());
        print_holders(replay, peak.at);
    }

    print_needs(replay, peak.bytes);
    if (limit == cuota::unlimited) return;
    if (auto const refusal = replay.by_pool(limit).refusal)
        print_refusal(replay, limit, *refusal, d.refused ? d.events : peak.at);
    else std::printf("  a pool of %s would serve them\n", size(limit).c_str());
}

void run(command const& c) {
    cuota::imported_recording const from = cuota::read_pytorch_snapshot(cuota::file{c.input});
    for (std::string const& repair : from.repairs)
        std::fprintf(stderr, "%s: %s\n", c.input.c_str(), repair.c_str());
    if (!c.html.empty()) cuota::write_timeline_file(c.html, from.content);
    std::vector<device_trace> const all = traces_of(from.content);
    if (all.empty()) throw cuota::data_error{c.input, 0, "the snapshot has no device"};
    for (device_trace const& d : all) explain(c, from.content, d);
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run("why_oom", usage, {argv + 1, argv + argc}, parse, run);
}
