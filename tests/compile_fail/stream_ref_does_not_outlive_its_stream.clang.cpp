// expect: object backing the pointer will be destroyed at the end of the full-expression
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/runtime/stream.hpp>

void launch(cuota::stream_ref s);

void use() {
    launch(cuota::stream{});  // the stream outlives the call
#ifdef CUOTA_FIXED
    cuota::stream const own;
    cuota::stream_ref const s = own;
#else
    cuota::stream_ref const s = cuota::stream{};  // the stream is destroyed here
#endif
    launch(s);
}
