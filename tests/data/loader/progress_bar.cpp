// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/loader/progress_bar.hpp>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/sanitizer.hpp"
#include "support/sink.hpp"

using cuota::loader_stats;
using cuota::progress_bar;
using namespace std::chrono_literals;

namespace {

loader_stats at(std::uint64_t batches) {
    return {.epoch = 2,
            .batches = batches,
            .total_batches = 400,
            .workers = 1,
            .elapsed = 4s,
            .reading = 4s,
            .waiting_for_batches = 2s};
}

// A pseudo-terminal and the stream that a program writes to.
class terminal {
public:
    terminal() : master_{::posix_openpt(O_RDWR | O_NOCTTY)} {
        REQUIRE(master_ >= 0);
        REQUIRE(::grantpt(master_) == 0);
        REQUIRE(::unlockpt(master_) == 0);
        program_ = std::fopen(::ptsname(master_), "w");
        REQUIRE(program_ != nullptr);
    }
    ~terminal() {
        (void)std::fclose(program_);
        ::close(master_);
    }
    [[nodiscard]] std::FILE* program() const { return program_; }
    // Returns all output so far. Output may arrive late, so a mark is sent after it.
    [[nodiscard]] std::string take() const {
        constexpr char mark = '\x04';
        REQUIRE(std::fputc(mark, program_) == mark);
        REQUIRE(std::fflush(program_) == 0);
        std::string all;
        for (char c = 0; ::read(master_, &c, 1) == 1 && c != mark;) all += c;
        return all;
    }

private:
    int master_;
    std::FILE* program_ = nullptr;
};

}  // namespace

TEST_CASE("progress_text shows a bar, a rate and the remaining time in 79 columns", "[data][progress_bar]") {
    CHECK(cuota::progress_text(at(100)) ==
          "epoch 2 [######..................] 100/400 25.0/s, 0:12 left; slowest: reading");
    CHECK(cuota::progress_text(at(400)) ==
          "epoch 2 [########################] 400/400 100/s; slowest: reading");
    CHECK(cuota::progress_text({.total_batches = 0}) == "epoch 0 [########################] 0/0");
    loader_stats by_rows = at(100);  // the number of batches is unknown
    by_rows.total_batches.reset();
    by_rows.covered = 0.25;
    CHECK(cuota::progress_text(by_rows) ==
          "epoch 2 [######..................] 100 25.0/s, 0:12 left; slowest: reading");
    by_rows.covered = 0;
    CHECK(cuota::progress_text(by_rows) == "epoch 2 [........................] 100 25.0/s; slowest: reading");
    loader_stats large = at(1);
    large.epoch = ~std::uint64_t{0} / 2;
    large.total_batches = large.epoch;
    CHECK(cuota::progress_text(large).size() == 79);
}

TEST_CASE("progress_bar overwrites its line on a terminal, and ends with a new line",
          "[data][progress_bar]") {
    terminal const there;
    {
        progress_bar line{there.program()};
        CHECK_FALSE(line.is_disabled());
        line.show([] { return at(100); });
        CHECK(there.take() == '\r' + cuota::progress_text(at(100)) + "\x1b[K");
        line.finish([] { return at(400); });
        CHECK(there.take() == '\r' + cuota::progress_text(at(400)) + "\x1b[K\r\n");
    }
    CHECK(there.take().empty());
    {
        progress_bar line{there.program()};
        line.show([] { return at(7); });
        progress_bar const moved = std::move(line);
    }
    CHECK(there.take() == '\r' + cuota::progress_text(at(7)) + "\x1b[K\r\n");
}

TEST_CASE("progress_bar reports exceptions of the function that returns the statistics",
          "[data][progress_bar]") {
    support::captured_errors errors;
    terminal const there;
    progress_bar line{there.program()};
    line.show([]() -> loader_stats { throw std::runtime_error{"no facts"}; });
    CHECK(errors.take() == std::vector<std::string>{"no facts"});
    CHECK(there.take().empty());
}

TEST_CASE("without a terminal, progress_bar writes nothing and requests no statistics",
          "[data][progress_bar]") {
    std::FILE* const file = std::tmpfile();
    REQUIRE(file != nullptr);
    for (std::FILE* const to : {file, static_cast<std::FILE*>(nullptr)}) {
        progress_bar line{to};
        CHECK(line.is_disabled());
        line.show([]() -> loader_stats { throw std::runtime_error{"asked"}; });
        line.finish([]() -> loader_stats { throw std::runtime_error{"asked"}; });
    }
    CHECK(std::ftell(file) == 0);
    (void)std::fclose(file);
}

TEST_CASE("a forked child does not change its parent's line", "[data][progress_bar][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    terminal const t;
    std::optional<progress_bar> line{std::in_place, t.program()};
    line->show([] { return at(100); });
    CHECK(t.take().size() > 10);
    CHECK(support::status_of_child([&] {
              line->finish([] { return at(200); });
              line.reset();
          }) == 0);
    CHECK(t.take().empty());
    line.reset();
    CHECK(t.take() == "\r\n");
}
