// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Search for the largest batch that fits.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/training/detail/step_leak_check.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0 {

/// Options of find_batch_size. Units: samples.
struct batch_search_options {
    std::size_t smallest = 1;     ///< inclusive
    std::size_t largest = 0;      ///< inclusive; required
    std::size_t multiple_of = 1;  ///< only multiples are tried
    /// Budget from which the step allocates.
    std::optional<cuota::budget> budget{};
    /// Planned memory of the step, an upper bound: its largest batch is tried first. May be null.
    footprint const* plan = nullptr;
    /// Bytes of the budget that stay free with the returned size.
    std::size_t keep_free = 0;
    /// Fraction in [0, 1) by which the returned size is below the largest that fitted.
    double margin = 0;
    /// Is called with each refusal of a try on this rank and its size, after the step was unwound: to log it.
    std::function<void(std::size_t samples, out_of_memory const& refused)> on_refusal{};
    /// Ranks that try the same sizes. May be null.
    rank_consensus* ranks = nullptr;
};

/// A size that was run.
struct batch_trial {
    std::size_t batch = 0;  ///< samples
    bool fitted = false;    ///< on every rank
};

/// Result of find_batch_size. Units: samples.
struct batch_search_result {
    std::size_t batch = 0;               ///< size to use, which was run
    std::size_t largest_fitted = 0;      ///< above `batch` only with a margin
    std::size_t smallest_refused = 0;    ///< 0: none
    std::vector<batch_trial> trials{};   ///< in order
    std::optional<batch_fit> planned{};  ///< on this rank

    [[nodiscard]] std::size_t attempts() const noexcept { return trials.size(); }  ///< number of runs
    /// Returns false if a size was refused although a larger one fitted.
    [[nodiscard]] bool is_monotone() const noexcept;
    /// Returns "a batch of 448 fits, 449 was refused: 2 tries", for example.
    [[nodiscard]] std::string text() const;
};

namespace detail {

/// Sizes least, least + step, ..., most, numbered from 1; `least` and `most` are multiples of `step`.
struct batch_sizes {
    std::size_t least;
    std::size_t most;
    std::size_t step;

    [[nodiscard]] std::size_t count() const noexcept { return (most - least) / step + 1; }
    [[nodiscard]] std::size_t at(std::size_t number) const noexcept { return least + (number - 1) * step; }
    /// Returns the number of the largest size <= `size`, or 1.
    [[nodiscard]] std::size_t number_of(std::size_t size) const noexcept;
    /// Returns the number of the largest size up to twice as large.
    [[nodiscard]] std::size_t doubled(std::size_t number) const noexcept;
};

/// A try that keeps its memory until the next one: drop() frees it and returns whether there was any, kept_for() returns its size.
template <class Try>
concept keeping_try = requires(Try& attempt) {
    { attempt.drop() } -> std::same_as<bool>;
    { attempt.kept_for() } -> std::same_as<std::size_t>;
};

template <class Try>
class batch_searcher {
public:
    batch_searcher(Try& attempt, batch_search_options const& o, source_location where)
        : attempt_{attempt}, options_{o}, where_{where}, sizes_{range()} {}

    [[nodiscard]] batch_search_result search() {
        prepare();
        std::size_t const best = is_planned_ ? from_above() : from_below();
        if (best == 0) throw_refusal(least_refused_, text_of(sizes_.least), where_);
        found_.batch = sizes_.at(best);
        if (options_.margin > 0) found_.batch = with_margin(found_.batch);
        if constexpr (keeping_try<Try>) keep_found();
        return std::move(found_);
    }

private:
    [[nodiscard]] static std::string text_of(std::size_t batch) { return "a batch of " + count_text(batch); }

    void check_options() const {
        batch_search_options const& o = options_;
        auto const fail = [&](std::string const& why) {
            throw_usage_error(where_, "find_batch_size: {}", {why});
        };
        if (o.largest == 0) fail("largest must be at least 1; set it to the number of samples, or less");
        if (o.smallest == 0 || o.multiple_of == 0) fail("smallest and multiple_of must be at least 1");
        if (!(o.margin >= 0 && o.margin < 1))
            fail("margin = " + real_text(o.margin) + " is out of range [0, 1)");
        if (!o.budget && (o.plan || o.keep_free != 0)) fail("plan and keep_free require a budget");
    }
    // The names contain step and margin, so that a rank with other options is detected.
    [[nodiscard]] batch_sizes range() const {
        check_options();
        std::size_t const step = options_.multiple_of;
        std::size_t least = checked_mul((options_.smallest - 1) / step + 1, step).value_or(unlimited);
        std::size_t most = options_.largest / step * step;
        if (rank_consensus* const ranks = options_.ranks) {
            std::string const how =
                " in steps of " + std::to_string(step) + ", margin " + real_text(options_.margin);
            least = ranks->max(least, "smallest batch" + how, where_);
            most = ranks->min(most, "largest batch" + how, where_);
        }
        if (least <= most) return {least, most, step};
        throw_usage_error(where_, "find_batch_size: empty batch range: no multiple of {} in [{}, {}]{}",
                          {as_count(step), as_count(options_.smallest), as_count(options_.largest),
                           options_.ranks ? " on all ranks" : ""});
    }

    // A refusal on one rank is thrown on all before any try.
    void prepare() {
        std::size_t most = sizes_.most;
        auto const ready = run_agreed(
            options_.ranks, "batch search: plan",
            [&] {
                if (options_.keep_free != 0)
                    kept_.emplace(budget{*options_.budget}.reserve(options_.keep_free, "kept free", where_));
                if (options_.plan) most = planned();
                if (options_.budget) mark_.emplace(*options_.budget);
                return outcome::went_well;
            },
            where_);
        if (ready.agreed == outcome::refused)
            throw_refusal(ready, "the plan of " + text_of(sizes_.least), where_);
        is_planned_ = options_.plan != nullptr;
        if (!options_.ranks) sizes_.most = most;
        else {
            is_planned_ = options_.ranks->max(is_planned_ ? 1 : 0, "batch search: planned", where_) != 0;
            sizes_.most = options_.ranks->min(most, "batch search: largest", where_);
        }
    }
    // Throws: budget_exceeded if the plan allows less than the smallest size.
    [[nodiscard]] std::size_t planned() {
        footprint const& plan = *options_.plan;
        std::size_t const room = room_with_caches();
        found_.planned = plan.largest_batch_in(room);
        if (found_.planned->batch < sizes_.least) {
            plan.check(*options_.budget, sizes_.least, where_);
            found_.planned = plan.largest_batch(*options_.budget);  // memory was freed meanwhile
        }
        return sizes_.at(sizes_.number_of(found_.planned->batch));
    }
    // Counts caches, which are available to the next try.
    [[nodiscard]] std::size_t room_with_caches() const {
        budget const& b = *options_.budget;
        std::size_t const own = saturating_add(b.available(), cached_in(holders_of(b)));
        return std::max(std::min(own, b.limit()), most_with_caches(b));
    }

    // Number of the largest size that fits; 0: none.
    [[nodiscard]] std::size_t from_above() {
        if (fits(sizes_.count())) return sizes_.count();
        return between(0, sizes_.count());
    }
    [[nodiscard]] std::size_t from_below() {
        std::size_t fitting = 0;
        for (std::size_t number = 1; fits(number); number = sizes_.doubled(number)) {
            fitting = number;
            if (number == sizes_.count()) return number;
        }
        return fitting == 0 ? 0 : between(fitting, sizes_.doubled(fitting));
    }
    [[nodiscard]] std::size_t between(std::size_t fitting, std::size_t refused) {
        while (refused - fitting > 1) {
            std::size_t const middle = fitting + (refused - fitting) / 2;
            (fits(middle) ? fitting : refused) = middle;
        }
        return fitting;
    }
    // If all smaller sizes are refused, returns the smallest that fitted.
    [[nodiscard]] std::size_t with_margin(std::size_t batch) {
        auto const less = static_cast<std::size_t>(std::ceil(static_cast<double>(batch) * options_.margin));
        for (std::size_t number = sizes_.number_of(batch - std::min(less, batch)); number != 0; number /= 2)
            if (fits(number)) return sizes_.at(number);
        std::size_t smallest = batch;
        for (batch_trial const& t : found_.trials)
            if (t.fitted) smallest = std::min(smallest, t.batch);
        return smallest;
    }

    [[nodiscard]] bool fits(std::size_t number) {
        std::size_t const batch = sizes_.at(number);
        for (batch_trial const& t : found_.trials)
            if (t.batch == batch) return t.fitted;
        auto const went = run_agreed(
            options_.ranks, "try of " + text_of(batch), [&] { return try_out(batch); }, where_);
        bool const fitted = went.agreed != outcome::refused;
        found_.trials.push_back({batch, fitted});
        if (fitted) found_.largest_fitted = std::max(found_.largest_fitted, batch);
        else if (found_.smallest_refused == 0 || batch < found_.smallest_refused)
            found_.smallest_refused = batch;
        if (!fitted && batch == sizes_.least) least_refused_ = went;
        return fitted;
    }
    // Runs the size found once more unless its memory is still there.
    void keep_found() {
        std::size_t const batch = found_.batch;
        bool const has_to_run = options_.ranks ? options_.ranks->max(attempt_.kept_for() != batch ? 1 : 0,
                                                                     "batch search: another run", where_) != 0
                                               : attempt_.kept_for() != batch;
        if (!has_to_run) return;
        auto const went = run_agreed(
            options_.ranks, "run of " + text_of(batch), [&] { return try_out(batch); }, where_);
        if (went.agreed == outcome::refused) throw_refusal(went, text_of(batch), where_);
        found_.trials.push_back({batch, true});
    }
    [[nodiscard]] outcome try_out(std::size_t batch) {
        if constexpr (keeping_try<Try>)
            if (attempt_.drop() && mark_) mark_->check("the destruction of a try's owner", where_);
        try {
            attempt_(batch);
        } catch (out_of_memory const& refused) {  // the step has been unwound
            if (options_.on_refusal) options_.on_refusal(batch, refused);
            if (mark_) mark_->check("a refused try of " + text_of(batch), where_);
            throw;
        }
        if constexpr (!keeping_try<Try>)
            if (mark_) mark_->check("a try of " + text_of(batch), where_);
        return outcome::went_well;
    }

    Try& attempt_;
    batch_search_options const& options_;
    source_location where_;
    batch_sizes sizes_;
    bool is_planned_ = false;
    std::optional<reservation> kept_;
    std::optional<step_leak_check> mark_;
    group_result least_refused_;
    batch_search_result found_;
};

}  // namespace detail

/// Runs `attempt(batch)` for several sizes, each once, and returns the largest that fitted with `keep_free` bytes to spare, reduced by the
/// margin.
///
///     batch_search_result const found = find_batch_size([&](std::size_t batch) { train_step(batch, stream, pool); },
///                                                {.largest = samples, .budget = budget, .plan = &plan});
///
/// `attempt` runs one complete step, with backward and the optimizer, and frees all memory that it allocated: with a budget, more bytes in
/// use after a try than before are misuse. If a step creates lasting objects, such as optimizer state, run a small one first.
/// A try is refused if it throws out_of_memory. If equal steps differ in memory, use a margin and with_retry.
/// With `ranks`, every rank calls this function; a size is refused if any rank refuses it. If a try fails otherwise on one rank, the others
/// throw rank_lost_error. A step that communicates must first agree with the other ranks (all_or_none).
/// Throws:  the refusal of the smallest size or its plan, or an out_of_memory that names a refused rank; usage_error; rank_lost_error;
///          other exceptions of a try.
/// Cost:    1 try if the plan is exact. Otherwise, with n = bit_width(largest / multiple_of), at most n + 1 tries with a plan and 2 n
///          without; a margin adds one, or up to n if smaller sizes are refused.
/// Threads: the calling thread.
/// Example: examples/deep_plan.hpp
template <std::invocable<std::size_t> Try>
[[nodiscard]] batch_search_result find_batch_size(Try&& attempt, batch_search_options const& options,
                                                  source_location where = source_location::current()) {
    return detail::batch_searcher<std::remove_reference_t<Try>>{attempt, options, where}.search();
}

/// Result of keep_largest_batch.
template <class T>
struct kept_batch {
    T value;                       ///< the return value of `make` for `search.batch`
    batch_search_result search{};  ///< as from find_batch_size
};

namespace detail {

template <class Make>
class batch_keeper {
public:
    using value_type = std::invoke_result_t<Make&, std::size_t>;

    explicit batch_keeper(Make& make) : make_{make} {}
    void operator()(std::size_t batch) {
        value_.emplace(make_(batch));
        batch_ = batch;
    }
    [[nodiscard]] bool drop() {
        bool const had = value_.has_value();
        value_.reset();
        batch_ = 0;
        return had;
    }
    [[nodiscard]] std::size_t kept_for() const noexcept { return batch_; }
    [[nodiscard]] value_type take() { return std::move(*value_); }

private:
    Make& make_;
    std::optional<value_type> value_;
    std::size_t batch_ = 0;
};

}  // namespace detail

/// Like find_batch_size, for memory that stays: `make(batch)` returns the owner of all memory that it allocated, such as the activations of a
/// model. The owner is destroyed before another size is tried, and the owner for the size found is returned.
///
///     auto kept = keep_largest_batch([&](std::size_t batch) { return activations{model, batch, stream, pool}; },
///                                    {.largest = samples, .budget = budget, .plan = &plan});
///     train(kept.value, kept.search.batch);
///
/// Throws:  as find_batch_size; the refusal of the size found, if its last run is refused.
/// Cost:    as find_batch_size, and a last run unless the size found was tried last: with an exact plan, memory is allocated once.
/// Threads: the calling thread.
/// Example: docs/adopting.md
template <std::invocable<std::size_t> Make>
    requires std::move_constructible<std::invoke_result_t<Make&, std::size_t>>
[[nodiscard]] auto keep_largest_batch(Make&& make, batch_search_options const& options,
                                      source_location where = source_location::current())
    -> kept_batch<std::invoke_result_t<Make&, std::size_t>> {
    detail::batch_keeper<std::remove_reference_t<Make>> keeper{make};
    batch_search_result found =
        detail::batch_searcher<detail::batch_keeper<std::remove_reference_t<Make>>>{keeper, options, where}
            .search();
    return {keeper.take(), std::move(found)};
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE bool batch_search_result::is_monotone() const noexcept {
    return smallest_refused == 0 || smallest_refused > largest_fitted;
}

CUOTA_INLINE std::string batch_search_result::text() const {
    std::string said = detail::message("a batch of {} fits", {detail::as_count(batch)});
    if (planned)
        said += planned->is_unbounded() ? " (any was planned)"
                                        : " (" + count_text(planned->batch) + " was planned)";
    if (largest_fitted != batch)
        detail::append_message(said, ", {} fitted", {detail::as_count(largest_fitted)});
    if (smallest_refused != 0)
        detail::append_message(said, ", {} was refused", {detail::as_count(smallest_refused)});
    detail::append_message(said, ": {}{}",
                           {detail::as_count(attempts()), attempts() == 1 ? " try" : " tries"});
    return is_monotone() ? said : said + "; not monotone";
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t batch_sizes::number_of(std::size_t size) const noexcept {
    return size < least ? 1 : (std::min(size, most) - least) / step + 1;
}

CUOTA_INLINE std::size_t batch_sizes::doubled(std::size_t number) const noexcept {
    std::size_t const size = at(number);
    return number_of(size > most - size ? most : 2 * size);
}

}  // namespace cuota::inline v0::detail

#endif
