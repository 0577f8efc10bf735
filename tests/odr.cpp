// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Linked into every test program as a second translation unit with the whole library, so that a definition that is not inline fails to
// link.
#include <cuota/all.hpp>
