// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Agreement of ranks that are threads.
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
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Rendezvous of threads: an all-gather per round.
class rendezvous final : public ref_counted {
public:
    using clock = std::chrono::steady_clock;

    rendezvous(std::size_t ranks, std::chrono::nanoseconds deadline) : deadline_{deadline}, seats_(ranks) {}

    void join(std::size_t rank, source_location where);

    void all_gather(std::size_t rank, std::span<std::uint64_t const> mine, std::span<std::uint64_t> all);

    /// Makes the first incomplete round throw on the other ranks; completed rounds stay valid.
    void leave(std::size_t rank, std::string const& why) noexcept;

private:
    struct participant {
        bool has_joined = false;
        bool has_come = false;
        std::vector<std::uint64_t> said{};
    };
    struct rank_failure {
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
    std::vector<participant> seats_;
    std::vector<std::uint64_t> heard_;  // of the last complete round
    std::uint64_t round_ = 0;
    std::optional<rank_failure> gone_;  // the first lost rank
};

}  // namespace detail

/// Group of ranks that are threads of one process.
///
///     thread_group const group{devices, 30s};
///     // in the thread of each device:
///     rank_consensus ranks = group.join(rank);
///     std::size_t const batch = find_batch_size(step, {.largest = 600, .ranks = &ranks}).batch;
///
/// Waiting ranks throw rank_lost_error when a rank leaves (its rank_consensus is destroyed) or does not arrive within the deadline after
/// the waiting rank. On all ranks, and in every later round, the error names the first lost rank; a rank that arrives too late gets its
/// own number. Choose a deadline well above the longest step.
/// Threads: any.
/// Cost:    for each call, a lock, and a wake-up of all waiting ranks.
class thread_group {
public:
    /// Throws: usage_error if `ranks` is 0 or `deadline` is not positive.
    explicit thread_group(std::size_t ranks, std::chrono::nanoseconds deadline = std::chrono::minutes{10},
                          source_location where = source_location::current());
    /// Shares the group; a move is a copy.
    thread_group(thread_group const&) noexcept = default;
    thread_group& operator=(thread_group const&) noexcept = default;  ///< likewise
    ~thread_group() = default;

    [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }  ///< in the group

    /// Returns the rank_consensus of a rank, for its thread. Throws: usage_error if the rank is out of range or has already joined, and in
    /// a forked child.
    [[nodiscard]] rank_consensus join(std::size_t rank,
                                      source_location where = source_location::current()) const;

private:
    std::size_t ranks_;
    detail::intrusive_ptr<detail::rendezvous> meeting_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void rendezvous::join(std::size_t rank, source_location where) {
    std::lock_guard const lock{guard_};
    bool const is_there = rank < seats_.size();
    if (is_there && !std::exchange(seats_[rank].has_joined, true)) return;
    throw_usage_error(
        where, "thread_group: rank {}{}",
        {as_count(rank), is_there ? " has joined already"
                                  : " is out of range, number of ranks: " + count_text(seats_.size())});
}

CUOTA_INLINE void rendezvous::all_gather(std::size_t rank, std::span<std::uint64_t const> mine,
                                         std::span<std::uint64_t> all) {
    std::unique_lock lock{guard_};
    throw_if_gone();
    seats_[rank].said.assign(mine.begin(), mine.end());
    seats_[rank].has_come = true;
    std::uint64_t const round = round_;
    if (std::ranges::all_of(seats_, &participant::has_come)) end_round();
    else wait_for(lock, round);
    // The next round needs this rank, so heard_ stays valid until its next call.
    if (round_ == round) throw_if_gone();
    std::ranges::copy(heard_, all.begin());
}

CUOTA_INLINE void rendezvous::leave(std::size_t rank, std::string const& why) noexcept {
    std::lock_guard const lock{guard_};
    if (!gone_) give_up(rank, why);
}

CUOTA_INLINE void rendezvous::end_round() {
    std::vector<std::uint64_t> said;
    for (participant const& s : seats_) said.insert(said.end(), s.said.begin(), s.said.end());
    heard_ = std::move(said);
    for (participant& s : seats_) s.has_come = false;
    ++round_;
    changed_.notify_all();
}

CUOTA_INLINE void rendezvous::wait_for(std::unique_lock<std::mutex>& lock, std::uint64_t round) {
    auto const is_over = [&] { return round_ != round || gone_; };
    // A very long deadline would overflow the time point.
    auto const patience = std::min(deadline_, std::chrono::nanoseconds{std::chrono::hours{24 * 365}});
    if (changed_.wait_until(lock, clock::now() + patience, is_over)) return;
    auto const missing = std::ranges::find(seats_, false, &participant::has_come);
    give_up(static_cast<std::size_t>(missing - seats_.begin()),
            missing->has_joined ? "timed out" : "did not join before the deadline");
}

CUOTA_INLINE void rendezvous::give_up(std::size_t rank, std::string const& why) noexcept {
    gone_.emplace(rank_failure{rank, {}});
    changed_.notify_all();
    try {
        gone_->why = why + ", after " + count_text(round_) + (round_ == 1 ? " round" : " rounds");
    } catch (...) {}  // no host memory: the rank is still named
}

CUOTA_INLINE void rendezvous::throw_if_gone() const {
    if (gone_) throw rank_lost_error{gone_->rank, seats_.size(), gone_->why};
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE thread_group::thread_group(std::size_t ranks, std::chrono::nanoseconds deadline,
                                        source_location where)
    : ranks_{ranks} {
    if (ranks == 0 || deadline <= std::chrono::nanoseconds::zero())
        throw usage_error{ranks == 0 ? "thread_group: the number of ranks must be at least 1"
                                     : "thread_group: the deadline must be positive",
                          where};
    meeting_ = detail::intrusive_ptr<detail::rendezvous>::make(ranks, deadline);
}

CUOTA_INLINE rank_consensus thread_group::join(std::size_t rank, source_location where) const {
    if (meeting_->is_of_parent()) detail::throw_forked();
    rank_transport transport{rank, ranks_, {}, {}};
    transport.all_gather = [meets = meeting_, rank](std::span<std::uint64_t const> mine,
                                                    std::span<std::uint64_t> all) {
        meets->all_gather(rank, mine, all);
    };
    transport.leave = [meets = meeting_, rank](std::string const& why) { meets->leave(rank, why); };
    meeting_->join(rank, where);
    return rank_consensus{std::move(transport), where};
}

}  // namespace cuota::inline v0

#endif
