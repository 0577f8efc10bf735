// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reference to a resource, for function parameters.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0 {

/// Non-owning reference to a resource, which must outlive the call.
///
/// Converts from anything that converts to any_resource (a pool, a frame, a resource). Do not store one: for block_owned_resource it holds
/// no reference count.
/// Threads: one at a time.
/// Throws:  on construction as any_resource; nothing for a pool.
/// Cost:    a few stores for a pool; a reference count for other resources.
/// Example: tests/resource/resource_ref.cpp
class resource_ref {
public:
    /// References a resource or its owner.
    template <class M>
        requires(!std::same_as<M, resource_ref> && std::convertible_to<M const&, any_resource> &&
                 !requires(M const& m) { m.operator resource_ref(); })
    resource_ref(M const& memory) : inside_{taken(memory)} {}
    /// References the unowned handle that make() returns, constructed in place, because a copy would count.
    template <std::invocable Make>
    [[nodiscard]] static resource_ref of_unowned(Make const& make) noexcept {
        return {any_resource::unowned{}, make};
    }
    resource_ref(resource_ref const&) = delete;
    resource_ref& operator=(resource_ref const&) = delete;
    ~resource_ref();

    [[nodiscard]] memory_kind kind() const noexcept { return inside_.kind(); }  ///< accessibility

private:
    friend class detail::owned_block;

    template <std::invocable Make>
    resource_ref(any_resource::unowned how, Make const& make) noexcept : inside_{how, make} {}

    template <class M>
    [[nodiscard]] static any_resource taken(M const& memory) {
        if constexpr (std::same_as<M, any_resource>)
            return memory.is_owned_by_blocks() ? any_resource{any_resource::unowned{}, memory} : memory;
        else if constexpr (block_owned_resource<M>)
            return any_resource{any_resource::unowned{}, [&]() noexcept { return memory.unowned(); }};
        else return any_resource{memory};
    }

    union {
        any_resource inside_;
    };
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE resource_ref::~resource_ref() {
    if (!inside_.is_owned_by_blocks()) std::destroy_at(&inside_);
}

}  // namespace cuota::inline v0

#endif
