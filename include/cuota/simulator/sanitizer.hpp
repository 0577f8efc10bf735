// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// Null without the sanitizer's runtime.
extern "C" {
[[gnu::weak]] void AnnotateIgnoreSyncBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreSyncEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreReadsEnd(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesBegin(const char* file, int line);
[[gnu::weak]] void AnnotateIgnoreWritesEnd(const char* file, int line);
[[gnu::weak]] void __tsan_acquire(void* token);
[[gnu::weak]] void __tsan_release(void* token);
[[gnu::weak]] void __tsan_write_range(void* address, unsigned long bytes);
[[gnu::weak]] void __asan_poison_memory_region(void const volatile* address, std::size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(void const volatile* address, std::size_t bytes);
}

/// Annotations for the sanitizers.
///
/// ThreadSanitizer must see CUDA's order only, not that of the simulator's mutexes and threads: all code of the simulator is *quiet*, and
/// the only edges are `publish` and `observe`.
namespace cuota::inline v0::simulator::sanitizer {

inline bool watches_threads() noexcept { return __tsan_acquire != nullptr; }

inline void begin_ignoring() noexcept {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

inline void end_ignoring() noexcept {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

/// Scope in which ThreadSanitizer ignores accesses and synchronisation.
class quiet {
public:
    quiet() noexcept {
        if (watches_threads()) begin_ignoring();
    }
    ~quiet() {
        if (watches_threads()) end_ignoring();
    }
    quiet(quiet const&) = delete;
    quiet& operator=(quiet const&) = delete;
};

/// Scope inside quiet code in which ThreadSanitizer sees them.
class loud {
public:
    loud() noexcept {
        if (watches_threads()) end_ignoring();
    }
    ~loud() {
        if (watches_threads()) begin_ignoring();
    }
    loud(loud const&) = delete;
    loud& operator=(loud const&) = delete;
};

/// Actions before `publish` happen before those after `observe` of the token. Only in quiet code.
inline void publish(void* token) noexcept {
    if (!watches_threads()) return;
    // Edges made while synchronisation is ignored are dropped silently.
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_release(token);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

inline void observe(void* token) noexcept {
    if (!watches_threads()) return;
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_acquire(token);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

/// Records a write of the range where memory is allocated or freed, so that each unordered use is a race. In a range of more than 512 KiB,
/// it records writes of the first and the last 64 KiB and of one word in each 64 KiB between them, because a record of the whole range takes
/// longer than the rest of the call. Only in quiet code.
inline void claim(void* address, std::size_t bytes) noexcept {
    if (!watches_threads() || bytes == 0) return;
    constexpr std::size_t whole = std::size_t{512} << 10, end = std::size_t{64} << 10,
                          step = std::size_t{64} << 10;
    loud seen;
    if (bytes <= whole) return __tsan_write_range(address, bytes);
    auto* const first = static_cast<std::byte*>(address);
    __tsan_write_range(first, end);
    for (std::size_t at = end; at < bytes - end; at += step) __tsan_write_range(first + at, 8);
    __tsan_write_range(first + (bytes - end), end);
}

/// Makes accesses an error under AddressSanitizer, until `allow`.
inline void forbid(void* address, std::size_t bytes) noexcept {
    if (__asan_poison_memory_region) __asan_poison_memory_region(address, bytes);
}

inline void allow(void* address, std::size_t bytes) noexcept {
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(address, bytes);
}

}  // namespace cuota::inline v0::simulator::sanitizer
