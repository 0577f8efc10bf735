// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A resource for finding who writes beyond a block: fences around each, and bytes that show.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/guard/accounted.hpp>
#include <cuota/guard/fence_keeper.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

template <resource Upstream>
class fenced_state final : public ref_counted {
public:
    fenced_state(Upstream upstream, fence_options wanted, place where)
        : upstream_{std::move(upstream)}, keeper_{wanted, upstream_.kind() != memory_kind::device, where} {}

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (!is_power_of_two(alignment)) refuse_alignment(alignment, default_alignment, who.where);
        if (bytes == 0) return order.take(upstream_, bytes, alignment, who);
        keeper_.report_known();
        if (order.stream() && order.stream()->is_capturing())
            throw_misuse(who.where, "{}: fences cannot be put up in a capture", {keeper_.live().title()});
        tracker::reservation room = keeper_.live().reserve(who.where);
        fence_keeper::lease f = keeper_.acquire(bytes, alignment, who);
        void* const base = take(order, *f, who);
        if (!base) return nullptr;
        try {
            keeper_.put_up(*f, order, base);
        } catch (...) {
            order.give(upstream_, base, f->total, alignment);
            throw;
        }
        live_record r{f->at, bytes, 0, live_record::no_stream, who.name, who.where, &*f};
        room.enter(r);
        return f.keep()->at;
    }

    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return order.give(upstream_, p, bytes, alignment);
        live_record known;
        if (!report_failure_of([&] { known = keeper_.live().take_out(p, bytes); })) return;
        auto& f = *static_cast<fence*>(known.extra);
        void* const base = f.at - f.front;
        std::size_t const total = f.total;
        std::size_t const as_asked = f.alignment;
        keeper_.take_down(f, order);  // not ours from here on
        order.give(upstream_, base, total, as_asked);
    }

    [[nodiscard]] fence_keeper& keeper() noexcept { return keeper_; }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    // A refusal tells of what was asked here, and what would fit with fences around.
    [[nodiscard]] void* take(call_order const& order, fence const& f, label const& who) {
        auto const as_asked = [&](refusal facts) {
            facts.asked = f.bytes;
            facts.would_fit -= std::min(facts.would_fit, f.total - f.bytes);
            return facts;
        };
        if (f.total == 0) {
            refusal facts = driver_refusal(f.bytes, upstream_.granule(), who, "no memory is as large");
            facts.charged = unlimited;
            throw out_of_memory{std::move(facts)};
        }
        try {
            return order.take(upstream_, f.total, f.alignment, who);
        } catch (budget_exceeded const& refused) {
            throw budget_exceeded{as_asked(refused.facts())};
        } catch (out_of_memory const& refused) { throw out_of_memory{as_asked(refused.facts())}; }
    }

    Upstream upstream_;
    fence_keeper keeper_;
};

}  // namespace detail

/// Upstream's memory with a fence in front of each block and behind it, whose bytes nobody but this resource should
/// write, and poison in blocks that are new or were given back. For finding mistakes: not for production.
///
/// A block's fences are looked at in stream order when it is given back, and when `verify` is called. What is found names
/// the block by tag, place and size, the first damaged byte as an offset from the block (negative: in front; the size or
/// more: behind), and the bytes that stand there. A write of the very byte that stands there (0xFD) is not seen, nor is one
/// that goes beyond the fence.
/// Poison is 0xCD in new blocks and 0xDD in those given back. With it, tools that know what was never written do not
/// see it any more: switch it off for them. The fences are memory of Upstream: a budget below is charged for them.
/// Shared state: copies are the same. A `resource`: its calls are those of the concept.
///
/// A wrong size, a foreign pointer or a second release goes to the error sink as misuse that names the block, and changes
/// nothing. What is alive when the last copy is gone is reported too.
///
/// Units:   bytes, as asked for; of Upstream is taken more, see Cost.
/// Order:   that of Upstream. Memory that the host can reach is waited for when it is given out, for poison is written
///          by its stream. A stream that is being captured is refused.
/// Threads: any, if Upstream allows it.
/// Throws:  what Upstream throws; cuda_error; out_of_memory when there is too little pinned memory; misuse (an alignment
///          that cannot be had, a captured stream, after close). Nothing is taken then. Any alignment that Upstream has.
/// Damage of a block that was given back is known once its stream has come there. The next allocation after that tells the
/// error sink, unless verify or close threw it before: an allocation never fails for it, a release never waits for it.
/// Cost:    of an allocation three fills and an event, of a release a kernel or two copies, and a fill, without waiting (the `_sync`
///          calls wait); per block twice the zone in pinned memory, and in Upstream twice the zone or, for an alignment
///          above the zone, the alignment and the zone.
/// Example:
///     cuota::fenced memory{pool.resource(), {.name = "debug"}};
///     train_step(memory, stream);
///     memory.verify(stream);   // throws fence_broken
template <resource Upstream = device_memory>
class fenced : public detail::accounted<Upstream, detail::fenced_state<Upstream>> {
public:
    /// Over a new Upstream, with the options as they are.
    fenced() requires std::default_initializable<Upstream> : fenced{Upstream{}} {}
    /// Throws: misuse for a zone of 0 bytes; std::bad_alloc.
    // Of no other type: a fenced<any_resource> could be converted to its own upstream.
    template <std::same_as<Upstream> U>
    explicit fenced(U upstream, fence_options wanted = {}, place where = place::here())
        : fenced::accounted{
              shared<detail::fenced_state<Upstream>>::make(std::move(upstream), wanted, where)} {}

    /// Looks at all live blocks after the work that was enqueued on s, and waits for it; and for those given back. What
    /// other streams still do is not seen. Throws: fence_broken; cuda_error, std::bad_alloc. Damage of live blocks is told
    /// again by the next look.
    /// Cost: a kernel for 16 blocks, while nobody takes or gives; of memory that the host can reach two copies a block.
    void verify(stream_ref s, place where = place::here()) { keeper().verify(s, nullptr, where); }
    /// Looks at one block, by its first byte. Throws: misuse when there is none; else as above.
    void verify(stream_ref s, void const* block, place where = place::here()) {
        if (block) keeper().verify(s, block, where);
    }

    /// Ends the resource now: who asks it for memory later gets a misuse. Looks as verify does, at what s has done.
    /// Throws: fence_broken; misuse that names what is still alive; it goes on then.
    void close(stream_ref s = cudaStreamPerThread, place where = place::here()) {
        keeper().verify(s, nullptr, where);
        keeper().live().close(where);
    }

    /// What it takes its memory from.
    [[nodiscard]] Upstream const& upstream() const noexcept { return this->books().upstream(); }

private:
    [[nodiscard]] detail::fence_keeper& keeper() noexcept { return this->owner()->keeper(); }
};

/// `fenced memory{pool.resource()}`
template <resource Upstream>
fenced(Upstream) -> fenced<Upstream>;
/// `fenced memory{pool.resource(), {.zone = 4096}}`
template <resource Upstream>
fenced(Upstream, fence_options) -> fenced<Upstream>;

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labelled_resource<fenced<device_memory>> && device_resource<fenced<device_memory>>);
static_assert(!host_resource<fenced<device_memory>> && sizeof(fenced<device_memory>) == 8);

}  // namespace cuota::inline v0

#endif
