// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Agreement, with a deadline, between ranks that are threads of one process, for instance one per GPU.
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

/// Rendezvous of threads: an all-gather per round.
class meeting final : public ref_counted {
public:
    using clock = std::chrono::steady_clock;

    meeting(std::size_t ranks, std::chrono::nanoseconds deadline) : deadline_{deadline}, seats_(ranks) {}

    /// Throws: misuse if the rank is not in the group or has already joined.
    void join(std::size_t rank, place where);

    void gather(std::size_t rank, std::span<std::uint64_t const> mine, std::span<std::uint64_t> all);

    /// Makes the first incomplete round throw on the other ranks; completed rounds stay valid.
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
    std::vector<std::uint64_t> heard_;  // words of the last complete round
    std::uint64_t round_ = 0;
    std::optional<absence> gone_;  // the first rank that was lost
};

}  // namespace detail

/// Group of ranks that are threads of one process.
///
///     thread_ranks const group{devices, 30s};
///     // in the thread of each device:
///     agreement ranks = group.join(rank);
///     std::size_t const batch = find_batch_size(step, {.largest = 600, .ranks = &ranks}).batch;
///
/// Waiting ranks throw rank_gone when a rank leaves (its agreement is destroyed, by an exception or not), or does not arrive within the
/// deadline, counted from the arrival of the waiting rank. That error names the first lost rank on all ranks, in this and every later
/// round: a group does not recover. A rank that arrives too late gets its own number.
/// The deadline must exceed the largest delay between ranks, such as the longest step including its first run, with a good margin.
/// Copies share one group, which lives as long as one of its agreements.
/// Threads: any.
/// Cost:    for each question, a lock, and a wake-up of all waiting ranks.
/// Throws:  see each function; rank_gone from the agreements.
class thread_ranks {
public:
    /// Throws: misuse if `ranks` is 0 or `deadline` is not positive.
    explicit thread_ranks(std::size_t ranks, std::chrono::nanoseconds deadline = std::chrono::minutes{10},
                          place where = place::here());
    /// Copies share the group; a move is a copy, so a moved-from handle stays valid.
    thread_ranks(thread_ranks const&) noexcept = default;
    thread_ranks& operator=(thread_ranks const&) noexcept = default;  ///< shares the group of other
    ~thread_ranks() = default;

    [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }  ///< in the group

    /// Returns the agreement of a rank, for its thread. Throws: misuse if the rank is not in the group or has already joined, and in a
    /// forked child.
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
    throw_misuse(where, "thread_ranks: rank {}{}",
                 {as_count(rank), is_there
                                      ? " has joined already"
                                      : " is out of range, number of ranks: " + count_text(seats_.size())});
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
    // The next round cannot complete without this rank, so heard_ stays valid until this rank's next call.
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
    // A very long deadline would overflow the time point.
    auto const patience = std::min(deadline_, std::chrono::nanoseconds{std::chrono::hours{24 * 365}});
    if (changed_.wait_until(lock, clock::now() + patience, is_over)) return;
    auto const missing = std::ranges::find(seats_, false, &seat::has_come);
    give_up(static_cast<std::size_t>(missing - seats_.begin()),
            missing->has_joined ? "timed out" : "did not join before the deadline");
}

CUOTA_INLINE void meeting::give_up(std::size_t rank, std::string const& why) noexcept {
    gone_.emplace(absence{rank, {}});
    changed_.notify_all();
    try {
        gone_->why = why + ", after " + count_text(round_) + (round_ == 1 ? " round" : " rounds");
    } catch (...) {}  // no host memory for the reason: the rank is still named
}

CUOTA_INLINE void meeting::throw_if_gone() const {
    if (gone_) throw rank_gone{gone_->rank, seats_.size(), gone_->why};
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE thread_ranks::thread_ranks(std::size_t ranks, std::chrono::nanoseconds deadline, place where)
    : ranks_{ranks} {
    if (ranks == 0 || deadline <= std::chrono::nanoseconds::zero())
        throw misuse{ranks == 0 ? "thread_ranks: the number of ranks must be at least 1"
                                : "thread_ranks: the deadline must be positive",
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
