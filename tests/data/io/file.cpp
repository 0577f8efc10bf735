// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/io/file.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

static_assert(std::is_nothrow_move_constructible_v<cuota::file>);

std::string read(cuota::file const& from, std::uint64_t offset, std::size_t bytes) {
    std::string text(bytes, '\0');
    from.read_exact(offset, std::as_writable_bytes(std::span{text}));
    return text;
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) != -1; }

cuota::data_error failure_to_open(std::string const& path) {
    return support::thrown<cuota::data_error>([&] { cuota::file const opened{path}; });
}

}  // namespace

TEST_CASE("file reads bytes at an offset", "[data][file]") {
    support::temp_folder const folder;
    cuota::file const opened{folder.write("letters.txt", "abcdefgh")};

    CHECK(opened.size() == 8);
    CHECK(opened.name() == folder.path("letters.txt"));
    CHECK(opened.stem() == "letters");
    CHECK(read(opened, 0, 8) == "abcdefgh");
    CHECK(read(opened, 3, 2) == "de");
    CHECK(read(opened, 8, 0).empty());
}

TEST_CASE("file reads one range into several parts", "[data][file]") {
    support::temp_folder const folder;
    cuota::file const opened{folder.write("letters.txt", "abcdefgh")};
    std::string first(3, '\0');
    std::string second(2, '\0');
    std::array<iovec, 3> parts{{{first.data(), first.size()}, {nullptr, 0}, {second.data(), second.size()}}};

    opened.read_exact(2, parts);

    CHECK(first == "cde");
    CHECK(second == "fg");
}

TEST_CASE("a read beyond the end of a file reports the byte where the file ends", "[data][file]") {
    support::temp_folder const folder;
    cuota::file const opened{folder.write("letters.txt", "abcdefgh")};

    auto const error = support::thrown<cuota::data_error>([&] { read(opened, 6, 3); });
    CHECK(error.offset() == 8);
    CHECK(error.file() == opened.name());
    CHECK(support::mentions(error.why(), "3 bytes requested from byte 6"));

    REQUIRE_THROWS_AS(read(opened, 9, 0), cuota::data_error);
    REQUIRE_THROWS_AS(read(opened, 0, 9), cuota::data_error);
    REQUIRE_THROWS_AS(read(opened, std::numeric_limits<std::uint64_t>::max(), 2), cuota::data_error);
}

TEST_CASE("file detects that it has shrunk since it was opened", "[data][file]") {
    support::temp_folder const folder;
    cuota::file const opened{folder.write("letters.txt", "abcdefgh")};
    REQUIRE(::truncate(opened.name().c_str(), 5) == 0);

    CHECK(read(opened, 2, 3) == "cde");
    auto const across = support::thrown<cuota::data_error>([&] { read(opened, 2, 4); });
    CHECK(across.offset() == 5);
    CHECK(support::mentions(across.why(), "ends at byte 5, shorter than when it was opened"));
    CHECK(support::thrown<cuota::data_error>([&] { read(opened, 6, 1); }).offset() == 6);
}

TEST_CASE("file reports why it cannot be opened", "[data][file]") {
    support::temp_folder const folder;

    auto const missing = failure_to_open(folder.path("missing"));
    CHECK(missing.file() == folder.path("missing"));
    CHECK(missing.why() == "cannot be opened: No such file or directory");
    CHECK(support::mentions(failure_to_open("").why(), "No such file"));
}

TEST_CASE("file refuses everything but regular files, without blocking", "[data][file]") {
    support::temp_folder const folder;
    REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);

    CHECK(failure_to_open(folder.path("pipe")).why() == "is not a regular file");
    CHECK(failure_to_open(folder.path()).why() == "is not a regular file");
    CHECK(failure_to_open("/dev/null").why() == "is not a regular file");
}

TEST_CASE("copies of a file share its descriptor, and the last copy closes it", "[data][file]") {
    support::temp_folder const folder;
    int const descriptor = ::open(folder.write("letters.txt", "abc").c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(descriptor >= 0);
    {
        cuota::file kept = cuota::file::adopt(descriptor, "letters");
        {
            cuota::file const copy = kept;
            CHECK(read(copy, 0, 3) == "abc");
        }
        CHECK(is_open(descriptor));
        CHECK(kept.name() == "letters");
        CHECK(read(kept, 0, 3) == "abc");
    }
    CHECK(!is_open(descriptor));
}

TEST_CASE("file closes a descriptor that it refuses to adopt", "[data][file]") {
    int const descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(descriptor >= 0);

    REQUIRE_THROWS_AS(cuota::file::adopt(descriptor, "null"), cuota::data_error);
    CHECK(!is_open(descriptor));
    REQUIRE_THROWS_AS(cuota::file::adopt(-1, "none"), cuota::data_error);
}

TEST_CASE("file reports a read that the system refuses", "[data][file]") {
    support::temp_folder const folder;
    int const descriptor = ::open(folder.write("letters.txt", "abc").c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(descriptor >= 0);
    cuota::file const opened = cuota::file::adopt(descriptor, "letters");

    auto const error = support::thrown<cuota::data_error>([&] { read(opened, 1, 2); });
    CHECK(error.offset() == 1);
    CHECK(support::mentions(error.why(), "cannot be read: Bad file descriptor"));
}

TEST_CASE("the stem of a file's name has no folders and no extensions", "[data][file]") {
    support::temp_folder const folder;
    CHECK(cuota::file{folder.write("train-images-idx3-ubyte.gz", "")}.stem() == "train-images-idx3-ubyte");
    CHECK(cuota::file{folder.write("x.tar.gz", "")}.stem() == "x");
    CHECK(cuota::file{folder.write(".hidden", "")}.stem() == ".hidden");
    CHECK(cuota::file{folder.write("plain", "")}.stem() == "plain");
}
