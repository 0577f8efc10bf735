// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Pages of host memory.
#pragma once

#include <cstddef>

#include <sys/mman.h>
#include <unistd.h>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>

namespace cuota::inline v0::detail {

/// Returns the page size, a power of two.
[[nodiscard]] std::size_t page_bytes() noexcept;

/// Maps pages, huge ones where available. Returns null on failure.
[[nodiscard]] std::byte* map_pages(std::size_t bytes) noexcept;
inline void unmap_pages(void* at, std::size_t bytes) noexcept { (void)::munmap(at, bytes); }

[[nodiscard]] std::size_t threads_to_touch(std::size_t bytes) noexcept;

/// Makes all pages resident, in parallel: clearing pages takes most of the time of locking them.
void touch_pages(std::byte* at, std::size_t bytes, std::size_t threads) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <thread>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::size_t page_bytes() noexcept {
    static std::size_t const bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
}

CUOTA_INLINE std::byte* map_pages(std::size_t bytes) noexcept {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    (void)::madvise(at, bytes, MADV_HUGEPAGE);  // best effort
    return static_cast<std::byte*>(at);
}

CUOTA_INLINE std::size_t threads_to_touch(std::size_t bytes) noexcept {
    constexpr std::size_t worth_a_thread = std::size_t{32} << 20;
    std::size_t const useful = std::clamp<std::size_t>(bytes / worth_a_thread, 1, 4);
    return std::min<std::size_t>(useful, std::max(1u, std::thread::hardware_concurrency()));
}

CUOTA_INLINE void touch_pages(std::byte* at, std::size_t bytes, std::size_t threads) noexcept {
    auto const touch = [](std::byte volatile* first, std::size_t count) {
        for (std::size_t i = 0; i < count; i += page_bytes()) first[i] = std::byte{0};
    };
    std::size_t const a_part = round_up(bytes / std::max<std::size_t>(threads, 1) + 1, page_bytes());
    dynamic_array<std::jthread> others;
    std::size_t done = std::min(a_part, bytes);  // the first part is for this thread
    try {
        others.reserve(threads);
        while (done < bytes) {
            std::size_t const now = std::min(a_part, bytes - done);
            others.emplace_back(touch, at + done, now);
            done += now;
        }
    } catch (std::exception const&) { touch(at + done, bytes - done); }
    touch(at, std::min(a_part, bytes));
}

}  // namespace cuota::inline v0::detail

#endif
