// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A stream capture in progress: its streams, thread and resources.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/fwd.hpp>
#include <cuota/runtime/detail/captured_streams.hpp>

namespace cuota::inline v0::detail {

/// A resource of a graph. Each launch counts as a use, not the captured work. The destructor releases the resource after the launches have
/// finished.
class graph_use : public ref_counted {
public:
    virtual ~graph_use() = default;
    /// Called before the capture ends. Throws: usage_error if a use is open that must not be.
    virtual void about_to_end() = 0;
    /// Called with the bytes that the graph allocates for itself, before it can be launched. Throws: std::bad_alloc.
    virtual void captured(std::size_t) {}
    /// Called after the capture has ended, also without a graph.
    virtual void ended() noexcept = 0;
    /// Enqueues the waits of a launch on s. Throws: usage_error, cuda_error, std::bad_alloc.
    virtual void begin_launch(stream_ref s, source_location where) = 0;
    /// Called when the driver has no room for `bytes` of a launch. Returns whether it released memory.
    [[nodiscard]] virtual bool relieve(std::size_t) noexcept { return false; }
    /// Called after each begin_launch that did not throw, also if the launch failed.
    virtual void end_launch(stream_ref s, bool is_enqueued) noexcept = 0;
};

/// A capture in progress on the calling thread, which has no thread_slot meanwhile (docs/design/stream_order.md).
/// Threads: the capturing one; the streams are fixed, so `has` needs no lock.
class CUOTA_PROCESS_STATE capture_scope {
public:
    /// The thread must have no other scope.
    explicit capture_scope(dynamic_array<captured_stream> streams);
    capture_scope(capture_scope const&) = delete;
    capture_scope& operator=(capture_scope const&) = delete;
    ~capture_scope() { close(); }

    [[nodiscard]] static capture_scope* here() noexcept { return current(); }
    /// Ends the capture for this thread: later calls are not captured.
    void close() noexcept { current() = nullptr; }
    /// Unique in the process, from 1.
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
    [[nodiscard]] bool has(stream_key stream) const noexcept;
    [[nodiscard]] std::span<std::uint64_t const> ids() const noexcept { return ids_.as_span(); }
    [[nodiscard]] std::span<captured_stream const> streams() const noexcept { return streams_.as_span(); }

    /// Returns the use registered for an address, or registers make(). Throws: exceptions of make(), std::bad_alloc.
    template <class Use, class Make>
    [[nodiscard]] Use& use_of(void const* what, Make make) {
        if (Use* const known = find<Use>(what)) return *known;
        uses_.reserve(uses_.size() + 1);
        intrusive_ptr<Use> fresh = make();
        Use& made = *fresh;
        enter(what, made);
        uses_.push_back(intrusive_ptr<graph_use>::adopt(fresh.detach()));
        return made;
    }
    template <class Use>
    [[nodiscard]] Use* find(void const* what) const noexcept {
        return static_cast<Use*>(use_at(what));
    }
    [[nodiscard]] dynamic_array<intrusive_ptr<graph_use>>& uses() noexcept { return uses_; }

    /// Stores the first error for the end of the capture, which throws it.
    void fail(std::exception_ptr why) noexcept;
    [[nodiscard]] std::exception_ptr const& failure() const noexcept { return failure_; }

    /// Stores the first CUDA call that the capture did not permit.
    void note_error(cudaError_t code, char const* call, source_location where);
    /// Describes that call, or "".
    [[nodiscard]] std::string const& spoiled_by() const noexcept { return spoiled_by_; }

private:
    struct address {
        void const* what;
        graph_use* use;
    };

    [[nodiscard]] static capture_scope*& current() noexcept;
    [[nodiscard]] static std::uint64_t next_number() noexcept;
    [[nodiscard]] address const* first_from(void const* what) const noexcept;
    [[nodiscard]] graph_use* use_at(void const* what) const noexcept;
    /// Throws: std::bad_alloc; nothing changes.
    void enter(void const* what, graph_use& use);

    dynamic_array<captured_stream> const streams_;
    dynamic_array<std::uint64_t> ids_;
    std::uint64_t number_;
    dynamic_array<intrusive_ptr<graph_use>> uses_;
    dynamic_array<address> by_address_;  // sorted
    std::exception_ptr failure_;
    std::string spoiled_by_;
    disable_thread_cache const hidden_{};
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE capture_scope::capture_scope(dynamic_array<captured_stream> streams)
    : streams_{std::move(streams)} {
    for (captured_stream const& s : streams_) ids_.push_back(s.id);
    number_ = next_number();
    current() = this;
}

CUOTA_INLINE_STATE std::uint64_t capture_scope::next_number() noexcept {
    static constinit std::atomic<std::uint64_t> last = 0;
    return ++last;
}

CUOTA_INLINE bool capture_scope::has(stream_key stream) const noexcept {
    return streams_.find_if([&](captured_stream const& s) { return stream.is_of(s); }) != streams_.end();
}

CUOTA_INLINE auto capture_scope::first_from(void const* what) const noexcept -> address const* {
    return first_not(by_address_.begin(), by_address_.size(),
                     [&](address const& a) { return std::less<>{}(a.what, what); });
}

CUOTA_INLINE graph_use* capture_scope::use_at(void const* what) const noexcept {
    address const* const at = first_from(what);
    return at != by_address_.end() && at->what == what ? at->use : nullptr;
}

CUOTA_INLINE void capture_scope::enter(void const* what, graph_use& use) {
    by_address_.insert(first_from(what), {what, &use});
}

CUOTA_INLINE void capture_scope::fail(std::exception_ptr why) noexcept {
    if (!failure_) failure_ = std::move(why);
}

CUOTA_INLINE void capture_scope::note_error(cudaError_t code, char const* call, source_location where) {
    if (code < cudaErrorStreamCaptureUnsupported || code > cudaErrorStreamCaptureWrongThread) return;
    if (spoiled_by_.empty())
        spoiled_by_ = std::string{call} + (where.line != 0 ? " at " + source_location_text(where) : "") +
                      " (" + cudaGetErrorName(code) + ")";
}

CUOTA_INLINE_STATE capture_scope*& capture_scope::current() noexcept {
    static constinit thread_local capture_scope* scope = nullptr;
    return scope;
}

}  // namespace cuota::inline v0::detail

#endif
