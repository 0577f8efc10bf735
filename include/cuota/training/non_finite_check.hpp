// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Detection of infinite and NaN gradients on the device, read by the host once per step.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/buffer/device_scalar.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/finite.hpp>
#include <cuota/core/half.hpp>
#include <cuota/runtime/for_each_element.hpp>

namespace cuota::inline v0::detail {

using raised_flag = unsigned;

/// Raises the flag. Threads: any number, of any kernels; none clears it.
CUOTA_KERNEL inline void raise(raised_flag& flag) {
#if defined(__CUDA_ARCH__)
    atomicOr(&flag, 1u);
#else
    std::atomic_ref{flag}.store(1u, std::memory_order_relaxed);
#endif
}

/// Accumulates per thread, so that a warp raises the flag once and not for every number.
template <class T>
struct find_non_finite {
    raised_flag* flag;
    bool is_found = false;

    CUOTA_KERNEL void operator()(std::size_t, T x) { is_found |= !is_finite(x); }
    CUOTA_KERNEL void finish(warp const& all) const {
        if (all.any(is_found) && all.lane() == 0) raise(*flag);
    }
};

/// Checks the stored value: a gradient that overflows only by the multiplication counts, too.
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

/// Flag in device memory that kernels raise for infinite or NaN elements, and the host reads once per step.
///
///     cuota::non_finite_check check{s, pool};
///     for (auto& g : gradients) check.unscale(s, g.write(s), inverse);
///     bool const found = check.found(s);    // waits
///     check.reset(s);
///
/// Accepts any number of spans on any streams; the flag stays raised until `reset`. Move-only.
/// Order:   of the stream argument; calls on several streams run in the order of the calls.
/// Threads: one at a time.
/// Throws:  as device_scalar; misuse if moved from. On failure, nothing is changed.
/// Cost:    4 bytes of the resource; one kernel per span, which reads each element once.
class non_finite_check {
public:
    /// Allocates 4 bytes, with the flag not raised.
    non_finite_check(stream_ref home, resource_ref const& memory, tag name = {}, place where = place::here())
        : flag_{home, memory, name, where} {}

    /// Checks the elements.
    void look(stream_ref s, device_span<float const> at, place where = place::here());
    /// Overload for half.
    void look(stream_ref s, device_span<half const> at, place where = place::here());
    /// Overload for bfloat16.
    void look(stream_ref s, device_span<bfloat16 const> at, place where = place::here());

    /// Multiplies gradients by the inverse of their scale and checks them, in one kernel. The product is computed in double, then rounded
    /// to float and to the stored type. Throws: also misuse if `inverse` is not finite and above 0.
    void unscale(stream_ref s, device_span<float> gradients, double inverse, place where = place::here());
    /// Overload for half.
    void unscale(stream_ref s, device_span<half> gradients, double inverse, place where = place::here());
    /// Overload for bfloat16.
    void unscale(stream_ref s, device_span<bfloat16> gradients, double inverse, place where = place::here());

    /// Returns true if any element checked since the last reset, in order of s, was not finite. Waits for s and a copy of 4 bytes.
    [[nodiscard]] bool found(stream_ref s, place where = place::here()) const;
    /// Clears the flag, in order of s.
    void reset(stream_ref s, place where = place::here());

private:
    template <class T>
    void look_through(stream_ref s, device_span<T const> at, place where) {
        auto const flag = flag_.write(s, where);
        void* const nothing = nullptr;
        detail::for_each_element(s, at.size(), at.data(), nothing,
                                 detail::find_non_finite<T>{flag.span().data()}, "non_finite_check::look",
                                 where);
    }
    template <class T>
    void multiply(stream_ref s, device_span<T> gradients, double inverse, place where) {
        if (!is_finite(inverse) || inverse <= 0)
            detail::throw_misuse(where, "unscale: inverse scale must be finite and positive, got {}",
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

#if CUOTA_PART_TRAINING

namespace cuota::inline v0::inline CUOTA_VIEWS {

CUOTA_INLINE void non_finite_check::look(stream_ref s, device_span<float const> at, place where) {
    look_through(s, at, where);
}

CUOTA_INLINE void non_finite_check::look(stream_ref s, device_span<half const> at, place where) {
    look_through(s, at, where);
}

CUOTA_INLINE void non_finite_check::look(stream_ref s, device_span<bfloat16 const> at, place where) {
    look_through(s, at, where);
}

CUOTA_INLINE void non_finite_check::unscale(stream_ref s, device_span<float> gradients, double inverse,
                                            place where) {
    multiply(s, gradients, inverse, where);
}

CUOTA_INLINE void non_finite_check::unscale(stream_ref s, device_span<half> gradients, double inverse,
                                            place where) {
    multiply(s, gradients, inverse, where);
}

CUOTA_INLINE void non_finite_check::unscale(stream_ref s, device_span<bfloat16> gradients, double inverse,
                                            place where) {
    multiply(s, gradients, inverse, where);
}

CUOTA_INLINE bool non_finite_check::found(stream_ref s, place where) const {
    return flag_.get(s, where) != 0;
}

CUOTA_INLINE void non_finite_check::reset(stream_ref s, place where) {
    auto const flag = flag_.write(s, where);
    rt::fill_bytes(flag.span().data(), 0, flag.span().bytes(), s, where);
}

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#endif
