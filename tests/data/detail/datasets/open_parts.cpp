// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/detail/datasets/open_parts.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace {

using cuota::detail::light_shared_ptr;
using cuota::detail::open_parts;

/// Counts the parts that were opened and those that are open.
struct record {
    std::atomic<int> opened = 0;
    std::atomic<int> alive = 0;
    std::atomic<int> most = 0;
};
struct part {
    part(record& r, std::string of) : in{r}, path{std::move(of)} {
        ++in.opened;
        int const now = ++in.alive;
        int seen = in.most;
        while (seen < now && !in.most.compare_exchange_weak(seen, now)) {}
    }
    part(part const&) = delete;
    part& operator=(part const&) = delete;
    ~part() { --in.alive; }
    record& in;
    std::string path;
};

open_parts parts_of(record& r, std::vector<std::string> paths, std::size_t most) {
    return {std::move(paths), most, light_shared_ptr<record*>::make(&r),
            [](void const* to, std::string const& path) -> light_shared_ptr<void const> {
                return light_shared_ptr<part const>::make(**static_cast<record* const*>(to), path);
            }};
}
std::string const& path_of(light_shared_ptr<void const> const& of) {
    return static_cast<part const*>(of.get())->path;
}

}  // namespace

TEST_CASE("open_parts drops the least recently requested part, which stays open while it is in use",
          "[data][open_parts]") {
    record r;
    {
        open_parts all = parts_of(r, {"a", "b", "c"}, 2);
        CHECK(r.opened == 0);
        light_shared_ptr<void const> const a = all.part(0);
        CHECK(path_of(a) == "a");
        (void)all.part(1);
        (void)all.part(0);
        (void)all.part(2);  // closes b
        CHECK(r.opened == 3);
        CHECK(r.alive == 2);
        (void)all.part(0);
        CHECK(r.opened == 3);
        (void)all.part(1);  // closes c
        (void)all.part(2);  // closes a, which is in use
        CHECK(r.opened == 5);
        CHECK(r.alive == 3);
        CHECK(path_of(a) == "a");
        CHECK(path_of(all.part(0)) == "a");
        CHECK(r.opened == 6);
        CHECK(all.path(2) == "c");
    }
    CHECK(r.alive == 0);
}

TEST_CASE("a part that cannot be opened leaves the open parts unchanged", "[data][open_parts]") {
    record r;
    open_parts all{{"a", "bad"},
                   1,
                   light_shared_ptr<record*>::make(&r),
                   [](void const* to, std::string const& path) -> light_shared_ptr<void const> {
                       if (path == "bad") throw cuota::data_error{path, 0, "is bad"};
                       return light_shared_ptr<part const>::make(**static_cast<record* const*>(to), path);
                   }};
    (void)all.part(0);
    CHECK_THROWS_AS(all.part(1), cuota::data_error);
    CHECK(path_of(all.part(0)) == "a");
    CHECK(r.opened == 1);
}

TEST_CASE("threads may request parts concurrently, with at most two more open parts for each thread",
          "[data][open_parts]") {
    record r;
    {
        std::vector<std::string> paths;
        for (int i = 0; i != 50; ++i) paths.push_back(std::to_string(i));
        open_parts all = parts_of(r, paths, 5);
        std::atomic<int> wrong = 0;
        std::vector<std::thread> threads;
        for (std::uint64_t t = 0; t != 4; ++t)
            threads.emplace_back([&, t] {
                for (std::uint64_t i = 0; i != 5'000; ++i) {
                    std::size_t const index = static_cast<std::size_t>((i * (2 * t + 3) + t) % 50);
                    wrong += path_of(all.part(index)) != paths[index];
                }
            });
        for (std::thread& each : threads) each.join();
        CHECK(wrong == 0);
        CHECK(r.alive == 5);
        CHECK(r.most <= 5 + 2 * 4);  // per thread, one in use and one being opened or closed
    }
    CHECK(r.alive == 0);
}
