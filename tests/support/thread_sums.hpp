// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Sums over ranks that are threads: a minimal all_reduce_backend.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <cuota/runtime/stream.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace support {

class sum_board {
public:
    explicit sum_board(std::size_t ranks) : ranks_{ranks} {}

    void post(std::size_t rank, std::uint64_t number, std::span<float const> mine) {
        std::scoped_lock const lock{guard_};
        auto& parts = sums_[number];
        parts.resize(ranks_);
        parts[rank].assign(mine.begin(), mine.end());
    }
    /// Returns the first rank that has not posted its part of that sum, or the number of ranks if all have.
    [[nodiscard]] std::size_t missing(std::uint64_t number) {
        std::scoped_lock const lock{guard_};
        auto const& parts = sums_[number];
        return std::size_t(std::ranges::find_if(parts, [](auto const& p) { return p.empty(); }) -
                           parts.begin());
    }
    /// Adds the parts in rank order.
    void take(std::uint64_t number, std::span<float> to) {
        std::scoped_lock const lock{guard_};
        auto const& parts = sums_[number];
        std::ranges::copy(parts[0], to.begin());
        for (std::size_t r = 1; r != ranks_; ++r)
            for (std::size_t i = 0; i != to.size(); ++i) to[i] += parts[r][i];
    }
    [[nodiscard]] std::size_t ranks() const { return ranks_; }

private:
    std::size_t ranks_;
    std::mutex guard_;
    std::map<std::uint64_t, std::vector<std::vector<float>>> sums_;
};

class thread_sums {
public:
    static constexpr bool on_device = false;
    using clock = std::chrono::steady_clock;

    thread_sums(std::shared_ptr<sum_board> board, std::size_t rank, std::chrono::nanoseconds deadline)
        : board_{std::move(board)}, rank_{rank}, deadline_{deadline} {}

    [[nodiscard]] std::size_t ranks() const { return board_->ranks(); }
    [[nodiscard]] std::size_t scratch(std::size_t) const { return 0; }
    std::uint64_t start(std::span<float> elements, std::span<float>, std::shared_ptr<void const> owner,
                        cuota::stream_ref) {
        board_->post(rank_, open_.size(), elements);
        open_.push_back({elements, std::move(owner), clock::now(), false});
        return open_.size() - 1;
    }
    [[nodiscard]] bool test(std::uint64_t number) {
        sum& one = open_.at(number);
        if (one.is_over) return true;
        if (board_->missing(number) != ranks()) return false;
        board_->take(number, one.elements);
        one.owner = nullptr;
        return one.is_over = true;
    }
    void check() {
        for (std::uint64_t i = 0; i != open_.size(); ++i)
            if (!open_[i].is_over && clock::now() - open_[i].begun > deadline_ && !test(i))
                throw cuota::rank_lost_error{board_->missing(i), ranks(),
                                             "did not contribute to a sum before the deadline"};
    }

private:
    struct sum {
        std::span<float> elements;
        std::shared_ptr<void const> owner;
        clock::time_point begun;
        bool is_over;
    };
    std::shared_ptr<sum_board> board_;
    std::size_t rank_;
    std::chrono::nanoseconds deadline_;
    std::vector<sum> open_;
};

}  // namespace support
