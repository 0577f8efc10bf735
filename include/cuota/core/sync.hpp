// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The synchronization primitives of budgets and pools, in one header, so that a model checker can replace them (tests/model).
#pragma once

#include <atomic>
#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/std_parts.hpp>

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

/// A seqlock version of data that is published under a lock: odd while the data changes. The lock holder calls step() before the first
/// change and after the last; a reader without the lock compares now() from before and after its reads.
class published_version {
public:
    void step() noexcept { n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    [[nodiscard]] std::size_t now() const noexcept { return n_.load(std::memory_order_acquire); }

private:
    std::atomic<std::size_t> n_ = 0;
};

/// Returns true if heavy_fence also provides the fence that light_fence omits, so that the frequent side pays nothing (asymmetric fences).
/// Requires membarrier(2), private and expedited: Linux 4.14. The first call registers the process.
[[nodiscard]] inline bool fences_are_asymmetric() noexcept {
#if defined(__linux__) && __has_include(<linux/membarrier.h>)
    static bool const registered =
        ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
    return registered;
#else
    return false;
#endif
}

/// Prevents the compiler from reordering loads before earlier stores. The processor's reordering is prevented by heavy_fence in the other
/// thread.
inline void light_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// When it returns, every other thread has executed a full fence: stores that it made before a light_fence are visible, and its loads after
/// a light_fence are no older than this call. Requires fences_are_asymmetric().
/// Uses fence_by_protection if the kernel rejects membarrier(2), because a system-call filter was installed since or memory is short.
void heavy_fence() noexcept;

/// Implements heavy_fence by revoking write access to a page (mprotect): the kernel interrupts every processor that runs a thread of the
/// process, which acts as a full fence. This holds on x86; elsewhere, as on ARM, where a page-table change needs no interrupt, it also
/// sleeps for 1 ms, within which processors have written their stores.
void fence_by_protection() noexcept;

struct thread_record;

/// The record of the calling thread (thread_record.hpp); null initially.
CUOTA_PROCESS_STATE [[nodiscard]] inline thread_record*& this_thread_record() noexcept {
    static constinit thread_local thread_record* record = nullptr;
    return record;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ctime>

namespace cuota::inline v0::detail {

CUOTA_INLINE void heavy_fence() noexcept {
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

/// Waits until `what` differs from `value` (acquire). For short waits. It yields first and sleeps later, because the awaited thread may
/// have a lower priority and need this processor.
template <class T>
void wait_while(atomic<T> const& what, T value) noexcept {
    for (int looks = 0; what.load(std::memory_order_acquire) == value; ++looks) {
        if (looks < 100) ::sched_yield();
        else sleep_for(50'000);
    }
}

}  // namespace cuota::inline v0::detail

#endif
