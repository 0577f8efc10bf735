// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The machinery of batch_loader: workers fill pinned slots, one stream copies them in order, batches hold the result.
#pragma once

#include <algorithm>
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
#include <vector>

#include <unistd.h>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/data/any_source.hpp>
#include <cuota/data/batch_deal.hpp>
#include <cuota/data/loader_memory.hpp>
#include <cuota/data/loader_plan.hpp>
#include <cuota/data/loader_state.hpp>
#include <cuota/data/source.hpp>

namespace cuota::inline v0::detail {

/// One loader's threads, slots and order of batches.
///
/// Workers claim batches in order, each holding a pinned slot before it claims one, so the next batch in line always
/// has a slot and the line cannot lock up. Whoever makes progress possible (a worker that filled, a batch that ended)
/// enqueues the copies that can be enqueued, in order, under the lock; there is no thread that only hands on.
/// A failure takes the place of the batch it happened to.
class loader_engine final : public ref_counted {
public:
    loader_engine(any_source from, loader_options const& options, place where)
        : from_{std::move(from)}, memory_{loader_shape{from_, options}, where}, deal_{deal_from(0)} {
        free_slots_.reserve(plan().device_slots);
        ready_.reserve(plan().device_slots);
        for (std::uint32_t i = 0; i != plan().device_slots; ++i) free_slots_.push_back(i);
        pending_.resize(plan().host_slots + options.workers);
        for (pending& p : pending_) p.samples.reserve(plan().batch);
        try {
            for (std::size_t i = 0; i != options.workers; ++i)
                workers_.emplace_back([this, mine = make_scratch()](std::stop_token stop) mutable {
                    work(std::move(stop), mine);
                });
        } catch (...) {
            shut_down();
            throw;
        }
    }

    ~loader_engine() { shut_down(); }

    /// Stops and joins the workers; a read under way is the longest that takes. Batches stay valid. An epoch that goes on
    /// has those that were copied, and then is told why there are no more: nobody would ever bring them.
    void shut_down() noexcept {
        for (std::jthread& worker : workers_) worker.request_stop();
        workers_.clear();
        {
            std::scoped_lock const lock{guard_};
            if (!running_ || failure_) return;
            try {
                throw misuse{"the loader of " + name() +
                             " ended before its epoch, of which more was asked for"};
            } catch (...) { failure_ = std::current_exception(); }
        }
        arrived_.notify_all();
    }

    /// After a fork the child has none of the threads, perhaps a lock that nobody will open, and a device that it may not
    /// use: there nothing of this is touched, and it is never destroyed.
    [[nodiscard]] bool is_in_its_process() const noexcept { return ::getpid() == process_; }
    void expect_its_process(place where) const {
        if (!is_in_its_process())
            throw misuse{
                "a loader of process " + std::to_string(process_) +
                    " was used in its child, which has none of its threads: make loaders after the fork",
                where};
    }
    /// For whoever owns it and ends: all that it does then, but in a child.
    template <class End>
    static void let_go(shared<loader_engine>& of, End end) noexcept {
        if (!of) return;
        if (of->is_in_its_process()) {
            end(*of);
            of = {};
        } else {
            (void)of.detach();
        }
    }

    // --- the consumer ---

    /// Takes what was given back between epochs: outside the lock, for others may be asked for it.
    /// Throws: misuse while another epoch is going on, or for a position that there is not; what loader_slots::start_use
    /// throws. The loader is as before then.
    void start_epoch(std::uint64_t epoch, std::uint64_t position, place where) {
        batch_deal const deal = deal_from(position);
        {
            std::scoped_lock const lock{guard_};
            if (running_)
                throw misuse{"an epoch of " + name() + " was started while another is still going on", where};
            running_ = true;
            claimed_ = copied_ = claim_end_ = 0;  // no work yet
        }
        try {
            memory_->start_use(where);
        } catch (...) {
            std::scoped_lock const lock{guard_};
            running_ = false;
            throw;
        }
        std::scoped_lock const lock{guard_};
        ++generation_;
        epoch_ = epoch;
        deal_ = deal;
        delivered_ = 0;
        claim_end_ = deal_.batches();
        failure_ = nullptr;
        for (pending& p : pending_) p.failure = nullptr;
        work_.notify_all();
    }

    /// What is being read belongs to nobody now; slots that were filled or copied come home. Waits for nothing.
    void end_epoch() noexcept {
        {
            std::scoped_lock const lock{guard_};
            running_ = false;
            ++generation_;
            for (pending& p : pending_) p.filled.reset();
            free_slots_.insert(free_slots_.end(), ready_.begin(), ready_.end());
            ready_.clear();
        }
        memory_->drop_use();
    }

    struct delivery {
        std::uint32_t slot;
        std::uint64_t index;  // of the batch in its epoch
    };

    /// True when `next` has not to wait any more, false when that has taken too long.
    [[nodiscard]] bool wait_for(std::chrono::nanoseconds most) {
        std::unique_lock lock{guard_};
        most = std::min<std::chrono::nanoseconds>(most,
                                                  std::chrono::hours{24 * 365});  // the clock's end is near
        return arrived_.wait_for(lock, most, [&] { return is_next_known(); });
    }

    /// The next batch of the epoch, or nothing at its end. Waits on the host until its copy is enqueued.
    /// Throws: what its worker or its copy met; misuse when the caller holds every device slot.
    [[nodiscard]] std::optional<delivery> next() {
        std::unique_lock lock{guard_};
        arrived_.wait(lock, [&] { return is_next_known(); });
        if (is_over()) return std::nullopt;
        if (!ready_.empty()) {
            delivery const next{ready_.front(), delivered_++};
            ready_.erase(ready_.begin());
            memory_->add_use();
            return next;
        }
        if (failure_here()) std::rethrow_exception(failure_);
        throw misuse{
            "the next batch of " + name() + " was asked for while all " +
            std::to_string(plan().device_slots) +
            " device slots are held by batches that still live: end one first, or ask for more device_slots"};
    }

    /// Where the epoch is that goes on, or went on last.
    [[nodiscard]] loader_state state() const {
        std::uint64_t const order = order_id();  // a program's own sampler is asked
        std::scoped_lock const lock{guard_};
        return {epoch_, deal_.position_after(delivered_), order};
    }
    /// Of what is drawn, from how many samples.
    [[nodiscard]] std::uint64_t order_id() const {
        return fingerprint_of({memory_->shape().order.fingerprint(), memory_->shape().samples});
    }

    /// Work on s may use the batch in that slot from here on, once its copy is over. Throws: cuda_error.
    void use(std::uint32_t index, stream_ref s) { memory_->slot(index).use(s, plan().slot_bytes); }

    /// A batch ended: its slot may be overwritten once what the streams did with it is over.
    void release(std::uint32_t index) noexcept {
        memory_->slot(index).end_uses();
        {
            std::scoped_lock const lock{guard_};
            free_slots_.push_back(index);
            copy_what_can_be();
        }
        arrived_.notify_all();
        memory_->drop_use();
    }

    [[nodiscard]] device_slot const& slot(std::uint32_t index) const noexcept { return memory_->slot(index); }
    [[nodiscard]] std::span<field const> fields() const noexcept { return memory_->shape().fields; }
    [[nodiscard]] loader_plan const& plan() const noexcept { return memory_->plan(); }
    [[nodiscard]] std::string const& name() const noexcept { return memory_->shape().name; }
    [[nodiscard]] std::uint64_t size() const { return from_.size(); }

private:
    [[nodiscard]] loader_options const& options() const noexcept { return memory_->shape().options; }

    [[nodiscard]] batch_deal deal_from(std::uint64_t position) const {
        return {memory_->shape().positions, options().batch, options().last, options().part, position};
    }

    // A claimed batch: being filled, filled and waiting for its copy, or failed.
    struct pending {
        std::optional<staging_ring::fill_lease> filled{};
        std::vector<std::uint64_t> samples{};
        std::exception_ptr failure{};
    };

    [[nodiscard]] pending& pending_of(std::uint64_t batch) noexcept {
        // Batches claimed and not yet copied hold a slot of the ring each, or failed, once a worker: there are as
        // many places.
        return pending_[static_cast<std::size_t>(batch % pending_.size())];
    }
    [[nodiscard]] bool is_over() const noexcept { return delivered_ == deal_.batches(); }
    [[nodiscard]] bool is_next_known() const noexcept {
        return is_over() || !ready_.empty() || failure_here() || all_slots_held();
    }
    [[nodiscard]] bool failure_here() const noexcept { return failure_ && delivered_ == copied_; }
    [[nodiscard]] bool all_slots_held() const noexcept { return ready_.empty() && free_slots_.empty(); }

    // --- workers ---

    // What a worker writes to besides its slot; made where a failure to make it can be thrown.
    struct scratch {
        std::vector<std::span<std::byte>> out;
        std::vector<std::uint64_t> samples;
    };
    [[nodiscard]] scratch make_scratch() const {
        scratch made;
        made.out.resize(fields().size());
        made.samples.resize(plan().batch);  // its size, not only room: a copy has it, too
        return made;
    }

    // Every way through here publishes exactly one result for the batch that was claimed.
    void work(std::stop_token stop, scratch& mine_to_write) noexcept {
        auto& [out, samples] = mine_to_write;
        while (std::optional<std::uint64_t> const epoch = wait_for_work(stop)) {
            std::optional<staging_ring::fill_lease> lease;
            std::exception_ptr failure;
            try {
                lease = memory_->ring().acquire(stop);
            } catch (...) { failure = std::current_exception(); }
            std::optional<claim> const mine = lease || failure ? next_claim(*epoch) : std::nullopt;
            if (!mine) {  // somebody else took the last one, the epoch is over, or the loader is
                lease.reset();
                memory_->uses_of_ring().drop_brief();
                if (failure) report_failure_of([&] { std::rethrow_exception(failure); });
                continue;
            }
            try {
                if (!failure) {
                    device_scope const here{memory_->where()};  // for a program's source and sampler
                    draw(*mine, samples);
                    fill(*lease, samples, out);
                }
            } catch (...) { failure = std::current_exception(); }
            publish(*mine, std::move(lease), samples, std::move(failure));
        }
    }

    struct claim {
        std::uint64_t generation;
        std::uint64_t batch;
        std::uint64_t epoch;
        batch_deal::piece at;
    };

    [[nodiscard]] bool has_work() const noexcept { return running_ && claimed_ < claim_end_; }

    // The generation that has work, with a brief use of the ring, until a batch is claimed or none is left.
    [[nodiscard]] std::optional<std::uint64_t> wait_for_work(std::stop_token const& stop) {
        std::unique_lock lock{guard_};
        if (!work_.wait(lock, stop, [&] { return has_work(); }) || stop.stop_requested()) return std::nullopt;
        memory_->uses_of_ring().add_brief();
        return generation_;
    }

    // The next batch in line and its samples, which depend on nothing but its place in the epoch. The use of
    // the ring lasts then until it is published: to read takes as long as it takes. Nothing when that generation is
    // over: what the worker met in it, a failure perhaps, is no other epoch's.
    [[nodiscard]] std::optional<claim> next_claim(std::uint64_t generation) {
        std::scoped_lock const lock{guard_};
        if (generation != generation_ || !has_work()) return std::nullopt;
        memory_->uses_of_ring().keep_brief();
        std::uint64_t const batch = claimed_++;
        return claim{generation_, batch, epoch_, deal_.of(batch)};
    }
    void draw(claim const& what, std::vector<std::uint64_t>& samples) const {
        loader_shape const& shape = memory_->shape();
        samples.resize(static_cast<std::size_t>(what.at.count));  // there is room
        std::span<std::uint64_t> rest = samples;
        for (std::uint64_t first = what.at.first; !rest.empty();) {  // in a padded batch, around the end
            first %= shape.positions;
            std::size_t const here =
                static_cast<std::size_t>(std::min<std::uint64_t>(rest.size(), shape.positions - first));
            shape.order.draw(shape.samples, what.epoch, first, rest.first(here));
            rest = rest.subspan(here);
            first += here;
        }
    }

    void fill(staging_ring::fill_lease const& lease, std::span<std::uint64_t const> samples,
              std::vector<std::span<std::byte>>& out) const {
        for (std::size_t k = 0; k != fields().size(); ++k)
            out[k] = lease.bytes().subspan(plan().offsets[k], samples.size() * fields()[k].bytes());
        from_.gather(samples, out);
    }

    void publish(claim mine, std::optional<staging_ring::fill_lease> lease,
                 std::vector<std::uint64_t>& samples, std::exception_ptr failure) noexcept {
        {
            std::scoped_lock const lock{guard_};
            if (mine.generation == generation_) {
                pending& place = pending_of(mine.batch);
                if (failure)
                    claim_end_ = std::min(claim_end_, mine.batch);  // what comes after it is of no use
                place.filled = std::move(lease);
                place.failure = std::move(failure);
                std::swap(place.samples, samples);
                copy_what_can_be();
            }
            lease.reset();  // nobody waits for it any more
            memory_->uses_of_ring().drop();
        }
        arrived_.notify_all();
    }

    // --- copies, in order, under the lock ---

    void copy_what_can_be() noexcept {
        while (running_ && !failure_ && copied_ < claimed_) {
            pending& next = pending_of(copied_);
            if (next.failure) {
                failure_ = std::exchange(next.failure, nullptr);
                next.filled.reset();
                return;
            }
            if (!next.filled || free_slots_.empty()) return;
            try {
                copy(next, free_slots_.back());
            } catch (...) {
                failure_ = std::current_exception();
                return;
            }
            ready_.push_back(free_slots_.back());
            free_slots_.pop_back();
            ++copied_;
        }
    }

    void copy(pending& from, std::uint32_t to) {
        device_slot& slot = memory_->slot(to);
        staging_ring::fill_lease lease = *std::exchange(from.filled, std::nullopt);
        device_scope const here{memory_->where()};
        slot.order_readers_before(memory_->copies());
        std::size_t const bytes = plan().used_bytes(fields(), from.samples.size());
        slot.arriving = std::move(lease).submit(memory_->copies(), {slot.at, plan().slot_bytes}, bytes);
        std::swap(slot.samples, from.samples);
    }

    pid_t const process_ = ::getpid();
    any_source from_;
    loader_memory memory_;

    mutable std::mutex guard_;  // for all below
    std::condition_variable_any work_;
    std::condition_variable arrived_;
    bool running_ = false;
    std::uint64_t generation_ = 0;
    std::uint64_t epoch_ = 0;
    batch_deal deal_;
    std::uint64_t claimed_ = 0;    // batches given to workers
    std::uint64_t claim_end_ = 0;  // where claiming ends: with the epoch, or before a failure
    std::uint64_t copied_ = 0;     // batches whose copy is enqueued
    std::uint64_t delivered_ = 0;  // batches given to the consumer
    std::vector<pending> pending_;
    std::vector<std::uint32_t> free_slots_;
    std::vector<std::uint32_t> ready_;
    std::exception_ptr failure_;

    std::vector<std::jthread> workers_;  // last: they use everything above
};

}  // namespace cuota::inline v0::detail
