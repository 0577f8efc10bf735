// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Gradients summed over ranks, bucket by bucket, while the backward run goes on.
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
#include <cuota/core/poll_pause.hpp>
#include <cuota/core/process.hpp>
#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/drain.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/stream.hpp>
#include <cuota/training/agreement.hpp>
#include <cuota/training/bucket_layout.hpp>

namespace cuota::inline v0 {

/// How floats are summed over ranks. mpi_sums and nccl_sums are such.
///
/// on_device: whether it works on device memory, in order of a stream, or on host memory.
/// begin(elements, scratch, owner, s): begins to replace the elements by their sums over all ranks, all of which begin the
///          same sums in the same order; returns its number, from 0. The memory is the link's until the sum is over, and
///          kept by `owner` even beyond: if a rank is gone, for ever. On the device: what stands in s by now comes before.
/// is_over(number): lets sums go on, and tells whether that one is over; on the device, whether what is enqueued on s from
///          now on comes after it. Sums on the device are begun one by one: only when the last one is over.
/// check(): throws when a rank is gone or a sum is late; on the device, also one that is enqueued and does not end.
/// scratch(count): floats that a sum of so many needs beside them.
/// What any of them throws is the end of the link.
template <class L>
concept reduce_link = std::movable<L> &&
    requires(L& link, std::span<float> floats, std::shared_ptr<void const> owner, stream_ref s,
             std::uint64_t number) {
    { L::on_device } -> std::convertible_to<bool>;
    { link.ranks() } -> std::convertible_to<std::size_t>;
    { link.scratch(floats.size()) } -> std::same_as<std::size_t>;
    { link.begin(floats, floats, owner, s) } -> std::same_as<std::uint64_t>;
    { link.is_over(number) } -> std::same_as<bool>;
    link.check();
};

/// How gradients are packed for their sums: gradient_buckets.
struct bucket_options {
    std::size_t bytes = std::size_t{4}
                        << 20U;  ///< of a bucket: some, so that the first is soon full; not too few
    std::size_t slots = 2;       ///< buckets that are under way together
    /// What the slots stand in: pinned for a link of the host, a device's for one of the device; with a budget it is
    /// budgeted<pinned_memory>{budget}.
    any_resource memory = pinned_memory{};
    tag name = "gradient buckets";  ///< for messages and accounts
};

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// The gradients of a step, replaced by their sums over all ranks.
///
/// They are packed in buckets, in the order in which they are declared: best that of the backward run. A bucket that is
/// full is copied on a stream of its own, summed, and put back, while the layers before it go on. What that takes of memory
/// is fixed: `slots` buckets, charged when it is made, whatever the size of the network.
///
///     gradient_buckets sums{mpi_sums{group}, {out.size(), in.size()}, {.memory = budgeted<pinned_memory>{pinned}}};
///     micro_batch const part = part_of_ranks(ranks, batch.size());
///     sums.reduce(ranks, [&] {
///         out_layer.backward(part.weight<float>());  // of the mean over this rank's samples
///         sums.ready(0, out);
///         in_layer.backward();
///         sums.ready(1, in);
///     });
///     optimiser_step(stream);                        // waits by itself: the gradients are leased until the sums are there
///
/// The sums do not depend on the order in which gradients become ready, nor on who comes when; whether all ranks have the
/// same bits is the link's to promise (mpi_sums does).
/// When the backward run is refused memory on one rank, that rank gives zeros for what is left, so that nobody is left in
/// a sum; then all agree on how it went, and all throw. The gradients are of no use then; the next step begins anew.
/// Threads: one at a time, as the link and the agreement.
/// Cost:    one question a step, beside the sums; a copy to a slot and back for each gradient.
/// Throws:  as each says. After a failure of the link, and in a forked child, every use is a misuse.
/// Example: examples/train_ranks.cpp
template <reduce_link Link>
class gradient_buckets {
    using staging = std::conditional_t<Link::on_device, device_buffer<float>, pinned_buffer<float>>;

public:
    /// `counts` are the gradients' elements, in order, the same on every rank. Throws: misuse for buckets without room for
    /// an element, and for no slots; budget_exceeded, out_of_memory, cuda_error: on this rank alone, so make it
    /// in all_or_none.
    gradient_buckets(Link link, std::vector<std::size_t> counts, bucket_options options = {},
                     place where = place::here())
        : link_{std::move(link)},
          layout_{std::move(counts), options.bytes / sizeof(float), where},
          given_(layout_.gradients()) {
        if (options.slots == 0) detail::throw_misuse(where, "gradient_buckets: no slots to sum in");
        std::size_t const count = layout_.size() == 0 ? 0 : layout_.elements(0);
        for (std::size_t i = 0; i != std::min(options.slots, layout_.size()); ++i) {
            slots_.push_back(make_slot(count, options, where));
            free_.push_back(i);
        }
    }
    gradient_buckets(gradient_buckets const&) = delete;
    gradient_buckets& operator=(gradient_buckets const&) = delete;
    ~gradient_buckets() { rt::drain(comm_); }  // no copy goes on to or from the slots

    /// In a step; what comes last may fill one in part.
    [[nodiscard]] std::size_t buckets() const noexcept { return layout_.size(); }
    /// Of all slots.
    [[nodiscard]] std::size_t bytes() const noexcept {
        std::size_t sum = 0;
        for (slot const& s : slots_) sum += s.memory->bytes();
        return sum;
    }

    /// Runs `backward`, which says of each gradient once that it is ready; at return all of them are sums.
    /// Throws: what `backward` throws, a refusal on all ranks as all_or_none does; misuse when a gradient is left out, and
    /// after the link has failed; rank_gone; what the link throws.
    template <std::invocable Backward>
    void reduce(agreement& ranks, Backward backward, place where = place::here()) {
        constexpr auto what = "the gradients of a step";
        if (is_broken_) detail::throw_misuse(where, "gradient_buckets: used after its link had failed");
        if (detail::process_number::is_cuda_of_parent()) detail::throw_forked();
        std::exception_ptr why;
        auto const run_here = [&] {
            try {
                run(backward, where);
                return detail::outcome::went_well;
            } catch (rank_gone const&) { throw; } catch (...) {
                if (!is_broken_) throw;
                why = std::current_exception();  // the agreement may know who is gone
                return detail::outcome::failed;
            }
        };
        try {
            auto const went = detail::run_agreed(&ranks, what, run_here, where);
            if (went.agreed == detail::outcome::refused) detail::throw_refusal(went, what, where);
        } catch (rank_gone const& gone) {
            if (why && gone.rank() == ranks.rank()) std::rethrow_exception(why);
            throw;
        }
    }

    /// Within reduce: all of this gradient is enqueued on its home stream, and nobody touches it until reduce returns.
    /// Throws: misuse for one that there is not, that is ready already, or has another count; what the link throws.
    void ready(std::size_t gradient, device_buffer<float>& of, place where = place::here()) {
        if (!is_in_step_)
            detail::throw_misuse(where, "gradient_buckets: a gradient is ready outside of reduce");
        if (gradient >= given_.size() || given_[gradient])
            detail::throw_misuse(where, "gradient_buckets: gradient {}{}",
                                 {detail::as_count(gradient),
                                  gradient >= given_.size() ? " is not one of " + count_text(given_.size())
                                                            : " is ready twice"});
        if (of.size() != layout_.count(gradient))
            detail::throw_misuse(where,
                                 "gradient_buckets: gradient {} has {} elements, and was declared with {}",
                                 {detail::as_count(gradient), detail::as_count(of.size()),
                                  detail::as_count(layout_.count(gradient))});
        given_[gradient].emplace(of.write(comm_, where));
        progress();
    }
    /// Lets what is under way go on, without waiting, as ready does: for a backward run that has long to go between two.
    /// Throws: what the link throws.
    void progress() {
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
    struct flight {
        std::size_t bucket = 0;
        std::size_t slot = 0;
        stage at = stage::copying;
        std::uint64_t number = 0;  // of the sum
    };

    [[nodiscard]] slot make_slot(std::size_t count, bucket_options const& options, place where) {
        slot made;
        std::size_t const all = count + link_.scratch(count);
        if constexpr (Link::on_device) {
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
    void run(Backward& backward, place where) {
        begin();
        try {
            backward();
            auto const left_out = std::ranges::find_if(given_, [](auto const& g) { return !g; });
            if (left_out != given_.end())
                detail::throw_misuse(where, "gradient_buckets: gradient {} of {} was left out",
                                     {detail::as_count(std::size_t(left_out - given_.begin())),
                                      detail::as_count(given_.size())});
            finish();
        } catch (...) {
            give_nothing_more();
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
    // The others sum what is left with zeros of this rank, and learn afterwards what they are worth.
    // In a forked child, whose parent is the rank, nothing is summed.
    void give_nothing_more() noexcept {
        if (is_broken_ || detail::process_number::is_cuda_of_parent()) return;
        gives_nothing_ = true;
        // A copy whose mark has failed may still go on, and the link and zeros come to where it writes. On the device all
        // has its order, and what stands in it may be a sum that never ends.
        if constexpr (!Link::on_device) rt::drain(comm_);
        try {
            finish();
        } catch (...) { is_broken_ = true; }  // what went wrong first says more
    }
    void finish() {
        poll_until([this] { return next_ == layout_.size() && std::ranges::all_of(flights_, is_back); });
        if constexpr (Link::on_device) {
            event const all{comm_};
            poll_until([&] { return all.is_done(); });
        }
    }
    [[nodiscard]] static bool is_back(flight const& f) noexcept { return f.at >= stage::returning; }
    template <class Done>
    void poll_until(Done is_done) {
        for (detail::poll_pause pause;; pause()) {
            while (go_on()) pause = {};
            if (is_done()) return;
            on_link([this] { link_.check(); });
        }
    }

    // What the link throws is its end.
    template <class Call>
    auto on_link(Call call) {
        try {
            return call();
        } catch (...) {
            is_broken_ = true;
            throw;
        }
    }

    /// As far as it goes without waiting; true when something went on.
    bool go_on() {
        bool has_moved = false;
        bool may_begin = true;  // in the order of buckets, on all ranks
        for (flight& f : flights_) {
            stage const before = f.at;
            step(f, may_begin);
            has_moved = has_moved || f.at != before;
            may_begin = may_begin && f.at != stage::copying;
        }
        while (!flights_.empty() && flights_.front().at == stage::over) {
            free_.push_back(flights_.front().slot);
            flights_.pop_front();
        }
        if (next_ == layout_.size() || free_.empty() || !is_full(next_) || (Link::on_device && is_summing()))
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
        return std::ranges::any_of(flights_, [](flight const& f) { return f.at == stage::summing; });
    }

    void launch() {
        flights_.push_back({next_, free_.back()});
        ++next_;
        free_.pop_back();
        flight& f = flights_.back();
        pack(f);
        if constexpr (Link::on_device) begin_sum(f);
        else if (!gives_nothing_) mark(slots_[f.slot]);
    }
    void step(flight& f, bool may_begin) {
        if (f.at == stage::copying && may_begin && is_past(f)) begin_sum(f);
        else if (f.at == stage::summing && on_link([&] { return link_.is_over(f.number); })) put_back(f);
        else if (f.at == stage::returning && is_past(f)) f.at = stage::over;
    }
    // A device that has failed copies nothing any more; of another all copies were waited for.
    [[nodiscard]] bool is_past(flight const& f) const {
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
    void begin_sum(flight& f) {
        slot const& s = slots_[f.slot];
        std::size_t const count = layout_.elements(f.bucket);
        f.number =
            on_link([&] { return link_.begin(s.all.first(count), s.all.subspan(count), s.memory, comm_); });
        f.at = stage::summing;
    }

    void pack(flight const& f) {
        std::span<float> const to = slots_[f.slot].all;
        if (gives_nothing_) {
            std::size_t const bytes = layout_.elements(f.bucket) * sizeof(float);
            if constexpr (Link::on_device) rt::fill_bytes(to.data(), 0, bytes, comm_);
            else std::fill_n(to.data(), layout_.elements(f.bucket), 0.0f);
            return;
        }
        for (detail::bucket_piece const& p : layout_.pieces(f.bucket)) {
            float const* const from = elements(p.gradient) + p.from;
            if constexpr (Link::on_device)
                rt::copy_on_device(to.data() + p.at, from, p.count * sizeof(float), comm_);
            else rt::copy_to_host(to.data() + p.at, from, p.count * sizeof(float), comm_);
        }
    }
    void put_back(flight& f) {
        f.at = Link::on_device || gives_nothing_ ? stage::over : stage::returning;
        if (gives_nothing_) return;
        std::span<float const> const from = slots_[f.slot].all;
        for (detail::bucket_piece const& p : layout_.pieces(f.bucket)) {
            float* const to = elements(p.gradient) + p.from;
            if constexpr (Link::on_device)
                rt::copy_on_device(to, from.data() + p.at, p.count * sizeof(float), comm_);
            else rt::copy_to_device(to, from.data() + p.at, p.count * sizeof(float), comm_);
        }
        if constexpr (!Link::on_device) mark(slots_[f.slot]);
    }
    [[nodiscard]] float* elements(std::size_t gradient) const { return given_[gradient]->span().data(); }

    stream comm_{};  // the copies' own
    Link link_;
    detail::bucket_layout layout_;
    std::vector<slot> slots_{};
    std::vector<std::size_t> free_{};
    std::deque<flight> flights_{};                    // in the order of buckets
    std::vector<std::optional<lease<float>>> given_;  // of each gradient
    std::size_t next_ = 0;                            // the bucket that is launched next
    bool is_in_step_ = false;
    bool gives_nothing_ = false;
    bool is_broken_ = false;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
