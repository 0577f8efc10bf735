// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory layout of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cuota/buffer/detail/view_origin.hpp>
#include <cuota/buffer/device_span.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/detail/loader/sample_list.hpp>
#include <cuota/data/element.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Layout of a full batch, in bytes: row offsets of each ragged field, then each field with all samples contiguous, all aligned. Smaller
/// batches are packed more closely.
struct slot_layout {
    std::size_t sample_bytes = 0;      ///< one sample's fields, plus 8 per ragged field
    std::size_t bytes = 0;             ///< a full batch, with alignment
    std::vector<std::size_t> offsets;  ///< of each field
    std::size_t row_bytes = 0;         ///< one row of every ragged field

    /// Returns the layout of `batch` samples with `rows` rows in each ragged field. Throws: usage_error, naming the dataset, on overflow.
    [[nodiscard]] static slot_layout of(std::span<field const> fields, std::size_t batch,
                                        std::string const& name, std::size_t rows = 0);

    /// Throws: usage_error for nullopt, an overflow.
    [[nodiscard]] static std::size_t or_too_large(std::optional<std::size_t> bytes, std::string const& name);

    friend bool operator==(slot_layout const&, slot_layout const&) = default;  ///< compares all members
};

namespace detail {

struct slot_part {
    std::size_t begin;  // in the batch
    std::size_t size;
    [[nodiscard]] std::size_t end() const noexcept { return begin + size; }
};

/// Parts of an actual batch, in slot_layout's order.
class slot_parts {
public:
    slot_parts(std::span<field const> fields, sample_list const& samples) noexcept;

    [[nodiscard]] slot_part row_offsets(std::size_t j) const noexcept;
    [[nodiscard]] slot_part field_at(std::size_t k) const;
    [[nodiscard]] std::size_t used_bytes() const;

private:
    [[nodiscard]] std::size_t bytes_of(std::size_t k, std::size_t& j) const;
    [[nodiscard]] static std::size_t padded(std::size_t bytes) noexcept;

    std::span<field const> fields_;
    sample_list const& samples_;
    std::size_t ragged_;
};

/// A batch on the device, or some of its fields.
struct slot_contents {
    std::byte* at;
    std::span<field const> fields;
    sample_list const* samples;

    /// Returns `count` fields from `first` on; none may be ragged.
    [[nodiscard]] slot_contents only(std::size_t first, std::size_t count) const;

    /// Returns a field's elements; T is the element type, or std::byte. Throws: usage_error, naming `what`, for a wrong type or field.
    template <class T>
    [[nodiscard]] device_span<T> view(std::size_t k, char const* what, source_location where) const {
        field const& f = field_at(k, what, where);
        if (!std::is_same_v<std::remove_const_t<T>, std::byte> && element_of<T>() != f.type)
            throw_usage_error(where, "cannot view field {} of {} as {}",
                              {field_text(f), what, element_name(element_of<T>())});
        return span_of<T>(places().field_at(k), where);
    }

    [[nodiscard]] device_span<std::uint64_t const> row_offsets(std::size_t k, char const* what,
                                                               source_location where) const;
    /// Returns k's index among ragged fields. Throws: usage_error if it is not ragged.
    [[nodiscard]] std::size_t ragged_at(std::size_t k, char const* what, source_location where) const;

private:
    [[nodiscard]] slot_parts places() const noexcept;
    [[nodiscard]] field const& field_at(std::size_t k, char const* what, source_location where) const;
    template <class T>
    [[nodiscard]] device_span<T> span_of(slot_part part, source_location where) const {
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
    if (!bytes) detail::throw_usage_error("a batch of {} is larger than any address space", {name});
    return *bytes;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE slot_parts::slot_parts(std::span<field const> fields, sample_list const& samples) noexcept
    : fields_{fields}, samples_{samples}, ragged_{ragged_count(fields)} {}

CUOTA_INLINE slot_parts slot_contents::places() const noexcept { return {fields, *samples}; }

CUOTA_INLINE slot_part slot_parts::row_offsets(std::size_t j) const noexcept {
    std::size_t const bytes = (samples_.size() + 1) * sizeof(std::uint64_t);
    return {j * padded(bytes), bytes};
}

CUOTA_INLINE slot_part slot_parts::field_at(std::size_t k) const {
    std::size_t at = row_offsets(ragged_).begin;
    std::size_t j = 0;
    for (std::size_t i = 0; i != k; ++i) at += padded(bytes_of(i, j));
    return {at, bytes_of(k, j)};
}

CUOTA_INLINE std::size_t slot_parts::used_bytes() const {
    if (!fields_.empty() && samples_.size() != 0) return field_at(fields_.size() - 1).end();
    return ragged_ == 0 ? 0 : row_offsets(ragged_ - 1).end();
}

CUOTA_INLINE std::size_t slot_parts::bytes_of(std::size_t k, std::size_t& j) const {
    field const& f = fields_[k];
    return f.bytes() * (f.is_ragged ? samples_.rows(j++) : samples_.size());
}

CUOTA_INLINE std::size_t slot_parts::padded(std::size_t bytes) noexcept {
    return (bytes + default_alignment - 1) / default_alignment * default_alignment;
}

CUOTA_INLINE slot_contents slot_contents::only(std::size_t first, std::size_t count) const {
    std::size_t const before = count == 0 ? 0 : places().field_at(first).begin;
    return {at + before, fields.subspan(first, count), samples};
}

CUOTA_INLINE device_span<std::uint64_t const> slot_contents::row_offsets(std::size_t k, char const* what,
                                                                         source_location where) const {
    return span_of<std::uint64_t const>(places().row_offsets(ragged_at(k, what, where)), where);
}

CUOTA_INLINE std::size_t slot_contents::ragged_at(std::size_t k, char const* what,
                                                  source_location where) const {
    field const& f = field_at(k, what, where);
    if (!f.is_ragged)
        throw_usage_error(where, "cannot return row offsets: field {} of {} is not ragged",
                          {field_text(f), what});
    return ragged_count(fields.first(k));
}

CUOTA_INLINE field const& slot_contents::field_at(std::size_t k, char const* what,
                                                  source_location where) const {
    if (k >= fields.size())
        throw_usage_error(where, "field index {} is out of range: {} has {}", {k, what, fields.size()});
    return fields[k];
}

}  // namespace cuota::inline v0::detail

#endif
