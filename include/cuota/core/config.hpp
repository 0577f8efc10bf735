// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Every macro of the library, with its default and its effect.
#pragma once

// CUOTA_HOST_DEVICE marks what a kernel calls: compiled for both sides by nvcc, plain C++ for every other compiler.
#if defined(__CUDACC__)
#define CUOTA_HOST_DEVICE __host__ __device__
#else
#define CUOTA_HOST_DEVICE
#endif

// CUOTA_CHECKED: 1 checks every index of a device_span, in kernels too. Default: on unless NDEBUG is set.
#if !defined(CUOTA_CHECKED)
#if defined(NDEBUG)
#define CUOTA_CHECKED 0
#else
#define CUOTA_CHECKED 1
#endif
#endif
