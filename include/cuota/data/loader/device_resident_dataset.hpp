// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Data that is transferred to the device once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/detail/loader/gather_rows.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/data/loader/loader_plan.hpp>
#include <cuota/data/loader/slot_layout.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// All samples of a dataset in device memory. Its loaders transfer 8 bytes per sample and gather on the device.
///
///     cuota::device_resident_dataset const images{dataset, options};
///     cuota::batch_loader loader = images.loader(options);
///
/// Samples are read once, in the gather_context of epoch 0. Batches, order and loader state equal those of a loader of the dataset. Copies
/// and loaders share the memory.
/// Threads: any.
/// Cost:    `bytes()` of device memory; construction waits for one pass over the dataset.
class device_resident_dataset {
public:
    /// Reads the dataset by a temporary loader with the memory and workers of these options. The samples are charged to `how.device_budget`
    /// if set.
    /// Throws: budget_exceeded, out_of_memory, errors of reading. On failure, nothing is held.
    template <dataset S>
    device_resident_dataset(S from, loader_options const& how,
                            source_location where = source_location::current())
        : device_resident_dataset{std::string{from.name()}, from.size(), from.fields(), how, where} {
        loader_options const whole = to_read(from, how, sample_bytes());
        batch_loader reads{std::move(from), whole, where};
        fill(reads);
    }

    [[nodiscard]] std::uint64_t size() const noexcept;             ///< samples
    [[nodiscard]] std::span<field const> fields() const noexcept;  ///< of each sample
    [[nodiscard]] std::string const& name() const noexcept;        ///< the dataset's
    [[nodiscard]] std::size_t bytes() const noexcept;              ///< in device memory

    /// Returns a loader of these samples; a transform receives them as from the dataset.
    /// Throws: as batch_loader; usage_error while another device is current.
    [[nodiscard]] batch_loader loader(loader_options how,
                                      source_location where = source_location::current()) const;

    /// Returns the peak device bytes of a dataset's data and a loader of it, while reading or afterwards. Throws: usage_error for invalid
    /// options or on overflow.
    template <dataset S>
    [[nodiscard]] static std::size_t bytes_for(S const& from, loader_options how) {
        std::string const name{from.name()};
        std::span<field const> const fields = from.fields();
        slot_layout const all = layout_of(fields, from.size(), name);
        if (how.batch_size == automatic_batch) how.batch_size = 1;  // an automatic batch uses the rest
        std::size_t const reading = plan_loader(from, to_read(from, how, all.sample_bytes)).device_bytes;
        return bytes_with(all.bytes, reading, fields, from.size(), name, std::move(how));
    }

private:
    struct state;

    device_resident_dataset(std::string name, std::uint64_t samples, std::span<field const> fields,
                            loader_options const& how, source_location where);
    void fill(batch_loader& reads);
    [[nodiscard]] std::size_t sample_bytes() const noexcept;

    [[nodiscard]] static slot_layout layout_of(std::span<field const> fields, std::uint64_t samples,
                                               std::string const& name);

    // Reads in order, in batches no larger than saturates the link.
    template <dataset S>
    [[nodiscard]] static loader_options to_read(S const& from, loader_options const& how,
                                                std::size_t sample_bytes) {
        loader_options whole = in_order(how);
        if (how.batch_size == automatic_batch) whole.batch_size = plan_loader(from, whole).batch_size;
        whole.batch_size = enough_at_once(whole.batch_size, sample_bytes);
        return whole;
    }
    [[nodiscard]] static loader_options in_order(loader_options how);
    [[nodiscard]] static std::size_t bytes_with(std::size_t all, std::size_t reading,
                                                std::span<field const> fields, std::uint64_t samples,
                                                std::string const& name, loader_options how);
    [[nodiscard]] static std::size_t enough_at_once(std::size_t batch, std::size_t sample_bytes) noexcept;

    // Returns a transform that gathers into the batch, or into the scratch of `then`.
    [[nodiscard]] static device_transform gathered(detail::light_shared_ptr<state const> from,
                                                   std::span<field const> fields, std::string const& name,
                                                   std::optional<device_transform> then);

    template <class Room>
    static void gather(state const& from, transform_context const& job, Room room_for);

    detail::light_shared_ptr<state> state_;
};

/// A loader, and its dataset's bytes on the device.
struct cached_loader {
    batch_loader loader;       ///< of the resident samples, or the dataset
    std::size_t cached_bytes;  ///< all samples; 0: streamed
};

/// Returns a loader that keeps the data on the device if it now fits `how.device_budget` together with the loader's slots, and streams it
/// otherwise, in the same order and batches. Reclaims nothing for the data.
/// Throws:  as batch_loader; usage_error without `how.device_budget`.
/// Threads: any. Cost: as device_resident_dataset or batch_loader.
/// Example: auto [loader, cached] = cuota::cached_on_device(dataset, options);
template <dataset S>
[[nodiscard]] cached_loader cached_on_device(S from, loader_options const& how,
                                             source_location where = source_location::current()) {
    if (!how.device_budget)
        detail::throw_usage_error(
            where, "device_resident_dataset of {}: keeping the data only if it fits requires a budget",
            {from.name()});
    bool const is_ragged = detail::ragged_count(from.fields()) != 0;  // ragged datasets are streamed
    if (!is_ragged && device_resident_dataset::bytes_for(from, how) <= how.device_budget->available()) try {
            device_resident_dataset const data{from, how, where};
            return {data.loader(how, where), data.bytes()};
        } catch (out_of_memory const&) {}  // no longer fits, or the driver has less: stream it
    return {batch_loader{std::move(from), how, where}, 0};
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <cstring>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/callable_dataset.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/rt/copy.hpp>

namespace cuota::inline v0::detail {

/// Returns the sample indices as a dataset.
[[nodiscard]] inline auto sample_numbers(std::string const& name, std::uint64_t size) {
    return callable_dataset{
        name,
        size,
        {{"sample", element_type::u64, {}}},
        [](std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) {
            if (!samples.empty()) std::memcpy(out[0].data(), samples.data(), samples.size_bytes());
        }};
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

struct device_resident_dataset::state {
    state(std::string called, std::uint64_t samples, std::span<field const> of, loader_options const& how,
          source_location here);
    state(state const&) = delete;
    state& operator=(state const&) = delete;
    ~state() { memory.deallocate_sync(at, layout.bytes); }

    void fill(batch_loader& reads);

    std::string name;
    std::uint64_t size;
    std::vector<field> fields;
    slot_layout layout;
    device where = device::current();
    any_resource memory;
    std::byte* at = nullptr;
};

template <class Room>
void device_resident_dataset::gather(state const& from, transform_context const& job, Room room_for) {
    std::uint64_t const* const rows = job.in<std::uint64_t>().data();
    for (std::size_t k = 0; k != from.fields.size(); ++k)
        detail::gather_rows_of(from.fields[k].bytes(), job.stream(), from.at + from.layout.offsets[k], rows,
                               room_for(k).data(), job.size());
}

CUOTA_INLINE device_resident_dataset::device_resident_dataset(std::string name, std::uint64_t samples,
                                                              std::span<field const> fields,
                                                              loader_options const& how,
                                                              source_location where)
    : state_{detail::light_shared_ptr<state>::make(std::move(name), samples, fields, how, where)} {}

CUOTA_INLINE void device_resident_dataset::fill(batch_loader& reads) { state_->fill(reads); }

CUOTA_INLINE std::uint64_t device_resident_dataset::size() const noexcept { return state_->size; }

CUOTA_INLINE std::span<field const> device_resident_dataset::fields() const noexcept {
    return state_->fields;
}

CUOTA_INLINE std::string const& device_resident_dataset::name() const noexcept { return state_->name; }

CUOTA_INLINE std::size_t device_resident_dataset::bytes() const noexcept { return state_->layout.bytes; }

CUOTA_INLINE std::size_t device_resident_dataset::sample_bytes() const noexcept {
    return state_->layout.sample_bytes;
}

CUOTA_INLINE batch_loader device_resident_dataset::loader(loader_options how, source_location where) const {
    if (device const here = device::current(); here != state_->where)
        detail::throw_usage_error(
            where, "device_resident_dataset of {}: the data is on device {}, but the current device is {}",
            {name(), state_->where.ordinal(), here.ordinal()});
    how.transform = gathered(state_, state_->fields, name(), std::move(how.transform));
    return {detail::sample_numbers(name(), size()), how, where};
}

CUOTA_INLINE device_resident_dataset::state::state(std::string called, std::uint64_t samples,
                                                   std::span<field const> of, loader_options const& how,
                                                   source_location here)
    : name{std::move(called)},
      size{samples},
      fields{of.begin(), of.end()},
      layout{layout_of(fields, samples, name)},
      memory{how.device_budget ? any_resource{budgeted<device_memory>{*how.device_budget}}
                               : any_resource{device_memory{}}} {
    label const who{tag::named("data of " + name), here};
    at = static_cast<std::byte*>(memory.allocate_sync(layout.bytes, default_alignment, who));
}

CUOTA_INLINE void device_resident_dataset::state::fill(batch_loader& reads) {
    stream const s;
    for (batch b : reads.epoch(0)) {
        std::size_t const first = b.samples().front();
        for (std::size_t k = 0; k != fields.size(); ++k) {
            auto const from = b.view<std::byte>(s, k);
            rt::copy_on_device(at + layout.offsets[k] + first * fields[k].bytes(), from.data(), from.size(),
                               s);
        }
    }
    s.synchronize();
}

CUOTA_INLINE slot_layout device_resident_dataset::layout_of(std::span<field const> fields,
                                                            std::uint64_t samples, std::string const& name) {
    detail::expect_no_ragged(fields, "device_resident_dataset of " + name);
    return slot_layout::of(fields, samples, "all samples of " + name);
}

CUOTA_INLINE loader_options device_resident_dataset::in_order(loader_options how) {
    how.seed.reset();
    how.sampler.reset();
    how.transform.reset();
    how.shard = {};
    how.last_batch = last_batch_policy::partial;
    how.reclaim_priority.reset();
    return how;
}

CUOTA_INLINE std::size_t device_resident_dataset::bytes_with(std::size_t all, std::size_t reading,
                                                             std::span<field const> fields,
                                                             std::uint64_t samples, std::string const& name,
                                                             loader_options how) {
    how.transform = gathered({}, fields, name, std::move(how.transform));
    std::size_t const loading = plan_loader(detail::sample_numbers(name, samples), how).device_bytes;
    return slot_layout::or_too_large(checked_add(all, std::max(reading, loading)), name);
}

CUOTA_INLINE std::size_t device_resident_dataset::enough_at_once(std::size_t batch,
                                                                 std::size_t sample_bytes) noexcept {
    constexpr std::size_t enough = std::size_t{32} << 20;
    return std::min(batch, std::max<std::size_t>(enough / std::max<std::size_t>(sample_bytes, 1), 1));
}

CUOTA_INLINE device_transform device_resident_dataset::gathered(detail::light_shared_ptr<state const> from,
                                                                std::span<field const> of,
                                                                std::string const& name,
                                                                std::optional<device_transform> then) {
    std::vector<field> fields{of.begin(), of.end()};
    if (!then)
        return {std::move(fields),
                [from](transform_context const& job) {
                    gather(*from, job, [&](std::size_t k) { return job.out<std::byte>(k); });
                },
                {},
                {}};
    detail::check_transform(name, fields, *then);
    std::size_t const count = fields.size();
    device_transform made{then->output_fields, {}, {}, std::move(fields)};
    made.scratch.insert(made.scratch.end(), then->scratch.begin(), then->scratch.end());
    made.run = [from, count, run = std::move(then->run)](transform_context const& job) {
        gather(*from, job, [&](std::size_t k) { return job.scratch<std::byte>(k); });
        run(job.after(count));
    };
    return made;
}

}  // namespace cuota::inline v0

#endif
