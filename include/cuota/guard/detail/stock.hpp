// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Per-thread credit of a budget.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/biased_ownership.hpp>

namespace cuota::inline v0::detail {

class ledger_node;

/// Bytes of one node granted to one thread, its owner, which uses and returns them without a lock (docs/design/ledger.md).
///
/// The owner calls the functions that take its thread_slot. It may read its numbers before its section: if it owns the stock inside the
/// section, it did so during the read.
class alignas(64) stock : public biased_ownership {
public:
    [[nodiscard]] bool try_use(thread_slot& me, std::size_t bytes) noexcept;
    [[nodiscard]] bool try_put_back(thread_slot& me, std::size_t bytes) noexcept;

    /// Like try_use, for memory not allocated yet: the bytes count as `coming` until try_end_coming.
    [[nodiscard]] bool try_use_coming(thread_slot& me, std::size_t bytes) noexcept;
    /// Puts the bytes back unless the memory was allocated. Returns false, and changes nothing, if the stock was revoked meanwhile.
    [[nodiscard]] bool try_end_coming(thread_slot& me, std::size_t bytes, bool has_arrived) noexcept;

    struct numbers {
        std::size_t grant = 0;
        std::size_t used = 0;
    };
    /// Returns zeros unless `me` owns the stock, which is validated after the read.
    [[nodiscard]] numbers seen_by(thread_slot const& me) const noexcept;

    [[nodiscard]] std::size_t grant() const noexcept { return grant_.load(std::memory_order_acquire); }
    [[nodiscard]] std::size_t used() const noexcept { return used_.load(std::memory_order_acquire); }
    [[nodiscard]] std::size_t idle() const noexcept { return grant() - used(); }
    [[nodiscard]] std::size_t coming() const noexcept { return coming_.load(std::memory_order_acquire); }

    // All below require the tree's lock.
    [[nodiscard]] bool is_open() const noexcept { return node_ != nullptr; }
    [[nodiscard]] ledger_node* node() const noexcept { return node_; }
    [[nodiscard]] stock*& next_open() noexcept { return next_open_; }

    void open(ledger_node& node, thread_slot& me) noexcept;
    /// For the owner: grants `more` bytes and uses `bytes`.
    void extend(std::size_t more, std::size_t bytes) noexcept;
    /// For the owner: makes `bytes` used ones idle.
    void put_back(std::size_t bytes) noexcept { used_.store(used() - bytes, std::memory_order_release); }

    /// Requires that the owner has left its section.
    void clear() noexcept;

private:
    atomic<std::size_t> grant_ = 0;
    atomic<std::size_t> used_ = 0;    // at most grant_
    atomic<std::size_t> coming_ = 0;  // part of used_
    ledger_node* node_ = nullptr;
    stock* next_open_ = nullptr;
};

static_assert(sizeof(stock) == 64);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE bool stock::try_use(thread_slot& me, std::size_t bytes) noexcept {
    std::size_t const used = used_.load(std::memory_order_relaxed);
    if (bytes > grant_.load(std::memory_order_relaxed) - used) return false;
    owner_section const here{me};
    if (!is_mine(me)) return false;
    used_.store(used + bytes, std::memory_order_release);
    return true;
}

CUOTA_INLINE bool stock::try_put_back(thread_slot& me, std::size_t bytes) noexcept {
    std::size_t const used = used_.load(std::memory_order_relaxed);
    if (bytes > used) return false;
    owner_section const here{me};
    if (!is_mine(me)) return false;
    used_.store(used - bytes, std::memory_order_release);
    return true;
}

CUOTA_INLINE bool stock::try_use_coming(thread_slot& me, std::size_t bytes) noexcept {
    std::size_t const used = used_.load(std::memory_order_relaxed);
    if (bytes > grant_.load(std::memory_order_relaxed) - used) return false;
    owner_section const here{me};
    if (!is_mine(me)) return false;
    coming_.store(coming_.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
    used_.store(used + bytes, std::memory_order_release);
    return true;
}

CUOTA_INLINE bool stock::try_end_coming(thread_slot& me, std::size_t bytes, bool has_arrived) noexcept {
    std::size_t const coming = coming_.load(std::memory_order_relaxed);
    std::size_t const used = used_.load(std::memory_order_relaxed);
    if (bytes > coming || bytes > used) return false;
    owner_section const here{me};
    if (!is_mine(me)) return false;
    coming_.store(coming - bytes, std::memory_order_release);
    if (!has_arrived) used_.store(used - bytes, std::memory_order_release);
    return true;
}

CUOTA_INLINE auto stock::seen_by(thread_slot const& me) const noexcept -> numbers {
    numbers const seen{grant(), used()};
    return was_mine(me) ? seen : numbers{};
}

CUOTA_INLINE void stock::open(ledger_node& node, thread_slot& me) noexcept {
    node_ = &node;
    begin_bias(me);
}

CUOTA_INLINE void stock::extend(std::size_t more, std::size_t bytes) noexcept {
    grant_.store(grant() + more, std::memory_order_release);
    used_.store(used() + bytes, std::memory_order_release);
}

CUOTA_INLINE void stock::clear() noexcept {
    grant_.store(0, std::memory_order_release);
    used_.store(0, std::memory_order_release);
    coming_.store(0, std::memory_order_release);
    node_ = nullptr;
}

}  // namespace cuota::inline v0::detail

#endif
