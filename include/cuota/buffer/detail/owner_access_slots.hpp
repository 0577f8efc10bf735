// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Lock-free path for leases on the home stream.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// Slots for `count` open leases on the home stream, used by one owner thread at a time. A lease starts with one comparison and ends with
/// one store. See docs/design/stream_order.md. Threads: any, unless stated.
class owner_access_slots {
public:
    static constexpr std::uint64_t count = 5;

    struct use {
        bool writes;
        source_location where;
    };

    /// Returns whether the caller is the owner, may start such a use, and the first slot for its kind is free and marked as used.
    [[nodiscard]] bool may_begin_first(bool writes) const noexcept;
    void begin_first(bool writes, source_location where) noexcept { slots_[writes].set(where, writes); }
    [[nodiscard]] static constexpr std::uint64_t first_number(bool writes) noexcept { return writes ? 2 : 1; }
    /// Ends the use there. Returns false if no owner exists. Does not access this object after the slot is free: it may be destroyed.
    [[nodiscard]] bool try_end_first(bool writes) noexcept;

    /// Starts a use in any free slot and returns its number, from 1; 0 if the caller is not the owner, the kind is not allowed or no slot
    /// is free.
    [[nodiscard]] std::uint64_t try_begin(bool writes, source_location where) noexcept;
    /// Does not access this object afterwards.
    void end(std::uint64_t number, bool writes) noexcept;
    /// Returns whether all slots are free, and the effects of their uses visible.
    [[nodiscard]] bool are_free() const noexcept;
    /// Returns an open use, preferably a write.
    [[nodiscard]] std::optional<use> open() const noexcept;

    // --- under the lock ---

    struct done {
        bool read, written;
    };
    [[nodiscard]] done take_done() noexcept;
    /// Requires that no owner exists.
    void count_as_used() noexcept;
    /// Sets the owner or null. Requires that no use is open, or null and a destroyed buffer.
    void set_owner(thread_slot* who) noexcept { owner_.store(who, std::memory_order_relaxed); }
    /// Sets the kinds that the owner may start; no other kind is open.
    void allow(bool reads, bool writes) noexcept;

private:
    // A word is the (aligned) thread_slot of the thread that may use the slot, or no_thread(); while a use is open, its line and kind.
    // `unused`: no use has ended since take_used().
    class slot {
    public:
        void set(source_location where, bool writes) noexcept { set(where, writes, 0); }
        void set_first_use(source_location where, bool writes) noexcept { set(where, writes, unused); }
        void free_for(thread_slot const* who) noexcept;
        void free_for_if_free(thread_slot const* who) noexcept;
        [[nodiscard]] bool is_free_for(thread_slot const* who) const noexcept;
        [[nodiscard]] bool is_free_and_unused_for(thread_slot const* who) const noexcept;
        [[nodiscard]] bool take_used() noexcept;
        [[nodiscard]] std::optional<use> get() const noexcept;

    private:
        static constexpr std::uint64_t to_read = 1, to_write = 2, states = 3, unused = 4;
        void set(source_location where, bool writes, std::uint64_t also) noexcept;
        [[nodiscard]] static std::uint64_t word_of(thread_slot const* who) noexcept;
        std::atomic<char const*> file_ = "";
        std::atomic<std::uint64_t> word_ = word_of(no_thread()) | unused;
    };

    // A record of no thread, not even of one without a record.
    [[nodiscard]] static thread_slot const* no_thread() noexcept;

    std::atomic<thread_slot const*> owner_ = nullptr;
    std::array<std::atomic<bool>, 2> done_{};  // [reads, writes] not in the first slots
    std::array<slot, count> slots_{};          // [0] for reads, [1] for writes, others for both
    std::array<std::atomic<thread_slot const*>, 2> may_begin_{no_thread(), no_thread()};  // [reads, writes]
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE bool owner_access_slots::may_begin_first(bool writes) const noexcept {
    return slots_[writes].is_free_for(this_thread_slot());
}

CUOTA_INLINE bool owner_access_slots::try_end_first(bool writes) noexcept {
    thread_slot const* const owner = owner_.load(std::memory_order_relaxed);
    if (!owner) [[unlikely]]
        return false;
    slots_[writes].free_for(owner);
    return true;
}

CUOTA_INLINE std::uint64_t owner_access_slots::try_begin(bool writes, source_location where) noexcept {
    if (may_begin_first(writes)) {
        begin_first(writes, where);
        return first_number(writes);
    }
    if (slots_[writes].is_free_and_unused_for(this_thread_slot())) {
        slots_[writes].set_first_use(where, writes);
        return first_number(writes);
    }
    if (may_begin_[writes].load(std::memory_order_acquire) != this_thread_slot()) return 0;
    auto const free = std::find_if(slots_.begin() + 2, slots_.end(), [](slot const& s) { return !s.get(); });
    if (free == slots_.end()) return 0;
    free->set(where, writes);
    return static_cast<std::uint64_t>(free - slots_.begin()) + 1;
}

CUOTA_INLINE void owner_access_slots::end(std::uint64_t number, bool writes) noexcept {
    if (number != first_number(writes)) done_[writes].store(true, std::memory_order_relaxed);
    thread_slot const* const owner = owner_.load(std::memory_order_relaxed);
    slots_[number - 1].free_for(owner ? owner : no_thread());
}

CUOTA_INLINE bool owner_access_slots::are_free() const noexcept {
    for (slot const& s : slots_)
        if (s.get().has_value()) return false;
    return true;
}

CUOTA_INLINE auto owner_access_slots::open() const noexcept -> std::optional<use> {
    std::optional<use> found;
    for (slot const& s : slots_) {
        auto const now = s.get();
        if (now && (now->writes || !found)) found = now;
    }
    return found;
}

CUOTA_INLINE auto owner_access_slots::take_done() noexcept -> done {
    auto const take = [this](bool writes) {
        bool const elsewhere = done_[writes].exchange(false, std::memory_order_relaxed);
        return slots_[writes].take_used() || elsewhere;
    };
    return {take(false), take(true)};
}

CUOTA_INLINE void owner_access_slots::count_as_used() noexcept {
    for (bool const writes : {false, true}) slots_[writes].free_for(no_thread());
}

CUOTA_INLINE void owner_access_slots::allow(bool reads, bool writes) noexcept {
    thread_slot const* const owner = owner_.load(std::memory_order_relaxed);
    for (bool const kind : {false, true}) {
        thread_slot const* const who = (kind ? writes : reads) && owner ? owner : no_thread();
        may_begin_[kind].store(who, std::memory_order_release);
        slots_[kind].free_for_if_free(who);
    }
}

CUOTA_INLINE void owner_access_slots::slot::free_for(thread_slot const* who) noexcept {
    word_.store(word_of(who), std::memory_order_release);
}

CUOTA_INLINE void owner_access_slots::slot::free_for_if_free(thread_slot const* who) noexcept {
    std::uint64_t now = word_.load(std::memory_order_relaxed);
    while ((now & states) == 0 &&
           !word_.compare_exchange_weak(now, word_of(who) | (now & unused), std::memory_order_acq_rel)) {}
}

CUOTA_INLINE bool owner_access_slots::slot::is_free_for(thread_slot const* who) const noexcept {
    return word_.load(std::memory_order_acquire) == word_of(who);
}

CUOTA_INLINE bool owner_access_slots::slot::is_free_and_unused_for(thread_slot const* who) const noexcept {
    return word_.load(std::memory_order_acquire) == (word_of(who) | unused);
}

CUOTA_INLINE bool owner_access_slots::slot::take_used() noexcept {
    std::uint64_t now = word_.load(std::memory_order_acquire);
    while ((now & unused) == 0)
        if (word_.compare_exchange_weak(now, now | unused, std::memory_order_acq_rel)) return true;
    return false;
}

CUOTA_INLINE auto owner_access_slots::slot::get() const noexcept -> std::optional<use> {
    std::uint64_t const now = word_.load(std::memory_order_acquire);  // loaded once: the owner may change it
    if ((now & states) == 0) return std::nullopt;
    return use{(now & states) == to_write,
               {file_.load(std::memory_order_relaxed), static_cast<unsigned>(now >> 32)}};
}

CUOTA_INLINE void owner_access_slots::slot::set(source_location where, bool writes,
                                                std::uint64_t also) noexcept {
    file_.store(where.file, std::memory_order_relaxed);
    word_.store(std::uint64_t{where.line} << 32 | also | (writes ? to_write : to_read),
                std::memory_order_release);
}

CUOTA_INLINE std::uint64_t owner_access_slots::slot::word_of(thread_slot const* who) noexcept {
    return reinterpret_cast<std::uintptr_t>(who);
}

CUOTA_INLINE thread_slot const* owner_access_slots::no_thread() noexcept {
    alignas(thread_slot) static constexpr std::byte nothing{};
    return reinterpret_cast<thread_slot const*>(&nothing);
}

}  // namespace cuota::inline v0::detail

#endif
