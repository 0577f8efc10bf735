// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The version, and which C++ it needs. The one place that states it: CMake and the packages read it from here.
#pragma once

/// Of version 1.2.3 the 1.
#define CUOTA_VERSION_MAJOR 0
/// Of version 1.2.3 the 2.
#define CUOTA_VERSION_MINOR 1
/// Of version 1.2.3 the 3.
#define CUOTA_VERSION_PATCH 0

// A message beats the errors that an older standard, or a compiler without exceptions, would report further down; the include of a file
// that does not exist ends the compilation there. Every header includes this one, or one that does, before it uses anything new.
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
