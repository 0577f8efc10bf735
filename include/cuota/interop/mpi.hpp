// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Agreements between the processes of an MPI program and sums over them, with deadlines. Requires MPI 3.0.
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

#include <cuota/data/loader/shard.hpp>
#include <cuota/interop/detail/mpi_all_reduce.hpp>
#include <cuota/interop/detail/mpi_channel.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0 {

/// The ranks of a communicator (a process group).
///
/// A waiting rank throws rank_lost_error if another rank leaves (its rank_consensus is destroyed), is reported as lost, or does not arrive
/// within the deadline after the waiting rank. Each later call names the lost rank. The deadline must exceed the largest skew between
/// ranks, such as a first run.
///
/// After rank_lost_error, MPI_Finalize may wait for the lost rank: call MPI_Abort, with which mpirun ends all processes. Memory that MPI
/// may still write to stays allocated. Messages use a duplicate of the communicator, which only close() frees: make few groups. Copies
/// refer to the same group.
/// Threads: one at a time, and below MPI_THREAD_SERIALIZED only the one that initialized MPI. Operations progress only during calls of the
/// group's functions.
/// Cost:    a message to and from each other rank per call.
/// Throws:  as stated; rank_lost_error; mpi_error; usage_error in a forked child, where destructors make no call of MPI.
/// Example: examples/train_ranks.cpp
class mpi_group {
public:
    /// Collective over all ranks of `of`. Throws: usage_error if MPI is not running or is single-threaded, on a thread that may not call
    /// it, and for a deadline that is not positive; mpi_error, also if some ranks do not arrive in time. Errors on `of` itself go to its
    /// error handler.
    explicit mpi_group(MPI_Comm of, std::chrono::nanoseconds deadline = std::chrono::minutes{10},
                       source_location where = source_location::current()) {
        if (deadline <= std::chrono::nanoseconds::zero())
            detail::throw_usage_error(where, "mpi_group: the deadline must be positive");
        line_ = std::make_shared<detail::mpi_channel>(of, deadline, where);
        has_joined_ = std::make_shared<bool>(false);
    }
    /// A move copies.
    mpi_group(mpi_group const&) noexcept = default;
    mpi_group& operator=(mpi_group const&) noexcept = default;  ///< refers to the same group
    ~mpi_group() = default;

    [[nodiscard]] std::size_t rank() const noexcept { return line_->rank(); }    ///< this rank, from 0
    [[nodiscard]] std::size_t ranks() const noexcept { return line_->ranks(); }  ///< number of ranks
    /// This rank's share of each batch.
    [[nodiscard]] cuota::shard shard() const noexcept { return {rank(), ranks()}; }

    /// Throws: usage_error if this rank has joined before.
    [[nodiscard]] rank_consensus join(source_location where = source_location::current()) const {
        rank_transport transport{rank(), ranks(), {}, {}};
        transport.all_gather = [line = line_](std::span<std::uint64_t const> mine,
                                              std::span<std::uint64_t> all) { line->all_gather(mine, all); };
        transport.leave = [line = line_](std::string const& why) { line->leave(why); };
        if (std::exchange(*has_joined_, true))
            detail::throw_usage_error(where, "mpi_group: rank {} has joined already",
                                      {detail::as_count(rank())});
        return rank_consensus{std::move(transport), where};
    }

    /// Collective, if nothing has failed: waits for all ranks and frees the communicator. Each rank_consensus and reduction must have
    /// finished. Throws: usage_error if already closed.
    void close() const { line_->close(); }

private:
    friend class mpi_all_reduce;
    std::shared_ptr<detail::mpi_channel> line_;
    std::shared_ptr<bool> has_joined_;
};

/// Sums over the ranks of a group in host memory: an all_reduce_backend for gradient_buckets.
///
/// Results are bitwise equal on all ranks and depend on the number of ranks only: additions are in the order of ranks. Move-only.
/// Threads: as mpi_group.
/// Throws:  rank_lost_error, naming the rank that exceeds the deadline; mpi_error.
/// Cost:    per sum, nearly twice its elements sent and received, in two messages to and from each other rank.
/// Example: examples/train_ranks.cpp
class mpi_all_reduce {
public:
    static constexpr bool on_device = false;  ///< sums on the host

    /// Several objects may use one group.
    explicit mpi_all_reduce(mpi_group const& of) : line_{of.line_} {}
    mpi_all_reduce(mpi_all_reduce&&) noexcept = default;  ///< any use of `other` is misuse afterwards
    mpi_all_reduce& operator=(mpi_all_reduce&&) noexcept = default;  ///< its own sums must have finished
    mpi_all_reduce(mpi_all_reduce const&) = delete;                  // copies would number the same sums
    mpi_all_reduce& operator=(mpi_all_reduce const&) = delete;

    [[nodiscard]] std::size_t ranks() const { return line().ranks(); }  ///< of the group
    /// Returns the additional floats that a sum needs.
    [[nodiscard]] std::size_t scratch(std::size_t count) const {
        return detail::mpi_reduction::scratch(count, ranks());
    }
    /// Starts an in-place sum and returns its number. All ranks must start the same sums in the same order. The memory must not be accessed
    /// until the sum has finished; `owner` is kept until then, if necessary forever.
    std::uint64_t start(std::span<float> elements, std::span<float> scratch_memory,
                        std::shared_ptr<void const> owner, stream_ref) {
        line().check_open();
        if (elements.size() > INT_MAX || scratch_memory.size() < scratch(elements.size()))
            detail::throw_usage_error(
                "mpi_all_reduce: cannot sum {} floats with a scratch of {} floats",
                {detail::as_count(elements.size()), detail::as_count(scratch_memory.size())});
        line_->listen();
        open_.emplace_back(line_, begun_, elements, scratch_memory, std::move(owner));
        return begun_++;
    }
    /// Makes progress on all sums; returns whether that one has finished.
    [[nodiscard]] bool test(std::uint64_t number) {
        (void)line();
        detail::mpi_check_thread();
        for (detail::mpi_reduction& each : open_) (void)each.test();
        while (!open_.empty() && open_.front().test()) open_.pop_front();
        return number < begun_ - open_.size();
    }
    /// Throws: rank_lost_error if a rank is lost or the first sum is late.
    void check() {
        line().listen();
        if (!open_.empty() && detail::mpi_channel::clock::now() >= open_.front().end() &&
            !test(begun_ - open_.size()))
            line_->give_up(open_.front().missing_rank(), "did not contribute to a sum before the deadline");
    }

private:
    [[nodiscard]] detail::mpi_channel& line() const {
        if (!line_) detail::throw_usage_error("mpi_all_reduce was used after it was moved from");
        return *line_;
    }

    std::shared_ptr<detail::mpi_channel> line_;
    std::deque<detail::mpi_reduction> open_{};
    std::uint64_t begun_ = 0;
};

}  // namespace cuota::inline v0
