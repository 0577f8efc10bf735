// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One state for a program and all its libraries, and how a second one is noticed.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// Identifies the state that the calling code uses: all functions and members that are CUOTA_PROCESS_STATE. A program and the libraries
/// that it is linked with have one. A library that is opened by dlopen has one of its own when the program does not export its symbols.
CUOTA_PROCESS_STATE [[nodiscard]] void const* process_state() noexcept;

/// Throws misuse when an object that was made with `state` is used by code with another one: captures, device budgets and the error sink
/// of the two know nothing of each other. `what` names the object. Cost: a comparison.
void refuse_other_state(void const* state, char const* what, place where);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void const* process_state() noexcept {
    static constinit char one = 0;
    return &one;
}

CUOTA_INLINE void refuse_other_state(void const* state, char const* what, place where) {
    if (state != process_state()) [[unlikely]]
        throw_misuse(where,
                     "{} was used by a library that was opened by dlopen and shares no state with the "
                     "program: link the program with "
                     "-rdynamic (CMake: ENABLE_EXPORTS), so that it exports the state",
                     {what});
}

}  // namespace cuota::inline v0::detail

#endif
