// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The state of a frame.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/frames/frame_chunk.hpp>
#include <cuota/pool/detail/pool_state.hpp>

namespace cuota::inline v0::detail {

/// Shared by a frame and its resources. A null stream stands for the host. Threads: any. Throws: as `frame`.
class frame_state final : public ref_counted {
public:
    using state = frame_entry::state;

    frame_state(intrusive_ptr<pool_state> pool, source_location where) noexcept
        : pool_{std::move(pool)}, where_{where} {}
    ~frame_state();

    [[nodiscard]] void* allocate(stream_ref const* s, std::size_t bytes, std::size_t alignment,
                                 label const& who, state epoch);

    void deallocate(stream_ref const* s, void* p, std::size_t bytes, source_location where) noexcept;

    /// Frees chunks without owned blocks, and reports the owned blocks.
    void end() noexcept;

    [[nodiscard]] memory_kind kind() const noexcept { return pool_->kind(); }
    [[nodiscard]] intrusive_ptr<pool_state> const& pool() const noexcept { return pool_; }

private:
    // The chunks of one stream; the one at `filled` has the most free bytes.
    struct lane {
        std::uint64_t id;
        dynamic_array<frame_chunk> chunks{};
        std::size_t filled = 0;

        [[nodiscard]] void* try_take(std::size_t bytes, std::size_t alignment, label const& who, state epoch);
        void add(frame_chunk&& fresh) noexcept;
        [[nodiscard]] frame_chunk remove(std::size_t i) noexcept;
    };

    [[nodiscard]] void* try_take(std::uint64_t id, std::size_t bytes, std::size_t alignment, label const& who,
                                 state epoch);
    [[nodiscard]] void* take_of(frame_chunk& fresh, std::uint64_t id, std::size_t bytes,
                                std::size_t alignment, label const& who, state epoch);
    void throw_if_ended(label const& who) const;
    static void refuse_capture_of(stream_ref s, source_location where);

    // A chunk as large as all so far, up to 1/16 of the pool, if such a block is free; otherwise of the requested size.
    [[nodiscard]] frame_chunk chunk_for(stream_ref const* s, std::size_t bytes, std::size_t alignment,
                                        label const& who);
    [[nodiscard]] frame_chunk wrap(void* p, std::size_t size, stream_ref const* s);
    [[nodiscard]] std::size_t held();

    // Returns the chunk if this was its last owned block after end().
    [[nodiscard]] std::optional<frame_chunk> give(stream_ref const* s, std::uint64_t id, void* p,
                                                  std::size_t bytes, source_location where);
    [[nodiscard]] frame_entry& checked(frame_entry* e, std::size_t bytes, source_location where) const;
    [[nodiscard]] std::string title() const;

    // Records another stream that freed a block of the chunk.
    static void note_user(frame_chunk& c, stream_ref s);
    // Does the same at once for a native stream, which may be destroyed earlier.
    void order_unowned(stream_ref s, std::uint64_t id, void const* p);

    void give_back(frame_chunk& c) const noexcept;

    // Removes a chunk without owned blocks, after end().
    [[nodiscard]] std::optional<frame_chunk> take_idle() noexcept;
    [[nodiscard]] std::string end_rest();

    intrusive_ptr<pool_state> const pool_;
    source_location const where_;
    object_lock guard_;
    dynamic_array<lane> lanes_;
    std::size_t held_ = 0;
    bool has_ended_ = false;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE frame_state::~frame_state() {
    // No owner is left that could use or free owned blocks.
    for (lane& l : lanes_)
        for (frame_chunk& c : l.chunks) give_back(c);
}

CUOTA_INLINE void frame_state::refuse_capture_of(stream_ref s, source_location where) {
    constexpr char const* what = "frame: cannot allocate";
    constexpr char const* instead = "allocate from its pool, because the graph outlives the frame";
    rt::refuse_own_capture(s, what, instead, where);
    if (!s.is_owned()) rt::refuse_foreign_capture(s, what, instead, where);  // as in a pool
}

CUOTA_INLINE void* frame_state::allocate(stream_ref const* s, std::size_t bytes, std::size_t alignment,
                                         label const& who, state epoch) {
    if (pool_->is_of_parent()) [[unlikely]]
        throw_forked();
    check_alignment(alignment, who, pool_state::largest_alignment);
    if (bytes == 0) return nullptr;
    if (s) refuse_capture_of(*s, who.where);
    if (pool_->alignment() > block::granularity) alignment = std::max(alignment, pool_->alignment());
    std::uint64_t const id = s ? s->id() : block_metadata::no_stream;
    if (void* const p = try_take(id, bytes, alignment, who, epoch)) return rt::named_block(p, bytes, who);
    frame_chunk fresh =
        // without the lock: the pool may call other holders
        chunk_for(s, bytes, alignment, who);
    try {
        return rt::named_block(take_of(fresh, id, bytes, alignment, who, epoch), bytes, who);
    } catch (...) {
        give_back(fresh);
        throw;
    }
}

CUOTA_INLINE void frame_state::deallocate(stream_ref const* s, void* p, std::size_t bytes,
                                          source_location where) noexcept {
    if (!p || is_of_parent()) return;
    std::uint64_t id = block_metadata::no_stream;
    if (s && !report_failure_of([&] { id = s->id(); })) {
        (void)rt::drain(*s);  // its order cannot be recorded
        s = nullptr;
    }
    if (s && !s->is_owned()) report_failure_of([&] { order_unowned(*s, id, p); });
    std::optional<frame_chunk> idle;
    report_failure_of([&] {
        try {
            idle = give(s, id, p, bytes, where);
        } catch (std::bad_alloc const&) {  // no memory to note it
            if (!s) throw;
            (void)rt::drain(*s);
            idle = give(nullptr, id, p, bytes, where);
        }
    });
    if (idle) give_back(*idle);
}

CUOTA_INLINE void frame_state::end() noexcept {
    {
        region_lock const lock{guard_};
        has_ended_ = true;
    }
    while (auto idle = take_idle()) give_back(*idle);
    report_failure_of([this] {
        if (std::string const alive = end_rest(); !alive.empty())
            throw_usage_error(where_, "frame of {} destroyed while {}", {pool_->title(), alive});
    });
}

CUOTA_INLINE void* frame_state::lane::try_take(std::size_t bytes, std::size_t alignment, label const& who,
                                               state epoch) {
    if (chunks.empty()) return nullptr;
    return chunks[filled].try_take(bytes, alignment, who, epoch);
}

CUOTA_INLINE void frame_state::lane::add(frame_chunk&& fresh) noexcept {  // capacity was reserved
    chunks.push_back(std::move(fresh));
    if (chunks.back().available() > chunks[filled].available()) filled = chunks.size() - 1;
}

CUOTA_INLINE frame_chunk frame_state::lane::remove(std::size_t i) noexcept {
    frame_chunk gone = std::move(chunks[i]);
    if (i + 1 != chunks.size()) chunks[i] = std::move(chunks.back());
    chunks.pop_back();
    filled = 0;  // allocations have ended
    return gone;
}

CUOTA_INLINE void* frame_state::try_take(std::uint64_t id, std::size_t bytes, std::size_t alignment,
                                         label const& who, state epoch) {
    region_lock const lock{guard_};
    throw_if_ended(who);
    for (lane& l : lanes_)
        if (l.id == id) return l.try_take(bytes, alignment, who, epoch);
    return nullptr;
}

CUOTA_INLINE void* frame_state::take_of(frame_chunk& fresh, std::uint64_t id, std::size_t bytes,
                                        std::size_t alignment, label const& who, state epoch) {
    region_lock const lock{guard_};
    throw_if_ended(who);
    lane* mine = nullptr;
    for (lane& l : lanes_)
        if (l.id == id) mine = &l;
    if (!mine) mine = &lanes_.emplace_back(lane{id});
    if (mine->chunks.size() == mine->chunks.capacity()) mine->chunks.reserve(2 * mine->chunks.size() + 1);
    void* const p = fresh.try_take(bytes, alignment, who, epoch);
    held_ += fresh.size();
    mine->add(std::move(fresh));
    return p;
}

CUOTA_INLINE void frame_state::throw_if_ended(label const& who) const {
    if (has_ended_)
        throw_usage_error(who.where, "frame of {}: allocation after its destruction", {pool_->title()});
}

CUOTA_INLINE frame_chunk frame_state::chunk_for(stream_ref const* s, std::size_t bytes, std::size_t alignment,
                                                label const& who) {
    constexpr std::size_t least = std::size_t{64} * 1024;
    std::size_t const ample = std::min(std::max(held(), least), pool_->blocks().reserved() / 16);
    std::size_t const size = round_down(ample, block::granularity);
    std::size_t const skipped = std::max(alignment, block::granularity) - block::granularity;
    if (skipped < size && bytes < size - skipped)
        if (void* const p = pool_->try_allocate(s, size, {"frame", where_})) return wrap(p, size, s);
    void* const p =
        s ? pool_->allocate(*s, bytes, alignment, who) : pool_->allocate_sync(bytes, alignment, who);
    return wrap(p, bytes, s);
}

CUOTA_INLINE frame_chunk frame_state::wrap(void* p, std::size_t size, stream_ref const* s) {
    try {
        return frame_chunk{p, size, s};
    } catch (...) {
        if (s) pool_->deallocate(*s, p, size);
        else pool_->deallocate_sync(p, size);
        throw;
    }
}

CUOTA_INLINE std::size_t frame_state::held() {
    region_lock const lock{guard_};
    return held_;
}

CUOTA_INLINE std::optional<frame_chunk> frame_state::give(stream_ref const* s, std::uint64_t id, void* p,
                                                          std::size_t bytes, source_location where) {
    region_lock const lock{guard_};
    for (lane& l : lanes_) {
        for (std::size_t i = l.chunks.size(); i-- != 0;) {
            frame_chunk& c = l.chunks[i];
            if (!c.has(p)) continue;
            frame_entry& e = checked(c.find(p), bytes, where);
            bool const in_order = !s || id == l.id;
            if (!in_order) note_user(c, *s);
            c.give(e, in_order);
            if (has_ended_ && !c.is_owned()) return l.remove(i);
            return std::nullopt;
        }
    }
    throw_usage_error(where, "{}: deallocate of a pointer that it did not allocate", {title()});
}

CUOTA_INLINE frame_entry& frame_state::checked(frame_entry* e, std::size_t bytes,
                                               source_location where) const {
    if (!e)
        throw_usage_error(where, "{}: deallocate of an unknown pointer (double free, or inside a block)",
                          {title()});
    if (!e->is_live()) throw_usage_error(where, "{}: double free: {}", {title(), e->text()});
    if (e->bytes != bytes)
        throw_usage_error(where, "{}: deallocate with the wrong size: {} of {}",
                          {title(), as_bytes(bytes), e->text()});
    return *e;
}

CUOTA_INLINE std::string frame_state::title() const {
    std::string const at = source_location_text(where_);
    return message("frame{} of {}", {at.empty() ? "" : " (" + at + ')', pool_->title()});
}

CUOTA_INLINE void frame_state::note_user(frame_chunk& c, stream_ref s) {
    auto& users = c.users();
    if (!s.is_owned() || users.find_if([&](stream_ref known) { return known == s; }) != users.end()) return;
    users.emplace_back(s);
}

CUOTA_INLINE void frame_state::order_unowned(stream_ref s, std::uint64_t id, void const* p) {
    std::optional<shared_stream> home;
    {
        region_lock const lock{guard_};
        for (lane& l : lanes_)
            for (frame_chunk& c : l.chunks) {
                if (!c.has(p)) continue;
                if (l.id == id) return;
                if (!c.users().empty()) home = c.users().front();
            }
    }
    if (home) order_after(*home, s);
    else (void)rt::drain(s);
}

CUOTA_INLINE void frame_state::give_back(frame_chunk& c) const noexcept {
    auto const& users = c.users();
    if (users.empty()) return pool_->deallocate_sync(c.at(), c.size());
    for (std::size_t i = 1; i != users.size(); ++i) order_after(users.front(), users[i]);
    pool_->deallocate(users.front(), c.at(), c.size());
}

CUOTA_INLINE std::optional<frame_chunk> frame_state::take_idle() noexcept {
    region_lock const lock{guard_};
    for (lane& l : lanes_)
        for (std::size_t i = l.chunks.size(); i-- != 0;)
            if (!l.chunks[i].is_owned()) return l.remove(i);
    return std::nullopt;
}

CUOTA_INLINE std::string frame_state::end_rest() {
    region_lock const lock{guard_};
    for (lane& l : lanes_)
        for (frame_chunk& c : l.chunks) c.end();
    leak_summary alive;
    for (lane const& l : lanes_)
        for (frame_chunk const& c : l.chunks)
            for (frame_entry const& e : c.entries())
                if (e.is_live()) alive.add(e.name, e.where, e.bytes);
    return alive.text();
}

}  // namespace cuota::inline v0::detail

#endif
