// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Resource adaptor that detects out-of-bounds writes by fences (guard bytes) and poison.
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
            throw_misuse(who.where,
                         "{}: guard bytes cannot be written during a stream capture; allocate before it",
                         {keeper_.live().title()});
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
        keeper_.take_down(f, order);  // `f` may be reused from here on
        order.give(upstream_, base, total, as_asked);
    }

    [[nodiscard]] fence_keeper& keeper() noexcept { return keeper_; }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    // A refusal states the bytes requested here, and the size that would fit with fences.
    [[nodiscard]] void* take(call_order const& order, fence const& f, label const& who) {
        auto const as_asked = [&](refusal facts) {
            facts.asked = f.bytes;
            facts.would_fit -= std::min(facts.would_fit, f.total - f.bytes);
            return facts;
        };
        if (f.total == 0) {
            refusal facts = driver_refusal(f.bytes, upstream_.granule(), who,
                                           "the size with guard bytes exceeds the range of std::size_t");
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

/// Resource adaptor that puts a fence (guard bytes, redzone) on each side of a block, and fills new and freed blocks with poison. For
/// debugging only.
///
/// Fences are checked in stream order when a block is freed, and by `verify`. A report names the block by tag, call site and size, with the
/// first damaged byte as an offset from the block (negative: in front; at least the size: behind) and the bytes found. Writes of the
/// fence's own value (0xFD) or beyond the fence are not detected. Poison is 0xCD in new blocks and 0xDD in freed ones; it hides
/// uninitialized memory from tools that detect that: disable it for them. A budget below is charged for the fences. Models `resource`.
/// Copies share the same state.
///
/// Invalid deallocations (wrong size, unknown pointer, double free) are reported to the error sink as misuse, naming the block, and change
/// nothing; so are blocks that are live when the last copy is destroyed.
///
/// Units:   bytes as requested; for Upstream's see Cost.
/// Order:   that of Upstream. For host-accessible memory an allocation waits for its stream, which writes the poison. Capturing streams are
///          refused.
/// Threads: any, if Upstream allows it.
/// Throws:  what Upstream throws; cuda_error; out_of_memory for pinned memory; misuse (an alignment that Upstream does not support, a
///          capturing stream, after close). Nothing is allocated.
///
/// Damage of a freed block is known once its stream has executed the check. The next allocation reports it to the error sink, unless verify
/// or close has thrown it: allocations never fail for it, deallocations never wait for it.
/// Cost:    three fills and an event per allocation; a kernel or two copies, and a fill, per deallocation, without waiting (the `_sync`
///          calls wait). Per block twice the zone in pinned memory; in Upstream the zone, plus the zone rounded up to the alignment.
/// Example:
///     cuota::fenced memory{pool.resource(), {.name = "debug"}};
///     train_step(memory, stream);
///     memory.verify(stream);   // throws fence_broken
template <resource Upstream = device_memory>
class fenced : public detail::accounted<Upstream, detail::fenced_state<Upstream>> {
public:
    /// Uses a default-constructed Upstream and default options.
    fenced() requires std::default_initializable<Upstream> : fenced{Upstream{}} {}
    /// Throws: misuse if the zone is 0 bytes; std::bad_alloc.
    // Accepts no other type: a fenced<any_resource> could be converted to its own upstream.
    template <std::same_as<Upstream> U>
    explicit fenced(U upstream, fence_options wanted = {}, place where = place::here())
        : fenced::accounted{
              shared<detail::fenced_state<Upstream>>::make(std::move(upstream), wanted, where)} {}

    /// Checks all live blocks after the work enqueued on s, and all freed ones; waits. Unfinished writes on other streams are not detected.
    /// Damage of live blocks is reported again by the next check.
    /// Throws: fence_broken; cuda_error, std::bad_alloc.
    /// Cost: a kernel per 16 blocks, or two copies per block of host-accessible memory; blocks allocations and deallocations meanwhile.
    void verify(stream_ref s, place where = place::here()) { keeper().verify(s, nullptr, where); }
    /// Checks the block that begins at `block`, and all freed ones; null does nothing. Throws: misuse if no block begins there; else as
    /// above.
    void verify(stream_ref s, void const* block, place where = place::here()) {
        if (block) keeper().verify(s, block, where);
    }

    /// Checks as verify does, then closes the resource: later allocations throw misuse.
    /// Throws: fence_broken; misuse that names the live blocks. The resource stays open.
    void close(stream_ref s = cudaStreamPerThread, place where = place::here()) {
        keeper().verify(s, nullptr, where);
        keeper().live().close(where);
    }

    /// Returns the upstream resource.
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
