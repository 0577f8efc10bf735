// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Conversion of elements on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/data/conversion.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader/device_transform.hpp>
#include <cuota/runtime/detail/for_each_element.hpp>
#include <cuota/runtime/detail/kernel_launch.hpp>
#include <cuota/runtime/rt/copy.hpp>

namespace cuota::inline v0 {

/// Returns a transform that converts some fields of a batch, after a transfer in a smaller type, and copies the others.
///
///     auto transform = cuota::converted_on_device(images.fields(), {{"images", cuota::element_type::f32, 1 / 255.0}});
///
/// Results equal converted_dataset's, except that a GPU may round x * scale + offset once (FMA) instead of twice.
/// Throws:  usage_error for an unknown or repeated field, or a type other than f16, bf16, f32 or f64.
/// Cost:    one kernel or device copy per field and batch.
[[nodiscard]] device_transform converted_on_device(std::span<field const> fields,
                                                   std::vector<conversion> const& wanted);

namespace detail {

/// Converts `count` elements between non-overlapping device ranges.
void convert_on_device(stream_ref s, std::size_t count, std::byte const* from, element_type in, std::byte* to,
                       conversion const& by);

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_PART_KERNELS

namespace cuota::inline v0::detail {

/// Converts a byte. On an H100, convert_numbers reaches only 0.72 (to half) and 0.84 (to float) of a copy's rate.
template <class To>
struct convert_byte {
    float scale;
    float shift;
    [[nodiscard]] CUOTA_KERNEL To operator()(std::size_t, std::uint8_t x) const {
        return converted<To>(x, scale, shift, false);
    }
};

/// Converts any types in one kernel, branching on them once per pack.
struct convert_numbers {
    static constexpr std::size_t pack = 4;  // 8 needs 64 registers, and is a sixth slower to float

    std::byte const* from;
    std::byte* to;
    element_type in;
    element_type out;
    double scale;
    double shift;
    pack_split split;

    CUOTA_KERNEL void operator()(kernel_thread t) const {
        if (is_float()) all<float>(t);
        else all<double>(t);
    }

private:
    [[nodiscard]] CUOTA_KERNEL bool is_float() const {
        bool yes = false;
        with_element(
            in, [&](auto f) { yes = std::is_same_v<wide_enough<typename decltype(f)::type, float>, float>; });
        return yes && out != element_type::f64;
    }
    template <class Wide>
    CUOTA_KERNEL void all(kernel_thread t) const {
        run<Wide, pack>(t, split.packs);
        run<Wide, 1>(t, split.singles(pack));
    }
    template <std::size_t P>
    [[nodiscard]] CUOTA_KERNEL std::size_t element(std::size_t k) const {
        return P == 1 ? split.single(k, pack) : split.begin(k, pack);
    }
    template <class Wide, std::size_t P>
    CUOTA_KERNEL void run(kernel_thread t, std::size_t n) const {
        bool const is_plain = scale == 1 && shift == 0;
        for (std::size_t k = t.index; k < n; k += t.count) {
            Wide x[P] = {};
            load(element<P>(k), x);
            if (!is_plain)
                for (Wide& one : x) one = one * static_cast<Wide>(scale) + static_cast<Wide>(shift);
            save(element<P>(k), x);
        }
    }
    template <class Wide, std::size_t P>
    CUOTA_KERNEL void load(std::size_t first, Wide (&x)[P]) const {
        with_element(in, [&](auto f) {
            using from_type = typename decltype(f)::type;
            if constexpr (std::is_same_v<wide_enough<from_type, Wide>, Wide>) {
                auto const* const at = reinterpret_cast<from_type const*>(from) + first;
                auto const had = *pack_at<element_pack<from_type, P, P != 1> const>(at);
                for (std::size_t i = 0; i != P; ++i) x[i] = widened<Wide>(had.at[i]);
            }
        });
    }
    template <class Wide, std::size_t P>
    CUOTA_KERNEL void save(std::size_t first, Wide const (&x)[P]) const {
        with_element(out, [&](auto f) {
            using target = typename decltype(f)::type;
            if constexpr (!std::is_integral_v<target> && sizeof(target) <= sizeof(Wide)) {
                element_pack<target, P, P != 1> made;
                for (std::size_t i = 0; i != P; ++i) made.at[i] = narrowed<target>(x[i]);
                store(made, reinterpret_cast<target*>(to) + first);
            }
        });
    }
};

template <>
inline constexpr unsigned least_resident<convert_numbers> = 4;

CUOTA_INLINE void convert_on_device(stream_ref s, std::size_t count, std::byte const* from, element_type in,
                                    std::byte* to, conversion const& by) {
    constexpr std::size_t pack = convert_numbers::pack;
    if (count == 0) return;
    auto const of_bytes = [&]<class To>(To* made) {
        for_each_element(s, count, reinterpret_cast<std::uint8_t const*>(from), made,
                         convert_byte<To>{static_cast<float>(by.scale), static_cast<float>(by.offset)},
                         "converted_on_device");
    };
    if (in == element_type::u8 && by.to == element_type::f32) return of_bytes(reinterpret_cast<float*>(to));
    if (in == element_type::u8 && by.to == element_type::f16) return of_bytes(reinterpret_cast<half*>(to));
    if (in == element_type::u8 && by.to == element_type::bf16)
        return of_bytes(reinterpret_cast<bfloat16*>(to));
    auto const split = pack_split::of(count, pack, {from, element_bytes(in), to, element_bytes(by.to)});
    launch_kernel(s, kernel_grid::of(std::max(split.packs, split.singles(pack)), true),
                  convert_numbers{from, to, in, by.to, by.scale, by.offset, split}, "converted_on_device",
                  source_location::current());
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE device_transform converted_on_device(std::span<field const> fields,
                                                  std::vector<conversion> const& wanted) {
    std::vector<field> made{fields.begin(), fields.end()};
    auto becomes = detail::convert_fields(made, wanted, "batch");
    std::vector<field> had{fields.begin(), fields.end()};
    auto run = [had, becomes = std::move(becomes)](transform_context const& job) {
        for (std::size_t k = 0; k != had.size(); ++k) {
            auto const from = job.in<std::byte>(k);
            auto const to = job.out<std::byte>(k);
            if (becomes[k])
                detail::convert_on_device(job.stream(), had[k].count() * job.size(), from.data(), had[k].type,
                                          to.data(), *becomes[k]);
            else rt::copy_on_device(to.data(), from.data(), from.size(), job.stream());
        }
    };
    return {std::move(made), std::move(run), std::move(had), {}};
}

}  // namespace cuota::inline v0

#endif
