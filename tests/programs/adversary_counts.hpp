// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Kinds of devices for programs beside an adversary, and the counts of what the programs saw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/rounds.hpp"
#include "support/sanitizer.hpp"

namespace adversary {

using namespace cuota::literals;
namespace sim = cuota::simulator;

enum class device_kind {
    discrete,
    unified,
    soft_limit,
    hard_limit,
    small_slice,
    held_by_driver,
    refuses_below_free
};
inline constexpr device_kind all_kinds[] = {device_kind::discrete,          device_kind::unified,
                                            device_kind::soft_limit,        device_kind::hard_limit,
                                            device_kind::small_slice,       device_kind::held_by_driver,
                                            device_kind::refuses_below_free};
inline constexpr int kinds = static_cast<int>(std::size(all_kinds));

[[nodiscard]] inline sim::options shape_of(device_kind kind) {
    return {.capacity = kind == device_kind::small_slice ? 24_MiB : 96_MiB,
            .is_integrated = kind == device_kind::unified};
}

/// Returns the number of programs on each kind of device: CUOTA_ADVERSARY, or `usual`, or a tenth of that where programs are slow, and half
/// of that in short forms.
[[nodiscard]] inline std::size_t programs_of_each_kind(std::size_t usual) {
    if (char const* const wanted = std::getenv("CUOTA_ADVERSARY")) return std::strtoull(wanted, nullptr, 10);
    bool const is_slow = support::under_thread_sanitizer || support::under_address_sanitizer ||
                         std::getenv("CUOTA_SIM_CHECKS") || std::getenv("CUOTA_SIM_SCHEDULE");
    return (is_slow ? usual / 10 : usual) / (support::divisor() > 1 ? 2 : 1);
}

struct counts {
    std::size_t requests = 0, refusals = 0, driver_refusals = 0, judged = 0;
    std::size_t disturbed = 0;     // refusals of requests that were granted once others had changed
    std::size_t contradicted = 0;  // refusals of requests that fit once idle memory was released
    std::size_t over_soft = 0;     // requests that were granted above the soft limit
    std::size_t unequal = 0;       // the budget's bytes were not those of the simulator
    std::size_t lost = 0;          // programs in which the driver kept a part of a launch that it refused
    std::size_t frames = 0, steps = 0, smaller_steps = 0, launches = 0, batches = 0;
    std::string first{};

    void note(std::size_t& kind, std::string const& text) {
        ++kind;
        if (first.empty()) first = text;
    }
    void add(counts const& other) {
        for (auto const of :
             {&counts::requests, &counts::refusals, &counts::driver_refusals, &counts::judged,
              &counts::disturbed, &counts::contradicted, &counts::over_soft, &counts::unequal, &counts::lost,
              &counts::frames, &counts::steps, &counts::smaller_steps, &counts::launches, &counts::batches})
            this->*of += other.*of;
        if (first.empty()) first = other.first;
    }
    [[nodiscard]] std::string text() const {
        return std::to_string(requests) + " requests, " + std::to_string(refusals) + " refusals, " +
               std::to_string(driver_refusals) + " by the driver, " + std::to_string(disturbed) +
               " disturbed, " + std::to_string(judged) + " judged, " + std::to_string(lost) +
               " with lost bytes; " + std::to_string(frames) + " frames, " + std::to_string(steps) +
               " steps, " + std::to_string(smaller_steps) + " of them in smaller parts, " +
               std::to_string(launches) + " launches, " + std::to_string(batches) + " batches";
    }
};

/// Calls run(seed, counts) for each program on a device of that kind, and requires that each was right. Returns the counts of all.
template <class Run>
[[nodiscard]] counts require_right(device_kind kind, std::size_t programs, Run run) {
    counts seen;
    for (std::uint64_t seed = 1; seed <= programs; ++seed) {
        support::machine const machine{shape_of(kind)};
        run(seed, seen);
        INFO("kind " << static_cast<int>(kind) << ", seed " << seed << ": " << seen.first);
        REQUIRE(seen.contradicted == 0);
        REQUIRE(seen.unequal == 0);
        REQUIRE(seen.over_soft == 0);
    }
    if (std::getenv("CUOTA_ADVERSARY")) WARN("kind " << static_cast<int>(kind) << ": " << seen.text());
    return seen;
}

}  // namespace adversary
