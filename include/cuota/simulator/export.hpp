// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the simulated runtime's library shows of itself: everything else in it is hidden.
#define CUOTA_SIMULATOR_API [[gnu::visibility("default")]]
