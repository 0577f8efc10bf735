// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Collective decisions of ranks before a step.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// A rank no longer takes part: it left, failed, or missed the deadline.
class CUOTA_PROCESS_TYPE rank_lost_error : public std::runtime_error {
public:
    /// `why`: the reason, if known.
    rank_lost_error(std::size_t rank, std::size_t ranks, std::string const& why);

    [[nodiscard]] std::size_t rank() const noexcept { return rank_; }  ///< from 0

private:
    std::size_t rank_;
};

/// Transport of a rank_consensus: an all-gather that detects lost ranks, as of thread_group and mpi_group. Plain collectives do not:
/// MPI_Allgather waits forever for a lost rank, and an aborted ncclAllGather does not report it.
struct rank_transport {
    std::size_t rank = 0;   ///< this rank, from 0
    std::size_t ranks = 1;  ///< number of ranks
    /// Fills `all` with every rank's words in rank order. Blocks until every rank has made this call as often as this one. Throws:
    /// rank_lost_error if a rank is lost or late.
    std::function<void(std::span<std::uint64_t const> mine, std::span<std::uint64_t> all)> all_gather{};
    /// Announces that this rank makes no further call, because of `why`: all_gather on other ranks throws from now on. May be empty: the
    /// others rely on the deadline. Must not throw.
    std::function<void(std::string const& why)> leave{};
};

namespace detail {

/// Contribution of one rank to a round.
struct round_vote {
    static constexpr std::size_t words = 6;
    static constexpr std::size_t letters = 24;

    std::uint64_t round = 0;
    std::uint64_t hash = 0;             // of the whole name
    std::array<char, letters> asked{};  // first characters, for messages
    std::uint64_t value = 0;

    [[nodiscard]] static round_vote of(std::uint64_t round, std::string_view name,
                                       std::uint64_t value) noexcept;
    [[nodiscard]] bool is_of_the_same(round_vote const& other) const noexcept;
    [[nodiscard]] std::string text() const;
};
static_assert(sizeof(round_vote) == round_vote::words * sizeof(std::uint64_t));

/// Returns the first rank outside the majority, or all.size(). In a tie, the lowest rank's group is the majority.
[[nodiscard]] std::size_t out_of_step(std::span<round_vote const> all) noexcept;

}  // namespace detail

/// One rank's handle for collective decisions, round by round.
///
/// Every rank must make the same calls in the same order, even if its step failed. A rank that skips a round leaves the others waiting.
///
///     rank_consensus ranks = group.join(rank);                            // of a thread_group
///     std::size_t const batch = ranks.min(what_fits_here, "batch size");  // on every rank
///
/// The destructor leaves the group, except in a forked child: ranks that wait for this one, now or later, throw rank_lost_error. Move-only.
/// Host only.
/// Threads: one at a time.
/// Throws:  rank_lost_error; usage_error on all ranks if one makes another call, and in a forked child; exceptions of the transport.
/// Cost:    one gather of 48 bytes per rank for each call.
/// Example: examples/train_ranks.cpp
class rank_consensus {
public:
    /// A group of one rank.
    rank_consensus() : rank_consensus{rank_transport{}} {}
    /// Throws: usage_error if the rank is out of range, or several ranks have no all_gather.
    explicit rank_consensus(rank_transport transport, source_location where = source_location::current());
    /// Moves membership; a later call of `other` throws usage_error.
    rank_consensus(rank_consensus&& other) noexcept;
    /// Leaves its group, then moves as above.
    rank_consensus& operator=(rank_consensus&& other) noexcept;
    ~rank_consensus() { end(); }

    [[nodiscard]] std::size_t rank() const noexcept { return transport_.rank; }    ///< this rank, from 0
    [[nodiscard]] std::size_t ranks() const noexcept { return transport_.ranks; }  ///< number of ranks
    [[nodiscard]] std::uint64_t rounds() const noexcept { return round_; }         ///< completed rounds

    /// Returns every rank's value in rank order. `name` identifies the call.
    [[nodiscard]] std::vector<std::uint64_t> all_gather(std::uint64_t value, std::string_view name,
                                                        source_location where = source_location::current());

    /// Returns all ranks' values reduced by `reduce(so_far, next)` in rank order.
    template <std::invocable<std::uint64_t, std::uint64_t> Reduce>
    std::uint64_t all_reduce(std::uint64_t value, Reduce reduce, std::string_view name,
                             source_location where = source_location::current()) {
        std::vector<std::uint64_t> const all = all_gather(value, name, where);
        std::uint64_t agreed = all.front();
        for (std::size_t i = 1; i != all.size(); ++i) agreed = reduce(agreed, all[i]);
        return agreed;
    }
    /// Returns the minimum.
    std::uint64_t min(std::uint64_t value, std::string_view name,
                      source_location where = source_location::current());
    /// Returns the maximum.
    std::uint64_t max(std::uint64_t value, std::string_view name,
                      source_location where = source_location::current());
    /// Returns true if `here` is true on every rank.
    bool all_of(bool here, std::string_view name, source_location where = source_location::current());

    /// Leaves the group and gives the other ranks the reason. Later calls throw usage_error.
    void leave(std::string const& why) noexcept;

private:
    [[nodiscard]] static rank_transport gone() noexcept { return {}; }

    [[nodiscard]] std::vector<detail::round_vote> exchanged(detail::round_vote const& mine) const;
    [[nodiscard]] static std::string against(std::span<detail::round_vote const> all, std::size_t other);
    void end() noexcept;

    rank_transport transport_;
    std::uint64_t round_ = 0;
    int unwinding_ = std::uncaught_exceptions();
    bool has_left_ = false;
    detail::process_mark made_;
};

namespace detail {

/// Result of one rank's work; the group's result is the minimum.
enum class outcome { failed, refused, went_well, is_done };

struct group_result {
    outcome agreed = outcome::went_well;
    std::exception_ptr refusal{};  // of this rank, or null
    std::size_t rank = 0;          // first rank with the group's result
};

/// Runs `work` and agrees with the other ranks on the worst outcome, once `work` was unwound. A refusal (out_of_memory) is an outcome. Any
/// other exception is rethrown, and the other ranks throw rank_lost_error. `ranks` may be null.
template <std::invocable Work>
[[nodiscard]] group_result run_agreed(rank_consensus* ranks, std::string_view name, Work&& work,
                                      source_location where) {
    group_result found;
    try {
        try {
            found.agreed = work();
        } catch (out_of_memory const&) {
            found.agreed = outcome::refused;
            found.refusal = std::current_exception();
        }
    } catch (...) {
        try {
            if (ranks) (void)ranks->all_gather(static_cast<std::uint64_t>(outcome::failed), name, where);
        } catch (...) {}  // the first error is more informative
        throw;
    }
    if (!ranks) return found;
    auto const all = ranks->all_gather(static_cast<std::uint64_t>(found.agreed), name, where);
    auto const least = std::ranges::min_element(all);
    found.agreed = static_cast<outcome>(*least);
    found.rank = static_cast<std::size_t>(least - all.begin());
    if (found.agreed == outcome::failed)
        throw rank_lost_error{found.rank, all.size(), "failed at: " + std::string{name}};
    return found;
}

/// Rethrows this rank's refusal, or throws one that names the refused rank.
[[noreturn]] void throw_refusal(group_result const& refused, std::string const& what, source_location where);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE rank_lost_error::rank_lost_error(std::size_t rank, std::size_t ranks, std::string const& why)
    : std::runtime_error{"cuota::rank_lost_error: rank " + count_text(rank) + " of " + count_text(ranks) +
                         ": " + why},
      rank_{rank} {}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE round_vote round_vote::of(std::uint64_t round, std::string_view name,
                                       std::uint64_t value) noexcept {
    round_vote made{round, 14695981039346656037U, {}, value};
    for (char const c : name)
        made.hash = (made.hash ^ static_cast<unsigned char>(c)) * 1099511628211U;  // FNV-1a
    std::copy_n(name.begin(), std::min(name.size(), letters), made.asked.begin());
    return made;
}

CUOTA_INLINE bool round_vote::is_of_the_same(round_vote const& other) const noexcept {
    return round == other.round && hash == other.hash;
}

CUOTA_INLINE std::string round_vote::text() const {
    auto const end = std::find(asked.begin(), asked.end(), '\0');
    return message("\"{}\" (round {})", {std::string(asked.begin(), end), as_count(round)});
}

CUOTA_INLINE std::size_t out_of_step(std::span<round_vote const> all) noexcept {
    auto const in_step_with = [&](round_vote const& one) {
        return std::ranges::count_if(all, [&](round_vote const& b) { return b.is_of_the_same(one); });
    };
    std::size_t most = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
        if (in_step_with(all[i]) > in_step_with(all[most])) most = i;
    std::size_t first = 0;
    while (first != all.size() && all[first].is_of_the_same(all[most])) ++first;
    return first;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE rank_consensus::rank_consensus(rank_transport transport, source_location where)
    : transport_{std::move(transport)} {
    if (transport_.rank >= transport_.ranks || (transport_.ranks > 1 && !transport_.all_gather)) {
        std::string const why = transport_.rank >= transport_.ranks
                                    ? " is out of range, number of ranks: "
                                    : " has no gather function, number of ranks: ";
        detail::throw_usage_error(
            where, "rank_consensus: rank {}{}{}",
            {detail::as_count(transport_.rank), why, detail::as_count(transport_.ranks)});
    }
}

CUOTA_INLINE rank_consensus::rank_consensus(rank_consensus&& other) noexcept
    : transport_{std::exchange(other.transport_, gone())},
      round_{other.round_},
      unwinding_{other.unwinding_},
      has_left_{std::exchange(other.has_left_, true)},
      made_{other.made_} {}

CUOTA_INLINE rank_consensus& rank_consensus::operator=(rank_consensus&& other) noexcept {
    if (this == &other) return *this;
    end();
    transport_ = std::exchange(other.transport_, gone());
    round_ = other.round_;
    unwinding_ = other.unwinding_;
    has_left_ = std::exchange(other.has_left_, true);
    made_ = other.made_;
    return *this;
}

CUOTA_INLINE std::vector<std::uint64_t> rank_consensus::all_gather(std::uint64_t value, std::string_view name,
                                                                   source_location where) {
    if (has_left_) detail::throw_usage_error(where, "rank_consensus: used after leave()");
    if (made_.is_of_parent()) detail::throw_forked();
    detail::round_vote const mine = detail::round_vote::of(round_, name, value);
    std::vector<detail::round_vote> const all = exchanged(mine);
    ++round_;
    if (std::size_t const other = detail::out_of_step(all); other != all.size())
        detail::throw_usage_error(
            where,
            "ranks are out of step: rank {} is in {}, others in {}; all ranks must make the "
            "same calls in the same order",
            {detail::as_count(other), all[other].text(), against(all, other)});
    std::vector<std::uint64_t> found;
    found.reserve(all.size());
    for (detail::round_vote const& b : all) found.push_back(b.value);
    return found;
}

CUOTA_INLINE std::uint64_t rank_consensus::min(std::uint64_t value, std::string_view name,
                                               source_location where) {
    return all_reduce(
        value, [](auto a, auto b) { return std::min(a, b); }, name, where);
}

CUOTA_INLINE std::uint64_t rank_consensus::max(std::uint64_t value, std::string_view name,
                                               source_location where) {
    return all_reduce(
        value, [](auto a, auto b) { return std::max(a, b); }, name, where);
}

CUOTA_INLINE bool rank_consensus::all_of(bool here, std::string_view name, source_location where) {
    return min(here ? 1 : 0, name, where) != 0;
}

CUOTA_INLINE void rank_consensus::leave(std::string const& why) noexcept {
    if (std::exchange(has_left_, true) || !transport_.leave) return;
    if (made_.is_of_parent()) return detail::report_forked();
    transport_.leave(why);
}

CUOTA_INLINE std::vector<detail::round_vote> rank_consensus::exchanged(detail::round_vote const& mine) const {
    if (!transport_.all_gather) return {mine};
    using words = std::array<std::uint64_t, detail::round_vote::words>;
    std::vector<std::uint64_t> gathered(detail::round_vote::words * transport_.ranks);
    transport_.all_gather(std::bit_cast<words>(mine), gathered);
    std::vector<detail::round_vote> all;
    for (auto at = gathered.begin(); at != gathered.end(); at += detail::round_vote::words) {
        words said{};
        std::copy_n(at, said.size(), said.begin());
        all.push_back(std::bit_cast<detail::round_vote>(said));
    }
    return all;
}

CUOTA_INLINE std::string rank_consensus::against(std::span<detail::round_vote const> all, std::size_t other) {
    for (detail::round_vote const& b : all)
        if (!b.is_of_the_same(all[other])) return b.text();
    return {};
}

CUOTA_INLINE void rank_consensus::end() noexcept {
    if (has_left_ || made_.is_of_parent()) return;
    try {
        leave(std::uncaught_exceptions() > unwinding_ ? "its rank_consensus was destroyed by an exception"
                                                      : "its rank_consensus was destroyed");
    } catch (...) { has_left_ = true; }  // no host memory: the others notice by their deadline
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void throw_refusal(group_result const& refused, std::string const& what, source_location where) {
    if (refused.refusal) std::rethrow_exception(refused.refusal);
    refusal facts;
    facts.request.where = where;
    facts.cause = "rank " + count_text(refused.rank) + " was refused memory for " + what;
    throw out_of_memory{std::move(facts)};
}

}  // namespace cuota::inline v0::detail

#endif
