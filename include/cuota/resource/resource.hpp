// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The resource concept, and declarations shared by all resources.
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// Accessibility of a resource's memory.
enum class memory_kind {
    device,   ///< by kernels and copies
    pinned,   ///< by host code and copies
    managed,  ///< by kernels, host code and copies
};

/// The alignment that CUDA guarantees, in bytes; unless a resource states otherwise, the largest that can be requested.
inline constexpr std::size_t default_alignment = 256;

/// A memory resource: a handle that is cheap to copy; copies share its state.
///
///     allocate(s, n, a)         allocates n bytes aligned to a, valid in s from here on
///     deallocate(s, p, n, a)    frees in stream order: work enqueued on s before may still use the memory
///     allocate_sync(n, a)       allocates memory that is valid on every stream
///     deallocate_sync(p, n, a)  frees memory on which all work has finished
///     granularity()             allocation granularity in bytes, a power of two
///     kind()                    accessibility; static and constexpr if known at compile time
///     a == b                    memory of a may be freed through b
///
/// A request of 0 bytes returns null, which may be freed.
///
/// Units:   bytes; alignments are powers of two. A deallocation passes the bytes and the alignment of the allocation.
/// Threads: for the resources of this library any.
/// Throws:  out_of_memory, and nothing changes; usage_error for unsupported requests. Failures of a deallocation are reported to the error
///          sink.
/// Example: tests/resource/resource.cpp
template <class R>
concept resource = requires(R& r, R const& look, stream_ref s, void* p, std::size_t bytes,
                            std::size_t alignment) {
    { r.allocate(s, bytes, alignment) } -> std::same_as<void*>;
    { r.deallocate(s, p, bytes, alignment) }
    noexcept;
    { r.allocate_sync(bytes, alignment) } -> std::same_as<void*>;
    { r.deallocate_sync(p, bytes, alignment) }
    noexcept;
    { look.granularity() } -> std::convertible_to<std::size_t>;
    { look.kind() } -> std::same_as<memory_kind>;
}
&&std::equality_comparable<R>&& std::copy_constructible<R>;

/// A resource that accepts a request's label, for accounts and messages.
template <class R>
concept labeled_resource = resource<R> && requires(R& r, stream_ref s, std::size_t n, label const& who) {
    { r.allocate(s, n, n, who) } -> std::same_as<void*>;
    { r.allocate_sync(n, n, who) } -> std::same_as<void*>;
};

/// A resource that retains memory which a capturing stream frees for the graph, and reuses it within the capture.
template <class R>
concept graph_aware_resource = requires {
    requires R::graph_aware_resource;
};

/// A resource with live blocks that keep it and the allocating `stream` alive: an owner of a block stores neither.
///
///     allocate_retaining(s, n, a, who)  allocates such a block
///     unowned()                         a non-owning copy of 8 bytes, which may be copied bytewise and must not be destroyed
template <class R>
concept block_owned_resource = labeled_resource<R> && sizeof(R) == sizeof(void*) &&
                               requires(R& r, R const& look, stream_ref s, std::size_t n, label const& who) {
    { r.allocate_retaining(s, n, n, who) } -> std::same_as<void*>;
    { look.unowned() }
    noexcept->std::same_as<R>;
};

namespace detail {

template <class R>
concept kind_is_static = requires {
    typename std::integral_constant<memory_kind, R::kind()>;
};

template <class R>
[[nodiscard]] consteval bool may_be_kind(memory_kind unwanted) {
    if constexpr (kind_is_static<R>) return R::kind() != unwanted;
    return true;  // type-erased: checked at run time
}

}  // namespace detail

/// A resource that kernels can access, as far as its type tells.
template <class R>
concept device_accessible_resource = resource<R> && detail::may_be_kind<R>(memory_kind::pinned);

/// A resource that host code can access, as far as its type tells.
template <class R>
concept host_accessible_resource = resource<R> && detail::may_be_kind<R>(memory_kind::device);

/// A resource that kernels cannot access.
template <class R>
concept host_only_resource = resource<R> && !device_accessible_resource<R>;
/// A resource that host code cannot access.
template <class R>
concept device_only_resource = resource<R> && !host_accessible_resource<R>;

/// Calls r.allocate, with the label if r accepts one.
template <resource R>
[[nodiscard]] void* allocate_labeled(R& r, stream_ref s, std::size_t bytes, std::size_t alignment,
                                     label const& who) {
    if constexpr (labeled_resource<R>) return r.allocate(s, bytes, alignment, who);
    else return r.allocate(s, bytes, alignment);
}

/// Calls r.allocate_sync likewise.
template <resource R>
[[nodiscard]] void* allocate_sync_labeled(R& r, std::size_t bytes, std::size_t alignment, label const& who) {
    if constexpr (labeled_resource<R>) return r.allocate_sync(bytes, alignment, who);
    else return r.allocate_sync(bytes, alignment);
}

namespace detail {

[[noreturn, gnu::cold]] void refuse_count(label who);
/// Returns the bytes of `count` elements. Throws: out_of_memory on overflow.
[[nodiscard]] std::size_t bytes_of(std::size_t count, label const& who);

[[noreturn, gnu::cold]] void refuse_alignment(std::size_t alignment, std::size_t largest,
                                              source_location where);
/// Throws usage_error unless the alignment is a power of two, at most `largest`.
void check_alignment(std::size_t alignment, label const& who, std::size_t largest = default_alignment);

/// Bytes that this process holds on a device through cuota.
CUOTA_PROCESS_STATE std::atomic<std::size_t>& taken_on(device where) noexcept;

/// Total bytes freed on a device through cuota: if two reads are equal, nothing was freed between them.
CUOTA_PROCESS_STATE std::atomic<std::size_t>& given_back_on(device where) noexcept;

/// Call it before the driver allocates, and count_given_back after it has freed: own bytes never count as others'.
inline void count_taken(device where, std::size_t bytes) noexcept { taken_on(where) += bytes; }
void count_given_back(device where, std::size_t bytes) noexcept;

/// The part of taken_on from the device's default pool.
CUOTA_PROCESS_STATE std::atomic<std::size_t>& taken_from_pool_of(device where) noexcept;

/// Bytes of host memory that this process holds through cuota, and the total that it has freed.
CUOTA_PROCESS_STATE std::atomic<std::size_t>& taken_on_host() noexcept;
CUOTA_PROCESS_STATE std::atomic<std::size_t>& given_back_on_host() noexcept;
void count_given_back_on_host(std::size_t bytes) noexcept;
/// Calls call(), which returns memory or null, between count() and, unless it returned memory, uncount().
template <class Count, class Uncount, class Call>
[[nodiscard]] void* take_counted(Count count, Uncount uncount, Call call) {
    count();
    void* taken = nullptr;
    try {
        taken = call();
    } catch (...) {
        uncount();
        throw;
    }
    if (!taken) uncount();
    return taken;
}
/// Calls call(), which returns host memory or null, and counts its bytes from before the call on.
template <class Call>
[[nodiscard]] void* take_on_host(std::size_t bytes, Call call) {
    return take_counted([&] { taken_on_host() += bytes; }, [&] { count_given_back_on_host(bytes); }, call);
}

/// Returns the driver's figures; empty, and reported, if the query fails.
std::optional<device_info> facts_of(device where) noexcept;

[[nodiscard]] refusal driver_refusal(std::size_t bytes, std::size_t granularity, label const& who,
                                     std::string cause);

/// Adds the released bytes, with their holders.
void note_given(refusal& r, std::vector<reclaimer_info> const& told);

/// Adds the device's figures, and the released bytes.
void describe_device(refusal& r, device where, std::vector<reclaimer_info> const& told);

[[noreturn]] void refuse_on(device where, std::size_t bytes, std::size_t granularity, label const& who,
                            char const* call, std::vector<reclaimer_info> const& told = {});

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_count(label who) {
    refusal r;
    r.requested = r.charged = unlimited;
    r.request = who;
    throw out_of_memory{std::move(r)};
}

CUOTA_INLINE void refuse_alignment(std::size_t alignment, std::size_t largest, source_location where) {
    throw_usage_error(where, "unsupported alignment {}: must be a power of two, at most {}",
                      {alignment, largest});
}

CUOTA_INLINE std::size_t bytes_of(std::size_t count, label const& who) {
    if (auto const bytes = checked_mul(count, who.unit_bytes)) [[likely]]
        return *bytes;
    refuse_count(who);
}

CUOTA_INLINE void check_alignment(std::size_t alignment, label const& who, std::size_t largest) {
    if (!is_power_of_two(alignment) || alignment > largest) refuse_alignment(alignment, largest, who.where);
}

CUOTA_INLINE_STATE std::atomic<std::size_t>& taken_on(device where) noexcept {
    static std::array<std::atomic<std::size_t>, 64> taken{};
    return taken[static_cast<std::size_t>(where.ordinal()) % taken.size()];
}

CUOTA_INLINE_STATE std::atomic<std::size_t>& given_back_on(device where) noexcept {
    static std::array<std::atomic<std::size_t>, 64> given_back{};
    return given_back[static_cast<std::size_t>(where.ordinal()) % given_back.size()];
}

CUOTA_INLINE void count_given_back(device where, std::size_t bytes) noexcept {
    given_back_on(where) += bytes;  // first, so that their sum never falls below the total allocated
    taken_on(where) -= bytes;
}

CUOTA_INLINE_STATE std::atomic<std::size_t>& taken_from_pool_of(device where) noexcept {
    static std::array<std::atomic<std::size_t>, 64> taken{};
    return taken[static_cast<std::size_t>(where.ordinal()) % taken.size()];
}

CUOTA_INLINE_STATE std::atomic<std::size_t>& taken_on_host() noexcept {
    static std::atomic<std::size_t> taken = 0;
    return taken;
}

CUOTA_INLINE_STATE std::atomic<std::size_t>& given_back_on_host() noexcept {
    static std::atomic<std::size_t> given_back = 0;
    return given_back;
}

CUOTA_INLINE void count_given_back_on_host(std::size_t bytes) noexcept {
    given_back_on_host() += bytes;
    taken_on_host() -= bytes;
}

CUOTA_INLINE std::optional<device_info> facts_of(device where) noexcept {
    std::optional<device_info> facts;
    report_failure_of([&] {
        device::memory_info const memory = where.memory();
        facts = device_info{where.ordinal(),
                            where.name(),
                            memory.total,
                            memory.free,
                            taken_on(where).load(),
                            0,
                            rt::in_default_pool(where).idle()};
        if (auto const limits = where.limits()) {
            facts->soft_limit = limits->soft;
            facts->soft_limit_used = limits->used;
        }
    });
    return facts;
}

CUOTA_INLINE refusal driver_refusal(std::size_t bytes, std::size_t granularity, label const& who,
                                    std::string cause) {
    refusal r;
    r.requested = bytes;
    r.charged = round_up(bytes, granularity);
    r.granularity = granularity;
    r.request = who;
    r.cause = std::move(cause);
    return r;
}

CUOTA_INLINE void note_given(refusal& r, std::vector<reclaimer_info> const& told) {
    for (reclaimer_info const& t : told) r.reclaimed = saturating_add(r.reclaimed, t.released);
    if (!r.reclaimers) r.reclaimers.emplace();
    r.reclaimers->insert(r.reclaimers->begin(), told.begin(), told.end());
}

CUOTA_INLINE void describe_device(refusal& r, device where, std::vector<reclaimer_info> const& told) {
    r.device = facts_of(where);
    note_given(r, told);
    if (r.device) r.max_fit = round_down(r.device->free, r.granularity);
}

CUOTA_INLINE void refuse_on(device where, std::size_t bytes, std::size_t granularity, label const& who,
                            char const* call, std::vector<reclaimer_info> const& told) {
    refusal r =
        driver_refusal(bytes, granularity, who, std::string{call} + ": not enough free memory on the device");
    describe_device(r, where, told);
    throw out_of_memory{std::move(r)};
}

}  // namespace cuota::inline v0::detail

#endif
