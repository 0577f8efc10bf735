// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/label.hpp>

#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace {

cuota::source_location asked_from(cuota::source_location where = cuota::source_location::current()) {
    return where;
}
cuota::source_location passed_on(cuota::source_location where = cuota::source_location::current()) {
    return asked_from(where);
}

static_assert(sizeof(cuota::tag) == sizeof(void*));
static_assert(std::is_trivially_copyable_v<cuota::tag> && std::is_trivially_copyable_v<cuota::label>);

}  // namespace

TEST_CASE("a source_location as default argument is the caller's", "[core][label]") {
    unsigned const line = __LINE__;
    cuota::source_location const direct = asked_from();
    cuota::source_location const indirect = passed_on();

    REQUIRE(direct.line == line + 1);
    REQUIRE(indirect.line == line + 2);
    REQUIRE(cuota::source_location_text(direct) == "label.cpp:" + std::to_string(line + 1));
}

TEST_CASE("source_location_text is the file's name and line", "[core][label]") {
    REQUIRE(cuota::source_location_text({"train.cpp", 17}) == "train.cpp:17");
    REQUIRE(cuota::source_location_text({"/a/b/train.cpp", 1}) == "train.cpp:1");
    REQUIRE(cuota::source_location_text({}).empty());
}

TEST_CASE("tags are equal if their texts are equal", "[core][label]") {
    std::string const made = std::string{"wei"} + "ghts";
    REQUIRE(cuota::tag{"weights"} == cuota::tag::named(made));
    REQUIRE(!(cuota::tag{"weights"} == cuota::tag{"weight"}));
    REQUIRE(cuota::tag{}.is_empty());
    REQUIRE(cuota::tag{""} == cuota::tag{});
    REQUIRE(!cuota::tag{"weights"}.is_empty());
}

TEST_CASE("a named tag outlives the string that it was made from", "[core][label]") {
    cuota::tag kept;
    {
        std::string name = "layer 12, and long enough to live on the heap";
        kept = cuota::tag::named(name);
        name.assign(name.size(), 'x');
    }
    REQUIRE(std::string{kept.text()} == "layer 12, and long enough to live on the heap");
    REQUIRE(cuota::tag::named("layer 12, and long enough to live on the heap").text() == kept.text());
}

TEST_CASE("threads that name equal tags at the same time get the same text", "[core][label]") {
    std::vector<std::vector<char const*>> seen(4);
    std::vector<std::thread> threads;
    for (std::vector<char const*>& mine : seen)
        threads.emplace_back([&mine] {
            for (int i = 0; i != 200; ++i)
                mine.push_back(cuota::tag::named("layer " + std::to_string(i)).text());
        });
    for (std::thread& t : threads) t.join();
    for (std::vector<char const*> const& mine : seen) REQUIRE(mine == seen.front());
}

TEST_CASE("label_for has the size and the name of its element type", "[core][label]") {
    struct pixel {
        float rgb[3];
    };
    constexpr cuota::label who = cuota::label_for<float const>("weights", {"train.cpp", 17});
    STATIC_REQUIRE(who.unit_bytes == 4);
    REQUIRE(std::string{who.unit} == "floats");
    REQUIRE(std::string{cuota::unit_name<double>()} == "doubles");
    REQUIRE(std::string{cuota::unit_name<int>()} == "ints");
    REQUIRE(std::string{cuota::unit_name<unsigned char>()} == "bytes");
    REQUIRE(std::string{cuota::unit_name<std::byte>()} == "bytes");
    REQUIRE(std::string{cuota::unit_name<pixel>()} == "elements");
    STATIC_REQUIRE(cuota::label{}.unit_bytes == 1);
}
