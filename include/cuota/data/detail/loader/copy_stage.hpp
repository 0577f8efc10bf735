// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Copies and transforms batches on the device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/data/detail/loader/copy_timer.hpp>
#include <cuota/data/detail/loader/device_slot.hpp>
#include <cuota/data/detail/loader/loader_slots.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/data/loader/slot_layout.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/rt/copy.hpp>

namespace cuota::inline v0::detail {

/// Enqueues a loader's copies and transforms on its copy stream.
/// Threads: one at a time for `copy`, without `forget_times`; any thread for the others.
class copy_stage {
public:
    explicit copy_stage(loader_slots& memory);

    /// Copies a filled slot to a device slot and transforms it. Returns the bytes copied.
    /// Throws: cuda_error and errors of the transform; the device slot may be reused afterwards.
    std::size_t copy(staging_ring::staging_slot lease, sample_list const& samples, device_slot& to,
                     std::uint64_t epoch);

    /// With loader_options::poison, overwrites an ended batch after all work that used it. Throws: cuda_error.
    void poison(device_slot& ended) const;

    [[nodiscard]] slot_contents contents(device_slot const& of) const noexcept;

    /// Returns true on the thread within the device_transform.
    [[nodiscard]] bool is_transforming_here() const noexcept;

    /// Throws: cuda_error.
    [[nodiscard]] std::optional<std::chrono::nanoseconds> busy() const;
    void forget_times() noexcept;

private:
    [[nodiscard]] loader_options const& options() const noexcept { return memory_.shape().options; }
    [[nodiscard]] loader_plan const& plan() const noexcept { return memory_.plan(); }

    template <class Use>
    decltype(auto) with_clock(Use use) const {
        region_lock const lock{guard_};
        return use(*clock_);
    }

    // Only the transform waits for the slot's readers; the copy goes to a separate buffer.
    void transform(sample_list const& samples, device_slot& to, std::uint64_t epoch);

    class transform_scope {
    public:
        explicit transform_scope(std::atomic<std::thread::id>& who) noexcept;
        transform_scope(transform_scope const&) = delete;
        transform_scope& operator=(transform_scope const&) = delete;
        ~transform_scope() { who_.store({}, std::memory_order_relaxed); }

    private:
        std::atomic<std::thread::id>& who_;
    };

    loader_slots& memory_;
    mutable std::mutex guard_;  // protects the clock
    mutable std::optional<copy_timer> clock_;
    std::atomic<std::thread::id> transforming_{};
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE copy_stage::copy_stage(loader_slots& memory) : memory_{memory} {
    if (options().time_copies)
        clock_.emplace(plan().host_slots + 1);  // + 1: an end mark is complete once the next copy is
}

CUOTA_INLINE std::size_t copy_stage::copy(staging_ring::staging_slot lease, sample_list const& samples,
                                          device_slot& to, std::uint64_t epoch) {
    device_scope const here{memory_.where()};
    stream const& copies = memory_.copies();
    std::byte* const target = options().transform ? memory_.arrival() : to.at;
    if (!options().transform) to.order_readers_before(copies);
    std::size_t const bytes = slot_parts{memory_.shape().fields, samples}.used_bytes();
    if (clock_) with_clock([&](copy_timer& c) { c.begin(copies); });
    to.arrives_with(std::move(lease).submit(copies, {target, plan().host_slot.bytes}, bytes));
    if (clock_) with_clock([&](copy_timer& c) { c.end(copies); });
    if (options().transform) transform(samples, to, epoch);
    return bytes;
}

CUOTA_INLINE void copy_stage::poison(device_slot& ended) const {
    if (!options().poison) return;
    device_scope const here{memory_.where()};
    ended.order_readers_before(memory_.copies());
    rt::fill_bytes(ended.at, 0xFF, plan().device_slot.bytes, memory_.copies());
}

CUOTA_INLINE slot_contents copy_stage::contents(device_slot const& of) const noexcept {
    return {of.at, memory_.shape().delivered, &of.samples};
}

CUOTA_INLINE bool copy_stage::is_transforming_here() const noexcept {
    return options().transform && transforming_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

CUOTA_INLINE std::optional<std::chrono::nanoseconds> copy_stage::busy() const {
    if (!clock_) return std::nullopt;
    return with_clock([](copy_timer& c) { return c.busy(); });
}

CUOTA_INLINE void copy_stage::forget_times() noexcept {
    if (clock_) with_clock([](copy_timer& c) { c.forget(); });
}

CUOTA_INLINE void copy_stage::transform(sample_list const& samples, device_slot& to, std::uint64_t epoch) {
    stream const& copies = memory_.copies();
    to.order_readers_before(copies);
    device_transform const& what = *options().transform;
    slot_contents const in{memory_.arrival(), memory_.shape().fields, &samples};
    slot_contents const out{to.at, what.output_fields, &samples};
    slot_contents const between{memory_.arrival() + plan().host_slot.bytes, what.scratch, &samples};
    {
        transform_scope const marked{transforming_};
        expect_no_region("a device_transform");
        what.run(transform_context{copies, epoch, in, out, between});
    }
    to.is_made_on(copies);
}

CUOTA_INLINE copy_stage::transform_scope::transform_scope(std::atomic<std::thread::id>& who) noexcept
    : who_{who} {
    who_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

}  // namespace cuota::inline v0::detail

#endif
