// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Waiting for a test with two threads that alternate thousands of times.
#pragma once

#include <thread>

namespace support {

/// Spins until `ready()` returns true, yielding rarely: on a machine with other load each yield costs a time slice, and thousands of them
/// cost minutes.
template <class Ready>
void look_until(Ready ready) {
    for (unsigned looks = 1; !ready(); ++looks)
        if (looks % 10'000 == 0) std::this_thread::yield();
}

}  // namespace support
