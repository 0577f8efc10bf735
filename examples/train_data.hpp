// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Opens the files of train.cpp with any element type.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>
#if defined(CUOTA_WITH_ZLIB)
#include <cuota/data/io/gzip.hpp>
#endif

namespace train {

[[nodiscard]] inline cuota::file open(std::string const& path) {
#if defined(CUOTA_WITH_ZLIB)
    return cuota::open_maybe_gzip(path);
#else
    if (path.ends_with(".gz"))
        throw cuota::data_error{path, 0,
                                "this program was built without zlib and cannot read .gz; unpack it first"};
    return cuota::file{path};
#endif
}

/// Checks that all labels are from 0 to 999, and returns the largest label + 1.
template <class Label, cuota::dataset Labels>
[[nodiscard]] std::size_t count_classes_as(Labels const& labels) {
    constexpr std::size_t most = 1000;
    std::vector<Label> values(4096);
    std::vector<std::uint64_t> samples;
    std::size_t classes = 0;
    for (std::uint64_t first = 0; first < labels.size(); first += samples.size()) {
        samples.clear();
        for (std::uint64_t i = first; i < std::min<std::uint64_t>(labels.size(), first + values.size()); ++i)
            samples.push_back(i);
        std::span<std::byte> const out = std::as_writable_bytes(std::span{values}.first(samples.size()));
        labels.gather(samples, std::span{&out, 1});
        for (std::size_t i = 0; i != samples.size(); ++i) {
            if (static_cast<std::uint64_t>(values[i]) >= most)  // also rejects negative labels
                throw cuota::data_error{labels.name(), 0,
                                        "the label of sample " + std::to_string(first + i) + " is " +
                                            std::to_string(values[i]) + "; labels are 0 to " +
                                            std::to_string(most - 1)};
            classes = std::max(classes, static_cast<std::size_t>(values[i]) + 1);
        }
    }
    return classes;
}

/// Calls f with a value of the C++ type of a label, or of a pixel, on disk.
template <class F>
auto with_label_type(cuota::element_type type, std::string const& name, F f) {
    switch (type) {
        case cuota::element_type::u8: return f(std::uint8_t{});
        case cuota::element_type::i32: return f(std::int32_t{});
        case cuota::element_type::i64: return f(std::int64_t{});
        default:
            throw cuota::data_error{name, 0,
                                    std::string{"labels of type "} + cuota::element_name(type) +
                                        "; this program reads u8, i32 and i64"};
    }
}
template <class F>
auto with_pixel_type(cuota::element_type type, std::string const& name, F f) {
    switch (type) {
        case cuota::element_type::u8: return f(std::uint8_t{});
        case cuota::element_type::f32: return f(float{});
        default:
            throw cuota::data_error{name, 0,
                                    std::string{"images of type "} + cuota::element_name(type) +
                                        "; this program reads u8 and f32"};
    }
}

template <cuota::dataset Labels>
[[nodiscard]] std::size_t count_classes(Labels const& labels) {
    cuota::field const& f = std::span<cuota::field const>{labels.fields()}[0];
    if (f.count() != 1)
        throw cuota::data_error{labels.name(), 0,
                                "one label a sample was expected, not " + cuota::field_text(f)};
    return with_label_type(f.type, labels.name(),
                           [&](auto example) { return count_classes_as<decltype(example)>(labels); });
}

/// Type-erased dataset, so that the code that trains on it is compiled once.
class any_samples {
public:
    template <class S>
        requires(!std::same_as<S, any_samples>)  // first, because the concept `dataset` depends on it
    &&cuota::dataset<S> explicit any_samples(S from)
        : name_{from.name()},
    fields_(std::begin(from.fields()), std::end(from.fields())), size_{from.size()},
    gather_{[from = std::move(from)](auto samples, auto out) { from.gather(samples, out); }} {}

    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] std::vector<cuota::field> const& fields() const { return fields_; }
    [[nodiscard]] std::string name() const { return name_; }
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        gather_(samples, out);
    }

private:
    std::string name_;
    std::vector<cuota::field> fields_;
    std::uint64_t size_;
    std::function<void(std::span<std::uint64_t const>, std::span<std::span<std::byte> const>)> gather_;
};

}  // namespace train
