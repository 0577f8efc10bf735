// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The version of cuota, which CMake and the packages read here, and a check of the C++ standard.
#pragma once

/// Major version.
#define CUOTA_VERSION_MAJOR 0
/// Minor version.
#define CUOTA_VERSION_MINOR 1
/// Patch version.
#define CUOTA_VERSION_PATCH 0

// An older standard, or a compiler without exceptions, is reported here; including a file that does not exist ends the compilation. Every
// header includes this one before it uses a newer feature.
#if defined(_MSVC_LANG)
#if _MSVC_LANG < 202002L
#error "cuota needs C++20: compile with /std:c++20 or later"
#include <the error above is the one to read>
#endif
#elif __cplusplus < 202002L
#error "cuota needs C++20: compile with -std=c++20 or later"
#include <the error above is the one to read>
#endif
#if !defined(__cpp_exceptions) && !defined(__CUDA_ARCH__)
#error "cuota needs exceptions, by which it reports refusals and misuse: compile without -fno-exceptions"
#include <the error above is the one to read>
#endif
