// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Several datasets of equal size as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

namespace detail {

template <class First, class... Rest>
struct dataset_list {
    explicit dataset_list(First f, Rest... r) : first{std::move(f)}, rest{std::move(r)...} {}

    template <class F>
    void each(F const& f) const {
        f(first);
        rest.each(f);
    }

    First first;
    dataset_list<Rest...> rest;
};

template <class Last>
struct dataset_list<Last> {
    explicit dataset_list(Last l) : first{std::move(l)} {}

    template <class F>
    void each(F const& f) const {
        f(first);
    }

    Last first;
};

}  // namespace detail

/// Sample i has the fields of sample i of every dataset, in dataset order.
///
/// Throws:  data_error, naming both files, if sizes differ.
/// Cost:    that of the datasets; copies share them.
/// Example: cuota::zip_dataset both{images, labels};
template <dataset First, dataset... Rest>
    requires(sizeof...(Rest) > 0)
class zip_dataset {
public:
    /// True if all datasets can fill device memory.
    static constexpr bool fills_device_memory =
        detail::fills_device_memory<First> && (detail::fills_device_memory<Rest> && ...);

    /// Stores the datasets.
    explicit zip_dataset(First first, Rest... rest)
        : state_{detail::light_shared_ptr<state const>::make(std::move(first), std::move(rest)...)} {}

    [[nodiscard]] std::uint64_t size() const { return state_->datasets.first.size(); }  ///< of each dataset
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->fields; }  ///< of all
    [[nodiscard]] std::string const& name() const noexcept { return state_->name; }  ///< "a.npy + b.npy"

    /// Gathers from one dataset after another.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        gather_all(samples, out, {});
    }
    /// Gathers in an epoch's context.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context) const
        requires(detail::gathers_in_context<First> || (detail::gathers_in_context<Rest> || ...)) {
        gather_all(samples, out, context);
    }
    /// Gathers runs.
    void gather_runs(std::span<sample_run const> runs, std::span<std::span<std::byte> const> out) const
        requires(detail::reads_runs<First> && (detail::reads_runs<Rest> && ...)) {
        check_gather_runs(*this, runs, out);
        state_->datasets.each(
            [&](auto const& one) { take_room(one, out, [&](auto rooms) { one.gather_runs(runs, rooms); }); });
    }
    /// Calls row_counts of field k's dataset.
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples, std::span<std::uint64_t> out) const
        requires(detail::has_row_counts<First> || (detail::has_row_counts<Rest> || ...)) {
        detail::check_row_counts(*this, k, samples, out);
        state_->datasets.each([&](auto const& one) { row_counts_if_of(one, k, samples, out); });
    }

private:
    void gather_all(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                    gather_context const& context) const {
        check_gather(*this, samples, out);
        state_->datasets.each([&](auto const& one) {
            take_room(one, out, [&](auto rooms) { detail::gather_in(context, one, samples, rooms); });
        });
    }

    struct state {
        explicit state(First first, Rest... rest) : datasets{std::move(first), std::move(rest)...} {
            datasets.each([this](auto const& one) { this->add(one); });
        }

        template <dataset S>
        void add(S const& next) {
            std::uint64_t const size = datasets.first.size();
            if (std::uint64_t const other = next.size(); other != size)
                detail::throw_data_error(next.name(), 0, "cannot combine {} with the {} of {}",
                                         {detail::counted(other, "samples"), size, datasets.first.name()});
            for (field const& f : std::span<field const>{next.fields()}) fields.push_back(f);
            name += (name.empty() ? "" : " + ") + std::string{next.name()};
        }

        detail::dataset_list<First, Rest...> datasets;
        std::vector<field> fields;
        std::string name{};
    };

    /// Reads a dataset's fields into the first spans of `out`, and removes these.
    template <dataset S, class Rooms, class Read>
    static void take_room(S const& from, Rooms& out, Read read) {
        std::size_t const count = std::span<field const>{from.fields()}.size();
        read(out.first(count));
        out = out.subspan(count);
    }

    /// Gets the lengths if k is a field of this dataset; otherwise makes k relative to the next.
    template <dataset S>
    static void row_counts_if_of(S const& from, std::size_t& k, std::span<std::uint64_t const> samples,
                                 std::span<std::uint64_t> out) {
        std::size_t const count = std::span<field const>{from.fields()}.size();
        if constexpr (detail::has_row_counts<S>)
            if (k < count) from.row_counts(k, samples, out);
        k = k < count ? unlimited : k - count;  // other datasets have fewer fields
    }

    detail::light_shared_ptr<state const> state_;
};

}  // namespace cuota::inline v0
