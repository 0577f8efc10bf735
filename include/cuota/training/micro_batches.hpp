// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One batch in parts that fit, each with the weight that makes their gradients add up to the whole batch's.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// A part of a batch: samples [first, first + count) of `of`. Counts are samples.
///
/// Its weight is count / of, and exact as these two integers; the weights of a batch's parts sum to exactly 1. A loss
/// that is the mean over the part is multiplied by it before the backward run: then the gradients that are added up are
/// those of the mean over the whole batch. A loss that is a sum over samples is divided by `of`, or left as it is.
struct micro_batch {
    std::size_t first = 0;  ///< index of its first sample in the batch
    std::size_t count = 0;  ///< samples
    std::size_t of = 0;     ///< samples of the whole batch

    /// One past its last sample.
    [[nodiscard]] constexpr std::size_t end() const noexcept { return first + count; }
    /// Where gradients are set to zero: here, and nowhere else.
    [[nodiscard]] constexpr bool is_first() const noexcept { return first == 0; }
    /// After which the optimiser steps: after this one, ragged or not.
    [[nodiscard]] constexpr bool is_last() const noexcept { return end() == of; }
    /// count / of, rounded once.
    template <class T = double>
    [[nodiscard]] constexpr T weight() const noexcept {
        return static_cast<T>(static_cast<double>(count) / static_cast<double>(of));
    }
    /// In all three.
    friend constexpr bool operator==(micro_batch const&, micro_batch const&) noexcept = default;
};

/// The parts of one batch of n samples, `micro` in each, in order. The last has what is left: it is never dropped, and
/// its weight is that of its own count.
///
///     for (micro_batch part : micro_batches{batch.size(), 32}) {
///         if (part.is_first()) zero_gradients();
///         backward(part.weight<float>() * mean_loss(part.first, part.count));  // adds to the gradients
///         if (part.is_last()) optimiser_step();
///     }
///
/// It is of one batch: a window never spans two, nor the end of an epoch, whatever the number of batches.
/// A random access range of values; constexpr; allocates nothing. A copy is two numbers, and iterators outlive it.
/// No samples have no parts.
/// Threads: a value; any. Example: examples/train_deep.hpp
class micro_batches {
public:
    /// Random access; makes what it gives. Constant cost throughout; constexpr; outlives its range.
    class iterator {
    public:
        using iterator_concept = std::random_access_iterator_tag;  ///< by C++20's concepts
        /// By C++17's rules, which want references.
        using iterator_category = std::input_iterator_tag;  // it makes what it gives
        using value_type = micro_batch;                     ///< a part
        using difference_type = std::ptrdiff_t;             ///< counts parts
        using reference = micro_batch;                      ///< by value
        using pointer = void;                               ///< there is none

        constexpr iterator() noexcept = default;  ///< of no range: only to be assigned to
        /// Undefined behind the last.
        [[nodiscard]] constexpr micro_batch operator*() const noexcept { return part(n_, micro_, index_); }
        /// The part i further on.
        [[nodiscard]] constexpr micro_batch operator[](difference_type i) const noexcept {
            return *(*this + i);
        }
        /// By so many parts.
        constexpr iterator& operator+=(difference_type by) noexcept {
            index_ += static_cast<std::size_t>(by);  // modulo 2^64, as it has to be
            return *this;
        }
        /// Back by so many.
        constexpr iterator& operator-=(difference_type by) noexcept {
            index_ -= static_cast<std::size_t>(by);
            return *this;
        }
        constexpr iterator& operator++() noexcept { return *this += 1; }  ///< the next
        constexpr iterator& operator--() noexcept { return *this -= 1; }  ///< the one before
        /// The same; returns where it was.
        constexpr iterator operator++(int) noexcept {
            iterator const before = *this;
            ++*this;
            return before;
        }
        /// The same; returns where it was.
        constexpr iterator operator--(int) noexcept {
            iterator const before = *this;
            --*this;
            return before;
        }
        /// That many parts further on.
        [[nodiscard]] friend constexpr iterator operator+(iterator at, difference_type by) noexcept {
            return at += by;
        }
        /// The same.
        [[nodiscard]] friend constexpr iterator operator+(difference_type by, iterator at) noexcept {
            return at += by;
        }
        /// That many parts back.
        [[nodiscard]] friend constexpr iterator operator-(iterator at, difference_type by) noexcept {
            return at -= by;
        }
        /// Parts from b to a.
        [[nodiscard]] friend constexpr difference_type operator-(iterator a, iterator b) noexcept {
            return static_cast<difference_type>(a.index_ - b.index_);
        }
        /// Of one range.
        [[nodiscard]] friend constexpr bool operator==(iterator a, iterator b) noexcept {
            return a.index_ == b.index_;
        }
        /// Of one range, by position.
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

    /// n samples, `micro` in a part: more than n is one part. Throws: misuse for parts of no samples.
    constexpr explicit micro_batches(std::size_t n, std::size_t micro, place where = place::here())
        : n_{n}, micro_{micro} {
        if (micro == 0)
            detail::throw_misuse(where, "micro_batches: a batch of {} cannot be cut into parts of 0",
                                 {detail::as_count(n)});
    }

    /// How many parts: the optimiser still steps once.
    [[nodiscard]] constexpr std::size_t size() const noexcept {
        return n_ / micro_ + (n_ % micro_ == 0 ? 0 : 1);  // n + micro - 1 could be more than there is
    }
    [[nodiscard]] constexpr bool empty() const noexcept { return n_ == 0; }  ///< a batch of no samples
    /// The samples of the batch.
    [[nodiscard]] constexpr std::size_t samples() const noexcept { return n_; }
    /// Throws: misuse for a part that is not there.
    [[nodiscard]] constexpr micro_batch operator[](std::size_t i) const {
        if (i >= size())
            detail::throw_misuse("micro_batches: part {} of {}",
                                 {detail::as_count(i), detail::as_count(size())});
        return part(n_, micro_, i);
    }
    /// At the first part.
    [[nodiscard]] constexpr iterator begin() const noexcept { return {n_, micro_, 0}; }
    /// Behind the last.
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
