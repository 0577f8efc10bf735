// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A biased lock: nearly free for a thread that takes it repeatedly.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/asymmetric_fence.hpp>
#include <cuota/core/detail/threads/biased_ownership.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>

namespace cuota::inline v0::detail {

/// Runs functions under mutual exclusion. The thread that ran the last one continues without a lock until another thread revokes its
/// ownership (docs/design/thread_caches.md). Not recursive.
/// Cost: a few loads and stores for the owner; a fence in all threads for a revocation.
class biased_lock : biased_ownership {
public:
    biased_lock() = default;
    biased_lock(biased_lock const&) = delete;
    biased_lock& operator=(biased_lock const&) = delete;

    /// True in a child of its process, where `run` throws usage_error.
    [[nodiscard]] bool is_of_parent() const noexcept { return guard_.is_of_parent(); }

    /// Runs f in a locked_region. f must be short and must not enter a section of its thread.
    template <class F>
    decltype(auto) run(F f) {
        locked_region const region;
        if (thread_slot* const me = this_thread()) {
            owner_section const here{*me};
            if (is_mine(*me)) return f();
        }
        return run_alone(f);
    }

    /// Runs f in a locked_region under the lock; f may take long. The calling thread becomes the owner.
    template <class F>
    decltype(auto) run_alone(F f) {
        region_lock const lock{guard_};
        call_in();
        struct bias_after {
            biased_lock& of;
            ~bias_after() { of.settle(); }
        } const after{*this};
        return f();
    }

private:
    void call_in() noexcept;
    void settle() noexcept;

    mutex guard_;
    bool is_biased_ = false;  // a thread may run functions without the lock
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE void biased_lock::call_in() noexcept {
    if (!is_biased_) return;
    is_biased_ = false;
    close();
    if (holder() == this_thread_slot()) return;
    if (fences_are_asymmetric()) asymmetric_fence_heavy();
    wait_for_owner_section(*holder());
    note_revocation();
}

CUOTA_INLINE void biased_lock::settle() noexcept {
    thread_slot* const me = this_thread();
    if (!me || !should_bias()) return;
    begin_bias(*me);
    is_biased_ = true;
}

}  // namespace cuota::inline v0::detail

#endif
