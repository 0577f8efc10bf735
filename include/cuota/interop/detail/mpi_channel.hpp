// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Messages between the ranks of an MPI program, point to point: a missing rank can be named.
#pragma once

#include <cuota/interop/mpi_call.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/detail/threads/backoff.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0::detail {

/// One rank's end of the channel. All waits have a deadline.
///
/// A leaving rank sends all others its numbers of rounds and sums: the rounds in which it took part still complete for ranks that are
/// behind.
class mpi_channel {
public:
    using clock = std::chrono::steady_clock;

    mpi_channel(MPI_Comm of, std::chrono::nanoseconds deadline, source_location where)
        : deadline_{std::min(deadline, std::chrono::nanoseconds{std::chrono::hours{24 * 365}})} {
        mpi_check_running(where);
        mpi_check_thread(where);
        int size = 0;
        int rank = 0;
        mpi_check(MPI_Comm_size(of, &size), "MPI_Comm_size", where);
        mpi_check(MPI_Comm_rank(of, &rank), "MPI_Comm_rank", where);
        rank_ = static_cast<std::size_t>(rank);
        peers_.resize(static_cast<std::size_t>(size));
        duplicate(of, where);
    }
    mpi_channel(mpi_channel const&) = delete;
    mpi_channel& operator=(mpi_channel const&) = delete;
    // close() frees the communicator, which could block here.
    ~mpi_channel() = default;

    [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
    [[nodiscard]] std::size_t ranks() const noexcept { return peers_.size(); }
    [[nodiscard]] MPI_Comm native() const noexcept { return *line_; }
    [[nodiscard]] std::chrono::nanoseconds deadline() const noexcept { return deadline_; }
    [[nodiscard]] bool is_gone() const noexcept { return gone_.has_value(); }
    [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }

    /// Throws: rank_lost_error; usage_error if ranks send different numbers of words, or after close().
    void all_gather(std::span<std::uint64_t const> mine, std::span<std::uint64_t> all) {
        check_open();
        say(words_of(mine));
        wait_for_each("timed out", [](peer const& p) { return !p.said.empty(); });
        std::vector<std::vector<std::uint64_t>> heard(ranks());
        for (std::size_t r = 0; r != ranks(); ++r)
            if (r == rank_) heard[r].assign(mine.begin(), mine.end());
            else heard[r] = taken_from(r);
        ++rounds_;  // all have arrived, whatever they sent
        for (std::size_t r = 0; r != ranks(); ++r) {
            if (heard[r].size() != mine.size())
                throw_usage_error(
                    "mpi_group: rank {} sent {} words, rank {} sent {}; all ranks must make the same calls",
                    {as_count(r), as_count(heard[r].size()), as_count(rank_), as_count(mine.size())});
            std::ranges::copy(heard[r], all.begin() + static_cast<std::ptrdiff_t>(r * mine.size()));
        }
    }

    /// Notifies the other ranks immediately.
    void leave(std::string const& why) noexcept {
        if (gone_ || has_left_ || is_closed_) return;
        has_left_ = true;
        report_failure_of([&] {
            mpi_check_thread();
            say(notice_of({rank_, why}, false));
        });
    }

    /// Collective. Throws: rank_lost_error, also for a rank that has closed but does not receive earlier messages.
    void close() {
        check_open();
        throw_if_gone();
        is_closing_ = true;
        say(notice_of({rank_, "closed the group"}, true));
        wait_for_each("did not close the group before the deadline",
                      [](peer const& p) { return p.has_closed; });
        auto const end = clock::now() + deadline_;
        for (backoff pause; !are_sent(); pause())
            if (clock::now() >= end)
                give_up(first_unreached(), "did not receive its messages before the deadline");
        is_closed_ = true;
        mpi_check(MPI_Comm_free(line_.get()), "MPI_Comm_free");
    }

    /// Throws: usage_error on a thread that may not call MPI, and after close().
    void check_open() const {
        mpi_check_thread();
        if (is_closed_ || is_closing_) throw_usage_error("mpi_group: a group was used after it was closed");
    }
    /// Receives all pending messages. Throws: rank_lost_error if a rank is lost that this one still needs.
    void listen() {
        mpi_check_thread();
        while (receive_one()) {}
        (void)are_sent();
        for (std::size_t r = 0; r != ranks(); ++r)
            if (auto const& n = peers_[r].told; n && (is_closing_ ? n->gone.rank != r : is_needed_after(*n)))
                note_gone(n->gone);
        throw_if_gone();
    }
    /// Notifies the other ranks and throws rank_lost_error.
    [[noreturn]] void give_up(std::size_t missing, std::string const& why) {
        note_gone({missing, why + ", after " + count_text(rounds_) + (rounds_ == 1 ? " round" : " rounds")});
        report_failure_of([&] { say(notice_of(*gone_, false)); });
        throw rank_lost_error{gone_->rank, ranks(), gone_->why};
    }
    void throw_if_gone() const {
        if (gone_) throw rank_lost_error{gone_->rank, ranks(), gone_->why};
    }
    void count_sum() noexcept { ++sums_; }

private:
    struct rank_failure {
        std::size_t rank = 0;
        std::string why{};
    };
    struct notice {
        rank_failure gone{};
        std::uint64_t rounds = 0;  // of the sender
        std::uint64_t sums = 0;
    };
    struct peer {
        std::deque<std::vector<std::uint64_t>> said{};
        std::optional<notice> told{};  // the first one
        bool has_closed = false;
    };
    enum kind : std::uint64_t { is_words, is_notice, is_last_notice };
    static constexpr int tag = 0;
    static constexpr std::size_t longest_text = 240;

    // A rank that was ahead of this one has sent everything that this one waits for.
    [[nodiscard]] bool is_needed_after(notice const& n) const noexcept {
        return n.rounds <= rounds_ && n.sums <= sums_;
    }

    // ---- messages: kind, then content

    [[nodiscard]] static std::vector<std::uint64_t> words_of(std::span<std::uint64_t const> mine) {
        std::vector<std::uint64_t> made{is_words};
        made.insert(made.end(), mine.begin(), mine.end());
        return made;
    }
    [[nodiscard]] std::vector<std::uint64_t> notice_of(rank_failure const& gone, bool is_last) const {
        std::size_t const length = std::min(gone.why.size(), longest_text);
        std::vector<std::uint64_t> made{is_last ? is_last_notice : is_notice, gone.rank, rounds_, sums_,
                                        length};
        made.resize(made.size() + (length + 7) / 8);
        std::memcpy(made.data() + 5, gone.why.data(), length);
        return made;
    }
    void hear(std::size_t from, std::vector<std::uint64_t> said) {
        peer& p = peers_[from];
        if (said.at(0) == is_words) {
            p.said.push_back(std::move(said));
            return;
        }
        std::string why(static_cast<std::size_t>(said.at(4)), '\0');
        std::memcpy(why.data(), said.data() + 5, std::min(why.size(), 8 * (said.size() - 5)));
        if (!p.told) p.told = notice{{static_cast<std::size_t>(said[1]), std::move(why)}, said[2], said[3]};
        p.has_closed = p.has_closed || said[0] == is_last_notice;
    }
    [[nodiscard]] std::vector<std::uint64_t> taken_from(std::size_t r) {
        auto said = std::move(peers_[r].said.front());
        peers_[r].said.pop_front();
        said.erase(said.begin());
        return said;
    }

    void say(std::vector<std::uint64_t> message) {
        mpi_operations made{new mpi_requests};
        auto const words = std::make_shared<std::vector<std::uint64_t> const>(std::move(message));
        made->memory.push_back(words);
        made->all.assign(ranks(), MPI_REQUEST_NULL);
        sends_.push_back(std::move(made));  // kept even if a send fails
        for (std::size_t r = 0; r != ranks(); ++r) {
            if (r == rank_) continue;
            int const code = MPI_Isend(words->data(), static_cast<int>(words->size()), MPI_UINT64_T,
                                       static_cast<int>(r), tag, *line_, &sends_.back()->all[r]);
            if (code != MPI_SUCCESS) note_gone({r, "cannot be reached: " + mpi_text(code)});
        }
    }
    [[nodiscard]] bool are_sent() {
        sends_.remove_if([](auto& sent) { return sent->are_over(); });
        return sends_.empty();
    }
    // Returns the first rank with a pending send; ranks() if none.
    [[nodiscard]] std::size_t first_unreached() const noexcept {
        std::size_t r = 0;
        while (r != ranks() && std::ranges::all_of(sends_, [r](auto const& sent) {
                   return sent->all[r] == MPI_REQUEST_NULL;
               }))
            ++r;
        return r;
    }
    // Messages are short: receiving an announced one does not block.
    [[nodiscard]] bool receive_one() {
        int is_there = 0;
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status{};
        mpi_check(MPI_Improbe(MPI_ANY_SOURCE, tag, *line_, &is_there, &message, &status), "MPI_Improbe");
        if (is_there == 0) return false;
        int count = 0;
        mpi_check(MPI_Get_count(&status, MPI_UINT64_T, &count), "MPI_Get_count");
        std::vector<std::uint64_t> said(static_cast<std::size_t>(count));
        mpi_check(MPI_Mrecv(said.data(), count, MPI_UINT64_T, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
        hear(static_cast<std::size_t>(status.MPI_SOURCE), std::move(said));
        return true;
    }

    // ---- waiting

    template <class HasCome>
    void wait_for_each(std::string const& why_not, HasCome has_come) {
        auto const end = clock::now() + deadline_;
        for (backoff pause;; pause()) {
            listen();
            auto const missing = first_without(has_come);
            if (missing == ranks()) return;
            if (clock::now() >= end) give_up(missing, why_not);
        }
    }
    template <class HasCome>
    [[nodiscard]] std::size_t first_without(HasCome has_come) const {
        std::size_t r = 0;
        while (r != ranks() && (r == rank_ || has_come(peers_[r]))) ++r;
        return r;
    }
    void note_gone(rank_failure const& gone) {
        if (!gone_) gone_ = gone;
    }
    // MPI_Comm_dup would block on a rank that never arrives. The result's memory lives as long as MPI may write it.
    void duplicate(MPI_Comm of, source_location where) {
        mpi_operations made{new mpi_requests};
        made->memory.push_back(line_);
        made->all.push_back(MPI_REQUEST_NULL);
        mpi_check(MPI_Comm_idup(of, line_.get(), made->all.data()), "MPI_Comm_idup", where);
        auto const end = clock::now() + deadline_;
        for (backoff pause; !made->are_over(); pause())
            if (clock::now() >= end)
                throw mpi_error{MPI_ERR_PENDING, "MPI_Comm_idup",
                                "timed out: at least one of " + count_text(ranks()) +
                                    " ranks did not construct its mpi_group",
                                where};
        mpi_check(MPI_Comm_set_errhandler(*line_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", where);
    }

    std::chrono::nanoseconds deadline_;
    std::size_t rank_ = 0;
    std::vector<peer> peers_{};
    std::shared_ptr<MPI_Comm> line_ = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
    std::list<mpi_operations> sends_{};
    std::uint64_t rounds_ = 0;
    std::uint64_t sums_ = 0;
    std::optional<rank_failure> gone_{};  // the first one
    bool has_left_ = false;
    bool is_closing_ = false;
    bool is_closed_ = false;
};

}  // namespace cuota::inline v0::detail
