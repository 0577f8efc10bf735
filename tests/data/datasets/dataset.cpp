// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/datasets/dataset.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/thrown.hpp"

namespace {

/// A user-defined dataset: sample i is the number i, twice.
class counting_source {
public:
    explicit counting_source(std::uint64_t size) : size_{size} {}
    std::uint64_t size() const { return size_; }
    std::vector<cuota::field> const& fields() const { return fields_; }
    char const* name() const { return "counter"; }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        cuota::check_gather(*this, samples, out);
        for (std::size_t i = 0; i != samples.size(); ++i)
            for (std::size_t k = 0; k != 2; ++k) out[0][2 * i + k] = static_cast<std::byte>(samples[i]);
    }

private:
    std::uint64_t size_;
    std::vector<cuota::field> fields_{{"number", cuota::element_type::u8, {2}}};
};
static_assert(cuota::dataset<counting_source>);

struct without_gather {
    std::uint64_t size() const;
    std::span<cuota::field const> fields() const;
    std::string name() const;
};
static_assert(!cuota::dataset<without_gather>);

struct gather_that_changes_it : without_gather {
    void gather(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>);
};
static_assert(!cuota::dataset<gather_that_changes_it>);

struct fields_that_dangle : without_gather {
    std::vector<cuota::field> fields() const;
    void gather(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>) const;
};
static_assert(!cuota::dataset<fields_that_dangle>);

void gather_into(std::vector<std::uint64_t> const& samples, std::vector<std::size_t> const& room) {
    std::vector<std::vector<std::byte>> memory;
    for (std::size_t const bytes : room) memory.emplace_back(bytes);
    std::vector<std::span<std::byte>> const out{memory.begin(), memory.end()};
    counting_source{10}.gather(samples, out);
}

}  // namespace

TEST_CASE("a user-defined type can be a dataset", "[data][dataset]") {
    CHECK(support::gathered(counting_source{10}, {7, 0, 7}) ==
          std::vector<std::string>{std::string{"\7\7\0\0\7\7", 6}});
}

TEST_CASE("check_gather accepts outputs of the exact size, also for no samples", "[data][dataset]") {
    REQUIRE_NOTHROW(gather_into({0, 9}, {4}));
    REQUIRE_NOTHROW(gather_into({}, {0}));
}

TEST_CASE("check_gather names a sample that is out of range", "[data][dataset]") {
    auto const error = support::thrown<cuota::usage_error>([] { gather_into({0, 10}, {4}); });

    CHECK(support::mentions(error.what(),
                            "counter: gather: sample 10 is out of range: the dataset has 10 samples"));
}

TEST_CASE("check_gather reports the size of an output that is too small or too large", "[data][dataset]") {
    for (std::size_t const room : {0U, 3U, 5U}) {
        auto const error = support::thrown<cuota::usage_error>([&] { gather_into({0, 9}, {room}); });
        CHECK(support::mentions(error.what(), "2 samples of number u8[2] take 4 bytes"));
        CHECK(support::mentions(error.what(), "the output has " + std::to_string(room)));
    }
}

TEST_CASE("check_gather refuses outputs for too few or too many fields", "[data][dataset]") {
    REQUIRE_THROWS_AS(gather_into({0}, {}), cuota::usage_error);
    REQUIRE_THROWS_AS(gather_into({0}, {2, 2}), cuota::usage_error);
}

TEST_CASE("run_length counts the consecutive samples at the beginning", "[data][dataset]") {
    auto const length = [](std::vector<std::uint64_t> const& samples) {
        return cuota::detail::run_length(samples);
    };
    CHECK(length({7}) == 1);
    CHECK(length({7, 8, 9}) == 3);
    CHECK(length({7, 8, 10}) == 2);
    CHECK(length({7, 7}) == 1);
    CHECK(length({7, 6}) == 1);
    CHECK(length({~std::uint64_t{0}, 0}) == 2);  // cannot occur in a dataset
}
