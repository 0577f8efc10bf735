// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A sum over MPI ranks with a fixed order of additions, by messages: a missing rank can be named.
#pragma once

#include <cuota/interop/mpi_call.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <cuota/interop/detail/mpi_channel.hpp>

namespace cuota::inline v0::detail {

/// Reduce-scatter and all-gather: each rank adds up one part of the elements in the order of ranks, so all ranks and runs have the same
/// bits. A rank sends and receives 2 (n - 1) / n of the elements, in 2 (n - 1) messages each way.
class mpi_reduction {
public:
    /// Throws: rank_lost_error, mpi_error.
    mpi_reduction(std::shared_ptr<mpi_channel> line, std::uint64_t number, std::span<float> elements,
                  std::span<float> scratch, std::shared_ptr<void const> owner)
        : line_{std::move(line)}, elements_{elements}, scratch_{scratch}, owner_{std::move(owner)} {
        // Tags distinguish concurrent sums.
        tag_ = 1 + 2 * static_cast<int>(number % 8192);
        receives_ = begun();
        sends_ = begun();
        for_each_other([this](std::size_t r) { receive(*receives_, r, from(r), tag_); });
        for_each_other([this](std::size_t r) { send(*sends_, r, part(r), tag_); });
    }
    mpi_reduction(mpi_reduction const&) = delete;
    mpi_reduction& operator=(mpi_reduction const&) = delete;
    ~mpi_reduction() = default;

    [[nodiscard]] static std::size_t scratch(std::size_t count, std::size_t ranks) noexcept {
        return ranks < 2 ? 0 : (ranks - 1) * (count / ranks + 1);
    }

    /// Makes progress; returns whether the elements are the sums and MPI no longer accesses them.
    [[nodiscard]] bool test() {
        if (is_over_) return true;
        if (!has_added_) {
            bool const all_here = receives_->are_over();
            if (!sends_->are_over() || !all_here) return false;
            add_up();
        }
        bool const all_here = receives_->are_over();
        if (!sends_->are_over() || !all_here) return false;
        receives_.reset();
        sends_.reset();
        line_->count_sum();
        return is_over_ = true;
    }
    /// Deadline of the sum. The wait for sums has twice the time: otherwise a rank that waits for the missing one would be named.
    [[nodiscard]] mpi_channel::clock::time_point end() const noexcept {
        return begun_ + (has_added_ ? 2 : 1) * line_->deadline();
    }
    /// Returns the first rank with a pending message; ranks() if none.
    [[nodiscard]] std::size_t missing_rank() const noexcept {
        for (auto const* list : {receives_.get(), sends_.get()})
            for (std::size_t r = 0; r != line_->ranks(); ++r)
                if (list && list->all[r] != MPI_REQUEST_NULL) return r;
        return line_->ranks();
    }

private:
    [[nodiscard]] mpi_operations begun() const {
        mpi_operations made{new mpi_requests};
        made->all.assign(line_->ranks(), MPI_REQUEST_NULL);
        made->memory.push_back(owner_);
        return made;
    }
    template <class F>
    void for_each_other(F f) const {
        for (std::size_t r = 0; r != line_->ranks(); ++r)
            if (r != line_->rank()) f(r);
    }
    void receive(mpi_requests& list, std::size_t from, std::span<float> to, int tag) const {
        if (to.empty()) return;
        mpi_check(MPI_Irecv(to.data(), static_cast<int>(to.size()), MPI_FLOAT, static_cast<int>(from), tag,
                            line_->native(), &list.all[from]),
                  "MPI_Irecv");
    }
    void send(mpi_requests& list, std::size_t to, std::span<float const> what, int tag) const {
        if (what.empty()) return;
        mpi_check(MPI_Isend(what.data(), static_cast<int>(what.size()), MPI_FLOAT, static_cast<int>(to), tag,
                            line_->native(), &list.all[to]),
                  "MPI_Isend");
    }

    // The elements that rank r adds up, and the scratch for r's values of this rank's part.
    [[nodiscard]] std::span<float> part(std::size_t r) const noexcept {
        std::size_t const first = cut(r);
        return elements_.subspan(first, cut(r + 1) - first);
    }
    [[nodiscard]] std::span<float> from(std::size_t r) const noexcept {
        std::size_t const count = part(line_->rank()).size();
        return scratch_.subspan((r < line_->rank() ? r : r - 1) * count, count);
    }
    [[nodiscard]] std::size_t cut(std::size_t r) const noexcept {
        std::size_t const n = line_->ranks();
        return elements_.size() / n * r + std::min(r, elements_.size() % n);
    }

    void add_up() {
        std::span<float> const mine = part(line_->rank());
        auto const of = [&](std::size_t r) { return r == line_->rank() ? mine : from(r); };
        std::span<float> const sum = of(0);
        for (std::size_t r = 1; r != line_->ranks(); ++r) {
            float const* const next = of(r).data();
            for (std::size_t i = 0; i != sum.size(); ++i) sum[i] += next[i];
        }
        if (sum.data() != mine.data()) std::ranges::copy(sum, mine.begin());
        has_added_ = true;
        for_each_other([this](std::size_t r) { receive(*receives_, r, part(r), tag_ + 1); });
        for_each_other([&](std::size_t r) { send(*sends_, r, mine, tag_ + 1); });
    }

    std::shared_ptr<mpi_channel> line_;
    std::span<float> elements_, scratch_;
    std::shared_ptr<void const> owner_;
    int tag_ = 0;
    mpi_channel::clock::time_point begun_ = mpi_channel::clock::now();
    mpi_operations receives_{}, sends_{};
    bool has_added_ = false;
    bool is_over_ = false;
};

}  // namespace cuota::inline v0::detail
