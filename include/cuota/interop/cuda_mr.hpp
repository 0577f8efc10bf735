// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Adapts cuota's resources to CCCL's memory-resource concepts (`cuda::mr`), for CUB, RMM and others. Requires CCCL. The reverse:
/// cuda_mr_adaptor.hpp.
#pragma once

#include <cuota/interop/cuda_mr_concepts.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {

// Device memory if the kind is known only at run time.
template <resource R>
[[nodiscard]] consteval memory_kind kind_or_device() {
    if constexpr (kind_is_static<R>) return R::kind();
    else return memory_kind::device;
}

[[nodiscard]] constexpr char const* kind_name(memory_kind kind) noexcept {
    return kind == memory_kind::device   ? "device memory"
           : kind == memory_kind::pinned ? "pinned memory"
                                         : "managed memory";
}

// Rethrows refusals unchanged.
struct cuota_refusal_policy {
    [[noreturn]] static void raise(out_of_memory const&) { throw; }
};

}  // namespace detail

/// Upstream as a CCCL resource, from CCCL 2.8 on. Made by to_cuda_mr.
///
/// Always `device_accessible`; also `host_accessible` for pinned and managed memory. The constructor checks Kind. Usable in a
/// `cuda::std::execution::env` from CCCL 3.1 on. Copies refer to the same resource.
///
/// Order:   that of Upstream, on the stream of each call, which must outlive the deallocations on it: destroy a `cuda::buffer` before its
///          stream.
/// Threads, cost: as Upstream.
/// Throws:  Upstream's exceptions: budget_exceeded, out_of_memory; usage_error for an unsupported alignment. CUB's callers receive only
///          cudaErrorMemoryAllocation: `budget::last_refusal` has the details.
/// Example: see to_cuda_mr; tests/interop/cuda_mr.cpp
template <resource Upstream, memory_kind Kind = detail::kind_or_device<Upstream>(),
          class Refusals = detail::cuota_refusal_policy>
class cuda_mr {
public:
    /// The name and call site apply to all allocations. Throws: usage_error if the memory is not of kind Kind; std::bad_alloc.
    explicit cuda_mr(Upstream memory, tag name = {}, source_location where = source_location::current())
        : state_{detail::intrusive_ptr<state>::make(std::move(memory), label{name, where})} {
        if (memory_kind const found = state_->memory.kind(); found != Kind)
            detail::throw_usage_error(where, "cuda_mr: declared as {}, but the resource provides {}",
                                      {detail::kind_name(Kind), detail::kind_name(found)});
    }
    /// Refers to the same state.
    cuda_mr(cuda_mr const&) noexcept = default;  // no moves: a moved-from container may be used again
    cuda_mr& operator=(cuda_mr const&) noexcept = default;  ///< refers to the other's state
    ~cuda_mr() = default;

    // Names of CCCL 3.1 and later.
    /// Allocates in the order of s.
    [[nodiscard]] void* allocate(::cuda::stream_ref s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) const {
        return taken([&] {
            return allocate_labeled(state_->memory, stream_ref{s.get()}, bytes, alignment, state_->who);
        });
    }
    /// Deallocates in the order of s, with the arguments of the allocation.
    void deallocate(::cuda::stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) const noexcept {
        state_->memory.deallocate(stream_ref{s.get()}, p, bytes, alignment);
    }
    /// Allocates memory that is valid on every stream.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return taken([&] { return allocate_sync_labeled(state_->memory, bytes, alignment, state_->who); });
    }
    /// All uses must have finished.
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) const noexcept {
        state_->memory.deallocate_sync(p, bytes, alignment);
    }

    // Names of earlier versions.
    /// Same as allocate(s, ...).
    [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment, ::cuda::stream_ref s) const {
        return allocate(s, bytes, alignment);
    }
    /// Same as deallocate(s, ...).
    void deallocate_async(void* p, std::size_t bytes, std::size_t alignment,
                          ::cuda::stream_ref s) const noexcept {
        deallocate(s, p, bytes, alignment);
    }
    /// Same as allocate_sync.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return allocate_sync(bytes, alignment);
    }
    /// Same as deallocate_sync.
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) const noexcept {
        deallocate_sync(p, bytes, alignment);
    }

    /// Kernels can access the memory.
    friend constexpr void get_property(cuda_mr const&, ::cuda::mr::device_accessible) noexcept {}
    /// Host code can access the memory, too.
    friend constexpr void get_property(cuda_mr const&, ::cuda::mr::host_accessible) noexcept
        requires(Kind != memory_kind::device) {}

#if CCCL_VERSION >= 3002000
    using default_queries = std::conditional_t<
        Kind == memory_kind::device, ::cuda::mr::properties_list<::cuda::mr::device_accessible>,
        ::cuda::mr::properties_list<::cuda::mr::device_accessible, ::cuda::mr::host_accessible>>;
#endif
#if CCCL_VERSION >= 3001000
    /// For environments that contain it.
    [[nodiscard]] cuda_mr const& query(::cuda::mr::get_memory_resource_t const&) const noexcept {
        return *this;
    }
#endif

    [[nodiscard]] Upstream const& memory() const noexcept { return state_->memory; }  ///< the upstream

    /// Returns whether either can deallocate the other's memory.
    friend bool operator==(cuda_mr const& a, cuda_mr const& b) {
        return a.state_ == b.state_ || a.state_->memory == b.state_->memory;
    }

private:
    struct state final : detail::ref_counted {
        state(Upstream m, label const& l) : memory{std::move(m)}, who{l} {}
        Upstream memory;
        label who;
    };

    template <class Take>
    [[nodiscard]] static void* taken(Take const& take) {
        try {
            return take();
        } catch (out_of_memory const& refused) { Refusals::raise(refused); }
    }

    detail::intrusive_ptr<state> state_;
};

namespace detail {

// A pool's handle owns its state.
template <class M>
[[nodiscard]] auto handle_of(M const& memory) {
    if constexpr (resource<M>) return memory;
    else return memory.resource();
}
template <class M>
using handle_of_t = decltype(handle_of(std::declval<M const&>()));

}  // namespace detail

/// Adapts a resource or a pool to CCCL.
///
///     auto mr = cuota::to_cuda_mr(pool, "scratch");
///     cuda::std::execution::env<cuda::stream_ref, decltype(mr)> const env{cuda::stream_ref{s.get()}, mr};
///     cub::DeviceReduce::Sum(in, out, n, env);  // from CCCL 3.1 on
/// Throws:  usage_error if a kind known only at run time is not device memory (use the overload with Kind); std::bad_alloc.
/// Cost:    a small object on the heap.
template <class M>
[[nodiscard]] auto to_cuda_mr(M const& memory, tag name = {},
                              source_location where = source_location::current()) {
    return cuda_mr<detail::handle_of_t<M>>{detail::handle_of(memory), name, where};
}
/// Same for memory of kind Kind: `to_cuda_mr<memory_kind::pinned>(pool)`.
template <memory_kind Kind, class M>
[[nodiscard]] auto to_cuda_mr(M const& memory, tag name = {},
                              source_location where = source_location::current()) {
    return cuda_mr<detail::handle_of_t<M>, Kind>{detail::handle_of(memory), name, where};
}

}  // namespace cuota::inline v0
