// expect: cuota.s definitions need RTTI: compile without -fno-rtti
// flags: -fno-rtti -UCUOTA_SEPARATE_COMPILATION
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/core/bytes.hpp>

static_assert(cuota::is_power_of_two(2));
