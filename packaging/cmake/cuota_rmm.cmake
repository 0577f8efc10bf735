# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# cuota-rmm, RMM for tests and benchmarks, where the two variables below say where it is: PyPI's package, and for the simulated
# runtime its sources, too. Nothing of it is ever part of cuota.

set(CUOTA_RMM_ROOT "" CACHE PATH "The folder of PyPI's packages librmm-cu13 and rapids-logger: has librmm/ and rapids_logger/")
set(CUOTA_RMM_SOURCE "" CACHE PATH "RMM's sources of that version, the folder cpp of its repository, to be compiled for the simulated runtime: librmm.so has NVIDIA's inside")

if(NOT TARGET cuota-rmm AND EXISTS "${CUOTA_RMM_ROOT}/librmm/include/rmm/error.hpp"
    AND (CUOTA_RUNTIME_CHOSEN STREQUAL CUDA OR EXISTS "${CUOTA_RMM_SOURCE}/src/error.cpp"))
  # Before the toolkit's folders: it needs the CCCL that it brings.
  set(folders ${CUOTA_RMM_ROOT}/librmm/include ${CUOTA_RMM_ROOT}/librmm/include/rapids ${CUOTA_RMM_ROOT}/rapids_logger/include)
  set(library ${CUOTA_RMM_ROOT}/librmm/lib64/librmm.so)
  if(CUOTA_RUNTIME_CHOSEN STREQUAL SIMULATED)
    set(library cuota-rmm-compiled)
    file(GLOB_RECURSE all_of_rmm ${CUOTA_RMM_SOURCE}/src/*.cpp)
    add_library(cuota-rmm-compiled STATIC EXCLUDE_FROM_ALL ${all_of_rmm})
    set_target_properties(cuota-rmm-compiled PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    target_include_directories(cuota-rmm-compiled SYSTEM PRIVATE ${folders} ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_features(cuota-rmm-compiled PRIVATE cxx_std_20)
    target_compile_options(cuota-rmm-compiled PRIVATE -w -O3 -DNDEBUG ${sanitize})
  endif()
  add_library(cuota-rmm INTERFACE)
  target_include_directories(cuota-rmm SYSTEM BEFORE INTERFACE ${folders})
  target_link_libraries(cuota-rmm INTERFACE ${library} ${CUOTA_RMM_ROOT}/rapids_logger/lib64/librapids_logger.so)
endif()
