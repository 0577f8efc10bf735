// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Streams: an owner, a reference, and a share that keeps the stream alive for a release to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/runtime/call.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

class event;

namespace detail {

struct stream_state final : ref_counted {
    stream_state(cudaStream_t handle, std::uint64_t stream_id, device where) noexcept
        : native{handle}, id{stream_id}, home{where} {}
    ~stream_state();
    cudaStream_t native;
    std::uint64_t id;
    device home;
};

std::uint64_t id_of(cudaStream_t native);

}  // namespace detail

/// A stream that somebody else owns; what functions take. Copies are free.
///
/// Made from a `stream` or from a native handle. A native handle must outlive what is still to be released on it;
/// a `stream` need not: owners of memory keep a share of it. A stream_ref itself keeps nothing: clang warns of one that is made of
/// a temporary `stream`.
/// Threads: any.
/// Throws:  cuda_error where CUDA is asked, misuse where a capture would be spoiled; nothing to make or copy one.
/// Cost:    of a `stream` the device and the id are known; of a native handle each is two CUDA calls.
/// Example: tests/runtime/stream.sim.cpp
class CUOTA_POINTER stream_ref {
public:
    /// Of a native handle; cudaStreamLegacy and cudaStreamPerThread are such.
    stream_ref(cudaStream_t native) noexcept : word_{reinterpret_cast<std::uintptr_t>(native)} {}
    stream_ref(int) = delete;             // 0 is the legacy default stream only by accident
    stream_ref(std::nullptr_t) = delete;  // likewise: say cudaStreamLegacy or cudaStreamPerThread

    /// For calls of CUDA. Lives as long as the stream does.
    [[nodiscard]] cudaStream_t get() const noexcept { return is_owned() ? state().native : native(); }

    /// True when it was made from a `stream`, which is kept by those who must release memory on it.
    [[nodiscard]] bool is_owned() const noexcept { return (word_ & tag_bits) == owned; }
    /// Unique over the life of the program, unlike the handle. While others capture a native stream, CUDA does not tell its id:
    /// another one stands for it until the capture ends. Throws: cuda_error, never for one that is owned.
    [[nodiscard]] std::uint64_t id() const { return is_owned() ? state().id : detail::id_of(native()); }
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

    /// Whether both are one stream by their native handles.
    friend bool operator==(stream_ref a, stream_ref b) noexcept { return a.get() == b.get(); }

private:
    // Before the call that would spoil the capture.
    void refuse_captured(char const* what, place where) const;
    friend class stream;
    friend class stream_share;
    explicit stream_ref(detail::stream_state& state) noexcept
        : word_{reinterpret_cast<std::uintptr_t>(&state) | owned} {}

    // One word, which goes in a register: a native handle, of which CUDA has 0, 1, 2 and pointers, or the address of the
    // state, marked.
    static constexpr std::uintptr_t tag_bits = 7, owned = 5;
    static_assert(alignof(detail::stream_state) > tag_bits);

    [[nodiscard]] cudaStream_t native() const noexcept { return reinterpret_cast<cudaStream_t>(word_); }
    [[nodiscard]] detail::stream_state& state() const noexcept;

    std::uintptr_t word_;
};

/// A stream_ref that keeps a `stream` alive: what an owner of memory remembers for its release. 8 bytes.
/// A native handle is not kept: it is as in stream_ref.
/// Threads: as `shared`. Cost: an atomic addition to make or to copy one of a `stream`; a move is none.
/// Example: tests/runtime/stream.sim.cpp
class stream_share {
public:
    /// Counts as an owner from here on.
    stream_share(stream_ref s) noexcept;
    /// One more of the same stream.
    stream_share(stream_share const& other) noexcept : stream_share{other.stream_} {}
    /// Takes the share over: other is of the native handle then, and keeps nothing.
    stream_share(stream_share&& other) noexcept
        : stream_{std::exchange(other.stream_, stream_ref{other.get()})} {}
    /// Of the same stream as other; the share it had is dropped.
    stream_share& operator=(stream_share other) noexcept;
    ~stream_share();
    /// As a share that does not count, where somebody else keeps the stream; the caller must not destroy it.
    [[nodiscard]] static stream_share uncounted(stream_ref s) noexcept { return {s, nullptr}; }

    operator stream_ref() const noexcept { return stream_; }                   ///< as it was made from
    [[nodiscard]] cudaStream_t get() const noexcept { return stream_.get(); }  ///< for calls of CUDA

    /// True when nobody else could enqueue anything more through this stream's owner: all other shares are gone.
    /// Never of a native handle, whose owner is not known here.
    [[nodiscard]] bool is_last() const noexcept { return is_owned() && stream_.state().owners() == 1; }
    [[nodiscard]] bool is_owned() const noexcept { return stream_.is_owned(); }  ///< as of stream_ref

private:
    stream_share(stream_ref s, std::nullptr_t) noexcept : stream_{s} {}

    stream_ref stream_;
};

namespace detail {

class capture_scope;

/// The capture of this thread that takes in what is enqueued on s; null when there is none. Throws: cuda_error for a native
/// stream that has no id.
[[nodiscard]] capture_scope* capture_of(stream_ref s);
/// True while `capture` captures s, on any thread: then what ran on s before is over, and an event recorded on it would stand
/// for what has not run. Throws: as capture_of.
[[nodiscard]] bool is_captured(stream_ref s);

/// CUDA's number of the foreign capture that s is part of, 0 when it is part of none. A capture is foreign when it was begun by
/// cudaStreamBeginCapture and not by `capture`: the library does not know the graph that comes of it, its launches or its end.
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
/// Move-only; moved-from may only be destroyed or assigned to, and any other use is misuse. Destruction does not wait: enqueued work still runs,
/// and the native stream lives until the last owner of memory that must be released on it is gone.
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

CUOTA_INLINE stream_state::~stream_state() {
    rt::beside_capture const beside;
    // Returns at once; what is enqueued still runs.
    rt::give_back("cudaStreamDestroy", [this] { return cudaStreamDestroy(native); });
}

// CUDA refuses cudaStreamGetId and cudaStreamGetDevice of a captured stream, in every mode, and invalidates its capture.
CUOTA_INLINE bool is_being_captured(cudaStream_t native) {
    return native && native != cudaStreamLegacy && stream_ref{native}.is_capturing();
}

// Of a stream that others capture: the same each time, and none that CUDA gives, which counts from 1.
CUOTA_INLINE std::uint64_t substitute_id(cudaStream_t native) noexcept {
    constexpr std::uint64_t mark = std::uint64_t{1} << 63;
    static constinit thread_local char own = 0;  // cudaStreamPerThread is another stream in each thread
    return mark | (native == cudaStreamPerThread ? reinterpret_cast<std::uintptr_t>(&own)
                                                 : reinterpret_cast<std::uintptr_t>(native));
}

CUOTA_INLINE std::uint64_t id_of(cudaStream_t native) {
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
    if (is_owned()) return state().home;
    if (detail::is_being_captured(native())) {
        auto const known = detail::captured_streams::all().find(native());
        return known ? cuota::device{known->device} : cuota::device::current();
    }
    int ordinal = 0;
    rt::check(cudaStreamGetDevice(native(), &ordinal), "cudaStreamGetDevice");
    return cuota::device{ordinal};
}

CUOTA_INLINE void stream_ref::synchronize(place where) const {
    refuse_captured("was to be waited for on the host", where);
    rt::beside_capture const beside;
    rt::check(cudaStreamSynchronize(get()), "cudaStreamSynchronize", where);
}

CUOTA_INLINE bool stream_ref::is_idle() const {
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
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    rt::check(cudaStreamIsCapturing(get(), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
}

CUOTA_INLINE void stream_ref::refuse_captured(char const* what, place where) const {
    if (detail::is_captured(*this) || is_capturing())
        detail::throw_misuse(
            where, "a stream {} while it is captured, which would spoil that: do so before or after", {what});
}

CUOTA_INLINE detail::stream_state& stream_ref::state() const noexcept {
    return *reinterpret_cast<detail::stream_state*>(word_ - owned);
}

CUOTA_INLINE stream_share::stream_share(stream_ref s) noexcept : stream_{s} {
    if (s.is_owned()) s.state().add_owner();
}

CUOTA_INLINE stream_share& stream_share::operator=(stream_share other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
}

CUOTA_INLINE stream_share::~stream_share() {
    if (is_owned() && stream_.state().drop_owner()) delete &stream_.state();
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE capture_scope* capture_of(stream_ref s) {
    capture_scope* const scope = capture_scope::here();
    return scope && scope->has(s.id()) ? scope : nullptr;
}

CUOTA_INLINE bool is_captured(stream_ref s) {
    return captured_streams::are_any() && captured_streams::all().has(s.id());
}

CUOTA_INLINE std::uint64_t foreign_capture_of(stream_ref s) {
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
