// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A pool of memory with a scope: what it took goes back when the scope ends.
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
struct pool_on_pages;  // makes a pool on pages of another kind; the library has none
}

/// How a pool of device memory gets more. By pages, it has no holes between what it took at different times, and gives back
/// what lies free, wherever that is: by mappings of one page to 64 MiB, each as a whole. By segments, only what it took as a
/// whole.
/// Example: tests/pool/scoped_pool.cpp
enum class pool_growth {
    automatic,  ///< by pages (2 MiB as a rule) where the device has virtual memory, and by segments where they do not do
    segments,  ///< as large as the request, or a little larger
};

/// How a pool behaves; what is left out is unbounded or empty. Example: tests/pool/scoped_pool.cpp
struct pool_options {
    tag name{};                   ///< for messages
    std::size_t initial = 0;      ///< bytes to take at once; throws on construction when they are refused
    std::size_t cap = unlimited;  ///< bytes that this pool may take, inside its budget; inclusive
    std::size_t release_threshold = unlimited;  ///< at the end of a step it is trimmed to so many bytes
    int reclaim_priority =
        0;  ///< who gives back first when a budget is short: the higher, as for `reclaimer`
    std::size_t alignment =
        default_alignment;  ///< of every block, and its size a multiple; a power of two up to 2 MiB
    pool_growth growth = pool_growth::automatic;  ///< of device memory; what other sources give is segments
    /// Other devices whose kernels may use the pool's memory, and whose streams may ask for it. They must be able to: see
    /// cudaDeviceCanAccessPeer. Where the pool grows by segments, this opens to them all that cudaMalloc gives of its device.
    device_set peers{};
};

/// Memory taken by pages or in large segments, cut into blocks for many requests, given back in one go when the scope ends.
///
/// Blocks remember the stream that freed them: the same stream has them at once, another after the wait it needs, and it
/// needs none for what it has waited for before. Of blocks that fit about as well, the one with the fewest waits is taken;
/// of a pool that is nearly full the tightest, as if there were one stream only.
/// Device memory grows by pages where the device has virtual memory: the pages that a request needs beside free ones, and up to a
/// 64th of the pool's size more, at most one mapping. A mapping has several pages, at most a 1024th of what budget and device can
/// still give: 64 MiB while that is 64 GiB; below 4 GiB it is one page, and no more than needed is mapped. When no page is left,
/// mappings that are free elsewhere in the pool are unmapped for the request: what fits the free mappings together is served,
/// wherever they lie. What pages cannot serve, as the last part of a cap that is no multiple of the page, a segment of the exact
/// size does.
/// Pages and segments are what is charged to the budget, because they are what the device really gave. Those that a
/// pool does not use it gives back when its budget is short, or when `trim` says so.
///
/// Units:   bytes; blocks are multiples of 256 (of `alignment`, if that is more); pages and segments are what is charged.
/// Order:   memory is valid in the stream that asked; given back in the order of the stream that frees it.
/// In a `capture`, what its streams take or give back is the graph's until that ends, and in the capture a stream has again
/// what it gave back of the same size. The pool grows, waits and is trimmed beside the capture.
/// In a foreign capture of a native stream, the host waits for earlier uses of a block that is allocated. A block that is freed in it is
/// reused in that capture only, by the same stream; see release_foreign_graphs. A block that is freed after the capture is free for
/// all, so its owner keeps it for as long as the graph is launched. A `stream` that is captured by CUDA's own calls is not noticed where
/// the pool makes no CUDA call: use `capture`, or the native handle that `stream::get` returns.
/// Threads: any.
/// Throws:  budget_exceeded, out_of_memory, misuse (an alignment that is no power of two or above 2 MiB, a request after its
///          end, or on a stream of a device that is neither its own nor one of its `peers`), cuda_error: nothing is taken
///          then. A wrong size, a foreign pointer or a second release goes to the error sink as misuse, and changes nothing.
/// At its end what is still alive is reported by tag, size and place, and stays valid until its last owner is gone.
/// Cost:    no CUDA call when a stream takes what it freed. Up to 64 KiB (and a 2048th of the pool) a thread takes again
///          what it gave back in order of the same `stream` without a lock, some of each size; else a lock, and
///          O(log n) in the free blocks of like size. To be refused costs no more. An alignment above 256 may take as much
///          more room; what it skips stays free for others.
/// Example: examples/train.cpp
class scoped_pool {
public:
    /// What it may be told.
    using options = pool_options;

    /// Device memory of the current device, under a budget.
    /// Throws: cuda_error, std::bad_alloc.
    explicit scoped_pool(budget const& account) : scoped_pool{account, options{}} {}
    /// The same, as the options say.
    /// Throws: cuda_error, std::bad_alloc; budget_exceeded or out_of_memory for `initial`; misuse for an alignment, and for a
    /// peer that cannot reach the device.
    scoped_pool(budget const& account, options wanted, place where = place::here());

    /// Memory of another source, under a budget. Throws: as above; misuse for `peers`, which only device memory can have.
    scoped_pool(budget const& account, any_resource source, options wanted = {}, place where = place::here());

    /// Addresses without memory, taken as device memory would be: for dry runs of what stands on a pool.
    /// Throws: out_of_memory when the source has no addresses left for a range of pages.
    scoped_pool(budget const& account, addresses_only source, options wanted = {},
                place where = place::here());

    /// Memory of another source, which counts for itself.
    explicit scoped_pool(any_resource source, options wanted = {}, place where = place::here());

    scoped_pool(scoped_pool const&) = delete;  // a scope is one place; hand on resource() instead
    scoped_pool& operator=(scoped_pool const&) = delete;

    ~scoped_pool();

    /// Ends the pool now. Throws: misuse naming what is still alive; the pool goes on then.
    void close();

    /// Frees the blocks that were freed in foreign captures, and returns their bytes as requested.
    ///
    /// A capture is foreign when it was begun by cudaStreamBeginCapture and not by `capture`, as by torch.cuda.graph. The library
    /// does not know the graph that comes of it, which uses these blocks at each launch; so the pool does not reuse them before this
    /// call or its end.
    /// Order:   the caller makes sure that these graphs are not launched again, and that all launches have completed.
    /// Threads: any. Throws: nothing. Cost: a look at each such block.
    /// Example: tests/pool/graph_blocks.sim.cpp
    std::size_t release_foreign_graphs() noexcept;

    /// The pool for those who take a resource. May outlive the scope; requests after its end are misuse.
    [[nodiscard]] pool_resource resource() const noexcept { return pool_resource{state_}; }
    operator any_resource() const;  ///< the same
    /// The same, for the length of a call: it counts as no owner.
    operator resource_ref() const noexcept;

    /// The pool for memory that outlives steps: kept apart, so that steps leave one hole behind and not many.
    [[nodiscard]] pool_resource_for<lifespan::persistent> persistent() const noexcept;
    /// Begins a step; what it returns ends it. Throws: misuse while another is open.
    [[nodiscard]] pool_step begin_step(place where = place::here());
    /// Begins a frame: what is allocated in it is given back together. Throws: std::bad_alloc.
    [[nodiscard]] cuota::frame frame(place where = place::here()) { return cuota::frame{state_, where}; }

    /// Valid in s from here on; to be given back by `deallocate` with the same bytes. Buffers do that by themselves.
    /// Throws: as the class says.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, place where = place::here());
    /// In order of s: work that was enqueued on it before may still use the memory. Null does nothing.
    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept;

    /// Gives back pages and segments that nobody uses until at most keep bytes are reserved; returns the bytes given back.
    /// Waits on the host for work that may still use them. A mapping (one page to 64 MiB) or a segment is the smallest thing
    /// it gives.
    std::size_t trim(std::size_t keep = 0) noexcept;

    /// The largest request that needs no more from the device or source: the largest free block. Bytes. Larger ones are
    /// served while the budget has room, or pages lie free elsewhere in the pool. Cost: as stats.
    [[nodiscard]] std::size_t largest_free() const noexcept;
    /// All of one instant. Cost: the lock, and calls in what threads hold ready for themselves.
    [[nodiscard]] pool_stats stats() const noexcept;
    /// What is live, by tag, most bytes first. Throws: std::bad_alloc. Cost: a look at each live block, under the lock.
    [[nodiscard]] std::vector<tag_stats> stats_by_tag() const;
    /// The account that pages and segments are charged to: the budget, or the cap inside it.
    [[nodiscard]] budget const& account() const noexcept;

private:
    friend struct detail::pool_on_pages;
    friend struct pool_access;
    scoped_pool(budget const& account, any_resource source, std::optional<device> on, options wanted,
                place where, sole<detail::page_range> pages);

    static std::size_t checked(std::size_t alignment, label const& who);
    // The peers of a pool of that device.
    static device_set peers_of(device on, options const& wanted, place where);
    static options const& without_peers(options const& wanted, place where);
    static std::string title(options const& wanted);

    void throw_if_alive(char const* what) const;

    shared<detail::pool_state> state_;
    std::size_t const release_threshold_;
};

/// The way from a pool to its machinery, for those who look on. For the library: programs have `scoped_pool`.
struct pool_access {
    /// Lives as long as the pool, and what was taken of it.
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
