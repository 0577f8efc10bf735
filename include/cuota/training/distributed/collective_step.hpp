// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Consensus of ranks for a step: on its resources, and on the share of each rank.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/training/batches/micro_batches.hpp>
#include <cuota/training/distributed/rank_consensus.hpp>

namespace cuota::inline v0 {

/// Runs `work` on every rank and returns its result if it succeeded on all of them. A refusal (out_of_memory) on one rank is a refusal on
/// all: the others' results are destroyed, and each rank throws. So no rank enters a collective operation, such as a sum over ranks, in
/// which another cannot take part.
///
///     batch const b = *all_or_none(ranks, "the next batch", [&] { return epoch.next(); });
///
/// `what` names the work and is the same on all ranks.
/// Threads: as the rank_consensus.
/// Throws:  this rank's own refusal; if only others were refused, an out_of_memory that names one; any other exception of `work`, and on
///          the other ranks rank_lost_error that names this one; exceptions of the rank_consensus.
/// Cost:    one name.
template <std::invocable Work>
std::invoke_result_t<Work&> all_or_none(rank_consensus& ranks, std::string_view what, Work work,
                                        source_location where = source_location::current()) {
    using result = std::invoke_result_t<Work&>;
    if constexpr (std::is_void_v<result>) {
        auto const went = detail::run_agreed(
            &ranks, what,
            [&] {
                work();
                return detail::outcome::went_well;
            },
            where);
        if (went.agreed == detail::outcome::refused) detail::throw_refusal(went, std::string{what}, where);
    } else {
        std::optional<result> made;
        all_or_none(
            ranks, what, [&] { made.emplace(work()); }, where);
        return *std::move(made);
    }
}

/// Returns this rank's share of a batch distributed over the ranks in rank order; `count` is its number of samples, which may differ
/// between ranks and may be 0.
///
/// Its weight is exact, as a micro_batch's: means over the ranks' samples times the weights sum to the mean over the whole batch, and so do
/// the gradients. Divide a loss that is a sum over samples by `batch_size` instead.
/// Throws:  usage_error if no rank has a sample; exceptions of the rank_consensus.
/// Cost:    one name.
/// Threads: as the rank_consensus.
/// Example: see gradient_buckets.
[[nodiscard]] micro_batch local_share(rank_consensus& ranks, std::size_t count,
                                      source_location where = source_location::current());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE micro_batch local_share(rank_consensus& ranks, std::size_t count, source_location where) {
    std::vector<std::uint64_t> const counts = ranks.all_gather(count, "samples of a step", where);
    micro_batch part{0, count, 0};
    for (std::size_t r = 0; r != counts.size(); ++r) {
        auto const here = static_cast<std::size_t>(counts[r]);
        if (r < ranks.rank()) part.first += here;
        part.batch_size = checked_add(part.batch_size, here).value_or(unlimited);
    }
    if (part.batch_size == 0)
        detail::throw_usage_error(where, "local_share: no rank has a sample in this step");
    return part;
}

}  // namespace cuota::inline v0

#endif
