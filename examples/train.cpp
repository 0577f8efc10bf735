// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Trains an image classifier on files that are larger than the device memory that the program may hold.
///
/// Prints its memory plan byte by byte, shows the refusal that loading all data at once would cause, trains batch by batch, and compares
/// the measured peaks with the plan. Exit status: 0 on success; 2 for an invalid command line; 1 for errors of data, budgets and devices.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <cuota/cuota.hpp>
#include <cuota/data/datasets/idx_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/report.hpp>

#include "synthetic_digits.hpp"
#include "train_data.hpp"
#include "train_network.hpp"
#include "train_options.hpp"
#include "train_strategy.hpp"

namespace {

using train::network;
using train::options;
using train::part;
using train::plan_error;
using train::with_label_type;
using train::with_pixel_type;

// ---- the plan ----

struct training_plan {
    train::shape shape;
    std::vector<part> pool_parts;
    std::size_t pool_bytes;  // one segment for all parts
    cuota::loader_plan training;
    cuota::loader_plan held_out;

    [[nodiscard]] std::size_t device_bytes() const {
        return pool_bytes + training.device_bytes + held_out.device_bytes;
    }
    [[nodiscard]] std::size_t pinned_bytes() const { return training.pinned_bytes + held_out.pinned_bytes; }
};

template <cuota::dataset Samples>
struct job {
    options const& how;
    Samples training;
    Samples held_out;
    std::size_t classes;

    [[nodiscard]] cuota::loader_options training_options(std::size_t batch) const {
        cuota::loader_options o{.batch_size = batch, .seed = how.seed, .workers = how.workers};
        o.name = "training slots";
        return o;
    }
    [[nodiscard]] cuota::loader_options held_out_options(std::size_t batch) const {
        cuota::loader_options o{.batch_size = batch, .workers = how.workers};
        o.name = "held-out slots";
        return o;
    }

    [[nodiscard]] training_plan plan(std::size_t batch) const {
        batch = static_cast<std::size_t>(std::min<std::uint64_t>(batch, training.size()));
        training_plan p{{batch, training.fields()[0].count(), how.hidden, classes},
                        {},
                        0,
                        cuota::plan_loader(training, training_options(batch)),
                        cuota::plan_loader(held_out, held_out_options(batch))};
        p.pool_parts = network::plan(p.shape);
        for (part const& each : p.pool_parts)
            p.pool_bytes = cuota::checked_add(p.pool_bytes, each.bytes).value_or(cuota::unlimited);
        p.pool_bytes = cuota::round_up(p.pool_bytes, cuota::device_memory::granularity());
        return p;
    }
    [[nodiscard]] bool fits(training_plan const& p) const {
        return p.device_bytes() <= how.device_budget && p.pinned_bytes() <= how.pinned_budget;
    }
    [[nodiscard]] std::size_t largest_batch_that_fits() const {
        std::size_t fitting = 0;
        std::size_t too_large = how.batch;
        while (fitting + 1 < too_large) {
            std::size_t const middle = fitting + (too_large - fitting) / 2;
            (fits(plan(middle)) ? fitting : too_large) = middle;
        }
        return fitting;
    }
};

template <cuota::dataset Samples>
job(options const&, Samples, Samples, std::size_t) -> job<Samples>;  // clang 14 does not deduce it

template <cuota::dataset Samples>
void check(job<Samples> const& j, training_plan const& p) {
    if (j.fits(p)) return;
    bool const device = p.device_bytes() > j.how.device_budget;
    std::size_t const budget = device ? j.how.device_budget : j.how.pinned_budget;
    std::size_t const fitting = j.largest_batch_that_fits();
    throw plan_error{std::string{device ? "--device-budget " : "--pinned-budget "} +
                     cuota::bytes_text(budget) + " is too small: the plan needs " +
                     cuota::bytes_text(device ? p.device_bytes() : p.pinned_bytes()) + " for a batch of " +
                     std::to_string(p.shape.batch) + "; " +
                     (fitting != 0 ? "--batch " + std::to_string(fitting) + " would fit"
                                   : "not even a batch of one sample would fit")};
}

void print_row(char const* name, std::size_t device, std::size_t pinned) {
    std::printf("  %-18s %12s", name, device ? cuota::bytes_text(device).c_str() : "");
    if (pinned) std::printf("   %12s", cuota::bytes_text(pinned).c_str());
    std::printf("\n");
}

void print_plan(options const& how, training_plan const& p) {
    std::printf("\nplan                       device         pinned\n");
    for (part const& each : p.pool_parts) print_row(each.name.text(), each.bytes, 0);
    print_row("training slots", p.training.device_bytes, p.training.pinned_bytes);
    print_row("held-out slots", p.held_out.device_bytes, p.held_out.pinned_bytes);
    print_row("together", p.device_bytes(), p.pinned_bytes());
    print_row("budget", how.device_budget, how.pinned_budget);
    std::printf("  planned device bytes %zu\n  planned pinned bytes %zu\n", p.device_bytes(),
                p.pinned_bytes());
}

// ---- the run ----

/// Shows the refusal of the whole data set as floats on the device, from the same budget.
void show_refusal(cuota::budget const& budget, std::uint64_t samples, std::size_t inputs) {
    cuota::scoped_pool pool{budget};
    cuota::stream stream;
    std::size_t const count = cuota::checked_mul(samples, inputs).value_or(cuota::unlimited);
    std::printf("\nall at once\n");
    if (std::size_t const bytes = cuota::checked_mul(count, sizeof(float)).value_or(cuota::unlimited);
        bytes <= budget.available()) {
        std::printf("  the whole set is %s as floats and would fit the budget\n",
                    cuota::bytes_text(bytes).c_str());
        return;
    }
    try {
        cuota::device_buffer<float> everything{count, stream, pool, cuota::no_init, "the whole set"};
    } catch (cuota::budget_exceeded const& refused) { std::printf("%s\n", refused.what()); }
}

class progress_bar {
public:
    progress_bar(std::size_t epoch, std::uint64_t batches) : epoch_{epoch}, batches_{batches} {}
    ~progress_bar() {
        if (shown_) std::printf("\r\033[K");
    }
    void show(std::uint64_t done) {
        constexpr std::uint64_t width = 40;
        if (!terminal_ || done * 100 / batches_ == (done - 1) * 100 / batches_) return;
        std::string const filled(done * width / batches_, '#');
        std::printf("\r  epoch %zu  [%-40s] %3d %%", epoch_, filled.c_str(),
                    static_cast<int>(done * 100 / batches_));
        std::fflush(stdout);
        shown_ = true;
    }

private:
    bool const terminal_ = isatty(STDOUT_FILENO) != 0;
    std::size_t epoch_;
    std::uint64_t batches_;
    bool shown_ = false;
};

/// Runs an epoch: sets each batch as the network's input and calls `step`.
template <class Step>
network::totals pass(cuota::batch_loader& loader, std::uint64_t epoch, network& net, cuota::stream& stream,
                     progress_bar* bar, Step step) {
    for (cuota::batch batch : loader.epoch(epoch)) {
        cuota::field const& pixels = batch.fields()[0];
        cuota::field const& labels = batch.fields()[1];
        with_pixel_type(pixels.type, pixels.name,
                        [&](auto pixel) { net.set_input(batch.view<decltype(pixel)>(stream, 0).span()); });
        with_label_type(labels.type, labels.name,
                        [&](auto label) { net.set_labels(batch.view<decltype(label)>(stream, 1).span()); });
        step();
        if (bar) bar->show(batch.index() + 1);
    }
    return net.take_totals();
}

template <cuota::dataset Samples>
void fit(job<Samples> const& j, training_plan const& p, cuota::budget const& device,
         cuota::budget const& pinned, cuota::recorder& recorder) {
    cuota::stream stream;
    cuota::scoped_pool pool{device,
                            {.name = "network", .initial_size = p.pool_bytes, .max_size = p.pool_bytes}};
    network net{p.shape, j.how.seed, stream, pool};
    auto training_options = j.training_options(p.shape.batch);
    auto held_out_options = j.held_out_options(p.shape.batch);
    training_options.device_budget = held_out_options.device_budget = device;
    training_options.pinned_budget = held_out_options.pinned_budget = pinned;
    cuota::batch_loader training{j.training, training_options};
    cuota::batch_loader held_out{j.held_out, held_out_options};

    std::printf("\ntraining\n");
    for (std::size_t epoch = 0; epoch != j.how.epochs; ++epoch) {
        recorder.mark("epoch " + std::to_string(epoch + 1));
        auto const started = std::chrono::steady_clock::now();
        network::totals learned{};
        {
            progress_bar bar{epoch + 1, training.plan().batches.value()};
            learned =
                pass(training, epoch, net, stream, &bar, [&] { net.learn(static_cast<float>(j.how.rate)); });
        }
        network::totals const tested = pass(held_out, epoch, net, stream, nullptr, [&] { net.evaluate(); });
        double const seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
        std::printf("  epoch %zu  loss %.9g  held-out loss %.9g  held-out accuracy %.2f %%  (%.1f s)\n",
                    epoch + 1, learned.loss / static_cast<double>(training.size()),
                    tested.loss / static_cast<double>(held_out.size()),
                    100 * tested.hits / static_cast<double>(held_out.size()), seconds);
        std::fflush(stdout);
    }
    std::printf("\n%s\n", cuota::summary(recorder.read().final_snapshot).c_str());
}

/// Returns false if a peak differs from the plan or memory is still held.
[[nodiscard]] bool print_peaks(training_plan const& p, cuota::budget const& device,
                               cuota::budget const& pinned) {
    std::printf("\npeak\n");
    auto const row = [](char const* name, std::size_t planned, cuota::budget_info const& b) {
        std::printf("  %s bytes %zu, planned %zu, budget %zu, held at the end %zu\n", name, b.peak, planned,
                    b.limit, b.held);
        return b.peak == planned && b.held == 0;
    };
    bool const device_as_planned = row("device", p.device_bytes(), device.info());
    bool const pinned_as_planned = row("pinned", p.pinned_bytes(), pinned.info());
    return device_as_planned && pinned_as_planned;
}

template <cuota::dataset Images, cuota::dataset Labels>
void run(options const& how, Images const& images, Labels const& labels) {
    cuota::zip_dataset const all{images, labels};
    if (all.size() < 5)
        throw cuota::data_error{all.name(), 0, "fewer than 5 samples: none could be held out"};
    std::size_t const classes = train::count_classes(labels);
    with_pixel_type(all.fields()[0].type, images.name(), [](auto) {});
    std::uint64_t const kept = all.size() / 5;
    job const j{how, cuota::subset_dataset{all, 0, all.size() - kept},
                cuota::subset_dataset{all, all.size() - kept, kept}, classes};

    cuota::device const device = cuota::device::current();
    std::printf("device    %s%s\n", device.name().c_str(), cuota::is_simulated() ? ": no GPU is used" : "");
    std::printf("data      %s\n          %llu samples of %s, %s on disk as read; %llu to train, %llu held "
                "out, %zu classes\n",
                all.name().c_str(), static_cast<unsigned long long>(all.size()),
                cuota::field_text(all.fields()[0]).c_str(),
                cuota::bytes_text(all.size() * all.fields()[0].bytes()).c_str(),
                static_cast<unsigned long long>(j.training.size()), static_cast<unsigned long long>(kept),
                classes);

    if (!how.strategy.empty()) return train::run_deep(how, train::any_samples{j.training}, classes);
    training_plan const p = j.plan(how.batch);
    print_plan(how, p);
    check(j, p);
    cuota::budget const on_device{"device", how.device_budget};
    cuota::budget const in_host{"pinned", how.pinned_budget, cuota::budget::for_host()};
    cuota::recorder recorder{on_device};
    recorder.watch(in_host);
    show_refusal(on_device, all.size(), p.shape.inputs);
    fit(j, p, on_device, in_host, recorder);
    cuota::recording const seen = recorder.read();
    std::printf("\ndiagnosis\n  %s\n", cuota::diagnosis_text(cuota::diagnose(seen)).c_str());
    if (!how.timeline.empty()) {
        cuota::write_timeline_file(how.timeline, seen, {.title = "train: memory over time"});
        std::printf("\ntimeline  %s: open it in a browser\n", how.timeline.c_str());
    }
    if (!print_peaks(p, on_device, in_host))
        throw std::runtime_error{"what was held is not what was planned"};
}

void run(options how) {
    std::optional<train::synthetic_digits> synthetic;
    if (how.images.empty()) {
        constexpr std::uint32_t samples = 10'000;
        synthetic.emplace(samples, how.seed);
        how.images = synthetic->images();
        how.labels = synthetic->labels();
        std::printf("No data was given: wrote a synthetic set of %u images.\n\n", samples);
    }
    cuota::file const images = train::open(how.images);
    cuota::file const labels = train::open(how.labels);
    if (how.is_npy) run(how, cuota::npy_dataset{images}, cuota::npy_dataset{labels});
    else run(how, cuota::idx_dataset{images}, cuota::idx_dataset{labels});
}

/// Returns an error as one line; for a refusal, its first line and the first suggestion that suffices.
[[nodiscard]] std::string one_line(std::exception const& error) {
    std::string_view const text = error.what();
    std::string line{text.substr(0, text.find('\n'))};
    auto const* const refused = dynamic_cast<cuota::out_of_memory const*>(&error);
    if (!refused) return line;
    for (cuota::suggestion const& step : cuota::suggestions(refused->info()))
        if (step.suffices) return line + "; " + step.text;
    return line;
}

}  // namespace

int main(int argc, char** argv) {
    static std::atomic<int> reported{0};
    cuota::set_error_sink([](std::exception const& error) {
        ++reported;
        std::fprintf(stderr, "train: while giving back: %s\n", one_line(error).c_str());
    });
    try {
        options const how = train::parse({argv + 1, argv + argc});
        if (how.help) {
            std::fputs(train::usage, stdout);
            return 0;
        }
        run(how);
    } catch (train::usage_error const& error) {
        std::fprintf(stderr, "train: %s (train --help lists the options)\n", error.what());
        return 2;
    } catch (std::exception const& error) {
        std::fflush(stdout);
        std::fprintf(stderr, "train: %s\n", one_line(error).c_str());
        return 1;
    }
    return reported == 0 ? 0 : 1;
}
