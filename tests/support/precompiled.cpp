// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Holds the place in the build where the precompiled header that all tests share is made.
#include "support/catch.hpp"
