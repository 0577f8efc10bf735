// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Several sources of equal size as one, such as images and labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/text.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/source.hpp>

namespace cuota::inline v0 {

namespace detail {

/// A heterogeneous list of sources.
template <class First, class... Rest>
struct source_row {
    explicit source_row(First f, Rest... r) : first{std::move(f)}, rest{std::move(r)...} {}

    /// Calls f(source) for each source.
    template <class F>
    void each(F const& f) const {
        f(first);
        rest.each(f);
    }

    First first;
    source_row<Rest...> rest;
};

template <class Last>
struct source_row<Last> {
    explicit source_row(Last l) : first{std::move(l)} {}

    template <class F>
    void each(F const& f) const {
        f(first);
    }

    Last first;
};

}  // namespace detail

/// Sample i has the fields of sample i of every source, in source order.
///
/// Throws:  data_error, naming both files, if sizes differ.
/// Cost:    only that of the sources; copies share them.
/// Threads: as any source.
/// Example: cuota::zip_source both{cuota::npy_source{"images.npy"}, cuota::npy_source{"labels.npy"}};
template <source First, source... Rest>
    requires(sizeof...(Rest) > 0)
class zip_source {
public:
    /// True if all sources can fill device memory.
    static constexpr bool fills_device_memory =
        detail::fills_device_memory<First> && (detail::fills_device_memory<Rest> && ...);

    /// Stores the sources; copies share them.
    explicit zip_source(First first, Rest... rest)
        : state_{shared_value<state const>::make(std::move(first), std::move(rest)...)} {}

    /// Returns the size of each source.
    [[nodiscard]] std::uint64_t size() const { return state_->sources.first.size(); }
    /// Returns the fields of all sources.
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->fields; }
    [[nodiscard]] std::string const& name() const noexcept { return state_->name; }  ///< "a.npy + b.npy"

    /// Gathers from one source after another. Throws: misuse; errors of the sources.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        gather_all(samples, out, {});
    }
    /// Gathers in an epoch's context.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context) const
        requires(detail::gathers_in_context<First> || (detail::gathers_in_context<Rest> || ...)) {
        gather_all(samples, out, context);
    }
    /// Gathers runs of samples.
    void gather_runs(std::span<sample_run const> runs, std::span<std::span<std::byte> const> out) const
        requires(detail::reads_runs<First> && (detail::reads_runs<Rest> && ...)) {
        check_gather_runs(*this, runs, out);
        state_->sources.each(
            [&](auto const& one) { take_room(one, out, [&](auto rooms) { one.gather_runs(runs, rooms); }); });
    }
    /// Calls lengths of field k's source. Throws: misuse if the field is not ragged, or an index is out of range.
    void lengths(std::size_t k, std::span<std::uint64_t const> samples, std::span<std::uint64_t> out) const
        requires(detail::tells_lengths<First> || (detail::tells_lengths<Rest> || ...)) {
        detail::check_lengths(*this, k, samples, out);
        state_->sources.each([&](auto const& one) { lengths_if_of(one, k, samples, out); });
    }

private:
    void gather_all(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                    gather_context const& context) const {
        check_gather(*this, samples, out);
        state_->sources.each([&](auto const& one) {
            take_room(one, out, [&](auto rooms) { detail::gather_in(context, one, samples, rooms); });
        });
    }

    struct state {
        explicit state(First first, Rest... rest) : sources{std::move(first), std::move(rest)...} {
            sources.each([this](auto const& one) { this->add(one); });
        }

        template <source S>
        void add(S const& next) {
            std::uint64_t const size = sources.first.size();
            if (std::uint64_t const other = next.size(); other != size)
                detail::throw_data_error(next.name(), 0, "cannot combine {} with the {} of {}",
                                         {detail::counted(other, "samples"), size, sources.first.name()});
            for (field const& f : std::span<field const>{next.fields()}) fields.push_back(f);
            name += (name.empty() ? "" : " + ") + std::string{next.name()};
        }

        detail::source_row<First, Rest...> sources;
        std::vector<field> fields;
        std::string name{};
    };

    /// Reads a source's fields into the first spans of `out`, and removes these.
    template <source S, class Rooms, class Read>
    static void take_room(S const& from, Rooms& out, Read read) {
        std::size_t const count = std::span<field const>{from.fields()}.size();
        read(out.first(count));
        out = out.subspan(count);
    }

    /// Gets the lengths if k is a field of this source; otherwise makes k relative to the next.
    template <source S>
    static void lengths_if_of(S const& from, std::size_t& k, std::span<std::uint64_t const> samples,
                              std::span<std::uint64_t> out) {
        std::size_t const count = std::span<field const>{from.fields()}.size();
        if constexpr (detail::tells_lengths<S>)
            if (k < count) from.lengths(k, samples, out);
        k = k < count ? unlimited : k - count;  // found: no other source has that many fields
    }

    shared_value<state const> state_;
};

}  // namespace cuota::inline v0
