// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Owner of a block of device memory.
#pragma once

#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/resource_ref.hpp>

namespace cuota::inline v0::detail {

/// The resource of default-constructed buffers. Throws usage_error for requests of 1 byte or more.
struct no_resource {
    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment,
                                 label const& who = {}) const {
        return allocate_sync(bytes, alignment, who);
    }
    void deallocate(stream_ref, void*, std::size_t, std::size_t) const noexcept {}
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t, label const& who = {}) const {
        if (bytes != 0) refuse(who);
        return nullptr;
    }
    void deallocate_sync(void*, std::size_t, std::size_t) const noexcept {}
    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return default_alignment; }
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::device; }
    friend bool operator==(no_resource, no_resource) noexcept { return true; }

private:
    [[noreturn]] static void refuse(label const& who);
};

/// A block of a resource's memory and the stream that orders its deallocation; may be empty.
///
/// Either the block keeps resource and stream alive (block_owned_resource), or this object does; a moved-from one is empty and keeps both.
/// Threads: one at a time. Cost: only the pool's, if its thread cache has a block.
class owned_block {
public:
    /// Makes an empty one; its resource refuses every request.
    owned_block() noexcept;
    /// Throws: as the resource; usage_error if kernels cannot access its memory. Nothing is allocated.
    CUOTA_ALWAYS_INLINE owned_block(stream_ref home, resource_ref const& memory, std::size_t bytes,
                                    label who);
    // If blocks keep their resource, `other` releases the counted handles, and this object releases none.
    owned_block(owned_block&& other) noexcept;
    owned_block& operator=(owned_block&& other) noexcept;
    ~owned_block();

    [[nodiscard]] void* at() const noexcept { return at_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] any_resource const& memory() const noexcept { return memory_; }
    [[nodiscard]] stream_ref home() const noexcept { return home_; }

private:
    // Passed by value: the fast path stores no label.
    void take(stream_ref home, any_resource const& memory, label who);
    void give() noexcept;
    // In a capture of the home stream, transfers the block to the graph, unless a pool or step plan does it.
    [[nodiscard]] bool give_to_graph() noexcept;

    void keep(stream_ref home, any_resource const& memory) noexcept;
    void drop() noexcept;
    // Stores unowned handles: the block keeps both alive. A default stream is counted; count_no_home() drops that.
    void keep_nothing(stream_ref home, any_resource const& memory) noexcept;

    void count_no_home() noexcept;

    void* at_ = nullptr;
    std::size_t bytes_ = 0;
    union {
        any_resource memory_;
    };
    union {
        shared_stream home_;
    };
};

static_assert(sizeof(owned_block) <= 40);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <exception>

#include <cuota/pool/detail/blocks/captured_blocks.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

void deallocate_on(any_resource& memory, stream_ref home, void* at, std::size_t bytes) noexcept;

/// Blocks freed on a captured stream, deallocated with the graph.
class memory_in_graph final : public graph_use {
public:
    CUOTA_INLINE_IN_PLACE ~memory_in_graph() override;
    /// Throws: std::bad_alloc; the caller keeps the block.
    void keep(any_resource const& memory, stream_ref home, void* at, std::size_t bytes);
    void about_to_end() override {}
    void ended() noexcept override {}
    void begin_launch(stream_ref, source_location) override {}
    void end_launch(stream_ref s, bool is_enqueued) noexcept override {
        if (is_enqueued) last_.emplace(s);  // a failed launch is not ordered after the one before
    }

private:
    struct kept {
        any_resource memory;
        shared_stream home;
        void* at;
        std::size_t bytes;
    };
    dynamic_array<kept> all_;
    std::optional<shared_stream> last_;
};

/// Deallocates on a stored stream; the host waits for another thread's default stream.
CUOTA_INLINE void deallocate_on(any_resource& memory, stream_ref home, void* at, std::size_t bytes) noexcept {
    if (!home.is_reachable()) [[unlikely]] {
        (void)rt::drain(home);
        return memory.deallocate_sync(at, bytes);
    }
    std::optional<on_device_of> here;
    report_failure_of([&] { here.emplace(home); });
    memory.deallocate(home, at, bytes);
}

CUOTA_INLINE_IN_PLACE memory_in_graph::~memory_in_graph() {
    if (last_) wait_for_launches(*last_);
    for (kept& k : all_) deallocate_on(k.memory, k.home, k.at, k.bytes);
}

CUOTA_INLINE void memory_in_graph::keep(any_resource const& memory, stream_ref home, void* at,
                                        std::size_t bytes) {
    all_.push_back({memory, home, at, bytes});
}

CUOTA_INLINE void no_resource::refuse(label const& who) {
    throw_usage_error(
        who.where, "device_buffer: cannot allocate: it was default-constructed and has no resource; assign a "
                   "buffer to it");
}

CUOTA_INLINE owned_block::owned_block() noexcept : memory_{no_resource{}}, home_{shared_stream::none()} {}

CUOTA_INLINE owned_block::owned_block(stream_ref home, resource_ref const& memory, std::size_t bytes,
                                      label who)
    : bytes_{bytes} {
    if (auto const* const pool = memory.inside_.if_holds<pool_resource>();
        pool && pool->kind() != memory_kind::pinned) [[likely]] {
        at_ = pool->take_cached(home, bytes, who.name, who.where);
        if (at_) [[likely]] {
            keep_nothing(home, memory.inside_);
            return;
        }
    }
    take(home, memory.inside_, who);
}

CUOTA_INLINE owned_block::owned_block(owned_block&& other) noexcept
    : at_{std::exchange(other.at_, nullptr)},
      bytes_{std::exchange(other.bytes_, 0)},
      memory_{other.memory_},
      home_{other.home_} {}

CUOTA_INLINE owned_block& owned_block::operator=(owned_block&& other) noexcept {
    if (this != &other) {
        std::destroy_at(this);
        ::new (this) owned_block(std::move(other));
    }
    return *this;
}

CUOTA_INLINE owned_block::~owned_block() {
    if (at_) [[likely]]
        if (auto const* const pool = memory_.if_holds<pool_resource>()) [[likely]]
            if (pool->put_cached(home_, at_, bytes_)) [[likely]]
                return;
    give();
}

[[gnu::noinline]] CUOTA_INLINE void owned_block::take(stream_ref home, any_resource const& memory,
                                                      label who) {
    home.check_reachable(who.where);
    if (memory.kind() == memory_kind::pinned)
        throw_usage_error(who.where,
                          "device_buffer: cannot use a resource of host memory: name one of device memory");
    if (memory.is_owned_by_blocks()) {
        keep_nothing(home, memory);
        try {
            at_ = memory_.allocate_retaining(home, bytes_, default_alignment, who);
        } catch (...) {
            count_no_home();
            throw;
        }
        if (at_) return;
        count_no_home();
        keep(home, memory);
        return;
    }
    keep(home, memory);
    try {
        at_ = memory_.allocate(home_, bytes_, default_alignment, who);
    } catch (...) {
        drop();
        throw;
    }
}

[[gnu::noinline]] CUOTA_INLINE void owned_block::give() noexcept {
    bool const keeps = !at_ || !memory_.is_owned_by_blocks();
    bool const is_default =
        !home_.is_owned() && is_default_handle(home_.get());  // the stream may be destroyed
    if (at_ && !(capture_scope::here() && give_to_graph())) deallocate_on(memory_, home_, at_, bytes_);
    if (keeps) drop();
    else if (is_default) std::destroy_at(&home_);
}

CUOTA_INLINE bool owned_block::give_to_graph() noexcept {
    capture_scope* scope = nullptr;
    try {
        scope = capture_of(home_);
        if (!scope || memory_.graph_aware_resource()) return false;
        scope
            ->use_of<memory_in_graph>(
                scope, [] { return intrusive_ptr<memory_in_graph>::adopt(new memory_in_graph); })
            .keep(memory_, home_, at_, bytes_);
        return true;
    } catch (...) {
        if (scope) scope->fail(std::current_exception());  // its graph is not made
        return false;
    }
}

CUOTA_INLINE void owned_block::keep(stream_ref home, any_resource const& memory) noexcept {
    ::new (&memory_) any_resource(memory);
    ::new (&home_) shared_stream(home);
}

CUOTA_INLINE void owned_block::drop() noexcept {
    std::destroy_at(&memory_);
    std::destroy_at(&home_);
}

CUOTA_INLINE void owned_block::count_no_home() noexcept {
    if (!home_.is_owned() && is_default_handle(home_.get())) std::destroy_at(&home_);
}

CUOTA_INLINE void owned_block::keep_nothing(stream_ref home, any_resource const& memory) noexcept {
    ::new (&memory_) any_resource(any_resource::unowned{}, memory);
    ::new (&home_) shared_stream(shared_stream::unowned(home));
}

}  // namespace cuota::inline v0::detail

#endif
