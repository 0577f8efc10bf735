// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The streams that `capture` captures, on all threads, and the host threads that wait for streams.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pthread.h>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/label.hpp>
#include <cuota/fwd.hpp>

namespace cuota::inline v0::detail {

/// CUDA reports neither id nor device while it is captured.
struct captured_stream {
    cudaStream_t native;
    std::uint64_t id;
    int device;        ///< ordinal
    bool is_blocking;  ///< waits for the legacy stream
};

/// Identifies a stream without a CUDA call that a capture forbids: by its id if the library has stored it, otherwise by its handle.
struct stream_key {
    std::uint64_t id;  // 0: by handle
    cudaStream_t native;

    [[nodiscard]] bool is_of(captured_stream const& s) const noexcept {
        return id != 0 ? id == s.id : native == s.native;
    }
};

/// A wait of the calling thread for a stream or a device: while it exists, captures of these streams by other threads do not begin, so that
/// the wait cannot invalidate one. Threads: the one that constructed it.
class capture_delay {
public:
    /// Delays captures of s, and if it is the legacy stream, of the streams that wait for it. Throws: exceptions of key_of.
    explicit capture_delay(stream_ref s);
    /// Delays captures of all streams of the device.
    explicit capture_delay(device on) noexcept;
    capture_delay(capture_delay const&) = delete;
    capture_delay& operator=(capture_delay const&) = delete;
    ~capture_delay();

    /// Returns whether `capture` captures one of the streams already, so that the thread must not wait; then nothing is delayed.
    [[nodiscard]] bool is_too_late() const noexcept { return is_too_late_; }
    /// Throws usage_error if it is too late for the legacy stream: its own work may be unfinished.
    void refuse_legacy(source_location where = {}) const;

private:
    friend class captured_streams;
    enum class extent : unsigned char { stream, blocking_streams, device };

    [[nodiscard]] bool is_for(captured_stream const& s) const noexcept;
    void enter() noexcept;

    stream_key stream_;
    int device_;
    extent extent_;
    bool is_too_late_ = false;
    pthread_t thread_ = ::pthread_self();
    capture_delay* next_ = nullptr;
};

/// The streams captured by `capture` on all threads. Their earlier work has finished. Threads: any.
class CUOTA_PROCESS_STATE captured_streams {
public:
    [[nodiscard]] static captured_streams& all() noexcept;

    /// Returns the stream's entry if it is captured; otherwise calls use(). No capture begins meanwhile, so use() may query the stream, but
    /// must not wait. Throws: exceptions of use().
    template <class Use>
    std::optional<captured_stream> find_or(stream_key stream, Use use) {
        region_lock const lock{guard_};
        if (captured_stream const* const known = find(stream)) return *known;
        use();
        return std::nullopt;
    }
    /// Adds the streams, unless another thread waits for one of them, or begin(), which begins their capture, returns false or throws.
    /// Queries block meanwhile, so begin() must not wait for work.
    /// Throws: exceptions of begin(), std::bad_alloc; nothing changes.
    template <class Begin>
    [[nodiscard]] bool try_enter(std::span<captured_stream const> streams, Begin begin) {
        region_lock const lock{guard_};
        if (is_delayed(streams)) return false;
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
    [[nodiscard]] bool has(stream_key stream);

    /// Costs a load, like begun.
    [[nodiscard]] static bool are_any() noexcept { return count_.load(std::memory_order_seq_cst) != 0; }
    /// Returns how many captures have begun. If a stream was not captured before two equal results, work enqueued between them was not.
    [[nodiscard]] static std::uint64_t begun() noexcept { return begun_.load(std::memory_order_seq_cst); }

private:
    friend class capture_delay;
    [[nodiscard]] captured_stream const* find(stream_key stream) const noexcept;
    [[nodiscard]] bool is_delayed(std::span<captured_stream const> streams) const noexcept;
    void publish() noexcept { count_.store(streams_.size(), std::memory_order_seq_cst); }

    std::mutex guard_;
    dynamic_array<captured_stream> streams_;
    capture_delay* delays_ = nullptr;
    static inline constinit std::atomic<std::size_t> count_ = 0;
    static inline constinit std::atomic<std::uint64_t> begun_ = 0;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <new>
#include <utility>

#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/process.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void capture_delay::enter() noexcept {
    captured_streams& all = captured_streams::all();
    region_lock const lock{all.guard_};
    for (captured_stream const& s : all.streams_) is_too_late_ = is_too_late_ || is_for(s);
    if (!is_too_late_) next_ = std::exchange(all.delays_, this);
}

CUOTA_INLINE capture_delay::~capture_delay() {
    if (is_too_late_) return;
    captured_streams& all = captured_streams::all();
    region_lock const lock{all.guard_};
    for (capture_delay** at = &all.delays_; *at; at = &(*at)->next_)  // not found in a child of the process
        if (*at == this) {
            *at = next_;
            return;
        }
}

CUOTA_INLINE bool capture_delay::is_for(captured_stream const& s) const noexcept {
    if (extent_ == extent::stream) return stream_.is_of(s);
    return s.device == device_ && (s.is_blocking || extent_ == extent::device);
}

CUOTA_INLINE_STATE captured_streams& captured_streams::all() noexcept {
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

CUOTA_INLINE captured_stream const* captured_streams::find(stream_key stream) const noexcept {
    captured_stream const* const at =
        streams_.find_if([&](captured_stream const& s) { return stream.is_of(s); });
    return at == streams_.end() ? nullptr : at;
}

CUOTA_INLINE bool captured_streams::has(stream_key stream) {
    region_lock const lock{guard_};
    return find(stream) != nullptr;
}

CUOTA_INLINE bool captured_streams::is_delayed(std::span<captured_stream const> streams) const noexcept {
    for (capture_delay const* d = delays_; d; d = d->next_) {
        if (::pthread_equal(d->thread_, ::pthread_self()) != 0)
            continue;  // an error sink's capture, beside a wait that reported a failure
        for (captured_stream const& s : streams)
            if (d->is_for(s)) return true;
    }
    return false;
}

}  // namespace cuota::inline v0::detail

#endif
