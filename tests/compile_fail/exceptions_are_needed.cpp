// expect: cuota needs exceptions.*: compile without -fno-exceptions
// flags: -fno-exceptions
// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include <cuota/core/bytes.hpp>

static_assert(cuota::is_power_of_two(2));
