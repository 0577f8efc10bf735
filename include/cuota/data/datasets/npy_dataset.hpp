// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// NumPy's .npy files, versions 1 to 3.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0 {

namespace detail {

inline constexpr std::size_t max_rank = 64;  // as in NumPy

/// `data` is the elements' offset.
struct array_layout {
    element_type type = element_type::u8;
    std::vector<std::size_t> shape;
    std::uint64_t data = 0;
};

/// Returns samples along the first axis. Throws: data_error if the file's size does not match the header.
raw_dataset as_samples(file const& from, array_layout const& array, std::string name);

/// Parser of a .npy header, a Python dict of exactly three keys, also in Python 2's form (4L, u'shape').
class npy_header {
public:
    /// `begin`: the text's offset in the file.
    npy_header(std::string const& name, std::string_view text, std::uint64_t begin)
        : name_{name}, text_{text}, begin_{begin} {}

    [[nodiscard]] array_layout parse();

private:
    void entry(array_layout& array);

    element_type descr();

    bool fortran_order();
    [[nodiscard]] data_error unknown_descr(std::string_view text) const;

    std::vector<std::size_t> shape();

    std::size_t extent();

    std::string_view quoted();

    void skip_spaces() noexcept;
    char peek() noexcept;
    bool take(char wanted) noexcept;
    bool take_word(std::string_view wanted) noexcept;
    void expect(char wanted);
    [[nodiscard]] data_error refuse(std::string const& why) const;

    std::string const& name_;
    std::string_view text_;
    std::uint64_t begin_;
    std::size_t at_ = 0;
    bool has_descr_ = false;
    bool has_order_ = false;
    bool has_shape_ = false;
    bool is_fortran_ = false;
    std::size_t order_at_ = 0;  // of 'fortran_order' in the text
};

}  // namespace detail

/// A .npy file: one array of numbers or bools (as u8), with samples along its first axis, in C order and little-endian; in Fortran order if
/// at most one axis is longer than 1. The field is named `name`, by default file::stem.
///
/// Throws:  data_error that names the unsupported property (such as big-endian), a size that does not match the shape, or the file's actual
///          kind (see raw_dataset).
/// Cost:    as raw_dataset; opening reads at most 10,012 bytes.
/// Example: examples/first.cpp
class npy_dataset {
public:
    /// Opens the file.
    explicit npy_dataset(std::string path, std::string name = {});
    /// Uses an open file.
    explicit npy_dataset(file const& from, std::string name = {});

    [[nodiscard]] std::uint64_t size() const noexcept { return samples_.size(); }  ///< first axis
    [[nodiscard]] std::span<field const> fields() const noexcept { return samples_.fields(); }  ///< one
    [[nodiscard]] std::string const& name() const noexcept { return samples_.name(); }  ///< the file's
    /// Returns the file's records.
    [[nodiscard]] raw_dataset const& records() const noexcept { return samples_; }

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const;
    /// Gathers runs, with one read each.
    void gather_runs(std::span<sample_run const> runs, std::span<std::span<std::byte> const> out) const;

private:
    static_assert(std::endian::native == std::endian::little,
                  "elements are returned as they are in the file");
    static constexpr std::size_t max_header = 10'000;  // as NumPy; the file is untrusted

    static detail::array_layout layout_of(file const& from);

    static unsigned version_of(file const& from);

    /// Reads a little-endian number before `begin`.
    static std::size_t header_bytes(file const& from, std::size_t begin);

    raw_dataset samples_;
};
}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <charconv>

#include <cuota/data/detail/datasets/other_content.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE raw_dataset as_samples(file const& from, array_layout const& array, std::string name) {
    auto const refuse = [&](std::string const& why) { return data_error{from.name(), array.data, why}; };
    std::optional<std::size_t> sample = element_bytes(array.type);
    for (std::size_t k = 1; k < array.shape.size() && sample; ++k)
        sample = checked_mul(*sample, array.shape[k]);
    auto const total = sample ? checked_mul(*sample, array.shape.front()) : std::nullopt;
    if (!total) throw refuse("the header's shape is larger than any file");
    if (*sample == 0) throw refuse("the header's shape gives samples of 0 bytes");
    if (std::uint64_t const held = from.size() - array.data; held != *total)
        throw refuse("the header's shape takes " + std::to_string(*total) + " bytes; the file holds " +
                     std::to_string(held));
    field only{name.empty() ? from.stem() : std::move(name),
               array.type,
               {array.shape.begin() + 1, array.shape.end()}};
    return raw_dataset{from, {.header = array.data, .record_bytes = *sample, .fields = {std::move(only)}}};
}

CUOTA_INLINE data_error npy_header::refuse(std::string const& why) const {
    return {name_, begin_ + at_, why};
}

CUOTA_INLINE array_layout npy_header::parse() {
    array_layout array;
    expect('{');
    while (!take('}')) {
        entry(array);
        if (take(',')) continue;
        expect('}');
        break;
    }
    if (!has_descr_ || !has_order_ || !has_shape_)
        throw refuse("the header needs 'descr', 'fortran_order' and 'shape'");
    skip_spaces();
    if (at_ != text_.size()) throw refuse("text after the header's dict");
    std::size_t long_axes = 0;
    for (std::size_t const extent : array.shape) long_axes += extent > 1;
    if (is_fortran_ && long_axes > 1) {
        at_ = order_at_;
        throw refuse("Fortran order of several axes is not supported: save numpy.ascontiguousarray(a)");
    }
    array.data = begin_ + text_.size();
    return array;
}

CUOTA_INLINE void npy_header::entry(array_layout& array) {
    std::string_view const key = quoted();
    bool* const seen = key == "descr"           ? &has_descr_
                       : key == "fortran_order" ? &has_order_
                       : key == "shape"         ? &has_shape_
                                                : nullptr;
    if (seen == nullptr) throw refuse("unknown key in the header");
    if (std::exchange(*seen, true)) throw refuse("duplicate key '" + std::string{key} + '\'');
    expect(':');
    if (seen == &has_descr_) array.type = descr();
    else if (seen == &has_order_) is_fortran_ = fortran_order();
    else array.shape = shape();
}

CUOTA_INLINE element_type npy_header::descr() {
    if (peek() == '[') throw refuse("structured arrays are not supported: save one file per field");
    if (peek() == '(')
        throw refuse("arrays of sub-arrays are not supported: save numpy.array(a['f0']), of numbers");
    std::string_view const text = quoted();
    std::string_view kind = text;
    bool const is_big = kind.starts_with('>');
    if (is_big || kind.starts_with('<') || kind.starts_with('=') || kind.starts_with('|'))
        kind.remove_prefix(1);
    struct named {
        std::string_view name;
        element_type type;
    };
    // Names by kind and size; by letter (dtype.char on 64-bit Linux); in full.
    constexpr std::array known{
        named{"b1", element_type::u8},       named{"?", element_type::u8},
        named{"bool", element_type::u8},     named{"u1", element_type::u8},
        named{"B", element_type::u8},        named{"uint8", element_type::u8},
        named{"i1", element_type::i8},       named{"b", element_type::i8},
        named{"int8", element_type::i8},     named{"u2", element_type::u16},
        named{"H", element_type::u16},       named{"uint16", element_type::u16},
        named{"i2", element_type::i16},      named{"h", element_type::i16},
        named{"int16", element_type::i16},   named{"u4", element_type::u32},
        named{"I", element_type::u32},       named{"uint32", element_type::u32},
        named{"i4", element_type::i32},      named{"i", element_type::i32},
        named{"int32", element_type::i32},   named{"u8", element_type::u64},
        named{"Q", element_type::u64},       named{"uint64", element_type::u64},
        named{"i8", element_type::i64},      named{"q", element_type::i64},
        named{"int64", element_type::i64},   named{"L", element_type::u64},
        named{"l", element_type::i64},       named{"f2", element_type::f16},
        named{"e", element_type::f16},       named{"float16", element_type::f16},
        named{"f4", element_type::f32},      named{"f", element_type::f32},
        named{"float32", element_type::f32}, named{"f8", element_type::f64},
        named{"d", element_type::f64},       named{"float64", element_type::f64},
    };
    for (auto const& [name, type] : known) {
        if (kind != name) continue;
        if (is_big && element_bytes(type) > 1)
            throw refuse("big-endian elements are not supported: save a.astype(a.dtype.newbyteorder('<'))");
        return type;
    }
    throw unknown_descr(kind);
}

CUOTA_INLINE data_error npy_header::unknown_descr(std::string_view kind) const {
    switch (kind.empty() ? '\0' : kind.front()) {
        case 'O': return refuse("Python objects are not supported");
        case 'S':
        case 'U': return refuse("text is not supported");
        case 'M':
        case 'm': return refuse("dates and times are not supported: save a.view('i8')");
        case 'c':
        case 'F':
        case 'D':
            return refuse("complex numbers are not supported: save a.view() of the floats, which doubles the "
                          "last dimension");
        case 'V': return refuse("raw bytes ('V') are not supported: save a.view('u1')");
        case 'f':
        case 'g': return refuse("floats of more than 64 bits are not supported: save a.astype('f8')");
        default: return refuse("unknown element type; supported: bool, integers and floats");
    }
}

CUOTA_INLINE bool npy_header::fortran_order() {
    skip_spaces();
    order_at_ = at_;
    if (take_word("False")) return false;
    if (take_word("True")) return true;
    throw refuse("'fortran_order' is neither True nor False");
}

CUOTA_INLINE std::vector<std::size_t> npy_header::shape() {
    std::vector<std::size_t> extents;
    expect('(');
    while (!take(')')) {
        if (extents.size() == max_rank) throw refuse("more than " + std::to_string(max_rank) + " dimensions");
        extents.push_back(extent());
        if (take(',')) continue;
        if (extents.size() == 1) throw refuse("a shape of one dimension needs a comma");
        expect(')');
        break;
    }
    if (extents.empty()) throw refuse("a single number has no samples");
    return extents;
}

CUOTA_INLINE std::size_t npy_header::extent() {
    if (peek() == '-') throw refuse("a negative dimension");
    std::size_t value = 0;
    char const* const begin = text_.data() + at_;
    auto const [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) throw refuse("a dimension of more than 64 bits");
    if (error != std::errc{}) throw refuse("a dimension is expected here");
    if (end - begin > 1 && *begin == '0') throw refuse("a dimension with a leading zero");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ != text_.size() && text_[at_] == 'L') ++at_;  // Python 2's long
    return value;
}

CUOTA_INLINE std::string_view npy_header::quoted() {
    if (peek() == 'u') ++at_;  // Python 2's unicode
    char const quote = peek() == '"' ? '"' : '\'';
    expect(quote);
    std::size_t const end = text_.find(quote, at_);
    if (end == std::string_view::npos) throw refuse("unterminated string");
    std::string_view const text = text_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
}

CUOTA_INLINE void npy_header::skip_spaces() noexcept {
    while (at_ != text_.size() && std::string_view{" \t\n\r\f"}.find(text_[at_]) != std::string_view::npos)
        ++at_;
}

CUOTA_INLINE char npy_header::peek() noexcept {
    skip_spaces();
    return at_ == text_.size() ? '\0' : text_[at_];
}

CUOTA_INLINE bool npy_header::take(char wanted) noexcept {
    if (peek() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
}

CUOTA_INLINE bool npy_header::take_word(std::string_view wanted) noexcept {
    skip_spaces();
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
}

CUOTA_INLINE void npy_header::expect(char wanted) {
    if (!take(wanted)) throw refuse(std::string{"'"} + wanted + "' is expected here");
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(dataset<npy_dataset>);

CUOTA_INLINE npy_dataset::npy_dataset(std::string path, std::string name)
    : npy_dataset{file{std::move(path)}, std::move(name)} {}

CUOTA_INLINE npy_dataset::npy_dataset(file const& from, std::string name)
    : samples_{
          detail::parsed(from, [&] { return detail::as_samples(from, layout_of(from), std::move(name)); })} {}

CUOTA_INLINE void npy_dataset::gather(std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out) const {
    samples_.gather(samples, out);
}

CUOTA_INLINE void npy_dataset::gather_runs(std::span<sample_run const> runs,
                                           std::span<std::span<std::byte> const> out) const {
    samples_.gather_runs(runs, out);
}

CUOTA_INLINE detail::array_layout npy_dataset::layout_of(file const& from) {
    std::size_t const begin = version_of(from) == 1 ? 10 : 12;
    std::array<char, max_header> memory;
    auto const text = std::span{memory}.first(header_bytes(from, begin));
    from.read_exact(begin, std::as_writable_bytes(text));
    return detail::npy_header{from.name(), {text.data(), text.size()}, begin}.parse();
}

CUOTA_INLINE unsigned npy_dataset::version_of(file const& from) {
    std::array<char, 8> start{};
    from.read_exact(0, std::as_writable_bytes(std::span{start}));
    if (!std::string_view{start.data(), start.size()}.starts_with("\x93NUMPY"))
        detail::throw_data_error(from.name(), 0, "is not a .npy file");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        detail::throw_data_error(from.name(), 6, "unknown version of .npy; supported: 1.0, 2.0 and 3.0");
    return static_cast<unsigned>(start[6]);
}

CUOTA_INLINE std::size_t npy_dataset::header_bytes(file const& from, std::size_t begin) {
    std::array<std::byte, 4> number{};
    from.read_exact(8, std::span{number}.first(begin - 8));
    std::size_t const bytes = std::bit_cast<std::uint32_t>(number);
    if (bytes <= max_header) return bytes;
    detail::throw_data_error(from.name(), 8, "a header of {} bytes exceeds the maximum of {}",
                             {bytes, max_header});
}

}  // namespace cuota::inline v0

#endif
