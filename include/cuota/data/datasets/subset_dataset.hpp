// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A range of a dataset's samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Sample indices plus `by`.
class shifted_samples {
public:
    shifted_samples(std::span<std::uint64_t const> samples, std::uint64_t by);
    shifted_samples(shifted_samples const&) = delete;  // all() points into this object
    shifted_samples& operator=(shifted_samples const&) = delete;

    [[nodiscard]] std::span<std::uint64_t const> all() const noexcept { return all_; }

private:
    std::array<std::uint64_t, 1024> few_;
    std::vector<std::uint64_t> many_;
    std::span<std::uint64_t> all_;
};

}  // namespace detail

/// Samples [first, first + count) of a dataset, numbered from 0. A data_error has the index in `whole`.
///
/// Throws:  usage_error if the dataset has fewer samples.
/// Cost:    a copy of the indices per gather; up to 1024 without an allocation.
/// Example: cuota::subset_dataset train{all, 0, all.size() / 5 * 4};
template <dataset Dataset>
class subset_dataset {
public:
    static constexpr bool fills_device_memory = detail::fills_device_memory<Dataset>;  ///< as the dataset

    /// Stores the dataset.
    subset_dataset(Dataset whole, std::uint64_t first, std::uint64_t count)
        : whole_{std::move(whole)}, first_{first}, count_{count} {
        std::uint64_t const size = whole_.size();
        if (first > size || count > size - first)
            detail::throw_usage_error(
                "subset_dataset: {} from sample {} of {} are out of range: the dataset has {}",
                {detail::counted(count, "samples"), first, whole_.name(), size});
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return count_; }             ///< count
    [[nodiscard]] std::span<field const> fields() const { return whole_.fields(); }  ///< the dataset's
    /// Returns "images.npy[100, 250)".
    [[nodiscard]] std::string name() const {
        return detail::message("{}[{}, {})", {whole_.name(), first_, first_ + count_});
    }

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        gather_all(samples, out, {});
    }
    /// Gathers in an epoch's context.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context) const requires detail::gathers_in_context<Dataset> {
        gather_all(samples, out, context);
    }
    /// Gets the rows per sample.
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                    std::span<std::uint64_t> out) const requires detail::has_row_counts<Dataset> {
        detail::check_row_counts(*this, k, samples, out);
        detail::shifted_samples const moved{samples, first_};
        whole_.row_counts(k, moved.all(), out);
    }

private:
    void gather_all(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                    gather_context const& context) const {
        check_gather(*this, samples, out);
        detail::shifted_samples const moved{samples, first_};
        detail::gather_in(context, whole_, moved.all(), out);
    }

    Dataset whole_;
    std::uint64_t first_;
    std::uint64_t count_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE shifted_samples::shifted_samples(std::span<std::uint64_t const> samples, std::uint64_t by) {
    if (samples.size() > few_.size()) many_.resize(samples.size());
    all_ = {many_.empty() ? few_.data() : many_.data(), samples.size()};
    for (std::size_t i = 0; i != samples.size(); ++i) all_[i] = by + samples[i];
}

}  // namespace cuota::inline v0::detail

#endif
