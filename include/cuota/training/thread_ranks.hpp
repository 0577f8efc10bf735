// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are threads of one process, as with one thread for each GPU: an agreement between them, with a deadline.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/training/agreement.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Where threads meet, round by round.
class meeting final : public ref_counted {
public:
    using clock = std::chrono::steady_clock;

    meeting(std::size_t ranks, std::chrono::nanoseconds deadline) : deadline_{deadline}, seats_(ranks) {}

    /// Throws: misuse for a rank that there is not, or that has joined.
    void join(std::size_t rank, place where);

    void gather(std::size_t rank, std::span<std::uint64_t const> mine, std::span<std::uint64_t> all);

    /// The others hear of it in the round that lacks this rank; rounds that are over stay so.
    void leave(std::size_t rank, std::string const& why) noexcept;

private:
    struct seat {
        bool has_joined = false;
        bool has_come = false;
        std::vector<std::uint64_t> said{};
    };
    struct absence {
        std::size_t rank;
        std::string why;
    };

    void end_round();
    void wait_for(std::unique_lock<std::mutex>& lock, std::uint64_t round);
    void give_up(std::size_t rank, std::string const& why) noexcept;
    void throw_if_gone() const;

    std::mutex guard_;
    std::condition_variable changed_;
    std::chrono::nanoseconds const deadline_;
    std::vector<seat> seats_;
    std::vector<std::uint64_t> heard_;  // in the last round that was complete
    std::uint64_t round_ = 0;
    std::optional<absence> gone_;  // the first
};

}  // namespace detail

/// A group of ranks in one process.
///
///     thread_ranks const group{devices, 30s};
///     // in the thread of each device:
///     agreement ranks = group.join(rank);
///     std::size_t const batch = find_batch_size(step, {.largest = 600, .ranks = &ranks}).batch;
///
/// Whoever waits is told by rank_gone when a rank leaves (its agreement ends, by an exception or not), and when one does
/// not come within the deadline, counted from when the one who waits came. The first that is gone is named to all, then
/// and at every later question: the group does not heal. One that comes too late is told its own number.
/// The deadline has to be longer than ranks are ever apart: the longest step and its first run, with a good margin.
/// Shared state: copies are the same group, which lives as long as one of its agreements.
/// Threads: any.
/// Cost:    a lock and a wake of all that wait, for each question.
/// Throws:  as each says; rank_gone from the agreements.
class thread_ranks {
public:
    /// Throws: misuse for no ranks, and a deadline that is not in the future.
    explicit thread_ranks(std::size_t ranks, std::chrono::nanoseconds deadline = std::chrono::minutes{10},
                          place where = place::here());
    /// The same group; its move is a copy, so a handle that was moved from is still valid.
    thread_ranks(thread_ranks const&) noexcept = default;
    thread_ranks& operator=(thread_ranks const&) noexcept = default;  ///< the same group as other
    ~thread_ranks() = default;

    [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }  ///< in the group

    /// This rank's part, for its thread. Throws: misuse for a rank that is not in the group, or that has joined before, and in a
    /// forked child of the process that made the group.
    [[nodiscard]] agreement join(std::size_t rank, place where = place::here()) const;

private:
    std::size_t ranks_;
    shared<detail::meeting> meeting_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void meeting::join(std::size_t rank, place where) {
    std::lock_guard const lock{guard_};
    bool const is_there = rank < seats_.size();
    if (is_there && !std::exchange(seats_[rank].has_joined, true)) return;
    throw_misuse(
        where, "thread_ranks: rank {}{}",
        {as_count(rank), is_there ? " has joined already" : " is not one of " + count_text(seats_.size())});
}

CUOTA_INLINE void meeting::gather(std::size_t rank, std::span<std::uint64_t const> mine,
                                  std::span<std::uint64_t> all) {
    std::unique_lock lock{guard_};
    throw_if_gone();
    seats_[rank].said.assign(mine.begin(), mine.end());
    seats_[rank].has_come = true;
    std::uint64_t const round = round_;
    if (std::ranges::all_of(seats_, &seat::has_come)) end_round();
    else wait_for(lock, round);
    // The next round cannot end before this rank has come to it: what was said stays until then.
    if (round_ == round) throw_if_gone();
    std::ranges::copy(heard_, all.begin());
}

CUOTA_INLINE void meeting::leave(std::size_t rank, std::string const& why) noexcept {
    std::lock_guard const lock{guard_};
    if (!gone_) give_up(rank, why);
}

CUOTA_INLINE void meeting::end_round() {
    std::vector<std::uint64_t> said;
    for (seat const& s : seats_) said.insert(said.end(), s.said.begin(), s.said.end());
    heard_ = std::move(said);
    for (seat& s : seats_) s.has_come = false;
    ++round_;
    changed_.notify_all();
}

CUOTA_INLINE void meeting::wait_for(std::unique_lock<std::mutex>& lock, std::uint64_t round) {
    auto const is_over = [&] { return round_ != round || gone_; };
    // What is nearly for ever would wrap as a point in time.
    auto const patience = std::min(deadline_, std::chrono::nanoseconds{std::chrono::hours{24 * 365}});
    if (changed_.wait_until(lock, clock::now() + patience, is_over)) return;
    auto const missing = std::ranges::find(seats_, false, &seat::has_come);
    give_up(static_cast<std::size_t>(missing - seats_.begin()),
            missing->has_joined ? "it did not come in time" : "it has not joined in time");
}

CUOTA_INLINE void meeting::give_up(std::size_t rank, std::string const& why) noexcept {
    gone_.emplace(absence{rank, {}});
    changed_.notify_all();
    try {
        gone_->why = why + ", after " + count_text(round_) + (round_ == 1 ? " round" : " rounds");
    } catch (...) {}  // no host memory for the reason: the rank is named all the same
}

CUOTA_INLINE void meeting::throw_if_gone() const {
    if (gone_) throw rank_gone{gone_->rank, seats_.size(), gone_->why};
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE thread_ranks::thread_ranks(std::size_t ranks, std::chrono::nanoseconds deadline, place where)
    : ranks_{ranks} {
    if (ranks == 0 || deadline <= std::chrono::nanoseconds::zero())
        throw misuse{ranks == 0 ? "thread_ranks: a group of no ranks"
                                : "thread_ranks: a deadline that is over before anybody can come",
                     where};
    meeting_ = shared<detail::meeting>::make(ranks, deadline);
}

CUOTA_INLINE agreement thread_ranks::join(std::size_t rank, place where) const {
    if (meeting_->is_of_parent()) detail::throw_forked();
    rank_link link{rank, ranks_, {}, {}};
    link.gather = [meets = meeting_, rank](std::span<std::uint64_t const> mine,
                                           std::span<std::uint64_t> all) { meets->gather(rank, mine, all); };
    link.leave = [meets = meeting_, rank](std::string const& why) { meets->leave(rank, why); };
    meeting_->join(rank, where);
    return agreement{std::move(link), where};
}

}  // namespace cuota::inline v0

#endif
