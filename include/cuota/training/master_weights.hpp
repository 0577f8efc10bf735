// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Weights twice: as floats for the optimiser, in 16 bits for the passes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/core/bytes.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/training/cast.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// A float master copy of weights and a working copy in Half: an update that is too small for 16 bits is not lost
/// (Micikevicius et al., Mixed Precision Training, 2018, section 3.1).
///
///     cuota::master_weights<cuota::half> w{n, s, pool, "weights"};
///     ... forward and backward, with w.working(s) ...
///     ... the optimiser's step, with w.write(s) ...
///     w.refresh(s);
///
/// Move-only. A working copy is not handed out while it is older than the masters.
/// Order:   of the streams that are given. Threads: as device_buffer.
/// Throws:  as device_buffer; a refusal leaves nothing behind. Operations that throw change nothing.
/// Cost:    6 bytes a weight; `refresh` is one kernel.
template <stored_half Half>
class master_weights {
public:
    /// count weights, all zero.
    master_weights(element_count count, stream_ref home, resource_ref const& memory, tag name = {},
                   place where = place::here())
        : masters_{count, home, memory, name, where}, working_{count, home, memory, name, where} {}
    /// The host's, in both copies. Waits for the copy, as device_buffer does.
    master_weights(std::span<float const> host, stream_ref home, resource_ref const& memory, tag name = {},
                   place where = place::here())
        : masters_{host.size(), home, memory, no_init, name, where}, working_{host.size(), home, memory,
                                                                              no_init,     name, where} {
        masters_.copy_from(host, home, where);
        refresh(home, where);
    }

    /// What `count` weights take: two allocations, each rounded up to the granule of where they come from, or not at all.
    /// `unlimited`: more than can be said.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t count, std::size_t granule = 1) noexcept {
        auto const masters = checked_mul(count, sizeof(float));
        auto const working = checked_mul(count, sizeof(Half));
        if (!masters || !working) return unlimited;
        return checked_add(round_up(*masters, granule), round_up(*working, granule)).value_or(unlimited);
    }
    [[nodiscard]] std::size_t size() const noexcept { return masters_.size(); }  ///< weights
    /// Of both copies.
    [[nodiscard]] std::size_t bytes() const noexcept { return masters_.bytes() + working_.bytes(); }
    [[nodiscard]] stream_ref home() const noexcept { return masters_.home(); }  ///< where both are given back

    /// The masters, for work on s that updates them. `refresh` comes next.
    [[nodiscard]] lease<float> write(stream_ref s, place where = place::here()) {
        lease<float> all = masters_.write(s, where);
        written_ = where;
        return all;
    }
    /// The masters, for work on s that reads them.
    [[nodiscard]] lease<float const> read(stream_ref s, place where = place::here()) const {
        return masters_.read(s, where);
    }
    /// The working copy, for work on s that reads it.
    /// Throws: misuse when the masters were written since the last refresh.
    [[nodiscard]] lease<Half const> working(stream_ref s, place where = place::here()) const {
        if (written_)
            detail::throw_misuse(
                where, "the working copy is older than its masters, which were written at {}: refresh it",
                {*written_});
        return working_.read(s, where);
    }
    /// False between `write` and `refresh`.
    [[nodiscard]] bool is_fresh() const noexcept { return !written_; }

    /// The working copy is the masters, rounded to nearest, in order of s. Throws: misuse, cuda_error.
    void refresh(stream_ref s, place where = place::here()) {
        cast(s, masters_, working_, where);
        written_.reset();
    }

private:
    device_buffer<float> masters_;
    device_buffer<Half> working_;
    std::optional<place> written_;  // by whom, since the last refresh
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
