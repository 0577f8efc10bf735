// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Concatenation of datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/detail/loader/any_dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

/// The samples of the first dataset, then of the second, and so on. Types and sizes may differ; fields and their order must be equal,
/// except for the name of a single field. A data_error names the file and the sample's index in it.
///
/// Throws:  usage_error if fields differ, for no datasets, or more samples than 64 bits count.
/// Cost:    one gather of a part for up to 1024 adjacent samples in it. No allocations for up to 16 fields.
/// Example: cuota::concat_dataset all{first, second};
class concat_dataset {
public:
    /// Takes two or more datasets of any types.
    template <class... Datasets>
        requires(sizeof...(Datasets) > 1 && (dataset<Datasets> && ...))
    explicit concat_dataset(Datasets... parts) : concat_dataset{sizeof...(Datasets)} {
        (add(detail::any_dataset{std::move(parts)}), ...);
    }
    /// Takes one or more datasets of one type.
    template <dataset S>
    explicit concat_dataset(std::vector<S> parts) : concat_dataset{parts.size()} {
        for (S& part : parts) add(detail::any_dataset{std::move(part)});
    }

    [[nodiscard]] std::uint64_t size() const noexcept;    ///< of all parts
    [[nodiscard]] std::span<field const> fields() const;  ///< the first part's
    /// Returns "a.npy and 4 more".
    [[nodiscard]] std::string name() const;

    /// Gathers from one part after another; an error leaves later parts unwritten.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context = {}) const;
    /// Gets the rows per sample.
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                    std::span<std::uint64_t> out) const;

private:
    struct state;
    struct run;

    explicit concat_dataset(std::size_t parts);  // to be added
    void add(detail::any_dataset part);
    [[nodiscard]] std::size_t bytes_of(run const& next, field const& f, std::size_t k) const;

    detail::light_shared_ptr<state> state_;
};
}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <array>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

static_assert(dataset<concat_dataset>);

struct concat_dataset::state {
    void add(detail::any_dataset part);
    void check_fields(detail::any_dataset const& part) const;
    static std::string text(std::span<field const> fields);

    std::vector<detail::any_dataset> parts{};
    std::vector<std::uint64_t> ends{};  // index after each part's last sample
};

/// Leading samples in one part, by its indices.
struct concat_dataset::run {
    run(state const& from, std::span<std::uint64_t const> asked);
    [[nodiscard]] std::span<std::uint64_t const> part_samples() const noexcept;
    std::size_t part;
    std::size_t count = 0;
    std::array<std::uint64_t, 1024> samples;
};

CUOTA_INLINE concat_dataset::concat_dataset(std::size_t parts)
    : state_{detail::light_shared_ptr<state>::make()} {
    if (parts == 0) detail::throw_usage_error("concat_dataset: at least one dataset is required");
}

CUOTA_INLINE void concat_dataset::add(detail::any_dataset part) { state_->add(std::move(part)); }

CUOTA_INLINE std::uint64_t concat_dataset::size() const noexcept { return state_->ends.back(); }

CUOTA_INLINE std::span<field const> concat_dataset::fields() const { return state_->parts.front().fields(); }

CUOTA_INLINE std::string concat_dataset::name() const {
    std::size_t const more = state_->parts.size() - 1;
    return state_->parts.front().name() + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

CUOTA_INLINE void concat_dataset::gather(std::span<std::uint64_t const> samples,
                                         std::span<std::span<std::byte> const> out,
                                         gather_context const& context) const {
    check_gather(*this, samples, out);
    std::array<std::span<std::byte>, 32> few;
    std::vector<std::span<std::byte>> many;
    if (2 * out.size() > few.size()) many.resize(2 * out.size());
    auto const both = many.empty() ? std::span{few}.first(2 * out.size()) : std::span{many};
    auto const rooms = both.first(out.size());  // for one part's samples
    auto const left = both.subspan(out.size());
    std::ranges::copy(out, left.begin());
    for (std::size_t done = 0; done != samples.size();) {
        run const next{*state_, samples.subspan(done)};
        for (std::size_t k = 0; k != out.size(); ++k) {
            rooms[k] = left[k].first(bytes_of(next, fields()[k], k));
            left[k] = left[k].subspan(rooms[k].size());
        }
        state_->parts[next.part].gather(next.part_samples(), rooms, context);
        done += next.count;
    }
}

CUOTA_INLINE void concat_dataset::row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                                             std::span<std::uint64_t> out) const {
    detail::check_row_counts(*this, k, samples, out);
    for (std::size_t done = 0; done != samples.size();) {
        run const next{*state_, samples.subspan(done)};
        state_->parts[next.part].row_counts(k, next.part_samples(), out.subspan(done, next.count));
        done += next.count;
    }
}

CUOTA_INLINE void concat_dataset::state::add(detail::any_dataset part) {
    if (!parts.empty()) check_fields(part);
    auto const end = checked_add(ends.empty() ? 0 : ends.back(), part.size());
    if (!end)
        detail::throw_usage_error("concat_dataset: the number of samples up to {} overflows std::uint64_t",
                                  {part.name()});
    ends.push_back(*end);
    parts.push_back(std::move(part));
}

CUOTA_INLINE void concat_dataset::state::check_fields(detail::any_dataset const& part) const {
    std::span<field const> const wanted = parts.front().fields();
    std::span<field const> const has = part.fields();
    bool const is_one = wanted.size() == 1 && has.size() == 1;
    if (is_one ? wanted[0].type == has[0].type && wanted[0].shape == has[0].shape &&
                     wanted[0].is_ragged == has[0].is_ragged
               : std::equal(wanted.begin(), wanted.end(), has.begin(), has.end()))
        return;
    detail::throw_usage_error("concat_dataset: the datasets have different fields: {} has {}; {} has {}",
                              {part.name(), text(has), parts.front().name(), text(wanted)});
}

CUOTA_INLINE std::string concat_dataset::state::text(std::span<field const> fields) {
    std::string all;
    for (field const& f : fields) all += (all.empty() ? "" : " + ") + field_text(f);
    return all;
}

CUOTA_INLINE concat_dataset::run::run(state const& from, std::span<std::uint64_t const> asked) {
    auto const found = std::upper_bound(from.ends.begin(), from.ends.end(), asked[0]);
    part = static_cast<std::size_t>(found - from.ends.begin());
    std::uint64_t const begin = part == 0 ? 0 : from.ends[part - 1];
    std::size_t const most = std::min(asked.size(), samples.size());
    for (; count != most && asked[count] >= begin && asked[count] < *found; ++count)
        samples[count] = asked[count] - begin;
}

CUOTA_INLINE std::span<std::uint64_t const> concat_dataset::run::part_samples() const noexcept {
    return std::span{samples}.first(count);
}

CUOTA_INLINE std::size_t concat_dataset::bytes_of(run const& next, field const& f, std::size_t k) const {
    return f.bytes() *
           (f.is_ragged ? detail::rows_of(state_->parts[next.part], k, next.part_samples()) : next.count);
}

}  // namespace cuota::inline v0

#endif
