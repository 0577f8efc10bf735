// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Numbers that cross the link small, and are widened on the device.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/data/conversion.hpp>
#include <cuota/data/device_transform.hpp>
#include <cuota/data/element.hpp>
#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/for_each_index.hpp>

namespace cuota::inline v0 {

/// The transform that converts some fields of a batch on the device, and leaves the others as they are: bytes that become
/// floats there cost a quarter of the link.
///
///     cuota::batch_loader loader{images, {.batch = 256,
///                                         .transform = cuota::converted_on_device(
///                                             images.fields(), {{"images", cuota::element_type::f32, 1 / 255.0}})}};
///
/// The same numbers as converted_source makes, but that a GPU may round x * scale + shift once instead of twice.
/// Throws: misuse for a field that there is not, one that is named twice, or a type that is no f16, bf16, f32 or f64.
/// Cost:   a kernel or a copy on the device for each field and batch.
[[nodiscard]] device_transform converted_on_device(std::span<field const> fields,
                                                   std::vector<conversion> const& wanted);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE

namespace cuota::inline v0::detail {

/// Converts the i-th number. One kernel for all types, which are the same for all of its threads.
struct convert_number {
    std::byte const* from;
    std::byte* to;
    element_type in;
    element_type out;
    double scale;
    double shift;
    CUOTA_HOST_DEVICE void operator()(std::size_t i) const {
        convert_number const& c = *this;
        with_element(c.in, [&](auto f) {
            using source_type = typename decltype(f)::type;
            with_element(c.out, [&](auto t) {
                using target = typename decltype(t)::type;
                if constexpr (!std::is_integral_v<target>) {
                    using wide = wide_enough<source_type, target>;
                    reinterpret_cast<target*>(c.to)[i] = converted<target>(
                        reinterpret_cast<source_type const*>(c.from)[i], static_cast<wide>(c.scale),
                        static_cast<wide>(c.shift), c.scale == 1 && c.shift == 0);
                }
            });
        });
    }
};

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE device_transform converted_on_device(std::span<field const> fields,
                                                  std::vector<conversion> const& wanted) {
    std::vector<field> made{fields.begin(), fields.end()};
    auto becomes = detail::convert_fields(made, wanted, "a batch");
    std::vector<field> had{fields.begin(), fields.end()};
    auto run = [had, becomes = std::move(becomes)](transform_job const& job) {
        for (std::size_t k = 0; k != had.size(); ++k) {
            auto const from = job.in<std::byte>(k);
            auto const to = job.out<std::byte>(k);
            if (becomes[k])
                for_each_index(job.stream(), had[k].count() * job.size(),
                               detail::convert_number{from.data(), to.data(), had[k].type, becomes[k]->to,
                                                      becomes[k]->scale, becomes[k]->shift},
                               "converted_on_device");
            else rt::copy_on_device(to.data(), from.data(), from.size(), job.stream());
        }
    };
    return {std::move(made), std::move(run), std::move(had), {}};
}

}  // namespace cuota::inline v0

#endif
