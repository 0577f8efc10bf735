// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Replaces include/cuota/core/detail/threads/locked_region.hpp in the model, whose threads share the variables of one: it counts and keeps
// nothing.

#include <exception>

namespace cuota::inline v0::detail {

void report_handled() noexcept;

class locked_region {
public:
    locked_region() noexcept {}
    ~locked_region() {}
    static void enter() noexcept {}
    static void leave() noexcept {}
    [[nodiscard]] static bool keep(std::exception const&, std::exception_ptr const&) noexcept {
        return false;
    }
};

template <class Mutex>
class [[nodiscard]] region_lock {
public:
    explicit region_lock(Mutex& guard) : guard_{guard} { guard.lock(); }
    region_lock(region_lock const&) = delete;
    region_lock& operator=(region_lock const&) = delete;
    ~region_lock() { guard_.unlock(); }

private:
    Mutex& guard_;
};

inline void expect_no_region(char const*) noexcept {}

}  // namespace cuota::inline v0::detail
