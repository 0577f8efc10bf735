// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Events: the hand-off between streams. An event here has always been recorded.
#pragma once

#include <cstdint>
#include <optional>

#include <cuota/core/config.hpp>
#include <cuota/core/handle.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

class event;
namespace rt {
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

/// How a thread of the host waits for an event. Example: tests/runtime/event.sim.cpp
enum class host_wait {
    active,  ///< as the device is set (cudaDeviceSchedule...), by default perhaps by a loop: returns soonest, and may occupy a core
    blocking,  ///< asleep (cudaEventBlockingSync): returns tens of microseconds later, and occupies no core
};

/// A point in a stream that others can wait for.
///
/// CUDA takes an event that was never recorded for one that is done, so a forgotten record is a silent race. This
/// type cannot be in that state: constructing it records. Recording again moves the point; waits made before keep
/// the old one. Without timing, which would cost. Move-only; moved-from may only be destroyed or assigned to, and any other use is
/// misuse.
/// Order:   stands for what was enqueued on the stream before it; `stream_ref::wait` makes another stream come after.
/// Threads: any may wait and ask; one at a time records or moves it.
/// Throws:  cuda_error; misuse when moved from.
/// Cost:    a CUDA call to record, to ask or to wait; some more to make one: keep it, and record again.
/// Example: tests/runtime/event.sim.cpp
class event {
public:
    /// Made on the device of s, whichever is current, and recorded. `synchronize` waits as `wait` says. Throws: cuda_error.
    explicit event(stream_ref s, host_wait wait = host_wait::active);

    /// The event now stands for all work enqueued on s so far. s must be of the device the event was made on.
    /// Throws: cuda_error; it stands for what it stood for then.
    void record(stream_ref s);

    /// Whether all work before it is over, without a wait.
    /// Throws: cuda_error; misuse when it stands for what a capture has taken in.
    [[nodiscard]] bool is_done() const;

    /// Waits on the host. Throws: cuda_error, also of the work before the event; misuse when it stands for what a capture has
    /// taken in.
    void synchronize() const;

    /// To look at, not to destroy. Null when moved from.
    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }

protected:
    /// As record, of a stream that is known to be part of that foreign capture, or of none (0): makes one CUDA call.
    void record_in(stream_ref s, std::uint64_t foreign);

private:
    friend class stream_ref;
    friend bool rt::drain(event const& e) noexcept;
    friend std::uint64_t detail::foreign_capture_of(event const& e) noexcept;
    // Before the call that would spoil a capture, or find that there was one.
    void refuse_captured(char const* what, place where) const;

    [[nodiscard]] cudaEvent_t native() const;  // throws misuse when moved from

    unique_handle<detail::event_traits> handle_;
    std::uint64_t capture_ = 0;  // the `capture` that it was recorded in
    std::uint64_t foreign_ = 0;  // the foreign capture that it was recorded in, by its foreign_capture_of
};

/// A moment in a stream's time, as its device sees it. Constructing it records. For measuring, not for ordering: it costs more
/// than an event. Move-only; moved-from may only be destroyed or assigned to, and any other use is misuse.
/// Order:   stands for what was enqueued on the stream before it.
/// Threads: one at a time.
/// Throws:  cuda_error; misuse in a capture.
/// Cost:    a CUDA call to record or to ask; some more to make one.
/// Example: tests/runtime/event.sim.cpp
class time_mark {
public:
    /// Made on the device of s, whichever is current, and recorded. Throws: as record.
    explicit time_mark(stream_ref s);
    /// The mark is now where s has come to by what is enqueued so far. s must be of the device the mark was made on.
    /// Throws: misuse in a capture of s, where nothing has a time; cuda_error.
    void record(stream_ref s);

    /// Time from the other mark to this one, to half a microsecond; nothing while work before either is not over.
    /// Both of one device. Throws: cuda_error.
    [[nodiscard]] std::optional<std::chrono::nanoseconds> since(time_mark const& earlier) const;

private:
    [[nodiscard]] cudaEvent_t native() const;  // throws misuse when moved from

    unique_handle<detail::event_traits> handle_;
};

namespace detail {

/// As captured_streams::begun.
[[nodiscard]] std::uint64_t captures_begun() noexcept;

/// The foreign capture that the event was last recorded in; 0: in none.
[[nodiscard]] inline std::uint64_t foreign_capture_of(event const& e) noexcept { return e.foreign_; }

/// What is enqueued on s later comes after the event, as s.wait(e), for uses that the library keeps account of. Work that a foreign
/// capture took in runs when its graph is launched, of which the library knows nothing: outside of that capture it is not waited for.
/// Throws: as wait.
void order_after(stream_ref s, event const& e);

/// What is enqueued on s later comes after all that was enqueued on other. Throws: cuda_error; misuse when other is part of a foreign
/// capture and s is not, for then its work so far can neither be marked nor waited for.
void order_after_work_of(stream_ref s, stream_ref other);

/// Records, by record(), where a stream is, for others to wait for; false when `capture` captures it: then all that it ran is
/// over, and what was recorded, if anything was, is of no use. Whoever captures may begin to meanwhile.
/// Throws: what record throws; as is_captured.
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

namespace rt {

/// As the one for streams, for what stands before an event. An event of a foreign capture is not waited for.
bool drain(event const& e) noexcept;

}  // namespace rt

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/beside_capture.hpp>
#include <cuota/runtime/capture_scope.hpp>
#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::uint64_t captures_begun() noexcept { return captured_streams::begun(); }

CUOTA_INLINE void order_after(stream_ref s, event const& e) {
    std::uint64_t const capture = foreign_capture_of(e);
    if (capture == 0 || capture == foreign_capture_of(s)) s.wait(e);
}

CUOTA_INLINE void order_after_work_of(stream_ref s, stream_ref other) {
    std::uint64_t const capture = foreign_capture_of(other);
    if (capture != 0 && capture != foreign_capture_of(s))
        throw_misuse("a stream was to wait for one that others capture: end the capture before");
    s.wait(event{other});
}

CUOTA_INLINE void event_traits::close(type e) noexcept {
    rt::beside_capture const beside;
    rt::give_back("cudaEventDestroy", [e] { return cudaEventDestroy(e); });
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE event::event(stream_ref s, host_wait wait) {
    s.refuse_elsewhere();
    device_scope const here{s.device()};  // an event is recorded on the device it was made on, or not at all
    {
        rt::beside_capture const beside;
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
    // Others may wait at a time, for what was recorded outside of captures: they find both 0.
    if (capture_ != now) capture_ = now;
    if (foreign_ != foreign) foreign_ = foreign;
}

CUOTA_INLINE bool event::is_done() const {
    refuse_captured("was asked whether it is done", {});
    rt::beside_capture const beside;
    cudaError_t const code = cudaEventQuery(native());
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
    }
    rt::check(code, "cudaEventQuery");
    return true;
}

CUOTA_INLINE void event::synchronize() const {
    refuse_captured("was to be waited for on the host", {});
    rt::beside_capture const beside;
    rt::check(cudaEventSynchronize(native()), "cudaEventSynchronize");
}

CUOTA_INLINE void event::refuse_captured(char const* what, place where) const {
    if (capture_ != 0 || foreign_ != 0) [[unlikely]]
        detail::throw_misuse(where, "an event that stands for captured work {}", {what});
}

CUOTA_INLINE cudaEvent_t event::native() const {
    if (!handle_) [[unlikely]]
        detail::throw_misuse("an event was used after it was moved from");
    return handle_.get();
}

CUOTA_INLINE cudaEvent_t time_mark::native() const {
    if (!handle_) [[unlikely]]
        detail::throw_misuse("a time_mark was used after it was moved from");
    return handle_.get();
}

CUOTA_INLINE time_mark::time_mark(stream_ref s) {
    device_scope const here{s.device()};
    {
        rt::beside_capture const beside;
        cudaEvent_t native = nullptr;
        rt::check(cudaEventCreate(&native), "cudaEventCreate");
        handle_.reset(native);
    }
    record(s);
}

CUOTA_INLINE void time_mark::record(stream_ref s) {
    detail::on_device_of const here{s};
    rt::refuse_captured(s, "a time was to be taken", "take it around the launches of the graph");
    rt::check(cudaEventRecord(native(), s.get()), "cudaEventRecord");
}

CUOTA_INLINE std::optional<std::chrono::nanoseconds> time_mark::since(time_mark const& earlier) const {
    rt::beside_capture const beside;
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
    cuota::detail::on_device_of const here{*this};
    cuota::detail::capture_scope const* const scope = cuota::detail::capture_scope::here();
    std::uint64_t const mine = scope && scope->has(id()) ? scope->number() : 0;
    if (done.capture_ != mine) [[unlikely]]
        throw misuse{
            mine == 0
                ? "a stream was to wait for captured work outside of its capture: name all streams in capture"
                : "a stream was to wait for work outside of its capture: let capture wait for it before"};
    if (mine == 0 && done.foreign_ == 0 && cuota::detail::foreign_capture_of(*this) != 0) [[unlikely]]
        return done.synchronize();
    rt::check(cudaStreamWaitEvent(get(), done.native(), 0), "cudaStreamWaitEvent");
}

CUOTA_INLINE void stream::wait(event const& done) const { stream_ref{*this}.wait(done); }

}  // namespace cuota::inline v0

namespace cuota::inline v0::rt {

CUOTA_INLINE bool drain(event const& e) noexcept {
    if (e.capture_ != 0) [[unlikely]] {
        if (auto* const scope = cuota::detail::capture_scope::here())
            scope->fail(std::make_exception_ptr(
                misuse{"an event that stands for captured work was to be waited for, after a failure"}));
        return false;
    }
    if (cuota::detail::foreign_capture_of(e) != 0) return false;
    beside_capture const beside;
    return give_back("cudaEventSynchronize", [&e] { return cudaEventSynchronize(e.get()); });
}

}  // namespace cuota::inline v0::rt

#endif
