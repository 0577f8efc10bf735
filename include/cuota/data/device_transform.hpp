// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What is made of a batch on the device, before it is delivered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/slot_layout.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// One batch that has come to the device, and the room for what is to be made of it. Valid for one call of
/// device_transform::run, on the host; the views for work on `stream` that the call enqueues.
/// Threads: the one that run is called on.
class transform_job {
public:
    /// Made by the loader.
    transform_job(stream_ref s, std::uint64_t epoch, detail::slot_contents const& in,
                  detail::slot_contents const& out, detail::slot_contents const& scratch) noexcept;

    /// The loader's stream of copies: what is enqueued on it starts when the batch is there, and is over before
    /// the batch is used.
    [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
    [[nodiscard]] std::size_t size() const noexcept { return in_.samples->size(); }  ///< samples
    /// Which samples of the source these are, in order; with `epoch` what a random transform is seeded with.
    [[nodiscard]] std::span<std::uint64_t const> samples() const noexcept;
    /// The number that the program gave it.
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

    /// Elements of a field of the source, of all samples, back to back; of a ragged one all rows. T is the field's element
    /// type, or std::byte.
    /// Throws: misuse for another type, or a field that there is not.
    template <class T>
    [[nodiscard]] device_span<T const> in(std::size_t field = 0, place where = place::here()) const {
        return in_.view<T const>(field, "what a transform gets", where);
    }
    /// Where the rows of each sample begin in a ragged field of the source: batch::row_offsets. Throws: misuse for another.
    [[nodiscard]] device_span<std::uint64_t const> row_offsets(std::size_t field = 0,
                                                               place where = place::here()) const;
    /// Of a field of the batch: all of it is to be written. Throws: as in.
    template <class T>
    [[nodiscard]] device_span<T> out(std::size_t field = 0, place where = place::here()) const {
        return out_.view<T>(field, "what a transform makes", where);
    }

    /// Of a field of the scratch: whatever the batch before left there. Throws: as in.
    template <class T>
    [[nodiscard]] device_span<T> scratch(std::size_t field = 0, place where = place::here()) const {
        return scratch_.view<T>(field, "a transform's scratch", where);
    }

    /// The job of a transform after one that has put the first `fields` fields of the scratch in place of what arrived.
    /// Throws: misuse when there are fewer.
    [[nodiscard]] transform_job after(std::size_t fields) const;

private:
    stream_ref stream_;
    std::uint64_t epoch_;
    detail::slot_contents in_;
    detail::slot_contents out_;
    detail::slot_contents scratch_;
};

/// What a loader does with each batch on the device before it delivers it: crops and flips, normalises, widens what
/// crossed the link as bytes. Kernels on the loader's stream of copies; the host waits for nothing.
///
/// `fields` is what a batch has then, none of them ragged. `run` gets the batch as it was copied and enqueues the work.
/// What it throws comes in place of the batch, in its place in the order. A transform for certain fields of a source has
/// them in `takes`: a loader of others is a misuse. One of several kernels has in `scratch` what they hand on, of each
/// sample, as fields.
/// Cost:    device memory for one more batch, as it was copied, and its scratch; two batches follow each other on one
///          stream.
/// Threads: `run` is called for one batch at a time, by a worker or by who ends a batch, with the loader's device current.
///          It must not use the loader or its batches: that is a misuse, and thrown.
/// Example: converted_on_device makes one.
struct device_transform {
    std::vector<field> fields;                      ///< of a batch then
    std::function<void(transform_job const&)> run;  ///< enqueues the work on one batch
    std::vector<field> takes{};                     ///< fields of the source that it is for; empty: of any
    std::vector<field> scratch{};                   ///< of each sample, what is there besides while it runs
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0 {

CUOTA_INLINE transform_job::transform_job(stream_ref s, std::uint64_t epoch, detail::slot_contents const& in,
                                          detail::slot_contents const& out,
                                          detail::slot_contents const& scratch) noexcept
    : stream_{s}, epoch_{epoch}, in_{in}, out_{out}, scratch_{scratch} {}

CUOTA_INLINE std::span<std::uint64_t const> transform_job::samples() const noexcept {
    return in_.samples->numbers;
}

CUOTA_INLINE device_span<std::uint64_t const> transform_job::row_offsets(std::size_t field,
                                                                         place where) const {
    return in_.row_offsets(field, "what a transform gets", where);
}

CUOTA_INLINE transform_job transform_job::after(std::size_t fields) const {
    if (fields > scratch_.fields.size())
        detail::throw_misuse("the first {} fields of a transform's scratch that has {}",
                             {fields, scratch_.fields.size()});
    return {stream_, epoch_, scratch_.only(0, fields), out_,
            scratch_.only(fields, scratch_.fields.size() - fields)};
}

}  // namespace cuota::inline v0

#endif
