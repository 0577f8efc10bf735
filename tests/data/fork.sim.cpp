// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Owners that a program that loads data may have when it forks: each ends in the child, by itself and by exit, and refuses requests
// that need a lock, a thread or CUDA.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <cuota/core/bytes.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/concat_dataset.hpp>
#include <cuota/data/datasets/converted_dataset.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/detail/datasets/open_parts.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/device_resident_dataset.hpp>
#include <cuota/data/samplers/bucket_sampler.hpp>
#include <cuota/data/samplers/weighted_sampler.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/traffic.hpp"

using namespace cuota::literals;

namespace {

using part = cuota::detail::part_dataset<cuota::raw_dataset>;

// A file that is always there.
char const* const path = "/proc/self/exe";

// Three files, of which one is open at a time.
cuota::detail::light_shared_ptr<cuota::detail::open_parts> three_parts() {
    return cuota::detail::light_shared_ptr<cuota::detail::open_parts>::make(
        std::vector<std::string>(3, path), 1, nullptr,
        [](void const*, std::string const& at) -> cuota::detail::light_shared_ptr<void const> {
            return cuota::detail::light_shared_ptr<cuota::raw_dataset const>::make(
                at, cuota::raw_layout{.fields = {{"letter"}}});
        });
}

template <cuota::dataset S>
void gather_one(S const& from) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::span<std::byte>> out;
    for (cuota::field const& f : from.fields()) memory.emplace_back(f.bytes());
    for (auto& m : memory) out.emplace_back(m);
    std::array<std::uint64_t, 1> const first{0};
    from.gather(first, out);
}

struct owners {
    cuota::budget account{"device", 256_MiB};
    cuota::memory_dataset numbers{"numbers", std::vector<float>(4'000, 1.0F)};
    cuota::converted_dataset<cuota::memory_dataset> half{numbers, {{"numbers", cuota::element_type::f16}}};
    cuota::detail::light_shared_ptr<cuota::detail::open_parts> parts = three_parts();
    std::array<part, 3> parts_of_files{part{parts, 0}, part{parts, 1}, part{parts, 2}};
    cuota::raw_dataset raw{path, {.fields = {{"letter"}}}};
    cuota::bucket_sampler buckets{1, std::vector<std::uint64_t>(4'000, 7), 1'000, 10};
    cuota::weighted_shuffle_sampler shuffled{1, std::vector<double>(4'000, 1.0), 4'000};
    cuota::weighted_sampler weighted{1, std::vector<double>(4'000, 1.0), 4'000};
    cuota::batch_loader loader{half,
                               {.batch_size = 4, .device_budget = account, .sampler = buckets, .workers = 2}};
    cuota::epoch_range epoch = loader.epoch(0);
    std::optional<cuota::batch> batch = epoch.next();
    cuota::device_resident_dataset resident{numbers, {.batch_size = 100, .device_budget = account}};
    cuota::batch_loader of_resident =
        resident.loader({.batch_size = 10, .device_budget = account, .sampler = shuffled});
    cuota::epoch_range other = of_resident.epoch(0);
};

// Threads that are in the locks of datasets and samplers for most of the time.
class traffic : support::traffic {
public:
    explicit traffic(owners& of)
        : support::traffic{100,
                           [&of](std::size_t i) {
                               std::array<std::uint64_t, 8> out{};
                               of.buckets.draw(4'000, i, 1'000 * (i % 4), out);
                           },
                           [&of](std::size_t i) {
                               std::array<std::uint64_t, 8> out{};
                               of.shuffled.draw(4'000, i, 0, out);
                           },
                           [&of](std::size_t i) {
                               gather_one(of.half);
                               gather_one(of.parts_of_files[i % 3]);
                           }} {}
};

}  // namespace

TEST_CASE("in a child, each owner of data is destroyed without a CUDA call or a report", "[data][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    std::optional<owners> all{std::in_place};
    {
        traffic const beside{*all};
        for (int i = 0; i != 5; ++i) CHECK(support::status_of_ends_in_child([&] { all.reset(); }) == 0);
    }
}

TEST_CASE("in a child, requests to data that need a lock are refused as misuse", "[data][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    owners all;
    traffic const beside{all};
    int const status = support::status_of_requests_in_child([&](support::requests_in_child& ask) {
        std::array<std::uint64_t, 8> out{};
        ask.refuses("converted_dataset::gather", [&] { gather_one(all.half); });
        ask.refuses("a dataset of many files", [&] { gather_one(all.parts_of_files[1]); });
        ask.refuses("bucket_sampler::draw", [&] { all.buckets.draw(4'000, 0, 0, out); });
        ask.refuses("weighted_shuffle_sampler::draw", [&] { all.shuffled.draw(4'000, 0, 0, out); });
        ask.refuses("device_resident_dataset::loader",
                    [&] { (void)all.resident.loader({.batch_size = 10}); });
        ask.expect("datasets and samplers without a lock work", [&] {
            gather_one(all.numbers);
            gather_one(all.raw);
            all.weighted.draw(4'000, 0, 0, out);
            return true;
        }());
    });
    CHECK(status == 0);
}

TEST_CASE("a child with static owners of data exits normally", "[data][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("a child with static owners of data exits normally")) return;
    static owners all;
    int wrong = 0;
    {
        traffic const beside{all};
        for (int i = 0; i != 20; ++i) wrong += support::status_of_child([] { std::exit(0); }) != 0;
    }
    std::exit(wrong == 0 ? 0 : 1);
}
