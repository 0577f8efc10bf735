// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The records of guarded blocks and pinned memory for their checks.
#pragma once

#include <cstddef>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

/// Guard bytes of a block and the resources of their check: a deallocation allocates nothing.
struct guard_bytes {
    unsigned char* at = nullptr;  // the block
    std::size_t bytes = 0;
    std::size_t alignment = 0;
    std::size_t front = 0;  // offset of the block in upstream's block
    std::size_t total = 0;  // size of upstream's block
    tag name{};
    source_location where{};
    device home{0};                 // of the event
    std::optional<event> done;      // live: guard bytes written; pending: copied to `seen`
    unsigned char* seen = nullptr;  // pinned: front, rear
    guard_bytes* next = nullptr;
};

/// Allocates records for many blocks at once, each with pinned memory for a copy of its guard bytes, and reuses them. Memory is freed by the
/// destructor only, when no record is in use.
///
/// Threads: any.
class guard_bytes_store {
public:
    /// redzone_bytes: of one side of a block; not 0. `name`: of the guarded memory, for errors.
    guard_bytes_store(std::size_t redzone_bytes, tag name) noexcept
        : redzone_bytes_{redzone_bytes}, name_{name} {}
    guard_bytes_store(guard_bytes_store const&) = delete;
    guard_bytes_store& operator=(guard_bytes_store const&) = delete;
    ~guard_bytes_store();

    /// Returns a record that is not in use; its members but `seen` have unspecified values. Throws: out_of_memory, std::bad_alloc, cuda_error.
    [[nodiscard]] guard_bytes& take();
    /// Makes a record available for take().
    void put_back(guard_bytes& record) noexcept;

private:
    struct page {
        light_unique_array<guard_bytes> records;
        void* pinned = nullptr;
        page* next = nullptr;
    };
    [[nodiscard]] std::size_t per_page() const noexcept;
    [[nodiscard]] std::size_t page_bytes() const;
    [[nodiscard]] guard_bytes* try_take() noexcept;
    void add_page();

    std::size_t const redzone_bytes_;
    tag const name_;
    object_lock guard_;
    guard_bytes* free_ = nullptr;
    page* pages_ = nullptr;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/resource/pinned_memory.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE guard_bytes_store::~guard_bytes_store() {
    while (pages_) {
        light_unique_ptr<page> const last{std::exchange(pages_, pages_->next)};
        pinned_memory{}.deallocate_sync(last->pinned, page_bytes());
    }
}

CUOTA_INLINE guard_bytes& guard_bytes_store::take() {
    for (;; add_page())
        if (guard_bytes* const record = try_take()) return *record;
}

CUOTA_INLINE void guard_bytes_store::put_back(guard_bytes& record) noexcept {
    region_lock const lock{guard_};
    record.next = std::exchange(free_, &record);
}

CUOTA_INLINE std::size_t guard_bytes_store::per_page() const noexcept {
    return std::clamp<std::size_t>((std::size_t{64} << 10) / redzone_bytes_, 1, 64);
}

CUOTA_INLINE std::size_t guard_bytes_store::page_bytes() const {
    return bytes_of(2 * per_page(), {name_, {}, "bytes", redzone_bytes_});
}

CUOTA_INLINE guard_bytes* guard_bytes_store::try_take() noexcept {
    region_lock const lock{guard_};
    return free_ ? std::exchange(free_, free_->next) : nullptr;
}

// Allocates without the lock: if the driver refuses, holders are called. The pinned memory comes last, so that nothing must be undone.
CUOTA_INLINE void guard_bytes_store::add_page() {
    std::size_t const count = per_page();
    auto more = light_unique_ptr<page>::make();
    more->records = light_unique_array<guard_bytes>::make(count);
    more->pinned = pinned_memory{}.allocate_sync(page_bytes(), 256, {"redzones", {}});
    region_lock const lock{guard_};
    for (std::size_t i = 0; i != count; ++i) {
        guard_bytes& one = more->records[i];
        one.seen = static_cast<unsigned char*>(more->pinned) + 2 * redzone_bytes_ * i;
        one.next = std::exchange(free_, &one);
    }
    more->next = pages_;
    pages_ = more.detach();
}

}  // namespace cuota::inline v0::detail

#endif
