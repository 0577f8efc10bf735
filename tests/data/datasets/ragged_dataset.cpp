// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/ragged_dataset.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/data/datasets/concat_dataset.hpp>
#include <cuota/data/datasets/converted_dataset.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/datasets/subset_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/ragged_texts.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using cuota::element_type;
using cuota::memory_dataset;
using cuota::ragged_dataset;
using support::mentions;
using support::ragged_texts;
using support::thrown;
using numbers = std::vector<std::uint64_t>;

namespace {

template <class S>
numbers lengths_of(S const& from, std::size_t k, numbers const& samples) {
    numbers out(samples.size());
    from.row_counts(k, samples, out);
    return out;
}
template <class T, class S>
std::vector<T> rows_of(S const& from, std::size_t k, numbers const& samples) {
    std::span<cuota::field const> const fields = from.fields();
    std::vector<std::vector<std::byte>> memory;
    for (std::size_t f = 0; f != fields.size(); ++f) {
        std::uint64_t count = samples.size();
        if (fields[f].is_ragged) count = cuota::detail::rows_of(from, f, samples);
        memory.emplace_back(static_cast<std::size_t>(count) * fields[f].bytes());
    }
    std::vector<std::span<std::byte>> const out{memory.begin(), memory.end()};
    from.gather(samples, out);
    std::vector<T> rows(memory[k].size() / sizeof(T));
    if (!rows.empty()) std::memcpy(rows.data(), memory[k].data(), memory[k].size());
    return rows;
}
template <class Error, class F>
std::string why(F f) {
    return thrown<Error>(f).what();
}
memory_dataset words(std::size_t n) { return {"words", std::vector<std::uint16_t>(n)}; }

static_assert(cuota::dataset<ragged_dataset<memory_dataset>>);
static_assert(cuota::detail::has_row_counts<ragged_dataset<memory_dataset>>);
static_assert(!cuota::detail::has_row_counts<memory_dataset>);
static_assert(!cuota::detail::has_row_counts<cuota::subset_dataset<memory_dataset>>);
static_assert(!cuota::detail::has_row_counts<cuota::zip_dataset<memory_dataset, memory_dataset>>);

}  // namespace

TEST_CASE("samples of a ragged_dataset have any number of rows, including 0", "[data][ragged_dataset]") {
    ragged_texts const texts{{3, 0, 5, 1, 0}};
    auto const from = texts.words();
    CHECK(from.size() == 5);
    CHECK(from.name() == "words");
    CHECK(cuota::field_text(from.fields()[0]) == "words u32[*]");
    CHECK(lengths_of(from, 0, {0, 1, 2, 3, 4, 2}) == numbers{3, 0, 5, 1, 0, 5});
    for (numbers const& samples :
         {numbers{0, 1, 2, 3, 4}, numbers{2}, numbers{4, 2, 2, 0}, numbers{1, 4}, numbers{}})
        CHECK(rows_of<std::uint32_t>(from, 0, samples) == texts.words_of(samples));
}

TEST_CASE("ragged_dataset reads any mixture of runs, also more rows than it reads at once",
          "[data][ragged_dataset]") {
    ragged_texts const texts = ragged_texts::any(300, 9000);
    auto const from = texts.words();
    numbers samples = support::first_samples(300);
    CHECK(rows_of<std::uint32_t>(from, 0, samples) == texts.words_of(samples));
    for (std::size_t i = 0; i != samples.size(); ++i) samples[i] = i * 7 % 300;
    CHECK(rows_of<std::uint32_t>(from, 0, samples) == texts.words_of(samples));
}

TEST_CASE("all fields of the rows of a ragged_dataset are ragged, for rows of any shape",
          "[data][ragged_dataset]") {
    cuota::zip_dataset const rows{memory_dataset{"frames", std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {2}},
                                  memory_dataset{"mask", std::vector<std::uint8_t>{9, 8, 7, 6}}};
    ragged_dataset const from{rows, numbers{0, 1, 4}};
    CHECK(cuota::fields_text(from.fields()) == "frames f32[*, 2], mask u8[*]");
    CHECK(rows_of<float>(from, 0, {1}) == std::vector<float>{2, 3, 4, 5, 6, 7});
    CHECK(rows_of<std::uint8_t>(from, 1, {1, 0}) == std::vector<std::uint8_t>{8, 7, 6, 9});
    CHECK(lengths_of(from, 0, {1}) == lengths_of(from, 1, {1}));
}

TEST_CASE("offsets can be a dataset of integers of any type", "[data][ragged_dataset]") {
    auto const with = [](auto zero) {
        using T = decltype(zero);
        return ragged_dataset{words(100), memory_dataset{"offsets", std::vector<T>{0, 40, 40, 99}}};
    };
    numbers const expected{40, 0, 59};
    CHECK(lengths_of(with(std::uint8_t{}), 0, {0, 1, 2}) == expected);
    CHECK(lengths_of(with(std::int8_t{}), 0, {0, 1, 2}) == expected);
    CHECK(lengths_of(with(std::int16_t{}), 0, {0, 1, 2}) == expected);
    CHECK(lengths_of(with(std::uint16_t{}), 0, {0, 1, 2}) == expected);
    CHECK(lengths_of(with(std::int32_t{}), 0, {0, 1, 2}) == expected);
    CHECK(lengths_of(with(std::uint32_t{}), 0, {0, 1, 2}) == expected);
    CHECK(lengths_of(with(std::int64_t{}), 0, {0, 1, 2}) == expected);
    CHECK(lengths_of(with(std::uint64_t{}), 0, {0, 1, 2}) == expected);

    std::vector<std::int32_t> many(10'000);
    for (std::size_t i = 0; i != many.size(); ++i) many[i] = static_cast<std::int32_t>(i / 100);
    ragged_dataset const from{words(100), memory_dataset{"offsets", many}};
    CHECK(from.size() == 9'999);
    CHECK(lengths_of(from, 0, {9'899, 9'900, 99, 4'099}) == numbers{1, 0, 1, 1});
}

TEST_CASE("invalid offsets are refused", "[data][ragged_dataset]") {
    auto const by_hand = [](numbers const& offsets) {
        return why<cuota::usage_error>([&] { ragged_dataset{words(10), offsets}; });
    };
    CHECK(mentions(by_hand({}), "words: no offsets; N samples need N + 1 offsets"));
    CHECK(mentions(by_hand({0, 5, 4, 9}), "words: offset 2 is 4, below the previous one"));
    CHECK(mentions(by_hand({0, 11}), "words: the last offset is 11, beyond the 10 rows"));
    CHECK_NOTHROW(ragged_dataset{words(10), numbers{10}});    // no samples
    CHECK_NOTHROW(ragged_dataset{words(10), numbers{3, 7}});  // some rows belong to no sample

    auto const from_a_file = [](auto offsets) {
        return why<cuota::data_error>([&] { ragged_dataset{words(10), memory_dataset{"offsets", offsets}}; });
    };
    CHECK(mentions(from_a_file(std::vector<std::int64_t>{0, 3, -1}),
                   "offsets: at byte 0: offset 2 is -1, below 0"));
    CHECK(mentions(from_a_file(std::vector<std::int64_t>{0, 3, 2}),
                   "offsets: at byte 0: offset 2 is 2, below the previous one (offsets of words)"));
    CHECK(mentions(from_a_file(std::vector<std::uint8_t>{200}),
                   "the last offset is 200, beyond the 10 rows (offsets of words)"));
    CHECK(mentions(why<cuota::usage_error>([] {
                       ragged_dataset{words(10), memory_dataset{"offsets", std::vector<float>{0}}};
                   }),
                   "offsets: cannot use offsets f32 as offsets; offsets must be integers"));
    CHECK(mentions(why<cuota::usage_error>([] {
                       ragged_dataset{words(10), memory_dataset{"offsets", std::vector<int>{0, 1}, {2}}};
                   }),
                   "offsets: cannot use offsets i32[2] as offsets; offsets must be one integer each"));
    CHECK(mentions(why<cuota::usage_error>([] {
                       ragged_dataset{ragged_dataset{words(10), numbers{0, 1}}, numbers{0, 1}};
                   }),
                   "rows of ragged_dataset words: ragged fields are not supported: words u16[*]"));
}

TEST_CASE("requests to a ragged_dataset are checked before anything is read", "[data][ragged_dataset]") {
    ragged_texts const texts{{3, 2}};
    auto const from = texts.words();
    std::vector<std::byte> memory(20);
    auto const gather = [&](numbers const& samples, std::size_t bytes) {
        std::span<std::byte> const out[] = {std::span{memory}.first(bytes)};
        from.gather(samples, out);
    };
    CHECK_NOTHROW(gather({0, 1}, 20));
    CHECK(mentions(why<cuota::usage_error>([&] {
                       gather({0, 1}, 16);
                   }),
                   "words: gather: 2 samples of words u32[*] take 20 bytes, the output has 16"));
    CHECK(mentions(why<cuota::usage_error>([&] { gather({2}, 4); }),
                   "gather: sample 2 is out of range: the dataset has 2 samples"));
    CHECK(mentions(why<cuota::usage_error>([&] { (void)lengths_of(from, 0, {2}); }),
                   "words: cannot return the length of sample 2: the dataset has 2 samples"));
    CHECK(mentions(why<cuota::usage_error>([&] { (void)lengths_of(from, 1, {0}); }),
                   "words: cannot return lengths: field 1 is not ragged"));
    numbers room(3);
    CHECK(mentions(why<cuota::usage_error>([&] { from.row_counts(0, numbers{0}, room); }),
                   "cannot return lengths of 1 sample: the output has 3"));
    CHECK(mentions(why<cuota::usage_error>([&] { (void)lengths_of(texts.classed(), 1, {0}); }),
                   "words + class: cannot return lengths: field 1 is not ragged"));
}

TEST_CASE("datasets that contain ragged datasets are ragged", "[data][ragged_dataset]") {
    ragged_texts const texts = ragged_texts::any(50, 20);
    numbers const samples{3, 4, 5, 40, 0, 12, 11};
    SECTION("a subset") {
        cuota::subset_dataset const part{texts.words(), 9, 41};
        numbers of_part = samples;
        for (std::uint64_t& s : of_part) s = s < 9 ? 0 : s - 9;
        numbers whole = of_part;
        for (std::uint64_t& s : whole) s += 9;
        CHECK(rows_of<std::uint32_t>(part, 0, of_part) == texts.words_of(whole));
        CHECK_THROWS_AS(lengths_of(part, 0, {41}), cuota::usage_error);
    }
    SECTION("a zip of datasets with different row counts") {
        ragged_texts const answers = ragged_texts::any(50, 7, 2);
        cuota::zip_dataset const both{texts.classed(), answers.words()};
        CHECK(cuota::fields_text(both.fields()) == "words u32[*], class u16, words u32[*]");
        CHECK(rows_of<std::uint32_t>(both, 0, samples) == texts.words_of(samples));
        CHECK(rows_of<std::uint32_t>(both, 2, samples) == answers.words_of(samples));
        CHECK(rows_of<std::uint16_t>(both, 1, samples) ==
              std::vector<std::uint16_t>{9, 12, 15, 120, 0, 36, 33});
        CHECK_THROWS_AS(lengths_of(both, 1, {0}), cuota::usage_error);
        CHECK_THROWS_AS(lengths_of(both, 3, {0}), cuota::usage_error);
    }
    SECTION("a concatenation") {
        cuota::concat_dataset const all{texts.words(), texts.words(), texts.words()};
        numbers asked, plain;
        for (std::uint64_t i = 0; i != 150; ++i) {
            asked.push_back(i * 7 % 150);
            plain.push_back(i * 7 % 150 % 50);
        }
        CHECK(rows_of<std::uint32_t>(all, 0, asked) == texts.words_of(plain));
        cuota::concat_dataset const mixed{texts.classed(), texts.classed()};
        CHECK(rows_of<std::uint32_t>(mixed, 0, {60, 1}) == texts.words_of({10, 1}));
        CHECK(rows_of<std::uint16_t>(mixed, 1, {60, 1}) == std::vector<std::uint16_t>{30, 3});
        CHECK_THROWS_AS(lengths_of(mixed, 1, {0}), cuota::usage_error);
        CHECK(mentions(
            why<cuota::usage_error>([&] {
                cuota::concat_dataset{texts.words(), memory_dataset{"words", std::vector<std::uint32_t>{1}}};
            }),
            "concat_dataset: the datasets have different fields: words has words u32; words has words "
            "u32[*]"));
        cuota::concat_dataset const plain_ones{words(3), words(4)};
        CHECK_THROWS_AS(lengths_of(plain_ones, 0, {0}), cuota::usage_error);
    }
}

TEST_CASE("datasets that do not support ragged fields refuse them", "[data][ragged_dataset]") {
    ragged_texts const texts{{3, 2}};
    CHECK(mentions(why<cuota::usage_error>([&] {
                       cuota::converted_dataset{texts.words(), {{"words", element_type::f16}}};
                   }),
                   "converted_dataset of words: ragged fields are not supported: words u32[*]"));
    CHECK(
        mentions(why<cuota::usage_error>([&] {
                     cuota::callable_dataset{"f", 3, {{"x", element_type::u8, {}, true}}, [](auto, auto) {}};
                 }),
                 "f: callable_dataset: ragged fields are not supported: x u8[*]"));
    support::temp_folder const folder;
    CHECK(mentions(
        why<cuota::usage_error>([&] {
            cuota::raw_dataset{folder.write("x", "abc"), {.fields = {{"x", element_type::u8, {}, true}}}};
        }),
        "x: raw_dataset: ragged fields are not supported: x u8[*]"));
}

TEST_CASE("ragged_dataset gathers without allocating", "[data][ragged_dataset]") {
    ragged_texts const texts = ragged_texts::any(64, 500);
    auto const from = texts.words();
    numbers const samples = support::first_samples(64);
    std::vector<std::uint32_t> words(texts.words_of(samples).size());
    std::span<std::byte> const out[] = {std::as_writable_bytes(std::span{words})};
    support::heap_watch const watch;
    from.gather(samples, out);
    std::size_t const allocations = watch.allocations();
    CHECK(allocations == 0);
    CHECK(words == texts.all_words());
}

TEST_CASE("an error while rows are read names the file of the rows", "[data][ragged_dataset]") {
    support::temp_folder const folder;
    cuota::raw_dataset const rows{folder.write("rows", support::pattern(100)), {.fields = {{"x"}}}};
    ragged_dataset const from{rows, numbers{0, 10, 90}};
    REQUIRE(::truncate(folder.path("rows").c_str(), 50) == 0);
    CHECK(rows_of<std::uint8_t>(from, 0, {0}).size() == 10);
    auto const error = thrown<cuota::data_error>([&] { (void)rows_of<std::uint8_t>(from, 0, {0, 1}); });
    CHECK(error.file() == folder.path("rows"));
    CHECK(error.offset() == 50);
}

TEST_CASE("gather_runs reads the same samples as gather", "[data][dataset]") {
    support::temp_folder const folder;
    cuota::raw_layout const two{.header = 3, .fields = {{"a"}, {"b", element_type::u16, {3}}}};
    cuota::raw_dataset const one_field{folder.write("one", support::pattern(3 + 5 * 80)),
                                       {.header = 3, .fields = {{"x", element_type::u8, {5}}}}};
    cuota::raw_dataset const two_fields{folder.write("two", support::pattern(3 + 7 * 80)), two};
    memory_dataset const in_memory{"m", std::vector<std::uint16_t>(240, 3), {3}};
    std::vector<cuota::sample_run> const runs{{3, 4}, {7, 1}, {79, 1}, {0, 0}, {80, 0}, {10, 60}};
    numbers samples;
    for (auto const [first, count] : runs)
        for (std::size_t i = 0; i != count; ++i) samples.push_back(first + i);
    auto const expect_same = [&](auto const& from) {
        std::vector<std::string> memory;
        for (cuota::field const& f : std::span<cuota::field const>{from.fields()})
            memory.emplace_back(f.bytes() * samples.size(), '\0');
        std::vector<std::span<std::byte>> out;
        for (std::string& m : memory) out.push_back(std::as_writable_bytes(std::span{m}));
        from.gather_runs(runs, out);
        CHECK(memory == support::gathered(from, samples));
    };
    expect_same(one_field);
    expect_same(two_fields);
    expect_same(in_memory);
    expect_same(cuota::zip_dataset{two_fields, in_memory});
    static_assert(!cuota::detail::reads_runs<
                  cuota::zip_dataset<memory_dataset, cuota::subset_dataset<memory_dataset>>>);

    auto const refused = [&](std::vector<cuota::sample_run> const& asked, std::size_t bytes) {
        std::vector<std::byte> room(bytes);
        std::span<std::byte> const out[] = {room};
        return why<cuota::usage_error>([&] { one_field.gather_runs(asked, out); });
    };
    CHECK(mentions(refused({{0, 2}, {79, 2}}, 20),
                   "gather: sample 80 is out of range: the dataset has 80 samples"));
    CHECK(mentions(refused({{~std::uint64_t{0}, 1}}, 5),
                   "gather: sample 18446744073709551615 is out of range"));
    CHECK(mentions(refused({{0, 2}, {70, 2}}, 19),
                   "gather: 4 samples of x u8[5] take 20 bytes, the output has 19"));
}

TEST_CASE("ragged_dataset reads rows by runs or by their numbers, whichever its dataset supports",
          "[data][ragged_dataset]") {
    ragged_texts const texts = ragged_texts::any(6000, 3);  // more runs than are read at once
    ragged_dataset const by_runs{memory_dataset{"words", texts.all_words()}, texts.offsets};
    ragged_dataset const by_numbers{
        cuota::subset_dataset{memory_dataset{"words", texts.all_words()}, 0, texts.offsets.back()},
        texts.offsets};
    numbers samples;
    for (std::uint64_t i = 0; i != 6000; ++i) samples.push_back(i * 77 % 6000);
    std::vector<std::uint32_t> const expected = texts.words_of(samples);
    CHECK(rows_of<std::uint32_t>(by_runs, 0, samples) == expected);
    CHECK(rows_of<std::uint32_t>(by_numbers, 0, samples) == expected);
}
