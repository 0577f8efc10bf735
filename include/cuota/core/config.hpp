// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Every macro of the library, with its default and its effect.
#pragma once

#include <cuota/version.hpp>

/// Marks functions for kernels and host code: __host__ __device__ under nvcc, empty for other compilers.
#if defined(__CUDACC__)
#define CUOTA_HOST_DEVICE __host__ __device__
#else
#define CUOTA_HOST_DEVICE
#endif

/// Suppresses nvcc's warning about a __host__ function called from a __host__ __device__ template. Place it before a template that calls a
/// functor of the caller, which may be host-only.
#if defined(__CUDACC__) && !defined(__clang__)
#define CUOTA_NO_EXEC_CHECK _Pragma("nv_exec_check_disable")
#else
#define CUOTA_NO_EXEC_CHECK
#endif

/// 1 (default): nvcc compiles kernel bodies for the host too, for the simulator. 0: it compiles them for the device only and rejects host
/// code that accesses an element of a view; the program cannot run on the simulator. Must be the same in the whole program.
#if !defined(CUOTA_SIMULATED_KERNELS)
#define CUOTA_SIMULATED_KERNELS 1
#endif

/// Marks kernel bodies and functions that only kernels call, which may access elements of views. CUOTA_SIMULATED_KERNELS decides whether
/// they are compiled for the host too.
/// Example: examples/mistake.cpp
#if defined(__CUDACC__) && !CUOTA_SIMULATED_KERNELS
#define CUOTA_KERNEL __device__
#else
#define CUOTA_KERNEL CUOTA_HOST_DEVICE
#endif

/// 1 checks every index of a view of device memory, in kernels too; 0 checks none. Default: 1 unless NDEBUG is defined. Must be the same in
/// the whole program: files that differ do not link.
#if !defined(CUOTA_CHECKED)
#if defined(NDEBUG)
#define CUOTA_CHECKED 0
#else
#define CUOTA_CHECKED 1
#endif
#endif

/// Marks functions and data members that are or contain a process-wide static object. A program and all libraries linked with it share one
/// such object whatever their visibility settings (most libraries use -fvisibility=hidden); an unmarked one exists once in each of them.
/// docs/shared_libraries.md describes the consequences for plugins.
#if defined(__GNUC__)
#define CUOTA_PROCESS_STATE [[gnu::visibility("default")]]
#else
#define CUOTA_PROCESS_STATE
#endif

/// Marks classes that other libraries of the process recognise by their type: those that are thrown, and those that dynamic_cast looks for.
/// Their type_info is exported, and a program and its libraries have one of each, whatever visibility they are compiled with. LLVM's libc++
/// compares type_info by address, so that without the mark what a hidden library throws would be caught by no handler of the program.
#if defined(__clang__)
#define CUOTA_PROCESS_TYPE [[clang::type_visibility("default")]]
#elif defined(__GNUC__)
#define CUOTA_PROCESS_TYPE [[gnu::visibility("default")]]
#else
#define CUOTA_PROCESS_TYPE
#endif

/// CUOTA_OWNER and CUOTA_POINTER mark owners of memory and views of it: clang and clang-tidy warn about a view that outlives the temporary
/// lease it was made from (-Wdangling-gsl). Empty for other compilers.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(gsl::Owner)
#define CUOTA_OWNER [[gsl::Owner]]
#define CUOTA_POINTER [[gsl::Pointer]]
#endif
#endif
#if !defined(CUOTA_OWNER)
#define CUOTA_OWNER
#define CUOTA_POINTER
#endif

/// Inline namespace of the view types. Checked views have extra members, so checked and unchecked builds use different namespaces: files
/// compiled with different settings fail to link instead of violating the one-definition rule.
#if CUOTA_CHECKED
#define CUOTA_VIEWS checked_views
#else
#define CUOTA_VIEWS unchecked_views
#endif

// ABI tag of that namespace, like libstdc++'s __cxx11: it adds the namespace to the mangled names of functions that return a view. A class
// with a view as a member is declared in the namespace, which tests/lint/checked_views.py verifies.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(gnu::abi_tag)
namespace cuota::inline v0 {
inline namespace [[gnu::abi_tag]] CUOTA_VIEWS {}
namespace detail {
inline namespace [[gnu::abi_tag]] CUOTA_VIEWS {}
}
}
#endif
#endif

/// CUOTA_SEPARATE_COMPILATION: 1 in files that include only declarations, as targets that link CMake's cuota::cuota do. They compile in a
/// fraction of the time; one other file of the program contains the definitions. Default: 0, each file defines inline what it uses.
/// CUOTA_IMPLEMENTATION: defined in that one file before it includes cuota's headers, which must be all that the program includes;
/// cuota/cuota.cpp is such a file.
#if defined(CUOTA_IMPLEMENTATION)
#undef CUOTA_SEPARATE_COMPILATION
#define CUOTA_SEPARATE_COMPILATION 1
#elif !defined(CUOTA_SEPARATE_COMPILATION)
#define CUOTA_SEPARATE_COMPILATION 0
#endif

/// 1 in files that contain the definitions of a part of the library: CUOTA_PART_MEMORY those of core/, runtime/, resource/, guard/, pool/
/// and buffer/, the others those of the folder in their name. The four files in cuota/parts/ set one each and can be compiled in parallel
/// instead of cuota.cpp.
#if defined(CUOTA_IMPLEMENTATION) || !CUOTA_SEPARATE_COMPILATION
#undef CUOTA_PART_MEMORY
#undef CUOTA_PART_DATA
#undef CUOTA_PART_TRAINING
#undef CUOTA_PART_REPORT
#define CUOTA_PART_MEMORY 1
#define CUOTA_PART_DATA 1      ///< see CUOTA_PART_MEMORY
#define CUOTA_PART_TRAINING 1  ///< see CUOTA_PART_MEMORY
#define CUOTA_PART_REPORT 1    ///< see CUOTA_PART_MEMORY
#else
#if !defined(CUOTA_PART_MEMORY)
#define CUOTA_PART_MEMORY 0
#endif
#if !defined(CUOTA_PART_DATA)
#define CUOTA_PART_DATA 0
#endif
#if !defined(CUOTA_PART_TRAINING)
#define CUOTA_PART_TRAINING 0
#endif
#if !defined(CUOTA_PART_REPORT)
#define CUOTA_PART_REPORT 0
#endif
#endif

#if (CUOTA_PART_MEMORY || CUOTA_PART_DATA || CUOTA_PART_TRAINING || CUOTA_PART_REPORT) &&                    \
    !defined(__cpp_rtti) && !defined(__CUDA_ARCH__)
#error                                                                                                       \
    "cuota's definitions need RTTI: compile without -fno-rtti, or compile them apart (CUOTA_SEPARATE_COMPILATION=1 in files without RTTI)"
#include <the error above is the one to read>
#endif

/// 1 where the compiler reads the definitions at the end of a header: in files of its part, except while nvcc compiles for the device,
/// which takes ten times as long with them. A header whose definitions launch kernels tests CUOTA_PART_MEMORY, or the macro of its own
/// part, instead, because the device code must contain those kernels.
#if !defined(__CUDA_ARCH__)
#define CUOTA_DEFINE_MEMORY CUOTA_PART_MEMORY
#define CUOTA_DEFINE_DATA CUOTA_PART_DATA          ///< see CUOTA_DEFINE_MEMORY
#define CUOTA_DEFINE_TRAINING CUOTA_PART_TRAINING  ///< see CUOTA_DEFINE_MEMORY
#define CUOTA_DEFINE_REPORT CUOTA_PART_REPORT      ///< see CUOTA_DEFINE_MEMORY
#else
#define CUOTA_DEFINE_MEMORY 0
#define CUOTA_DEFINE_DATA 0
#define CUOTA_DEFINE_TRAINING 0
#define CUOTA_DEFINE_REPORT 0
#endif

/// Precedes each definition at the end of a header: `inline` in both forms, so that the compiler may inline one into another; otherwise
/// position-independent code makes every call through the procedure linkage table. With separate definitions, `used` makes the compiler
/// emit every function for files that have only declarations.
#if CUOTA_SEPARATE_COMPILATION
#define CUOTA_INLINE inline __attribute__((used))
#else
#define CUOTA_INLINE inline
#endif

/// Precedes functions that must not be inline with separate definitions: virtual functions, because the compiler emits a class's vtable
/// where its first one is defined, and members of templates declared `extern template`. Empty also where definitions are not read.
/// Declarations of virtual functions have it too: otherwise every file with definitions would emit the vtables of all classes and
/// everything they refer to.
#if CUOTA_SEPARATE_COMPILATION || defined(__CUDA_ARCH__)
#define CUOTA_INLINE_IN_PLACE
#else
#define CUOTA_INLINE_IN_PLACE inline
#endif

/// Precedes declarations of functions on hot paths. Empty with separate definitions and where definitions are not read.
#if CUOTA_SEPARATE_COMPILATION || defined(__CUDA_ARCH__)
#define CUOTA_ALWAYS_INLINE
#else
#define CUOTA_ALWAYS_INLINE [[gnu::always_inline]]
#endif

#if CUOTA_SEPARATE_COMPILATION
namespace cuota::inline v0 {

/// Defined in the file that defines CUOTA_IMPLEMENTATION or CUOTA_PART_MEMORY and referenced in all others: the linker reports this name if
/// a program has no such file, or two.
extern int const define_CUOTA_IMPLEMENTATION_in_one_file_or_link_cuota_cpp;
#if !CUOTA_DEFINE_MEMORY
namespace detail {
/// Makes every file refer to it.
__attribute__((used)) inline int const* const definitions =
    &define_CUOTA_IMPLEMENTATION_in_one_file_or_link_cuota_cpp;
}
#else
int const define_CUOTA_IMPLEMENTATION_in_one_file_or_link_cuota_cpp = 1;
#endif

}  // namespace cuota::inline v0
#endif
