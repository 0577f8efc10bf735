// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_site.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cuota::inline v0::simulator {

/// Where the object of the handle that this thread last failed to find was destroyed.
extern thread_local constinit call_sites::site last_handle_gone;

struct origin {
    char const* call = nullptr;
    call_sites::site at{};

    /// Returns ", from cudaX at file.cpp:12", or nothing for objects that no call created.
    [[nodiscard]] std::string text() const {
        return call ? std::string{", from "} + call + call_sites::mark(at) : std::string{};
    }
};

/// Objects behind opaque handles. A handle is a number that is not reused, so that a destroyed one is recognized, and dereferencing it
/// faults. Like CUDA's, it is a multiple of 16.
template <class T>
class registry {
public:
    explicit registry(std::uintptr_t tag) : tag_{tag << 56} {}

    std::uintptr_t add(std::shared_ptr<T> object, origin from = {}) {
        if (free_.empty()) {
            free_.reserve(slots_.size() + 1);
            slots_.emplace_back();
            free_.push_back(slots_.size() - 1);
        }
        auto const index = free_.back();
        free_.pop_back();
        slots_[index].object = std::move(object);
        slots_[index].made = from;
        return handle_of(index, slots_[index].generation);
    }

    std::shared_ptr<T> find(void const* handle) const {
        auto const index = index_of(handle);
        if (index < slots_.size()) return slots_[index].object;
        last_handle_gone = gone_at(handle);
        return nullptr;
    }

    std::shared_ptr<T> remove(void const* handle, call_sites::site by = {}) {
        auto const index = index_of(handle);
        if (index >= slots_.size()) {
            last_handle_gone = gone_at(handle);
            return nullptr;
        }
        ++slots_[index].generation;
        slots_[index].gone_at = by;
        free_.push_back(index);
        return std::exchange(slots_[index].object, nullptr);
    }

    /// Returns zero if missing. Cost: linear.
    std::uintptr_t handle_of(std::shared_ptr<T> const& object) const {
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (object && slots_[i].object == object) return handle_of(i, slots_[i].generation);
        return 0;
    }

    [[nodiscard]] origin made(void const* handle) const {
        auto const index = index_of(handle);
        return index < slots_.size() ? slots_[index].made : origin{};
    }

    template <class Use>
    void for_each(Use use) const {
        for (auto const& s : slots_)
            if (s.object) use(s.object, s.made);
    }

    std::size_t size() const noexcept { return slots_.size() - free_.size(); }

private:
    struct slot {
        std::shared_ptr<T> object;
        origin made;
        std::uint32_t generation = 1;
        call_sites::site gone_at{};  ///< for the previous generation
    };

    // Bits, from the highest: 8 tag, 28 generation, 24 index, 4 zero.
    [[nodiscard]] std::uintptr_t handle_of(std::size_t index, std::uint32_t generation) const noexcept {
        return tag_ | std::uintptr_t{generation & 0xfff'ffff} << 28 | index << 4;
    }
    [[nodiscard]] static std::size_t place_of(std::uintptr_t handle) noexcept {
        return handle >> 4 & 0xff'ffff;
    }

    call_sites::site gone_at(void const* handle) const {
        auto const value = reinterpret_cast<std::uintptr_t>(handle);
        auto const index = place_of(value);
        bool const last = index < slots_.size() && value == handle_of(index, slots_[index].generation - 1);
        return last ? slots_[index].gone_at : call_sites::site::unknown;
    }

    std::size_t index_of(void const* handle) const {
        auto const value = reinterpret_cast<std::uintptr_t>(handle);
        auto const index = place_of(value);
        bool const known = index < slots_.size() && slots_[index].object &&
                           value == handle_of(index, slots_[index].generation);
        return known ? index : slots_.size();
    }

    std::uintptr_t tag_;
    std::vector<slot> slots_;
    std::vector<std::size_t> free_;
};

}  // namespace cuota::inline v0::simulator
