// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One rank's gradients, and the kernels that simulate its backward pass.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/for_each_index.hpp>

#include "support/rank_threads.hpp"

namespace support {

struct write_parts {
    cuota::device_span<float const> from;
    cuota::device_span<float> to;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const { to[i] = from[i]; }
};

class gradient_set {
public:
    gradient_set(std::size_t rank, std::vector<std::size_t> counts)
        : rank_{rank}, counts_{std::move(counts)} {
        for (std::size_t const count : counts_)
            gradients_.emplace_back(count, stream_, cuota::device_memory{}, cuota::tag{"gradient"});
    }

    /// Enqueues the kernel that computes a gradient of a step.
    void make(std::size_t gradient, std::size_t step = 0) {
        std::vector<float> values;
        for (std::size_t i = 0; i != counts_[gradient]; ++i)
            values.push_back(part_of_sum(rank_, gradient, i, step));
        cuota::device_buffer<float> const source{values, stream_, cuota::device_memory{}};
        cuota::for_each_index(stream_, values.size(),
                              write_parts{source.read(stream_), gradients_[gradient].write(stream_)},
                              "backward");
    }
    [[nodiscard]] cuota::device_buffer<float>& operator[](std::size_t gradient) {
        return gradients_[gradient];
    }
    [[nodiscard]] std::size_t size() const { return counts_.size(); }
    [[nodiscard]] std::vector<std::vector<float>> values() {
        std::vector<std::vector<float>> all;
        for (auto const& g : gradients_) all.push_back(g.to_vector(stream_));
        return all;
    }

private:
    std::size_t rank_;
    std::vector<std::size_t> counts_;
    cuota::stream stream_;
    std::vector<cuota::device_buffer<float>> gradients_;
};

}  // namespace support
