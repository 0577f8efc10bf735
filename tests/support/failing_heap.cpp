// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Replaces operator new, so that tests can check the state after an allocation on the host has failed.
#include "support/failing_heap.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <thread>

#include <execinfo.h>
#include <link.h>

#include "support/catch.hpp"

namespace {

constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
thread_local std::size_t allowed_now = all;
thread_local std::size_t refused_now = 0;

// The state of failing_heap_of_all.
std::atomic<bool> fails_for_all = false;
std::atomic<bool> fails_once = false;
std::atomic<std::size_t> asked_by_all = 0;
std::atomic<std::size_t> refused_to_all = 0;
std::size_t allowed_to_all = 0;
thread_local bool is_looking = false;  // backtrace may allocate

// The addresses of the simulated runtime's code.
struct address_range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};

address_range const& simulator_code() {
    static address_range const found = [] {
        address_range range;
        dl_iterate_phdr(
            [](dl_phdr_info* library, std::size_t, void* to) {
                if (!std::strstr(library->dlpi_name, "libcuota-simulator")) return 0;
                auto& seen = *static_cast<address_range*>(to);
                for (int i = 0; i != library->dlpi_phnum; ++i) {
                    auto const& part = library->dlpi_phdr[i];
                    if (part.p_type != PT_LOAD) continue;
                    auto const begin = static_cast<std::uintptr_t>(library->dlpi_addr + part.p_vaddr);
                    seen.begin = seen.begin == 0 ? begin : std::min(seen.begin, begin);
                    seen.end = std::max(seen.end, begin + static_cast<std::uintptr_t>(part.p_memsz));
                }
                return 1;
            },
            &range);
        return range;
    }();
    return found;
}

// Returns true when the caller is the simulated runtime or a function that it calls, on any thread.
bool is_of_simulator() {
    std::array<void*, 64> callers;
    is_looking = true;
    int const count = backtrace(callers.data(), static_cast<int>(callers.size()));
    is_looking = false;
    address_range const& code = simulator_code();
    return std::any_of(callers.begin(), callers.begin() + count, [&](void* at) {
        auto const address = reinterpret_cast<std::uintptr_t>(at);
        return address >= code.begin && address < code.end;
    });
}

void count_for_all() {
    if (!fails_for_all.load(std::memory_order_relaxed) || is_looking || is_of_simulator()) return;
    std::size_t const asked = asked_by_all++;
    if (asked < allowed_to_all || (fails_once && asked != allowed_to_all)) return;
    ++refused_to_all;
    throw std::bad_alloc{};
}

void count_one() {
    count_for_all();
    if (allowed_now == 0) {
        ++refused_now;
        throw std::bad_alloc{};
    }
    if (allowed_now != all) --allowed_now;
}

}  // namespace

// Not inlined: a compiler that sees malloc and free inside reports a mismatch of new and delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    count_one();
    if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc{};
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
    try {
        return ::operator new(bytes);
    } catch (std::bad_alloc const&) { return nullptr; }
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
    count_one();
    auto const align = static_cast<std::size_t>(alignment);
    if (void* const memory = std::aligned_alloc(align, (bytes + align - 1) / align * align)) return memory;
    throw std::bad_alloc{};
}
// Sanitizers define the array forms separately, so these are replaced too.
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::nothrow_t const& none) noexcept {
    return ::operator new(bytes, none);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return ::operator new(bytes, alignment);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

namespace support {

failing_heap::failing_heap(std::size_t allowed) noexcept {
    allowed_now = allowed;
    refused_now = 0;
}
failing_heap::~failing_heap() { allowed_now = all; }
std::size_t failing_heap::refused() const noexcept { return refused_now; }

failing_heap_of_all::failing_heap_of_all(std::size_t allowed, heap_failure how) noexcept {
    (void)is_of_simulator();  // the first look loads what backtrace needs
    allowed_to_all = allowed;
    fails_once = how == heap_failure::once;
    asked_by_all = 0;
    refused_to_all = 0;
    fails_for_all = true;
}
failing_heap_of_all::~failing_heap_of_all() { fails_for_all = false; }
std::size_t failing_heap_of_all::refused() const noexcept { return refused_to_all; }

}  // namespace support

TEST_CASE("failing_heap refuses what is more than it allows, and only while it lives",
          "[support][failing_heap]") {
    bool second_refused = false;
    void* first = nullptr;
    {
        support::failing_heap const heap{1};
        first = ::operator new(64);
        try {
            ::operator delete(::operator new(64));
        } catch (std::bad_alloc const&) { second_refused = true; }
    }
    ::operator delete(first);
    ::operator delete(::operator new(64));

    CHECK(second_refused);
}

TEST_CASE("failing_heap_of_all refuses to other threads as well, once or from then on",
          "[support][failing_heap]") {
    auto const how = GENERATE(support::heap_failure::once, support::heap_failure::stays);
    std::size_t refused = 0;
    std::size_t thrown = 0;
    auto const ask = [&] {
        try {
            ::operator delete(::operator new(64));
        } catch (std::bad_alloc const&) { ++thrown; }
    };
    std::atomic<bool> begun = false;
    std::thread other{[&] {
        begun.wait(false);
        for (int i = 0; i != 5; ++i) ask();
    }};
    {
        support::failing_heap_of_all const heap{2, how};
        begun = true;
        begun.notify_one();
        other.join();
        ask();
        refused = heap.refused();
    }
    ask();

    CHECK(refused == (how == support::heap_failure::once ? 1 : 4));
    CHECK(thrown == refused);
}
