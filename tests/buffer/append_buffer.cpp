// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/append_buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using support::has;
using support::thrown;

using ints = cuota::append_buffer<int>;

static_assert(!std::is_copy_constructible_v<ints> && std::is_nothrow_move_constructible_v<ints>);
static_assert(std::is_trivially_copyable_v<cuota::device_appender<int>>);

namespace {

struct append_multiples {
    cuota::device_appender<int> to;
    int of;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        if (static_cast<int>(i) % of == 0) (void)to.push_back(static_cast<int>(i));
    }
};
struct append_and_count {
    cuota::device_appender<int> to;
    cuota::device_span<int> refused;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        refused[i] = to.push_back(static_cast<int>(i)) ? 0 : 1;
    }
};

struct scene {
    cuota::stream const s{};
    cuota::scoped_pool pool{cuota::budget{"test", 8_MiB}};

    void append(ints& to, std::size_t below, int of, cuota::stream_ref on) const {
        cuota::for_each_index(on, below, append_multiples{to.append(on), of}, "append");
    }
    void append(ints& to, std::size_t below, int of) const { append(to, below, of, s); }
};

std::vector<int> sorted(std::vector<int> some) {
    std::ranges::sort(some);
    return some;
}
std::vector<int> multiples(int below, int of) {
    std::vector<int> all;
    for (int i = 0; i < below; i += of) all.push_back(i);
    return all;
}

}  // namespace

TEST_CASE("each value that a kernel's threads append is stored once", "[buffer][append_buffer][gpu]") {
    scene const on;
    ints found{1000, on.s, on.pool};
    CHECK(found.capacity() == 1000);
    CHECK(found.size(on.s) == 0);
    CHECK(found.to_vector(on.s).empty());
    on.append(found, 3000, 3);
    CHECK(found.size(on.s) == 1000);
    CHECK(found.stored_size(on.s) == 1000);
    CHECK(sorted(found.to_vector(on.s)) == multiples(3000, 3));
}

TEST_CASE("kernels on any stream append behind earlier values until the append_buffer is cleared",
          "[buffer][append_buffer]") {
    scene const on;
    cuota::stream const other;
    ints found{100, on.s, on.pool};
    on.append(found, 40, 2);
    on.append(found, 30, 3, other);
    auto expected = multiples(40, 2);
    auto const more = multiples(30, 3);
    CHECK(found.size(on.s) == 30);
    expected.insert(expected.end(), more.begin(), more.end());
    CHECK(sorted(found.to_vector(on.s)) == sorted(expected));

    found.clear(other);
    CHECK(found.size(on.s) == 0);
    on.append(found, 10, 5);
    CHECK(sorted(found.to_vector(other)) == multiples(10, 5));
}

TEST_CASE("append refuses values beyond the capacity, and size throws the capacity that would suffice",
          "[buffer][append_buffer][gpu]") {
    scene const on;
    ints found{64, on.s, on.pool, "matches"};
    cuota::device_buffer<int> refused{100, on.s, on.pool};
    {
        auto const marks = refused.write(on.s);
        cuota::for_each_index(on.s, 100, append_and_count{found.append(on.s), marks.span()});
    }
    auto const told = refused.to_vector(on.s);
    CHECK(std::accumulate(told.begin(), told.end(), 0) == 36);
    auto const error = thrown<cuota::kernel_overflow_error>([&] {
        (void)found.size(on.s, {"search.cpp", 7});
    });
    CHECK(error.capacity() == 64);
    CHECK(error.needed() == 100);
    CHECK(error.where().line == 7);
    CHECK(has(error.what(),
              R"(append_buffer "matches": kernels appended 100, capacity is 64 ints (search.cpp:7))"));
    CHECK_THROWS_AS(found.to_vector(on.s), cuota::kernel_overflow_error);
    CHECK(found.stored_size(on.s) == 64);

    found.restart(error.needed());
    CHECK(found.capacity() == 100);
    on.append(found, 100, 1);
    CHECK(sorted(found.to_vector(on.s)) == multiples(100, 1));
}

TEST_CASE("the values that fitted are stored although a kernel appended more",
          "[buffer][append_buffer][gpu]") {
    scene const on;
    ints found{10, on.s, on.pool};
    on.append(found, 1000, 1);
    std::vector<int> first(10);
    {
        auto const all = found.read(on.s);
        cuota::rt::copy_to_host(first.data(), all.span().data(), sizeof(int) * 10, on.s);
        on.s.synchronize();
    }
    auto const each = sorted(first);
    CHECK(std::ranges::adjacent_find(each) == each.end());
    CHECK(each.front() >= 0);
    CHECK(each.back() < 1000);
}

TEST_CASE("an append_buffer of capacity 0 refuses all values and counts them", "[buffer][append_buffer]") {
    scene const on;
    ints none{0, on.s, on.pool};
    CHECK(none.size(on.s) == 0);
    on.append(none, 20, 1);
    CHECK(none.stored_size(on.s) == 0);
    CHECK(thrown<cuota::kernel_overflow_error>([&] { (void)none.size(on.s); }).needed() == 20);
}

TEST_CASE("a refused restart leaves an append_buffer unchanged", "[buffer][append_buffer]") {
    cuota::stream const s;
    cuota::budget const account{"small", 64_KiB};
    cuota::scoped_pool pool{account};
    ints found{100, s, pool};
    cuota::for_each_index(s, 50, append_multiples{found.append(s), 1});
    CHECK_THROWS_AS(found.restart(1'000'000), cuota::budget_exceeded);
    CHECK(found.capacity() == 100);
    CHECK(sorted(found.to_vector(s)) == multiples(50, 1));
}

TEST_CASE("a moved append_buffer keeps the appended values", "[buffer][append_buffer]") {
    scene const on;
    ints a{100, on.s, on.pool};
    on.append(a, 10, 1);
    ints b{std::move(a)};
    on.append(b, 10, 1);
    CHECK(b.size(on.s) == 20);
}
