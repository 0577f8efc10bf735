// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a pool must hold, kept beside it by who uses it and by its source: for the tests that walk through a pool at random.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace pool_tests {

/// Live blocks and segments by address. Threads: any. Says once, in wrong(), which claim did not hold.
class shadow {
public:
    static constexpr std::size_t granule = 256;

    // --- what the pool's user says: after an allocation, before a release ---

    void took(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        std::uintptr_t const at = address(p);
        std::uintptr_t const end = at + cuota::round_up(bytes, granule);
        claim(at % granule == 0, "a block is aligned");
        auto const segment = segments_.upper_bound(at);
        claim(segment != segments_.begin() && end <= end_of(*std::prev(segment)),
              "a block lies in a segment");
        auto const after = live_.lower_bound(at);
        claim(after == live_.end() || end <= after->first, "a block ends before the next live one");
        claim(after == live_.begin() || end_of(*std::prev(after)) <= at,
              "a block begins after the live one before it");
        live_.emplace(at, end - at);
        requested_ += bytes;
        allocated_ += end - at;
        peak_requested_ = std::max(peak_requested_, requested_);
        peak_allocated_ = std::max(peak_allocated_, allocated_);
    }
    void gives(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        claim(live_.erase(address(p)) == 1, "what is given back was live");
        requested_ -= bytes;
        allocated_ -= cuota::round_up(bytes, granule);
    }
    /// What is asked for next. For one thread.
    void wants(std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        wanted_ = bytes;
    }
    /// After a refusal for want of memory, by a pool that may have `limit` bytes of a source that has them.
    void refused(std::size_t bytes, std::size_t limit) {
        std::scoped_lock const lock{guard_};
        claim(largest_gap() < bytes, "what fits a gap is not refused");
        std::size_t idle = 0;
        for_each_gap([&](std::size_t gap, bool is_whole) { idle += is_whole ? gap : 0; });
        claim(reserved_ - idle + cuota::round_up(bytes, granule) > limit,
              "what fits beside what is in use is not refused");
    }
    void trimmed(std::size_t keep) {
        std::scoped_lock const lock{guard_};
        bool any_idle = false;
        for_each_gap([&](std::size_t, bool is_whole) { any_idle |= is_whole; });
        claim(reserved_ <= keep || !any_idle, "a trim gives back what is idle");
    }

    // --- what its source says ---

    void segment_comes(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        claim(wanted_ == 0 || largest_gap() < wanted_, "a pool grows only when nothing fits");
        segments_.emplace(address(p), bytes);
        reserved_ += bytes;
        peak_reserved_ = std::max(peak_reserved_, reserved_);
    }
    void segment_goes(void const* p, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        auto const segment = segments_.find(address(p));
        claim(segment != segments_.end() && segment->second == bytes, "a segment goes back as it came");
        auto const first = live_.lower_bound(address(p));
        claim(first == live_.end() || first->first >= address(p) + bytes,
              "nothing is live in a segment that goes");
        segments_.erase(address(p));
        reserved_ -= bytes;
    }
    void segment_is_lost(void* p) {
        std::scoped_lock const lock{guard_};
        lost_.push_back(p);
    }
    /// What the driver did not take back.
    [[nodiscard]] std::vector<void*> take_lost() {
        std::scoped_lock const lock{guard_};
        return std::exchange(lost_, {});
    }

    // --- what follows from it ---

    /// The figures of a pool in which all that is free side by side is one block. The last two are the pool's own.
    [[nodiscard]] cuota::pool_stats expected() const {
        std::scoped_lock const lock{guard_};
        cuota::pool_stats s;
        s.requested = requested_;
        s.allocated = allocated_;
        s.reserved = reserved_;
        s.peak_requested = peak_requested_;
        s.peak_allocated = peak_allocated_;
        s.peak_reserved = peak_reserved_;
        s.live_blocks = live_.size();
        for_each_gap([&](std::size_t, bool) { ++s.free_blocks; });
        s.largest_free = largest_gap();
        s.segments = segments_.size();
        return s;
    }
    [[nodiscard]] std::size_t allocated() const {
        std::scoped_lock const lock{guard_};
        return allocated_;
    }
    /// Empty, or the first claim that did not hold.
    [[nodiscard]] std::string wrong() const {
        std::scoped_lock const lock{guard_};
        return wrong_;
    }

private:
    using runs = std::map<std::uintptr_t, std::size_t>;  // by first byte

    [[nodiscard]] static std::uintptr_t address(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }
    [[nodiscard]] static std::uintptr_t end_of(runs::value_type const& r) { return r.first + r.second; }

    void claim(bool holds, char const* what) {
        if (!holds && wrong_.empty()) wrong_ = what;
    }
    template <class Visit>
    void for_each_gap(Visit visit) const {
        for (auto const& segment : segments_) {
            std::uintptr_t at = segment.first;
            for (auto b = live_.lower_bound(at); b != live_.end() && b->first < end_of(segment); ++b) {
                if (b->first > at) visit(b->first - at, false);
                at = end_of(*b);
            }
            if (at < end_of(segment)) visit(end_of(segment) - at, at == segment.first);
        }
    }
    [[nodiscard]] std::size_t largest_gap() const {
        std::size_t largest = 0;
        for_each_gap([&](std::size_t gap, bool) { largest = std::max(largest, gap); });
        return largest;
    }

    mutable std::mutex guard_;
    runs live_;
    runs segments_;
    std::size_t requested_ = 0;
    std::size_t allocated_ = 0;
    std::size_t reserved_ = 0;
    std::size_t peak_requested_ = 0;
    std::size_t peak_allocated_ = 0;
    std::size_t peak_reserved_ = 0;
    std::size_t wanted_ = 0;
    std::vector<void*> lost_;
    std::string wrong_;
};

/// cudaMalloc and cudaFree, as a source that tells a shadow.
class shadowed_memory {
public:
    explicit shadowed_memory(shadow& told) : told_{&told} {}

    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t alignment) {
        return allocate_sync(bytes, alignment);
    }
    void deallocate(cuota::stream_ref, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        deallocate_sync(p, bytes, alignment);
    }
    void* allocate_sync(std::size_t bytes, std::size_t) {
        void* const p = cuota::rt::device_allocate(bytes);
        if (!p) throw cuota::out_of_memory{cuota::refusal{}};
        told_->segment_comes(p, bytes);
        return p;
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t) noexcept {
        // Before it is another's: who has it next says so only after the driver gave it.
        told_->segment_goes(p, bytes);
        if (!cuota::rt::device_free(p)) told_->segment_is_lost(p);
    }
    [[nodiscard]] static constexpr std::size_t granule() noexcept { return 512; }
    [[nodiscard]] static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    friend bool operator==(shadowed_memory const&, shadowed_memory const&) noexcept = default;

private:
    shadow* told_;
};

}  // namespace pool_tests
