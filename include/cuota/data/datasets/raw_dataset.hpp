// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Files of fixed-size records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0 {

/// Layout of a file of records, in bytes.
struct raw_layout {
    std::uint64_t header = 0;      ///< skipped at the start
    std::size_t record_bytes = 0;  ///< 0: the sum of the fields
    std::vector<field> fields{};   ///< contiguous, in file order
};

/// A file of equal-size records after an optional header; a record is one sample's fields, contiguously.
///
/// Throws:  data_error if the file is not a whole number of records, or names its actual kind: a Git LFS pointer, HTML page, compressed or
///          empty file. usage_error for an inconsistent layout.
/// Cost:    a gather reads consecutive samples with one system call, and allocates nothing.
/// Example: cuota::raw_dataset events{"events.bin", {.fields = {{"x", cuota::element_type::f32, {8}}}}};
class raw_dataset {
public:
    /// Opens the file.
    raw_dataset(std::string path, raw_layout layout);
    /// Uses an open file.
    raw_dataset(file from, raw_layout layout);

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }              ///< records in the file
    [[nodiscard]] std::span<field const> fields() const noexcept;                    ///< of a record
    [[nodiscard]] std::string const& name() const noexcept { return from_.name(); }  ///< the file's
    [[nodiscard]] raw_layout const& layout() const noexcept;                         ///< of the records

    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const;
    /// Gathers runs; with a single field, one read each.
    void gather_runs(std::span<sample_run const> runs, std::span<std::span<std::byte> const> out) const;

private:
    // `each` calls add(first sample, position in the request, count) per run.
    template <class Each>
    void read_records(std::span<std::span<std::byte> const> out, Each each) const;
    static std::size_t record_bytes(std::string const& name, raw_layout const& layout);

    static std::uint64_t count_records(file const& from, raw_layout const& layout);

    template <class Where>
    void read(std::uint64_t offset, Where where_to) const;

    file from_;
    struct known_layout;
    detail::light_shared_ptr<known_layout const> layout_;
    std::uint64_t size_ = 0;
};
}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/detail/datasets/other_content.hpp>
#include <cuota/data/detail/datasets/read_coalescer.hpp>

namespace cuota::inline v0 {

static_assert(dataset<raw_dataset>);

struct raw_dataset::known_layout : raw_layout {
    explicit known_layout(raw_layout l);
    std::vector<std::size_t> widths{};  // bytes of each field
};

CUOTA_INLINE raw_dataset::raw_dataset(std::string path, raw_layout layout)
    : raw_dataset{file{std::move(path)}, std::move(layout)} {}

CUOTA_INLINE raw_dataset::raw_dataset(file from, raw_layout layout) : from_{std::move(from)} {
    layout.record_bytes = record_bytes(from_.name(), layout);
    size_ = detail::parsed(from_, [&] { return count_records(from_, layout); });
    layout_ = detail::light_shared_ptr<known_layout const>::make(std::move(layout));
}

CUOTA_INLINE std::span<field const> raw_dataset::fields() const noexcept { return layout_->fields; }

CUOTA_INLINE raw_layout const& raw_dataset::layout() const noexcept { return *layout_; }

template <class Each>
void raw_dataset::read_records(std::span<std::span<std::byte> const> out, Each each) const {
    detail::run_reader reader{[this](std::uint64_t offset, auto where_to) { this->read(offset, where_to); }};
    each([&](std::uint64_t sample, std::size_t i, std::size_t n) {
        std::uint64_t offset = layout_->header + sample * layout_->record_bytes;
        for (std::size_t k = 0; k != out.size(); ++k) {
            std::size_t const bytes = layout_->widths[k];
            reader.add(offset, out[k].subspan(i * bytes, n * bytes));
            offset += bytes;
        }
    });
    reader.flush();
}

template <class Where>
void raw_dataset::read(std::uint64_t offset, Where where_to) const {
    try {
        from_.read_exact(offset, where_to);
    } catch (data_error const& error) {
        std::uint64_t const at = std::max(error.offset(), layout_->header) - layout_->header;
        detail::throw_data_error(name(), error.offset(), "sample {} cannot be read: {}",
                                 {at / layout_->record_bytes, error.why()});
    }
}

CUOTA_INLINE void raw_dataset::gather(std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out) const {
    check_gather(*this, samples, out);
    bool const has_one_field = out.size() == 1;
    read_records(out, [&](auto const& add) {
        for (std::size_t i = 0; i != samples.size();) {
            std::size_t const n = has_one_field ? detail::run_length(samples.subspan(i)) : 1;
            add(samples[i], i, n);
            i += n;
        }
    });
}

CUOTA_INLINE void raw_dataset::gather_runs(std::span<sample_run const> runs,
                                           std::span<std::span<std::byte> const> out) const {
    check_gather_runs(*this, runs, out);
    bool const has_one_field = out.size() == 1;
    read_records(out, [&](auto const& add) {
        std::size_t i = 0;
        for (auto const [first, count] : runs)
            for (std::size_t done = 0; done != count;) {
                std::size_t const n = has_one_field ? count : 1;
                add(first + done, i, n);
                done += n;
                i += n;
            }
    });
}

CUOTA_INLINE std::size_t raw_dataset::record_bytes(std::string const& name, raw_layout const& layout) {
    detail::expect_no_ragged(layout.fields, name + ": raw_dataset");
    std::size_t sum = 0;
    for (field const& f : layout.fields) {
        auto const next = checked_add(sum, f.bytes());
        if (!next) detail::throw_usage_error("{}: one record is larger than any address space", {name});
        if (f.bytes() == 0) detail::throw_usage_error("{}: field {} is empty", {name, field_text(f)});
        sum = *next;
    }
    if (sum == 0) detail::throw_usage_error("{}: a dataset needs at least one field", {name});
    if (layout.record_bytes != 0 && layout.record_bytes != sum)
        detail::throw_usage_error("{}: record size mismatch: {} bytes declared, its fields take {}",
                                  {name, layout.record_bytes, sum});
    return sum;
}

CUOTA_INLINE std::uint64_t raw_dataset::count_records(file const& from, raw_layout const& layout) {
    if (from.size() < layout.header)
        detail::throw_data_error(from.name(), from.size(), "the file ends inside its header of {} bytes",
                                 {layout.header});
    std::uint64_t const body = from.size() - layout.header;
    if (std::uint64_t const rest = body % layout.record_bytes; rest != 0)
        detail::throw_data_error(from.name(), from.size() - rest, "the last record has {} of its {} bytes",
                                 {rest, layout.record_bytes});
    return body / layout.record_bytes;
}

CUOTA_INLINE raw_dataset::known_layout::known_layout(raw_layout l) : raw_layout{std::move(l)} {
    for (field const& f : fields) widths.push_back(f.bytes());
}

}  // namespace cuota::inline v0

#endif
