# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# CUOTA_GPU_FOLDER, of make gpu: tests, examples and benchmarks for a machine that has a GPU, its driver and glibc, and
# nothing else. Included last; what it gives is `cmake --install --component gpu`, of packaging/gpu/pack:
#
#   bin/                  the programs, with NVIDIA's static runtime inside
#   lib/                  libcuota_pytorch.so, and the libraries that programs need beside glibc and look for there
#   run_gpu               runs all of it
#   pytorch_allocator.py  PyTorch on that library, where there is a PyTorch
#   pytorch_peers.py      what PyTorch itself does, in the same run
#   library_memory.py     what NVIDIA's libraries allocate, where there is a PyTorch that brings them
#   table.py              what run_gpu measured, as one table, where there is a Python
#   sources/              the examples, which say what they print
#   left_out              the tests that are not in it, a line each
#
# Tests and examples are compiled with checks. Benchmarks, the library for PyTorch and a second train, train-ndebug, are as a
# user builds them: with NDEBUG, and train-ndebug with cuBLAS where the toolkit has it. All of them read declarations only; the
# definitions are compiled twice, once for each kind.

if(NOT CUOTA_RUNTIME_CHOSEN STREQUAL CUDA)
  message(FATAL_ERROR "cuota: CUOTA_GPU_FOLDER requires CUOTA_RUNTIME=CUDA")
endif()

# As cuota_add_compiled makes cuota-compiled.
get_target_property(parts cuota-compiled SOURCES)
add_library(cuota-compiled-ndebug STATIC EXCLUDE_FROM_ALL ${parts})
set_target_properties(cuota-compiled-ndebug PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_definitions(cuota-compiled-ndebug INTERFACE CUOTA_SEPARATE_COMPILATION=1)
target_compile_options(cuota-compiled-ndebug PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda>)
target_link_libraries(cuota-compiled-ndebug PUBLIC cuota::headers PRIVATE cuota-dev)

add_executable(train-ndebug examples/train.cpp)
target_link_libraries(train-ndebug PRIVATE cuota-dev)
cuota_link(train-ndebug)
if(ZLIB_FOUND)
  target_compile_definitions(train-ndebug PRIVATE CUOTA_WITH_ZLIB)
  target_link_libraries(train-ndebug PRIVATE ZLIB::ZLIB)
endif()
if(TARGET CUDA::cublas)
  target_compile_definitions(train-ndebug PRIVATE CUOTA_WITH_CUBLAS)
  target_link_libraries(train-ndebug PRIVATE CUDA::cublas)
endif()

add_executable(cuda_questions packaging/gpu/cuda_questions.cu)
set_target_properties(cuda_questions PROPERTIES CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Static)
target_link_libraries(cuda_questions PRIVATE cuota-warnings CUDA::cudart_static)

function(cuota_gpu_programs folder result)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  set(programs "")
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      list(APPEND programs ${target})
    endif()
  endforeach()
  set(${result} ${programs} PARENT_SCOPE)
endfunction()
cuota_gpu_programs(tests tests)
cuota_gpu_programs(examples examples)
# run_gpu does not run the pairs of examples/adopt: tests/examples/adopt.py compares what they print.
list(FILTER examples EXCLUDE REGEX "_(before|after)$")
cuota_gpu_programs(bench benchmarks)

# -O is for host code; kernels are optimised in any case. Most of a test's host code is the framework's. -lineinfo: a finding of
# compute-sanitizer names a line. The host compiler's warnings are those of the other builds, where g++ reads the same text.
set(to_host $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=>)
set(in_sections ${to_host}-ffunction-sections ${to_host}-fdata-sections)
if(NOT CMAKE_CXX_FLAGS MATCHES "-O")  # make cuda SHORT=1 has the flags of the build dev, from which ccache then takes the library
  target_compile_options(cuota-compiled PRIVATE -O1 ${in_sections})
endif()
target_compile_options(cuota-compiled-ndebug PRIVATE -O3 -DNDEBUG ${in_sections})
target_compile_options(cuota-warnings INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-w>)
foreach(target IN LISTS tests examples ITEMS cuota-test-odr)
  target_compile_options(${target} PRIVATE -O0 $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
endforeach()
foreach(target IN LISTS benchmarks ITEMS train-ndebug cuota_pytorch)
  target_compile_options(${target} PRIVATE -O3 -DNDEBUG)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  list(FILTER libraries EXCLUDE REGEX "cuota::cuota")  # of cuota_link: that has checks
  set_property(TARGET ${target} PROPERTY LINK_LIBRARIES ${libraries} cuota-compiled-ndebug)
endforeach()

set(programs ${tests} ${examples} ${benchmarks} train-ndebug cuda_questions)
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib")
# Of all definitions a program keeps those that it uses: else each example would be 3 MB.
foreach(target IN LISTS programs ITEMS cuota_pytorch)
  target_link_options(${target} PRIVATE LINKER:--gc-sections)
endforeach()
# The C++ library is inside, too, but for benchmarks, whose framework Debian has as a shared library only. Theirs is the machine's,
# which suits older glibcs, or that in lib/cxx. The library for PyTorch throws into PyTorch and has to share PyTorch's; so has the test
# of RMM, with librmm.so.
foreach(program IN LISTS tests examples ITEMS train-ndebug cuda_questions)
  if(NOT program STREQUAL test-rmm)
    target_link_options(${program} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endforeach()
foreach(name libstdc++.so.6 libgcc_s.so.1)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${path}" path)
  install(FILES ${path} RENAME ${name} DESTINATION lib/cxx COMPONENT gpu EXCLUDE_FROM_ALL)
endforeach()

add_custom_target(gpu-programs DEPENDS ${programs} cuota_pytorch)
install(TARGETS ${programs} RUNTIME_DEPENDENCY_SET cuota-gpu DESTINATION bin COMPONENT gpu EXCLUDE_FROM_ALL)
install(TARGETS cuota_pytorch LIBRARY DESTINATION lib COMPONENT gpu EXCLUDE_FROM_ALL)
# Of glibc nothing: it belongs to the machine's own loader. Of the driver nothing either, nor cuBLAS, which is half a gigabyte and
# comes with a toolkit or with PyTorch.
set(beside_rmm "")
if(CUOTA_BENCH_RMM)  # librmm.so does not say where its logger is
  set(beside_rmm DIRECTORIES ${CUOTA_RMM_ROOT}/librmm/lib64 ${CUOTA_RMM_ROOT}/rapids_logger/lib64)
endif()
install(RUNTIME_DEPENDENCY_SET cuota-gpu
  ${beside_rmm}
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s)\\.so" "^libcuda\\.so" "^libnvidia-"
    "^libcublas"
  LIBRARY DESTINATION lib COMPONENT gpu EXCLUDE_FROM_ALL
  RUNTIME DESTINATION lib COMPONENT gpu EXCLUDE_FROM_ALL)
install(PROGRAMS packaging/gpu/run_gpu packaging/gpu/pytorch_peers.py packaging/gpu/library_memory.py examples/pytorch_allocator.py bench/table.py DESTINATION .
  COMPONENT gpu EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/tests/left_out DESTINATION . COMPONENT gpu EXCLUDE_FROM_ALL)
install(DIRECTORY examples/ DESTINATION sources COMPONENT gpu EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.cpp" PATTERN "adopt" EXCLUDE)
