// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Limit that follows the host's available memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/guard/detail/limits/queried_limit.hpp>

namespace cuota::inline v0::detail {

/// Follows host_memory(root).available.
class CUOTA_PROCESS_TYPE host_limit final : public queried_limit {
public:
    /// `total` bytes of the host.
    host_limit(std::size_t total, std::size_t keep_free, std::chrono::nanoseconds max_age, std::string root);

    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::optional<device_info> facts() const noexcept override;

private:
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t free_now() const override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE counters own() const noexcept override;

    std::string const root_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/resource/resource.hpp>
#include <cuota/runtime/host_memory.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE host_limit::host_limit(std::size_t total, std::size_t keep_free,
                                    std::chrono::nanoseconds max_age, std::string root)
    : queried_limit{std::max(keep_free, host_margin(total)), max_age}, root_{std::move(root)} {}

CUOTA_INLINE_IN_PLACE std::optional<device_info> host_limit::facts() const noexcept {
    std::optional<device_info> facts;
    report_failure_of([&] {
        host_memory_info host = host_memory(root_);
        facts = device_info{device_info::host, std::move(host.bounded_by), host.total, host.available,
                            taken_on_host().load()};
    });
    return facts;
}

CUOTA_INLINE_IN_PLACE std::size_t host_limit::free_now() const { return host_memory(root_).available; }

CUOTA_INLINE_IN_PLACE auto host_limit::own() const noexcept -> counters {
    return {taken_on_host(), given_back_on_host()};
}

}  // namespace cuota::inline v0::detail

#endif
