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
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/process_state.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
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
    access_tracker() noexcept : home_{cudaStream_t{}} {}
    struct in_capture {};
    explicit access_tracker(in_capture) noexcept : access_tracker{} { is_for_capture_ = true; }
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
                if (capture_scope const* const scope = capture_of(home_)) ended_in_ = scope->number();
            });
        if (never_locked()) delete this;
        else
            end_all([home = home_](event const& last) {
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

    static constexpr std::size_t at_home = 0;  // unused for host memory
    static constexpr std::size_t no_user = ~std::size_t{0};

    // An event with an owner count, to be waited for without the lock.
    class use_mark final : public ref_counted {
    public:
        [[nodiscard]] event const& operator*() const noexcept { return *event_; }
        void record(stream_ref s, std::uint64_t foreign) {
            if (event_) event_->record_in(s, foreign);
            else event_.emplace(s);
        }

    private:
        struct recordable final : event {
            using event::event;
            using event::record_in;
        };
        std::optional<recordable> event_;
    };
    // A stream by its id, as it may be destroyed; `last` follows its last use.
    struct user {
        std::uint64_t id = ~std::uint64_t{0};
        intrusive_ptr<use_mark> last{};
        std::uint64_t record = 0;  // of that event's last record, from 1
        std::uint64_t seen = 0;    // last write that it is ordered after
        bool reads = false;        // since the last write
    };
    // A stream's last use, for which the host has to wait; none if `last` is null.
    struct host_wait {
        intrusive_ptr<use_mark> last{};
        std::size_t user = no_user;
        std::uint64_t record = 0;
    };
    class user_list {
    public:
        [[nodiscard]] std::size_t size() const noexcept { return 1 + others_.size(); }
        [[nodiscard]] user& operator[](std::size_t i) noexcept { return i == 0 ? home_ : others_[i - 1]; }
        [[nodiscard]] user const& operator[](std::size_t i) const noexcept;
        void add() { others_.emplace_back(); }

    private:
        user home_;
        dynamic_array<user> others_;
    };
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
        if (s.is_same(home_))
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
    // Records an event on the home stream unless `capture` captures it.
    [[nodiscard]] bool mark_home(std::uint64_t foreign);
    void record(user& u, stream_ref s, std::uint64_t foreign);
    void leave_at_home(bool written) noexcept;
    // Records the use's work, or returns what the host has to wait for before.
    [[nodiscard]] host_wait leave(open_use const& use);
    // Returns the earlier use by a stream that is now in a foreign capture, if it must be waited for: the stream's event will represent
    // work of a graph.
    [[nodiscard]] host_wait before_capture(std::size_t u, std::uint64_t foreign) const noexcept;
    [[nodiscard]] host_wait next_to_wait_for(bool for_writers_only) const noexcept;
    [[nodiscard]] host_wait wait_of(std::size_t u) const noexcept {
        return {users_[u].last, u, users_[u].record};
    }
    // Forgets a use for which the host has waited, unless the stream had another one meanwhile.
    void note(host_wait const& over) noexcept;
    // The use's stream is captured: earlier work has completed.
    void leave_for_capture(open_use const& use) noexcept;
    // Records a write that is ordered after all earlier uses.
    void set_written(std::size_t by) noexcept;

    // Returns a stream's index. Reuses a closed entry that has no reads since the last write and is not ordered after it.
    [[nodiscard]] std::size_t find(std::uint64_t id);
    [[nodiscard]] bool is_open(std::size_t u) const noexcept;

    void throw_on_conflict(std::size_t me, bool writes, source_location where) const;
    [[noreturn]] static void refuse(bool writes, source_location where, bool other_writes,
                                    source_location since);

    // Makes s wait for reads first, which implies the write before them. Returns what the host has to wait for before the next call.
    // Throws: cuda_error; enqueued waits stay recorded.
    [[nodiscard]] host_wait order(stream_ref s, std::size_t me, bool writes);
    // Returns false if the host has to wait.
    [[nodiscard]] bool try_wait_for(std::size_t of, stream_ref s);

    // Sets the uses that the owner may start without the lock.
    void publish() noexcept;

    // Waits for open uses, which are misuse. Returns whether any exist, and where the first began.
    [[nodiscard]] bool drain_open_uses(source_location& since) noexcept;

    // `join` is called without the lock.
    template <class Join>
    void end_all(Join join) noexcept {
        if (guard_.is_of_parent()) [[unlikely]]
            return;
        source_location borrowed_at{};
        bool const was_borrowed = drain_open_uses(borrowed_at);
        bool is_last = false;
        user_list users;
        std::uint64_t version = 0;
        std::size_t writer = no_user;
        bool is_home_marked = false;
        stream_ref const home = home_;
        {
            region_lock const lock{guard_};
            is_last = is_unused();
            users = std::move(users_);
            version = version_;
            writer = writer_;
            is_home_marked = is_home_marked_;
            slots_.set_owner(nullptr);
            has_ended_ = true;  // now the end of an open use may delete this
        }
        if (!home.is_reachable() && is_home_marked) (void)rt::drain(**users[at_home].last);
        for (std::size_t i = at_home + 1; i != users.size(); ++i)
            if (users[i].reads || (i == writer && users[at_home].seen != version)) join(**users[i].last);
        if (is_last) delete this;
        else if (was_borrowed)
            report_failure_of([&] { throw_usage_error(borrowed_at, "buffer destroyed while it is leased"); });
    }

    stream_ref const home_;  // kept alive by the buffer
    void const* const state_ = process_state();

    owner_access_slots slots_;
    std::atomic<bool> was_locked_ = false;

    object_lock guard_;
    user_list users_;
    dynamic_array<open_use> uses_;  // open uses outside of slots_
    std::uint64_t last_number_ = owner_access_slots::count;
    std::uint64_t version_ = 0;  // number of writes so far
    std::uint64_t records_ = 0;
    std::size_t writer_ = no_user;
    bool is_home_marked_ = false;
    bool is_for_capture_ = false;
    std::size_t keepers_ = 0;
    std::uint64_t ended_in_ = 0;
    std::atomic<bool> has_ended_ = false;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE access_tracker::access_tracker(stream_ref home) : home_{home} {
    users_[at_home].id = home.id();
    set_written(at_home);
    if (home.is_of_one_thread()) {
        was_locked_.store(true, std::memory_order_relaxed);
        if (home.is_reachable()) (void)mark_home(foreign_capture_of(home));
        else (void)rt::drain(home);  // completes that thread's work
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
    return s.is_same(home_) && slots_.may_begin_first(writes);
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
            note(next);
            next = next_to_wait_for(for_writers_only);
        }
        if (!next.last) return;
        wait_on_host_for(**next.last);
    }
}

CUOTA_INLINE auto access_tracker::next_to_wait_for(bool for_writers_only) const noexcept -> host_wait {
    if (!for_writers_only)
        for (std::size_t i = at_home; i != users_.size(); ++i)
            if (users_[i].reads) return wait_of(i);
    return writer_ != no_user ? wait_of(writer_) : host_wait{};
}

CUOTA_INLINE void access_tracker::note(host_wait const& over) noexcept {
    if (!over.last || users_[over.user].record != over.record) return;
    users_[over.user].reads = false;
    if (writer_ == over.user) writer_ = no_user;
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
                next.emplace(home_);
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

CUOTA_INLINE auto access_tracker::user_list::operator[](std::size_t i) const noexcept -> user const& {
    return i == 0 ? home_ : others_[i - 1];
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
            note(before);
            std::size_t const me = find(id);
            throw_on_conflict(me, writes, where);
            see_home();  // includes each use that it found ended
            uses_.reserve(uses_.size() + 1);
            before = order(s, me, writes);
            if (!before.last) {
                if (me == at_home && writes && home_.is_owned() && !slots_.open())
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
                    if (use->writes) set_written(no_user);
                } else {
                    note(before);
                    try {
                        before = leave(*use);
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
    if (done.read || done.written) leave_at_home(done.written);
}

CUOTA_INLINE void access_tracker::leave_at_home(bool written) noexcept {
    is_home_marked_ = false;
    if (written) set_written(at_home);
    else users_[at_home].reads = true;
}

CUOTA_INLINE auto access_tracker::before_capture(std::size_t u, std::uint64_t foreign) const noexcept
    -> host_wait {
    user const& of = users_[u];
    bool const is_needed = of.reads || writer_ == u;
    return foreign != 0 && of.record != 0 && foreign_capture_of(**of.last) == 0 && is_needed ? wait_of(u)
                                                                                             : host_wait{};
}

CUOTA_INLINE auto access_tracker::leave(open_use const& use) -> host_wait {
    if (use.user == at_home) {
        if (!home_.is_of_one_thread()) return leave_at_home(use.writes), host_wait{};
        std::uint64_t const foreign = foreign_capture_of(home_);
        if (is_home_marked_)
            if (host_wait before = before_capture(at_home, foreign); before.last) return before;
        if (!mark_home(foreign)) return leave_for_capture(use), host_wait{};
        if (use.writes) set_written(at_home);
        else users_[at_home].reads = true;
        return {};
    }
    user& u = users_[use.user];
    std::uint64_t const foreign = is_for_capture_ ? 0 : foreign_capture_of(use.stream);
    if (host_wait before = before_capture(use.user, foreign); before.last) return before;
    if (is_for_capture_) record(u, use.stream, foreign);
    else if (!mark_outside_capture(use.stream, [&] { record(u, use.stream, foreign); }))
        return leave_for_capture(use), host_wait{};
    if (use.writes) set_written(use.user);
    else u.reads = true;
    return {};
}

CUOTA_INLINE void access_tracker::record(user& u, stream_ref s, std::uint64_t foreign) {
    if (!u.last) u.last = intrusive_ptr<use_mark>::make();
    u.last->record(s, foreign);
    u.record = ++records_;
}

CUOTA_INLINE void access_tracker::leave_for_capture(open_use const& use) noexcept {
    users_[use.user].reads = false;
    if (use.writes || writer_ == use.user) set_written(no_user);
}

CUOTA_INLINE void access_tracker::set_written(std::size_t by) noexcept {
    ++version_;
    writer_ = by;
    if (by != no_user) users_[by].seen = version_;
}

CUOTA_INLINE std::size_t access_tracker::find(std::uint64_t id) {
    std::size_t vacant = no_user;
    for (std::size_t i = at_home; i != users_.size(); ++i) {
        user const& u = users_[i];
        if (u.id == id) return i;
        if (i != at_home && i != writer_ && !u.reads && u.seen != version_ && !is_open(i)) vacant = i;
    }
    if (vacant == no_user) {
        vacant = users_.size();
        users_.add();
    }
    users_[vacant] = {id, intrusive_ptr<use_mark>::make()};  // now: the end of a use must not fail
    return vacant;
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

CUOTA_INLINE auto access_tracker::order(stream_ref s, std::size_t me, bool writes) -> host_wait {
    if (writes)
        for (std::size_t i = at_home; i != users_.size(); ++i) {
            if (i == me || !users_[i].reads) continue;
            if (!try_wait_for(i, s)) return wait_of(i);
            users_[me].seen = version_;
        }
    if (users_[me].seen != version_ && writer_ != no_user)
        if (!try_wait_for(writer_, s)) return wait_of(writer_);
    users_[me].seen = version_;
    if (writes)
        for (std::size_t i = at_home; i != users_.size(); ++i)
            users_[i].reads = false;  // later uses wait for this write
    return {};
}

CUOTA_INLINE bool access_tracker::try_wait_for(std::size_t of, stream_ref s) {
    intrusive_ptr<use_mark> const& last = users_[of].last;
    if (of == at_home && home_.is_of_one_thread()) {
        // It was captured at its last use: earlier work has completed.
        if (!is_home_marked_) return true;
    } else if (of == at_home && (!is_home_marked_ || foreign_capture_of(**last) != 0)) {
        std::uint64_t const foreign = foreign_capture_of(home_);
        if (foreign != 0 && foreign != foreign_capture_of(s))
            throw_usage_error(
                "buffer: cannot be used on another stream while its home stream is captured outside "
                "cuota::capture; end the capture first");
        if (!mark_home(foreign)) return true;
    }
    return try_order_after(s, **last);
}

CUOTA_INLINE bool access_tracker::mark_home(std::uint64_t foreign) {
    return is_home_marked_ = mark_outside_capture(home_, [&] { record(users_[at_home], home_, foreign); });
}

CUOTA_INLINE void access_tracker::publish() noexcept {
    bool reads = false;
    bool writes = writer_ != no_user && users_[at_home].seen != version_;
    for (std::size_t i = at_home + 1; i != users_.size(); ++i) reads |= users_[i].reads;
    for (open_use const& use : uses_)
        if (use.user != at_home) (use.writes ? writes : reads) = true;
    slots_.allow(!writes, !writes && !reads);
}

}  // namespace cuota::inline v0::detail

#endif
