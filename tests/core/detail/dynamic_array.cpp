// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/dynamic_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using cuota::detail::dynamic_array;

namespace {

// Move-only; counts live objects.
struct counted {
    static inline int alive = 0;
    explicit counted(int of = 0) : value{std::make_unique<int>(of)} { ++alive; }
    counted(counted&& other) noexcept : value{std::move(other.value)} { ++alive; }
    counted& operator=(counted&&) noexcept = default;
    ~counted() { --alive; }
    std::unique_ptr<int> value;
};

// Its constructors throw once `left` objects have been made; counts live objects.
struct limited {
    static inline int alive = 0;
    static inline int left = 0;
    limited() { make(); }
    limited(limited const&) { make(); }
    limited(limited&&) noexcept { ++alive; }
    limited& operator=(limited const&) = default;
    limited& operator=(limited&&) noexcept = default;
    ~limited() { --alive; }

private:
    static void make() {
        if (left-- <= 0) throw std::length_error{"none left"};
        ++alive;
    }
};

std::vector<int> values(dynamic_array<counted> const& all) {
    std::vector<int> result;
    for (counted const& c : all) result.push_back(*c.value);
    return result;
}

dynamic_array<counted> up_to(int n) {
    dynamic_array<counted> all;
    for (int i = 0; i != n; ++i) all.emplace_back(i);
    return all;
}

}  // namespace

TEST_CASE("an array keeps its elements when it grows", "[core][dynamic_array]") {
    {
        dynamic_array<counted> all = up_to(100);
        REQUIRE(all.size() == 100);
        REQUIRE(all.capacity() >= 100);
        REQUIRE(counted::alive == 100);
        for (int i = 0; i != 100; ++i) REQUIRE(*all[static_cast<std::size_t>(i)].value == i);
        REQUIRE(*all.front().value == 0);
        REQUIRE(*all.back().value == 99);
        all.pop_back();
        REQUIRE(counted::alive == 99);
        REQUIRE(*all.back().value == 98);
    }
    REQUIRE(counted::alive == 0);
}

TEST_CASE("an empty array allocates no memory", "[core][dynamic_array]") {
    dynamic_array<int> none;
    REQUIRE(none.empty());
    REQUIRE(none.data() == nullptr);
    REQUIRE(none.begin() == none.end());
    REQUIRE(none.as_span().empty());
    none.clear();
    dynamic_array<int> const copy{none};
    REQUIRE(copy.empty());
}

TEST_CASE("an array that was moved from is empty, and copies are independent", "[core][dynamic_array]") {
    dynamic_array<std::string> from;
    from.push_back("one");
    from.push_back(std::string(100, 'x'));
    dynamic_array<std::string> copy{from};
    dynamic_array<std::string> to{std::move(from)};
    REQUIRE(from.empty());
    REQUIRE(to.size() == 2);
    REQUIRE(copy[1] == to[1]);
    copy[0] = "changed";
    REQUIRE(to[0] == "one");
    to = copy;
    REQUIRE(to[0] == "changed");
    dynamic_array<std::string>& same = to;
    to = same;
    to = std::move(same);
    REQUIRE(to.size() == 2);
    REQUIRE(to[0] == "changed");
    to = dynamic_array<std::string>{};
    REQUIRE(to.empty());
    STATIC_REQUIRE(!std::is_copy_constructible_v<dynamic_array<counted>>);
}

TEST_CASE("elements are erased and inserted in order", "[core][dynamic_array]") {
    dynamic_array<counted> all = up_to(6);
    REQUIRE(*all.erase(all.begin() + 1)->value == 2);
    REQUIRE(values(all) == std::vector{0, 2, 3, 4, 5});
    counted const* const behind = all.erase(all.begin() + 3, all.end());
    REQUIRE(behind == all.end());
    REQUIRE(values(all) == std::vector{0, 2, 3});
    REQUIRE(*all.insert(all.begin() + 1, counted{1})->value == 1);
    counted const* const last = all.insert(all.end(), counted{9});
    REQUIRE(last == all.end() - 1);
    REQUIRE(values(all) == std::vector{0, 1, 2, 3, 9});
    REQUIRE(all.find_if([](counted const& c) { return *c.value == 3; }) == all.begin() + 3);
    REQUIRE(all.find_if([](counted const& c) { return *c.value == 4; }) == all.end());
    all.erase_if([](counted const& c) { return *c.value % 2 == 1; });
    REQUIRE(values(all) == std::vector{0, 2});
    REQUIRE(counted::alive == 2);
}

TEST_CASE("resize changes the size, and new elements are zero", "[core][dynamic_array]") {
    dynamic_array<std::uint64_t> all(3);
    REQUIRE(std::vector(all.begin(), all.end()) == std::vector<std::uint64_t>{0, 0, 0});
    all[2] = 7;
    all.resize(5);
    REQUIRE(std::vector(all.begin(), all.end()) == std::vector<std::uint64_t>{0, 0, 7, 0, 0});
    all.resize(1);
    REQUIRE(all.size() == 1);
    all.reserve(1000);
    REQUIRE(all.capacity() == 1000);
    REQUIRE(all.size() == 1);
}

TEST_CASE("an array can append one of its own elements", "[core][dynamic_array]") {
    dynamic_array<std::string> all;
    all.push_back(std::string(50, 'a'));
    for (int i = 0; i != 20; ++i) all.push_back(all.front());
    for (std::string const& s : all) REQUIRE(s == std::string(50, 'a'));
}

TEST_CASE("an array destroys the elements that it made if a later one throws", "[core][dynamic_array]") {
    limited::left = 2;
    REQUIRE_THROWS_AS(dynamic_array<limited>(3), std::length_error);
    REQUIRE(limited::alive == 0);

    limited::left = 3;
    dynamic_array<limited> all(3);
    limited::left = 2;
    REQUIRE_THROWS_AS(dynamic_array<limited>{all}, std::length_error);
    REQUIRE(limited::alive == 3);

    limited::left = 1;
    REQUIRE_THROWS_AS(all.resize(9), std::length_error);
    REQUIRE(all.size() == 4);
    REQUIRE(limited::alive == 4);
    limited::left = 0;
    REQUIRE_THROWS_AS(all.push_back(all.front()), std::length_error);
    REQUIRE(all.size() == 4);
}

TEST_CASE("a size in bytes that overflows is refused, and the array is unchanged", "[core][dynamic_array]") {
    dynamic_array<std::uint64_t> all(3);
    all[0] = 5;
    REQUIRE_THROWS_AS(all.reserve(std::numeric_limits<std::size_t>::max() / 4), std::bad_array_new_length);
    REQUIRE(all.size() == 3);
    REQUIRE(all[0] == 5);
}

TEST_CASE("first_not finds the first element that does not fulfil the predicate", "[core][dynamic_array]") {
    int const sorted[] = {1, 3, 3, 7, 9};
    for (std::size_t count = 0; count <= std::size(sorted); ++count)
        for (int bound = 0; bound <= 10; ++bound) {
            int const* const found =
                cuota::detail::first_not(sorted, count, [&](int element) { return element < bound; });
            REQUIRE(found == std::lower_bound(sorted, sorted + count, bound));
        }
}

TEST_CASE("an array behaves as std::vector in random operations", "[core][dynamic_array]") {
    std::mt19937 random{7};
    for (int round = 0; round != 50; ++round) {
        dynamic_array<std::string> ours;
        std::vector<std::string> theirs;
        for (int step = 0; step != 200; ++step) {
            auto const at = static_cast<std::ptrdiff_t>(theirs.empty() ? 0 : random() % theirs.size());
            std::string const text(random() % 40, static_cast<char>('a' + random() % 26));
            switch (random() % 6) {
                case 0:
                case 1: ours.push_back(text), theirs.push_back(text); break;
                case 2: ours.insert(ours.begin() + at, text), theirs.insert(theirs.begin() + at, text); break;
                case 3:
                    if (!theirs.empty()) ours.erase(ours.begin() + at), theirs.erase(theirs.begin() + at);
                    break;
                case 4: {
                    auto const is_meant = [&](std::string const& s) { return s.size() < text.size() / 2; };
                    ours.erase_if(is_meant), std::erase_if(theirs, is_meant);
                    break;
                }
                default: {
                    std::size_t const n = random() % 30;
                    ours.resize(n), theirs.resize(n);
                }
            }
            REQUIRE(std::vector<std::string>(ours.begin(), ours.end()) == theirs);
        }
    }
}
