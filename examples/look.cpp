// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Where is the memory? Runs steps as a training has them, records what happens, and shows it in every form there is.
///
/// Prints a summary and what is wrong in words. --out writes a timeline for a browser, a picture, a snapshot for PyTorch's
/// memory_viz, a trace for Perfetto, lifetimes for plan_trace, metrics. --live: while it runs. In short: record_and_look.cpp.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <cuota/cuota.hpp>
#include <cuota/report.hpp>

#include "command_line.hpp"

namespace {

using namespace cuota::literals;

struct options {
    std::string out{};
    std::size_t steps = 12;
    bool is_live = false;
    bool leaks = false;
    bool help = false;
};

constexpr char const* usage =
    "usage: look [--steps N] [--leak] [--live] [--out FOLDER]\n"
    "\n"
    "Runs steps as a training has them, and shows where their memory was.\n"
    "\n"
    "  --steps N      how many steps                                          (12)\n"
    "  --leak         each step forgets some of its memory\n"
    "  --live         shows it while it runs, on a terminal\n"
    "  --out FOLDER   writes timeline.html, timeline.svg, snapshot.json, trace.json, lifetimes.csv and "
    "metrics.txt there\n";

[[nodiscard]] options parse(int argc, char** argv) {
    options o;
    for (int at = 1; at < argc; ++at) {
        std::string_view const option = argv[at];
        auto const value = [&]() -> std::string_view {
            if (at + 1 == argc) throw command_line::usage_error{std::string{option} + " needs a value"};
            return argv[++at];
        };
        if (option == "--out") o.out = value();
        else if (option == "--steps") o.steps = command_line::positive(option, value());
        else if (option == "--live") o.is_live = true;
        else if (option == "--leak") o.leaks = true;
        else if (option == "--help" || option == "-h") o.help = true;
        else throw command_line::usage_error{"unknown option '" + std::string{option} + "'"};
    }
    return o;
}

struct fill {
    cuota::device_span<float> out;
    CUOTA_KERNEL void operator()(std::size_t i) const { out[i] = 1.0f; }
};

using floats = cuota::device_buffer<float>;

/// A buffer that some work has written.
[[nodiscard]] floats made(std::size_t count, cuota::stream const& stream, cuota::any_resource from,
                          cuota::tag name, cuota::source_location where = cuota::source_location::current()) {
    floats buffer{count, stream, std::move(from), cuota::no_init, name, where};
    cuota::for_each_index(stream, count, fill{buffer.write(stream)}, "fill");
    return buffer;
}

/// Forward: what each layer keeps. Backward: it goes again, with a workspace and a gradient beside it. Each layer is
/// waited for, so that the picture shows the time that its work takes; a program that trains would not.
void train_step(cuota::pool_step const& step, cuota::stream const& stream) {
    std::vector<floats> kept;
    for (std::size_t layer = 0; layer != 10; ++layer) {
        kept.push_back(made(200'000 + 30'000 * layer, stream, step, "activations"));
        floats const workspace = made(120'000, stream, step, "workspace");
        stream.synchronize();
    }
    while (!kept.empty()) {
        floats const gradient = made(kept.back().size(), stream, step, "gradients");
        floats const workspace = made(250'000, stream, step, "workspace");
        kept.pop_back();
        stream.synchronize();
    }
}

/// What the whole of a larger batch would need: the budget says no, and the program goes on.
void try_too_much(cuota::scoped_pool& pool, cuota::stream const& stream) {
    try {
        floats const batch{20'000'000, stream, pool, cuota::no_init, "a batch ten times as large"};
    } catch (cuota::budget_exceeded const&) {}  // recorded; the summary and the timeline show it
}

template <class Write>
void write(std::filesystem::path const& path, Write to) {
    std::ofstream file{path, std::ios::binary};
    to(file);
    if (!file.flush()) throw cuota::data_error{path.string(), 0, "could not be written"};
    std::printf("wrote %s\n", path.c_str());
}

void write_all(std::filesystem::path const& folder, cuota::recording const& seen) {
    std::filesystem::create_directories(folder);
    write(folder / "timeline.html", [&](std::ostream& to) { cuota::write_timeline(to, seen); });
    write(folder / "timeline.svg", [&](std::ostream& to) { cuota::write_timeline_svg(to, seen); });
    write(folder / "snapshot.json", [&](std::ostream& to) { cuota::write_memory_viz_json(to, seen); });
    write(folder / "trace.json", [&](std::ostream& to) { cuota::write_chrome_trace(to, seen); });
    write(folder / "lifetimes.csv", [&](std::ostream& to) { cuota::write_lifetimes_csv(to, seen); });
    write(folder / "metrics.txt",
          [&](std::ostream& to) { to << cuota::prometheus_text(seen.final_snapshot); });
}

void run(options const& how) {
    cuota::budget const budget{"trainer", 64_MiB};
    cuota::recorder recorder{budget};  // all that happens under the budget from here on
    cuota::scoped_pool pool{budget, {.name = "network"}};
    cuota::stream const stream;

    floats const weights = made(1'500'000, stream, pool.persistent(), "weights");
    floats const moments = made(3'000'000, stream, pool.persistent(), "moments");
    std::vector<floats> forgotten;
    {
        auto const view = how.is_live ? cuota::live_view{stdout,
                                                         [&] { return cuota::snapshot_of(budget); },
                                                         {.interval = std::chrono::milliseconds{200}}}
                                      : cuota::live_view{stdout};
        for (std::size_t i = 0; i != how.steps; ++i) {
            auto const step = pool.begin_step();
            train_step(step, stream);
            if (how.leaks) forgotten.push_back(made(100'000, stream, pool, "log"));
            if (i == how.steps / 2) try_too_much(pool, stream);
            if (how.is_live) std::this_thread::sleep_for(std::chrono::milliseconds{300});
        }
    }
    recorder.mark("trained");

    cuota::recording const seen = recorder.read();
    std::printf("%s\n\n%s\n", cuota::summary(seen.final_snapshot).c_str(),
                cuota::diagnosis_text(cuota::diagnose(seen)).c_str());
    if (!how.out.empty()) write_all(how.out, seen);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        options const how = parse(argc, argv);
        if (how.help) std::fputs(usage, stdout);
        else run(how);
    } catch (command_line::usage_error const& error) {
        std::fprintf(stderr, "look: %s (look --help lists the options)\n", error.what());
        return 2;
    } catch (std::exception const& error) {
        std::fprintf(stderr, "look: %s\n", error.what());
        return 1;
    }
}
