// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a loader reads from: a fixed number of samples, gathered a batch at a time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

/// A set of samples of one shape that can be read in any order, straight into memory that the caller owns.
///
/// size(), fields(): never change. name(): the file or files, for messages.
/// gather(samples, out): out[k] gets field k of every asked sample, back to back, in the order asked.
/// Threads: gather is const and may run on any number of threads at once.
///          A loader's workers have the loader's device current while they gather.
/// Throws:  gather: misuse when an index or the size of an out[k] is wrong, before anything is written;
///          data_error, which names file, offset and sample, when the data cannot be read: out may be partly
///          written then.
/// Cost:    a source is a handle: a copy shares files and layout with the original.
template <class S>
concept source = std::copy_constructible<S> &&
    requires(S const& s, std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) {
    { s.size() } -> std::convertible_to<std::uint64_t>;
    { s.fields() } -> std::convertible_to<std::span<field const>>;
    { s.name() } -> std::convertible_to<std::string>;
    s.gather(samples, out);
    requires std::is_lvalue_reference_v<decltype(s.fields())> ||
        std::same_as<decltype(s.fields()), std::span<field const>>;  // a vector by value would dangle
};

namespace detail {

/// What is wrong with the arguments of a gather; empty when nothing is. Allocates only when something is.
inline std::string gather_complaint(std::uint64_t size, std::span<field const> fields,
                                    std::span<std::uint64_t const> samples,
                                    std::span<std::span<std::byte> const> out) {
    if (out.size() != fields.size())
        return "it has " + std::to_string(fields.size()) + " fields; a gather gave room for " +
               std::to_string(out.size());
    for (std::size_t k = 0; k != fields.size(); ++k)
        if (auto const wanted = checked_mul(fields[k].bytes(), samples.size()); wanted != out[k].size())
            return std::to_string(samples.size()) + " samples of " + field_text(fields[k]) + " take " +
                   std::to_string(wanted.value_or(unlimited)) + " bytes; a gather gave room for " +
                   std::to_string(out[k].size());
    for (std::uint64_t const sample : samples)
        if (sample >= size)
            return "it has " + std::to_string(size) + " samples; a gather asked for sample " +
                   std::to_string(sample);
    return {};
}

/// How many of the samples, from the first on, follow each other in the source. There is one.
[[nodiscard]] inline std::size_t run_length(std::span<std::uint64_t const> samples) noexcept {
    std::size_t n = 1;
    while (n != samples.size() && samples[n] == samples[0] + n) ++n;
    return n;
}

}  // namespace detail

/// Checks the arguments of a gather: every index in range, one out[k] of exactly the size per field.
/// Throws: misuse, which says what does not fit. Allocates only then.
template <source S>
void check_gather(S const& from, std::span<std::uint64_t const> samples,
                  std::span<std::span<std::byte> const> out) {
    std::string const complaint = detail::gather_complaint(from.size(), from.fields(), samples, out);
    if (!complaint.empty()) throw misuse{std::string{from.name()} + ": " + complaint};
}

}  // namespace cuota::inline v0
