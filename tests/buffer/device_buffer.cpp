// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/device_buffer.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using cuota::device_buffer;
using support::has;
using support::thrown;

namespace {

using numbers = device_buffer<int>;
using in_order = std::span<int const>;

static_assert(!std::is_copy_constructible_v<numbers> && !std::is_copy_assignable_v<numbers>);
static_assert(std::is_nothrow_move_constructible_v<numbers> && std::is_nothrow_move_assignable_v<numbers>);
static_assert(sizeof(numbers) <= 64);
static_assert(std::is_nothrow_default_constructible_v<numbers>);  // for members that are assigned later

// Every constructor rejects memory that kernels cannot access, at compile time.
template <class Memory>
constexpr bool can_be_made = std::is_constructible_v<numbers, std::size_t, cuota::stream_ref, Memory>&&
    std::is_constructible_v<numbers, std::size_t, int, cuota::stream_ref, Memory>&&
        std::is_constructible_v<numbers, in_order, cuota::stream_ref, Memory>&&
            std::is_constructible_v<numbers, std::size_t, cuota::stream_ref, Memory, cuota::zeroed_t>&&
                std::is_constructible_v<numbers, std::size_t, cuota::stream_ref, Memory, cuota::no_init_t>;
template <class Memory>
constexpr bool cannot_be_made =
    !std::is_constructible_v<numbers, std::size_t, cuota::stream_ref, Memory> &&
    !std::is_constructible_v<numbers, std::size_t, int, cuota::stream_ref, Memory> &&
    !std::is_constructible_v<numbers, in_order, cuota::stream_ref, Memory> &&
    !std::is_constructible_v<numbers, std::size_t, cuota::stream_ref, Memory, cuota::zeroed_t> &&
    !std::is_constructible_v<numbers, std::size_t, cuota::stream_ref, Memory, cuota::no_init_t>;
static_assert(can_be_made<cuota::device_memory> && can_be_made<cuota::managed_memory> &&
              can_be_made<cuota::any_resource> && can_be_made<cuota::scoped_pool&> &&
              can_be_made<cuota::budgeted<cuota::device_memory>>);
static_assert(cannot_be_made<cuota::pinned_memory> && cannot_be_made<cuota::budgeted<cuota::pinned_memory>>);

struct pixel {
    unsigned char r, g, b;
};

std::vector<int> counted(std::size_t count) {
    std::vector<int> host(count);
    std::iota(host.begin(), host.end(), 1);
    return host;
}

}  // namespace

TEST_CASE("a device_buffer's elements are zero by default", "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    { numbers const dirty{1000, -1, stream, pool}; }

    numbers const plain{1000, stream, pool};
    numbers const spelled{1000, stream, pool, cuota::zeroed};

    CHECK(plain.to_vector(stream) == std::vector<int>(1000, 0));
    CHECK(spelled.to_vector(stream) == std::vector<int>(1000, 0));
}

TEST_CASE("a device_buffer is constructed from one value, from host elements, or without initialization",
          "[buffer][device_buffer]") {
    cuota::stream const stream;
    std::vector<int> host = counted(1000);

    numbers const sevens{1000, 7, stream, cuota::device_memory{}, "sevens"};
    numbers const copied{std::span<int const>{host}, stream, cuota::device_memory{}, "copied"};
    numbers const raw{1000, stream, cuota::device_memory{}, cuota::no_init, "raw"};
    std::vector<int> const before = std::exchange(host, {});

    CHECK(sevens.to_vector(stream) == std::vector<int>(1000, 7));
    CHECK(copied.to_vector(stream) == before);
    CHECK(raw.size() == 1000);
}

TEST_CASE("a device_buffer returns its size, its home stream and its resource", "[buffer][device_buffer]") {
    cuota::stream const stream;
    device_buffer<pixel> const image{100, stream, cuota::device_memory{}};

    CHECK(image.size() == 100);
    CHECK(image.bytes() == 300);
    CHECK_FALSE(image.is_empty());
    CHECK(image.home() == cuota::stream_ref{stream});
    CHECK(image.memory() == cuota::any_resource{cuota::device_memory{}});
}

TEST_CASE("a device_buffer of no elements can be made by every constructor, and allocates nothing",
          "[buffer][device_buffer]") {
    cuota::budget budget{"test", 0};
    cuota::stream const stream;
    cuota::any_resource const memory = cuota::budgeted{budget, cuota::device_memory{}};
    std::vector<numbers> buffers;
    buffers.emplace_back(0u, stream, memory);
    buffers.emplace_back(0u, stream, memory, cuota::zeroed);
    buffers.emplace_back(0u, stream, memory, cuota::no_init);
    buffers.emplace_back(0u, 7, stream, memory);
    buffers.emplace_back(std::span<int const>{}, stream, memory);

    for (numbers& none : buffers) {
        CHECK(none.is_empty());
        CHECK(none.read().size() == 0);
        CHECK(none.write(stream).size() == 0);
        CHECK(none.to_vector(stream).empty());
        CHECK(none.clone(stream).is_empty());
        REQUIRE_NOTHROW(none.copy_from(in_order{}, stream));
        REQUIRE_NOTHROW(none.resize(0));
    }
    CHECK(budget.held() == 0);
}

TEST_CASE("an element count of more than SIZE_MAX bytes throws out_of_memory", "[buffer][device_buffer]") {
    cuota::stream const stream;
    std::size_t const count = cuota::unlimited / sizeof(int) + 1;  // 4 bytes each wrap to 0

    auto const refused = thrown<cuota::out_of_memory>([&] {
        numbers const all{count, stream, cuota::device_memory{}, "all", {"train.cpp", 9}};
    });

    CHECK(refused.info().requested == cuota::unlimited);
    CHECK(has(refused.what(), "train.cpp:9"));
    CHECK(has(refused.what(), "more than SIZE_MAX bytes"));
    CHECK_THROWS_AS((numbers{cuota::unlimited, 1, stream, cuota::device_memory{}}), cuota::out_of_memory);
    CHECK_THROWS_AS((numbers{cuota::unlimited, stream, cuota::device_memory{}, cuota::no_init}),
                    cuota::out_of_memory);
}

TEST_CASE("a refused device_buffer's message has the element count, the tag, the call site and the holders",
          "[buffer][device_buffer]") {
    cuota::budget budget{"trainer", 1_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};
    device_buffer<float> const weights{100'000, stream, pool, "weights", {"train.cpp", 10}};

    auto const refused = thrown<cuota::budget_exceeded>([&] {
        device_buffer<float> const everything{1'000'000,     stream,       pool,
                                              cuota::zeroed, "everything", {"train.cpp", 17}};
    });

    cuota::refusal const& facts = refused.info();
    CHECK(facts.requested == 4'000'000);
    CHECK(facts.request.name == cuota::tag{"everything"});
    CHECK(std::string{facts.request.unit} == "floats");
    std::string const text = refused.what();
    CHECK(has(text, "cannot allocate 3.8 MiB for everything at train.cpp:17"));
    CHECK(has(text, "weights 390.8 KiB (train.cpp:10)"));
    CHECK(has(text, cuota::count_text(facts.max_fit_count()) + " floats"));
    REQUIRE_NOTHROW(device_buffer<float>{facts.max_fit_count(), stream, pool});
}

TEST_CASE("the call site of a refused device_buffer is the line of its construction",
          "[buffer][device_buffer]") {
    cuota::budget budget{"trainer", 1_KiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget};

    unsigned const line = __LINE__ + 1;
    auto const refused = thrown<cuota::budget_exceeded>([&] { numbers const big{1000, stream, pool}; });

    CHECK(refused.info().request.where.line == line);
}

TEST_CASE("a moved-from device_buffer is empty and can be used again", "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    numbers first{100, 1, stream, pool};

    numbers second{std::move(first)};

    CHECK(first.is_empty());
    CHECK(first.bytes() == 0);
    CHECK(first.to_vector(stream).empty());
    CHECK(second.to_vector(stream) == std::vector<int>(100, 1));
    first.resize(50);
    CHECK(first.to_vector(stream) == std::vector<int>(50, 0));

    first = std::move(second);
    CHECK(second.is_empty());
    CHECK(first.to_vector(stream) == std::vector<int>(100, 1));
    CHECK(pool.stats().live_blocks == 1);
}

TEST_CASE("a device_buffer that is moved to itself keeps its elements", "[buffer][device_buffer]") {
    cuota::stream const stream;
    numbers some{100, 1, stream, cuota::device_memory{}};
    numbers& same = some;

    some = std::move(same);

    CHECK(some.to_vector(stream) == std::vector<int>(100, 1));
}

TEST_CASE("a moved device_buffer keeps its home stream and its resource", "[buffer][device_buffer]") {
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool of_a{cuota::budget{"a", 1_MiB}};
    cuota::scoped_pool of_b{cuota::budget{"b", 1_MiB}};
    numbers on_a{100, 1, a, of_a};
    numbers on_b{200, 2, b, of_b};

    on_a = std::move(on_b);

    CHECK(on_a.home() == cuota::stream_ref{b});
    CHECK(on_a.memory() == cuota::any_resource{of_b});
    CHECK(of_a.stats().live_blocks == 0);
    CHECK(of_b.stats().live_blocks == 1);
}

TEST_CASE("resize keeps the remaining elements, and new elements are zero", "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    { numbers const dirty{20'000, -1, stream, pool}; }
    std::vector<int> expected = counted(1000);
    numbers some{std::span<int const>{expected}, stream, pool};

    for (std::size_t const count : {3000u, 500u, 500u, 0u, 10u}) {
        some.resize(count);
        expected.resize(count);
        CHECK(some.size() == count);
        CHECK(some.to_vector(stream) == expected);
    }
}

#if CUOTA_CHECKED
TEST_CASE("resize keeps the buffer's name unless a new one is passed", "[buffer][device_buffer]") {
    cuota::stream const stream;
    numbers some{10, stream, cuota::device_memory{}, "weights"};
    auto const named = [&](char const* name) {
        auto const lease = some.read(stream, {"train.cpp", 41});
        return has(thrown<cuota::usage_error>([&] { (void)lease.span().first(21); }).what(),
                   ": " + std::string{name} + ", leased at train.cpp:41");
    };

    CHECK(named("weights"));
    some.resize(20);
    CHECK(named("weights"));
    some.resize(15, "biases");
    CHECK(named("biases"));
    some = numbers{5, stream, cuota::device_memory{}, "others"};
    CHECK(named("others"));
}
#endif

TEST_CASE("a refused resize changes nothing", "[buffer][device_buffer]") {
    cuota::budget budget{"test", 8000};
    cuota::stream const stream;
    std::vector<int> const host = counted(1000);
    numbers some{std::span<int const>{host}, stream, cuota::budgeted{budget, cuota::device_memory{}}};
    std::size_t const held = budget.held();

    CHECK_THROWS_AS(some.resize(2000), cuota::budget_exceeded);
    CHECK_THROWS_AS(some.resize(cuota::unlimited), cuota::out_of_memory);

    CHECK(budget.held() == held);
    CHECK(some.to_vector(stream) == host);
}

TEST_CASE("clone copies a device_buffer's elements into separate memory on the given stream",
          "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    std::vector<int> const host = counted(1000);
    numbers some{std::span<int const>{host}, stream, pool};

    numbers const copy = some.clone(other);
    some.copy_from(std::vector<int>(1000, 0), stream);

    CHECK(copy.to_vector(other) == host);
    CHECK(copy.home() == cuota::stream_ref{other});
    CHECK(copy.memory() == some.memory());
}

TEST_CASE("copies between a device_buffer and host elements are refused when their counts differ",
          "[buffer][device_buffer]") {
    cuota::stream const stream;
    numbers some{10, 1, stream, cuota::device_memory{}};
    std::vector<int> more(11, 5);

    auto const error = thrown<cuota::usage_error>([&] { some.copy_from(more, stream, {"train.cpp", 3}); });
    CHECK(has(error.what(), "11"));
    CHECK(has(error.what(), "10"));
    CHECK(has(error.what(), "train.cpp:3"));
    CHECK_THROWS_AS(some.copy_to(more, stream), cuota::usage_error);
    CHECK_THROWS_AS(some.copy_from(in_order{}, stream), cuota::usage_error);

    CHECK(more == std::vector<int>(11, 5));
    CHECK(some.to_vector(stream) == std::vector<int>(10, 1));
}

TEST_CASE("host elements may be changed or destroyed after copy_from has returned",
          "[buffer][device_buffer]") {
    cuota::stream const stream;
    numbers some{1'000'000, stream, cuota::device_memory{}};
    {
        std::vector<int> host = counted(1'000'000);
        some.copy_from(host, stream);
        std::ranges::fill(host, -1);
    }
    CHECK(some.to_vector(stream) == counted(1'000'000));
}

TEST_CASE("a device_buffer outlives its stream object", "[buffer][device_buffer]") {
    support::captured_errors errors;
    cuota::budget budget{"test", 1_MiB};
    cuota::stream const other;
    cuota::scoped_pool pool{budget};
    {
        std::optional<cuota::stream> stream{std::in_place};
        std::optional<numbers> some{std::in_place, 1000u, 3, *stream, pool};
        stream.reset();

        CHECK(some->to_vector(other) == std::vector<int>(1000, 3));
        some->resize(2000);
        CHECK(some->size() == 2000);
    }
    CHECK(pool.stats().live_blocks == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a type-erased resource is refused at run time when kernels cannot access its memory",
          "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::any_resource const host = cuota::pinned_memory{};
    cuota::budget budget{"host", 16_MiB};
    cuota::scoped_pool pool{budget, cuota::pinned_memory{}, {.initial_size = 8_MiB}};

    CHECK_THROWS_AS((numbers{10, stream, host}), cuota::usage_error);
    CHECK_THROWS_AS((numbers{10, 1, stream, host}), cuota::usage_error);
    CHECK_THROWS_AS((numbers{10, stream, pool}), cuota::usage_error);
    pool.deallocate(stream, pool.allocate(stream, 1_MiB), 1_MiB);  // allocations below do not raise the peak
    for (int i = 0; i != 3; ++i) pool.deallocate(stream, pool.allocate(stream, 40), 40);
    CHECK(pool.stats().thread_cache_hits != 0);
    CHECK_THROWS_AS((numbers{10, stream, pool}), cuota::usage_error);  // also for a block in the thread cache
    CHECK(has(thrown<cuota::usage_error>([&] {
                  numbers const some{10, stream, host, {}, {"train.cpp", 4}};
              }).what(),
              "train.cpp:4"));
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("a device_buffer of managed memory works", "[buffer][device_buffer]") {
    cuota::stream const stream;
    numbers some{100, 1, stream, cuota::managed_memory{}};
    some.resize(200);
    std::vector<int> expected(100, 1);
    expected.resize(200);
    CHECK(some.to_vector(stream) == expected);
}

TEST_CASE("kernels on two streams update a device_buffer in the order of their leases",
          "[buffer][device_buffer][gpu]") {
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool pool{cuota::budget{"test", 8_MiB}};
    constexpr std::size_t count = 100'000;
    device_buffer<support::word> total{count, a, pool};

    for (int i = 0; i != 20; ++i) {
        cuota::stream const& s = i % 2 == 0 ? a : b;
        auto const to = total.write(s);
        cuota::for_each_index(s, count, support::add_word{to.span().data(), 1}, "add");
    }

    CHECK(support::all_are(total.to_vector(b), 20));
}

TEST_CASE("a device_buffer is constructed from any contiguous range of host elements",
          "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::device_memory const memory;
    std::vector<int> const expected{1, 2, 3};
    int const raw[] = {1, 2, 3};
    std::vector<int> changeable = expected;

    CHECK(numbers{expected, stream, memory}.to_vector(stream) == expected);
    CHECK(numbers{std::array{1, 2, 3}, stream, memory}.to_vector(stream) == expected);
    CHECK(numbers{raw, stream, memory}.to_vector(stream) == expected);
    CHECK(numbers{std::span{changeable}, stream, memory}.to_vector(stream) == expected);
    CHECK(numbers{std::span<int const, 3>{raw}, stream, memory}.to_vector(stream) == expected);
    CHECK(numbers{{1, 2, 3}, stream, memory}.to_vector(stream) == expected);
    CHECK(numbers{{7}, stream, memory}.to_vector(stream) == std::vector<int>{7});  // as in std::vector
    CHECK(numbers{{}, stream, memory}.is_empty());
}

TEST_CASE("a negative element count throws usage_error with the caller's line and allocates nothing",
          "[buffer][device_buffer]") {
    cuota::budget budget{"test", 1_MiB};
    cuota::stream const stream;
    cuota::any_resource const memory = cuota::budgeted{budget, cuota::device_memory{}};
    int const negative = -1;

    unsigned const line = __LINE__ + 1;
    auto const error = thrown<cuota::usage_error>([&] { numbers const some(negative, stream, memory); });

    CHECK(has(error.what(), "element count is negative: -1"));
    CHECK(error.where().line == line);
    CHECK_THROWS_AS((numbers{negative, 7, stream, memory}), cuota::usage_error);
    CHECK_THROWS_AS((device_buffer<char>{negative, stream, memory, cuota::no_init}), cuota::usage_error);
    CHECK(budget.held() == 0);
    numbers some{10, 3, stream, memory};
    CHECK_THROWS_AS(some.resize(negative), cuota::usage_error);
    CHECK_THROWS_AS(some.resize(negative, 5), cuota::usage_error);
    CHECK_THROWS_AS(some.resize(negative, cuota::no_init), cuota::usage_error);
    CHECK_THROWS_AS(some.resize(negative, cuota::discard), cuota::usage_error);
    CHECK(some.to_vector(stream) == std::vector<int>(10, 3));
}

TEST_CASE("elements that resize adds have the value or the initialization that its argument selects",
          "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::scoped_pool pool{cuota::budget{"test", 1_MiB}};
    numbers some{1000, 1, stream, pool, "some"};

    some.resize(2000, 7, "more");
    std::vector<int> expected(1000, 1);
    expected.resize(2000, 7);
    CHECK(some.to_vector(stream) == expected);

    some.resize(3000, cuota::no_init);
    CHECK(some.size() == 3000);
    std::vector<int> kept(2000);  // the others have no value
    some.copy_to(kept, 0, stream);
    stream.synchronize();
    CHECK(kept == expected);

    some.resize(500, 9);
    CHECK(some.to_vector(stream) == std::vector<int>(500, 1));

    some.resize(4000, cuota::discard);
    CHECK(some.size() == 4000);
    some.resize(0, cuota::discard);
    some.resize(0, 3);
    CHECK(some.is_empty());
    some.resize(3, 4);
    CHECK(some.to_vector(stream) == std::vector<int>(3, 4));
    CHECK(pool.stats().live_blocks == 1);
}

TEST_CASE("a string beside an element count is a name, also for a device_buffer of bool",
          "[buffer][device_buffer]") {
    cuota::budget budget{"test", 64_KiB};
    cuota::stream const stream;
    device_buffer<bool> flags{10, true, stream, cuota::budgeted{budget, cuota::device_memory{}}};

    auto const refused = thrown<cuota::budget_exceeded>([&] { flags.resize(100'000, "flags"); });

    CHECK(refused.info().request.name == cuota::tag{"flags"});
}

TEST_CASE("a device_buffer cannot be resized while it is leased", "[buffer][device_buffer]") {
    cuota::stream const stream;
    cuota::stream const other;
    bool const at_home = GENERATE(true, false);
    numbers some{10, 3, stream, cuota::device_memory{}};
    {
        auto const lease = some.read(at_home ? stream : other, {"train.cpp", 5});

        auto const error = thrown<cuota::usage_error>([&] { some.resize(20, {}, {"train.cpp", 6}); });

        CHECK(has(error.what(),
                  "buffer: cannot be resized while it is leased since train.cpp:5 (train.cpp:6)"));
        CHECK_THROWS_AS(some.resize(20, 1), cuota::usage_error);
        CHECK_THROWS_AS(some.resize(20, cuota::no_init), cuota::usage_error);
        CHECK_THROWS_AS(some.resize(20, cuota::discard), cuota::usage_error);
        CHECK(lease.size() == 10);
    }
    CHECK(some.to_vector(stream) == std::vector<int>(10, 3));
    REQUIRE_NOTHROW(some.resize(20));
}

TEST_CASE("swap exchanges the elements, home streams and resources of two device_buffers",
          "[buffer][device_buffer]") {
    cuota::stream const a;
    cuota::stream const b;
    cuota::scoped_pool of_a{cuota::budget{"a", 1_MiB}};
    cuota::any_resource const plain = cuota::device_memory{};
    numbers first{100, 1, a, of_a};
    numbers second{200, 2, b, plain};
    static_assert(noexcept(first.swap(second)) && std::is_nothrow_swappable_v<numbers>);

    first.swap(second);

    CHECK(first.to_vector(b) == std::vector<int>(200, 2));
    CHECK(first.home() == cuota::stream_ref{b});
    CHECK(first.memory() == plain);
    CHECK(second.to_vector(a) == std::vector<int>(100, 1));
    CHECK(second.memory() == cuota::any_resource{of_a});
    CHECK(of_a.stats().live_blocks == 1);

    numbers none{std::move(second)};
    swap(first, second);  // second is empty
    CHECK(first.is_empty());
    CHECK(second.to_vector(b) == std::vector<int>(200, 2));
    swap(none, none);
    CHECK(none.to_vector(a) == std::vector<int>(100, 1));
}

TEST_CASE("copy_from copies all elements or a range of them from another buffer", "[buffer][device_buffer]") {
    cuota::stream const a;
    cuota::stream const b;
    numbers from{counted(1000), a, cuota::device_memory{}};
    numbers to{1000, -1, b, cuota::device_memory{}};
    numbers few{10, -1, b, cuota::device_memory{}};

    to.copy_from(from, b);
    few.copy_from(from, {.from = 500, .to = 2, .count = 3}, a);
    few.copy_from(from, {.from = 999, .to = 9, .count = 1}, b);
    few.copy_from(from, {.from = 1000, .to = 10, .count = 0}, b);

    CHECK(to.to_vector(a) == counted(1000));
    CHECK(few.to_vector(b) == std::vector<int>{-1, -1, 501, 502, 503, -1, -1, -1, -1, 1000});
}

TEST_CASE("copy_from within one buffer requires ranges that do not overlap", "[buffer][device_buffer]") {
    cuota::stream const stream;
    numbers some{{1, 2, 3, 4, 5, 6}, stream, cuota::device_memory{}};

    auto const error = thrown<cuota::usage_error>([&] {
        some.copy_from(some, {.from = 0, .to = 2, .count = 3}, stream, {"train.cpp", 3});
    });
    CHECK(has(error.what(),
              "cannot copy 3 elements from 0 to 2 of one buffer: the ranges overlap (train.cpp:3)"));
    CHECK_THROWS_AS(some.copy_from(some, {.from = 3, .to = 2, .count = 2}, stream), cuota::usage_error);
    CHECK(some.to_vector(stream) == std::vector<int>{1, 2, 3, 4, 5, 6});

    some.copy_from(some, stream);  // onto themselves
    some.copy_from(some, {.from = 0, .to = 3, .count = 3}, stream);
    CHECK(some.to_vector(stream) == std::vector<int>{1, 2, 3, 1, 2, 3});
}

TEST_CASE("copy_from refuses ranges outside either buffer", "[buffer][device_buffer]") {
    cuota::stream const stream;
    numbers const from{10, 1, stream, cuota::device_memory{}};
    numbers to{20, 2, stream, cuota::device_memory{}};
    std::size_t const most = cuota::unlimited;

    auto const error = thrown<cuota::usage_error>([&] {
        to.copy_from(from, {.from = 8, .to = 0, .count = 3}, stream, {"train.cpp", 3});
    });
    CHECK(has(error.what(), "elements [8, 8 + 3) are outside a buffer of 10 (train.cpp:3)"));
    CHECK_THROWS_AS(to.copy_from(from, {.from = 0, .to = 18, .count = 3}, stream), cuota::usage_error);
    CHECK_THROWS_AS(to.copy_from(from, {.from = most, .to = 0, .count = 2}, stream), cuota::usage_error);
    CHECK_THROWS_AS(to.copy_from(from, {.from = 2, .to = 0, .count = most}, stream), cuota::usage_error);
    CHECK_THROWS_AS(to.copy_from(from, {.from = 11, .to = 0, .count = 0}, stream), cuota::usage_error);
    CHECK_THROWS_AS(to.copy_from(from, stream), cuota::usage_error);  // the sizes differ

    CHECK(to.to_vector(stream) == std::vector<int>(20, 2));
}

namespace {

template <std::size_t Bytes>
struct value_of_bytes {
    unsigned char byte[Bytes];
    friend bool operator==(value_of_bytes const&, value_of_bytes const&) = default;
};

// Checks filling at construction, and by resize from an element that need not be aligned.
template <std::size_t Bytes>
void expect_filled(value_of_bytes<Bytes> const& value) {
    cuota::stream const s;
    cuota::scoped_pool const pool{cuota::budget{"test", 8_MiB}};
    for (std::size_t const count : {1u, 2u, 5u, 1000u, 70'001u}) {
        device_buffer<value_of_bytes<Bytes>> some{count, value, s, pool};
        CHECK(some.to_vector(s) == std::vector<value_of_bytes<Bytes>>(count, value));
        value_of_bytes<Bytes> other{};
        other.byte[0] = 9;
        some.resize(2 * count, other);
        std::vector<value_of_bytes<Bytes>> expected(count, value);
        expected.resize(2 * count, other);
        CHECK(some.to_vector(s) == expected);
    }
}

}  // namespace

TEST_CASE("elements of any size are filled with a value", "[buffer][device_buffer][gpu]") {
    expect_filled<1>({{7}});
    expect_filled<2>({{7, 7}});
    expect_filled<2>({{7, 6}});
    expect_filled<3>({{7, 6, 5}});
    expect_filled<4>({{7, 7, 7, 7}});
    expect_filled<4>({{7, 6, 7, 6}});
    expect_filled<4>({{7, 6, 5, 4}});
    expect_filled<8>({{7, 6, 5, 4, 7, 6, 5, 4}});
    expect_filled<8>({{7, 6, 5, 4, 7, 6, 5, 3}});
    expect_filled<12>({{7, 6, 5, 4, 3, 2, 1}});
    expect_filled<16>({{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}});
    expect_filled<16>({{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 5}});
    expect_filled<20>({{1, 2, 3}});
}

TEST_CASE("a device_buffer's name may be a literal that make_unique and emplace forward",
          "[buffer][device_buffer]") {
    using floats = cuota::device_buffer<float>;
    cuota::stream const s;
    cuota::tracked<cuota::device_memory> memory;
    auto const names = [&] {
        std::string all;
        for (auto const& block : memory.live().blocks) all += block.name.text() + std::string{" "};
        return all;
    };
    auto const unique = std::make_unique<floats>(10, 1.0f, s, memory, "unique");
    auto const shared = std::make_shared<floats>(10, s, memory, cuota::zeroed, "shared");
    std::optional<floats> optional;
    optional.emplace(10, s, memory, "optional", cuota::source_location{"train.cpp", 17});
    std::vector<floats> list;
    list.emplace_back(10, s, memory, cuota::no_init, "list");
    CHECK(names() == "unique shared optional list ");
    CHECK(memory.live().blocks[2].where.line == 17);
}

TEST_CASE("a device_buffer of bool is copied to a vector", "[buffer][device_buffer]") {
    cuota::stream const s;
    cuota::device_buffer<bool> const x{{true, false, true}, s, cuota::device_memory{}};
    CHECK(x.to_vector(s) == std::vector<bool>{true, false, true});
    CHECK(cuota::device_buffer<bool>{3, true, s, cuota::device_memory{}}.to_vector(s) ==
          std::vector<bool>(3, true));
}

TEST_CASE("fill and zero set all elements or a part in the order of a stream", "[buffer][device_buffer]") {
    cuota::stream const home;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"b", 16_MiB}};
    struct three {
        float x, y, z;
    };
    cuota::device_buffer<int> x{5, home, pool};
    x.fill(7, other);
    CHECK(x.to_vector(home) == std::vector<int>{7, 7, 7, 7, 7});
    x.fill(3, 1, 2, other);
    CHECK(x.to_vector(home) == std::vector<int>{7, 3, 3, 7, 7});
    x.zero(4, 1, home);
    CHECK(x.to_vector(other) == std::vector<int>{7, 3, 3, 7, 0});
    x.zero(other);
    CHECK(x.to_vector(home) == std::vector<int>(5));

    cuota::device_buffer<three> y{3, home, pool};
    y.fill({1, 2, 3}, 1, 2, other);
    std::vector<three> const read = y.to_vector(home);
    CHECK((read[0].x == 0 && read[1].y == 2 && read[2].z == 3));

    x.fill(1, 5, 0, home);  // an empty part at the end
    auto const beyond = thrown<cuota::usage_error>([&] { x.fill(1, 4, 2, home); });
    CHECK(has(beyond.what(), "device_buffer: elements [4, 4 + 2) are outside a buffer of 5"));
    CHECK_THROWS_AS(x.zero(6, 0, home), cuota::usage_error);
    {
        auto const mine = x.read(home);
        CHECK_THROWS_AS(x.zero(other), cuota::usage_error);  // borrowed on another stream
    }
    cuota::device_buffer<int> none{0, home, pool};
    none.fill(1, home);
    none.zero(home);
}

TEST_CASE("host memory is copied to and from a part of a buffer", "[buffer][device_buffer]") {
    cuota::stream const home;
    cuota::stream const other;
    cuota::scoped_pool pool{cuota::budget{"b", 16_MiB}};
    cuota::device_buffer<int> x{{1, 2, 3, 4, 5}, home, pool};
    std::vector<int> two(2);
    x.copy_to(two, 3, other);
    CHECK(two == std::vector<int>{4, 5});
    x.copy_from(std::vector<int>{8, 9}, 1, other);
    CHECK(x.to_vector(home) == std::vector<int>{1, 8, 9, 4, 5});
    x.copy_to(std::span<int>{}, 5, home);  // an empty part at the end
    auto const beyond = thrown<cuota::usage_error>([&] { x.copy_to(two, 4, home); });
    CHECK(has(beyond.what(), "device_buffer: elements [4, 4 + 2) are outside a buffer of 5"));
    CHECK_THROWS_AS(x.copy_from(two, 6, home), cuota::usage_error);
    auto const mine = x.read(home);
    CHECK_THROWS_AS(x.copy_from(two, 0, other), cuota::usage_error);  // borrowed on another stream
}

TEST_CASE("a default-constructed device_buffer is empty until it is assigned", "[buffer][device_buffer]") {
    struct model {
        cuota::device_buffer<float> weights;
    };
    model m{};
    CHECK(m.weights.is_empty());
    CHECK(m.weights.home() == cuota::stream_ref::legacy());
    auto const refused = thrown<cuota::usage_error>([&] { m.weights.resize(10); });
    CHECK(has(refused.what(), "device_buffer: cannot allocate: it was default-constructed and has no "
                              "resource; assign a buffer to it"));
    m.weights.resize(0);
    CHECK(m.weights.release().is_empty());
    CHECK(m.weights.clone(cuota::default_stream).is_empty());
    CHECK(m.weights.to_vector(cuota::default_stream).empty());
    model const moved = std::move(m);
    CHECK(moved.weights.is_empty());

    cuota::stream const s;
    cuota::scoped_pool pool{cuota::budget{"b", 16_MiB}};
    m.weights = cuota::device_buffer<float>{10, s, pool, "weights"};
    CHECK(m.weights.to_vector(s) == std::vector<float>(10));
    m.weights.resize(20);
    m.weights = {};
    CHECK(m.weights.is_empty());
    CHECK(pool.stats().live_blocks == 0);
}
