// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The destination of errors that cannot be thrown.
#pragma once

#include <exception>
#include <stdexcept>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>

namespace cuota::inline v0 {

/// Receives errors of functions that cannot throw, on their thread and outside every lock of the library: it may query any object of the
/// library, allocate, charge, and call std::exit. Its exceptions are dropped.
/// A cuda_error with cudaErrorCudartUnloading is not reported: CUDA has shut down, and the driver has freed everything.
using error_sink = std::function<void(std::exception const&)>;

namespace detail {

/// Stores the first error that its thread reports, instead of passing it to the sink, for functions that can throw it. Objects nest.
/// Threads: the one that constructed it.
class kept_error {
public:
    kept_error() noexcept : outer_{innermost()} { innermost() = this; }
    kept_error(kept_error const&) = delete;  // the thread stores its address
    kept_error& operator=(kept_error const&) = delete;
    ~kept_error() { innermost() = outer_; }

    void rethrow() const;

    /// Stores `thrown`, or if that is null a std::runtime_error with the text, in this thread's innermost kept_error. Returns false without
    /// one, or if it has an error already.
    [[nodiscard]] static bool keeps(std::exception const& error, std::exception_ptr thrown) noexcept;

private:
    CUOTA_PROCESS_STATE [[nodiscard]] static kept_error*& innermost() noexcept;

    kept_error* const outer_;
    std::exception_ptr first_;
};

}  // namespace detail

/// Sets the sink and returns the previous one; an empty sink restores output to standard error.
/// Threads: any. Throws: std::bad_alloc; the sink is unchanged.
/// Example: tests/core/error_sink.cpp
error_sink set_error_sink(error_sink sink);

namespace detail {

/// cudaErrorCudartUnloading and CUDA_ERROR_DEINITIALIZED.
inline constexpr int unloading_code = 4;

void report(std::exception const& error, std::exception_ptr thrown) noexcept;

}  // namespace detail

/// Reports an error to the sink.
inline void report_error(std::exception const& error) noexcept { detail::report(error, nullptr); }

/// Runs `step` and reports any exception to the sink; returns false after one.
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

#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>

namespace cuota::inline v0::detail {

struct sink_slot {
    process_lock guard;
    light_shared_ptr<error_sink const> sink;  // null: standard error
};

CUOTA_PROCESS_STATE sink_slot& the_sink() noexcept;

[[nodiscard]] CUOTA_INLINE bool is_unloading(std::exception const& error) noexcept {
    auto const* const failed = dynamic_cast<cuda_error const*>(&error);
    return failed && failed->code() == unloading_code;
}

CUOTA_INLINE_STATE sink_slot& the_sink() noexcept {
    static never_destroyed<sink_slot> slot;  // static objects may report errors during exit
    return slot.value;
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

CUOTA_INLINE_STATE kept_error*& kept_error::innermost() noexcept {
    static constinit thread_local kept_error* one = nullptr;
    return one;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE error_sink set_error_sink(error_sink sink) {
    auto next = sink ? detail::light_shared_ptr<error_sink const>::make(std::move(sink)) : nullptr;
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
        light_shared_ptr<error_sink const> sink;
        {
            std::lock_guard const lock{slot.guard};
            sink = slot.sink;
        }
        if (sink) (*sink)(error);
        else std::fprintf(stderr, "cuota: error that could not be thrown: %s\n", error.what());
    } catch (...) {  // the sink itself failed
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
    throw_usage_error("cannot use CUDA or objects of the parent process after fork(); make budgets, pools, "
                      "streams, loaders and buffers in the process that uses them");
}

CUOTA_INLINE void report_forked() noexcept {
    (void)report_failure_of([] { throw_forked(); });
}

}  // namespace cuota::inline v0::detail

#endif
