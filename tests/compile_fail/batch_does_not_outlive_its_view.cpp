// expect: use of deleted function|call to deleted member function
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <cuota/data/loader/batch_loader.hpp>

void use(cuota::batch b, cuota::stream_ref s) {
#ifdef CUOTA_FIXED
    auto view = b.view<float>(s);
    (void)view;
#else
    std::move(b).view<float>(s);  // the batch would be destroyed before the view is used
#endif
}
