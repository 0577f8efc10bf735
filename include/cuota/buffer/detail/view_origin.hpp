// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Origin of a view of device memory, and reports of invalid accesses.
#pragma once

#include <type_traits>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/out_of_bounds.hpp>
#include <cuota/core/error.hpp>
#include <cuota/runtime/rt/device_assert.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::detail::inline CUOTA_VIEWS {

/// Buffer name and lease call site of a view. Views have this member in checked builds only: nvcc 13.0 gives an empty [[no_unique_address]]
/// member storage in device code and none in host code, so kernels would read arguments at wrong offsets.
class view_origin {
public:
    /// Makes an empty origin, also in kernels.
    CUOTA_HOST_DEVICE constexpr view_origin() noexcept {}

    [[nodiscard]] static view_origin of_lease([[maybe_unused]] tag name,
                                              [[maybe_unused]] source_location where) noexcept;
    /// Returns the origin of a view made from a pointer.
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr view_origin by_hand() noexcept {
#if CUOTA_CHECKED && !defined(__CUDA_ARCH__)
        if (!std::is_constant_evaluated()) return of_lease({}, {});
#endif
        return {};
    }

    /// Reports an invalid access: throws usage_error on the host and on the simulator, stops the kernel on a GPU (in checked builds;
    /// otherwise has no effect there).
    template <class T>
    CUOTA_HOST_DEVICE void refuse(out_of_bounds const& what) const {
        constexpr char const* unit = unit_name<T>();
#if !defined(__CUDA_ARCH__)
        detail::throw_usage_error("{}{}", {bounds_text(what, unit), text()});
#elif CUOTA_CHECKED
        rt::fail_device_assert(notebook_, what, unit, name_, leased_);
#endif
    }

    /// Throws usage_error outside of kernels; `view` is the type's name in the message.
    CUOTA_HOST_DEVICE void expect_kernel([[maybe_unused]] char const* view) const {
#if !defined(__CUDA_ARCH__)
        if (is_simulated() && cuota_simulator_in_kernel() != 0) [[likely]]
            return;
        refuse_host(view);
#endif
    }

private:
    [[nodiscard]] std::string text() const;
    [[noreturn, gnu::cold]] void refuse_host(char const* view) const;

#if CUOTA_CHECKED
    tag name_{};
    source_location leased_{};
    rt::device_assert_record* notebook_ = nullptr;
#endif
};

[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_within(std::size_t first, std::size_t count,
                                                         std::size_t size) noexcept {
    return first <= size && count <= size - first;
}

}  // namespace cuota::inline v0::detail::inline CUOTA_VIEWS

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail::inline CUOTA_VIEWS {

CUOTA_INLINE view_origin view_origin::of_lease([[maybe_unused]] tag name,
                                               [[maybe_unused]] source_location where) noexcept {
    view_origin made;
#if CUOTA_CHECKED
    made.name_ = name;
    made.leased_ = where;
    made.notebook_ = rt::device_assert_buffer();
#endif
    return made;
}

CUOTA_INLINE void view_origin::refuse_host(char const* view) const {
    detail::throw_usage_error("host code touched an element of a {}; only a kernel may{}", {view, text()});
}

CUOTA_INLINE std::string view_origin::text() const {
#if CUOTA_CHECKED
    return lease_text(name_, leased_);
#else
    return {};
#endif
}

}  // namespace cuota::inline v0::detail::inline CUOTA_VIEWS

#endif
