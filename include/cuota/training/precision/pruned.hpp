// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Compressed storage of pruned numbers.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/training/detail/survivor_mask.hpp>
#include <cuota/training/precision/cast.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Stores `size()` numbers of which `nonzeros()` are kept and the others are zero: one bit per number, the survivors in order, and an index
/// of 8 bytes per 1024 numbers.
///
///     auto const kept = cuota::pruned<float>::pack(s, weights.read(s), 1e-3f, pool, "weights");
///     kept.unpack(s, weights.write(s));
///
/// Survivors are copied bitwise; all bytes of other numbers are zero after `unpack`.
/// Smaller than the dense array if less than 96 % of floats survive, or 93 % of 16-bit numbers. Move-only.
/// Order:   of the stream arguments; the stream of `pack` is the home stream.
/// Threads: as device_buffer.
/// Throws:  as device_buffer. On failure, nothing stays allocated.
/// Cost:    `pack`: six kernels, scratch of 8 bytes per million numbers, and a wait for the number of survivors; `unpack`: one kernel.
template <class T>
class pruned {
    static_assert(std::is_trivially_copyable_v<T>, "device memory is copied byte by byte");

public:
    using value_type = T;  ///< of an unpacked number

    /// Keeps numbers of a magnitude above `threshold`, and NaNs. Throws: usage_error if `threshold` is negative or NaN.
    [[nodiscard]] static pruned pack(
        stream_ref s, device_span<T const> dense, float threshold, resource_ref const& memory, tag name = {},
        source_location where = source_location::current()) requires storage_float<T> {
        if (!(threshold >= 0))
            detail::throw_usage_error(where, "pruned: threshold = {} must not be negative", {threshold});
        return packed_by(detail::above_threshold<T>{dense.data(), threshold}, s, dense, memory, name, where);
    }
    /// Keeps numbers with a nonzero byte in `keep`. Throws: usage_error if counts differ.
    [[nodiscard]] static pruned pack(stream_ref s, device_span<T const> dense,
                                     device_span<unsigned char const> keep, resource_ref const& memory,
                                     tag name = {}, source_location where = source_location::current()) {
        detail::check_counts("pruned::pack", dense.size(), keep.size(), where);
        return packed_by(detail::kept_by_mask{keep.data()}, s, dense, memory, name, where);
    }

    /// Returns the bytes of the three allocations for `survivors` of `count` numbers, each rounded up to `granularity`; `unlimited` on
    /// overflow.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t count, std::size_t survivors,
                                                     std::size_t granularity = 1) noexcept {
        std::size_t const words = detail::parts_of(count, detail::word_bits) * sizeof(detail::mask_word);
        std::size_t const ranks = detail::parts_of(count, detail::group_bits) * sizeof(detail::rank_number);
        auto const kept = checked_mul(survivors, sizeof(T));
        auto sum = checked_add(round_up(words, granularity), round_up(ranks, granularity));
        if (!kept || !sum) return unlimited;
        return checked_add(*sum, round_up(*kept, granularity)).value_or(unlimited);
    }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }  ///< numbers, including zeros
    [[nodiscard]] std::size_t nonzeros() const noexcept { return packed_.size(); }  ///< number of survivors
    /// Returns the bytes on the device.
    [[nodiscard]] std::size_t bytes() const noexcept {
        return words_.bytes() + ranks_.bytes() + packed_.bytes();
    }
    [[nodiscard]] stream_ref home() const noexcept { return words_.home(); }  ///< the stream of pack
    /// Leases the survivors, in order, for reading.
    [[nodiscard]] lease<T const> packed(stream_ref s,
                                        source_location where = source_location::current()) const {
        return packed_.read(s, where);
    }

    /// Writes all numbers. Throws: usage_error if counts differ.
    void unpack(stream_ref s, device_span<T> to, source_location where = source_location::current()) const {
        detail::check_counts("pruned::unpack", size(), to.size(), where);
        auto const words = words_.read(s, where);
        auto const ranks = ranks_.read(s, where);
        auto const packed = packed_.read(s, where);
        for_each_index(s, size(),
                       detail::scatter_survivor<T>{packed.span().data(), words.span().data(),
                                                   ranks.span().data(), to.data(), T{}},
                       "pruned::unpack", where);
    }

    /// Moves ownership; `other` has no numbers afterwards.
    pruned(pruned&& other) noexcept
        : count_{std::exchange(other.count_, 0)},
          words_{std::move(other.words_)},
          ranks_{std::move(other.ranks_)},
          packed_{std::move(other.packed_)} {}
    /// Frees its own memory, then moves as above.
    pruned& operator=(pruned&& other) noexcept {
        if (this == &other) return *this;
        count_ = std::exchange(other.count_, 0);
        words_ = std::move(other.words_);
        ranks_ = std::move(other.ranks_);
        packed_ = std::move(other.packed_);
        return *this;
    }

private:
    using mask_words = device_buffer<detail::mask_word>;
    using rank_list = device_buffer<detail::rank_number>;

    pruned(std::size_t count, mask_words&& w, rank_list&& r, device_buffer<T>&& packed) noexcept
        : count_{count}, words_{std::move(w)}, ranks_{std::move(r)}, packed_{std::move(packed)} {}

    template <class Keeps>
    [[nodiscard]] static pruned packed_by(Keeps keeps, stream_ref s, device_span<T const> dense,
                                          resource_ref const& memory, tag name, source_location where) {
        std::size_t const count = dense.size();
        mask_words mask{detail::parts_of(count, detail::word_bits), s, memory, no_init, name, where};
        mark(s, keeps, count, mask, where);
        rank_list before{detail::parts_of(count, detail::group_bits), s, memory, no_init, name, where};
        std::size_t const survivors = detail::count_survivors(mask, before, memory, where);
        device_buffer<T> packed{survivors, s, memory, no_init, name, where};
        gather(s, dense, mask, before, packed, where);
        return {count, std::move(mask), std::move(before), std::move(packed)};
    }
    static void gather(stream_ref s, device_span<T const> dense, mask_words const& mask,
                       rank_list const& before, device_buffer<T>& packed, source_location where) {
        auto const bits = mask.read(s, where);
        auto const places = before.read(s, where);
        auto const to = packed.write(s, where);
        for_each_index(s, dense.size(),
                       detail::gather_survivor<T>{dense.data(), bits.span().data(), places.span().data(),
                                                  to.span().data()},
                       "pruned::pack", where);
    }
    template <class Keeps>
    static void mark(stream_ref s, Keeps keeps, std::size_t count, mask_words& mask, source_location where) {
        auto const to = mask.write(s, where);
        using marks = detail::mark_words<Keeps>;
        detail::for_each_by_warp(s, detail::parts_of(to.size(), marks::at_once),
                                 marks{keeps, to.span().data(), count}, "pruned::pack", where);
    }

    std::size_t count_;
    mask_words words_;
    rank_list ranks_;
    device_buffer<T> packed_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
