// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The thread cache of a pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/biased_ownership.hpp>
#include <cuota/pool/detail/blocks/block.hpp>

namespace cuota::inline v0::detail {

/// Small blocks of one pool, held for the owner thread. The credit, the bytes that it may request, stays counted as requested, so a cache
/// never raises a peak (docs/design/thread_caches.md).
///
/// Owner:     calls try_take and try_put without a lock.
/// Collector: calls the rest under the pool's lock.
class alignas(64) thread_cache : public biased_ownership {
public:
    /// Larger blocks justify the lock, and would keep too much memory from others.
    static constexpr std::size_t largest = std::size_t{64} * 1024;
    /// Credit granted when less is left, as a request may be larger than the freed block.
    static constexpr std::size_t loan = 16 * block::granularity;

    /// Returns null if no block of that stream and size is cached or the credit is below `bytes`. Calls write(block) before a collector can
    /// access it; write must not enter a section.
    template <class Write>
    [[nodiscard]] block* try_take(thread_slot& me, std::uint64_t stream, std::size_t bytes, std::size_t size,
                                  Write write) noexcept {
        owner_section const here{me};
        if (!is_mine(me)) return nullptr;
        bin& s = bin_for(stream, size);
        if (!s.first || !s.is_for(stream, size) || bytes > credit_) return nullptr;
        --s.count;
        ++taken_;
        credit_ -= bytes;
        block* const b = std::exchange(s.first, s.first->left);
        write(*b);
        return b;
    }

    /// Caches the live block of that size at p, if it is known, was requested with `bytes`, and is bound to that stream. Otherwise, or if
    /// the bin is full, returns false without a change.
    [[nodiscard]] bool try_put(thread_slot& me, void const* p, std::uint64_t stream, std::size_t bytes,
                               std::size_t size) noexcept;

    // The functions below require the pool's lock.

    [[nodiscard]] bool is_open() const noexcept { return is_open_; }
    void open(thread_slot& me) noexcept;
    void remember(block& b) noexcept { known_[place_of(b.at())] = &b; }
    /// Caches a held block; evicts blocks of another stream or size from its bin. False if the bin is full.
    template <class FlushBlock>
    [[nodiscard]] bool put(block& b, FlushBlock flush_block) noexcept {
        std::uint64_t const stream = b.note->stream;
        bin& s = bin_for(stream, b.size);
        if (!s.is_for(stream, b.size)) s.clear(flush_block);
        if (!s.has_room_for(stream, b.size)) return false;
        remember(b);
        credit_ += b.requested;
        s.put(b, stream, b.size);
        return true;
    }

    void lend(std::size_t bytes) noexcept { credit_ += bytes; }
    [[nodiscard]] std::size_t credit() const noexcept { return credit_; }

    struct account {
        std::size_t credit;
        std::size_t taken;
    };
    /// Evicts all blocks. The owner must have left its section.
    template <class FlushBlock>
    account clear(FlushBlock flush_block) noexcept {
        for (bin& s : bins_) s.clear(flush_block);
        is_open_ = false;
        return {std::exchange(credit_, 0), std::exchange(taken_, 0)};
    }

private:
    // Blocks of one stream and size, LIFO.
    struct bin {
        static constexpr std::uint32_t most = 8;

        std::uint64_t stream = block_metadata::no_stream;
        std::size_t size = 0;
        block* first = nullptr;
        std::uint32_t count = 0;

        [[nodiscard]] bool is_for(std::uint64_t its_stream, std::size_t its_size) const noexcept;
        [[nodiscard]] bool has_room_for(std::uint64_t its_stream, std::size_t its_size) const noexcept;
        void put(block& b, std::uint64_t its_stream, std::size_t its_size) noexcept;
        template <class FlushBlock>
        void clear(FlushBlock& flush_block) noexcept {
            while (first) {
                block& b = *std::exchange(first, first->left);
                b.requested = 0;
                flush_block(b);
            }
            count = 0;
        }
    };

    [[nodiscard]] bin& bin_for(std::uint64_t stream, std::size_t size) noexcept;
    [[nodiscard]] static std::size_t place_of(void const* p) noexcept;

    bool is_open_ = false;
    std::size_t credit_ = 0;
    std::size_t taken_ = 0;
    std::array<bin, 16> bins_{};
    std::array<block*, 64> known_{};  // records by last address
};

/// The thread caches of a pool. Threads that share one mostly use the lock.
class thread_caches {
public:
    [[nodiscard]] thread_cache& of(thread_slot const& who) noexcept { return all_[who.index % all_.size()]; }

    /// The calling thread's cache, opened if should_bias(); null if another thread owns it or after end(). Requires the pool's lock, as all
    /// below.
    [[nodiscard]] thread_cache* open_for(thread_slot& me) noexcept;

    /// Revokes all caches and evicts their blocks. Returns the credit left.
    template <class FlushBlock>
    [[nodiscard]] std::size_t collect(FlushBlock flush_block) noexcept {
        if (open_ == 0) return 0;
        thread_slot const* const me = this_thread_slot();
        bool others = false;
        for (thread_cache& f : all_) {
            if (!f.is_open()) continue;
            f.close();
            others |= f.holder() != me;
        }
        if (others && fences_are_asymmetric()) asymmetric_fence_heavy();
        std::size_t credit = 0;
        for (thread_cache& f : all_) {
            if (!f.is_open()) continue;
            if (f.holder() != me) {
                wait_for_owner_section(*f.holder());
                f.note_revocation();
            }
            thread_cache::account const left = f.clear(flush_block);
            credit += left.credit;
            taken_ += left.taken;
        }
        open_ = 0;
        return credit;
    }
    /// Blocks served up to the last collect.
    [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
    /// No cache is opened between end() and go_on().
    void end() noexcept { ended_ = true; }
    void go_on() noexcept { ended_ = false; }

private:
    std::array<thread_cache, 16> all_;
    std::size_t open_ = 0;
    std::size_t taken_ = 0;
    bool ended_ = false;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE bool thread_cache::try_put(thread_slot& me, void const* p, std::uint64_t stream,
                                        std::size_t bytes, std::size_t size) noexcept {
    owner_section const here{me};
    if (!is_mine(me)) return false;
    bin& s = bin_for(stream, size);
    if (!s.has_room_for(stream, size)) return false;
    block* const b = known_[place_of(p)];
    if (!b || !b->claim(p)) return false;
    if (b->requested != bytes || b->note->stream != stream) {
        b->become(block::state::live);
        return false;
    }
    credit_ += b->requested;
    s.put(*b, stream, size);
    return true;
}

CUOTA_INLINE void thread_cache::open(thread_slot& me) noexcept {
    is_open_ = true;
    begin_bias(me);
}

CUOTA_INLINE bool thread_cache::bin::is_for(std::uint64_t its_stream, std::size_t its_size) const noexcept {
    return stream == its_stream && size == its_size;
}

CUOTA_INLINE bool thread_cache::bin::has_room_for(std::uint64_t its_stream,
                                                  std::size_t its_size) const noexcept {
    return count == 0 || (count != most && is_for(its_stream, its_size));
}

CUOTA_INLINE void thread_cache::bin::put(block& b, std::uint64_t its_stream, std::size_t its_size) noexcept {
    if (!is_for(its_stream, its_size)) {
        stream = its_stream;
        size = its_size;
    }
    b.left = std::exchange(first, &b);
    ++count;
}

CUOTA_INLINE auto thread_cache::bin_for(std::uint64_t stream, std::size_t size) noexcept -> bin& {
    std::uint64_t const mixed = (stream * 31 + size / block::granularity) * 0x9e37'79b9'7f4a'7c15u;
    return bins_[mixed >> 60];
}

CUOTA_INLINE std::size_t thread_cache::place_of(void const* p) noexcept {
    std::uint64_t const key = reinterpret_cast<std::uintptr_t>(p) / block::granularity;
    return key * 0x9e37'79b9'7f4a'7c15u >> 58;
}

CUOTA_INLINE thread_cache* thread_caches::open_for(thread_slot& me) noexcept {
    thread_cache& mine = of(me);
    if (mine.is_of(me)) return &mine;
    if (ended_ || mine.is_open() || !mine.should_bias()) return nullptr;
    mine.open(me);
    ++open_;
    return &mine;
}

}  // namespace cuota::inline v0::detail

#endif
