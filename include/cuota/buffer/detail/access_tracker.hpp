// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Tracks the uses of a buffer per stream and enqueues the waits between them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <cuota/buffer/detail/owner_access_slots.hpp>
#include <cuota/buffer/detail/stream_uses.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/process_state.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

/// The uses of one buffer: on its home stream, which orders them, and on other streams, which record an event when they end. Host memory
/// has no home. See docs/design/stream_order.md.
///
/// Threads: any; but a thread that writes, or destroys the buffer, does so while no other starts a use. Destroying a buffer while another
/// thread ends a lease is reported as misuse, and may leak this object.
class access_tracker {
public:
    /// Starts with a write by the home stream; the host waits for another thread's default stream. Throws: cuda_error.
    explicit access_tracker(stream_ref home);
    access_tracker() noexcept : streams_{false} {}
    struct in_capture {};
    explicit access_tracker(in_capture) noexcept : streams_{true} {}
    access_tracker(access_tracker const&) = delete;
    access_tracker& operator=(access_tracker const&) = delete;
    ~access_tracker();

    /// Starts a use on s and enqueues the waits it needs. Returns the number for `end`. On failure, no use has started.
    /// Throws: usage_error if a use on another stream is open and one of the two writes; cuda_error, std::bad_alloc.
    [[nodiscard]] std::uint64_t begin(stream_ref s, bool writes, source_location where);
    /// Ends a use. After the buffer's destruction, the last call deletes this.
    void end(std::uint64_t number, bool writes) noexcept;

    /// Returns whether a use on s needs no wait and the first slot is available.
    [[nodiscard]] bool may_begin_first(stream_ref s, bool writes) const noexcept;
    void begin_first(bool writes, source_location where) noexcept { slots_.begin_first(writes, where); }
    void end_first(bool writes) noexcept;

    /// Throws usage_error if a use (or, with to_write, a write) is open.
    void refuse_while_borrowed(char const* done, source_location where, bool to_write = false);

    /// Ends the buffer's uses: later work on the home stream is ordered after them. Open uses are misuse and are waited for. The host waits
    /// if the home stream is captured.
    [[gnu::noinline]] void end_at_home() noexcept {
        if (guard_.is_of_parent()) [[unlikely]]
            return;
        if (capture_scope::here()) [[unlikely]]
            report_failure_of([this] {
                if (capture_scope const* const scope = capture_of(streams_.home()))
                    ended_in_ = scope->number();
            });
        if (never_locked()) delete this;
        else
            end_all([home = streams_.home()](event const& last) {
                bool is_after = false;
                (void)report_failure_of([&] {
                    if (is_captured(home) || !home.is_reachable()) return;
                    order_after(home, last);
                    is_after = true;
                });
                if (!is_after) rt::drain(last);
            });
    }
    /// Waits on the host for all uses of host memory.
    void end_on_host() noexcept;

    /// Ends uses in a capture; deletes this now or with the last open use.
    void end_in_capture() noexcept;

    // --- for graphs, which keep this object and check at each launch whether the buffer exists ---

    void keep() noexcept;
    /// Like `end`, may delete this.
    void drop() noexcept;
    [[nodiscard]] bool has_ended() const noexcept { return has_ended_.load(std::memory_order_acquire); }
    /// The capture in which the buffer was destroyed: its graph owns the memory. 0: none.
    [[nodiscard]] std::uint64_t ended_in() const noexcept { return ended_in_; }

    /// Waits on the host for all writes and, unless for_writers_only, reads. Throws: cuda_error.
    void wait_on_host(bool for_writers_only);

private:
    // Skips foreign captures: their launches are unknown.
    static void wait_on_host_for(event const& e);

    static constexpr std::size_t at_home = stream_uses::at_home;
    using host_wait = stream_uses::host_wait;

    struct open_use {
        shared_stream stream;
        std::size_t user;
        bool writes;
        source_location where;
        std::uint64_t number;
    };

    // --- without the lock ---

    // True if one thread made all uses, in slots_, and none is open.
    [[nodiscard]] bool never_locked() const noexcept;
    [[gnu::noinline]] void end_among_others(std::uint64_t number, bool writes) noexcept {
        if (number <= owner_access_slots::count && !has_ended_.load(std::memory_order_relaxed))
            slots_.end(number, writes);
        else end_in_order(number, writes);
    }
    [[nodiscard, gnu::noinline]] std::uint64_t begin_among_others(stream_ref s, bool writes,
                                                                  source_location where) {
        if (s.is_same(streams_.home()))
            if (auto const number = slots_.try_begin(writes, where); number != 0) return number;
        return begin_in_order(s, writes, where);
    }

    [[nodiscard]] std::uint64_t begin_in_order(stream_ref s, bool writes, source_location where);

    void end_in_order(std::uint64_t number, bool writes) noexcept;

    // --- all that follows: under the lock ---

    [[nodiscard]] bool is_borrowed() const noexcept { return !uses_.empty() || !slots_.are_free(); }
    [[nodiscard]] bool is_unused() const noexcept { return keepers_ == 0 && !is_borrowed(); }

    // Accounts for uses that ended in slots_.
    void see_home() noexcept;
    [[nodiscard]] bool is_open(std::size_t u) const noexcept;

    void throw_on_conflict(std::size_t me, bool writes, source_location where) const;
    [[noreturn]] static void refuse(bool writes, source_location where, bool other_writes,
                                    source_location since);

    // Sets the uses that the owner may start without the lock.
    void publish() noexcept;

    // Waits for open uses, which are misuse. Returns whether any exist, and where the first began.
    [[nodiscard]] bool drain_open_uses(source_location& since) noexcept;

    struct ended_uses {
        stream_uses streams;
        bool are_last;
    };
    // From now on the end of an open use may delete this.
    [[nodiscard]] ended_uses take_uses() noexcept;

    // Calls `join` without the lock.
    template <class Join>
    void end_all(Join join) noexcept {
        if (guard_.is_of_parent()) [[unlikely]]
            return;
        source_location borrowed_at{};
        bool const was_borrowed = drain_open_uses(borrowed_at);
        ended_uses ended = take_uses();
        ended.streams.join_at_home(join);
        if (ended.are_last) delete this;
        else if (was_borrowed)
            report_failure_of([&] { throw_usage_error(borrowed_at, "buffer destroyed while it is leased"); });
    }

    void const* const state_ = process_state();
    owner_access_slots slots_;
    std::atomic<bool> was_locked_ = false;
    object_lock guard_;
    stream_uses streams_;
    dynamic_array<open_use> uses_;  // open uses outside of slots_
    std::uint64_t last_number_ = owner_access_slots::count;
    std::size_t keepers_ = 0;
    std::uint64_t ended_in_ = 0;
    std::atomic<bool> has_ended_ = false;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE access_tracker::access_tracker(stream_ref home) : streams_{home} {
    if (home.is_of_one_thread()) {
        was_locked_.store(true, std::memory_order_relaxed);
    } else {
        slots_.count_as_used();  // makes the first use as cheap as the second
        if (home.is_owned()) slots_.set_owner(this_thread());
    }
    publish();
}

CUOTA_INLINE access_tracker::~access_tracker() = default;

CUOTA_INLINE std::uint64_t access_tracker::begin(stream_ref s, bool writes, source_location where) {
    if (!may_begin_first(s, writes)) [[unlikely]]
        return begin_among_others(s, writes, where);
    begin_first(writes, where);
    return owner_access_slots::first_number(writes);
}

CUOTA_INLINE void access_tracker::end(std::uint64_t number, bool writes) noexcept {
    if (number == owner_access_slots::first_number(writes)) [[likely]]
        end_first(writes);
    else end_among_others(number, writes);
}

CUOTA_INLINE bool access_tracker::may_begin_first(stream_ref s, bool writes) const noexcept {
    return s.is_same(streams_.home()) && slots_.may_begin_first(writes);
}

CUOTA_INLINE void access_tracker::end_first(bool writes) noexcept {
    if (!slots_.try_end_first(writes)) [[unlikely]]
        end_among_others(owner_access_slots::first_number(writes), writes);
}

CUOTA_INLINE void access_tracker::refuse_while_borrowed(char const* done, source_location where,
                                                        bool to_write) {
    region_lock const lock{guard_};
    std::string const since = message("buffer: cannot {} while it is leased {}",
                                      {done, to_write ? "for writing since " : "since "});
    if (auto const open = slots_.open(); open && (!to_write || open->writes))
        throw_usage_error(where, "{}{}", {since, open->where});
    for (open_use const& use : uses_)
        if (!to_write || use.writes) throw_usage_error(where, "{}{}", {since, use.where});
}

CUOTA_INLINE void access_tracker::end_on_host() noexcept {
    end_all([](event const& last) { rt::drain(last); });
}

CUOTA_INLINE void access_tracker::end_in_capture() noexcept {
    end_all([](event const&) {});
}

CUOTA_INLINE void access_tracker::keep() noexcept {
    if (guard_.is_of_parent()) return;
    was_locked_.store(true, std::memory_order_relaxed);
    region_lock const lock{guard_};
    ++keepers_;
}

CUOTA_INLINE void access_tracker::drop() noexcept {
    if (guard_.is_of_parent()) return;
    bool is_last = false;
    {
        region_lock const lock{guard_};
        --keepers_;
        is_last = has_ended_ && is_unused();
    }
    if (is_last) delete this;
}

CUOTA_INLINE void access_tracker::wait_on_host_for(event const& e) {
    if (foreign_capture_of(e) == 0) e.synchronize();
}

CUOTA_INLINE void access_tracker::wait_on_host(bool for_writers_only) {
    for (host_wait next;;) {
        {
            region_lock const lock{guard_};
            streams_.note(next);
            next = streams_.next_to_wait_for(for_writers_only);
        }
        if (!next.last) return;
        wait_on_host_for(**next.last);
    }
}

CUOTA_INLINE bool access_tracker::drain_open_uses(source_location& since) noexcept {
    bool were_any = false;
    for (std::uint64_t last = 0;;) {
        std::optional<shared_stream> next;
        {
            region_lock const lock{guard_};
            open_use const* first = nullptr;
            for (open_use const& use : uses_)
                if (use.number > last && (!first || use.number < first->number)) first = &use;
            if (auto const at_home_since = slots_.open(); last == 0 && at_home_since) {
                since = at_home_since->where;
                next.emplace(streams_.home());
                last = owner_access_slots::count;
            } else if (first) {
                if (!were_any) since = first->where;
                next.emplace(first->stream);
                last = first->number;
            }
        }
        if (!next) return were_any;
        were_any = true;
        rt::drain(*next);
    }
}

CUOTA_INLINE bool access_tracker::never_locked() const noexcept {
    return slots_.are_free() && !was_locked_.load(std::memory_order_relaxed);
}

CUOTA_INLINE std::uint64_t access_tracker::begin_in_order(stream_ref s, bool writes, source_location where) {
    was_locked_.store(true, std::memory_order_relaxed);
    s.check_reachable(where);
    refuse_other_state(state_, "a buffer", where);
    std::uint64_t const id = s.id();
    for (host_wait before;;) {
        {
            region_lock const lock{guard_};
            streams_.note(before);
            std::size_t const me = streams_.find(id, [this](std::size_t user) { return is_open(user); });
            throw_on_conflict(me, writes, where);
            see_home();  // includes each use that it found ended
            uses_.reserve(uses_.size() + 1);
            before = streams_.order(s, me, writes);
            if (!before.last) {
                if (me == at_home && writes && streams_.home().is_owned() && !slots_.open())
                    slots_.set_owner(this_thread());
                publish();
                if (me == at_home)
                    if (auto const number = slots_.try_begin(writes, where); number != 0) return number;
                uses_.push_back({s, me, writes, where, ++last_number_});
                publish();
                return last_number_;
            }
        }
        (**before.last).synchronize();
    }
}

CUOTA_INLINE void access_tracker::end_in_order(std::uint64_t number, bool writes) noexcept {
    if (guard_.is_of_parent()) return;
    was_locked_.store(true, std::memory_order_relaxed);  // before the use ends
    std::exception_ptr unmarked;
    for (host_wait before;;) {
        std::optional<shared_stream> unordered;
        bool is_last = false;
        {
            region_lock const lock{guard_};
            if (number <= owner_access_slots::count) {
                slots_.end(number, writes);
            } else {
                auto* const use = uses_.find_if([&](open_use const& u) { return u.number == number; });
                if (has_ended_) {
                    before = {};
                } else if (unmarked) {  // waited for
                    if (use->writes) streams_.leave_completed_write();
                } else {
                    streams_.note(before);
                    try {
                        before = streams_.leave(use->user, use->stream, use->writes);
                    } catch (...) {
                        before = {};
                        unmarked = std::current_exception();
                        unordered.emplace(use->stream);
                    }
                }
                if (!before.last && !unordered) uses_.erase(use);
            }
            if (!before.last && !unordered) {
                if (has_ended_) is_last = is_unused();
                else publish();
            }
        }
        if (unordered) {
            rt::drain(*unordered);
        } else if (before.last) {
            if (!report_failure_of([&] { (**before.last).synchronize(); })) rt::drain(**before.last);
        } else {
            if (unmarked) report_failure_of([&] { std::rethrow_exception(unmarked); });
            if (is_last) delete this;
            return;
        }
    }
}

CUOTA_INLINE void access_tracker::see_home() noexcept {
    auto const done = slots_.take_done();
    if (done.read || done.written) streams_.leave_at_home(done.written);
}

CUOTA_INLINE bool access_tracker::is_open(std::size_t u) const noexcept {
    return uses_.find_if([&](open_use const& use) { return use.user == u; }) != uses_.end();
}

CUOTA_INLINE void access_tracker::throw_on_conflict(std::size_t me, bool writes,
                                                    source_location where) const {
    for (open_use const& other : uses_)
        if (other.user != me && (writes || other.writes)) refuse(writes, where, other.writes, other.where);
    if (me == at_home) return;
    auto const open = slots_.open();
    if (open && (writes || open->writes)) refuse(writes, where, open->writes, open->where);
}

CUOTA_INLINE void access_tracker::refuse(bool writes, source_location where, bool other_writes,
                                         source_location since) {
    throw_usage_error(
        where,
        "conflicting leases: {} requested here, but the buffer is leased for {} on another stream since {}",
        {writes ? "write" : "read", other_writes ? "writing" : "reading", since});
}

CUOTA_INLINE auto access_tracker::take_uses() noexcept -> ended_uses {
    region_lock const lock{guard_};
    slots_.set_owner(nullptr);
    has_ended_ = true;
    return {std::move(streams_), is_unused()};
}

CUOTA_INLINE void access_tracker::publish() noexcept {
    auto [reads, writes] = streams_.unordered_at_home();
    for (open_use const& use : uses_)
        if (use.user != at_home) (use.writes ? writes : reads) = true;
    slots_.allow(!writes, !writes && !reads);
}

}  // namespace cuota::inline v0::detail

#endif
