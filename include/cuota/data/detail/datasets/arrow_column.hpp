// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Arrow columns as fields.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/chunked_array.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/type.h>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/datasets/memory_dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0::detail {

[[nodiscard]] inline std::string column_text(std::string_view name) {
    return message("column \"{}\"", {as_name(name, 64)});
}

/// Origin of a table: its errors are data_error for a file, otherwise usage_error.
struct arrow_origin {
    std::string name;
    bool is_file;

    [[noreturn]] void refuse(std::string const& why) const {
        if (is_file) throw_data_error(name, 0, "{}", {why});
        throw_usage_error("{}: {}", {name, why});
    }
    void expect(arrow::Status const& status) const {
        if (!status.ok()) refuse(shown(status.ToString(), 400));
    }
    void expect(arrow::Status const& status, std::string_view column) const {
        if (!status.ok()) refuse(column_text(column) + ": " + shown(status.ToString(), 400));
    }
    template <class T>
    [[nodiscard]] T expect(arrow::Result<T> result) const {
        expect(result.status());
        return std::move(result).ValueUnsafe();
    }
};

struct arrow_layout {
    field as{};
    std::size_t bytes = 0;          // per sample, or per row if ragged
    bool has_long_offsets = false;  // 64-bit offsets
    bool is_bits = false;           // bool: eight values per byte
};

[[nodiscard]] inline std::optional<element_type> element_of_arrow(arrow::Type::type type) noexcept {
    using enum element_type;
    switch (type) {
        case arrow::Type::BOOL:
        case arrow::Type::UINT8: return u8;
        case arrow::Type::INT8: return i8;
        case arrow::Type::INT16: return i16;
        case arrow::Type::UINT16: return u16;
        case arrow::Type::INT32: return i32;
        case arrow::Type::UINT32: return u32;
        case arrow::Type::INT64: return i64;
        case arrow::Type::UINT64: return u64;
        case arrow::Type::HALF_FLOAT: return f16;
        case arrow::Type::FLOAT: return f32;
        case arrow::Type::DOUBLE: return f64;
        default: return std::nullopt;
    }
}

[[nodiscard]] inline arrow_layout layout_of(arrow_origin const& origin, arrow::Field const& column) {
    using arrow::Type;
    arrow::DataType const* type = column.type().get();
    Type::type const id = type->id();
    bool const is_list = id == Type::LIST || id == Type::LARGE_LIST;
    bool const is_long = id == Type::LARGE_LIST || id == Type::LARGE_BINARY || id == Type::LARGE_STRING;
    arrow_layout layout{.as = {.name = column.name()}, .has_long_offsets = is_long};
    layout.as.is_ragged = is_list || is_long || id == Type::BINARY || id == Type::STRING;

    std::vector<std::size_t>& shape = layout.as.shape;
    if (is_list) type = type->field(0)->type().get();
    for (; type->id() == Type::FIXED_SIZE_LIST; type = type->field(0)->type().get()) {
        int const extent = static_cast<arrow::FixedSizeListType const&>(*type).list_size();
        shape.push_back(static_cast<std::size_t>(std::max(extent, 0)));
    }
    if (type->id() == Type::FIXED_SIZE_BINARY) {
        int const extent = static_cast<arrow::FixedSizeBinaryType const&>(*type).byte_width();
        shape.push_back(static_cast<std::size_t>(std::max(extent, 0)));
    } else if (auto const element = element_of_arrow(type->id())) layout.as.type = *element;
    else if (is_list || !layout.as.is_ragged)
        origin.refuse(column_text(column.name()) + " is of type " + shown(column.type()->ToString(), 120) +
                      ", which is not supported; supported: bool, integers, floats, fixed_size_binary, lists "
                      "of these, and text");
    layout.is_bits = type->id() == Type::BOOL;

    std::optional<std::size_t> bytes = element_bytes(layout.as.type);
    for (std::size_t k = shape.size(); k != 0 && bytes; --k) bytes = checked_mul(*bytes, shape[k - 1]);
    if (!bytes || *bytes == 0)
        origin.refuse(column_text(column.name()) + ": a sample of " + shown(column.type()->ToString(), 120) +
                      (bytes ? " is empty" : " is larger than any address space"));
    layout.bytes = *bytes;
    return layout;
}

/// Returns the named columns in order, or all.
[[nodiscard]] inline std::vector<int> chosen_columns(arrow_origin const& origin, arrow::Schema const& schema,
                                                     std::vector<std::string> const& names) {
    std::vector<int> result(names.empty() ? static_cast<std::size_t>(schema.num_fields()) : 0);
    std::iota(result.begin(), result.end(), 0);
    for (std::string const& name : names) {
        std::vector<int> const found = schema.GetAllFieldIndices(name);
        if (found.empty()) origin.refuse("no " + column_text(name));
        if (found.size() != 1)
            origin.refuse(std::to_string(found.size()) + " columns match " + column_text(name));
        if (std::ranges::find(result, found[0]) != result.end())
            throw_usage_error("{}: {} is named twice", {origin.name, column_text(name)});
        result.push_back(found[0]);
    }
    if (result.empty()) origin.refuse("no columns");
    for (int const column : result) (void)layout_of(origin, *schema.field(column));
    return result;
}

/// One chunk of a column.
struct arrow_piece {
    std::uint64_t first = 0;  // first sample's index
    std::uint64_t count = 0;
    std::byte const* values = nullptr;   // of row 0; null if empty
    std::size_t bit = 0;                 // index of row 0, if is_bits
    std::byte const* offsets = nullptr;  // ragged: of the samples' rows
};

template <class Integer>
[[nodiscard]] std::int64_t loaded(std::byte const* from, std::uint64_t i) noexcept {
    Integer value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    return value;
}
[[nodiscard]] inline std::uint8_t bit_at(std::byte const* from, std::size_t i) noexcept {
    return std::to_integer<std::uint8_t>(from[i / 8] >> (i % 8)) & 1;
}

/// Locates the values of a column's chunks, and validates all that later reads rely on.
class arrow_chunks {
public:
    arrow_chunks(arrow_origin const& origin, arrow_layout const& layout) : origin_{origin}, layout_{layout} {}

    [[nodiscard]] arrow_piece find(arrow::ArrayData const& chunk, arrow::DataType const& type,
                                   std::uint64_t first) const {
        auto const [begin, count] = range_of(chunk, type);
        arrow_piece piece{.first = first, .count = count};
        if (!layout_.as.is_ragged) {
            find_values(piece, chunk, {begin, count}, 0, [&](std::size_t i) { return first + i; });
            return piece;
        }
        if (auto const null = null_in(chunk, {begin, count})) refuse_null(first + *null, "is null");
        if (count == 0) return piece;
        std::size_t const width = layout_.has_long_offsets ? 8 : 4;
        piece.offsets = buffer(chunk, 1, begin + count + 1, 8 * width) + begin * width;
        auto const offset = [&](std::size_t i) {
            return layout_.has_long_offsets ? loaded<std::int64_t>(piece.offsets, i)
                                            : loaded<std::int32_t>(piece.offsets, i);
        };
        for (std::size_t i = 0; i != count; ++i)
            if (offset(i) < 0 || offset(i + 1) < offset(i))
                refuse("the offsets of row " + std::to_string(first + i) + " are " +
                       std::to_string(offset(i)) + " and " + std::to_string(offset(i + 1)));
        auto const row = static_cast<std::size_t>(offset(0));
        range const rows{row, static_cast<std::size_t>(offset(count)) - row};
        if (chunk.child_data.empty()) {
            piece.values = buffer(chunk, 2, rows.begin + rows.count, 8);
            return piece;
        }
        arrow::ArrayData const& child = *chunk.child_data[0];
        auto const [before, size] = range_of(child, *type.field(0)->type());
        if (rows.begin + rows.count > size)
            refuse("the rows end at " + std::to_string(rows.begin + rows.count) + "; the array has " +
                   std::to_string(size));
        find_values(piece, child, {before + rows.begin, rows.count}, rows.begin, [&](std::size_t i) {
            std::size_t sample = 0;
            while (static_cast<std::size_t>(offset(sample + 1)) <= rows.begin + i) ++sample;
            return first + sample;
        });
        return piece;
    }

private:
    /// Elements of an array, as indices into its buffers.
    struct range {
        std::size_t begin;
        std::size_t count;
    };

    [[noreturn]] void refuse(std::string const& why) const {
        origin_.refuse(column_text(layout_.as.name) + ": " + why);
    }
    [[noreturn]] void refuse_null(std::uint64_t row, char const* what) const {
        refuse("row " + std::to_string(row) + ' ' + what + "; each sample needs a value");
    }

    range range_of(arrow::ArrayData const& data, arrow::DataType const& type) const {
        if (!data.type->Equals(type))
            refuse("type of the array is " + shown(data.type->ToString(), 120) + ", not " +
                   shown(type.ToString(), 120));
        if (data.offset < 0 || data.length < 0) refuse("offset or length of the array is negative");
        return {static_cast<std::size_t>(data.offset), static_cast<std::size_t>(data.length)};
    }

    /// `sample_of(i)`: sample of row i of the range. The piece's row 0 is `before` rows before the range.
    template <class SampleOf>
    void find_values(arrow_piece& piece, arrow::ArrayData const& from, range at, std::size_t before,
                     SampleOf sample_of) const {
        arrow::ArrayData const* data = &from;
        std::size_t in_a_row = 1;
        for (;;) {
            if (auto const null = null_in(*data, at))
                refuse_null(sample_of(*null / in_a_row),
                            data == &from && !layout_.as.is_ragged ? "is null" : "contains a null");
            if (data->type->id() != arrow::Type::FIXED_SIZE_LIST) break;
            auto const& list = static_cast<arrow::FixedSizeListType const&>(*data->type);
            auto const extent = static_cast<std::size_t>(list.list_size());
            data = data->child_data[0].get();
            auto const [begin, size] = range_of(*data, *list.value_type());
            auto const end = checked_mul(at.begin + at.count, extent);
            if (!end || *end > size) refuse("the array has fewer values than its lists need");
            at = {begin + at.begin * extent, at.count * extent};
            in_a_row *= extent;
        }
        std::size_t const width = layout_.bytes / in_a_row;  // not if is_bits
        std::byte const* const values = buffer(
            *data, 1, at.begin + at.count, layout_.is_bits ? 1 : checked_mul(width, 8).value_or(unlimited));
        if (at.count == 0) return;
        std::size_t const zero = at.begin - before * in_a_row;
        piece.values = layout_.is_bits ? values : values + zero * width;
        piece.bit = zero;
    }

    [[nodiscard]] std::optional<std::size_t> null_in(arrow::ArrayData const& data, range at) const {
        if (data.buffers[0] == nullptr) return std::nullopt;
        std::byte const* const valid = buffer(data, 0, at.begin + at.count, 1);
        for (std::size_t i = 0; i != at.count;) {
            std::size_t const place = at.begin + i;
            bool const is_byte = place % 8 == 0 && at.count - i >= 8;
            if (is_byte && valid[place / 8] == std::byte{0xff}) i += 8;
            else if (bit_at(valid, place)) ++i;
            else return i;
        }
        return std::nullopt;
    }

    /// Returns a buffer that holds `elements` elements; null for 0.
    [[nodiscard]] std::byte const* buffer(arrow::ArrayData const& data, std::size_t k, std::size_t elements,
                                          std::size_t bits) const {
        if (elements == 0) return nullptr;
        std::shared_ptr<arrow::Buffer> const& held = data.buffers[k];
        if (held != nullptr && !held->is_cpu()) refuse("the values are not in host memory");
        std::uint64_t const size = held == nullptr ? 0 : static_cast<std::uint64_t>(held->size());
        auto const wanted = checked_mul(elements, bits);
        if (!wanted || *wanted / 8 + (*wanted % 8 != 0) > size)
            refuse("a buffer of " + counted(size, "bytes") + " is too small for " +
                   counted(elements, "elements") + " of " + counted(bits, "bits"));
        return reinterpret_cast<std::byte const*>(held->data());
    }

    arrow_origin const& origin_;
    arrow_layout const& layout_;
};

/// A column from which values are copied without calls to Arrow.
class arrow_column {
public:
    arrow_column(arrow_origin const& origin, arrow_layout const& layout, arrow::DataType const& type,
                 arrow::ChunkedArray const& from)
        : bytes_{layout.bytes},
          is_ragged_{layout.as.is_ragged},
          has_long_offsets_{layout.has_long_offsets},
          is_bits_{layout.is_bits} {
        arrow_chunks const chunks{origin, layout};
        for (auto const& chunk : from.chunks()) {
            arrow_piece const piece = chunks.find(*chunk->data(), type, size_);
            size_ += piece.count;
            if (piece.count != 0) pieces_.push_back(piece);
        }
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    /// Requires a ragged column.
    void row_counts(std::span<std::uint64_t const> samples, std::span<std::uint64_t> out) const noexcept {
        arrow_piece const* now = pieces_.data();
        for (std::size_t i = 0; i != samples.size(); ++i) {
            now = piece_of(samples[i], now);
            std::uint64_t const at = samples[i] - now->first;
            out[i] = row_at(*now, at + 1) - row_at(*now, at);
        }
    }
    [[nodiscard]] std::uint64_t rows(std::span<std::uint64_t const> samples) const noexcept {
        if (!is_ragged_) return samples.size();
        std::uint64_t sum = 0;
        arrow_piece const* now = pieces_.data();
        for (std::uint64_t const sample : samples) {
            now = piece_of(sample, now);
            std::uint64_t const at = sample - now->first;
            sum = saturating_add(sum, row_at(*now, at + 1) - row_at(*now, at));
        }
        return sum;
    }
    void gather(std::span<std::uint64_t const> samples, std::byte* to) const noexcept {
        if (pieces_.size() == 1 && !is_ragged_ && !is_bits_)
            return record_gatherer{pieces_[0].values, bytes_}(samples, to);
        arrow_piece const* now = pieces_.data();
        while (!samples.empty()) {
            now = piece_of(samples[0], now);
            std::uint64_t const at = samples[0] - now->first;
            std::size_t const n = run_length(samples.first(std::min(samples.size(), now->count - at)));
            to = copy(*now, row_at(*now, at), row_at(*now, at + n), to);
            samples = samples.subspan(n);
        }
    }

private:
    /// Returns the piece of a sample; tries the last one first.
    [[nodiscard]] arrow_piece const* piece_of(std::uint64_t sample, arrow_piece const* last) const noexcept {
        if (sample - last->first < last->count) return last;
        return &*std::prev(std::ranges::upper_bound(pieces_, sample, {}, &arrow_piece::first));
    }
    /// Returns a sample's first row in the piece.
    [[nodiscard]] std::uint64_t row_at(arrow_piece const& in, std::uint64_t sample) const noexcept {
        if (!is_ragged_) return sample;
        return static_cast<std::uint64_t>(has_long_offsets_ ? loaded<std::int64_t>(in.offsets, sample)
                                                            : loaded<std::int32_t>(in.offsets, sample));
    }
    std::byte* copy(arrow_piece const& from, std::uint64_t row, std::uint64_t end,
                    std::byte* to) const noexcept {
        std::size_t const bytes = (end - row) * bytes_;
        if (is_bits_)
            for (std::size_t i = 0; i != bytes; ++i)
                to[i] = std::byte{bit_at(from.values, from.bit + row * bytes_ + i)};
        else if (bytes != 0) std::memcpy(to, from.values + row * bytes_, bytes);
        return to + bytes;
    }

    std::vector<arrow_piece> pieces_{};  // none are empty
    std::uint64_t size_ = 0;
    std::size_t bytes_;
    bool is_ragged_;
    bool has_long_offsets_;
    bool is_bits_;
};

}  // namespace cuota::inline v0::detail
