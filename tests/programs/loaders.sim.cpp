// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Loaders of several threads under one pair of tight budgets: datasets that throw, epochs that are stopped, left, moved and resumed,
// batches that are kept, other threads that make loaders release their slots. Each batch is compared with its samples, byte by byte, and
// each epoch with the order of its seed. For as long as one likes: CUOTA_STRESS=<500 times the epochs, in all>.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/samplers/sampler.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"

namespace simulator = cuota::simulator;

namespace {

constexpr std::uint64_t samples = 1000;

struct counts {
    std::atomic<std::size_t> epochs = 0, whole = 0, batches = 0, thrown = 0, refused = 0, reclaimed = 0;
    std::atomic<std::size_t> wrong_bytes = 0, wrong_order = 0;
    std::mutex guard;
    std::string other;  // the first error of a type that must not come

    void note(std::string const& text) {
        std::scoped_lock const lock{guard};
        if (other.empty()) other = text;
    }
};

// Thrown by a dataset.
struct unreadable : std::runtime_error {
    unreadable() : std::runtime_error{"a sample cannot be read"} {}
};

// The values of a sample in its two fields.
std::uint64_t first_of(std::uint64_t sample) { return sample * 0x9e37'79b9'7f4a'7c15u; }
std::uint32_t second_of(std::uint64_t sample, std::size_t i) {
    return static_cast<std::uint32_t>(sample * 31 + i);
}
constexpr std::size_t width = 7;

// One thread, with a loader after the other.
class program {
public:
    program(cuota::budget const& device, cuota::budget const& pinned, std::uint64_t seed, counts& seen)
        : device_{device}, pinned_{pinned}, draw_{seed}, seen_{seen} {}

    void run(std::size_t epochs) {
        for (done_ = 0; done_ < epochs;) try {
                one_loader();
            } catch (cuota::out_of_memory const&) {
                ++seen_.refused, ++done_;
            } catch (std::exception const& e) {
                seen_.note(e.what());
                return;
            }
    }

private:
    [[nodiscard]] auto source() {
        return cuota::callable_dataset{
            "numbers",
            samples,
            {{"first", cuota::element_type::u64, {}}, {"second", cuota::element_type::u32, {width}}},
            [this](std::span<std::uint64_t const> wanted, std::span<std::span<std::byte> const> out) {
                std::byte* first = out[0].data();
                std::byte* second = out[1].data();
                for (std::uint64_t const sample : wanted) {
                    if (sample == fails_at_) throw unreadable{};
                    std::uint64_t const one = first_of(sample);
                    std::memcpy(first, &one, sizeof one);
                    first += sizeof one;
                    for (std::size_t k = 0; k != width; ++k) {
                        std::uint32_t const other = second_of(sample, k);
                        std::memcpy(second, &other, sizeof other);
                        second += sizeof other;
                    }
                }
            }};
    }
    void one_loader() {
        cuota::loader_options how{
            .batch_size = 1 + draw(200), .device_budget = device_, .pinned_budget = pinned_};
        how.seed = draw(50);
        how.workers = 1 + draw(4);
        how.device_slots = 1 + draw(3);
        how.host_slots = draw(2) == 0 ? 0 : 1 + draw(4);
        if (draw(4) != 0) how.reclaim_priority = static_cast<int>(draw(3));
        how.time_copies = draw(2) == 0;
        how.poison = draw(4) == 0;
        std::vector<cuota::batch> kept;
        cuota::batch_loader loader{source(), how};
        for (int i = 0; i != 6; ++i, ++done_) {
            one_epoch(loader, how, kept);
            if (draw(2) == 0) kept.clear();
            if (draw(4) == 0) loader = cuota::batch_loader{std::move(loader)};
        }
        if (kept.empty() && draw(2) == 0) loader.close();  // else batches outlive it
    }
    void one_epoch(cuota::batch_loader& loader, cuota::loader_options const& how,
                   std::vector<cuota::batch>& kept) {
        fails_at_ = draw(3) == 0 ? draw(samples) : samples;
        std::stop_source stop;
        std::jthread stopper;
        if (draw(4) == 0)
            stopper = std::jthread{[&stop, looks = draw(100)] {
                for (std::size_t i = 0; i != looks; ++i) std::this_thread::yield();
                stop.request_stop();
            }};
        std::uint64_t const number = draw(5);
        std::size_t const leave_after = draw(3) == 0 ? draw(10) : samples;
        std::vector<std::uint64_t> order;
        std::optional<cuota::batch_loader> moved;
        ++seen_.epochs;
        try {
            auto epoch = loader.epoch(number, stop.get_token());
            if (draw(4) == 0) moved.emplace(std::move(loader));
            std::size_t taken = 0;
            for (cuota::batch b : epoch) {
                check(b);
                order.insert(order.end(), b.samples().begin(), b.samples().end());
                if (draw(8) == 0) (void)(moved ? *moved : loader).stats();
                if (++taken != leave_after) continue;
                if (kept.size() + 1 < how.device_slots) kept.push_back(std::move(b));
                break;
            }
        } catch (unreadable const&) { ++seen_.thrown; } catch (cuota::usage_error const& e) {
            if (kept.size() < how.device_slots) throw;  // else the program holds all slots, and is told so
            (void)e;
        }
        if (moved) loader = std::move(*moved);
        check_order(order, *how.seed, number);
    }
    void check(cuota::batch const& b) {
        ++seen_.batches;
        auto const first = b.view<std::uint64_t>(stream_, 0);
        auto const second = b.view<std::uint32_t>(stream_, 1);
        std::vector<std::uint64_t> firsts(first.size());
        std::vector<std::uint32_t> seconds(second.size());
        cuota::rt::copy_to_host(firsts.data(), first.data(), first.bytes(), stream_);
        cuota::rt::copy_to_host(seconds.data(), second.data(), second.bytes(), stream_);
        stream_.synchronize();
        if (firsts.size() != b.size() || seconds.size() != b.size() * width) return void(++seen_.wrong_bytes);
        for (std::size_t i = 0; i != b.size(); ++i) {
            std::uint64_t const sample = b.samples()[i];
            seen_.wrong_bytes += firsts[i] != first_of(sample);
            for (std::size_t k = 0; k != width; ++k)
                seen_.wrong_bytes += seconds[i * width + k] != second_of(sample, k);
        }
    }
    // The samples that an epoch delivered are the first ones of the order of its seed and number.
    void check_order(std::vector<std::uint64_t> const& seen, std::uint64_t seed, std::uint64_t number) {
        std::vector<std::uint64_t> expected(seen.size());
        cuota::shuffle_sampler{seed}.draw(samples, number, 0, expected);
        seen_.wrong_order += seen != expected;
        seen_.whole += seen.size() == samples;
    }
    [[nodiscard]] std::size_t draw(std::size_t below) { return draw_() % below; }

    cuota::budget device_;
    cuota::budget pinned_;
    std::mt19937_64 draw_;
    counts& seen_;
    cuota::stream stream_;
    std::atomic<std::uint64_t> fails_at_ = samples;
    std::size_t done_ = 0;
};

// Charges all available bytes, so that loaders that are between two epochs release their slots.
void press(cuota::budget device, cuota::budget pinned, std::uint64_t seed, std::atomic<bool> const& ends,
           counts& seen) {
    std::mt19937_64 draw{seed};
    while (!ends) {
        cuota::budget& of = draw() % 2 == 0 ? device : pinned;
        std::size_t const bytes = of.limit() / 6 + draw() % (of.limit() / 6 * 5);
        try {
            std::size_t const room = of.available();
            of.charge(bytes);
            seen.reclaimed += bytes > room;
            for (std::size_t i = draw() % 8; i != 0; --i) std::this_thread::yield();
            of.refund(bytes);
        } catch (cuota::budget_exceeded const& refused) {
            if (std::string{refused.what()}.empty()) seen.note("a refusal without a text");
        }
        std::this_thread::yield();
    }
}

// Records, and reads what it has recorded.
void look_on(cuota::budget const& account, std::atomic<bool> const& ends, counts& seen) {
    do {
        try {
            cuota::recorder const recorder{account, {.capacity = 1024}};
            std::this_thread::yield();
            (void)recorder.read();
        } catch (std::exception const& e) { seen.note(e.what()); }
    } while (!ends);
}

std::size_t epochs() {
    char const* const told = std::getenv("CUOTA_STRESS");
    return std::max<std::size_t>(30, told ? std::strtoull(told, nullptr, 10) / 500
                                          : support::rounds<std::size_t>(180));
}

}  // namespace

TEST_CASE("loaders of several threads under tight budgets deliver correct batches in the correct order",
          "[programs][loaders][threads][stress]") {
    constexpr std::size_t threads = 3;
    support::machine machine;
    simulator::set_race_checks(simulator::race_checks::report);
    counts seen;
    {
        cuota::budget const device{"device", 100'000};
        cuota::budget const pinned{"pinned", 100'000};
        std::atomic<bool> ends = false;
        std::thread presses{[&] { press(device, pinned, 1, ends, seen); }};
        std::thread looks{[&] { look_on(device, ends, seen); }};
        std::vector<std::thread> all;
        for (std::size_t t = 0; t != threads; ++t)
            all.emplace_back([&, t] { program{device, pinned, t, seen}.run(epochs() / threads); });
        for (std::thread& t : all) t.join();
        ends = true;
        presses.join();
        looks.join();
        CHECK(device.held() == 0);
        CHECK(pinned.held() == 0);
        CHECK(device.peak() <= device.limit());
        CHECK(pinned.peak() <= pinned.limit());
    }
    std::string const text = std::to_string(seen.epochs) + " epochs, " + std::to_string(seen.whole) +
                             " of them whole, " + std::to_string(seen.batches) + " batches, " +
                             std::to_string(seen.thrown) + " thrown, " + std::to_string(seen.refused) +
                             " refused, " + std::to_string(seen.reclaimed) + " reclaimed";
    INFO(text << "; met: " << seen.other);
    if (std::getenv("CUOTA_STRESS")) WARN(text);
    CHECK(seen.other.empty());
    CHECK(seen.wrong_bytes == 0);
    CHECK(seen.wrong_order == 0);
    CHECK(seen.whole > 0);
    CHECK(seen.thrown > 0);
    CHECK(simulator::live().total() == 0);
    for (std::string const& told : simulator::race_reports()) UNSCOPED_INFO(told);
    CHECK(simulator::misuse().total() == 0);
    CHECK(machine.errors.take().empty());
}
