// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Implementation of staging_ring.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/label.hpp>
#include <cuota/fwd.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/detail/host_pages.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

class ring_state final : public ref_counted {
public:
    ring_state(std::size_t slots, std::size_t slot_bytes, any_resource memory, label const& who,
               pin_failure_policy otherwise, staging_writer writer);
    ~ring_state();

    // Returns the slot that is free longest, after its last copy; nullopt if stopped.
    [[nodiscard]] std::optional<std::uint32_t> acquire(std::stop_token stop);

    [[nodiscard]] std::optional<std::uint32_t> try_acquire();

    void put_back(std::uint32_t index) noexcept;

    // Enqueues the slot's copy and returns its number. On failure, no copy is pending.
    [[nodiscard]] std::uint64_t copy(std::uint32_t index, std::byte* to, std::size_t bytes, stream_ref s,
                                     source_location where);

    // Returns the event to wait for, or null if the slot's n-th copy has completed.
    [[nodiscard]] event const* copied(std::uint32_t index, std::uint64_t n) const;

    [[nodiscard]] std::span<std::byte> bytes_of_slot(std::uint32_t i) const noexcept;
    [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }
    [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] bool is_pinned() const noexcept { return is_pinned_; }

private:
    // An event belongs to one device.
    void check_device(stream_ref s, source_location where);

    // Falls back to pageable memory if the driver refuses, not for a budget.
    void take_memory(label const& who, pin_failure_policy otherwise);
    void give_memory() noexcept;

    struct slot {
        std::optional<event> copied;
        std::uint64_t copies = 0;
        std::uint64_t over = 0;  // known to have completed; under the lock
    };

    void take(std::vector<std::uint32_t>::iterator which) noexcept;

    // Waits outside the lock for the slot's last copy.
    [[nodiscard]] std::uint32_t settled(std::uint32_t index);

    std::size_t const slot_bytes_;
    any_resource memory_;
    bool const is_on_device_;
    std::size_t bytes_ = 0;
    std::byte* at_ = nullptr;
    bool is_pinned_ = true;
    std::atomic<int> device_ = -1;  // of the first copy, or -1
    dynamic_array<slot> slots_;
    mutable object_lock guard_;
    std::condition_variable_any returned_;
    std::vector<std::uint32_t> free_;        // longest free first
    std::atomic<std::size_t> free_now_ = 0;  // its size, for reads without the lock
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/detail/threads/spin_wait.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE ring_state::ring_state(std::size_t slots, std::size_t slot_bytes, any_resource memory,
                                    label const& who, pin_failure_policy otherwise, staging_writer writer)
    : slot_bytes_{slot_bytes},
      memory_{std::move(memory)},
      is_on_device_{memory_.kind() == memory_kind::device} {
    if (slots == 0) throw_usage_error(who.where, "staging_ring: cannot have 0 slots; pass at least 1");
    if (is_on_device_ && writer == staging_writer::host)
        throw_usage_error(who.where,
                          "staging_ring: cannot use a resource of device memory, which the host cannot fill");
    bytes_ = bytes_of(slots, {who.name, who.where, "slots", slot_bytes});
    take_memory(who, otherwise);
    try {
        slots_.resize(slots);
        free_.reserve(slots);
    } catch (...) {
        give_memory();
        throw;
    }
    for (std::uint32_t i = 0; i != slots; ++i) free_.push_back(i);
    free_now_ = slots;
}

CUOTA_INLINE ring_state::~ring_state() {
    for (slot& s : slots_)
        if (s.copied) rt::drain(*s.copied);
    give_memory();
}

CUOTA_INLINE std::optional<std::uint32_t> ring_state::acquire(std::stop_token stop) {
    if (is_of_parent()) throw_forked();
    std::uint32_t index = 0;
    spin_wait([&] { return free_now_.load(std::memory_order_relaxed) != 0; });
    {
        std::unique_lock<std::mutex> lock{guard_};
        (void)returned_.wait(lock, stop, [&] { return !free_.empty(); });
        if (stop.stop_requested() || free_.empty()) return std::nullopt;
        index = free_.front();
        take(free_.begin());
    }
    return settled(index);
}

CUOTA_INLINE std::optional<std::uint32_t> ring_state::try_acquire() {
    std::uint32_t index = 0;
    {
        region_lock const lock{guard_};
        auto ready = free_.begin();
        while (ready != free_.end() && slots_[*ready].copied && !slots_[*ready].copied->is_done()) ++ready;
        if (ready == free_.end()) return std::nullopt;
        index = *ready;
        take(ready);
        slots_[index].over = slots_[index].copies;
    }
    return index;
}

CUOTA_INLINE void ring_state::put_back(std::uint32_t index) noexcept {
    if (is_of_parent()) return;
    {
        region_lock const lock{guard_};
        free_.push_back(index);  // capacity is reserved
        free_now_.store(free_.size(), std::memory_order_relaxed);
    }
    returned_.notify_one();
}

CUOTA_INLINE std::uint64_t ring_state::copy(std::uint32_t index, std::byte* to, std::size_t bytes,
                                            stream_ref s, source_location where) {
    std::optional<event>& copied = slots_[index].copied;
    rt::check_not_capturing(s, "staging_ring: cannot submit a slot",
                            "a launch would read the slot after its reuse: copy outside the capture", where);
    check_device(s, where);
    std::byte const* const from = bytes_of_slot(index).data();
    if (is_on_device_) rt::copy_on_device(to, from, bytes, s, where);
    else rt::copy_to_device(to, from, bytes, s, where);
    try {
        if (copied) copied->record(s);
        else copied.emplace(s, host_wait::blocking);
    } catch (...) {
        rt::drain(s);
        throw;
    }
    return ++slots_[index].copies;
}

CUOTA_INLINE void ring_state::check_device(stream_ref s, source_location where) {
    int const on = s.device().ordinal();
    int first = -1;
    if (device_.load(std::memory_order_relaxed) == on ||
        device_.compare_exchange_strong(first, on, std::memory_order_relaxed) || first == on)
        return;
    throw_usage_error(
        where, "staging_ring: cannot copy on streams of two devices, {} and {}; make a ring for each device",
        {first, on});
}

CUOTA_INLINE event const* ring_state::copied(std::uint32_t index, std::uint64_t n) const {
    region_lock const lock{guard_};
    return slots_[index].over >= n ? nullptr : &*slots_[index].copied;
}

CUOTA_INLINE std::span<std::byte> ring_state::bytes_of_slot(std::uint32_t i) const noexcept {
    return {at_ + i * slot_bytes_, slot_bytes_};
}

CUOTA_INLINE void ring_state::give_memory() noexcept {
    if (is_pinned_) memory_.deallocate_sync(at_, bytes_);
    else unmap_pages(at_, bytes_);
}

CUOTA_INLINE void ring_state::take_memory(label const& who, pin_failure_policy otherwise) {
    try {
        at_ = static_cast<std::byte*>(memory_.allocate_sync(bytes_, default_alignment, who));
    } catch (budget_exceeded const&) { throw; } catch (out_of_memory const& refused) {
        if (otherwise == pin_failure_policy::refuse) throw;
        at_ = map_pages(bytes_);
        if (!at_) throw;
        is_pinned_ = false;
        report(refused, std::current_exception());
    }
}

CUOTA_INLINE void ring_state::take(std::vector<std::uint32_t>::iterator which) noexcept {
    free_.erase(which);
    free_now_.store(free_.size(), std::memory_order_relaxed);
}

CUOTA_INLINE std::uint32_t ring_state::settled(std::uint32_t index) {
    try {
        if (slots_[index].copied) slots_[index].copied->synchronize();
    } catch (...) {
        put_back(index);
        throw;
    }
    region_lock const lock{guard_};
    slots_[index].over = slots_[index].copies;
    return index;
}

}  // namespace cuota::inline v0::detail

#endif
