// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Report of writes outside of blocks.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/text/leak_summary.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>

namespace cuota::inline v0 {

/// A block with overwritten guard bytes. Example: tests/guard/guard_violation.cpp
struct guard_violation {
    tag name{};                        ///< of the block
    source_location where{};           ///< call site
    void const* at = nullptr;          ///< its first byte
    std::size_t bytes = 0;             ///< as requested
    std::ptrdiff_t offset = 0;         ///< of the first damaged byte: < 0 in front, >= bytes behind
    std::size_t count = 0;             ///< number of damaged bytes on both sides
    std::vector<unsigned char> found;  ///< contents from there: up to 16 guard bytes
    bool found_on_free = false;        ///< false: the block is live

    /// Returns "weights 400 B (train.cpp:10): 4 bytes written past its end, from offset 400: 01 00 80 3f". Throws: std::bad_alloc.
    [[nodiscard]] std::string text() const;
};

/// Thrown when guard bytes were overwritten. Copies share `violations()`.
/// Threads: any. Example: tests/guard/guard_violation.cpp
class CUOTA_PROCESS_TYPE guard_bytes_error : public usage_error {
public:
    /// title: of the resource; found: not empty. Throws: std::bad_alloc.
    guard_bytes_error(std::string const& title, std::vector<guard_violation> found,
                      source_location where = {});

    /// Returns one entry per block.
    [[nodiscard]] std::vector<guard_violation> const& violations() const noexcept { return *found_; }

private:
    static std::string text_of(std::vector<guard_violation> const& found);
    detail::light_shared_ptr<std::vector<guard_violation> const> found_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>

namespace cuota::inline v0 {

CUOTA_INLINE std::string guard_violation::text() const {
    std::string text = detail::message("{}: {}{} written {}, from offset {}:",
                                       {detail::leak_summary::line_of(name, where, bytes),
                                        detail::as_count(count), count == 1 ? " byte" : " bytes",
                                        offset < 0 ? "before its beginning" : "past its end", offset});
    for (unsigned char const byte : found) {
        constexpr char const* digits = "0123456789abcdef";
        text += {' ', digits[byte >> 4], digits[byte & 15]};
    }
    return found_on_free ? text + " (found when it was freed)" : text;
}

CUOTA_INLINE guard_bytes_error::guard_bytes_error(std::string const& title,
                                                  std::vector<guard_violation> found, source_location where)
    : usage_error{title + ": " + text_of(found), where},
      found_{detail::light_shared_ptr<std::vector<guard_violation> const>::make(std::move(found))} {}

CUOTA_INLINE std::string guard_bytes_error::text_of(std::vector<guard_violation> const& found) {
    constexpr std::size_t shown = 4;
    std::string text;
    for (std::size_t i = 0; i != std::min(found.size(), shown); ++i)
        text += (i == 0 ? "" : "; ") + found[i].text();
    if (found.size() > shown)
        detail::append_message(text, "; and {} more blocks", {detail::as_count(found.size() - shown)});
    return text;
}

}  // namespace cuota::inline v0

#endif
