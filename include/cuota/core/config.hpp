// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Every macro of the library, with its default and its effect.
#pragma once

#include <cuota/version.hpp>

/// Marks what kernels and host code call: compiled for both sides by nvcc, plain C++ for every other compiler.
#if defined(__CUDACC__)
#define CUOTA_HOST_DEVICE __host__ __device__
#else
#define CUOTA_HOST_DEVICE
#endif

/// Before a template for both sides that calls what it is given: nvcc does not warn where that is for one side only, as the
/// standard library's is.
#if defined(__CUDACC__) && !defined(__clang__)
#define CUOTA_NO_EXEC_CHECK _Pragma("nv_exec_check_disable")
#else
#define CUOTA_NO_EXEC_CHECK
#endif

/// 1, the default: nvcc compiles bodies of kernels for the host as well, for the simulator to run. 0, the same in a whole
/// program: for the device alone, and nvcc refuses host code that touches an element of a view; the program cannot run on
/// the simulator then.
#if !defined(CUOTA_SIMULATED_KERNELS)
#define CUOTA_SIMULATED_KERNELS 1
#endif

/// Marks a kernel's body and what only kernels call: elements of views are for such code. As CUOTA_SIMULATED_KERNELS says.
/// Example: examples/mistake.cpp
#if defined(__CUDACC__) && !CUOTA_SIMULATED_KERNELS
#define CUOTA_KERNEL __device__
#else
#define CUOTA_KERNEL CUOTA_HOST_DEVICE
#endif

/// 1 checks every index of a view of device memory, in kernels too; 0 none. Default: 1 unless NDEBUG is set. The same in a
/// whole program: files that differ do not link.
#if !defined(CUOTA_CHECKED)
#if defined(NDEBUG)
#define CUOTA_CHECKED 0
#else
#define CUOTA_CHECKED 1
#endif
#endif

/// Marks functions and data members that are or have a static object of the process: a program and all libraries that it is linked with
/// have one such object, whatever visibility they are compiled with (-fvisibility=hidden is what most libraries use). A static object that
/// is not marked exists once for each of them. docs/shared_libraries.md has what that means for plugins.
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

/// CUOTA_OWNER and CUOTA_POINTER mark what lends memory, and views of it: clang and clang-tidy then warn of a view that
/// outlives the temporary lease it was made of (-Wdangling-gsl). Nothing for other compilers.
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

/// The inline namespace of views of device memory, which know more of themselves in checked builds. Their names, and those
/// of what hands them out, tell which they are: files that were compiled one way and the other do not link.
#if CUOTA_CHECKED
#define CUOTA_VIEWS checked_views
#else
#define CUOTA_VIEWS unchecked_views
#endif

// The tag of that namespace, as of the standard library's __cxx11: what returns a view has it in its name, though the name does not tell
// the type that is returned. A class that has a view as a member stands in the namespace; tests/lint/checked_views.py asks the compiler.
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

/// CUOTA_SEPARATE: 1 in files that have cuota's declarations only, as what links CMake's cuota::cuota has. Such files compile in a
/// fraction of the time; one other file of the program has the definitions. Default: 0, every file defines inline what it uses.
/// CUOTA_IMPLEMENTATION: defined in that one file, before it includes cuota's headers: all that the program includes, or
/// cuota/cuota.cpp, which is such a file.
#if defined(CUOTA_IMPLEMENTATION)
#undef CUOTA_SEPARATE
#define CUOTA_SEPARATE 1
#elif !defined(CUOTA_SEPARATE)
#define CUOTA_SEPARATE 0
#endif

/// 1 in files that have the definitions of a part of the library: CUOTA_PART_MEMORY those of core/, runtime/, resource/, guard/, pool/
/// and buffer/, the others those of the folder that they name. The files in cuota/parts/ set one each, and are cuota.cpp in four
/// parts, which can be compiled side by side.
#if defined(CUOTA_IMPLEMENTATION) || !CUOTA_SEPARATE
#undef CUOTA_PART_MEMORY
#undef CUOTA_PART_DATA
#undef CUOTA_PART_TRAINING
#undef CUOTA_PART_REPORT
#define CUOTA_PART_MEMORY 1
#define CUOTA_PART_DATA 1      ///< as CUOTA_PART_MEMORY says
#define CUOTA_PART_TRAINING 1  ///< as CUOTA_PART_MEMORY says
#define CUOTA_PART_REPORT 1    ///< as CUOTA_PART_MEMORY says
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
    "cuota's definitions need RTTI: compile without -fno-rtti, or compile them apart (CUOTA_SEPARATE=1 in files without RTTI)"
#include <the error above is the one to read>
#endif

/// 1 where the definitions at the end of a header are read: in files that have its part, except while nvcc compiles for the device,
/// which takes five times as long with them. A header whose definitions launch kernels tests CUOTA_PART_MEMORY, or the macro of its
/// own part, instead; otherwise the device code would not contain those kernels.
#if !defined(__CUDA_ARCH__)
#define CUOTA_DEFINE_MEMORY CUOTA_PART_MEMORY
#define CUOTA_DEFINE_DATA CUOTA_PART_DATA          ///< as CUOTA_DEFINE_MEMORY says
#define CUOTA_DEFINE_TRAINING CUOTA_PART_TRAINING  ///< as CUOTA_DEFINE_MEMORY says
#define CUOTA_DEFINE_REPORT CUOTA_PART_REPORT      ///< as CUOTA_DEFINE_MEMORY says
#else
#define CUOTA_DEFINE_MEMORY 0
#define CUOTA_DEFINE_DATA 0
#define CUOTA_DEFINE_TRAINING 0
#define CUOTA_DEFINE_REPORT 0
#endif

/// CUOTA_INLINE stands before each of those definitions. It is `inline` in both forms, so that the compiler may inline one into
/// another; without it, position-independent code would make every call through the procedure linkage table. Where definitions are
/// apart, `used` makes the compiler emit every function, for the files that have declarations only.
#if CUOTA_SEPARATE
#define CUOTA_INLINE inline __attribute__((used))
#else
#define CUOTA_INLINE inline
#endif

/// CUOTA_INLINE_IN_PLACE stands before functions that may not be inline where definitions are apart: virtual functions, because the
/// compiler emits a class's virtual table where the class's first one is defined, and members of templates that are declared
/// `extern template`. It is also empty where definitions are not read. Virtual functions have it where they are declared, too: otherwise
/// every file with definitions would emit the virtual tables of all classes, and all that they refer to.
#if CUOTA_SEPARATE || defined(__CUDA_ARCH__)
#define CUOTA_INLINE_IN_PLACE
#else
#define CUOTA_INLINE_IN_PLACE inline
#endif

/// CUOTA_ALWAYS_INLINE stands before declarations of those that programs call all the time: part of the caller, but where
/// definitions are apart or not read.
#if CUOTA_SEPARATE || defined(__CUDA_ARCH__)
#define CUOTA_ALWAYS_INLINE
#else
#define CUOTA_ALWAYS_INLINE [[gnu::always_inline]]
#endif

#if CUOTA_SEPARATE
namespace cuota::inline v0 {

/// Defined in the file that defines CUOTA_IMPLEMENTATION or CUOTA_PART_MEMORY, and used in all others: the linker reports this name
/// when a program has no such file, and when it has two.
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
