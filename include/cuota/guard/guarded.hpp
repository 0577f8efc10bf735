// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Detects out-of-bounds writes by guard bytes.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/guarded/guard_keeper.hpp>
#include <cuota/guard/detail/resource_adaptor_base.hpp>
#include <cuota/guard/guard_options.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

template <resource Upstream>
class guarded_state final : public ref_counted {
public:
    guarded_state(Upstream upstream, guard_options wanted, source_location where)
        : upstream_{std::move(upstream)}, keeper_{wanted, upstream_.kind() != memory_kind::device, where} {}

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (!is_power_of_two(alignment)) refuse_alignment(alignment, default_alignment, who.where);
        if (bytes == 0) return order.take(upstream_, bytes, alignment, who);
        keeper_.report_known();
        if (order.stream() && order.stream()->is_capturing())
            throw_usage_error(who.where,
                              "{}: guard bytes cannot be written during a stream capture; allocate before it",
                              {keeper_.live().title()});
        tracker::reservation available = keeper_.live().reserve(who.where);
        guard_keeper::lease f = keeper_.acquire(bytes, alignment, who);
        void* const base = take(order, *f, who);
        if (!base) return nullptr;
        try {
            keeper_.put_up(*f, order, base);
        } catch (...) {
            order.give(upstream_, base, f->total, alignment);
            throw;
        }
        live_record r{f->at, bytes, 0, live_record::no_stream, who.name, who.where, &*f};
        available.enter(r);
        return f.keep()->at;
    }

    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return order.give(upstream_, p, bytes, alignment);
        live_record known;
        if (!report_failure_of([&] { known = keeper_.live().take_out(p, bytes); })) return;
        auto& f = *static_cast<guard_bytes*>(known.extra);
        void* const base = f.at - f.front;
        std::size_t const total = f.total;
        std::size_t const as_requested = f.alignment;
        keeper_.take_down(f, order);  // `f` may be reused from here on
        order.give(upstream_, base, total, as_requested);
    }

    [[nodiscard]] guard_keeper& keeper() noexcept { return keeper_; }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    // A refusal states the bytes requested here, and the largest size that fits.
    [[nodiscard]] void* take(call_order const& order, guard_bytes const& f, label const& who) {
        auto const as_requested = [&](refusal facts) {
            facts.requested = f.bytes;
            facts.max_fit -= std::min(facts.max_fit, f.total - f.bytes);
            return facts;
        };
        if (f.total == 0) {
            refusal facts = driver_refusal(f.bytes, upstream_.granularity(), who,
                                           "the size with guard bytes exceeds the range of std::size_t");
            facts.charged = unlimited;
            throw out_of_memory{std::move(facts)};
        }
        try {
            return order.take(upstream_, f.total, f.alignment, who);
        } catch (budget_exceeded const& refused) {
            throw budget_exceeded{as_requested(refused.info())};
        } catch (out_of_memory const& refused) { throw out_of_memory{as_requested(refused.info())}; }
    }

    Upstream upstream_;
    guard_keeper keeper_;
};

}  // namespace detail

/// Resource adaptor that puts guard bytes (a redzone) on each side of a block, and fills new and freed blocks with poison. For debugging.
///
/// Guard bytes are checked in stream order when a block is freed, and by `verify`. Writes of their own value (0xFD) or beyond them are not
/// detected. The next allocation after the check reports damage of a freed block to the error sink, unless verify or close has thrown it.
///
/// Poison is 0xCD in new blocks and 0xDD in freed ones; disable it for tools that detect uninitialized memory. Copies share the same state.
///
/// Invalid deallocations, and blocks that are live when the last copy is destroyed, are reported to the error sink as misuse.
///
/// Units:   bytes as requested.
/// Order:   that of Upstream. An allocation of host-accessible memory waits for its stream. Capturing streams are refused.
/// Threads: any, if Upstream allows it.
/// Throws:  what Upstream throws; cuda_error; out_of_memory for pinned memory; usage_error for an unsupported alignment, a capturing
///          stream, or after close. Nothing is allocated.
/// Cost:    three fills and an event per allocation; a kernel or two copies, and a fill, per deallocation; only the `_sync` calls wait. Per
///          block 2 * redzone_bytes of pinned memory; in Upstream redzone_bytes, plus these rounded up to the alignment.
/// Example:
///     cuota::guarded memory{pool.resource(), {.name = "debug"}};
///     train_step(memory, stream);
///     memory.verify(stream);   // throws guard_bytes_error
template <resource Upstream = device_memory>
class guarded : public detail::resource_adaptor_base<Upstream, detail::guarded_state<Upstream>> {
public:
    /// Uses a default-constructed Upstream and default options.
    guarded() requires std::default_initializable<Upstream> : guarded{Upstream{}} {}
    /// Throws: usage_error if redzone_bytes is 0; std::bad_alloc.
    // No other type: a guarded<any_resource> could be converted to its own upstream.
    template <std::same_as<Upstream> U>
    explicit guarded(U upstream, guard_options wanted = {},
                     source_location where = source_location::current())
        : guarded::resource_adaptor_base{detail::intrusive_ptr<detail::guarded_state<Upstream>>::make(
              std::move(upstream), wanted, where)} {}

    /// Checks all live blocks after the work enqueued on s, and all freed ones; waits. Unfinished writes on other streams are not detected.
    /// Throws: guard_bytes_error; usage_error for a capturing stream; cuda_error, out_of_memory, std::bad_alloc.
    /// Cost: a kernel per 16 blocks, or two copies per block of host-accessible memory; allocations are blocked while it enqueues these.
    void verify(stream_ref s, source_location where = source_location::current()) {
        keeper().verify(s, nullptr, where);
    }
    /// Checks the block that begins at `block`, and all freed ones; null does nothing. Throws: as above; usage_error if no block begins
    /// there.
    void verify(stream_ref s, void const* block, source_location where = source_location::current()) {
        if (block) keeper().verify(s, block, where);
    }

    /// Verifies, then closes the resource: later allocations throw usage_error.
    /// Throws: as verify; usage_error that names the live blocks. The resource stays open.
    void close(stream_ref s = cudaStreamPerThread, source_location where = source_location::current()) {
        keeper().verify(s, nullptr, where);
        keeper().live().close(where);
    }

    /// Returns the upstream resource.
    [[nodiscard]] Upstream const& upstream() const noexcept { return this->state().upstream(); }

private:
    [[nodiscard]] detail::guard_keeper& keeper() noexcept { return this->owner()->keeper(); }
};

/// `guarded memory{pool.resource()}`
template <resource Upstream>
guarded(Upstream) -> guarded<Upstream>;
/// `guarded memory{pool.resource(), {.redzone_bytes = 4096}}`
template <resource Upstream>
guarded(Upstream, guard_options) -> guarded<Upstream>;

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

static_assert(labeled_resource<guarded<device_memory>> && device_accessible_resource<guarded<device_memory>>);
static_assert(!host_accessible_resource<guarded<device_memory>> && sizeof(guarded<device_memory>) == 8);

}  // namespace cuota::inline v0

#endif
