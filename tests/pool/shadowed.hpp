// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Upstreams of a pool that report their memory to a shadow.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <cuota/core/refusal.hpp>
#include <cuota/pool/detail/growth/mapped_range.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "pool/shadow.hpp"

namespace pool_tests {

using namespace cuota::literals;

/// Allocates by cudaMalloc.
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
        // Reported first: another thread that allocates this memory reports it after the driver has returned it.
        told_->segment_goes(p, bytes);
        if (!cuota::rt::device_free(p)) told_->segment_is_lost(p);
    }
    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return 512; }
    [[nodiscard]] static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    friend bool operator==(shadowed_memory const&, shadowed_memory const&) noexcept = default;

private:
    shadow* told_;
};

/// Pages of the device, in mappings of at most `largest` bytes and at most half of the bytes that are available.
class shadowed_pages final : public cuota::detail::mapped_range {
public:
    shadowed_pages(shadow& told, std::size_t most, std::size_t largest)
        : told_{told},
          largest_{largest},
          pages_{cuota::detail::device_pages::make(cuota::device::current(), most)} {
        told_.has_range(at(), bytes(), page());
    }

    [[nodiscard]] std::byte* at() const noexcept override { return pages_->at(); }
    [[nodiscard]] std::size_t bytes() const noexcept override { return pages_->bytes(); }
    [[nodiscard]] std::size_t page() const noexcept override { return pages_->page(); }
    [[nodiscard]] cuota::detail::mapping_sizes sizes(std::size_t available) const noexcept override {
        return {page(), largest_, 2, available};
    }
    [[nodiscard]] bool map(std::byte* at, std::size_t bytes, cuota::detail::mapping_sizes& sizes,
                           cuota::label const& who, std::size_t& done) override {
        struct telling {
            shadow& told;
            std::byte* at;
            std::size_t bytes;
            cuota::detail::mapping_sizes sizes;
            std::size_t& done;
            ~telling() {
                for (std::size_t told_of = 0; told_of != done;) {
                    std::size_t const size = sizes.next(bytes - told_of);
                    told.pages_come(at + told_of, size);
                    told_of += size;
                }
            }
        } const then{told_, at, bytes, sizes, done};
        return pages_->map(at, bytes, sizes, who, done);
    }
    bool unmap(std::byte* at, std::size_t bytes) noexcept override {
        // Reported last: the pool maps these pages again only after this call.
        bool const done = pages_->unmap(at, bytes);
        if (done) told_.pages_go(at, bytes);
        else told_.pages_stay(at, bytes);
        return done;
    }

private:
    shadow& told_;
    std::size_t const largest_;
    cuota::detail::light_unique_ptr<mapped_range> const pages_;
};

}  // namespace pool_tests

namespace cuota::inline v0::detail {

struct pool_on_pages {
    [[nodiscard]] static scoped_pool make(budget const& account, any_resource source, pool_options wanted,
                                          cuota::detail::light_unique_ptr<mapped_range> pages) {
        return scoped_pool{account, std::move(source),          device::current(),
                           wanted,  source_location::current(), std::move(pages)};
    }
};

}  // namespace cuota::inline v0::detail

namespace pool_tests {

enum class grown_by { segments, pages };

/// Makes a pool of at most `most` bytes; the shadow sees all its memory.
[[nodiscard]] inline cuota::scoped_pool make_pool(cuota::budget const& account, shadow& told, grown_by how,
                                                  std::size_t most, cuota::pool_options wanted = {},
                                                  std::size_t largest_mapping = 2_MiB) {
    return cuota::detail::pool_on_pages::make(
        account, shadowed_memory{told}, wanted,
        how == grown_by::pages
            ? cuota::detail::light_unique_ptr<shadowed_pages>::make(told, most, largest_mapping)
            : nullptr);
}

}  // namespace pool_tests
