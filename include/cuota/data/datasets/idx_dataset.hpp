// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// IDX files, the format of MNIST.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/datasets/npy_dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0 {

/// An IDX file: one array, with samples along its first dimension. Gathers convert elements to this machine's byte order. The field is
/// named `name`, by default after the file. For compressed files: `idx_dataset{open_maybe_gzip(path)}`.
///
/// Throws:  data_error for an invalid header, or a size that does not match the dimensions.
/// Cost:    as raw_dataset; for elements of more than one byte, plus a pass over the batch.
/// Example: examples/train_ranks.cpp
class idx_dataset {
public:
    /// Opens the file.
    explicit idx_dataset(std::string path, std::string name = {});
    /// Uses an open file.
    explicit idx_dataset(file const& from, std::string name = {});

    [[nodiscard]] std::uint64_t size() const noexcept { return samples_.size(); }  ///< first dimension
    [[nodiscard]] std::span<field const> fields() const noexcept { return samples_.fields(); }  ///< one
    [[nodiscard]] std::string const& name() const noexcept { return samples_.name(); }  ///< the file's

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const;

private:
    static_assert(std::endian::native == std::endian::little, "the file's big-endian elements are swapped");

    static std::optional<element_type> element_of_code(std::byte code) noexcept;

    static detail::array_layout layout_of(file const& from);

    static std::size_t big_endian(std::span<std::byte const> bytes) noexcept;

    static void swap_elements(std::span<std::byte> bytes, std::size_t element) noexcept;
    template <std::size_t Bytes>  // a constant: byte-swap instructions
    static void swap_each(std::span<std::byte> bytes) noexcept;

    raw_dataset samples_;
};
}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

#include <cuota/data/detail/datasets/other_content.hpp>

namespace cuota::inline v0 {

static_assert(dataset<idx_dataset>);

CUOTA_INLINE idx_dataset::idx_dataset(std::string path, std::string name)
    : idx_dataset{file{std::move(path)}, std::move(name)} {}

CUOTA_INLINE idx_dataset::idx_dataset(file const& from, std::string name)
    : samples_{
          detail::parsed(from, [&] { return detail::as_samples(from, layout_of(from), std::move(name)); })} {}

CUOTA_INLINE void idx_dataset::gather(std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out) const {
    samples_.gather(samples, out);
    swap_elements(out[0], element_bytes(fields()[0].type));
}

CUOTA_INLINE std::optional<element_type> idx_dataset::element_of_code(std::byte code) noexcept {
    switch (std::to_integer<unsigned>(code)) {
        case 0x08: return element_type::u8;
        case 0x09: return element_type::i8;
        case 0x0B: return element_type::i16;
        case 0x0C: return element_type::i32;
        case 0x0D: return element_type::f32;
        case 0x0E: return element_type::f64;
        default: return std::nullopt;
    }
}

CUOTA_INLINE detail::array_layout idx_dataset::layout_of(file const& from) {
    std::array<std::byte, 4> start{};
    from.read_exact(0, start);
    if (start[0] != std::byte{0} || start[1] != std::byte{0})
        detail::throw_data_error(from.name(), 0, "is not an IDX file");
    auto const type = element_of_code(start[2]);
    if (!type) detail::throw_data_error(from.name(), 2, "unknown IDX element type");
    std::size_t const rank = std::to_integer<std::size_t>(start[3]);
    if (rank == 0 || rank > detail::max_rank)
        detail::throw_data_error(from.name(), 3, "{} dimensions are not supported; supported: 1 to {}",
                                 {rank, detail::max_rank});

    std::array<std::byte, 4 * detail::max_rank> extents{};
    from.read_exact(4, std::span{extents}.first(4 * rank));
    detail::array_layout array{*type, {}, 4 + 4 * rank};
    for (std::size_t k = 0; k != rank; ++k)
        array.shape.push_back(big_endian(std::span{extents}.subspan(4 * k, 4)));
    return array;
}

CUOTA_INLINE std::size_t idx_dataset::big_endian(std::span<std::byte const> bytes) noexcept {
    std::size_t value = 0;
    for (std::byte const byte : bytes) value = value << 8 | std::to_integer<std::size_t>(byte);
    return value;
}

template <std::size_t Bytes>
void idx_dataset::swap_each(std::span<std::byte> bytes) noexcept {
    for (std::size_t at = 0; at != bytes.size(); at += Bytes)
        std::reverse(bytes.data() + at, bytes.data() + at + Bytes);
}

CUOTA_INLINE void idx_dataset::swap_elements(std::span<std::byte> bytes, std::size_t element) noexcept {
    switch (element) {
        case 2: return swap_each<2>(bytes);
        case 4: return swap_each<4>(bytes);
        case 8: return swap_each<8>(bytes);
        default: return;
    }
}

}  // namespace cuota::inline v0

#endif
