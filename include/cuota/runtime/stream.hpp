// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Streams: an owner, a reference, and a shared owner for deallocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/runtime/detail/stream_state.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/rt/call.hpp>

namespace cuota::inline v0 {

class event;
class stream_ref;

namespace rt {
/// Frees memory of async_allocate in stream order. If this thread captures s, the capture fails and cudaFree frees it; in a foreign capture
/// nothing is freed. Returns false if the memory was not freed, which is reported.
bool async_free(void* p, stream_ref s) noexcept;
}

namespace detail {

std::uint64_t id_of(cudaStream_t native);

class on_device_of;
struct stream_key;
/// Throws: cuda_error, std::bad_alloc for a default handle.
[[nodiscard]] stream_key key_of(stream_ref s);
/// Waits on the host for the streams of a device on which async_free was called, except native and captured ones. Returns whether it
/// waited. Threads: any.
bool wait_for_async_frees(device where) noexcept;
/// Like order_after, but returns false, without an effect, where the host would have to wait.
[[nodiscard]] bool try_order_after(stream_ref s, event const& e);

}  // namespace detail

/// A non-owning reference to a stream, for function parameters.
///
/// A native handle must outlive the memory to be freed on it; owners of memory keep a `stream` alive.
/// A default handle (cudaStreamPerThread, cudaStreamLegacy) refers to the calling thread's stream on its current device at the time of the
/// call. Owners of memory store that stream; its use in another thread is misuse.
/// Threads: any.
/// Throws:  cuda_error where CUDA is queried, usage_error where a capture would be invalidated; construction and copies throw nothing.
/// Cost:    a native handle's device and id take two CUDA calls each.
/// Example: tests/runtime/stream.sim.cpp
class CUOTA_POINTER stream_ref {
public:
    /// Refers to a native handle. Like in CUDA, 0 means cudaStreamPerThread if CUDA_API_PER_THREAD_DEFAULT_STREAM is defined, otherwise
    /// cudaStreamLegacy.
    [[gnu::always_inline]] stream_ref(cudaStream_t native) noexcept : word_{word_of(native)} {}
    stream_ref(int) = delete;             // 0 is the legacy default stream only by accident
    stream_ref(std::nullptr_t) = delete;  // pass default_stream, cudaStreamLegacy or cudaStreamPerThread
    /// Refers to cudaStreamLegacy.
    [[nodiscard]] static constexpr stream_ref legacy() noexcept { return {legacy_word, at_compile_time{}}; }
    /// Refers to cudaStreamPerThread.
    [[nodiscard]] static constexpr stream_ref per_thread() noexcept {
        return {per_thread_word, at_compile_time{}};
    }

    /// Returns the native handle; a stored default stream's is valid only in its thread and on its device.
    [[nodiscard]] cudaStream_t get() const noexcept {
        return is_owned() ? owned_state().native : unowned_handle();
    }

    /// Returns whether it was made from a `stream`.
    [[nodiscard]] bool is_owned() const noexcept { return (word_ & tag_bits) == owned; }
    /// Returns an id that is unique in the process; a substitute for a native stream in a foreign capture.
    [[nodiscard]] std::uint64_t id() const { return is_owned() ? owned_state().id : unowned_id(); }
    /// Returns whether b was made from the same object. Faster than ==.
    [[nodiscard]] bool is_same(stream_ref b) const noexcept { return word_ == b.word_; }

    /// Returns the stream's device; the current one for a native stream in a foreign capture.
    [[nodiscard]] cuota::device device() const;

    /// Waits on the host for all work so far. Throws: also errors of that work; usage_error if captured.
    void synchronize(source_location where = source_location::current()) const;

    /// Returns whether all work so far has finished. Throws: usage_error if captured.
    [[nodiscard]] bool is_idle() const;

    /// Returns whether it is being captured.
    [[nodiscard]] bool is_capturing() const;

    /// Orders later work on this stream after the event. The host waits if only this stream is in a foreign capture; an event of a foreign
    /// capture makes this stream part of it.
    /// Throws: usage_error if a `capture` includes only one of the two.
    void wait(event const& done) const;

    /// Returns whether it is cudaStreamPerThread of any thread.
    [[nodiscard]] bool is_of_one_thread() const noexcept {
        return !is_owned() && get() == cudaStreamPerThread;
    }
    /// Returns false for another thread's cudaStreamPerThread.
    [[nodiscard]] bool is_reachable() const noexcept;
    /// Returns false for cudaStreamPerThread of a thread that has ended; its work may still run.
    [[nodiscard]] bool has_live_thread() const noexcept;
    /// Throws usage_error unless is_reachable().
    void check_reachable(source_location where = {}) const;

    /// Compares native handles; default handles by thread and device.
    friend bool operator==(stream_ref a, stream_ref b) noexcept {
        return a.is_same(b) || (a.get() == b.get() && a.is_same_default(b));
    }

private:
    [[noreturn, gnu::cold]] static void refuse_capture(char const* what, source_location where);
    // Returns false, without an effect, where the host has to wait.
    [[nodiscard]] bool try_wait(event const& done) const;
    friend bool detail::try_order_after(stream_ref s, event const& e);
    friend class stream;
    friend class shared_stream;
    friend class detail::on_device_of;
    friend detail::stream_key detail::key_of(stream_ref s);
    friend bool detail::wait_for_async_frees(cuota::device where) noexcept;
    friend bool rt::async_free(void* p, stream_ref s) noexcept;
    explicit stream_ref(detail::stream_state& state) noexcept
        : word_{reinterpret_cast<std::uintptr_t>(&state) | owned} {}

    struct at_compile_time {};  // CUDA's constants are not
    constexpr stream_ref(std::uintptr_t word, at_compile_time) noexcept : word_{word} {}
    static constexpr std::uintptr_t legacy_word = 1, per_thread_word = 2;

    // A native handle (1, 2 or a pointer) or the tagged address of the state.
    static constexpr std::uintptr_t tag_bits = 7, owned = 5, remembered_default = 7;
    static_assert(alignof(detail::stream_state) > tag_bits);

    [[nodiscard]] bool is_same_default(stream_ref b) const noexcept;
    [[nodiscard]] bool has_state() const noexcept { return (word_ & owned) == owned; }
    [[nodiscard]] bool is_remembered_default() const noexcept {
        return (word_ & tag_bits) == remembered_default;
    }
    // Inlined: each file has its own meaning of 0.
    [[nodiscard, gnu::always_inline]] static std::uintptr_t word_of(cudaStream_t native) noexcept {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
        constexpr std::uintptr_t zero = per_thread_word;
#else
        constexpr std::uintptr_t zero = legacy_word;
#endif
        return native ? reinterpret_cast<std::uintptr_t>(native) : zero;
    }
    [[nodiscard]] cudaStream_t native() const noexcept { return reinterpret_cast<cudaStream_t>(word_); }
    [[nodiscard]] detail::stream_state& owned_state() const noexcept {
        return *reinterpret_cast<detail::stream_state*>(word_ - owned);
    }
    [[nodiscard]] detail::stream_state& state() const noexcept {  // requires has_state()
        return *reinterpret_cast<detail::stream_state*>(word_ & ~tag_bits);
    }
    [[nodiscard]] cudaStream_t unowned_handle() const noexcept {
        return is_remembered_default() ? state().native : native();
    }
    [[nodiscard]] std::uint64_t unowned_id() const;

    std::uintptr_t word_;
};

/// A shared owner of a `stream`, in 8 bytes. For a default handle it stores the stream that the handle refers to at construction. Other
/// native handles are not owned.
/// Threads: as std::shared_ptr. Cost: an atomic increment; for a default handle, construction is a CUDA call.
/// Example: tests/runtime/stream.sim.cpp
class shared_stream {
public:
    /// Becomes an owner.
    shared_stream(stream_ref s) noexcept;
    /// Adds an owner.
    shared_stream(shared_stream const& other) noexcept : shared_stream{other.stream_} {}
    /// Transfers ownership; `other` refers to cudaStreamLegacy afterwards.
    shared_stream(shared_stream&& other) noexcept
        : stream_{std::exchange(other.stream_, stream_ref{cudaStreamLegacy})} {}
    /// Drops the current stream and shares another.
    shared_stream& operator=(shared_stream const& other) noexcept { return *this = shared_stream{other}; }
    /// Drops the current stream and takes over another; `other` refers to cudaStreamLegacy afterwards.
    shared_stream& operator=(shared_stream&& other) noexcept;
    ~shared_stream();
    /// Refers to cudaStreamLegacy, as after a move.
    [[nodiscard]] static shared_stream none() noexcept { return shared_stream{nullptr}; }
    /// Makes an uncounted share of a `stream` that another owner keeps alive; it must not be destroyed. A default stream's share is counted
    /// and must be.
    [[nodiscard]] static shared_stream unowned(stream_ref s) noexcept { return {s, nullptr}; }

    operator stream_ref() const noexcept { return stream_; }                   ///< refers to the same stream
    [[nodiscard]] cudaStream_t get() const noexcept { return stream_.get(); }  ///< for CUDA calls

    /// Returns whether nothing else can enqueue work on it; false for a native handle.
    [[nodiscard]] bool is_unique() const noexcept { return is_owned() && stream_.state().ref_count() == 1; }
    [[nodiscard]] bool is_owned() const noexcept { return stream_.is_owned(); }  ///< see stream_ref

private:
    explicit shared_stream(std::nullptr_t) noexcept : stream_{stream_ref::legacy()} {}
    shared_stream(stream_ref s, std::nullptr_t) noexcept : stream_{s} {
        if (!s.is_owned() && detail::is_default_handle(s.get())) [[unlikely]]
            keep_default();
    }
    void keep_default() noexcept;
    CUOTA_PROCESS_STATE void remember_default() noexcept;

    stream_ref stream_;
};

namespace detail {

/// Makes a stored default stream's device current. Throws: usage_error in another thread than the stream's; cuda_error. Nothing changes.
class on_device_of {
public:
    explicit on_device_of(stream_ref s, source_location where = {}) {
        if (s.is_remembered_default()) [[unlikely]]
            enter(s, where);
    }

private:
    void enter(stream_ref s, source_location where);

    std::optional<device_scope> here_;
};

class capture_scope;

/// Returns the capture of this thread that includes s, or null. Throws: cuda_error.
[[nodiscard]] capture_scope* capture_of(stream_ref s);
/// Returns whether `capture` captures s, on any thread: earlier work has finished, and events represent work that has not run. Throws:
/// cuda_error.
[[nodiscard]] bool is_captured(stream_ref s);

/// Waits on the host for all work so far; a `capture` of s on another thread begins later. Returns false, without a wait, if s is captured, or
/// another thread's default stream. Throws: cuda_error, also of the work; usage_error for the legacy stream while a stream that waits for it is
/// captured.
[[nodiscard]] bool wait_outside_captures(stream_ref s, source_location where = {});
/// Returns whether all work so far has finished; nullopt if s is captured. Throws: cuda_error; usage_error for another thread's default
/// stream.
[[nodiscard]] std::optional<bool> query_outside_captures(stream_ref s);

/// Returns CUDA's number of the foreign capture (one not begun by `capture`) of s; 0 without one, or if s is not reachable. Throws:
/// cuda_error. Cost: a CUDA call.
[[nodiscard]] std::uint64_t foreign_capture_of(stream_ref s);
/// Stands for an invalidated capture, and for the legacy stream while a captured blocking stream forbids its use.
inline constexpr std::uint64_t unknown_capture = ~std::uint64_t{0};

}  // namespace detail

/// The stream of launches and copies that name none, as this file is compiled: cudaStreamLegacy, or cudaStreamPerThread if
/// CUDA_API_PER_THREAD_DEFAULT_STREAM is defined (nvcc --default-stream per-thread). A `stream` does not wait for it, nor it for a `stream`.
/// Example: docs/adopting.md
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
constexpr stream_ref default_stream = stream_ref::per_thread();
#else
constexpr stream_ref default_stream = stream_ref::legacy();
#endif

/// Scheduling priority. A hint: running work is not preempted.
enum class stream_priority {
    normal,  ///< CUDA's priority 0, the lowest
    high,    ///< the device's highest
};

/// Owns a CUDA stream of the current device that does not synchronize with the legacy default stream (cudaStreamNonBlocking).
///
/// Move-only. The destructor does not wait: enqueued work still runs, and the native stream is destroyed after the last owner of memory to
/// be freed on it.
/// Order:   as enqueued, by any thread; concurrent with other streams.
/// Threads: any.
/// Throws:  cuda_error, std::bad_alloc on construction; usage_error if moved from.
/// Cost:    several CUDA calls to make one.
/// Example: examples/first.cpp
class CUOTA_OWNER stream {
public:
    /// Makes a stream on the current device.
    explicit stream(stream_priority priority = stream_priority::normal);
    stream(stream&&) noexcept = default;             ///< transfers ownership
    stream& operator=(stream&&) noexcept = default;  ///< drops the current stream and transfers ownership
    stream(stream const&) = delete;                  // use stream_ref
    stream& operator=(stream const&) = delete;

    operator stream_ref() const { return stream_ref{state()}; }        ///< for parameters
    [[nodiscard]] cudaStream_t get() const { return state().native; }  ///< for CUDA calls
    /// Returns an id, unique in the process.
    [[nodiscard]] std::uint64_t id() const { return state().id; }
    /// Returns the device at construction.
    [[nodiscard]] cuota::device device() const { return state().home; }
    /// See stream_ref::synchronize.
    void synchronize(source_location where = source_location::current()) const {
        stream_ref{*this}.synchronize(where);
    }
    [[nodiscard]] bool is_idle() const { return stream_ref{*this}.is_idle(); }  ///< see stream_ref
    void wait(event const& done) const;                                         ///< see stream_ref

private:
    [[nodiscard]] detail::stream_state& state() const {
        if (!state_) [[unlikely]]
            refuse_moved_from();
        return *state_;
    }
    [[noreturn, gnu::cold]] static void refuse_moved_from();

    detail::intrusive_ptr<detail::stream_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE stream_key key_of(stream_ref s) {
    if (s.has_state()) return {s.state().id, nullptr};
    if (is_default_handle(s.native())) return {default_stream(s.native())->id, nullptr};
    return {0, s.native()};
}

// CUDA rejects cudaStreamGetId, -Device and -Flags for a captured stream and invalidates its capture: they are called while no `capture`
// begins. Returns the stream's entry if it is captured; otherwise sets is_foreign, or calls query().
template <class Query>
[[nodiscard]] std::optional<captured_stream> query_or_find(stream_ref s, bool& is_foreign, Query query) {
    return captured_streams::all().find_or(key_of(s), [&] {
        is_foreign = s.is_capturing();
        if (!is_foreign) query();
    });
}

// Returns an id different from CUDA's, which count from 1.
CUOTA_INLINE std::uint64_t substitute_id(cudaStream_t native) noexcept {
    constexpr std::uint64_t mark = std::uint64_t{1} << 63;
    return mark | reinterpret_cast<std::uintptr_t>(native);
}

CUOTA_INLINE std::uint64_t id_of(cudaStream_t native) {
    if (is_default_handle(native)) return default_stream(native)->id;
    unsigned long long id = 0;
    bool is_foreign = false;
    auto const query = [&] { rt::check(cudaStreamGetId(native, &id), "cudaStreamGetId"); };
    if (auto const known = query_or_find(native, is_foreign, query)) return known->id;
    return is_foreign ? substitute_id(native) : id;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE cuota::device stream_ref::device() const {
    if (has_state()) return state().home;
    if (detail::is_default_handle(native())) return cuota::device::current();
    int ordinal = 0;
    bool is_foreign = false;
    auto const query = [&] { rt::check(rt::device_of_stream(native(), &ordinal), "cudaStreamGetDevice"); };
    if (auto const known = detail::query_or_find(*this, is_foreign, query))
        return cuota::device{known->device};
    return is_foreign ? cuota::device::current() : cuota::device{ordinal};
}

CUOTA_INLINE void stream_ref::synchronize(source_location where) const {
    detail::on_device_of const here{*this, where};
    if (!detail::wait_outside_captures(*this, where)) refuse_capture("stream::synchronize", where);
}

CUOTA_INLINE bool stream_ref::is_idle() const {
    std::optional<bool> const is_over = detail::query_outside_captures(*this);
    if (!is_over) refuse_capture("stream::is_idle", {});
    return *is_over;
}

CUOTA_INLINE bool stream_ref::is_capturing() const {
    detail::on_device_of const here{*this};
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    rt::check(cudaStreamIsCapturing(get(), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
}

CUOTA_INLINE void stream_ref::refuse_capture(char const* what, source_location where) {
    detail::throw_usage_error(where,
                              "{}: not allowed while the stream is being captured, because it would "
                              "invalidate the capture; call it before or after the capture",
                              {what});
}

[[gnu::noinline]] CUOTA_INLINE std::uint64_t stream_ref::unowned_id() const {
    return has_state() ? state().id : detail::id_of(native());
}

CUOTA_INLINE bool stream_ref::is_reachable() const noexcept {
    if (!is_remembered_default()) return true;
    std::uint64_t const thread = state().thread.number;
    return thread == 0 || thread == detail::host_thread::current().number;
}

CUOTA_INLINE bool stream_ref::has_live_thread() const noexcept {
    return !is_remembered_default() || !state().thread_has_ended.load(std::memory_order_acquire);
}

CUOTA_INLINE void stream_ref::check_reachable(source_location where) const {
    if (is_reachable()) return;
    detail::throw_usage_error(
        where,
        "cannot use cudaStreamPerThread of thread {} in thread {}, where that handle denotes another stream; "
        "use it, and destroy its leases, batches and frames, in its own thread, or use a cuota::stream",
        {state().thread.system_id, detail::host_thread::current().system_id});
}

CUOTA_INLINE bool stream_ref::is_same_default(stream_ref b) const noexcept {
    if (!detail::is_default_handle(get())) return true;
    bool is_same = false;
    report_failure_of([&] { is_same = id() == b.id(); });
    return is_same;
}

CUOTA_INLINE shared_stream::shared_stream(stream_ref s) noexcept : stream_{s} {
    if (s.is_owned()) s.owned_state().add_ref();
    else if (detail::is_default_handle(s.get())) keep_default();
}

CUOTA_INLINE void shared_stream::keep_default() noexcept {
    if (stream_.has_state()) stream_.state().add_ref();
    else remember_default();
}

CUOTA_INLINE_STATE void shared_stream::remember_default() noexcept {
    // A wait for this stream is a wait for the device.
    static detail::never_destroyed<detail::stream_state> unknown{
        cudaStreamPerThread, ~std::uint64_t{0}, cuota::device{0}, detail::host_thread{~std::uint64_t{0}, 0}};
    unknown.value.thread_has_ended.store(true, std::memory_order_relaxed);
    detail::stream_state* known = nullptr;
    try {
        known = detail::default_stream(stream_.native()).detach();
    } catch (...) {  // the next CUDA call reports the reason
        known = &unknown.value;
        known->add_ref();
    }
    stream_.word_ = reinterpret_cast<std::uintptr_t>(known) | stream_ref::remembered_default;
}

CUOTA_INLINE shared_stream& shared_stream::operator=(shared_stream&& other) noexcept {
    shared_stream taken{std::move(other)};
    std::swap(stream_, taken.stream_);
    return *this;
}

CUOTA_INLINE shared_stream::~shared_stream() {
    if (stream_.has_state() && stream_.state().drop_ref()) delete &stream_.state();
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void on_device_of::enter(stream_ref s, source_location where) {
    s.check_reachable(where);
    here_.emplace(s.state().home);
}

CUOTA_INLINE capture_scope* capture_of(stream_ref s) {
    capture_scope* const scope = capture_scope::here();
    return scope && scope->has(key_of(s)) ? scope : nullptr;
}

CUOTA_INLINE bool is_captured(stream_ref s) {
    return captured_streams::are_any() && captured_streams::all().has(key_of(s));
}

CUOTA_INLINE capture_delay::capture_delay(stream_ref s)
    : stream_{key_of(s)},
      device_{s.get() == cudaStreamLegacy ? s.device().ordinal() : 0},
      extent_{s.get() == cudaStreamLegacy ? extent::blocking_streams : extent::stream} {
    enter();
}

CUOTA_INLINE capture_delay::capture_delay(device on) noexcept
    : stream_{}, device_{on.ordinal()}, extent_{extent::device} {
    enter();
}

CUOTA_INLINE void capture_delay::refuse_legacy(source_location where) const {
    if (is_too_late_ && extent_ == extent::blocking_streams) [[unlikely]]
        throw_usage_error(
            where,
            "cannot wait for the legacy stream while a stream that waits for it is being captured; end the "
            "capture first");
}

CUOTA_INLINE bool wait_outside_captures(stream_ref s, source_location where) {
    expect_no_region("cudaStreamSynchronize");
    if (!s.is_reachable()) return false;
    on_device_of const here{s, where};
    capture_delay const delay{s};
    delay.refuse_legacy(where);
    if (delay.is_too_late() || s.is_capturing()) return false;
    rt::relaxed_capture_mode const beside;
    rt::check(cudaStreamSynchronize(s.get()), "cudaStreamSynchronize", where);
    return true;
}

CUOTA_INLINE std::optional<bool> query_outside_captures(stream_ref s) {
    on_device_of const here{s};
    std::optional<cudaError_t> code;
    (void)captured_streams::all().find_or(key_of(s), [&] {
        if (s.is_capturing()) return;
        rt::relaxed_capture_mode const beside;
        code = cudaStreamQuery(s.get());
        if (code == cudaErrorNotReady) (void)cudaGetLastError();
    });
    if (!code) return std::nullopt;
    if (code != cudaErrorNotReady) rt::check(*code, "cudaStreamQuery");
    return code == cudaSuccess;
}

// Returns the number of the capture that s is part of; 0: none.
[[nodiscard]] CUOTA_INLINE std::uint64_t number_of_capture(stream_ref s) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
    cudaError_t const code = cudaStreamGetCaptureInfo(s.get(), &status, &number);
    if (code == cudaErrorStreamCaptureImplicit) {
        (void)cudaGetLastError();
        return unknown_capture;
    }
    rt::check(code, "cudaStreamGetCaptureInfo");
    if (status == cudaStreamCaptureStatusNone) return 0;
    return status == cudaStreamCaptureStatusActive ? number : unknown_capture;
}

CUOTA_INLINE std::uint64_t foreign_capture_of(stream_ref s) {
    if (!s.is_reachable()) return 0;  // CUDA cannot be queried from this thread
    on_device_of const here{s};
    std::uint64_t number = number_of_capture(s);
    if (number == 0) return 0;
    // Queried again while no capture of cuota begins or ends: one of another thread may have ended since.
    return captured_streams::all().find_or(key_of(s), [&] { number = number_of_capture(s); }) ? 0 : number;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void stream::refuse_moved_from() {
    detail::throw_usage_error("a stream was used after it was moved from");
}

CUOTA_INLINE stream::stream(stream_priority priority) {
    rt::relaxed_capture_mode const beside;
    int least = 0;
    int greatest = 0;
    if (priority == stream_priority::high)
        rt::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cuota::device const home = cuota::device::current();
    cudaStream_t native = nullptr;
    rt::check(cudaStreamCreateWithPriority(&native, cudaStreamNonBlocking, greatest),
              "cudaStreamCreateWithPriority");
    try {
        state_ = detail::intrusive_ptr<detail::stream_state>::make(native, detail::id_of(native), home);
    } catch (...) {
        rt::give_back("cudaStreamDestroy", [native] { return cudaStreamDestroy(native); });
        throw;
    }
}

}  // namespace cuota::inline v0

#endif
