// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Address ranges of a pool, mapped by parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/pool/detail/growth/mapping_table.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/virtual_memory.hpp>

namespace cuota::inline v0::detail {

/// An address range for mappings, which the caller tracks. Threads: any, on different pages.
class mapped_range {
public:
    virtual ~mapped_range() = default;

    [[nodiscard]] virtual std::byte* at() const noexcept = 0;
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;  ///< whole pages
    [[nodiscard]] virtual std::size_t page() const noexcept = 0;   ///< a power of two

    /// The sizes of new mappings while the account has `available` bytes.
    [[nodiscard]] CUOTA_INLINE_IN_PLACE virtual mapping_sizes sizes(std::size_t available) const noexcept;

    /// Maps whole pages by mappings of these sizes, which it advances. Returns false if memory does not suffice; in that case, and on a
    /// throw, the caller must unmap the first `done` bytes.
    [[nodiscard]] CUOTA_INLINE_IN_PLACE virtual bool map(std::byte* at, std::size_t bytes,
                                                         mapping_sizes& sizes, label const& who,
                                                         std::size_t& done) = 0;
    /// Unmaps adjacent whole mappings without pending work. Reports a failure, which changes nothing.
    virtual bool unmap(std::byte* at, std::size_t bytes) noexcept = 0;
};

/// A mapping is at most this fraction of the bytes that account and device have available; docs/design/growth.md has the figures.
inline constexpr std::size_t parts_for_a_mapping = 2048;

/// Addresses per byte of memory: live blocks may leave only addresses beyond them for a request.
inline constexpr std::size_t addresses_per_byte = 4;

/// Pages of a device's memory, counted as this process's.
class device_pages final : public mapped_range {
public:
    /// Reserves a range for at most `most` bytes. Returns null if that is less than a page, or without virtual memory or addresses. Throws:
    /// cuda_error, std::bad_alloc.
    [[nodiscard]] static light_unique_ptr<mapped_range> make(device where, std::size_t most,
                                                             device_set peers = {});

    [[nodiscard]] std::byte* at() const noexcept override { return range_.at(); }
    [[nodiscard]] std::size_t bytes() const noexcept override { return range_.bytes(); }
    [[nodiscard]] std::size_t page() const noexcept override { return page_; }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE mapping_sizes sizes(std::size_t available) const noexcept override;

    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool map(std::byte* at, std::size_t bytes, mapping_sizes& sizes,
                                                 label const& who, std::size_t& done) override;
    CUOTA_INLINE_IN_PLACE bool unmap(std::byte* at, std::size_t bytes) noexcept override;

private:
    device_pages(rt::physical_memory const& memory, device_set users, rt::address_range range,
                 std::size_t page, std::size_t total) noexcept
        : memory_{memory}, users_{users}, range_{std::move(range)}, page_{page}, most_{total} {}

    [[nodiscard]] bool map_one(std::byte* at, std::size_t bytes, label const& who);

    [[nodiscard]] device where() const noexcept { return memory_.where; }

    rt::physical_memory const memory_;
    device_set const users_;  // with its peers
    rt::address_range range_;
    std::size_t const page_;
    // the process's maximum: the device's total, or its bytes when a mapping last failed
    std::atomic<std::size_t> most_;
};

/// Addresses without memory, with pages of 2 MiB.
class address_pages final : public mapped_range {
public:
    /// Reserves a range; null if `most` is less than a page. Throws: out_of_memory if no addresses are left.
    [[nodiscard]] static light_unique_ptr<mapped_range> make(dry_run_memory source, std::size_t most);

    [[nodiscard]] std::byte* at() const noexcept override { return at_; }
    [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
    [[nodiscard]] std::size_t page() const noexcept override { return page_bytes; }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool map(std::byte*, std::size_t bytes, mapping_sizes& sizes,
                                                 label const&, std::size_t& done) override;
    bool unmap(std::byte*, std::size_t) noexcept override { return true; }

private:
    static constexpr std::size_t page_bytes = std::size_t{2} << 20;
    // 500 such pools fit a source
    static constexpr std::size_t most_bytes = std::size_t{16} << 40;

    address_pages(dry_run_memory& source, std::size_t bytes);

    std::byte* at_;
    std::size_t bytes_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE light_unique_ptr<mapped_range> device_pages::make(device where, std::size_t most,
                                                               device_set peers) {
    if (!rt::supports_virtual_memory(where)) return nullptr;
    std::size_t const page = rt::page_size(where);
    if (most < page) return nullptr;
    std::size_t const total = where.memory().total;
    std::size_t const full = round_up(std::min(most, total), page);
    rt::address_range range{where, full * addresses_per_byte + page};
    if (range.bytes() == 0) return nullptr;
    peers.add(where);
    return light_unique_ptr<mapped_range>{
        new device_pages{rt::physical_memory_of(where), peers, std::move(range), page, total}};
}

CUOTA_INLINE_IN_PLACE mapping_sizes device_pages::sizes(std::size_t available) const noexcept {
    std::size_t const most = most_;
    return mapped_range::sizes(std::min(available, most - std::min(most, taken_on(where()).load())));
}

CUOTA_INLINE_IN_PLACE mapping_sizes mapped_range::sizes(std::size_t available) const noexcept {
    return {page(), unlimited, parts_for_a_mapping, available};
}

CUOTA_INLINE_IN_PLACE bool device_pages::map(std::byte* at, std::size_t bytes, mapping_sizes& sizes,
                                             label const& who, std::size_t& done) {
    device_scope const here{where()};
    for (done = 0; done != bytes;) {
        std::size_t const size = sizes.next(bytes - done);
        if (!map_one(at + done, size, who)) return false;
        done += size;
    }
    rt::allow_access(users_, at, bytes);
    return true;
}

CUOTA_INLINE_IN_PLACE bool device_pages::unmap(std::byte* at, std::size_t bytes) noexcept {
    bool done = false;
    report_failure_of([&] {
        device_scope const here{where()};
        done = rt::unmap_memory(at, bytes);
    });
    if (done) count_given_back(where(), bytes);
    return done;
}

CUOTA_INLINE bool device_pages::map_one(std::byte* at, std::size_t bytes, label const& who) {
    count_taken(where(), bytes);
    bool mapped = false;
    try {
        rt::set_call_site(who.where, who.name);
        mapped = rt::map_memory(memory_, at, bytes);
    } catch (...) {
        count_given_back(where(), bytes);
        throw;
    }
    if (mapped) return true;
    count_given_back(where(), bytes);
    most_ = taken_on(where()).load();
    return false;
}

CUOTA_INLINE light_unique_ptr<mapped_range> address_pages::make(dry_run_memory source, std::size_t most) {
    if (most < page_bytes) return nullptr;
    std::size_t const full = round_up(std::min(most, most_bytes), page_bytes);
    return light_unique_ptr<mapped_range>{new address_pages{source, full * addresses_per_byte + page_bytes}};
}

CUOTA_INLINE_IN_PLACE bool address_pages::map(std::byte*, std::size_t bytes, mapping_sizes& sizes,
                                              label const&, std::size_t& done) {
    for (done = 0; done != bytes;) done += sizes.next(bytes - done);
    return true;
}

CUOTA_INLINE address_pages::address_pages(dry_run_memory& source, std::size_t bytes)
    : at_{std::bit_cast<std::byte*>(
          round_up(std::bit_cast<std::uintptr_t>(source.allocate_sync(bytes + page_bytes)), page_bytes))},
      bytes_{bytes} {}

}  // namespace cuota::inline v0::detail

#endif
