// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The macros of the library, with defaults and effects.
#pragma once

#include <cuota/version.hpp>

/// Marks functions for kernels and host code; empty without nvcc.
#if defined(__CUDACC__)
#define CUOTA_HOST_DEVICE __host__ __device__
#else
#define CUOTA_HOST_DEVICE
#endif

/// Suppresses nvcc's warning about a __host__ function called from a __host__ __device__ template, for functors of the caller.
#if defined(__CUDACC__) && !defined(__clang__)
#define CUOTA_NO_EXEC_CHECK _Pragma("nv_exec_check_disable")
#else
#define CUOTA_NO_EXEC_CHECK
#endif

/// 1 (default): nvcc compiles kernel bodies for the host too, for the simulator. 0: only for the device; host code that accesses elements
/// of views is rejected, and the program cannot run on the simulator. Must be the same in the whole program.
#if !defined(CUOTA_SIMULATED_KERNELS)
#define CUOTA_SIMULATED_KERNELS 1
#endif

/// Marks kernel bodies and functions that only kernels call, which may access elements of views.
/// Example: examples/mistake.cpp
#if defined(__CUDACC__) && !CUOTA_SIMULATED_KERNELS
#define CUOTA_KERNEL __device__
#else
#define CUOTA_KERNEL CUOTA_HOST_DEVICE
#endif

/// 1 checks every index of a view of device memory, in kernels too. Default: 0 with NDEBUG, else 1. Files that differ do not link.
#if !defined(CUOTA_CHECKED)
#if defined(NDEBUG)
#define CUOTA_CHECKED 0
#else
#define CUOTA_CHECKED 1
#endif
#endif

/// Marks functions and data members with a process-wide static object: a program and the libraries linked with it share it, whatever their
/// visibility settings (docs/shared_libraries.md).
#if defined(__GNUC__)
#define CUOTA_PROCESS_STATE [[gnu::visibility("default")]]
#else
#define CUOTA_PROCESS_STATE
#endif

/// Marks classes that are thrown or found by dynamic_cast: their type_info exists once, whatever the visibility settings
/// (docs/design/compilation.md).
#if defined(__clang__)
#define CUOTA_PROCESS_TYPE [[clang::type_visibility("default")]]
#elif defined(__GNUC__)
#define CUOTA_PROCESS_TYPE [[gnu::visibility("default")]]
#else
#define CUOTA_PROCESS_TYPE
#endif

/// CUOTA_LIFETIME_BOUND marks a member function with a result that is valid as long as its object: clang warns about a longer use
/// (-Wdangling).
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define CUOTA_LIFETIME_BOUND [[clang::lifetimebound]]
#endif
#endif
#if !defined(CUOTA_LIFETIME_BOUND)
#define CUOTA_LIFETIME_BOUND
#endif

/// CUOTA_OWNER and CUOTA_POINTER mark owners of memory and views of it: clang warns about a view that outlives its temporary lease
/// (-Wdangling-gsl).
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

/// Inline namespace of the view types. Checked views have extra members: files with different settings do not link.
#if CUOTA_CHECKED
#define CUOTA_VIEWS checked_views
#else
#define CUOTA_VIEWS unchecked_views
#endif

// The ABI tag adds the namespace to the mangled names of functions that return a view (docs/design/compilation.md).
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

/// CUOTA_SEPARATE_COMPILATION: 1 in files that include only declarations, as targets that link CMake's cuota::cuota do. Default: 0.
/// CUOTA_IMPLEMENTATION: defined in the one file with the definitions, such as cuota/cuota.cpp, before it includes cuota's headers, which
/// must be all that the program includes.
#if defined(CUOTA_IMPLEMENTATION)
#undef CUOTA_SEPARATE_COMPILATION
#define CUOTA_SEPARATE_COMPILATION 1
#elif !defined(CUOTA_SEPARATE_COMPILATION)
#define CUOTA_SEPARATE_COMPILATION 0
#endif

/// 1 in files with the definitions of a part of the library (docs/design/compilation.md). The files in cuota/parts/ set one each.
#if defined(CUOTA_IMPLEMENTATION) || !CUOTA_SEPARATE_COMPILATION
#undef CUOTA_PART_MEMORY
#undef CUOTA_PART_DATA
#undef CUOTA_PART_TRAINING
#undef CUOTA_PART_REPORT
#undef CUOTA_PART_KERNELS
#define CUOTA_PART_MEMORY 1
#define CUOTA_PART_DATA 1      ///< see CUOTA_PART_MEMORY
#define CUOTA_PART_TRAINING 1  ///< see CUOTA_PART_MEMORY
#define CUOTA_PART_REPORT 1    ///< see CUOTA_PART_MEMORY
#define CUOTA_PART_KERNELS 1   ///< definitions of all layers that launch kernels; see CUOTA_PART_MEMORY
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
#if !defined(CUOTA_PART_KERNELS)
#define CUOTA_PART_KERNELS 0
#endif
#endif

#if (CUOTA_PART_MEMORY || CUOTA_PART_DATA || CUOTA_PART_TRAINING || CUOTA_PART_REPORT ||                     \
     CUOTA_PART_KERNELS) &&                                                                                  \
    !defined(__cpp_rtti) && !defined(__CUDA_ARCH__)
#error                                                                                                       \
    "cuota's definitions need RTTI: compile without -fno-rtti, or compile them apart (CUOTA_SEPARATE_COMPILATION=1 in files without RTTI)"
#include <the error above is the one to read>
#endif

/// 1 where the definitions at the end of a header are read: in files of its part, except while nvcc compiles for the device, which takes
/// ten times as long with them. Definitions that launch kernels test the part's macro instead (docs/design/compilation.md).
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

/// Precedes each definition at the end of a header (docs/design/compilation.md).
#if CUOTA_SEPARATE_COMPILATION && defined(__clang__)
#define CUOTA_INLINE  // if constructors and destructors are inline and used, clang emits only their form for base classes
#elif CUOTA_SEPARATE_COMPILATION
#define CUOTA_INLINE inline __attribute__((used))
#else
#define CUOTA_INLINE inline
#endif

/// Precedes definitions of functions with a static object that changes: only objects of inline functions are shared by a program's libraries.
#if CUOTA_SEPARATE_COMPILATION
#define CUOTA_INLINE_STATE inline __attribute__((used))
#else
#define CUOTA_INLINE_STATE inline
#endif

/// Precedes virtual functions, at declaration and definition, and members of templates declared `extern template`, which must not be inline
/// with separate definitions (docs/design/compilation.md).
#if CUOTA_SEPARATE_COMPILATION || defined(__CUDA_ARCH__)
#define CUOTA_INLINE_IN_PLACE
#else
#define CUOTA_INLINE_IN_PLACE inline
#endif

/// consteval, or constexpr for compilers without __cpp_consteval: in templates, clang 14 calls consteval functions at run time, but does not
/// emit them.
#if defined(__cpp_consteval)
#define CUOTA_CONSTEVAL consteval
#else
#define CUOTA_CONSTEVAL constexpr
#endif

/// Precedes declarations of functions on hot paths.
#if CUOTA_SEPARATE_COMPILATION || defined(__CUDA_ARCH__)
#define CUOTA_ALWAYS_INLINE
#else
#define CUOTA_ALWAYS_INLINE [[gnu::always_inline]]
#endif

#if CUOTA_SEPARATE_COMPILATION
namespace cuota::inline v0 {

/// The linker reports this name if a program has no file with CUOTA_IMPLEMENTATION or CUOTA_PART_MEMORY, or two.
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
