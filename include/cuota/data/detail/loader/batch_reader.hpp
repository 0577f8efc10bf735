// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A worker's part outside all locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/detail/loader/loader_config.hpp>
#include <cuota/data/detail/loader/loader_times.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>
#include <cuota/data/loader/sample_too_long_error.hpp>
#include <cuota/data/loader/shard.hpp>
#include <cuota/data/loader/slot_layout.hpp>

namespace cuota::inline v0::detail {

/// Draws batches and reads them into slots, for one worker; allocates only on construction. Throws: errors of sampler and dataset.
class batch_reader {
public:
    batch_reader(loader_config const& shape, any_dataset const& from);

    void draw(std::uint64_t epoch, batch_slice const& at, worker_times& taken);
    [[nodiscard]] std::optional<batch_slice> draw_rows(std::uint64_t epoch, std::uint64_t position,
                                                       worker_times& taken);

    void fill(std::span<std::byte> slot, worker_times& taken);

    /// Returns the drawn samples, to be swapped with a list of the same capacity.
    [[nodiscard]] sample_list& samples() noexcept { return samples_; }

private:
    loader_config const* shape_;
    any_dataset const* from_;
    gather_context context_;
    sample_list samples_;
    sample_list of_others_;  // of the other processes in the same step
    std::vector<std::span<std::byte>> out_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0::detail {

CUOTA_INLINE batch_reader::batch_reader(loader_config const& shape, any_dataset const& from)
    : shape_{&shape},
      from_{&from},
      context_{0, shape.seed},
      samples_{shape.list_with_room()},
      of_others_{shape.options.shard.world_size > 1 ? samples_ : sample_list{}},
      out_(shape.fields.size()) {}

CUOTA_INLINE void batch_reader::draw(std::uint64_t epoch, batch_slice const& at, worker_times& taken) {
    stopwatch const time{taken.drawing};
    context_.epoch = epoch;
    samples_.numbers.resize(static_cast<std::size_t>(at.count));  // within capacity
    shape_->draw(epoch, at.first, samples_.numbers);
}

CUOTA_INLINE std::optional<batch_slice> batch_reader::draw_rows(std::uint64_t epoch, std::uint64_t position,
                                                                worker_times& taken) {
    stopwatch const time{taken.drawing};
    context_.epoch = epoch;
    return row_batcher{*shape_, *from_}.next(epoch, position, samples_, of_others_);
}

CUOTA_INLINE void batch_reader::fill(std::span<std::byte> slot, worker_times& taken) {
    stopwatch const time{taken.reading};
    slot_parts const places{shape_->fields, samples_};
    auto const room = [&](slot_part part) { return slot.subspan(part.begin, part.size); };
    for (std::size_t j = 0; j != samples_.row_offsets.size(); ++j)
        if (auto const& offsets = samples_.row_offsets[j]; !offsets.empty())
            std::memcpy(room(places.row_offsets(j)).data(), offsets.data(),
                        offsets.size() * sizeof(offsets[0]));
    for (std::size_t k = 0; k != out_.size(); ++k) out_[k] = room(places.field_at(k));
    from_->gather(samples_.numbers, out_, context_);
}

}  // namespace cuota::inline v0::detail

#endif
