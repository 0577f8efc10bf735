// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Retries a batch in smaller parts.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/training/batches/micro_batches.hpp>
#include <cuota/training/detail/step_leak_check.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0 {

/// Point from which with_retry continues.
enum class retry_from {
    start,      ///< restarts the batch
    same_part,  ///< splits the refused part
};

/// Options of with_retry. Units: samples.
struct retry_options {
    std::size_t largest = 0;              ///< first size of a part; 0: the whole batch
    std::size_t smallest = 1;             ///< smallest size of a part
    retry_from from = retry_from::start;  ///< point of continuation
    /// Sets all that a step adds to, such as gradients, to zero, at each start of the batch. Required for retry_from::start.
    std::function<void()> on_start{};
    /// Budget from which the step allocates: more bytes in use after a refusal than before the batch are misuse.
    std::optional<cuota::budget> budget{};
    /// Is called with each refusal on this rank and the size of the refused part, after the step was unwound: to log it.
    std::function<void(std::size_t samples, out_of_memory const& refused)> on_refusal{};
    /// Ranks that use the same size of parts. May be null.
    rank_consensus* ranks = nullptr;
};

/// Result of with_retry.
struct retry_result {
    std::size_t part = 0;      ///< final size of a part; may be the next `largest`
    std::size_t parts = 0;     ///< parts run since the last restart
    std::size_t refusals = 0;  ///< refusals on any rank
};

namespace detail {

template <class Step>
concept retryable_step =
    std::invocable<Step&, micro_batch> || std::invocable<Step&, std::size_t, std::size_t>;

template <retryable_step Step>
class retry_run {
public:
    retry_run(std::size_t n, Step& step, retry_options const& o, source_location where)
        : n_{n}, step_{step}, options_{o}, where_{where} {
        check_options();
        part_ = o.largest == 0 ? n : std::min(o.largest, n);
        smallest_ = o.smallest;
        if (o.ranks) {
            smallest_ = o.ranks->max(smallest_, "with_retry: smallest", where);
            part_ = o.ranks->max(part_, "with_retry: largest", where);
        }
        part_ = std::max(part_, smallest_);
        if (o.budget) mark_.emplace(*o.budget);
    }

    [[nodiscard]] retry_result run() {
        for (;;) {
            group_result const went = run_agreed(
                options_.ranks, "parts of " + count_text(part_), [&] { return next_part(); }, where_);
            if (went.agreed == outcome::is_done) break;
            if (went.agreed == outcome::refused) go_smaller(went);
        }
        done_.part = std::min(part_, n_);
        return done_;
    }

private:
    void check_options() const {
        if (options_.smallest == 0) throw_usage_error(where_, "with_retry: smallest must be at least 1");
        if (options_.from == retry_from::start && !options_.on_start)
            throw_usage_error(
                where_,
                "with_retry: retry_from::start requires options.on_start (to reset gradients); set it or use "
                "retry_from::same_part");
    }

    [[nodiscard]] outcome next_part() {
        if (has_to_begin_) {
            if (options_.on_start) options_.on_start();
            has_to_begin_ = false;
        }
        if (first_ == n_) return outcome::is_done;  // other ranks may have more parts
        micro_batch const part{first_, std::min(part_, n_ - first_), n_};
        try {
            if constexpr (std::invocable<Step&, micro_batch>) step_(part);
            else step_(part.first, part.count);
        } catch (out_of_memory const& refused) {  // the step has been unwound
            if (options_.on_refusal) options_.on_refusal(part.count, refused);
            if (mark_) mark_->check("a refused part of " + count_text(part.count), where_);
            throw;
        }
        first_ = part.end();
        ++done_.parts;
        return part.is_last() ? outcome::is_done : outcome::went_well;
    }
    void go_smaller(group_result const& refused) {
        if (part_ <= smallest_) throw_refusal(refused, "a part of " + count_text(part_), where_);
        part_ = std::max(part_ / 2, smallest_);
        ++done_.refusals;
        if (options_.from == retry_from::same_part) return;
        has_to_begin_ = true;
        first_ = 0;
        done_.parts = 0;
    }

    std::size_t const n_;
    Step& step_;
    retry_options const& options_;
    source_location where_;
    std::size_t part_ = 0;
    std::size_t smallest_ = 1;
    std::size_t first_ = 0;
    bool has_to_begin_ = true;
    std::optional<step_leak_check> mark_;
    retry_result done_;
};

}  // namespace detail

/// Runs `step` over a batch of n samples, in one part if that fits. If a part is refused memory (out_of_memory), the batch restarts in
/// parts of half the size: the result is that of the whole batch.
///
///     retry_result const how = with_retry(batch.size(), [&](micro_batch part) { backward(part, stream, pool); },
///                                    {.on_start = [&] { zero_gradients(stream); }});
///     optimizer_step(stream);  // once
///
/// `step` is called as step(micro_batch) or step(first, count). It adds to gradients, frees all memory that it allocated, and must not
/// change weights.
/// With retry_from::same_part, only the refused part is split: correct only if a step allocates all its memory before it adds to anything.
/// With `ranks`, every rank calls this function; if one is refused, all restart with smaller parts. For other failures, and for steps that
/// communicate, see find_batch_size.
/// Throws:  as find_batch_size, for a smallest part. On failure, gradients may contain a part of the batch.
/// Cost:    at most log2(n) refusals; with ranks, one all-gather per part.
/// Threads: the calling thread.
template <class Step>
    requires detail::retryable_step<std::remove_reference_t<Step>> retry_result
    with_retry(std::size_t n, Step&& step, retry_options const& options,
               source_location where = source_location::current()) {
        return detail::retry_run<std::remove_reference_t<Step>>{n, step, options, where}.run();
    }

}  // namespace cuota::inline v0
