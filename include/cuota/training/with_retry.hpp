// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A batch that is run in smaller parts when it is refused memory, with the same result.
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
#include <cuota/training/agreement.hpp>
#include <cuota/training/left_behind.hpp>
#include <cuota/training/micro_batches.hpp>

namespace cuota::inline v0 {

/// Where with_retry goes on after a refusal.
enum class retry_from {
    begin,  ///< the batch begins anew: a part that was refused midway may have added to the gradients already
    same_part,  ///< with the part that was refused, split: for steps that take all their memory before they change anything
};

/// How with_retry goes on. Sizes are samples.
struct retry_options {
    std::size_t largest = 0;              ///< of a part, to begin with; 0: the whole batch
    std::size_t smallest = 1;             ///< of a part: when one of that size is refused, so is the batch
    retry_from from = retry_from::begin;  ///< where it goes on after a refusal
    /// Sets the gradients to zero, and all else that a step adds to. Called before the first part, and again whenever the
    /// batch begins anew. Has to be there for that.
    std::function<void()> begin{};
    /// What the step takes its memory of: after a refusal as much has to be in use as before the batch.
    std::optional<budget> account{};
    /// All ranks use parts of one size. Their batches may be of different sizes. May be null.
    agreement* ranks = nullptr;
};

/// How a batch went through. Sizes are samples.
struct retried {
    std::size_t part = 0;      ///< the size of a part at the end: the next batch's `largest`, if one likes
    std::size_t parts = 0;     ///< how many the batch took: of one result, without those before it began anew
    std::size_t refusals = 0;  ///< on any rank, that made it go smaller
};

namespace detail {

template <class Step>
concept retried_step = std::invocable<Step&, micro_batch> || std::invocable<Step&, std::size_t, std::size_t>;

template <retried_step Step>
class retry_run {
public:
    retry_run(std::size_t n, Step& step, retry_options const& o, place where)
        : n_{n}, step_{step}, options_{o}, where_{where} {
        check_options();
        part_ = o.largest == 0 ? n : std::min(o.largest, n);
        smallest_ = o.smallest;
        if (o.ranks) {
            smallest_ = o.ranks->largest(smallest_, "with_retry: smallest", where);
            part_ = o.ranks->largest(part_, "with_retry: largest", where);
        }
        part_ = std::max(part_, smallest_);
        if (o.account) mark_.emplace(*o.account);
    }

    [[nodiscard]] retried run() {
        for (;;) {
            verdict const went = run_agreed(
                options_.ranks, "parts of " + count_text(part_), [&] { return next_part(); }, where_);
            if (went.agreed == outcome::is_done) break;
            if (went.agreed == outcome::refused) go_smaller(went);
        }
        done_.part = std::min(part_, n_);
        return done_;
    }

private:
    void check_options() const {
        if (options_.smallest == 0) throw_misuse(where_, "with_retry: a part of 0 samples is none");
        if (options_.from == retry_from::begin && !options_.begin)
            throw_misuse(where_, "with_retry: nothing sets the gradients to zero when the batch begins anew: "
                                 "name options.begin, or go on from the same_part");
    }

    [[nodiscard]] outcome next_part() {
        if (has_to_begin_) {
            if (options_.begin) options_.begin();
            has_to_begin_ = false;
        }
        if (first_ == n_) return outcome::is_done;  // other ranks may have more
        micro_batch const part{first_, std::min(part_, n_ - first_), n_};
        try {
            if constexpr (std::invocable<Step&, micro_batch>) step_(part);
            else step_(part.first, part.count);
        } catch (out_of_memory const&) {  // all of the step is unwound
            if (mark_) mark_->check("a refused part of " + count_text(part.count), where_);
            throw;
        }
        first_ = part.end();
        ++done_.parts;
        return part.is_last() ? outcome::is_done : outcome::went_well;
    }
    void go_smaller(verdict const& refused) {
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
    place where_;
    std::size_t part_ = 0;
    std::size_t smallest_ = 1;
    std::size_t first_ = 0;
    bool has_to_begin_ = true;
    std::optional<use_mark> mark_;
    retried done_;
};

}  // namespace detail

/// Runs `step` over a batch of n samples, in one part if that fits. When a part is refused memory (out_of_memory, by
/// type), all of it is unwound, and the batch begins anew in parts of half the size: so it ends with what the whole would
/// have given, whatever the refused part had done by then.
///
///     retried const how = with_retry(batch.size(), [&](micro_batch part) { backward(part, stream, pool); },
///                                    {.begin = [&] { zero_gradients(stream); }});
///     optimiser_step(stream);  // once, after all of the batch
///
/// step:    called as step(micro_batch), which knows its weight, or as step(first, count). It adds to gradients, and gives
///          back what it took. It must not touch weights: a part that runs again would see others.
/// same_part: what was done stays, and the refused part is split. Right only for a step that has all its memory before
///          it adds to anything: else what the refused part had added counts twice.
/// Nothing is remembered: the next batch begins as this one did, or with what `part` says.
/// ranks:   every rank calls it; when one is refused, all go smaller, and begin anew together. When one fails otherwise,
///          it throws that, and the others rank_gone. A step that talks to other ranks in the middle has to agree with
///          them before that, or a refused rank leaves them waiting.
/// Throws:  the refusal of a smallest part, and out_of_memory on the ranks that were not refused; what the step throws
///          else; misuse. Gradients may hold a part of the batch then, and nothing that the step took is held.
/// Cost:    at most log2(n) refusals; with ranks one agreement for each part.
/// Threads: runs the step on the calling one.
template <class Step>
    requires detail::retried_step<std::remove_reference_t<Step>> retried
    with_retry(std::size_t n, Step&& step, retry_options const& options, place where = place::here()) {
        return detail::retry_run<std::remove_reference_t<Step>>{n, step, options, where}.run();
    }

}  // namespace cuota::inline v0
