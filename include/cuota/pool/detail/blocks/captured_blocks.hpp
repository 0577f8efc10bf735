// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Blocks of a pool in graphs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/label.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

/// The graph that uses a block: an address, or foreign_capture_of.
struct graph_key {
    void const* graph = nullptr;
    std::uint64_t foreign = 0;
    friend bool operator==(graph_key, graph_key) noexcept = default;
};

/// Blocks that were allocated or freed in a capture, until its graph is destroyed. The pool counts them as live. Threads: any. Strong
/// guarantee. Throws: std::bad_alloc where not noexcept.
class graph_blocks {
public:
    struct given {
        void* at;
        std::size_t bytes;
        /// stream that freed it after the capture
        std::optional<shared_stream> on;
    };

    [[nodiscard]] bool is_any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

    void enter(graph_key graph, void* p, std::size_t bytes, std::uint64_t stream, bool is_live);
    /// Reallocates a block that the same stream freed in the capture, if any.
    [[nodiscard]] void* try_take(graph_key graph, std::size_t bytes, std::size_t alignment,
                                 std::uint64_t stream) noexcept;
    /// Frees a block in the capture, or later in the order of s (null: the host); false if no graph uses it. Throws: usage_error for a
    /// double free or a wrong size.
    [[nodiscard]] bool give(void* p, std::size_t bytes, stream_ref const* s, bool is_in_capture,
                            std::string const& title);
    /// Removes the blocks of a destroyed graph; returns its freed ones one by one, finally nothing.
    [[nodiscard]] std::optional<given> release(void const* graph) noexcept;
    /// Does the same for foreign captures.
    [[nodiscard]] std::optional<given> release_foreign() noexcept;
    [[nodiscard]] std::size_t kept_for_foreign() noexcept;

private:
    struct entry {
        graph_key graph;
        std::size_t bytes;
        std::uint64_t stream;  // captured, used it last
        bool is_live;
        std::optional<shared_stream> given_on;
    };
    template <class Which>
    [[nodiscard]] std::optional<given> release_one(Which which) noexcept;
    void publish() noexcept { count_.store(blocks_.size(), std::memory_order_release); }

    object_lock guard_;
    std::unordered_map<void*, entry> blocks_;
    std::atomic<std::size_t> count_ = 0;
};

/// Waits on the host for the last launch on s, which comes after earlier ones. If s is captured, its earlier work has completed.
void wait_for_launches(stream_ref s) noexcept;

/// A graph's reference to a pool; frees its blocks after the last launch.
template <class Pool>
class pool_in_graph final : public graph_use {
public:
    explicit pool_in_graph(Pool& pool) : pool_{intrusive_ptr<Pool>::of(pool)} {}
    ~pool_in_graph() override {
        if (last_) wait_for_launches(*last_);
        pool_->end_of_graph(*this);
    }
    void about_to_end() override {}
    void ended() noexcept override {}
    void begin_launch(stream_ref, source_location) override {}
    void end_launch(stream_ref s, bool is_enqueued) noexcept override {
        if (is_enqueued)
            // a failed launch is not ordered after the previous one
            last_.emplace(s);
    }

private:
    intrusive_ptr<Pool> const pool_;
    std::optional<shared_stream> last_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE void graph_blocks::enter(graph_key graph, void* p, std::size_t bytes, std::uint64_t stream,
                                      bool is_live) {
    region_lock const lock{guard_};
    blocks_.insert_or_assign(p, entry{graph, bytes, stream, is_live, std::nullopt});
    publish();
}

CUOTA_INLINE void* graph_blocks::try_take(graph_key graph, std::size_t bytes, std::size_t alignment,
                                          std::uint64_t stream) noexcept {
    region_lock const lock{guard_};
    for (auto& [p, b] : blocks_) {
        if (b.graph != graph || b.is_live || b.bytes != bytes || b.stream != stream || b.given_on) continue;
        if (reinterpret_cast<std::uintptr_t>(p) % alignment != 0) continue;
        b.is_live = true;
        return p;
    }
    return nullptr;
}

CUOTA_INLINE bool graph_blocks::give(void* p, std::size_t bytes, stream_ref const* s, bool is_in_capture,
                                     std::string const& title) {
    region_lock const lock{guard_};
    auto const found = blocks_.find(p);
    if (found == blocks_.end()) return false;
    entry& b = found->second;
    if (!b.is_live) throw_usage_error("{}: double free of a block that a graph uses", {title});
    if (b.bytes != bytes)
        throw_usage_error("{}: deallocate with the wrong size: {} of {} that a graph uses",
                          {title, as_bytes(bytes), as_bytes(b.bytes)});
    b.is_live = false;
    if (is_in_capture) b.stream = s->id();
    else if (s) b.given_on = shared_stream{*s};
    return true;
}

CUOTA_INLINE auto graph_blocks::release(void const* graph) noexcept -> std::optional<given> {
    return release_one([graph](entry const& b) { return b.graph.graph == graph; });
}

CUOTA_INLINE auto graph_blocks::release_foreign() noexcept -> std::optional<given> {
    return release_one([](entry const& b) { return b.graph.foreign != 0; });
}

CUOTA_INLINE std::size_t graph_blocks::kept_for_foreign() noexcept {
    region_lock const lock{guard_};
    std::size_t kept = 0;
    for (auto const& [p, b] : blocks_) kept += b.graph.foreign != 0 && !b.is_live;
    return kept;
}

template <class Which>
auto graph_blocks::release_one(Which which) noexcept -> std::optional<given> {
    region_lock const lock{guard_};
    for (auto at = blocks_.begin(); at != blocks_.end();) {
        if (!which(at->second)) {
            ++at;
            continue;
        }
        std::optional<given> found;
        if (!at->second.is_live) found = given{at->first, at->second.bytes, std::move(at->second.given_on)};
        at = blocks_.erase(at);
        publish();
        if (found) return found;
    }
    return std::nullopt;
}

CUOTA_INLINE void wait_for_launches(stream_ref s) noexcept {
    bool is_over = false;
    report_failure_of([&] { is_over = is_captured(s); });
    if (!is_over) rt::drain(s);
}

}  // namespace cuota::inline v0::detail

#endif
