// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// State shared by a program and its libraries, and detection of a second copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// Identifies the process state (CUOTA_PROCESS_STATE) of the calling code. A program and the libraries linked with it share one; a library
/// opened by dlopen has its own if the program does not export its symbols.
CUOTA_PROCESS_STATE [[nodiscard]] void const* process_state() noexcept;

/// Throws usage_error if the calling code has another state than `state`, with which the object `what` was made.
void refuse_other_state(void const* state, char const* what, source_location where);

/// Keeps the library that contains `address` loaded until the program ends: a refusal kept by a budget refers to names, call sites and a
/// destructor there.
/// Cost: microseconds. Threads: any.
CUOTA_PROCESS_STATE void keep_loaded(void const* address) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <dlfcn.h>
#include <link.h>

#include <atomic>

#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE_STATE void const* process_state() noexcept {
    static constinit char one = 0;
    return &one;
}

CUOTA_INLINE void refuse_other_state(void const* state, char const* what, source_location where) {
    if (state != process_state()) [[unlikely]]
        throw_usage_error(
            where,
            "cannot use {} in a library that was loaded by dlopen and does not share the program's state; "
            "link the program with -rdynamic (CMake: ENABLE_EXPORTS), so that it exports the state",
            {what});
}

namespace loaded {

struct library {
    std::uintptr_t address;
    char const* name = nullptr;  ///< empty for the program
    std::uintptr_t base = 0;
};

CUOTA_INLINE int has_address(dl_phdr_info* info, std::size_t, void* sought) {
    auto& library_of = *static_cast<library*>(sought);
    for (int i = 0; i != info->dlpi_phnum; ++i) {
        auto const& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || library_of.address - info->dlpi_addr - part.p_vaddr >= part.p_memsz)
            continue;
        library_of.name = info->dlpi_name;
        library_of.base = info->dlpi_addr;
        return 1;
    }
    return 0;
}

}  // namespace loaded

CUOTA_INLINE_STATE void keep_loaded(void const* address) noexcept {
    loaded::library found{reinterpret_cast<std::uintptr_t>(address)};
    if (::dl_iterate_phdr(&loaded::has_address, &found) == 0 || !found.name || !*found.name) return;
    static constinit std::atomic<std::uintptr_t> last_kept = 0;
    if (last_kept.load(std::memory_order_relaxed) == found.base) return;
    void* const handle = ::dlopen(found.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (!handle) return;
    ::dlclose(handle);
    last_kept.store(found.base, std::memory_order_relaxed);  // after dlopen, because other threads rely on it
}

}  // namespace cuota::inline v0::detail

#endif
