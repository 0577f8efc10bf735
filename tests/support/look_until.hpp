// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <thread>

namespace support {

/// Spins until `ready()` returns true, for two threads that alternate thousands of times. Yields rarely: on a loaded machine each yield
/// costs a time slice.
template <class Ready>
void look_until(Ready ready) {
    for (unsigned looks = 1; !ready(); ++looks)
        if (looks % 10'000 == 0) std::this_thread::yield();
}

}  // namespace support
