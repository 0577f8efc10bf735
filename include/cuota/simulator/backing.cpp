// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "backing.hpp"
#include "closed_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cuota::inline v0::simulator {
namespace {

constexpr std::size_t word = 8;
constexpr std::size_t heap_guard = 64;

/// Each byte is 0x80 to 0xfe and even, values that programs rarely write.
std::uint64_t poison_at(std::uintptr_t aligned) {
    auto const scattered = (aligned / word + 0x9e37'79b9) * 0x9e37'79b9'7f4a'7c15;
    return (scattered | 0x8080'8080'8080'8080) & 0xfefe'fefe'fefe'fefe;
}

std::uint64_t load(std::byte const* from) {
    std::uint64_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// Calls `whole(offset, poison)` for whole words and `part(offset, poison, first byte in the word, bytes)` for partial ones, until one
/// returns false.
template <class Whole, class Part>
void for_poison(void const* view, std::size_t bytes, Whole whole, Part part) {
    auto const address = reinterpret_cast<std::uintptr_t>(view);
    std::size_t done = 0;
    if (auto const into = address % word; into != 0) {
        done = std::min(bytes, word - into);
        if (!part(0, poison_at(address - into), into, done)) return;
    }
    for (; bytes - done >= word; done += word)
        if (!whole(done, poison_at(address + done))) return;
    if (done < bytes) part(done, poison_at(address + done), 0, bytes - done);
}

std::byte const* bytes_of(std::uint64_t const& value) { return reinterpret_cast<std::byte const*>(&value); }

template <class Fill>
void fill(std::byte* first, std::size_t bytes, Fill some) {
    constexpr std::size_t whole = std::size_t{4} << 20, end = std::size_t{1} << 20;
    if (bytes <= whole) {
        some(first, bytes);
    } else {
        some(first, end);
        some(first + bytes - end, end);
    }
}

}  // namespace

void* take_heap(backing& out, std::size_t alignment, std::size_t bytes) {
    constexpr std::size_t most = std::size_t{1} << 39;  // sanitizers abort on much larger requests
    if (bytes > most) return nullptr;
    out = {.checks = the_machine().memory_mode};
    if (out.checks == memory_checks::strict) {
        out.guard_before = alignment;
        out.guard_behind = heap_guard;
    }
    void* block = nullptr;
    if (posix_memalign(&block, alignment, out.guard_before + bytes + out.guard_behind) != 0) return nullptr;
    auto* const address = static_cast<std::byte*>(block) + out.guard_before;
    poison(block, out.guard_before);
    poison(address + bytes, out.guard_behind);
    return address;
}

void* take_device_memory(backing& out, std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    if (the_machine().memory_mode == memory_checks::strict) return closed_memory::take(out, bytes);
    return take_heap(out, alignment, bytes);
}

void give_memory(void* address, backing const& b, std::size_t bytes) {
    if (b.shift != 0) return closed_memory::give(address, b, bytes);
    poison_freed(address, b, bytes);
    std::free(static_cast<std::byte*>(address) - b.guard_before);
}

void poison_freed(void* address, backing const& b, std::size_t bytes) {
    if (b.checks != memory_checks::off)
        fill(static_cast<std::byte*>(address), bytes,
             [](std::byte* at, std::size_t n) { std::memset(at, 0xdd, n); });
}

void fill_new(void* address, backing const& b, std::size_t bytes) {
    if (b.checks == memory_checks::off) return;
    bool const closed = b.shift != 0;
    fill(static_cast<std::byte*>(address) + b.shift, bytes, [closed](std::byte* at, std::size_t n) {
        if (closed) poison(at, n);
        else std::memset(at, 0xcd, n);
    });
}

void poison(void* view, std::size_t bytes) {
    auto* const to = static_cast<std::byte*>(view);
    for_poison(
        view, bytes,
        [to](std::size_t at, std::uint64_t value) {
            std::memcpy(to + at, &value, word);
            return true;
        },
        [to](std::size_t at, std::uint64_t value, std::size_t into, std::size_t n) {
            std::memcpy(to + at, bytes_of(value) + into, n);
            return true;
        });
}

std::optional<std::size_t> first_poisoned(void const* view, std::size_t bytes) {
    auto const* const from = static_cast<std::byte const*>(view);
    std::optional<std::size_t> found;
    bool const small = bytes < word && bytes >= word / 2;  // fewer bytes may match by chance
    for_poison(
        view, bytes,
        [&](std::size_t at, std::uint64_t value) {
            if (load(from + at) == value) found = at;
            return !found;
        },
        [&](std::size_t at, std::uint64_t value, std::size_t into, std::size_t n) {
            if (small && n == bytes && std::memcmp(from + at, bytes_of(value) + into, n) == 0) found = at;
            return true;
        });
    return found;
}

std::optional<std::size_t> first_unpoisoned(void const* view, std::size_t bytes) {
    auto const* const from = static_cast<std::byte const*>(view);
    std::optional<std::size_t> found;
    auto const compare = [&](std::size_t at, std::byte const* with, std::size_t n) {
        auto const* const differs = std::mismatch(from + at, from + at + n, with).first;
        if (differs != from + at + n) found = static_cast<std::size_t>(differs - from);
        return !found;
    };
    for_poison(
        view, bytes,
        [&](std::size_t at, std::uint64_t value) {
            return load(from + at) == value || compare(at, bytes_of(value), word);
        },
        [&](std::size_t at, std::uint64_t value, std::size_t into, std::size_t n) {
            return compare(at, bytes_of(value) + into, n);
        });
    return found;
}

void carry_poison(void* to, void const* from, std::size_t bytes) {
    auto* const target = static_cast<std::byte*>(to);
    auto const* const source = static_cast<std::byte const*>(from);
    if ((target - source) % static_cast<std::ptrdiff_t>(word) != 0)
        return;  // words are aligned differently at the target
    for_poison(
        source, bytes,
        [&](std::size_t at, std::uint64_t value) {
            if (load(source + at) == value) poison(target + at, word);
            return true;
        },
        [](std::size_t, std::uint64_t, std::size_t, std::size_t) { return true; });
}

std::optional<std::ptrdiff_t> broken_guard(allocation const& a) {
    auto* const first = a.view();
    auto const check = [first](std::byte* from, std::size_t bytes) -> std::optional<std::ptrdiff_t> {
        auto const at = first_unpoisoned(from, bytes);
        if (!at) return std::nullopt;
        poison(from, bytes);
        return from + *at - first;
    };
    auto const behind = check(first + a.bytes, a.block.guard_behind);
    auto const before = check(first - a.block.guard_before, a.block.guard_before);
    return behind ? behind : before;
}

}  // namespace cuota::inline v0::simulator
