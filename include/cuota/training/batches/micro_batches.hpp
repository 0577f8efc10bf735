// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Division of a batch into weighted parts.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// A part of a batch: samples [first, first + count) of `batch_size`. Units: samples.
///
/// Multiply a loss that is the mean over the part by weight() before backward: accumulated gradients are those of the mean over the whole
/// batch. Divide a loss that is a sum over samples by `batch_size` instead.
struct micro_batch {
    std::size_t first = 0;       ///< its first sample
    std::size_t count = 0;       ///< samples
    std::size_t batch_size = 0;  ///< of the whole batch

    /// Returns the index after its last sample.
    [[nodiscard]] constexpr std::size_t end() const noexcept { return first + count; }
    /// Returns true for the first part.
    [[nodiscard]] constexpr bool is_first() const noexcept { return first == 0; }
    /// Returns true for the last part.
    [[nodiscard]] constexpr bool is_last() const noexcept { return end() == batch_size; }
    /// Returns count / batch_size.
    template <class T = double>
    [[nodiscard]] constexpr T weight() const noexcept {
        return static_cast<T>(static_cast<double>(count) / static_cast<double>(batch_size));
    }
    /// Compares memberwise.
    friend constexpr bool operator==(micro_batch const&, micro_batch const&) noexcept = default;
};

/// The parts of one batch of n samples, `micro` in each, in order. The last may be smaller.
///
///     for (micro_batch part : micro_batches{batch.size(), 32}) {
///         if (part.is_first()) zero_gradients();
///         backward(part.weight<float>() * mean_loss(part.first, part.count));  // adds to the gradients
///         if (part.is_last()) optimizer_step();
///     }
///
/// A constexpr random-access range. Iterators may outlive it.
/// Threads: any.
/// Example: examples/train_deep.hpp
class micro_batches {
public:
    /// Random-access iterator over computed values.
    class iterator {
    public:
        using iterator_concept = std::random_access_iterator_tag;  ///< for C++20
        /// For C++17, which requires references of random-access iterators.
        using iterator_category = std::input_iterator_tag;
        using value_type = micro_batch;          ///< a part
        using difference_type = std::ptrdiff_t;  ///< counts parts
        using reference = micro_batch;           ///< by value
        using pointer = void;                    ///< not provided

        constexpr iterator() noexcept = default;  ///< may only be assigned to
        /// Returns the part. Precondition: not the end.
        [[nodiscard]] constexpr micro_batch operator*() const noexcept { return part(n_, micro_, index_); }
        /// Returns the part `i` positions ahead.
        [[nodiscard]] constexpr micro_batch operator[](difference_type i) const noexcept {
            return *(*this + i);
        }
        /// Advances by `by` parts.
        constexpr iterator& operator+=(difference_type by) noexcept {
            index_ += static_cast<std::size_t>(by);  // modulo 2^64, so that `by` may be negative
            return *this;
        }
        /// Moves back by `by` parts.
        constexpr iterator& operator-=(difference_type by) noexcept {
            index_ -= static_cast<std::size_t>(by);
            return *this;
        }
        constexpr iterator& operator++() noexcept { return *this += 1; }  ///< advances by one
        constexpr iterator& operator--() noexcept { return *this -= 1; }  ///< moves back by one
        /// Returns the old position.
        constexpr iterator operator++(int) noexcept {
            iterator const before = *this;
            ++*this;
            return before;
        }
        /// Returns the old position.
        constexpr iterator operator--(int) noexcept {
            iterator const before = *this;
            --*this;
            return before;
        }
        /// Returns the position `by` parts ahead.
        [[nodiscard]] friend constexpr iterator operator+(iterator at, difference_type by) noexcept {
            return at += by;
        }
        /// Returns the position `by` parts ahead.
        [[nodiscard]] friend constexpr iterator operator+(difference_type by, iterator at) noexcept {
            return at += by;
        }
        /// Returns the position `by` parts back.
        [[nodiscard]] friend constexpr iterator operator-(iterator at, difference_type by) noexcept {
            return at -= by;
        }
        /// Returns the number of parts from b to a.
        [[nodiscard]] friend constexpr difference_type operator-(iterator a, iterator b) noexcept {
            return static_cast<difference_type>(a.index_ - b.index_);
        }
        /// Compares positions of one range.
        [[nodiscard]] friend constexpr bool operator==(iterator a, iterator b) noexcept {
            return a.index_ == b.index_;
        }
        /// Orders positions of one range.
        [[nodiscard]] friend constexpr std::strong_ordering operator<=>(iterator a, iterator b) noexcept {
            return a.index_ <=> b.index_;
        }

    private:
        friend class micro_batches;
        constexpr iterator(std::size_t n, std::size_t micro, std::size_t index) noexcept
            : n_{n}, micro_{micro}, index_{index} {}
        std::size_t n_ = 0;
        std::size_t micro_ = 1;
        std::size_t index_ = 0;
    };

    /// Divides n samples into parts of `micro`. Throws: usage_error if `micro` is 0.
    constexpr explicit micro_batches(std::size_t n, std::size_t micro,
                                     source_location where = source_location::current())
        : n_{n}, micro_{micro} {
        if (micro == 0)
            detail::throw_usage_error(where, "micro_batches: cannot divide a batch of {} into parts of 0",
                                      {detail::as_count(n)});
    }

    /// Returns the number of parts.
    [[nodiscard]] constexpr std::size_t size() const noexcept {
        return n_ / micro_ + (n_ % micro_ == 0 ? 0 : 1);  // n + micro - 1 could overflow
    }
    [[nodiscard]] constexpr bool empty() const noexcept { return n_ == 0; }      ///< true for 0 samples
    [[nodiscard]] constexpr std::size_t samples() const noexcept { return n_; }  ///< of the batch
    /// Returns part i. Throws: usage_error if i >= size().
    [[nodiscard]] constexpr micro_batch operator[](std::size_t i) const {
        if (i >= size())
            detail::throw_usage_error("micro_batches: part {} is out of range: the number of parts is {}",
                                      {detail::as_count(i), detail::as_count(size())});
        return part(n_, micro_, i);
    }
    [[nodiscard]] constexpr iterator begin() const noexcept { return {n_, micro_, 0}; }  ///< first part
    /// Returns the position after the last part.
    [[nodiscard]] constexpr iterator end() const noexcept { return {n_, micro_, size()}; }

private:
    [[nodiscard]] static constexpr micro_batch part(std::size_t n, std::size_t micro,
                                                    std::size_t i) noexcept {
        std::size_t const first = i * micro;
        return {first, n - first < micro ? n - first : micro, n};
    }
    std::size_t n_;
    std::size_t micro_;
};

}  // namespace cuota::inline v0
