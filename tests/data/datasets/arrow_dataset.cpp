// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/arrow_dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <arrow/api.h>
#include <arrow/device.h>

#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

namespace {

using array = std::shared_ptr<arrow::Array>;
using table = std::shared_ptr<arrow::Table>;
using cuota::arrow_dataset;
using support::bytes_of;
using support::first_samples;
using support::mentions;
using support::thrown;
using indices = std::vector<std::uint64_t>;

void ok(arrow::Status const& status) {
    if (!status.ok()) throw std::runtime_error{status.ToString()};
}
template <class T>
T value(arrow::Result<T> result) {
    ok(result.status());
    return std::move(result).ValueUnsafe();
}

template <class Arrow>
array numbers(std::vector<typename Arrow::c_type> const& values) {
    arrow::NumericBuilder<Arrow> builder;
    ok(builder.AppendValues(values));
    return value(builder.Finish());
}
template <class Builder = arrow::StringBuilder>
array texts(std::vector<std::string> const& values) {
    Builder builder;
    for (std::string const& text : values) ok(builder.Append(text));
    return value(builder.Finish());
}
array bools(std::vector<bool> const& values) {
    arrow::BooleanBuilder builder;
    ok(builder.AppendValues(values));
    return value(builder.Finish());
}
/// Returns lists of the rows of `values`, divided at these offsets.
array lists(std::vector<std::int32_t> const& offsets, array const& values) {
    return value(arrow::ListArray::FromArrays(*numbers<arrow::Int32Type>(offsets), *values));
}
array large_lists(std::vector<std::int64_t> const& offsets, array const& values) {
    return value(arrow::LargeListArray::FromArrays(*numbers<arrow::Int64Type>(offsets), *values));
}
array fixed_lists(int extent, array const& values) {
    return value(arrow::FixedSizeListArray::FromArrays(values, extent));
}
array records(int bytes, std::string const& all) {
    arrow::FixedSizeBinaryBuilder builder{arrow::fixed_size_binary(bytes)};
    for (std::size_t at = 0; at != all.size(); at += static_cast<std::size_t>(bytes))
        ok(builder.Append(all.substr(at, static_cast<std::size_t>(bytes))));
    return value(builder.Finish());
}
array nothing_of(std::shared_ptr<arrow::DataType> const& type) { return value(arrow::MakeEmptyArray(type)); }

struct column {
    std::string name;
    arrow::ArrayVector chunks;
};
table table_of(std::initializer_list<column> columns) {
    arrow::FieldVector fields;
    arrow::ChunkedArrayVector values;
    for (auto const& [name, chunks] : columns) {
        values.push_back(std::make_shared<arrow::ChunkedArray>(chunks));
        fields.push_back(arrow::field(name, values.back()->type()));
    }
    return arrow::Table::Make(arrow::schema(fields), values);
}
arrow_dataset of(arrow::ArrayVector const& chunks) { return arrow_dataset{table_of({{"x", chunks}})}; }

std::string field_of(arrow_dataset const& from) { return cuota::fields_text(from.fields()); }

indices lengths_of(arrow_dataset const& from, std::size_t k, indices const& samples) {
    indices out(samples.size());
    from.row_counts(k, samples, out);
    return out;
}
std::vector<std::string> read(arrow_dataset const& from, indices const& samples) {
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
template <class T>
std::vector<T> rows(arrow_dataset const& from, indices const& samples, std::size_t k = 0) {
    std::string const bytes = read(from, samples)[k];
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

template <class F>
std::string why(F f) {
    return thrown<cuota::usage_error>(f).what();
}
std::string why_not(array const& values) {
    return why([&] { of({values}); });
}
using bytes = std::vector<std::uint8_t>;
using ints = std::vector<std::int32_t>;

array counted(std::int32_t n) {
    ints all;
    for (std::int32_t i = 0; i != n; ++i) all.push_back(i);
    return numbers<arrow::Int32Type>(all);
}

/// A device whose memory is inaccessible to the host.
class far_device : public arrow::Device {
public:
    char const* type_name() const override { return "far"; }
    std::string ToString() const override { return "far"; }
    bool Equals(Device const& other) const override { return &other == this; }
    std::shared_ptr<arrow::MemoryManager> default_memory_manager() override { return nullptr; }
    arrow::DeviceAllocationType device_type() const override { return arrow::DeviceAllocationType::kCUDA; }
};
class far_memory : public arrow::MemoryManager {
public:
    far_memory() : MemoryManager{std::make_shared<far_device>()} {}
    arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> GetBufferReader(
        std::shared_ptr<arrow::Buffer>) override {
        return arrow::Status::NotImplemented("far");
    }
    arrow::Result<std::shared_ptr<arrow::io::OutputStream>> GetBufferWriter(
        std::shared_ptr<arrow::Buffer>) override {
        return arrow::Status::NotImplemented("far");
    }
    arrow::Result<std::unique_ptr<arrow::Buffer>> AllocateBuffer(std::int64_t) override {
        return arrow::Status::NotImplemented("far");
    }
};

template <class Arrow>
void expect_same(std::string const& element) {
    using number = typename Arrow::c_type;
    std::vector<number> const all{number(7), std::numeric_limits<number>::max(),
                                  std::numeric_limits<number>::lowest(), number(0), number(100)};
    arrow_dataset const from = of({numbers<Arrow>(all)});
    CHECK(field_of(from) == "x " + element);
    CHECK(from.size() == 5);
    CHECK(rows<number>(from, {0, 1, 2, 3, 4}) == all);
    CHECK(rows<number>(from, {4, 2, 2}) == std::vector<number>{all[4], all[2], all[2]});
}

}  // namespace

TEST_CASE("arrow_dataset reads numbers of every type unchanged", "[data][arrow_dataset]") {
    expect_same<arrow::Int8Type>("i8");
    expect_same<arrow::UInt8Type>("u8");
    expect_same<arrow::Int16Type>("i16");
    expect_same<arrow::UInt16Type>("u16");
    expect_same<arrow::Int32Type>("i32");
    expect_same<arrow::UInt32Type>("u32");
    expect_same<arrow::Int64Type>("i64");
    expect_same<arrow::UInt64Type>("u64");
    expect_same<arrow::HalfFloatType>("f16");
    expect_same<arrow::FloatType>("f32");
    expect_same<arrow::DoubleType>("f64");
}

TEST_CASE("arrow_dataset widens bools to bytes at any bit offset", "[data][arrow_dataset]") {
    std::vector<bool> all;
    for (unsigned i = 0; i != 40; ++i) all.push_back(i % 3 == 0 || i % 7 == 0);
    arrow_dataset const from = of({bools(all)->Slice(3, 10), bools(all)->Slice(13)});
    CHECK(field_of(from) == "x u8");
    bytes expected;
    for (std::size_t i = 3; i != 40; ++i) expected.push_back(all[i]);
    CHECK(rows<std::uint8_t>(from, first_samples(37)) == expected);
    CHECK(rows<std::uint8_t>(from, {36, 9, 10, 0}) ==
          bytes{expected[36], expected[9], expected[10], expected[0]});

    arrow_dataset const pairs = of({fixed_lists(2, bools(all)->Slice(1, 38))->Slice(1)});
    CHECK(field_of(pairs) == "x u8[2]");
    CHECK(rows<std::uint8_t>(pairs, {0, 17}) == bytes{all[3], all[4], all[37], all[38]});
    arrow_dataset const ragged = of({lists({0, 5, 5, 9, 30}, bools(all)->Slice(2))->Slice(2)});
    CHECK(field_of(ragged) == "x u8[*]");
    CHECK(lengths_of(ragged, 0, {1, 0}) == indices{21, 4});
    CHECK(rows<std::uint8_t>(ragged, {0}) == bytes{all[7], all[8], all[9], all[10]});
}

TEST_CASE("arrow_dataset reads chunks and slices in any order", "[data][arrow_dataset]") {
    array const all = counted(1000);
    arrow_dataset const from = of({all->Slice(0, 10), all->Slice(10, 0), all->Slice(10, 1),
                                   all->Slice(11, 489), nothing_of(arrow::int32()), all->Slice(500)});
    CHECK(from.size() == 1000);
    ints expected(1000);
    std::vector<std::uint64_t> samples(1000);
    for (std::size_t i = 0; i != 1000; ++i)
        expected[i] = static_cast<std::int32_t>(samples[i] = i * 77 % 1000);
    CHECK(rows<std::int32_t>(from, samples) == expected);
    CHECK(rows<std::int32_t>(from, {9, 10, 11, 12, 499, 500, 501, 9, 9}) ==
          ints{9, 10, 11, 12, 499, 500, 501, 9, 9});
    CHECK(rows<std::int32_t>(from, first_samples(1000)).back() == 999);
    CHECK(rows<std::int32_t>(from, {}).empty());

    arrow_dataset const part{table_of({{"x", {all->Slice(0, 600), all->Slice(600)}}})->Slice(595, 10)};
    CHECK(rows<std::int32_t>(part, {0, 4, 5, 9}) == ints{595, 599, 600, 604});
}

TEST_CASE("list columns are ragged fields", "[data][arrow_dataset]") {
    auto const expect_lists = [](arrow_dataset const& from) {
        CHECK(field_of(from) == "x i32[*]");
        CHECK(from.size() == 5);
        CHECK(lengths_of(from, 0, {0, 1, 2, 3, 4, 2}) == indices{3, 0, 4, 0, 2, 4});
        CHECK(rows<std::int32_t>(from, {0, 1, 2, 3, 4}) == ints{10, 11, 12, 13, 14, 15, 16, 17, 18});
        CHECK(rows<std::int32_t>(from, {4, 0, 1, 4}) == ints{17, 18, 10, 11, 12, 17, 18});
        CHECK(rows<std::int32_t>(from, {3, 1}).empty());
    };
    array const small = lists({10, 13, 13, 17, 17, 19}, counted(25));
    array const large = large_lists({9, 12, 12, 16, 16, 18}, counted(25)->Slice(1));
    expect_lists(of({small}));
    expect_lists(of({large}));
    expect_lists(of({small->Slice(0, 2), small->Slice(2, 0), small->Slice(2, 1), small->Slice(3)}));
    expect_lists(of({large->Slice(0, 1), large->Slice(1, 1), large->Slice(2)}));
}

TEST_CASE("lists of a fixed size become axes of samples and of ragged rows", "[data][arrow_dataset]") {
    array const matrices = fixed_lists(2, fixed_lists(3, counted(67)->Slice(1)));  // 11 of [2, 3], from 1
    arrow_dataset const from = of({matrices->Slice(4, 2), matrices->Slice(1, 3)});
    CHECK(field_of(from) == "x i32[2, 3]");
    CHECK(rows<std::int32_t>(from, {1, 2}) == ints{31, 32, 33, 34, 35, 36, 7, 8, 9, 10, 11, 12});

    array const of_rows = lists({1, 3, 3, 4, 11}, matrices->Slice(0, 11));
    arrow_dataset const ragged = of({of_rows->Slice(1), of_rows->Slice(0, 1)});
    CHECK(field_of(ragged) == "x i32[*, 2, 3]");
    CHECK(lengths_of(ragged, 0, {0, 1, 2, 3}) == indices{0, 1, 7, 2});
    CHECK(rows<std::int32_t>(ragged, {1, 0}) == ints{19, 20, 21, 22, 23, 24});
    CHECK(rows<std::int32_t>(ragged, {3})[6] == 13);
}

TEST_CASE("texts become ragged bytes, and fixed-size binary becomes a field with a shape",
          "[data][arrow_dataset]") {
    std::vector<std::string> const words{"ab", "", "cde", "\xc3\xa4", "f"};
    for (array const& all : {texts(words), texts<arrow::LargeStringBuilder>(words),
                             texts<arrow::BinaryBuilder>(words), texts<arrow::LargeBinaryBuilder>(words)}) {
        arrow_dataset const from = of({all->Slice(2), all->Slice(0, 2)});
        CHECK(field_of(from) == "x u8[*]");
        CHECK(lengths_of(from, 0, {0, 1, 2, 3, 4}) == indices{3, 2, 1, 2, 0});
        CHECK(read(from, {3, 4, 0, 1})[0] == "abcde\xc3\xa4");
    }
    arrow_dataset const fixed = of({records(3, "abcdefghi")->Slice(1)});
    CHECK(field_of(fixed) == "x u8[3]");
    CHECK(read(fixed, {1, 0})[0] == "ghidef");
    CHECK(field_of(of({fixed_lists(2, records(3, "abcdef"))})) == "x u8[2, 3]");
    arrow_dataset const ragged = of({lists({0, 2, 3}, records(3, "abcdefghi"))});
    CHECK(field_of(ragged) == "x u8[*, 3]");
    CHECK(read(ragged, {1, 0})[0] == "ghiabcdef");
}

TEST_CASE("a table without rows is a dataset without samples", "[data][arrow_dataset]") {
    arrow_dataset const from{table_of({{"a", {nothing_of(arrow::int32())}},
                                       {"b", {nothing_of(arrow::list(arrow::float32()))}},
                                       {"c", {nothing_of(arrow::utf8())}},
                                       {"d", {nothing_of(arrow::fixed_size_list(arrow::boolean(), 4))}}})};
    CHECK(from.size() == 0);
    CHECK(field_of(from) == "a i32, b f32[*], c u8[*], d u8[4]");
    CHECK(read(from, {}) == std::vector<std::string>(4));
    arrow_dataset const no_chunks{
        arrow::Table::Make(arrow::schema({arrow::field("x", arrow::utf8())}),
                           {std::make_shared<arrow::ChunkedArray>(arrow::ArrayVector{}, arrow::utf8())})};
    CHECK(no_chunks.size() == 0);
    CHECK_THROWS_AS(read(no_chunks, {0}), cuota::usage_error);
    arrow_dataset const empty_lists = of({lists({0, 0, 0}, nothing_of(arrow::int32()))});
    CHECK(lengths_of(empty_lists, 0, {1, 0}) == indices{0, 0});
    CHECK(rows<std::int32_t>(empty_lists, {1, 0}).empty());
}

TEST_CASE("arrow_dataset has the named columns in the given order", "[data][arrow_dataset]") {
    table const all = table_of({{"a", {counted(2)}}, {"b", {texts({"x", "yz"})}}, {"c", {bools({1, 0})}}});
    CHECK(field_of(arrow_dataset{all}) == "a i32, b u8[*], c u8");
    arrow_dataset const some{all, {"c", "b"}, "mine"};
    CHECK(some.name() == "mine");
    CHECK(field_of(some) == "c u8, b u8[*]");
    CHECK(read(some, {1, 0}) == std::vector<std::string>{{'\0', '\1'}, "yzx"});
    CHECK(lengths_of(some, 1, {1}) == indices{2});

    auto const refused = [](table const& from, std::vector<std::string> const& names) {
        return why([&] { arrow_dataset{from, names, "mine"}; });
    };
    CHECK(mentions(refused(all, {"a", "d"}), "mine: no column \"d\""));
    CHECK(mentions(refused(all, {"a", "b", "a"}), "mine: column \"a\" is named twice"));
    CHECK(mentions(refused(table_of({{"a", {counted(1)}}, {"a", {counted(1)}}}), {"a"}),
                   "mine: 2 columns match column \"a\""));
    CHECK(mentions(refused(table_of({}), {}), "mine: no columns"));
    CHECK(mentions(refused(nullptr, {}), "mine: the table is null"));
    table const mixed = table_of({{"a", {counted(1)}}, {"n", {nothing_of(arrow::null())}}});
    CHECK_NOTHROW(arrow_dataset{mixed, {"a"}});  // the other column is not requested
}

TEST_CASE("a column of an unsupported type is refused with its name and type", "[data][arrow_dataset]") {
    auto const refused = [](std::shared_ptr<arrow::DataType> const& type) {
        return why_not(nothing_of(type));
    };
    CHECK(mentions(refused(arrow::null()),
                   "Arrow table: column \"x\" is of type null, which is not supported"));
    for (auto const& type :
         {arrow::dictionary(arrow::int8(), arrow::utf8()), arrow::struct_({arrow::field("f", arrow::int8())}),
          arrow::date32(), arrow::timestamp(arrow::TimeUnit::SECOND), arrow::decimal128(9, 2),
          arrow::list(arrow::list(arrow::int8())), arrow::list(arrow::utf8()),
          arrow::large_list(arrow::null()), arrow::fixed_size_list(arrow::list(arrow::int8()), 2),
          arrow::fixed_size_list(arrow::utf8(), 2), arrow::map(arrow::int8(), arrow::int8()),
          arrow::list_view(arrow::int8()), arrow::utf8_view()}) {
        CAPTURE(type->ToString());
        CHECK(mentions(refused(type),
                       "column \"x\" is of type " + type->ToString() + ", which is not supported"));
    }
    auto const huge = [](std::shared_ptr<arrow::DataType> type, int axes) {
        while (axes-- != 0) type = arrow::fixed_size_list(type, 1 << 30);
        return type;
    };
    CHECK(mentions(refused(huge(arrow::int8(), 3)), "is larger than any address space"));
    CHECK(mentions(refused(arrow::fixed_size_list(arrow::int8(), 0)), "a sample of fixed_size_list"));
    CHECK(mentions(refused(arrow::fixed_size_binary(0)), "a sample of fixed_size_binary[0] is empty"));
}

TEST_CASE("a column with nulls is refused with the number of the first row that has one",
          "[data][arrow_dataset]") {
    arrow::Int32Builder builder;
    for (int i = 0; i != 100; ++i) ok(i == 60 || i == 75 ? builder.AppendNull() : builder.Append(i));
    array const holed = value(builder.Finish());
    CHECK(mentions(why_not(holed), "column \"x\": row 60 is null; each sample needs a value"));
    CHECK(mentions(why_not(holed->Slice(5)), "row 55 is null"));
    CHECK(mentions(why([&] { of({counted(5), holed->Slice(61)}); }), "row 19 is null"));
    CHECK_NOTHROW(of({holed->Slice(64, 4)}));
    CHECK(rows<std::int32_t>(of({holed->Slice(61, 14), holed->Slice(3, 57)}), {0, 13, 70}) ==
          ints{61, 74, 59});

    CHECK(mentions(why_not(fixed_lists(5, holed)), "column \"x\": row 12 contains a null"));
    CHECK(mentions(why_not(fixed_lists(5, fixed_lists(2, holed))), "row 6 contains a null"));
    CHECK(mentions(why_not(lists({0, 20, 20, 60, 60, 61, 100}, holed)), "row 4 contains a null"));
    CHECK(mentions(why_not(lists({0, 20, 20, 60, 60, 61, 100}, holed)->Slice(1)), "row 3 contains a null"));
    CHECK_NOTHROW(of({lists({0, 20, 60}, holed), lists({61, 75}, holed), lists({76, 100}, holed)}));
    CHECK(mentions(why_not(lists({0, 3, 10}, fixed_lists(10, holed))), "row 1 contains a null"));

    arrow::StringBuilder words;
    ok(words.Append("a"));
    ok(words.AppendNull());
    CHECK(mentions(why_not(value(words.Finish())), "column \"x\": row 1 is null"));
    arrow::FixedSizeListBuilder pairs{arrow::default_memory_pool(), std::make_shared<arrow::Int8Builder>(),
                                      2};
    ok(pairs.AppendNull());
    CHECK(mentions(why_not(value(pairs.Finish())), "column \"x\": row 0 is null"));
}

TEST_CASE("arrays whose lengths or offsets exceed their buffers are refused", "[data][arrow_dataset]") {
    auto const made = [](std::shared_ptr<arrow::DataType> const& type, std::int64_t length,
                         std::vector<std::shared_ptr<arrow::Buffer>> const& buffers,
                         std::vector<array> const& children = {}, std::int64_t offset = 0) {
        std::vector<std::shared_ptr<arrow::ArrayData>> of_children;
        for (array const& child : children) of_children.push_back(child->data());
        return arrow::MakeArray(
            arrow::ArrayData::Make(type, length, buffers, of_children, arrow::kUnknownNullCount, offset));
    };
    auto const held = [](array const& numbers) { return numbers->data()->buffers[1]; };
    auto const offsets = [&](ints const& of) { return held(numbers<arrow::Int32Type>(of)); };
    auto const four = arrow::SliceBuffer(held(counted(4)), 0, 16);
    auto const text = arrow::Buffer::FromString("abcd");
    auto const list = arrow::list(arrow::int32());

    CHECK(mentions(why_not(made(arrow::int32(), 5, {nullptr, four})),
                   "column \"x\": a buffer of 16 bytes is too small for 5 elements of 32 bits"));
    CHECK(mentions(why_not(made(arrow::int32(), 3, {nullptr, four}, {}, 2)),
                   "16 bytes is too small for 5 elements of 32"));
    CHECK(
        mentions(why_not(made(arrow::int32(), 1, {nullptr, nullptr})), "0 bytes is too small for 1 element"));
    CHECK(mentions(why_not(made(arrow::int64(), std::int64_t{1} << 60, {nullptr, four})),
                   "a buffer of 16 bytes"));
    CHECK(mentions(why_not(made(arrow::boolean(), 129, {nullptr, four})), "for 129 elements of 1 bit"));
    CHECK(mentions(why_not(made(arrow::int32(), 4, {arrow::SliceBuffer(four, 0, 0), four})),
                   "0 bytes is too small for 4"));
    CHECK_NOTHROW(of({made(arrow::int32(), 2, {nullptr, four}, {}, 2)}));
    CHECK(mentions(why_not(made(arrow::int32(), 2, {nullptr, four}, {}, -1)),
                   "offset or length of the array is negative"));
    CHECK(mentions(why_not(made(arrow::int32(), -1, {nullptr, four})),
                   "offset or length of the array is negative"));
    auto const far = std::make_shared<arrow::Buffer>(four->data(), 16, std::make_shared<far_memory>());
    CHECK(mentions(why_not(made(arrow::int32(), 4, {nullptr, far})),
                   "column \"x\": the values are not in host memory"));

    CHECK(mentions(why_not(made(list, 2, {nullptr, offsets({0, 3, 2})}, {counted(4)})),
                   "column \"x\": the offsets of row 1 are 3 and 2"));
    CHECK(mentions(why_not(made(list, 1, {nullptr, offsets({-1, 2})}, {counted(4)})),
                   "the offsets of row 0 are -1 and 2"));
    CHECK(mentions(why_not(made(list, 1, {nullptr, offsets({0, 5})}, {counted(4)})),
                   "the rows end at 5; the array has 4"));
    CHECK(mentions(why_not(made(list, 1, {nullptr, offsets({0, 3})}, {counted(4)->Slice(2)})),
                   "the rows end at 3; the array has 2"));
    CHECK(mentions(why_not(made(list, 4, {nullptr, four}, {counted(4)})),
                   "16 bytes is too small for 5 elements of 32"));
    auto const triples = arrow::fixed_size_list(arrow::int32(), 3);
    CHECK(mentions(
        why_not(made(arrow::list(triples), 1, {nullptr, offsets({0, 1})}, {fixed_lists(2, counted(4))})),
        "type of the array is fixed_size_list<item: int32>[2], not fixed_size_list<item: int32>[3]"));
    CHECK(mentions(why_not(made(arrow::utf8(), 1, {nullptr, offsets({0, 5}), text})),
                   "4 bytes is too small for 5 elements of 8"));
    CHECK(
        mentions(why_not(made(arrow::utf8(), 2, {nullptr, offsets({0, 4, 3}), text})), "row 1 are 4 and 3"));
    CHECK(mentions(why_not(made(triples, 2, {nullptr}, {counted(5)})),
                   "column \"x\": the array has fewer values than its lists need"));
    CHECK(mentions(why_not(made(triples, 1, {nullptr}, {counted(5)}, 1)),
                   "the array has fewer values than its lists need"));

    auto const of_two = std::make_shared<arrow::ChunkedArray>(arrow::ArrayVector{counted(2)});
    auto const called = [&](std::shared_ptr<arrow::DataType> const& type, std::int64_t n) {
        return why([&] {
            arrow_dataset{arrow::Table::Make(arrow::schema({arrow::field("x", type)}),
                                             arrow::ChunkedArrayVector{of_two}, n)};
        });
    };
    CHECK(mentions(called(arrow::int64(), 2), "column \"x\": type of the array is int32, not int64"));
    CHECK(mentions(called(arrow::int32(), 3), "column \"x\" has 2 rows; the table has 3"));
}

TEST_CASE("an invalid gather from a table is refused before anything is written", "[data][arrow_dataset]") {
    arrow_dataset const from{
        table_of({{"n", {counted(2), counted(1)}}, {"t", {texts({"abc", "", "d"})}}}), {}, "mine"};
    auto const gather = [&](indices const& samples, std::size_t n, std::size_t t) {
        std::string numbers(n, '?'), text(t, '?');
        std::span<std::byte> const out[] = {std::as_writable_bytes(std::span{numbers}),
                                            std::as_writable_bytes(std::span{text})};
        std::string const said = why([&] { from.gather(samples, out); });
        CHECK(numbers + text == std::string(n + t, '?'));
        return said;
    };
    CHECK(
        mentions(gather({0, 3}, 8, 3), "mine: gather: sample 3 is out of range: the dataset has 3 samples"));
    CHECK(mentions(gather({0, 2}, 8, 3), "gather: 2 samples of t u8[*] take 4 bytes, the output has 3"));
    CHECK(mentions(gather({0, 2}, 7, 4), "gather: 2 samples of n i32 take 8 bytes, the output has 7"));
    CHECK(mentions(why([&] { from.gather(indices{0}, {}); }),
                   "gather: the dataset has 2 fields, the output 0"));
    CHECK(mentions(why([&] { (void)lengths_of(from, 0, {0}); }),
                   "cannot return lengths: field 0 is not ragged"));
    CHECK(mentions(why([&] { (void)lengths_of(from, 1, {3}); }), "cannot return the length of sample 3"));
}

TEST_CASE("arrow_dataset gathers without allocating", "[data][arrow_dataset]") {
    array const all = counted(600);
    arrow_dataset const from{
        table_of({{"one", {all->Slice(0, 300)}},
                  {"many", {all->Slice(0, 100), all->Slice(100, 200)}},
                  {"bits", {bools(std::vector<bool>(300, true))}},
                  {"lists", {lists({0, 7, 7}, all), lists(std::vector<std::int32_t>(299, 3), all)}}})};
    indices samples = first_samples(300);
    std::swap(samples[3], samples[250]);
    std::vector<std::string> memory{std::string(1200, '?'), std::string(1200, '?'), std::string(300, '?'),
                                    std::string(28, '?')};
    std::vector<std::span<std::byte>> out;
    for (std::string& m : memory) out.push_back(std::as_writable_bytes(std::span{m}));
    indices row_counts(samples.size());
    support::heap_watch const watch;
    from.row_counts(3, samples, row_counts);
    from.gather(samples, out);
    std::size_t const allocations = watch.allocations();
    CHECK(allocations == 0);
    CHECK(memory == read(from, samples));
    CHECK(row_counts[0] == 7);
}

TEST_CASE("arrow_dataset keeps the table alive and shares it with its copies", "[data][arrow_dataset]") {
    table mine = table_of({{"x", {counted(3)}}, {"y", {counted(3)}}});
    std::weak_ptr<arrow::Table> const seen = mine;
    {
        arrow_dataset const copy = [&] {
            arrow_dataset const first{std::move(mine), {"y"}};
            return arrow_dataset{first};
        }();
        CHECK(seen.use_count() == 1);
        CHECK(rows<std::int32_t>(copy, {2, 0}) == ints{2, 0});
    }
    CHECK(seen.expired());
}

TEST_CASE("an arrow_dataset that was moved from is still valid", "[data][arrow_dataset][moved_from]") {
    arrow_dataset first = of({bools({true, false, true})});
    arrow_dataset const second{std::move(first)};
    CHECK(first.size() == 3);
    CHECK(first.name() == second.name());
    CHECK(support::gathered(first, {2, 1}) == support::gathered(second, {2, 1}));
}
