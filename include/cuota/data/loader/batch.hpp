// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A batch in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/loader/batch_view.hpp>
#include <cuota/data/loader/slot_layout.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {
class loader_engine;
}
#if !CUOTA_DEFINE_DATA
extern template class detail::intrusive_ptr<detail::loader_engine>;
#endif

/// Samples in device memory: owns a loader's slot until destroyed. Move-only; may outlive its loader.
///
/// `view` makes a stream wait for the copy; after destruction, the slot's next copy waits for the streams that used the batch. The host
/// does not block.
/// Threads: one at a time.
/// Cost:    one enqueued wait at a stream's first use; on destruction one event record per stream.
/// Throws:  usage_error after being moved from.
/// Example: examples/first.cpp
class batch {
public:
    /// Moves the slot.
    batch(batch&& other) noexcept
        : engine_{std::move(other.engine_)}, slot_{other.slot_}, index_{other.index_} {}
    /// Releases the current slot first.
    batch& operator=(batch&& other) noexcept;
    batch(batch const&) = delete;  // two owners would free the slot twice
    batch& operator=(batch const&) = delete;
    ~batch() { release(); }

    /// Returns a field's elements of all samples, contiguously, for work enqueued on s after this call. T is the element type, or
    /// std::byte. row_offsets partitions a ragged field.
    /// Order:   s waits for the batch's copy, once. Access the view only on s, or declare other streams (used_on).
    /// Throws:  usage_error for a wrong type or field, the legacy default stream (other streams do not wait for it), a captured stream, or
    ///          a stream of a device that cannot access the batch; cuda_error.
    template <class T>
    [[nodiscard]] batch_view<T> view(stream_ref s, std::size_t field = 0,
                                     source_location where = source_location::current()) const& {
        check_alive(where);
        auto const seen = contents().template view<T const>(field, "a batch", where);
        used_by_kernels_on(s, where);
        return batch_view<T>{seen};
    }
    template <class T>
    void view(stream_ref, std::size_t = 0) const&& = delete;  // the batch would be destroyed first

    /// Returns the row offsets o of a ragged field, size() + 1 entries: sample i has rows [o[i], o[i + 1]). Order, throws: as view.
    [[nodiscard]] batch_view<std::uint64_t> row_offsets(
        stream_ref s, std::size_t field = 0, source_location where = source_location::current()) const&;
    void row_offsets(stream_ref, std::size_t = 0) const&& = delete;
    /// Returns the offsets on the host, valid while the batch lives.
    [[nodiscard]] std::span<std::uint64_t const> row_offsets(
        std::size_t field = 0, source_location where = source_location::current()) const&;
    void row_offsets(std::size_t = 0) const&& = delete;

    /// Declares a use of the batch by s, of any device: s waits for the copy, and the slot's next copy for s. Throws: as view, without its
    /// check of access.
    void used_on(stream_ref s, source_location where = source_location::current()) const;

    [[nodiscard]] std::size_t size() const { return samples().size(); }  ///< samples
    [[nodiscard]] std::uint64_t index() const noexcept {
        return index_;
    }                                                              ///< since the epoch began or was resumed
    [[nodiscard]] std::span<std::uint64_t const> samples() const;  ///< dataset indices, in batch order
    [[nodiscard]] std::span<field const> fields() const;           ///< of the dataset or the transform

private:
    friend class epoch_range;
    batch(detail::intrusive_ptr<detail::loader_engine> engine, std::uint32_t slot,
          std::uint64_t index) noexcept;

    void check_alive(source_location where) const;
    void used_by_kernels_on(stream_ref s, source_location where) const;
    [[nodiscard]] detail::slot_contents contents() const noexcept;

    void release() noexcept;

    detail::intrusive_ptr<detail::loader_engine> engine_;
    std::uint32_t slot_;
    std::uint64_t index_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <cuota/core/error.hpp>
#include <cuota/data/detail/loader/loader_engine.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0 {

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::loader_engine>;
#endif

CUOTA_INLINE batch& batch::operator=(batch&& other) noexcept {
    if (this == &other) return *this;
    release();
    engine_ = std::move(other.engine_);
    slot_ = other.slot_;
    index_ = other.index_;
    return *this;
}

CUOTA_INLINE batch_view<std::uint64_t> batch::row_offsets(stream_ref s, std::size_t field,
                                                          source_location where) const& {
    check_alive(where);
    auto const seen = contents().row_offsets(field, "a batch", where);
    used_by_kernels_on(s, where);
    return batch_view<std::uint64_t>{seen};
}

CUOTA_INLINE std::span<std::uint64_t const> batch::row_offsets(std::size_t field,
                                                               source_location where) const& {
    check_alive(where);
    auto const at = contents().ragged_at(field, "a batch", where);
    return engine_->slot(slot_).samples.row_offsets[at];
}

CUOTA_INLINE void batch::used_on(stream_ref s, source_location where) const {
    check_alive(where);
    if (s.get() == nullptr || s.get() == cudaStreamLegacy)
        detail::throw_usage_error(where, "batch: cannot use the legacy default stream; create a stream");
    rt::check_not_capturing(s, "batch: cannot be used", "copy it to a buffer of the graph before each launch",
                            where);
    engine_->use(slot_, s);
}

CUOTA_INLINE void batch::used_by_kernels_on(stream_ref s, source_location where) const {
    engine_->check_reach(slot_, s, where);
    used_on(s, where);
}

CUOTA_INLINE std::span<std::uint64_t const> batch::samples() const {
    check_alive({});
    return engine_->slot(slot_).samples.numbers;
}

CUOTA_INLINE std::span<field const> batch::fields() const {
    check_alive({});
    return engine_->delivered_fields();
}

CUOTA_INLINE batch::batch(detail::intrusive_ptr<detail::loader_engine> engine, std::uint32_t slot,
                          std::uint64_t index) noexcept
    : engine_{std::move(engine)}, slot_{slot}, index_{index} {}

CUOTA_INLINE void batch::check_alive(source_location where) const {
    if (!engine_) detail::throw_usage_error(where, "a batch was used after it was moved from");
    engine_->expect_usable(where);
}

CUOTA_INLINE detail::slot_contents batch::contents() const noexcept { return engine_->contents(slot_); }

CUOTA_INLINE void batch::release() noexcept {
    detail::loader_engine::let_go(engine_, [this](auto& engine) { engine.release(slot_); });
}

}  // namespace cuota::inline v0

#endif
