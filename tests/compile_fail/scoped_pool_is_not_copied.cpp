// expect: use of deleted function|call to deleted constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/pool/scoped_pool.hpp>

void use(cuota::scoped_pool& pool) {
#ifdef CUOTA_FIXED
    cuota::scoped_pool& same = pool;
#else
    cuota::scoped_pool same{pool};  // a scope has one owner
#endif
    (void)same;
}
