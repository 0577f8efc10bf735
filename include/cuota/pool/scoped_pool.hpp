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
class mapped_range;
struct pool_on_pages;  // makes a pool on other pages; not defined in the library
}

/// How a pool of device memory grows. Pages leave no holes between memory mapped at different times, and each free mapping (one page to 64
/// MiB) can be released. A segment can only be released when it is free as a whole.
/// Example: tests/pool/scoped_pool.cpp
enum class pool_growth {
    /// Uses pages (usually 2 MiB) where the device has virtual memory, and segments where pages do not suffice.
    automatic,
    segments,  ///< uses segments of the request's size or slightly larger
};

/// Options of a pool. Example: tests/pool/scoped_pool.cpp
struct pool_options {
    tag name{};                        ///< name in messages
    std::size_t initial_size = 0;      ///< bytes to reserve in the constructor, which throws if refused
    std::size_t max_size = unlimited;  ///< maximum bytes of pages and segments (inclusive)
    std::size_t release_threshold = unlimited;  ///< bytes that the pool is trimmed to after a step
    /// When a budget is short, holders of higher priority release memory first; see `reclaimer`.
    int reclaim_priority = 0;
    /// Alignment of every block and its size; a power of two up to 2 MiB.
    std::size_t alignment = default_alignment;
    /// Growth of device memory. Other sources provide segments only.
    pool_growth growth = pool_growth::automatic;
    /// Other devices whose kernels may access the memory and on whose streams it may be allocated; cudaDeviceCanAccessPeer must hold. If
    /// the pool grows by segments, the peers get access to all cudaMalloc memory of its device.
    device_set peers{};
};

/// A stream-ordered suballocator: divides mapped pages and large segments into blocks, and releases all memory when it is destroyed.
///
/// A stream can immediately reuse a block that it freed. Another stream waits for the pending work first, unless it has already waited for
/// that work or later work. Among blocks that fit about equally well, the one that needs the fewest waits is chosen; a nearly full pool
/// chooses the tightest fit.
///
/// Device memory grows by pages where the device has virtual memory. For a request, the pool maps the pages missing next to free blocks,
/// plus up to 1/64 of its size, at most one mapping. A mapping is at most 1/1024 of the bytes that budget and device have available: 64 MiB
/// from 64 GiB on, and one page below 4 GiB; below 2 GiB (for pages of 2 MiB) only the missing pages are mapped. If no page is available,
/// free mappings elsewhere in the pool are unmapped, so a request is served if the sum of the free mappings suffices. If pages cannot serve
/// a request, as for the last bytes of a cap that is not a multiple of the page, a segment of the exact size does.
///
/// The budget is charged for pages and segments, the memory that the device provides. Unused ones are released when the budget is short,
/// and by `trim`.
///
/// Units:   bytes; block sizes are multiples of 256 (of `alignment`, if that is larger).
/// Order:   memory is valid on the allocating stream and is freed in the order of the stream passed to deallocate.
/// In a `capture`, blocks that captured streams allocate or free belong to the graph until it is destroyed; within the capture, a stream
/// reuses blocks of the same size that it has freed. The pool's growth, waits and trimming are not captured.
/// In a foreign capture of a native stream, the host waits for earlier uses of an allocated block. A block freed in the capture is reused
/// only there, by the same stream (see release_foreign_graphs). A block freed after the capture is available to all streams, so its owner
/// must keep it as long as the graph is launched. A `stream` captured by CUDA's own calls is not detected where the pool makes no CUDA
/// call: use `capture`, or the native handle from `stream::get`.
/// Threads: any.
/// Throws:  budget_exceeded, out_of_memory, usage_error (an alignment that is not a power of two or is above 2 MiB; an allocation after
///          destruction; a stream of a device that is neither the pool's nor one of its `peers`), cuda_error. On a throw, nothing is
///          allocated. A deallocation of a wrong size or a foreign pointer and a double free are reported to the error sink as misuse and
///          ignored.
/// The destructor reports live blocks by tag, size and call site; their memory stays valid until their last owner is destroyed.
/// Cost:    no CUDA call when a stream reuses its own block. Blocks of at most 64 KiB and 1/2048 of the pool are reused without a lock by
///          the thread that freed them in the order of the same `stream` (a few of each size). Other requests, served or refused, take a
///          lock and O(log n) in the free blocks of similar size. An alignment above 256 may need up to `alignment` more bytes, which stay
///          available to others.
/// Example: examples/train.cpp
class scoped_pool {
public:
    /// The type of the constructor's options.
    using options = pool_options;

    /// Constructs a pool of the current device's memory, charged to a budget.
    /// Throws: cuda_error, std::bad_alloc.
    explicit scoped_pool(budget const& account) : scoped_pool{account, options{}} {}
    /// Constructs a pool with options.
    /// Throws: cuda_error, std::bad_alloc; budget_exceeded or out_of_memory for `initial`; usage_error for an invalid alignment or an
    /// unreachable peer.
    scoped_pool(budget const& account, options wanted, source_location where = source_location::current());

    /// Constructs a pool of another source's memory. Throws: as above; usage_error for `peers`, which require device memory.
    scoped_pool(budget const& account, any_resource source, options wanted = {},
                source_location where = source_location::current());

    /// Constructs a pool of addresses without memory that grows like device memory, for dry runs.
    /// Throws: as above; out_of_memory if no addresses are left for a range of pages.
    scoped_pool(budget const& account, dry_run_memory source, options wanted = {},
                source_location where = source_location::current());

    /// Constructs a pool of another source's memory without a budget, for a source with its own accounting.
    explicit scoped_pool(any_resource source, options wanted = {},
                         source_location where = source_location::current());

    scoped_pool(scoped_pool const&) = delete;  // not copyable: pass resource() instead
    scoped_pool& operator=(scoped_pool const&) = delete;

    ~scoped_pool();

    /// Closes the pool. Throws: usage_error that names the live blocks; the pool stays open.
    void close();

    /// Frees the blocks that were freed in foreign captures; returns their requested bytes.
    ///
    /// A foreign capture was begun by cudaStreamBeginCapture instead of `capture`, as by torch.cuda.graph. The library cannot track its
    /// graph, which uses these blocks at each launch, so they are reused only after this call or the pool's destruction.
    /// Order:   the caller ensures that these graphs are not launched again and that all launches have completed.
    /// Threads: any. Throws: nothing. Cost: O(these blocks).
    /// Example: tests/pool/detail/blocks/captured_blocks.sim.cpp
    std::size_t release_foreign_graphs() noexcept;

    /// Returns the pool as a resource, which may outlive the scope; allocating afterwards throws usage_error.
    [[nodiscard]] pool_resource resource() const noexcept { return pool_resource{state_}; }
    operator any_resource() const;  ///< same as resource()
    /// Converts to a non-owning reference for the duration of a call.
    operator resource_ref() const noexcept;

    /// Returns the pool for memory that outlives steps. It is kept together, so that a step leaves one hole and not many.
    [[nodiscard]] pool_resource_for<lifetime_hint::persistent> persistent() const noexcept;
    /// Begins a step, which ends with the returned object. Throws: usage_error if a step is open.
    [[nodiscard]] pool_step begin_step(source_location where = source_location::current());
    /// Begins a frame, a bump allocator that frees its allocations together. Throws: std::bad_alloc.
    [[nodiscard]] cuota::frame frame(source_location where = source_location::current()) {
        return cuota::frame{state_, where};
    }

    /// Allocates memory that is valid on s from here on. Free it with the same `bytes`; buffers do so. Throws: as the class says.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, source_location where = source_location::current());
    /// Frees in the order of s: work enqueued on s before may still use the memory. Null is ignored.
    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept;

    /// Releases unused mappings (one page to 64 MiB) and segments until at most `keep` bytes are reserved, after waiting on the host for
    /// work that may still use them. Returns the bytes released.
    std::size_t trim(std::size_t keep = 0) noexcept;

    /// Returns the bytes of the largest free block, the largest request that needs no further memory. Larger requests succeed while the
    /// budget has bytes available or pages are free elsewhere in the pool. Cost: as stats.
    [[nodiscard]] std::size_t largest_free() const noexcept;
    /// Returns a consistent snapshot. Cost: the lock; revokes all thread caches.
    [[nodiscard]] pool_stats stats() const noexcept;
    /// Returns the live bytes by tag, largest first. Throws: std::bad_alloc. Cost: O(live blocks), under the lock.
    [[nodiscard]] std::vector<tag_stats> stats_by_tag() const;
    /// Returns the account that pages and segments are charged to: the budget, or the cap within it.
    [[nodiscard]] budget const& account() const noexcept;

private:
    friend struct detail::pool_on_pages;
    friend struct pool_access;
    scoped_pool(budget const& account, any_resource source, std::optional<device> on, options wanted,
                source_location where, detail::light_unique_ptr<detail::mapped_range> pages);

    static std::size_t checked(std::size_t alignment, label const& who);
    // Returns the peers other than `on`; throws usage_error if one cannot access the memory of `on`.
    static device_set peers_of(device on, options const& wanted, source_location where);
    static options const& without_peers(options const& wanted, source_location where);
    static std::string title(options const& wanted);

    void throw_if_alive(char const* what) const;

    detail::intrusive_ptr<detail::pool_state> state_;
    std::size_t const release_threshold_;
};

/// Access to a pool's internals for observers inside the library.
struct pool_access {
    /// Returns the state, which lives as long as the pool and its allocations.
    [[nodiscard]] static detail::pool_state& state(scoped_pool const& pool) noexcept { return *pool.state_; }
};

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
          checked(wanted.alignment, {wanted.name, where}), on ? peers_of(*on, wanted, where) : device_set{})},
      release_threshold_{wanted.release_threshold} {
    state_->reserve(wanted.initial_size, {wanted.name, where});
}

CUOTA_INLINE std::size_t scoped_pool::checked(std::size_t alignment, label const& who) {
    detail::check_alignment(alignment, who, detail::pool_state::largest_alignment);
    return alignment;
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
