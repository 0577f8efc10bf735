// expect: use of deleted function|invokes a deleted function
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/runtime/stream.hpp>

void use(cuota::stream_ref);

void launch(cuota::stream& s) {
#ifdef CUOTA_FIXED
    use(s);
#else
    (void)s;
    use(0);  // the legacy default stream by accident
#endif
}
