// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A recording in the shape of a training, for pictures of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/report/recording/recording.hpp>

namespace svg_samples {

using namespace cuota::literals;

/// Weights and optimizer states from before the recording, activations that grow and shrink with each step, workspaces, staging slots, one
/// refusal, and segments that contain all of it. About `events` events.
class training {
public:
    explicit training(std::size_t events, std::size_t layers = 6) {
        r_.sources.resize(5);
        r_.sources[0].name = "program";
        r_.sources[1] = {cuota::source_kind::budget, "gpu 0", 0, cuota::memory_kind::device, 24_GiB};
        r_.sources[2] = {cuota::source_kind::budget, "trainer", 0, cuota::memory_kind::device, 8_GiB};
        r_.sources[2].parent = 1;
        r_.sources[3] = {cuota::source_kind::pool, "main pool", 0};
        r_.sources[3].budget = 2;
        r_.sources[3].pool = 0;
        r_.sources[4] = {cuota::source_kind::resource, "pinned staging", {}, cuota::memory_kind::pinned};
        r_.sites = {{},
                    {"weights", {"model.cpp", 12}},
                    {"adam moments", {"adam.cpp", 30}},
                    {"activations", {"layer.cpp", 71}},
                    {"gradients", {"layer.cpp", 94}},
                    {"workspace", {"conv.cpp", 8}},
                    {"batch slots", {"loader.cpp", 55}},
                    {"logits & loss", {"loss.cpp", 20}}};
        r_.dropped = 1234;
        older(1, 900_MiB);
        older(2, 1800_MiB);
        say(cuota::event_kind::segment_allocated, 3, 0, 1ULL << 40, 3200_MiB);
        reserved_ = 3200_MiB;
        for (std::size_t i = 0; i != 3; ++i) take(6, 96_MiB);
        std::size_t const steps = events / (layers * 7 + 6) + 1;
        for (std::size_t i = 0; i != steps; ++i) step(layers, i, steps);
    }
    [[nodiscard]] cuota::recording get() && { return std::move(r_); }

private:
    void older(std::uint32_t site, std::size_t bytes) {
        if (r_.final_snapshot.pools.empty()) {
            r_.final_snapshot.pools.resize(1);
            r_.final_snapshot.pools[0].segments = {{1ULL << 33, 2700_MiB, false, {}}};
        }
        cuota::block_info b;
        b.address = (1ULL << 33) + (site - 1) * 900_MiB;
        b.size = b.requested = bytes;
        b.use = cuota::block_use::live;
        b.name = r_.sites[site].name;
        b.where = r_.sites[site].where;
        r_.final_snapshot.pools[0].segments[0].blocks.push_back(b);
    }
    void say(cuota::event_kind kind, std::uint16_t source, std::uint32_t site, std::uint64_t address,
             std::size_t bytes) {
        now_ += 40'000 + (seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL) % 90'000;
        r_.events.push_back({.kind = kind,
                             .source = source,
                             .site = site,
                             .at = now_,
                             .address = address,
                             .bytes = bytes,
                             .size = bytes});
    }
    std::uint64_t take(std::uint32_t site, std::size_t bytes) {
        live_ += bytes;
        if (live_ + 100_MiB > reserved_) {
            say(cuota::event_kind::segment_allocated, 3, 0, (1ULL << 40) + reserved_, 512_MiB);
            reserved_ += 512_MiB;
        }
        next_ += 1_GiB;
        say(cuota::event_kind::allocated, 3, site, next_, bytes);
        return next_;
    }
    void give(std::uint32_t site, std::uint64_t address, std::size_t bytes) {
        live_ -= bytes;
        say(cuota::event_kind::free_requested, 3, site, address, bytes);
    }
    void step(std::size_t layers, std::size_t index, std::size_t count) {
        say(cuota::event_kind::step_begun, 3, 0, 0, 0);
        std::vector<std::uint64_t> kept;
        for (std::size_t i = 0; i != layers; ++i) {
            kept.push_back(take(3, activation(i, layers)));
            auto const w = take(5, 200_MiB);
            give(5, w, 200_MiB);
        }
        auto const loss = take(7, 300_MiB);
        if (index == count / 2) say(cuota::event_kind::refused, 2, 5, 0, 3_GiB);
        std::vector<std::uint64_t> gradients;
        for (std::size_t i = layers; i-- != 0;) {
            gradients.push_back(take(4, 900_MiB / layers));
            give(3, kept[i], activation(i, layers));
        }
        give(7, loss, 300_MiB);
        for (std::uint64_t const g : gradients) give(4, g, 900_MiB / layers);
        say(cuota::event_kind::step_ended, 3, 0, 0, 0);
        now_ += 400'000;
    }
    [[nodiscard]] static std::size_t activation(std::size_t layer, std::size_t layers) {
        return (1800_MiB / layers) * (layer % 3 + 1) / 2;
    }

    cuota::recording r_;
    std::uint64_t now_ = 2'000'000;
    std::uint64_t seed_ = 1;
    std::uint64_t next_ = 1ULL << 44;
    std::size_t live_ = 0;
    std::size_t reserved_ = 0;
};

}  // namespace svg_samples
