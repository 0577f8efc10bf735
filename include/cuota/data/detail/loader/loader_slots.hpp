// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Slots of a batch_loader: a pinned ring and a device slab.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/data/detail/loader/device_slot.hpp>
#include <cuota/data/detail/loader/loader_config.hpp>
#include <cuota/data/detail/loader/usage_gate.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/reclaim.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::detail {

enum class loader_part { pinned_ring, device_slab };

/// A pinned ring and a device slab, charged and freed separately. A running epoch and a live batch use both; a reading worker uses the
/// ring.
class loader_slots final : public ref_counted {
public:
    loader_slots(loader_config shape, source_location where);
    ~loader_slots();

    [[nodiscard]] loader_config const& shape() const noexcept { return shape_; }
    [[nodiscard]] loader_plan const& plan() const noexcept { return shape_.plan; }
    [[nodiscard]] device where() const noexcept { return device_; }

    // --- use ---

    /// Starts a use of both parts: waits while another thread frees one, and allocates the missing ones.
    /// Throws: budget_exceeded, out_of_memory, cuda_error; on failure, nothing has changed.
    void start_use(source_location where);
    /// Requires an existing use.
    void add_use() noexcept;
    void drop_use() noexcept;
    [[nodiscard]] usage_gate& uses_of_ring() noexcept { return at(loader_part::pinned_ring).uses; }

    /// Valid only during a use.
    [[nodiscard]] staging_ring& ring() noexcept { return *ring_; }
    [[nodiscard]] device_slot& slot(std::uint32_t index) noexcept { return slots_[index]; }
    /// Returns the transform's input buffer, behind the slots.
    [[nodiscard]] std::byte* arrival() const noexcept;
    [[nodiscard]] stream const& copies() const noexcept { return *copies_; }
    /// Threads: any.
    [[nodiscard]] bool is_pinned() const noexcept { return is_pinned_; }

    // --- releasing ---

    [[nodiscard]] std::size_t idle_bytes(loader_part which) const noexcept;

    /// Frees an unused part after device work that may use it, and returns its bytes. If waiting fails, reports the error and keeps the
    /// part.
    std::size_t give_back(loader_part which) noexcept;

    /// Frees everything after device work. No uses may follow.
    void end() noexcept;

    void allocation_groups(loader_part which, std::vector<allocation_group>& into) const;
    void tell(loader_part which, budget_observer& o) const noexcept;
    [[nodiscard]] std::string title() const;

private:
    struct part {
        std::optional<budget> account;
        std::size_t bytes;
        std::size_t slots;
        std::size_t granularity;
        std::atomic<bool> is_held = false;  // charged
        usage_gate uses{};
    };

    [[nodiscard]] bool may_be_given() const noexcept { return shape_.options.reclaim_priority.has_value(); }

    [[nodiscard]] part& at(loader_part which) noexcept { return parts_[static_cast<std::size_t>(which)]; }
    [[nodiscard]] part const& at(loader_part which) const noexcept;

    void claim() noexcept;

    // --- allocating, by the thread that starts the first use ---

    // Charges all missing parts before allocating any, so that a refusal costs no allocation.
    void take_missing(source_location where);

    [[nodiscard]] label label_of(loader_part which, source_location where) const;

    void charge_for(loader_part which, source_location where);
    void arrived(loader_part which) noexcept;
    // Refunds a charge for which nothing was allocated.
    void uncharge(loader_part which) noexcept;

    void charge_to(budget const& account, loader_part which, label const& who);

    // Returns the largest batch with which the whole loader fits, given `room` bytes for the refused part.
    [[nodiscard]] std::size_t fitting_size(loader_part refused, std::size_t room) const;

    void allocate(loader_part which, source_location where);

    // --- freeing, with exclusive access to the part ---

    // Returns false, after reporting, if some work cannot be waited for.
    [[nodiscard]] bool wait_for_work(loader_part which) noexcept;

    void free(loader_part which) noexcept;

    static void refund(part& p) noexcept;
    static void tell_gone(part const& p) noexcept;

    void drop(loader_part which) noexcept;

    loader_config const shape_;
    source_location const where_;
    device const device_;
    std::optional<stream> copies_;
    std::optional<staging_ring> ring_;
    std::atomic<bool> is_pinned_ = true;
    std::byte* slab_ = nullptr;
    dynamic_array<device_slot> slots_;

    std::array<part, 2> parts_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE loader_slots::loader_slots(loader_config shape, source_location where)
    : shape_{std::move(shape)},
      where_{where},
      device_{cuota::device::current()},
      parts_{part{shape_.options.pinned_budget, plan().pinned_bytes, plan().host_slots,
                  shape_.options.host_memory.granularity()},
             part{shape_.options.device_budget, plan().device_bytes, plan().device_slots,
                  device_memory::granularity()}} {
    copies_.emplace(stream_priority::high);
    slots_.resize(plan().device_slots);
    for (device_slot& slot : slots_) slot.samples = shape_.list_with_room();
}

CUOTA_INLINE loader_slots::~loader_slots() = default;

CUOTA_INLINE void loader_slots::start_use(source_location where) {
    claim();
    try {
        take_missing(where);
    } catch (...) {
        drop_use();
        throw;
    }
}

CUOTA_INLINE void loader_slots::add_use() noexcept {
    for (part& p : parts_) p.uses.add();
}

CUOTA_INLINE void loader_slots::drop_use() noexcept {
    for (part& p : parts_) p.uses.drop();
}

CUOTA_INLINE std::byte* loader_slots::arrival() const noexcept {
    return slab_ + plan().device_slots * plan().device_slot.bytes;
}

CUOTA_INLINE std::size_t loader_slots::idle_bytes(loader_part which) const noexcept {
    part const& p = at(which);
    return may_be_given() && p.uses.is_idle() && p.is_held ? p.bytes : 0;
}

CUOTA_INLINE std::size_t loader_slots::give_back(loader_part which) noexcept {
    part& p = at(which);
    if (!may_be_given() || !p.uses.try_give()) return 0;
    bool const goes = p.is_held && wait_for_work(which);
    if (goes) free(which);
    p.uses.freed();
    if (goes) refund(p);
    p.uses.refunded();
    return goes ? p.bytes : 0;
}

CUOTA_INLINE void loader_slots::end() noexcept {
    claim();
    for (loader_part const which : {loader_part::device_slab, loader_part::pinned_ring})
        if (at(which).is_held) {
            (void)wait_for_work(which);
            drop(which);
        }
    copies_.reset();
}

CUOTA_INLINE void loader_slots::allocation_groups(loader_part which,
                                                  std::vector<allocation_group>& into) const {
    bool const is_idle = idle_bytes(which) != 0;  // first: may wait
    part const& p = at(which);
    if (!p.is_held || p.bytes == 0) return;
    tag const name = is_idle ? tag::named("idle " + title()) : shape_.options.name;
    into.push_back({name, where_, p.bytes, is_idle});
}

CUOTA_INLINE void loader_slots::tell(loader_part which, budget_observer& o) const noexcept {
    part const& p = at(which);
    if (!p.account || !p.is_held || p.bytes == 0) return;
    report_failure_of([&] {
        held_piece piece{&p, shape_.options.name, where_, p.bytes};
        if (piece.name.is_empty()) piece.name = tag::named(title());
        if (which == loader_part::pinned_ring) piece.memory = shape_.options.host_memory.kind();
        if (piece.memory == memory_kind::device) piece.device = device_.ordinal();
        o.holds(budget_access::node(*p.account), piece);
    });
}

CUOTA_INLINE std::string loader_slots::title() const {
    tag const name = shape_.options.name;
    return name.is_empty() ? "loader of " + shape_.name : name.text();
}

CUOTA_INLINE auto loader_slots::at(loader_part which) const noexcept -> part const& {
    return parts_[static_cast<std::size_t>(which)];
}

CUOTA_INLINE void loader_slots::claim() noexcept {
    for (part& p : parts_) p.uses.start();
}

CUOTA_INLINE void loader_slots::take_missing(source_location where) {
    bool const lacks_ring = !at(loader_part::pinned_ring).is_held;
    bool const lacks_slab = !at(loader_part::device_slab).is_held;
    if (!lacks_ring && !lacks_slab) return;
    device_scope const here{device_};
    try {
        if (lacks_ring) charge_for(loader_part::pinned_ring, where);
        if (lacks_slab) charge_for(loader_part::device_slab, where);
        if (lacks_ring) allocate(loader_part::pinned_ring, where);
        if (lacks_slab) allocate(loader_part::device_slab, where);
        if (lacks_ring) arrived(loader_part::pinned_ring);
        if (lacks_slab) arrived(loader_part::device_slab);
    } catch (...) {
        if (lacks_ring) ring_.reset();
        if (lacks_ring) uncharge(loader_part::pinned_ring);
        if (lacks_slab) uncharge(loader_part::device_slab);
        throw;
    }
}

CUOTA_INLINE label loader_slots::label_of(loader_part which, source_location where) const {
    bool const is_slab = which == loader_part::device_slab;
    bool const is_by_rows = plan().max_rows != 0;
    auto const one = is_by_rows ? &slot_layout::row_bytes : &slot_layout::sample_bytes;
    slot_layout const& slot = is_slab ? plan().device_slot : plan().host_slot;
    std::size_t const in_slots = checked_mul(slot.*one, at(which).slots).value_or(unlimited);
    bool const arrives_elsewhere = is_slab && shape_.options.transform;
    std::size_t const arriving =
        arrives_elsewhere ? saturating_add(plan().host_slot.*one, plan().scratch.*one) : 0;
    std::size_t const in_all = saturating_add(in_slots, arriving);
    return {shape_.options.name, where, is_by_rows ? "rows in a batch" : "samples in a batch",
            in_all == 0 ? 1 : in_all};
}

CUOTA_INLINE void loader_slots::charge_for(loader_part which, source_location where) {
    part& p = at(which);
    if (p.account && p.bytes != 0) charge_to(*p.account, which, label_of(which, where));
    p.is_held = true;
    if (p.account && p.bytes != 0)
        budget_access::node(*p.account).tell_observers([&](budget_observer& o) { tell(which, o); });
}

CUOTA_INLINE void loader_slots::uncharge(loader_part which) noexcept {
    part& p = at(which);
    if (!p.is_held.exchange(false) || !p.account || p.bytes == 0) return;
    tell_gone(p);
    budget_access::node(*p.account).did_not_come(p.bytes);
}

CUOTA_INLINE void loader_slots::arrived(loader_part which) noexcept {
    part const& p = at(which);
    if (p.account && p.bytes != 0) budget_access::node(*p.account).arrived(p.bytes);
}

CUOTA_INLINE void loader_slots::charge_to(budget const& account, loader_part which, label const& who) {
    part const& p = at(which);
    charge_request request{p.bytes, p.granularity, who, std::nullopt};
    bool const is_on_device =
        which == loader_part::device_slab || shape_.options.host_memory.kind() == memory_kind::device;
    if (is_on_device) request.on = device_;
    try {
        charge_coming(budget_access::node(account), p.bytes, request);
    } catch (budget_exceeded const& refused) {
        refusal facts = refused.info();
        facts.max_fit = fitting_size(which, facts.max_fit) * facts.request.unit_bytes;
        throw budget_exceeded{std::move(facts)};
    }
}

CUOTA_INLINE std::size_t loader_slots::fitting_size(loader_part refused, std::size_t room) const {
    auto const room_for = [&](loader_part which) {
        part const& p = at(which);
        if (!p.account) return unlimited;
        // This loader's current memory would shrink as well.
        return which == refused ? room : saturating_add(p.account->available(), p.is_held ? p.bytes : 0);
    };
    auto const& [pinned, slab] = parts_;
    bool const is_one = pinned.account && slab.account && *pinned.account == *slab.account;
    std::size_t const mine = (pinned.is_held ? pinned.bytes : 0) + (slab.is_held ? slab.bytes : 0);
    return largest_fitting(shape_.name, shape_.positions, shape_.fields, shape_.options,
                           size_that_decides(shape_.options),
                           {room_for(loader_part::device_slab), room_for(loader_part::pinned_ring),
                            is_one ? saturating_add(room, mine) : unlimited});
}

CUOTA_INLINE void loader_slots::allocate(loader_part which, source_location where) {
    label const who = label_of(which, where);
    if (which == loader_part::pinned_ring) {
        ring_.emplace(plan().host_slots, plan().host_slot.bytes, shape_.options.host_memory, who,
                      shape_.options.on_pin_failure,
                      staging_writer::device);  // for a dataset that can fill device memory
        is_pinned_ = ring_->is_pinned();
        return;
    }
    slab_ = static_cast<std::byte*>(
        device_memory{device_}.allocate_sync(plan().device_bytes, default_alignment, who));
    for (std::size_t i = 0; i != slots_.size(); ++i) slots_[i].at = slab_ + i * plan().device_slot.bytes;
}

CUOTA_INLINE bool loader_slots::wait_for_work(loader_part which) noexcept {
    bool is_over = rt::drain(*copies_);
    if (which == loader_part::device_slab)
        for (device_slot& slot : slots_) is_over = slot.wait_for_readers() && is_over;
    return is_over;
}

CUOTA_INLINE void loader_slots::free(loader_part which) noexcept {
    if (which == loader_part::pinned_ring) {
        for (device_slot& slot : slots_) slot.forget_arrival();
        ring_.reset();
    } else {
        for (device_slot& slot : slots_) slot.forget_readers();
        device_memory{device_}.deallocate_sync(std::exchange(slab_, nullptr), plan().device_bytes);
    }
    at(which).is_held = false;
}

CUOTA_INLINE void loader_slots::refund(part& p) noexcept {
    if (!p.account || p.bytes == 0) return;
    tell_gone(p);
    p.account->refund(p.bytes);
}

CUOTA_INLINE void loader_slots::tell_gone(part const& p) noexcept {
    ledger& node = budget_access::node(*p.account);
    node.tell_observers([&](budget_observer& o) { o.holds(node, {.which = &p}); });
}

CUOTA_INLINE void loader_slots::drop(loader_part which) noexcept {
    free(which);
    refund(at(which));
}

}  // namespace cuota::inline v0::detail

#endif
