// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Configuration of a batch_loader: fields, sample order, and plan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>
#include <cuota/data/loader/loader_plan.hpp>

namespace cuota::inline v0::detail {

struct loader_config {
    loader_config(any_dataset const& from, loader_options const& how);

    /// Draws consecutive positions, which wrap around at the epoch's end.
    void draw(std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const;

    [[nodiscard]] sample_list list_with_room() const;

    std::string name;
    std::uint64_t samples;
    std::vector<field> fields;     // of the dataset
    std::vector<field> delivered;  // of a batch
    any_sampler order;
    std::uint64_t seed;  // for gather_context
    std::uint64_t positions;
    loader_options options;
    loader_plan plan;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE loader_config::loader_config(any_dataset const& from, loader_options const& how)
    : name{from.name()},
      samples{from.size()},
      fields{from.fields().begin(), from.fields().end()},
      delivered{how.transform ? how.transform->output_fields : fields},
      order{sampler_of(name, how)},
      seed{how.seed ? *how.seed : order.fingerprint()},
      positions{order.size(samples)},
      options{with_sizes(name, positions, fields, how)},
      plan{plan_for(name, positions, fields, options)} {
    if (options.host_memory.kind() == memory_kind::device && !from.can_fill_device_memory())
        throw_usage_error(
            "loader of {}: host_memory is device memory, but this dataset can only fill host memory", {name});
}

CUOTA_INLINE void loader_config::draw(std::uint64_t epoch, std::uint64_t first,
                                      std::span<std::uint64_t> out) const {
    while (!out.empty()) {
        first %= positions;
        auto const here = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), positions - first));
        order.draw(samples, epoch, first, out.first(here));
        out = out.subspan(here);
        first += here;
    }
}

CUOTA_INLINE sample_list loader_config::list_with_room() const {
    return sample_list::with_room(plan.batch_size, ragged_count(fields));
}

}  // namespace cuota::inline v0::detail

#endif
