// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Errors under a lock of the library are reported after its release.
#pragma once

#include <exception>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>

namespace cuota::inline v0::detail {

/// Reports the exception that is being handled to the error sink. Defined in core/error_sink.hpp, which includes this header.
void report_handled() noexcept;

/// A scope in which the calling thread holds a lock of the library. Scopes nest. Errors are stored, and go to the error sink when the
/// thread's outermost scope ends, after the release of the lock.
/// Threads: the one that constructed it.
class locked_region {
public:
    locked_region() noexcept { enter(); }
    locked_region(locked_region const&) = delete;
    locked_region& operator=(locked_region const&) = delete;
    ~locked_region() { leave(); }

    /// Same as the constructor, for locks that are not scoped.
    static void enter() noexcept { ++of_thread().depth; }
    /// Same as the destructor. Call it after the lock was released.
    static void leave() noexcept {
        state& mine = of_thread();
        if (--mine.depth == 0 && (mine.first || mine.lost != 0)) [[unlikely]]
            report_kept();
    }

    [[nodiscard]] static bool is_here() noexcept { return of_thread().depth != 0; }

    /// Stores an error until the thread's outermost region ends; returns false outside of regions. If `thrown` is null, stores the
    /// exception being handled if it is `error`, otherwise a std::runtime_error with its text.
    [[nodiscard]] static bool keep(std::exception const& error, std::exception_ptr thrown) noexcept;

private:
    struct report;
    struct state {
        unsigned depth = 0;
        unsigned lost = 0;  // errors not stored for lack of memory
        report* first = nullptr;
        char lost_text[200] = {};  // text of the first of them
    };

    CUOTA_PROCESS_STATE [[nodiscard]] static state& of_thread() noexcept {
        static constinit thread_local state mine;
        return mine;
    }
    static void report_kept() noexcept;
};

/// A lock_guard that is a locked_region too.
/// Throws: usage_error in a forked child, for an object_lock that its parent made.
template <class Mutex>
class [[nodiscard]] region_lock {
public:
    explicit region_lock(Mutex& guard) : guard_{guard} {
        if constexpr (requires { guard.is_of_parent(); })
            if (guard.is_of_parent()) [[unlikely]]
                throw_forked();
        locked_region::enter();
        guard.lock();
    }
    region_lock(region_lock const&) = delete;
    region_lock& operator=(region_lock const&) = delete;
    ~region_lock() {
        guard_.unlock();
        locked_region::leave();
    }

private:
    Mutex& guard_;
};

[[noreturn]] void stop_for_call_in_region(char const* call) noexcept;

/// Precedes every call of a function of the program, and every wait of the host for a stream. In checked builds, aborts in a locked_region:
/// the function, or one that the stream runs, may wait for the same lock.
inline void expect_no_region([[maybe_unused]] char const* call) noexcept {
#if CUOTA_CHECKED
    if (locked_region::is_here()) [[unlikely]]
        stop_for_call_in_region(call);
#endif
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include <cuota/core/error_sink.hpp>

namespace cuota::inline v0::detail {

struct locked_region::report {
    std::exception_ptr what;
    report* next = nullptr;
};

// Returns the exception being handled if it is `error`, to keep its type: rethrown, it is the same object. Otherwise copies the text.
[[nodiscard]] CUOTA_INLINE std::exception_ptr as_pointer_to(std::exception const& error) {
    if (std::exception_ptr handled = std::current_exception()) {
        try {
            std::rethrow_exception(handled);
        } catch (std::exception const& same) {
            if (&same == &error) return handled;
        } catch (...) {}
    }
    return std::make_exception_ptr(std::runtime_error{error.what()});
}

CUOTA_INLINE bool locked_region::keep(std::exception const& error, std::exception_ptr thrown) noexcept {
    state& mine = of_thread();
    if (mine.depth == 0) return false;
    auto* const kept = new (std::nothrow) report{};
    if (!kept) {
        if (mine.lost++ == 0) std::strncpy(mine.lost_text, error.what(), sizeof mine.lost_text - 1);
        return true;
    }
    try {
        kept->what = thrown ? std::move(thrown) : as_pointer_to(error);
    } catch (...) { kept->what = std::current_exception(); }  // std::bad_alloc from copying the text
    report** last = &mine.first;
    while (*last) last = &(*last)->next;
    *last = kept;
    return true;
}

CUOTA_INLINE void locked_region::report_kept() noexcept {
    state& mine = of_thread();
    while (report* const kept = mine.first) {  // one at a time: the sink may enter regions itself
        mine.first = kept->next;
        std::exception_ptr const what = std::move(kept->what);
        delete kept;
        try {
            std::rethrow_exception(what);
        } catch (...) { report_handled(); }
    }
    if (unsigned const lost = std::exchange(mine.lost, 0); lost != 0) {
        char text[sizeof mine.lost_text + 100];
        std::snprintf(text, sizeof text, "%s (the first of %u errors that did not fit in host memory)",
                      mine.lost_text, lost);
        try {
            throw std::runtime_error{text};
        } catch (...) { report_handled(); }
    }
}

CUOTA_INLINE void stop_for_call_in_region(char const* call) noexcept {
    std::fprintf(stderr, "cuota: cannot call %s while the library holds a lock\n", call);
    std::abort();
}

}  // namespace cuota::inline v0::detail

#endif
