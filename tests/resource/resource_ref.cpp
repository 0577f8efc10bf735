// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/resource_ref.hpp>

#include <type_traits>

#include <cuota/buffer/detail/owned_block.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"

using cuota::resource_ref;

static_assert(std::is_convertible_v<cuota::device_memory const&, resource_ref>);
static_assert(std::is_convertible_v<cuota::any_resource const&, resource_ref>);
static_assert(!std::is_constructible_v<resource_ref, int>);
static_assert(!std::is_copy_constructible_v<resource_ref>);

namespace {

// Like a pool: converts to a resource but is not one.
struct gives_pinned_memory {
    operator cuota::any_resource() const { return cuota::pinned_memory{}; }
};

cuota::memory_kind kind_of(resource_ref const& memory) { return memory.kind(); }

}  // namespace

TEST_CASE("a resource_ref is constructed from any type that converts to any_resource",
          "[resource][resource_ref]") {
    CHECK(kind_of(cuota::device_memory{}) == cuota::memory_kind::device);
    CHECK(kind_of(cuota::any_resource{cuota::device_memory{}}) == cuota::memory_kind::device);
    CHECK(kind_of(gives_pinned_memory{}) == cuota::memory_kind::pinned);
}

TEST_CASE("a block that is allocated through a resource_ref has the referenced resource",
          "[resource][resource_ref]") {
    cuota::stream const home;
    cuota::device_memory const memory;
    cuota::detail::owned_block const some{home, memory, 512, {}};
    CHECK(some.at() != nullptr);
    CHECK(some.memory() == cuota::any_resource{memory});
}
