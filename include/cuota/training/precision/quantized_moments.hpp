// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// AdamW with 8-bit moments.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/core/is_finite.hpp>
#include <cuota/runtime/detail/warp.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/training/detail/encode_block.hpp>
#include <cuota/training/detail/int8_codec.hpp>
#include <cuota/training/precision/cast.hpp>

namespace cuota::inline v0 {

/// Parameters of AdamW (Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019). The defaults are torch's.
struct adamw_options {
    double learning_rate = 1e-3;  ///< 0 or above
    double beta1 = 0.9;           ///< of the mean of gradients, in [0, 1)
    double beta2 = 0.999;         ///< of the mean of squares, in [0, 1)
    double epsilon = 1e-8;        ///< above 0: added to the root
    double weight_decay = 0.01;   ///< decoupled, times the learning rate; 0 or above
};

namespace detail {

void check_adamw(adamw_options const& o, source_location where);

/// Returns a * b + c, rounded once.
[[nodiscard]] CUOTA_HOST_DEVICE inline float fused(float a, float b, float c) noexcept {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

/// Constants of one step: m = beta1 * m + rest1 * g, likewise v, and parameter -= rate * m / (root * root_factor + epsilon) + decay *
/// parameter.
struct adamw_step {
    float beta1, rest1, beta2, rest2, rate, root_factor, epsilon, decay;

    [[nodiscard]] static adamw_step of(adamw_options const& o, std::uint64_t step) noexcept;
};

/// Adam's m, and the root of its v. Added products are fused explicitly, so that all compilers give the same result.
struct adam_moments {
    float first;
    float root;

    [[nodiscard]] CUOTA_HOST_DEVICE adam_moments after(float gradient, adamw_step const& by) const noexcept {
        float const m = fused(by.beta1, first, by.rest1 * gradient);
        // Scaled by a power of two, because squares of floats may overflow or underflow.
        std::uint32_t const r = __builtin_bit_cast(std::uint32_t, root);
        std::uint32_t const g = __builtin_bit_cast(std::uint32_t, magnitude(gradient));
        std::uint32_t const exponent = (r > g ? r : g) >> 23;
        std::uint32_t const within = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;
        float const up = __builtin_bit_cast(float, (254 - within) << 23);
        float const down = __builtin_bit_cast(float, within << 23);
        float const near_root = root * up;
        float const near_gradient = gradient * up;
        float const v = fused(by.beta2 * near_root, near_root, by.rest2 * near_gradient * near_gradient);
        return {m, std::sqrt(v) * down};
    }
    [[nodiscard]] CUOTA_HOST_DEVICE float applied_to(float parameter, adamw_step const& by) const noexcept {
        float const divisor = fused(root, by.root_factor, by.epsilon);
        return parameter - fused(by.decay, parameter, by.rate * first / divisor);
    }
};

template <bool is_writable>
struct moment_codes {
    template <class T>
    using element = std::conditional_t<is_writable, T, T const>;
    element<signed_code::type>* first;
    element<float>* first_scales;
    element<divisor_code::type>* root;
    element<float>* root_scales;

    [[nodiscard]] CUOTA_KERNEL adam_moments at(std::size_t i, float first_scale, float root_scale) const {
        return {signed_code::value(first[i], first_scale), divisor_code::value(root[i], root_scale)};
    }
};

// Reads moments once if the block is whole, aligned and fits in registers.
template <std::size_t Block>
struct adamw_block {
    float* parameters;
    float const* gradients;
    moment_codes<true> codes;
    std::size_t count;
    adamw_step by;

    CUOTA_KERNEL void operator()(std::size_t b, warp const& all) const {
        using registers = block_in_registers<Block>;
        std::size_t const begin = b * Block;
        adam_moments const scales{codes.first_scales[b], codes.root_scales[b]};
        bool const is_whole = registers::fits && count - begin >= Block &&
                              registers::is_aligned(parameters + begin) &&
                              registers::is_aligned(gradients + begin);
        adam_moments const next = is_whole ? in_registers(begin, scales, all) : in_memory(begin, scales, all);
        if (all.lane() == 0) {
            codes.first_scales[b] = next.first;
            codes.root_scales[b] = next.root;
        }
    }

private:
    [[nodiscard]] CUOTA_KERNEL static adam_moments scales_of(float most_first, float most_root) {
        return {signed_code::code::scale(most_first), divisor_code::code::scale(most_root)};
    }
    // Both return the new scales. Codes have the alignment of their buffers.
    [[nodiscard]] CUOTA_KERNEL adam_moments in_registers(std::size_t begin, adam_moments scales,
                                                         warp const& all) const {
        using registers = block_in_registers<Block>;
        using floats = element_pack<float, registers::pack, true>;
        floats parameter[registers::packs];
        floats gradient[registers::packs];
        registers first;
        registers root;
        for (std::size_t p = 0; p != registers::packs; ++p) {
            std::size_t const at = begin + registers::offset(p, all);
            parameter[p] = registers::load(parameters + at);
            gradient[p] = registers::load(gradients + at);
            auto const first_codes = registers::load(codes.first + at);
            auto const root_codes = registers::load(codes.root + at);
            for (std::size_t i = 0; i != registers::pack; ++i) {
                first.at[p][i] = signed_code::value(first_codes.at[i], scales.first);
                root.at[p][i] = divisor_code::value(root_codes.at[i], scales.root);
            }
        }
        for (std::size_t p = 0; p != registers::packs; ++p) {
            for (std::size_t i = 0; i != registers::pack; ++i) {
                adam_moments const next =
                    adam_moments{first.at[p][i], root.at[p][i]}.after(gradient[p].at[i], by);
                parameter[p].at[i] = next.applied_to(parameter[p].at[i], by);
                first.at[p][i] = next.first;
                root.at[p][i] = next.root;
            }
            store(parameter[p], parameters + begin + registers::offset(p, all));
        }
        adam_moments const made = scales_of(first.largest(all), root.largest(all));
        first.template encode<signed_code>(signed_code::code::encoder{made.first}, codes.first + begin, all);
        root.template encode<divisor_code>(divisor_code::code::encoder{made.root}, codes.root + begin, all);
        return made;
    }
    [[nodiscard]] CUOTA_KERNEL adam_moments in_memory(std::size_t begin, adam_moments scales,
                                                      warp const& all) const {
        std::size_t const end = block_end(begin, Block, count);
        adam_moments most{0, 0};
        for (std::size_t i = begin + all.lane(); i < end; i += warp::threads) {
            adam_moments const next = of(i, scales);
            most.first = finite_max(most.first, magnitude(next.first));
            most.root = finite_max(most.root, next.root);
        }
        adam_moments const made = scales_of(all.largest(most.first), all.largest(most.root));
        signed_code::code::encoder const of_first{made.first};
        divisor_code::code::encoder const of_root{made.root};
        for (std::size_t i = begin + all.lane(); i < end; i += warp::threads) {
            adam_moments const next = of(i, scales);
            parameters[i] = next.applied_to(parameters[i], by);
            codes.first[i] = signed_code::of(next.first, of_first);
            codes.root[i] = divisor_code::of(next.root, of_root);
        }
        return made;
    }
    [[nodiscard]] CUOTA_KERNEL adam_moments of(std::size_t i, adam_moments scales) const {
        return codes.at(i, scales.first, scales.root).after(gradients[i], by);
    }
};

template <std::size_t Block>
struct load_moments {
    moment_codes<false> codes;
    float* first;
    float* second;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        adam_moments const now = codes.at(i, codes.first_scales[i / Block], codes.root_scales[i / Block]);
        first[i] = now.first;
        second[i] = now.root * now.root;
    }
};

template <std::size_t Block>
struct store_moments {
    // Returns NaN for values below 0.
    struct root_of {
        [[nodiscard]] CUOTA_KERNEL float operator()(float moment) const { return std::sqrt(moment); }
    };
    struct itself {
        [[nodiscard]] CUOTA_KERNEL float operator()(float moment) const { return moment; }
    };

    float const* first;
    float const* second;
    moment_codes<true> codes;
    std::size_t count;
    CUOTA_KERNEL void operator()(std::size_t b, warp const& all) const {
        encode_block<signed_code, Block>(b, all, count, first, codes.first, codes.first_scales, itself{});
        encode_block<divisor_code, Block>(b, all, count, second, codes.root, codes.root_scales, root_of{});
    }
};

template <std::size_t Block>
inline constexpr unsigned least_resident<each_by_warp<adamw_block<Block>>> = 4;

}  // namespace detail

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Adam's moments m and v of `size()` parameters in 8 bits each (see `quantized`), and AdamW's step: 2 bytes per parameter and 8 per block.
///
///     cuota::quantized_moments<> adam{n, s, pool, "adam"};
///     adam.step(s, parameters.write(s), gradients.read(s), {.learning_rate = 3e-4});
///
/// Stores m with the error of `quantized`, and r = sqrt(v) with |r - r'| <= max / 254 / 2 over the block, but a nonzero r below half the
/// scale becomes the scale, so that no update divides by epsilon alone. Parameters are updated with the moments before these are rounded.
/// In each step, a change of a moment by less than half the scale is lost.
/// A non-finite gradient makes its own parameter and moments NaN; check before (non_finite_check). An epsilon below 2^-126 is raised to
/// that.
/// Move-only.
/// Order:   of the stream arguments.
/// Threads: as device_buffer; one step at a time.
/// Throws:  as device_buffer; usage_error if counts differ or options are invalid. On failure, nothing is changed or stays allocated.
/// Cost:    one kernel per step: 16 bytes of memory traffic per parameter if Block is a multiple of 128 up to 1024 and parameters and
///          gradients are aligned to 16 bytes; otherwise moments and gradients are read twice.
template <std::size_t Block = 256>
class quantized_moments {
    static_assert(Block != 0, "a block has at least one number");

public:
    /// Allocates zero moments of `count` parameters.
    quantized_moments(element_count count, stream_ref home, resource_ref const& memory, tag name = {},
                      source_location where = source_location::current())
        : first_{count, home, memory, name, where},
          first_scales_{blocks(count), home, memory, name, where},
          root_{count, home, memory, name, where},
          root_scales_{blocks(count), home, memory, name, where} {}

    /// Returns the bytes of the four allocations for `count` parameters, each rounded up to `granularity`; `unlimited` on overflow.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t count,
                                                     std::size_t granularity = 1) noexcept {
        return checked_mul(2, detail::coded_bytes(count, Block, granularity)).value_or(unlimited);
    }
    [[nodiscard]] std::size_t size() const noexcept { return first_.size(); }  ///< number of parameters
    /// Returns the bytes of both moments.
    [[nodiscard]] std::size_t bytes() const noexcept {
        return first_.bytes() + first_scales_.bytes() + root_.bytes() + root_scales_.bytes();
    }
    [[nodiscard]] stream_ref home() const noexcept { return first_.home(); }  ///< stream of all buffers
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }     ///< enqueued steps

    /// Enqueues one step of AdamW.
    void step(stream_ref s, device_span<float> parameters, device_span<float const> gradients,
              adamw_options const& by = {}, source_location where = source_location::current()) {
        detail::check_counts("quantized_moments::step", parameters.size(), size(), where);
        detail::check_counts("quantized_moments::step", gradients.size(), size(), where);
        detail::check_disjoint("quantized_moments::step", parameters.data(), parameters.bytes(),
                               gradients.data(), gradients.bytes(), where);
        detail::check_adamw(by, where);
        borrowed<true> const mine{*this, s, where};
        detail::for_each_by_warp(s, first_scales_.size(),
                                 detail::adamw_block<Block>{parameters.data(), gradients.data(), mine.codes(),
                                                            size(), detail::adamw_step::of(by, steps_ + 1)},
                                 "quantized_moments::step", where);
        ++steps_;
    }

    /// Writes m and v as floats, for a checkpoint.
    void load(stream_ref s, device_span<float> m, device_span<float> v,
              source_location where = source_location::current()) const {
        check_both("quantized_moments::load", m, v, where);
        borrowed<false> const mine{*this, s, where};
        for_each_index(s, size(), detail::load_moments<Block>{mine.codes(), m.data(), v.data()},
                       "quantized_moments::load", where);
    }
    /// Replaces m, v and the number of steps. A v below 0 becomes NaN.
    void store(stream_ref s, device_span<float const> m, device_span<float const> v, std::uint64_t steps,
               source_location where = source_location::current()) {
        check_both("quantized_moments::store", m, v, where);
        borrowed<true> const mine{*this, s, where};
        detail::for_each_by_warp(s, first_scales_.size(),
                                 detail::store_moments<Block>{m.data(), v.data(), mine.codes(), size()},
                                 "quantized_moments::store", where);
        steps_ = steps;
    }

private:
    template <bool is_writable>
    class borrowed {
        template <class T>
        using of_some = lease<std::conditional_t<is_writable, T, T const>>;

    public:
        template <class Moments>
        borrowed(Moments& of, stream_ref s, source_location where)
            : first_{taken(of.first_, s, where)},
              first_scales_{taken(of.first_scales_, s, where)},
              root_{taken(of.root_, s, where)},
              root_scales_{taken(of.root_scales_, s, where)} {}
        [[nodiscard]] detail::moment_codes<is_writable> codes() const noexcept {
            return {first_.span().data(), first_scales_.span().data(), root_.span().data(),
                    root_scales_.span().data()};
        }

    private:
        template <class Buffer>
        [[nodiscard]] static auto taken(Buffer& from, stream_ref s, source_location where) {
            if constexpr (is_writable) return from.write(s, where);
            else return from.read(s, where);
        }
        of_some<detail::signed_code::type> first_;
        of_some<float> first_scales_;
        of_some<detail::divisor_code::type> root_;
        of_some<float> root_scales_;
    };
    template <class T>
    void check_both(char const* what, device_span<T> m, device_span<T> v, source_location where) const {
        detail::check_counts(what, m.size(), size(), where);
        detail::check_counts(what, v.size(), size(), where);
    }
    [[nodiscard]] static constexpr std::size_t blocks(std::size_t count) noexcept {
        return count / Block + (count % Block != 0 ? 1 : 0);
    }

    device_buffer<detail::signed_code::type> first_;
    device_buffer<float> first_scales_;
    device_buffer<detail::divisor_code::type> root_;
    device_buffer<float> root_scales_;
    std::uint64_t steps_ = 0;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_DEFINE_TRAINING

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_adamw(adamw_options const& o, source_location where) {
    auto const refuse = [&](char const* name, double value, char const* range) {
        throw_usage_error(where, "adamw: {} = {} is out of range {}", {name, value, range});
    };
    // Written so that a NaN fails.
    if (!(is_finite(o.learning_rate) && o.learning_rate >= 0))
        refuse("learning_rate", o.learning_rate, "[0, inf)");
    if (!(o.beta1 >= 0 && o.beta1 < 1)) refuse("beta1", o.beta1, "[0, 1)");
    if (!(o.beta2 >= 0 && o.beta2 < 1)) refuse("beta2", o.beta2, "[0, 1)");
    if (!(is_finite(o.epsilon) && o.epsilon > 0)) refuse("epsilon", o.epsilon, "(0, inf)");
    if (!(is_finite(o.weight_decay) && o.weight_decay >= 0))
        refuse("weight_decay", o.weight_decay, "[0, inf)");
}

CUOTA_INLINE adamw_step adamw_step::of(adamw_options const& o, std::uint64_t step) noexcept {
    double const t = static_cast<double>(step);
    return {static_cast<float>(o.beta1),
            static_cast<float>(1 - o.beta1),
            static_cast<float>(o.beta2),
            static_cast<float>(1 - o.beta2),
            static_cast<float>(o.learning_rate / (1 - std::pow(o.beta1, t))),
            static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, t))),
            static_cast<float>(std::max(o.epsilon, 0x1p-126)),  // avoids 0 / 0
            static_cast<float>(o.learning_rate * o.weight_decay)};
}

}  // namespace cuota::inline v0::detail

#endif
