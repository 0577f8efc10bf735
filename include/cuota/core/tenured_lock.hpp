// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A biased lock: nearly free for a thread that takes it repeatedly.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/sync.hpp>
#include <cuota/core/thread_record.hpp>
#include <cuota/core/thread_tenure.hpp>

namespace cuota::inline v0::detail {

/// Runs functions under mutual exclusion. The thread that ran the last one continues without a lock until another thread revokes its
/// ownership (biased locking). Not recursive.
/// Cost: a few loads and stores for the owner; otherwise a lock, and for a revocation a fence in all threads.
class tenured_lock : thread_tenure {
public:
    tenured_lock() = default;
    tenured_lock(tenured_lock const&) = delete;
    tenured_lock& operator=(tenured_lock const&) = delete;

    /// True in a child of the process that made it, where `run` throws misuse.
    [[nodiscard]] bool is_of_parent() const noexcept { return guard_.is_of_parent(); }

    /// Runs f in a locked_region. f must be short and must not enter a section of its thread, whether of this lock, a pool or a budget.
    template <class F>
    decltype(auto) run(F f) {
        locked_region const region;
        if (thread_record* const me = this_thread()) {
            section const here{*me};
            if (is_mine(*me)) return f();
        }
        return run_alone(f);
    }

    /// Runs f in a locked_region under the lock; f may take long. The calling thread becomes the owner.
    template <class F>
    decltype(auto) run_alone(F f) {
        region_lock const lock{guard_};
        call_in();
        struct tenure {
            tenured_lock& of;
            ~tenure() { of.settle(); }
        } const after{*this};
        return f();
    }

private:
    void call_in() noexcept;
    void settle() noexcept;

    mutex guard_;
    bool is_settled_ = false;  // a thread may run functions without the lock
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void tenured_lock::call_in() noexcept {
    if (!is_settled_) return;
    is_settled_ = false;
    close();
    if (holder() == this_thread_record()) return;
    if (fences_are_asymmetric()) heavy_fence();
    see_section_end(*holder());
    note_collected();
}

CUOTA_INLINE void tenured_lock::settle() noexcept {
    thread_record* const me = this_thread();
    if (!me || !pays()) return;
    begin_tenure(*me);
    is_settled_ = true;
}

}  // namespace cuota::inline v0::detail

#endif
