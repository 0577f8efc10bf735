// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Replaces operator new, so that tests can check that nothing is allocated. All its forms, because sanitizers report a mismatch if memory
// of one form is freed by another.
#include "support/heap_watch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t allocations_now = 0;
thread_local std::size_t largest_now = 0;
thread_local std::size_t total_now = 0;

void* try_take(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) noexcept {
    ++allocations_now;
    largest_now = std::max(largest_now, bytes);
    total_now += bytes;
    std::size_t const whole = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    return alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, whole) : std::malloc(whole);
}
void* take(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
    if (void* const memory = try_take(bytes, alignment)) return memory;
    throw std::bad_alloc{};
}
std::size_t number(std::align_val_t alignment) noexcept { return static_cast<std::size_t>(alignment); }

}  // namespace

// Not inlined: a compiler that sees malloc and free inside reports a mismatch of new and delete. Under clang's ThreadSanitizer, its own
// operators replace these and nothing is counted.
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define REPLACED [[gnu::noinline, gnu::weak]]
#endif
#endif
#if !defined(REPLACED)
#define REPLACED [[gnu::noinline]]
#endif
using bytes_t = std::size_t;
using align_t = std::align_val_t;
using nothrow_t = std::nothrow_t const&;

REPLACED void* operator new(bytes_t n) { return take(n); }
REPLACED void* operator new[](bytes_t n) { return take(n); }
REPLACED void* operator new(bytes_t n, nothrow_t) noexcept { return try_take(n); }
REPLACED void* operator new[](bytes_t n, nothrow_t) noexcept { return try_take(n); }
REPLACED void* operator new(bytes_t n, align_t a) { return take(n, number(a)); }
REPLACED void* operator new[](bytes_t n, align_t a) { return take(n, number(a)); }
REPLACED void* operator new(bytes_t n, align_t a, nothrow_t) noexcept { return try_take(n, number(a)); }
REPLACED void* operator new[](bytes_t n, align_t a, nothrow_t) noexcept { return try_take(n, number(a)); }
REPLACED void operator delete(void* p) noexcept { std::free(p); }
REPLACED void operator delete[](void* p) noexcept { std::free(p); }
REPLACED void operator delete(void* p, bytes_t) noexcept { std::free(p); }
REPLACED void operator delete[](void* p, bytes_t) noexcept { std::free(p); }
REPLACED void operator delete(void* p, nothrow_t) noexcept { std::free(p); }
REPLACED void operator delete[](void* p, nothrow_t) noexcept { std::free(p); }
REPLACED void operator delete(void* p, align_t) noexcept { std::free(p); }
REPLACED void operator delete[](void* p, align_t) noexcept { std::free(p); }
REPLACED void operator delete(void* p, bytes_t, align_t) noexcept { std::free(p); }
REPLACED void operator delete[](void* p, bytes_t, align_t) noexcept { std::free(p); }
REPLACED void operator delete(void* p, align_t, nothrow_t) noexcept { std::free(p); }
REPLACED void operator delete[](void* p, align_t, nothrow_t) noexcept { std::free(p); }

namespace support {

heap_watch::heap_watch() noexcept { allocations_now = largest_now = total_now = 0; }
std::size_t heap_watch::allocations() const noexcept { return allocations_now; }
std::size_t heap_watch::largest() const noexcept { return largest_now; }
std::size_t heap_watch::total() const noexcept { return total_now; }

}  // namespace support
