// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Detection of infinite and NaN gradients.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/buffer/device_scalar.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/half.hpp>
#include <cuota/core/is_finite.hpp>
#include <cuota/runtime/detail/for_each_element.hpp>

namespace cuota::inline v0::detail {

using raised_flag = unsigned;

/// Threads: any number, of any kernels; none clears it.
CUOTA_KERNEL inline void raise(raised_flag& flag) {
#if defined(__CUDA_ARCH__)
    atomicOr(&flag, 1u);
#else
    std::atomic_ref{flag}.store(1u, std::memory_order_relaxed);
#endif
}

/// Accumulates per thread, so that a warp raises the flag once.
template <class T>
struct find_non_finite {
    raised_flag* flag;
    bool is_found = false;

    CUOTA_KERNEL void operator()(std::size_t, T x) { is_found |= !is_finite(x); }
    CUOTA_KERNEL void finish(warp const& all) const {
        if (all.any(is_found) && all.lane() == 0) raise(*flag);
    }
};

/// Checks the stored value, which may overflow by the multiplication.
template <class T>
struct unscale_number {
    find_non_finite<T> look;
    double inverse;

    [[nodiscard]] CUOTA_KERNEL T operator()(std::size_t i, T x) {
        double const product = static_cast<double>(static_cast<float>(x)) * inverse;
        T const unscaled = static_cast<T>(static_cast<float>(product));
        look(i, unscaled);
        return unscaled;
    }
    CUOTA_KERNEL void finish(warp const& all) const { look.finish(all); }
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Flag in device memory that kernels raise for infinite or NaN elements.
///
///     cuota::non_finite_check check{s, pool};
///     for (auto& g : gradients) check.unscale(s, g.write(s), inverse);
///     bool const found = check.found(s);    // waits
///     check.reset(s);
///
/// The flag stays raised until `reset`. Move-only.
/// Order:   of the stream argument; calls on several streams run in the order of the calls.
/// Threads: one at a time.
/// Throws:  as device_scalar; usage_error if moved from. On failure, nothing is changed.
/// Cost:    4 bytes; one kernel per span.
class non_finite_check {
public:
    /// Allocates the flag, not raised.
    non_finite_check(stream_ref home, resource_ref const& memory, tag name = {},
                     source_location where = source_location::current())
        : flag_{home, memory, name, where} {}

    /// Checks the elements.
    void check(stream_ref s, device_span<float const> at, source_location where = source_location::current());
    /// Overload for half.
    void check(stream_ref s, device_span<half const> at, source_location where = source_location::current());
    /// Overload for bfloat16.
    void check(stream_ref s, device_span<bfloat16 const> at,
               source_location where = source_location::current());

    /// Multiplies gradients by the inverse of their scale, in double, and checks the stored results. Throws: also usage_error if `inverse`
    /// is not finite and above 0.
    void unscale(stream_ref s, device_span<float> gradients, double inverse,
                 source_location where = source_location::current());
    /// Overload for half.
    void unscale(stream_ref s, device_span<half> gradients, double inverse,
                 source_location where = source_location::current());
    /// Overload for bfloat16.
    void unscale(stream_ref s, device_span<bfloat16> gradients, double inverse,
                 source_location where = source_location::current());

    /// Returns true if any element checked since the last reset was not finite. Waits for s.
    [[nodiscard]] bool found(stream_ref s, source_location where = source_location::current()) const;
    /// Clears the flag.
    void reset(stream_ref s, source_location where = source_location::current());

private:
    template <class T>
    void look_through(stream_ref s, device_span<T const> at, source_location where) {
        auto const flag = flag_.write(s, where);
        void* const nothing = nullptr;
        detail::for_each_element(s, at.size(), at.data(), nothing,
                                 detail::find_non_finite<T>{flag.span().data()}, "non_finite_check::check",
                                 where);
    }
    template <class T>
    void multiply(stream_ref s, device_span<T> gradients, double inverse, source_location where) {
        if (!is_finite(inverse) || inverse <= 0)
            detail::throw_usage_error(where, "unscale: inverse scale must be finite and positive, got {}",
                                      {inverse});
        auto const flag = flag_.write(s, where);
        T const* const from = gradients.data();
        detail::for_each_element(s, gradients.size(), from, gradients.data(),
                                 detail::unscale_number<T>{{flag.span().data()}, inverse},
                                 "non_finite_check::unscale", where);
    }

    device_scalar<detail::raised_flag> flag_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_PART_KERNELS

namespace cuota::inline v0::inline CUOTA_VIEWS {

CUOTA_INLINE void non_finite_check::check(stream_ref s, device_span<float const> at, source_location where) {
    look_through(s, at, where);
}

CUOTA_INLINE void non_finite_check::check(stream_ref s, device_span<half const> at, source_location where) {
    look_through(s, at, where);
}

CUOTA_INLINE void non_finite_check::check(stream_ref s, device_span<bfloat16 const> at,
                                          source_location where) {
    look_through(s, at, where);
}

CUOTA_INLINE void non_finite_check::unscale(stream_ref s, device_span<float> gradients, double inverse,
                                            source_location where) {
    multiply(s, gradients, inverse, where);
}

CUOTA_INLINE void non_finite_check::unscale(stream_ref s, device_span<half> gradients, double inverse,
                                            source_location where) {
    multiply(s, gradients, inverse, where);
}

CUOTA_INLINE void non_finite_check::unscale(stream_ref s, device_span<bfloat16> gradients, double inverse,
                                            source_location where) {
    multiply(s, gradients, inverse, where);
}

CUOTA_INLINE bool non_finite_check::found(stream_ref s, source_location where) const {
    return flag_.get(s, where) != 0;
}

CUOTA_INLINE void non_finite_check::reset(stream_ref s, source_location where) {
    auto const flag = flag_.write(s, where);
    rt::fill_bytes(flag.span().data(), 0, flag.span().bytes(), s, where);
}

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#endif
