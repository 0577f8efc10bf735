// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Two threads that take turns, thousands of times.
#pragma once

#include <thread>

namespace support {

/// Waits until `ready()`, for what another thread is about to do. Gives its own turn away only when that takes long: where
/// others compute as well, a turn that is given away is a time slice of theirs, and thousands of those are minutes.
template <class Ready>
void look_until(Ready ready) {
    for (unsigned looks = 1; !ready(); ++looks)
        if (looks % 10'000 == 0) std::this_thread::yield();
}

}  // namespace support
