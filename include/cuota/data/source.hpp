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
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/text.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/permutation.hpp>

namespace cuota::inline v0 {

/// Samples that follow each other: [first, first + count).
struct sample_run {
    std::uint64_t first;  ///< index of the first
    std::size_t count;    ///< samples
};

/// The epoch and the seed of a gather, to seed random augmentation on the host. A pure function of them and of the samples gives the same
/// data for any number of workers and processes, in any batch, and in an epoch that is resumed.
/// Example: tests/data/gather_context.sim.cpp
struct gather_context {
    std::uint64_t epoch = 0;  ///< the number that the program gave to batch_loader::epoch
    std::uint64_t seed = 0;   ///< loader_options::seed; of a loader with a sampler the sampler's fingerprint

    /// A seed for one sample in this epoch, by its index in the source that is asked: to be given to a random generator.
    [[nodiscard]] constexpr std::uint64_t sample_seed(std::uint64_t sample) const noexcept {
        return detail::mixed(epoch_key(~seed, epoch) + sample * detail::golden);  // not the order's key
    }
};

/// A set of samples that can be read in any order, straight into memory that the caller owns.
///
/// size(), fields(): never change. name(): the file or files, for messages.
/// gather(samples, out): out[k] gets field k of every asked sample, back to back, in the order asked.
/// gather(samples, out, context): if it is there, what loaders call in place of that, with the epoch and its seed (gather_context).
/// lengths(k, samples, out): only with ragged fields: out[i] gets the rows that samples[i] has in field k, one of those.
///          They never change. Throws: misuse for another field, or an index that is out of range.
/// S::fills_device_memory, if it is there and true: out may be device memory, too, and is written when gather returns.
/// gather_runs(runs, out): if it is there, as gather for the samples of all these runs, sooner than by a list of them.
/// Threads: gather is const and may run on any number of threads at once.
///          A loader's workers have the loader's device current while they gather.
/// Throws:  gather: misuse when an index or the size of an out[k] is wrong, before anything is written;
///          data_error, which names file, offset and sample, when the data cannot be read: out may be partly
///          written then.
/// Cost:    a source is a handle: a copy shares files and layout with the original.
/// Example: callable_source makes one of a function; memory_source and the formats are others.
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

/// A source whose samples depend on the epoch, or one made of such a source.
template <class S>
concept gathers_in_context = requires(S const& s, std::span<std::uint64_t const> samples,
                                      std::span<std::span<std::byte> const> out,
                                      gather_context const& context) {
    s.gather(samples, out, context);
};

/// Gathers, with the context where the source takes one.
template <class S>
void gather_in(gather_context const& context, S const& from, std::span<std::uint64_t const> samples,
               std::span<std::span<std::byte> const> out) {
    if constexpr (gathers_in_context<S>) from.gather(samples, out, context);
    else from.gather(samples, out);
}

/// A source of samples that may be of different lengths.
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

/// A source that can read into device memory as well.
template <class S>
concept fills_device_memory = requires {
    requires S::fills_device_memory;
};

/// lengths() of the source at `from`.
using lengths_call = void (*)(void const* from, std::size_t field, std::span<std::uint64_t const> samples,
                              std::span<std::uint64_t> out);
template <tells_lengths S>
void lengths_of(void const* from, std::size_t field, std::span<std::uint64_t const> samples,
                std::span<std::uint64_t> out) {
    static_cast<S const*>(from)->lengths(field, samples, out);
}

/// Rows that a ragged field has in some samples together; unlimited when 64 bits do not count them.
[[nodiscard]] std::uint64_t rows_of(void const* from, lengths_call ask, std::size_t field,
                                    std::span<std::uint64_t const> samples);
template <tells_lengths S>
[[nodiscard]] std::uint64_t rows_of(S const& from, std::size_t field,
                                    std::span<std::uint64_t const> samples) {
    return rows_of(std::addressof(from), &lengths_of<S>, field, samples);
}

/// What is wrong with the rooms of a gather for so many samples, in which a field has `rows(k)`; empty when nothing is.
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

/// What is wrong with the arguments of a gather; empty when nothing is. Allocates only when something is.
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

/// How many of the samples, from the first on, follow each other in the source. There is one.
[[nodiscard]] std::size_t run_length(std::span<std::uint64_t const> samples) noexcept;

}  // namespace detail

/// Checks the arguments of a gather: every index in range, one out[k] of exactly the size per field.
/// Throws: misuse, which says what does not fit. Allocates only then.
/// Threads: any. Cost: a comparison for each sample; with ragged fields their lengths are asked.
template <source S>
void check_gather(S const& from, std::span<std::uint64_t const> samples,
                  std::span<std::span<std::byte> const> out) {
    std::string const complaint = detail::gather_complaint(from, samples, out);
    if (!complaint.empty()) detail::throw_misuse("{}: {}", {from.name(), complaint});
}

/// Checks the arguments of gather_runs of a source without ragged fields, in the same way.
/// Throws: misuse. Cost: two comparisons for each run.
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
