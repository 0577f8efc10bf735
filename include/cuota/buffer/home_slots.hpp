// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Uses of a buffer on its home stream, by one thread, without a lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/label.hpp>
#include <cuota/core/thread_record.hpp>

namespace cuota::inline v0::detail {

/// A few places for uses that are open, which one thread at a time, the owner, enters; and whether any have ended since
/// somebody looked. The home stream's own order is enough between them.
/// Threads: as each says; who has the lock is the one thread that has what they share.
class home_slots {
public:
    static constexpr std::uint64_t count = 5;

    struct use {
        bool writes;
        place where;
    };

    /// Any thread: the calling one is the owner, and may begin uses that read, or write.
    [[nodiscard]] bool may_begin(bool writes) const noexcept {
        return may_begin_[writes].load(std::memory_order_acquire) == this_thread_record();
    }
    /// The owner, which may begin: the first place is free, where most uses stand.
    [[nodiscard]] bool is_first_free() const noexcept { return slots_[0].is_free(); }
    /// Then: a use begins there. Returns its number, 1.
    [[nodiscard]] std::uint64_t begin_first(bool writes, place where) noexcept {
        slots_[0].set(where, writes);
        return 1;
    }
    /// Any thread: a use begins in any place, if the thread may and there is one. Returns its number, from 1; else 0.
    [[nodiscard]] std::uint64_t try_begin(bool writes, place where) noexcept {
        auto const free = std::ranges::find_if(slots_, &slot::is_free);
        if (free == slots_.end() || !may_begin(writes)) return 0;
        free->set(where, writes);
        return static_cast<std::uint64_t>(free - slots_.begin()) + 1;
    }
    /// Any thread: the use of that number is over. Touches nothing after it counts as free: then all may end.
    void end(std::uint64_t number, bool writes) noexcept {
        done_[writes].store(true, std::memory_order_relaxed);
        slots_[number - 1].clear();
    }
    /// Any thread: all places are free, and what was done there is known to the caller.
    [[nodiscard]] bool are_free() const noexcept { return std::ranges::all_of(slots_, &slot::is_free); }
    /// Any thread: one that is open; one that writes, if any does.
    [[nodiscard]] std::optional<use> open() const noexcept {
        std::optional<use> found;
        for (slot const& s : slots_) {
            auto const now = s.get();
            if (now && (now->writes || !found)) found = now;
        }
        return found;
    }

    // --- who has the lock ---

    /// Whether a use that read, or wrote, has ended since the last call.
    struct done {
        bool read, written;
    };
    [[nodiscard]] done take_done() noexcept {
        return {done_[false].exchange(false, std::memory_order_relaxed),
                done_[true].exchange(false, std::memory_order_relaxed)};
    }
    /// While nothing is open. Null: nobody is the owner.
    void belong_to(thread_record* who) noexcept { owner_ = who ? who : no_thread(); }
    /// What the owner may begin from now on.
    void allow(bool reads, bool writes) noexcept {
        may_begin_[false].store(reads ? owner_ : no_thread(), std::memory_order_release);
        may_begin_[true].store(writes ? owner_ : no_thread(), std::memory_order_release);
    }

private:
    // All may look.
    class slot {
    public:
        void set(place where, bool writes) noexcept {
            file_.store(where.file, std::memory_order_relaxed);
            line_and_state_.store(std::uint64_t{where.line} << 32 | (writes ? to_write : to_read),
                                  std::memory_order_release);
        }
        void clear() noexcept { line_and_state_.store(0, std::memory_order_release); }
        [[nodiscard]] bool is_free() const noexcept {
            return line_and_state_.load(std::memory_order_acquire) == 0;
        }
        [[nodiscard]] std::optional<use> get() const noexcept {
            std::uint64_t const now =
                line_and_state_.load(std::memory_order_acquire);  // once: the owner may go on
            if (now == 0) return std::nullopt;
            return use{(now & 3) == to_write,
                       {file_.load(std::memory_order_relaxed), static_cast<unsigned>(now >> 32)}};
        }

    private:
        static constexpr std::uint64_t to_read = 1, to_write = 2;

        std::atomic<char const*> file_ = "";
        std::atomic<std::uint64_t> line_and_state_ = 0;  // the state in the lower half; 0 as a whole: free
    };

    // Whom no thread is.
    [[nodiscard]] static thread_record* no_thread() noexcept {
        alignas(thread_record) static std::byte nothing{};
        return reinterpret_cast<thread_record*>(&nothing);
    }

    std::array<std::atomic<thread_record const*>, 2> may_begin_{no_thread(),
                                                                no_thread()};  // to read, to write
    std::array<std::atomic<bool>, 2> done_{};
    std::array<slot, count> slots_{};
    thread_record* owner_ = no_thread();
};

}  // namespace cuota::inline v0::detail
