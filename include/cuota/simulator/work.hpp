// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export.hpp"

#include "call_site.hpp"
#include "order.hpp"

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

/// Streams, the work in them, and the events that stand for it.
namespace cuota::inline v0::simulator {

struct capture;
struct crew;
struct device;
struct graph_node;
struct stream;

/// One piece of work of a stream. Whoever may still ask about it keeps it after its end, such as an event.
struct operation {
    std::shared_ptr<stream> on;                     ///< null once done
    std::vector<std::shared_ptr<operation>> after;  ///< work of other streams that comes first
    std::vector<std::shared_ptr<stream>> awaited_by;
    std::atomic<int> done{0};
    bool held = false;           ///< enqueued while a hold was alive
    graph_node* node = nullptr;  ///< captured: it is never enqueued, and runs at each launch of its graph
    call_sites::site from{};     ///< the call that enqueued it
    ordering::moment at;         ///< set when it is enqueued
    std::uint64_t turn = 0;      ///< its number among all that was enqueued

    operation() = default;
    operation(operation const&) = delete;
    operation& operator=(operation const&) = delete;
    virtual ~operation() = default;

    virtual void run() = 0;  ///< quiet and without the lock; must not throw
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
    /// The operation may live long. What it held must not, nor may the bytes: LeakSanitizer reads pointers.
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

/// Where a capture stands in a stream, or stood when an event was recorded.
struct capture_point {
    std::shared_ptr<capture> in;    ///< null: no capture
    std::vector<std::size_t> tips;  ///< the nodes that the next one comes after
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
    std::deque<operation_ref> queue;
    operation_ref last;  ///< the newest work ever given to the stream, done or not
    capture_point capturing;
    std::shared_ptr<crew> own_crew;  ///< under ThreadSanitizer only
    ordering::lane order_lane;
    std::vector<ordering::borrowing> borrowed;
};

using stream_handle = std::shared_ptr<stream>;

struct event {
    device& owner;
    unsigned flags;
    operation_ref recorded;  ///< null: never recorded, which counts as done
    std::shared_ptr<std::chrono::steady_clock::time_point> when;
    capture_point captured{};  ///< of the last record, if that was captured
};

}  // namespace cuota::inline v0::simulator
