// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Where the fields of a batch lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/buffer/device_span.hpp>
#include <cuota/buffer/view_origin.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/sample_list.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// The most memory that a batch takes: first the row offsets of each ragged field, then field after field, each of all its
/// samples back to back; every one of them aligned. Bytes. A smaller batch stands closer together.
struct slot_layout {
    std::size_t sample_bytes = 0;      ///< of one sample: its fields, and 8 for each ragged one
    std::size_t bytes = 0;             ///< of a full batch, each field aligned
    std::vector<std::size_t> offsets;  ///< of each field in a full batch
    std::size_t row_bytes = 0;         ///< of one row of every ragged field

    /// Of `batch` samples with so many rows in each ragged field.
    /// Throws: misuse when that is more than a std::size_t holds, for a source of that name.
    [[nodiscard]] static slot_layout of(std::span<field const> fields, std::size_t batch,
                                        std::string const& name, std::size_t rows = 0);

    /// Throws: misuse for nothing: a size that was too large.
    [[nodiscard]] static std::size_t or_too_large(std::optional<std::size_t> bytes, std::string const& name);

    friend bool operator==(slot_layout const&, slot_layout const&) = default;  ///< in every number
};

namespace detail {

/// A part of a batch in memory. Bytes.
struct slot_place {
    std::size_t begin;  // from where the batch begins
    std::size_t size;
    [[nodiscard]] std::size_t end() const noexcept { return begin + size; }
};

/// Where the parts of a batch of these samples lie: as slot_layout has it, without gaps for what is not there.
class slot_places {
public:
    slot_places(std::span<field const> fields, sample_list const& samples) noexcept;

    /// The row offsets of the ragged field that is the j-th of those.
    [[nodiscard]] slot_place row_offsets(std::size_t j) const noexcept;
    /// Field k of all samples.
    [[nodiscard]] slot_place field_at(std::size_t k) const;
    /// Of all that there is.
    [[nodiscard]] std::size_t used_bytes() const;

private:
    [[nodiscard]] std::size_t bytes_of(std::size_t k, std::size_t& j) const;
    [[nodiscard]] static std::size_t padded(std::size_t bytes) noexcept;

    std::span<field const> fields_;
    sample_list const& samples_;
    std::size_t ragged_;  // fields
};

/// A batch on the device, or some of its fields.
struct slot_contents {
    std::byte* at;
    std::span<field const> fields;
    sample_list const* samples;

    /// Of fields that are not ragged.
    [[nodiscard]] slot_contents only(std::size_t first, std::size_t count) const;

    /// Elements of a field of all samples. T is the field's element type, or std::byte for any.
    /// Throws: misuse for a field that there is not, or another type; `what` is said to be what was viewed.
    template <class T>
    [[nodiscard]] device_span<T> view(std::size_t k, char const* what, place where) const {
        field const& f = field_at(k, what, where);
        if (!std::is_same_v<std::remove_const_t<T>, std::byte> && element_of<T>() != f.type)
            throw_misuse(where, "field {} of {} was viewed as {}",
                         {field_text(f), what, element_name(element_of<T>())});
        return span_of<T>(places().field_at(k), where);
    }

    /// Where the rows of each sample begin in a ragged field, and where those of the last one end.
    /// Throws: misuse for another field.
    [[nodiscard]] device_span<std::uint64_t const> row_offsets(std::size_t k, char const* what,
                                                               place where) const;
    /// Which of the ragged fields that one is. Throws: misuse when it is none.
    [[nodiscard]] std::size_t ragged_at(std::size_t k, char const* what, place where) const;

private:
    [[nodiscard]] slot_places places() const noexcept;
    [[nodiscard]] field const& field_at(std::size_t k, char const* what, place where) const;
    template <class T>
    [[nodiscard]] device_span<T> span_of(slot_place part, place where) const {
        return {reinterpret_cast<T*>(at + part.begin), part.size / sizeof(T),
                view_origin::of_lease("batch", where)};
    }
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

namespace cuota::inline v0 {

CUOTA_INLINE slot_layout slot_layout::of(std::span<field const> fields, std::size_t batch,
                                         std::string const& name, std::size_t rows) {
    slot_layout made;
    auto const add = [&](std::size_t& sum, std::size_t one) {
        sum = or_too_large(checked_add(sum, one), name);
    };
    auto const place = [&](std::size_t one, std::size_t count) {
        std::size_t const all = or_too_large(checked_mul(one, count), name);
        add(made.bytes, or_too_large(checked_round_up(all, default_alignment), name));
    };
    for (field const& f : fields) {
        if (!f.is_ragged) continue;
        add(made.sample_bytes, sizeof(std::uint64_t));
        place(sizeof(std::uint64_t), or_too_large(checked_add(batch, 1), name));
    }
    for (field const& f : fields) {
        made.offsets.push_back(made.bytes);
        add(f.is_ragged ? made.row_bytes : made.sample_bytes, f.bytes());
        place(f.bytes(), f.is_ragged ? rows : batch);
    }
    return made;
}

CUOTA_INLINE std::size_t slot_layout::or_too_large(std::optional<std::size_t> bytes,
                                                   std::string const& name) {
    if (!bytes) detail::throw_misuse("a batch of {} would be larger than any address space", {name});
    return *bytes;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE slot_places::slot_places(std::span<field const> fields, sample_list const& samples) noexcept
    : fields_{fields}, samples_{samples}, ragged_{ragged_count(fields)} {}

CUOTA_INLINE slot_places slot_contents::places() const noexcept { return {fields, *samples}; }

CUOTA_INLINE slot_place slot_places::row_offsets(std::size_t j) const noexcept {
    std::size_t const bytes = (samples_.size() + 1) * sizeof(std::uint64_t);
    return {j * padded(bytes), bytes};
}

CUOTA_INLINE slot_place slot_places::field_at(std::size_t k) const {
    std::size_t at = row_offsets(ragged_).begin;
    std::size_t j = 0;  // ragged fields up to here
    for (std::size_t i = 0; i != k; ++i) at += padded(bytes_of(i, j));
    return {at, bytes_of(k, j)};
}

CUOTA_INLINE std::size_t slot_places::used_bytes() const {
    if (!fields_.empty() && samples_.size() != 0) return field_at(fields_.size() - 1).end();
    return ragged_ == 0 ? 0 : row_offsets(ragged_ - 1).end();
}

CUOTA_INLINE std::size_t slot_places::bytes_of(std::size_t k, std::size_t& j) const {
    field const& f = fields_[k];
    return f.bytes() * (f.is_ragged ? samples_.rows(j++) : samples_.size());
}

CUOTA_INLINE std::size_t slot_places::padded(std::size_t bytes) noexcept {
    return (bytes + default_alignment - 1) / default_alignment * default_alignment;
}

CUOTA_INLINE slot_contents slot_contents::only(std::size_t first, std::size_t count) const {
    std::size_t const before = count == 0 ? 0 : places().field_at(first).begin;
    return {at + before, fields.subspan(first, count), samples};
}

CUOTA_INLINE device_span<std::uint64_t const> slot_contents::row_offsets(std::size_t k, char const* what,
                                                                         place where) const {
    return span_of<std::uint64_t const>(places().row_offsets(ragged_at(k, what, where)), where);
}

CUOTA_INLINE std::size_t slot_contents::ragged_at(std::size_t k, char const* what, place where) const {
    field const& f = field_at(k, what, where);
    if (!f.is_ragged)
        throw_misuse(where, "the row offsets of {} of {} were asked for, which is not ragged",
                     {field_text(f), what});
    return ragged_count(fields.first(k));
}

CUOTA_INLINE field const& slot_contents::field_at(std::size_t k, char const* what, place where) const {
    if (k >= fields.size()) throw_misuse(where, "field {} of {} that has {}", {k, what, fields.size()});
    return fields[k];
}

}  // namespace cuota::inline v0::detail

#endif
