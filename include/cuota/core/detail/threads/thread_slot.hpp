// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Per-thread records, which let a thread own objects that others can revoke.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/threads/asymmetric_fence.hpp>

namespace cuota::inline v0::detail {

/// The record of a live thread, reused after the thread has ended. Indices stay below the largest number of threads alive at the same time.
/// Never freed.
struct alignas(64) thread_slot {
    atomic<std::uint64_t> sections = 0;  // entries plus exits; odd inside a section
    bool asymmetric = fences_are_asymmetric();
    unsigned index = 0;
    thread_slot* next_free = nullptr;
};

struct thread_registry {
    mutex guard;
    thread_slot* free = nullptr;
    unsigned made = 0;

    CUOTA_PROCESS_STATE [[nodiscard]] static thread_registry& instance() noexcept;

    [[nodiscard]] thread_slot* enter() noexcept;
    void leave(thread_slot* record) noexcept;
    void begin_child() noexcept;
};

/// While one exists, the calling thread has no record and uses its objects only with the lock. One at a time per thread.
class disable_thread_cache {
public:
    disable_thread_cache() noexcept;
    disable_thread_cache(disable_thread_cache const&) = delete;
    disable_thread_cache& operator=(disable_thread_cache const&) = delete;
    ~disable_thread_cache();

    CUOTA_PROCESS_STATE [[nodiscard]] static bool& is_hidden() noexcept;

private:
    thread_slot* const mine_;
};

/// Assigns a record to the calling thread until it ends. Returns null if memory is short, under disable_thread_cache, and while
/// thread-local objects are being destroyed.
CUOTA_PROCESS_STATE [[nodiscard]] thread_slot* register_thread() noexcept;

/// The calling thread's record; null if it cannot have one.
[[nodiscard]] thread_slot* this_thread() noexcept;

/// Critical section of the owner of a biased object. By Dekker's argument, either the owner sees a revocation or the revoking thread sees
/// the section (docs/design/thread_caches.md).
class owner_section {
public:
    [[gnu::always_inline]] explicit owner_section(thread_slot& me) noexcept
        : me_{me}, count_{me.sections.load(std::memory_order_relaxed) + 1} {
        if (me.asymmetric) [[likely]] {
            me.sections.store(count_, std::memory_order_relaxed);
            asymmetric_fence_light();
        } else {
            me.sections.exchange(count_, std::memory_order_seq_cst);
        }
    }
    owner_section(owner_section const&) = delete;
    owner_section& operator=(owner_section const&) = delete;
    ~owner_section() { me_.sections.store(count_ + 1, std::memory_order_release); }

private:
    thread_slot& me_;
    std::uint64_t const count_;
};

/// Waits until `other` has left the section that it may be in. Call it after asymmetric_fence_heavy.
void wait_for_owner_section(thread_slot const& other) noexcept;

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/std_minimal.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE_STATE thread_registry& thread_registry::instance() noexcept {
    struct hooked : child_hook {
        // Not by instance(): a fork may come while another thread constructs it.
        hooked() noexcept
            : child_hook{[](child_hook& hook) noexcept { static_cast<hooked&>(hook).all.begin_child(); }} {}
        thread_registry all;
    };
    static never_destroyed<hooked> one;  // threads outlive statics
    return one.value.all;
}

// Records of the parent's threads are not reused: new threads would own their objects.
CUOTA_INLINE void thread_registry::begin_child() noexcept {
    ::new (&guard) mutex;
    free = nullptr;
    this_thread_slot() = nullptr;
}

CUOTA_INLINE thread_slot* thread_registry::enter() noexcept {
    std::lock_guard const lock{guard};
    if (thread_slot* const used = free) {
        free = used->next_free;
        return used;
    }
    auto* const fresh = new (std::nothrow) thread_slot;
    if (fresh) fresh->index = made++;
    return fresh;
}

CUOTA_INLINE void thread_registry::leave(thread_slot* record) noexcept {
    std::lock_guard const lock{guard};
    record->next_free = free;
    free = record;
}

CUOTA_INLINE disable_thread_cache::disable_thread_cache() noexcept
    : mine_{std::exchange(this_thread_slot(), nullptr)} {
    is_hidden() = true;
}

CUOTA_INLINE disable_thread_cache::~disable_thread_cache() {
    is_hidden() = false;
    this_thread_slot() = mine_;
}

CUOTA_INLINE_STATE bool& disable_thread_cache::is_hidden() noexcept {
    static constinit thread_local bool hidden = false;
    return hidden;
}

CUOTA_INLINE_STATE thread_slot* register_thread() noexcept {
    enum class stage : unsigned char { before, enrolled, ended };
    static constinit thread_local stage now = stage::before;
    struct at_thread_end {
        ~at_thread_end() {
            now = stage::ended;
            if (thread_slot* const mine = this_thread_slot()) thread_registry::instance().leave(mine);
            this_thread_slot() = nullptr;
        }
    };
    if (now == stage::ended || disable_thread_cache::is_hidden()) return nullptr;
    static thread_local at_thread_end const goodbye;
    (void)goodbye;
    now = stage::enrolled;
    if (!this_thread_slot()) this_thread_slot() = thread_registry::instance().enter();
    return this_thread_slot();
}

CUOTA_INLINE thread_slot* this_thread() noexcept {
    if (thread_slot* const mine = this_thread_slot()) [[likely]]
        return mine;
    return register_thread();
}

CUOTA_INLINE void wait_for_owner_section(thread_slot const& other) noexcept {
    auto const seen = other.sections.load(std::memory_order_seq_cst);
    if (seen % 2 != 0) wait_while(other.sections, seen);
}

}  // namespace cuota::inline v0::detail

#endif
