// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Time per stage of a loader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/text.hpp>

namespace cuota::inline v0 {

/// The stages of a batch.
enum class loader_stage {
    none,      ///< not enough measurements
    consumer,  ///< the program; batches are ready early
    reading,   ///< the dataset, in the workers
    device,    ///< copying or computing, unless loader_options::time_copies
    transfer,  ///< copying to the device
    compute    ///< the program's work on the device
};

/// Returns a name such as "reading".
[[nodiscard]] constexpr char const* stage_name(loader_stage s) noexcept {
    switch (s) {
        case loader_stage::consumer: return "the program";
        case loader_stage::reading: return "reading";
        case loader_stage::device: return "the device";
        case loader_stage::transfer: return "copying to the device";
        case loader_stage::compute: return "computing on the device";
        default: return "nothing yet";
    }
}

/// A read in progress.
struct loader_read {
    std::size_t worker = 0;              ///< from 0
    std::chrono::nanoseconds lasted{0};  ///< since it began
    std::uint64_t first = 0;             ///< first sample
    std::uint64_t last = 0;              ///< last sample, in batch order
    std::string dataset{};               ///< its name
};

/// Snapshot of the current or last epoch.
/// Example: std::puts(stats_text(loader.stats()).c_str());
struct loader_stats {
    std::uint64_t epoch = 0;                       ///< epoch number
    std::uint64_t batches = 0;                     ///< delivered
    std::optional<std::uint64_t> total_batches{};  ///< nullopt: set by rows
    double covered = 0;                            ///< fraction of samples delivered, over all processes
    std::uint64_t samples = 0;                     ///< delivered
    std::uint64_t bytes = 0;                       ///< copied, delivered or not
    std::size_t workers = 0;                       ///< reading threads
    bool is_pinned = true;                         ///< false: pageable (loader_options::on_pin_failure)
    std::chrono::nanoseconds elapsed{0};           ///< until now or the epoch's end

    // Sums over all workers.
    std::chrono::nanoseconds drawing{0};            ///< calls of the sampler
    std::chrono::nanoseconds reading{0};            ///< calls of gather
    std::chrono::nanoseconds waiting_for_slots{0};  ///< for a pinned slot's last copy

    std::optional<std::chrono::nanoseconds> copying{};  ///< link busy; needs loader_options::time_copies
    std::chrono::nanoseconds waiting_for_batches{0};    ///< the program, in next() and wait_for()
    std::optional<loader_read> longest_read{};          ///< of the reads in progress

    /// Returns the bottleneck, measured on the host. If the program waits for batches, the workers' times decide.
    [[nodiscard]] loader_stage bottleneck() const noexcept;

    /// Returns part / elapsed, 0 to 1.
    [[nodiscard]] double share(std::chrono::nanoseconds part) const noexcept;
    /// Returns the same for a sum over all workers.
    [[nodiscard]] double worker_fraction(std::chrono::nanoseconds part) const noexcept;
    /// Returns the epoch's average; initially 0.
    [[nodiscard]] double batches_per_second() const noexcept;
};

namespace detail {

[[nodiscard]] std::string percent_text(double share);

[[nodiscard]] std::string rate_text(double per_second);

[[nodiscard]] char const* advice_for(loader_stage slowest) noexcept;

}  // namespace detail

/// Returns one line: progress, rate, share of time per stage, bottleneck, and a read of at least a second. Throws: std::bad_alloc.
[[nodiscard]] std::string stats_text(loader_stats const& s);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <cuota/core/detail/text/message.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE loader_stage loader_stats::bottleneck() const noexcept {
    if (batches < 2 || elapsed.count() <= 0) return loader_stage::none;
    if (share(waiting_for_batches) < 0.1) return loader_stage::consumer;
    if (drawing + reading >= waiting_for_slots) return loader_stage::reading;
    if (!copying) return loader_stage::device;
    return share(*copying) >= 0.8 ? loader_stage::transfer : loader_stage::compute;
}

CUOTA_INLINE double loader_stats::share(std::chrono::nanoseconds part) const noexcept {
    if (elapsed.count() <= 0) return 0;
    return std::clamp(static_cast<double>(part.count()) / static_cast<double>(elapsed.count()), 0.0, 1.0);
}

CUOTA_INLINE double loader_stats::worker_fraction(std::chrono::nanoseconds part) const noexcept {
    return share(part / static_cast<std::int64_t>(std::max<std::size_t>(workers, 1)));
}

CUOTA_INLINE double loader_stats::batches_per_second() const noexcept {
    return elapsed.count() <= 0 ? 0
                                : static_cast<double>(batches) * 1e9 / static_cast<double>(elapsed.count());
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string percent_text(double share) {
    return std::to_string(std::lround(share * 100)) + " %";
}

CUOTA_INLINE std::string rate_text(double per_second) {
    char text[32];
    (void)std::snprintf(text, sizeof text, per_second < 100 ? "%.1f" : "%.0f", per_second);
    return text;
}

CUOTA_INLINE char const* advice_for(loader_stage slowest) noexcept {
    switch (slowest) {
        case loader_stage::consumer: return "the loader keeps up";
        case loader_stage::reading: return "try more workers or faster storage";
        case loader_stage::device:
            return "set loader_options::time_copies to separate copying from computing";
        case loader_stage::transfer: return "try smaller elements, such as u8 that the device converts";
        case loader_stage::compute: return "the loader keeps up";
        default: return "";
    }
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string stats_text(loader_stats const& s) {
    double const seconds = static_cast<double>(s.elapsed.count()) / 1e9;
    double const bytes_a_second = seconds <= 0 ? 0 : static_cast<double>(s.bytes) / seconds;
    std::string const progress = s.total_batches
                                     ? " of " + std::to_string(*s.total_batches) + " batches, "
                                     : " batches, " + detail::percent_text(s.covered) + " of the samples, ";
    std::string text =
        detail::message("epoch {}: {}{}{} a second ({}/s)",
                        {s.epoch, s.batches, progress, detail::rate_text(s.batches_per_second()),
                         detail::as_bytes(static_cast<std::size_t>(bytes_a_second))});
    if (!s.is_pinned) text += "; the slots are not pinned, so copies block the thread that enqueues them";
    if (s.longest_read && s.longest_read->lasted >= std::chrono::seconds{1})
        detail::append_message(
            text, "; worker {} has been reading samples {} to {} of {} for {} s",
            {s.longest_read->worker, s.longest_read->first, s.longest_read->last, s.longest_read->dataset,
             detail::rate_text(static_cast<double>(s.longest_read->lasted.count()) / 1e9)});
    loader_stage const slowest = s.bottleneck();
    if (slowest == loader_stage::none) return text;
    detail::append_message(text, "; {}{}{} of the time and {}{} for the device, ",
                           {s.workers, s.workers == 1 ? " worker reads " : " workers read ",
                            detail::percent_text(s.worker_fraction(s.drawing + s.reading)),
                            s.workers == 1 ? "waits " : "wait ",
                            detail::percent_text(s.worker_fraction(s.waiting_for_slots))});
    if (s.copying)
        detail::append_message(text, "the link is busy {}, ", {detail::percent_text(s.share(*s.copying))});
    detail::append_message(text, "the program waits {} for batches; ",
                           {detail::percent_text(s.share(s.waiting_for_batches))});
    detail::append_message(text, "bottleneck: {} ({})", {stage_name(slowest), detail::advice_for(slowest)});
    return text;
}

}  // namespace cuota::inline v0

#endif
