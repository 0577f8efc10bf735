// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Gradients summed over ranks during the backward run.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/threads/backoff.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/detail/bucket_layout.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0 {

/// All-reduce backend for floats, such as mpi_all_reduce and nccl_all_reduce.
///
/// on_device        true for device memory, false for host memory
/// start(elements, scratch, owner, s)  starts an in-place sum over all ranks and returns its number, from 0. All ranks start the
///          same sums in the same order. The backend keeps `owner` until the sum has finished, or forever if a rank is lost. On the
///          device, the sum is ordered after earlier work on s; call start again only when the previous sum has finished.
/// test(number)     makes progress; returns true if that sum has finished, or on the device, if later work on s is ordered after it
/// check()          throws if a rank is lost or a sum is late
/// scratch(count)   floats that such a sum needs as `scratch`
///
/// After any of these throws, the backend must not be used again.
template <class B>
concept all_reduce_backend = std::movable<B> &&
    requires(B& backend, std::span<float> floats, std::shared_ptr<void const> owner, stream_ref s,
             std::uint64_t number) {
    { B::on_device } -> std::convertible_to<bool>;
    { backend.ranks() } -> std::convertible_to<std::size_t>;
    { backend.scratch(floats.size()) } -> std::same_as<std::size_t>;
    { backend.start(floats, floats, owner, s) } -> std::same_as<std::uint64_t>;
    { backend.test(number) } -> std::same_as<bool>;
    backend.check();
};

/// Options of gradient_buckets.
struct bucket_options {
    std::size_t bytes = std::size_t{4} << 20U;  ///< small ones fill early, large ones sum faster
    std::size_t slots = 2;                      ///< buckets in flight
    /// Resource of the slots: pinned memory, or device memory for a device backend.
    any_resource memory = pinned_memory{};
    tag name = "gradient buckets";  ///< for messages and accounts
};

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Replaces the gradients of a step by their sums over all ranks.
///
/// Gradients are packed into buckets in declaration order, ideally that of the backward run. A full bucket is copied on a stream of this
/// object, summed and copied back while the backward run continues. Memory: `slots` buckets.
///
///     gradient_buckets sums{mpi_all_reduce{group}, {out.size(), in.size()}, {.memory = budgeted<pinned_memory>{pinned}}};
///     micro_batch const part = local_share(ranks, batch.size());
///     sums.reduce(ranks, [&] {
///         out_layer.backward(part.weight<float>());
///         sums.ready(0, out);
///         in_layer.backward();
///         sums.ready(1, in);
///     });
///     optimizer_step(stream);                        // needs no wait
///
/// The sums do not depend on timing; the backend decides whether all ranks get the same bits.
/// If the backward run fails on one rank, that rank contributes zeros to the remaining buckets; afterwards all ranks throw, and the
/// gradients are invalid.
/// Threads: one at a time.
/// Cost:    one all-gather per step, besides the sums; per gradient a copy to a slot and back.
/// Throws:  see each function; usage_error in a forked child.
/// Example: examples/train_ranks.cpp
template <all_reduce_backend Backend>
class gradient_buckets {
    using staging = std::conditional_t<Backend::on_device, device_buffer<float>, pinned_buffer<float>>;

public:
    /// `counts`: elements of each gradient, the same on every rank. Throws: usage_error for a bucket smaller than one element or no slots;
    /// out_of_memory, cuda_error on this rank alone: construct it within all_or_none.
    gradient_buckets(Backend backend, std::vector<std::size_t> counts, bucket_options options = {},
                     source_location where = source_location::current())
        : backend_{std::move(backend)},
          layout_{std::move(counts), options.bytes / sizeof(float), where},
          given_(layout_.gradients()) {
        if (options.slots == 0)
            detail::throw_usage_error(where, "gradient_buckets: the number of slots must be at least 1");
        std::size_t const count = layout_.size() == 0 ? 0 : layout_.elements(0);
        for (std::size_t i = 0; i != std::min(options.slots, layout_.size()); ++i) {
            slots_.push_back(make_slot(count, options, where));
            free_.push_back(i);
        }
    }
    gradient_buckets(gradient_buckets const&) = delete;
    gradient_buckets& operator=(gradient_buckets const&) = delete;
    ~gradient_buckets() { rt::drain(comm_); }  // waits for copies

    [[nodiscard]] std::size_t buckets() const noexcept { return layout_.size(); }  ///< in a step
    /// Returns the bytes of all slots.
    [[nodiscard]] std::size_t bytes() const noexcept {
        std::size_t sum = 0;
        for (slot const& s : slots_) sum += s.memory->bytes();
        return sum;
    }

    /// Runs `backward`, which calls `ready` once for each gradient. On return, all gradients are sums, in the order of their home streams.
    /// Throws: as all_or_none; usage_error if a gradient was left out or the backend failed before; exceptions of the backend.
    template <std::invocable Backward>
    void reduce(rank_consensus& ranks, Backward backward,
                source_location where = source_location::current()) {
        constexpr auto what = "the gradients of a step";
        check_usable(where);
        if (detail::process_number::is_cuda_of_parent()) detail::throw_forked();
        std::exception_ptr why;
        auto const run_here = [&] {
            try {
                run(backward, where);
                return detail::outcome::went_well;
            } catch (rank_lost_error const&) { throw; } catch (...) {
                if (!is_broken_) throw;
                why = std::current_exception();  // the rank_consensus may name the lost rank
                return detail::outcome::failed;
            }
        };
        try {
            auto const went = detail::run_agreed(&ranks, what, run_here, where);
            if (went.agreed == detail::outcome::refused) detail::throw_refusal(went, what, where);
        } catch (rank_lost_error const& gone) {
            if (why && gone.rank() == ranks.rank()) std::rethrow_exception(why);
            throw;
        }
    }

    /// Within reduce: declares that all work that writes this gradient is enqueued on its home stream. Leases the buffer until reduce
    /// returns. Throws: usage_error for an invalid or repeated index or another count; exceptions of the backend.
    void ready(std::size_t gradient, device_buffer<float>& of,
               source_location where = source_location::current()) {
        if (!is_in_step_)
            detail::throw_usage_error(where, "gradient_buckets: ready() was called outside of reduce()");
        if (gradient >= given_.size() || given_[gradient])
            detail::throw_usage_error(
                where, "gradient_buckets: gradient {}{}",
                {detail::as_count(gradient),
                 gradient >= given_.size()
                     ? " is out of range: the number of gradients is " + count_text(given_.size())
                     : " is ready twice"});
        if (of.size() != layout_.count(gradient))
            detail::throw_usage_error(
                where, "gradient_buckets: gradient {} has {} elements, but was declared with {}",
                {detail::as_count(gradient), detail::as_count(of.size()),
                 detail::as_count(layout_.count(gradient))});
        given_[gradient].emplace(of.write(comm_, where));
        progress(where);
    }
    /// Advances buckets without waiting, as `ready` does, in long pauses between gradients. Throws: exceptions of the backend; usage_error
    /// after one.
    void progress(source_location where = source_location::current()) {
        check_usable(where);
        if (detail::process_number::is_cuda_of_parent()) detail::throw_forked();
        while (go_on()) {}
    }

private:
    struct slot {
        std::shared_ptr<staging> memory{};
        std::span<float> all{};
        std::optional<event> mark{};
    };
    enum class stage { copying, summing, returning, over };
    struct in_flight_bucket {
        std::size_t bucket = 0;
        std::size_t slot = 0;
        stage at = stage::copying;
        std::uint64_t number = 0;
    };

    [[nodiscard]] slot make_slot(std::size_t count, bucket_options const& options, source_location where) {
        slot made;
        std::size_t const all = count + backend_.scratch(count);
        if constexpr (Backend::on_device) {
            made.memory = std::make_shared<staging>(all, comm_, options.memory, no_init, options.name, where);
            auto const lease = made.memory->write(comm_);
            made.all = {lease.span().data(), all};
        } else {
            made.memory = std::make_shared<staging>(all, options.memory, options.name, where);
            made.all = made.memory->write();
        }
        return made;
    }

    template <class Backward>
    void run(Backward& backward, source_location where) {
        begin();
        try {
            backward();
            auto const left_out = std::ranges::find_if(given_, [](auto const& g) { return !g; });
            if (left_out != given_.end())
                detail::throw_usage_error(where, "gradient_buckets: gradient {} of {} was never ready",
                                          {detail::as_count(std::size_t(left_out - given_.begin())),
                                           detail::as_count(given_.size())});
            finish();
        } catch (...) {
            contribute_zeros();
            end();
            throw;
        }
        end();
    }
    void begin() {
        is_in_step_ = true;
        gives_nothing_ = false;
        next_ = 0;
    }
    void end() noexcept {
        for (auto& lease : given_) lease.reset();
        is_in_step_ = false;
    }
    // The other ranks sum zeros from this rank. In a forked child, the rank belongs to the parent.
    void contribute_zeros() noexcept {
        if (is_broken_ || detail::process_number::is_cuda_of_parent()) return;
        gives_nothing_ = true;
        // A copy without a recorded event may still run. On the device, stream order suffices, and a sum may never finish.
        if constexpr (!Backend::on_device) rt::drain(comm_);
        try {
            finish();
        } catch (...) { is_broken_ = true; }  // the first error is more informative
    }
    void finish() {
        poll_until([this] { return next_ == layout_.size() && std::ranges::all_of(flights_, is_back); });
        if constexpr (Backend::on_device) {
            event const all{comm_};
            poll_until([&] { return all.is_done(); });
        }
    }
    [[nodiscard]] static bool is_back(in_flight_bucket const& f) noexcept { return f.at >= stage::returning; }
    template <class Done>
    void poll_until(Done is_done) {
        for (detail::backoff pause;; pause()) {
            while (go_on()) pause = {};
            if (is_done()) return;
            on_backend([this] { backend_.check(); });
        }
    }

    void check_usable(source_location where) const {
        if (is_broken_) detail::throw_usage_error(where, "gradient_buckets: used after its backend failed");
    }

    template <class Call>
    auto on_backend(Call call) {
        try {
            return call();
        } catch (...) {
            is_broken_ = true;
            throw;
        }
    }

    bool go_on() {
        bool has_moved = false;
        bool may_begin = true;  // in the order of buckets, on all ranks
        for (in_flight_bucket& f : flights_) {
            stage const before = f.at;
            step(f, may_begin);
            has_moved = has_moved || f.at != before;
            may_begin = may_begin && f.at != stage::copying;
        }
        while (!flights_.empty() && flights_.front().at == stage::over) {
            free_.push_back(flights_.front().slot);
            flights_.pop_front();
        }
        if (next_ == layout_.size() || free_.empty() || !is_full(next_) ||
            (Backend::on_device && is_summing()))
            return has_moved;
        launch();
        return true;
    }
    [[nodiscard]] bool is_full(std::size_t bucket) const {
        return gives_nothing_ || std::ranges::all_of(layout_.pieces(bucket), [this](auto const& piece) {
                   return given_[piece.gradient].has_value();
               });
    }
    [[nodiscard]] bool is_summing() const {
        return std::ranges::any_of(flights_,
                                   [](in_flight_bucket const& f) { return f.at == stage::summing; });
    }

    void launch() {
        flights_.push_back({next_, free_.back()});
        ++next_;
        free_.pop_back();
        in_flight_bucket& f = flights_.back();
        pack(f);
        if constexpr (Backend::on_device) begin_sum(f);
        else if (!gives_nothing_) mark(slots_[f.slot]);
    }
    void step(in_flight_bucket& f, bool may_begin) {
        if (f.at == stage::copying && may_begin && is_past(f)) begin_sum(f);
        else if (f.at == stage::summing && on_backend([&] { return backend_.test(f.number); })) put_back(f);
        else if (f.at == stage::returning && is_past(f)) f.at = stage::over;
    }
    // A failed device runs no more copies; otherwise contribute_zeros has waited for them.
    [[nodiscard]] bool is_past(in_flight_bucket const& f) const {
        auto const& mark = slots_[f.slot].mark;
        if (!mark) return true;
        try {
            return mark->is_done();
        } catch (...) {
            if (!gives_nothing_) throw;
            return true;
        }
    }
    void mark(slot& s) {
        if (s.mark) s.mark->record(comm_);
        else s.mark.emplace(comm_);
    }
    void begin_sum(in_flight_bucket& f) {
        slot const& s = slots_[f.slot];
        std::size_t const count = layout_.elements(f.bucket);
        f.number = on_backend(
            [&] { return backend_.start(s.all.first(count), s.all.subspan(count), s.memory, comm_); });
        f.at = stage::summing;
    }

    void pack(in_flight_bucket const& f) {
        std::span<float> const to = slots_[f.slot].all;
        if (gives_nothing_) {
            std::size_t const bytes = layout_.elements(f.bucket) * sizeof(float);
            if constexpr (Backend::on_device) rt::fill_bytes(to.data(), 0, bytes, comm_);
            else std::fill_n(to.data(), layout_.elements(f.bucket), 0.0f);
            return;
        }
        for (detail::bucket_piece const& p : layout_.pieces(f.bucket)) {
            float const* const from = elements(p.gradient) + p.from;
            if constexpr (Backend::on_device)
                rt::copy_on_device(to.data() + p.at, from, p.count * sizeof(float), comm_);
            else rt::copy_to_host(to.data() + p.at, from, p.count * sizeof(float), comm_);
        }
    }
    void put_back(in_flight_bucket& f) {
        f.at = Backend::on_device || gives_nothing_ ? stage::over : stage::returning;
        if (gives_nothing_) return;
        std::span<float const> const from = slots_[f.slot].all;
        for (detail::bucket_piece const& p : layout_.pieces(f.bucket)) {
            float* const to = elements(p.gradient) + p.from;
            if constexpr (Backend::on_device)
                rt::copy_on_device(to, from.data() + p.at, p.count * sizeof(float), comm_);
            else rt::copy_to_device(to, from.data() + p.at, p.count * sizeof(float), comm_);
        }
        if constexpr (!Backend::on_device) mark(slots_[f.slot]);
    }
    [[nodiscard]] float* elements(std::size_t gradient) const { return given_[gradient]->span().data(); }

    stream comm_{};
    Backend backend_;
    detail::bucket_layout layout_;
    std::vector<slot> slots_{};
    std::vector<std::size_t> free_{};
    std::deque<in_flight_bucket> flights_{};  // in order
    std::vector<std::optional<lease<float>>> given_;
    std::size_t next_ = 0;  // to launch next
    bool is_in_step_ = false;
    bool gives_nothing_ = false;
    bool is_broken_ = false;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
