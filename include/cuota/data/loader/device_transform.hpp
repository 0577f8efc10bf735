// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Transforms batches on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader/slot_layout.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// A copied batch, and the memory for the output, during one call of device_transform::run. Views are valid for work that the call enqueues
/// on `stream`.
/// Threads: the thread of that call.
class transform_context {
public:
    /// Used by the loader.
    transform_context(stream_ref s, std::uint64_t epoch, detail::slot_contents const& in,
                      detail::slot_contents const& out, detail::slot_contents const& scratch) noexcept;

    /// Returns the loader's copy stream: work on it starts after the batch's arrival and completes before the batch is used.
    [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
    [[nodiscard]] std::size_t size() const noexcept { return in_.samples->size(); }  ///< samples
    [[nodiscard]] std::span<std::uint64_t const> samples()
        const noexcept;  ///< dataset indices, in batch order
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }  ///< passed to batch_loader::epoch

    /// Returns a dataset field's elements as batch::view does. Throws: usage_error for a wrong type or field.
    template <class T>
    [[nodiscard]] device_span<T const> in(std::size_t field = 0,
                                          source_location where = source_location::current()) const {
        return in_.view<T const>(field, "a transform's input", where);
    }
    /// Returns batch::row_offsets of a dataset field. Throws: usage_error if it is not ragged.
    [[nodiscard]] device_span<std::uint64_t const> row_offsets(
        std::size_t field = 0, source_location where = source_location::current()) const;
    /// Returns an output field, which must be written completely. Throws: as in.
    template <class T>
    [[nodiscard]] device_span<T> out(std::size_t field = 0,
                                     source_location where = source_location::current()) const {
        return out_.view<T>(field, "a transform's output", where);
    }

    /// Returns a scratch field, with contents of the previous batch. Throws: as in.
    template <class T>
    [[nodiscard]] device_span<T> scratch(std::size_t field = 0,
                                         source_location where = source_location::current()) const {
        return scratch_.view<T>(field, "a transform's scratch", where);
    }

    /// Returns the job of a second transform with the first `fields` scratch fields as input. Throws: usage_error if the scratch has fewer.
    [[nodiscard]] transform_context after(std::size_t fields) const;

private:
    stream_ref stream_;
    std::uint64_t epoch_;
    detail::slot_contents in_;
    detail::slot_contents out_;
    detail::slot_contents scratch_;
};

/// Transformation of each batch on the device before delivery: crops, flips, normalization. The host does not block.
///
/// An exception of `run` replaces its batch, in order. Loaders of datasets without the `input_fields` throw usage_error.
/// Cost:    device memory for one more batch as copied, and its scratch; batches are transformed one after another.
/// Threads: a worker or a thread that destroys a batch calls `run`, for one batch at a time, with the loader's device current. Using the
///          loader or its batches there throws usage_error.
/// Example: converted_on_device returns one.
struct device_transform {
    std::vector<field> output_fields;                   ///< of the resulting batch; none is ragged
    std::function<void(transform_context const&)> run;  ///< enqueues one batch's work
    std::vector<field> input_fields{};                  ///< the dataset's fields; empty: any
    std::vector<field> scratch{};                       ///< per sample, between kernels
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0 {

CUOTA_INLINE transform_context::transform_context(stream_ref s, std::uint64_t epoch,
                                                  detail::slot_contents const& in,
                                                  detail::slot_contents const& out,
                                                  detail::slot_contents const& scratch) noexcept
    : stream_{s}, epoch_{epoch}, in_{in}, out_{out}, scratch_{scratch} {}

CUOTA_INLINE std::span<std::uint64_t const> transform_context::samples() const noexcept {
    return in_.samples->numbers;
}

CUOTA_INLINE device_span<std::uint64_t const> transform_context::row_offsets(std::size_t field,
                                                                             source_location where) const {
    return in_.row_offsets(field, "a transform's input", where);
}

CUOTA_INLINE transform_context transform_context::after(std::size_t fields) const {
    if (fields > scratch_.fields.size())
        detail::throw_usage_error("transform_context::after: {} fields are out of range: the scratch has {}",
                                  {fields, scratch_.fields.size()});
    return {stream_, epoch_, scratch_.only(0, fields), out_,
            scratch_.only(fields, scratch_.fields.size() - fields)};
}

}  // namespace cuota::inline v0

#endif
