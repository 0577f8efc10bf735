// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUDA events. An `event` has always been recorded.
#pragma once

#include <cstdint>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/unique_handle.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

class event;
namespace rt {
/// Waits like drain(stream_ref) for the work before an event. Returns false without waiting for an event of a capture, and a `capture` of
/// this thread fails.
bool drain(event const& e) noexcept;
}

namespace detail {

std::uint64_t foreign_capture_of(event const& e) noexcept;

struct event_traits {
    using type = cudaEvent_t;
    static type none() noexcept { return nullptr; }
    static void close(type e) noexcept;
};

}  // namespace detail

/// How a host thread waits for an event. Example: tests/runtime/event.sim.cpp
enum class host_wait {
    /// Uses the device's setting (cudaDeviceSchedule...): lowest latency, may occupy a core.
    active,
    blocking,  ///< sleeps (cudaEventBlockingSync): tens of microseconds more latency
};

/// A point in a stream that other streams and host threads can wait for.
///
/// The constructor records, because CUDA treats an event that was never recorded as complete. Recording again moves the point; earlier
/// waits keep the old one. Move-only.
/// Order:   completes after earlier work on the stream.
/// Threads: any may wait and query; one at a time may record or move it.
/// Throws:  cuda_error; usage_error if moved from.
/// Cost:    one CUDA call to record, query or wait; several to make one. It has no timestamp.
/// Example: tests/runtime/event.sim.cpp
class event {
public:
    /// Makes an event on the device of s and records it. `wait` is how `synchronize` waits.
    explicit event(stream_ref s, host_wait wait = host_wait::active);

    /// Records the event after the work enqueued on s so far; s must be on the event's device. On failure, the event keeps its previous
    /// point.
    void record(stream_ref s);

    /// Returns, without waiting, whether the work before the event has finished. Throws: usage_error if recorded in a capture.
    [[nodiscard]] bool is_done() const;

    /// Waits on the host for the work before the event. Throws: also errors of that work; usage_error if recorded in a capture.
    void synchronize() const;

    /// Returns the native event; null if moved from.
    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }

protected:
    /// `record` on a stream of that foreign capture, or of none (0).
    void record_in(stream_ref s, std::uint64_t foreign);

private:
    friend class stream_ref;
    friend bool rt::drain(event const& e) noexcept;
    friend std::uint64_t detail::foreign_capture_of(event const& e) noexcept;
    void check_not_capturing(char const* what, source_location where) const;

    [[nodiscard]] cudaEvent_t native() const;  // throws usage_error if moved from

    unique_handle<detail::event_traits> handle_;
    std::uint64_t capture_ = 0;  // number() of the `capture` of the last record, or 0
    std::uint64_t foreign_ = 0;  // foreign_capture_of its stream
};

/// A timestamp in a stream, taken by the device. The constructor records. Costs more than an event. Move-only.
/// Order:   taken after earlier work on the stream.
/// Threads: one at a time.
/// Throws:  cuda_error; usage_error in a capture or if moved from.
/// Cost:    one CUDA call to record or query; several to make one.
/// Example: tests/runtime/event.sim.cpp
class timed_event {
public:
    /// Makes a mark on the device of s and records it.
    explicit timed_event(stream_ref s);
    /// Records the mark after the work enqueued on s so far; s must be on the mark's device.
    void record(stream_ref s);

    /// Returns the time since `earlier`, of the same device, to about 0.5 us; nullopt while work before either mark is unfinished.
    [[nodiscard]] std::optional<std::chrono::nanoseconds> since(timed_event const& earlier) const;

private:
    [[nodiscard]] cudaEvent_t native() const;  // throws usage_error if moved from

    unique_handle<detail::event_traits> handle_;
};

namespace detail {

[[nodiscard]] std::uint64_t captures_begun() noexcept;

/// Returns the foreign capture of the last record, or 0.
[[nodiscard]] inline std::uint64_t foreign_capture_of(event const& e) noexcept { return e.foreign_; }

/// Like s.wait(e), for uses that the library tracks. Only streams of the same foreign capture wait for an event of that capture.
void order_after(stream_ref s, event const& e);

/// Orders later work on s after the work on `other`. Throws: cuda_error; usage_error if `other` is in a foreign capture and s is not.
void order_after_work_of(stream_ref s, stream_ref other);

/// Calls record() on s, again if a capture begins meanwhile. Returns false, without a valid record, if `capture` captures s: earlier work
/// has finished. Throws: exceptions of record(), cuda_error.
template <class Record>
[[nodiscard]] bool mark_outside_capture(stream_ref s, Record record) {
    for (;;) {
        std::uint64_t const begun = captures_begun();
        if (is_captured(s)) [[unlikely]]
            return false;
        record();
        if (captures_begun() == begun) [[likely]]
            return true;
    }
}

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uint64_t captures_begun() noexcept { return captured_streams::begun(); }

CUOTA_INLINE void order_after(stream_ref s, event const& e) {
    if (!try_order_after(s, e)) e.synchronize();
}

CUOTA_INLINE bool try_order_after(stream_ref s, event const& e) {
    std::uint64_t const capture = foreign_capture_of(e);
    return (capture != 0 && capture != foreign_capture_of(s)) || s.try_wait(e);
}

CUOTA_INLINE void order_after_work_of(stream_ref s, stream_ref other) {
    std::uint64_t const capture = foreign_capture_of(other);
    if (capture != 0 && capture != foreign_capture_of(s))
        throw_usage_error("cannot order work after a stream that is captured outside cuota::capture; end the "
                          "capture first");
    s.wait(event{other});
}

CUOTA_INLINE void event_traits::close(type e) noexcept {
    rt::relaxed_capture_mode const beside;
    rt::give_back("cudaEventDestroy", [e] { return cudaEventDestroy(e); });
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE event::event(stream_ref s, host_wait wait) {
    s.check_reachable();
    device_scope const here{s.device()};  // an event has one device
    {
        rt::relaxed_capture_mode const beside;
        cudaEvent_t native = nullptr;
        unsigned const flags =
            cudaEventDisableTiming | (wait == host_wait::blocking ? cudaEventBlockingSync : cudaEventDefault);
        rt::check(cudaEventCreateWithFlags(&native, flags), "cudaEventCreateWithFlags");
        handle_.reset(native);
    }
    record(s);
}

CUOTA_INLINE void event::record(stream_ref s) {
    record_in(s, cuota::detail::capture_of(s) ? 0 : cuota::detail::foreign_capture_of(s));
}

CUOTA_INLINE void event::record_in(stream_ref s, std::uint64_t foreign) {
    cuota::detail::on_device_of const here{s};
    cuota::detail::capture_scope const* const own = cuota::detail::capture_of(s);
    rt::check(cudaEventRecord(native(), s.get()), "cudaEventRecord");
    std::uint64_t const now = own ? own->number() : 0;
    // Others may read these concurrently, so unchanged values are not written.
    if (capture_ != now) capture_ = now;
    if (foreign_ != foreign) foreign_ = foreign;
}

CUOTA_INLINE bool event::is_done() const {
    check_not_capturing("event::is_done", {});
    rt::relaxed_capture_mode const beside;
    cudaError_t const code = cudaEventQuery(native());
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
    }
    rt::check(code, "cudaEventQuery");
    return true;
}

CUOTA_INLINE void event::synchronize() const {
    detail::expect_no_region("cudaEventSynchronize");
    check_not_capturing("event::synchronize", {});
    rt::relaxed_capture_mode const beside;
    rt::check(cudaEventSynchronize(native()), "cudaEventSynchronize");
}

CUOTA_INLINE void event::check_not_capturing(char const* what, source_location where) const {
    if (capture_ != 0 || foreign_ != 0) [[unlikely]]
        detail::throw_usage_error(where,
                                  "{}: the event was recorded during a capture and has no completion state; "
                                  "record one after the graph's launch",
                                  {what});
}

CUOTA_INLINE cudaEvent_t event::native() const {
    if (!handle_) [[unlikely]]
        detail::throw_usage_error("an event was used after it was moved from");
    return handle_.get();
}

CUOTA_INLINE cudaEvent_t timed_event::native() const {
    if (!handle_) [[unlikely]]
        detail::throw_usage_error("a timed_event was used after it was moved from");
    return handle_.get();
}

CUOTA_INLINE timed_event::timed_event(stream_ref s) {
    device_scope const here{s.device()};
    {
        rt::relaxed_capture_mode const beside;
        cudaEvent_t native = nullptr;
        rt::check(cudaEventCreate(&native), "cudaEventCreate");
        handle_.reset(native);
    }
    record(s);
}

CUOTA_INLINE void timed_event::record(stream_ref s) {
    detail::on_device_of const here{s};
    rt::check_not_capturing(s, "timed_event: cannot record a time",
                            "record it before or after the launches of the graph");
    rt::check(cudaEventRecord(native(), s.get()), "cudaEventRecord");
}

CUOTA_INLINE std::optional<std::chrono::nanoseconds> timed_event::since(timed_event const& earlier) const {
    rt::relaxed_capture_mode const beside;
    float milliseconds = 0;
    cudaError_t const code = cudaEventElapsedTime(&milliseconds, earlier.native(), native());
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return std::nullopt;
    }
    rt::check(code, "cudaEventElapsedTime");
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double, std::milli>{milliseconds});
}

CUOTA_INLINE void stream_ref::wait(event const& done) const {
    if (!try_wait(done)) done.synchronize();
}

CUOTA_INLINE bool stream_ref::try_wait(event const& done) const {
    cuota::detail::on_device_of const here{*this};
    cuota::detail::capture_scope const* const scope = cuota::detail::capture_scope::here();
    std::uint64_t const mine = scope && scope->has(cuota::detail::key_of(*this)) ? scope->number() : 0;
    if (done.capture_ != mine) [[unlikely]]
        throw usage_error{mine == 0
                              ? "stream::wait: cannot wait outside a capture for an event that was recorded "
                                "in it; pass all streams to capture"
                              : "stream::wait: cannot wait in a capture for an event that was recorded "
                                "outside it; wait before the capture"};
    if (mine == 0 && done.foreign_ == 0 && cuota::detail::foreign_capture_of(*this) != 0) [[unlikely]]
        return false;
    rt::check(cudaStreamWaitEvent(get(), done.native(), 0), "cudaStreamWaitEvent");
    return true;
}

CUOTA_INLINE void stream::wait(event const& done) const { stream_ref{*this}.wait(done); }

}  // namespace cuota::inline v0

namespace cuota::inline v0::rt {

CUOTA_INLINE bool drain(event const& e) noexcept {
    cuota::detail::expect_no_region("cudaEventSynchronize");
    if (e.capture_ != 0) [[unlikely]] {
        if (auto* const scope = cuota::detail::capture_scope::here())
            scope->fail(std::make_exception_ptr(
                usage_error{"capture: cannot wait for captured work after an error"}));
        return false;
    }
    if (cuota::detail::foreign_capture_of(e) != 0) return false;
    relaxed_capture_mode const beside;
    return give_back("cudaEventSynchronize", [&e] { return cudaEventSynchronize(e.get()); });
}

}  // namespace cuota::inline v0::rt

#endif
