// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state.hpp"

namespace cuota::inline v0::simulator {

struct advice_state {
    int read_mostly = 0;
    std::uint32_t accessed_by = 0;  ///< one bit for each device, and one above them for the host
    cudaMemLocation preferred, prefetched;

    friend bool operator==(advice_state const& a, advice_state const& b) {
        auto const same = [](cudaMemLocation const& x, cudaMemLocation const& y) {
            return x.type == y.type && x.id == y.id;
        };
        return a.read_mostly == b.read_mostly && a.accessed_by == b.accessed_by &&
               same(a.preferred, b.preferred) && same(a.prefetched, b.prefetched);
    }
};

/// Each entry applies up to the next one.
struct advice {
    std::map<std::uintptr_t, advice_state> from;
};

}  // namespace cuota::inline v0::simulator
