// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Detection of fork. A child must not use objects of its parent, because other threads may have held their locks, nor CUDA, if the parent
/// has used it.
#pragma once

#include <atomic>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0::detail {

/// Counts the forks since the first process that made an object of the library; children made by clone or vfork are not detected.
class CUOTA_PROCESS_STATE process_number {
public:
    [[nodiscard]] static unsigned now() noexcept { return now_.load(std::memory_order_relaxed); }
    /// Returns now(), for a caller that stores it; the first call installs the fork handler.
    [[nodiscard]] static unsigned remembered() noexcept {
        if (!is_counted_.load(std::memory_order_acquire)) [[unlikely]]
            count_forks();
        return now();
    }

    static void note_cuda() noexcept {
        if (cuda_in_.load(std::memory_order_relaxed) == never) [[unlikely]]
            note_first_cuda();
    }
    /// True in a child of a process that had used CUDA.
    [[nodiscard]] static bool is_cuda_of_parent() noexcept {
        unsigned const in = cuda_in_.load(std::memory_order_relaxed);
        return in != never && in != now();
    }

private:
    static constexpr unsigned never = ~0U;
    static void count_forks() noexcept;
    static void note_first_cuda() noexcept;
    static void begin_child() noexcept;

    static inline constinit std::atomic<unsigned> now_ = 0;
    static inline constinit std::atomic<bool> is_counted_ = false;
    static inline constinit std::atomic<unsigned> cuda_in_ = never;
};

/// Remembers the process in which an object was made.
class process_mark {
public:
    process_mark() noexcept : made_in_{process_number::remembered()} {}
    /// True in a child of that process.
    [[nodiscard]] bool is_of_parent() const noexcept { return made_in_ != process_number::now(); }

private:
    unsigned made_in_;
};

/// A function that runs in each forked child, in reverse order of construction. Never destroyed.
class CUOTA_PROCESS_STATE child_hook {
public:
    explicit child_hook(void (*begin)(child_hook&) noexcept) noexcept;
    child_hook(child_hook const&) = delete;
    child_hook& operator=(child_hook const&) = delete;

private:
    friend class process_number;
    void (*const begin_)(child_hook&) noexcept;
    child_hook* next_ = nullptr;
    static inline constinit std::atomic<child_hook*> all_ = nullptr;
};

/// A process-wide lock, reset in a forked child, where the thread that held it does not exist: the guarded data must be usable after an
/// incomplete change.
class process_lock : child_hook {
public:
    process_lock() noexcept;
    void lock() { guard_.lock(); }
    void unlock() noexcept { guard_.unlock(); }

private:
    std::mutex guard_;
};

/// A lock of an object; region_lock throws usage_error for it in a child of the process that made it.
class object_lock : public std::mutex {
public:
    [[nodiscard]] bool is_of_parent() const noexcept { return made_.is_of_parent(); }

private:
    process_mark const made_;
};

/// Throws usage_error for the use of a parent's object. Defined in core/error_sink.hpp.
[[noreturn]] void throw_forked();
/// Reports the same error to the error sink.
void report_forked() noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <new>

#include <pthread.h>

namespace cuota::inline v0::detail {

CUOTA_INLINE_STATE void process_number::count_forks() noexcept {
    static bool const is_counted = ::pthread_atfork(nullptr, nullptr, [] { begin_child(); }) == 0;
    is_counted_.store(is_counted, std::memory_order_release);
}

CUOTA_INLINE void process_number::note_first_cuda() noexcept {
    unsigned none = never;
    (void)cuda_in_.compare_exchange_strong(none, remembered(), std::memory_order_relaxed);
}

CUOTA_INLINE void process_number::begin_child() noexcept {
    now_.fetch_add(1, std::memory_order_relaxed);
    for (child_hook* hook = child_hook::all_.load(std::memory_order_acquire); hook; hook = hook->next_)
        hook->begin_(*hook);
}

CUOTA_INLINE child_hook::child_hook(void (*begin)(child_hook&) noexcept) noexcept : begin_{begin} {
    (void)process_number::remembered();
    next_ = all_.load(std::memory_order_relaxed);
    while (!all_.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {}
}

CUOTA_INLINE process_lock::process_lock() noexcept
    : child_hook{
          [](child_hook& hook) noexcept { ::new (&static_cast<process_lock&>(hook).guard_) std::mutex; }} {}

}  // namespace cuota::inline v0::detail

#endif
