// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Whether gradients have a number that is infinite or none: looked for on the device, asked for once a step.
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

/// Threads: any number, of any kernels; none clears it.
CUOTA_KERNEL inline void raise(raised_flag& flag) {
#if defined(__CUDA_ARCH__)
    atomicOr(&flag, 1u);
#else
    std::atomic_ref{flag}.store(1u, std::memory_order_relaxed);
#endif
}

/// Keeps what a thread has seen, so that a warp raises the flag once, and not with every number.
template <class T>
struct find_non_finite {
    raised_flag* flag;
    bool is_found = false;  // by this thread

    CUOTA_KERNEL void operator()(std::size_t, T x) { is_found |= !is_finite(x); }
    CUOTA_KERNEL void finish(warp const& all) const {
        if (all.any(is_found) && all.lane() == 0) raise(*flag);
    }
};

/// Looks at what is stored: a gradient that is too large only when it was multiplied counts too.
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

/// A flag in device memory that kernels raise where a number is infinite or a NaN, and the host reads once a step.
///
///     cuota::non_finite_check check{s, pool};
///     for (auto& g : gradients) check.unscale(s, g.write(s), inverse);
///     bool const found = check.found(s);    // waits
///     check.reset(s);
///
/// Any number of spans, on any streams: the flag stays up until `reset`. Move-only.
/// Order:   of the stream that is given; calls on several go in the order they were made.
/// Threads: one at a time. Throws: as device_scalar; misuse after it was moved from. Throwing changes nothing.
/// Cost:    4 bytes of the resource; a kernel a span, which reads what it looks at once.
class non_finite_check {
public:
    /// Nothing was found yet. Takes 4 bytes.
    non_finite_check(stream_ref home, resource_ref const& memory, tag name = {}, place where = place::here())
        : flag_{home, memory, name, where} {}

    /// Looks through the elements.
    void look(stream_ref s, device_span<float const> at, place where = place::here());
    /// 16 bits a number.
    void look(stream_ref s, device_span<half const> at, place where = place::here());
    /// 16 bits a number.
    void look(stream_ref s, device_span<bfloat16 const> at, place where = place::here());

    /// Multiplies gradients by the inverse of their scale, and looks at them, in one go. The product is made in double,
    /// rounded to float, and then to what is stored.
    /// Throws: misuse too for an inverse that is not finite and above 0.
    void unscale(stream_ref s, device_span<float> gradients, double inverse, place where = place::here());
    /// 16 bits a number.
    void unscale(stream_ref s, device_span<half> gradients, double inverse, place where = place::here());
    /// 16 bits a number.
    void unscale(stream_ref s, device_span<bfloat16> gradients, double inverse, place where = place::here());

    /// Whether anything so far, in order of s, was not finite since the last reset. Waits for s, and for a copy of 4 bytes.
    [[nodiscard]] bool found(stream_ref s, place where = place::here()) const;
    /// Nothing was found, in order of s.
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
            detail::throw_misuse(
                where, "gradients were to be multiplied by {}, which is the inverse of no scale", {inverse});
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
