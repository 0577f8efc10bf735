# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# An overlay port: it packages the tree that it stands in. vcpkg's binary cache knows a package by its port and version,
# not by that tree; whoever changes headers in between calls vcpkg with --binarysource=clear.
#
# It does not depend on the port cuda, which wants nvcc: the headers of the CUDA Toolkit are enough, and cuota's own config
# file for CMake looks for them.
set(VCPKG_BUILD_TYPE release)  # header-only: there is nothing to debug
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DCUOTA_BUILD_TESTS=OFF -DCUOTA_BUILD_EXAMPLES=OFF -DCUOTA_BUILD_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/cuota)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/licenses")  # vcpkg has a place of its own for it
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
