// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Binary files of CIFAR-10 and CIFAR-100.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/concat_dataset.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0 {

/// The files' layout.
enum class cifar_set {
    cifar_10,  ///< data_batch_1.bin to data_batch_5.bin, test_batch.bin: "label", "image"
    cifar_100  ///< train.bin, test.bin: "coarse_label", "fine_label", "image"
};

/// The files as distributed, concatenated. A label is one u8; an image is u8[3, 32, 32]: red, green and blue planes, row-major.
///
///     cuota::cifar_dataset test{cuota::cifar_set::cifar_10, {"test_batch.bin"}};
///
/// Throws:  data_error if a file's size is not a whole number of records; usage_error for no files. gather: data_error with the sample's
///          index in its file, if a label is not a class of the set.
/// Cost:    as a raw_dataset per file, plus a check of each label.
class cifar_dataset {
public:
    /// Opens the files.
    cifar_dataset(cifar_set set, std::vector<std::string> const& paths);
    /// Uses open files.
    cifar_dataset(cifar_set set, std::span<file const> files);

    [[nodiscard]] std::uint64_t size() const noexcept { return files_.size(); }  ///< of all files
    /// Returns the label fields, then "image".
    [[nodiscard]] std::span<field const> fields() const { return files_.fields(); }
    [[nodiscard]] std::string name() const { return files_.name(); }  ///< the first path, "and 4 more"

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const;

private:
    concat_dataset files_;
};
}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <cuota/data/datasets/raw_dataset.hpp>

namespace cuota::inline v0::detail {

/// A label and its number of classes, which is checked because programs index arrays by labels.
struct label_field {
    char const* name;
    unsigned classes;
};
[[nodiscard]] std::span<label_field const> labels_of(cifar_set set) noexcept;

class cifar_file {
public:
    cifar_file(cifar_set set, file from)
        : labels_{labels_of(set)}, records_{std::move(from), layout(labels_)} {}

    [[nodiscard]] std::uint64_t size() const noexcept { return records_.size(); }
    [[nodiscard]] std::span<field const> fields() const noexcept { return records_.fields(); }
    [[nodiscard]] std::string const& name() const noexcept { return records_.name(); }

    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const;

private:
    static constexpr std::size_t image_bytes = std::size_t{3} * 32 * 32;

    static raw_layout layout(std::span<label_field const> labels);
    [[nodiscard]] data_error no_class(std::uint64_t sample, std::size_t k, unsigned label) const;

    std::span<label_field const> labels_;
    raw_dataset records_;
};
static_assert(dataset<cifar_file>);

template <class Files>
[[nodiscard]] std::vector<cifar_file> cifar_parts(cifar_set set, Files const& files) {
    std::vector<cifar_file> parts;
    parts.reserve(std::size(files));
    for (auto const& each : files) parts.emplace_back(set, file{each});
    return parts;
}

CUOTA_INLINE std::span<label_field const> labels_of(cifar_set set) noexcept {
    static constexpr label_field of_10[] = {{"label", 10}};
    static constexpr label_field of_100[] = {{"coarse_label", 20}, {"fine_label", 100}};
    return set == cifar_set::cifar_10 ? std::span<label_field const>{of_10} : of_100;
}

CUOTA_INLINE void cifar_file::gather(std::span<std::uint64_t const> samples,
                                     std::span<std::span<std::byte> const> out) const {
    records_.gather(samples, out);
    for (std::size_t k = 0; k != labels_.size(); ++k)
        for (std::size_t i = 0; i != samples.size(); ++i)
            if (auto const label = std::to_integer<unsigned>(out[k][i]); label >= labels_[k].classes)
                throw no_class(samples[i], k, label);
}

CUOTA_INLINE raw_layout cifar_file::layout(std::span<label_field const> labels) {
    raw_layout record;
    for (label_field const& label : labels) record.fields.push_back({label.name});
    record.fields.push_back({"image", element_type::u8, {3, 32, 32}});
    return record;
}

CUOTA_INLINE data_error cifar_file::no_class(std::uint64_t sample, std::size_t k, unsigned label) const {
    return {name(), sample * (labels_.size() + image_bytes) + k,
            "sample " + std::to_string(sample) + ": " + labels_[k].name + ' ' + std::to_string(label) +
                " is out of range [0, " + std::to_string(labels_[k].classes) + ')'};
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(dataset<cifar_dataset>);

CUOTA_INLINE cifar_dataset::cifar_dataset(cifar_set set, std::vector<std::string> const& paths)
    : files_{detail::cifar_parts(set, paths)} {}

CUOTA_INLINE cifar_dataset::cifar_dataset(cifar_set set, std::span<file const> files)
    : files_{detail::cifar_parts(set, files)} {}

CUOTA_INLINE void cifar_dataset::gather(std::span<std::uint64_t const> samples,
                                        std::span<std::span<std::byte> const> out) const {
    files_.gather(samples, out);
}

}  // namespace cuota::inline v0

#endif
