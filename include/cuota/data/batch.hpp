// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A batch on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/data/batch_view.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/slot_layout.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {
class loader_engine;
}
#if !CUOTA_DEFINE_DATA
extern template class shared<detail::loader_engine>;
#endif

/// Samples on the device: one slot of a loader, owned until the batch ends.
///
/// `view` is the only door to the data: it makes the stream wait for the copy, and the end of the batch makes the
/// next copy into the slot wait for that stream. The host waits for nothing.
/// Move-only; may outlive its loader.
/// Units:   size() counts samples; views count elements.
/// Threads: one at a time.
/// Cost:    the first use by a stream is one wait in it, the end one event for each stream that used it, which is made
///          when the slot sees that stream for the first time.
/// Throws:  as each says; misuse when moved from.
/// Example: examples/first.cpp
class batch {
public:
    /// Takes the slot; the other one has none then, and every use of it is a misuse.
    batch(batch&& other) noexcept
        : engine_{std::move(other.engine_)}, slot_{other.slot_}, index_{other.index_} {}
    /// Ends its own batch first; then as above.
    batch& operator=(batch&& other) noexcept;
    batch(batch const&) = delete;  // two ends of one batch would free its slot twice
    batch& operator=(batch const&) = delete;
    ~batch() { release(); }

    /// Elements of a field of all samples, back to back, for work on s that starts after this call. Of a ragged field all
    /// rows; row_offsets says whose they are.
    /// T must be the field's element type, or std::byte for any.
    /// Order:   s waits for the batch's copy, once. Use s for all that touches the view, or declare others (used_on).
    /// Throws:  misuse for a wrong type or field, a moved-from batch, the legacy default stream, which other streams do not
    ///          wait for, a captured stream, or a stream of another device whose kernels cannot reach the batch; cuda_error.
    template <class T>
    [[nodiscard]] batch_view<T> view(stream_ref s, std::size_t field = 0,
                                     place where = place::here()) const& {
        check_alive(where);
        auto const seen = contents().template view<T const>(field, "a batch", where);
        used_by_kernels_on(s, where);
        return batch_view<T>{seen};
    }
    template <class T>
    void view(stream_ref, std::size_t = 0) const&& = delete;  // the batch would end before the view is used

    /// Where the rows of each sample begin in a ragged field: sample i has [o[i], o[i + 1]), so there is one more than there
    /// are samples, and the last is the number of all rows. Order and throws: as view; misuse for another field.
    [[nodiscard]] batch_view<std::uint64_t> row_offsets(stream_ref s, std::size_t field = 0,
                                                        place where = place::here()) const&;
    void row_offsets(stream_ref, std::size_t = 0) const&& = delete;
    /// The same numbers on the host, valid while the batch lives: to size a launch by the longest, for instance.
    [[nodiscard]] std::span<std::uint64_t const> row_offsets(std::size_t field = 0,
                                                             place where = place::here()) const&;
    void row_offsets(std::size_t = 0) const&& = delete;

    /// Declares that s, too, works on the batch: it waits for the copy, and the slot waits for it. A stream of any device, for
    /// copies: whether its kernels reach the batch is not asked. Throws: as view, but for the device.
    void used_on(stream_ref s, place where = place::here()) const;

    [[nodiscard]] std::size_t size() const { return samples().size(); }  ///< samples
    /// Of the batch in its epoch, counted from where that began or went on.
    [[nodiscard]] std::uint64_t index() const noexcept { return index_; }
    /// Which samples of the source these are, in order.
    [[nodiscard]] std::span<std::uint64_t const> samples() const;
    /// What the loader delivers: the source's, or the transform's. Throws: misuse when moved from.
    [[nodiscard]] std::span<field const> fields() const;

private:
    friend class epoch_range;
    batch(shared<detail::loader_engine> engine, std::uint32_t slot, std::uint64_t index) noexcept;

    void check_alive(place where) const;
    void used_by_kernels_on(stream_ref s, place where) const;
    [[nodiscard]] detail::slot_contents contents() const noexcept;

    void release() noexcept;

    shared<detail::loader_engine> engine_;
    std::uint32_t slot_;
    std::uint64_t index_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <cuota/core/error.hpp>
#include <cuota/data/loader_engine.hpp>
#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0 {

#if CUOTA_SEPARATE
template class shared<detail::loader_engine>;
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
                                                          place where) const& {
    check_alive(where);
    auto const seen = contents().row_offsets(field, "a batch", where);
    used_by_kernels_on(s, where);
    return batch_view<std::uint64_t>{seen};
}

CUOTA_INLINE std::span<std::uint64_t const> batch::row_offsets(std::size_t field, place where) const& {
    check_alive(where);
    auto const at = contents().ragged_at(field, "a batch", where);
    return engine_->slot(slot_).samples.row_offsets[at];
}

CUOTA_INLINE void batch::used_on(stream_ref s, place where) const {
    check_alive(where);
    if (s.get() == nullptr || s.get() == cudaStreamLegacy)
        detail::throw_misuse(where, "a batch was used on the legacy default stream; make a stream");
    rt::refuse_captured(s, "a batch was used", "copy it to a buffer of the graph before each launch", where);
    engine_->use(slot_, s);
}

CUOTA_INLINE void batch::used_by_kernels_on(stream_ref s, place where) const {
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

CUOTA_INLINE batch::batch(shared<detail::loader_engine> engine, std::uint32_t slot,
                          std::uint64_t index) noexcept
    : engine_{std::move(engine)}, slot_{slot}, index_{index} {}

CUOTA_INLINE void batch::check_alive(place where) const {
    if (!engine_) detail::throw_misuse(where, "a batch was used after it was moved from");
    engine_->expect_usable(where);
}

CUOTA_INLINE detail::slot_contents batch::contents() const noexcept { return engine_->contents(slot_); }

CUOTA_INLINE void batch::release() noexcept {
    detail::loader_engine::let_go(engine_, [this](auto& engine) { engine.release(slot_); });
}

}  // namespace cuota::inline v0

#endif
