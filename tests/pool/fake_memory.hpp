// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Pages and segments that are not backed by memory, for tests that count what a pool maps and allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/pool/detail/pool_state.hpp>

namespace pool_tests {

using namespace cuota::literals;

/// Counts mapped bytes; `most` is the capacity.
class fake_pages final : public cuota::detail::mapped_range {
public:
    fake_pages(std::size_t& mapped, std::size_t most) : mapped_{&mapped}, most_{most} {}
    [[nodiscard]] std::byte* at() const noexcept override {
        return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    }
    [[nodiscard]] std::size_t bytes() const noexcept override { return 1_GiB; }
    [[nodiscard]] std::size_t page() const noexcept override { return 2_MiB; }
    [[nodiscard]] bool map(std::byte*, std::size_t bytes, cuota::detail::mapping_sizes& sizes,
                           cuota::label const&, std::size_t& done) override {
        for (done = 0; done != bytes;) {
            std::size_t const size = sizes.next(bytes - done);
            if (size > most_ - *mapped_) return false;
            *mapped_ += size;
            done += size;
        }
        return true;
    }
    bool unmap(std::byte*, std::size_t bytes) noexcept override {
        *mapped_ -= bytes;
        return true;
    }

private:
    std::size_t* mapped_;
    std::size_t most_;
};

/// Upstream that returns each address once, without memory. Counts allocated bytes; `most` is the capacity.
class recorded_source {
public:
    explicit recorded_source(std::size_t most = cuota::unlimited) : seen_{std::make_shared<numbers>()} {
        seen_->most = most;
    }
    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate(cuota::stream_ref, void*, std::size_t bytes, std::size_t) noexcept { give(bytes); }
    void* allocate_sync(std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate_sync(void*, std::size_t bytes, std::size_t) noexcept { give(bytes); }
    static constexpr std::size_t granularity() noexcept { return 256; }
    static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    bool operator==(recorded_source const&) const noexcept = default;

    [[nodiscard]] std::size_t taken() const noexcept { return seen_->taken; }
    [[nodiscard]] std::size_t calls() const noexcept { return seen_->calls; }

private:
    struct numbers {
        std::size_t most;
        std::size_t taken = 0;
        std::size_t calls = 0;
        std::uintptr_t next = std::uintptr_t{1} << 41;
    };
    void* take(std::size_t bytes) {
        ++seen_->calls;
        if (bytes > seen_->most - seen_->taken) throw cuota::out_of_memory{cuota::refusal{}};
        seen_->taken += bytes;
        return reinterpret_cast<void*>(std::exchange(seen_->next, seen_->next + bytes + 256));
    }
    void give(std::size_t bytes) noexcept { seen_->taken -= bytes; }

    std::shared_ptr<numbers> seen_;
};

/// Upstream that always throws out_of_memory, without a heap allocation.
struct empty_source {
    void* allocate(cuota::stream_ref, std::size_t, std::size_t) {
        throw cuota::out_of_memory{cuota::refusal{}};
    }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t, std::size_t) { throw cuota::out_of_memory{cuota::refusal{}}; }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    std::size_t granularity() const noexcept { return 256; }
    static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    bool operator==(empty_source const&) const noexcept { return true; }
};

using shared_pool = cuota::detail::intrusive_ptr<cuota::detail::pool_state>;

[[nodiscard]] inline shared_pool pool_of_segments(cuota::budget const& budget,
                                                  recorded_source const& source) {
    return shared_pool::make(budget, source, std::nullopt, cuota::tag{"main"});
}
[[nodiscard]] inline shared_pool pool_of(cuota::budget const& budget, recorded_source const& source,
                                         std::size_t& mapped, std::size_t most) {
    return shared_pool::make(budget, source, std::nullopt, cuota::tag{"main"}, 0,
                             cuota::detail::light_unique_ptr<fake_pages>::make(mapped, most));
}
[[nodiscard]] inline shared_pool pool_of_pages(cuota::budget const& budget, std::size_t& mapped,
                                               std::size_t most) {
    return shared_pool::make(budget, empty_source{}, std::nullopt, cuota::tag{"main"}, 0,
                             cuota::detail::light_unique_ptr<fake_pages>::make(mapped, most));
}

/// Makes a pool's memory that has such pages only.
[[nodiscard]] inline cuota::detail::pool_memory paged_memory(cuota::budget const& budget, std::size_t& mapped,
                                                             std::size_t most) {
    return {budget,
            empty_source{},
            std::nullopt,
            "main",
            cuota::detail::light_unique_ptr<fake_pages>::make(mapped, most),
            cuota::detail::block::granularity};
}

}  // namespace pool_tests
