// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Internals of chain_plan: least memory and time of every subrange.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/training/checkpointing/chain.hpp>

namespace cuota::inline v0::detail {

/// A first decision for stages [first, last]; the input of `first` is counted elsewhere. If saving: `first` runs forward, its record stays
/// until its backward run, and the rest is [next, last]. Otherwise: stages [first, next - 1] run forward, only the last output is kept for
/// [next, last], and afterwards [first, next - 1] starts anew.
struct chain_choice {
    bool is_saving;
    std::size_t next;
    std::size_t need;  // its own bytes, including gradients
    std::size_t kept;  // bytes kept while [next, last] runs
    double time;       // of its own runs
};

/// Sizes of a chain. Precondition: chain::check has passed, so no sum overflows.
class chain_sizes {
public:
    explicit chain_sizes(chain const& c);

    [[nodiscard]] std::size_t stages() const noexcept { return stages_.size(); }
    [[nodiscard]] double time_alone(std::size_t i) const noexcept;
    [[nodiscard]] std::size_t need_alone(std::size_t i) const noexcept;

    /// Precondition: first < last.
    template <class Visit>
    void for_each_choice(std::size_t first, std::size_t last, Visit&& visit) const {
        visit(chain_choice{
            true, first + 1,
            std::max(gradient(last) + record(first) + stages_[first].forward_scratch, need_back(first)),
            record(first), time_alone(first)});
        std::size_t forward_peak = 0;
        for (std::size_t k = first; k != last; ++k) {
            std::size_t const input = k == first ? 0 : stages_[k - 1].output_bytes;
            forward_peak =
                std::max(forward_peak, input + stages_[k].output_bytes + stages_[k].forward_scratch);
            visit(chain_choice{false, k + 1, gradient(last) + forward_peak, stages_[k].output_bytes,
                               forward_sums_[k + 1] - forward_sums_[first]});
        }
    }

private:
    [[nodiscard]] std::size_t record(std::size_t i) const noexcept;
    [[nodiscard]] std::size_t gradient(std::size_t i) const noexcept;
    [[nodiscard]] std::size_t need_back(std::size_t i) const noexcept;

    std::vector<chain_stage> const& stages_;
    std::vector<double> forward_sums_;
};

/// Triangular matrix of the subranges [first, last]; cells with equal `first` are adjacent.
class chain_cells {
public:
    explicit chain_cells(std::size_t stages) noexcept : stages_{stages} {}
    [[nodiscard]] std::size_t count() const noexcept { return stages_ * (stages_ + 1) / 2; }
    [[nodiscard]] std::size_t at(std::size_t first, std::size_t last) const noexcept;
    /// Visits each subrange after all its subranges.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (std::size_t last = 0; last != stages_; ++last)
            for (std::size_t first = last + 1; first-- != 0;) visit(first, last);
    }

private:
    std::size_t stages_;
};

/// Minimum memory of every subrange, in exact bytes, and its time.
class least_table {
public:
    struct cell {
        std::size_t bytes = unlimited;
        double time = 0;
    };

    explicit least_table(chain_sizes const& sizes);

    [[nodiscard]] cell const& operator()(std::size_t first, std::size_t last) const noexcept;

private:
    [[nodiscard]] cell of(std::size_t first, std::size_t last, chain_choice const& choice) const noexcept;

    chain_cells cells_;
    std::vector<cell> least_;
};

/// faster[i] = min(faster[i], time + rest[i] + again[i]). None of the arrays increases with i, so a block is skipped if its best new value
/// is no better than its worst old one. Blocks have a fixed length for vectorization.
void take_faster(double* __restrict faster, double const* __restrict rest, double const* __restrict again,
                 double time, std::size_t count) noexcept;

/// Rotor's table: the least time of every subrange in 0 .. `slots` slots of memory_limit / slots bytes. Sizes are rounded up to whole slots, so a
/// schedule that fits by the table fits in bytes.
class time_table {
public:
    time_table(chain_sizes const& sizes, least_table const& least, std::size_t memory_limit,
               std::size_t slots, source_location where);

    /// Returns the least known time of [first, last] within `bytes`, or infinity.
    [[nodiscard]] double operator()(std::size_t first, std::size_t last, std::size_t bytes) const noexcept;

private:
    __extension__ typedef unsigned __int128 wide;  // NOLINT(modernize-use-using)

    [[nodiscard]] std::size_t row_count(source_location where) const;
    [[nodiscard]] std::size_t slots_in(std::size_t bytes) const noexcept;
    // Rounds up; returns slots_ + 1 for sizes above the memory_limit.
    [[nodiscard]] std::size_t slots_for(std::size_t bytes) const noexcept;
    [[nodiscard]] double* row(std::size_t cell) const noexcept { return &rows_[cell * (slots_ + 1)]; }

    void begin_row(std::size_t first, std::size_t last, least_table::cell const& least) noexcept;
    void add_choice(std::size_t first, std::size_t last, chain_choice const& choice) noexcept;

    chain_cells cells_;
    std::size_t memory_limit_;
    std::size_t slots_;
    std::unique_ptr<double[]> rows_;   // per cell: the time in 0 .. slots slots
    std::vector<std::size_t> starts_;  // per cell: the fewest slots in which it is known to fit
    std::vector<double> zeros_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE chain_sizes::chain_sizes(chain const& c)
    : stages_{c.stages}, forward_sums_(c.stages.size() + 1) {
    for (std::size_t i = 0; i != stages_.size(); ++i)
        forward_sums_[i + 1] = forward_sums_[i] + stages_[i].forward_time;
}

CUOTA_INLINE double chain_sizes::time_alone(std::size_t i) const noexcept {
    return stages_[i].forward_time + stages_[i].backward_time;
}

CUOTA_INLINE std::size_t chain_sizes::need_alone(std::size_t i) const noexcept {
    return std::max(gradient(i) + record(i) + stages_[i].forward_scratch, need_back(i));
}

CUOTA_INLINE std::size_t chain_sizes::record(std::size_t i) const noexcept {
    return stages_[i].output_bytes + stages_[i].saved_bytes;
}

CUOTA_INLINE std::size_t chain_sizes::gradient(std::size_t i) const noexcept {  // of the output of i
    return i + 1 == stages_.size() ? 0 : stages_[i].gradient();
}

CUOTA_INLINE std::size_t chain_sizes::need_back(std::size_t i) const noexcept {
    return gradient(i) + record(i) + stages_[i].backward_scratch + (i == 0 ? 0 : gradient(i - 1));
}

CUOTA_INLINE std::size_t chain_cells::at(std::size_t first, std::size_t last) const noexcept {
    return first * (2 * stages_ - first + 1) / 2 + (last - first);
}

CUOTA_INLINE least_table::least_table(chain_sizes const& sizes)
    : cells_{sizes.stages()}, least_(cells_.count()) {
    cells_.for_each([&](std::size_t first, std::size_t last) {
        cell& least = least_[cells_.at(first, last)];
        if (first == last) least = {sizes.need_alone(first), sizes.time_alone(first)};
        else
            sizes.for_each_choice(first, last, [&](chain_choice const& choice) {
                cell const found = of(first, last, choice);
                if (found.bytes < least.bytes || (found.bytes == least.bytes && found.time < least.time))
                    least = found;
            });
    });
}

CUOTA_INLINE auto least_table::operator()(std::size_t first, std::size_t last) const noexcept -> cell const& {
    return least_[cells_.at(first, last)];
}

CUOTA_INLINE auto least_table::of(std::size_t first, std::size_t last,
                                  chain_choice const& choice) const noexcept -> cell {
    cell const& rest = (*this)(choice.next, last);
    cell const found{std::max(choice.need, choice.kept + rest.bytes), choice.time + rest.time};
    if (choice.is_saving) return found;
    cell const& again = (*this)(first, choice.next - 1);
    return {std::max(found.bytes, again.bytes), found.time + again.time};
}

CUOTA_INLINE void take_faster(double* __restrict faster, double const* __restrict rest,
                              double const* __restrict again, double time, std::size_t count) noexcept {
    constexpr std::size_t block = 32;
    std::size_t i = 0;
    for (; i + block <= count; i += block) {
        if (time + rest[i + block - 1] + again[i + block - 1] >= faster[i]) continue;
        for (std::size_t k = i; k != i + block; ++k) {
            double const found = time + rest[k] + again[k];
            faster[k] = found < faster[k] ? found : faster[k];
        }
    }
    for (; i != count; ++i) faster[i] = std::min(faster[i], time + rest[i] + again[i]);
}

CUOTA_INLINE time_table::time_table(chain_sizes const& sizes, least_table const& least,
                                    std::size_t memory_limit, std::size_t slots, source_location where)
    : cells_{sizes.stages()},
      memory_limit_{memory_limit},
      slots_{std::min(slots, memory_limit)},
      rows_{std::make_unique_for_overwrite<double[]>(row_count(where))},
      starts_(cells_.count()),
      zeros_(slots_ + 1) {
    cells_.for_each([&](std::size_t first, std::size_t last) {
        begin_row(first, last, least(first, last));
        if (first == last) return;
        sizes.for_each_choice(first, last, [&](chain_choice const& c) { add_choice(first, last, c); });
    });
}

CUOTA_INLINE double time_table::operator()(std::size_t first, std::size_t last,
                                           std::size_t bytes) const noexcept {
    return row(cells_.at(first, last))[slots_in(bytes)];
}

CUOTA_INLINE std::size_t time_table::row_count(source_location where) const {
    auto const count = checked_mul(cells_.count(), checked_add(slots_, 1).value_or(unlimited));
    if (!count || *count > unlimited / 64)
        throw_usage_error(where, "plan table for {} slots exceeds the supported size; use fewer slots",
                          {as_count(slots_)});
    return *count;
}

CUOTA_INLINE std::size_t time_table::slots_in(std::size_t bytes) const noexcept {
    return static_cast<std::size_t>(wide{std::min(bytes, memory_limit_)} * slots_ / memory_limit_);
}

CUOTA_INLINE std::size_t time_table::slots_for(std::size_t bytes) const noexcept {
    return bytes > memory_limit_
               ? slots_ + 1
               : static_cast<std::size_t>((wide{bytes} * slots_ + memory_limit_ - 1) / memory_limit_);
}

CUOTA_INLINE void time_table::begin_row(std::size_t first, std::size_t last,
                                        least_table::cell const& least) noexcept {
    std::size_t const cell = cells_.at(first, last);
    std::size_t const start = slots_for(least.bytes);
    starts_[cell] = start;
    std::fill(row(cell), row(cell) + start, std::numeric_limits<double>::infinity());
    std::fill(row(cell) + start, row(cell) + slots_ + 1, least.time);
}

CUOTA_INLINE void time_table::add_choice(std::size_t first, std::size_t last,
                                         chain_choice const& choice) noexcept {
    std::size_t const rest = cells_.at(choice.next, last);
    std::size_t const again = choice.is_saving ? 0 : cells_.at(first, choice.next - 1);
    std::size_t const kept = slots_for(choice.kept);
    std::size_t const start =
        std::max({slots_for(choice.need), kept + starts_[rest], choice.is_saving ? 0 : starts_[again]});
    if (start > slots_) return;
    double const* const others = choice.is_saving ? zeros_.data() : row(again);
    take_faster(row(cells_.at(first, last)) + start, row(rest) + (start - kept), others + start, choice.time,
                slots_ + 1 - start);
}

}  // namespace cuota::inline v0::detail

#endif
