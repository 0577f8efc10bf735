// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Ranks that are processes of an MPI program, on one machine or many: agreements between them, and sums over them, with
/// a deadline. Not in all.hpp: it needs an MPI, of which it calls the C interface, version 3.0.
#pragma once

#include <cuota/interop/mpi_call.hpp>

#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuota/data/batch_deal.hpp>
#include <cuota/interop/mpi_line.hpp>
#include <cuota/interop/mpi_sum.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/agreement.hpp>

namespace cuota::inline v0 {

/// The ranks of a communicator.
///
///     MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
///     mpi_ranks const group{MPI_COMM_WORLD, 2min};
///     batch_loader loader{source, {.batch = 64, .seed = 1, .part = group.part()}};  // of each step, this rank's share
///     agreement ranks = group.join();
///     std::size_t const batch = find_batch_size(step, {.largest = 600, .ranks = &ranks}).batch;
///
/// Whoever waits is told by rank_gone when a rank leaves (its agreement ends, by an exception or not), when it is said to be
/// gone by another, and when it does not come within the deadline, counted from when the one who waits came. A rank that
/// was killed or stopped is one that does not come. The group does not heal: the rank is named at every later question.
/// The deadline has to be longer than ranks are ever apart: the longest step and its first run, with a good margin.
///
/// After rank_gone, MPI_Finalize may wait for the one that is gone: end by MPI_Abort, which makes mpirun end all others,
/// a stopped one with them. What MPI may still write to stays taken until the process ends.
/// Its messages have a communicator of their own. close() frees it; else MPI keeps it: make few groups.
/// Shared state: copies are the same group.
/// Threads: one at a time, and below MPI_THREAD_SERIALIZED only the one that started MPI; this is checked. What it waits
///          for goes on while one of its functions is called, as MPI has it.
/// Cost:    a message to each other rank and one from each, for each question.
/// Throws:  as each says; rank_gone; mpi_error; misuse in a forked child, where all that is here ends without a call of MPI.
/// Example: examples/train_ranks.cpp
class mpi_ranks {
public:
    /// All ranks of `of` make it together. Throws: misuse when MPI is not running, or was started for one thread only, on a
    /// thread that may not call it, and for a deadline that is over; mpi_error, also when some do not come in time: which,
    /// MPI does not tell. What it says of `of` itself is for that one's error handler.
    explicit mpi_ranks(MPI_Comm of, std::chrono::nanoseconds deadline = std::chrono::minutes{10},
                       place where = place::here()) {
        if (deadline <= std::chrono::nanoseconds::zero())
            detail::throw_misuse(where, "mpi_ranks: a deadline that is over before anybody can come");
        line_ = std::make_shared<detail::mpi_line>(of, deadline, where);
        has_joined_ = std::make_shared<bool>(false);
    }
    /// The same group; its move is a copy, so a handle that was moved from is still valid.
    mpi_ranks(mpi_ranks const&) noexcept = default;
    mpi_ranks& operator=(mpi_ranks const&) noexcept = default;  ///< the same group as other
    ~mpi_ranks() = default;

    [[nodiscard]] std::size_t rank() const noexcept { return line_->rank(); }    ///< this one, from 0
    [[nodiscard]] std::size_t ranks() const noexcept { return line_->ranks(); }  ///< all of them
    /// This rank's share of each batch, for loader_options::part.
    [[nodiscard]] shard part() const noexcept { return {rank(), ranks()}; }

    /// This rank's part in agreements. Throws: misuse when it has joined before.
    [[nodiscard]] agreement join(place where = place::here()) const {
        rank_link link{rank(), ranks(), {}, {}};
        link.gather = [line = line_](std::span<std::uint64_t const> mine, std::span<std::uint64_t> all) {
            line->gather(mine, all);
        };
        link.leave = [line = line_](std::string const& why) { line->leave(why); };
        if (std::exchange(*has_joined_, true))
            detail::throw_misuse(where, "mpi_ranks: rank {} has joined already", {detail::as_count(rank())});
        return agreement{std::move(link), where};
    }

    /// Ends the group on all ranks together, when nothing has gone wrong: waits until all have called it, and frees its
    /// communicator. All agreements and sums are over by then. Throws: rank_gone; misuse when it was closed before.
    void close() const { line_->close(); }

private:
    friend class mpi_sums;
    std::shared_ptr<detail::mpi_line> line_;
    std::shared_ptr<bool> has_joined_;
};

/// Sums over the ranks of a group, of host memory: a reduce_link, what gradient_buckets stand on.
///
/// The same bits on every rank: each element is added up by one rank, in the order of ranks, and sent to the others. So
/// they depend on how many ranks there are, and on nothing else: no message's arrival, no setting of MPI.
/// Move-only. Threads: as mpi_ranks.
/// Throws:  rank_gone, which names the rank whose part or sums do not come within the deadline; mpi_error.
/// Cost:    of a sum nearly twice its elements sent and received, in two messages to and from each other rank.
/// Example: examples/train_ranks.cpp
class mpi_sums {
public:
    static constexpr bool on_device = false;  ///< it sums on the host

    /// Any number of them stand on one group.
    explicit mpi_sums(mpi_ranks const& of) : line_{of.line_} {}
    mpi_sums(mpi_sums&&) noexcept = default;             ///< every use of the other one is a misuse then
    mpi_sums& operator=(mpi_sums&&) noexcept = default;  ///< its own sums must be over
    mpi_sums(mpi_sums const&) = delete;                  // two that number the same sums
    mpi_sums& operator=(mpi_sums const&) = delete;

    [[nodiscard]] std::size_t ranks() const { return line().ranks(); }  ///< of the group
    /// Floats that a sum of so many needs beside them.
    [[nodiscard]] std::size_t scratch(std::size_t count) const {
        return detail::mpi_sum::scratch(count, ranks());
    }
    /// Begins to replace the elements by their sums over all ranks, which begin the same sums in the same order. Returns its
    /// number. Nobody touches the memory until the sum is over; `owner` keeps it, if need be for ever.
    std::uint64_t begin(std::span<float> elements, std::span<float> scratch_memory,
                        std::shared_ptr<void const> owner, stream_ref) {
        line().check_open();
        if (elements.size() > INT_MAX || scratch_memory.size() < scratch(elements.size()))
            detail::throw_misuse(
                "mpi_sums: a sum of {} floats with {} beside them",
                {detail::as_count(elements.size()), detail::as_count(scratch_memory.size())});
        line_->listen();
        open_.emplace_back(line_, begun_, elements, scratch_memory, std::move(owner));
        return begun_++;
    }
    /// Lets all sums go on; true when that one is over.
    [[nodiscard]] bool is_over(std::uint64_t number) {
        (void)line();
        detail::mpi_check_thread();
        for (detail::mpi_sum& each : open_) (void)each.is_over();
        while (!open_.empty() && open_.front().is_over()) open_.pop_front();
        return number < begun_ - open_.size();
    }
    /// Throws: rank_gone when a rank is known to be gone, or the first sum is late.
    void check() {
        line().listen();
        if (!open_.empty() && detail::mpi_line::clock::now() >= open_.front().end() &&
            !is_over(begun_ - open_.size()))
            line_->give_up(open_.front().missing(), "its part of a sum did not come in time");
    }

private:
    [[nodiscard]] detail::mpi_line& line() const {
        if (!line_) detail::throw_misuse("mpi_sums were used after they were moved from");
        return *line_;
    }

    std::shared_ptr<detail::mpi_line> line_;
    std::deque<detail::mpi_sum> open_{};
    std::uint64_t begun_ = 0;
};

}  // namespace cuota::inline v0
