// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Samples of different lengths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/conversion.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Throws: usage_error if one is ragged already.
[[nodiscard]] std::vector<field> ragged_fields(std::span<field const> of_rows, std::string const& name);

/// Throws: usage_error unless there is one scalar field.
void expect_offsets(std::span<field const> fields, std::string const& name);
[[noreturn]] void refuse_offsets(std::span<field const> fields, std::string const& name, char const* wanted);

/// Returns why the offsets are invalid for `rows` rows; empty if valid.
[[nodiscard]] std::string offsets_complaint(std::vector<std::uint64_t> const& offsets, std::uint64_t rows);

/// Output memory per field, filled from its beginning.
class row_outputs {
public:
    row_outputs(std::span<field const> fields, std::span<std::span<std::byte> const> out);
    row_outputs(row_outputs const&) = delete;
    row_outputs& operator=(row_outputs const&) = delete;

    [[nodiscard]] std::span<std::span<std::byte> const> next(std::size_t rows) noexcept;

private:
    std::span<field const> fields_;
    std::array<std::span<std::byte>, 32> few_;
    std::vector<std::span<std::byte>> many_;
    std::span<std::span<std::byte>> now_, left_;  // per field: the next read, and all that remains
};

}  // namespace detail

/// A dataset's rows, partitioned into samples: sample i has rows [offsets[i], offsets[i + 1]), as in Arrow's lists. All fields become
/// ragged, with equal lengths. zip_dataset adds fields with one value per sample.
///
///     cuota::ragged_dataset texts{words, offsets};
///
/// Throws:  usage_error for offsets that decrease or exceed the rows; data_error if they come from a dataset.
/// Cost:    8 bytes per sample, shared by copies. A gather reads 2048 runs of rows at once with gather_runs, otherwise 4096 rows; no
///          allocations for up to 16 fields.
template <dataset Rows>
class ragged_dataset {
public:
    /// Takes size() + 1 offsets.
    ragged_dataset(Rows rows, std::vector<std::uint64_t> offsets)
        : state_{detail::light_shared_ptr<state const>::make(std::move(rows), std::move(offsets))} {
        std::string const complaint = state_->complaint();
        if (!complaint.empty()) detail::throw_usage_error("{}: {}", {state_->name, complaint});
    }
    /// Takes the offsets from a dataset with one field, of any integer type.
    template <dataset Offsets>
    ragged_dataset(Rows rows, Offsets const& offsets)
        : state_{detail::light_shared_ptr<state const>::make(std::move(rows), all_of(offsets))} {
        std::string const complaint = state_->complaint();
        // A variable, because nvcc misparses a braced list with a member of a dependent type.
        std::string const& name = state_->name;
        if (!complaint.empty())
            detail::throw_data_error(offsets.name(), 0, "{} (offsets of {})", {complaint, name});
    }

    /// Returns the number of offsets - 1.
    [[nodiscard]] std::uint64_t size() const noexcept { return state_->offsets.size() - 1; }
    /// Returns the rows' fields, ragged.
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->fields; }
    [[nodiscard]] std::string const& name() const noexcept { return state_->name; }  ///< the rows'

    /// Gets differences of offsets.
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                    std::span<std::uint64_t> out) const {
        detail::check_row_counts(*this, k, samples, out);
        for (std::size_t i = 0; i != samples.size(); ++i)
            out[i] = begin_of(samples[i] + 1) - begin_of(samples[i]);
    }
    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        gather_all(samples, out, {});
    }
    /// Gathers in an epoch's context.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context) const requires detail::gathers_in_context<Rows> {
        gather_all(samples, out, context);
    }

private:
    static constexpr bool by_runs = detail::reads_runs<Rows> && !detail::gathers_in_context<Rows>;

    void gather_all(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                    gather_context const& context) const {
        if (!fits(samples, out)) check_gather(*this, samples, out);  // throws with the reason
        row_reader reader{state_->rows, out, context};
        for (std::size_t i = 0; i != samples.size();) {
            std::size_t const n = detail::run_length(samples.subspan(i));
            reader.read(begin_of(samples[i]), begin_of(samples[i] + n));
            i += n;
        }
        reader.flush();
    }

    struct state {
        state(Rows of, std::vector<std::uint64_t> from)
            : rows{std::move(of)},
              offsets{std::move(from)},
              name{rows.name()},
              fields{detail::ragged_fields(rows.fields(), name)} {}
        [[nodiscard]] std::string complaint() const {
            return detail::offsets_complaint(offsets, rows.size());
        }

        Rows rows;
        std::vector<std::uint64_t> offsets;
        std::string name;
        std::vector<field> fields;
    };

    class row_reader {
    public:
        row_reader(Rows const& from, std::span<std::span<std::byte> const> out, gather_context const& context)
            : from_{from}, room_{from.fields(), out}, context_{context} {}
        void read(std::uint64_t row, std::uint64_t end) {
            if constexpr (by_runs) {
                if (used_ == waiting_.size()) flush();
                waiting_[used_++] = {row, end - row};
                rows_ += end - row;
            } else
                while (row != end) {
                    if (used_ == waiting_.size()) flush();
                    std::uint64_t const stop =
                        row + std::min<std::uint64_t>(end - row, waiting_.size() - used_);
                    rows_ += stop - row;
                    while (row != stop) waiting_[used_++] = row++;
                }
        }
        void flush() {
            if (used_ == 0) return;
            std::span<waiting const> const all{waiting_.data(), used_};
            if constexpr (by_runs) from_.gather_runs(all, room_.next(rows_));
            else detail::gather_in(context_, from_, all, room_.next(rows_));
            used_ = rows_ = 0;
        }

    private:
        using waiting = std::conditional_t<by_runs, sample_run, std::uint64_t>;

        Rows const& from_;
        detail::row_outputs room_;
        gather_context const context_;
        std::array<waiting, 4096 * sizeof(std::uint64_t) / sizeof(waiting)> waiting_;
        std::size_t used_ = 0;
        std::size_t rows_ = 0;
    };

    [[nodiscard]] bool fits(std::span<std::uint64_t const> samples,
                            std::span<std::span<std::byte> const> out) const {
        std::uint64_t const size = this->size();
        std::uint64_t rows = 0;  // may exceed the dataset's rows if samples repeat
        for (std::uint64_t const sample : samples) {
            if (sample >= size) return false;
            rows = detail::saturating_add(rows, begin_of(sample + 1) - begin_of(sample));
        }
        std::span<field const> const fields = this->fields();
        bool const is_exact = out.size() == fields.size();
        for (std::size_t k = 0; is_exact && k != out.size(); ++k)
            if (checked_mul(fields[k].bytes(), rows) != out[k].size()) return false;
        return is_exact;
    }
    [[nodiscard]] std::uint64_t begin_of(std::uint64_t sample) const noexcept {
        return state_->offsets[sample];
    }

    template <dataset Offsets>
    [[nodiscard]] static std::vector<std::uint64_t> all_of(Offsets const& from) {
        std::span<field const> const fields = from.fields();
        detail::expect_offsets(fields, std::string{from.name()});
        std::vector<std::uint64_t> numbers(static_cast<std::size_t>(from.size()));
        detail::with_element(fields[0].type, [&](auto type) {
            using number = typename decltype(type)::type;
            if constexpr (std::is_integral_v<number>) read_into<number>(from, numbers);
            else detail::refuse_offsets(fields, std::string{from.name()}, "integers");
        });
        return numbers;
    }
    template <class Number, dataset Offsets>
    static void read_into(Offsets const& from, std::span<std::uint64_t> numbers) {
        std::array<std::uint64_t, 4096> samples;
        std::array<Number, 4096> values;
        for (std::size_t done = 0; done != numbers.size();) {
            std::size_t const now = std::min(numbers.size() - done, samples.size());
            for (std::size_t i = 0; i != now; ++i) samples[i] = done + i;
            std::span<std::byte> const room[] = {std::as_writable_bytes(std::span{values}.first(now))};
            from.gather(std::span<std::uint64_t const>{samples}.first(now), room);
            for (std::size_t i = 0; i != now; ++i) {
                if (std::cmp_less(values[i], 0))
                    detail::throw_data_error(from.name(), 0, "offset {} is {}, below 0",
                                             {done + i, values[i]});
                numbers[done + i] = static_cast<std::uint64_t>(values[i]);
            }
            done += now;
        }
    }

    detail::light_shared_ptr<state const> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::vector<field> ragged_fields(std::span<field const> of_rows, std::string const& name) {
    expect_no_ragged(of_rows, "rows of ragged_dataset " + name);
    std::vector<field> fields{of_rows.begin(), of_rows.end()};
    for (field& f : fields) f.is_ragged = true;
    return fields;
}

CUOTA_INLINE void expect_offsets(std::span<field const> fields, std::string const& name) {
    if (fields.size() != 1 || fields[0].count() != 1 || fields[0].is_ragged)
        refuse_offsets(fields, name, "one integer each");
}

CUOTA_INLINE void refuse_offsets(std::span<field const> fields, std::string const& name, char const* wanted) {
    throw_usage_error("{}: cannot use {} as offsets; offsets must be {}",
                      {name, fields_text(fields), wanted});
}

CUOTA_INLINE std::string offsets_complaint(std::vector<std::uint64_t> const& offsets, std::uint64_t rows) {
    if (offsets.empty()) return "no offsets; N samples need N + 1 offsets";
    auto const down = std::is_sorted_until(offsets.begin(), offsets.end());
    if (down != offsets.end())
        return message("offset {} is {}, below the previous one", {down - offsets.begin(), *down});
    if (offsets.back() > rows)
        return message("the last offset is {}, beyond the {} rows", {offsets.back(), rows});
    return {};
}

CUOTA_INLINE row_outputs::row_outputs(std::span<field const> fields,
                                      std::span<std::span<std::byte> const> out)
    : fields_{fields} {
    if (2 * out.size() > few_.size()) many_.resize(2 * out.size());
    auto const both = many_.empty() ? std::span{few_}.first(2 * out.size()) : std::span{many_};
    now_ = both.first(out.size());
    left_ = both.subspan(out.size());
    std::copy(out.begin(), out.end(), left_.begin());
}

CUOTA_INLINE std::span<std::span<std::byte> const> row_outputs::next(std::size_t rows) noexcept {
    for (std::size_t k = 0; k != now_.size(); ++k) {
        now_[k] = left_[k].first(rows * fields_[k].bytes());
        left_[k] = left_[k].subspan(now_[k].size());
    }
    return now_;
}

}  // namespace cuota::inline v0::detail

#endif
