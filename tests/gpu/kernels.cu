// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Instantiates every bandwidth-limited kernel of the library, so that nvcc generates machine code, which machine_code.py inspects. It is
/// not run.
#include <cstdint>

#include <cuota/data/loader/device_conversion.hpp>
#include <cuota/training/precision/cast.hpp>
#include <cuota/training/precision/non_finite_check.hpp>
#include <cuota/training/precision/pruned.hpp>
#include <cuota/training/precision/quantized.hpp>
#include <cuota/training/precision/quantized_moments.hpp>

namespace {

struct four_words {
    std::uint32_t word[4];
};

template <class T>
void use_of(cuota::stream_ref s, cuota::resource_ref const& memory) {
    cuota::device_buffer<T> const numbers{1000, s, memory};
    cuota::quantized<T> kept{1000, s, memory};
    kept.store(s, numbers.read(s));
    cuota::device_buffer<T> again{1000, s, memory};
    kept.load(s, again.write(s));
    (void)cuota::pruned<T>::pack(s, numbers.read(s), 0.5f, memory);
}

}  // namespace

void use_kernels(cuota::stream_ref s, cuota::resource_ref const& memory) {
    using cuota::bfloat16;
    using cuota::half;
    cuota::device_buffer<float> floats{1000, s, memory};
    cuota::device_buffer<half> halves{1000, s, memory};
    cuota::device_buffer<bfloat16> brains{1000, s, memory};
    cuota::cast(s, floats, halves);
    cuota::cast(s, halves, floats);
    cuota::cast(s, floats, brains);
    cuota::cast(s, brains, floats);
    cuota::cast(s, halves, brains);
    use_of<float>(s, memory);
    use_of<half>(s, memory);
    cuota::quantized_moments<> moments{1000, s, memory};
    moments.step(s, floats.write(s), floats.read(s));
    moments.store(s, floats.read(s), floats.read(s), 1);
    cuota::detail::convert_on_device(s, 1000, nullptr, cuota::element_type::u8, nullptr,
                                     {"", cuota::element_type::f32});
    cuota::device_buffer<double> const doubles{1000, 0.1, s, memory};
    cuota::device_buffer<four_words> const words{1000, four_words{{1, 2, 3, 4}}, s, memory};
}
