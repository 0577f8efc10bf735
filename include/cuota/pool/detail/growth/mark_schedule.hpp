// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// When frees of a growing pool record events.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// Decides after which frees an event is recorded on busy streams (stream_order::look_and_mark), so that a later growth finds them complete:
/// at most once for 64 MiB and for 1/16 of the pool, and until four times the pool was freed since it last grew. `freed`: the sum of the
/// bytes of all frees so far. Requires the pool's lock.
class mark_schedule {
public:
    void note_growth(std::size_t freed, std::size_t reserved) noexcept { until_ = freed + 4 * reserved; }
    /// Returns whether an event is due, and counts it as recorded. Cost: two comparisons if it is not.
    [[nodiscard]] bool is_due(std::size_t freed, std::size_t reserved) noexcept {
        if (freed < next_ || freed >= until_) [[likely]]
            return false;
        next_ = freed + std::max(least, reserved / 16);
        return true;
    }

private:
    static constexpr std::size_t least = std::size_t{64} << 20;
    std::size_t next_ = least;
    std::size_t until_ = 0;
};

}  // namespace cuota::inline v0::detail
