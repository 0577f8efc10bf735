// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Detection of fork. A child must not use objects of its parent, whose locks other threads of the parent may have held at the fork, nor
/// CUDA, if the parent had used it.
#pragma once

#include <atomic>

#include <cuota/core/config.hpp>
#include <cuota/core/std_parts.hpp>

namespace cuota::inline v0::detail {

/// The number of forks between the first process of the program that made an object of the library and this one. A child starts with
/// one more than its parent, by a handler of pthread_atfork; a child of clone or vfork is not noticed.
class CUOTA_PROCESS_STATE process_number {
public:
    /// Cost: a load.
    [[nodiscard]] static unsigned now() noexcept { return now_.load(std::memory_order_relaxed); }
    /// The same, for a caller that stores it: the first such call begins to count forks. Cost: two loads.
    [[nodiscard]] static unsigned remembered() noexcept {
        if (!is_counted_.load(std::memory_order_acquire)) [[unlikely]]
            count_forks();
        return now();
    }

    /// Notes that this process uses CUDA. Cost: a load.
    static void note_cuda() noexcept {
        if (cuda_in_.load(std::memory_order_relaxed) == never) [[unlikely]]
            note_first_cuda();
    }
    /// True in a child of a process that had used CUDA, which CUDA does not support. Cost: two loads.
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

/// Remembers the process in which an object was made; copies remember the same one. Cost: two loads.
class process_mark {
public:
    process_mark() noexcept : made_in_{process_number::remembered()} {}
    /// True in a child of that process. Cost: a load.
    [[nodiscard]] bool is_of_parent() const noexcept { return made_in_ != process_number::now(); }

private:
    unsigned made_in_;
};

/// A function that a child runs when it begins. The hook that was made last runs first. Never destroyed.
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

/// A lock that belongs to the process and not to an object. It is unlocked when a child begins, as the thread that had locked it does not
/// exist there. So the data that it guards must be usable after an incomplete change. Never destroyed.
class process_lock : child_hook {
public:
    process_lock() noexcept;
    void lock() { guard_.lock(); }
    void unlock() noexcept { guard_.unlock(); }

private:
    std::mutex guard_;
};

/// A lock that belongs to an object. region_lock throws misuse for one in a child of the process that made it.
class object_lock : public std::mutex {
public:
    [[nodiscard]] bool is_of_parent() const noexcept { return made_.is_of_parent(); }

private:
    process_mark const made_;
};

/// Throws misuse: an object of the parent of this process was used. Defined with core/error_sink.hpp.
[[noreturn]] void throw_forked();
/// Reports the same to the error sink, for functions that are noexcept.
void report_forked() noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <new>

#include <pthread.h>

namespace cuota::inline v0::detail {

CUOTA_INLINE void process_number::count_forks() noexcept {
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
