// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The synchronization primitives of budgets and pools, which a model checker can replace (tests/model).
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

/// A seqlock version of data published under a lock: odd while the data changes. The lock holder calls step() before the first change and
/// after the last; a lock-free reader compares now() from before and after its reads.
class seqlock_version {
public:
    void step() noexcept { n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    [[nodiscard]] std::size_t now() const noexcept { return n_.load(std::memory_order_acquire); }

private:
    std::atomic<std::size_t> n_ = 0;
};

/// Whether asymmetric_fence_heavy also provides the fence that asymmetric_fence_light omits (asymmetric fences), so that the frequent side
/// pays nothing. Requires membarrier(2), private and expedited: Linux 4.14. The first call registers the process.
[[nodiscard]] inline bool fences_are_asymmetric() noexcept {
#if defined(__linux__) && __has_include(<linux/membarrier.h>)
    static bool const registered =
        ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
    return registered;
#else
    return false;
#endif
}

/// Prevents the compiler from reordering loads before earlier stores; asymmetric_fence_heavy in the other thread does the same for the
/// processor.
inline void asymmetric_fence_light() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Executes a full fence in every other thread: stores that it made before an asymmetric_fence_light are visible, and its loads after an
/// asymmetric_fence_light are no older than this call. Requires fences_are_asymmetric().
/// Uses fence_by_protection if the kernel rejects membarrier(2), because a system-call filter was installed since or memory is short.
void asymmetric_fence_heavy() noexcept;

/// Implements asymmetric_fence_heavy by revoking write access to a page (mprotect): on x86 the kernel interrupts every processor that runs
/// a thread of the process, which is a full fence. Elsewhere (ARM) this may need no interrupt, so it also sleeps for 1 ms, within which
/// processors have written their stores.
void fence_by_protection() noexcept;

struct thread_slot;

/// The calling thread's record (thread_slot.hpp); null initially.
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

/// Waits until `what` differs from `value` (acquire). For short waits: yields first and sleeps later, because the awaited thread may have a
/// lower priority and need this processor.
template <class T>
void wait_while(atomic<T> const& what, T value) noexcept {
    for (int looks = 0; what.load(std::memory_order_acquire) == value; ++looks) {
        if (looks < 100) ::sched_yield();
        else sleep_for(50'000);
    }
}

}  // namespace cuota::inline v0::detail

#endif
