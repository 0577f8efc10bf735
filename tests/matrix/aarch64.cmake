# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# Toolchain file for aarch64: Debian's cross compiler, and qemu's user mode, by which CTest runs the tests.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${CUDAToolkit_ROOT})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CUDAToolkit_ROOT)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)  # a library of this machine's architecture cannot be linked
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)  # headers such as Catch2's serve every architecture
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
