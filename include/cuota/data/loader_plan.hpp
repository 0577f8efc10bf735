// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a loader will hold, byte for byte, before it takes anything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/batch_deal.hpp>
#include <cuota/data/device_transform.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/sampler.hpp>
#include <cuota/data/slot_layout.hpp>
#include <cuota/data/source.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

namespace cuota::inline v0 {

/// As loader_options::batch: the largest whose slots fit what the loader's budgets have free when it is made, of all
/// samples at most. loader_plan::batch says which that is.
inline constexpr std::size_t automatic_batch = unlimited;

/// How a loader loads. Only `batch` must be given.
struct loader_options {
    std::size_t batch = 0;                 ///< samples in a batch, or automatic_batch
    std::optional<budget> device{};        ///< charged for the device slots; none: not limited
    std::optional<budget> pinned{};        ///< charged for the pinned slots; none: not limited
    std::optional<std::uint64_t> seed{};   ///< short for a shuffle_sampler; none: in the source's order
    std::optional<any_sampler> sampler{};  ///< which samples an epoch takes, and in which order
    last_batch last = last_batch::partial;
    shard part{};             ///< of several processes that share each epoch; `batch` is this one's
    std::size_t workers = 1;  ///< threads that read; the order of samples does not depend on them
    std::size_t device_slots =
        2;  ///< batches on the device at once: with one, copying and computing take turns
    std::size_t host_slots = 0;  ///< pinned slots; 0: workers + 2
    any_resource host_memory =
        pinned_memory{};  ///< of the pinned slots, not charged by itself; registered_memory is sooner there
    /// When the driver cannot lock that much: refuse, or make do with ordinary memory, which is reported, and in the stats.
    pin_failure on_pin_failure = pin_failure::refuse;
    std::optional<device_transform>
        transform{};            ///< what becomes of each batch on the device; none: as the source has it
    tag name = "loader slots";  ///< for messages and accounts
    bool time_copies = false;   ///< for batch_loader::stats: two more events a copy
    bool progress = false;      ///< a line on standard error while an epoch goes on, where that is a terminal
    /// Called by each worker, numbered from 0, before it reads: to bind it to processors, for instance. What it throws
    /// comes in place of the worker's batches.
    std::function<void(std::size_t worker)> worker_start{};
    /// Who gives back first when a budget is short: the higher, as for `reclaimer`; pools have 0 if they do not say.
    /// Set: between epochs the loader gives its device slots and its pinned slots back, each as a whole, to the budget
    /// that is short, and takes them again when the next epoch starts, which may be refused.
    /// None: it keeps them as long as it lives, and no epoch is refused.
    std::optional<int> reclaim_priority{};
};

/// The memory of a loader. Bytes; what it takes is exactly this, all of it on construction, and again at an epoch's
/// start if it gave back (loader_options::reclaim_priority).
struct loader_plan {
    std::size_t batch = 0;      ///< samples in a full batch
    std::uint64_t batches = 0;  ///< in an epoch
    slot_layout host_slot{};    ///< a batch as the source has it, and as it is copied
    slot_layout device_slot{};  ///< a batch as it is delivered: the same if there is no transform
    slot_layout scratch{};      ///< what its transform has besides, for one batch
    std::size_t host_slots = 0;
    std::size_t device_slots = 0;
    std::size_t arrival_bytes =
        0;  ///< on the device, where a batch waits for its transform, with that scratch
    std::size_t device_bytes = 0;  ///< all slots, and that
    std::size_t pinned_bytes = 0;
};

namespace detail {

inline void check_transform(std::string const& name, std::span<field const> fields,
                            device_transform const& wanted) {
    if (!wanted.run)
        throw misuse{"a loader of " + name + " was given a device_transform that has nothing to run"};
    if (!wanted.takes.empty() && !std::ranges::equal(wanted.takes, fields))
        throw misuse{"a loader of " + name + ", which has " + fields_text(fields) +
                     ", was given a device_transform of " + fields_text(wanted.takes)};
}

// Throws: misuse for two orders at once.
[[nodiscard]] inline any_sampler sampler_of(std::string const& name, loader_options const& options) {
    if (options.sampler && options.seed)
        throw misuse{"a loader of " + name + " was given a seed and a sampler; give the seed to the sampler"};
    if (options.sampler) return *options.sampler;
    if (options.seed) return shuffle_sampler{*options.seed};
    return {};
}

/// Of an epoch that has so many positions.
[[nodiscard]] inline loader_plan plan_for(std::string const& name, std::uint64_t positions,
                                          std::span<field const> fields, loader_options const& options) {
    if (options.batch == 0) throw misuse{"a loader of " + name + " was given a batch of 0 samples"};
    if (options.workers == 0) throw misuse{"a loader of " + name + " was given 0 workers"};
    if (options.device_slots == 0) throw misuse{"a loader of " + name + " was given 0 device slots"};
    if (options.transform) check_transform(name, fields, *options.transform);

    loader_plan plan;
    batch_deal const deal{positions, options.batch, options.last, options.part};
    // A batch that is never filled would only hold memory.
    plan.batch = static_cast<std::size_t>(std::max<std::uint64_t>(deal.largest(), 1));
    plan.batches = deal.batches();
    plan.device_slots = options.device_slots;
    plan.host_slots = options.host_slots != 0 ? options.host_slots : options.workers + 2;
    plan.host_slot = slot_layout::of(fields, plan.batch, name);
    plan.device_slot =
        options.transform ? slot_layout::of(options.transform->fields, plan.batch, name) : plan.host_slot;
    if (options.transform) plan.scratch = slot_layout::of(options.transform->scratch, plan.batch, name);
    auto const checked = [&](std::optional<std::size_t> bytes) {
        return slot_layout::or_too_large(bytes, name);
    };
    std::size_t const slots = checked(checked_mul(plan.device_slot.bytes, plan.device_slots));
    plan.arrival_bytes =
        options.transform ? checked(checked_add(plan.host_slot.bytes, plan.scratch.bytes)) : 0;
    std::size_t const slab = checked(checked_add(slots, plan.arrival_bytes));
    plan.device_bytes = checked(checked_round_up(slab, device_memory::granule()));
    std::size_t const ring = checked(checked_mul(plan.host_slot.bytes, plan.host_slots));
    plan.pinned_bytes = checked(checked_round_up(ring, options.host_memory.granule()));
    return plan;
}

/// The largest batch whose plan fits both rooms, and all of it the third; 0 when none does.
[[nodiscard]] inline std::size_t largest_batch(std::string const& name, std::uint64_t positions,
                                               std::span<field const> fields, loader_options options,
                                               std::size_t device_room, std::size_t pinned_room,
                                               std::size_t room_for_both = unlimited) {
    std::size_t fits = 0;
    std::size_t too_large = options.batch + 1;
    while (fits + 1 < too_large) {
        options.batch = fits + (too_large - fits) / 2;
        loader_plan const plan = plan_for(name, positions, fields, options);
        bool const ok = plan.device_bytes <= device_room && plan.pinned_bytes <= pinned_room &&
                        saturating_add(plan.device_bytes, plan.pinned_bytes) <= room_for_both;
        (ok ? fits : too_large) = options.batch;
    }
    return fits;
}

/// The options with a number in place of automatic_batch; 1 when none fits, which is refused then as such a batch is.
/// Throws: misuse when there is no budget to fit.
[[nodiscard]] inline loader_options with_batch(std::string const& name, std::uint64_t positions,
                                               std::span<field const> fields, loader_options options) {
    if (options.batch != automatic_batch) return options;
    if (!options.device && !options.pinned)
        throw misuse{"a loader of " + name +
                     " was to choose its batch by what fits, and was given no budget"};
    auto const room_of = [](std::optional<budget> const& b) { return b ? b->room() : unlimited; };
    bool const is_one = options.device && options.pinned && *options.device == *options.pinned;
    options.batch = static_cast<std::size_t>(std::max<std::uint64_t>(positions, 1));
    options.batch = std::max<std::size_t>(largest_batch(name, positions, fields, options,
                                                        room_of(options.device), room_of(options.pinned),
                                                        is_one ? room_of(options.device) : unlimited),
                                          1);
    return options;
}

}  // namespace detail

/// The memory that a loader of this source would take. Takes nothing.
/// Throws: misuse for options that make no loader.
template <source S>
[[nodiscard]] loader_plan plan_loader(S const& from, loader_options const& options) {
    std::string const name{from.name()};
    std::uint64_t const positions = detail::sampler_of(name, options).size(from.size());
    std::span<field const> const fields = from.fields();
    return detail::plan_for(name, positions, fields, detail::with_batch(name, positions, fields, options));
}

}  // namespace cuota::inline v0
