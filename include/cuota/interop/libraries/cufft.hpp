// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cuFFT with work areas from a memory resource.
#pragma once

#include <cufft.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include <cuota/core/label.hpp>
#include <cuota/interop/libraries/library_handle.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

namespace detail {

/// cuFFT for library_handle, of which a plan is the handle.
struct cufft_library {
    using native = cufftHandle;
    [[nodiscard]] static std::string prefix() { return "cufft"; }
    [[nodiscard]] static tag name() noexcept { return "cufft"; }
    /// Measured on an H100 with cuFFT 12: at most, and without the work area.
    [[nodiscard]] static constexpr std::size_t own_bytes() noexcept { return std::size_t{34} << 20; }
    [[nodiscard]] static std::size_t usual_workspace(device) noexcept { return 0; }
    static int create(native& h) { return cufftCreate(&h); }
    static int destroy(native h) { return cufftDestroy(h); }
    static int set_stream(native h, cudaStream_t s) { return cufftSetStream(h, s); }
    static int set_workspace(native h, void* p, std::size_t) { return cufftSetWorkArea(h, p); }
    static int forget_workspace(native h, cudaStream_t) { return cufftSetWorkArea(h, nullptr); }
    [[nodiscard]] static std::string set_workspace_name() { return "cufftSetWorkArea"; }
    [[nodiscard]] static std::string forget_workspace_name() { return "cufftSetWorkArea"; }
    [[nodiscard]] static bool lacks_memory(int status) noexcept { return status == CUFFT_ALLOC_FAILED; }
    [[nodiscard]] static bool may_lack_memory(int status) noexcept { return status == CUFFT_INTERNAL_ERROR; }
    /// cuFFT has no texts.
    [[nodiscard]] static std::string text_of(int status) { return "status " + std::to_string(status); }
};

/// Returns the status of a new handle for which make() has made the plan. Unless that is success, also on a throw, there is no handle.
template <class Make>
[[nodiscard]] int make_plan(cufftHandle& to, Make& make) {
    if (cufftResult const status = cufftCreate(&to); status != CUFFT_SUCCESS) return status;
    struct unfinished {
        cufftHandle made;
        cufftResult status = CUFFT_SETUP_FAILED;
        ~unfinished() {
            if (status != CUFFT_SUCCESS) (void)cufftDestroy(made);
        }
    } plan{to};
    std::size_t bytes = 0;
    cufftResult status = cufftSetAutoAllocation(to, 0);
    if (status == CUFFT_SUCCESS) status = make(to, &bytes);
    return plan.status = status;
}

}  // namespace detail

/// A plan of cuFFT. Its scopes allocate the work area, of the size that cuFFT reports.
///
///     cufft_plan plan{pool, [&](cufftHandle p, std::size_t* bytes) {
///         return cufftMakePlan1d(p, n, CUFFT_C2C, batch, bytes);
///     }};
///     cufft_plan::check(cufftExecC2C(plan.on(stream), in, out, CUFFT_FORWARD), "cufftExecC2C");
///
/// Same as library_handle otherwise. A plan of a large prime length keeps memory of its own besides.
/// Throws:  also library_error for the status that `make` returns. If it lacks memory, idle memory is released and `make` is called again
///          with a new handle.
/// Example: tests/interop/libraries/cufft.sim.cpp
class cufft_plan : public library_handle<detail::cufft_library> {
public:
    /// Makes the plan by make(handle, &bytes), which calls one of cuFFT's functions cufftMakePlan...
    template <class Make>
        requires std::is_invocable_r_v<cufftResult, Make&, cufftHandle, std::size_t*> cufft_plan(
            any_resource memory, Make&& make, tag name = detail::cufft_library::name(),
            source_location where = source_location::current())
            : library_handle{std::move(memory), label{name, where}, "cufftMakePlan",
                             [&](cufftHandle& made) { return detail::make_plan(made, make); }} {
            std::size_t bytes = 0;
            check(cufftGetSize(get(), &bytes), "cufftGetSize",
                  where);  // `make` may have returned sizes of several devices
            set_workspace_bytes(bytes);
        }
};

}  // namespace cuota::inline v0
