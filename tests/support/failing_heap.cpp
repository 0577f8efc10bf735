// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Replaces operator new, so that tests can check the state after an allocation on the host has failed.
#include "support/failing_heap.hpp"

#include <cstdlib>
#include <limits>
#include <new>

#include "support/catch.hpp"

namespace {

constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
thread_local std::size_t allowed_now = all;
thread_local std::size_t refused_now = 0;

void count_one() {
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
