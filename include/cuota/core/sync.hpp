// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the accounts synchronise by, in one place, so that a model checker can stand in for it (tests/model).
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

/// The version of what is published under a lock: odd while it changes. Stepped by who has the lock, before the first
/// change and after the last; who reads without it compares two versions, one from before and one from after.
class published_version {
public:
    void step() noexcept { n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    [[nodiscard]] std::size_t now() const noexcept { return n_.load(std::memory_order_acquire); }

private:
    std::atomic<std::size_t> n_ = 0;
};

/// True when heavy_fence does the work of light_fence too: the side that runs often pays nothing.
/// membarrier(2), private and expedited: Linux 4.14. Asked once; registers the process.
[[nodiscard]] inline bool fences_are_asymmetric() noexcept {
#if defined(__linux__) && __has_include(<linux/membarrier.h>)
    static bool const registered =
        ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
    return registered;
#else
    return false;
#endif
}

/// Keeps the compiler from moving loads over stores. Against the processor, other threads have heavy_fence.
inline void light_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// After it, every other thread has passed a full fence: what it stored before a light_fence is visible, and what it
/// loads after one is no older than this call. Only where fences_are_asymmetric().
/// When the kernel refuses membarrier(2) all the same, because a filter of system calls was installed since or for want of memory, it goes
/// by fence_by_protection.
void heavy_fence() noexcept;

/// As heavy_fence, by taking the right to write from a page of the process: the kernel then interrupts every processor that runs a thread
/// of it, which is a full fence there. So it is on x86; where processors are told of such a change without an interrupt (ARM) it sleeps for
/// a millisecond as well, in which a processor has written its stores.
void fence_by_protection() noexcept;

struct thread_record;

/// A place for the calling thread's record (thread_record.hpp); null at first.
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
        *static_cast<char volatile*>(page) =
            1;  // the right to write is in the processor's tables from here on
        (void)::mprotect(page, bytes, PROT_READ);
        (void)::munmap(page, bytes);
    }
#if defined(__x86_64__)
    if (page != MAP_FAILED) return;
#endif
    sleep_for(1'000'000);
}

/// Waits, which is not for long, until `what` is not `value` any more. Acquires. It yields at first and sleeps after that: the thread that
/// is waited for may have a lower priority and need this processor.
template <class T>
void wait_while(atomic<T> const& what, T value) noexcept {
    for (int looks = 0; what.load(std::memory_order_acquire) == value; ++looks) {
        if (looks < 100) ::sched_yield();
        else sleep_for(50'000);
    }
}

}  // namespace cuota::inline v0::detail

#endif
