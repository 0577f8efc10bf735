// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// DLPack: tensors to and from PyTorch, CuPy, JAX, NumPy and others, without a copy. Not in all.hpp.
///
/// The structures are the program's <dlpack/dlpack.h>'s where that is 1.0 or later, else cuota's own, of the same layout. In
/// Python a tensor is a capsule with its address, named "dltensor_versioned" (of managed_tensor) or "dltensor" (of
/// old_managed_tensor), which its taker renames to "used_..." ; see tests/interop/dlpack_arrays.py for both ways by ctypes.
#pragma once

#include <cuota/interop/dlpack_export.hpp>
#include <cuota/interop/dlpack_import.hpp>
#include <cuota/interop/dlpack_types.hpp>
