// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a view of device memory knows of itself in checked builds, and who hears of its misuse.
#pragma once

#include <type_traits>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/out_of_bounds.hpp>
#include <cuota/runtime/kernel_misuse.hpp>
#include <cuota/runtime/simulated.hpp>

namespace cuota::inline v0::detail::inline CUOTA_VIEWS {

/// The name of the buffer that a view shows, and the place where it was leased; nothing in unchecked builds.
/// A value for kernels, which look at none of it. Views have it as a member in checked builds only: nvcc 13.0 gives an empty member
/// that is [[no_unique_address]] room in device code and none in host code, so that a kernel would read its arguments elsewhere.
class view_origin {
public:
    /// Of a view in a kernel, or of nothing.
    CUOTA_HOST_DEVICE constexpr view_origin() noexcept {}

    [[nodiscard]] static view_origin of_lease([[maybe_unused]] tag name,
                                              [[maybe_unused]] place where) noexcept;
    /// Of a view that was made from a pointer: nameless.
    [[nodiscard]] CUOTA_HOST_DEVICE static constexpr view_origin by_hand() noexcept {
#if CUOTA_CHECKED && !defined(__CUDA_ARCH__)
        if (!std::is_constant_evaluated()) return of_lease({}, {});
#endif
        return {};
    }

    /// A view of T does not have what was asked of it: a misuse for host code and on the simulator, the end of the kernel
    /// on a GPU.
    template <class T>
    CUOTA_HOST_DEVICE void refuse(out_of_bounds const& what) const {
        constexpr char const* unit = unit_name<T>();
#if !defined(__CUDA_ARCH__)
        detail::throw_misuse("{}{}", {bounds_text(what, unit), text()});
#elif CUOTA_CHECKED
        rt::stop_kernel(notebook_, what, unit, name_, leased_);
#endif
    }

    /// Throws: misuse when host code asks for an element. What `view` is, is said.
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
    place leased_{};
    rt::kernel_misuse* notebook_ = nullptr;
#endif
};

/// Whether a range of `count` from `first` on is inside one of `size`.
[[nodiscard]] CUOTA_HOST_DEVICE constexpr bool is_within(std::size_t first, std::size_t count,
                                                         std::size_t size) noexcept {
    return first <= size && count <= size - first;
}

}  // namespace cuota::inline v0::detail::inline CUOTA_VIEWS

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail::inline CUOTA_VIEWS {

CUOTA_INLINE view_origin view_origin::of_lease([[maybe_unused]] tag name,
                                               [[maybe_unused]] place where) noexcept {
    view_origin made;
#if CUOTA_CHECKED
    made.name_ = name;
    made.leased_ = where;
    made.notebook_ = rt::kernels_notebook();
#endif
    return made;
}

CUOTA_INLINE void view_origin::refuse_host(char const* view) const {
    detail::throw_misuse("host code touched an element of a {}; only a kernel may{}", {view, text()});
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
