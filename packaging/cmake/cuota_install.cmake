# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# The installed package: headers, the sources of the simulated runtime, cuota_link, the CMake config and a file for
# pkg-config. No binaries, so it suits any machine; no absolute paths, so it can be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_DATADIR}/cmake/cuota)

configure_package_config_file(packaging/cmake/cuota-config.cmake.in cuota-config.cmake
  INSTALL_DESTINATION ${folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(cuota-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)

# INCLUDES DESTINATION is for users below CMake 3.23, which read no file sets.
install(TARGETS cuota-headers EXPORT cuota FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT cuota FILE cuota-targets.cmake NAMESPACE cuota:: DESTINATION ${folder})
install(FILES include/cuota/cuota.cpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cuota)
install(DIRECTORY include/cuota/parts include/cuota/simulator DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cuota FILES_MATCHING PATTERN "*.cpp")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cuota-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/cuota-config-version.cmake
  packaging/cmake/cuota_link.cmake DESTINATION ${folder})

set(folder ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_here /${folder} /)
string(REGEX REPLACE "/$" "" prefix_from_here "${prefix_from_here}")
configure_file(packaging/cmake/cuota.pc.in cuota.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cuota.pc DESTINATION ${folder})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/cuota)
