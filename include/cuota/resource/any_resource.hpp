// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Type-erased resource of 16 bytes.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {
class owned_block;
}

/// Owner of a resource of any type: in place if that is a handle of 8 bytes, otherwise in shared state. Never empty. Copies share the
/// resource, which determines order, threads and exceptions.
/// Cost:    an indirect call.
/// Example: tests/resource/any_resource.cpp
class any_resource {
public:
    /// Stores any resource. Throws: std::bad_alloc and exceptions of its copies, unless it is a handle of 8 bytes.
    template <class R>
        requires(!std::same_as<std::remove_cvref_t<R>, any_resource>)
    &&resource<R> any_resource(R inside) : calls_{&calls_of<R>} {
        if constexpr (in_place<R>) ::new (at()) R(std::move(inside));
        else
            ::new (at())
                detail::intrusive_ptr<boxed<R>>(detail::intrusive_ptr<boxed<R>>::make(std::move(inside)));
    }
    /// Shares the resource; a move is a copy.
    any_resource(any_resource const& other) noexcept;
    /// Shares the argument's resource.
    any_resource& operator=(any_resource const& other) noexcept;
    ~any_resource() { calls_->destroy(at()); }

    /// Allocates in order of s; passes the label on to a resource that accepts one.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Frees in order of s.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept;
    /// Allocates memory that is valid on every stream.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory on which all work has finished.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept;
    [[nodiscard]] std::size_t granularity() const noexcept { return calls_->granularity(at()); }  ///< bytes
    [[nodiscard]] memory_kind kind() const noexcept { return calls_->kind(at()); }  ///< accessibility

    /// Returns whether both hold equal resources of one type; may be false if they were made in different shared libraries.
    // A member: a friend would be considered for every class template over any_resource.
    bool operator==(any_resource const& other) const;

private:
    friend class resource_ref;
    friend class detail::owned_block;

    // Makes a copy without a reference count, which must not be destroyed.
    struct unowned {};
    // Constructs the handle that make() returns in place: a move would count.
    template <std::invocable Make>
    any_resource(unowned,
                 Make const& make) noexcept requires block_owned_resource<std::invoke_result_t<Make const&>>
        : calls_{&calls_of<std::invoke_result_t<Make const&>>} {
        using R = std::invoke_result_t<Make const&>;
        ::new (at()) R(make());
    }
    any_resource(unowned, any_resource const& kept) noexcept;
    [[nodiscard]] bool is_owned_by_blocks() const noexcept { return calls_->allocate_retaining != nullptr; }
    [[nodiscard]] bool graph_aware_resource() const noexcept { return calls_->graph_aware_resource; }
    /// Returns the stored handle if it is an R, else null; may return null across shared libraries.
    template <block_owned_resource R>
    [[nodiscard]] R const* if_holds() const noexcept {
        return calls_ == &calls_of<R> ? &inside<R>(at()) : nullptr;
    }
    [[nodiscard]] void* allocate_retaining(stream_ref s, std::size_t bytes, std::size_t alignment,
                                           label const& who);

    struct calls {
        void* (*allocate)(void*, stream_ref, std::size_t, std::size_t, label const&);
        void (*deallocate)(void*, stream_ref, void*, std::size_t, std::size_t) noexcept;
        void* (*allocate_sync)(void*, std::size_t, std::size_t, label const&);
        void (*deallocate_sync)(void*, void*, std::size_t, std::size_t) noexcept;
        std::size_t (*granularity)(void const*) noexcept;
        memory_kind (*kind)(void const*) noexcept;
        bool (*equal)(void const*, void const*);
        void (*copy)(void const* from, void* to) noexcept;
        void (*destroy)(void*) noexcept;
        // null unless the resource is block_owned_resource
        void* (*allocate_retaining)(void*, stream_ref, std::size_t, std::size_t, label const&);
        bool graph_aware_resource;
    };

    template <class R>
    struct boxed final : detail::ref_counted {
        explicit boxed(R r) : inside{std::move(r)} {}
        R inside;
    };

    template <class R>
    static constexpr bool in_place =
        sizeof(R) <= sizeof(void*) && alignof(R) <= alignof(void*) &&
        std::is_nothrow_copy_constructible_v<R>&& std::is_nothrow_move_constructible_v<R>;
    template <class R>
    using stored = std::conditional_t<in_place<R>, R, detail::intrusive_ptr<boxed<R>>>;

    template <class R>
    static R& inside(void* at) noexcept {
        auto& held = *std::launder(static_cast<stored<R>*>(at));
        if constexpr (in_place<R>) return held;
        else return held->inside;
    }
    template <class R>
    static R& inside(void const* at) noexcept {
        return inside<R>(const_cast<void*>(at));  // handles are shallow: their state is not const
    }

    template <class R>
    static void* allocate_retaining(void* at, stream_ref s, std::size_t n, std::size_t a, label const& who) {
        if constexpr (block_owned_resource<R>) return inside<R>(at).allocate_retaining(s, n, a, who);
        else return nullptr;
    }

    template <class R>
    CUOTA_PROCESS_STATE static constexpr calls calls_of{
        // the address of this table identifies the type of the resource
        [](void* at, stream_ref s, std::size_t n, std::size_t a, label const& who) {
            return allocate_labeled(inside<R>(at), s, n, a, who);
        },
        [](void* at, stream_ref s, void* p, std::size_t n, std::size_t a) noexcept {
            inside<R>(at).deallocate(s, p, n, a);
        },
        [](void* at, std::size_t n, std::size_t a, label const& who) {
            return allocate_sync_labeled(inside<R>(at), n, a, who);
        },
        [](void* at, void* p, std::size_t n, std::size_t a) noexcept {
            inside<R>(at).deallocate_sync(p, n, a);
        },
        [](void const* at) noexcept -> std::size_t { return inside<R>(at).granularity(); },
        [](void const* at) noexcept -> memory_kind { return inside<R>(at).kind(); },
        [](void const* a, void const* b) -> bool { return inside<R>(a) == inside<R>(b); },
        [](void const* from, void* to) noexcept {
            ::new (to) stored<R>(*std::launder(static_cast<stored<R> const*>(from)));
        },
        [](void* at) noexcept { std::destroy_at(std::launder(static_cast<stored<R>*>(at))); },
        block_owned_resource<R> ? &any_resource::allocate_retaining<R> : nullptr,
        cuota::graph_aware_resource<R>,
    };

    void* at() noexcept { return storage_; }
    void const* at() const noexcept { return storage_; }

    calls const* calls_;
    alignas(void*) std::byte storage_[sizeof(void*)];
};

static_assert(sizeof(any_resource) <= 16);

/// Returns pinned_memory{}, for default arguments and options.
[[nodiscard]] any_resource default_pinned_resource() noexcept;

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cstring>

#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/resource/pinned_memory.hpp>

namespace cuota::inline v0 {

static_assert(labeled_resource<any_resource> && device_accessible_resource<any_resource> &&
              host_accessible_resource<any_resource>);

CUOTA_INLINE any_resource default_pinned_resource() noexcept { return pinned_memory{}; }

CUOTA_INLINE any_resource::any_resource(any_resource const& other) noexcept : calls_{other.calls_} {
    calls_->copy(other.at(), at());
}

CUOTA_INLINE any_resource& any_resource::operator=(any_resource const& other) noexcept {
    if (this != &other) {
        calls_->destroy(at());
        calls_ = other.calls_;
        calls_->copy(other.at(), at());
    }
    return *this;
}

CUOTA_INLINE void* any_resource::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                          label const& who) {
    detail::expect_no_region("a resource");
    return calls_->allocate(at(), s, bytes, alignment, who);
}

CUOTA_INLINE void any_resource::deallocate(stream_ref s, void* p, std::size_t bytes,
                                           std::size_t alignment) noexcept {
    detail::expect_no_region("a resource");
    calls_->deallocate(at(), s, p, bytes, alignment);
}

CUOTA_INLINE void* any_resource::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    detail::expect_no_region("a resource");
    return calls_->allocate_sync(at(), bytes, alignment, who);
}

CUOTA_INLINE void any_resource::deallocate_sync(void* p, std::size_t bytes, std::size_t alignment) noexcept {
    detail::expect_no_region("a resource");
    calls_->deallocate_sync(at(), p, bytes, alignment);
}

CUOTA_INLINE bool any_resource::operator==(any_resource const& other) const {
    return calls_ == other.calls_ && calls_->equal(at(), other.at());
}

CUOTA_INLINE any_resource::any_resource(unowned, any_resource const& kept) noexcept : calls_{kept.calls_} {
    std::memcpy(storage_, kept.storage_, sizeof storage_);
}

CUOTA_INLINE void* any_resource::allocate_retaining(stream_ref s, std::size_t bytes, std::size_t alignment,
                                                    label const& who) {
    detail::expect_no_region("a resource");
    return calls_->allocate_retaining(at(), s, bytes, alignment, who);
}

}  // namespace cuota::inline v0

#endif
