// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A resource whose allocations a recorder sees: for memory that is no pool's.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/guard/accounted.hpp>
#include <cuota/report/recorder.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

/// The facts of a resource as a source of events. Without a name it is called by its kind.
template <resource R>
[[nodiscard]] event_source source_of(R const& r, tag name) {
    event_source s;
    s.kind = source_kind::resource;
    s.memory = r.kind();
    s.name = !name.is_empty()                   ? name.text()
             : s.memory == memory_kind::pinned  ? "pinned memory"
             : s.memory == memory_kind::managed ? "managed memory"
                                                : "device memory";
    if constexpr (knows_device<R>) s.device = r.device().ordinal();
    return s;
}

template <resource Upstream>
class recorded_state final : public ref_counted {
public:
    recorded_state(Upstream upstream, shared<recorder_state> to, tag name, place where)
        : upstream_{std::move(upstream)},
          to_{std::move(to)},
          source_{to_->add_source(source_of(upstream_, name), where)} {}
    ~recorded_state() { to_->end_source(source_); }

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (is_of_parent()) [[unlikely]]
            throw_forked();
        if (!to_->is_recording()) return order.take(upstream_, bytes, alignment, who);
        std::uint64_t const stream = id_of(order);
        void* p = nullptr;
        try {
            p = order.take(upstream_, bytes, alignment, who);
        } catch (out_of_memory const& refused) {
            budget_facts const* const by = refused.facts().refuser();
            to_->put(event_kind::refused, source_, who.name, who.where, 0, bytes, by ? by->held : 0, stream);
            throw;
        }
        if (p) put(event_kind::allocated, who, p, bytes, stream);
        return p;
    }
    // Before upstream has it again: then another thread may have the address at once, and say so.
    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (p && to_->is_recording()) {
            std::uint64_t stream = memory_event::no_stream;
            report_failure_of([&] { stream = id_of(order); });
            put(event_kind::free_requested, {}, p, bytes, stream);
            if (!order.stream()) put(event_kind::free_completed, {}, p, bytes, stream);
        }
        order.give(upstream_, p, bytes, alignment);
    }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    // Throws: cuda_error, for a native handle that is none.
    [[nodiscard]] static std::uint64_t id_of(call_order const& order) {
        return order.stream() ? order.stream()->id() : memory_event::no_stream;
    }
    void put(event_kind kind, label const& who, void* p, std::size_t bytes, std::uint64_t stream) noexcept {
        std::size_t const size = checked_round_up(bytes, upstream_.granule()).value_or(unlimited);
        to_->put(kind, source_, who.name, who.where, reinterpret_cast<std::uintptr_t>(p), bytes, size,
                 stream);
    }

    Upstream upstream_;
    shared<recorder_state> to_;
    std::uint16_t source_;
};

}  // namespace detail

/// Upstream's memory, seen by a recorder: who took what, when, from where and on which stream; when it was given back;
/// what was refused. Under a name of its own: `recorded memory{pinned_memory{}, recorder, "pinned"}`.
///
/// For memory that is no pool's: pinned, managed, async, or straight from the device. Sizes are rounded up to Upstream's
/// granule. What is given back at once is done with; of what is given back in stream order it is not known when. It keeps no
/// table: a second release or a wrong size is Upstream's to find. Keeps the recorder. Shared state: copies are the same,
/// and one source of the recorder; when the last one is gone the source stays, for its events.
///
/// Order:   that of Upstream. A release is recorded before Upstream has the memory back, an allocation after it gave it.
/// Threads: any, if Upstream allows it.
/// Throws:  what Upstream throws; cuda_error for a native handle that is no stream. Nothing is taken then.
/// Cost:    that of an event, some 20 ns, for an allocation and for a release in stream order, twice that for one at once.
///          A native handle is asked for its stream's id by a driver call. While the recorder pauses: next to none.
/// Example: cuota::pinned_buffer<float> host{n, cuota::recorded{cuota::pinned_memory{}, recorder, "pinned"}};
template <resource Upstream = device_memory>
class recorded : public detail::accounted<Upstream, detail::recorded_state<Upstream>> {
public:
    /// Throws: misuse when the recorder has 65,535 sources already; std::bad_alloc.
    explicit recorded(recorder const& to, tag name = {},
                      place where = place::here()) requires std::default_initializable<Upstream>
        : recorded{Upstream{}, to, name, where} {}
    // Of no other type: a recorded<any_resource> could be converted to its own upstream.
    /// Upstream is kept. Throws: misuse when the recorder has 65,535 sources already; std::bad_alloc.
    template <std::same_as<Upstream> U>
    recorded(U upstream, recorder const& to, tag name = {}, place where = place::here())
        : recorded::accounted{shared<detail::recorded_state<Upstream>>::make(
              std::move(upstream), detail::recorder_access::state(to), name, where)} {}

    /// What it takes from.
    [[nodiscard]] Upstream const& upstream() const noexcept { return this->books().upstream(); }
};

/// Named by the kind of memory.
template <resource Upstream>
recorded(Upstream, recorder const&) -> recorded<Upstream>;
/// Under a name of its own.
template <resource Upstream>
recorded(Upstream, recorder const&, tag) -> recorded<Upstream>;

static_assert(labelled_resource<recorded<device_memory>> && device_resource<recorded<device_memory>>);
static_assert(!host_resource<recorded<device_memory>> && sizeof(recorded<device_memory>) == 8);

}  // namespace cuota::inline v0
