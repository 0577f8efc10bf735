// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Data on the device, one batch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/stop_signal.hpp>
#include <cuota/data/any_source.hpp>
#include <cuota/data/batch.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader_plan.hpp>
#include <cuota/data/loader_state.hpp>
#include <cuota/data/loader_stats.hpp>
#include <cuota/data/progress_line.hpp>
#include <cuota/data/source.hpp>

namespace cuota::inline v0 {

/// One pass over a loader's source: a range of batches, each to be taken once. Move-only.
///
/// Leaving early is as good as finishing: what was read ahead is dropped, and the loader is ready for another epoch.
/// Order:   batches come in the order of the epoch, whoever read them.
/// Threads: one at a time; its stop_signal comes from any.
/// Throws:  as next. Cost: nothing is allocated.
/// Example:
///     auto epoch = loader.epoch(0, stop);
///     while (auto batch = epoch.next()) step(batch->view<float>(stream), stream);
class epoch_range {
public:
    /// Once through, for a range-based for loop: an input iterator. Valid while its range is.
    class iterator {
    public:
        using value_type = batch;                ///< given away by operator*
        using difference_type = std::ptrdiff_t;  ///< as input iterators have one

        /// Gives the batch away: once.
        [[nodiscard]] batch operator*() const { return std::move(*range_->current_); }
        /// Drops the batch if nobody took it, and waits for the next. Throws: as next.
        iterator& operator++();
        void operator++(int) { ++*this; }  ///< the same
        /// Whether the epoch has ended.
        friend bool operator==(iterator const& it, std::default_sentinel_t) noexcept { return it.is_over(); }

    private:
        friend class epoch_range;
        [[nodiscard]] bool is_over() const noexcept { return !range_->current_; }
        explicit iterator(epoch_range& range) noexcept : range_{&range} {}
        epoch_range* range_;
    };

    /// Takes the epoch and the batch that waits in it; every use of the other one is a misuse then.
    epoch_range(epoch_range&& other) noexcept;
    epoch_range& operator=(epoch_range&&) = delete;  // an epoch is started, not assigned
    ~epoch_range();

    /// The next batch, or nothing at the end of the epoch and once stop was requested. Waits on the host until its copy is
    /// enqueued.
    /// Throws: data_error and whatever else reading or copying this batch met, in its place in the order, again at
    ///         every further call; misuse when the caller still holds every device slot, or the loader ended before.
    [[nodiscard]] std::optional<batch> next();

    /// Waits on the host until `next` would not, but no longer than that. True when it would not: with a batch, at the end,
    /// stopped, or with what it throws. Throws: misuse for an epoch that was moved from.
    [[nodiscard]] bool wait_for(std::chrono::nanoseconds most);

    /// For a range-based for loop. Throws: as next.
    [[nodiscard]] iterator begin();
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }  ///< where an iterator stops

private:
    friend class batch_loader;
    epoch_range(shared<detail::loader_engine> engine, stop_signal stop) noexcept;

    [[nodiscard]] detail::loader_engine& checked_engine() const;
    void advance();

    shared<detail::loader_engine> engine_;
    stop_signal stop_;
    progress_line progress_;
    std::optional<batch> current_;
};

/// Streams a source to the device of the calling thread, batch by batch, through pinned slots that are reused.
///
/// While one batch computes, the next is copied and the ones after are read. All memory, device and pinned, is
/// planned (`plan_loader`), charged to the budgets and taken on construction; nothing is allocated after that. With a
/// `reclaim_priority` what is of a budget that is short is given back between epochs, and taken again when the next one
/// starts. A batch that is alive keeps all of it; a read that is under way when an epoch is left keeps the pinned slots.
/// The order of samples is a pure function of seed and epoch: the same for any number of workers, on any machine.
///
/// Units:   samples for counts, bytes for memory.
/// Order:   copies run on a stream of its own; `batch::view` puts who uses a batch behind its copy.
/// Cost:    of a batch one gather, by a worker, one copy, and the kernels of a transform; nothing is allocated.
/// Threads: one thread at a time iterates over epochs; worker threads of the loader read, and sleep while they wait for copies
/// (host_wait::blocking). Any thread may make the loader release memory, stop an epoch, or read state and stats.
/// No capture of others is invalidated. A batch ends outside of captures of the streams that used it: in a foreign one
/// (docs/streams_and_leases.md) the epoch ends with misuse when the slot is to be filled again.
/// Throws:  on construction budget_exceeded (which tells the largest batch that would fit) or out_of_memory; misuse
///          for options that make no loader; cuda_error. Nothing is held then.
/// Its end stops and joins the workers; the longest that takes is one read. Batches stay valid. What the end meets is
/// reported; `close` throws it.
/// In a child of the process that made it nothing of it can be used (misuse), and its end does nothing.
/// Example: examples/train.cpp
class batch_loader {
public:
    using options = loader_options;  ///< the same

    /// Takes the memory that `plan` tells and starts the workers; nothing is read yet. The source is kept until its end.
    template <source S>
    batch_loader(S from, options const& how, place where = place::here())
        : batch_loader{detail::any_source{std::move(from)}, how, where} {}
    /// Epochs and batches go on; every use of the other one is a misuse then.
    batch_loader(batch_loader&& other) noexcept = default;
    /// Ends its own loader first; then as above.
    batch_loader& operator=(batch_loader&& other) noexcept;
    ~batch_loader() { shut_down(); }

    /// Starts reading an epoch. Any thread may end it by requesting stop: `next` wakes then, and gives no more batches.
    /// Throws: misuse while another epoch of this loader is going on; if it gave back memory before, as on construction when
    /// it cannot have that again: the loader is as it was, and the epoch can be asked for again.
    [[nodiscard]] epoch_range epoch(std::uint64_t number, stop_signal stop = {},
                                    place where = place::here()) &;
    /// Goes on where a loader was, as `state` told: with the batches that were not delivered then, whatever had been read.
    /// The number of workers, of processes and of samples in a batch may be another.
    /// Cost: nothing is read or drawn again. Throws: misuse for a state of another order or another number of samples.
    [[nodiscard]] epoch_range epoch(loader_state const& from, stop_signal stop = {},
                                    place where = place::here()) &;
    // The loader would end before its epoch.
    epoch_range epoch(std::uint64_t, stop_signal = {}, place = {}) && = delete;
    epoch_range epoch(loader_state const&, stop_signal = {}, place = {}) && = delete;
    /// Where the epoch is that is going on, or was the last: batches count that were delivered, not those read ahead.
    /// When an epoch is over, so is what goes on from there. Throws: nothing that the sampler does not.
    [[nodiscard]] loader_state state(place where = place::here()) const;
    /// What that epoch took, stage by stage, and which of them the others wait for; stats_text says it in words.
    /// Threads: any. Throws: cuda_error when copies are timed (loader_options::time_copies).
    [[nodiscard]] loader_stats stats(place where = place::here()) const;

    /// Ends the loader as its destruction does, and throws what that would only report, when all has been given back.
    /// Throws: misuse while an epoch goes on or a batch is alive: the loader goes on then; cuda_error.
    void close(place where = place::here());

    /// What it took on construction. Bytes.
    [[nodiscard]] loader_plan const& plan(place where = place::here()) const;
    /// Samples of the source, not positions of an epoch.
    [[nodiscard]] std::uint64_t size(place where = place::here()) const;
    /// Of a batch.
    [[nodiscard]] std::span<field const> fields(place where = place::here()) const;

private:
    batch_loader(detail::any_source from, options const& how, place where);
    [[nodiscard]] detail::loader_engine& checked_engine(place where) const;
    void shut_down() noexcept;
    shared<detail::loader_engine> engine_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <cstdio>

#include <cuota/data/loader_engine.hpp>

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

CUOTA_INLINE epoch_range::epoch_range(shared<detail::loader_engine> engine, stop_signal stop) noexcept
    : engine_{std::move(engine)},
      stop_{std::move(stop)},
      progress_{engine_->shows_progress() ? stderr : nullptr} {}

CUOTA_INLINE detail::loader_engine& epoch_range::checked_engine() const {
    if (!engine_) detail::throw_misuse("an epoch was used after it was moved from");
    engine_->expect_usable({});
    return *engine_;
}

CUOTA_INLINE void epoch_range::advance() {
    current_.reset();
    current_ = next();
}

CUOTA_INLINE batch_loader::batch_loader(detail::any_source from, options const& how, place where)
    : engine_{shared<detail::loader_engine>::make(std::move(from), how, where)} {}

CUOTA_INLINE batch_loader& batch_loader::operator=(batch_loader&& other) noexcept {
    if (this != &other) {
        shut_down();
        engine_ = std::move(other.engine_);
    }
    return *this;
}

CUOTA_INLINE epoch_range batch_loader::epoch(std::uint64_t number, stop_signal stop, place where) & {
    checked_engine(where).start_epoch(number, 0, where);
    return epoch_range{engine_, std::move(stop)};
}

CUOTA_INLINE epoch_range batch_loader::epoch(loader_state const& from, stop_signal stop, place where) & {
    if (from.order != checked_engine(where).order_id())
        detail::throw_misuse(
            where,
            "a loader of {} was to go on where another was: its sampler or its number of samples is another",
            {engine_->name()});
    engine_->start_epoch(from.epoch, from.position, where);
    return epoch_range{engine_, std::move(stop)};
}

CUOTA_INLINE loader_state batch_loader::state(place where) const { return checked_engine(where).state(); }

CUOTA_INLINE loader_stats batch_loader::stats(place where) const { return checked_engine(where).stats(); }

CUOTA_INLINE void batch_loader::close(place where) {
    checked_engine(where).expect_unused(where);
    detail::kept_error const met;
    shut_down();
    engine_ = {};
    met.rethrow();
}

CUOTA_INLINE loader_plan const& batch_loader::plan(place where) const { return checked_engine(where).plan(); }

CUOTA_INLINE std::uint64_t batch_loader::size(place where) const { return checked_engine(where).size(); }

CUOTA_INLINE std::span<field const> batch_loader::fields(place where) const {
    return checked_engine(where).delivered_fields();
}

CUOTA_INLINE detail::loader_engine& batch_loader::checked_engine(place where) const {
    if (!engine_) detail::throw_misuse(where, "a loader was used after it was closed or moved from");
    engine_->expect_usable(where);
    return *engine_;
}

CUOTA_INLINE void batch_loader::shut_down() noexcept {
    detail::loader_engine::let_go(engine_, [](auto& engine) { engine.shut_down(); });
}

}  // namespace cuota::inline v0

#endif
