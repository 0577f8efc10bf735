// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The dataset concept.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/samplers/permutation.hpp>

namespace cuota::inline v0 {

/// Consecutive samples [first, first + count).
struct sample_run {
    std::uint64_t first;  ///< index of the first
    std::size_t count;    ///< number of samples
};

/// Epoch and seed of a gather, for random augmentation on the host. A pure function of these and the sample index yields the same data for
/// any workers, processes and batching.
/// Example: tests/data/gather_context.sim.cpp
struct gather_context {
    std::uint64_t epoch = 0;  ///< passed to batch_loader::epoch
    std::uint64_t seed = 0;   ///< loader_options::seed, or the sampler's fingerprint

    /// Returns a random seed for this epoch and sample.
    [[nodiscard]] constexpr std::uint64_t sample_seed(std::uint64_t sample) const noexcept {
        return detail::mixed(epoch_key(~seed, epoch) + sample * detail::golden);  // not the order's key
    }
};

/// A dataset that is read in any order, directly into the caller's memory. All datasets of the library keep these rules.
///
/// size(), fields(), row_counts(): constant. name(): the file or files, for messages.
/// gather(samples, out): writes field k of the samples to out[k], contiguously, in the order of `samples`.
/// gather(samples, out, context): optional; called by loaders instead.
/// row_counts(k, samples, out): required for ragged fields; writes to out[i] the rows of samples[i] in field k. Throws: usage_error if
/// field k is not ragged, or an index is out of range.
/// gather_runs(runs, out): optional; faster than an index list.
/// S::fills_device_memory: optional; if true, out may be device memory, and is written when gather returns.
/// Threads: any, concurrently; all functions are const. Loaders' workers set the loader's device as current.
/// Throws:  gather: usage_error if an index or the size of an out[k] is wrong, before writing; data_error with file, offset and sample if
///          the data cannot be read; out may be partly written.
/// Cost:    copies share files and layout.
/// Example: callable_dataset
template <class S>
concept dataset = std::copy_constructible<S> &&
    requires(S const& s, std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) {
    { s.size() } -> std::convertible_to<std::uint64_t>;
    { s.fields() } -> std::convertible_to<std::span<field const>>;
    { s.name() } -> std::convertible_to<std::string>;
    s.gather(samples, out);
    requires std::is_lvalue_reference_v<decltype(s.fields())> ||
        std::same_as<decltype(s.fields()), std::span<field const>>;  // a vector by value would dangle
};

namespace detail {

/// A dataset with samples that depend on the epoch.
template <class S>
concept gathers_in_context = requires(S const& s, std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out,
                                      gather_context const& context) {
    s.gather(samples, out, context);
};

template <class S>
void gather_in(gather_context const& context, S const& from, std::span<std::uint64_t const> samples,
               std::span<std::span<std::byte> const> out) {
    if constexpr (gathers_in_context<S>) from.gather(samples, out, context);
    else from.gather(samples, out);
}

template <class S>
concept has_row_counts = requires(S const& s, std::size_t field, std::span<std::uint64_t const> samples,
                                  std::span<std::uint64_t> out) {
    s.row_counts(field, samples, out);
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

using row_counts_call = void (*)(void const* from, std::size_t field, std::span<std::uint64_t const> samples,
                                 std::span<std::uint64_t> out);
template <has_row_counts S>
void lengths_of(void const* from, std::size_t field, std::span<std::uint64_t const> samples,
                std::span<std::uint64_t> out) {
    static_cast<S const*>(from)->row_counts(field, samples, out);
}

/// Returns the samples' total rows; saturates.
[[nodiscard]] std::uint64_t rows_of(void const* from, row_counts_call ask, std::size_t field,
                                    std::span<std::uint64_t const> samples);
template <has_row_counts S>
[[nodiscard]] std::uint64_t rows_of(S const& from, std::size_t field,
                                    std::span<std::uint64_t const> samples) {
    return rows_of(std::addressof(from), &lengths_of<S>, field, samples);
}

/// Returns why the output does not fit samples with rows(k) rows in field k; empty if it fits.
template <class Rows>
std::string room_complaint(std::span<field const> fields, std::size_t samples, Rows rows,
                           std::span<std::span<std::byte> const> out) {
    if (out.size() != fields.size())
        return message("gather: the dataset has {}, the output {}",
                       {counted(fields.size(), "fields"), out.size()});
    for (std::size_t k = 0; k != fields.size(); ++k)
        if (auto const wanted = checked_mul(fields[k].bytes(), rows(k)); wanted != out[k].size())
            return message("gather: {} of {} take {}, the output has {}",
                           {counted(samples, "samples"), field_text(fields[k]),
                            counted(wanted.value_or(unlimited), "bytes"), out[k].size()});
    return {};
}

[[nodiscard]] std::string sample_complaint(std::uint64_t size, std::uint64_t sample);

/// Returns why the arguments are invalid; empty, without allocating, if they are valid.
template <dataset S>
std::string gather_complaint(S const& from, std::span<std::uint64_t const> samples,
                             std::span<std::span<std::byte> const> out) {
    std::span<field const> const fields = from.fields();
    std::uint64_t const size = from.size();
    for (std::uint64_t const sample : samples)
        if (sample >= size) return sample_complaint(size, sample);
    auto const rows = [&](std::size_t k) -> std::uint64_t {
        if constexpr (has_row_counts<S>)
            if (fields[k].is_ragged) return rows_of(from, k, samples);
        return samples.size();
    };
    return room_complaint(fields, samples.size(), rows, out);
}

template <has_row_counts S>
void check_row_counts(S const& from, std::size_t k, std::span<std::uint64_t const> samples,
                      std::span<std::uint64_t> out) {
    std::span<field const> const fields = from.fields();
    std::string complaint;
    if (k >= fields.size() || !fields[k].is_ragged)
        complaint = "cannot return lengths: field " + std::to_string(k) + " is not ragged";
    else if (out.size() != samples.size())
        complaint = "cannot return lengths of " + counted(samples.size(), "samples") + ": the output has " +
                    std::to_string(out.size());
    std::uint64_t const size = from.size();
    for (std::uint64_t const sample : samples)
        if (complaint.empty() && sample >= size)
            complaint = "cannot return the length of sample " + std::to_string(sample) +
                        ": the dataset has " + counted(size, "samples");
    if (!complaint.empty()) throw_usage_error("{}: {}", {from.name(), complaint});
}

/// Counts leading consecutive samples of a non-empty list.
[[nodiscard]] std::size_t run_length(std::span<std::uint64_t const> samples) noexcept;

}  // namespace detail

/// Checks the arguments of a gather.
/// Throws:  usage_error; allocates only if it throws.
/// Threads: any. Cost: one comparison per sample; row_counts() of ragged fields.
template <dataset S>
void check_gather(S const& from, std::span<std::uint64_t const> samples,
                  std::span<std::span<std::byte> const> out) {
    std::string const complaint = detail::gather_complaint(from, samples, out);
    if (!complaint.empty()) detail::throw_usage_error("{}: {}", {from.name(), complaint});
}

/// Checks the arguments of gather_runs, for a dataset without ragged fields.
/// Throws: usage_error. Cost: two comparisons per run.
template <dataset S>
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
    if (!complaint.empty()) detail::throw_usage_error("{}: {}", {from.name(), complaint});
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <array>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uint64_t rows_of(void const* from, row_counts_call ask, std::size_t field,
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
    return message("gather: sample {} is out of range: the dataset has {}",
                   {sample, counted(size, "samples")});
}

CUOTA_INLINE std::size_t run_length(std::span<std::uint64_t const> samples) noexcept {
    std::size_t n = 1;
    while (n != samples.size() && samples[n] == samples[0] + n) ++n;
    return n;
}

}  // namespace cuota::inline v0::detail

#endif
