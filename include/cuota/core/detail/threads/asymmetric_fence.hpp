// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The synchronization primitives of budgets and pools, which tests/model replaces.
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/std_minimal.hpp>

#if defined(__linux__) && __has_include(<linux/membarrier.h>)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace cuota::inline v0::detail {

template <class T>
using atomic = std::atomic<T>;
/// An atomic that is written under a lock and read without it.
template <class T>
using published = std::atomic<T>;
using mutex = object_lock;

/// A seqlock version: odd while the data changes. The lock holder calls step() before the first change and after the last; a lock-free
/// reader compares now() from before and after its reads.
class seqlock_version {
public:
    void step() noexcept { n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    [[nodiscard]] std::size_t now() const noexcept { return n_.load(std::memory_order_acquire); }

private:
    std::atomic<std::size_t> n_ = 0;
};

/// Whether the kernel has membarrier(2), private and expedited (docs/design/thread_caches.md). The first call registers the process.
[[nodiscard]] inline bool fences_are_asymmetric() noexcept {
#if defined(__linux__) && __has_include(<linux/membarrier.h>)
    static bool const registered =
        ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
    return registered;
#else
    return false;
#endif
}

/// Prevents the compiler from reordering loads before earlier stores; asymmetric_fence_heavy does so for the processor.
inline void asymmetric_fence_light() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Executes a full fence in every other thread: stores that it made before an asymmetric_fence_light are visible, and its loads after one
/// are no older than this call. Requires fences_are_asymmetric().
void asymmetric_fence_heavy() noexcept;

/// Revokes write access to a page (mprotect): on x86 the kernel interrupts every processor that runs the process, which is a full fence.
/// Elsewhere it also sleeps for 1 ms, within which processors have written their stores.
void fence_by_protection() noexcept;

struct thread_slot;

/// The calling thread's record; null initially.
CUOTA_PROCESS_STATE [[nodiscard]] inline thread_slot*& this_thread_slot() noexcept {
    static constinit thread_local thread_slot* record = nullptr;
    return record;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ctime>

namespace cuota::inline v0::detail {

CUOTA_INLINE void asymmetric_fence_heavy() noexcept {
#if defined(__linux__) && __has_include(<linux/membarrier.h>)
    if (::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) == 0) [[likely]]
        return;
    fence_by_protection();
#endif
}

CUOTA_INLINE void sleep_for(long nanoseconds) noexcept {
    std::timespec const span{0, nanoseconds};
    (void)::nanosleep(&span, nullptr);
}

CUOTA_INLINE void fence_by_protection() noexcept {
    auto const bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
        *static_cast<char volatile*>(page) = 1;  // loads the writable page into the TLB
        (void)::mprotect(page, bytes, PROT_READ);
        (void)::munmap(page, bytes);
    }
#if defined(__x86_64__)
    if (page != MAP_FAILED) return;
#endif
    sleep_for(1'000'000);
}

/// Waits until `what` differs from `value` (acquire). Yields first and sleeps later: the awaited thread may need this processor.
template <class T>
void wait_while(atomic<T> const& what, T value) noexcept {
    for (int looks = 0; what.load(std::memory_order_acquire) == value; ++looks) {
        if (looks < 100) ::sched_yield();
        else sleep_for(50'000);
    }
}

}  // namespace cuota::inline v0::detail

#endif
