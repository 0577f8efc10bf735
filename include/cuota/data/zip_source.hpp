// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Several sources of equal size as one: images here, labels there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/source.hpp>

namespace cuota::inline v0 {

/// Sample i has the fields of sample i of every source, in the order of the sources.
///
/// Throws: data_error, which names both files, when the sources are not of one size.
template <source First, source... Rest>
    requires(sizeof...(Rest) > 0)
class zip_source {
public:
    explicit zip_source(First first, Rest... rest)
        : state_{std::make_shared<state const>(std::move(first), std::move(rest)...)} {}

    [[nodiscard]] std::uint64_t size() const { return std::get<0>(state_->sources).size(); }
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->fields; }
    [[nodiscard]] std::string const& name() const noexcept { return state_->name; }

    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        check_gather(*this, samples, out);
        std::apply([&](auto const&... each) { (gather_next(each, samples, out), ...); }, state_->sources);
    }

private:
    struct state {
        explicit state(First first, Rest... rest) : sources{std::move(first), std::move(rest)...} {
            std::apply([this](auto const&... each) { (this->add(each), ...); }, sources);
        }

        template <source S>
        void add(S const& next) {
            std::uint64_t const size = std::get<0>(sources).size();
            if (std::uint64_t const other = next.size(); other != size)
                throw data_error{next.name(), 0,
                                 std::to_string(other) + " samples, to go with the " + std::to_string(size) +
                                     " of " + std::string{std::get<0>(sources).name()}};
            for (field const& f : std::span<field const>{next.fields()}) fields.push_back(f);
            name += (name.empty() ? "" : " + ") + std::string{next.name()};
        }

        std::tuple<First, Rest...> sources;
        std::vector<field> fields{};
        std::string name{};
    };

    /// Reads the source's fields into the first of `out` and drops those.
    template <source S>
    static void gather_next(S const& from, std::span<std::uint64_t const> samples,
                            std::span<std::span<std::byte> const>& out) {
        std::size_t const count = std::span<field const>{from.fields()}.size();
        from.gather(samples, out.first(count));
        out = out.subspan(count);
    }

    std::shared_ptr<state const> state_;
};

}  // namespace cuota::inline v0
