// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// The simulator itself is never instrumented. A program that is brings the sanitizer's run time along, and
// these symbols with it; elsewhere they are null. So one library serves every build.
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

/// What the sanitizers are told.
///
/// ThreadSanitizer must see CUDA's ordering and nothing else: a mutex or a worker thread of the simulator
/// that happens to order two operations would hide the race between them. So everything in here runs *quiet*,
/// with accesses and synchronisation ignored, and the only edges are the explicit `publish` and `observe`.
/// For the same reason a stream then has a thread to itself: what one thread does is ordered, and so would be
/// streams that share it.
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

/// Code of the simulator: nothing it does is seen.
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

/// Code of the program, or an access made for it, inside quiet code: all of it is seen.
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

/// What happened so far on this thread comes before whatever follows an `observe` of the token. Only in quiet
/// code.
inline void publish(void* token) noexcept {
    if (!watches_threads()) return;
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);  // edges made while ignoring would be dropped without a word
    __tsan_release(token);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

inline void observe(void* token) noexcept {
    if (!watches_threads()) return;
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_acquire(token);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

/// The memory starts or ends here: any unordered use is a race. Only in quiet code.
inline void claim(void* address, std::size_t bytes) noexcept {
    if (!watches_threads() || bytes == 0) return;
    loud seen;
    __tsan_write_range(address, bytes);
}

/// Under AddressSanitizer a touch of the range is an error until `allow`.
inline void forbid(void* address, std::size_t bytes) noexcept {
    if (__asan_poison_memory_region) __asan_poison_memory_region(address, bytes);
}

inline void allow(void* address, std::size_t bytes) noexcept {
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(address, bytes);
}

}  // namespace cuota::inline v0::simulator::sanitizer
