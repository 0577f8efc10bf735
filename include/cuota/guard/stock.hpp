// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What one thread holds ready of a budget, so that it need not ask anybody. For guard/ledger.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuota/core/thread_record.hpp>

namespace cuota::inline v0::detail {

class ledger;

/// Bytes of one node that are set apart for one thread, its owner: it uses them and puts them back without a lock.
///
/// Owner:     try_use, try_put_back, on its own thread. Cost: some loads and three stores to lines of its own. It may
///            read its numbers before its section: if the stock is its own inside, it was so all the time, as only
///            the owner can open it for itself. So what does not fit costs some loads, and no section.
/// Collector: everything else, under the tree's lock; it closes the stock, fences, and waits for the owner's section
///            to end, before it may look at `used`. The owner under the tree's lock is a collector who need not wait.
class alignas(64) stock {
public:
    [[nodiscard]] bool try_use(thread_record& me, std::size_t bytes) noexcept {
        std::size_t const used = used_.load(std::memory_order_relaxed);
        if (bytes > grant_.load(std::memory_order_relaxed) - used) return false;
        section const here{me};
        if (owner_.load(std::memory_order_seq_cst) != &me) return false;
        used_.store(used + bytes, std::memory_order_release);
        return true;
    }
    [[nodiscard]] bool try_put_back(thread_record& me, std::size_t bytes) noexcept {
        std::size_t const used = used_.load(std::memory_order_relaxed);
        if (bytes > used) return false;
        section const here{me};
        if (owner_.load(std::memory_order_seq_cst) != &me) return false;
        used_.store(used - bytes, std::memory_order_release);
        return true;
    }

    struct numbers {
        std::size_t grant = 0;
        std::size_t used = 0;
    };
    /// What it holds for `me`, who asks: zeros when it is not his. His all the time, if it is in the end (see above).
    [[nodiscard]] numbers seen_by(thread_record const& me) const noexcept {
        numbers const seen{grant(), used()};
        return owner_.load(std::memory_order_acquire) == &me ? seen : numbers{};
    }

    [[nodiscard]] bool is_of(thread_record const& who) const noexcept {
        return owner_.load(std::memory_order_relaxed) == &who;
    }
    [[nodiscard]] std::size_t grant() const noexcept { return grant_.load(std::memory_order_acquire); }
    [[nodiscard]] std::size_t used() const noexcept { return used_.load(std::memory_order_acquire); }
    [[nodiscard]] std::size_t idle() const noexcept { return grant() - used(); }

    // Under the tree's lock from here on.
    [[nodiscard]] bool is_open() const noexcept { return node_ != nullptr; }
    [[nodiscard]] ledger* node() const noexcept { return node_; }
    [[nodiscard]] thread_record const* holder() const noexcept { return holder_; }
    [[nodiscard]] stock*& next_open() noexcept { return next_open_; }

    /// False while it has to be called in so often that owning it does not pay.
    [[nodiscard]] bool pays() noexcept {
        if (cooldown_ == 0) return true;
        --cooldown_;
        return false;
    }
    void open(ledger& node, thread_record& me) noexcept {
        node_ = &node;
        holder_ = &me;
        opened_at_ = me.sections.load(std::memory_order_relaxed);
        owner_.store(&me, std::memory_order_relaxed);
    }
    /// By its owner: `more` bytes are granted, and `bytes` used.
    void extend(std::size_t more, std::size_t bytes) noexcept {
        grant_.store(grant() + more, std::memory_order_release);
        used_.store(used() + bytes, std::memory_order_release);
    }
    /// By its owner: `bytes` that are used become idle.
    void put_back(std::size_t bytes) noexcept { used_.store(used() - bytes, std::memory_order_release); }

    void close() noexcept { owner_.store(nullptr, std::memory_order_seq_cst); }
    /// After its owner's section has ended: empty again.
    void clear() noexcept {
        grant_.store(0, std::memory_order_release);
        used_.store(0, std::memory_order_release);
        node_ = nullptr;
    }
    /// Called in for another thread. One that has served its owner well may be opened again at once.
    void note_collected() noexcept {
        constexpr std::uint64_t well = 4096;
        constexpr unsigned at_most = 1023;
        bool const paid = holder_->sections.load(std::memory_order_relaxed) - opened_at_ >= well;
        penalty_ = paid ? 0 : std::min(2 * penalty_ + 1, at_most);
        cooldown_ = penalty_;
    }

private:
    atomic<thread_record const*> owner_ = nullptr;
    atomic<std::size_t> grant_ = 0;
    atomic<std::size_t> used_ = 0;  // at most grant_
    ledger* node_ = nullptr;
    thread_record const* holder_ = nullptr;
    stock* next_open_ = nullptr;
    std::uint64_t opened_at_ = 0;
    unsigned penalty_ = 0;
    unsigned cooldown_ = 0;
};

static_assert(sizeof(stock) == 64);

}  // namespace cuota::inline v0::detail
