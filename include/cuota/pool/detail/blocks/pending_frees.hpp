// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Frees to be reported to an observer.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/blocks/stream_order.hpp>
#include <cuota/pool/detail/pool_observer.hpp>

namespace cuota::inline v0::detail {

/// A bounded queue; when full, the oldest free is dropped unreported. Requires the pool's lock.
class pending_frees {
public:
    static constexpr std::size_t most = 4096;
    /// Frees between queries, of one or two CUDA calls per stream.
    static constexpr std::size_t look_every = 64;

    pending_frees() : entries_{std::make_unique<entry[]>(most)} {}

    void add(observed_block const& b, wait_point point, stream_order& order, pool_observer& told) noexcept;
    /// A failed query is reported and counts as busy.
    void settle(stream_order& order, pool_observer& told) noexcept;

private:
    struct entry {
        observed_block block;
        wait_point point;
    };
    [[nodiscard]] entry& at(std::size_t i) noexcept { return entries_[(first_ + i) % most]; }

    std::unique_ptr<entry[]> entries_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    std::size_t since_look_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void pending_frees::add(observed_block const& b, wait_point point, stream_order& order,
                                     pool_observer& told) noexcept {
    if (count_ == most || ++since_look_ == look_every) settle(order, told);
    if (count_ == most) first_ = (first_ + 1) % most, --count_;
    at(count_++) = {b, point};
}

CUOTA_INLINE void pending_frees::settle(stream_order& order, pool_observer& told) noexcept {
    since_look_ = 0;
    if (count_ == 0) return;
    report_failure_of([&] { (void)order.look(); });
    std::size_t left = 0;
    for (std::size_t i = 0; i != count_; ++i) {
        if (order.was_over(at(i).point)) told.free_completed(at(i).block);
        else at(left++) = at(i);
    }
    count_ = left;
}

}  // namespace cuota::inline v0::detail

#endif
