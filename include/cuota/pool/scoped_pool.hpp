// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A memory pool whose destructor releases all memory to its source.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/pool/frame.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/pool/pool_step.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource_ref.hpp>
#include <cuota/runtime/device_set.hpp>

namespace cuota::inline v0 {

namespace detail {
struct pool_access;
class mapped_range;
struct pool_on_pages;  // makes a pool on other pages; not defined in the library
}

/// How a pool of device memory grows. Pages leave no holes between memory mapped at different times, and each free mapping can be released;
/// a segment only when it is free as a whole.
/// Example: tests/pool/scoped_pool.cpp
enum class pool_growth {
    /// Uses pages (usually 2 MiB), and segments where pages are not available or do not suffice.
    automatic,
    segments,  ///< uses segments of at least the request's size
};

/// Options of a pool. Example: tests/pool/scoped_pool.cpp
struct pool_options {
    tag name{};                                 ///< for messages
    std::size_t initial_size = 0;               ///< bytes that the constructor reserves
    std::size_t max_size = unlimited;           ///< maximum bytes of pages and segments
    std::size_t release_threshold = unlimited;  ///< bytes to which the pool is trimmed after a step
    /// In reclaim, holders of higher priority release memory first.
    int reclaim_priority = 0;
    /// Idle memory stays in the pool until close() or the destruction: neither budgets nor `trim` release it. For graphs that were captured
    /// by CUDA's own calls and use addresses of freed blocks.
    bool keeps_idle = false;
    /// Alignment of each block and its size; a power of two up to 2 MiB.
    std::size_t alignment = default_alignment;
    /// Growth of device memory; other sources have segments only.
    pool_growth growth = pool_growth::automatic;
    /// With pages: before the pool would hold more than this multiple of its peak of live bytes, it unmaps idle pages that no work uses, and
    /// maps others in their place; at least 1. Infinity: only when budget or device is short. Each mapping takes three driver calls. A pool
    /// that cannot unmap enough makes mappings of at most an eighth of `largest_mapping` from then on, and divides an idle mapping before a
    /// block shares it with free memory.
    double remap_above = 1.02;
    /// With pages: the maximum bytes of a mapping, which is unmapped as a whole; requests below half of it get mappings of at most half. At
    /// least a page is used. Smaller ones cost more driver calls, and leave less memory that is neither live nor can be unmapped
    /// (docs/design/growth.md).
    std::size_t largest_mapping = std::size_t{64} << 20;
    /// Other devices that may use the memory in kernels and on streams; cudaDeviceCanAccessPeer must hold. With growth by segments, they
    /// get access to all cudaMalloc memory of the pool's device.
    device_set peers{};
};

/// A stream-ordered suballocator: divides pages and segments into blocks, and releases all memory when it is destroyed.
///
/// A stream can immediately reuse a block that it freed; another stream waits for the pending work first. Device memory grows by pages
/// where the device has virtual memory (docs/limits.md). If no page is available, or the pool would exceed `remap_above`, free pages
/// elsewhere in the pool are unmapped, so a request is served if their sum suffices. The budget is charged for pages and segments; idle ones
/// are released when it is short, and by `trim`.
///
/// Units:   bytes; block sizes are multiples of 256, or of `alignment`.
/// Order:   memory is valid on the allocating stream and is freed in the order of the stream passed to deallocate.
/// In a `capture`, blocks that captured streams allocate or free belong to the graph until it is destroyed; a stream reuses those of the
/// same size that it freed there. Growth, waits and trimming are not captured. For other captures see docs/streams_and_leases.md.
/// Threads: any.
/// Throws:  budget_exceeded, out_of_memory, usage_error (an alignment that is not a power of two or is above 2 MiB; an allocation after
///          destruction; a stream of a device that is neither the pool's nor in `peers`), cuda_error. On a throw, nothing is allocated.
///          Invalid deallocations (wrong size, foreign pointer, double free) are reported to the error sink and ignored.
/// The destructor reports live blocks by tag, size and call site; they stay valid until their last owner is destroyed.
/// Cost:    no CUDA call when a stream reuses its own block; no lock either if the same thread freed it on a `stream` and it has at most 64
///          KiB and 1/2048 of the pool. Other requests take a lock and O(log n) in the free blocks of similar size. An alignment above 256
///          may need up to `alignment` more bytes. After growth, frees record an event at most once in 64 MiB.
/// Example: examples/train.cpp
class scoped_pool {
public:
    /// Options.
    using options = pool_options;

    /// Constructs a pool of the current device's memory. Throws: cuda_error, std::bad_alloc.
    explicit scoped_pool(budget const& account) : scoped_pool{account, options{}} {}
    /// Constructs such a pool with options. Throws: budget_exceeded or out_of_memory for `initial_size`; usage_error for an invalid
    /// alignment or an unreachable peer; cuda_error, std::bad_alloc.
    scoped_pool(budget const& account, options wanted, source_location where = source_location::current());

    /// Constructs a pool of another source's memory. Throws: as above; usage_error for `peers`.
    scoped_pool(budget const& account, any_resource source, options wanted = {},
                source_location where = source_location::current());

    /// Constructs a pool of addresses for dry runs, which grows like device memory.
    /// Throws: as above; out_of_memory if no addresses are left.
    scoped_pool(budget const& account, dry_run_memory source, options wanted = {},
                source_location where = source_location::current());

    /// Constructs a pool without a budget, for a source with its own accounting.
    explicit scoped_pool(any_resource source, options wanted = {},
                         source_location where = source_location::current());

    scoped_pool(scoped_pool const&) = delete;  // pass resource() instead
    scoped_pool& operator=(scoped_pool const&) = delete;

    ~scoped_pool();

    /// Closes the pool. Throws: usage_error that names the live blocks; the pool stays open.
    void close();

    /// Frees the blocks that were freed in foreign captures (docs/streams_and_leases.md); returns their requested bytes. Without this call,
    /// they are kept until the pool is destroyed.
    /// Order:   all launches of these graphs must have completed, and none may follow.
    /// Threads: any. Throws: nothing. Cost: O(these blocks).
    /// Example: tests/pool/detail/blocks/captured_blocks.sim.cpp
    std::size_t release_foreign_graphs() noexcept;

    /// Returns the pool as a resource, which may outlive it.
    [[nodiscard]] pool_resource resource() const noexcept { return pool_resource{state_}; }
    operator any_resource() const;  ///< same as resource()
    /// Converts to a reference for the duration of a call.
    operator resource_ref() const noexcept;

    /// Returns the pool for memory that outlives steps, which is kept together.
    [[nodiscard]] pool_resource_for<lifetime_hint::persistent> persistent() const noexcept;
    /// Begins a step, which ends with the returned object. Throws: usage_error if a step is open.
    [[nodiscard]] pool_step begin_step(source_location where = source_location::current());
    /// Begins a bump allocator. Throws: std::bad_alloc.
    [[nodiscard]] cuota::frame frame(source_location where = source_location::current()) {
        return cuota::frame{state_, where};
    }

    /// Allocates in the order of s. Free with the same `bytes`.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, source_location where = source_location::current());
    /// Same, with the default alignment.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, tag name,
                                 source_location where = source_location::current()) {
        return allocate(s, bytes, default_alignment, name, where);
    }
    /// Frees in the order of s: work enqueued on s before may still use the memory. Null is ignored.
    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept;

    /// Releases idle mappings and segments until at most `keep` bytes are reserved; the host waits for pending work. Returns the bytes
    /// released: none with `keeps_idle`.
    std::size_t trim(std::size_t keep = 0) noexcept;

    /// Returns the largest free block in bytes. Larger requests need bytes of the budget, or free pages elsewhere in the pool. Cost: as
    /// stats.
    [[nodiscard]] std::size_t largest_free() const noexcept;
    /// Returns a consistent snapshot. Cost: the lock; revokes all thread caches.
    [[nodiscard]] pool_stats stats() const noexcept;
    /// Returns the live bytes by tag, largest first. Throws: std::bad_alloc. Cost: O(live blocks).
    [[nodiscard]] std::vector<tag_stats> stats_by_tag() const;
    /// Returns the charged account: the budget, or the cap in it.
    [[nodiscard]] budget const& account() const noexcept;

private:
    friend struct detail::pool_on_pages;
    friend struct detail::pool_access;
    scoped_pool(budget const& account, any_resource source, std::optional<device> on, options wanted,
                source_location where, detail::light_unique_ptr<detail::mapped_range> pages);

    // Throws usage_error for invalid options, otherwise returns them.
    [[nodiscard]] static options const& checked(options const& wanted, source_location where);
    // Returns the peers other than `on`. Throws: usage_error if one cannot access its memory.
    static device_set peers_of(device on, options const& wanted, source_location where);
    static options const& without_peers(options const& wanted, source_location where);
    static std::string title(options const& wanted);

    void throw_if_alive(char const* what) const;

    detail::intrusive_ptr<detail::pool_state> state_;
    std::size_t const release_threshold_;
};

namespace detail {
/// Access to a pool's internals.
struct pool_access {
    /// Returns the state, alive as long as the pool and its allocations.
    [[nodiscard]] static pool_state& state(scoped_pool const& pool) noexcept { return *pool.state_; }
};
}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/detail/pool_state.hpp>
#include <cuota/runtime/rt/peer_access.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE scoped_pool::scoped_pool(budget const& account, options wanted, source_location where)
    : scoped_pool{account,
                  device_memory{},
                  device::current(),
                  wanted,
                  where,
                  wanted.growth == pool_growth::automatic
                      ? detail::device_pages::make(device::current(), wanted.max_size,
                                                   peers_of(device::current(), wanted, where))
                      : nullptr} {}

CUOTA_INLINE scoped_pool::scoped_pool(budget const& account, any_resource source, options wanted,
                                      source_location where)
    : scoped_pool{account, std::move(source), std::nullopt, without_peers(wanted, where), where, nullptr} {}

CUOTA_INLINE scoped_pool::scoped_pool(budget const& account, dry_run_memory source, options wanted,
                                      source_location where)
    : scoped_pool{account,
                  source,
                  std::nullopt,
                  wanted,
                  where,
                  wanted.growth == pool_growth::automatic
                      ? detail::address_pages::make(source, wanted.max_size)
                      : nullptr} {}

CUOTA_INLINE scoped_pool::scoped_pool(any_resource source, options wanted, source_location where)
    : scoped_pool{budget{title(wanted), unlimited}, std::move(source), wanted, where} {}

CUOTA_INLINE scoped_pool::~scoped_pool() {
    if (state_->is_of_parent()) return;
    (void)state_->release_foreign_graphs();
    state_->close_to_requests();
    report_failure_of([this] { throw_if_alive(" destroyed"); });
    state_->trim(0);
}

CUOTA_INLINE std::size_t scoped_pool::release_foreign_graphs() noexcept {
    if (state_->is_of_parent()) return detail::report_forked(), 0;
    return state_->release_foreign_graphs();
}

CUOTA_INLINE void scoped_pool::close() {
    if (state_->is_of_parent()) detail::throw_forked();
    if (state_->is_only_for_foreign_graphs()) (void)state_->release_foreign_graphs();
    throw_if_alive(": cannot close");
    state_->close_to_requests();
    state_->trim(0);
}

CUOTA_INLINE scoped_pool::operator any_resource() const { return resource(); }

CUOTA_INLINE scoped_pool::operator resource_ref() const noexcept {
    return resource_ref::of_unowned([this]() noexcept { return pool_resource::unowned(*state_); });
}

CUOTA_INLINE pool_resource_for<lifetime_hint::persistent> scoped_pool::persistent() const noexcept {
    return pool_resource_for<lifetime_hint::persistent>{state_};
}

CUOTA_INLINE pool_step scoped_pool::begin_step(source_location where) {
    return pool_step{state_, release_threshold_, where};
}

CUOTA_INLINE void* scoped_pool::allocate(stream_ref s, std::size_t bytes, std::size_t alignment, tag name,
                                         source_location where) {
    return state_->allocate(s, bytes, alignment, {name, where});
}

CUOTA_INLINE void scoped_pool::deallocate(stream_ref s, void* p, std::size_t bytes) noexcept {
    state_->deallocate(s, p, bytes);
}

CUOTA_INLINE std::size_t scoped_pool::trim(std::size_t keep) noexcept {
    if (state_->is_of_parent()) return detail::report_forked(), 0;
    return state_->trim(keep);
}

CUOTA_INLINE std::size_t scoped_pool::largest_free() const noexcept { return state_->largest_free(); }

CUOTA_INLINE pool_stats scoped_pool::stats() const noexcept { return state_->stats(); }

CUOTA_INLINE std::vector<tag_stats> scoped_pool::stats_by_tag() const {
    return state_->blocks().stats_by_tag();
}

CUOTA_INLINE budget const& scoped_pool::account() const noexcept { return state_->account(); }

CUOTA_INLINE scoped_pool::scoped_pool(budget const& account, any_resource source, std::optional<device> on,
                                      options wanted, source_location where,
                                      detail::light_unique_ptr<detail::mapped_range> pages)
    : state_{detail::intrusive_ptr<detail::pool_state>::make(
          wanted.max_size == unlimited ? account : budget{title(wanted), wanted.max_size, account},
          std::move(source), on, wanted.name, wanted.reclaim_priority, std::move(pages),
          checked(wanted, where).alignment, on ? peers_of(*on, wanted, where) : device_set{})},
      release_threshold_{wanted.release_threshold} {
    state_->grow_by(wanted.remap_above, wanted.largest_mapping);
    if (wanted.keeps_idle) state_->keep_idle();
    state_->reserve(wanted.initial_size, {wanted.name, where});
}

CUOTA_INLINE auto scoped_pool::checked(options const& wanted, source_location where) -> options const& {
    detail::check_alignment(wanted.alignment, {wanted.name, where}, detail::pool_state::largest_alignment);
    if (!(wanted.remap_above >= 1))
        detail::throw_usage_error(where, "pool {}: `remap_above` must be at least 1", {title(wanted)});
    if (wanted.largest_mapping == 0)
        detail::throw_usage_error(where, "pool {}: `largest_mapping` must not be 0", {title(wanted)});
    return wanted;
}

CUOTA_INLINE device_set scoped_pool::peers_of(device on, options const& wanted, source_location where) {
    device_set const peers = wanted.peers.without(on);
    peers.for_each([&](device peer) {
        if (!rt::can_reach(peer, on))
            detail::throw_usage_error(
                where,
                "pool {} of device {}: cannot have device {} in `peers`: it has no peer "
                "access to the pool's device",
                {title(wanted), on.ordinal(), peer.ordinal()});
    });
    return peers;
}

CUOTA_INLINE auto scoped_pool::without_peers(options const& wanted, source_location where) -> options const& {
    if (wanted.peers.is_empty()) return wanted;
    detail::throw_usage_error(
        where, "pool {}: cannot have `peers`: they require the default source of device memory",
        {title(wanted)});
}

CUOTA_INLINE std::string scoped_pool::title(options const& wanted) {
    return wanted.name.is_empty() ? "pool" : wanted.name.text();
}

CUOTA_INLINE void scoped_pool::throw_if_alive(char const* what) const {
    if (std::string const alive = state_->survivors(); !alive.empty())
        detail::throw_usage_error(
            "{}{} while {}{}",
            {state_->title(), what, alive,
             alive.starts_with("1 ") ? "; free it before its pool" : "; free them before their pool"});
}

}  // namespace cuota::inline v0

#endif
