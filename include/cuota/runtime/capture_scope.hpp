// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A stream capture while it goes on, as the rest of the library sees it: which streams, by which thread, and what the graph
/// will use. Makes no graph: `capture` (graph.hpp) does.
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
#include <cuota/core/dynamic_array.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/core/thread_record.hpp>
#include <cuota/fwd.hpp>

namespace cuota::inline v0::detail {

/// Something that a graph uses at each launch, and keeps until it ends.
///
/// Work of a capture has not run when the capture ends, so what was noted of it is worth nothing then; each launch is what
/// counts. The destructor gives back what is kept, once the launches are over.
class graph_use : public ref_counted {
public:
    virtual ~graph_use() = default;
    /// The capture is about to end, by its thread. Throws: misuse when something of it is open that must not be.
    virtual void about_to_end() = 0;
    /// It has ended, with a graph or without.
    virtual void ended() noexcept = 0;
    /// A launch on s is about to be enqueued: puts in the waits that it needs. Throws: misuse, cuda_error, std::bad_alloc.
    virtual void begin_launch(stream_ref s, place where) = 0;
    /// The launch is enqueued, or has failed. After each begin_launch that did not throw.
    virtual void end_launch(stream_ref s, bool is_enqueued) noexcept = 0;
};

/// A stream that `capture` captures, as CUDA described it before: of a captured stream CUDA tells neither id nor device.
struct captured_stream {
    cudaStream_t native;
    std::uint64_t id;
    int device;  ///< its ordinal
};

/// A capture by the calling thread, from its begin to its end. While it goes on, the thread has no record: what goes without a
/// lock and makes no CUDA call (home leases, a pool's fronts) asks for the record first, finds none, and comes by the ways
/// that look whether there is a capture. Who does not capture pays nothing for that.
/// Threads: the one that captures; `has` under no lock, for its streams are fixed.
class CUOTA_PROCESS_STATE capture_scope {
public:
    /// Of these streams. There is no other on this thread.
    explicit capture_scope(dynamic_array<captured_stream> streams);
    capture_scope(capture_scope const&) = delete;
    capture_scope& operator=(capture_scope const&) = delete;
    ~capture_scope() { current() = nullptr; }

    /// The one of the calling thread; null when it captures nothing.
    [[nodiscard]] static capture_scope* here() noexcept { return current(); }
    /// Unique over the life of the program, from 1.
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
    [[nodiscard]] bool has(std::uint64_t stream) const noexcept;
    [[nodiscard]] std::span<std::uint64_t const> ids() const noexcept { return ids_.as_span(); }
    [[nodiscard]] std::span<captured_stream const> streams() const noexcept { return streams_.as_span(); }

    /// The use of what has that address, made by make() when there is none. Throws: what make throws, std::bad_alloc.
    template <class Use, class Make>
    [[nodiscard]] Use& use_of(void const* what, Make make) {
        if (Use* const known = find<Use>(what)) return *known;
        uses_.reserve(uses_.size() + 1);
        shared<Use> fresh = make();
        Use& made = *fresh;
        enter(what, made);
        uses_.push_back(shared<graph_use>::adopt(fresh.detach()));
        return made;
    }
    /// The same for who wants none; null when there is none.
    template <class Use>
    [[nodiscard]] Use* find(void const* what) const noexcept {
        return static_cast<Use*>(use_at(what));
    }
    [[nodiscard]] dynamic_array<shared<graph_use>>& uses() noexcept { return uses_; }

    /// What cannot throw where it went wrong: there will be no graph, but this error. The first one stays.
    void fail(std::exception_ptr why) noexcept;
    [[nodiscard]] std::exception_ptr const& failure() const noexcept { return failure_; }

    /// A call got an error that says that the capture is spoiled, or does not allow it. The first one stays.
    void note_error(cudaError_t code, char const* call, place where);
    /// The call, in words; empty when none is known.
    [[nodiscard]] std::string const& spoiled_by() const noexcept { return spoiled_by_; }

private:
    struct address {
        void const* what;
        graph_use* use;
    };

    [[nodiscard]] static capture_scope*& current() noexcept;
    /// The first that does not come before `what`.
    [[nodiscard]] address const* first_from(void const* what) const noexcept;
    /// Null when there is none.
    [[nodiscard]] graph_use* use_at(void const* what) const noexcept;
    /// Throws: std::bad_alloc; unchanged then.
    void enter(void const* what, graph_use& use);

    dynamic_array<captured_stream> const streams_;
    dynamic_array<std::uint64_t> ids_;
    std::uint64_t number_;
    dynamic_array<shared<graph_use>> uses_;
    dynamic_array<address> by_address_;  // sorted
    std::exception_ptr failure_;
    std::string spoiled_by_;
    hidden_thread const hidden_{};
};

/// The streams that are captured by `capture`, of all threads. What ran on one before its capture is over: it was waited for.
/// Threads: any.
class CUOTA_PROCESS_STATE captured_streams {
public:
    [[nodiscard]] static captured_streams& all() noexcept;

    /// Enters them while begin() begins their capture, and returns true; unchanged and false when begin() returns false.
    /// Other threads that ask about streams meanwhile block, so begin() must not wait for work.
    /// Throws: what begin throws, std::bad_alloc; unchanged.
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
    /// The stream of a handle; nothing when `capture` does not capture it.
    [[nodiscard]] std::optional<captured_stream> find(cudaStream_t native);

    /// Whether there are any. Cost: a load, as of begun.
    [[nodiscard]] static bool are_any() noexcept { return count_.load(std::memory_order_seq_cst) != 0; }
    /// How many captures have begun. What was done between two equal answers, with none of a stream going on at the first,
    /// was not captured.
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

CUOTA_INLINE void capture_scope::note_error(cudaError_t code, char const* call, place where) {
    if (code < cudaErrorStreamCaptureUnsupported || code > cudaErrorStreamCaptureWrongThread) return;
    if (spoiled_by_.empty())
        spoiled_by_ = std::string{call} + (where.line != 0 ? " at " + place_text(where) : "") + " (" +
                      cudaGetErrorName(code) + ")";
}

CUOTA_INLINE capture_scope*& capture_scope::current() noexcept {
    static constinit thread_local capture_scope* scope = nullptr;
    return scope;
}

CUOTA_INLINE captured_streams& captured_streams::all() noexcept {
    struct hooked {
        captured_streams streams;
        child_hook hook{[](child_hook&) noexcept {
            ::new (&all()) captured_streams;  // the captures belong to the parent
            count_.store(0, std::memory_order_relaxed);
        }};
    };
    union forever {  // streams outlive statics
        forever() noexcept : kept{} {}
        ~forever() {}
        hooked kept;
    };
    static forever one;
    return one.kept.streams;
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
    if (native == cudaStreamPerThread) {  // of each thread another stream
        capture_scope const* const mine = capture_scope::here();
        return mine ? in(mine->streams()) : std::nullopt;
    }
    region_lock const lock{guard_};
    return in(streams_.as_span());
}

}  // namespace cuota::inline v0::detail

#endif
