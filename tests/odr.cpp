// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Includes the whole library in a second translation unit of every test program, so that a definition that is not inline fails to link.
#include <cuota/all.hpp>
