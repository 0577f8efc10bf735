// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Defines a resource adaptor that records memory outside pools.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/resource_adaptor_base.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Names the source after its kind of memory if `name` is empty.
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
    recorded_state(Upstream upstream, intrusive_ptr<recorder_state> to, tag name, source_location where)
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
            budget_info const* const by = refused.info().refusing_budget();
            to_->put(event_kind::refused, source_, who.name, who.where, 0, bytes, by ? by->held : 0, stream);
            throw;
        }
        if (p) put(event_kind::allocated, who, p, bytes, stream);
        return p;
    }
    // Recorded before Upstream frees: afterwards, another thread may allocate the address and record it.
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
    // Throws: cuda_error if a native handle is not a stream.
    [[nodiscard]] static std::uint64_t id_of(call_order const& order) {
        return order.stream() ? order.stream()->id() : memory_event::no_stream;
    }
    void put(event_kind kind, label const& who, void* p, std::size_t bytes, std::uint64_t stream) noexcept {
        std::size_t const size = checked_round_up(bytes, upstream_.granularity()).value_or(unlimited);
        to_->put(kind, source_, who.name, who.where, reinterpret_cast<std::uintptr_t>(p), bytes, size,
                 stream);
    }

    Upstream upstream_;
    intrusive_ptr<recorder_state> to_;
    std::uint16_t source_;
};

}  // namespace detail

/// Resource adaptor that records Upstream's allocations, frees and refusals.
///
/// Sizes are rounded up to Upstream's granularity. A synchronous free completes at once; completion of a stream-ordered free is not
/// recorded. Double frees and wrong sizes are not detected. Keeps the recorder alive. Copies share one source.
///
/// Order:   that of Upstream.
/// Threads: any, if Upstream allows it.
/// Throws:  as Upstream; cuda_error if a native handle is not a stream. On failure, nothing is allocated.
/// Cost:    about 20 ns per allocation and stream-ordered free, 40 ns per synchronous free; a driver call for a native stream handle.
/// Example: cuota::pinned_buffer<float> host{n, cuota::recorded{cuota::pinned_memory{}, recorder, "pinned"}};
template <resource Upstream = device_memory>
class recorded : public detail::resource_adaptor_base<Upstream, detail::recorded_state<Upstream>> {
public:
    /// Throws: usage_error if the recorder has 65,535 sources already; std::bad_alloc.
    explicit recorded(
        recorder const& to, tag name = {},
        source_location where = source_location::current()) requires std::default_initializable<Upstream>
        : recorded{Upstream{}, to, name, where} {}
    // Accepts only Upstream: otherwise a recorded<any_resource> could be converted to its own upstream.
    /// Copies or moves `upstream` in. Throws: as above.
    template <std::same_as<Upstream> U>
    recorded(U upstream, recorder const& to, tag name = {},
             source_location where = source_location::current())
        : recorded::resource_adaptor_base{detail::intrusive_ptr<detail::recorded_state<Upstream>>::make(
              std::move(upstream), detail::recorder_access::state(to), name, where)} {}

    /// Returns the upstream resource.
    [[nodiscard]] Upstream const& upstream() const noexcept { return this->state().upstream(); }
};

/// Names the source after the kind of memory.
template <resource Upstream>
recorded(Upstream, recorder const&) -> recorded<Upstream>;
/// Names the source `tag`.
template <resource Upstream>
recorded(Upstream, recorder const&, tag) -> recorded<Upstream>;

static_assert(labeled_resource<recorded<device_memory>> &&
              device_accessible_resource<recorded<device_memory>>);
static_assert(!host_accessible_resource<recorded<device_memory>> && sizeof(recorded<device_memory>) == 8);

}  // namespace cuota::inline v0
