// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A memory pool with a scope: its destructor releases all memory to the source.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/std_parts.hpp>
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
class page_range;
struct pool_on_pages;  // Friend that makes a pool on another kind of pages; the library does not define it.
}

/// How a pool of device memory grows.
/// Growth by pages leaves no holes between memory mapped at different times, and any free mapping (one page to 64 MiB) can be released.
/// With segments, only a segment that is free as a whole can be released.
/// Example: tests/pool/scoped_pool.cpp
enum class pool_growth {
    /// By pages (usually 2 MiB) where the device supports virtual memory, and by segments where pages do not suffice.
    automatic,
    segments,  ///< By segments of the request's size or slightly larger.
};

/// Options of a pool. The defaults set no limit and no name. Example: tests/pool/scoped_pool.cpp
struct pool_options {
    tag name{};                   ///< name in messages
    std::size_t initial = 0;      ///< Bytes to reserve in the constructor, which throws if they are refused.
    std::size_t cap = unlimited;  ///< Maximum bytes of pages and segments (inclusive), within the budget.
    std::size_t release_threshold = unlimited;  ///< When a step ends, the pool is trimmed to this many bytes.
    /// When a budget is short, holders with a higher priority release memory first; see `reclaimer`.
    int reclaim_priority = 0;
    /// Alignment of every block, whose size is a multiple of it; a power of two up to 2 MiB.
    std::size_t alignment = default_alignment;
    /// Growth of device memory. Other sources always provide segments.
    pool_growth growth = pool_growth::automatic;
    /// Other devices whose kernels may access the pool's memory and on whose streams it may be allocated. The machine must allow it
    /// (cudaDeviceCanAccessPeer). If the pool grows by segments, this gives the peers access to all cudaMalloc memory of the pool's device.
    device_set peers{};
};

/// A stream-ordered suballocator: maps pages or allocates large segments, divides them into blocks, and releases them all when it is
/// destroyed.
///
/// A free block records the stream that freed it. That stream can reuse it at once; another stream first waits for the pending work, unless
/// it already waited for that work or later work. Among blocks that fit about equally well, the pool chooses the one that needs the fewest
/// waits; a nearly full pool chooses the tightest fit, regardless of streams.
///
/// Device memory grows by pages where the device supports virtual memory. For a request, the pool maps the pages that are missing next to
/// free blocks, plus up to 1/64 of the pool's size, at most one mapping. A mapping consists of one or more pages, at most 1/1024 of the
/// bytes that budget and device still have available: 64 MiB if that is 64 GiB or more, and one page below 4 GiB. Below 2 GiB (with pages
/// of 2 MiB) only the missing pages are mapped. If no page is available, the pool unmaps free mappings elsewhere in the pool, so every
/// request that fits the sum of the free mappings is served. If pages cannot serve a request (for example the last bytes of a cap that is
/// not a multiple of the page size), the pool allocates a segment of the exact size.
///
/// The budget is charged for pages and segments, as they are the memory that the device provides. Unused ones are released when the budget
/// is short or `trim` is called.
///
/// Units:   bytes; block sizes are multiples of 256 (of `alignment`, if that is larger).
/// Order:   memory is valid on the allocating stream and is freed in the order of the stream passed to deallocate.
/// In a `capture`, blocks that captured streams allocate or free belong to the graph until it is destroyed; within the capture, a stream
/// reuses blocks of the same size that it has freed. The pool's own growth, waits and trimming are not captured.
/// In a foreign capture of a native stream, the host waits for earlier uses of an allocated block. A block freed in such a capture is
/// reused only there, by the same stream (see release_foreign_graphs). A block freed after the capture is available to all streams, so its
/// owner must keep it as long as the graph is launched. When CUDA's own calls capture a `stream`, the pool does not detect it on paths
/// without CUDA calls: use `capture`, or the native handle that `stream::get` returns.
/// Threads: any.
/// Throws:  budget_exceeded, out_of_memory, misuse (an alignment that is not a power of two or is above 2 MiB; an allocation after
///          destruction; a stream of a device that is neither the pool's nor one of its `peers`), cuda_error. On a throw, nothing is
///          allocated. A deallocation with the wrong size, a foreign pointer or a double free is reported to the error sink as misuse and
///          is otherwise ignored.
/// The destructor reports blocks that are still live by tag, size and call site; their memory stays valid until their last owner is
/// destroyed.
/// Cost:    no CUDA call when a stream reuses a block that it freed. For blocks of at most 64 KiB and at most 1/2048 of the pool, a thread
///          reuses the blocks that it freed in the order of the same `stream` without a lock (a few of each size). Other requests take a
///          lock and O(log n) in the free blocks of similar size; a refusal costs no more. An alignment above 256 may need up to
///          `alignment` extra bytes, which stay available to other requests.
/// Example: examples/train.cpp
class scoped_pool {
public:
    /// The type of the constructor's options.
    using options = pool_options;

    /// Constructs a pool of the current device's memory, charged to a budget.
    /// Throws: cuda_error, std::bad_alloc.
    explicit scoped_pool(budget const& account) : scoped_pool{account, options{}} {}
    /// Constructs a pool of the current device's memory, charged to a budget, with options.
    /// Throws: cuda_error, std::bad_alloc; budget_exceeded or out_of_memory if `initial` is refused; misuse if the alignment is invalid or
    /// a peer cannot access the device.
    scoped_pool(budget const& account, options wanted, place where = place::here());

    /// Constructs a pool of another source's memory, charged to a budget. Throws: as above; misuse for `peers`, which require device
    /// memory.
    scoped_pool(budget const& account, any_resource source, options wanted = {}, place where = place::here());

    /// Constructs a pool of addresses without memory that grows like device memory, for dry runs.
    /// Throws: as above; out_of_memory if the source has no addresses left for a range of pages.
    scoped_pool(budget const& account, addresses_only source, options wanted = {},
                place where = place::here());

    /// Constructs a pool of another source's memory without a budget; for a source that does its own accounting.
    explicit scoped_pool(any_resource source, options wanted = {}, place where = place::here());

    scoped_pool(scoped_pool const&) = delete;  // not copyable: pass resource() instead
    scoped_pool& operator=(scoped_pool const&) = delete;

    ~scoped_pool();

    /// Closes the pool before its destruction. Throws: misuse that names the live blocks; the pool stays open.
    void close();

    /// Frees the blocks that were freed in foreign captures; returns their requested bytes.
    ///
    /// A foreign capture was begun by cudaStreamBeginCapture instead of `capture`, for example by torch.cuda.graph. Its graph, which the
    /// library cannot track, uses these blocks at each launch, so the pool reuses them only after this call or in its destructor.
    /// Order:   the caller ensures that these graphs are never launched again and that all launches have completed.
    /// Threads: any. Throws: nothing. Cost: O(these blocks).
    /// Example: tests/pool/graph_blocks.sim.cpp
    std::size_t release_foreign_graphs() noexcept;

    /// Returns the pool as a resource. The handle may outlive the pool's scope; allocating through it afterwards throws misuse.
    [[nodiscard]] pool_resource resource() const noexcept { return pool_resource{state_}; }
    operator any_resource() const;  ///< same as resource()
    /// Converts to a non-owning reference for the duration of a call (no reference count).
    operator resource_ref() const noexcept;

    /// Returns the pool for memory that outlives steps. Such blocks are kept together, so that a finished step leaves one hole instead of
    /// many.
    [[nodiscard]] pool_resource_for<lifespan::persistent> persistent() const noexcept;
    /// Begins a step, which ends when the returned object is destroyed. Throws: misuse if a step is already open.
    [[nodiscard]] pool_step begin_step(place where = place::here());
    /// Begins a frame (a bump allocator in this pool) that frees all its allocations together. Throws: std::bad_alloc.
    [[nodiscard]] cuota::frame frame(place where = place::here()) { return cuota::frame{state_, where}; }

    /// Allocates memory that is valid on s from here on. Free it by `deallocate` with the same `bytes`, or use a buffer, which does so.
    /// Throws: as the class says.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, place where = place::here());
    /// Frees in the order of s: work enqueued on s before may still use the memory. Null is ignored.
    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept;

    /// Releases unused pages and segments until at most `keep` bytes are reserved; returns the bytes released. Waits on the host for work
    /// that may still use them. The unit of release is a mapping (one page to 64 MiB) or a segment.
    std::size_t trim(std::size_t keep = 0) noexcept;

    /// Returns the largest free block in bytes: the largest request that needs no further memory from the source. Larger requests succeed
    /// while the budget has bytes available or pages are free elsewhere in the pool. Cost: as stats.
    [[nodiscard]] std::size_t largest_free() const noexcept;
    /// Returns a consistent snapshot. Cost: the lock; revokes the blocks in all thread caches.
    [[nodiscard]] pool_stats stats() const noexcept;
    /// Returns the live bytes by tag, largest first. Throws: std::bad_alloc. Cost: O(live blocks), under the lock.
    [[nodiscard]] std::vector<tag_stats> stats_by_tag() const;
    /// Returns the account that pages and segments are charged to: the budget, or the cap within it.
    [[nodiscard]] budget const& account() const noexcept;

private:
    friend struct detail::pool_on_pages;
    friend struct pool_access;
    scoped_pool(budget const& account, any_resource source, std::optional<device> on, options wanted,
                place where, sole<detail::page_range> pages);

    static std::size_t checked(std::size_t alignment, label const& who);
    // The peers in the options except `on`. Throws misuse if one of them cannot access the memory of `on`.
    static device_set peers_of(device on, options const& wanted, place where);
    static options const& without_peers(options const& wanted, place where);
    static std::string title(options const& wanted);

    void throw_if_alive(char const* what) const;

    shared<detail::pool_state> state_;
    std::size_t const release_threshold_;
};

/// Access to the internals of a pool for observers inside the library; programs use `scoped_pool`.
struct pool_access {
    /// Returns the internal state, which lives as long as the pool and its allocations.
    [[nodiscard]] static detail::pool_state& state(scoped_pool const& pool) noexcept { return *pool.state_; }
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/pool_state.hpp>
#include <cuota/runtime/peer_access.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE scoped_pool::scoped_pool(budget const& account, options wanted, place where)
    : scoped_pool{account,
                  device_memory{},
                  device::current(),
                  wanted,
                  where,
                  wanted.growth == pool_growth::automatic
                      ? detail::device_pages::make(device::current(), wanted.cap,
                                                   peers_of(device::current(), wanted, where))
                      : nullptr} {}

CUOTA_INLINE scoped_pool::scoped_pool(budget const& account, any_resource source, options wanted, place where)
    : scoped_pool{account, std::move(source), std::nullopt, without_peers(wanted, where), where, nullptr} {}

CUOTA_INLINE scoped_pool::scoped_pool(budget const& account, addresses_only source, options wanted,
                                      place where)
    : scoped_pool{account,
                  source,
                  std::nullopt,
                  wanted,
                  where,
                  wanted.growth == pool_growth::automatic ? detail::address_pages::make(source, wanted.cap)
                                                          : nullptr} {}

CUOTA_INLINE scoped_pool::scoped_pool(any_resource source, options wanted, place where)
    : scoped_pool{budget{title(wanted), unlimited}, std::move(source), wanted, where} {}

CUOTA_INLINE scoped_pool::~scoped_pool() {
    if (state_->is_of_parent()) return;
    (void)state_->release_foreign_graphs();
    state_->close_to_requests();
    report_failure_of([this] { throw_if_alive("ended"); });
    state_->trim(0);
}

CUOTA_INLINE std::size_t scoped_pool::release_foreign_graphs() noexcept {
    if (state_->is_of_parent()) return detail::report_forked(), 0;
    return state_->release_foreign_graphs();
}

CUOTA_INLINE void scoped_pool::close() {
    if (state_->is_of_parent()) detail::throw_forked();
    if (state_->is_only_for_foreign_graphs()) (void)state_->release_foreign_graphs();
    throw_if_alive("was closed");
    state_->close_to_requests();
    state_->trim(0);
}

CUOTA_INLINE scoped_pool::operator any_resource() const { return resource(); }

CUOTA_INLINE scoped_pool::operator resource_ref() const noexcept {
    return resource_ref::of_uncounted([this]() noexcept { return pool_resource::uncounted(*state_); });
}

CUOTA_INLINE pool_resource_for<lifespan::persistent> scoped_pool::persistent() const noexcept {
    return pool_resource_for<lifespan::persistent>{state_};
}

CUOTA_INLINE pool_step scoped_pool::begin_step(place where) {
    return pool_step{state_, release_threshold_, where};
}

CUOTA_INLINE void* scoped_pool::allocate(stream_ref s, std::size_t bytes, std::size_t alignment, tag name,
                                         place where) {
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
                                      options wanted, place where, sole<detail::page_range> pages)
    : state_{shared<detail::pool_state>::make(
          wanted.cap == unlimited ? account : budget{title(wanted), wanted.cap, account}, std::move(source),
          on, wanted.name, wanted.reclaim_priority, std::move(pages),
          checked(wanted.alignment, {wanted.name, where}), on ? peers_of(*on, wanted, where) : device_set{})},
      release_threshold_{wanted.release_threshold} {
    state_->reserve(wanted.initial, {wanted.name, where});
}

CUOTA_INLINE std::size_t scoped_pool::checked(std::size_t alignment, label const& who) {
    detail::check_alignment(alignment, who, detail::pool_state::largest_alignment);
    return alignment;
}

CUOTA_INLINE device_set scoped_pool::peers_of(device on, options const& wanted, place where) {
    device_set const peers = wanted.peers.without(on);
    peers.for_each([&](device peer) {
        if (!rt::can_reach(peer, on))
            detail::throw_misuse(where,
                                 "pool {} of device {} cannot have device {} among its `peers`: the machine "
                                 "does not let that one reach its memory",
                                 {title(wanted), on.ordinal(), peer.ordinal()});
    });
    return peers;
}

CUOTA_INLINE auto scoped_pool::without_peers(options const& wanted, place where) -> options const& {
    if (wanted.peers.is_empty()) return wanted;
    detail::throw_misuse(
        where, "pool {} cannot have `peers`: they are for device memory, and its source is one of its own",
        {title(wanted)});
}

CUOTA_INLINE std::string scoped_pool::title(options const& wanted) {
    return wanted.name.is_empty() ? "pool" : wanted.name.text();
}

CUOTA_INLINE void scoped_pool::throw_if_alive(char const* what) const {
    if (std::string const alive = state_->survivors(); !alive.empty())
        detail::throw_misuse("{} {} while {}{}", {state_->title(), what, alive,
                                                  alive.starts_with("1 ") ? "; end it before its pool"
                                                                          : "; end them before their pool"});
}

}  // namespace cuota::inline v0

#endif
