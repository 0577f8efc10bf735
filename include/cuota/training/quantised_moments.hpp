// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// AdamW with its two moments in 8 bits each.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/core/finite.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/training/block_code.hpp>
#include <cuota/training/cast.hpp>

namespace cuota::inline v0 {

/// A step of AdamW (Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019). Its defaults are torch's.
struct adamw_options {
    double learning_rate = 1e-3;  ///< factor of a step; 0 or above
    double beta1 = 0.9;           ///< of the mean of gradients: 0 to less than 1
    double beta2 = 0.999;         ///< of the mean of their squares: 0 to less than 1
    double epsilon = 1e-8;        ///< above 0: added to the root
    double weight_decay = 0.01;   ///< decoupled, times the learning rate; 0 or above
};

namespace detail {

void check_adamw(adamw_options const& o, place where);

/// What all threads of a step need: the factors of parameter -= rate * m / (root * root_factor + epsilon).
struct adamw_step {
    double beta1, beta2, rate, root_factor, epsilon, kept;

    [[nodiscard]] static adamw_step of(adamw_options const& o, std::uint64_t step) noexcept;
};

/// Adam's m, and the root of its v.
struct adam_moments {
    float first;
    float root;

    [[nodiscard]] CUOTA_HOST_DEVICE adam_moments after(double gradient, adamw_step const& by) const noexcept {
        double const m = by.beta1 * static_cast<double>(first) + (1 - by.beta1) * gradient;
        double const r = static_cast<double>(root);
        double const v = by.beta2 * r * r + (1 - by.beta2) * gradient * gradient;
        return {static_cast<float>(m), static_cast<float>(std::sqrt(v))};
    }
    [[nodiscard]] CUOTA_HOST_DEVICE float applied_to(float parameter, adamw_step const& by) const noexcept {
        double const divisor = static_cast<double>(root) * by.root_factor + by.epsilon;
        return static_cast<float>(static_cast<double>(parameter) * by.kept -
                                  by.rate * static_cast<double>(first) / divisor);
    }
};

/// The moments of all parameters as kernels see them, to read or to change.
template <bool is_writable>
struct moment_codes {
    template <class T>
    using element = std::conditional_t<is_writable, T, T const>;
    element<signed_code::type>* first;
    element<float>* first_steps;
    element<divisor_code::type>* root;
    element<float>* root_steps;

    [[nodiscard]] CUOTA_KERNEL adam_moments at(std::size_t i, float first_step, float root_step) const {
        return {signed_code::value(first[i], first_step), divisor_code::value(root[i], root_step)};
    }
};

// One thread a block. It reads a block's moments twice, with the steps they were stored with: first for their maxima.
template <std::size_t Block>
struct adamw_block {
    float* parameters;
    float const* gradients;
    moment_codes<true> codes;
    std::size_t count;
    adamw_step by;

    CUOTA_KERNEL void operator()(std::size_t b) const {
        std::size_t const begin = b * Block;
        std::size_t const end = block_end(begin, Block, count);
        adam_moments const steps{codes.first_steps[b], codes.root_steps[b]};
        adam_moments most{0, 0};
        for (std::size_t i = begin; i != end; ++i) {
            adam_moments const next = of(i, steps);
            most.first = finite_max(most.first, magnitude(next.first));
            most.root = finite_max(most.root, next.root);
        }
        adam_moments const next_steps{signed_code::code::step(most.first),
                                      divisor_code::code::step(most.root)};
        for (std::size_t i = begin; i != end; ++i) {
            adam_moments const next = of(i, steps);
            parameters[i] = next.applied_to(parameters[i], by);
            codes.first[i] = signed_code::of(next.first, next_steps.first);
            codes.root[i] = divisor_code::of(next.root, next_steps.root);
        }
        codes.first_steps[b] = next_steps.first;
        codes.root_steps[b] = next_steps.root;
    }
    [[nodiscard]] CUOTA_KERNEL adam_moments of(std::size_t i, adam_moments steps) const {
        return codes.at(i, steps.first, steps.root).after(static_cast<double>(gradients[i]), by);
    }
};

template <std::size_t Block>
struct load_moments {
    moment_codes<false> codes;
    float* first;
    float* second;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        adam_moments const now = codes.at(i, codes.first_steps[i / Block], codes.root_steps[i / Block]);
        first[i] = now.first;
        second[i] = now.root * now.root;
    }
};

template <std::size_t Block>
struct store_moments {
    float const* first;
    float const* second;
    moment_codes<true> codes;
    std::size_t count;
    CUOTA_KERNEL void operator()(std::size_t b) const {
        std::size_t const begin = b * Block;
        std::size_t const end = block_end(begin, Block, count);
        adam_moments most{0, 0};
        for (std::size_t i = begin; i != end; ++i) {
            most.first = finite_max(most.first, magnitude(first[i]));
            most.root = finite_max(most.root, root(i));
        }
        adam_moments const steps{signed_code::code::step(most.first), divisor_code::code::step(most.root)};
        for (std::size_t i = begin; i != end; ++i) {
            codes.first[i] = signed_code::of(first[i], steps.first);
            codes.root[i] = divisor_code::of(root(i), steps.root);
        }
        codes.first_steps[b] = steps.first;
        codes.root_steps[b] = steps.root;
    }
    // Of what is below 0 a NaN.
    [[nodiscard]] CUOTA_KERNEL float root(std::size_t i) const {
        return static_cast<float>(std::sqrt(static_cast<double>(second[i])));
    }
};

}  // namespace detail

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Adam's moments m and v of `size()` parameters, and AdamW's step, which updates them in place: 2 bytes a parameter and 8
/// a block, where floats are 8 a parameter (Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2022, with
/// equal steps).
///
///     cuota::quantised_moments<> adam{n, s, pool, "adam"};
///     adam.step(s, parameters.write(s), gradients.read(s), {.learning_rate = 3e-4});
///
/// Stored are m, with the error of `quantised`, and the root r of v, without a sign: |r - r'| <= max / 254 / 2 with the
/// maximum of the block, but that an r of less than half a step becomes a step, not 0. So a v that is small beside its
/// neighbours' makes a step smaller than it would be, never one over epsilon; a root of that size spans 16 bits of v.
/// The parameter itself is updated by the moments before they are rounded. Each step rounds anew: a change of less than
/// half a step of its block is lost, so averages follow slow changes in jumps.
/// A gradient that is not finite makes its own parameter and moments NaN, as AdamW does: look before (non_finite_check).
/// Calculated in double, and rounded to float.
/// Order:   of the streams that are given. Move-only. Threads: as device_buffer; one step at a time.
/// Throws:  as device_buffer; a refusal leaves nothing behind. misuse when counts differ or options make no sense.
///          Throwing changes nothing.
/// Cost:    one kernel a step, with a thread for each block.
template <std::size_t Block = 256>
class quantised_moments {
    static_assert(Block != 0, "a block has a number at least");

public:
    /// Of count parameters, before the first step: zeros.
    quantised_moments(element_count count, stream_ref home, resource_ref const& memory, tag name = {},
                      place where = place::here())
        : first_{count, home, memory, name, where},
          first_steps_{blocks(count), home, memory, name, where},
          root_{count, home, memory, name, where},
          root_steps_{blocks(count), home, memory, name, where} {}

    /// What `count` parameters' moments take: four allocations, each rounded up to the granule of where they come from, or
    /// not at all. `unlimited`: more than can be said.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t count, std::size_t granule = 1) noexcept {
        return checked_mul(2, detail::coded_bytes(count, Block, granule)).value_or(unlimited);
    }
    [[nodiscard]] std::size_t size() const noexcept { return first_.size(); }  ///< parameters
    /// Of both moments.
    [[nodiscard]] std::size_t bytes() const noexcept {
        return first_.bytes() + first_steps_.bytes() + root_.bytes() + root_steps_.bytes();
    }
    [[nodiscard]] stream_ref home() const noexcept { return first_.home(); }  ///< where they are given back
    /// Steps that were enqueued.
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

    /// One step of AdamW: parameters and moments are updated.
    void step(stream_ref s, device_span<float> parameters, device_span<float const> gradients,
              adamw_options const& by = {}, place where = place::here()) {
        detail::check_counts("quantised_moments::step", parameters.size(), size(), where);
        detail::check_counts("quantised_moments::step", gradients.size(), size(), where);
        detail::check_disjoint("quantised_moments::step", parameters.data(), parameters.bytes(),
                               gradients.data(), gradients.bytes(), where);
        detail::check_adamw(by, where);
        borrowed<true> const mine{*this, s, where};
        for_each_index(s, first_steps_.size(),
                       detail::adamw_block<Block>{parameters.data(), gradients.data(), mine.codes(), size(),
                                                  detail::adamw_step::of(by, steps_ + 1)},
                       "quantised_moments::step", where);
        ++steps_;
    }

    /// Writes m and v as floats, to be saved.
    void load(stream_ref s, device_span<float> m, device_span<float> v, place where = place::here()) const {
        check_both("quantised_moments::load", m, v, where);
        borrowed<false> const mine{*this, s, where};
        for_each_index(s, size(), detail::load_moments<Block>{mine.codes(), m.data(), v.data()},
                       "quantised_moments::load", where);
    }
    /// Takes m and v, after so many steps. A v below 0 becomes a NaN.
    void store(stream_ref s, device_span<float const> m, device_span<float const> v, std::uint64_t steps,
               place where = place::here()) {
        check_both("quantised_moments::store", m, v, where);
        borrowed<true> const mine{*this, s, where};
        for_each_index(s, first_steps_.size(),
                       detail::store_moments<Block>{m.data(), v.data(), mine.codes(), size()},
                       "quantised_moments::store", where);
        steps_ = steps;
    }

private:
    template <bool is_writable>
    class borrowed {
        template <class T>
        using of_some = lease<std::conditional_t<is_writable, T, T const>>;

    public:
        template <class Moments>
        borrowed(Moments& of, stream_ref s, place where)
            : first_{taken(of.first_, s, where)},
              first_steps_{taken(of.first_steps_, s, where)},
              root_{taken(of.root_, s, where)},
              root_steps_{taken(of.root_steps_, s, where)} {}
        [[nodiscard]] detail::moment_codes<is_writable> codes() const noexcept {
            return {first_.span().data(), first_steps_.span().data(), root_.span().data(),
                    root_steps_.span().data()};
        }

    private:
        template <class Buffer>
        [[nodiscard]] static auto taken(Buffer& from, stream_ref s, place where) {
            if constexpr (is_writable) return from.write(s, where);
            else return from.read(s, where);
        }
        of_some<detail::signed_code::type> first_;
        of_some<float> first_steps_;
        of_some<detail::divisor_code::type> root_;
        of_some<float> root_steps_;
    };
    template <class T>
    void check_both(char const* what, device_span<T> m, device_span<T> v, place where) const {
        detail::check_counts(what, m.size(), size(), where);
        detail::check_counts(what, v.size(), size(), where);
    }
    [[nodiscard]] static constexpr std::size_t blocks(std::size_t count) noexcept {
        return count / Block + (count % Block != 0 ? 1 : 0);
    }

    device_buffer<detail::signed_code::type> first_;
    device_buffer<float> first_steps_;
    device_buffer<detail::divisor_code::type> root_;
    device_buffer<float> root_steps_;
    std::uint64_t steps_ = 0;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_DEFINE

namespace cuota::inline v0::detail {

CUOTA_INLINE void check_adamw(adamw_options const& o, place where) {
    auto const refuse = [&](char const* name, double value) {
        throw misuse{std::string{"adamw: "} + name + " of " + std::to_string(value), where};
    };
    // Asked so that a NaN is refused.
    if (!(is_finite(o.learning_rate) && o.learning_rate >= 0)) refuse("a learning_rate", o.learning_rate);
    if (!(o.beta1 >= 0 && o.beta1 < 1)) refuse("a beta1", o.beta1);
    if (!(o.beta2 >= 0 && o.beta2 < 1)) refuse("a beta2", o.beta2);
    if (!(is_finite(o.epsilon) && o.epsilon > 0)) refuse("an epsilon", o.epsilon);
    if (!(is_finite(o.weight_decay) && o.weight_decay >= 0)) refuse("a weight_decay", o.weight_decay);
}

CUOTA_INLINE adamw_step adamw_step::of(adamw_options const& o, std::uint64_t step) noexcept {
    double const t = static_cast<double>(step);
    return {o.beta1,
            o.beta2,
            o.learning_rate / (1 - std::pow(o.beta1, t)),
            1 / std::sqrt(1 - std::pow(o.beta2, t)),
            o.epsilon,
            1 - o.learning_rate * o.weight_decay};
}

}  // namespace cuota::inline v0::detail

#endif
