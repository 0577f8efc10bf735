// expect: use of deleted function|invokes a deleted function|call to deleted constructor
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/core/label.hpp>

#include <string>

cuota::tag name_of(std::string const& layer) {
#ifdef CUOTA_FIXED
    return cuota::tag::named(layer);
#else
    return layer;  // a tag lives as long as the program
#endif
}
