// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Reads batches of numbered_source with work on a stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/runtime/for_each_index.hpp>

#include "support/catch.hpp"

namespace support {

struct copy_numbers {
    cuota::device_span<std::uint32_t const> from;
    cuota::device_span<std::uint32_t> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};

/// Returns the first field's number of each sample of the batch, as read by a kernel on the stream.
inline std::vector<std::uint32_t> seen_by(cuota::stream const& s, cuota::batch const& b) {
    std::size_t const width = b.fields()[0].count();
    cuota::device_buffer<std::uint32_t> out{b.size() * width, s, cuota::device_memory{}, cuota::no_init};
    cuota::for_each_index(s, out.size(), copy_numbers{b.view<std::uint32_t>(s), out.write(s)});
    std::vector<std::uint32_t> const all = out.to_vector(s);
    std::vector<std::uint32_t> first;
    for (std::size_t i = 0; i < all.size(); i += width) {
        CHECK(std::all_of(all.begin() + static_cast<std::ptrdiff_t>(i),
                          all.begin() + static_cast<std::ptrdiff_t>(i + width),
                          [&](std::uint32_t v) { return v == all[i]; }));
        first.push_back(all[i]);
    }
    return first;
}

/// Returns the samples of all remaining batches of an epoch, in order.
inline std::vector<std::uint64_t> order_of(cuota::epoch_range epoch) {
    std::vector<std::uint64_t> order;
    while (std::optional<cuota::batch> const b = epoch.next())
        order.insert(order.end(), b->samples().begin(), b->samples().end());
    return order;
}

}  // namespace support
