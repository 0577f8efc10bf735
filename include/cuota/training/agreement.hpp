// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What ranks decide together before a step, so that one rank's refusal hangs nobody.
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
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/process.hpp>

namespace cuota::inline v0 {

/// A rank does not take part any more: it left, failed, or did not come in time. Names it.
class CUOTA_PROCESS_TYPE rank_gone : public std::runtime_error {
public:
    /// `rank` is gone, of `ranks`; `why` as it was learned.
    rank_gone(std::size_t rank, std::size_t ranks, std::string const& why);

    [[nodiscard]] std::size_t rank() const noexcept { return rank_; }  ///< from 0

private:
    std::size_t rank_;
};

/// How a rank reaches the others: what an agreement stands on. thread_ranks makes it for threads of one process, mpi_ranks
/// for processes. What gathers in one call does as well, as long as all come: MPI_Allgather waits for ever for a rank that
/// is gone, and ncclAllGather can be given up but does not tell who is missing, so that no rank_gone could name it.
struct rank_link {
    std::size_t rank = 0;   ///< this one, from 0
    std::size_t ranks = 1;  ///< all of them
    /// Gives every rank the words of all: `all` is as long as `mine` times `ranks`, in the order of ranks. Blocks until
    /// every rank has called it as often as this one. Throws: rank_gone once a rank cannot come any more, or is late.
    std::function<void(std::span<std::uint64_t const> mine, std::span<std::uint64_t> all)> gather{};
    /// This rank will not call again, for that reason: the others' gather throws from then on. May be empty: then they
    /// learn it by their transport's own deadline. Must not throw.
    std::function<void(std::string const& why)> leave{};
};

namespace detail {

/// What one rank says in a round: which one it is, what is asked, and its answer.
struct ballot {
    static constexpr std::size_t words = 6;
    static constexpr std::size_t letters = 24;

    std::uint64_t round = 0;
    std::uint64_t hash = 0;             // of the whole question
    std::array<char, letters> asked{};  // as much of it as there is room for
    std::uint64_t value = 0;

    [[nodiscard]] static ballot of(std::uint64_t round, std::string_view question,
                                   std::uint64_t value) noexcept;
    [[nodiscard]] bool is_of_the_same(ballot const& other) const noexcept;
    [[nodiscard]] std::string text() const;
};
static_assert(sizeof(ballot) == ballot::words * sizeof(std::uint64_t));

/// The first rank that is not where most are; of two halves the one that the lowest rank is not in. ranks: none.
[[nodiscard]] std::size_t out_of_step(std::span<ballot const> all) noexcept;

}  // namespace detail

/// One rank's part in decisions that all ranks make together, round by round.
///
/// Every rank asks the same questions in the same order, whether its own step went well, was refused memory or failed:
/// a rank that skips a round, as one does that goes on from a refusal alone, would leave the others waiting for it.
///
///     agreement ranks = group.join(rank);                                    // thread_ranks, or a rank_link of one's own
///     std::size_t const batch = ranks.smallest(what_fits_here, "batch size"); // the same number on every rank
///
/// When it ends, the rank leaves: whoever still waits for it, or asks later, is told by rank_gone and does not hang.
/// In a forked child of the process that made it, it ends without leaving, because the rank is the parent's.
/// Move-only. Threads: one at a time. Never touches the device.
/// Throws:  rank_gone; misuse that names the rank when one asks another question or is in another round (all ranks are
///          told so in the same round, and stay in step), and in a forked child; what the link throws.
/// Cost:    one gather of 48 bytes from every rank, for each question.
/// Example: examples/train_ranks.cpp
class agreement {
public:
    /// Of one rank: it agrees with itself at once.
    agreement() : agreement{rank_link{}} {}
    /// Throws: misuse for a rank that is not one of `ranks`, and for several ranks without a gather.
    explicit agreement(rank_link link, place where = place::here());
    /// Takes this rank's part; every question to the other one is a misuse then.
    agreement(agreement&& other) noexcept;
    /// Its own rank leaves first; then as above.
    agreement& operator=(agreement&& other) noexcept;
    ~agreement() { end(); }

    [[nodiscard]] std::size_t rank() const noexcept { return link_.rank; }    ///< this one, from 0
    [[nodiscard]] std::size_t ranks() const noexcept { return link_.ranks; }  ///< all of them
    /// How many questions were agreed on.
    [[nodiscard]] std::uint64_t rounds() const noexcept { return round_; }

    /// Every rank's value, in the order of ranks: the same on all of them. `question` names what is asked.
    [[nodiscard]] std::vector<std::uint64_t> values(std::uint64_t value, std::string_view question,
                                                    place where = place::here());

    /// The values of all ranks reduced by `reduce(so_far, next)` in the order of ranks: the same on every rank, whatever
    /// the operation.
    template <std::invocable<std::uint64_t, std::uint64_t> Reduce>
    std::uint64_t agree(std::uint64_t value, Reduce reduce, std::string_view question,
                        place where = place::here()) {
        std::vector<std::uint64_t> const all = values(value, question, where);
        std::uint64_t agreed = all.front();
        for (std::size_t i = 1; i != all.size(); ++i) agreed = reduce(agreed, all[i]);
        return agreed;
    }
    /// The smallest of all ranks' values. Throws: as values.
    std::uint64_t smallest(std::uint64_t value, std::string_view question, place where = place::here());
    /// The largest. Throws: as values.
    std::uint64_t largest(std::uint64_t value, std::string_view question, place where = place::here());
    /// True when it is true on every rank.
    bool all(bool here, std::string_view question, place where = place::here());

    /// Takes no part any more, and tells the others why. What is asked here later is misuse.
    void leave(std::string const& why) noexcept;

private:
    [[nodiscard]] static rank_link gone() noexcept { return {}; }

    [[nodiscard]] std::vector<detail::ballot> exchanged(detail::ballot const& mine) const;
    [[nodiscard]] static std::string against(std::span<detail::ballot const> all, std::size_t other);
    void end() noexcept;

    rank_link link_;
    std::uint64_t round_ = 0;
    int unwinding_ = std::uncaught_exceptions();
    bool has_left_ = false;
    detail::process_mark made_;
};

namespace detail {

/// How a rank's part of something went. In the order of what decides: the least of all ranks'.
enum class outcome { failed, refused, went_well, is_done };

/// What all ranks found, and this one's own refusal.
struct verdict {
    outcome agreed = outcome::went_well;
    std::exception_ptr refusal{};  // this rank's; null when another was refused
    std::size_t rank = 0;          // who decided: the first of those
};

/// Runs `work`, which says how it went, and agrees with the other ranks on the worst. A refusal (out_of_memory) is an
/// outcome. What else is thrown here passes through when the others know of it; they throw rank_gone.
/// By then nothing of the work is left: it is agreed on after it was unwound. `ranks` may be null.
template <std::invocable Work>
[[nodiscard]] verdict run_agreed(agreement* ranks, std::string_view question, Work&& work, place where) {
    verdict found;
    try {
        try {
            found.agreed = work();
        } catch (out_of_memory const&) {
            found.agreed = outcome::refused;
            found.refusal = std::current_exception();
        }
    } catch (...) {
        try {
            if (ranks) (void)ranks->values(static_cast<std::uint64_t>(outcome::failed), question, where);
        } catch (...) {}  // what went wrong here first says more
        throw;
    }
    if (!ranks) return found;
    auto const all = ranks->values(static_cast<std::uint64_t>(found.agreed), question, where);
    auto const least = std::ranges::min_element(all);
    found.agreed = static_cast<outcome>(*least);
    found.rank = static_cast<std::size_t>(least - all.begin());
    if (found.agreed == outcome::failed)
        throw rank_gone{found.rank, all.size(), "it failed at: " + std::string{question}};
    return found;
}

/// Throws this rank's own refusal, or where it had none one that names the rank that had.
[[noreturn]] void throw_refusal(verdict const& refused, std::string const& what, place where);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE rank_gone::rank_gone(std::size_t rank, std::size_t ranks, std::string const& why)
    : std::runtime_error{"cuota::rank_gone: rank " + count_text(rank) + " of " + count_text(ranks) + ": " +
                         why},
      rank_{rank} {}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE ballot ballot::of(std::uint64_t round, std::string_view question, std::uint64_t value) noexcept {
    ballot made{round, 14695981039346656037U, {}, value};
    for (char const c : question)
        made.hash = (made.hash ^ static_cast<unsigned char>(c)) * 1099511628211U;  // FNV-1a
    std::copy_n(question.begin(), std::min(question.size(), letters), made.asked.begin());
    return made;
}

CUOTA_INLINE bool ballot::is_of_the_same(ballot const& other) const noexcept {
    return round == other.round && hash == other.hash;
}

CUOTA_INLINE std::string ballot::text() const {
    auto const end = std::find(asked.begin(), asked.end(), '\0');
    return message("\"{}\" in round {}", {std::string(asked.begin(), end), as_count(round)});
}

CUOTA_INLINE std::size_t out_of_step(std::span<ballot const> all) noexcept {
    auto const in_step_with = [&](ballot const& one) {
        return std::ranges::count_if(all, [&](ballot const& b) { return b.is_of_the_same(one); });
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

CUOTA_INLINE agreement::agreement(rank_link link, place where) : link_{std::move(link)} {
    if (link_.rank >= link_.ranks || (link_.ranks > 1 && !link_.gather)) {
        std::string const why = link_.rank >= link_.ranks ? " is not one of " : " has no way to reach ";
        detail::throw_misuse(where, "agreement: rank {}{}{}",
                             {detail::as_count(link_.rank), why, detail::as_count(link_.ranks)});
    }
}

CUOTA_INLINE agreement::agreement(agreement&& other) noexcept
    : link_{std::exchange(other.link_, gone())},
      round_{other.round_},
      unwinding_{other.unwinding_},
      has_left_{std::exchange(other.has_left_, true)},
      made_{other.made_} {}

CUOTA_INLINE agreement& agreement::operator=(agreement&& other) noexcept {
    if (this == &other) return *this;
    end();
    link_ = std::exchange(other.link_, gone());
    round_ = other.round_;
    unwinding_ = other.unwinding_;
    has_left_ = std::exchange(other.has_left_, true);
    made_ = other.made_;
    return *this;
}

CUOTA_INLINE std::vector<std::uint64_t> agreement::values(std::uint64_t value, std::string_view question,
                                                          place where) {
    if (has_left_) detail::throw_misuse(where, "agreement: a rank was asked after it had left");
    if (made_.is_of_parent()) detail::throw_forked();
    detail::ballot const mine = detail::ballot::of(round_, question, value);
    std::vector<detail::ballot> const all = exchanged(mine);
    ++round_;
    if (std::size_t const other = detail::out_of_step(all); other != all.size())
        detail::throw_misuse(
            where,
            "agreement: rank {} asks {}, and others {}: all ranks have to ask the same in the same order",
            {detail::as_count(other), all[other].text(), against(all, other)});
    std::vector<std::uint64_t> found;
    found.reserve(all.size());
    for (detail::ballot const& b : all) found.push_back(b.value);
    return found;
}

CUOTA_INLINE std::uint64_t agreement::smallest(std::uint64_t value, std::string_view question, place where) {
    return agree(
        value, [](auto a, auto b) { return std::min(a, b); }, question, where);
}

CUOTA_INLINE std::uint64_t agreement::largest(std::uint64_t value, std::string_view question, place where) {
    return agree(
        value, [](auto a, auto b) { return std::max(a, b); }, question, where);
}

CUOTA_INLINE bool agreement::all(bool here, std::string_view question, place where) {
    return smallest(here ? 1 : 0, question, where) != 0;
}

CUOTA_INLINE void agreement::leave(std::string const& why) noexcept {
    if (std::exchange(has_left_, true) || !link_.leave) return;
    if (made_.is_of_parent()) return detail::report_forked();
    link_.leave(why);
}

CUOTA_INLINE std::vector<detail::ballot> agreement::exchanged(detail::ballot const& mine) const {
    if (!link_.gather) return {mine};
    using words = std::array<std::uint64_t, detail::ballot::words>;
    std::vector<std::uint64_t> gathered(detail::ballot::words * link_.ranks);
    link_.gather(std::bit_cast<words>(mine), gathered);
    std::vector<detail::ballot> all;
    for (auto at = gathered.begin(); at != gathered.end(); at += detail::ballot::words) {
        words said{};
        std::copy_n(at, said.size(), said.begin());
        all.push_back(std::bit_cast<detail::ballot>(said));
    }
    return all;
}

CUOTA_INLINE std::string agreement::against(std::span<detail::ballot const> all, std::size_t other) {
    for (detail::ballot const& b : all)
        if (!b.is_of_the_same(all[other])) return b.text();
    return {};
}

CUOTA_INLINE void agreement::end() noexcept {
    if (has_left_ || made_.is_of_parent()) return;
    try {
        leave(std::uncaught_exceptions() > unwinding_ ? "it was left by an exception" : "it has ended");
    } catch (...) { has_left_ = true; }  // no host memory for the reason: their deadline tells the others
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void throw_refusal(verdict const& refused, std::string const& what, place where) {
    if (refused.refusal) std::rethrow_exception(refused.refusal);
    refusal facts;
    facts.request.where = where;
    facts.cause = "rank " + count_text(refused.rank) + " was refused at " + what;
    throw out_of_memory{std::move(facts)};
}

}  // namespace cuota::inline v0::detail

#endif
