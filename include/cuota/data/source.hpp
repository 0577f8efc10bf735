// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The source concept: a dataset with a fixed number of samples, from which a loader reads one batch at a time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/text.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/permutation.hpp>

namespace cuota::inline v0 {

/// Consecutive samples [first, first + count).
struct sample_run {
    std::uint64_t first;  ///< index of the first sample
    std::size_t count;    ///< number of samples
};

/// The epoch and seed of a gather, for random augmentation on the host. Augmentation that is a pure function of the context and the sample
/// index produces the same data for any number of workers and processes, any batching, and a resumed epoch.
/// Example: tests/data/gather_context.sim.cpp
struct gather_context {
    std::uint64_t epoch = 0;  ///< the epoch number passed to batch_loader::epoch
    std::uint64_t seed = 0;   ///< loader_options::seed; with a sampler, the sampler's fingerprint

    /// Returns a seed for a random generator, specific to this epoch and to the sample with this index in the source.
    [[nodiscard]] constexpr std::uint64_t sample_seed(std::uint64_t sample) const noexcept {
        return detail::mixed(epoch_key(~seed, epoch) + sample * detail::golden);  // not the order's key
    }
};

/// A dataset that can be read in any order, directly into memory owned by the caller.
///
/// size(), fields(): constant over the source's lifetime. name(): the file or files, for messages.
/// gather(samples, out): writes field k of every requested sample into out[k], contiguously, in the order of `samples`.
/// gather(samples, out, context): optional; loaders call it instead, passing the epoch and its seed (gather_context).
/// lengths(k, samples, out): required if a field is ragged; writes to out[i] the number of rows that samples[i] has in ragged field k.
///          Lengths are constant. Throws: misuse if field k does not exist or is not ragged, or an index is out of range.
/// S::fills_device_memory: optional; if true, out may also be device memory, and is written by the time gather returns.
/// gather_runs(runs, out): optional; like gather for the samples of all runs, but faster than a list of their indices.
/// Threads: gather is const and may run on any number of threads concurrently. A loader's workers set the loader's device as current while
///          they gather.
/// Throws:  gather: misuse if an index or the size of an out[k] is wrong, before anything is written; data_error with file, offset and
///          sample if the data cannot be read, in which case out may be partly written.
/// Cost:    a source is a handle: copies share files and layout.
/// Example: callable_source wraps a function; memory_source and the file formats are other sources.
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

/// A source whose samples depend on the epoch, or an adaptor of such a source.
template <class S>
concept gathers_in_context = requires(S const& s, std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out,
                                      gather_context const& context) {
    s.gather(samples, out, context);
};

/// Calls gather, with the context if the source accepts one.
template <class S>
void gather_in(gather_context const& context, S const& from, std::span<std::uint64_t const> samples,
               std::span<std::span<std::byte> const> out) {
    if constexpr (gathers_in_context<S>) from.gather(samples, out, context);
    else from.gather(samples, out);
}

/// A source that can have ragged fields.
template <class S>
concept tells_lengths = requires(S const& s, std::size_t field, std::span<std::uint64_t const> samples,
                                 std::span<std::uint64_t> out) {
    s.lengths(field, samples, out);
};

template <class S>
concept reads_runs = requires(S const& s, std::span<sample_run const> runs,
                              std::span<std::span<std::byte> const> out) {
    s.gather_runs(runs, out);
};

template <class S>
concept fills_device_memory = requires {
    requires S::fills_device_memory;
};

/// Pointer to a function that calls lengths() of the source at `from`.
using lengths_call = void (*)(void const* from, std::size_t field, std::span<std::uint64_t const> samples,
                              std::span<std::uint64_t> out);
template <tells_lengths S>
void lengths_of(void const* from, std::size_t field, std::span<std::uint64_t const> samples,
                std::span<std::uint64_t> out) {
    static_cast<S const*>(from)->lengths(field, samples, out);
}

/// Returns the total number of rows of a ragged field in these samples, saturated at the largest 64-bit value.
[[nodiscard]] std::uint64_t rows_of(void const* from, lengths_call ask, std::size_t field,
                                    std::span<std::uint64_t const> samples);
template <tells_lengths S>
[[nodiscard]] std::uint64_t rows_of(S const& from, std::size_t field,
                                    std::span<std::uint64_t const> samples) {
    return rows_of(std::addressof(from), &lengths_of<S>, field, samples);
}

/// Returns the reason why the output spans do not fit `samples` samples with rows(k) rows in field k, or an empty string if they fit.
template <class Rows>
std::string room_complaint(std::span<field const> fields, std::size_t samples, Rows rows,
                           std::span<std::span<std::byte> const> out) {
    if (out.size() != fields.size())
        return message("it has {}; a gather gave room for {}",
                       {counted(fields.size(), "fields"), out.size()});
    for (std::size_t k = 0; k != fields.size(); ++k)
        if (auto const wanted = checked_mul(fields[k].bytes(), rows(k)); wanted != out[k].size())
            return message("{} of {} take {}; a gather gave room for {}",
                           {counted(samples, "samples"), field_text(fields[k]),
                            counted(wanted.value_or(unlimited), "bytes"), out[k].size()});
    return {};
}

[[nodiscard]] std::string sample_complaint(std::uint64_t size, std::uint64_t sample);

/// Returns the reason why the arguments of a gather are invalid, or an empty string. Allocates only if they are invalid.
template <source S>
std::string gather_complaint(S const& from, std::span<std::uint64_t const> samples,
                             std::span<std::span<std::byte> const> out) {
    std::span<field const> const fields = from.fields();
    std::uint64_t const size = from.size();
    for (std::uint64_t const sample : samples)
        if (sample >= size) return sample_complaint(size, sample);
    auto const rows = [&](std::size_t k) -> std::uint64_t {
        if constexpr (tells_lengths<S>)
            if (fields[k].is_ragged) return rows_of(from, k, samples);
        return samples.size();
    };
    return room_complaint(fields, samples.size(), rows, out);
}

/// Checks the arguments of `lengths`. Throws: misuse.
template <tells_lengths S>
void check_lengths(S const& from, std::size_t k, std::span<std::uint64_t const> samples,
                   std::span<std::uint64_t> out) {
    std::span<field const> const fields = from.fields();
    std::string complaint;
    if (k >= fields.size() || !fields[k].is_ragged)
        complaint = "the lengths of its field " + std::to_string(k) + " were asked for, which is not ragged";
    else if (out.size() != samples.size())
        complaint = "the lengths of " + counted(samples.size(), "samples") +
                    " were asked for, with room for " + std::to_string(out.size());
    std::uint64_t const size = from.size();
    for (std::uint64_t const sample : samples)
        if (complaint.empty() && sample >= size)
            complaint = "it has " + counted(size, "samples") + "; the length of sample " +
                        std::to_string(sample) + " was asked for";
    if (!complaint.empty()) throw_misuse("{}: {}", {from.name(), complaint});
}

/// Returns how many of the samples, starting with the first, are consecutive in the source; at least 1. Requires a non-empty list.
[[nodiscard]] std::size_t run_length(std::span<std::uint64_t const> samples) noexcept;

}  // namespace detail

/// Checks the arguments of a gather: every index is in range, and there is one out[k] of exactly the right size per field.
/// Throws:  misuse with the reason. Allocates only if it throws.
/// Threads: any. Cost: one comparison per sample; for ragged fields, also a call of lengths().
template <source S>
void check_gather(S const& from, std::span<std::uint64_t const> samples,
                  std::span<std::span<std::byte> const> out) {
    std::string const complaint = detail::gather_complaint(from, samples, out);
    if (!complaint.empty()) detail::throw_misuse("{}: {}", {from.name(), complaint});
}

/// Checks the arguments of gather_runs in the same way, for a source without ragged fields.
/// Throws: misuse. Cost: two comparisons per run.
template <source S>
void check_gather_runs(S const& from, std::span<sample_run const> runs,
                       std::span<std::span<std::byte> const> out) {
    std::uint64_t const size = from.size();
    std::uint64_t samples = 0;
    std::string complaint;
    for (auto const [first, count] : runs) {
        if (first <= size && count <= size - first) samples += count;
        else complaint = detail::sample_complaint(size, std::max(first, size));
    }
    auto const rows = [&](std::size_t) { return samples; };
    if (complaint.empty()) complaint = detail::room_complaint(from.fields(), samples, rows, out);
    if (!complaint.empty()) detail::throw_misuse("{}: {}", {from.name(), complaint});
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <array>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uint64_t rows_of(void const* from, lengths_call ask, std::size_t field,
                                   std::span<std::uint64_t const> samples) {
    std::uint64_t sum = 0;
    std::array<std::uint64_t, 128> lengths;
    while (!samples.empty()) {
        std::span<std::uint64_t const> const now = samples.first(std::min(samples.size(), lengths.size()));
        ask(from, field, now, std::span{lengths}.first(now.size()));
        for (std::size_t i = 0; i != now.size(); ++i) sum = saturating_add(sum, lengths[i]);
        samples = samples.subspan(now.size());
    }
    return sum;
}

CUOTA_INLINE std::string sample_complaint(std::uint64_t size, std::uint64_t sample) {
    return message("it has {}; a gather asked for sample {}", {counted(size, "samples"), sample});
}

CUOTA_INLINE std::size_t run_length(std::span<std::uint64_t const> samples) noexcept {
    std::size_t n = 1;
    while (n != samples.size() && samples[n] == samples[0] + n) ++n;
    return n;
}

}  // namespace cuota::inline v0::detail

#endif
