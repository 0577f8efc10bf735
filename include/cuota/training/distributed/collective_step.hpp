// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Consensus of ranks on a step's resources and shares.
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

/// Runs `work` on every rank and returns its result if it succeeded on all. If one rank is refused memory (out_of_memory), all ranks throw
/// and destroy their results, so that none enters a collective operation alone.
///
///     batch const b = *all_or_none(ranks, "the next batch", [&] { return epoch.next(); });
///
/// `what`: name of the work, the same on all ranks.
/// Threads: as `ranks`.
/// Throws:  this rank's refusal, or an out_of_memory that names a refused rank; other exceptions of `work`, and rank_lost_error on the
///          other ranks; exceptions of the rank_consensus.
/// Cost:    one all-gather.
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

/// Returns this rank's share of a batch that is distributed in rank order. `count`: its number of samples, which may be 0. Its weight makes
/// the ranks' gradients sum to those of the whole batch (see micro_batch).
/// Throws:  usage_error if no rank has a sample; exceptions of the rank_consensus.
/// Cost:    one all-gather.
/// Threads: as `ranks`.
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
