// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "part.hpp"

#include <cuota/cuota.hpp>

void PART::report() { cuota::report_error(cuota::usage_error{"of a part"}); }

std::size_t PART::take(cuota::budget const& of, cuota::scoped_pool& pool, std::size_t bytes) {
    cuota::stream const stream;
    cuota::device_buffer<std::byte> const buffer{bytes, stream, pool, "taken by a part"};
    return of.held();
}
