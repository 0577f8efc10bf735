// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a source of memory is: the concept, and what every source here shares.
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

/// Who can reach the memory of a resource.
enum class memory_kind {
    device,   ///< kernels and copies
    pinned,   ///< host code and copies
    managed,  ///< all of them
};

/// What CUDA promises for every allocation, in bytes; the largest alignment that can be asked for.
inline constexpr std::size_t default_alignment = 256;

/// A source of memory: a cheap copyable handle, on shared state if it has any.
///
/// allocate(s, n, a)       n bytes aligned to a, valid in s from here on; throws out_of_memory and changes nothing
/// deallocate(s, p, n, a)  gives them back in stream order: work enqueued on s before may still use them
/// allocate_sync(n, a)     valid on every stream at return
/// deallocate_sync(p, n, a)  the caller has seen all work on them end
/// granule()               what requests are rounded up to when they are accounted, in bytes, a power of two
/// kind()                  who can reach it; static and constexpr where it is known at compile time
/// a == b                  memory from one can be given back to the other
/// Zero bytes are legal: null, which can be given back.
///
/// Units:   bytes; alignments are powers of two. A release has the bytes and the alignment of its allocation.
/// Threads: of the resources of this library any, on one handle or on copies.
/// Throws:  out_of_memory (budget_exceeded is one), misuse for what the resource cannot do. What fails in a release goes to
///          the error sink.
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
    { look.granule() } -> std::convertible_to<std::size_t>;
    { look.kind() } -> std::same_as<memory_kind>;
}
&&std::equality_comparable<R>&& std::copy_constructible<R>;

/// A resource that takes the label of a request along, for its accounts and messages.
template <class R>
concept labelled_resource = resource<R> && requires(R& r, stream_ref s, std::size_t n, label const& who) {
    { r.allocate(s, n, n, who) } -> std::same_as<void*>;
    { r.allocate_sync(n, n, who) } -> std::same_as<void*>;
};

/// A resource that keeps for a graph by itself what a captured stream gives back, and uses it again in the capture.
template <class R>
concept keeps_for_graphs = requires {
    requires R::keeps_for_graphs;
};

/// A resource whose blocks can keep it, and the `stream`s they were taken in order of: who has such a block needs no share
/// of either.
///
/// allocate_keeping(s, n, a, who)  as allocate; until the block is given back, the resource and the stream stay
/// uncounted()                     a copy that is no owner, for who does not destroy it; a handle of eight bytes, of which any
///                                 copy byte by byte is one, too
template <class R>
concept kept_by_blocks = labelled_resource<R> && sizeof(R) == sizeof(void*) &&
                         requires(R& r, R const& look, stream_ref s, std::size_t n, label const& who) {
    { r.allocate_keeping(s, n, n, who) } -> std::same_as<void*>;
    { look.uncounted() }
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
    return true;  // erased: looked at when it runs
}

}  // namespace detail

/// Kernels can use memory of R, as far as its type tells.
template <class R>
concept device_resource = resource<R> && detail::may_be_kind<R>(memory_kind::pinned);

/// Host code can use memory of R, as far as its type tells.
template <class R>
concept host_resource = resource<R> && detail::may_be_kind<R>(memory_kind::device);

/// Kernels cannot use memory of R, as its type tells.
template <class R>
concept host_only_resource = resource<R> && !device_resource<R>;
/// Host code cannot use memory of R, as its type tells.
template <class R>
concept device_only_resource = resource<R> && !host_resource<R>;

/// r.allocate with the label where r takes one. Throws: as that.
template <resource R>
[[nodiscard]] void* allocate_labelled(R& r, stream_ref s, std::size_t bytes, std::size_t alignment,
                                      label const& who) {
    if constexpr (labelled_resource<R>) return r.allocate(s, bytes, alignment, who);
    else return r.allocate(s, bytes, alignment);
}

/// r.allocate_sync with the label where r takes one. Throws: as that.
template <resource R>
[[nodiscard]] void* allocate_sync_labelled(R& r, std::size_t bytes, std::size_t alignment, label const& who) {
    if constexpr (labelled_resource<R>) return r.allocate_sync(bytes, alignment, who);
    else return r.allocate_sync(bytes, alignment);
}

namespace detail {

[[noreturn, gnu::cold]] void refuse_count(label who);
/// The bytes of count elements. Throws: out_of_memory when no machine could hold them.
[[nodiscard]] std::size_t bytes_of(std::size_t count, label const& who);

[[noreturn, gnu::cold]] void refuse_alignment(std::size_t alignment, std::size_t largest, place where);
/// Throws misuse for an alignment that is no power of two or more than there is to be had: what CUDA gives, as a rule.
void check_alignment(std::size_t alignment, label const& who, std::size_t largest = default_alignment);

/// Bytes that this process holds on a device through cuota, for telling our part of the driver's numbers from others'.
CUOTA_PROCESS_STATE std::atomic<std::size_t>& taken_on(device where) noexcept;

/// Bytes of those that were given back so far. It only grows: who looks at it twice knows whether any went meanwhile.
CUOTA_PROCESS_STATE std::atomic<std::size_t>& given_back_on(device where) noexcept;

/// To be called before the driver gives the bytes, and after it has them back: what is ours is never taken for others'.
inline void count_taken(device where, std::size_t bytes) noexcept { taken_on(where) += bytes; }
void count_given_back(device where, std::size_t bytes) noexcept;

/// Of what is held, the bytes that are of the device's default pool.
CUOTA_PROCESS_STATE std::atomic<std::size_t>& taken_from_pool_of(device where) noexcept;

/// The driver's view, for a refusal. A driver that does not answer leaves it out, and is reported.
std::optional<device_facts> facts_of(device where) noexcept;

/// The refusal of a request that no budget stopped and the driver did.
[[nodiscard]] refusal driver_refusal(std::size_t bytes, std::size_t granule, label const& who,
                                     std::string cause);

/// What was given back before the refusal, and by whom.
void note_given(refusal& r, std::vector<reclaimer_facts> const& told);

[[noreturn]] void refuse_on(device where, std::size_t bytes, std::size_t granule, label const& who,
                            char const* call, std::vector<reclaimer_facts> const& told = {});

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void refuse_count(label who) {
    refusal r;
    r.asked = r.charged = unlimited;
    r.request = who;
    throw out_of_memory{std::move(r)};
}

CUOTA_INLINE void refuse_alignment(std::size_t alignment, std::size_t largest, place where) {
    throw_misuse(where, "an alignment of {} cannot be honoured: it must be a power of two up to {}",
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

CUOTA_INLINE std::atomic<std::size_t>& taken_on(device where) noexcept {
    static std::array<std::atomic<std::size_t>, 64> taken{};
    return taken[static_cast<std::size_t>(where.ordinal()) % taken.size()];
}

CUOTA_INLINE std::atomic<std::size_t>& given_back_on(device where) noexcept {
    static std::array<std::atomic<std::size_t>, 64> given_back{};
    return given_back[static_cast<std::size_t>(where.ordinal()) % given_back.size()];
}

CUOTA_INLINE void count_given_back(device where, std::size_t bytes) noexcept {
    given_back_on(where) += bytes;  // first: their sum is never less than all that was taken
    taken_on(where) -= bytes;
}

CUOTA_INLINE std::atomic<std::size_t>& taken_from_pool_of(device where) noexcept {
    static std::array<std::atomic<std::size_t>, 64> taken{};
    return taken[static_cast<std::size_t>(where.ordinal()) % taken.size()];
}

CUOTA_INLINE std::optional<device_facts> facts_of(device where) noexcept {
    std::optional<device_facts> facts;
    report_failure_of([&] {
        device::memory_info const memory = where.memory();
        facts = device_facts{where.ordinal(),
                             where.name(),
                             memory.total,
                             memory.free,
                             taken_on(where).load(),
                             0,
                             rt::in_default_pool(where).idle()};
    });
    return facts;
}

CUOTA_INLINE refusal driver_refusal(std::size_t bytes, std::size_t granule, label const& who,
                                    std::string cause) {
    refusal r;
    r.asked = bytes;
    r.charged = round_up(bytes, granule);
    r.granule = granule;
    r.request = who;
    r.cause = std::move(cause);
    return r;
}

CUOTA_INLINE void note_given(refusal& r, std::vector<reclaimer_facts> const& told) {
    for (reclaimer_facts const& t : told) r.reclaimed = saturating_add(r.reclaimed, t.given);
    if (!r.reclaimers) r.reclaimers.emplace();
    r.reclaimers->insert(r.reclaimers->begin(), told.begin(), told.end());
}

CUOTA_INLINE void refuse_on(device where, std::size_t bytes, std::size_t granule, label const& who,
                            char const* call, std::vector<reclaimer_facts> const& told) {
    refusal r =
        driver_refusal(bytes, granule, who, std::string{call} + ": not enough free memory on the device");
    r.device = facts_of(where);
    note_given(r, told);
    if (r.device) r.would_fit = round_down(r.device->free, granule);
    throw out_of_memory{std::move(r)};
}

}  // namespace cuota::inline v0::detail

#endif
