// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Loads a dataset into device memory, by batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/stop_signal.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader/batch.hpp>
#include <cuota/data/loader/loader_plan.hpp>
#include <cuota/data/loader/loader_state.hpp>
#include <cuota/data/loader/loader_stats.hpp>
#include <cuota/data/loader/progress_bar.hpp>

namespace cuota::inline v0 {

/// One pass over a loader's dataset: a move-only, single-pass range of batches, in epoch order. It may be left early; batches read ahead
/// are dropped.
///
/// Threads: one at a time; any thread may trigger the stop_signal.
/// Throws:  as next. Cost: no allocations.
/// Example: examples/train.cpp
class epoch_range {
public:
    /// Input iterator, valid while its range lives.
    class iterator {
    public:
        using value_type = batch;                ///< operator* moves it out
        using difference_type = std::ptrdiff_t;  ///< required of input iterators

        /// Moves the batch out, once.
        [[nodiscard]] batch operator*() const { return std::move(*range_->current_); }
        /// Waits for the next batch; destroys the current one unless moved out.
        iterator& operator++();
        void operator++(int) { ++*this; }  ///< same as pre-increment
        /// Returns true at the end of the epoch.
        friend bool operator==(iterator const& it, std::default_sentinel_t) noexcept { return it.is_over(); }

    private:
        friend class epoch_range;
        [[nodiscard]] bool is_over() const noexcept { return !range_->current_; }
        explicit iterator(epoch_range& range) noexcept : range_{&range} {}
        epoch_range* range_;
    };

    /// Moves the epoch. Using `other` afterwards throws usage_error.
    epoch_range(epoch_range&& other) noexcept;
    epoch_range& operator=(epoch_range&&) = delete;  // epochs are started, not assigned
    ~epoch_range();

    /// Returns the next batch, or nullopt at the end of the epoch or after a stop request. Blocks the host until its copy is enqueued.
    /// Throws: the error of reading or copying this batch, again at each further call; usage_error if the caller holds every device slot,
    /// or the loader was destroyed.
    [[nodiscard]] std::optional<batch> next();

    /// Blocks the host, for at most `most`, until `next` would return or throw immediately; returns whether it would.
    [[nodiscard]] bool wait_for(std::chrono::nanoseconds most);

    /// Starts a range-based for loop.
    [[nodiscard]] iterator begin();
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }  ///< end sentinel

private:
    friend class batch_loader;
    epoch_range(detail::intrusive_ptr<detail::loader_engine> engine, stop_signal stop) noexcept;

    [[nodiscard]] detail::loader_engine& checked_engine() const;
    void advance();

    detail::intrusive_ptr<detail::loader_engine> engine_;
    stop_signal stop_;
    progress_bar progress_;
    std::optional<batch> current_;
};

/// Streams a dataset to the current device in batches, through reused pinned slots.
///
/// While one batch is computed on, the next is copied and later ones are read. All memory is planned (`plan_loader`), charged and allocated
/// on construction. Between epochs it may be released (loader_options::reclaim_priority), unless a batch lives.
/// Order:   copies run on the loader's own stream; `batch::view` orders a stream after them. The order of samples depends on sampler and
///          epoch only.
/// Cost:    per batch one gather, one copy, and the transform's kernels; no allocations.
/// Threads: one thread at a time iterates; any thread may stop an epoch, reclaim, or call state and stats. Workers sleep while waiting for
///          copies (host_wait::blocking). No capture in progress is invalidated. A foreign capture (docs/streams_and_leases.md) in which a
///          batch was destroyed must end before its slot is refilled, or the epoch fails with usage_error.
/// Throws:  on construction budget_exceeded (with the largest fitting batch), out_of_memory, cuda_error, or usage_error for invalid
///          options. On failure, nothing is held.
///
/// The destructor joins the workers, within at most one read, and reports errors. Batches stay valid. In a forked child, every use throws
/// usage_error and the destructor does nothing.
/// Example: examples/train.cpp
class batch_loader {
public:
    using options = loader_options;  ///< the loader's options

    /// Starts the workers. Keeps the dataset until destroyed.
    template <dataset S>
    batch_loader(S from, options const& how, source_location where = source_location::current())
        : batch_loader{detail::any_dataset{std::move(from)}, how, where} {}
    /// Moves the loader. Using `other` afterwards throws usage_error.
    batch_loader(batch_loader&& other) noexcept = default;
    /// Shuts the current loader down first.
    batch_loader& operator=(batch_loader&& other) noexcept;
    ~batch_loader() { shut_down(); }

    /// Starts an epoch. A stop request, by any thread, wakes `next` and ends it.
    /// Throws: usage_error while another epoch is running; as on construction, if released memory cannot be reallocated. The call may be
    /// repeated.
    [[nodiscard]] epoch_range epoch(std::uint64_t number, stop_signal stop = {},
                                    source_location where = source_location::current()) &;
    /// Resumes from a `state`, with the first undelivered batch; nothing is read or drawn again. Workers, processes and batch size may
    /// differ.
    /// Throws: usage_error if the state has another order or number of samples.
    [[nodiscard]] epoch_range epoch(loader_state const& from, stop_signal stop = {},
                                    source_location where = source_location::current()) &;
    // The loader would be destroyed before its epoch.
    epoch_range epoch(std::uint64_t, stop_signal = {}, source_location = {}) && = delete;
    epoch_range epoch(loader_state const&, stop_signal = {}, source_location = {}) && = delete;
    /// Returns the position after the delivered batches of the current or last epoch. Throws: errors of the sampler.
    [[nodiscard]] loader_state state(source_location where = source_location::current()) const;
    /// Returns the time per stage of that epoch. Throws: cuda_error if copies are timed.
    [[nodiscard]] loader_stats stats(source_location where = source_location::current()) const;

    /// Shuts down like the destructor, and frees all memory.
    /// Throws: the destructor's errors; usage_error while an epoch is running or a batch lives, and the loader continues.
    void close(source_location where = source_location::current());

    /// Returns the allocated memory.
    [[nodiscard]] loader_plan const& plan(source_location where = source_location::current()) const;
    /// Returns the number of samples.
    [[nodiscard]] std::uint64_t size(source_location where = source_location::current()) const;
    /// Returns the fields of a batch.
    [[nodiscard]] std::span<field const> fields(source_location where = source_location::current()) const;

private:
    batch_loader(detail::any_dataset from, options const& how, source_location where);
    [[nodiscard]] detail::loader_engine& checked_engine(source_location where) const;
    void shut_down() noexcept;
    detail::intrusive_ptr<detail::loader_engine> engine_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <cstdio>

#include <cuota/data/detail/loader/loader_engine.hpp>

namespace cuota::inline v0 {

static_assert(std::input_iterator<epoch_range::iterator> && !std::forward_iterator<epoch_range::iterator>);

CUOTA_INLINE auto epoch_range::iterator::operator++() -> iterator& {
    range_->advance();
    return *this;
}

CUOTA_INLINE epoch_range::epoch_range(epoch_range&& other) noexcept
    : engine_{std::move(other.engine_)},
      stop_{std::move(other.stop_)},
      progress_{std::move(other.progress_)},
      current_{std::exchange(other.current_, std::nullopt)} {}

CUOTA_INLINE epoch_range::~epoch_range() {
    current_.reset();
    detail::loader_engine::let_go(engine_, [](auto& engine) { engine.end_epoch(); });
}

CUOTA_INLINE std::optional<batch> epoch_range::next() {
    auto const what = checked_engine().next(stop_.token());
    auto const facts = [this] { return engine_->stats(); };
    if (what) progress_.show(facts);
    else progress_.finish(facts);
    if (!what) return std::nullopt;
    return batch{engine_, what->slot, what->index};
}

CUOTA_INLINE bool epoch_range::wait_for(std::chrono::nanoseconds most) {
    return checked_engine().wait_for(most, stop_.token());
}

CUOTA_INLINE auto epoch_range::begin() -> iterator {
    advance();
    return iterator{*this};
}

CUOTA_INLINE epoch_range::epoch_range(detail::intrusive_ptr<detail::loader_engine> engine,
                                      stop_signal stop) noexcept
    : engine_{std::move(engine)},
      stop_{std::move(stop)},
      progress_{engine_->shows_progress() ? stderr : nullptr} {}

CUOTA_INLINE detail::loader_engine& epoch_range::checked_engine() const {
    if (!engine_) detail::throw_usage_error("an epoch was used after it was moved from");
    engine_->expect_usable({});
    return *engine_;
}

CUOTA_INLINE void epoch_range::advance() {
    current_.reset();
    current_ = next();
}

CUOTA_INLINE batch_loader::batch_loader(detail::any_dataset from, options const& how, source_location where)
    : engine_{detail::intrusive_ptr<detail::loader_engine>::make(std::move(from), how, where)} {}

CUOTA_INLINE batch_loader& batch_loader::operator=(batch_loader&& other) noexcept {
    if (this != &other) {
        shut_down();
        engine_ = std::move(other.engine_);
    }
    return *this;
}

CUOTA_INLINE epoch_range batch_loader::epoch(std::uint64_t number, stop_signal stop,
                                             source_location where) & {
    checked_engine(where).start_epoch(number, 0, where);
    return epoch_range{engine_, std::move(stop)};
}

CUOTA_INLINE epoch_range batch_loader::epoch(loader_state const& from, stop_signal stop,
                                             source_location where) & {
    if (from.order != checked_engine(where).order_id())
        detail::throw_usage_error(
            where,
            "loader of {}: cannot resume: the saved state was made with a different sampler "
            "or number of samples",
            {engine_->name()});
    engine_->start_epoch(from.epoch, from.position, where);
    return epoch_range{engine_, std::move(stop)};
}

CUOTA_INLINE loader_state batch_loader::state(source_location where) const {
    return checked_engine(where).state();
}

CUOTA_INLINE loader_stats batch_loader::stats(source_location where) const {
    return checked_engine(where).stats();
}

CUOTA_INLINE void batch_loader::close(source_location where) {
    checked_engine(where).expect_unused(where);
    detail::kept_error const met;
    shut_down();
    engine_ = {};
    met.rethrow();
}

CUOTA_INLINE loader_plan const& batch_loader::plan(source_location where) const {
    return checked_engine(where).plan();
}

CUOTA_INLINE std::uint64_t batch_loader::size(source_location where) const {
    return checked_engine(where).size();
}

CUOTA_INLINE std::span<field const> batch_loader::fields(source_location where) const {
    return checked_engine(where).delivered_fields();
}

CUOTA_INLINE detail::loader_engine& batch_loader::checked_engine(source_location where) const {
    if (!engine_) detail::throw_usage_error(where, "a loader was used after it was closed or moved from");
    engine_->expect_usable(where);
    return *engine_;
}

CUOTA_INLINE void batch_loader::shut_down() noexcept {
    detail::loader_engine::let_go(engine_, [](auto& engine) { engine.shut_down(); });
}

}  // namespace cuota::inline v0

#endif
