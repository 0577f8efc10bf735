// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/import/rmm_log.hpp>

#include <cstddef>
#include <string>

#include <cuota/data/io/file.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/report/recording/usage_series.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

using cuota::event_kind;
using cuota::imported_recording;
using cuota::read_rmm_log;
using support::has;
using support::thrown;

namespace {

std::string const header = "Thread,Time,Action,Pointer,Size,Stream\n";

std::string refusal_of(std::string const& text) {
    return thrown<cuota::data_error>([&] { (void)read_rmm_log(text, "rmm.csv"); }).what();
}

}  // namespace

TEST_CASE("a log of RMM becomes events of a resource", "[report][rmm_log]") {
    support::temp_folder const folder;
    std::string const path =
        folder.write("rmm.csv", header + "1,09:59:59.999999,allocate,0x7f0000000000,1000,0x0\n"
                                         "2,10:00:00.000001,allocate,0x7f0000001000,24,0x5581aa10\r\n"
                                         "1,10:00:00.000002,free,0x7f0000000000,1000,0x0\n"
                                         "1,10:00:00.000002,allocate failure,0x0,1099511627776,0x0\n"
                                         "\n");
    imported_recording const from = read_rmm_log(cuota::file{path});
    CHECK(from.repairs.empty());
    auto const& events = from.content.events;
    REQUIRE(events.size() == 4);
    CHECK(events[0].kind == event_kind::allocated);
    CHECK(events[0].at == 0);
    CHECK(events[1].at == 2'000);
    CHECK(events[1].address == 0x7f0000001000);
    CHECK(events[1].stream == 0x5581aa10);
    CHECK(events[2].kind == event_kind::free_requested);
    CHECK(events[3].kind == event_kind::refused);
    CHECK(events[3].bytes == std::size_t{1} << 40);
    CHECK(cuota::usage_over_time(from.content).total.peak == 1024);
    auto const lives = cuota::lifetimes_of(from.content);
    REQUIRE(lives.blocks.size() == 2);
    CHECK(!lives.blocks[1].until);
}

TEST_CASE("a log that crosses midnight goes on, and what it gets wrong is told", "[report][rmm_log]") {
    imported_recording const from = read_rmm_log(header + "1,23:59:59.000000,allocate,0x1000,5,0x0\n"
                                                          "1,00:00:01.000000,allocate,0x1000,7,default\n"
                                                          "1,00:00:00.500000,free,0x1000,7,0x0\n"
                                                          "1,00:00:02.000000,free,0x1000,7,0x0\n"
                                                          "1,00:00:02.000000,resize,0x1000,7,0x0\n",
                                                 "rmm.csv");
    auto const& events = from.content.events;
    REQUIRE(events.size() == 3);
    CHECK(events[1].at == 2'000'000'000);
    CHECK(events[1].stream == cuota::memory_event::no_stream);
    CHECK(events[2].at == 2'000'000'000);
    REQUIRE(from.repairs.size() == 4);
    CHECK(has(from.repairs[0], "1 lines are earlier"));
    CHECK(has(from.repairs[1], "1 lines of unknown actions"));
    CHECK(has(from.repairs[2], "1 frees of pointers that are not allocated"));
    CHECK(has(from.repairs[3], "1 allocations at pointers that were not freed"));
}

TEST_CASE("a file that is no log of RMM is refused with line and offset", "[report][rmm_log]") {
    CHECK(has(refusal_of(""), "is not a log of RMM"));
    CHECK(has(refusal_of("id,lower,upper,size\n"), "byte 0: line 1: is not a log of RMM"));
    CHECK(has(refusal_of(header + "1,2,3\n"), "byte 39: line 2: 6 fields are expected"));
    CHECK(has(refusal_of(header + "1,09:00:00.000000,allocate,0x1,5,0x0,9\n"), "6 fields are expected"));
    CHECK(has(refusal_of(header + "1,9:00:00.000000,allocate,0x1,5,0x0\n"),
              "is not hours:minutes:seconds.microseconds"));
    CHECK(has(refusal_of(header + "1,25:00:00.000000,allocate,0x1,5,0x0\n"),
              "is not hours:minutes:seconds.microseconds"));
    CHECK(has(refusal_of(header + "1,09:00:00.000000,allocate,0x1,-5,0x0\n"), "the size -5 is not a number"));
    CHECK(has(refusal_of(header + "1,09:00:00.000000,allocate,nowhere,5,0x0\n"),
              "the pointer nowhere is not a number"));
    CHECK(has(refusal_of(header + "1,09:00:00.000000,allocate,0x,5,0x0\n"), "is not a number"));
}

TEST_CASE("what lies in place of a log is named", "[report][rmm_log]") {
    support::temp_folder const folder;
    cuota::file const pointer{folder.write("rmm.csv", "version https://git-lfs.github.com/spec/v1\n")};
    CHECK(has(thrown<cuota::data_error>([&] { (void)cuota::read_rmm_log(pointer); }).what(),
              "is a Git LFS pointer"));
}
