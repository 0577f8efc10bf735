// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The call sites of an imported recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/recording/memory_event.hpp>

namespace cuota::inline v0::detail {

/// Numbers the call sites by their texts; the empty site gets 0. Not thread-safe.
class imported_sites {
public:
    [[nodiscard]] std::uint32_t index_of(event_site const& site);
    [[nodiscard]] event_site const& at(std::uint32_t index) const { return sites_[index]; }
    [[nodiscard]] std::vector<event_site> take() { return std::move(sites_); }

    /// Stores a text, cut after 200 bytes, until the program ends.
    [[nodiscard]] static tag stored(std::string_view text) {
        constexpr std::size_t most = 200;
        return tag::named(text.substr(0, most));
    }

private:
    std::vector<event_site> sites_{event_site{}};
    std::map<std::tuple<std::string_view, std::string_view, unsigned>, std::uint32_t> known_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uint32_t imported_sites::index_of(event_site const& site) {
    if (site.name.is_empty() && *site.where.file == '\0') return 0;
    auto const [at, is_new] = known_.try_emplace({site.name.text(), site.where.file, site.where.line}, 0);
    if (is_new) {
        at->second = static_cast<std::uint32_t>(sites_.size());
        sites_.push_back(site);
    }
    return at->second;
}

}  // namespace cuota::inline v0::detail

#endif
