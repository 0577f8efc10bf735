// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Where errors go that nobody can catch: those of destructors and of releases.
#pragma once

#include <exception>
#include <stdexcept>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/std_parts.hpp>

namespace cuota::inline v0 {

/// Receives an error from a function that cannot throw. It is called outside every lock of the library, on the thread where the error
/// occurred: an error under a lock is reported when the lock has been released. So a sink may ask any object of the library
/// for its figures, allocate, charge, and end the program by std::exit.
/// An exception that leaves it is dropped: there is nobody behind it.
/// It does not receive a cuda_error that says that CUDA has ended with the program (cudaErrorCudartUnloading): objects that are
/// destroyed after that have nothing to free, because the driver has freed it.
using error_sink = std::function<void(std::exception const&)>;

namespace detail {

/// While one lives, the first error that its thread would hand to the sink is kept instead: for an end that can throw.
/// Threads: the one that made it.
class kept_error {
public:
    kept_error() noexcept : outer_{innermost()} { innermost() = this; }
    kept_error(kept_error const&) = delete;  // the thread knows it by its address
    kept_error& operator=(kept_error const&) = delete;
    ~kept_error() { innermost() = outer_; }

    /// Throws: the error, if there was one.
    void rethrow() const;

    /// True when who is innermost on this thread keeps it. Of an error that nobody threw, the text.
    [[nodiscard]] static bool keeps(std::exception const& error, std::exception_ptr thrown) noexcept;

private:
    CUOTA_PROCESS_STATE [[nodiscard]] static kept_error*& innermost() noexcept;

    kept_error* const outer_;
    std::exception_ptr first_;
};

}  // namespace detail

/// Sets where uncatchable errors go and returns what was set before; an empty one restores standard error.
/// Threads: any. Throws: std::bad_alloc; the sink is unchanged then.
/// Example: tests/core/error_sink.cpp
error_sink set_error_sink(error_sink sink);

namespace detail {

/// cudaErrorCudartUnloading, and CUDA_ERROR_DEINITIALIZED, which has the same number.
inline constexpr int unloading_code = 4;

void report(std::exception const& error, std::exception_ptr thrown) noexcept;

/// Reports the exception that is being handled to the sink. Call it in a catch block.
void report_handled() noexcept;

}  // namespace detail

/// Hands an error to the sink. For code that must not throw; it never does.
inline void report_error(std::exception const& error) noexcept { detail::report(error, nullptr); }

/// Runs `step`; what it throws goes to the sink. True when nothing was thrown.
template <class Step>
bool report_failure_of(Step&& step) noexcept {
    try {
        std::forward<Step>(step)();
        return true;
    } catch (...) { detail::report_handled(); }
    return false;
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cstdio>

#include <cuota/core/error.hpp>
#include <cuota/core/shared.hpp>

namespace cuota::inline v0::detail {

struct sink_slot {
    process_lock guard;
    shared_value<error_sink const> sink;  // null: standard error
};

CUOTA_PROCESS_STATE sink_slot& the_sink() noexcept;

// Says that CUDA has ended with the program.
[[nodiscard]] CUOTA_INLINE bool is_unloading(std::exception const& error) noexcept {
    auto const* const failed = dynamic_cast<cuda_error const*>(&error);
    return failed && failed->code() == unloading_code;
}

CUOTA_INLINE sink_slot& the_sink() noexcept {
    static sink_slot& slot = *new sink_slot;  // never destroyed: static owners report until the very end
    return slot;
}

CUOTA_INLINE void kept_error::rethrow() const {
    if (first_) std::rethrow_exception(first_);
}

CUOTA_INLINE bool kept_error::keeps(std::exception const& error, std::exception_ptr thrown) noexcept {
    kept_error* const here = innermost();
    if (!here || here->first_) return false;
    here->first_ = thrown ? std::move(thrown) : std::make_exception_ptr(std::runtime_error{error.what()});
    return true;
}

CUOTA_INLINE kept_error*& kept_error::innermost() noexcept {
    static constinit thread_local kept_error* one = nullptr;
    return one;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE error_sink set_error_sink(error_sink sink) {
    auto next = sink ? shared_value<error_sink const>::make(std::move(sink)) : nullptr;
    detail::sink_slot& slot = detail::the_sink();
    std::lock_guard const lock{slot.guard};
    error_sink before = slot.sink ? *slot.sink : error_sink{};
    std::swap(slot.sink, next);
    return before;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void report(std::exception const& error, std::exception_ptr thrown) noexcept {
    try {
        if (kept_error::keeps(error, thrown) || is_unloading(error)) return;
        if (locked_region::keep(error, std::move(thrown))) return;
        sink_slot& slot = the_sink();
        shared_value<error_sink const> sink;
        {
            std::lock_guard const lock{slot.guard};
            sink = slot.sink;
        }
        if (sink) (*sink)(error);
        else std::fprintf(stderr, "cuota: reported where nobody could catch it: %s\n", error.what());
    } catch (...) {  // the sink itself failed; the error is on no path that could carry a second one
    }
}

CUOTA_INLINE void report_handled() noexcept {
    try {
        throw;
    } catch (std::exception const& error) { report(error, std::current_exception()); } catch (...) {
        report(std::runtime_error{"an exception that is not a std::exception"}, std::current_exception());
    }
}

CUOTA_INLINE void throw_forked() {
    throw_misuse("this process was forked, and an object of cuota that its parent made was used: make "
                 "budgets, pools, streams, loaders and "
                 "buffers in the process that uses them");
}

CUOTA_INLINE void report_forked() noexcept {
    (void)report_failure_of([] { throw_forked(); });
}

}  // namespace cuota::inline v0::detail

#endif
