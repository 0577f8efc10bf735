// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Addresses that a pool grows and shrinks in: they are taken once, memory is mapped to them where the pool wants it.
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
#include <cuota/pool/mapping_table.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/virtual_memory.hpp>

namespace cuota::inline v0::detail {

/// A range of addresses that memory can be mapped to, in mappings of one page or several. The caller knows which there are.
/// Threads: any, on different pages.
class page_range {
public:
    virtual ~page_range() = default;

    [[nodiscard]] virtual std::byte* at() const noexcept = 0;
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;  ///< whole pages
    [[nodiscard]] virtual std::size_t page() const noexcept = 0;   ///< bytes; a power of two

    /// How large mappings are made while the account can still give `room` bytes.
    [[nodiscard]] CUOTA_INLINE_IN_PLACE virtual mapping_sizes sizes(std::size_t room) const noexcept;

    /// Puts memory behind whole pages, from the first on, by mappings of these sizes, which are spent. False when there is
    /// too little. Then, and on a throw, what has come may not be used, but unmapped: the first `done` bytes.
    [[nodiscard]] CUOTA_INLINE_IN_PLACE virtual bool map(std::byte* at, std::size_t bytes,
                                                         mapping_sizes& sizes, label const& who,
                                                         std::size_t& done) = 0;
    /// Releases the memory of whole mappings side by side, which no work may still use. False when that failed, which was
    /// reported: all is mapped as before.
    virtual bool unmap(std::byte* at, std::size_t bytes) noexcept = 0;
};

/// The most that one mapping has. Bytes.
inline constexpr std::size_t largest_mapping = std::size_t{64} << 20;
/// A mapping is at most that part of what account and device can still give: of 64 GiB and more the largest, of less than
/// 4 GiB a page. By so little, a pool at its cap serves what it serves when all mappings are pages: 60,000 random blocks of
/// 64 KiB to 256 MiB in 8 GiB are all served while 97 % are live. By a 128th, a third of them are refused.
inline constexpr std::size_t parts_for_a_mapping = 1024;

/// What lives may lie so that addresses for a request are to be had only beyond all of it: there must be more of them than
/// memory. When they run out nevertheless, a segment serves.
inline constexpr std::size_t addresses_per_byte = 4;

/// Pages of a device's memory. What is mapped counts as held by this process on the device.
class device_pages final : public page_range {
public:
    /// A range for at most `most` bytes of memory, which kernels of the device and its peers may reach; null when that is less
    /// than a page, and when the device has no virtual memory, or no addresses for it. Throws: cuda_error, std::bad_alloc.
    [[nodiscard]] static sole<page_range> make(device where, std::size_t most, device_set peers = {});

    [[nodiscard]] std::byte* at() const noexcept override { return range_.at(); }
    [[nodiscard]] std::size_t bytes() const noexcept override { return range_.bytes(); }
    [[nodiscard]] std::size_t page() const noexcept override { return page_; }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE mapping_sizes sizes(std::size_t room) const noexcept override;

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
    device_set const users_;  // the device, and its peers
    rt::address_range range_;
    std::size_t const page_;
    std::atomic<std::size_t>
        most_;  // that this process may have of the device: all, or what it had when that had no more
};

/// Pages without memory, as many as there are addresses, and of the size that most devices have.
class address_pages final : public page_range {
public:
    /// A range for at most `most` bytes; null when that is less than a page. Throws: out_of_memory when the source has no
    /// addresses left.
    [[nodiscard]] static sole<page_range> make(addresses_only source, std::size_t most);

    [[nodiscard]] std::byte* at() const noexcept override { return at_; }
    [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
    [[nodiscard]] std::size_t page() const noexcept override { return page_bytes; }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE bool map(std::byte*, std::size_t bytes, mapping_sizes& sizes,
                                                 label const&, std::size_t& done) override;
    bool unmap(std::byte*, std::size_t) noexcept override { return true; }

private:
    static constexpr std::size_t page_bytes = std::size_t{2} << 20;
    static constexpr std::size_t most_bytes = std::size_t{16}
                                              << 40;  // a source has addresses for 500 such pools

    address_pages(addresses_only& source, std::size_t bytes);

    std::byte* at_;
    std::size_t bytes_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE sole<page_range> device_pages::make(device where, std::size_t most, device_set peers) {
    if (!rt::supports_virtual_memory(where)) return nullptr;
    std::size_t const page = rt::page_size(where);
    if (most < page) return nullptr;
    std::size_t const total = where.memory().total;
    std::size_t const full = round_up(std::min(most, total), page);
    rt::address_range range{where, full * addresses_per_byte + page};
    if (range.bytes() == 0) return nullptr;
    peers.add(where);
    return sole<page_range>{
        new device_pages{rt::physical_memory_of(where), peers, std::move(range), page, total}};
}

CUOTA_INLINE_IN_PLACE mapping_sizes device_pages::sizes(std::size_t room) const noexcept {
    std::size_t const most = most_;
    return page_range::sizes(std::min(room, most - std::min(most, taken_on(where()).load())));
}

CUOTA_INLINE_IN_PLACE mapping_sizes page_range::sizes(std::size_t room) const noexcept {
    return {page(), largest_mapping, parts_for_a_mapping, room};
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
        rt::on_behalf_of(who.where, who.name);
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

CUOTA_INLINE sole<page_range> address_pages::make(addresses_only source, std::size_t most) {
    if (most < page_bytes) return nullptr;
    std::size_t const full = round_up(std::min(most, most_bytes), page_bytes);
    return sole<page_range>{new address_pages{source, full * addresses_per_byte + page_bytes}};
}

CUOTA_INLINE_IN_PLACE bool address_pages::map(std::byte*, std::size_t bytes, mapping_sizes& sizes,
                                              label const&, std::size_t& done) {
    for (done = 0; done != bytes;) done += sizes.next(bytes - done);
    return true;
}

CUOTA_INLINE address_pages::address_pages(addresses_only& source, std::size_t bytes)
    : at_{std::bit_cast<std::byte*>(
          round_up(std::bit_cast<std::uintptr_t>(source.allocate_sync(bytes + page_bytes)), page_bytes))},
      bytes_{bytes} {}

}  // namespace cuota::inline v0::detail

#endif
