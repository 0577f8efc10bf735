// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The build makes the precompiled header that all tests share from this file.
#include "support/catch.hpp"
