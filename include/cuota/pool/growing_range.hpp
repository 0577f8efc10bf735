// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Addresses that a pool grows and shrinks in by pages: they are taken once, memory is behind them where the pool wants it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/virtual_memory.hpp>

namespace cuota::inline v0::detail {

/// A range of addresses whose pages can be mapped and unmapped one by one. Who calls knows which are. Threads: any, on
/// different pages.
class page_range {
public:
    virtual ~page_range() = default;

    [[nodiscard]] virtual std::byte* at() const noexcept = 0;
    [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;  ///< whole pages
    [[nodiscard]] virtual std::size_t page() const noexcept = 0;   ///< bytes; a power of two

    /// Puts memory behind whole pages, from the first on. False when there is too little. Then, and on a throw, what has
    /// come may not be used, but unmapped: the first `done` bytes.
    [[nodiscard]] virtual bool map(std::byte* at, std::size_t bytes, label const& who, std::size_t& done) = 0;
    /// Gives the memory of whole pages back, which no work may still use. The bytes from the start that it gave back: all,
    /// or a failure was reported, and the rest is as it was.
    virtual std::size_t unmap(std::byte* at, std::size_t bytes) noexcept = 0;
};

/// What lives may lie so that addresses for a request are to be had only beyond all of it: there must be more of them than
/// memory. When they run out nevertheless, a segment serves.
inline constexpr std::size_t addresses_per_byte = 4;

/// Pages of a device's memory. What is mapped counts as held by this process on the device.
class device_pages final : public page_range {
public:
    /// A range for at most `most` bytes of memory; null when that is less than a page, and when the device has no virtual
    /// memory, or no addresses for it. Throws: cuda_error.
    [[nodiscard]] static sole<page_range> make(device where, std::size_t most);

    [[nodiscard]] std::byte* at() const noexcept override { return range_.at(); }
    [[nodiscard]] std::size_t bytes() const noexcept override { return range_.bytes(); }
    [[nodiscard]] std::size_t page() const noexcept override { return page_; }

    [[nodiscard]] bool map(std::byte* at, std::size_t bytes, label const& who, std::size_t& done) override;
    std::size_t unmap(std::byte* at, std::size_t bytes) noexcept override;

private:
    device_pages(device where, rt::address_range range, std::size_t page) noexcept
        : where_{where}, range_{std::move(range)}, page_{page} {}

    [[nodiscard]] bool map_page(std::byte* at, label const& who);
    [[nodiscard]] std::size_t unmap_pages(std::byte* at, std::size_t bytes) noexcept;

    device const where_;
    rt::address_range range_;
    std::size_t const page_;
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
    [[nodiscard]] bool map(std::byte*, std::size_t bytes, label const&, std::size_t& done) override;
    std::size_t unmap(std::byte*, std::size_t bytes) noexcept override { return bytes; }

private:
    static constexpr std::size_t page_bytes = std::size_t{2} << 20;
    static constexpr std::size_t most_bytes = std::size_t{16}
                                              << 40;  // a source has addresses for 500 such pools

    address_pages(addresses_only& source, std::size_t bytes);

    std::byte* at_;
    std::size_t bytes_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE

namespace cuota::inline v0::detail {

CUOTA_INLINE sole<page_range> device_pages::make(device where, std::size_t most) {
    if (!rt::supports_virtual_memory(where)) return nullptr;
    std::size_t const page = rt::page_size(where);
    if (most < page) return nullptr;
    std::size_t const full = round_up(std::min(most, where.memory().total), page);
    rt::address_range range{where, full * addresses_per_byte + page};
    if (range.bytes() == 0) return nullptr;
    return sole<page_range>{new device_pages{where, std::move(range), page}};
}

CUOTA_INLINE bool device_pages::map(std::byte* at, std::size_t bytes, label const& who, std::size_t& done) {
    done = 0;
    device_scope const here{where_};
    for (; done != bytes; done += page_)
        if (!map_page(at + done, who)) return false;
    rt::allow_access(where_, at, bytes);
    return true;
}

CUOTA_INLINE std::size_t device_pages::unmap(std::byte* at, std::size_t bytes) noexcept {
    std::size_t done = 0;
    report_failure_of([&] {
        device_scope const here{where_};
        done = unmap_pages(at, bytes);
    });
    return done;
}

CUOTA_INLINE bool device_pages::map_page(std::byte* at, label const& who) {
    count_taken(where_, page_);
    bool mapped = false;
    try {
        rt::on_behalf_of(who.where, who.name);
        mapped = rt::map_page(where_, at, page_);
    } catch (...) {
        count_given_back(where_, page_);
        throw;
    }
    if (!mapped) count_given_back(where_, page_);
    return mapped;
}

CUOTA_INLINE std::size_t device_pages::unmap_pages(std::byte* at, std::size_t bytes) noexcept {
    std::size_t done = 0;
    for (; done != bytes && rt::unmap_page(at + done, page_); done += page_) count_given_back(where_, page_);
    return done;
}

CUOTA_INLINE sole<page_range> address_pages::make(addresses_only source, std::size_t most) {
    if (most < page_bytes) return nullptr;
    std::size_t const full = round_up(std::min(most, most_bytes), page_bytes);
    return sole<page_range>{new address_pages{source, full * addresses_per_byte + page_bytes}};
}

CUOTA_INLINE bool address_pages::map(std::byte*, std::size_t bytes, label const&, std::size_t& done) {
    done = bytes;
    return true;
}

CUOTA_INLINE address_pages::address_pages(addresses_only& source, std::size_t bytes)
    : at_{std::bit_cast<std::byte*>(
          round_up(std::bit_cast<std::uintptr_t>(source.allocate_sync(bytes + page_bytes)), page_bytes))},
      bytes_{bytes} {}

}  // namespace cuota::inline v0::detail

#endif
