# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# The same file serves the source tree and the installed package. It gives
#
#   cuota_link(<target> [HEADER_ONLY] [HOST_CPP])   links a program or a library with cuota and with one CUDA runtime:
#
#     CUOTA_RUNTIME=SIMULATED  the simulated runtime, cuota::simulator; needs no nvcc and no GPU
#     CUOTA_RUNTIME=CUDA       NVIDIA's static runtime; the target's .cpp files are compiled by nvcc (unless HOST_CPP), for the program's
#                              CMAKE_CUDA_ARCHITECTURES
#     CUOTA_RUNTIME=AUTO       CUDA where the program has enabled that language, also without a GPU, else SIMULATED
#
#     HEADER_ONLY: links cuota::headers in place of cuota::cuota
#     HOST_CPP:    leaves the target's .cpp files to the C++ compiler; kernels, and calls of for_each_index, are in .cu files
#
#   cuota::cuota           a static library: cuota's definitions, compiled once for the whole project when something links it.
#                          What links it reads declarations only, and compiles in a tenth of the time
#   cuota::headers         the headers alone: each file compiles all of cuota that it uses. A program may have targets of both
#                          kinds
#   cuota::simulator       a shared library, compiled from the sources beside simulator.hpp when something links it; or
#                          CUOTA_SIMULATOR_LIBRARY, a libcuota-simulator.so that another build has compiled, of the same version and toolkit
#   cuota::simulated_libraries   a static library: handles, workspaces and a few operations of cuBLAS, cuDNN, cuSOLVER and cuFFT for
#                          the simulated runtime, as far as their headers are there. Never linked by cuota_link
#
# Call cuota_link in the directory that made the target. A program that wants the shared runtime links cuota::cuota instead
# and sets its own CUDA_RUNTIME_LIBRARY.

set(CUOTA_RUNTIME AUTO CACHE STRING "CUDA runtime that cuota_link gives a program: AUTO, CUDA or SIMULATED")
set_property(CACHE CUOTA_RUNTIME PROPERTY STRINGS AUTO CUDA SIMULATED)
set(CUOTA_SIMULATOR_LIBRARY "" CACHE FILEPATH "A simulated runtime of another build, in place of one compiled here")

# True when this machine shows an NVIDIA GPU to this process.
function(cuota_find_gpu result)
  set(${result} FALSE PARENT_SCOPE)
  file(GLOB nodes /dev/nvidia[0-9]*)
  if(nodes)
    set(${result} TRUE PARENT_SCOPE)
    return()
  endif()
  find_program(CUOTA_NVIDIA_SMI nvidia-smi PATHS /usr/lib/wsl/lib)
  mark_as_advanced(CUOTA_NVIDIA_SMI)
  if(CUOTA_NVIDIA_SMI)
    execute_process(COMMAND ${CUOTA_NVIDIA_SMI} -L OUTPUT_VARIABLE listed ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND listed MATCHES "GPU [0-9]+:")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Sets CUOTA_RUNTIME_CHOSEN, for the whole program, to CUDA or SIMULATED and says in one line why.
function(cuota_choose_runtime)
  set(chosen ${CUOTA_RUNTIME})
  set(why "as asked by CUOTA_RUNTIME")
  if(chosen STREQUAL AUTO)
    cuota_find_gpu(gpu)
    if(CMAKE_CUDA_COMPILER)
      set(chosen CUDA)
      set(why "the project has enabled the language CUDA")
      if(NOT gpu)
        string(APPEND why "; no GPU on this machine, so programs run elsewhere, or here with CUOTA_RUNTIME=SIMULATED")
      endif()
    elseif(gpu)
      set(chosen SIMULATED)
      set(why "a GPU is here, but no working nvcc, or the project has not enabled the language CUDA")
    else()
      set(chosen SIMULATED)
      set(why "no GPU on this machine, and the language CUDA is not enabled")
    endif()
  elseif(chosen STREQUAL CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      message(FATAL_ERROR "cuota: CUOTA_RUNTIME=CUDA requires nvcc and the language CUDA; install nvcc, and add CUDA to the languages of project()")
    endif()
    cuota_find_gpu(gpu)
    if(NOT gpu)
      string(APPEND why "; no GPU on this machine, so programs cannot run here")
    endif()
  elseif(NOT chosen STREQUAL SIMULATED)
    message(FATAL_ERROR "cuota: CUOTA_RUNTIME is '${chosen}'; it must be AUTO, CUDA or SIMULATED")
  endif()
  message(STATUS "cuota: runtime ${chosen} (${why})")
  set(CUOTA_RUNTIME_CHOSEN ${chosen} CACHE INTERNAL "the runtime that CUOTA_RUNTIME selected")
endfunction()

# Defines cuota::simulator as CUOTA_SIMULATOR_LIBRARY, whose file says of which version it is (simulator/environment.cpp).
function(cuota_import_simulator)
  if(NOT EXISTS ${CUOTA_SIMULATOR_LIBRARY})
    message(FATAL_ERROR "cuota: CUOTA_SIMULATOR_LIBRARY names ${CUOTA_SIMULATOR_LIBRARY}, which does not exist")
  endif()
  math(EXPR toolkit "${CUDAToolkit_VERSION_MAJOR} * 1000 + ${CUDAToolkit_VERSION_MINOR} * 10")
  set(expected "cuota ${cuota_VERSION}, simulated runtime for CUDART_VERSION ${toolkit}")
  file(STRINGS ${CUOTA_SIMULATOR_LIBRARY} found REGEX "^cuota [0-9.]+, simulated runtime for CUDART_VERSION [0-9]+$" LIMIT_COUNT 1)
  if(NOT found)
    set(found "no simulated runtime of cuota")
  endif()
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "cuota: CUOTA_SIMULATOR_LIBRARY names ${CUOTA_SIMULATOR_LIBRARY}, which is ${found}; required is ${expected}")
  endif()
  add_library(cuota-simulator SHARED IMPORTED GLOBAL)
  set_target_properties(cuota-simulator PROPERTIES IMPORTED_LOCATION ${CUOTA_SIMULATOR_LIBRARY})
  add_library(cuota::simulator ALIAS cuota-simulator)
endfunction()

# Defines cuota::simulator from the sources in <folder>. Never instrumented: one build serves plain, address and thread
# sanitizer programs, and it reaches the sanitizers of the program through weak symbols.
function(cuota_add_simulator folder)
  if(TARGET cuota-simulator)
    return()
  endif()
  if(CUOTA_SIMULATOR_LIBRARY)
    cuota_import_simulator()
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "cuota: ${folder} has no sources of the simulated runtime")
  endif()
  find_package(Threads REQUIRED)
  add_library(cuota-simulator SHARED EXCLUDE_FROM_ALL ${sources})
  add_library(cuota::simulator ALIAS cuota-simulator)
  set_target_properties(cuota-simulator PROPERTIES
    CUDA_RUNTIME_LIBRARY None CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    CXX_SCAN_FOR_MODULES OFF CXX_EXTENSIONS OFF
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)  # the same headers again take most of the compiler's time
  target_compile_options(cuota-simulator PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O2> -fno-sanitize=all
    -fno-omit-frame-pointer)  # call_site.cpp walks its own frames
  target_link_libraries(cuota-simulator PRIVATE cuota::headers Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# Defines cuota::simulated_libraries from the sources in <folder>, each of which is empty without the library's header.
function(cuota_add_simulated_libraries folder)
  if(TARGET cuota-simulated-libraries)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  add_library(cuota-simulated-libraries STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(cuota::simulated_libraries ALIAS cuota-simulated-libraries)
  set_target_properties(cuota-simulated-libraries PROPERTIES
    CUDA_RUNTIME_LIBRARY None POSITION_INDEPENDENT_CODE ON CXX_SCAN_FOR_MODULES OFF)
  target_compile_options(cuota-simulated-libraries PRIVATE -fno-sanitize=all)
  target_link_libraries(cuota-simulated-libraries PUBLIC cuota::headers cuota::simulator)
endfunction()

# Defines cuota::cuota from the sources in <folder>, which compile in parallel. The library works with NVIDIA's runtimes and with the
# simulated one; the target that links it chooses. nvcc compiles kernels.cpp when the project has enabled CUDA, and the other sources
# only in a project without C++. Symbols have default visibility whatever the project's preset is, so that all shared libraries of a program have one
# copy of the library's state.
function(cuota_add_compiled folder)
  if(TARGET cuota-compiled)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "cuota: ${folder} has no sources")
  endif()
  add_library(cuota-compiled STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(cuota::cuota ALIAS cuota-compiled)
  set_target_properties(cuota-compiled PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_SCAN_FOR_MODULES OFF
    CXX_VISIBILITY_PRESET default CUDA_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
  if(CMAKE_CUDA_COMPILER AND NOT CUOTA_RUNTIME STREQUAL SIMULATED)
    set(by_nvcc ${sources})
    if(CMAKE_CXX_COMPILER_ID)
      list(FILTER by_nvcc INCLUDE REGEX "/kernels\\.cpp$")
    endif()
    set_source_files_properties(${by_nvcc} PROPERTIES LANGUAGE CUDA)
  endif()
  target_compile_definitions(cuota-compiled INTERFACE CUOTA_SEPARATE_COMPILATION=1)
  target_compile_options(cuota-compiled PRIVATE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--extended-lambda>)
  if(NOT CMAKE_PROJECT_NAME STREQUAL cuota)  # a project's warnings are about its own files
    target_compile_options(cuota-compiled PRIVATE -w $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=-w>)
  endif()
  target_link_libraries(cuota-compiled PUBLIC cuota::headers)
endfunction()

# Of a .cu file in a project without the language CMake says only that it "can not determine linker language".
function(cuota_check_languages target)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  if("CUDA" IN_LIST languages)
    return()
  endif()
  foreach(source IN LISTS sources)
    get_source_file_property(language ${source} LANGUAGE)
    if(NOT language)
      message(FATAL_ERROR "cuota: ${target} has ${source}, but the project has not enabled CUDA. "
        "Enable it: project(... LANGUAGES CXX CUDA). It requires nvcc, but no GPU")
    endif()
  endforeach()
endfunction()

# The C++ compiler compiles most of the library, and nvcc the program's .cu files and, for CUDA's runtime, a file of the library: each with
# the flags of its language. If these differ in NDEBUG, the linker only reports undefined references. Warns once in a project.
function(cuota_check_flags target)
  get_property(is_known GLOBAL PROPERTY cuota_flags_differ)
  if(is_known OR NOT CMAKE_CUDA_COMPILER OR NOT CMAKE_CXX_COMPILER_ID)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  if(NOT CUOTA_RUNTIME_CHOSEN STREQUAL CUDA AND NOT sources MATCHES "\\.cu(;|$)")
    return()
  endif()
  set(configs ${CMAKE_CONFIGURATION_TYPES} ${CMAKE_BUILD_TYPE})
  if(NOT configs)
    set(configs none)
  endif()
  foreach(config IN LISTS configs)
    string(TOUPPER "${config}" suffix)
    set(with "")
    foreach(language CXX CUDA)
      if("${CMAKE_${language}_FLAGS} ${CMAKE_${language}_FLAGS_${suffix}}" MATCHES ".*-([DU])NDEBUG" AND CMAKE_MATCH_1 STREQUAL "D")
        list(APPEND with ${language})
      endif()
    endforeach()
    list(LENGTH with count)
    if(count EQUAL 1)
      message(WARNING "cuota: of the flags CMAKE_CXX_FLAGS and CMAKE_CUDA_FLAGS only those of ${with} define NDEBUG, so programs that link "
        "cuota::cuota will not link. Define it in both or in neither")
      set_property(GLOBAL PROPERTY cuota_flags_differ ON)
      return()
    endif()
  endforeach()
endfunction()

function(cuota_link target)
  cmake_parse_arguments(PARSE_ARGV 1 how "HEADER_ONLY;HOST_CPP" "" "")
  if(how_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cuota_link(${target}) has unknown arguments: ${how_UNPARSED_ARGUMENTS}; the options are HEADER_ONLY and HOST_CPP")
  endif()
  if(how_HEADER_ONLY AND how_HOST_CPP)
    message(FATAL_ERROR "cuota_link(${target}): HEADER_ONLY and HOST_CPP exclude each other: the definitions in the .cpp files have kernels")
  endif()
  cuota_check_languages(${target})
  if(NOT how_HEADER_ONLY)
    cuota_check_flags(${target})
  endif()
  target_link_libraries(${target} PRIVATE $<IF:$<BOOL:${how_HEADER_ONLY}>,cuota::headers,cuota::cuota>)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--extended-lambda>)
  if(CUOTA_RUNTIME_CHOSEN STREQUAL SIMULATED)
    set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY None)
    target_link_libraries(${target} PRIVATE cuota::simulator)
  else()
    set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  endif()
  if((CUOTA_RUNTIME_CHOSEN STREQUAL CUDA AND NOT how_HOST_CPP) OR NOT CMAKE_CXX_COMPILER_ID)  # without C++ in the project nobody else could
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.(cpp|cc|cxx)$")
    if(sources)
      set_source_files_properties(${sources} PROPERTIES LANGUAGE CUDA)
    endif()
  endif()
endfunction()
