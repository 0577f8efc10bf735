// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory peaks of a pipeline's devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/training/checkpointing/chain.hpp>
#include <cuota/training/distributed/pipeline_1f1b.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Throws usage_error unless `first` starts with 0, increases strictly, and stays below `stages`.
void check_cuts(std::vector<std::size_t> const& first, std::size_t stages, source_location where);

/// Bytes held by each device. `of[d]`: the chain in the granularity of device d.
class pipeline_account {
public:
    pipeline_account(std::vector<chain> const& of, std::vector<std::size_t> const& first);

    void perform(pipeline_op act);
    [[nodiscard]] std::vector<std::size_t> const& peaks() const noexcept { return peaks_; }

private:
    [[nodiscard]] bool is_last(std::size_t d) const noexcept { return d + 1 == first_.size(); }
    [[nodiscard]] std::size_t end(std::size_t d) const noexcept;
    [[nodiscard]] std::size_t gradient(std::size_t d, std::size_t stage) const noexcept;
    // Copy of the first stage's input; 0 on the first device.
    [[nodiscard]] std::size_t input(std::size_t d) const noexcept;
    void take(std::size_t d, std::size_t bytes) noexcept;
    void give(std::size_t d, std::size_t bytes) noexcept { held_[d] -= bytes; }

    void forward(std::size_t d);
    void backward(std::size_t d);

    std::vector<chain> const& of_;
    std::vector<std::size_t> const& first_;
    std::vector<std::size_t> held_;
    std::vector<std::size_t> peaks_;
};

[[nodiscard]] std::vector<std::size_t> pipeline_peaks(std::vector<chain> const& of,
                                                      std::vector<std::size_t> const& first,
                                                      std::size_t micro_batches, source_location where);

}  // namespace detail

/// Returns each device's exact peak in a step of `pipeline`: records of micro-batches in flight, scratch and gradients of the running
/// stage, copies from neighboring devices, and gradients that the previous device has not fetched. Parameters and their gradients are not
/// counted.
///
/// `c`: sizes rounded to the devices' granularity (chain_of). `first`: as placement::boundaries returns it.
/// Units:   bytes, by device.
/// Throws:  usage_error for invalid cuts or counts, and for sizes that overflow.
/// Cost:    O((M + D) D + M L) for M micro-batches, D devices and L stages.
/// Threads: any.
[[nodiscard]] std::vector<std::size_t> pipeline_peaks(chain const& c, std::vector<std::size_t> const& first,
                                                      std::size_t micro_batches,
                                                      source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_cuts(std::vector<std::size_t> const& first, std::size_t stages,
                             source_location where) {
    bool is_right = !first.empty() && first.front() == 0 && first.back() < stages;
    for (std::size_t d = 1; d < first.size(); ++d) is_right = is_right && first[d - 1] < first[d];
    if (is_right) return;
    std::string text;
    for (std::size_t const f : first) text += (text.empty() ? "" : ", ") + count_text(f);
    throw_usage_error(
        where,
        "cannot cut a chain of {} stages at {{}}: the first cut must be 0, and each device needs a stage",
        {as_count(stages), text});
}

CUOTA_INLINE pipeline_account::pipeline_account(std::vector<chain> const& of,
                                                std::vector<std::size_t> const& first)
    : of_{of}, first_{first}, held_(first.size()), peaks_(first.size()) {}

CUOTA_INLINE void pipeline_account::perform(pipeline_op act) {
    if (act.is_backward) backward(act.device);
    else forward(act.device);
}

CUOTA_INLINE std::size_t pipeline_account::end(std::size_t d) const noexcept {
    return is_last(d) ? of_[d].stages.size() : first_[d + 1];
}

CUOTA_INLINE std::size_t pipeline_account::gradient(std::size_t d, std::size_t stage) const noexcept {
    return of_[d].stages[stage].gradient();
}

CUOTA_INLINE std::size_t pipeline_account::input(std::size_t d) const noexcept {
    return first_[d] == 0 ? 0 : of_[d].stages[first_[d] - 1].output_bytes;
}

CUOTA_INLINE void pipeline_account::take(std::size_t d, std::size_t bytes) noexcept {
    peaks_[d] = std::max(peaks_[d], held_[d] += bytes);
}

CUOTA_INLINE void pipeline_account::forward(std::size_t d) {
    take(d, input(d));
    for (std::size_t i = first_[d]; i != end(d); ++i) {
        chain_stage const& s = of_[d].stages[i];
        take(d, s.output_bytes + s.saved_bytes + s.forward_scratch);
        give(d, s.forward_scratch);
    }
}

CUOTA_INLINE void pipeline_account::backward(std::size_t d) {
    if (!is_last(d)) {
        take(d, gradient(d, end(d) - 1));          // a copy of the gradient
        give(d + 1, gradient(d + 1, end(d) - 1));  // its source is freed
    }
    for (std::size_t i = end(d); i-- != first_[d];) {
        chain_stage const& s = of_[d].stages[i];
        take(d, (i == 0 ? 0 : gradient(d, i - 1)) + s.backward_scratch);
        bool const has_gradient = i + 1 != of_[d].stages.size();
        give(d, s.backward_scratch + s.output_bytes + s.saved_bytes + (has_gradient ? s.gradient() : 0));
    }
    give(d, input(d));  // kept until the previous device fetches it
}

CUOTA_INLINE std::vector<std::size_t> pipeline_peaks(std::vector<chain> const& of,
                                                     std::vector<std::size_t> const& first,
                                                     std::size_t micro_batches, source_location where) {
    for (chain const& c : of) {
        c.check(where);
        check_cuts(first, c.stages.size(), where);
        std::size_t sum = 0;
        for (chain_stage const& s : c.stages) sum += *most_of(s);  // chain::check has excluded overflow
        if (!checked_mul(sum, micro_batches))
            throw_usage_error(where, "pipeline: total size for {} micro-batches overflows std::size_t",
                              {as_count(micro_batches)});
    }
    pipeline_account account{of, first};
    for (pipeline_op const act : pipeline_1f1b(first.size(), micro_batches, where)) account.perform(act);
    return account.peaks();
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::vector<std::size_t> pipeline_peaks(chain const& c, std::vector<std::size_t> const& first,
                                                     std::size_t micro_batches, source_location where) {
    return detail::pipeline_peaks(std::vector<chain>(std::max(first.size(), std::size_t{1}), c), first,
                                  micro_batches, where);
}

}  // namespace cuota::inline v0

#endif
