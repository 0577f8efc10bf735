// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Pipeline schedule (1F1B).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

/// One device's run of its stages for one micro-batch.
struct pipeline_op {
    std::size_t device = 0;       ///< from 0
    std::size_t micro_batch = 0;  ///< from 0
    bool is_backward = false;     ///< false: forward

    [[nodiscard]] friend bool operator==(pipeline_op, pipeline_op) noexcept = default;  ///< memberwise
};

/// Acts of all devices. Each device runs its own in this order; every act follows those that it depends on.
using pipeline_schedule = std::vector<pipeline_op>;

/// Returns the largest number of micro-batches that a device keeps between forward and backward.
[[nodiscard]] constexpr std::size_t max_in_flight(std::size_t devices, std::size_t micro_batches,
                                                  std::size_t device) noexcept {
    return device < devices ? std::min(micro_batches, devices - device) : 0;
}

namespace detail {

/// Progress of each device under 1F1B.
class pipeline_progress {
public:
    pipeline_progress(std::size_t devices, std::size_t micro_batches)
        : micro_batches_{micro_batches}, forwards_(devices), backwards_(devices) {}

    [[nodiscard]] bool is_over(std::size_t d) const noexcept { return backwards_[d] == micro_batches_; }
    [[nodiscard]] pipeline_op next(std::size_t d) const noexcept;
    [[nodiscard]] bool is_ready(pipeline_op act) const noexcept;
    void done(pipeline_op act) noexcept { ++(act.is_backward ? backwards_ : forwards_)[act.device]; }

private:
    std::size_t micro_batches_;
    std::vector<std::size_t> forwards_;
    std::vector<std::size_t> backwards_;
};

}  // namespace detail

/// Returns the 1F1B schedule: every device runs forward until it keeps `max_in_flight` micro-batches, then backward and forward
/// alternately, then the remaining backward runs, in the order of micro-batches. Takes as long as GPipe's order, with less memory. Follows
/// Narayanan et al. (PipeDream, SOSP 2019), without its stale weights.
/// Throws:  usage_error for no devices or no micro-batches.
/// Cost:    O((M + D) D) for M micro-batches on D devices.
/// Threads: any.
[[nodiscard]] pipeline_schedule pipeline_1f1b(std::size_t devices, std::size_t micro_batches,
                                              source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE pipeline_op pipeline_progress::next(std::size_t d) const noexcept {
    std::size_t const live = forwards_[d] - backwards_[d];
    bool const is_full = live == max_in_flight(forwards_.size(), micro_batches_, d);
    bool const is_backward = is_full || forwards_[d] == micro_batches_;
    return {d, is_backward ? backwards_[d] : forwards_[d], is_backward};
}

CUOTA_INLINE bool pipeline_progress::is_ready(pipeline_op act) const noexcept {
    if (!act.is_backward) return act.device == 0 || forwards_[act.device - 1] > act.micro_batch;
    return act.device + 1 == forwards_.size() || backwards_[act.device + 1] > act.micro_batch;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE pipeline_schedule pipeline_1f1b(std::size_t devices, std::size_t micro_batches,
                                             source_location where) {
    if (devices == 0 || micro_batches == 0)
        detail::throw_usage_error(where,
                                  "pipeline needs at least one device and one micro-batch, got {} and {}",
                                  {detail::as_count(devices), detail::as_count(micro_batches)});
    pipeline_schedule order;
    detail::pipeline_progress progress{devices, micro_batches};
    while (!progress.is_over(0)) {  // the first device finishes last
        pipeline_schedule at_once;
        for (std::size_t d = 0; d != devices; ++d)
            if (!progress.is_over(d) && progress.is_ready(progress.next(d)))
                at_once.push_back(progress.next(d));
        for (pipeline_op const act : at_once) progress.done(act);
        order.insert(order.end(), at_once.begin(), at_once.end());
    }
    return order;
}

}  // namespace cuota::inline v0

#endif
