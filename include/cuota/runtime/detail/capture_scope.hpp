// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A stream capture in progress: its streams, thread and resources.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/fwd.hpp>

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

/// CUDA reports neither id nor device while it is captured.
struct captured_stream {
    cudaStream_t native;
    std::uint64_t id;
    int device;  ///< ordinal
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
    [[nodiscard]] bool has(std::uint64_t stream) const noexcept;
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

/// The streams captured by `capture` on all threads. Their earlier work has finished. Threads: any.
class CUOTA_PROCESS_STATE captured_streams {
public:
    [[nodiscard]] static captured_streams& all() noexcept;

    /// Calls use(), unless the stream is captured; returns whether it did. No capture begins meanwhile, so use() may query the stream, but must
    /// not wait. Throws: exceptions of use().
    template <class Use>
    [[nodiscard]] bool try_outside(std::uint64_t stream, Use use) {
        region_lock const lock{guard_};
        for (captured_stream const& s : streams_)
            if (s.id == stream) return false;
        use();
        return true;
    }
    /// Adds the streams, unless begin(), which begins their capture, returns false or throws. Queries block meanwhile, so begin() must not
    /// wait for work.
    /// Throws: exceptions of begin(), std::bad_alloc; nothing changes.
    template <class Begin>
    [[nodiscard]] bool try_enter(std::span<captured_stream const> streams, Begin begin) {
        region_lock const lock{guard_};
        std::size_t const before = streams_.size();
        streams_.reserve(before + streams.size());
        for (captured_stream const& s : streams) streams_.push_back(s);
        publish();
        begun_.fetch_add(1, std::memory_order_seq_cst);
        bool is_begun = false;
        try {
            is_begun = begin();
        } catch (...) {
            streams_.resize(before);
            publish();
            throw;
        }
        if (is_begun) return true;
        streams_.resize(before);
        publish();
        return false;
    }
    void leave(std::span<std::uint64_t const> ids) noexcept;
    [[nodiscard]] bool has(std::uint64_t stream);
    [[nodiscard]] std::optional<captured_stream> find(cudaStream_t native);

    /// Costs a load, like begun.
    [[nodiscard]] static bool are_any() noexcept { return count_.load(std::memory_order_seq_cst) != 0; }
    /// Returns how many captures have begun. If a stream was not captured before two equal results, work enqueued between them was not.
    [[nodiscard]] static std::uint64_t begun() noexcept { return begun_.load(std::memory_order_seq_cst); }

private:
    void publish() noexcept { count_.store(streams_.size(), std::memory_order_seq_cst); }

    std::mutex guard_;
    dynamic_array<captured_stream> streams_;
    static inline constinit std::atomic<std::size_t> count_ = 0;
    static inline constinit std::atomic<std::uint64_t> begun_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE capture_scope::capture_scope(dynamic_array<captured_stream> streams)
    : streams_{std::move(streams)} {
    for (captured_stream const& s : streams_) ids_.push_back(s.id);
    static std::atomic<std::uint64_t> scopes = 0;
    number_ = ++scopes;
    current() = this;
}

CUOTA_INLINE bool capture_scope::has(std::uint64_t stream) const noexcept {
    return ids_.find_if([&](std::uint64_t id) { return id == stream; }) != ids_.end();
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

CUOTA_INLINE capture_scope*& capture_scope::current() noexcept {
    static constinit thread_local capture_scope* scope = nullptr;
    return scope;
}

CUOTA_INLINE captured_streams& captured_streams::all() noexcept {
    struct hooked : child_hook {
        hooked() noexcept
            : child_hook{[](child_hook& hook) noexcept {
                  ::new (&static_cast<hooked&>(hook).streams) captured_streams;  // they belong to the parent
                  count_.store(0, std::memory_order_relaxed);
              }} {}
        captured_streams streams;
    };
    static never_destroyed<hooked> one;  // streams outlive statics
    return one.value.streams;
}

CUOTA_INLINE void captured_streams::leave(std::span<std::uint64_t const> ids) noexcept {
    region_lock const lock{guard_};
    for (std::uint64_t const id : ids)
        streams_.erase_if([&](captured_stream const& s) { return s.id == id; });
    publish();
}

CUOTA_INLINE bool captured_streams::has(std::uint64_t stream) {
    region_lock const lock{guard_};
    return streams_.find_if([&](captured_stream const& s) { return s.id == stream; }) != streams_.end();
}

CUOTA_INLINE std::optional<captured_stream> captured_streams::find(cudaStream_t native) {
    auto const in = [native](std::span<captured_stream const> streams) -> std::optional<captured_stream> {
        for (captured_stream const& s : streams)
            if (s.native == native) return s;
        return std::nullopt;
    };
    if (native == cudaStreamPerThread) {  // names another stream in each thread
        capture_scope const* const mine = capture_scope::here();
        return mine ? in(mine->streams()) : std::nullopt;
    }
    region_lock const lock{guard_};
    return in(streams_.as_span());
}

}  // namespace cuota::inline v0::detail

#endif
