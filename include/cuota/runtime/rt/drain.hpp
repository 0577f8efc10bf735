// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Host waits before memory is freed or reused, and errors for operations on captured streams.
#pragma once

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::rt {

/// Throws usage_error if this thread captures s with `capture`; the message names the operation `what` and the alternative `instead`. Cost:
/// a load, outside of captures.
void refuse_own_capture(stream_ref s, char const* what, char const* instead, source_location where = {});
/// Same for a foreign capture. Cost: a CUDA call.
void refuse_foreign_capture(stream_ref s, char const* what, char const* instead, source_location where = {});
/// Same for both.
void check_not_capturing(stream_ref s, char const* what, char const* instead, source_location where = {});

/// Waits on the host for all work on s, where throwing is impossible. Returns whether the work is known to have finished. If this thread
/// captures s, the capture fails. A foreign capture is not waited for, which is reported as misuse. For cudaStreamPerThread of another
/// thread, waits for the device's legacy stream; if that thread has ended, or the stream was destroyed, for the device. Threads: any.
bool drain(stream_ref s) noexcept;
/// Returns whether s is part of a foreign capture, which is reported as misuse: memory freed on s must stay allocated for its launches.
/// Threads: any.
[[nodiscard]] bool is_kept_for_foreign_graph(stream_ref s) noexcept;
/// Returns false if is_kept_for_foreign_graph; otherwise waits like drain.
[[nodiscard]] bool drain_to_free(stream_ref s) noexcept;

/// Returns whether all work on s has finished; false if that is unknown, as of a stream that is captured, or another thread's default stream.
/// No capture is ended, also of another thread. Threads: any.
[[nodiscard]] bool is_known_idle(stream_ref s) noexcept;
/// Same, but throws cuda_error if the query fails.
[[nodiscard]] bool is_idle_outside_captures(stream_ref s);

/// Waits on the host for the work on s; after an error, again before rethrowing, so that no copy uses the caller's host memory.
/// Throws: cuda_error, also of the work.
void synchronize_or_drain(stream_ref s, source_location where);

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <exception>

#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::rt {

CUOTA_INLINE void refuse_own_capture(stream_ref s, char const* what, char const* instead,
                                     source_location where) {
    if (cuota::detail::capture_of(s)) [[unlikely]]
        cuota::detail::throw_usage_error(where, "{} on a stream that is being captured; {}", {what, instead});
}

CUOTA_INLINE void refuse_foreign_capture(stream_ref s, char const* what, char const* instead,
                                         source_location where) {
    if (cuota::detail::foreign_capture_of(s) != 0) [[unlikely]]
        cuota::detail::throw_usage_error(where, "{} on a stream that is captured outside cuota::capture; {}",
                                         {what, instead});
}

CUOTA_INLINE void check_not_capturing(stream_ref s, char const* what, char const* instead,
                                      source_location where) {
    refuse_own_capture(s, what, instead, where);
    refuse_foreign_capture(s, what, instead, where);
}

CUOTA_INLINE bool is_known_idle(stream_ref s) noexcept {
    try {
        return is_idle_outside_captures(s);
    } catch (...) { return false; }
}

CUOTA_INLINE bool is_idle_outside_captures(stream_ref s) {
    return s.is_reachable() && cuota::detail::query_outside_captures(s).value_or(false);
}

namespace detail {

bool is_foreign_usage_error(stream_ref s, char const* what, char const* instead) noexcept;
bool drain_device(device on, bool by_legacy_stream) noexcept;
bool drain_outside_foreign_capture(stream_ref s) noexcept;

CUOTA_INLINE bool is_foreign_usage_error(stream_ref s, char const* what, char const* instead) noexcept {
    if (cuota::detail::process_number::is_cuda_of_parent()) return false;
    bool is_foreign = false;
    try {
        rt::refuse_foreign_capture(s, what, instead);
    } catch (usage_error const& wrong) {
        is_foreign = true;
        report_error(wrong);
    } catch (...) { cuota::detail::report_handled(); }
    return is_foreign;
}

// The legacy stream waits for the default streams of all live threads and invalidates only captures of streams that synchronize with it; a
// wait for the device invalidates every capture on it.
[[gnu::noinline]] CUOTA_INLINE bool drain_device(device on, bool by_legacy_stream) noexcept {
    bool is_done = false;
    report_failure_of([&] {
        device_scope const here{on};
        cuota::detail::capture_delay const delay{on};
        relaxed_capture_mode const beside;
        is_done =
            by_legacy_stream || delay.is_too_late()
                ? give_back("cudaStreamSynchronize", [] { return cudaStreamSynchronize(cudaStreamLegacy); })
                : give_back("cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); });
    });
    return is_done;
}

CUOTA_INLINE bool drain_outside_foreign_capture(stream_ref s) noexcept {
    cuota::detail::expect_no_region("cudaStreamSynchronize");
    if (cuota::detail::process_number::is_cuda_of_parent()) return false;
    bool is_done = false;
    report_failure_of([&] {
        cuota::detail::capture_delay const delay{s};
        delay.refuse_legacy();
        if (delay.is_too_late()) [[unlikely]] {
            cuota::detail::capture_scope* const scope = cuota::detail::capture_of(s);
            is_done = scope == nullptr;
            if (scope)
                scope->fail(std::make_exception_ptr(
                    usage_error{"capture: cannot wait for captured work after an error"}));
            return;
        }
        if (!s.is_reachable()) [[unlikely]] {
            is_done = drain_device(s.device(), s.has_live_thread());
            return;
        }
        cuota::detail::on_device_of const here{s};
        relaxed_capture_mode const beside;
        cudaError_t code = cudaSuccess;
        is_done = give_back("cudaStreamSynchronize", [&] { return code = cudaStreamSynchronize(s.get()); });
        // Its work may still run.
        if (code == cudaErrorInvalidResourceHandle) is_done = drain_device(device::current(), false);
    });
    return is_done;
}

}  // namespace detail

CUOTA_INLINE bool drain(stream_ref s) noexcept {
    return !detail::is_foreign_usage_error(s, "cannot wait for work", "end the capture first") &&
           detail::drain_outside_foreign_capture(s);
}

CUOTA_INLINE bool is_kept_for_foreign_graph(stream_ref s) noexcept {
    return detail::is_foreign_usage_error(
        s, "cannot free memory",
        "it stays allocated, because the graph may use it: free it after the "
        "last launch, or use a scoped_pool");
}

CUOTA_INLINE bool drain_to_free(stream_ref s) noexcept {
    if (is_kept_for_foreign_graph(s)) return false;
    (void)detail::drain_outside_foreign_capture(s);
    return true;
}

CUOTA_INLINE void synchronize_or_drain(stream_ref s, source_location where) {
    try {
        s.synchronize(where);
    } catch (...) {
        drain(s);
        throw;
    }
}

}  // namespace cuota::inline v0::rt

#endif
