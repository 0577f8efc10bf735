# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# What our own tests, examples and benchmarks are compiled with, and users never inherit.

set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(cuota-warnings INTERFACE)
target_compile_options(cuota-warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow;-Werror>"
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion>"  # g++'s -Wconversion is without it
  # 177 (unused) and 186 (unsigned against zero) are wrong about concepts' models and templates; g++ asks the same better.
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Werror=all-warnings;-diag-suppress=177,186;-Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow,-Werror>")

# Left to itself, g++ looks for garbage again and again from 128 MB on: a tenth of its time. Not below 1 GB.
target_compile_options(cuota-warnings INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>
  $<$<AND:$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>,$<CXX_COMPILER_ID:GNU>>:-Xcompiler=--param=ggc-min-heapsize=1000000>)

add_library(cuota-dev INTERFACE)
target_link_libraries(cuota-dev INTERFACE cuota::headers cuota-warnings)
if(CUOTA_SANITIZE)
  if(CUOTA_RUNTIME_CHOSEN STREQUAL CUDA)
    message(FATAL_ERROR "cuota: CUOTA_SANITIZE: sanitizers check host code only; set CUOTA_RUNTIME=SIMULATED")
  endif()
  set(sanitize -fsanitize=${CUOTA_SANITIZE})
  target_link_options(cuota-dev INTERFACE ${sanitize})
  list(APPEND sanitize -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CUOTA_SANITIZE_LESS)
    list(APPEND sanitize -fno-sanitize=${CUOTA_SANITIZE_LESS})
  endif()
  if(CUOTA_SANITIZE MATCHES thread)  # gcc would expand small memset and memcpy in place, unseen by the sanitizer
    list(APPEND sanitize -fno-builtin)
  endif()
  target_compile_options(cuota-dev INTERFACE ${sanitize})
endif()

target_link_libraries(cuota-compiled PRIVATE cuota-dev)  # a program's own code: under its sanitizers
set(CUOTA_LIBRARY_OPTIONS "" CACHE STRING "Options of the C++ compiler for the library's own files, after those of the build")
target_compile_options(cuota-compiled PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${CUOTA_LIBRARY_OPTIONS}>")  # nvcc has no -Og
set(compiled_here cuota-simulator cuota-simulated-libraries)
if(CUOTA_SIMULATOR_LIBRARY)
  list(REMOVE_ITEM compiled_here cuota-simulator)
endif()
foreach(ours IN LISTS compiled_here)  # held to the same, uninstrumented
  target_link_libraries(${ours} PRIVATE cuota-warnings)
endforeach()
# Builds in folders of the source tree share what they compile with equal options: the simulated runtime is the same under each sanitizer.
find_program(CUOTA_CCACHE ccache)
mark_as_advanced(CUOTA_CCACHE)
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR ${CMAKE_BINARY_DIR} in_source_tree)
if(CUOTA_CCACHE AND in_source_tree AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(cuota_launcher ${CMAKE_COMMAND} -E env CCACHE_DIR=${PROJECT_SOURCE_DIR}/build/ccache CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    ${CUOTA_CCACHE})
  set_target_properties(cuota-compiled ${compiled_here} PROPERTIES CXX_COMPILER_LAUNCHER "${cuota_launcher}")
endif()
find_package(ZLIB)
find_package(nlohmann_json QUIET)

# MPI, of which only the C interface is used; its header breaks rules that ours keep. CUOTA_MPI=OFF does as if it were
# not here.
option(CUOTA_MPI "Use an MPI that is installed, for examples/train_ranks and the tests of interop/mpi.hpp" ON)
if(CUOTA_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
if(MPI_CXX_FOUND AND NOT TARGET cuota-mpi)
  add_library(cuota-mpi INTERFACE)
  target_include_directories(cuota-mpi SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
  target_link_libraries(cuota-mpi INTERFACE ${MPI_CXX_LIBRARIES})
endif()
