// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Options of a loader, and its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cuota/buffer/staging_ring.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/data/loader/shard.hpp>
#include <cuota/data/loader/slot_layout.hpp>
#include <cuota/data/samplers/sampler.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

namespace cuota::inline v0 {

/// Selects the largest batch, up to all samples, for which the slots fit the budgets' available bytes on construction.
inline constexpr std::size_t automatic_batch = unlimited;
/// Selects the largest loader_options::max_rows likewise.
inline constexpr std::size_t automatic_rows = unlimited;

/// Options of a batch_loader, checked on construction and by plan_loader. Required: `batch_size`, and `max_rows` for ragged fields.
/// Example: examples/train.cpp
struct loader_options {
    std::size_t batch_size = 0;  ///< samples per batch (at most, with `max_rows`), or automatic_batch
    /// Maximum rows of each ragged field in a batch, or automatic_rows. A batch has the most samples within both limits; a single longer
    /// sample is refused by sample_too_long_error.
    std::size_t max_rows = 0;
    std::optional<budget> device_budget{};  ///< of the device slots; nullopt: unlimited
    std::optional<budget> pinned_budget{};  ///< of the pinned slots; nullopt: unlimited
    std::optional<std::uint64_t> seed{};    ///< of a shuffle_sampler; nullopt: dataset order
    std::optional<any_sampler> sampler{};   ///< samples of an epoch and their order
    last_batch_policy last_batch = last_batch_policy::partial;  ///< treatment of the remainder
    cuota::shard shard{};                                       ///< this process; `batch_size` is per process
    std::size_t workers = 1;                                    ///< reading threads
    std::size_t device_slots = 2;  ///< batches on the device; with 1, copies and compute alternate
    std::size_t host_slots = 0;    ///< pinned slots; 0: workers + 2
    /// Memory of the pinned slots, charged only to `pinned_budget`. registered_memory is allocated faster; device_memory is for datasets
    /// that can fill it (kvikio_dataset).
    any_resource host_memory = default_pinned_resource();
    /// For memory that the driver cannot lock: refuse, or report it and use pageable memory.
    pin_failure_policy on_pin_failure = pin_failure_policy::refuse;
    std::optional<device_transform> transform{};  ///< of each batch on the device
    tag name = "loader slots";                    ///< for messages and accounts
    bool time_copies = false;                     ///< two more events per copy
    /// Overwrites each batch with 0xFF bytes (NaN as floats) after all work that used it, to expose stale views.
    bool poison = false;
    bool progress = false;  ///< shows a progress_bar on standard error
    /// Called by each worker, numbered from 0, before it reads. An exception replaces its batches.
    std::function<void(std::size_t worker)> worker_init{};
    /// Reclaim order, as for `reclaimer`: higher first; pools default to 0. If set, a short budget makes the loader free its device or
    /// pinned slots between epochs; starting the next epoch reallocates them, and may be refused.
    std::optional<int> reclaim_priority{};
};

/// Memory of a loader, in bytes: exactly what it allocates.
struct loader_plan {
    std::size_t batch_size = 0;            ///< samples in a full batch
    std::size_t max_rows = 0;              ///< maximum rows of a batch
    std::optional<std::uint64_t> batches;  ///< per epoch; nullopt: determined by rows
    slot_layout host_slot;                 ///< a batch as read
    slot_layout device_slot;               ///< a batch as delivered
    slot_layout scratch;                   ///< the transform's scratch
    std::size_t host_slots = 0;            ///< slots of the ring
    std::size_t device_slots = 0;          ///< batches on the device
    std::size_t staging_bytes = 0;         ///< the transform's input and scratch
    std::size_t device_bytes = 0;          ///< device slots and staging_bytes, rounded to granularity
    std::size_t pinned_bytes = 0;          ///< host slots, rounded likewise
};

namespace detail {

void check_transform(std::string const& name, std::span<field const> fields, device_transform const& wanted);

[[nodiscard]] any_sampler sampler_of(std::string const& name, loader_options const& options);

void check_rows(std::string const& name, std::span<field const> fields, std::size_t rows);

[[nodiscard]] std::size_t samples_in_batch(batch_partition const& deal, std::uint64_t positions,
                                           bool is_by_rows, loader_options const& options);

[[nodiscard]] loader_plan plan_for(std::string const& name, std::uint64_t positions,
                                   std::span<field const> fields, loader_options const& options);

/// Available bytes; `both` limits the sum if the budgets are the same.
struct loader_room {
    std::size_t device = unlimited;
    std::size_t pinned = unlimited;
    std::size_t both = unlimited;
};

using batch_size_of = std::size_t loader_options::*;

/// Returns the largest `size` that fits, up to that in options; 0 if none.
[[nodiscard]] std::size_t largest_fitting(std::string const& name, std::uint64_t positions,
                                          std::span<field const> fields, loader_options options,
                                          batch_size_of size, loader_room const& room);

[[nodiscard]] batch_size_of size_that_decides(loader_options const& options) noexcept;

/// Replaces automatic sizes by the largest that fit, or by 1, which is refused later. Throws: usage_error without a budget, or if both
/// sizes are automatic.
[[nodiscard]] loader_options with_sizes(std::string const& name, std::uint64_t positions,
                                        std::span<field const> fields, loader_options options);

}  // namespace detail

/// Returns the memory that a loader of this dataset would allocate. Allocates, charges and reads nothing.
/// Throws:  usage_error for invalid options.
/// Cost:    with automatic_batch or automatic_rows, a binary search over plans.
/// Threads: any.
/// Example: cuota::plan_loader(dataset, {.batch_size = 256}).device_bytes
template <dataset S>
[[nodiscard]] loader_plan plan_loader(S const& from, loader_options const& options) {
    std::string const& name = from.name();  // extends a value's lifetime
    std::uint64_t const positions = detail::sampler_of(name, options).size(from.size());
    std::span<field const> const fields = from.fields();
    return detail::plan_for(name, positions, fields, detail::with_sizes(name, positions, fields, options));
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_transform(std::string const& name, std::span<field const> fields,
                                  device_transform const& wanted) {
    if (!wanted.run) throw_usage_error("loader of {}: the device_transform has no function to run", {name});
    expect_no_ragged(wanted.output_fields, "output of a device_transform");
    expect_no_ragged(wanted.scratch, "scratch of a device_transform");
    if (!wanted.input_fields.empty() &&
        !std::equal(wanted.input_fields.begin(), wanted.input_fields.end(), fields.begin(), fields.end()))
        throw_usage_error(
            "loader of {}: the device_transform does not match: the dataset has {}, the transform takes {}",
            {name, fields_text(fields), fields_text(wanted.input_fields)});
}

CUOTA_INLINE any_sampler sampler_of(std::string const& name, loader_options const& options) {
    if (options.sampler && options.seed)
        throw_usage_error("loader of {}: seed and sampler cannot be combined; pass the seed to the sampler",
                          {name});
    if (options.sampler) return *options.sampler;
    if (options.seed) return shuffle_sampler{*options.seed};
    return {};
}

CUOTA_INLINE void check_rows(std::string const& name, std::span<field const> fields, std::size_t rows) {
    field const* ragged = nullptr;
    for (std::size_t k = fields.size(); k-- != 0;)
        if (fields[k].is_ragged) ragged = &fields[k];  // finds the first one
    if (ragged != nullptr && rows == 0)
        throw_usage_error(
            "loader of {}: field {} is ragged; set `max_rows`, the maximum number of rows in a batch",
            {name, field_text(*ragged)});
    if (ragged == nullptr && rows != 0)
        throw_usage_error("loader of {}: batches of at most {} rows require a ragged field", {name, rows});
}

CUOTA_INLINE std::size_t samples_in_batch(batch_partition const& deal, std::uint64_t positions,
                                          bool is_by_rows, loader_options const& options) {
    if (!is_by_rows) return static_cast<std::size_t>(std::max<std::uint64_t>(deal.largest(), 1));
    bool const is_any = options.last_batch == last_batch_policy::pad && positions != 0;
    std::uint64_t const most =
        is_any ? options.batch_size : std::min<std::uint64_t>(options.batch_size, positions);
    return static_cast<std::size_t>(std::max<std::uint64_t>(most, 1));
}

CUOTA_INLINE loader_plan plan_for(std::string const& name, std::uint64_t positions,
                                  std::span<field const> fields, loader_options const& options) {
    if (options.batch_size == 0) throw_usage_error("loader of {}: the batch size must be at least 1", {name});
    if (options.workers == 0)
        throw_usage_error("loader of {}: the number of workers must be at least 1", {name});
    if (options.device_slots == 0)
        throw_usage_error("loader of {}: the number of device slots must be at least 1", {name});
    if (options.transform) check_transform(name, fields, *options.transform);
    check_rows(name, fields, options.max_rows);

    loader_plan plan;
    batch_partition const deal{positions, options.batch_size, options.last_batch, options.shard};
    bool const is_by_rows = options.max_rows != 0;
    plan.batch_size = samples_in_batch(deal, positions, is_by_rows, options);
    plan.max_rows = options.max_rows;
    if (!is_by_rows) plan.batches = deal.batches();
    plan.device_slots = options.device_slots;
    plan.host_slot = slot_layout::of(fields, plan.batch_size, name, plan.max_rows);
    plan.device_slot = options.transform
                           ? slot_layout::of(options.transform->output_fields, plan.batch_size, name)
                           : plan.host_slot;
    if (options.transform) plan.scratch = slot_layout::of(options.transform->scratch, plan.batch_size, name);
    auto const checked = [&](std::optional<std::size_t> bytes) {
        return slot_layout::or_too_large(bytes, name);
    };
    plan.host_slots = options.host_slots != 0 ? options.host_slots : checked(checked_add(options.workers, 2));
    std::size_t const slots = checked(checked_mul(plan.device_slot.bytes, plan.device_slots));
    plan.staging_bytes =
        options.transform ? checked(checked_add(plan.host_slot.bytes, plan.scratch.bytes)) : 0;
    std::size_t const slab = checked(checked_add(slots, plan.staging_bytes));
    plan.device_bytes = checked(checked_round_up(slab, device_memory::granularity()));
    std::size_t const ring = checked(checked_mul(plan.host_slot.bytes, plan.host_slots));
    plan.pinned_bytes = checked(checked_round_up(ring, options.host_memory.granularity()));
    return plan;
}

CUOTA_INLINE std::size_t largest_fitting(std::string const& name, std::uint64_t positions,
                                         std::span<field const> fields, loader_options options,
                                         batch_size_of size, loader_room const& room) {
    std::size_t fits = 0;
    std::size_t too_large = options.*size + 1;
    while (fits + 1 < too_large) {
        options.*size = fits + (too_large - fits) / 2;
        loader_plan const plan = plan_for(name, positions, fields, options);
        bool const ok = plan.device_bytes <= room.device && plan.pinned_bytes <= room.pinned &&
                        saturating_add(plan.device_bytes, plan.pinned_bytes) <= room.both;
        (ok ? fits : too_large) = options.*size;
    }
    return fits;
}

CUOTA_INLINE batch_size_of size_that_decides(loader_options const& options) noexcept {
    return options.max_rows != 0 ? &loader_options::max_rows : &loader_options::batch_size;
}

CUOTA_INLINE loader_options with_sizes(std::string const& name, std::uint64_t positions,
                                       std::span<field const> fields, loader_options options) {
    bool const by_rows = options.max_rows == automatic_rows;
    bool const by_samples = options.batch_size == automatic_batch;
    if (!by_rows && !by_samples) return options;
    if (by_rows && by_samples)
        throw_usage_error(
            "loader of {}: automatic_batch and automatic_rows cannot be combined; set one explicitly",
            {name});
    if (!options.device_budget && !options.pinned_budget)
        throw_usage_error("loader of {}: an automatic batch size requires a budget", {name});
    auto const room_of = [](std::optional<budget> const& b) { return b ? b->available() : unlimited; };
    bool const is_one =
        options.device_budget && options.pinned_budget && *options.device_budget == *options.pinned_budget;
    loader_room const room{room_of(options.device_budget), room_of(options.pinned_budget),
                           is_one ? room_of(options.device_budget) : unlimited};
    batch_size_of const size = by_rows ? &loader_options::max_rows : &loader_options::batch_size;
    if (by_rows) {
        check_rows(name, fields, automatic_rows);
        std::size_t const a_row = std::max<std::size_t>(slot_layout::of(fields, 0, name).row_bytes, 1);
        std::size_t const slots = std::max<std::size_t>(options.device_slots, 1);
        // An upper bound that ignores other memory.
        options.max_rows = std::max<std::size_t>(std::min(room.device / slots, room.pinned) / a_row, 1);
    } else options.batch_size = static_cast<std::size_t>(std::max<std::uint64_t>(positions, 1));
    options.*size = std::max<std::size_t>(largest_fitting(name, positions, fields, options, size, room), 1);
    return options;
}

}  // namespace cuota::inline v0::detail

#endif
