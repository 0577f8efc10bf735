// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The version of cuota, and a check of the C++ standard. CMake and the packages read the version from this file.
#pragma once

/// Major version: 1 of 1.2.3.
#define CUOTA_VERSION_MAJOR 0
/// Minor version: 2 of 1.2.3.
#define CUOTA_VERSION_MINOR 1
/// Patch version: 3 of 1.2.3.
#define CUOTA_VERSION_PATCH 0

// An older standard, or a compiler without exceptions, is reported here instead of by errors further down; including a file that does not
// exist ends the compilation. Every header includes this one, directly or not, before it uses a newer feature.
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
