// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The last uses of a buffer by each stream, and the waits between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

/// The last use of a buffer by each stream, since the last write. The home stream orders its own uses; other streams record an event when
/// a use ends. Host memory has no home. See docs/design/stream_order.md. Threads: one at a time (access_tracker locks).
class stream_uses {
public:
    static constexpr std::size_t at_home = 0;  // unused for host memory
    static constexpr std::size_t no_user = ~std::size_t{0};

    /// An event with an owner count, to be waited for without the lock.
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
    /// A stream's last use, for which the host has to wait; none if `last` is null.
    struct host_wait {
        intrusive_ptr<use_mark> last{};
        std::size_t user = no_user;
        std::uint64_t record = 0;
    };

    /// Starts without uses, for host memory or for a buffer in a capture.
    explicit stream_uses(bool is_for_capture) noexcept
        : home_{cudaStream_t{}}, is_for_capture_{is_for_capture} {}
    /// Starts with a write by the home stream; the host waits for another thread's default stream. Throws: cuda_error.
    explicit stream_uses(stream_ref home);

    [[nodiscard]] stream_ref home() const noexcept { return home_; }

    /// Returns a stream's index. Reuses an entry without open uses that has no reads since the last write and is not ordered after it.
    /// Throws: std::bad_alloc.
    template <class IsOpen>
    [[nodiscard]] std::size_t find(std::uint64_t id, IsOpen is_open);

    /// Makes s, of index `me`, wait for earlier uses: for reads first, which implies the write before them. Returns what the host has to
    /// wait for before the next call. Throws: cuda_error, usage_error; enqueued waits stay recorded.
    [[nodiscard]] host_wait order(stream_ref s, std::size_t me, bool writes);
    /// Records the work of a use that ends, or returns what the host has to wait for before. Throws: cuda_error, std::bad_alloc.
    [[nodiscard]] host_wait leave(std::size_t of, stream_ref s, bool writes);
    /// Records a use that ended on the home stream; its event is recorded when another stream needs it.
    void leave_at_home(bool written) noexcept;
    /// Records a write that has completed on the device, after all earlier uses.
    void leave_completed_write() noexcept { set_written(no_user); }

    /// Returns a use that the host must wait for; reads first, unless for_writers_only.
    [[nodiscard]] host_wait next_to_wait_for(bool for_writers_only) const noexcept;
    /// Forgets a use for which the host has waited, unless the stream had another one meanwhile.
    void note(host_wait const& over) noexcept;

    struct kinds {
        bool reads, writes;
    };
    /// Returns the kinds of ended uses that the home stream is not ordered after.
    [[nodiscard]] kinds unordered_at_home() const noexcept;
    /// Calls `join` with the event of each of these uses; waits on the host for a home stream that no longer exists.
    template <class Join>
    void join_at_home(Join join) noexcept;

private:
    // A stream by its id, as it may be destroyed; `last` follows its last use.
    struct user {
        std::uint64_t id = ~std::uint64_t{0};
        intrusive_ptr<use_mark> last{};
        std::uint64_t record = 0;  // of that event's last record, from 1
        std::uint64_t seen = 0;    // last write that it is ordered after
        bool reads = false;        // since the last write
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

    // Records an event on the home stream and returns true; returns false if a cuota::capture has captured the stream.
    [[nodiscard]] bool mark_home(std::uint64_t foreign);
    void record(user& u, stream_ref s, std::uint64_t foreign);
    // Returns the earlier use by a stream that is now in a foreign capture, if it must be waited for: the stream's event will represent
    // work of a graph.
    [[nodiscard]] host_wait before_capture(std::size_t u, std::uint64_t foreign) const noexcept;
    [[nodiscard]] host_wait wait_of(std::size_t u) const noexcept {
        return {users_[u].last, u, users_[u].record};
    }
    // The use's stream is captured: earlier work has completed.
    void leave_for_capture(std::size_t of, bool writes) noexcept;
    // Records a write that is ordered after all earlier uses.
    void set_written(std::size_t by) noexcept;
    // Returns false if the host has to wait.
    [[nodiscard]] bool try_wait_for(std::size_t of, stream_ref s);

    stream_ref const home_;  // kept alive by the buffer
    user_list users_;
    std::uint64_t version_ = 0;  // number of writes so far
    std::uint64_t records_ = 0;
    std::size_t writer_ = no_user;
    bool is_home_marked_ = false;
    bool is_for_capture_ = false;
};

template <class IsOpen>
std::size_t stream_uses::find(std::uint64_t id, IsOpen is_open) {
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

template <class Join>
void stream_uses::join_at_home(Join join) noexcept {
    if (!home_.is_reachable() && is_home_marked_) (void)rt::drain(**users_[at_home].last);
    for (std::size_t i = at_home + 1; i != users_.size(); ++i)
        if (users_[i].reads || (i == writer_ && users_[at_home].seen != version_)) join(**users_[i].last);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE stream_uses::stream_uses(stream_ref home) : home_{home} {
    users_[at_home].id = home.id();
    set_written(at_home);
    if (!home.is_of_one_thread()) return;
    if (home.is_reachable()) (void)mark_home(foreign_capture_of(home));
    else (void)rt::drain(home);  // completes that thread's work
}

CUOTA_INLINE auto stream_uses::user_list::operator[](std::size_t i) const noexcept -> user const& {
    return i == 0 ? home_ : others_[i - 1];
}

CUOTA_INLINE auto stream_uses::order(stream_ref s, std::size_t me, bool writes) -> host_wait {
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

CUOTA_INLINE auto stream_uses::leave(std::size_t of, stream_ref s, bool writes) -> host_wait {
    if (of == at_home) {
        if (!home_.is_of_one_thread()) return leave_at_home(writes), host_wait{};
        std::uint64_t const foreign = foreign_capture_of(home_);
        if (is_home_marked_)
            if (host_wait before = before_capture(at_home, foreign); before.last) return before;
        if (!mark_home(foreign)) return leave_for_capture(of, writes), host_wait{};
    } else {
        user& u = users_[of];
        std::uint64_t const foreign = is_for_capture_ ? 0 : foreign_capture_of(s);
        if (host_wait before = before_capture(of, foreign); before.last) return before;
        if (is_for_capture_) record(u, s, foreign);
        else if (!mark_outside_capture(s, [&] { record(u, s, foreign); }))
            return leave_for_capture(of, writes), host_wait{};
    }
    if (writes) set_written(of);
    else users_[of].reads = true;
    return {};
}

CUOTA_INLINE void stream_uses::leave_at_home(bool written) noexcept {
    is_home_marked_ = false;
    if (written) set_written(at_home);
    else users_[at_home].reads = true;
}

CUOTA_INLINE void stream_uses::leave_for_capture(std::size_t of, bool writes) noexcept {
    users_[of].reads = false;
    if (writes || writer_ == of) set_written(no_user);
}

CUOTA_INLINE auto stream_uses::next_to_wait_for(bool for_writers_only) const noexcept -> host_wait {
    if (!for_writers_only)
        for (std::size_t i = at_home; i != users_.size(); ++i)
            if (users_[i].reads) return wait_of(i);
    return writer_ != no_user ? wait_of(writer_) : host_wait{};
}

CUOTA_INLINE void stream_uses::note(host_wait const& over) noexcept {
    if (!over.last || users_[over.user].record != over.record) return;
    users_[over.user].reads = false;
    if (writer_ == over.user) writer_ = no_user;
}

CUOTA_INLINE auto stream_uses::unordered_at_home() const noexcept -> kinds {
    bool reads = false;
    for (std::size_t i = at_home + 1; i != users_.size(); ++i) reads |= users_[i].reads;
    return {reads, writer_ != no_user && users_[at_home].seen != version_};
}

CUOTA_INLINE auto stream_uses::before_capture(std::size_t u, std::uint64_t foreign) const noexcept
    -> host_wait {
    user const& of = users_[u];
    bool const is_needed = of.reads || writer_ == u;
    return foreign != 0 && of.record != 0 && foreign_capture_of(**of.last) == 0 && is_needed ? wait_of(u)
                                                                                             : host_wait{};
}

CUOTA_INLINE void stream_uses::record(user& u, stream_ref s, std::uint64_t foreign) {
    if (!u.last) u.last = intrusive_ptr<use_mark>::make();
    u.last->record(s, foreign);
    u.record = ++records_;
}

CUOTA_INLINE void stream_uses::set_written(std::size_t by) noexcept {
    ++version_;
    writer_ = by;
    if (by != no_user) users_[by].seen = version_;
}

CUOTA_INLINE bool stream_uses::try_wait_for(std::size_t of, stream_ref s) {
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

CUOTA_INLINE bool stream_uses::mark_home(std::uint64_t foreign) {
    return is_home_marked_ = mark_outside_capture(home_, [&] { record(users_[at_home], home_, foreign); });
}

}  // namespace cuota::inline v0::detail

#endif
