// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The machinery of batch_loader: workers fill pinned slots, one stream copies them in order, batches hold the result.
#pragma once

#include <algorithm>
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

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/data/any_source.hpp>
#include <cuota/data/loader_plan.hpp>
#include <cuota/data/permutation.hpp>
#include <cuota/data/source.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

/// A batch's place on the device, and what must be over before it is overwritten.
struct device_slot {
    struct reader {
        stream_share stream;
        event last;    // recorded when a batch in this slot ended that this stream had used
        bool pending;  // the copy stream has not been told to wait for it yet
    };
    std::byte* at = nullptr;
    std::optional<staging_ring::in_flight> arriving{};
    std::vector<std::uint64_t> samples{};
    std::vector<stream_share> used{};  // by the batch that is here now; its place is kept for the next
    std::vector<rt::borrowed_range> borrowed{};  // of the same batch
    std::vector<reader> readers{};
};

/// One loader's threads, slots and order of batches.
///
/// Workers claim batches in order, each holding a pinned slot before it claims one, so the next batch in line always
/// has a slot and the line cannot lock up. Whoever makes progress possible (a worker that filled, a batch that ended)
/// enqueues the copies that can be enqueued, in order, under the lock; there is no thread that only hands on.
/// A failure takes the place of the batch it happened to.
class loader_engine final : public ref_counted {
public:
    loader_engine(any_source from, loader_options const& options, place where)
        : from_{std::move(from)},
          options_{options},
          name_{from_.name()},
          fields_{from_.fields().begin(), from_.fields().end()},
          plan_{plan_for(name_, from_.size(), fields_, options)},
          device_{cuota::device::current()},
          ring_{make_ring(where)},
          slab_source_{make_slab_source()},
          copies_{stream_priority::high} {
        take_slab(where);
        try {
            prepare_slots();
            for (std::size_t i = 0; i != options_.workers; ++i)
                workers_.emplace_back([this, mine = make_scratch()](std::stop_token stop) mutable {
                    work(std::move(stop), mine);
                });
        } catch (...) {
            shut_down();
            give_slab_back();
            throw;
        }
    }

    ~loader_engine() {
        shut_down();
        pending_.clear();  // their slots go back to the ring
        give_slab_back();
    }

    /// Stops and joins the workers; a read under way is the longest that takes. Batches stay valid.
    void shut_down() noexcept {
        for (std::jthread& worker : workers_) worker.request_stop();
        workers_.clear();
    }

    // --- the consumer ---

    void start_epoch(std::uint64_t epoch) {
        std::scoped_lock const lock{guard_};
        if (running_) throw misuse{"an epoch of " + name_ + " was started while another is still going on"};
        running_ = true;
        ++generation_;
        order_.reset();
        if (options_.seed) order_.emplace(from_.size(), epoch_key(*options_.seed, epoch));
        claimed_ = copied_ = delivered_ = 0;
        claim_end_ = plan_.batches;
        failure_ = nullptr;
        for (pending& p : pending_) p.failure = nullptr;
        work_.notify_all();
    }

    /// What is being read belongs to nobody now; slots that were filled or copied come home. Waits for nothing.
    void end_epoch() noexcept {
        std::scoped_lock const lock{guard_};
        running_ = false;
        ++generation_;
        for (pending& p : pending_) p.filled.reset();
        free_slots_.insert(free_slots_.end(), ready_.begin(), ready_.end());
        ready_.clear();
    }

    struct delivery {
        std::uint32_t slot;
        std::uint64_t index;  // of the batch in its epoch
    };

    /// The next batch of the epoch, or nothing at its end. Waits on the host until its copy is enqueued.
    /// Throws: what its worker or its copy met; misuse when the caller holds every device slot.
    [[nodiscard]] std::optional<delivery> next() {
        std::unique_lock lock{guard_};
        if (delivered_ == plan_.batches) return std::nullopt;
        arrived_.wait(lock, [&] { return !ready_.empty() || failure_here() || all_slots_held(); });
        if (!ready_.empty()) {
            delivery const next{ready_.front(), delivered_++};
            ready_.erase(ready_.begin());
            return next;
        }
        if (failure_here()) std::rethrow_exception(failure_);
        throw misuse{
            "the next batch of " + name_ + " was asked for while all " + std::to_string(plan_.device_slots) +
            " device slots are held by batches that still live: end one first, or ask for more device_slots"};
    }

    /// Work on s may use the batch in that slot from here on, once its copy is over. Throws: cuda_error.
    void use(std::uint32_t index, stream_ref s) {
        device_slot& slot = slots_[index];
        for (stream_share const& used : slot.used)
            if (stream_ref{used} == s) return;
        slot.used.emplace_back(s);
        try {
            slot.borrowed.reserve(slot.used.size());
            slot.arriving->order_before(s);
        } catch (...) {
            slot.used.pop_back();
            throw;
        }
        slot.borrowed.emplace_back(s.get(), slot.at, plan_.slot_bytes, false);
    }

    /// A batch ended: its slot may be overwritten once what the streams did with it is over.
    void release(std::uint32_t index) noexcept {
        device_slot& slot = slots_[index];
        slot.borrowed.clear();
        for (stream_share const& s : slot.used)
            if (!report_failure_of([&] { remember(slot, s); })) rt::drain(s);
        slot.used.clear();
        {
            std::scoped_lock const lock{guard_};
            free_slots_.push_back(index);
            copy_what_can_be();
        }
        arrived_.notify_all();
    }

    [[nodiscard]] device_slot const& slot(std::uint32_t index) const noexcept { return slots_[index]; }
    [[nodiscard]] std::span<field const> fields() const noexcept { return fields_; }
    [[nodiscard]] loader_plan const& plan() const noexcept { return plan_; }
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] std::uint64_t size() const { return from_.size(); }

private:
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
    [[nodiscard]] bool failure_here() const noexcept { return failure_ && delivered_ == copied_; }
    [[nodiscard]] bool all_slots_held() const noexcept { return ready_.empty() && free_slots_.empty(); }

    // --- construction ---

    template <class Take>
    auto with_largest_batch(Take take) {
        try {
            return take();
        } catch (budget_exceeded const& refused) {
            refusal facts = refused.facts();
            auto const room = [](std::optional<budget> const& b) { return b ? b->room() : unlimited; };
            // This loader's own pinned slots may be charged by now; they would be smaller, too.
            std::size_t const fits =
                largest_batch(name_, from_.size(), fields_, options_, room(options_.device),
                              checked_add(room(options_.pinned), mine_pinned_).value_or(unlimited));
            facts.would_fit = fits * facts.request.unit_bytes;
            throw budget_exceeded{std::move(facts)};
        }
    }

    [[nodiscard]] label sample_label(std::size_t slots, place where) const {
        std::size_t const bytes = checked_mul(plan_.sample_bytes, slots).value_or(unlimited);
        return {options_.name, where, "samples in a batch", bytes == 0 ? 1 : bytes};
    }

    [[nodiscard]] staging_ring make_ring(place where) {
        any_resource memory = options_.pinned ? any_resource{budgeted<pinned_memory>{*options_.pinned}}
                                              : any_resource{pinned_memory{}};
        staging_ring ring = with_largest_batch([&] {
            return staging_ring{plan_.host_slots, plan_.slot_bytes, std::move(memory),
                                sample_label(plan_.host_slots, where)};
        });
        if (options_.pinned) mine_pinned_ = plan_.pinned_bytes;
        return ring;
    }

    [[nodiscard]] any_resource make_slab_source() const {
        if (options_.device) return budgeted<device_memory>{*options_.device, device_memory{device_}};
        return device_memory{device_};
    }

    void take_slab(place where) {
        slab_ = with_largest_batch([&] {
            return static_cast<std::byte*>(slab_source_.allocate_sync(
                plan_.device_bytes, default_alignment, sample_label(plan_.device_slots, where)));
        });
    }
    void give_slab_back() noexcept {
        rt::drain(copies_);
        for (device_slot& slot : slots_)
            for (device_slot::reader& r : slot.readers) report_failure_of([&] { r.last.synchronize(); });
        slots_.clear();
        slab_source_.deallocate_sync(slab_, plan_.device_bytes);
    }

    void prepare_slots() {
        slots_.resize(plan_.device_slots);
        free_slots_.reserve(plan_.device_slots);
        ready_.reserve(plan_.device_slots);
        for (std::uint32_t i = 0; i != plan_.device_slots; ++i) {
            slots_[i].at = slab_ + i * plan_.slot_bytes;
            slots_[i].samples.reserve(plan_.batch);
            free_slots_.push_back(i);
        }
        pending_.resize(plan_.host_slots + options_.workers);
        for (pending& p : pending_) p.samples.reserve(plan_.batch);
    }

    // --- workers ---

    // What a worker writes to besides its slot; made where a failure to make it can be thrown.
    struct scratch {
        std::vector<std::span<std::byte>> out;
        std::vector<std::uint64_t> samples;
    };
    [[nodiscard]] scratch make_scratch() const {
        scratch made;
        made.out.resize(fields_.size());
        made.samples.resize(plan_.batch);  // its size, not only room: a copy has it, too
        return made;
    }

    // Every way through here publishes exactly one result for the batch that was claimed.
    void work(std::stop_token stop, scratch& mine_to_write) noexcept {
        auto& [out, samples] = mine_to_write;
        while (wait_for_work(stop)) {
            std::optional<staging_ring::fill_lease> lease;
            std::exception_ptr failure;
            try {
                lease = ring_.acquire(stop);
                if (!lease) return;
            } catch (...) { failure = std::current_exception(); }
            std::optional<claim> const mine = next_claim(samples);
            if (!mine) {  // somebody else took the last one, or the epoch is over
                if (failure) report_failure_of([&] { std::rethrow_exception(failure); });
                continue;
            }
            try {
                if (!failure) fill(*lease, samples, out);
            } catch (...) { failure = std::current_exception(); }
            publish(*mine, std::move(lease), samples, std::move(failure));
        }
    }

    struct claim {
        std::uint64_t generation;
        std::uint64_t batch;
    };

    [[nodiscard]] bool has_work() const noexcept { return running_ && claimed_ < claim_end_; }

    [[nodiscard]] bool wait_for_work(std::stop_token const& stop) {
        std::unique_lock lock{guard_};
        return work_.wait(lock, stop, [&] { return has_work(); });
    }

    // The next batch in line and its samples: position p of the epoch holds sample order(p), whoever asks.
    [[nodiscard]] std::optional<claim> next_claim(std::vector<std::uint64_t>& samples) {
        std::scoped_lock const lock{guard_};
        if (!has_work()) return std::nullopt;
        claim const mine{generation_, claimed_++};
        std::uint64_t const first = mine.batch * options_.batch;
        std::uint64_t const end = std::min<std::uint64_t>(first + options_.batch, from_.size());
        samples.clear();
        for (std::uint64_t p = first; p != end; ++p) samples.push_back(order_ ? (*order_)(p) : p);
        return mine;
    }

    void fill(staging_ring::fill_lease const& lease, std::span<std::uint64_t const> samples,
              std::vector<std::span<std::byte>>& out) const {
        for (std::size_t k = 0; k != fields_.size(); ++k)
            out[k] = lease.bytes().subspan(plan_.offsets[k], samples.size() * fields_[k].bytes());
        from_.gather(samples, out);
    }

    void publish(claim mine, std::optional<staging_ring::fill_lease> lease,
                 std::vector<std::uint64_t>& samples, std::exception_ptr failure) noexcept {
        {
            std::scoped_lock const lock{guard_};
            if (mine.generation != generation_) return;  // nobody waits for it any more
            pending& place = pending_of(mine.batch);
            if (failure) claim_end_ = std::min(claim_end_, mine.batch);  // what comes after it is of no use
            place.filled = std::move(lease);
            place.failure = std::move(failure);
            std::swap(place.samples, samples);
            copy_what_can_be();
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
        device_slot& slot = slots_[to];
        staging_ring::fill_lease lease = *std::exchange(from.filled, std::nullopt);
        device_scope const here{device_};
        for (device_slot::reader& r : slot.readers)
            if (r.pending) copies_.wait(r.last);
        for (device_slot::reader& r : slot.readers) r.pending = false;
        std::size_t const bytes = plan_.used_bytes(fields_, from.samples.size());
        slot.arriving = std::move(lease).submit(copies_, {slot.at, plan_.slot_bytes}, bytes);
        std::swap(slot.samples, from.samples);
    }

    // Marks where a stream is with a slot; one event a stream, made once.
    static void remember(device_slot& slot, stream_share const& s) {
        std::erase_if(slot.readers,
                      [](device_slot::reader const& r) { return !r.pending && r.stream.is_last(); });
        for (device_slot::reader& r : slot.readers) {
            if (!(stream_ref{r.stream} == stream_ref{s})) continue;
            r.last.record(s);
            r.pending = true;
            return;
        }
        slot.readers.push_back({s, event{s}, true});
    }

    any_source from_;
    loader_options const options_;
    std::string const name_;
    std::vector<field> const fields_;
    loader_plan const plan_;
    cuota::device const device_;
    std::size_t mine_pinned_ = 0;
    staging_ring ring_;
    any_resource slab_source_;
    stream copies_;
    std::byte* slab_ = nullptr;
    std::vector<device_slot> slots_;

    std::mutex guard_;  // for all below
    std::condition_variable_any work_;
    std::condition_variable arrived_;
    bool running_ = false;
    std::uint64_t generation_ = 0;
    std::optional<keyed_permutation> order_;
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
