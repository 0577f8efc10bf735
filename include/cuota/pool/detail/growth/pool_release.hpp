// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Release of a pool's idle memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/growth/pool_memory.hpp>
#include <cuota/pool/detail/growth/release_policy.hpp>

namespace cuota::inline v0::detail {

/// Releases free mappings and segments after waiting for pending work. Functions return the bytes released. Threads: any.
class pool_release {
public:
    explicit pool_release(pool_memory& memory) noexcept : memory_{memory} {}

    /// Whether all functions below release nothing (pool_options::keeps_idle).
    void keep_idle(bool does) noexcept { keeps_idle_.store(does, std::memory_order_relaxed); }

    /// Releases until at most `keep` bytes are reserved.
    std::size_t trim(std::size_t keep) noexcept;
    /// Releases at least `surplus` bytes, or all. Memory that cannot be waited for is kept without an error.
    std::size_t shrink_by(std::size_t surplus) noexcept;
    /// Releases at least `surplus` bytes that no work uses, or all of them, except addresses kept by this thread. Does not wait.
    std::size_t release_completed(std::size_t surplus) noexcept;
    /// Releases at least `wanted` bytes, or all, except addresses kept by this thread. If too little, waits for other threads' releases.
    std::size_t reclaim(std::size_t wanted) noexcept;
    [[nodiscard]] std::size_t reclaimable(std::size_t wanted) const noexcept;
    /// Returns the idle bytes if these allocations were freed.
    [[nodiscard]] std::size_t reclaimable_if(std::span<allocation_group const> released) const {
        return keeps_idle() ? 0 : memory_.blocks().idle_if_released(released).whole;
    }

    /// A scope in which this thread does not reclaim addresses where the pool is about to grow.
    class keeping {
    public:
        keeping(pool_release const& of, kept_addresses const& kept) noexcept
            : of_{&of}, kept_{kept}, outer_{std::exchange(innermost(), this)} {}
        keeping(keeping const&) = delete;
        keeping& operator=(keeping const&) = delete;
        ~keeping() { innermost() = outer_; }

        [[nodiscard]] static kept_addresses here(pool_release const& pool) noexcept;

    private:
        CUOTA_PROCESS_STATE [[nodiscard]] static keeping const*& innermost() noexcept;

        pool_release const* of_;
        kept_addresses kept_;
        keeping const* outer_;
    };

private:
    [[nodiscard]] kept_addresses kept_here() const noexcept { return keeping::here(*this); }

    // Releases take_out(bytes so far) until that is nothing.
    template <class TakeOut>
    std::size_t give_back_all(TakeOut take_out) noexcept {
        std::size_t given = 0;
        if (keeps_idle()) return given;
        for (;;) {
            std::optional<idle_memory> out;
            report_failure_of([&] { out = take_out(given); });
            if (!out) return given;
            std::size_t const bytes = memory_.give_back(*out);
            given += bytes;
            if (bytes == 0) return given;
        }
    }
    // Does so for memory of this choice, and keeps what cannot be waited for without an error.
    std::size_t give_back_or_keep(std::size_t surplus, kept_addresses const& kept,
                                  idle_choice which) noexcept;
    std::size_t wait_for_others() noexcept;
    [[nodiscard]] bool keeps_idle() const noexcept { return keeps_idle_.load(std::memory_order_relaxed); }

    pool_memory& memory_;
    std::atomic<bool> keeps_idle_ = false;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t pool_release::trim(std::size_t keep) noexcept {
    return give_back_all([&](std::size_t) { return memory_.blocks().take_out_above(keep); });
}

CUOTA_INLINE std::size_t pool_release::shrink_by(std::size_t surplus) noexcept {
    return give_back_or_keep(surplus, {}, idle_choice::any);
}

CUOTA_INLINE std::size_t pool_release::release_completed(std::size_t surplus) noexcept {
    return give_back_or_keep(surplus, kept_here(), idle_choice::completed);
}

CUOTA_INLINE std::size_t pool_release::give_back_or_keep(std::size_t surplus, kept_addresses const& kept,
                                                         idle_choice which) noexcept {
    return give_back_all([&](std::size_t so_far) -> std::optional<idle_memory> {
        try {
            return memory_.blocks().take_out(surplus - std::min(surplus, so_far), kept, which);
        } catch (...) { return std::nullopt; }  // as in a foreign capture
    });
}

CUOTA_INLINE std::size_t pool_release::reclaim(std::size_t wanted) noexcept {
    kept_addresses const kept = kept_here();
    std::size_t const given = give_back_all([&](std::size_t so_far) {
        return memory_.blocks().take_out(wanted - std::min(wanted, so_far), kept);
    });
    return given >= wanted || keeps_idle() ? given : given + wait_for_others();
}

CUOTA_INLINE std::size_t pool_release::reclaimable(std::size_t wanted) const noexcept {
    if (keeps_idle()) return 0;
    memory_.wait_for_refunds();
    return memory_.blocks().could_take_out(wanted, kept_here());
}

CUOTA_INLINE kept_addresses pool_release::keeping::here(pool_release const& pool) noexcept {
    for (keeping const* k = innermost(); k; k = k->outer_)
        if (k->of_ == &pool) return k->kept_;
    return {};
}

CUOTA_INLINE_STATE auto pool_release::keeping::innermost() noexcept -> keeping const*& {
    static thread_local keeping const* scope = nullptr;
    return scope;
}

CUOTA_INLINE std::size_t pool_release::wait_for_others() noexcept {
    std::size_t const gone = memory_.blocks().wait_for_leaving();
    memory_.wait_for_refunds();
    return gone;
}

}  // namespace cuota::inline v0::detail

#endif
