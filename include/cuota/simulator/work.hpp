// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export.hpp"

#include "call_site.hpp"
#include "races.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

/// Streams, their operations, and events.
namespace cuota::inline v0::simulator {

struct capture;
struct crew;
struct device;
struct graph_node;
struct stream;

/// Intrusive queue: a stream is in at most one, so that `push` allocates nothing and cannot fail.
class stream_line {
public:
    void push(std::shared_ptr<stream> s) noexcept;
    [[nodiscard]] std::shared_ptr<stream> pop() noexcept;  ///< null when empty
    void remove(stream const& s) noexcept;                 ///< must be in the queue
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

private:
    std::shared_ptr<stream> first_;
    stream* last_ = nullptr;
    std::size_t size_ = 0;
};

/// Events and waits may keep an operation alive after it has finished.
struct operation {
    std::shared_ptr<stream> on;                     ///< null when finished
    std::vector<std::shared_ptr<operation>> after;  ///< of other streams
    stream_line awaited_by;
    std::atomic<int> done{0};
    bool held = false;           ///< enqueued while a hold existed
    graph_node* node = nullptr;  ///< if captured: runs at each launch of its graph
    call_sites::site from{};
    ordering::moment at;
    std::uint64_t turn = 0;  ///< its number among all operations

    operation() = default;
    operation(operation const&) = delete;
    operation& operator=(operation const&) = delete;
    virtual ~operation() = default;

    virtual void run() = 0;  ///< quiet, without the lock; must not throw
    void* token() noexcept { return this; }
};

using operation_ref = std::shared_ptr<operation>;

template <class F>
struct task final : operation {
    explicit task(F f) : body{new (storage) F(std::move(f))} {}
    ~task() override { drop(); }
    void run() override {
        (*body)();
        if (!node) drop();
    }
    /// Destroys the body early and clears its bytes, which LeakSanitizer scans.
    void drop() noexcept {
        if (!body) return;
        std::exchange(body, nullptr)->~F();
        std::memset(storage, 0, sizeof storage);
    }

    alignas(F) std::byte storage[sizeof(F)];
    F* body;
};

template <class F>
operation_ref make_task(F f) {
    return std::make_shared<task<F>>(std::move(f));
}

/// Position of a capture in a stream, now or when an event was recorded.
struct capture_point {
    std::shared_ptr<capture> in;    ///< null: no capture
    std::vector<std::size_t> tips;  ///< the nodes that the next one depends on
};

struct stream {
    enum class progress { idle, blocked, ready, running };

    stream(device& d, unsigned flag_bits, int prio, bool is_legacy = false);
    stream(stream const&) = delete;
    stream& operator=(stream const&) = delete;

    [[nodiscard]] bool blocking() const noexcept { return !legacy && !(flags & cudaStreamNonBlocking); }

    device& owner;
    unsigned flags;
    int priority;
    bool legacy;
    bool destroyed = false;
    unsigned long long id;
    progress state = progress::idle;
    std::shared_ptr<stream> next_in_line;
    std::deque<operation_ref> queue;
    operation_ref last;             ///< the latest operation, finished or not
    operation_ref last_of_program;  ///< where `last` is the simulator's own, which retires a destroyed stream
    capture_point capturing;
    std::shared_ptr<crew> own_crew;  ///< only under ThreadSanitizer
    ordering::lane order_lane;
    std::vector<ordering::borrowing> borrowed;
};

using stream_handle = std::shared_ptr<stream>;

inline void stream_line::push(stream_handle s) noexcept {
    stream* const newest = s.get();
    (last_ ? last_->next_in_line : first_) = std::move(s);
    last_ = newest;
    ++size_;
}
inline stream_handle stream_line::pop() noexcept {
    stream_handle s = std::move(first_);
    if (!s) return nullptr;
    first_ = std::move(s->next_in_line);
    if (!first_) last_ = nullptr;
    --size_;
    return s;
}
inline void stream_line::remove(stream const& s) noexcept {
    stream* before = nullptr;
    stream_handle* at = &first_;
    while (at->get() != &s) {
        before = at->get();
        at = &before->next_in_line;
    }
    stream_handle const gone = std::move(*at);
    *at = std::move(gone->next_in_line);
    if (last_ == &s) last_ = before;
    --size_;
}

struct event {
    device& owner;
    unsigned flags;
    operation_ref recorded;  ///< null: never recorded, which counts as finished
    std::shared_ptr<std::chrono::steady_clock::time_point> when;
    capture_point captured{};  ///< of the last record
};

}  // namespace cuota::inline v0::simulator
