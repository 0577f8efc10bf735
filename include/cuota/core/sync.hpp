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
inline void heavy_fence() noexcept {
#if defined(__linux__) && __has_include(<linux/membarrier.h>)
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
#endif
}

struct thread_record;

/// A place for the calling thread's record (thread_record.hpp); null at first.
[[nodiscard]] inline thread_record*& this_thread_record() noexcept {
    static constinit thread_local thread_record* record = nullptr;
    return record;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <sched.h>

namespace cuota::inline v0::detail {

/// Waits, which is not for long, until `what` is not `value` any more. Acquires.
template <class T>
void wait_while(atomic<T> const& what, T value) noexcept {
    while (what.load(std::memory_order_acquire) == value) ::sched_yield();
}

}  // namespace cuota::inline v0::detail

#endif
