// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Table of live allocations for concurrent use.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/leak_summary.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/detail/threads/biased_lock.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/live_map.hpp>

namespace cuota::inline v0::detail {

/// Records blocks by address. Each thread has its own part, which needs no lock while it frees its blocks itself. Reports live blocks at
/// destruction or program exit. Threads: any.
class tracker {
    struct part;

public:
    /// `what`, such as "tracked memory", and `name` begin all messages.
    tracker(char const* what, tag name) : what_{what}, name_{name} { registry::instance().enter(*this); }
    tracker(tracker const&) = delete;
    tracker& operator=(tracker const&) = delete;
    ~tracker();

    /// A reserved record, released unless used.
    class [[nodiscard]] reservation {
    public:
        reservation(reservation const&) = delete;
        reservation& operator=(reservation const&) = delete;
        ~reservation();
        /// Assigns the number: the block is live from here on.
        void enter(live_record& r) noexcept;

    private:
        friend class tracker;
        explicit reservation(part& in) noexcept : in_{&in} {}
        part* in_;
    };

    /// Throws: std::bad_alloc; usage_error after close.
    reservation reserve(source_location where);

    /// Removes a record of this thread's part.
    [[nodiscard]] bool try_take_out(void* p, std::size_t bytes) noexcept;
    /// Throws: usage_error if no block has this address and size; std::bad_alloc.
    [[nodiscard]] live_record take_out(void* p, std::size_t bytes);

    /// Runs f() while no block can be added or removed, one call at a time.
    template <class F>
    void at_rest(F f) const {
        at_rest_from(0, f);
    }
    /// Requires at_rest.
    template <class Visit>
    void for_each(Visit visit) const {
        for (part const& in : parts_) in.blocks.for_each(visit);
    }
    /// Requires at_rest. Live blocks have smaller numbers, later ones do not.
    [[nodiscard]] std::uint64_t next_number() const noexcept { return parts_[0].next; }

    /// Throws: std::bad_alloc.
    template <class Which>
    [[nodiscard]] leak_summary survivors_of(Which is_meant) const {
        leak_summary alive;
        at_rest([&] {
            for_each([&](live_record const& r) {
                if (is_meant(r)) alive.add(r.name, r.where, r.bytes);
            });
        });
        return alive;
    }

    /// Refuses later reservations. Throws: usage_error that names the live blocks; nothing is changed.
    void close(source_location where);

    [[nodiscard]] std::string title() const;

private:
    struct alignas(64) part {
        mutable biased_lock lock;
        live_map blocks;
        // Parts count without synchronization; at_rest levels the counters.
        std::uint64_t next = 1;
        bool is_closed = false;
    };

    // All trackers, for program exit: memory of a forgotten owner keeps its tracker alive.
    struct registry {
        process_lock guard;
        tracker* first = nullptr;

        CUOTA_PROCESS_STATE [[nodiscard]] static registry& instance();
        void enter(tracker& t) noexcept;
        void leave(tracker& t) noexcept;
        void tell() noexcept;
    };

    [[nodiscard]] std::size_t own_part() const noexcept;
    template <class F>
    void at_rest_from(std::size_t first, F& f) const {
        if (first == parts_.size()) {
            std::uint64_t next = 0;
            for (part const& in : parts_) next = std::max(next, in.next);
            for (part& in : parts_) in.next = next;
            return f();
        }
        parts_[first].lock.run_alone([&] { at_rest_from(first + 1, f); });
    }

    void throw_if_alive(char const* what, source_location where) const;
    void throw_for(leak_summary const& alive, char const* what, source_location where) const;

    [[noreturn, gnu::cold]] void refuse(void const* p, std::size_t bytes, live_record const& known) const;
    [[nodiscard]] static std::size_t offset_in(live_record const& r, void const* p) noexcept;
    [[nodiscard]] static std::string line_of(live_record const& r);

    char const* const what_;
    tag const name_;
    mutable std::array<part, 16> parts_{};
    std::atomic<unsigned> used_ = 0;  // bit set of parts that were ever used
    bool was_told_ = false;           // reported at program exit
    tracker* before_ = nullptr;
    tracker* after_ = nullptr;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE tracker::~tracker() {
    registry::instance().leave(*this);
    if (was_told_) return;
    report_failure_of([this] { throw_if_alive(" destroyed", {}); });
}

CUOTA_INLINE tracker::reservation::~reservation() {
    if (in_) in_->lock.run([this] { in_->blocks.cancel(); });
}

CUOTA_INLINE void tracker::reservation::enter(live_record& r) noexcept {
    part& in = *std::exchange(in_, nullptr);
    in.lock.run([&] {
        r.number = in.next++;
        in.blocks.insert(r);
    });
}

CUOTA_INLINE auto tracker::reserve(source_location where) -> reservation {
    std::size_t const i = own_part();
    part& mine = parts_[i];
    if (unsigned const bit = 1U << i; (used_.load(std::memory_order_relaxed) & bit) == 0) used_ |= bit;
    enum class answer { reserved, full, closed };
    auto const found = mine.lock.run([&] {
        if (mine.is_closed) return answer::closed;
        return mine.blocks.try_reserve() ? answer::reserved : answer::full;
    });
    if (found == answer::closed) throw_usage_error(where, "{}: allocation after close()", {title()});
    if (found == answer::full) mine.lock.run_alone([&] { mine.blocks.reserve(); });
    return reservation{mine};
}

CUOTA_INLINE bool tracker::try_take_out(void* p, std::size_t bytes) noexcept {
    part& mine = parts_[own_part()];
    return mine.lock.run([&] {
        live_record* const found = mine.blocks.find(p);
        if (!found || found->bytes != bytes) return false;
        mine.blocks.erase(*found);
        return true;
    });
}

CUOTA_INLINE live_record tracker::take_out(void* p, std::size_t bytes) {
    live_record known;
    unsigned const used = used_.load(std::memory_order_relaxed);
    std::size_t const own = own_part();
    for (std::size_t i = 0; i != parts_.size(); ++i) {
        std::size_t const at = (own + i) % parts_.size();
        if ((used & 1U << at) == 0) continue;
        part& in = parts_[at];
        in.lock.run([&] {
            live_record* const found = in.blocks.find(p);
            if (!found) return;
            known = *found;
            if (known.bytes == bytes) in.blocks.erase(*found);
        });
        if (known.at) break;
    }
    if (!known.at || known.bytes != bytes) [[unlikely]]
        refuse(p, bytes, known);
    return known;
}

CUOTA_INLINE void tracker::close(source_location where) {
    leak_summary alive;
    at_rest([&] {
        for_each([&](live_record const& r) { alive.add(r.name, r.where, r.bytes); });
        if (alive.count() != 0) return;
        for (part& in : parts_) in.is_closed = true;
    });
    throw_for(alive, ": cannot close", where);
}

CUOTA_INLINE std::string tracker::title() const {
    return name_.is_empty() ? what_ : std::string{what_} + ' ' + name_.text();
}

CUOTA_INLINE_STATE auto tracker::registry::instance() -> registry& {
    static registry& all = *new registry;  // never destroyed: static objects leave it during exit
    // In a forked child, all live memory belongs to the parent process.
    static child_hook& hook = *new child_hook{[](child_hook&) noexcept { all.first = nullptr; }};
    (void)hook;
    struct at_program_end {
        ~at_program_end() { all.tell(); }
    };
    static at_program_end const end;
    (void)end;
    return all;
}

CUOTA_INLINE void tracker::registry::enter(tracker& t) noexcept {
    region_lock const lock{guard};
    t.after_ = first;
    if (first) first->before_ = &t;
    first = &t;
}

CUOTA_INLINE void tracker::registry::leave(tracker& t) noexcept {
    region_lock const lock{guard};
    (t.before_ ? t.before_->after_ : first) = t.after_;
    if (t.after_) t.after_->before_ = t.before_;
}

CUOTA_INLINE void tracker::registry::tell() noexcept {
    std::vector<usage_error> found;
    report_failure_of([&] {
        region_lock const lock{guard};
        for (tracker* t = first; t; t = t->after_) try {
                t->throw_if_alive(": not destroyed at program exit", {});
            } catch (usage_error const& alive) {
                found.push_back(alive);
                t->was_told_ = true;
            }
    });
    for (usage_error const& alive : found) report_error(alive);
}

CUOTA_INLINE std::size_t tracker::own_part() const noexcept {
    thread_slot const* const me = this_thread();
    return me ? me->index % parts_.size() : 0;
}

CUOTA_INLINE void tracker::throw_if_alive(char const* what, source_location where) const {
    throw_for(survivors_of([](live_record const&) { return true; }), what, where);
}

CUOTA_INLINE void tracker::throw_for(leak_summary const& alive, char const* what,
                                     source_location where) const {
    if (alive.count() != 0) throw_usage_error(where, "{}{} while {}", {title(), what, alive.text()});
}

[[gnu::noinline]] CUOTA_INLINE void tracker::refuse(void const* p, std::size_t bytes,
                                                    live_record const& known) const {
    if (known.at)
        throw_usage_error(
            known.where, "{}: deallocate with the wrong size: {} {}, allocated {}: {}",
            {title(), as_count(bytes), unit_of(bytes, "bytes"), as_count(known.bytes), line_of(known)});
    live_record gone;
    live_record around;
    at_rest([&] {
        for (part const& in : parts_) {
            in.blocks.for_each_gone([&](live_record const& r) {
                if (r.at == p && r.number >= gone.number) gone = r;
            });
            in.blocks.for_each([&](live_record const& r) {
                if (offset_in(r, p) < r.bytes) around = r;
            });
        }
    });
    if (around.at)
        throw_usage_error(around.where, "{}: deallocate of an interior pointer, {} {} inside {}",
                          {title(), as_count(offset_in(around, p)), unit_of(offset_in(around, p), "bytes"),
                           line_of(around)});
    if (gone.at) throw_usage_error(gone.where, "{}: double free: {}", {title(), line_of(gone)});
    throw_usage_error(
        "{}: deallocate of an unknown pointer, {} {} (freed long before, or allocated elsewhere)",
        {title(), as_count(bytes), unit_of(bytes, "bytes")});
}

CUOTA_INLINE std::size_t tracker::offset_in(live_record const& r, void const* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(r.at);
}

CUOTA_INLINE std::string tracker::line_of(live_record const& r) {
    return leak_summary::line_of(r.name, {}, r.bytes);
}

}  // namespace cuota::inline v0::detail

#endif
