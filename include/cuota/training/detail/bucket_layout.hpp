// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Mapping of gradients to buckets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

/// Elements [from, from + count) of a gradient, stored at element `at` of a bucket.
struct bucket_piece {
    std::size_t gradient = 0;
    std::size_t from = 0;
    std::size_t at = 0;
    std::size_t count = 0;
    friend bool operator==(bucket_piece const&, bucket_piece const&) = default;
};

/// Gradients, divided into buckets of equal capacity; the last may be shorter, and a gradient may be in several. Equal counts give the same
/// layout on every rank.
class bucket_layout {
public:
    bucket_layout(std::vector<std::size_t> counts, std::size_t capacity, source_location where);

    [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }  ///< number of buckets
    [[nodiscard]] std::size_t gradients() const noexcept { return counts_.size(); }
    [[nodiscard]] std::size_t count(std::size_t gradient) const noexcept { return counts_[gradient]; }
    [[nodiscard]] std::span<bucket_piece const> pieces(std::size_t bucket) const noexcept;
    [[nodiscard]] std::size_t elements(std::size_t bucket) const noexcept;

private:
    std::vector<std::size_t> counts_;
    std::vector<std::vector<bucket_piece>> pieces_{};
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE bucket_layout::bucket_layout(std::vector<std::size_t> counts, std::size_t capacity,
                                          source_location where)
    : counts_{std::move(counts)} {
    if (capacity == 0) throw_usage_error(where, "gradient_buckets: a bucket must hold at least one element");
    for (std::size_t gradient = 0; gradient != counts_.size(); ++gradient)
        for (std::size_t from = 0; from != counts_[gradient];) {
            if (pieces_.empty() || elements(size() - 1) == capacity) pieces_.emplace_back();
            std::size_t const at = elements(size() - 1);
            std::size_t const count = std::min(capacity - at, counts_[gradient] - from);
            pieces_.back().push_back({gradient, from, at, count});
            from += count;
        }
}

CUOTA_INLINE std::span<bucket_piece const> bucket_layout::pieces(std::size_t bucket) const noexcept {
    return pieces_[bucket];
}

CUOTA_INLINE std::size_t bucket_layout::elements(std::size_t bucket) const noexcept {
    auto const& all = pieces_[bucket];
    return all.empty() ? 0 : all.back().at + all.back().count;
}

}  // namespace cuota::inline v0::detail

#endif
