// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/io/gzip.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <cuota/data/datasets/idx_dataset.hpp>

#include "support/catch.hpp"
#include "support/heap_watch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using support::mentions;

/// Compresses the text to one gzip member.
std::string gzip(std::string text, int level = 6) {
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string packed(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(text.data());
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

std::string content(cuota::file const& from) {
    std::string text(from.size(), '\0');
    from.read_exact(0, std::as_writable_bytes(std::span{text}));
    return text;
}
std::string inflated(std::string const& bytes) {
    support::temp_folder const folder;
    return content(cuota::open_maybe_gzip(folder.write("x.gz", bytes)));
}
cuota::data_error failure(std::string const& bytes, std::uint64_t limit = 1 << 20) {
    support::temp_folder const folder;
    std::string const path = folder.write("x.gz", bytes);
    return support::thrown<cuota::data_error>([&] { (void)cuota::open_maybe_gzip(path, limit); });
}

/// Sets $TMPDIR within a scope.
class temporary_folder_is {
public:
    explicit temporary_folder_is(std::string const& path) {
        if (char const* const now = std::getenv("TMPDIR")) before_ = now;
        ::setenv("TMPDIR", path.c_str(), 1);
    }
    temporary_folder_is(temporary_folder_is const&) = delete;
    temporary_folder_is& operator=(temporary_folder_is const&) = delete;
    ~temporary_folder_is() {
        if (before_) ::setenv("TMPDIR", before_->c_str(), 1);
        else ::unsetenv("TMPDIR");
    }

private:
    std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("open_maybe_gzip opens an uncompressed file unchanged", "[data][gzip]") {
    for (std::string const text : {"", "a", "\x1f", "\x1f\x8c not gzip", "plain text"})
        CHECK(inflated(text) == text);
}

TEST_CASE("open_maybe_gzip inflates files of any size", "[data][gzip]") {
    for (std::size_t const bytes : {0U, 1U, 65'535U, 65'536U, 65'537U, 300'000U}) {
        std::string const text = support::pattern(bytes);
        for (int const level : {0, 1, 9}) CHECK(inflated(gzip(text, level)) == text);
    }
}

TEST_CASE("open_maybe_gzip inflates members one after the other", "[data][gzip]") {
    std::string const long_text = support::pattern(200'000);
    CHECK(inflated(gzip("abc") + gzip("") + gzip(long_text, 0) + gzip("xyz")) == "abc" + long_text + "xyz");
    // The first member ends exactly at the end of an input chunk.
    std::string const first = gzip(support::pattern(65'536 - 18 - 10), 0);
    CHECK(inflated(first + gzip("xyz")).substr(65'536 - 18 - 10) == "xyz");
}

TEST_CASE("open_maybe_gzip keeps the name of the file for messages", "[data][gzip]") {
    support::temp_folder const folder;
    std::string const header{"\0\0\x08\1\0\0\0\3", 8};
    std::string const path = folder.write("labels.idx.gz", gzip(header + "abc"));

    cuota::idx_dataset const labels{cuota::open_maybe_gzip(path)};
    CHECK(labels.name() == path);
    CHECK(labels.fields()[0].name == "labels");
    CHECK(support::gathered(labels, {2, 0})[0] == "ca");
}

TEST_CASE("open_maybe_gzip refuses every truncation of a file", "[data][gzip]") {
    std::string const whole = gzip(support::pattern(500));
    for (std::size_t length = 2; length != whole.size(); ++length) {
        INFO(length);
        auto const error = failure(whole.substr(0, length));
        CHECK(error.offset() == length);
        CHECK(mentions(error.why(), "ends inside a member"));
    }
    std::string const second = whole + whole.substr(0, 5);
    CHECK(failure(second).offset() == second.size());
}

TEST_CASE("with any bit of the file flipped, open_maybe_gzip returns the right bytes or throws",
          "[data][gzip]") {
    std::string const text = support::pattern(500);
    std::string const whole = gzip(text);
    support::temp_folder const folder;
    int harmless = 0;
    for (std::size_t at = 2; at != whole.size(); ++at)
        for (int bit = 0; bit != 8; ++bit) {
            INFO("bit " << bit << " of byte " << at);
            std::string bytes = whole;
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
            std::string const path = folder.write("x.gz", bytes);
            try {
                std::string const seen = content(cuota::open_maybe_gzip(path, 1 << 20));
                CHECK(seen == text);  // a time stamp or padding, which no checksum covers
                ++harmless;
            } catch (cuota::data_error const& error) {
                CHECK(error.file() == path);
                CHECK(error.offset() <= bytes.size());
            }
        }
    CHECK(harmless < 80);
}

TEST_CASE("open_maybe_gzip refuses other data after a member", "[data][gzip]") {
    std::string const whole = gzip("abc");
    auto const garbage = failure(whole + "garbage");
    CHECK(garbage.offset() == whole.size());
    CHECK(
        mentions(garbage.why(), "the data after the last gzip member is neither a member nor zero padding"));
    auto const behind_zeros = failure(whole + std::string(70'000, '\0') + "x");
    CHECK(behind_zeros.offset() == whole.size() + 70'000);
    CHECK(mentions(behind_zeros.why(), "neither a member nor zero padding"));
    CHECK(mentions(failure(whole + "\x1f garbage").why(), "corrupt: incorrect header check"));
}

TEST_CASE("open_maybe_gzip skips zeros after a member, as gzip does", "[data][gzip]") {
    std::string const text = support::pattern(500);
    std::string const whole = gzip(text);
    for (std::size_t const zeros : {1, 2, 10, 512, 65'536, 200'000}) {
        INFO(zeros);
        CHECK(inflated(whole + std::string(zeros, '\0')) == text);
        CHECK(inflated(whole + std::string(zeros, '\0') + gzip("xyz")) == text + "xyz");
    }
    // The zeros begin at the start of an input chunk.
    std::string const chunk = gzip(support::pattern(65'536 - 18 - 10), 0);
    CHECK(inflated(chunk + std::string(10, '\0')) == support::pattern(65'536 - 18 - 10));
}

TEST_CASE("open_maybe_gzip inflates no more than its limit", "[data][gzip]") {
    std::string const bomb = gzip(std::string(10'000'000, '\0'), 9);
    support::temp_folder const folder;
    std::string const path = folder.write("bomb.gz", bomb);

    CHECK(cuota::open_maybe_gzip(path, 10'000'000).size() == 10'000'000);
    auto const error = failure(bomb, 9'999'999);
    CHECK(mentions(error.why(), "exceeds the limit of 9999999 bytes"));
    CHECK(error.offset() <= bomb.size());
    CHECK(cuota::open_maybe_gzip(folder.write("none.gz", gzip("")), 0).size() == 0);
}

TEST_CASE("open_maybe_gzip uses the same amount of memory for files of any size", "[data][gzip]") {
    support::temp_folder const folder;
    std::string const path = folder.write("x.gz", gzip(support::pattern(3'000'000)));

    support::heap_watch const watch;
    (void)cuota::open_maybe_gzip(path);
    std::size_t const largest = watch.largest();

    CHECK(largest < 4096);
}

TEST_CASE("open_maybe_gzip leaves nothing in the temporary folder, and reports that it cannot use it",
          "[data][gzip]") {
    support::temp_folder const folder;
    support::temp_folder const temporary;
    std::string const good = folder.write("good.gz", gzip("abc"));
    std::string const bad = folder.write("bad.gz", gzip("abc") + "garbage");
    {
        temporary_folder_is const set{temporary.path()};
        cuota::file const opened = cuota::open_maybe_gzip(good);
        CHECK(std::filesystem::is_empty(temporary.path()));
        CHECK(content(opened) == "abc");
        REQUIRE_THROWS_AS((void)cuota::open_maybe_gzip(bad), cuota::data_error);
        CHECK(std::filesystem::is_empty(temporary.path()));
    }
    temporary_folder_is const set{temporary.path("missing")};
    auto const error = support::thrown<cuota::data_error>([&] { (void)cuota::open_maybe_gzip(good); });
    CHECK(mentions(error.file(), temporary.path("missing")));
    CHECK(mentions(error.why(), "cannot be created: No such file or directory"));
}
