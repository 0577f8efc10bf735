// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Weights as floats and in 16 bits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/training/precision/cast.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// A float master copy of weights and a working copy in Half, so that updates too small for 16 bits are not lost (Micikevicius et al.,
/// Mixed Precision Training, 2018, section 3.1).
///
///     cuota::master_weights<cuota::half> w{n, s, pool, "weights"};
///     ... forward and backward, with w.low_precision(s) ...
///     ... the optimizer's step, with w.write(s) ...
///     w.refresh(s);
///
/// Move-only.
/// Order:   of the stream arguments.
/// Threads: as device_buffer.
/// Throws:  as device_buffer. On failure, nothing is changed or stays allocated.
/// Cost:    6 bytes per weight; `refresh` is one kernel.
template <storage_half Half>
class master_weights {
public:
    /// Allocates `count` zeros.
    master_weights(element_count count, stream_ref home, resource_ref const& memory, tag name = {},
                   source_location where = source_location::current())
        : masters_{count, home, memory, name, where}, working_{count, home, memory, name, where} {}
    /// Copies host weights into both copies, and waits.
    master_weights(std::span<float const> host, stream_ref home, resource_ref const& memory, tag name = {},
                   source_location where = source_location::current())
        : masters_{host.size(), home, memory, no_init, name, where}, working_{host.size(), home, memory,
                                                                              no_init,     name, where} {
        masters_.copy_from(host, home, where);
        refresh(home, where);
    }

    /// Returns the bytes of the two allocations for `count` weights, each rounded up to `granularity`; `unlimited` on overflow.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t count,
                                                     std::size_t granularity = 1) noexcept {
        auto const masters = checked_mul(count, sizeof(float));
        auto const working = checked_mul(count, sizeof(Half));
        if (!masters || !working) return unlimited;
        return checked_add(round_up(*masters, granularity), round_up(*working, granularity))
            .value_or(unlimited);
    }
    [[nodiscard]] std::size_t size() const noexcept { return masters_.size(); }  ///< number of weights
    /// Returns the bytes of both copies.
    [[nodiscard]] std::size_t bytes() const noexcept { return masters_.bytes() + working_.bytes(); }
    [[nodiscard]] stream_ref home() const noexcept { return masters_.home(); }  ///< stream of both copies

    /// Leases the masters for an update. Call `refresh` afterwards.
    [[nodiscard]] lease<float> write(stream_ref s, source_location where = source_location::current()) {
        lease<float> all = masters_.write(s, where);
        written_ = where;
        return all;
    }
    /// Leases the masters for reading.
    [[nodiscard]] lease<float const> read(stream_ref s,
                                          source_location where = source_location::current()) const {
        return masters_.read(s, where);
    }
    /// Leases the working copy for reading. Throws: usage_error if the masters were written since the last refresh.
    [[nodiscard]] lease<Half const> low_precision(stream_ref s,
                                                  source_location where = source_location::current()) const {
        if (written_)
            detail::throw_usage_error(
                where,
                "master_weights: the working copy is outdated: the masters were written at "
                "{}; call refresh()",
                {*written_});
        return working_.read(s, where);
    }
    /// Returns false between `write` and `refresh`.
    [[nodiscard]] bool is_in_sync() const noexcept { return !written_; }

    /// Rounds the masters to nearest into the working copy.
    void refresh(stream_ref s, source_location where = source_location::current()) {
        cast(s, masters_, working_, where);
        written_.reset();
    }

private:
    device_buffer<float> masters_;
    device_buffer<Half> working_;
    std::optional<source_location> written_;  // call site of the last write since refresh
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
