// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What one thread holds ready of a pool: blocks it gave back and may take again, without asking anybody.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/thread_tenure.hpp>
#include <cuota/pool/block.hpp>

namespace cuota::inline v0::detail {

/// Small blocks of one pool that are set apart for one thread, its owner. To the pool they are neither free nor live.
/// With them goes a credit of bytes: what was asked for when they were given back, and may be asked for again. To the pool
/// that is still asked for, so nothing that a front does makes a peak.
///
/// Owner:     try_take, try_put, on its own thread, without a lock.
/// Collector: everything else, under the pool's lock.
class alignas(64) front : public thread_tenure {
public:
    /// The largest blocks it takes. Larger ones are worth a lock, and too much to keep from others. Bytes.
    static constexpr std::size_t largest = std::size_t{64} * 1024;
    /// What it is lent when it has less: its owner may ask for more than he gave back, and most differ by little. Bytes.
    static constexpr std::size_t loan = 16 * block::granule;

    /// A block of that size that was given back in order of that stream, for `bytes` of it; held, and the caller's. Null
    /// when there is none, or no credit for so many bytes. write(block) comes before anybody who calls in can look at it;
    /// it enters no section itself.
    template <class Write>
    [[nodiscard]] block* try_take(thread_record& me, std::uint64_t stream, std::size_t bytes,
                                  std::size_t size, Write write) noexcept {
        section const here{me};
        if (!is_mine(me)) return nullptr;
        shelf& s = shelf_for(stream, size);
        if (!s.first || !s.is_for(stream, size) || bytes > credit_) return nullptr;
        --s.count;
        ++taken_;
        credit_ -= bytes;
        block* const b = std::exchange(s.first, s.first->left);
        write(*b);
        return b;
    }

    /// Takes in the live block of that size at p, for `bytes` of which its own stream was given back; false when that is
    /// not so, or not known here, or there is no room: then nothing has changed.
    [[nodiscard]] bool try_put(thread_record& me, void const* p, std::uint64_t stream, std::size_t bytes,
                               std::size_t size) noexcept;

    // Under the pool's lock from here on.

    [[nodiscard]] bool is_open() const noexcept { return is_open_; }
    void open(thread_record& me) noexcept;
    /// By its owner: a live block that he will perhaps give back himself.
    void remember(block& b) noexcept { known_[place_of(b.at())] = &b; }
    /// By its owner: takes in a block that is held. What stands in its way, because the owner has come to use others, is
    /// put away by put_away(block). False when there is no room.
    template <class PutAway>
    [[nodiscard]] bool put(block& b, PutAway put_away) noexcept {
        std::uint64_t const stream = b.note->stream;
        shelf& s = shelf_for(stream, b.size);
        if (!s.is_for(stream, b.size)) s.clear(put_away);
        if (!s.has_room_for(stream, b.size)) return false;
        remember(b);
        credit_ += b.requested;
        s.put(b, stream, b.size);
        return true;
    }

    /// By its owner: he may ask for so many bytes more.
    void lend(std::size_t bytes) noexcept { credit_ += bytes; }
    [[nodiscard]] std::size_t credit() const noexcept { return credit_; }

    /// What its owner did not use, and what he did.
    struct account {
        std::size_t credit;  ///< bytes
        std::size_t taken;   ///< blocks
    };
    /// After its owner's section has ended: puts away all there is.
    template <class PutAway>
    account clear(PutAway put_away) noexcept {
        for (shelf& s : shelves_) s.clear(put_away);
        is_open_ = false;
        return {std::exchange(credit_, 0), std::exchange(taken_, 0)};
    }

private:
    // Blocks of one stream and one size; the last one in is the first one out.
    struct shelf {
        static constexpr std::uint32_t most = 8;

        std::uint64_t stream = block_note::no_stream;
        std::size_t size = 0;
        block* first = nullptr;
        std::uint32_t count = 0;

        [[nodiscard]] bool is_for(std::uint64_t its_stream, std::size_t its_size) const noexcept;
        [[nodiscard]] bool has_room_for(std::uint64_t its_stream, std::size_t its_size) const noexcept;
        void put(block& b, std::uint64_t its_stream, std::size_t its_size) noexcept;
        template <class PutAway>
        void clear(PutAway& put_away) noexcept {
            while (first) {
                block& b = *std::exchange(first, first->left);
                b.requested = 0;
                put_away(b);
            }
            count = 0;
        }
    };

    [[nodiscard]] shelf& shelf_for(std::uint64_t stream, std::size_t size) noexcept;
    [[nodiscard]] static std::size_t place_of(void const* p) noexcept;

    bool is_open_ = false;
    std::size_t credit_ = 0;  // of bytes that count as asked for, those that are not
    std::size_t taken_ = 0;   // blocks, since it was opened
    std::array<shelf, 16> shelves_{};
    std::array<block*, 64> known_{};  // its owner's: records by the address they had when he saw them last
};

/// The fronts of one pool, a fixed number of them; threads beyond that share, and mostly go by the lock.
class fronts {
public:
    [[nodiscard]] front& of(thread_record const& who) noexcept { return all_[who.index % all_.size()]; }

    // Under the pool's lock from here on.

    /// The calling thread's own, opened if that pays; null when it is another's now, or there shall be none.
    [[nodiscard]] front* open_for(thread_record& me) noexcept;

    /// Closes them, and puts away all that threads held ready. Returns the credit they had left. Bytes.
    template <class PutAway>
    [[nodiscard]] std::size_t collect(PutAway put_away) noexcept {
        if (open_ == 0) return 0;
        thread_record const* const me = this_thread_record();
        bool others = false;
        for (front& f : all_) {
            if (!f.is_open()) continue;
            f.close();
            others |= f.holder() != me;
        }
        if (others && fences_are_asymmetric()) heavy_fence();
        std::size_t credit = 0;
        for (front& f : all_) {
            if (!f.is_open()) continue;
            if (f.holder() != me) {
                see_section_end(*f.holder());
                f.note_collected();
            }
            front::account const left = f.clear(put_away);
            credit += left.credit;
            taken_ += left.taken;
        }
        open_ = 0;
        return credit;
    }
    /// How many blocks threads took of their fronts, up to the last collect.
    [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
    /// None is opened any more, until they go on.
    void end() noexcept { ended_ = true; }
    void go_on() noexcept { ended_ = false; }

private:
    std::array<front, 16> all_;
    std::size_t open_ = 0;
    std::size_t taken_ = 0;
    bool ended_ = false;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE bool front::try_put(thread_record& me, void const* p, std::uint64_t stream, std::size_t bytes,
                                 std::size_t size) noexcept {
    section const here{me};
    if (!is_mine(me)) return false;
    shelf& s = shelf_for(stream, size);
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

CUOTA_INLINE void front::open(thread_record& me) noexcept {
    is_open_ = true;
    begin_tenure(me);
}

CUOTA_INLINE bool front::shelf::is_for(std::uint64_t its_stream, std::size_t its_size) const noexcept {
    return stream == its_stream && size == its_size;
}

CUOTA_INLINE bool front::shelf::has_room_for(std::uint64_t its_stream, std::size_t its_size) const noexcept {
    return count == 0 || (count != most && is_for(its_stream, its_size));
}

CUOTA_INLINE void front::shelf::put(block& b, std::uint64_t its_stream, std::size_t its_size) noexcept {
    if (!is_for(its_stream, its_size)) {
        stream = its_stream;
        size = its_size;
    }
    b.left = std::exchange(first, &b);
    ++count;
}

CUOTA_INLINE auto front::shelf_for(std::uint64_t stream, std::size_t size) noexcept -> shelf& {
    std::uint64_t const mixed = (stream * 31 + size / block::granule) * 0x9e37'79b9'7f4a'7c15u;
    return shelves_[mixed >> 60];
}

CUOTA_INLINE std::size_t front::place_of(void const* p) noexcept {
    auto const key = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(p)) / block::granule;
    return static_cast<std::size_t>(key * 0x9e37'79b9'7f4a'7c15u >> 58);
}

CUOTA_INLINE front* fronts::open_for(thread_record& me) noexcept {
    front& mine = of(me);
    if (mine.is_of(me)) return &mine;
    if (ended_ || mine.is_open() || !mine.pays()) return nullptr;
    mine.open(me);
    ++open_;
    return &mine;
}

}  // namespace cuota::inline v0::detail

#endif
