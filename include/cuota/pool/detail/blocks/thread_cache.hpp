// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The thread cache of a pool: blocks that a thread freed and can reuse without a lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/biased_ownership.hpp>
#include <cuota/pool/detail/blocks/block.hpp>

namespace cuota::inline v0::detail {

/// A thread cache: small blocks of one pool, reserved for the owner thread; the pool counts them as neither free nor live. The cache has a
/// credit: the requested bytes of its blocks, which the owner may request again. They stay counted as requested, so a cache never raises a
/// peak.
///
/// Owner:     calls try_take and try_put without a lock (a biased lock, see biased_ownership).
/// Collector: calls everything else under the pool's lock.
class alignas(64) thread_cache : public biased_ownership {
public:
    /// The largest cached block in bytes. Larger ones justify the lock, and would keep too much memory from others.
    static constexpr std::size_t largest = std::size_t{64} * 1024;
    /// Credit in bytes granted when less is left, as a request may be slightly larger than the freed block.
    static constexpr std::size_t loan = 16 * block::granularity;

    /// Returns a cached block of that stream and size, held, or null if none exists or the credit is below `bytes`. Calls write(block)
    /// before a collector can access it; write must not enter a section.
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

    /// Caches the live block of that size at p, if it was requested with `bytes` and is bound to that stream. Returns false, without a
    /// change, if not, if the block is unknown here, or if the bin is full.
    [[nodiscard]] bool try_put(thread_slot& me, void const* p, std::uint64_t stream, std::size_t bytes,
                               std::size_t size) noexcept;

    // The functions below require the pool's lock.

    [[nodiscard]] bool is_open() const noexcept { return is_open_; }
    void open(thread_slot& me) noexcept;
    /// Owner: remembers a live block that it may free.
    void remember(block& b) noexcept { known_[place_of(b.at())] = &b; }
    /// Owner: caches a held block; evicts blocks of another stream or size in its bin by put_away(block). False if the bin is full.
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

    /// Owner: increases the credit.
    void lend(std::size_t bytes) noexcept { credit_ += bytes; }
    [[nodiscard]] std::size_t credit() const noexcept { return credit_; }

    /// Remaining credit, and blocks served.
    struct account {
        std::size_t credit;  ///< bytes
        std::size_t taken;   ///< blocks
    };
    /// Evicts all blocks. The owner must have left its section.
    template <class FlushBlock>
    account clear(FlushBlock flush_block) noexcept {
        for (bin& s : bins_) s.clear(flush_block);
        is_open_ = false;
        return {std::exchange(credit_, 0), std::exchange(taken_, 0)};
    }

private:
    // A bin: blocks of one stream and size, LIFO.
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
    std::size_t credit_ = 0;  // bytes counted as requested, beyond live blocks
    std::size_t taken_ = 0;   // since it was opened
    std::array<bin, 16> bins_{};
    std::array<block*, 64> known_{};  // owner: records by their last address
};

/// The thread caches of a pool. Threads that share one mostly use the lock.
class thread_caches {
public:
    [[nodiscard]] thread_cache& of(thread_slot const& who) noexcept { return all_[who.index % all_.size()]; }

    // The functions below require the pool's lock.

    /// The calling thread's cache, opened if biased_ownership::pays(); null if another thread owns it or after end().
    [[nodiscard]] thread_cache* open_for(thread_slot& me) noexcept;

    /// Revokes all caches and evicts their blocks. Returns the remaining credit in bytes.
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
    /// Blocks served by caches up to the last collect.
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
    auto const key = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(p)) / block::granularity;
    return static_cast<std::size_t>(key * 0x9e37'79b9'7f4a'7c15u >> 58);
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
