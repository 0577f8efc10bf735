// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What ranks settle before a step: that all of them have what it needs, and how much of its batch each has.
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
#include <cuota/training/agreement.hpp>
#include <cuota/training/micro_batches.hpp>

namespace cuota::inline v0 {

/// Runs `work` on every rank, and returns what it gives when it went well on all of them. A refusal (out_of_memory) on one
/// is a refusal on all: what the others have from it by then is given back, and each throws. So nobody begins what waits
/// for all, a sum over ranks above all, while one of them cannot come.
///
///     batch const b = *all_or_none(ranks, "the next batch", [&] { return epoch.next(); });
///
/// `what` names it, and is the same on all ranks. Threads: as the agreement.
/// Throws:  this rank's own refusal; where another was refused, an out_of_memory that names that one; what else `work`
///          throws, and on the others rank_gone that names this rank; what the agreement throws.
/// Cost:    one question.
template <std::invocable Work>
std::invoke_result_t<Work&> all_or_none(agreement& ranks, std::string_view what, Work work,
                                        place where = place::here()) {
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

/// This rank's part of a batch that the ranks share, in their order, of which it has `count` samples: ragged, or none.
///
/// Its weight is exact, as a micro_batch's is: a mean over this rank's samples times the weight, summed over the ranks, is
/// the mean over the whole batch; and so are the gradients. A loss that is a sum over samples is divided by `of`.
/// Throws: misuse when no rank has any sample; what the agreement throws. Cost: one question.
/// Threads: as the agreement. Example: see gradient_buckets.
[[nodiscard]] micro_batch part_of_ranks(agreement& ranks, std::size_t count, place where = place::here());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_TRAINING

namespace cuota::inline v0 {

CUOTA_INLINE micro_batch part_of_ranks(agreement& ranks, std::size_t count, place where) {
    std::vector<std::uint64_t> const counts = ranks.values(count, "samples of a step", where);
    micro_batch part{0, count, 0};
    for (std::size_t r = 0; r != counts.size(); ++r) {
        auto const here = static_cast<std::size_t>(counts[r]);
        if (r < ranks.rank()) part.first += here;
        part.of = checked_add(part.of, here).value_or(unlimited);
    }
    if (part.of == 0) detail::throw_misuse(where, "part_of_ranks: a step of which no rank has a sample");
    return part;
}

}  // namespace cuota::inline v0

#endif
