// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Safetensors files. Requires nlohmann's JSON library (headers only). In no umbrella header.
#pragma once

#if !__has_include(<nlohmann/json.hpp>)
#error                                                                                                       \
    "cuota/data/datasets/safetensors_dataset.hpp needs <nlohmann/json.hpp>: JSON for Modern C++, Debian's nlohmann-json3-dev"
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/text/json_text.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/detail/datasets/other_content.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0 {

namespace detail {

/// One tensor; its bytes are [begin, end) of the data section.
struct tensor_layout {
    std::string name{};
    element_type type = element_type::u8;
    std::vector<std::size_t> shape{};
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

[[nodiscard]] inline std::string tensor_text(std::string_view name) {
    return message("tensor \"{}\"", {as_name(name, 64)});
}

/// The header of a safetensors file, from nlohmann's SAX events. Invalid events are rejected at once, so nothing nests deeper than a list
/// in a tensor.
class tensor_table {
public:
    /// `text`: from byte 8 of the file on.
    tensor_table(file const& from, std::string_view text)
        : from_{from}, text_{text}, data_bytes_{from.size() - begin - text.size()} {}

    /// Returns all tensors by offset. Throws: data_error.
    [[nodiscard]] std::vector<tensor_layout> read() && {
        if (!json_.parse(*this)) throw refuse("the header contains a zero byte");
        std::ranges::sort(tensors_, {},
                          [](tensor_layout const& t) { return std::tie(t.begin, t.end, t.name); });
        check_cover();
        return std::move(tensors_);
    }

    // SAX callbacks.
    bool null() { throw unexpected(); }
    bool boolean(bool) { throw unexpected(); }
    bool number_integer(std::int64_t) { throw unexpected(); }  // negative
    bool number_float(double, std::string const&) { throw unexpected(); }
    bool binary(nlohmann::json::binary_t&) { throw unexpected(); }

    bool number_unsigned(std::uint64_t value) {
        if (inside_ == shape) {
            if (now_.shape.size() == max_rank)
                throw refuse_tensor("more than " + std::to_string(max_rank) + " dimensions");
            now_.shape.push_back(value);
        } else if (inside_ == offsets) {
            if (offset_count_ == 2) throw refuse_tensor("more than two data_offsets");
            (offset_count_++ == 0 ? now_.begin : now_.end) = value;
        } else throw unexpected();
        return true;
    }

    bool string(std::string& value) {
        if (inside_ == metadata) return true;
        if (inside_ != tensor || member_ != "dtype") throw unexpected();
        now_.type = element_of_dtype(value);
        return true;
    }

    bool start_object(std::size_t) {
        if (inside_ == nothing) inside_ = header;
        else if (inside_ == header) inside_ = now_.name == "__metadata__" ? metadata : tensor;
        else throw unexpected();
        members_.clear();
        return true;
    }

    bool key(std::string& name) {
        if (!(inside_ == header ? names_ : members_).insert(name).second)
            throw refuse("duplicate key \"" + shown(name, 64) + '"');
        if (inside_ == header) now_ = {.name = std::move(name)};
        if (inside_ != tensor) return true;
        if (name != "dtype" && name != "shape" && name != "data_offsets")
            throw refuse_tensor("unknown key \"" + shown(name, 64) + '"');
        member_ = std::move(name);
        return true;
    }

    bool end_object() {
        if (inside_ == tensor) {
            check_tensor();
            tensors_.push_back(std::move(now_));
        }
        inside_ = inside_ == header ? nothing : header;
        return true;
    }

    bool start_array(std::size_t) {
        if (inside_ != tensor || member_ == "dtype") throw unexpected();
        inside_ = member_ == "shape" ? shape : offsets;
        offset_count_ = 0;
        return true;
    }

    bool end_array() {
        if (inside_ == offsets && offset_count_ != 2) throw refuse_tensor("fewer than two data_offsets");
        inside_ = tensor;
        return true;
    }

    bool parse_error(std::size_t, std::string const&, nlohmann::json::exception const& error) {
        throw refuse("the header is not valid JSON: " + shown(json_text::reason(error), 160));
    }

    static constexpr std::uint64_t begin = 8;

private:
    enum place { nothing, header, metadata, tensor, shape, offsets };
    static constexpr std::size_t max_rank = 32;

    element_type element_of_dtype(std::string const& dtype) const {
        using enum element_type;
        static constexpr std::pair<std::string_view, element_type> known[] = {
            {"BOOL", u8},   {"U8", u8},   {"I8", i8},   {"U16", u16}, {"I16", i16},
            {"U32", u32},   {"I32", i32}, {"U64", u64}, {"I64", i64}, {"F16", f16},
            {"BF16", bf16}, {"F32", f32}, {"F64", f64}};
        for (auto const& [name, type] : known)
            if (dtype == name) return type;
        throw refuse_tensor("dtype " + shown(dtype, 32) +
                            " is not supported; supported: BOOL, integers, F16, BF16, F32 and F64");
    }

    void check_tensor() const {
        if (members_.size() != 3) throw refuse_tensor("needs 'dtype', 'shape' and 'data_offsets'");
        std::string const span =
            "data_offsets " + std::to_string(now_.begin) + " to " + std::to_string(now_.end);
        if (now_.begin > now_.end) throw refuse_tensor(span + " are in the wrong order");
        if (now_.end > data_bytes_)
            throw refuse_tensor(span + "; the file holds " + std::to_string(data_bytes_) + " bytes of data");
        // One sample first: an overflowing shape is rejected even with 0 samples.
        std::optional<std::size_t> bytes = element_bytes(now_.type);
        for (std::size_t k = 1; k < now_.shape.size() && bytes; ++k)
            bytes = checked_mul(*bytes, now_.shape[k]);
        if (bytes && !now_.shape.empty()) bytes = checked_mul(*bytes, now_.shape.front());
        if (!bytes) throw refuse_tensor("the shape is larger than any file");
        if (*bytes != now_.end - now_.begin)
            throw refuse_tensor(span + "; the shape takes " + detail::counted(*bytes, "bytes"));
    }

    /// Checks that the tensors cover the data section exactly once.
    void check_cover() const {
        std::uint64_t const data = begin + text_.size();
        std::uint64_t covered = 0;
        for (tensor_layout const& each : tensors_) {
            if (each.begin != covered)
                throw_data_error(from_.name(), data + std::min(covered, each.begin),
                                 "{} begins at byte {} of the data; the tensors before it end at {}",
                                 {tensor_text(each.name), each.begin, covered});
            covered = each.end;
        }
        if (covered != data_bytes_)
            throw_data_error(from_.name(), data + covered,
                             "the tensors end at byte {} of the data; the file holds {}",
                             {covered, data_bytes_});
    }

    [[nodiscard]] data_error refuse(std::string const& why) const {
        return {from_.name(), begin + json_.offset(), why};
    }
    [[nodiscard]] data_error refuse_tensor(std::string const& why) const {
        return refuse(tensor_text(now_.name) + ": " + why);
    }
    [[nodiscard]] data_error unexpected() const {
        if (inside_ == metadata) return refuse("'__metadata__' contains a value that is not a string");
        if (inside_ == header && now_.name == "__metadata__")
            return refuse("'__metadata__' is not an object");
        if (inside_ == header) return refuse_tensor("not an object");
        if (inside_ != tensor)
            return refuse_tensor("'" + member_ + "' must be a list of integers, none negative");
        return refuse_tensor("'" + member_ + "' must be a " + (member_ == "dtype" ? "string" : "list"));
    }

    file const& from_;
    std::string_view text_;
    std::uint64_t data_bytes_;
    json_text json_{text_};
    place inside_ = nothing;
    std::set<std::string> names_{};    // keys of the header
    std::set<std::string> members_{};  // keys of the current object
    std::string member_{};             // key of the next value
    tensor_layout now_{};
    unsigned offset_count_ = 0;
    std::vector<tensor_layout> tensors_{};
};

}  // namespace detail

/// Tensors of a safetensors file (https://github.com/huggingface/safetensors#format) as fields: all, in file order, or those named, in the
/// order of the names. Their first axes, the samples, must be equal. BOOL becomes u8.
///
///     cuota::safetensors_dataset some{"train.safetensors", {"images", "labels"}};
///
/// The whole file is validated: no duplicate keys; each byte of data in exactly one tensor.
/// Throws:  data_error, naming the tensor, also for another dtype (F8_E4M3, ...), or a selected tensor that does not exist, is a scalar, or
///          has another number of samples; usage_error for no or duplicate names.
/// Cost:    as raw_dataset, per field. Opening reads the header, of at most 100 MB.
class safetensors_dataset {
public:
    /// Selects all tensors.
    explicit safetensors_dataset(std::string path) : safetensors_dataset{file{std::move(path)}} {}
    /// Uses an open file.
    explicit safetensors_dataset(file from) : from_{std::move(from)} { hold(tensors_of(from_)); }
    /// Selects the named tensors.
    safetensors_dataset(std::string path, std::vector<std::string> const& names)
        : safetensors_dataset{file{std::move(path)}, names} {}
    /// Uses an open file.
    safetensors_dataset(file from, std::vector<std::string> const& names) : from_{std::move(from)} {
        hold(chosen(tensors_of(from_), names));
    }

    /// Shares the data; a move is a copy.
    safetensors_dataset(safetensors_dataset const&) noexcept = default;
    safetensors_dataset& operator=(safetensors_dataset const&) noexcept = default;  ///< shares the data
    ~safetensors_dataset() = default;

    [[nodiscard]] std::uint64_t size() const noexcept { return known_->size; }  ///< the first axis
    [[nodiscard]] std::span<field const> fields() const noexcept { return known_->fields; }  ///< one each
    [[nodiscard]] std::string const& name() const noexcept { return from_.name(); }          ///< the file's

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        check_gather(*this, samples, out);
        for (std::size_t k = 0; k != out.size(); ++k) {
            std::size_t const bytes = known_->areas[k].sample;
            for (std::size_t i = 0; i != samples.size();) {
                std::size_t const n = detail::run_length(samples.subspan(i));
                read(k, samples[i], out[k].subspan(i * bytes, n * bytes));
                i += n;
            }
        }
    }

private:
    static_assert(std::endian::native == std::endian::little,
                  "elements are returned as they are in the file");
    static constexpr std::uint64_t max_header = 100'000'000;  // as the format's own library

    /// A field's samples in the file, in bytes.
    struct area {
        std::uint64_t begin;
        std::size_t sample;
    };
    struct layout {
        std::uint64_t size = 0;
        std::vector<field> fields{};
        std::vector<area> areas{};
    };

    /// Returns the tensors, with `begin` as file offsets.
    static std::vector<detail::tensor_layout> tensors_of(file const& from) {
        std::string const text = detail::parsed(from, [&] { return header_of(from); });
        auto tensors = detail::tensor_table{from, text}.read();
        for (auto& each : tensors) each.begin += detail::tensor_table::begin + text.size();
        if (tensors.empty())
            detail::throw_data_error(from.name(), detail::tensor_table::begin, "the file has no tensors");
        return tensors;
    }

    static std::string header_of(file const& from) {
        std::array<std::byte, detail::tensor_table::begin> number{};
        from.read_exact(0, number);
        auto const bytes = std::bit_cast<std::uint64_t>(number);
        std::uint64_t const held = from.size() - number.size();
        if (bytes > std::min(held, max_header))  // before it is allocated
            detail::throw_data_error(from.name(), 0, "cannot read a header of {} bytes: {}",
                                     {bytes, bytes > max_header
                                                 ? "the maximum is " + std::to_string(max_header)
                                                 : "the file holds " + std::to_string(held)});
        std::string text(bytes, '\0');
        from.read_exact(number.size(), std::as_writable_bytes(std::span{text}));
        if (!text.starts_with('{'))
            detail::throw_data_error(from.name(), number.size(), "the header does not begin with '{'");
        return text;
    }

    std::vector<detail::tensor_layout> chosen(std::vector<detail::tensor_layout> const& tensors,
                                              std::vector<std::string> const& names) const {
        if (names.empty()) detail::throw_usage_error("{}: name at least one tensor", {name()});
        std::vector<detail::tensor_layout> result;
        for (std::string const& wanted : names) {
            if (std::ranges::find(result, wanted, &detail::tensor_layout::name) != result.end())
                detail::throw_usage_error("{}: {} is named twice", {name(), detail::tensor_text(wanted)});
            auto const found = std::ranges::find(tensors, wanted, &detail::tensor_layout::name);
            if (found == tensors.end())
                detail::throw_data_error(name(), detail::tensor_table::begin, "no {}",
                                         {detail::tensor_text(wanted)});
            result.push_back(*found);
        }
        return result;
    }

    void hold(std::vector<detail::tensor_layout> const& tensors) {
        layout known;
        for (auto const& each : tensors) {
            auto const refuse = [&](std::string const& why) {
                return data_error{name(), each.begin, detail::tensor_text(each.name) + ": " + why};
            };
            if (each.shape.empty()) throw refuse("a single number has no samples");
            std::uint64_t const count = each.shape.front();
            if (known.fields.empty()) known.size = count;
            if (count != known.size)
                throw refuse(detail::counted(count, "samples") + "; " +
                             detail::tensor_text(known.fields.front().name) + " has " +
                             std::to_string(known.size));
            field f{each.name, each.type, {each.shape.begin() + 1, each.shape.end()}};
            if (f.bytes() == 0) throw refuse("samples of 0 bytes");
            known.areas.push_back({each.begin, f.bytes()});
            known.fields.push_back(std::move(f));
        }
        known_ = std::make_shared<layout const>(std::move(known));
    }

    void read(std::size_t k, std::uint64_t sample, std::span<std::byte> to) const {
        area const& where = known_->areas[k];
        try {
            from_.read_exact(where.begin + sample * where.sample, to);
        } catch (data_error const& error) {
            std::uint64_t const at = std::max(error.offset(), where.begin) - where.begin;
            detail::throw_data_error(
                name(), error.offset(), "sample {} of {} cannot be read: {}",
                {at / where.sample, detail::tensor_text(known_->fields[k].name), error.why()});
        }
    }

    file from_;
    std::shared_ptr<layout const> known_{};
};
static_assert(dataset<safetensors_dataset>);

}  // namespace cuota::inline v0
