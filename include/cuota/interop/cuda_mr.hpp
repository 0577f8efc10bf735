// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cuota's resources for libraries that take CCCL's (`cuda::mr`): CUB, cuda::buffer, RMM, cuDF. Not in all.hpp: it needs
/// CCCL. The other way: cuda_mr_upstream.hpp.
#pragma once

#include <cuota/interop/cuda_mr_names.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {

// What a resource says of its kind; of one that tells only when it runs, device memory until somebody says otherwise.
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

// Refusals that stay what they are.
struct refusals_of_cuota {
    [[noreturn]] static void raise(out_of_memory const&) { throw; }
};

}  // namespace detail

/// Upstream as a resource of CCCL's, of every version from 2.8 on: its concepts for memory at once and in order of a stream
/// are met under their old and their new names. Made by to_cuda_mr.
///
/// `device_accessible` always; `host_accessible`, too, for pinned and managed memory. What Upstream tells only when it runs
/// (a pool, any_resource) is promised by Kind, and looked at once. Can be a part of a `cuda::std::execution::env`, which
/// CCCL has from 3.1 on.
/// A handle of eight bytes: copies are the same, and one that was moved from is as it was.
///
/// Order:   that of Upstream, in the stream of each call. That is a native handle, and must outlive what is to be released
///          on it: a `cuda::buffer` must end before its stream, as CCCL has it, too.
/// Threads: as Upstream.
/// Throws:  what Upstream throws, as it is: budget_exceeded, out_of_memory; misuse for an alignment that it cannot honour.
///          CUB tells its callers no more than cudaErrorMemoryAllocation of these: `budget::last_refusal` has the rest.
/// Units:   bytes. Cost: that of Upstream.
/// Example: see to_cuda_mr; tests/interop/cuda_mr.cpp
template <resource Upstream, memory_kind Kind = detail::kind_or_device<Upstream>(),
          class Refusals = detail::refusals_of_cuota>
class cuda_mr {
public:
    /// The name and the place stand for all that is taken through it: in refusals, and among those that hold a budget.
    /// Throws: misuse when the memory is not of the kind that was said; std::bad_alloc.
    explicit cuda_mr(Upstream memory, tag name = {}, place where = place::here())
        : state_{shared<state>::make(std::move(memory), label{name, where})} {
        if (memory_kind const found = state_->memory.kind(); found != Kind)
            detail::throw_misuse(where, "a cuda_mr was said to be of {}, and its resource is of {}",
                                 {detail::kind_name(Kind), detail::kind_name(found)});
    }
    /// Shares the state.
    cuda_mr(cuda_mr const&) noexcept =
        default;  // and no moves: a container that was moved from may be used again
    cuda_mr& operator=(cuda_mr const&) noexcept = default;  ///< shares the state of the other
    ~cuda_mr() = default;

    // By the names of CCCL 3.1 and later.
    /// In order of s. Throws: see above.
    [[nodiscard]] void* allocate(::cuda::stream_ref s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) const {
        return taken([&] {
            return allocate_labelled(state_->memory, stream_ref{s.get()}, bytes, alignment, state_->who);
        });
    }
    /// In order of s, which is alive; as it was taken.
    void deallocate(::cuda::stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) const noexcept {
        state_->memory.deallocate(stream_ref{s.get()}, p, bytes, alignment);
    }
    /// Valid on every stream. Throws: see above.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return taken([&] { return allocate_sync_labelled(state_->memory, bytes, alignment, state_->who); });
    }
    /// Whoever used it must have ended.
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) const noexcept {
        state_->memory.deallocate_sync(p, bytes, alignment);
    }

    // By those before.
    /// As allocate(s, ...).
    [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment, ::cuda::stream_ref s) const {
        return allocate(s, bytes, alignment);
    }
    /// As deallocate(s, ...).
    void deallocate_async(void* p, std::size_t bytes, std::size_t alignment,
                          ::cuda::stream_ref s) const noexcept {
        deallocate(s, p, bytes, alignment);
    }
    /// As allocate_sync.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return allocate_sync(bytes, alignment);
    }
    /// As deallocate_sync.
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) const noexcept {
        deallocate_sync(p, bytes, alignment);
    }

    /// Kernels can reach the memory.
    friend constexpr void get_property(cuda_mr const&, ::cuda::mr::device_accessible) noexcept {}
    /// Host code, too.
    friend constexpr void get_property(cuda_mr const&, ::cuda::mr::host_accessible) noexcept
        requires(Kind != memory_kind::device) {}

#if CCCL_VERSION >= 3002000
    using default_queries = std::conditional_t<
        Kind == memory_kind::device, ::cuda::mr::properties_list<::cuda::mr::device_accessible>,
        ::cuda::mr::properties_list<::cuda::mr::device_accessible, ::cuda::mr::host_accessible>>;
#endif
#if CCCL_VERSION >= 3001000
    /// Itself: what an environment with it in it answers.
    [[nodiscard]] cuda_mr const& query(::cuda::mr::get_memory_resource_t const&) const noexcept {
        return *this;
    }
#endif

    [[nodiscard]] Upstream const& memory() const noexcept { return state_->memory; }  ///< what it takes from

    /// One gives back what the other took.
    friend bool operator==(cuda_mr const& a, cuda_mr const& b) {
        return a.state_ == b.state_ || a.state_->memory == b.state_->memory;
    }

private:
    struct state final : ref_counted {
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

    shared<state> state_;
};

namespace detail {

// A pool's handle, of what owns one; else the resource itself.
template <class M>
[[nodiscard]] auto handle_of(M const& memory) {
    if constexpr (resource<M>) return memory;
    else return memory.resource();
}
template <class M>
using handle_of_t = decltype(handle_of(std::declval<M const&>()));

}  // namespace detail

/// A resource, or a pool, for who takes CCCL's. Of memory that tells its kind only when it runs: device memory.
///
///     auto mr = cuota::to_cuda_mr(pool, "scratch");
///     cuda::std::execution::env<cuda::stream_ref, decltype(mr)> const env{cuda::stream_ref{s.get()}, mr};
///     cub::DeviceReduce::Sum(in, out, n, env);  // from CCCL 3.1 on
/// Throws: misuse when it is of another kind: then say which; std::bad_alloc.
/// Threads: any. Cost: a little heap memory.
template <class M>
[[nodiscard]] auto to_cuda_mr(M const& memory, tag name = {}, place where = place::here()) {
    return cuda_mr<detail::handle_of_t<M>>{detail::handle_of(memory), name, where};
}
/// The same, of memory of this kind: `to_cuda_mr<memory_kind::pinned>(pool)`.
/// Throws: as above.
template <memory_kind Kind, class M>
[[nodiscard]] auto to_cuda_mr(M const& memory, tag name = {}, place where = place::here()) {
    return cuda_mr<detail::handle_of_t<M>, Kind>{detail::handle_of(memory), name, where};
}

}  // namespace cuota::inline v0
