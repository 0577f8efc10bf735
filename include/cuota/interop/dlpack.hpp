// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// DLPack: exchanges tensors with PyTorch, CuPy, JAX, NumPy and others without a copy.
///
/// In Python a tensor is a capsule, named "dltensor_versioned" (managed_tensor_versioned) or "dltensor" (managed_tensor); its consumer
/// renames it to "used_...". See tests/interop/dlpack_arrays.py.
#pragma once

#include <cuota/interop/dlpack/dlpack_export.hpp>
#include <cuota/interop/dlpack/dlpack_import.hpp>
#include <cuota/interop/dlpack/dlpack_types.hpp>
