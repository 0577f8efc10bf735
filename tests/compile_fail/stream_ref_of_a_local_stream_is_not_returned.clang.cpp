// expect: address of stack memory associated with local variable
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/runtime/stream.hpp>

#ifdef CUOTA_FIXED
cuota::stream make() {
#else
cuota::stream_ref make() {
#endif
    cuota::stream local;
    return local;
}
