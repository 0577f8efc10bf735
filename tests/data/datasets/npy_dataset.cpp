// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/npy_dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/rounds.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::element_type;
using cuota::npy_dataset;
using support::gathered;
using support::mentions;

/// Returns a .npy file with this header text, padded as NumPy does.
std::string npy_around(std::string text, std::string const& data, int version = 1) {
    std::size_t const preamble = version == 1 ? 10 : 12;
    while ((preamble + text.size() + 1) % 64 != 0) text += ' ';
    text += '\n';
    std::string file = std::string{"\x93NUMPY", 6} + static_cast<char>(version) + '\0';
    for (std::size_t i = 0; i != preamble - 8; ++i) file += static_cast<char>(text.size() >> (8 * i) & 0xff);
    return file + text + data;
}

/// Returns an array as numpy.save writes it.
std::string npy(std::string const& descr, std::string const& shape, std::string const& data,
                int version = 1) {
    return npy_around("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", data,
                      version);
}

npy_dataset open(std::string const& bytes) {
    support::temp_folder const folder;  // the file stays readable without its folder
    return npy_dataset{folder.write("images.npy", bytes)};
}
cuota::data_error failure(std::string const& bytes) {
    return support::thrown<cuota::data_error>([&] { open(bytes); });
}

/// Returns whether the file parses to its content. Otherwise it must be a data_error. Both need only bounded memory.
bool is_read_or_refused(std::string const& path, std::string const& bytes) {
    support::heap_watch const watch;
    try {
        npy_dataset const from{path};
        cuota::field const& only = from.fields()[0];
        std::uint64_t const data = from.size() * only.bytes();
        REQUIRE(from.fields().size() == 1);
        REQUIRE(data <= bytes.size());
        REQUIRE(data % only.bytes() == 0);
        REQUIRE(gathered(from, support::first_samples(from.size()))[0] == bytes.substr(bytes.size() - data));
        return true;
    } catch (cuota::data_error const& error) {
        std::size_t const largest = watch.largest();
        REQUIRE(largest < 4096);
        REQUIRE(error.offset() <= bytes.size());
        return false;
    }
}

/// Writes arrays of every supported element type, with their bytes, and some of each unsupported kind.
constexpr char const* numpy_program = R"(
import sys
try:
    import numpy
except ImportError:
    sys.exit(77)
folder = sys.argv[1]
def write(name, array, version=None):
    with open(f"{folder}/{name}.npy", "wb") as file:
        numpy.lib.format.write_array(file, array, version)
    with open(f"{folder}/{name}.bytes", "wb") as file:
        file.write(array.tobytes())
random = numpy.random.default_rng(24)
for dtype in "b1 u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split():
    dtype = numpy.dtype(dtype)
    bits = random.integers(0, 2 if dtype == bool else 256, (7, 3, 2 * dtype.itemsize), dtype="u1")
    array = bits.view(dtype)  # of any bits: no number is changed on the way
    for version in 1, 2, 3:
        write(f"{dtype.str[1:]}-{version}", array, (version, 0))
    numpy.save(f"{folder}/{dtype.str[1:]}-saved.npy", array[:, :1, 0][:, ::-1])  # not as it stands in memory
write("one-dimension", numpy.arange(5, dtype="i4"))
write("no-samples", numpy.zeros((0, 28, 28), "f4"))
write("deep", numpy.zeros((2,) + (1,) * 31, "f4"))
numpy.save(f"{folder}/no-big-endian", numpy.zeros(3, ">f4"))
numpy.save(f"{folder}/no-fortran", numpy.asfortranarray(numpy.zeros((2, 3))))
write("column", numpy.asfortranarray(numpy.arange(5, dtype="i4").reshape(5, 1)))
numpy.save(f"{folder}/no-objects", numpy.array([{}, 1], object), allow_pickle=True)
numpy.save(f"{folder}/no-structured", numpy.zeros(2, [("a", "f4"), ("b", "i2")]))
numpy.save(f"{folder}/no-complex", numpy.zeros(2, "c8"))
numpy.save(f"{folder}/no-text", numpy.array(["a", "bc"]))
numpy.save(f"{folder}/no-dates", numpy.zeros(2, "M8[ns]"))
numpy.save(f"{folder}/no-scalar", numpy.float32(1))
numpy.save(f"{folder}/no-empty-samples", numpy.zeros((3, 0)))
)";

std::string content(std::string const& path) {
    std::ifstream from{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{from}, {}};
}

}  // namespace

TEST_CASE("npy_dataset reads arrays that NumPy wrote bit by bit, and refuses unsupported ones",
          "[data][npy_dataset][python]") {
    support::temp_folder const folder;
    std::string const program = folder.write("write.py", numpy_program);
    int const status = std::system(
        ("'" CUOTA_PYTHON "' '" + program + "' '" + folder.path() + "' 2> '" + folder.path("errors") + "'")
            .c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) CUOTA_SKIP("no NumPy for " CUOTA_PYTHON);
    INFO(content(folder.path("errors")));
    REQUIRE(status == 0);

    std::vector<std::pair<std::string, element_type>> const types{
        {"b1", element_type::u8},  {"u1", element_type::u8},  {"i1", element_type::i8},
        {"u2", element_type::u16}, {"i2", element_type::i16}, {"u4", element_type::u32},
        {"i4", element_type::i32}, {"u8", element_type::u64}, {"i8", element_type::i64},
        {"f2", element_type::f16}, {"f4", element_type::f32}, {"f8", element_type::f64}};
    for (auto const& [name, type] : types) {
        INFO(name);
        std::string bytes;
        for (char const* version : {"-1", "-2", "-3"}) {
            npy_dataset const from{folder.path(name + version + ".npy"), "x"};
            bytes = content(folder.path(name + version + ".bytes"));
            CHECK(from.size() == 7);
            CHECK(from.fields()[0] == cuota::field{"x", type, {3, 2}});
            CHECK(gathered(from, support::first_samples(7))[0] == bytes);
        }
        npy_dataset const saved{folder.path(name + "-saved.npy")};
        std::size_t const element = cuota::element_bytes(type);
        CHECK(saved.fields()[0].shape == std::vector<std::size_t>{1});
        CHECK(gathered(saved, {6, 2})[0] ==
              bytes.substr(6 * 6 * element, element) + bytes.substr(2 * 6 * element, element));
    }
    npy_dataset const numbers{folder.path("one-dimension.npy")};
    CHECK(gathered(numbers, {4, 1})[0] == support::bytes_of(std::vector<std::int32_t>{4, 1}));
    CHECK(npy_dataset{folder.path("no-samples.npy")}.fields()[0].count() == 784);
    CHECK(gathered(npy_dataset{folder.path("column.npy")}, {4, 1})[0] ==
          support::bytes_of(std::vector<std::int32_t>{4, 1}));
    CHECK(npy_dataset{folder.path("deep.npy")}.fields()[0].shape.size() == 31);

    for (auto const& [name, word] :
         std::vector<std::pair<std::string, std::string>>{{"big-endian", "big-endian"},
                                                          {"fortran", "Fortran order"},
                                                          {"objects", "Python objects"},
                                                          {"structured", "structured"},
                                                          {"complex", "complex numbers"},
                                                          {"text", "text"},
                                                          {"dates", "dates and times"},
                                                          {"scalar", "a single number has no samples"},
                                                          {"empty-samples", "samples of 0 bytes"}}) {
        INFO(name);
        auto const error = support::thrown<cuota::data_error>(
            [&, path = folder.path("no-" + name + ".npy")] { npy_dataset const from(path); });
        CHECK(mentions(error.why(), word));
    }
}

TEST_CASE("npy_dataset reads files of numpy.save, of every element type and version", "[data][npy_dataset]") {
    struct known {
        char const* descr;
        element_type type;
    };
    std::vector<known> const all{
        {"|u1", element_type::u8},  {"|b1", element_type::u8},  {"|i1", element_type::i8},
        {"<i2", element_type::i16}, {"<u2", element_type::u16}, {"<i4", element_type::i32},
        {"<u4", element_type::u32}, {"<i8", element_type::i64}, {"<u8", element_type::u64},
        {"<f2", element_type::f16}, {"<f4", element_type::f32}, {"<f8", element_type::f64}};
    for (known const& each : all)
        for (int const version : {1, 2, 3}) {
            INFO(each.descr << " version " << version);
            std::string const data = support::pattern(5 * 6 * cuota::element_bytes(each.type));
            npy_dataset const from = open(npy(each.descr, "(5, 2, 3)", data, version));

            CHECK(from.size() == 5);
            REQUIRE(from.fields().size() == 1);
            CHECK(from.fields()[0] == cuota::field{"images", each.type, {2, 3}});
            CHECK(gathered(from, {0, 1, 2, 3, 4})[0] == data);
            std::size_t const sample = data.size() / 5;
            CHECK(gathered(from, {3, 1})[0] == data.substr(3 * sample, sample) + data.substr(sample, sample));
        }
}

TEST_CASE("npy_dataset returns the numbers that the file stores", "[data][npy_dataset]") {
    std::vector<float> const numbers{1.5F, -2.0F, 0.25F};
    CHECK(gathered(open(npy("<f4", "(3,)", support::bytes_of(numbers))), {2, 0})[0] ==
          support::bytes_of(std::vector<float>{0.25F, 1.5F}));
}

TEST_CASE("npy_dataset reads one dimension as single numbers, and an empty array as no samples",
          "[data][npy_dataset]") {
    npy_dataset const labels = open(npy("<i8", "(3,)", std::string(24, 'x')));
    CHECK(labels.size() == 3);
    CHECK(labels.fields()[0].shape.empty());

    npy_dataset const none = open(npy("<f4", "(0, 28, 28)", ""));
    CHECK(none.size() == 0);
    CHECK(none.fields()[0].count() == 784);
}

TEST_CASE("npy_dataset names its field after the file unless a name is given", "[data][npy_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.write("train.x.npy", npy("|u1", "(1,)", "a"));

    CHECK(npy_dataset{path}.fields()[0].name == "train");
    CHECK(npy_dataset{path, "pixels"}.fields()[0].name == "pixels");
    CHECK(npy_dataset{cuota::file{path}}.name() == path);
}

TEST_CASE("npy_dataset accepts keys in any order, with or without spaces and a trailing comma",
          "[data][npy_dataset]") {
    for (char const* text : {"{'shape': (2, 2), 'fortran_order': False, 'descr': '|u1'}",
                             "{'fortran_order':False,'shape':(2,2,),'descr':'|u1',}",
                             "  { 'descr' : '|u1' , 'shape' : ( 2 , 2 ) , 'fortran_order' : False , }  "}) {
        INFO(text);
        npy_dataset const from = open(npy_around(text, "abcd"));
        CHECK(from.size() == 2);
        CHECK(gathered(from, {1, 0})[0] == "cdab");
    }
}

TEST_CASE("npy_dataset reads the same numbers as NumPy for every spelling of the header",
          "[data][npy_dataset]") {
    std::string const eight = "12345678";
    std::vector<std::pair<char const*, element_type>> const types{
        {"=f4", element_type::f32}, {"f4", element_type::f32}, {"float32", element_type::f32},
        {"<f", element_type::f32},  {"?", element_type::u8},   {"|?", element_type::u8},
        {"bool", element_type::u8}, {"b1", element_type::u8},  {">u1", element_type::u8},
        {">b1", element_type::u8},  {"=i1", element_type::i8}, {"uint16", element_type::u16},
        {"e", element_type::f16},   {"=d", element_type::f64}, {"int64", element_type::i64},
        {"l", element_type::i64}};
    for (auto const& [descr, type] : types) {
        INFO(descr);
        std::size_t const count = 8 / cuota::element_bytes(type);
        npy_dataset const from = open(npy(descr, "(" + std::to_string(count) + ",)", eight));
        CHECK(from.fields()[0].type == type);
        CHECK(gathered(from, support::first_samples(count))[0] == eight);
    }
    struct written {
        char const* text;
        std::uint64_t samples;
    };
    for (auto const& [text, samples] : std::vector<written>{
             {"{'descr': '|u1', 'fortran_order': False, 'shape': (4L, 2L), }", 4},   // Python 2
             {"{u'descr': u'|u1', u'fortran_order': False, u'shape': (8L,), }", 8},  // Python 2 with unicode
             {"{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": (4, 2), }", 4},  // quotes as in JSON
             {"{'descr': '|u1', \"fortran_order\": False, 'shape': (4, 2), }", 4},
             {"{'descr': '|u1', 'fortran_order': True, 'shape': (8,), }", 8},    // one axis
             {"{'descr': '|u1', 'fortran_order': True, 'shape': (8, 1), }", 8},  // one axis longer than 1
             {"{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1, 8), }", 1},
             {"{'shape': (1, 8), 'fortran_order': True, 'descr': '|u1'}", 1},
             {"\t{\n  'descr': '|u1',\r\n\t'fortran_order': False,\n  'shape': (4, 2),\n}\n\n", 4}}) {
        INFO(text);
        for (int const version : {1, 2, 3}) {
            npy_dataset const from = open(npy_around(text, eight, version));
            CHECK(from.size() == samples);
            CHECK(gathered(from, support::first_samples(samples))[0] == eight);
        }
    }
    CHECK(open(npy_around("{'descr': '|u1', 'fortran_order': True, 'shape': (0, 3), }", "")).size() == 0);
    std::string const padded =
        "{'descr': '|u1', 'fortran_order': False, 'shape': (8,), }" + std::string(9000, ' ');
    CHECK(open(npy_around(padded, eight)).size() == 8);
}

TEST_CASE("npy_dataset refuses unsupported arrays with the reason", "[data][npy_dataset]") {
    auto const why = [](std::string const& descr, std::string const& shape) {
        return failure(npy(descr, shape, "12345678")).why();
    };
    CHECK(mentions(why("|O", "(1,)"), "Python objects"));
    CHECK(mentions(why("O8", "(1,)"), "Python objects"));
    CHECK(mentions(why(">f4", "(2,)"), "big-endian"));
    CHECK(mentions(why(">int16", "(4,)"), "big-endian"));
    CHECK(mentions(why("<c8", "(1,)"), "complex numbers"));
    CHECK(mentions(why("<f16", "(1,)"), "more than 64 bits"));
    CHECK(mentions(why("<U2", "(1,)"), "text"));
    CHECK(mentions(why("|S8", "(1,)"), "text"));
    CHECK(mentions(why("<M8[ns]", "(1,)"), "dates and times"));
    CHECK(mentions(why("m8[s]", "(1,)"), "dates and times"));
    CHECK(mentions(why("|V8", "(1,)"), "raw bytes"));
    for (char const* descr : {"", "<", "=", "x4", "u3", "<u16", "uint128", "f3 "}) {
        INFO(descr);
        std::string const found = why(descr, "(1,)");
        CHECK((mentions(found, "supported: bool, integers and floats") ||
               mentions(found, "more than 64 bits")));
    }
    CHECK(mentions(why("<f8", "()"), "a single number has no samples"));
    CHECK(mentions(why("|u1", "(-8,)"), "negative"));
    CHECK(mentions(why("|u1", "(-1, -8)"), "negative"));
    CHECK(mentions(why("|u1", "(8, 0)"), "samples of 0 bytes"));
    CHECK(mentions(why("|u1", "(0, 0)"), "samples of 0 bytes"));

    auto const text = [](std::string const& header) { return failure(npy_around(header, "12345678")).why(); };
    CHECK(mentions(text("{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
                   "structured"));
    auto const order =
        failure(npy_around("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 4), }", "12345678"));
    CHECK(mentions(order.why(), "Fortran order of several axes"));
    CHECK(order.offset() == 10 + std::string_view{"{'descr': '|u1', 'fortran_order': "}.size());
    CHECK(mentions(text("{'descr': '|u1', 'shape': (2, 1, 4), 'fortran_order': True}"), "Fortran order"));
    CHECK(mentions(text("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }"), "sub-arrays"));
}

TEST_CASE("npy_dataset refuses headers outside of its fixed grammar", "[data][npy_dataset]") {
    std::string const order = "'fortran_order': False";
    std::string const descr = "'descr': '|u1'";
    std::string const shape = "'shape': (8,)";
    std::string const rest = descr + ", " + order + ", ";
    for (std::string const& header : {std::string{},
                                      std::string{"{}"},
                                      std::string{"{"},
                                      "{" + rest + "}",
                                      "{" + descr + ", " + shape + "}",
                                      "{" + order + ", " + shape + "}",
                                      "{" + rest + shape,
                                      "{" + rest + shape + ", 'extra': 1}",
                                      "{" + rest + shape + ", " + shape + "}",
                                      "{" + rest + shape + ",,}",
                                      "{," + rest + shape + "}",
                                      "{" + rest + shape + "} + {}",
                                      "{" + rest + shape + "}#",
                                      "{" + descr + ' ' + order + ", " + shape + "}",
                                      "{" + rest + "'shape' (8,)}",
                                      "{" + rest + "'shape': [8]}",
                                      "{" + rest + "'shape': (8)}",
                                      "{" + rest + "'shape': 8}",
                                      "{" + rest + "'shape': (8LL,)}",
                                      "{" + rest + "'shape': (8l,)}",
                                      "{" + rest + "'shape': (L,)}",
                                      "{" + rest + "'shape': (,)}",
                                      "{" + rest + "'shape': (8,,)}",
                                      "{" + rest + "'shape': (0x8,)}",
                                      "{" + rest + "'shape': (+8,)}",
                                      "{" + rest + "'shape': (08,)}",
                                      "{" + rest + "'shape': (2**3,)}",
                                      "{" + rest + "'shape': (8.0,)}",
                                      "{" + rest + "'shape': (True,)}",
                                      "{" + rest + "'shape': (8,}",
                                      "{" + rest + "\"shape': (8,)}",
                                      "{" + rest + "b'shape': (8,)}",
                                      "{" + rest + "uu'shape': (8,)}",
                                      "{" + rest + "shape: (8,)}",
                                      "{" + rest + "'shape: (8,)}",
                                      "{'descr': |u1, " + order + ", " + shape + "}",
                                      "{" + descr + ", 'fortran_order': 0, " + shape + "}",
                                      "{" + descr + ", 'fortran_order': 'False', " + shape + "}",
                                      "{\v" + rest + shape + "}"}) {
        INFO(header);
        auto const error = failure(npy_around(header, "12345678"));
        CHECK(error.offset() >= 10);
        CHECK(!error.why().empty());
    }
    REQUIRE_NOTHROW(open(npy_around("{" + rest + shape + "}", "12345678")));
}

TEST_CASE("npy_dataset refuses a file whose size does not match its shape", "[data][npy_dataset]") {
    std::string const exact = npy("<f4", "(2, 3)", std::string(24, 'x'));
    REQUIRE_NOTHROW(open(exact));

    auto const trailing = failure(exact + "!");
    CHECK(trailing.offset() == 128);
    CHECK(trailing.why() == "the header's shape takes 24 bytes; the file holds 25");
    CHECK(mentions(failure(exact.substr(0, exact.size() - 1)).why(), "the file holds 23"));
}

TEST_CASE("npy_dataset refuses shapes whose product or extent overflows", "[data][npy_dataset]") {
    auto const why = [](std::string const& shape) { return failure(npy("<f8", shape, "12345678")).why(); };
    CHECK(mentions(why("(4294967296, 4294967296)"), "larger than any file"));
    CHECK(mentions(why("(1, 4294967296, 4294967296)"), "larger than any file"));
    CHECK(mentions(why("(2305843009213693953,)"), "larger than any file"));  // times 8 wraps to 8
    CHECK(mentions(why("(2, 2305843009213693952)"), "larger than any file"));
    CHECK(mentions(why("(0, 2305843009213693952)"), "larger than any file"));
    CHECK(mentions(why("(18446744073709551616,)"), "more than 64 bits"));
    CHECK(mentions(why("(18446744073709551617,)"), "more than 64 bits"));
    CHECK(mentions(why("(100000000000000000000000000000,)"), "more than 64 bits"));
    CHECK(mentions(why("(1000000, 1000000)"), "the file holds 8"));

    std::string ones = "(";
    for (int i = 0; i != 65; ++i) ones += "1, ";
    CHECK(mentions(why(ones + ")"), "more than 64 dimensions"));
}

TEST_CASE("npy_dataset refuses a header length beyond its maximum or the end of the file",
          "[data][npy_dataset]") {
    std::string file = npy("|u1", "(8,)", "12345678", 2);
    for (std::uint32_t const length : {0xffffffffU, 0x7fffffffU, 10'001U}) {
        for (std::size_t i = 0; i != 4; ++i) file[8 + i] = static_cast<char>(length >> (8 * i) & 0xff);
        auto const error = failure(file);
        CHECK(error.offset() == 8);
        CHECK(mentions(error.why(), "exceeds the maximum of 10000"));
    }
    std::string longer = npy("|u1", "(8,)", "");
    longer[9] = '\x10';
    CHECK(mentions(failure(longer).why(), "the file ends at byte 128"));
}

TEST_CASE("npy_dataset refuses other formats and versions", "[data][npy_dataset]") {
    std::string const good = npy("|u1", "(8,)", "12345678");
    CHECK(failure("another file").why() == "is not a .npy file");
    CHECK(mentions(failure("short").why(), "the file ends at byte 5"));
    CHECK(mentions(failure("PK\3\4 an archive").why(), "is a zip archive"));
    CHECK(mentions(failure("").why(), "the file is empty"));
    for (int const major : {0, 4, 255}) {
        std::string file = good;
        file[6] = static_cast<char>(major);
        CHECK(mentions(failure(file).why(), "unknown version of .npy"));
    }
    std::string minor = good;
    minor[7] = 1;
    CHECK(failure(minor).offset() == 6);
}

TEST_CASE("npy_dataset refuses every truncation of a file", "[data][npy_dataset]") {
    support::temp_folder const folder;
    for (int const version : {1, 2}) {
        std::string const whole = npy("<i2", "(4, 3)", support::pattern(24), version);
        for (std::size_t length = 0; length != whole.size(); ++length) {
            INFO(length);
            std::string const bytes = whole.substr(0, length);
            CHECK(!is_read_or_refused(folder.write("x.npy", bytes), bytes));
        }
        CHECK(is_read_or_refused(folder.write("x.npy", whole), whole));
    }
}

TEST_CASE("with any header byte changed, npy_dataset reads the file or throws data_error",
          "[data][npy_dataset]") {
    support::temp_folder const folder;
    int const every = 256 / support::rounds(256);  // tries one value of a byte in `every`
    for (int const version : {1, 2}) {
        std::string const whole = npy("<i2", "(4, 3)", support::pattern(24), version);
        std::string const path = folder.write("x.npy", whole);
        int parsed = 0;
        for (std::size_t at = 0; at != 80; ++at)  // the dict ends before 80; the rest is padding
            for (int value = 0; value != 256; ++value) {
                std::string bytes = whole;
                if (value != static_cast<unsigned char>(whole[at]) &&
                    (static_cast<int>(at) + value) % every != 0)
                    continue;
                INFO("byte " << at << " is " << value);
                bytes[at] = static_cast<char>(value);
                folder.overwrite("x.npy", at, bytes[at]);
                if (is_read_or_refused(path, bytes)) ++parsed;
                folder.overwrite("x.npy", at, whole[at]);
            }
        CHECK(parsed >= 80);  // each byte with its own value
        CHECK(parsed < 200);  // and other blanks, byte orders or numbers of the same size
    }
}

TEST_CASE("with a randomly rewritten header, npy_dataset reads the file or throws data_error",
          "[data][npy_dataset]") {
    support::temp_folder const folder;
    std::string const whole = npy("<i2", "(4, 3)", support::pattern(24));
    std::string const alphabet = "{}()[],:' -0123456789<>|=fiubcOSTrueFalsdhpn_\n\t\\\"x";
    std::uint32_t random = 12345;
    auto const below = [&random](std::size_t n) {
        random = random * 1664525U + 1013904223U;
        return static_cast<std::size_t>(random >> 8) % n;
    };
    for (int round = 0; round != 3000; ++round) {
        std::string bytes = whole;
        for (std::size_t changes = 1 + below(6); changes != 0; --changes) {
            std::size_t const at = 10 + below(60);
            if (below(3) == 0) bytes.erase(at, 1 + below(4));
            else if (below(2) == 0) bytes.insert(at, 1, alphabet[below(alphabet.size())]);
            else bytes[at] = alphabet[below(alphabet.size())];
        }
        INFO(bytes);
        is_read_or_refused(folder.write("x.npy", bytes), bytes);
    }
}

TEST_CASE("npy_dataset names the sample when the file has shrunk", "[data][npy_dataset]") {
    support::temp_folder const folder;
    npy_dataset const from{folder.write("x.npy", npy("<i4", "(10,)", std::string(40, 'x')))};
    REQUIRE(::truncate(from.name().c_str(), 128 + 18) == 0);

    CHECK(gathered(from, {0, 1, 2, 3})[0] == std::string(16, 'x'));
    auto const error = support::thrown<cuota::data_error>([&] { gathered(from, {3, 4, 5}); });
    CHECK(error.offset() == 128 + 18);
    CHECK(mentions(error.why(), "sample 4 cannot be read"));
}
