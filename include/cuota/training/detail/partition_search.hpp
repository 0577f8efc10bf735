// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Optimal partition of layers into consecutive runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <cuota/core/bytes.hpp>

namespace cuota::inline v0::detail {

/// Device d has layers [cuts[d], cuts[d + 1]), possibly none.
using layer_cuts = std::vector<std::size_t>;

/// Cost of an infeasible cut.
template <class Cost>
inline constexpr Cost no_way = std::numeric_limits<Cost>::has_infinity ? std::numeric_limits<Cost>::infinity()
                                                                       : std::numeric_limits<Cost>::max();

/// Exact dynamic programming from the last device to the first.
///
/// Costs: `costs(device, first, after)` returns a function that is called for last = first, first + 1, ... and returns the cost of layers
/// [first, last] on `device` if `after` later devices have layers, or no_way. It must not decrease with `last`.
/// Join: combines the costs of two devices; associative, and no less than either.
///
/// Among several optimal solutions, returns the one that place_layers documents.
/// Cost: as place_layers; D^2 L numbers of memory.
template <class Cost, class Costs, class Join>
class partition_search {
public:
    partition_search(std::size_t layers, std::size_t devices, Costs costs, Join join)
        : layers_{layers},
          devices_{devices},
          costs_{costs},
          join_{join},
          least_((devices + 1) * (layers + 1) * (devices + 1), no_way<Cost>) {
        at(devices_, layers_, 0) = Cost{};
        for (std::size_t d = devices_; d-- != 0;)
            for (std::size_t first = 0; first <= layers_; ++first)
                for (std::size_t used = 0; used <= devices_ - d; ++used) fill(d, first, used);
        for (std::size_t used = 0; used <= devices_; ++used)
            if (at(0, 0, used) < at(0, 0, used_)) used_ = used;
    }

    [[nodiscard]] Cost least() const noexcept { return at(0, 0, used_); }

    /// Precondition: least() is not no_way.
    [[nodiscard]] layer_cuts cuts() const {
        layer_cuts found{0};
        Cost paid{};
        std::size_t used = used_;
        for (std::size_t d = 0; d != devices_; ++d) {
            std::size_t const first = found.back();
            std::size_t const next = farthest(d, first, used, paid);
            used -= next != first;
            found.push_back(next);
        }
        return found;
    }

private:
    // Least cost of layers from `first` on for devices from d on, of which `used` have layers.
    [[nodiscard]] Cost& at(std::size_t d, std::size_t first, std::size_t used) noexcept {
        return least_[(d * (layers_ + 1) + first) * (devices_ + 1) + used];
    }
    [[nodiscard]] Cost at(std::size_t d, std::size_t first, std::size_t used) const noexcept {
        return least_[(d * (layers_ + 1) + first) * (devices_ + 1) + used];
    }

    void fill(std::size_t d, std::size_t first, std::size_t used) {
        Cost best = at(d + 1, first, used);
        if (used != 0) {
            auto cost_to = costs_(d, first, used - 1);
            for (std::size_t last = first; last != layers_; ++last) {
                Cost const mine = cost_to(last);
                if (!(mine < best)) break;  // more layers cost no less
                best = std::min(best, join_(mine, at(d + 1, last + 1, used - 1)));
            }
        }
        at(d, first, used) = best;
    }

    // Returns the last possible end of d's layers in an optimal solution, and adds their cost to `paid`.
    [[nodiscard]] std::size_t farthest(std::size_t d, std::size_t first, std::size_t used, Cost& paid) const {
        std::size_t end = first;
        Cost best = paid;
        if (used != 0) {
            auto cost_to = costs_(d, first, used - 1);
            for (std::size_t last = first; last != layers_; ++last) {
                Cost const together = join_(paid, cost_to(last));
                if (least() < together) break;
                if (least() < join_(together, at(d + 1, last + 1, used - 1))) continue;
                end = last + 1;
                best = together;
            }
        }
        paid = best;
        return end;
    }

    std::size_t layers_;
    std::size_t devices_;
    Costs costs_;
    Join join_;
    std::vector<Cost> least_;
    std::size_t used_ = 0;  // the fewest devices that reach the least cost
};

}  // namespace cuota::inline v0::detail
