// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/idx_dataset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::element_type;
using cuota::idx_dataset;
using support::gathered;
using support::mentions;

std::string idx(unsigned char code, std::vector<std::uint32_t> const& extents, std::string const& data) {
    std::string file{0, 0};
    file += static_cast<char>(code);
    file += static_cast<char>(extents.size());
    for (std::uint32_t const extent : extents)
        for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(extent >> shift & 0xff);
    return file + data;
}

/// Returns the numbers as in an IDX file: most significant byte first.
template <class T>
std::string big_endian(std::vector<T> const& numbers) {
    std::string text = support::bytes_of(numbers);
    for (std::size_t at = 0; at != text.size(); at += sizeof(T))
        std::reverse(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(at + sizeof(T)));
    return text;
}

idx_dataset open(std::string const& bytes) {
    support::temp_folder const folder;  // the file stays readable without its folder
    return idx_dataset{folder.write("images-idx3-ubyte", bytes)};
}
cuota::data_error failure(std::string const& bytes) {
    return support::thrown<cuota::data_error>([&] { open(bytes); });
}

template <class T>
void check_type(unsigned char code, element_type type, std::vector<T> const& numbers) {
    idx_dataset const from =
        open(idx(code, {static_cast<std::uint32_t>(numbers.size())}, big_endian(numbers)));
    INFO(cuota::element_name(type));
    CHECK(from.fields()[0].type == type);
    CHECK(from.fields()[0].shape.empty());
    CHECK(gathered(from, support::first_samples(from.size()))[0] == support::bytes_of(numbers));
    CHECK(gathered(from, {2, 0})[0] == support::bytes_of(std::vector<T>{numbers[2], numbers[0]}));
}

/// Returns whether the file parses to its content. Otherwise it must be a data_error. Both need only bounded memory.
bool is_read_or_refused(std::string const& path, std::string const& bytes) {
    support::heap_watch const watch;
    try {
        idx_dataset const from{path};
        cuota::field const& only = from.fields()[0];
        std::size_t const header = 4 * (2 + only.shape.size());
        REQUIRE(header + from.size() * only.bytes() == bytes.size());
        REQUIRE(gathered(from, support::first_samples(from.size()))[0].size() == bytes.size() - header);
        return true;
    } catch (cuota::data_error const& error) {
        std::size_t const largest = watch.largest();
        REQUIRE(largest < 4096);
        REQUIRE(error.offset() <= bytes.size());
        return false;
    }
}

}  // namespace

TEST_CASE("idx_dataset reads images in MNIST's format", "[data][idx_dataset]") {
    std::string const data = support::pattern(5 * 6);
    idx_dataset const from = open(idx(0x08, {5, 2, 3}, data));

    CHECK(from.size() == 5);
    REQUIRE(from.fields().size() == 1);
    CHECK(from.fields()[0] == cuota::field{"images-idx3-ubyte", element_type::u8, {2, 3}});
    CHECK(gathered(from, {0, 1, 2, 3, 4})[0] == data);
    CHECK(gathered(from, {4, 2})[0] == data.substr(24, 6) + data.substr(12, 6));
}

TEST_CASE("idx_dataset returns every element type in the host's byte order", "[data][idx_dataset]") {
    check_type<std::uint8_t>(0x08, element_type::u8, {1, 200, 255});
    check_type<std::int8_t>(0x09, element_type::i8, {1, -100, 127});
    check_type<std::int16_t>(0x0B, element_type::i16, {1, -30'000, 258});
    check_type<std::int32_t>(0x0C, element_type::i32, {1, -2'000'000'000, 16'909'060});
    check_type<float>(0x0D, element_type::f32, {1.5F, -0.125F, 3e30F});
    check_type<double>(0x0E, element_type::f64, {1.5, -0.125, 3e300});
}

TEST_CASE("idx_dataset opens a path or a file, and names its field after the file unless a name is given",
          "[data][idx_dataset]") {
    support::temp_folder const folder;
    std::string const path = folder.write("labels.idx", idx(0x08, {2}, "ab"));

    CHECK(idx_dataset{path}.fields()[0].name == "labels");
    CHECK(idx_dataset{path, "class"}.fields()[0].name == "class");
    CHECK(gathered(idx_dataset{cuota::file{path}}, {1})[0] == "b");
    CHECK(open(idx(0x08, {0, 28, 28}, "")).size() == 0);
}

TEST_CASE("idx_dataset refuses invalid headers", "[data][idx_dataset]") {
    CHECK(failure("\1\0\10\1").why() == "the file ends at byte 1; 4 bytes requested from byte 0");
    CHECK(failure(std::string{"\1\0\10\1\0\0\0\0", 8}).why() == "is not an IDX file");
    for (unsigned const code : {0x00U, 0x07U, 0x0AU, 0x0FU, 0xFFU}) {
        auto const error = failure(idx(static_cast<unsigned char>(code), {1}, "a"));
        CHECK(error.offset() == 2);
        CHECK(error.why() == "unknown IDX element type");
    }
    CHECK(failure(idx(0x08, {}, "a")).offset() == 3);
    CHECK(mentions(failure(idx(0x08, {4, 0}, "")).why(), "samples of 0 bytes"));
}

TEST_CASE("idx_dataset refuses a file whose size does not match its dimensions", "[data][idx_dataset]") {
    auto const claims_more = failure(idx(0x0C, {3, 2}, std::string(23, 'x')));
    CHECK(claims_more.offset() == 12);
    CHECK(claims_more.why() == "the header's shape takes 24 bytes; the file holds 23");
    CHECK(mentions(failure(idx(0x0C, {3, 2}, std::string(25, 'x'))).why(), "the file holds 25"));
    CHECK(mentions(failure(idx(0x08, {0xffffffff}, "x")).why(), "takes 4294967295 bytes; the file holds 1"));
}

TEST_CASE("idx_dataset refuses dimensions whose product overflows", "[data][idx_dataset]") {
    std::uint32_t const most = 0xffffffff;
    CHECK(mentions(failure(idx(0x08, {most, most, most}, "")).why(), "larger than any file"));
    CHECK(mentions(failure(idx(0x0E, {0x20000000, 0x80000000, 8}, "")).why(),
                   "larger than any file"));  // wraps to 0
    CHECK(mentions(failure(idx(0x08, {0, most, most, most}, "")).why(), "larger than any file"));
    CHECK(
        mentions(failure(idx(0x08, std::vector<std::uint32_t>(64, most), "")).why(), "larger than any file"));
    CHECK(mentions(failure(idx(0x08, std::vector<std::uint32_t>(255, most), "")).why(),
                   "255 dimensions are not supported; supported: 1 to 64"));
    REQUIRE_NOTHROW(open(idx(0x08, std::vector<std::uint32_t>(64, 1), "a")));
}

TEST_CASE("idx_dataset refuses truncated files, and reads or refuses files with a changed header byte",
          "[data][idx_dataset]") {
    support::temp_folder const folder;
    std::string const whole = idx(0x0B, {2, 3, 4}, support::pattern(48));
    for (std::size_t length = 0; length != whole.size(); ++length) {
        INFO(length);
        std::string const bytes = whole.substr(0, length);
        CHECK(!is_read_or_refused(folder.write("x.idx", bytes), bytes));
    }
    std::string const path = folder.write("x.idx", whole);
    int parsed = 0;
    for (std::size_t at = 0; at != 16; ++at)
        for (int value = 0; value != 256; ++value) {
            INFO("byte " << at << " is " << value);
            std::string bytes = whole;
            bytes[at] = static_cast<char>(value);
            folder.overwrite("x.idx", at, bytes[at]);
            if (is_read_or_refused(path, bytes)) ++parsed;
            folder.overwrite("x.idx", at, whole[at]);
        }
    CHECK(parsed >= 16);  // each byte with its own value
    CHECK(parsed < 24);
}

TEST_CASE("idx_dataset names the sample when the file has shrunk", "[data][idx_dataset]") {
    support::temp_folder const folder;
    idx_dataset const from{folder.write("x.idx", idx(0x0C, {10}, std::string(40, 'x')))};
    REQUIRE(::truncate(from.name().c_str(), 8 + 10) == 0);

    auto const error = support::thrown<cuota::data_error>([&] { gathered(from, {0, 1, 2, 3}); });
    CHECK(error.offset() == 18);
    CHECK(mentions(error.why(), "sample 2 cannot be read"));
}

TEST_CASE("idx_dataset swaps bytes correctly on several threads at once", "[data][idx_dataset]") {
    std::vector<std::int32_t> numbers;
    for (int i = 0; i != 1000; ++i) numbers.push_back(i * 1'000'003);
    idx_dataset const from = open(idx(0x0C, {1000}, big_endian(numbers)));

    std::vector<std::string> seen(4);
    {
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t != 4; ++t)
            threads.emplace_back([&seen, &from, t] {
                for (int round = 0; round != 20; ++round)
                    seen[t] = gathered(from, support::first_samples(1000 - t))[0];
            });
        for (std::thread& thread : threads) thread.join();
    }
    for (std::size_t t = 0; t != 4; ++t)
        CHECK(seen[t] == support::bytes_of(numbers).substr(0, 4 * (1000 - t)));
}
