// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A dataset in host memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Gathers records of equal size, consecutive ones at once, and prefetches the next. Sizes up to 8 are compile-time constants.
class record_gatherer {
public:
    record_gatherer(std::byte const* from, std::size_t bytes) noexcept : from_{from}, bytes_{bytes} {}

    void operator()(std::span<std::uint64_t const> samples, std::byte* to) const noexcept;

    void operator()(std::span<sample_run const> of, std::byte* to) const noexcept;

private:
    template <std::size_t bytes>
    void each(std::span<std::uint64_t const> samples, std::byte* to) const noexcept {
        for (std::uint64_t const sample : samples) {
            std::memcpy(to, from_ + sample * bytes, bytes);
            to += bytes;
        }
    }
    void runs(std::span<std::uint64_t const> samples, std::byte* to) const noexcept;
    // Prefetches the first cache lines; the hardware prefetcher continues.
    void fetch(std::uint64_t sample, std::size_t count) const noexcept;

    std::byte const* from_;
    std::size_t bytes_;
};

}  // namespace detail

/// Samples of one field, contiguous in memory: an array of fixed shape per sample. zip_dataset combines fields.
///
/// Throws:  usage_error if the values are not a whole number of samples.
/// Cost:    copies share the values; a gather allocates nothing.
/// Example: cuota::memory_dataset images{"images", std::move(pixels), {28, 28}};
class memory_dataset {
public:
    /// Owns the values. `shape` is per sample; {} is a scalar.
    template <class T>
        requires(detail::element_like<T> && !std::same_as<T, bool>)
    memory_dataset(std::string name, std::vector<T> values, std::vector<std::size_t> shape = {})
        : memory_dataset{std::move(name),
                         detail::light_shared_ptr<std::vector<T> const>::make(std::move(values)),
                         std::move(shape)} {}

    /// Deleted: a span owns no values.
    template <class T, std::size_t n>
    memory_dataset(std::string, std::span<T, n>,  // move a vector in, or use `of`
                   std::vector<std::size_t> = {}) = delete;

    /// Refers to values that the caller keeps alive, and constant during reads.
    template <class T, std::size_t extent>
        requires detail::element_like<std::remove_const_t<T>>
    [[nodiscard]] static memory_dataset of(std::string name, std::span<T, extent> values,
                                           std::vector<std::size_t> shape = {}) {
        return {std::move(name), nullptr, std::span<std::remove_const_t<T> const>{values}, std::move(shape)};
    }
    /// Deleted: the vector may be a temporary.
    template <class T>
    static memory_dataset of(std::string, std::vector<T> const&,  // memory_dataset{name, vector}, or a span
                             std::vector<std::size_t> = {}) = delete;

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }              ///< samples
    [[nodiscard]] std::span<field const> fields() const noexcept;                    ///< one
    [[nodiscard]] std::string const& name() const noexcept { return field_->name; }  ///< the field's name

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const;
    /// Gathers runs.
    void gather_runs(std::span<sample_run const> runs, std::span<std::span<std::byte> const> out) const;

private:
    template <class T>
    memory_dataset(std::string name, detail::light_shared_ptr<std::vector<T> const> owned,
                   std::vector<std::size_t> shape)
        : memory_dataset{std::move(name), owned, std::span<T const>{*owned}, std::move(shape)} {}
    template <class T>
    memory_dataset(std::string name, detail::light_shared_ptr<void const> owner, std::span<T const> values,
                   std::vector<std::size_t> shape)
        : memory_dataset{std::move(name), std::move(owner), element_of<T>(),
                         values.data(),   values.size(),    std::move(shape)} {}
    memory_dataset(std::string name, detail::light_shared_ptr<void const> owner, element_type type,
                   void const* values, std::size_t count, std::vector<std::size_t> shape);

    detail::light_shared_ptr<void const> owner_;  // null: owned by the caller
    detail::light_shared_ptr<field const> field_;
    std::byte const* at_;
    std::size_t bytes_;
    std::uint64_t size_ = 0;
};
}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE void record_gatherer::operator()(std::span<std::uint64_t const> samples,
                                              std::byte* to) const noexcept {
    switch (bytes_) {
        case 1: return each<1>(samples, to);
        case 2: return each<2>(samples, to);
        case 4: return each<4>(samples, to);
        case 8: return each<8>(samples, to);
        default: return runs(samples, to);
    }
}

CUOTA_INLINE void record_gatherer::operator()(std::span<sample_run const> of, std::byte* to) const noexcept {
    constexpr std::size_t ahead = 4;  // copying a short run takes less time than fetching one
    for (std::size_t i = 0; i != of.size(); ++i) {
        if (of.size() - i > ahead) fetch(of[i + ahead].first, of[i + ahead].count);
        std::size_t const bytes = of[i].count * bytes_;
        if (bytes != 0) std::memcpy(to, from_ + of[i].first * bytes_, bytes);
        to += bytes;
    }
}

CUOTA_INLINE void record_gatherer::runs(std::span<std::uint64_t const> samples,
                                        std::byte* to) const noexcept {
    for (std::size_t i = 0; i != samples.size();) {
        std::size_t const n = run_length(samples.subspan(i));
        if (i + n != samples.size()) fetch(samples[i + n], 1);
        std::memcpy(to, from_ + samples[i] * bytes_, n * bytes_);
        to += n * bytes_;
        i += n;
    }
}

CUOTA_INLINE void record_gatherer::fetch(std::uint64_t sample, std::size_t count) const noexcept {
    constexpr std::size_t line = 64;
    std::byte const* const at = from_ + sample * bytes_;
    for (std::size_t k = 0; k < count * bytes_ && k != 4 * line; k += line) __builtin_prefetch(at + k);
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(dataset<memory_dataset>);

CUOTA_INLINE memory_dataset::memory_dataset(std::string name, detail::light_shared_ptr<void const> owner,
                                            element_type type, void const* values, std::size_t count,
                                            std::vector<std::size_t> shape)
    : owner_{std::move(owner)},
      field_{detail::light_shared_ptr<field const>::make(field{std::move(name), type, std::move(shape)})},
      at_{static_cast<std::byte const*>(values)},
      bytes_{field_->bytes()} {
    if (bytes_ == 0)
        detail::throw_usage_error("{}: a sample of {} is empty", {field_->name, field_text(*field_)});
    std::size_t const all = count * element_bytes(type);
    if (all % bytes_ != 0)
        detail::throw_usage_error("{}: {} values are not a whole number of samples of {}",
                                  {field_->name, count, field_text(*field_)});
    size_ = all / bytes_;
}

CUOTA_INLINE std::span<field const> memory_dataset::fields() const noexcept { return {field_.get(), 1}; }

CUOTA_INLINE void memory_dataset::gather(std::span<std::uint64_t const> samples,
                                         std::span<std::span<std::byte> const> out) const {
    check_gather(*this, samples, out);
    if (!samples.empty()) detail::record_gatherer{at_, bytes_}(samples, out[0].data());
}

CUOTA_INLINE void memory_dataset::gather_runs(std::span<sample_run const> runs,
                                              std::span<std::span<std::byte> const> out) const {
    check_gather_runs(*this, runs, out);
    detail::record_gatherer{at_, bytes_}(runs, out[0].data());
}

}  // namespace cuota::inline v0

#endif
