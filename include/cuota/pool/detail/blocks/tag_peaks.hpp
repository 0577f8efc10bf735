// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Peaks of live bytes per tag.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/hash_mix.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0::detail {

/// A table of fixed size, so counting does not allocate. Tags beyond `most` get an empty name. Not thread-safe.
class tag_peaks {
public:
    static constexpr std::uint32_t most = 512;

    tag_peaks() : slots_{std::make_unique<slot[]>(slots)}, rows_{std::make_unique<row[]>(most + 1)} {}

    void add(tag name, std::size_t bytes) noexcept;
    void drop(tag name, std::size_t bytes) noexcept { row_of(name).live -= bytes; }

    template <class Visit>
    void for_each(Visit visit) const {
        for (std::uint32_t i = 0; i <= count_; ++i)
            if (rows_[i].peak != 0) visit(rows_[i].name, rows_[i].peak);
    }

private:
    // above `most`: one text may have several addresses
    static constexpr std::uint32_t slots = 2048;

    struct slot {
        char const* text = nullptr;  // null: empty
        std::uint32_t row = 0;
    };
    struct row {
        tag name{};
        std::size_t live = 0;
        std::size_t peak = 0;
    };

    // Looks up by address, so that each text is compared once.
    [[nodiscard]] row& row_of(tag name) noexcept;
    [[nodiscard]] std::uint32_t enter(tag name) noexcept;

    std::unique_ptr<slot[]> slots_;
    std::unique_ptr<row[]> rows_;  // row 0: no name, or beyond `most`
    std::uint32_t count_ = 0;
    std::uint32_t used_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void tag_peaks::add(tag name, std::size_t bytes) noexcept {
    row& r = row_of(name);
    r.live += bytes;
    r.peak = std::max(r.peak, r.live);
}

CUOTA_INLINE auto tag_peaks::row_of(tag name) noexcept -> row& {
    char const* const text = name.text();
    std::size_t i = mix64(reinterpret_cast<std::uintptr_t>(text)) % slots;
    for (; slots_[i].text; i = (i + 1) % slots)
        if (slots_[i].text == text) return rows_[slots_[i].row];
    std::uint32_t const found = enter(name);
    if (used_ != slots / 2) {
        ++used_;
        slots_[i] = {text, found};
    }
    return rows_[found];
}

CUOTA_INLINE std::uint32_t tag_peaks::enter(tag name) noexcept {
    for (std::uint32_t i = 0; i <= count_; ++i)
        if (rows_[i].name == name) return i;
    if (count_ == most) return 0;
    rows_[++count_].name = name;
    return count_;
}

}  // namespace cuota::inline v0::detail

#endif
