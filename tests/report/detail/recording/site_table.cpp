// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/recording/site_table.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/thrown.hpp"

using cuota::source_location;
using cuota::tag;
using cuota::detail::merged_sites;
using cuota::detail::site_table;

TEST_CASE("the unnamed site has number 0 in every table", "[report][site_table]") {
    site_table table{4};
    CHECK(table.size() == 1);
    CHECK(table.intern({}, {}) == 0);
    CHECK(table.intern({}, {"train.cpp", 0}) == 0);
    CHECK(table.size() == 1);
    merged_sites const all = table.merged();
    REQUIRE(all.sites.size() == 1);
    CHECK(all.sites[0].name.is_empty());
    CHECK(all.sites[0].where.line == 0);
    CHECK(all.index_of == std::vector<std::uint32_t>{0});
}

TEST_CASE("each site has its own number, which never changes", "[report][site_table]") {
    site_table table{16};
    char const* const file = "train.cpp";
    char const* const other = "eval.cpp";
    CHECK(table.intern("weights", {file, 1}) == 1);
    CHECK(table.intern("weights", {file, 2}) == 2);
    CHECK(table.intern("gradients", {file, 1}) == 3);
    CHECK(table.intern("weights", {other, 1}) == 4);
    CHECK(table.intern("weights", {}) == 5);  // a tag alone is a site
    CHECK(table.intern({}, {file, 1}) == 6);  // and so is a call site alone
    CHECK(table.intern("weights", {file, 1}) == 1);
    CHECK(table.intern({}, {file, 1}) == 6);
    CHECK(table.intern({}, {}) == 0);
    CHECK(table.size() == 7);
    CHECK(table.without_room() == 0);
    merged_sites const all = table.merged();
    REQUIRE(all.sites.size() == 7);
    CHECK(all.sites[2].name == tag{"weights"});
    CHECK(all.sites[2].where.line == 2);
    CHECK(std::string{all.sites[4].where.file} == "eval.cpp");
    CHECK(all.index_of == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("sites with equal contents are merged when they are read", "[report][site_table]") {
    static char const file_here[] = "train.cpp";
    static char const file_there[] = "train.cpp";
    static constexpr char name_here[] = "weights";
    site_table table{16};
    std::uint32_t const here = table.intern(tag{name_here}, {file_here, 1});
    std::uint32_t const between = table.intern(tag{name_here}, {file_here, 2});
    std::uint32_t const there = table.intern(tag{name_here}, {file_there, 1});
    std::uint32_t const named = table.intern(tag::named("weights"), {file_there, 1});
    std::uint32_t const last = table.intern("gradients", {file_there, 1});
    CHECK(table.size() == 6);
    merged_sites const all = table.merged();
    REQUIRE(all.sites.size() == 4);
    CHECK(all.index_of[here] == 1);
    CHECK(all.index_of[between] == 2);
    CHECK(all.index_of[there] == 1);
    CHECK(all.index_of[named] == 1);
    CHECK(all.index_of[last] == 3);
    CHECK(all.sites[3].name == tag{"gradients"});
}

TEST_CASE("sites beyond a table's capacity are unnamed and counted", "[report][site_table]") {
    site_table table{2};
    CHECK(table.intern("a", {}) == 1);
    CHECK(table.intern("b", {}) == 2);
    CHECK(table.without_room() == 0);
    CHECK(table.intern("c", {}) == 0);
    CHECK(table.intern("c", {}) == 0);
    CHECK(table.intern("d", {}) == 0);
    CHECK(table.without_room() == 3);
    CHECK(table.intern("b", {}) == 2);
    CHECK(table.intern({}, {}) == 0);
    CHECK(table.without_room() == 3);
    CHECK(table.merged().sites.size() == 3);

    site_table none{0};
    CHECK(none.intern("a", {}) == 0);
    CHECK(none.without_room() == 1);
}

TEST_CASE("all sites of a full table are found", "[report][site_table]") {
    site_table table{4096};
    for (unsigned line = 1; line != 4097; ++line)
        REQUIRE(table.intern("weights", {"train.cpp", line}) == line);
    for (unsigned line = 4096; line != 0; --line)
        REQUIRE(table.intern("weights", {"train.cpp", line}) == line);
    CHECK(table.intern("weights", {"train.cpp", 4097}) == 0);
    CHECK(table.size() == 4097);

    site_table of_files{4096};
    std::string const files(500'000, 'x');  // each suffix is a file name
    for (unsigned i = 0; i != 1000; ++i)    // at uneven distances, so that some hashes collide
        REQUIRE(of_files.intern("weights", {files.c_str() + i * (i + 1) / 2, 1}) == i + 1);
    site_table of_tags{4096};
    for (unsigned i = 0; i != 4096; ++i)
        REQUIRE(of_tags.intern(tag::named(std::to_string(i)), {"train.cpp", 1}) == i + 1);
}

TEST_CASE("a table with more sites than can be numbered is refused", "[report][site_table]") {
    auto const refused = support::thrown<cuota::usage_error>([] {
        site_table{site_table::most + 1, {"train.cpp", 3}};
    });
    CHECK(std::string{refused.what()} ==
          "cuota::usage_error: recorder: 16'777'217 sites exceed the maximum of 16'777'216 (train.cpp:3)");
}

TEST_CASE("all threads receive the same numbers for sites", "[report][site_table]") {
    constexpr unsigned threads = 4;
    constexpr unsigned lines = 2000;
    constexpr unsigned room = 1500;
    static char const file[] = "train.cpp";
    site_table table{room};
    std::vector<std::vector<std::uint32_t>> seen(threads, std::vector<std::uint32_t>(lines));
    std::vector<std::thread> workers;
    std::atomic<unsigned> ready = 0;
    for (unsigned t = 0; t != threads; ++t)
        workers.emplace_back([&, t] {
            for (++ready; ready != threads;) std::this_thread::yield();
            for (unsigned line = 0; line != lines; ++line) {
                seen[t][line] = table.intern("weights", {file, line + 1});
            }
        });
    for (std::thread& w : workers) w.join();
    CHECK(table.size() == room + 1);
    merged_sites const all = table.merged();
    REQUIRE(all.sites.size() == room + 1);
    std::size_t missed = 0;
    for (unsigned line = 0; line != lines; ++line) {
        std::uint32_t const number = table.intern("weights", {file, line + 1});
        for (unsigned t = 0; t != threads; ++t) {
            // A site that did not fit for one thread fits for none: the table does not shrink.
            REQUIRE(seen[t][line] == number);
            missed += seen[t][line] == 0;
        }
        if (number != 0) REQUIRE(all.sites[number].where.line == line + 1);
    }
    CHECK(missed == threads * (lines - room));
    CHECK(table.without_room() == missed + lines - room);
}
