// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// CUDA graphs: work captured once and launched repeatedly.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/unique_handle.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

namespace detail {

struct graph_traits {
    using type = cudaGraph_t;
    static type none() noexcept { return nullptr; }
    static void close(type g) noexcept;
};
struct graph_exec_traits {
    using type = cudaGraphExec_t;
    static type none() noexcept { return nullptr; }
    static void close(type e) noexcept;
};

class capture_session;
class graph_use;

}  // namespace detail
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::graph_use>;
#endif

/// A launchable graph (cudaGraphExec_t) and its resources. Returned by `capture`.
///
/// A launch is one use of each buffer that was borrowed in the capture. The buffers must outlive the launches. Memory allocated in the
/// capture on its streams, or freed in it, belongs to the graph until it is destroyed.
///
/// Move-only. The destructor waits on the host for launches if it has memory to free.
/// Threads: one at a time.
/// Example: examples/replay_graph.cpp
class graph_exec {
public:
    graph_exec(graph_exec&& other) noexcept;  ///< transfers the graph and its resources
    /// Destroys the current graph and transfers the other.
    graph_exec& operator=(graph_exec&& other) noexcept;
    // A graph has one owner, because its launches are ordered.
    graph_exec(graph_exec const&) = delete;
    graph_exec& operator=(graph_exec const&) = delete;
    ~graph_exec();

    /// Enqueues the graph on s, which need not be a stream of the capture.
    /// Order:  after earlier work on s, earlier uses of the graph's resources and earlier launches; later ones wait for it.
    /// Throws: usage_error if moved from, if a buffer was destroyed or has a conflicting lease on another stream, or if s is captured;
    ///         out_of_memory if the device has no room for memory(), also once pools and caches have released idle memory; cuda_error,
    ///         std::bad_alloc. Nothing is launched.
    /// Cost:   one or two CUDA calls, and a lease for each buffer.
    void launch(stream_ref s, source_location where = source_location::current());

    /// Returns the most bytes that a launch allocates for the graph itself, for calls of cudaMallocAsync in the capture: `graph_memory` charges
    /// them. 0 for graphs of memory that cuota allocated.
    [[nodiscard]] std::size_t memory() const noexcept { return memory_; }

    /// Returns the native graph; null if moved from. Leases do not wait for a launch made through it.
    [[nodiscard]] cudaGraphExec_t get() const noexcept { return exec_.get(); }

private:
    friend class detail::capture_session;
    graph_exec(cudaGraphExec_t native, std::size_t memory,
               detail::dynamic_array<detail::intrusive_ptr<detail::graph_use>> uses) noexcept;

    detail::dynamic_array<detail::intrusive_ptr<detail::graph_use>> uses_;
    std::size_t memory_;
    unique_handle<detail::graph_exec_traits> exec_;
};

namespace detail {

[[nodiscard]] graph_exec captured(stream_ref const* streams, std::size_t count, void (*work)(void*), void* of,
                                  source_location where);

template <class F>
graph_exec captured(stream_ref const* streams, std::size_t count, F&& f, source_location where) {
    using called = std::remove_reference_t<F>;
    return captured(
        streams, count, [](void* of) { std::forward<F> (*static_cast<called*>(of))(); },
        const_cast<void*>(static_cast<void const*>(std::addressof(f))), where);
}

}  // namespace detail

/// Captures the work that f enqueues on the streams, for later launches. The graph begins and ends on the first stream; the others fork
/// from it and join it.
///
/// First waits on the host for earlier work on the streams. Work that f enqueues on other streams runs immediately.
/// On the captured streams, in f, on this thread:
/// - Leases of buffers work as usual; they must end before f returns.
/// - Memory of a step_plan in a planned step has the same addresses at each launch. A deviation from the plan is misuse.
/// - Memory of a scoped_pool and of device_memory belongs to the graph, also if f frees it.
/// - Waits on the host are misuse: copies to and from pageable host memory, synchronize, a loader's views.
/// Misuse is thrown before a CUDA call that would invalidate the capture; f may catch it and continue.
///
/// Other threads cannot invalidate the capture (cudaStreamCaptureModeThreadLocal). CUDA calls in f that graphs do not support, such as
/// cudaMalloc, fail. For captures begun by CUDA's own calls see docs/streams_and_leases.md.
///
/// Throws: exceptions of f; usage_error; out_of_memory if the driver has no memory for the graph; cuda_error, which names the call that
/// invalidated the capture if known. No graph is made, and the streams are as before.
/// Threads: only the calling thread may use the streams meanwhile.
/// Example: examples/replay_graph.cpp
template <std::invocable F>
[[nodiscard]] graph_exec capture(std::span<stream_ref const> streams, F&& f,
                                 source_location where = source_location::current()) {
    return detail::captured(streams.data(), streams.size(), std::forward<F>(f), where);
}
/// Captures the streams `{a, b}`.
template <std::invocable F>
[[nodiscard]] graph_exec capture(std::initializer_list<stream_ref> streams, F&& f,
                                 source_location where = source_location::current()) {
    return detail::captured(streams.begin(), streams.size(), std::forward<F>(f), where);
}
/// Captures one stream.
template <std::invocable F>
[[nodiscard]] graph_exec capture(stream_ref s, F&& f, source_location where = source_location::current()) {
    return detail::captured(&s, 1, std::forward<F>(f), where);
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include <cuota/core/detail/threads/backoff.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/detail/relief.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void graph_traits::close(type g) noexcept {
    rt::relaxed_capture_mode const beside;
    rt::give_back("cudaGraphDestroy", [g] { return cudaGraphDestroy(g); });
}

CUOTA_INLINE void graph_exec_traits::close(type e) noexcept {
    rt::relaxed_capture_mode const beside;
    rt::give_back("cudaGraphExecDestroy", [e] { return cudaGraphExecDestroy(e); });
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::graph_use>;
#endif

CUOTA_INLINE graph_exec::graph_exec(graph_exec&& other) noexcept = default;

CUOTA_INLINE graph_exec::graph_exec(
    cudaGraphExec_t native, std::size_t memory,
    detail::dynamic_array<detail::intrusive_ptr<detail::graph_use>> uses) noexcept
    : uses_{std::move(uses)}, memory_{memory}, exec_{native} {}

CUOTA_INLINE graph_exec::~graph_exec() { exec_.reset(); }  // before the resources that it uses

CUOTA_INLINE graph_exec& graph_exec::operator=(graph_exec&& other) noexcept {
    if (this == &other) return *this;
    graph_exec const before{std::move(*this)};
    exec_ = std::move(other.exec_);
    memory_ = other.memory_;
    uses_ = std::move(other.uses_);
    return *this;
}

CUOTA_INLINE void graph_exec::launch(stream_ref s, source_location where) {
    if (!exec_.get()) detail::throw_usage_error(where, "a graph was launched after it was moved from");
    if (detail::is_captured(s) || s.is_capturing())
        detail::throw_usage_error(
            where,
            "graph_exec::launch: cannot launch on a stream that is being captured; launch after the capture");
    struct ending {
        graph_exec& of;
        stream_ref s;
        std::size_t begun = 0;
        bool is_enqueued = false;
        ~ending() {
            while (begun != 0) of.uses_[--begun]->end_launch(s, is_enqueued);
        }
    } launch{*this, s};
    for (; launch.begun != uses_.size(); ++launch.begun) uses_[launch.begun]->begin_launch(s, where);
    detail::on_device_of const here{s, where};
    rt::set_call_site(where);
    auto const launch_once = [&] {
        cudaError_t code = cudaGraphLaunch(exec_.get(), s.get());
        while (code == cudaErrorMemoryAllocation &&
               uses_.find_if([&](auto const& use) { return use->relieve(memory_); }) != uses_.end())
            code = cudaGraphLaunch(exec_.get(), s.get());
        return code;
    };
    detail::check_with_relief(memory_, {"graph", where}, "cudaGraphLaunch", launch_once);
    launch.is_enqueued = true;
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

/// The destructor discards the capture unless end() was called.
class capture_session {
public:
    capture_session(std::span<stream_ref const> streams, source_location where);
    capture_session(capture_session const&) = delete;
    capture_session& operator=(capture_session const&) = delete;
    ~capture_session() { throw_away(); }

    [[nodiscard]] graph_exec end();

private:
    [[nodiscard]] stream_ref origin() const noexcept { return streams_.front(); }

    static std::vector<shared_stream> shares_of(std::span<stream_ref const> streams);
    // False also if the stream is captured.
    [[nodiscard]] static bool is_blocking(stream_ref s);
    static dynamic_array<captured_stream> described(std::span<stream_ref const> streams,
                                                    source_location where);
    // Throws usage_error for a captured stream. Must not hold the lock of captured_streams.
    void check_and_wait() const;
    // Returns false if work was enqueued since, or another thread waits for a stream.
    [[nodiscard]] bool try_begin();
    [[nodiscard]] bool are_idle() const;

    void fork() const;
    void join() const;

    [[nodiscard]] cudaGraph_t end_capture();
    [[nodiscard]] bool is_still_open() const noexcept;
    [[noreturn]] void refuse(cudaError_t code) const;

    void leave() noexcept;
    // Ends the capture without a graph; a failing call is repeated once.
    void throw_away() noexcept;

    std::vector<shared_stream> const streams_;
    source_location const where_;
    capture_scope scope_;
    bool is_entered_ = false;
    bool is_open_ = false;
};

CUOTA_INLINE graph_exec captured(stream_ref const* streams, std::size_t count, void (*work)(void*), void* of,
                                 source_location where) {
    capture_session session{{streams, count}, where};
    work(of);
    return session.end();
}

CUOTA_INLINE capture_session::capture_session(std::span<stream_ref const> streams, source_location where)
    : streams_{shares_of(streams)}, where_{where}, scope_{described(streams, where)} {
    check_and_wait();
    for (backoff pause; !try_begin(); check_and_wait())
        pause();  // other threads wait for a stream, or use it
    is_entered_ = true;
    try {
        fork();
    } catch (...) {
        throw_away();
        throw;
    }
}

CUOTA_INLINE graph_exec capture_session::end() {
    for (auto const& use : scope_.uses()) use->about_to_end();
    if (scope_.failure()) std::rethrow_exception(scope_.failure());
    join();
    unique_handle<graph_traits> const captured{end_capture()};
    scope_.close();
    cudaGraphExec_t exec = nullptr;
    rt::relaxed_capture_mode const beside;  // for captures of other threads
    rt::set_call_site(where_);
    on_device_of const here{origin(), where_};
    // An executable of 1,000 kernels takes 2 MiB.
    check_with_relief(std::size_t{2} << 20, {"graph", where_}, "cudaGraphInstantiateWithFlags",
                      [&] { return cudaGraphInstantiateWithFlags(&exec, captured.get(), 0); });
    unique_handle<graph_exec_traits> made{exec};
    std::size_t const memory = rt::memory_needed_by(captured.get());
    for (auto const& use : scope_.uses()) use->captured(memory);
    return {made.release(), memory, std::move(scope_.uses())};
}

CUOTA_INLINE std::vector<shared_stream> capture_session::shares_of(std::span<stream_ref const> streams) {
    return {streams.begin(), streams.end()};
}

CUOTA_INLINE bool capture_session::is_blocking(stream_ref s) {
    if (s.is_owned()) return false;
    unsigned flags = cudaStreamNonBlocking;
    bool is_foreign = false;
    (void)query_or_find(s, is_foreign,
                        [&] { rt::check(cudaStreamGetFlags(s.get(), &flags), "cudaStreamGetFlags"); });
    return (flags & cudaStreamNonBlocking) == 0;
}

CUOTA_INLINE dynamic_array<captured_stream> capture_session::described(std::span<stream_ref const> streams,
                                                                       source_location where) {
    if (streams.empty()) throw_usage_error(where, "capture: the list of streams is empty");
    if (capture_scope::here())
        throw_usage_error(where,
                          "capture: cannot begin within another capture of this thread; end that one first");
    dynamic_array<captured_stream> all;
    for (stream_ref const s : streams) {
        if (s.get() == nullptr || s.get() == cudaStreamLegacy)
            throw_usage_error(where,
                              "capture: CUDA cannot capture the legacy default stream; create a stream");
        all.push_back({s.get(), s.id(), s.device().ordinal(), is_blocking(s)});
        if (std::ranges::count(all, all.back().id, &captured_stream::id) != 1)
            throw_usage_error(where, "capture: the list of streams has one stream twice");
    }
    return all;
}

CUOTA_INLINE void capture_session::check_and_wait() const {
    for (shared_stream const& s : streams_) {
        on_device_of const here{s, where_};
        if (!wait_outside_captures(s, where_))
            throw_usage_error(where_, "capture: the stream is already being captured");
    }
}

CUOTA_INLINE bool capture_session::try_begin() {
    return captured_streams::all().try_enter(scope_.streams(), [&] {
        if (!are_idle()) return false;
        on_device_of const here{origin(), where_};
        rt::set_call_site(where_);
        rt::check(cudaStreamBeginCapture(origin().get(), cudaStreamCaptureModeThreadLocal),
                  "cudaStreamBeginCapture", where_);
        return is_open_ = true;
    });
}

CUOTA_INLINE bool capture_session::are_idle() const {
    rt::relaxed_capture_mode const beside;
    for (shared_stream const& s : streams_) {
        on_device_of const here{s, where_};
        cudaError_t const code = cudaStreamQuery(s.get());
        if (code == cudaErrorNotReady) {
            (void)cudaGetLastError();
            return false;
        }
        rt::check(code, "cudaStreamQuery", where_);
    }
    return true;
}

CUOTA_INLINE void capture_session::fork() const {
    if (streams_.size() == 1) return;
    event const begun{origin()};
    for (std::size_t i = 1; i != streams_.size(); ++i) stream_ref{streams_[i]}.wait(begun);
}

CUOTA_INLINE void capture_session::join() const {
    for (std::size_t i = 1; i != streams_.size(); ++i) origin().wait(event{streams_[i]});
}

CUOTA_INLINE cudaGraph_t capture_session::end_capture() {
    cudaGraph_t captured = nullptr;
    on_device_of const here{origin(), where_};
    rt::set_call_site(where_);
    cudaError_t const code = cudaStreamEndCapture(origin().get(), &captured);
    if (code != cudaSuccess && is_still_open()) throw rt::error_of(code, "cudaStreamEndCapture", where_);
    leave();
    if (code != cudaSuccess) refuse(code);
    return captured;
}

CUOTA_INLINE bool capture_session::is_still_open() const noexcept {
    bool open = false;
    (void)report_failure_of([&] { open = origin().is_capturing(); });
    return open;
}

CUOTA_INLINE void capture_session::refuse(cudaError_t code) const {
    std::string const by = scope_.spoiled_by();
    cuda_error const error = rt::error_of(code, "cudaStreamEndCapture", where_);
    if (by.empty()) throw error;
    throw cuda_error{static_cast<int>(code), "cudaStreamEndCapture",
                     std::string{cudaGetErrorName(code)} + ": the capture was invalidated by " + by, where_};
}

CUOTA_INLINE void capture_session::leave() noexcept {
    is_open_ = false;
    if (!std::exchange(is_entered_, false)) return;
    captured_streams::all().leave(scope_.ids());
    for (auto const& use : scope_.uses()) use->ended();
}

CUOTA_INLINE void capture_session::throw_away() noexcept {
    if (is_open_) {
        std::optional<on_device_of> here;
        report_failure_of([&] { here.emplace(origin(), where_); });
        cudaGraph_t captured = nullptr;
        cudaError_t code = cudaStreamEndCapture(origin().get(), &captured);
        if (code != cudaSuccess && is_still_open()) {
            report_failure_of([&] { throw rt::error_of(code, "cudaStreamEndCapture", where_); });
            code = cudaStreamEndCapture(origin().get(), &captured);
        }
        (void)cudaGetLastError();
        if (code == cudaSuccess && captured) graph_traits::close(captured);
    }
    leave();
}

}  // namespace cuota::inline v0::detail

#endif
