// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Files written by the Arrow and Parquet libraries, and damaged ones.
#include <cuota/data/datasets/arrow_dataset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#if __has_include(<parquet/arrow/reader.h>)
#include <parquet/arrow/writer.h>
#endif

#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using table = std::shared_ptr<arrow::Table>;
using cuota::arrow_dataset;
using support::mentions;
using names = std::vector<std::string>;

void ok(arrow::Status const& status) {
    if (!status.ok()) throw std::runtime_error{status.ToString()};
}
template <class T>
T value(arrow::Result<T> result) {
    ok(result.status());
    return std::move(result).ValueUnsafe();
}

/// Row i has the number i, a text of i letters, three floats, i % 4 words, and whether i is odd.
table rows_up_to(int n) {
    auto* const pool = arrow::default_memory_pool();
    arrow::Int64Builder number;
    arrow::StringBuilder text;
    auto const value_of_three = std::make_shared<arrow::FloatBuilder>();
    arrow::FixedSizeListBuilder three{pool, value_of_three, 3};
    auto const word = std::make_shared<arrow::Int32Builder>();
    arrow::ListBuilder words{pool, word};
    arrow::BooleanBuilder odd;
    for (int i = 0; i != n; ++i) {
        ok(number.Append(i));
        ok(text.Append(std::string(static_cast<std::size_t>(i), static_cast<char>('a' + i % 26))));
        ok(three.Append());
        for (int k = 0; k != 3; ++k) ok(value_of_three->Append(static_cast<float>(3 * i + k)));
        ok(words.Append());
        for (int k = 0; k != i % 4; ++k) ok(word->Append(1'000'000 + 10 * i + k));
        ok(odd.Append(i % 2 == 1));
    }
    std::vector<std::shared_ptr<arrow::Array>> const all{value(number.Finish()), value(text.Finish()),
                                                         value(three.Finish()), value(words.Finish()),
                                                         value(odd.Finish())};
    arrow::FieldVector fields;
    char const* const called[] = {"number", "text", "three", "words", "odd"};
    for (std::size_t k = 0; k != all.size(); ++k) fields.push_back(arrow::field(called[k], all[k]->type()));
    return arrow::Table::Make(arrow::schema(fields), all);
}
char const* const all_fields = "number i64, text u8[*], three f32[3], words i32[*], odd u8";

void write_ipc(std::string const& path, table const& all, std::int64_t batch = 64,
               arrow::Compression::type compression = arrow::Compression::UNCOMPRESSED) {
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    if (compression != arrow::Compression::UNCOMPRESSED)
        options.codec = value(arrow::util::Codec::Create(compression));
    auto const file = value(arrow::io::FileOutputStream::Open(path));
    auto const writer = value(arrow::ipc::MakeFileWriter(file, all->schema(), options));
    ok(writer->WriteTable(*all, batch));
    ok(writer->Close());
    ok(file->Close());
}
std::string content(std::string const& path) {
    std::ifstream in{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
}

std::vector<std::string> read(arrow_dataset const& from, std::vector<std::uint64_t> const& samples) {
    std::vector<std::string> memory;
    for (std::size_t k = 0; k != from.fields().size(); ++k) {
        cuota::field const& f = from.fields()[k];
        std::uint64_t const rows =
            f.is_ragged ? cuota::detail::rows_of(from, k, samples) : std::uint64_t{samples.size()};
        memory.emplace_back(static_cast<std::size_t>(rows) * f.bytes(), '?');
    }
    std::vector<std::span<std::byte>> out;
    for (std::string& m : memory) out.push_back(std::as_writable_bytes(std::span{m}));
    from.gather(samples, out);
    return memory;
}
/// Checks that `from` has the samples of a dataset of the table.
void expect_table(arrow_dataset const& from, table const& all, names const& columns = {}) {
    arrow_dataset const expected{all, columns};
    CHECK(cuota::fields_text(from.fields()) == cuota::fields_text(expected.fields()));
    REQUIRE(from.size() == expected.size());
    std::vector<std::uint64_t> samples = support::first_samples(from.size());
    CHECK(read(from, samples) == read(expected, samples));
    for (std::uint64_t& s : samples) s = s * 7 % from.size();
    CHECK(read(from, samples) == read(expected, samples));
}

template <class F>
cuota::data_error failure(F f) {
    return support::thrown<cuota::data_error>(f);
}
std::string why_not_ipc(std::string const& path, names const& columns = {}) {
    cuota::data_error const error = failure([&] { (void)arrow_dataset::from_ipc(path, columns); });
    CHECK(error.file() == path);
    CHECK(error.offset() == 0);
    return error.why();
}

}  // namespace

TEST_CASE("arrow_dataset reads an Arrow file as the table that it contains", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    table const all = rows_up_to(200);
    write_ipc(path, all);
    arrow_dataset const from = arrow_dataset::from_ipc(path);
    CHECK(from.name() == path);
    CHECK(cuota::fields_text(from.fields()) == all_fields);
    expect_table(from, all);
    expect_table(arrow_dataset::from_ipc(path, {"words", "number"}), all, {"words", "number"});

    write_ipc(path, all, 1000, arrow::Compression::LZ4_FRAME);
    expect_table(arrow_dataset::from_ipc(path), all);
    write_ipc(path, rows_up_to(0));
    CHECK(arrow_dataset::from_ipc(path, {"odd"}).size() == 0);
}

TEST_CASE("an Arrow file is mapped, not read", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    write_ipc(path, rows_up_to(2000));  // two million letters
    REQUIRE(content(path).size() > 2'000'000);
    std::int64_t const before = arrow::default_memory_pool()->bytes_allocated();
    arrow_dataset const from = arrow_dataset::from_ipc(path);
    CHECK(from.size() == 2000);
    CHECK(arrow::default_memory_pool()->bytes_allocated() - before < 100'000);
}

TEST_CASE("opening a file that Arrow cannot read throws data_error", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    CHECK(mentions(why_not_ipc(folder.path("none")), "No such file"));
    CHECK(!why_not_ipc(folder.path()).empty());
    CHECK(!why_not_ipc(folder.write("empty", "")).empty());
    CHECK(mentions(why_not_ipc(folder.write("text", support::pattern(500))), "Not an Arrow file"));
}

TEST_CASE("opening a file with invalid columns throws data_error", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    arrow::Int8Builder holed;
    ok(holed.AppendValues({1, 2, 3}));
    ok(holed.AppendNull());
    std::shared_ptr<arrow::Array> const null = value(holed.Finish());
    std::shared_ptr<arrow::Array> const date = value(arrow::MakeArrayOfNull(arrow::date32(), 4));
    write_ipc(
        path,
        arrow::Table::Make(arrow::schema({arrow::field("x", null->type()), arrow::field("d", date->type()),
                                          arrow::field("y", null->type())}),
                           arrow::ArrayVector{null, date, null->Slice(0, 4)}),
        2);
    CHECK(mentions(why_not_ipc(path, {"x"}), "column \"x\": row 3 is null"));
    CHECK(mentions(why_not_ipc(path), "column \"d\" is of type date32"));
    CHECK(mentions(why_not_ipc(path, {"z"}), "no column \"z\""));
    CHECK_THROWS_AS(arrow_dataset::from_ipc(path, {"x", "x"}), cuota::usage_error);
}

TEST_CASE("opening an Arrow file that is truncated at any byte throws data_error", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    write_ipc(path, rows_up_to(9), 4);
    std::string const whole = content(path);
    for (std::size_t n = 0; n < whole.size(); n += n < 100 || whole.size() - n < 100 ? 1 : 13) {
        CAPTURE(n);
        CHECK_THROWS_AS(arrow_dataset::from_ipc(folder.write("cut", whole.substr(0, n))), cuota::data_error);
    }
    CHECK_NOTHROW(arrow_dataset::from_ipc(folder.write("cut", whole)));
}

TEST_CASE("opening a file with invalid offsets throws data_error", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    write_ipc(path, rows_up_to(9));
    std::string const whole = content(path);
    std::vector<std::int32_t> offsets{0, 0, 1, 3, 6, 6, 7, 9, 12, 12};  // of the words
    std::size_t const at = whole.find(support::bytes_of(offsets));
    REQUIRE(at != std::string::npos);
    auto const refused_with = [&](std::size_t k, std::int32_t offset) {
        std::vector<std::int32_t> other = offsets;
        other[k] = offset;
        std::string changed = whole;
        changed.replace(at, 4 * other.size(), support::bytes_of(other));
        return why_not_ipc(folder.write("changed", changed));
    };
    CHECK(mentions(refused_with(4, 2), "words"));
    CHECK(mentions(refused_with(4, 2), "offset"));
    CHECK(mentions(refused_with(9, 13), "words"));
    CHECK(mentions(refused_with(9, 2'000'000'000), "words"));
    CHECK(mentions(refused_with(0, -1), "words"));
    CHECK_NOTHROW(arrow_dataset::from_ipc(folder.write("changed", whole)));
}

TEST_CASE("opening a file with an invalid string throws data_error", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    write_ipc(path, rows_up_to(9));
    std::string changed = content(path);
    changed.replace(changed.find("ccddd"), 2, "\xff\xff");
    CHECK(mentions(why_not_ipc(folder.write("changed", changed)), "column \"text\": Invalid"));
    CHECK_NOTHROW(arrow_dataset::from_ipc(folder.path("changed"), {"number", "words"}));
}

TEST_CASE("a file with any byte changed can be read or throws data_error", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    table const all = rows_up_to(9);
    write_ipc(path, all, 5);
    std::string const whole = content(path);
    std::size_t refused = 0, read_back = 0;
    for (std::size_t at = 0; at != whole.size(); ++at)
        for (char const change : {'\xff', '\x01'}) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ change);
            try {
                arrow_dataset const from = arrow_dataset::from_ipc(folder.write("changed", changed));
                std::vector<std::uint64_t> const samples =
                    support::first_samples(std::min<std::uint64_t>(from.size(), 100));
                CHECK(read(from, samples).size() == from.fields().size());
                ++read_back;
            } catch (cuota::data_error const&) { ++refused; }
        }
    CHECK(refused > 100);    // bytes of offsets and of Arrow's metadata
    CHECK(read_back > 100);  // bytes of values and of padding
}

TEST_CASE("with arrow_access::read, an Arrow file may be truncated after it was opened",
          "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.arrow");
    table const all = rows_up_to(200);
    write_ipc(path, all);
    names const two{"three", "text"}, turned{"text", "three"};
    for (names const& columns : {names{}, two, turned}) {
        arrow_dataset const mapped = arrow_dataset::from_ipc(path, columns);
        arrow_dataset const read_in = arrow_dataset::from_ipc(path, columns, cuota::arrow_access::read);
        CHECK(cuota::fields_text(read_in.fields()) == cuota::fields_text(mapped.fields()));
        expect_table(read_in, all, columns);
    }
    arrow_dataset const from = arrow_dataset::from_ipc(path, {}, cuota::arrow_access::read);
    REQUIRE(::truncate(path.c_str(), 8) == 0);
    expect_table(from, all);
    CHECK_THROWS_AS(arrow_dataset::from_ipc(path, {}, cuota::arrow_access::read), cuota::data_error);
    std::filesystem::remove(path);
    expect_table(from, all);
    CHECK(mentions(failure([&] { (void)arrow_dataset::from_ipc(path, {}, cuota::arrow_access::read); }).why(),
                   "No such file"));
}

TEST_CASE("arrow_dataset reports Git LFS pointers and empty files in place of data",
          "[data][arrow_dataset][other_content]") {
    support::temp_folder const folder;
    std::string const pointer =
        folder.write("x", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
    for (auto const how : {cuota::arrow_access::mapped, cuota::arrow_access::read})
        CHECK(mentions(failure([&] { (void)arrow_dataset::from_ipc(pointer, {}, how); }).why(),
                       "Git LFS pointer"));
    CHECK(mentions(failure([&] { (void)arrow_dataset::from_ipc(folder.write("e", "")); }).why(),
                   "the file is empty"));
#if __has_include(<parquet/arrow/reader.h>)
    CHECK(mentions(failure([&] { (void)arrow_dataset::from_parquet(pointer); }).why(), "Git LFS pointer"));
#endif
}

#if __has_include(<parquet/arrow/reader.h>)
TEST_CASE("arrow_dataset reads a Parquet file as the table that it contains", "[data][arrow_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.path("rows.parquet");
    auto const write = [&](table const& all, std::int64_t group) {
        auto const file = value(arrow::io::FileOutputStream::Open(path));
        ok(parquet::arrow::WriteTable(*all, arrow::default_memory_pool(), file, group,
                                      parquet::default_writer_properties(),
                                      parquet::ArrowWriterProperties::Builder().store_schema()->build()));
        ok(file->Close());
    };
    table const all = rows_up_to(200);
    write(all, 64);
    arrow_dataset const from = arrow_dataset::from_parquet(path);
    CHECK(from.name() == path);
    CHECK(cuota::fields_text(from.fields()) == all_fields);
    expect_table(from, all);
    expect_table(arrow_dataset::from_parquet(path, {"three", "text"}), all, {"three", "text"});

    auto const why = [&](std::string const& file, names const& columns = {}) {
        cuota::data_error const error = failure([&] { (void)arrow_dataset::from_parquet(file, columns); });
        CHECK(error.file() == file);
        return error.why();
    };
    CHECK(mentions(why(path, {"z"}), "no column \"z\""));
    CHECK(mentions(why(folder.path("none")), "No such file"));
    CHECK(!why(folder.write("empty", "")).empty());
    CHECK(mentions(why(folder.write("text", support::pattern(500))), "Parquet"));
    std::string const whole = content(path);
    for (std::size_t n = 0; n < whole.size(); n += 101) {
        CAPTURE(n);
        CHECK_THROWS_AS(arrow_dataset::from_parquet(folder.write("cut", whole.substr(0, n))),
                        cuota::data_error);
    }
    std::size_t refused = 0;
    for (std::size_t at = 0; at < whole.size(); at += 7) {
        std::string changed = whole;
        changed[at] = static_cast<char>(~changed[at]);
        try {
            arrow_dataset const other = arrow_dataset::from_parquet(folder.write("changed", changed));
            CHECK(read(other, support::first_samples(std::min<std::uint64_t>(other.size(), 100))).size() ==
                  other.fields().size());
        } catch (cuota::data_error const&) { ++refused; }
    }
    CHECK(refused > 10);

    write(rows_up_to(0), 64);
    CHECK(arrow_dataset::from_parquet(path).size() == 0);
}
#endif
