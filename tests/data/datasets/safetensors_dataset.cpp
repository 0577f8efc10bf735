// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/safetensors_dataset.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/rounds.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::element_type;
using cuota::field;
using cuota::safetensors_dataset;
using support::gathered;
using support::mentions;

/// Returns a file with this header text.
std::string around(std::string const& header, std::string const& data = {}) {
    std::string file;
    for (std::size_t i = 0; i != 8; ++i)
        file += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xff);
    return file + header + data;
}

std::string tensor(std::string const& name, std::string const& dtype, std::string const& shape,
                   std::string const& offsets) {
    return '"' + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
           offsets + "]}";
}
/// Returns a file with one tensor "x" of u8.
std::string bytes(std::string const& shape, std::string const& offsets, std::string const& data) {
    return around('{' + tensor("x", "U8", shape, offsets) + '}', data);
}

template <class... Names>
safetensors_dataset open(std::string const& content, Names const&... names) {
    support::temp_folder const folder;  // the file stays readable without its folder
    return safetensors_dataset{folder.write("train.safetensors", content), names...};
}
template <class... Names>
cuota::data_error failure(std::string const& content, Names const&... names) {
    return support::thrown<cuota::data_error>([&] { open(content, names...); });
}
std::string why(std::string const& content) { return failure(content).why(); }
/// Returns why a file of this header and eight bytes is refused.
std::string why_header(std::string const& header) { return why(around(header, "12345678")); }

/// Returns three images of six bytes after three labels of two bytes.
std::string images_and_labels() {
    return around('{' + tensor("images", "U8", "3,2,3", "6,24") + ',' + tensor("labels", "I16", "3", "0,6") +
                      '}',
                  "aAbBcC" + support::pattern(18));
}

/// Returns whether the file is read. Otherwise it must be a data_error with an offset in the file. Both need only memory in proportion to
/// the file.
bool is_read_or_refused(std::string const& path, std::size_t size) {
    support::heap_watch const watch;
    try {
        safetensors_dataset const from{path};
        std::size_t held = 0;
        for (std::string const& each : gathered(from, support::first_samples(from.size())))
            held += each.size();
        REQUIRE(held <= size);
        return true;
    } catch (cuota::data_error const& error) {
        std::size_t const largest = watch.largest();
        REQUIRE(largest < 4096);
        REQUIRE(error.offset() <= size);
        return false;
    }
}

std::string content_of(std::string const& path) {
    std::ifstream from{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{from}, {}};
}

/// Returns whether Python ran the program; false if it lacks a package.
bool runs_in_python(support::temp_folder const& folder, std::string const& text) {
    std::string const program = folder.write("write.py", text);
    int const status = std::system(
        ("'" CUOTA_PYTHON "' '" + program + "' '" + folder.path() + "' 2> '" + folder.path("errors") + "'")
            .c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false;
    INFO(content_of(folder.path("errors")));
    REQUIRE(status == 0);
    return true;
}

}  // namespace

TEST_CASE("safetensors_dataset has all tensors as fields, in the order of the file",
          "[data][safetensors_dataset][safetensors]") {
    safetensors_dataset const from = open(images_and_labels());

    CHECK(from.size() == 3);
    REQUIRE(from.fields().size() == 2);
    CHECK(from.fields()[0] == field{"labels", element_type::i16, {}});
    CHECK(from.fields()[1] == field{"images", element_type::u8, {2, 3}});
    std::string const images = support::pattern(18);
    CHECK(gathered(from, {0, 1, 2}) == std::vector<std::string>{"aAbBcC", images});
    CHECK(gathered(from, {2, 0}) ==
          std::vector<std::string>{"cCaA", images.substr(12) + images.substr(0, 6)});
    CHECK(gathered(from, {1, 1, 2, 0}) ==
          std::vector<std::string>{"bBbBcCaA", images.substr(6, 6) + images.substr(6) + images.substr(0, 6)});
    CHECK(gathered(from, {}) == std::vector<std::string>{"", ""});
}

TEST_CASE("safetensors_dataset has the named tensors, in the order of their names",
          "[data][safetensors_dataset][safetensors]") {
    support::temp_folder const folder;
    std::string const path = folder.write("x", images_and_labels());
    safetensors_dataset const both{path, {"images", "labels"}};
    safetensors_dataset const one{path, {"labels"}};
    safetensors_dataset const of_file{cuota::file{path}, {"images"}};

    CHECK(both.name() == path);
    CHECK(gathered(both, {1}) == std::vector<std::string>{support::pattern(18).substr(6, 6), "bB"});
    CHECK(gathered(one, {2, 1}) == std::vector<std::string>{"cCbB"});
    CHECK(gathered(of_file, {2}) == std::vector<std::string>{support::pattern(18).substr(12)});
    CHECK(gathered(safetensors_dataset{cuota::file{path}}, {0})[0] == "aA");
}

TEST_CASE("safetensors_dataset refuses unknown and repeated names, and an empty list of names",
          "[data][safetensors_dataset][safetensors]") {
    std::vector<std::string> const missing{"images", "masks"};
    CHECK(failure(images_and_labels(), missing).why() == "no tensor \"masks\"");
    std::vector<std::string> const twice{"images", "images"};
    CHECK(mentions(support::thrown<cuota::usage_error>([&] { open(images_and_labels(), twice); }).what(),
                   "tensor \"images\" is named twice"));
    std::vector<std::string> const none;
    CHECK(mentions(support::thrown<cuota::usage_error>([&] { open(images_and_labels(), none); }).what(),
                   "name at least one tensor"));
    std::vector<std::string> const metadata{"__metadata__"};
    CHECK(mentions(
        failure(around("{\"__metadata__\":{}," + tensor("x", "U8", "1", "0,1") + '}', "a"), metadata).why(),
        "no tensor \"__metadata__\""));
}

TEST_CASE("safetensors_dataset reads every dtype that has an element type",
          "[data][safetensors_dataset][safetensors]") {
    for (auto const& [dtype, type] :
         std::vector<std::pair<std::string, element_type>>{{"BOOL", element_type::u8},
                                                           {"U8", element_type::u8},
                                                           {"I8", element_type::i8},
                                                           {"U16", element_type::u16},
                                                           {"I16", element_type::i16},
                                                           {"U32", element_type::u32},
                                                           {"I32", element_type::i32},
                                                           {"U64", element_type::u64},
                                                           {"I64", element_type::i64},
                                                           {"F16", element_type::f16},
                                                           {"BF16", element_type::bf16},
                                                           {"F32", element_type::f32},
                                                           {"F64", element_type::f64}}) {
        INFO(dtype);
        std::size_t const sample = 6 * cuota::element_bytes(type);
        std::string const data = support::pattern(4 * sample);
        safetensors_dataset const from =
            open(around('{' + tensor("x", dtype, "4,2,3", "0," + std::to_string(data.size())) + '}', data));
        CHECK(from.size() == 4);
        REQUIRE(from.fields().size() == 1);
        CHECK(from.fields()[0] == field{"x", type, {2, 3}});
        CHECK(gathered(from, {3, 1})[0] == data.substr(3 * sample) + data.substr(sample, sample));
    }
}

TEST_CASE("safetensors_dataset names a tensor with an unsupported dtype",
          "[data][safetensors_dataset][safetensors]") {
    for (char const* dtype : {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "C64", "u8", "U8 ", "", "F128"}) {
        INFO(dtype);
        auto const error = failure(around(
            '{' + tensor("y", "U8", "1", "0,1") + ',' + tensor("scales", dtype, "1", "1,2") + '}', "ab"));
        CHECK(mentions(error.why(), "tensor \"scales\": dtype " + std::string{dtype} +
                                        " is not supported; supported: BOOL"));
    }
    std::vector<std::string> const other{"y"};  // unrequested tensors are validated as well
    CHECK(mentions(
        failure(around('{' + tensor("y", "U8", "1", "0,1") + ',' + tensor("scales", "F4", "1", "1,2") + '}',
                       "ab"),
                other)
            .why(),
        "\"scales\""));
}

TEST_CASE("safetensors_dataset requires tensors with equally many samples of at least one byte",
          "[data][safetensors_dataset][safetensors]") {
    std::string const uneven =
        around('{' + tensor("a", "U8", "3", "0,3") + ',' + tensor("b", "U8", "2", "3,5") + ',' +
                   tensor("c", "U8", "", "5,6") + ',' + tensor("d", "U8", "3,0", "6,6") + '}',
               "abcde!");
    CHECK(why(uneven) == "tensor \"b\": 2 samples; tensor \"a\" has 3");
    std::vector<std::string> const only_b{"b"};
    CHECK(gathered(open(uneven, only_b), {1})[0] == "e");
    std::vector<std::string> const only_c{"c"};
    CHECK(failure(uneven, only_c).why() == "tensor \"c\": a single number has no samples");
    std::vector<std::string> const only_d{"d"};
    CHECK(failure(uneven, only_d).why() == "tensor \"d\": samples of 0 bytes");

    safetensors_dataset const none = open(bytes("0,28,28", "0,0", ""));
    CHECK(none.size() == 0);
    CHECK(none.fields()[0].count() == 784);
    CHECK(why(around("{}")) == "the file has no tensors");
    CHECK(why(around("{\"__metadata__\":{}}")) == "the file has no tensors");
}

TEST_CASE("safetensors_dataset refuses a wrong header length without allocating that much",
          "[data][safetensors_dataset][safetensors]") {
    auto const with_length = [](std::uint64_t length) {
        std::string file = around("{}");
        for (std::size_t i = 0; i != 8; ++i) file[i] = static_cast<char>(length >> (8 * i) & 0xff);
        return file;
    };
    for (std::uint64_t const length :
         {std::uint64_t{3}, std::uint64_t{100'000'000}, std::uint64_t{100'000'001}, std::uint64_t{1} << 63,
          ~std::uint64_t{0}}) {
        INFO(length);
        support::temp_folder const folder;
        std::string const path = folder.write("x", with_length(length));
        support::heap_watch const watch;
        auto const error = support::thrown<cuota::data_error>([&] { safetensors_dataset const from{path}; });
        std::size_t const largest = watch.largest();
        CHECK(largest < 4096);
        CHECK(error.offset() == 0);
        CHECK(mentions(error.why(), "a header of " + std::to_string(length) + " bytes: "));
        CHECK(mentions(error.why(), length > 100'000'000 ? "the maximum is 100000000" : "the file holds 2"));
    }
    CHECK(mentions(why(""), "the file is empty"));
    for (std::size_t size = 1; size != 8; ++size)
        CHECK(mentions(why(std::string(size, '\0')), "the file ends at byte " + std::to_string(size)));
}

TEST_CASE("safetensors_dataset refuses a header of more than 100 MB in a file of any size",
          "[data][safetensors_dataset][safetensors]") {
    support::temp_folder const folder;
    std::string file = around("{}");
    file[0] = '\x01', file[1] = '\xe1', file[2] = '\xf5', file[3] = '\x05';  // 100,000,001
    std::string const path = folder.write("x", file);
    REQUIRE(::truncate(path.c_str(), 200'000'000) == 0);
    support::heap_watch const watch;
    auto const error = support::thrown<cuota::data_error>([&] { safetensors_dataset const from{path}; });
    std::size_t const largest = watch.largest();
    CHECK(largest < 4096);
    CHECK(mentions(error.why(), "the maximum is 100000000"));
}

TEST_CASE("safetensors_dataset requires the header to begin with a brace",
          "[data][safetensors_dataset][safetensors]") {
    for (char const* header : {"", " {}", "[]", "\xef\xbb\xbf{}", "null", "\"x\"", "1"}) {
        INFO(header);
        auto const error = failure(around(header));
        CHECK(error.offset() == 8);
        CHECK(error.why() == "the header does not begin with '{'");
    }
}

TEST_CASE("safetensors_dataset reports the offset where the header is not valid JSON, as data_error",
          "[data][safetensors_dataset][safetensors]") {
    std::string const x = tensor("x", "U8", "8", "0,8");
    for (std::string const& header :
         std::vector<std::string>{"{",
                                  "{" + x,
                                  "{" + x + ",}",
                                  "{," + x + "}",
                                  "{" + x + "}{}",
                                  "{" + x + "},",
                                  "{" + x + x + "}",
                                  "{/**/" + x + "}",
                                  "{'x':{}}",
                                  "{x:{}}",
                                  "{\"x\":}",
                                  "{\"x\"}",
                                  "{\"x",
                                  "{\"x\n\":{}}",
                                  "{\"\xc3\":{}}",
                                  "{\"\xed\xa0\x80\":{}}",
                                  "{\"\\ud800\":{}}",
                                  "{\"\\x\":{}}",
                                  "{" + tensor("x", "U8", "08", "0,8") + "}",
                                  "{" + tensor("x", "U8", "+8", "0,8") + "}",
                                  "{" + tensor("x", "U8", "0x8", "0,8") + "}",
                                  "{" + tensor("x", "U8", "8,", "0,8") + "}",
                                  "{" + tensor("x", "U8", "NaN", "0,8") + "}",
                                  "{" + tensor("x", "U8", "1e999", "0,8") + "}"}) {
        INFO(header);
        auto const error = failure(around(header, "12345678"));
        CHECK(mentions(error.why(), "the header is not valid JSON: "));
        CHECK(error.offset() > 8);
        CHECK(error.offset() <= 8 + header.size());
    }
    REQUIRE_NOTHROW(open(around("{" + x + "}", "12345678")));
    REQUIRE_NOTHROW(open(around("{" + x + "}     ", "12345678")));

    auto const error = failure(around("{\"images\":{\"dtype\";\"U8\"}}"));
    CHECK(error.offset() == 8 + 19);
    CHECK(mentions(error.why(), "invalid"));
    CHECK(mentions(why(around("{\"" + std::string(100'000, 'a'))), "..."));  // long text is truncated
}

TEST_CASE("safetensors_dataset refuses zero bytes in the header",
          "[data][safetensors_dataset][safetensors]") {
    std::string const header = "{" + tensor("x", "U8", "8", "0,8") + "}";
    for (std::size_t const zeros : {1U, 2U, 3U}) {
        auto const error = failure(around(header + std::string(zeros, '\0'), "12345678"));
        CHECK(error.why() == "the header contains a zero byte");
        CHECK(error.offset() == 8 + header.size());
    }
    CHECK(why(around(header + '\0' + "garbage", "12345678")) == "the header contains a zero byte");
}

TEST_CASE("safetensors_dataset refuses duplicate keys", "[data][safetensors_dataset][safetensors]") {
    std::string const x = tensor("x", "U8", "8", "0,8");
    CHECK(why_header('{' + x + ',' + x + '}') == "duplicate key \"x\"");
    CHECK(why_header("{" + x + "," + tensor("\\u0078", "U8", "8", "0,8") + "}") == "duplicate key \"x\"");
    CHECK(why_header("{\"__metadata__\":{},\"__metadata__\":{}," + x + "}") ==
          "duplicate key \"__metadata__\"");
    CHECK(why_header("{\"__metadata__\":{\"a\":\"\",\"b\":\"\",\"a\":\"\"}," + x + "}") ==
          "duplicate key \"a\"");
    CHECK(why_header("{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}") == "duplicate key \"dtype\"");
    CHECK(why_header("{\"x\":{\"shape\":[],\"shape\":[]}}") == "duplicate key \"shape\"");
    CHECK(why_header("{\"x\":{\"data_offsets\":[0,8],\"data_offsets\":[0,8]}}") ==
          "duplicate key \"data_offsets\"");
    REQUIRE_NOTHROW(open(around("{\"__metadata__\":{\"x\":\"\",\"dtype\":\"\"}," + x + "}", "12345678")));
}

TEST_CASE("safetensors_dataset requires metadata to be strings, and skips them",
          "[data][safetensors_dataset][safetensors]") {
    std::string const x = tensor("x", "U8", "8", "0,8");
    for (char const* value : {"1", "-1", "1.5", "true", "null", "[]", "{}", "[\"a\"]"}) {
        INFO(value);
        CHECK(why_header("{\"__metadata__\":{\"a\":\"b\",\"c\":" + std::string{value} + "}," + x + "}") ==
              "'__metadata__' contains a value that is not a string");
    }
    for (char const* value : {"1", "-1", "1.5", "true", "null", "[]", "\"a\""}) {
        INFO(value);
        CHECK(why_header("{\"__metadata__\":" + std::string{value} + "," + x + "}") ==
              "'__metadata__' is not an object");
    }
    safetensors_dataset const from =
        open(around("{" + x + ",\"__metadata__\":{\"format\":\"pt\",\"shape\":\"\"}}", "12345678"));
    REQUIRE(from.fields().size() == 1);
    CHECK(gathered(from, {7, 0})[0] == "81");
}

TEST_CASE("safetensors_dataset requires exactly three keys of a tensor, with values of the right types",
          "[data][safetensors_dataset][safetensors]") {
    std::string const dtype = "\"dtype\":\"U8\"";
    std::string const shape = "\"shape\":[8]";
    std::string const offsets = "\"data_offsets\":[0,8]";
    auto const of = [](std::string const& members) { return why_header("{\"x\":{" + members + "}}"); };
    for (std::string const& members : std::vector<std::string>{"", dtype, shape + ',' + offsets,
                                                               dtype + ',' + offsets, dtype + ',' + shape}) {
        INFO(members);
        CHECK(of(members) == "tensor \"x\": needs 'dtype', 'shape' and 'data_offsets'");
    }
    CHECK(of(dtype + ',' + shape + ',' + offsets + ",\"extra\":1") == "tensor \"x\": unknown key \"extra\"");
    for (char const* value : {"1", "-1", "1.5", "true", "null", "[]", "{}"})
        CHECK(of("\"dtype\":" + std::string{value}) == "tensor \"x\": 'dtype' must be a string");
    for (char const* value : {"1", "-1", "1.5", "true", "null", "{}", "\"8\""}) {
        CHECK(of("\"shape\":" + std::string{value}) == "tensor \"x\": 'shape' must be a list");
        CHECK(of("\"data_offsets\":" + std::string{value}) == "tensor \"x\": 'data_offsets' must be a list");
    }
    for (char const* value :
         {"-1", "-0", "8.0", "true", "null", "[]", "{}", "\"8\"", "18446744073709551616"}) {
        INFO(value);
        CHECK(of("\"shape\":[" + std::string{value} + "]") ==
              "tensor \"x\": 'shape' must be a list of integers, none negative");
        CHECK(of("\"data_offsets\":[" + std::string{value} + ",8]") ==
              "tensor \"x\": 'data_offsets' must be a list of integers, none negative");
    }
    for (char const* value : {"1", "-1", "1.5", "true", "null", "[]", "\"a\""})
        CHECK(why_header("{\"x\":" + std::string{value} + "}") == "tensor \"x\": not an object");
    CHECK(of(dtype + ',' + shape + ",\"data_offsets\":[]") == "tensor \"x\": fewer than two data_offsets");
    CHECK(of(dtype + ',' + shape + ",\"data_offsets\":[8]") == "tensor \"x\": fewer than two data_offsets");
    CHECK(of(dtype + ',' + shape + ",\"data_offsets\":[0,8,8]") ==
          "tensor \"x\": more than two data_offsets");
    REQUIRE_NOTHROW(
        open(around("{\"x\":{ " + offsets + " , " + shape + " ,\n\t" + dtype + " } }", "12345678")));
}

TEST_CASE("safetensors_dataset refuses deep nesting as soon as it is read",
          "[data][safetensors_dataset][safetensors]") {
    std::string lists, objects;
    for (int i = 0; i != 100'000; ++i) lists += '[', objects += "{\"x\":";
    CHECK(mentions(why(around("{\"x\":" + lists)), "not an object"));
    CHECK(mentions(why(around("{\"x\":{\"shape\":" + lists)), "a list of integers"));
    CHECK(mentions(why(around(objects)), "unknown key"));
    CHECK(mentions(why(around("{\"__metadata__\":" + objects)), "not a string"));
}

TEST_CASE("safetensors_dataset reads at most 32 dimensions", "[data][safetensors_dataset][safetensors]") {
    std::string ones = "1";
    for (int i = 1; i != 32; ++i) ones += ",1";
    CHECK(open(bytes(ones, "0,1", "a")).fields()[0].shape.size() == 31);
    CHECK(why(bytes(ones + ",1", "0,1", "a")) == "tensor \"x\": more than 32 dimensions");
}

TEST_CASE("safetensors_dataset requires data_offsets in the file that match the tensor's size",
          "[data][safetensors_dataset][safetensors]") {
    REQUIRE_NOTHROW(open(bytes("2,3", "0,6", "abcdef")));
    CHECK(why(bytes("2,3", "6,0", "abcdef")) == "tensor \"x\": data_offsets 6 to 0 are in the wrong order");
    CHECK(why(bytes("2,3", "0,7", "abcdef")) ==
          "tensor \"x\": data_offsets 0 to 7; the file holds 6 bytes of data");
    CHECK(why(bytes("2,3", "18446744073709551610,18446744073709551615", "abcdef")) ==
          "tensor \"x\": data_offsets 18446744073709551610 to 18446744073709551615; the file holds 6 bytes "
          "of data");
    CHECK(why(bytes("2,3", "0,5", "abcdef")) == "tensor \"x\": data_offsets 0 to 5; the shape takes 6 bytes");
    CHECK(why(bytes("2,2", "0,6", "abcdef")) == "tensor \"x\": data_offsets 0 to 6; the shape takes 4 bytes");
    CHECK(mentions(why(bytes("", "0,6", "abcdef")), "the shape takes 1 byte"));
    CHECK(mentions(why(bytes("0", "0,6", "abcdef")), "the shape takes 0 bytes"));
    CHECK(mentions(why(bytes("2,3", "0,6", "abcde")), "the file holds 5 bytes"));
    CHECK(
        mentions(why(around('{' + tensor("x", "F32", "2", "0,4") + '}', "abcd")), "the shape takes 8 bytes"));
}

TEST_CASE("safetensors_dataset refuses shapes whose product overflows",
          "[data][safetensors_dataset][safetensors]") {
    auto const why_shape = [](std::string const& shape, std::string const& offsets) {
        return why(around('{' + tensor("x", "F64", shape, offsets) + '}', "12345678"));
    };
    for (char const* shape :
         {"2305843009213693953",  // times 8 wraps to 8
          "4294967296,4294967296", "1,4294967296,4294967296", "2,2305843009213693952",
          "2305843009213693952,2", "0,2305843009213693952", "18446744073709551615,18446744073709551615"})
        for (char const* offsets : {"0,8", "0,0"}) {
            INFO(shape << ' ' << offsets);
            CHECK(why_shape(shape, offsets) == "tensor \"x\": the shape is larger than any file");
        }
}

TEST_CASE("safetensors_dataset requires each byte of the data to belong to exactly one tensor",
          "[data][safetensors_dataset][safetensors]") {
    auto const two = [](std::string const& first, std::string const& second) {
        return failure(
            around('{' + tensor("b", "U8", "2", second) + ',' + tensor("a", "U8", "2", first) + '}', "abcd"));
    };
    std::string const header =
        '{' + tensor("b", "U8", "2", "0,2") + ',' + tensor("a", "U8", "2", "0,2") + '}';
    std::size_t const data = 8 + header.size();
    REQUIRE_NOTHROW(open(
        around('{' + tensor("b", "U8", "2", "2,4") + ',' + tensor("a", "U8", "2", "0,2") + '}', "abcd")));

    CHECK(two("0,2", "1,3").why() ==
          "tensor \"b\" begins at byte 1 of the data; the tensors before it end at 2");
    CHECK(two("0,2", "1,3").offset() == data + 1);
    CHECK(two("0,2", "0,2").why() ==
          "tensor \"b\" begins at byte 0 of the data; the tensors before it end at 2");
    CHECK(two("1,3", "2,4").why() ==
          "tensor \"a\" begins at byte 1 of the data; the tensors before it end at 0");
    CHECK(two("1,3", "2,4").offset() == data);
    CHECK(why(around('{' + tensor("b", "U8", "1", "3,4") + ',' + tensor("a", "U8", "2", "0,2") + '}',
                     "abcd")) == "tensor \"b\" begins at byte 3 of the data; the tensors before it end at 2");
    CHECK(why(bytes("2", "0,2", "abcd")) == "the tensors end at byte 2 of the data; the file holds 4");
    CHECK(why(around("{}", "a")) == "the tensors end at byte 0 of the data; the file holds 1");
    CHECK(why(around('{' + tensor("a", "U8", "2,0", "1,1") + ',' + tensor("b", "U8", "2", "0,2") + '}',
                     "ab")) == "tensor \"a\" begins at byte 1 of the data; the tensors before it end at 2");
    REQUIRE_NOTHROW(
        open(around('{' + tensor("a", "U8", "0,1", "0,0") + ',' + tensor("b", "U8", "0", "0,0") + '}')));
}

TEST_CASE("safetensors_dataset shortens names in messages and replaces their control characters",
          "[data][safetensors_dataset][safetensors]") {
    CHECK(mentions(why(around('{' + tensor("a\\nb\\u0000", "F4", "1", "0,1") + '}', "x")),
                   "tensor \"a?b?\": "));
    auto const error = failure(around('{' + tensor(std::string(5000, 'a'), "F4", "1", "0,1") + '}', "x"));
    CHECK(error.why().size() < 200);
}

TEST_CASE("safetensors_dataset checks a gather before it writes",
          "[data][safetensors_dataset][safetensors]") {
    safetensors_dataset const from = open(images_and_labels());
    CHECK_THROWS_AS(gathered(from, {0, 3}), cuota::usage_error);
    std::vector<std::span<std::byte>> const no_room;
    std::vector<std::uint64_t> const samples{0};
    CHECK_THROWS_AS(from.gather(samples, no_room), cuota::usage_error);
}

TEST_CASE("safetensors_dataset gathers without allocating", "[data][safetensors_dataset][safetensors]") {
    safetensors_dataset const from = open(images_and_labels());
    std::vector<std::uint64_t> const samples{2, 0, 1};
    std::vector<std::byte> labels(6), images(18);
    std::vector<std::span<std::byte>> const out{labels, images};
    support::heap_watch const watch;
    from.gather(samples, out);
    std::size_t const allocations = watch.allocations();
    CHECK(allocations == 0);
}

TEST_CASE("safetensors_dataset allocates memory in proportion to the size of the header",
          "[data][safetensors_dataset][safetensors]") {
    support::temp_folder const folder;
    std::string many = "{\"__metadata__\":{";
    for (int i = 0; i != 20'000; ++i) many += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
    many += '}';
    for (int i = 0; i != 5'000; ++i) many += ',' + tensor("t" + std::to_string(i), "U8", "0", "0,0");
    std::string const path = folder.write("x", around(many + '}'));
    support::heap_watch const watch;
    safetensors_dataset const from{path};
    std::size_t const total = watch.total();
    CHECK(from.fields().size() == 5'000);
    CHECK(total < 32 * many.size());
}

TEST_CASE("safetensors_dataset names the sample and the tensor when the file has shrunk",
          "[data][safetensors_dataset][safetensors]") {
    support::temp_folder const folder;
    std::string const whole = images_and_labels();
    safetensors_dataset const from{folder.write("x", whole)};
    REQUIRE(::truncate(from.name().c_str(), static_cast<off_t>(whole.size() - 8)) == 0);

    CHECK(gathered(from, {0})[1] == support::pattern(18).substr(0, 6));
    auto const error = support::thrown<cuota::data_error>([&] { gathered(from, {0, 1, 2}); });
    CHECK(error.offset() == whole.size() - 8);
    CHECK(mentions(error.why(), "sample 1 of tensor \"images\" cannot be read"));
}

TEST_CASE("safetensors_dataset refuses every truncation of a file",
          "[data][safetensors_dataset][safetensors]") {
    support::temp_folder const folder;
    std::string const whole = images_and_labels();
    for (std::size_t length = 0; length != whole.size(); ++length) {
        INFO(length);
        CHECK(!is_read_or_refused(folder.write("x", whole.substr(0, length)), length));
    }
    CHECK(is_read_or_refused(folder.write("x", whole), whole.size()));
}

TEST_CASE("with any header byte changed, safetensors_dataset reads the file or throws data_error",
          "[data][safetensors_dataset][safetensors]") {
    support::temp_folder const folder;
    std::string const whole = bytes("3,2", "0,6", "abcdef");
    std::string const path = folder.write("x", whole);
    int const every = 256 / support::rounds(256);  // tries one value of a byte in `every`
    int read = 0;
    for (std::size_t at = 0; at != whole.size() - 6; ++at)
        for (int value = 0; value != 256; ++value) {
            if (value != static_cast<unsigned char>(whole[at]) && (static_cast<int>(at) + value) % every != 0)
                continue;
            INFO("byte " << at << " is " << value);
            folder.overwrite("x", at, static_cast<char>(value));
            if (is_read_or_refused(path, whole.size())) ++read;
            folder.overwrite("x", at, whole[at]);
        }
    // Reads each byte with its own value, and if all values are tried, the tensor's name with nearly any ASCII character, and "I8" for "U8".
    CHECK(read > static_cast<int>(whole.size()) - 6 + (every == 1 ? 90 : -1));
    CHECK(read < static_cast<int>(whole.size()) - 6 + 110);
}

TEST_CASE("safetensors_dataset reads files that Python's struct and json modules wrote",
          "[data][safetensors_dataset][safetensors][python]") {
    support::temp_folder const folder;
    REQUIRE(runs_in_python(folder, R"(
import json, struct, sys
floats = struct.pack("<6f", 0.5, -1, 2, 3, 4, 1e30)
labels = struct.pack("<3q", 7, -8, 9)
header = json.dumps({"__metadata__": {"format": "np", "\u00e9": "\u597d \\ \" \n"},
                     "images \u00e9": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]},
                     "labels": {"dtype": "I64", "shape": [3], "data_offsets": [24, 48]}}, indent=1).encode()
header += b" " * (-len(header) % 8)
with open(sys.argv[1] + "/x.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + floats + labels)
)"));
    safetensors_dataset const from{folder.path("x.safetensors")};
    CHECK(from.size() == 3);
    REQUIRE(from.fields().size() == 2);
    CHECK(from.fields()[0] == field{"images \xc3\xa9", element_type::f32, {2}});
    CHECK(from.fields()[1] == field{"labels", element_type::i64, {}});
    CHECK(gathered(from, {2, 0}) ==
          std::vector<std::string>{support::bytes_of(std::vector<float>{4, 1e30F, 0.5F, -1}),
                                   support::bytes_of(std::vector<std::int64_t>{9, 7})});
}

TEST_CASE("safetensors_dataset reads files of the safetensors library bit by bit",
          "[data][safetensors_dataset][safetensors][python]") {
    support::temp_folder const folder;
    if (!runs_in_python(folder, R"(
import sys
try:
    import numpy
    from safetensors.numpy import save_file
except ImportError:
    sys.exit(77)
random = numpy.random.default_rng(25)
tensors = {}
for dtype in "b1 u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split():
    dtype = numpy.dtype(dtype)
    bits = random.integers(0, 2 if dtype == bool else 256, (7, 3, 2 * dtype.itemsize), dtype="u1")
    tensors[dtype.str[1:]] = bits.view(dtype)  # of any bits: no number is changed on the way
    with open(f"{sys.argv[1]}/{dtype.str[1:]}", "wb") as file:
        file.write(bits.tobytes())
save_file(tensors, sys.argv[1] + "/x.safetensors", {"made": "by a test"})
)"))
        CUOTA_SKIP("no safetensors and NumPy for " CUOTA_PYTHON);
    safetensors_dataset const from{folder.path("x.safetensors")};
    CHECK(from.size() == 7);
    REQUIRE(from.fields().size() == 12);
    auto const all = gathered(from, support::first_samples(7));
    for (std::size_t k = 0; k != all.size(); ++k) {
        INFO(from.fields()[k].name);
        CHECK(from.fields()[k].shape == std::vector<std::size_t>{3, 2});
        CHECK(all[k] == content_of(folder.path(from.fields()[k].name)));
    }
}

TEST_CASE("a safetensors_dataset that was moved from is still valid",
          "[data][safetensors_dataset][moved_from]") {
    safetensors_dataset first = open(images_and_labels());
    safetensors_dataset const second{std::move(first)};
    CHECK(first.size() == 3);
    CHECK(first.name() == second.name());
    CHECK(gathered(first, {1}) == gathered(second, {1}));
}
