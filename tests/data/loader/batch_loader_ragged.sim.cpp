// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/batch_loader.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/datasets/ragged_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/data/loader/device_resident_dataset.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/data/loader/sample_too_long_error.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/ragged_texts.hpp"
#include "support/samples.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace sim = cuota::simulator;
using cuota::batch_loader;
using cuota::last_batch_policy;
using cuota::loader_options;
using cuota::loader_state;
using support::has;
using support::machine;
using support::numbered_source;
using support::ragged_texts;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

template <class T>
struct copy_each {
    cuota::device_span<T const> from;
    cuota::device_span<T> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};
// Returns the values that work on the stream reads.
template <class T>
std::vector<T> seen(cuota::stream const& s, cuota::device_span<T const> view) {
    if (view.is_empty()) return {};
    cuota::device_buffer<T> out{view.size(), s, cuota::device_memory{}, cuota::no_init};
    cuota::for_each_index(s, out.size(), copy_each<T>{view, out.write(s)});
    return out.to_vector(s);
}

// Checks a batch of classed texts and returns its samples.
numbers expect_texts(ragged_texts const& texts, cuota::stream const& s, cuota::batch const& b) {
    numbers const samples(b.samples().begin(), b.samples().end());
    numbers const offsets = texts.offsets_of(samples);
    REQUIRE(seen(s, b.view<std::uint32_t>(s, 0).span()) == texts.words_of(samples));
    REQUIRE(seen(s, b.row_offsets(s, 0).span()) == offsets);
    REQUIRE(std::ranges::equal(b.row_offsets(0), offsets));
    std::vector<std::uint16_t> classes;
    for (std::uint64_t const sample : samples) classes.push_back(static_cast<std::uint16_t>(3 * sample));
    REQUIRE(seen(s, b.view<std::uint16_t>(s, 1).span()) == classes);
    return samples;
}
std::vector<numbers> batches_of(ragged_texts const& texts, cuota::epoch_range epoch) {
    cuota::stream const s;
    std::vector<numbers> all;
    while (std::optional<cuota::batch> const b = epoch.next()) all.push_back(expect_texts(texts, s, *b));
    return all;
}
numbers joined(std::vector<numbers> const& batches) {
    numbers all;
    for (numbers const& b : batches) all.insert(all.end(), b.begin(), b.end());
    return all;
}

/// Wraps a dataset and calls a hook before its lengths are queried and before it is read.
template <class S>
class watched_source {
public:
    using hook = std::function<void(std::span<std::uint64_t const>)>;
    explicit watched_source(S inside) : inside_{std::move(inside)} {}
    [[nodiscard]] std::uint64_t size() const { return inside_.size(); }
    [[nodiscard]] std::span<cuota::field const> fields() const { return inside_.fields(); }
    [[nodiscard]] std::string name() const { return inside_.name(); }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        if (before_gather) before_gather(samples);
        inside_.gather(samples, out);
    }
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                    std::span<std::uint64_t> out) const {
        if (before_lengths) before_lengths(samples);
        inside_.row_counts(k, samples, out);
    }
    hook before_gather{}, before_lengths{};

private:
    S inside_;
};

struct pad_rows {
    cuota::device_span<std::uint32_t const> words;
    cuota::device_span<std::uint64_t const> offsets;
    cuota::device_span<std::uint32_t> padded;
    std::size_t width;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const {
        std::size_t const row = i / width, column = i % width;
        bool const is_there = column < offsets[row + 1] - offsets[row];
        padded[i] = is_there ? words[offsets[row] + column] : ~0U;
    }
};

}  // namespace

TEST_CASE("batches of ragged samples have their rows and row offsets", "[data][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(300, 30);
    loader_options how{.batch_size = 16, .max_rows = 200, .seed = 4};
    std::vector<numbers> first;
    for (std::size_t const workers : {1U, 2U, 4U}) {
        how.workers = workers;
        batch_loader loader{texts.classed(), how};
        for (std::uint64_t epoch = 0; epoch != 3; ++epoch) {
            std::vector<numbers> const now = batches_of(texts, loader.epoch(epoch));
            numbers order(300);
            cuota::shuffle_sampler{4}.draw(300, epoch, 0, order);
            REQUIRE(joined(now) == order);
            if (epoch == 0 && first.empty()) first = now;
            if (epoch == 0) REQUIRE(now == first);  // the same batches for any number of workers
        }
    }
    CHECK(std::ranges::any_of(first, [](numbers const& b) { return b.size() == 16; }));  // both limits occur
    CHECK(std::ranges::any_of(first, [](numbers const& b) { return b.size() < 14; }));
}

TEST_CASE("a batch may have no rows, and an epoch no samples", "[data][ragged]") {
    machine const on;
    ragged_texts const empty{numbers(9, 0)};
    batch_loader loader{empty.classed(), {.batch_size = 4, .max_rows = 1}};
    CHECK(batches_of(empty, loader.epoch(0)) == std::vector<numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8}});

    ragged_texts const none{{}};
    batch_loader of_none{none.words(), {.batch_size = 4, .max_rows = 1}};
    for (std::uint64_t epoch = 0; epoch != 2; ++epoch) CHECK(!of_none.epoch(epoch).next());
}

TEST_CASE("an epoch by rows resumes where it stopped, with any number of workers", "[data][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(40, 9);
    for (last_batch_policy const last :
         {last_batch_policy::partial, last_batch_policy::drop, last_batch_policy::pad}) {
        loader_options how{.batch_size = 6, .max_rows = 20, .seed = 7, .last_batch = last};
        batch_loader reference{texts.classed(), how};
        std::vector<numbers> const whole = batches_of(texts, reference.epoch(2));
        for (std::size_t delivered = 0; delivered <= whole.size(); ++delivered) {
            how.workers = 1 + delivered % 3;
            loader_state saved;
            {
                batch_loader loader{texts.classed(), how};
                auto epoch = loader.epoch(2);
                for (std::size_t i = 0; i != delivered; ++i) (void)epoch.next();
                saved = loader.state();
            }
            how.workers = 1 + (delivered + 1) % 3;
            batch_loader loader{texts.classed(), how};
            std::vector<numbers> const rest(whole.begin() + static_cast<std::ptrdiff_t>(delivered),
                                            whole.end());
            REQUIRE(batches_of(texts, loader.epoch(saved)) == rest);
            REQUIRE(batches_of(texts, loader.epoch(2)) == whole);
        }
    }
}

TEST_CASE("processes that share an epoch by rows have equally many batches in the same order",
          "[data][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(50, 9);
    numbers order(50);
    cuota::shuffle_sampler{3}.draw(50, 1, 0, order);
    for (std::uint64_t world = 1; world <= 4; ++world) {
        std::vector<std::vector<numbers>> ranks;
        loader_state after_two;
        for (std::uint64_t rank = 0; rank != world; ++rank) {
            batch_loader loader{
                texts.classed(),
                {.batch_size = 5, .max_rows = 18, .seed = 3, .shard = {rank, world}, .workers = 2}};
            ranks.push_back(batches_of(texts, loader.epoch(1)));
            REQUIRE(ranks[rank].size() == ranks[0].size());
            auto again = loader.epoch(1);
            (void)again.next();
            (void)again.next();
            if (rank != 0) REQUIRE(loader.state() == after_two);
            after_two = loader.state();
        }
        numbers all;
        numbers two;
        for (std::size_t step = 0; step != ranks[0].size(); ++step) {
            if (step == 2) two = all;
            for (auto const& mine : ranks) all.insert(all.end(), mine[step].begin(), mine[step].end());
        }
        CHECK(all == order);
        batch_loader alone{texts.classed(), {.batch_size = 7, .max_rows = 30, .seed = 3}};  // resumes alone
        numbers const rest = joined(batches_of(texts, alone.epoch(after_two)));
        two.insert(two.end(), rest.begin(), rest.end());
        CHECK(two == order);
    }
}

TEST_CASE("an epoch by rows ends at the samples that it drops, without waiting", "[data][ragged]") {
    machine const on;
    ragged_texts const texts{{3, 3, 3, 3, 3}};
    for (std::size_t const workers : {1U, 3U}) {
        batch_loader loader{
            texts.classed(),
            {.batch_size = 2, .max_rows = 9, .last_batch = last_batch_policy::drop, .workers = workers}};
        for (std::uint64_t epoch = 0; epoch != 20; ++epoch) {
            CHECK(batches_of(texts, loader.epoch(epoch)) == std::vector<numbers>{{0, 1}, {2, 3}});
            CHECK(loader.state().position == 4);
        }
    }
    batch_loader nothing{texts.classed(),
                         {.batch_size = 8, .max_rows = 99, .last_batch = last_batch_policy::drop}};
    CHECK(!nothing.epoch(0).next());
}

TEST_CASE("an epoch can be resumed after a sample that is too long", "[data][ragged]") {
    machine const on;
    ragged_texts const texts{{4, 4, 4, 11, 1, 1}};
    batch_loader loader{texts.classed(), {.batch_size = 2, .max_rows = 10, .workers = 3}};
    {
        auto epoch = loader.epoch(0);
        CHECK_THROWS_AS(
            [&] {
                while (epoch.next()) {}
            }(),
            cuota::sample_too_long_error);
    }
    loader_state past = loader.state();
    CHECK(past.position == 3);
    past.position = 4;
    CHECK(batches_of(texts, loader.epoch(past)) == std::vector<numbers>{{4, 5}});
}

TEST_CASE("exceptions of row_counts and gather are thrown in place of the batch", "[data][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(60, 9);
    auto const fails_at = [](std::uint64_t sample) {
        return [sample](std::span<std::uint64_t const> samples) {
            if (std::ranges::find(samples, sample) != samples.end()) throw std::runtime_error{"torn"};
        };
    };
    bool const in_lengths = GENERATE(false, true);
    watched_source from{texts.classed()};
    (in_lengths ? from.before_lengths : from.before_gather) = fails_at(40);
    for (std::size_t const workers : {1U, 2U, 4U}) {
        batch_loader loader{from, {.batch_size = 5, .max_rows = 30, .workers = workers}};
        for (std::uint64_t number = 0; number != 4; ++number) {
            cuota::stream const s;
            auto epoch = loader.epoch(number);
            numbers before;
            auto const error = thrown<std::runtime_error>([&] {
                while (std::optional<cuota::batch> const b = epoch.next()) {
                    numbers const now = expect_texts(texts, s, *b);
                    before.insert(before.end(), now.begin(), now.end());
                }
            });
            CHECK(std::string{error.what()} == "torn");
            CHECK(before == support::first_samples(before.size()));
            CHECK(before.size() <= 40);
            CHECK(before.size() > 20);
        }
    }
}

TEST_CASE("an epoch by rows can be left at any point", "[data][ragged]") {
    machine on;
    ragged_texts const texts = ragged_texts::any(80, 9);
    watched_source from{texts.classed()};
    auto const asked = std::make_shared<std::atomic<std::uint64_t>>(0);
    from.before_lengths = [asked](auto) {
        if (asked->fetch_add(1) % 50 == 49) throw std::runtime_error{"a worker's"};
    };
    batch_loader loader{from, {.batch_size = 5, .max_rows = 25, .seed = 1, .workers = 3}};
    std::uint64_t failures = 0;
    for (std::uint64_t number = 0; number != 150; ++number) {
        cuota::stream const s;
        try {
            for (cuota::batch b : loader.epoch(number)) {
                (void)expect_texts(texts, s, b);
                if (b.index() == number % 14) break;
            }
        } catch (std::runtime_error const&) { ++failures; }
    }
    CHECK(failures != 0);
    loader.close();
    for (std::string const& text : on.errors.take()) CHECK(text == "a worker's");  // of abandoned epochs
}

TEST_CASE("only the bytes of a slot that a batch uses are copied to the device", "[data][ragged]") {
    machine const on;
    ragged_texts const texts{{40, 3, 0, 1}};
    ragged_texts const answers{{1, 2, 3, 40}};
    cuota::zip_dataset const from{texts.words(), answers.words(), numbered_source{4, 100}};
    batch_loader loader{from, {.batch_size = 3, .max_rows = 64}};
    CHECK(loader.plan().host_slot.bytes == 2 * 256 + 256 + 256 + 1280 + 256);
    cuota::stream const s;
    auto epoch = loader.epoch(0);
    auto const b = epoch.next();
    CHECK(b->size() == 3);
    CHECK(seen(s, b->view<std::uint32_t>(s, 1).span()) == answers.words_of({0, 1, 2}));
    CHECK(b->row_offsets(1)[3] == 6);
    auto const last = epoch.next();
    CHECK(seen(s, last->view<std::uint32_t>(s, 1).span()) == answers.words_of({3}));
    CHECK(!epoch.next());
    std::size_t const first_bytes = 2 * 256 + 256 + 256 + 1280 + 24;
    std::size_t const last_bytes = 2 * 256 + 256 + 256 + 512 + 8;
    CHECK(loader.stats().bytes == first_bytes + last_bytes);
}

TEST_CASE("a loader by rows does not allocate while it loads", "[data][ragged]") {
    machine const on;
    cuota::stream const s;
    ragged_texts const texts = ragged_texts::any(400, 40);
    batch_loader loader{texts.classed(),
                        {.batch_size = 16, .max_rows = 256, .seed = 1, .shard = {1, 2}, .workers = 2}};
    auto const run = [&](std::uint64_t number) {
        std::size_t rows = 0;
        auto epoch = loader.epoch(number);
        while (auto const b = epoch.next()) {
            (void)b->view<std::uint32_t>(s);
            rows += b->row_offsets(s).size();
        }
        return rows;
    };
    auto const allocations = sim::allocation_calls();
    (void)run(0);
    CHECK(run(1) > 50);
    CHECK(sim::allocation_calls() == allocations);
    CHECK(sim::calls("cudaDeviceSynchronize") == 0);
}

// ---- plan ----

TEST_CASE("a loader by rows allocates exactly its plan, and its refusals count rows", "[data][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(500, 20);
    loader_options how{.batch_size = 32, .max_rows = 1000};
    cuota::loader_plan const planned = cuota::plan_loader(texts.classed(), how);
    CHECK(planned.max_rows == 1000);
    CHECK(planned.batch_size == 32);
    CHECK(!planned.batches);
    CHECK(planned.host_slot.row_bytes == 4);
    CHECK(planned.host_slot.sample_bytes == 8 + 2);
    CHECK(planned.host_slot.bytes == 512 + 4096 + 256);
    cuota::budget const device{"device", planned.device_bytes};
    cuota::budget const pinned{"pinned", planned.pinned_bytes};
    how.device_budget = device;
    how.pinned_budget = pinned;
    {
        batch_loader loader{texts.classed(), how};
        CHECK(device.held() == planned.device_bytes);
        CHECK(pinned.held() == planned.pinned_bytes);
        CHECK(joined(batches_of(texts, loader.epoch(0))).size() == 500);
        CHECK(!loader.stats().total_batches);
        CHECK(loader.stats().covered == 1);
    }
    how.max_rows = 1500;
    auto const refused = thrown<cuota::budget_exceeded>([&] { batch_loader{texts.classed(), how}; });
    CHECK(has(refused.what(), "rows in a batch"));
    std::size_t const fits = refused.info().max_fit_count();
    CHECK(fits == 1024);  // fields are aligned to 256 bytes
    how.max_rows = fits;
    CHECK_NOTHROW(batch_loader{texts.classed(), how});
    how.max_rows = fits + 1;
    CHECK_THROWS_AS((batch_loader{texts.classed(), how}), cuota::budget_exceeded);

    how.max_rows = cuota::automatic_rows;
    batch_loader loader{texts.classed(), how};
    CHECK(loader.plan().max_rows == fits);
    CHECK(joined(batches_of(texts, loader.epoch(0))).size() == 500);
}

TEST_CASE("a loader with a fixed number of rows can choose the number of samples automatically",
          "[data][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(500, 20);
    cuota::budget const device{"device", 2 * (256 + 256 + 512)};
    batch_loader loader{texts.classed(),
                        {.batch_size = cuota::automatic_batch, .max_rows = 128, .device_budget = device}};
    CHECK(loader.plan().batch_size == 31);  // 32 offsets fill 256 bytes
    CHECK(joined(batches_of(texts, loader.epoch(0))).size() == 500);
}

TEST_CASE("invalid options for batches by rows are refused", "[data][ragged]") {
    ragged_texts const texts{{3, 2}};
    auto const why = [&](loader_options const& how) {
        return std::string{
            thrown<cuota::usage_error>([&] { (void)cuota::plan_loader(texts.classed(), how); }).what()};
    };
    CHECK(
        has(why({.batch_size = 4}), "loader of words + class: field words u32[*] is ragged; set `max_rows`"));
    CHECK(has(why({.batch_size = 4, .max_rows = cuota::automatic_rows}),
              "an automatic batch size requires a budget"));
    CHECK(has(why({.batch_size = cuota::automatic_batch, .max_rows = cuota::automatic_rows}),
              "automatic_batch and automatic_rows cannot be combined; set one explicitly"));
    CHECK(has(why({.batch_size = 4, .max_rows = ~std::size_t{0} / 3}), "larger than any address space"));
    CHECK(has(thrown<cuota::usage_error>([] {
                  (void)cuota::plan_loader(numbered_source{4}, {.batch_size = 2, .max_rows = 9});
              }).what(),
              "loader of numbers: batches of at most 9 rows require a ragged field"));
    CHECK(has(why({.batch_size = 2,
                   .max_rows = 9,
                   .transform = cuota::device_transform{{{"x", cuota::element_type::u8, {}, true}},
                                                        [](auto const&) {}}}),
              "output of a device_transform: ragged fields are not supported: x u8[*]"));
    CHECK(has(why({.batch_size = 2,
                   .max_rows = 9,
                   .transform =
                       cuota::device_transform{
                           {{"x"}}, [](auto const&) {}, {}, {{"y", cuota::element_type::u8, {}, true}}}}),
              "scratch of a device_transform: ragged fields are not supported: y u8[*]"));
}

TEST_CASE("a ragged field of a dataset without row_counts is refused", "[data][ragged]") {
    struct without_lengths {
        [[nodiscard]] std::uint64_t size() const { return 1; }
        [[nodiscard]] std::span<cuota::field const> fields() const { return {&one, 1}; }
        [[nodiscard]] std::string name() const { return "mute"; }
        void gather(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>) const {}
        cuota::field one{"x", cuota::element_type::u8, {}, true};
    };
    machine const on;
    CHECK(has(thrown<cuota::usage_error>([] {
                  batch_loader{without_lengths{}, {.batch_size = 1, .max_rows = 1}};
              }).what(),
              "mute: field x u8[*] is ragged, but the dataset has no row_counts()"));
}

TEST_CASE("row offsets require a ragged field of a batch that is alive", "[data][ragged]") {
    machine const on;
    cuota::stream const s;
    ragged_texts const texts{{3, 2}};
    batch_loader loader{texts.classed(), {.batch_size = 4, .max_rows = 9}};
    auto epoch = loader.epoch(0);
    auto b = epoch.next();
    CHECK(has(thrown<cuota::usage_error>([&] { (void)b->row_offsets(s, 1); }).what(),
              "cannot return row offsets: field class u16 of a batch is not ragged"));
    CHECK_THROWS_AS(b->row_offsets(1), cuota::usage_error);
    CHECK_THROWS_AS(b->row_offsets(2), cuota::usage_error);
    CHECK_THROWS_AS(b->row_offsets(cudaStreamLegacy, 0), cuota::usage_error);
    cuota::batch const taken = std::move(*b);
    CHECK_THROWS_AS(b->row_offsets(0), cuota::usage_error);
    CHECK(taken.row_offsets(0).size() == 3);
}

// ---- on the device ----

TEST_CASE("a transform can convert ragged fields into fields of a fixed shape", "[data][ragged]") {
    machine const on;
    cuota::stream const s;
    ragged_texts const texts = ragged_texts::any(70, 8);
    constexpr std::size_t width = 8;
    std::atomic<int> refused = 0;  // workers assert nothing: Catch2 is for one thread
    cuota::device_transform const padded{
        {{"padded", cuota::element_type::u32, {width}}}, [&](cuota::transform_context const& job) {
            try {
                (void)job.row_offsets(1);
            } catch (cuota::usage_error const&) { ++refused; }
            cuota::for_each_index(
                job.stream(), job.size() * width,
                pad_rows{job.in<std::uint32_t>(0), job.row_offsets(0), job.out<std::uint32_t>(), width});
        }};
    batch_loader loader{texts.classed(),
                        {.batch_size = 9, .max_rows = 40, .seed = 2, .workers = 2, .transform = padded}};
    std::size_t samples = 0;
    int batches = 0;
    for (cuota::batch const b : loader.epoch(0)) {
        ++batches;
        std::vector<std::uint32_t> expected;
        for (std::uint64_t const sample : b.samples()) {
            std::vector<std::uint32_t> row = texts.words_of({sample});
            row.resize(width, ~0U);
            expected.insert(expected.end(), row.begin(), row.end());
        }
        REQUIRE(seen(s, b.view<std::uint32_t>(s).span()) == expected);
        CHECK_THROWS_AS(b.row_offsets(0), cuota::usage_error);  // has one shape now
        samples += b.size();
    }
    CHECK(samples == 70);
    CHECK(refused == batches);
}

TEST_CASE("ragged data is streamed, and not stored on the device", "[data][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(30, 8);
    cuota::budget const device{"device", 1 << 20};
    loader_options const how{.batch_size = 4, .max_rows = 40, .device_budget = device};
    CHECK(has(thrown<cuota::usage_error>([&] {
                  cuota::device_resident_dataset{texts.classed(), how};
              }).what(),
              "device_resident_dataset of words + class: ragged fields are not supported: words u32[*]"));
    cuota::cached_loader cached = cuota::cached_on_device(texts.classed(), how);
    CHECK(cached.cached_bytes == 0);
    CHECK(joined(batches_of(texts, cached.loader.epoch(0))).size() == 30);
}

TEST_CASE("row_counts of a dataset may charge the loader's budget after the epoch has been left",
          "[data][batch_loader][ragged]") {
    machine const on;
    ragged_texts const texts = ragged_texts::any(40, 9);
    watched_source watched{texts.classed()};
    cuota::budget all{"all", 1 << 20};
    std::latch entered{1}, left{1};
    std::atomic<bool> is_first = false, was_refused = false;
    watched.before_lengths = [&](std::span<std::uint64_t const>) {
        if (!is_first.exchange(false)) return;
        entered.count_down();
        left.wait();
        try {
            all.charge(all.limit());
            all.refund(all.limit());
        } catch (cuota::budget_exceeded const&) { was_refused = true; }
    };
    batch_loader loader{watched,
                        {.batch_size = 4,
                         .max_rows = 40,
                         .device_budget = all,
                         .pinned_budget = all,
                         .workers = 1,
                         .reclaim_priority = 0}};
    is_first = true;
    {
        auto const epoch = loader.epoch(0);
        entered.wait();
    }
    left.count_down();
    // The worker uses the ring until its call has returned; then the loader's memory can be reclaimed.
    for (bool is_charged = false; !is_charged;) try {
            all.charge(all.limit());
            is_charged = true;
        } catch (cuota::budget_exceeded const&) { std::this_thread::yield(); }
    all.refund(all.limit());
    CHECK(was_refused);
    CHECK(joined(batches_of(texts, loader.epoch(0))).size() == 40);
}
