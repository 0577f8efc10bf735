// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/resource.hpp>

#include <string>

#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace {

struct plain {
    void* allocate(cuota::stream_ref, std::size_t, std::size_t) { return nullptr; }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t, std::size_t) { return nullptr; }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    std::size_t granularity() const { return 1; }
    cuota::memory_kind kind() const { return cuota::memory_kind::device; }
    bool operator==(plain const&) const = default;
};
static_assert(cuota::resource<plain> && !cuota::labeled_resource<plain>);

struct release_throws : plain {
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) {}
    bool operator==(release_throws const&) const = default;
};
struct cannot_be_copied : plain {
    cannot_be_copied(cannot_be_copied const&) = delete;
    bool operator==(cannot_be_copied const&) const = default;
};
struct cannot_be_compared {
    void* allocate(cuota::stream_ref, std::size_t, std::size_t) { return nullptr; }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t, std::size_t) { return nullptr; }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    std::size_t granularity() const { return 1; }
    cuota::memory_kind kind() const { return cuota::memory_kind::device; }
};
static_assert(!cuota::resource<release_throws> && !cuota::resource<cannot_be_copied>);
static_assert(!cuota::resource<cannot_be_compared> && !cuota::resource<int>);

// The type determines which side can access the memory; any_resource satisfies both concepts.
static_assert(cuota::device_accessible_resource<cuota::device_memory> &&
              !cuota::host_accessible_resource<cuota::device_memory>);
static_assert(!cuota::device_accessible_resource<cuota::pinned_memory> &&
              cuota::host_accessible_resource<cuota::pinned_memory>);
static_assert(cuota::device_accessible_resource<cuota::managed_memory> &&
              cuota::host_accessible_resource<cuota::managed_memory>);
static_assert(cuota::device_accessible_resource<cuota::any_resource> &&
              cuota::host_accessible_resource<cuota::any_resource>);

struct remembers_labels : plain {
    using plain::allocate;
    using plain::allocate_sync;
    void* allocate(cuota::stream_ref, std::size_t, std::size_t, cuota::label const& who) {
        return seen = who, nullptr;
    }
    void* allocate_sync(std::size_t, std::size_t, cuota::label const& who) { return seen = who, nullptr; }
    cuota::label seen{};
    bool operator==(remembers_labels const&) const { return true; }
};
static_assert(cuota::labeled_resource<remembers_labels>);

}  // namespace

TEST_CASE("a label is passed to resources that accept one, and left out for others", "[resource]") {
    cuota::stream_ref const s = cudaStreamPerThread;
    plain simple;
    REQUIRE(cuota::allocate_labeled(simple, s, 1, 1, {"weights"}) == nullptr);
    REQUIRE(cuota::allocate_sync_labeled(simple, 1, 1, {"weights"}) == nullptr);
    remembers_labels keen;
    REQUIRE(cuota::allocate_labeled(keen, s, 1, 1, {"weights"}) == nullptr);
    REQUIRE(keen.seen.name == cuota::tag{"weights"});
    REQUIRE(cuota::allocate_sync_labeled(keen, 1, 1, {"biases"}) == nullptr);
    REQUIRE(keen.seen.name == cuota::tag{"biases"});
}

TEST_CASE("a count of elements whose size overflows is refused", "[resource]") {
    auto const floats = cuota::label_for<float>("weights", {"train.cpp", 3});
    REQUIRE(cuota::detail::bytes_of(0, floats) == 0);
    REQUIRE(cuota::detail::bytes_of(1000, floats) == 4000);
    REQUIRE(cuota::detail::bytes_of(cuota::unlimited / 4, floats) == cuota::unlimited - 3);
    auto const refused = support::thrown<cuota::out_of_memory>(
        [&] { (void)cuota::detail::bytes_of(cuota::unlimited / 4 + 1, floats); });
    REQUIRE(refused.info().requested == cuota::unlimited);
    REQUIRE(refused.info().request.name == cuota::tag{"weights"});
}

TEST_CASE("an alignment is a power of two up to 256", "[resource]") {
    for (std::size_t a = 1; a <= 256; a *= 2) REQUIRE_NOTHROW(cuota::detail::check_alignment(a, {}));
    for (std::size_t const a : {0u, 3u, 255u, 257u, 512u})
        REQUIRE_THROWS_AS(cuota::detail::check_alignment(a, {}), cuota::usage_error);
    auto const error = support::thrown<cuota::usage_error>([] {
        cuota::detail::check_alignment(3, {"weights", {"train.cpp", 3}});
    });
    REQUIRE(std::string{error.what()} ==
            "cuota::usage_error: unsupported alignment 3: must be a power of two, at most 256 (train.cpp:3)");
}

TEST_CASE("bytes that are freed to the driver are subtracted from those in use and counted in total",
          "[resource]") {
    cuota::device const here{0};
    std::size_t const taken = cuota::detail::taken_on(here);
    std::size_t const given_back = cuota::detail::given_back_on(here);
    cuota::detail::count_taken(here, 4096);
    REQUIRE(cuota::detail::taken_on(here) == taken + 4096);
    REQUIRE(cuota::detail::given_back_on(here) == given_back);
    cuota::detail::count_given_back(here, 4096);
    REQUIRE(cuota::detail::taken_on(here) == taken);
    REQUIRE(cuota::detail::given_back_on(here) == given_back + 4096);
}
