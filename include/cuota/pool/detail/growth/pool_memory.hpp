// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A pool's memory, charged to an account.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/reclaim.hpp>
#include <cuota/pool/detail/blocks/block_pool.hpp>
#include <cuota/pool/detail/growth/mapped_range.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0::detail {

/// Acquires and charges memory, releases and refunds it. Threads: any.
class pool_memory {
public:
    static constexpr std::size_t granularity = block::granularity;

    /// Uses `pages` if given, and segments of the source. Block sizes are multiples of `alignment`. Peers may access segments, too.
    pool_memory(budget account, any_resource source, std::optional<device> where, tag name,
                light_unique_ptr<mapped_range> pages, std::size_t alignment, device_set peers = {});
    pool_memory(pool_memory const&) = delete;
    pool_memory& operator=(pool_memory const&) = delete;
    ~pool_memory();

    /// Sets pool_options::largest_mapping. Not during another call.
    void limit_mappings(std::size_t largest) noexcept { largest_mapping_ = largest; }

    // --- acquisition, charged by the caller (ledger::charge_coming_or_say) ---

    /// Allocates a segment, unless the source has too little: that refunds the charge. Appends the holders that the source called to
    /// `told`; if that is null, it calls none. Throws: usage_error for a misaligned segment; as the source.
    [[nodiscard]] std::optional<segment> take_segment(std::size_t bytes, std::vector<reclaimer_info>* told);

    /// Maps the holes of a held window, for a request of `request` bytes, and calls enter(window). Returns null if the device has too
    /// little. In that case, and on a throw, the charge is refunded and the window restored; memory that cannot be unmapped is reported and
    /// stays charged. Throws: cuda_error; as `enter`.
    template <class Enter>
    [[nodiscard]] void* map(growth_candidate window, std::size_t request, label const& who, Enter enter) {
        window.sizes =
            sizes(saturating_add(node().available(), window.missing), request);  // those are charged
        return map_by_sizes(window, who, enter);
    }
    /// Does so by one mapping. The window is one hole.
    template <class Enter>
    [[nodiscard]] void* map_as_one(growth_candidate window, label const& who, Enter enter) {
        window.sizes = {page(), window.missing, 1, window.missing};
        return map_by_sizes(window, who, enter);
    }
    /// Whether the account allows these bytes, and the device is believed to have them.
    [[nodiscard]] bool has_room(std::size_t bytes) const noexcept {
        return pages_->sizes(node().available()).available >= bytes;
    }

    // --- release ---

    /// Releases a segment without blocks.
    void give_back(segment const& s) noexcept;
    /// Releases memory from take_out. Returns its bytes, or 0 after a failure: it is free again.
    std::size_t give_back(idle_memory const& out) noexcept;
    void did_not_come(std::size_t bytes) noexcept { node().did_not_come(bytes); }
    /// Waits a limited time for refunds: an alert on the budget may wait for this thread or run on it.
    void wait_for_refunds() const noexcept;

    // --- figures ---

    [[nodiscard]] block_pool& blocks() noexcept { return blocks_; }
    [[nodiscard]] block_pool const& blocks() const noexcept { return blocks_; }
    [[nodiscard]] budget const& account() const noexcept { return account_; }
    [[nodiscard]] ledger& node() const noexcept { return budget_access::node(account_); }
    [[nodiscard]] std::optional<device> on() const noexcept { return device_; }
    /// Throws: usage_error if kernels of the stream's device cannot access the memory; cuda_error. Cost: two loads with one device or an
    /// owned stream.
    void refuse_out_of_reach(stream_ref s, label const& who) const {
        if (has_peers_) refuse_other_devices(s, who);
    }
    [[nodiscard]] memory_kind kind() const noexcept { return kind_; }
    [[nodiscard]] std::size_t segment_granularity() const noexcept { return source_.granularity(); }
    /// The bytes to map for a request, with some in advance (docs/design/growth.md).
    [[nodiscard]] std::size_t ample(std::size_t bytes) const noexcept;
    /// 0 without pages.
    [[nodiscard]] std::size_t page() const noexcept { return pages_ ? pages_->page() : 0; }

private:
    void refuse_other_devices(stream_ref s, label const& who) const;
    // Returns the sizes of new mappings for a request while the account has `available` bytes. Requests that share a mapping share it as long
    // as one of them lives, so small requests get smaller mappings, and so do all once the pool is fragmented.
    [[nodiscard]] mapping_sizes sizes(std::size_t available, std::size_t request) const noexcept;
    [[nodiscard]] bool map_holes(growth_candidate const& window, label const& who);
    void give_up(growth_candidate const& window, bool has_come) noexcept;
    template <class Visit>
    static void for_each_hole(growth_candidate const& window, Visit visit) {
        block_index::for_each_part(*window.first, window.end, [&](block& part) {
            if (part.has_state(block::state::growing)) visit(part);
        });
    }

    template <class Enter>
    [[nodiscard]] void* map_by_sizes(growth_candidate const& window, label const& who, Enter enter) {
        bool has_come = false;
        try {
            has_come = map_holes(window, who);
            if (has_come) {
                node().arrived(window.missing);
                return enter(window);
            }
        } catch (...) {
            give_up(window, has_come);
            throw;
        }
        give_up(window, has_come);
        return nullptr;
    }

    // Waits for the memory's device, even if the source names none.
    void wait_for_device() noexcept;

    budget account_;
    any_resource source_;
    memory_kind const kind_ = source_.kind();
    std::optional<device> const device_;
    device_set const peers_;
    bool const has_peers_;  // has a device, and others exist
    tag const name_;
    light_unique_ptr<mapped_range> const pages_;
    block_pool blocks_;
    std::size_t largest_mapping_ = std::size_t{64} << 20;
    std::atomic<int> refunding_ = 0;  // threads between release and refund
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/text/text.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/runtime/rt/peer_access.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE pool_memory::pool_memory(budget account, any_resource source, std::optional<device> where,
                                      tag name, light_unique_ptr<mapped_range> pages, std::size_t alignment,
                                      device_set peers)
    : account_{std::move(account)},
      source_{std::move(source)},
      device_{where},
      peers_{peers},
      has_peers_{where && device::count() > 1},
      name_{name},
      pages_{std::move(pages)},
      blocks_{name, alignment} {
    if (pages_) blocks_.add_range(pages_->at(), pages_->bytes(), pages_->page());
}

CUOTA_INLINE pool_memory::~pool_memory() {
    // Live blocks have no owner left. Freed blocks may be in use by a stream, and not every source waits.
    blocks_.wait_for_freed();
    if (blocks_.stats().live_blocks != 0)
        // leaked memory may be in use, too
        wait_for_device();
    intrusive_ptr<pool_observer> const told = blocks_.observe_no_more();
    blocks_.for_each_segment([&](segment const& s) {
        if (told) told->segment_freed(s.at, s.bytes);
        give_back(s);
    });
    blocks_.for_each_mapped([&](std::byte* at, std::size_t bytes) {
        if (told) told->segment_freed(at, bytes);
        pages_->unmap(at, bytes);
        account_.refund(bytes);
    });
    if (told) told->ended();
}

CUOTA_INLINE void pool_memory::refuse_other_devices(stream_ref s, label const& who) const {
    device const other = s.device();
    if (other == *device_ || peers_.has(other)) return;
    std::string const named = std::to_string(other.ordinal());
    throw_usage_error(
        who.where,
        "{} of device {}: cannot allocate on a stream of device {}: its kernels cannot access the "
        "memory; add device{{}} to the pool's `peers`",
        {blocks_.title(), device_->ordinal(), named, named});
}

CUOTA_INLINE void pool_memory::wait_for_device() noexcept {
    auto const wait = [&] {
        if (device_) return device_->synchronize();
        blocks_.for_each_segment([](segment const& s) {
            if (auto const where = rt::device_of(s.at)) where->synchronize();
        });
    };
    if (!report_failure_of(wait)) (void)report_failure_of(wait);
}

CUOTA_INLINE std::optional<segment> pool_memory::take_segment(std::size_t bytes,
                                                              std::vector<reclaimer_info>* told) {
    std::optional<reclaiming> asks_nobody;
    if (!told) asks_nobody.emplace();
    void* p = nullptr;
    try {
        peers_.for_each([&](device peer) { rt::allow_reach(peer, *device_); });
        p = source_.allocate_sync(bytes, granularity, label{name_, {}});
    } catch (out_of_memory const& refused) {
        did_not_come(bytes);
        if (told && refused.info().reclaimers)
            for (reclaimer_info const& one : *refused.info().reclaimers)
                if (one.requested != 0) told->push_back(one);
        return std::nullopt;
    } catch (...) {
        did_not_come(bytes);
        throw;
    }
    node().arrived(bytes);
    if (reinterpret_cast<std::uintptr_t>(p) % granularity != 0) {
        give_back(segment{p, bytes});
        throw_usage_error("{}: the source did not align memory to the requested {} bytes",
                          {blocks_.title(), granularity});
    }
    return segment{p, bytes};
}

CUOTA_INLINE void pool_memory::give_back(segment const& s) noexcept {
    source_.deallocate_sync(s.at, s.bytes, granularity);
    account_.refund(s.bytes);
}

CUOTA_INLINE std::size_t pool_memory::give_back(idle_memory const& out) noexcept {
    giving_back const here;
    bool is_gone = true;
    if (out.is_paged) is_gone = pages_->unmap(out.at, out.bytes);
    else source_.deallocate_sync(out.at, out.bytes, granularity);
    ++refunding_;
    blocks_.gone(out, is_gone);
    if (is_gone) account_.refund(out.bytes);
    --refunding_;
    return is_gone ? out.bytes : 0;
}

CUOTA_INLINE void pool_memory::wait_for_refunds() const noexcept {
    for (int i = 0; refunding_.load() != 0 && i != 10'000; ++i) std::this_thread::yield();
}

CUOTA_INLINE mapping_sizes pool_memory::sizes(std::size_t available, std::size_t request) const noexcept {
    mapping_sizes of = pages_->sizes(available);
    std::size_t const largest = blocks_.is_fragmented() ? largest_mapping_ / 8 : largest_mapping_;
    std::size_t const most = std::min(largest, std::max(largest / 2, request));
    of.largest = std::min(of.largest, round_down(most, of.page));
    return of;
}

CUOTA_INLINE std::size_t pool_memory::ample(std::size_t bytes) const noexcept {
    constexpr std::size_t parts = 64;
    std::size_t const part = round_down(blocks_.reserved() / parts, pages_->page());
    if (part == 0) return bytes;
    mapping_sizes const now = sizes(node().available(), unlimited);
    std::size_t const more =
        std::min({part, round_down(now.available / now.parts, now.page), std::max(now.largest, now.page)});
    return saturating_add(bytes, more);
}

CUOTA_INLINE bool pool_memory::map_holes(growth_candidate const& window, label const& who) {
    bool all = true;
    mapping_sizes sizes = window.sizes;
    for_each_hole(window, [&](block& hole) {
        all = all && pages_->map(hole.at(), hole.size, sizes, {name_, who.where}, hole.requested);
    });
    return all;
}

CUOTA_INLINE void pool_memory::give_up(growth_candidate const& window, bool has_come) noexcept {
    for_each_hole(window, [&](block& hole) {
        if (hole.requested != 0 && pages_->unmap(hole.at(), hole.requested)) hole.requested = 0;
    });
    std::size_t const kept = blocks_.give_up(window);
    if (has_come) return account_.refund(window.missing - kept);
    if (kept != 0) node().arrived(kept);
    did_not_come(window.missing - kept);
}

}  // namespace cuota::inline v0::detail

#endif
