// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Streams: an owner, a reference, and a share that keeps the stream alive for a release to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/runtime/call.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/stream_state.hpp>

namespace cuota::inline v0 {

class event;
class stream_ref;

namespace rt {
bool async_free(void* p, stream_ref s) noexcept;
}

namespace detail {

std::uint64_t id_of(cudaStream_t native);

class on_device_of;
bool wait_for_async_frees(device where) noexcept;

}  // namespace detail

/// A stream that somebody else owns; what functions take. Copies are free.
///
/// Made from a `stream` or from a native handle. A native handle must outlive what is still to be released on it;
/// a `stream` need not: owners of memory keep a share of it. A stream_ref itself keeps nothing: clang warns of one that is made of
/// a temporary `stream`.
/// A default handle (cudaStreamPerThread, cudaStreamLegacy) names the stream that it names in the calling thread, on its current
/// device, at the time of the call. Owners remember which stream that was, and `home()` of a buffer returns that stream: in another
/// thread it cannot be reached, and each use of it there is misuse that names both threads.
/// Threads: any.
/// Throws:  cuda_error where CUDA is asked, misuse where a capture would be spoiled; nothing to make or copy one.
/// Cost:    of a `stream` the device and the id are known; of a native handle each is two CUDA calls.
/// Example: tests/runtime/stream.sim.cpp
class CUOTA_POINTER stream_ref {
public:
    /// Of a native handle; cudaStreamLegacy and cudaStreamPerThread are such. 0 is cudaStreamPerThread in a file that is compiled with
    /// CUDA_API_PER_THREAD_DEFAULT_STREAM (nvcc --default-stream per-thread), as in CUDA's calls there, and else cudaStreamLegacy.
    [[gnu::always_inline]] stream_ref(cudaStream_t native) noexcept : word_{word_of(native)} {}
    stream_ref(int) = delete;             // 0 is the legacy default stream only by accident
    stream_ref(std::nullptr_t) = delete;  // likewise: say cudaStreamLegacy or cudaStreamPerThread

    /// For calls of CUDA. Lives as long as the stream does. Of a default stream that was remembered, the handle, which names that
    /// stream in its own thread and on its own device only.
    [[nodiscard]] cudaStream_t get() const noexcept {
        return is_owned() ? owned_state().native : unowned_handle();
    }

    /// True when it was made from a `stream`, which is kept by those who must release memory on it.
    [[nodiscard]] bool is_owned() const noexcept { return (word_ & tag_bits) == owned; }
    /// Unique over the life of the program, unlike the handle. While others capture a native stream, CUDA does not tell its id:
    /// another one stands for it until the capture ends. Throws: cuda_error, never for one that is owned.
    [[nodiscard]] std::uint64_t id() const { return is_owned() ? owned_state().id : unowned_id(); }
    /// True when b was made from the same `stream`, or the same handle. Says less than ==, and faster.
    [[nodiscard]] bool is_same(stream_ref b) const noexcept { return word_ == b.word_; }

    /// The device that the stream belongs to; of a native stream that others capture, which CUDA does not tell, the current device.
    /// Throws: cuda_error.
    [[nodiscard]] cuota::device device() const;

    /// Waits on the host for all work enqueued so far. Throws: cuda_error, also of that work; misuse while it is captured.
    void synchronize(place where = place::here()) const;

    /// True when everything enqueued so far is done. Throws: cuda_error; misuse while it is captured.
    [[nodiscard]] bool is_idle() const;

    /// True while what is enqueued becomes a graph: to ask whether it is idle would spoil that. Throws: cuda_error.
    [[nodiscard]] bool is_capturing() const;

    /// Work enqueued here later starts after the event. No host wait, except while others capture this stream by CUDA's own calls:
    /// a graph cannot wait for work outside of it, so the host waits for an event of such work. An event of a capture goes to
    /// cudaStreamWaitEvent, which makes this stream part of that capture.
    /// Throws: cuda_error; misuse when a `capture` has one of the two and not the other.
    void wait(event const& done) const;

    /// True for a default stream that belongs to one thread: cudaStreamPerThread, or what an owner remembered of it.
    [[nodiscard]] bool is_of_one_thread() const noexcept {
        return !is_owned() && get() == cudaStreamPerThread;
    }
    /// False for cudaStreamPerThread as another thread remembered it: the calling thread has no handle for that stream.
    [[nodiscard]] bool is_reachable() const noexcept;
    /// False for cudaStreamPerThread of a thread that has ended; its work may still run.
    [[nodiscard]] bool has_live_thread() const noexcept;
    /// Throws misuse, which names both threads, unless it is reachable.
    void refuse_elsewhere(place where = {}) const;

    /// Whether both are one stream: by their native handles; by thread and device for default handles.
    friend bool operator==(stream_ref a, stream_ref b) noexcept {
        return a.is_same(b) || (a.get() == b.get() && a.is_same_default(b));
    }

private:
    // Before the call that would spoil the capture.
    void refuse_captured(char const* what, place where) const;
    friend class stream;
    friend class stream_share;
    friend class detail::on_device_of;
    friend bool detail::wait_for_async_frees(cuota::device where) noexcept;
    friend bool rt::async_free(void* p, stream_ref s) noexcept;
    explicit stream_ref(detail::stream_state& state) noexcept
        : word_{reinterpret_cast<std::uintptr_t>(&state) | owned} {}

    // One word, which goes in a register: a native handle, of which CUDA has 0, 1, 2 and pointers, or the address of the
    // state, marked.
    static constexpr std::uintptr_t tag_bits = 7, owned = 5, remembered_default = 7;
    static_assert(alignof(detail::stream_state) > tag_bits);

    // Of two with one handle.
    [[nodiscard]] bool is_same_default(stream_ref b) const noexcept;
    [[nodiscard]] bool has_state() const noexcept { return (word_ & owned) == owned; }
    [[nodiscard]] bool is_remembered_default() const noexcept {
        return (word_ & tag_bits) == remembered_default;
    }
    // Into each file, as that is compiled: the library's own files do not know what 0 is elsewhere.
    [[nodiscard, gnu::always_inline]] static std::uintptr_t word_of(cudaStream_t native) noexcept {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
        if (!native) return reinterpret_cast<std::uintptr_t>(cudaStreamPerThread);
#endif
        return reinterpret_cast<std::uintptr_t>(native);
    }
    [[nodiscard]] cudaStream_t native() const noexcept { return reinterpret_cast<cudaStream_t>(word_); }
    [[nodiscard]] detail::stream_state& owned_state() const noexcept {
        return *reinterpret_cast<detail::stream_state*>(word_ - owned);
    }
    [[nodiscard]] detail::stream_state& state() const noexcept {  // where it has one
        return *reinterpret_cast<detail::stream_state*>(word_ & ~tag_bits);
    }
    [[nodiscard]] cudaStream_t unowned_handle() const noexcept {
        return is_remembered_default() ? state().native : native();
    }
    [[nodiscard]] std::uint64_t unowned_id() const;

    std::uintptr_t word_;
};

/// A stream_ref that keeps a `stream` alive: what an owner of memory remembers for its release. 8 bytes.
/// Of a default handle it keeps the stream that the handle names where the share is made. Another native handle it does not own, as
/// stream_ref does not.
/// Threads: as `shared`. Cost: an atomic addition to make or to copy one of a `stream`; a move is none; of a default handle a CUDA call
/// to make one.
/// Example: tests/runtime/stream.sim.cpp
class stream_share {
public:
    /// Counts as an owner from here on.
    stream_share(stream_ref s) noexcept;
    /// One more of the same stream.
    stream_share(stream_share const& other) noexcept : stream_share{other.stream_} {}
    /// Takes the share over: other is of cudaStreamLegacy after it, and keeps nothing.
    stream_share(stream_share&& other) noexcept
        : stream_{std::exchange(other.stream_, stream_ref{cudaStreamLegacy})} {}
    /// Of the same stream as other; the share it had is dropped.
    stream_share& operator=(stream_share other) noexcept;
    ~stream_share();
    /// As a share that does not count, where somebody else keeps the stream; the caller must not destroy it.
    /// A default stream is counted all the same, so its share must be destroyed.
    [[nodiscard]] static stream_share uncounted(stream_ref s) noexcept { return {s, nullptr}; }

    operator stream_ref() const noexcept { return stream_; }                   ///< as it was made from
    [[nodiscard]] cudaStream_t get() const noexcept { return stream_.get(); }  ///< for calls of CUDA

    /// True when nobody else could enqueue anything more through this stream's owner: all other shares are gone.
    /// Never of a native handle, whose owner is not known here.
    [[nodiscard]] bool is_last() const noexcept { return is_owned() && stream_.state().owners() == 1; }
    [[nodiscard]] bool is_owned() const noexcept { return stream_.is_owned(); }  ///< as of stream_ref

private:
    stream_share(stream_ref s, std::nullptr_t) noexcept : stream_{s} {
        if (!s.is_owned() && detail::is_default_handle(s.get())) [[unlikely]]
            keep_default();
    }
    void keep_default() noexcept;
    CUOTA_PROCESS_STATE void remember_default() noexcept;

    stream_ref stream_;
};

namespace detail {

/// Makes the device current of a default stream that was remembered, so that its handle names that stream; nothing for others.
/// Throws: misuse, which names both threads, when the stream belongs to another thread; cuda_error. Nothing changed then.
/// Cost: a comparison, for other streams.
class on_device_of {
public:
    explicit on_device_of(stream_ref s, place where = {}) {
        if (s.is_remembered_default()) [[unlikely]]
            enter(s, where);
    }

private:
    void enter(stream_ref s, place where);

    std::optional<device_scope> here_;
};

class capture_scope;

/// The capture of this thread that takes in what is enqueued on s; null when there is none. Throws: cuda_error for a native
/// stream that has no id.
[[nodiscard]] capture_scope* capture_of(stream_ref s);
/// True while `capture` captures s, on any thread: then what ran on s before is over, and an event recorded on it would stand
/// for what has not run. Throws: as capture_of.
[[nodiscard]] bool is_captured(stream_ref s);

/// CUDA's number of the foreign capture that s is part of, 0 when it is part of none. A capture is foreign when it was begun by
/// cudaStreamBeginCapture and not by `capture`: the library does not know the graph that comes of it, its launches or its end.
/// Of a stream that cannot be reached from the calling thread: 0.
/// Throws: cuda_error. Cost: a CUDA call.
[[nodiscard]] std::uint64_t foreign_capture_of(stream_ref s);
/// For foreign_capture_of: the capture is invalidated already, or s is the legacy stream, which CUDA forbids to use while a blocking
/// stream is captured. No other capture has this number.
inline constexpr std::uint64_t unknown_capture = ~std::uint64_t{0};

}  // namespace detail

/// Which streams' work a device begins first. A hint: it does not interrupt what runs.
enum class stream_priority {
    normal,  ///< CUDA's 0, the least
    high,    ///< the greatest that the device has
};

/// Owns a CUDA stream of the current device, one that does not wait for the legacy default stream.
///
/// Move-only; moved-from may only be destroyed or assigned to, and any other use is misuse. Destruction does not wait: enqueued work still
/// runs, and the native stream is destroyed after the last owner of memory that must be released on it.
/// Order:   work runs in the order in which it was enqueued here, and beside that of other streams.
/// Threads: as CUDA's streams: any, and work of several threads comes in the order in which their calls do.
/// Throws:  cuda_error, std::bad_alloc on construction; misuse when moved from.
/// Cost:    some CUDA calls to make one: keep it.
/// Example: examples/first.cpp
class CUOTA_OWNER stream {
public:
    /// Of the calling thread's current device. Throws: cuda_error, std::bad_alloc.
    explicit stream(stream_priority priority = stream_priority::normal);
    stream(stream&&) noexcept = default;             ///< takes it over
    stream& operator=(stream&&) noexcept = default;  ///< as the end of what it was; takes the other over
    stream(stream const&) = delete;  // two owners of one order of work would each think it is theirs
    stream& operator=(stream const&) = delete;

    operator stream_ref() const { return stream_ref{state()}; }        ///< what functions take
    [[nodiscard]] cudaStream_t get() const { return state().native; }  ///< for calls of CUDA
    /// Unique over the life of the program.
    [[nodiscard]] std::uint64_t id() const { return state().id; }
    /// The one that was current when it was made.
    [[nodiscard]] cuota::device device() const { return state().home; }
    /// As stream_ref::synchronize: the host waits for all work enqueued so far.
    void synchronize(place where = place::here()) const { stream_ref{*this}.synchronize(where); }
    [[nodiscard]] bool is_idle() const { return stream_ref{*this}.is_idle(); }  ///< as of stream_ref
    void wait(event const& done) const;                                         ///< as of stream_ref

private:
    [[nodiscard]] detail::stream_state& state() const {
        if (!state_) [[unlikely]]
            refuse_moved_from();
        return *state_;
    }
    [[noreturn, gnu::cold]] static void refuse_moved_from();

    shared<detail::stream_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/beside_capture.hpp>
#include <cuota/runtime/capture_scope.hpp>

namespace cuota::inline v0::detail {

// CUDA refuses cudaStreamGetId and cudaStreamGetDevice of a captured stream, in every mode, and invalidates its capture.
CUOTA_INLINE bool is_being_captured(cudaStream_t native) { return stream_ref{native}.is_capturing(); }

// Of a stream that others capture: the same each time, and none that CUDA gives, which counts from 1.
CUOTA_INLINE std::uint64_t substitute_id(cudaStream_t native) noexcept {
    constexpr std::uint64_t mark = std::uint64_t{1} << 63;
    return mark | reinterpret_cast<std::uintptr_t>(native);
}

CUOTA_INLINE std::uint64_t id_of(cudaStream_t native) {
    if (is_default_handle(native)) return default_stream(native)->id;
    if (is_being_captured(native)) {
        auto const known = captured_streams::all().find(native);
        return known ? known->id : substitute_id(native);
    }
    unsigned long long id = 0;
    rt::check(cudaStreamGetId(native, &id), "cudaStreamGetId");
    return id;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE cuota::device stream_ref::device() const {
    if (has_state()) return state().home;
    if (detail::is_default_handle(native())) return cuota::device::current();
    if (detail::is_being_captured(native())) {
        auto const known = detail::captured_streams::all().find(native());
        return known ? cuota::device{known->device} : cuota::device::current();
    }
    int ordinal = 0;
    rt::check(cudaStreamGetDevice(native(), &ordinal), "cudaStreamGetDevice");
    return cuota::device{ordinal};
}

CUOTA_INLINE void stream_ref::synchronize(place where) const {
    detail::on_device_of const here{*this, where};
    refuse_captured("was to be waited for on the host", where);
    rt::beside_capture const beside;
    rt::check(cudaStreamSynchronize(get()), "cudaStreamSynchronize", where);
}

CUOTA_INLINE bool stream_ref::is_idle() const {
    detail::on_device_of const here{*this};
    refuse_captured("was asked whether it is idle", {});
    rt::beside_capture const beside;
    cudaError_t const code = cudaStreamQuery(get());
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
    }
    rt::check(code, "cudaStreamQuery");
    return true;
}

CUOTA_INLINE bool stream_ref::is_capturing() const {
    detail::on_device_of const here{*this};
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    rt::check(cudaStreamIsCapturing(get(), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
}

CUOTA_INLINE void stream_ref::refuse_captured(char const* what, place where) const {
    if (detail::is_captured(*this) || is_capturing())
        detail::throw_misuse(
            where, "a stream {} while it is captured, which would spoil that: do so before or after", {what});
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

CUOTA_INLINE void stream_ref::refuse_elsewhere(place where) const {
    if (is_reachable()) return;
    detail::throw_misuse(
        where,
        "cudaStreamPerThread of thread {} was used in thread {}, where that handle names another stream: use "
        "it and end "
        "its leases, batches and frames in the thread that it belongs to, or use a cuota::stream",
        {state().thread.system_id, detail::host_thread::current().system_id});
}

CUOTA_INLINE bool stream_ref::is_same_default(stream_ref b) const noexcept {
    if (!detail::is_default_handle(get())) return true;
    bool is_same = false;
    report_failure_of([&] { is_same = id() == b.id(); });
    return is_same;
}

CUOTA_INLINE stream_share::stream_share(stream_ref s) noexcept : stream_{s} {
    if (s.is_owned()) s.owned_state().add_owner();
    else if (detail::is_default_handle(s.get())) keep_default();
}

CUOTA_INLINE void stream_share::keep_default() noexcept {
    if (stream_.has_state()) stream_.state().add_owner();
    else remember_default();
}

CUOTA_INLINE void stream_share::remember_default() noexcept {
    union forever {  // belongs to no thread: a wait for it is a wait for the device
        forever() noexcept
            : state{cudaStreamPerThread, ~std::uint64_t{0}, cuota::device{0}, {~std::uint64_t{0}, 0}} {
            state.thread_has_ended = true;
        }
        ~forever() {}
        detail::stream_state state;
    };
    static forever unknown;
    detail::stream_state* known = nullptr;
    try {
        known = detail::default_stream(stream_.native()).detach();
    } catch (...) {  // the next CUDA call fails for the same reason, and reports it
        known = &unknown.state;
        known->add_owner();
    }
    stream_.word_ = reinterpret_cast<std::uintptr_t>(known) | stream_ref::remembered_default;
}

CUOTA_INLINE stream_share& stream_share::operator=(stream_share other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
}

CUOTA_INLINE stream_share::~stream_share() {
    if (stream_.has_state() && stream_.state().drop_owner()) delete &stream_.state();
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE void on_device_of::enter(stream_ref s, place where) {
    s.refuse_elsewhere(where);
    here_.emplace(s.state().home);
}

CUOTA_INLINE capture_scope* capture_of(stream_ref s) {
    capture_scope* const scope = capture_scope::here();
    return scope && scope->has(s.id()) ? scope : nullptr;
}

CUOTA_INLINE bool is_captured(stream_ref s) {
    return captured_streams::are_any() && captured_streams::all().has(s.id());
}

CUOTA_INLINE std::uint64_t foreign_capture_of(stream_ref s) {
    if (!s.is_reachable())
        return 0;  // CUDA cannot be asked here, and no work can be marked or enqueued either
    on_device_of const here{s};
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
    cudaError_t const code = cudaStreamGetCaptureInfo(s.get(), &status, &number);
    if (code == cudaErrorStreamCaptureImplicit) {
        (void)cudaGetLastError();
        return unknown_capture;
    }
    rt::check(code, "cudaStreamGetCaptureInfo");
    if (status == cudaStreamCaptureStatusNone || is_captured(s)) return 0;
    return status == cudaStreamCaptureStatusActive ? number : unknown_capture;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE void stream::refuse_moved_from() {
    detail::throw_misuse("a stream was used after it was moved from");
}

CUOTA_INLINE stream::stream(stream_priority priority) {
    rt::beside_capture const beside;
    int least = 0;
    int greatest = 0;
    if (priority == stream_priority::high)
        rt::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cuota::device const home = cuota::device::current();
    cudaStream_t native = nullptr;
    rt::check(cudaStreamCreateWithPriority(&native, cudaStreamNonBlocking, greatest),
              "cudaStreamCreateWithPriority");
    try {
        state_ = shared<detail::stream_state>::make(native, detail::id_of(native), home);
    } catch (...) {
        rt::give_back("cudaStreamDestroy", [native] { return cudaStreamDestroy(native); });
        throw;
    }
}

}  // namespace cuota::inline v0

#endif
