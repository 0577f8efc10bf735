// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// An upstream that returns addresses without memory behind them; a pool never accesses its memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/resource/resource.hpp>

namespace bench {

class addresses {
public:
    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t) noexcept { return take(bytes); }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t bytes, std::size_t) noexcept { return take(bytes); }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    static constexpr std::size_t granularity() noexcept { return segment; }
    static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    friend bool operator==(addresses, addresses) noexcept { return true; }

private:
    static constexpr std::size_t segment = std::size_t{2} << 20;

    void* take(std::size_t bytes) noexcept {
        void* const p = reinterpret_cast<void*>(next_);
        next_ += bytes + segment;
        return p;
    }
    std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

}  // namespace bench
