// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Allocation: code of the scenario gets memory that is part of the state. Each thread has a heap of its own, so that addresses do not
// depend on the order of steps. A heap is a stack of blocks: memory freed at its top is reused, and memory freed below is cleared, so that
// states that differ in nothing else are equal.

#include "model/engine.hpp"

extern "C" {
void* __libc_malloc(std::size_t size) noexcept;
void* __libc_calloc(std::size_t count, std::size_t size) noexcept;
void* __libc_realloc(void* p, std::size_t size) noexcept;
void* __libc_memalign(std::size_t align, std::size_t size) noexcept;
void __libc_free(void* p) noexcept;

namespace {
using namespace model::detail;

struct block {  // header before its bytes
    std::uint32_t size;
    std::uint32_t is_free;
    std::uint32_t begin;  // start, including padding for alignment
    std::uint32_t below;
};

block& block_of(void* p) { return static_cast<block*>(p)[-1]; }

void* from_model(std::size_t size, std::size_t align) {
    auto const number = static_cast<std::size_t>(running < 0 ? most_threads : running);
    std::byte* const heap = world().heap(number);
    std::size_t const used = state.allocated[number];
    std::size_t const from = (used + sizeof(block) + align - 1) / align * align;
    if (size > heap_size || from + size > heap_size) std::abort();
    state.allocated[number] = (from + size + 15) / 16 * 16;
    std::memset(heap + used, 0, state.allocated[number] - used);
    block_of(heap + from) = {static_cast<std::uint32_t>(size), 0, static_cast<std::uint32_t>(used),
                             static_cast<std::uint32_t>(std::exchange(state.latest[number], from))};
    return heap + from;
}

void to_model(void* p) {
    auto const number = static_cast<std::size_t>(static_cast<std::byte*>(p) - world().heaps) / heap_size;
    block_of(p).is_free = 1;
    std::memset(p, 0, block_of(p).size);
    for (std::size_t& latest = state.latest[number]; latest != 0;) {
        block const& top = block_of(world().heap(number) + latest);
        if (top.is_free == 0) return;
        state.allocated[number] = top.begin;
        latest = top.below;
    }
}
}  // namespace

void* malloc(std::size_t size) noexcept { return inside ? from_model(size, 16) : __libc_malloc(size); }
void free(void* p) noexcept {
    if (p && world().has(p)) to_model(p);
    else __libc_free(p);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
    return inside ? from_model(count * size, 16) : __libc_calloc(count, size);
}
void* realloc(void* p, std::size_t size) noexcept {
    if (!inside) return __libc_realloc(p, size);
    if (p && !world().has(p)) std::abort();
    void* const moved = from_model(size, 16);
    if (p) std::memcpy(moved, p, std::min<std::size_t>(block_of(p).size, size));
    free(p);
    return moved;
}
void* memalign(std::size_t align, std::size_t size) noexcept {
    return inside ? from_model(size, std::max<std::size_t>(align, 16)) : __libc_memalign(align, size);
}
void* aligned_alloc(std::size_t align, std::size_t size) noexcept { return memalign(align, size); }
int posix_memalign(void** p, std::size_t align, std::size_t size) noexcept {
    *p = memalign(align, size);
    return *p ? 0 : 12;
}
}
