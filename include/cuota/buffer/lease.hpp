// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Borrowing a buffer for work on a stream: the waits that work needs, put in when it starts and remembered when it ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Who uses one buffer, on which streams. The home stream needs no events: its own order is enough, and it is the
/// stream the memory is given back on. Any other stream waits for the home stream when it starts, and leaves an event
/// when it ends.
/// Threads: any.
class stream_uses final : public ref_counted {
public:
    explicit stream_uses(stream_ref home) noexcept : home_{home} {}
    stream_uses() noexcept = default;  // of host memory: no stream is home, every use leaves an event

    /// Starts a use on s: puts in the waits it needs. Returns what `end` wants back.
    /// Throws: misuse when a use on another stream is still going on and one of the two writes; cuda_error. Nothing
    /// is borrowed then.
    [[nodiscard]] std::uint64_t begin(stream_ref s, bool writes, place where) {
        std::scoped_lock const lock{guard_};
        for (open_use const& other : open_)
            if (!(other.stream == s) && (writes || other.writes))
                throw misuse{std::string{"a buffer was borrowed to "} + (writes ? "write" : "read") +
                                 " on one stream while it is borrowed to " +
                                 (other.writes ? "write" : "read") + " on another since " +
                                 place_text(other.where),
                             where};
        open_.reserve(open_.size() + 1);
        ended_.reserve(ended_.size() + 1);  // for end, which must not throw
        if (home_ && !is_home(s)) wait_for_home(s);
        for (ended_use const& use : ended_)
            if (!(stream_ref{use.stream} == s) && (writes || use.wrote)) s.wait(use.end);
        if (writes && is_home(s)) ended_.clear();  // the home stream is behind all of them now
        open_.push_back({s, writes, where, ++last_id_});
        return last_id_;
    }

    void end(std::uint64_t id) noexcept {
        std::exception_ptr unmarked;
        {
            std::scoped_lock const lock{guard_};
            auto const found = std::ranges::find(open_, id, &open_use::id);
            if (found == open_.end()) return;  // the buffer ended before its lease, and said so
            open_use const use = *found;
            open_.erase(found);
            if (is_home(use.stream)) return;
            try {
                leave_event(use);
            } catch (...) {
                unmarked = std::current_exception();
                rt::drain(use.stream);  // nothing to wait for later, so it must be over now
            }
        }
        if (unmarked) report_failure_of([&] { std::rethrow_exception(unmarked); });
    }

    /// Puts everything that other streams did before what the home stream does next: now it may be given back.
    void join_home() noexcept {
        finish([&](ended_use const& use) { stream_ref{*home_}.wait(use.end); });
    }

    /// Waits on the host until everything that streams did is over: now host memory may be given back.
    void join_host() noexcept {
        finish([](ended_use const& use) { use.end.synchronize(); });
    }

    /// Waits on the host for what other streams and, if asked, only writers among them did. For host memory.
    void wait_on_host(bool writers_only) {
        std::scoped_lock const lock{guard_};
        for (ended_use const& use : ended_)
            if (use.wrote || !writers_only) use.end.synchronize();
        std::erase_if(ended_, [&](ended_use const& use) { return use.wrote || !writers_only; });
    }

private:
    struct open_use {
        stream_ref stream;
        bool writes;
        place where;
        std::uint64_t id;
    };
    struct ended_use {
        stream_share stream;
        event end;
        bool wrote;
    };

    [[nodiscard]] bool is_home(stream_ref s) const noexcept { return home_ && s == stream_ref{*home_}; }

    void wait_for_home(stream_ref s) {
        if (mark_) mark_->record(*home_);
        else mark_.emplace(*home_);
        s.wait(*mark_);
    }

    template <class Join>
    void finish(Join join) noexcept {
        std::vector<open_use> open;
        std::vector<ended_use> ended;
        {
            std::scoped_lock const lock{guard_};
            open.swap(open_);
            ended.swap(ended_);
        }
        if (!open.empty())
            report_failure_of([&] {
                throw misuse{"a buffer ended while it is still borrowed", open.front().where};
            });
        for (open_use const& use : open) rt::drain(use.stream);
        for (ended_use const& use : ended)
            if (!report_failure_of([&] { join(use); })) rt::drain(use.stream);
    }

    // One event a stream: a later one stands for the earlier as well.
    void leave_event(open_use const& use) {
        for (ended_use& ended : ended_) {
            if (!(stream_ref{ended.stream} == use.stream)) continue;
            ended.end.record(use.stream);
            ended.wrote = ended.wrote || use.writes;
            return;
        }
        ended_.push_back({use.stream, event{use.stream}, use.writes});
    }

    std::mutex guard_;
    std::optional<stream_share> home_;
    std::optional<event> mark_;
    std::vector<open_use> open_;
    std::vector<ended_use> ended_;
    std::uint64_t last_id_ = 0;
};

}  // namespace detail

/// A borrowed buffer: readable (T const) or writable (T) by work enqueued on one stream while the lease lives.
///
/// Converts to device_span for the kernel that uses it, and is best left a temporary in the launch:
///     kernel<<<grid, block, 0, s>>>(x.read(s), y.write(s));
/// Leases on one stream go together, in any number: the stream orders them. On different streams many may read, or
/// one may write; everything else is a misuse that names both places.
/// Move-only. Its end is recorded in the stream; nothing waits on the host.
template <class T>
class lease {
public:
    lease(lease&& other) noexcept
        : span_{std::exchange(other.span_, {})},
          uses_{std::move(other.uses_)},
          id_{other.id_},
          borrowed_{std::move(other.borrowed_)} {}
    lease& operator=(lease&&) = delete;  // a lease is for one piece of work: make another
    ~lease() {
        if (uses_) uses_->end(id_);
    }

    operator device_span<T>() const noexcept { return span_; }
    operator device_span<T const>() const noexcept requires(!std::is_const_v<T>) { return span_; }
    [[nodiscard]] device_span<T> span() const& noexcept { return span_; }
    [[nodiscard]] device_span<T> span() && = delete;  // the lease would end before the span is used
    [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }

private:
    template <class>
    friend class device_buffer;
    lease(device_span<T> span, shared<detail::stream_uses> uses, std::uint64_t id, stream_ref s) noexcept
        : span_{span},
          uses_{std::move(uses)},
          id_{id},
          borrowed_{s.get(), span.data(), span.bytes(), !std::is_const_v<T>} {}

    device_span<T> span_;
    shared<detail::stream_uses> uses_;
    std::uint64_t id_;
    rt::borrowed_range borrowed_;
};

}  // namespace cuota::inline v0
