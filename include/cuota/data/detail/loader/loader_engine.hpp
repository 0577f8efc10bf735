// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Implementation of batch_loader: docs/design/loader.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/detail/threads/spin_wait.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/detail/loader/batch_reader.hpp>
#include <cuota/data/detail/loader/batch_reorder_queue.hpp>
#include <cuota/data/detail/loader/copy_stage.hpp>
#include <cuota/data/detail/loader/loader_memory.hpp>
#include <cuota/data/detail/loader/loader_times.hpp>
#include <cuota/data/loader/loader_plan.hpp>
#include <cuota/data/loader/loader_state.hpp>
#include <cuota/data/loader/shard.hpp>
#include <cuota/data/loader/slot_layout.hpp>

namespace cuota::inline v0::detail {

/// Each worker acquires a pinned slot before it claims the next batch in order, so the queue cannot deadlock. Copies are enqueued without the
/// lock, because this calls the program's transform.
class loader_engine final : public ref_counted {
public:
    loader_engine(any_dataset from, loader_options const& options, source_location where);

    ~loader_engine();

    /// Stops and joins the workers. A running epoch delivers the copied batches, then throws usage_error.
    void shut_down() noexcept;

    /// Throws: usage_error in a forked child, and within the loader's device_transform.
    void expect_usable(source_location where) const;
    /// Runs end(engine), except in a forked child, and drops the reference.
    template <class End>
    static void let_go(intrusive_ptr<loader_engine>& of, End end) noexcept {
        if (!of) return;
        if (!of->is_of_parent()) end(*of);
        of = {};
    }

    void expect_unused(source_location where) const;

    // --- the consumer ---

    /// Reallocates released memory outside the lock, because this may reclaim from others.
    /// Throws: as batch_loader::epoch.
    void start_epoch(std::uint64_t epoch, std::uint64_t position, source_location where);

    /// Ends the epoch after a copy that another thread is enqueuing, or after the device_transform that calls this. Frees filled and copied
    /// slots.
    void end_epoch() noexcept;

    [[nodiscard]] bool wait_for(std::chrono::nanoseconds most, std::stop_token const& stop);

    [[nodiscard]] std::optional<batch_reorder_queue::delivery> next(std::stop_token const& stop);

    [[nodiscard]] loader_state state() const;
    [[nodiscard]] std::uint64_t order_id() const;
    [[nodiscard]] loader_stats stats() const;

    void use(std::uint32_t index, stream_ref s) { memory_->slot(index).use(s, plan().device_slot.bytes); }
    void check_reach(std::uint32_t index, stream_ref s, source_location where) const;

    void release(std::uint32_t index) noexcept;

    [[nodiscard]] device_slot const& slot(std::uint32_t index) const noexcept { return memory_->slot(index); }
    [[nodiscard]] slot_contents contents(std::uint32_t index) const noexcept;
    [[nodiscard]] std::span<field const> delivered_fields() const noexcept;
    [[nodiscard]] loader_plan const& plan() const noexcept { return memory_->plan(); }
    [[nodiscard]] std::string const& name() const noexcept { return memory_->shape().name; }
    [[nodiscard]] std::uint64_t size() const { return from_.size(); }
    [[nodiscard]] bool shows_progress() const noexcept { return options().progress; }

private:
    [[nodiscard]] loader_options const& options() const noexcept { return memory_->shape().options; }
    [[nodiscard]] std::span<field const> fields() const noexcept { return memory_->shape().fields; }

    [[nodiscard]] double part_covered() const noexcept;
    [[nodiscard]] bool is_by_rows() const noexcept { return plan().max_rows != 0; }

    [[nodiscard]] bool is_next_known() const noexcept;
    void wait_for_next(std::unique_lock<std::mutex>& lock, std::stop_token const& stop);

    // --- workers ---

    // Every path publishes exactly one result per claimed batch.
    void work(std::stop_token stop, std::size_t number, batch_reader& reader) noexcept;

    struct claim {
        batch_reorder_queue::claim what;
        std::uint64_t epoch;
        batch_slice at;
    };

    // Returns a generation with work, and starts a brief use of the ring.
    [[nodiscard]] std::optional<std::uint64_t> wait_for_work(std::stop_token const& stop, std::size_t worker);

    // Claims the next batch and extends the brief use until it is published. Returns nullopt if that generation has ended.
    [[nodiscard]] std::optional<claim> next_claim(std::uint64_t generation, std::size_t worker,
                                                  batch_reader& reader, std::exception_ptr& failure,
                                                  worker_times& taken);
    // Draws the samples first, because they determine the end of the batch.
    [[nodiscard]] std::optional<claim> claim_by_rows(std::uint64_t generation, std::size_t worker,
                                                     batch_reader& reader, std::exception_ptr& failure,
                                                     worker_times& taken);
    // Requires the lock.
    [[nodiscard]] claim claim_at(batch_slice const& at) noexcept;
    // Returns an empty batch for a failure.
    [[nodiscard]] batch_slice nowhere() const noexcept { return {line_.end(), 0, line_.end()}; }

    void publish(std::size_t worker, batch_reorder_queue::claim const& mine,
                 std::optional<staging_ring::staging_slot> lease, sample_list& samples,
                 std::exception_ptr failure, worker_times const& taken) noexcept;

    // --- copies, in order, by one thread at a time, without the lock ---

    struct copying {
        batch_reorder_queue::copy_job job;
        std::uint64_t epoch;
    };
    void copy_what_can_be() noexcept;
    [[nodiscard]] std::optional<copying> begin_copying() noexcept;
    // Stores a copy's result and returns the next; on nullopt, the thread has stopped copying.
    [[nodiscard]] std::optional<copying> copied(copying const& done, std::size_t bytes,
                                                std::exception_ptr failure) noexcept;
    // Requires the lock.
    [[nodiscard]] std::optional<copying> next_copying() noexcept;

    any_dataset from_;
    loader_memory memory_;
    batch_partition const deal_{memory_->shape().positions, options().batch_size, options().last_batch,
                                options().shard};

    // Serializes claim_by_rows. No other function locks it, so sampler and dataset may call the loader. Locked before guard_.
    std::mutex dealing_;
    mutable std::mutex guard_;  // protects all members below
    std::condition_variable_any work_;
    std::condition_variable_any arrived_;
    batch_reorder_queue line_;
    std::uint64_t begin_ = 0;
    loader_times times_;
    bool is_copying_ = false;
    bool ends_after_copy_ = false;           // end_epoch() was called within the transform
    copy_stage stage_;                       // without guard_
    std::atomic<std::uint64_t> copies_ = 0;  // waiters read it without the lock

    dynamic_array<std::jthread> workers_;  // last: they use the others
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

#include <cuota/buffer/lease.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE loader_engine::loader_engine(any_dataset from, loader_options const& options,
                                          source_location where)
    : from_{std::move(from)},
      memory_{loader_memory::of(from_, options, where)},
      // A claimed, uncopied batch holds a ring slot, has failed (one per worker), or is being copied.
      line_{plan().host_slots + options.workers + 1, plan().device_slots, memory_->shape().list_with_room()},
      stage_{*memory_.operator->()} {
    times_.have_workers(options.workers);
    try {
        for (std::size_t i = 0; i != options.workers; ++i)
            workers_.emplace_back([this, i, mine = batch_reader{memory_->shape(), from_}](
                                      std::stop_token stop) mutable { work(std::move(stop), i, mine); });
    } catch (...) {
        shut_down();
        throw;
    }
}

CUOTA_INLINE loader_engine::~loader_engine() { shut_down(); }

CUOTA_INLINE void loader_engine::check_reach(std::uint32_t index, stream_ref s, source_location where) const {
    refuse_out_of_reach("a batch", slot(index).at, memory_->copies(), s, where);
}

CUOTA_INLINE void loader_engine::shut_down() noexcept {
    for (std::jthread& worker : workers_) worker.request_stop();
    workers_.clear();
    {
        region_lock const lock{guard_};
        if (!line_.is_open() || line_.has_failed()) return;
        try {
            throw_usage_error(
                "loader of {}: cannot return the next batch: the loader was destroyed during the epoch",
                {name()});
        } catch (...) { line_.fail(std::current_exception()); }
    }
    arrived_.notify_all();
}

CUOTA_INLINE void loader_engine::expect_usable(source_location where) const {
    if (is_of_parent())
        throw_usage_error(
            where,
            "loader of {}: used in a forked child of the process that created it; create loaders "
            "after fork()",
            {name()});
    if (stage_.is_transforming_here())
        throw_usage_error(where, "loader of {}: cannot be used in its own device_transform", {name()});
}

CUOTA_INLINE void loader_engine::expect_unused(source_location where) const {
    region_lock const lock{guard_};
    if (line_.is_open())
        throw_usage_error(where, "loader of {}: cannot close: an epoch is running", {name()});
    if (std::size_t const alive = line_.held(); alive != 0)
        throw_usage_error(where, "loader of {}: cannot close: {}{}",
                          {name(), alive, alive == 1 ? " batch is alive" : " batches are alive"});
}

CUOTA_INLINE void loader_engine::start_epoch(std::uint64_t epoch, std::uint64_t position,
                                             source_location where) {
    std::uint64_t const positions = memory_->shape().positions;
    if (position > positions)
        throw_usage_error(where, "loader of {}: cannot start an epoch at position {} of {}",
                          {name(), position, positions});
    {
        region_lock const lock{guard_};
        if (line_.is_open()) throw_usage_error(where, "loader of {}: an epoch is already running", {name()});
        line_.open();
    }
    try {
        memory_->start_use(where);
    } catch (...) {
        region_lock const lock{guard_};
        line_.close();
        throw;
    }
    region_lock const lock{guard_};
    begin_ = position;
    line_.begin(position, is_by_rows() ? positions : deal_.end(position));
    times_.begin(epoch);
    stage_.forget_times();
    work_.notify_all();
}

CUOTA_INLINE void loader_engine::end_epoch() noexcept {
    {
        locked_region const region;
        std::unique_lock lock{guard_};
        if (stage_.is_transforming_here()) {
            ends_after_copy_ = true;
            return;
        }
        arrived_.wait(lock, [this] { return !is_copying_; });
        line_.close();
        times_.end();
    }
    memory_->drop_use();
}

CUOTA_INLINE bool loader_engine::wait_for(std::chrono::nanoseconds most, std::stop_token const& stop) {
    std::unique_lock lock{guard_};
    most = std::min<std::chrono::nanoseconds>(most, std::chrono::hours{24 * 365});  // prevents clock overflow
    if (is_next_known()) return true;
    times_.waits();
    bool const is_known = arrived_.wait_for(lock, stop, most, [&] { return is_next_known(); });
    times_.waits_no_more();
    return is_known || stop.stop_requested();
}

CUOTA_INLINE std::optional<batch_reorder_queue::delivery> loader_engine::next(std::stop_token const& stop) {
    std::unique_lock lock{guard_};
    wait_for_next(lock, stop);
    if (stop.stop_requested()) return std::nullopt;
    if (line_.is_over()) {
        times_.end();
        return std::nullopt;
    }
    if (line_.has_ready()) {
        batch_reorder_queue::delivery const next = line_.deliver();
        times_.delivered(memory_->slot(next.slot).samples.size());
        memory_->add_use();
        return next;
    }
    if (std::exception_ptr const failure = line_.failure_here()) std::rethrow_exception(failure);
    throw_usage_error(
        "loader of {}: cannot return the next batch: live batches hold all {} device slots; destroy "
        "one first, or increase device_slots",
        {name(), plan().device_slots});
}

CUOTA_INLINE loader_state loader_engine::state() const {
    std::uint64_t const order = order_id();  // before the lock: calls the sampler
    region_lock const lock{guard_};
    return {times_.epoch(), line_.position(), order};
}

CUOTA_INLINE std::uint64_t loader_engine::order_id() const {
    return fingerprint_of({memory_->shape().order.fingerprint(), memory_->shape().samples});
}

CUOTA_INLINE loader_stats loader_engine::stats() const {
    region_lock const lock{guard_};
    loader_stats now = times_.now();
    if (now.longest_read) now.longest_read->dataset = name();
    if (!is_by_rows()) now.total_batches = deal_.batches(begin_);
    now.covered = part_covered();
    now.workers = options().workers;
    now.is_pinned = memory_->is_pinned();
    now.copying = stage_.busy();
    return now;
}

CUOTA_INLINE void loader_engine::release(std::uint32_t index) noexcept {
    memory_->slot(index).end_uses();
    report_failure_of([&] { stage_.poison(memory_->slot(index)); });
    {
        region_lock const lock{guard_};
        line_.give_back(index);
    }
    copy_what_can_be();
    arrived_.notify_all();
    memory_->drop_use();
}

CUOTA_INLINE slot_contents loader_engine::contents(std::uint32_t index) const noexcept {
    return stage_.contents(memory_->slot(index));
}

CUOTA_INLINE std::span<field const> loader_engine::delivered_fields() const noexcept {
    return memory_->shape().delivered;
}

CUOTA_INLINE double loader_engine::part_covered() const noexcept {
    auto const all = static_cast<double>(line_.end() - begin_);
    return all == 0 ? 0 : static_cast<double>(line_.position() - begin_) / all;
}

CUOTA_INLINE bool loader_engine::is_next_known() const noexcept {
    return line_.is_over() || line_.has_ready() || line_.failure_here() || line_.all_slots_held();
}

CUOTA_INLINE void loader_engine::wait_for_next(std::unique_lock<std::mutex>& lock,
                                               std::stop_token const& stop) {
    if (is_next_known()) return;
    times_.waits();
    std::uint64_t const seen = copies_.load(std::memory_order_relaxed);
    lock.unlock();
    spin_wait([&] { return copies_.load(std::memory_order_relaxed) != seen; });
    lock.lock();
    if (!is_next_known()) (void)arrived_.wait(lock, stop, [&] { return is_next_known(); });
    times_.waits_no_more();
}

CUOTA_INLINE void loader_engine::work(std::stop_token stop, std::size_t number,
                                      batch_reader& reader) noexcept {
    std::exception_ptr failure;
    if (options().worker_init) try {
            options().worker_init(number);
        } catch (...) { failure = std::current_exception(); }
    std::exception_ptr const broken = failure;  // fails every batch
    while (std::optional<std::uint64_t> const epoch = wait_for_work(stop, number)) {
        std::optional<staging_ring::staging_slot> lease;
        failure = broken;
        worker_times taken;
        try {
            stopwatch const time{taken.waiting};
            lease = memory_->ring().acquire(stop);
        } catch (...) { failure = std::current_exception(); }
        std::optional<claim> const mine =
            lease || failure ? next_claim(*epoch, number, reader, failure, taken) : std::nullopt;
        if (!mine) {
            lease.reset();
            memory_->uses_of_ring().drop_brief();
            if (failure && failure != broken) report_failure_of([&] { std::rethrow_exception(failure); });
            continue;
        }
        try {
            if (!failure) {
                device_scope const here{memory_->where()};  // for dataset and sampler
                if (!is_by_rows()) reader.draw(mine->epoch, mine->at, taken);
                {
                    std::lock_guard const lock{guard_};
                    times_.goes_on(number, worker_stage::reading, reader.samples().numbers);
                }
                reader.fill(lease->bytes(), taken);
            }
        } catch (...) { failure = std::current_exception(); }
        publish(number, mine->what, std::move(lease), reader.samples(), std::move(failure), taken);
    }
}

CUOTA_INLINE std::optional<std::uint64_t> loader_engine::wait_for_work(std::stop_token const& stop,
                                                                       std::size_t worker) {
    std::unique_lock lock{guard_};
    times_.goes_on(worker, worker_stage::idle);
    if (!work_.wait(lock, stop, [&] { return line_.has_work(); }) || stop.stop_requested())
        return std::nullopt;
    memory_->uses_of_ring().add_brief();
    times_.goes_on(worker, worker_stage::waiting);
    return line_.generation();
}

CUOTA_INLINE auto loader_engine::next_claim(std::uint64_t generation, std::size_t worker,
                                            batch_reader& reader, std::exception_ptr& failure,
                                            worker_times& taken) -> std::optional<claim> {
    if (is_by_rows() && !failure) return claim_by_rows(generation, worker, reader, failure, taken);
    region_lock const lock{guard_};
    times_.goes_on(worker, worker_stage::drawing);
    auto const position = line_.next_step(generation);
    if (!position) return std::nullopt;
    memory_->uses_of_ring().keep_brief();
    return claim_at(is_by_rows() ? nowhere() : deal_.next(*position));
}

CUOTA_INLINE auto loader_engine::claim_by_rows(std::uint64_t generation, std::size_t worker,
                                               batch_reader& reader, std::exception_ptr& failure,
                                               worker_times& taken) -> std::optional<claim> {
    std::lock_guard const dealing{dealing_};
    std::optional<std::uint64_t> position;
    std::uint64_t epoch = 0;
    {
        region_lock const lock{guard_};
        position = line_.next_step(generation);
        epoch = times_.epoch();
        times_.goes_on(worker, worker_stage::drawing);
        // The sampler and row_counts may charge; with a brief use, they would wait for themselves.
        if (position) memory_->uses_of_ring().keep_brief();
    }
    if (!position) return std::nullopt;
    std::optional<batch_slice> at;
    try {
        device_scope const here{memory_->where()};
        at = reader.draw_rows(epoch, *position, taken);
    } catch (...) { failure = std::current_exception(); }
    region_lock const lock{guard_};
    if (line_.next_step(generation)) {
        if (failure) return claim_at(nowhere());
        if (at) return claim_at(*at);
        line_.ends_here();
        arrived_.notify_all();
    }
    memory_->uses_of_ring().make_brief();  // the caller ends it
    return std::nullopt;
}

CUOTA_INLINE auto loader_engine::claim_at(batch_slice const& at) noexcept -> claim {
    return {line_.claim_next(at.end), times_.epoch(), at};
}

CUOTA_INLINE void loader_engine::publish(std::size_t worker, batch_reorder_queue::claim const& mine,
                                         std::optional<staging_ring::staging_slot> lease,
                                         sample_list& samples, std::exception_ptr failure,
                                         worker_times const& taken) noexcept {
    {
        region_lock const lock{guard_};
        times_.goes_on(worker, worker_stage::idle);
        if (line_.fill(mine, lease, samples, std::move(failure))) times_.filled(taken);
        lease.reset();  // before the ring may be freed
        memory_->uses_of_ring().drop();
    }
    copy_what_can_be();
    arrived_.notify_all();
}

CUOTA_INLINE void loader_engine::copy_what_can_be() noexcept {
    for (std::optional<copying> now = begin_copying(); now;) {
        std::size_t bytes = 0;
        std::exception_ptr failure;
        try {
            staging_ring::staging_slot lease = *std::exchange(now->job.from->filled, std::nullopt);
            bytes =
                stage_.copy(std::move(lease), now->job.from->samples, memory_->slot(now->job.to), now->epoch);
        } catch (...) { failure = std::current_exception(); }
        now = copied(*now, bytes, std::move(failure));
    }
}

CUOTA_INLINE auto loader_engine::begin_copying() noexcept -> std::optional<copying> {
    region_lock const lock{guard_};
    return is_copying_ ? std::nullopt : next_copying();
}

CUOTA_INLINE auto loader_engine::copied(copying const& done, std::size_t bytes,
                                        std::exception_ptr failure) noexcept -> std::optional<copying> {
    bool is_over = false;
    std::optional<copying> next;
    {
        region_lock const lock{guard_};
        if (failure) {
            line_.fail(std::move(failure));
        } else {
            std::swap(memory_->slot(done.job.to).samples, done.job.from->samples);
            times_.copied(bytes);
            line_.copied();
            copies_.fetch_add(1, std::memory_order_relaxed);
        }
        is_over = std::exchange(ends_after_copy_, false);
        if (is_over) {
            line_.close();
            times_.end();
        }
        next = next_copying();
    }
    arrived_.notify_all();  // before the next batch's transform
    if (is_over) memory_->drop_use();
    return next;
}

CUOTA_INLINE auto loader_engine::next_copying() noexcept -> std::optional<copying> {
    auto const job = line_.next_copy();
    is_copying_ = job.has_value();
    if (!job) return std::nullopt;
    return copying{*job, times_.epoch()};
}

}  // namespace cuota::inline v0::detail

#endif
