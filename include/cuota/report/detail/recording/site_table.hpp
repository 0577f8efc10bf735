// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Numbers pairs of a tag and a call site.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/report/recording/memory_event.hpp>

namespace cuota::inline v0::detail {

struct merged_sites {
    std::vector<event_site> sites{};        ///< the first one is empty
    std::vector<std::uint32_t> index_of{};  ///< index in `sites` by the result of `intern`
};

/// Sites are compared by the addresses of their strings. Equal literals in two files may have two addresses, so `merged` compares contents.
/// All memory is allocated at construction. The empty site gets 0, and so do new sites in a full table, which are counted.
///
/// Threads: any. Cost: a few ns for a known site, or in a full table; a lock for a new one.
class site_table {
public:
    static constexpr std::size_t most = std::size_t{1} << 24;

    /// Throws: usage_error if `capacity` exceeds `most`; std::bad_alloc.
    explicit site_table(std::size_t capacity, source_location where = source_location::current());

    [[nodiscard]] std::uint32_t intern(tag name, source_location where) noexcept;

    /// Counts the empty site, too.
    [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
    /// Returns the number of sites that got 0 in the full table.
    [[nodiscard]] std::uint64_t without_room() const noexcept;

    /// Merges equal sites into the first of them.
    [[nodiscard]] merged_sites merged() const;

private:
    [[nodiscard]] static std::size_t checked(std::size_t capacity, source_location where);
    [[nodiscard]] static std::uint64_t number(char const* text) noexcept;
    [[nodiscard]] std::size_t hash(tag name, source_location where) const noexcept;
    [[nodiscard]] static bool is(event_site const& s, tag name, source_location where) noexcept;
    // Advances `at` to the site's entry, or to the empty one for it; at least half of the entries are empty.
    [[nodiscard]] std::uint32_t find(tag name, source_location where, std::size_t& at) const noexcept;
    [[gnu::noinline]] std::uint32_t add(tag name, source_location where, std::size_t at) noexcept {
        if (is_full_.load(std::memory_order_acquire)) {
            if (std::uint32_t const known = find(name, where, at)) return known;  // the last site added
        } else {
            region_lock const lock{guard_};
            if (std::uint32_t const known = find(name, where, at)) return known;  // another thread added it
            std::size_t const next = size();
            if (next <= capacity_) {
                sites_[next] = {name, where};
                size_.store(next + 1, std::memory_order_release);
                index_[at].store(static_cast<std::uint32_t>(next), std::memory_order_release);
                if (next == capacity_)
                    is_full_.store(true, std::memory_order_release);  // every site is in the index
                return static_cast<std::uint32_t>(next);
            }
        }
        without_room_.fetch_add(1, std::memory_order_relaxed);
        return 0;
    }

    std::size_t const capacity_;
    std::size_t const mask_;
    std::unique_ptr<event_site[]> const sites_;
    std::unique_ptr<std::atomic<std::uint32_t>[]> const index_;
    std::atomic<std::size_t> size_ = 1;
    std::atomic<bool> is_full_ = capacity_ == 0;
    std::atomic<std::uint64_t> without_room_ = 0;
    object_lock guard_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE site_table::site_table(std::size_t capacity, source_location where)
    : capacity_{checked(capacity, where)},
      mask_{std::bit_ceil(2 * capacity_ + 2) - 1},
      sites_{std::make_unique<event_site[]>(capacity_ + 1)},
      index_{std::make_unique<std::atomic<std::uint32_t>[]>(mask_ + 1)} {}

CUOTA_INLINE std::uint32_t site_table::intern(tag name, source_location where) noexcept {
    if (where.line == 0 && name.is_empty()) return 0;
    std::size_t at = hash(name, where);
    if (std::uint32_t const known = find(name, where, at)) [[likely]]
        return known;
    return add(name, where, at);
}

CUOTA_INLINE std::uint64_t site_table::without_room() const noexcept {
    return without_room_.load(std::memory_order_relaxed);
}

CUOTA_INLINE merged_sites site_table::merged() const {
    merged_sites all{{event_site{}}, {0}};
    std::map<std::tuple<std::string_view, std::string_view, unsigned>, std::uint32_t> known;
    std::size_t const count = size();
    for (std::size_t i = 1; i != count; ++i) {
        event_site const& s = sites_[i];
        auto const next = static_cast<std::uint32_t>(all.sites.size());
        auto const entry = known.try_emplace({s.name.text(), s.where.file, s.where.line}, next);
        if (entry.second) all.sites.push_back(s);
        all.index_of.push_back(entry.first->second);
    }
    return all;
}

CUOTA_INLINE std::size_t site_table::checked(std::size_t capacity, source_location where) {
    if (capacity > most)
        throw_usage_error(where, "recorder: {} sites exceed the maximum of {}",
                          {as_count(capacity), as_count(most)});
    return capacity;
}

CUOTA_INLINE std::uint64_t site_table::number(char const* text) noexcept {
    return reinterpret_cast<std::uintptr_t>(text);
}

CUOTA_INLINE std::size_t site_table::hash(tag name, source_location where) const noexcept {
    std::uint64_t const mixed = (number(name.text()) * 0x9e3779b97f4a7c15u) ^
                                (number(where.file) * 0xc2b2ae3d27d4eb4fu) ^
                                (where.line * std::uint64_t{0x165667b19e3779f9u});
    return (mixed >> 32) & mask_;
}

CUOTA_INLINE bool site_table::is(event_site const& s, tag name, source_location where) noexcept {
    return s.name.text() == name.text() && s.where.file == where.file && s.where.line == where.line;
}

CUOTA_INLINE std::uint32_t site_table::find(tag name, source_location where, std::size_t& at) const noexcept {
    for (;; at = (at + 1) & mask_) {
        std::uint32_t const i = index_[at].load(std::memory_order_acquire);
        if (i == 0 || is(sites_[i], name, where)) return i;
    }
}

}  // namespace cuota::inline v0::detail

#endif
