// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Allocation: code of the scenario gets memory that is part of the state, each thread from a heap of its own, so
// that addresses do not depend on the order. Nothing is used twice.

#include "model/engine.hpp"

extern "C" {
void* __libc_malloc(std::size_t size) noexcept;
void* __libc_calloc(std::size_t count, std::size_t size) noexcept;
void* __libc_realloc(void* p, std::size_t size) noexcept;
void* __libc_memalign(std::size_t align, std::size_t size) noexcept;
void __libc_free(void* p) noexcept;

static void* from_model(std::size_t size, std::size_t align) {
    using namespace model::detail;
    std::size_t const heap = running < 0 ? most_threads : static_cast<std::size_t>(running);
    std::size_t& used = state.allocated[heap];
    std::size_t const from = (used + 16 + align - 1) / align * align;  // its size lies before it
    if (size > heap_size || from + size > heap_size) std::abort();
    std::memset(world().heap(heap) + used, 0, from + size - used);
    used = (from + size + 15) / 16 * 16;
    std::byte* const p = world().heap(heap) + from;
    std::memcpy(p - sizeof size, &size, sizeof size);
    return p;
}

void* malloc(std::size_t size) noexcept {
    return model::detail::inside ? from_model(size, 16) : __libc_malloc(size);
}
void free(void* p) noexcept {
    if (p && !model::detail::world().has(p)) __libc_free(p);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
    return model::detail::inside ? from_model(count * size, 16) : __libc_calloc(count, size);
}
void* realloc(void* p, std::size_t size) noexcept {
    if (!model::detail::inside) return __libc_realloc(p, size);
    void* const moved = from_model(size, 16);
    std::size_t before = 0;
    if (p && model::detail::world().has(p))
        std::memcpy(&before, static_cast<std::byte*>(p) - sizeof before, sizeof before);
    else if (p) std::abort();
    if (p) std::memcpy(moved, p, std::min(before, size));
    return moved;
}
void* memalign(std::size_t align, std::size_t size) noexcept {
    return model::detail::inside ? from_model(size, std::max<std::size_t>(align, 16))
                                 : __libc_memalign(align, size);
}
void* aligned_alloc(std::size_t align, std::size_t size) noexcept { return memalign(align, size); }
int posix_memalign(void** p, std::size_t align, std::size_t size) noexcept {
    *p = memalign(align, size);
    return *p ? 0 : 12;
}
}
