// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Linked into every test program: the whole library in a second translation unit, so that a definition that is not
// inline fails to link.
#include <cuota/all.hpp>
