// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The context of an epoch that loaders pass to datasets, also through datasets that wrap others.
#include <cuota/data/datasets/dataset.hpp>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/concat_dataset.hpp>
#include <cuota/data/datasets/converted_dataset.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/runtime/rt/copy.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/samples.hpp"

namespace {

using cuota::element_type;
using cuota::gather_context;
using support::machine;
using numbers = std::vector<std::uint64_t>;
using room = std::span<std::span<std::byte> const>;

/// Each sample's value is its seed in the epoch, as a random augmentation would use it.
auto seeds(std::uint64_t size) {
    return cuota::callable_dataset{
        "seeds",
        size,
        {{"x", element_type::u64, {}}},
        [](std::span<std::uint64_t const> samples, room out, gather_context const& context) {
            for (std::size_t i = 0; i != samples.size(); ++i) {
                std::uint64_t const seed = context.sample_seed(samples[i]);
                std::memcpy(out[0].data() + 8 * i, &seed, 8);
            }
        }};
}
/// Gathers sample i in this context and returns its first field.
template <class S>
std::uint64_t seed_of(S const& from, std::uint64_t sample, gather_context const& context) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::span<std::byte>> out;
    for (cuota::field const& f : std::span<cuota::field const>{from.fields()}) memory.emplace_back(f.bytes());
    for (auto& each : memory) out.emplace_back(each);
    from.gather(std::span{&sample, 1}, out, context);
    std::uint64_t value = 0;
    std::memcpy(&value, memory[0].data(), 8);
    return value;
}

/// Returns sample and value of all remaining batches of an epoch.
std::map<std::uint64_t, std::uint64_t> seen(cuota::epoch_range epoch) {
    cuota::stream const s;
    std::map<std::uint64_t, std::uint64_t> all;
    while (std::optional<cuota::batch> const b = epoch.next()) {
        cuota::device_buffer<std::uint64_t> copy{b->size(), s, cuota::device_memory{}};
        {
            auto const to = copy.write(s);
            cuota::rt::copy_on_device(to.span().data(), b->view<std::uint64_t>(s).data(), 8 * b->size(), s);
        }
        auto const values = copy.to_vector(s);
        for (std::size_t i = 0; i != b->size(); ++i) CHECK(all.emplace(b->samples()[i], values[i]).second);
    }
    return all;
}

template <class S>
constexpr bool takes_context = cuota::detail::gathers_in_context<S>;

using plain = cuota::memory_dataset;
using told = decltype(seeds(1));
static_assert(takes_context<told> && !takes_context<plain> && cuota::dataset<told> && cuota::dataset<plain>);
static_assert(takes_context<cuota::zip_dataset<plain, told>> &&
              !takes_context<cuota::zip_dataset<plain, plain>>);
static_assert(takes_context<cuota::subset_dataset<told>> && !takes_context<cuota::subset_dataset<plain>>);
static_assert(takes_context<cuota::converted_dataset<told>> &&
              !takes_context<cuota::converted_dataset<plain>>);
static_assert(takes_context<cuota::ragged_dataset<told>> && !takes_context<cuota::ragged_dataset<plain>>);

}  // namespace

TEST_CASE("sample_seed differs for each sample, epoch and seed, and is the same on every machine",
          "[data][gather_context]") {
    std::set<std::uint64_t> all;
    for (std::uint64_t seed = 0; seed != 10; ++seed)
        for (std::uint64_t epoch = 0; epoch != 10; ++epoch)
            for (std::uint64_t sample = 0; sample != 100; ++sample)
                all.insert(gather_context{epoch, seed}.sample_seed(sample));
    CHECK(all.size() == 10'000);
    static_assert(gather_context{3, 7}.sample_seed(11) == gather_context{3, 7}.sample_seed(11));
    CHECK(gather_context{}.sample_seed(0) == 0x5DDBAF0C15FE8894);
    CHECK(gather_context{3, 7}.sample_seed(11) == 0xD42A71F280505252);
}

TEST_CASE("a loader passes the epoch and the seed to its dataset, on any worker and from any position",
          "[data][gather_context]") {
    machine const on;
    constexpr std::uint64_t size = 100;
    std::map<std::uint64_t, std::uint64_t> expected;
    for (std::uint64_t i = 0; i != size; ++i) expected[i] = gather_context{5, 42}.sample_seed(i);

    for (std::size_t const workers : {1, 3})
        for (std::size_t const batch : {7, 32}) {
            INFO(workers << " workers, batches of " << batch);
            cuota::loader_options const how{.batch_size = batch, .seed = 42, .workers = workers};
            cuota::batch_loader loader{seeds(size), how};
            CHECK(seen(loader.epoch(5)) == expected);
            CHECK(seen(loader.epoch(6)) != expected);
            CHECK(seen(loader.epoch(5)) == expected);

            std::string saved;  // the position from which another loader resumes
            {
                auto first = loader.epoch(5);
                REQUIRE(first.next()->size() == batch);
                saved = loader.state().text();
            }
            cuota::batch_loader again{seeds(size), how};
            auto const rest = seen(again.epoch(cuota::loader_state::parse(saved)));
            CHECK(rest.size() == size - batch);
            for (auto const& [sample, value] : rest) CHECK(value == expected[sample]);

            for (std::uint64_t rank = 0; rank != 3; ++rank) {
                cuota::loader_options mine = how;
                mine.shard = {rank, 3};
                cuota::batch_loader part{seeds(size), mine};
                for (auto const& [sample, value] : seen(part.epoch(5))) CHECK(value == expected[sample]);
            }
        }

    cuota::batch_loader ordered{seeds(size), {.batch_size = 10}};
    std::uint64_t const fingerprint = cuota::sequential_sampler{}.fingerprint();
    CHECK(seen(ordered.epoch(5))[3] == gather_context{5, fingerprint}.sample_seed(3));
    cuota::batch_loader sampled{seeds(size),
                                {.batch_size = 10, .sampler = cuota::block_shuffle_sampler{9, 4}}};
    CHECK(seen(sampled.epoch(5))[3] ==
          gather_context{5, cuota::block_shuffle_sampler{9, 4}.fingerprint()}.sample_seed(3));
}

TEST_CASE("datasets that contain others pass the context on", "[data][gather_context]") {
    gather_context const context{2, 3};
    std::uint64_t const right = context.sample_seed(4);
    plain const other{"other", std::vector<float>(10)};
    CHECK(seed_of(seeds(10), 4, context) == right);
    CHECK(seed_of(cuota::zip_dataset{seeds(10), other}, 4, context) == right);
    CHECK(seed_of(cuota::subset_dataset{seeds(10), 3, 5}, 1, context) == right);
    CHECK(seed_of(cuota::concat_dataset{seeds(10), seeds(10)}, 14, context) == right);
    CHECK(seed_of(cuota::converted_dataset{seeds(10), {}}, 4, context) == right);
    CHECK(seed_of(cuota::detail::any_dataset{cuota::zip_dataset{seeds(10), other}}, 4, context) == right);
    // Each sample has one row.
    CHECK(seed_of(cuota::ragged_dataset{seeds(10), numbers{0, 1, 2, 3, 4, 5}}, 4, context) == right);
    // Without a loader, the context is the default one.
    CHECK(support::gathered(seeds(10), {4})[0] ==
          support::bytes_of(numbers{gather_context{}.sample_seed(4)}));
}

TEST_CASE("a function without a context parameter is called without a context", "[data][gather_context]") {
    auto const squares = cuota::callable_dataset{
        "squares", 10, {{"x", element_type::u64, {}}}, [](std::span<std::uint64_t const> samples, room out) {
            for (std::size_t i = 0; i != samples.size(); ++i) {
                std::uint64_t const square = samples[i] * samples[i];
                std::memcpy(out[0].data() + 8 * i, &square, 8);
            }
        }};
    static_assert(!takes_context<std::remove_const_t<decltype(squares)>>);
    machine const on;
    cuota::batch_loader loader{squares, {.batch_size = 4, .seed = 1}};
    for (auto const& [sample, value] : seen(loader.epoch(1))) CHECK(value == sample * sample);
}
