// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A set of devices.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <cuota/core/config.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

/// A set of device ordinals: `device_set{device{1}, device{2}}`. The devices need not exist. Threads: any. Cost: eight bytes.
/// Example: tests/runtime/device_set.cpp
class device_set {
public:
    static constexpr int most = 64;  ///< ordinals are below this

    constexpr device_set() noexcept = default;  ///< empty
    /// Throws: see add.
    constexpr device_set(std::initializer_list<device> all) {
        for (device const d : all) add(d);
    }

    /// Adds a device. Throws: usage_error unless its ordinal is from 0 to 63; nothing changes.
    constexpr void add(device d) {
        if (d.ordinal() < 0 || d.ordinal() >= most) refuse(d);
        bits_ |= bit(d);
    }
    /// Returns the set without d.
    [[nodiscard]] constexpr device_set without(device d) const noexcept {
        device_set rest;
        rest.bits_ = has(d) ? bits_ & ~bit(d) : bits_;
        return rest;
    }
    /// Returns whether d is in the set.
    [[nodiscard]] constexpr bool has(device d) const noexcept {
        return d.ordinal() >= 0 && d.ordinal() < most && (bits_ & bit(d)) != 0;
    }
    [[nodiscard]] constexpr bool is_empty() const noexcept { return bits_ == 0; }  ///< contains no device
    /// Returns the number of devices.
    [[nodiscard]] constexpr std::size_t size() const noexcept {
        return static_cast<std::size_t>(std::popcount(bits_));
    }
    /// Calls visit(device) in ascending order.
    template <class Visit>
    constexpr void for_each(Visit visit) const {
        for (std::uint64_t left = bits_; left != 0; left &= left - 1) visit(device{std::countr_zero(left)});
    }
    friend constexpr bool operator==(device_set, device_set) noexcept = default;  ///< the same devices

private:
    [[nodiscard]] static constexpr std::uint64_t bit(device d) noexcept {
        return std::uint64_t{1} << d.ordinal();
    }
    [[noreturn]] static void refuse(device d);

    std::uint64_t bits_ = 0;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/error.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE void device_set::refuse(device d) {
    detail::throw_usage_error("device_set: cannot hold device {}: ordinals range from 0 to {}",
                              {d.ordinal(), most - 1});
}

}  // namespace cuota::inline v0

#endif
