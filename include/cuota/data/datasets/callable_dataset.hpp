// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A function as a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

namespace detail {

template <class F>
concept gathers = requires(F const& fill, std::span<std::uint64_t const> samples,
                           std::span<std::span<std::byte> const> out) {
    fill(samples, out);
};

template <class F>
concept gathers_by_context = requires(F const& fill, std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out,
                                      gather_context const& context) {
    fill(samples, out, context);
};

}  // namespace detail

/// `size` samples of the given fields; a gather checks its arguments and calls `fill(samples, out)` once.
///
///     cuota::callable_dataset numbers{"numbers", 1000, {{"n", cuota::element_type::u64}}, [](auto samples, auto out) {
///         std::ranges::copy(std::as_bytes(samples), out[0].begin());
///     }};
///
/// `fill(samples, out, context)` can produce other samples in each epoch (gather_context).
/// Threads: any number of threads call the function, as const, concurrently.
/// Throws:  usage_error for no fields, or an empty or ragged one; exceptions of the function.
/// Cost:    the function's; copies share it.
template <class Fill>
    requires(detail::gathers<Fill> || detail::gathers_by_context<Fill>)
class callable_dataset {
public:
    /// Stores the function.
    callable_dataset(std::string name, std::uint64_t size, std::vector<field> fields, Fill fill)
        : state_{detail::light_shared_ptr<state const>::make(
              state{std::move(name), size, std::move(fields), std::move(fill)})} {
        if (state_->fields.empty())
            detail::throw_usage_error("{}: a dataset needs at least one field", {state_->name});
        detail::expect_no_ragged(state_->fields, state_->name + ": callable_dataset");
        for (field const& f : state_->fields)
            if (f.bytes() == 0)
                detail::throw_usage_error("{}: field {} is empty", {state_->name, field_text(f)});
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return state_->size; }  ///< samples
    /// Returns the given fields.
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->fields; }
    [[nodiscard]] std::string const& name() const noexcept { return state_->name; }  ///< for messages

    /// Calls the function once.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        check_gather(*this, samples, out);
        if constexpr (detail::gathers_by_context<Fill>) state_->fill(samples, out, gather_context{});
        else state_->fill(samples, out);
    }
    /// Gathers in an epoch's context.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out,
                gather_context const& context) const requires detail::gathers_by_context<Fill> {
        check_gather(*this, samples, out);
        state_->fill(samples, out, context);
    }

private:
    struct state {
        std::string name;
        std::uint64_t size;
        std::vector<field> fields;
        Fill fill;
    };
    detail::light_shared_ptr<state const> state_;
};

}  // namespace cuota::inline v0
