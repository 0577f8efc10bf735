// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Records one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/planning/planned_step.hpp>

namespace cuota::inline v0::detail {

/// Not thread-safe.
class step_recorder {
public:
    /// Strong guarantee. Throws: std::bad_alloc.
    void note_taken(void const* p, std::size_t bytes, label const& who);
    /// Ignores unrecorded blocks.
    void note_given(void const* p) noexcept;

    /// Without offsets; live blocks are not planned.
    [[nodiscard]] planned_step end();
    [[nodiscard]] std::vector<allocation_group> outlived() const;

private:
    [[nodiscard]] static bool is_live(planned_request const& r) noexcept { return r.live.until == 0; }

    std::vector<planned_request> requests_;
    std::vector<allocation_group> labels_;
    std::unordered_map<void const*, std::size_t> live_;  // request by address
    std::uint64_t now_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void step_recorder::note_taken(void const* p, std::size_t bytes, label const& who) {
    labels_.push_back({who.name, who.where, bytes});
    try {
        requests_.push_back({{now_, 0, bytes}});
        live_[p] = requests_.size() - 1;
    } catch (...) {
        requests_.resize(labels_.size() - 1);
        labels_.pop_back();
        throw;
    }
    ++now_;
}

CUOTA_INLINE void step_recorder::note_given(void const* p) noexcept {
    auto const found = live_.find(p);
    if (found == live_.end()) return;
    requests_[found->second].live.until = now_++;
    live_.erase(found);
}

CUOTA_INLINE planned_step step_recorder::end() {
    for (planned_request& r : requests_) {
        if (!is_live(r)) continue;
        r.live.until = now_;
        r.is_planned = false;
    }
    return {std::move(requests_)};
}

CUOTA_INLINE std::vector<allocation_group> step_recorder::outlived() const {
    std::vector<allocation_group> all;
    for (std::size_t i = 0; i != requests_.size(); ++i)
        if (is_live(requests_[i])) all.push_back(labels_[i]);
    return all;
}

}  // namespace cuota::inline v0::detail

#endif
