// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Sums over ranks with NCCL, with a deadline. Requires NCCL 2.14 or later.
#pragma once

#include <nccl.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/threads/backoff.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/training/distributed/collective_step.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0 {

/// An NCCL call failed, or its operation exceeded the deadline.
class CUOTA_PROCESS_TYPE nccl_error : public std::runtime_error {
public:
    /// `call` is the NCCL function, `why` NCCL's text for the code.
    nccl_error(ncclResult_t code, std::string const& call, std::string const& why, source_location where = {})
        : std::runtime_error{"cuota::nccl_error: " + call + " failed: " + why +
                             detail::location_suffix(where)},
          code_{code},
          call_{std::make_shared<std::string const>(call)} {}

    /// NCCL's code; ncclInProgress if the deadline was exceeded.
    [[nodiscard]] ncclResult_t code() const noexcept { return code_; }
    [[nodiscard]] std::string const& call() const noexcept { return *call_; }  ///< name of the function

private:
    ncclResult_t code_;
    std::shared_ptr<std::string const> call_;
};

namespace detail {

[[nodiscard]] inline nccl_error nccl_error_of(ncclResult_t code, char const* call, ncclComm_t comm,
                                              source_location where) {
    std::string why = ncclGetErrorString(code);
    char const* const more = comm ? ncclGetLastError(comm) : nullptr;
    if (more && *more != '\0') why += std::string{": "} + more;
    return {code, call, why, where};
}

/// A nonblocking communicator: its operations can be polled and aborted.
class nccl_communicator {
public:
    using clock = std::chrono::steady_clock;

    nccl_communicator(rank_consensus& ranks, std::chrono::nanoseconds deadline, source_location where)
        : deadline_{deadline}, rank_{ranks.rank()}, ranks_{ranks.ranks()} {
        process_number::note_cuda();
        check_process();
        ncclUniqueId const id = shared_id(ranks, where);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclResult_t const code =
            ncclCommInitRankConfig(&comm_, static_cast<int>(ranks_), id, static_cast<int>(rank_), &config);
        try {
            check(code, "ncclCommInitRankConfig", where);
            wait("ncclCommInitRankConfig", where);
        } catch (...) {
            abort();
            throw;
        }
    }
    nccl_communicator(nccl_communicator const&) = delete;
    nccl_communicator& operator=(nccl_communicator const&) = delete;
    // A forked child has the parent's communicator.
    ~nccl_communicator() {
        if (!comm_ || process_number::is_cuda_of_parent()) return;
        bool const has_ended = report_failure_of([this] {
            check(ncclCommFinalize(comm_), "ncclCommFinalize", {});
            wait("ncclCommFinalize", {});
            ncclComm_t const done = std::exchange(comm_, nullptr);
            check(ncclCommDestroy(done), "ncclCommDestroy", {});
        });
        if (!has_ended) abort();
    }

    [[nodiscard]] ncclComm_t get() const noexcept { return comm_; }
    /// Throws: usage_error in a forked child of a process that used CUDA.
    static void check_process() {
        if (process_number::is_cuda_of_parent()) throw_forked();
    }
    [[nodiscard]] std::size_t ranks() const noexcept { return ranks_; }
    [[nodiscard]] clock::time_point end_of(clock::time_point begun) const noexcept {
        return begun + deadline_;
    }

    /// Also ends running device work, without a result.
    void abort() noexcept {
        if (ncclComm_t const lost = std::exchange(comm_, nullptr)) (void)ncclCommAbort(lost);
    }
    /// Returns whether all calls have been started.
    [[nodiscard]] bool is_settled(char const* call, source_location where = {}) const {
        ncclResult_t state = ncclSuccess;
        check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", where);
        check(state, call, where);
        return state != ncclInProgress;
    }
    void check(ncclResult_t code, char const* call, source_location where) const {
        if (code != ncclSuccess && code != ncclInProgress) throw nccl_error_of(code, call, comm_, where);
    }
    [[noreturn]] void give_up(char const* call, source_location where = {}) const {
        throw nccl_error{ncclInProgress, call,
                         "timed out (rank " + count_text(rank_) + " waited): at least one of " +
                             count_text(ranks_) + " ranks did not enter the call",
                         where};
    }

private:
    void wait(char const* call, source_location where) const {
        auto const end = end_of(clock::now());
        for (backoff pause; !is_settled(call, where); pause())
            if (clock::now() >= end) give_up(call, where);
    }
    [[nodiscard]] static ncclUniqueId shared_id(rank_consensus& ranks, source_location where) {
        constexpr std::size_t words = NCCL_UNIQUE_ID_BYTES / sizeof(std::uint64_t);
        auto const mine = all_or_none(
            ranks, "NCCL unique id",
            [&] {
                ncclUniqueId made{};
                if (ranks.rank() == 0)
                    if (ncclResult_t const code = ncclGetUniqueId(&made); code != ncclSuccess)
                        throw nccl_error_of(code, "ncclGetUniqueId", nullptr, where);
                return std::bit_cast<std::array<std::uint64_t, words>>(made);
            },
            where);
        std::array<std::uint64_t, words> shared{};
        for (std::size_t i = 0; i != words; ++i)
            shared[i] = ranks.all_gather(mine[i], "NCCL unique id", where).front();
        return std::bit_cast<ncclUniqueId>(shared);
    }

    ncclComm_t comm_ = nullptr;
    std::chrono::nanoseconds deadline_;
    std::size_t rank_, ranks_;
};

}  // namespace detail

/// Sums over ranks in device memory, in the order of a stream: an all_reduce_backend for gradient_buckets.
///
///     rank_consensus ranks = group.join();  // of mpi_group or thread_group
///     gradient_buckets sums{nccl_all_reduce{ranks, 2min}, counts, {.memory = budgeted<device_memory>{device}}};
///
/// A sum that does not start on all ranks and finish within the deadline is aborted (ncclCommAbort); the rank_consensus then names the lost
/// rank. All ranks have the same bits. Runs may differ if NCCL chooses another algorithm; NCCL_ALGO and NCCL_PROTO fix it. No budget counts
/// NCCL's own memory. Uses the device that is current on construction. Move-only. The destructor waits for pending work, up to the
/// deadline; in a forked child it makes no call.
/// Threads: one at a time.
/// Throws:  nccl_error, with ncclInProgress if a deadline was exceeded; usage_error in a forked child.
/// Cost:    per sum, one NCCL call and an event.
/// Example: examples/train_ranks.cpp
class nccl_all_reduce {
public:
    static constexpr bool on_device = true;  ///< sums on the device

    /// Collective over all ranks. Throws: usage_error for a deadline that is not positive; nccl_error; the rank_consensus's exceptions.
    explicit nccl_all_reduce(rank_consensus& ranks,
                             std::chrono::nanoseconds deadline = std::chrono::minutes{10},
                             source_location where = source_location::current()) {
        if (deadline <= std::chrono::nanoseconds::zero())
            detail::throw_usage_error(where, "nccl_all_reduce: the deadline must be positive");
        // A time point must not overflow.
        constexpr std::chrono::nanoseconds a_year = std::chrono::hours{24 * 365};
        comm_ =
            std::make_unique<detail::nccl_communicator>(ranks, deadline < a_year ? deadline : a_year, where);
    }
    nccl_all_reduce(nccl_all_reduce&&) noexcept = default;  ///< any use of `other` is misuse afterwards
    nccl_all_reduce& operator=(nccl_all_reduce&&) noexcept =
        default;                                       ///< its own sums end first, as in the destructor
    nccl_all_reduce(nccl_all_reduce const&) = delete;  // copies would number the same sums
    nccl_all_reduce& operator=(nccl_all_reduce const&) = delete;
    ~nccl_all_reduce() = default;

    [[nodiscard]] std::size_t ranks() const { return comm().ranks(); }           ///< of the rank_consensus
    [[nodiscard]] std::size_t scratch(std::size_t) const noexcept { return 0; }  ///< NCCL has its own

    /// Starts an in-place sum in the order of s; returns its number. `owner` keeps the memory alive. Throws: usage_error while another sum
    /// starts and after a failure; nccl_error, after which the backend must not be used.
    std::uint64_t start(std::span<float> elements, std::span<float>, std::shared_ptr<void const> owner,
                        stream_ref s) {
        expect_usable();
        if (is_starting_)
            detail::throw_usage_error("nccl_all_reduce: cannot start a sum while another one is starting");
        open_.push_back({s, std::move(owner), clock::now(), {}});
        run_or_abort([&] {
            comm_->check(ncclAllReduce(elements.data(), elements.data(), elements.size(), ncclFloat, ncclSum,
                                       comm_->get(), s.get()),
                         call, {});
        });
        is_starting_ = true;
        return begun_++;
    }
    /// Advances a sum that has not started; returns whether later work on the sum's stream is ordered after it. Does not wait. Throws: as
    /// `start`.
    [[nodiscard]] bool test(std::uint64_t number) {
        expect_usable();
        if (is_starting_) run_or_abort([&] { is_starting_ = !comm_->is_settled(call); });
        if (!is_starting_ && !open_.empty() && !open_.back().end) open_.back().end = mark(open_.back().on);
        return number + is_starting_ < begun_;
    }
    /// Releases finished sums. Throws: nccl_error if NCCL met an error or the oldest sum is late.
    void check() {
        run_or_abort([&] {
            (void)comm_->is_settled(call);
            while (!open_.empty() && open_.front().end && open_.front().end->is_done()) {
                spare_.push_back(*std::move(open_.front().end));
                open_.pop_front();
            }
            if (!open_.empty() && clock::now() >= comm_->end_of(open_.front().begun)) comm_->give_up(call);
        });
    }

private:
    using clock = detail::nccl_communicator::clock;
    static constexpr char const* call = "ncclAllReduce";

    struct open_sum {
        stream_ref on;
        std::shared_ptr<void const> owner;
        clock::time_point begun;
        std::optional<event> end;  // recorded once the sum is fully enqueued
    };

    [[nodiscard]] event mark(stream_ref s) {
        if (spare_.empty()) return event{s};
        event again = std::move(spare_.back());
        spare_.pop_back();
        again.record(s);
        return again;
    }
    template <class Call>
    void run_or_abort(Call what) {
        expect_usable();
        if (!comm().get()) detail::throw_usage_error("nccl_all_reduce: used after a failure");
        try {
            what();
        } catch (...) {
            comm_->abort();
            throw;
        }
    }

    void expect_usable() const { comm().check_process(); }
    [[nodiscard]] detail::nccl_communicator& comm() const {
        if (!comm_) detail::throw_usage_error("nccl_all_reduce was used after it was moved from");
        return *comm_;
    }

    std::unique_ptr<detail::nccl_communicator> comm_;
    std::deque<open_sum> open_{};
    std::vector<event> spare_{};
    std::uint64_t begun_ = 0;
    bool is_starting_ = false;
};

}  // namespace cuota::inline v0
