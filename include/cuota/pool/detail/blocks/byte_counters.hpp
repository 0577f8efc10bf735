// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Counters of a pool's bytes.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/pool/detail/blocks/block.hpp>
#include <cuota/pool/pool_stats.hpp>

namespace cuota::inline v0::detail {

/// Bytes of live blocks and of reserved memory, with their peaks. Requires the pool's lock.
class byte_counters {
public:
    // --- blocks ---

    void add(block const& live) noexcept {
        requested_ += live.requested;
        allocated_ += live.size;
        peak_requested_ = std::max(peak_requested_, requested_);
        peak_allocated_ = std::max(peak_allocated_, allocated_);
    }
    void remove(block const& live) noexcept {
        requested_ -= live.requested;
        allocated_ -= live.size;
        freed_ += live.size;
    }
    /// Whether a block would raise a peak.
    [[nodiscard]] bool would_peak(std::size_t requested, std::size_t size) const noexcept {
        return allocated_ + size > peak_allocated_ || requested_ + requested > peak_requested_;
    }
    /// Counts up to `most` bytes as requested, without raising a peak, for the credit of a thread cache; returns them.
    [[nodiscard]] std::size_t lend(std::size_t most) noexcept {
        std::size_t const lent = std::min(most, peak_requested_ - std::min(peak_requested_, requested_));
        requested_ += lent;
        return lent;
    }
    /// Takes back credit, including the requested bytes of cached blocks.
    void take_back(std::size_t bytes) noexcept { requested_ -= bytes; }

    // --- memory ---

    void add_reserved(std::size_t bytes) noexcept {
        reserved_ += bytes;
        peak_reserved_ = std::max(peak_reserved_, reserved_);
    }
    void remove_reserved(std::size_t bytes) noexcept { reserved_ -= bytes; }
    /// Memory is being released, and still counts as reserved.
    void add_leaving(std::size_t bytes) noexcept { leaving_ += bytes; }
    void remove_leaving(std::size_t bytes) noexcept { leaving_ -= bytes; }

    // --- figures ---

    [[nodiscard]] std::size_t allocated() const noexcept { return allocated_; }
    [[nodiscard]] std::size_t peak_allocated() const noexcept { return peak_allocated_; }
    [[nodiscard]] std::size_t reserved() const noexcept { return reserved_; }
    [[nodiscard]] std::size_t leaving() const noexcept { return leaving_; }
    [[nodiscard]] std::size_t staying() const noexcept { return reserved_ - leaving_; }
    [[nodiscard]] std::size_t freed() const noexcept { return freed_; }  ///< by all frees so far

    /// Sets the members of `now` that are bytes. `in_flight`: freed bytes with pending work.
    void write_to(pool_stats& now, std::size_t in_flight) noexcept;

private:
    std::size_t requested_ = 0;
    std::size_t peak_requested_ = 0;
    std::size_t allocated_ = 0;
    std::size_t peak_allocated_ = 0;
    std::size_t peak_active_ = 0;
    std::size_t reserved_ = 0;
    std::size_t peak_reserved_ = 0;
    std::size_t leaving_ = 0;  // part of reserved_
    std::size_t freed_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void byte_counters::write_to(pool_stats& now, std::size_t in_flight) noexcept {
    now.requested = requested_;
    now.peak_requested = peak_requested_;
    now.allocated = allocated_;
    now.peak_allocated = peak_allocated_;
    now.active = allocated_ + in_flight;
    now.peak_active = peak_active_ = std::max({peak_active_, peak_allocated_, now.active});
    now.reserved = reserved_;
    now.peak_reserved = peak_reserved_;
}

}  // namespace cuota::inline v0::detail

#endif
