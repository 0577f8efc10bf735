# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# CUOTA_GPU_FOLDER, of make gpu: tests, examples and benchmarks for a machine that has a GPU, its driver and glibc, and
# nothing else. Included last; what it gives is `cmake --install --component gpu`, of packaging/gpu/pack:
#
#   bin/       the programs, with NVIDIA's static runtime inside
#   lib/       the libraries that they need beside glibc; programs look for them there
#   run_gpu    runs all of it
#   table.py   what run_gpu measured, as one table, where there is a Python
#   sources/   the examples, which say what they print
#   left_out   the tests that are not in it, a line each

if(NOT CUOTA_RUNTIME_CHOSEN STREQUAL CUDA)
  message(FATAL_ERROR "cuota: CUOTA_GPU_FOLDER is for CUOTA_RUNTIME=CUDA")
endif()

# Benchmarks have all of the library inline, and are optimised; tests and examples share cuota::compiled, whose checks they want.
function(cuota_gpu_targets folder options result)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  set(programs "")
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "EXECUTABLE|OBJECT_LIBRARY" AND NOT target STREQUAL cuota-test-main)
      set_property(TARGET ${target} APPEND PROPERTY COMPILE_OPTIONS ${options})
    endif()
    if(type STREQUAL EXECUTABLE)
      list(APPEND programs ${target})
    endif()
  endforeach()
  set(${result} ${programs} PARENT_SCOPE)
endfunction()
cuota_gpu_targets(tests "-O1" tests)
cuota_gpu_targets(examples "-O2" examples)
cuota_gpu_targets(bench "-O3;-DNDEBUG" benchmarks)
# Of all definitions a program keeps those that it uses: else each example would be 3 MB.
target_compile_options(cuota-compiled PRIVATE -O2 -Xcompiler=-ffunction-sections,-fdata-sections)

set(programs ${tests} ${examples} ${benchmarks})
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib")
foreach(program IN LISTS programs)
  target_link_options(${program} PRIVATE LINKER:--gc-sections)
endforeach()
# The C++ library is inside, too, but for benchmarks, whose framework Debian has as a shared library only. Theirs is the machine's,
# which suits older glibcs, or that in lib/cxx.
foreach(program IN LISTS tests examples)
  target_link_options(${program} PRIVATE -static-libstdc++ -static-libgcc)
endforeach()
foreach(name libstdc++.so.6 libgcc_s.so.1)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${path}" path)
  install(FILES ${path} RENAME ${name} DESTINATION lib/cxx COMPONENT gpu EXCLUDE_FROM_ALL)
endforeach()

add_custom_target(gpu-programs DEPENDS ${programs})
install(TARGETS ${programs} RUNTIME_DEPENDENCY_SET cuota-gpu DESTINATION bin COMPONENT gpu EXCLUDE_FROM_ALL)
# Of glibc nothing: it belongs to the machine's own loader. Of the driver nothing either.
install(RUNTIME_DEPENDENCY_SET cuota-gpu
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s)\\.so" "^libcuda\\.so" "^libnvidia-"
  LIBRARY DESTINATION lib COMPONENT gpu EXCLUDE_FROM_ALL
  RUNTIME DESTINATION lib COMPONENT gpu EXCLUDE_FROM_ALL)
install(PROGRAMS packaging/gpu/run_gpu bench/table.py DESTINATION . COMPONENT gpu EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/tests/left_out DESTINATION . COMPONENT gpu EXCLUDE_FROM_ALL)
install(DIRECTORY examples/ DESTINATION sources COMPONENT gpu EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.cpp")
