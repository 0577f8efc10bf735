// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A scope inside a pool: what is allocated in it is given back together at its end.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0 {

namespace detail {
class frame_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class shared<detail::frame_state>;
#endif

/// A frame as a resource: an eight-byte handle. What is taken through it has an owner, who gives it back before the
/// frame ends. Keeps the memory valid, not the frame open.
/// Order, threads, throws, cost: those of `frame`. Example: tests/pool/frame.cpp
class frame_resource {
public:
    /// The same frame; its move is a copy, so a handle that was moved from is still valid.
    frame_resource(frame_resource const&) noexcept = default;
    frame_resource& operator=(frame_resource const&) noexcept = default;  ///< the same frame as other
    ~frame_resource() = default;
    /// Valid in s from here on. Throws: as the pool; misuse after the frame's end, or in a capture of s by this thread.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// In order of s; free for others at the end of the frame.
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Valid on every stream at return: the host waits for what may still use the bytes.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// For when all work on it was seen to end; free for others at the end of the frame.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// As the pool: 256 bytes.
    [[nodiscard]] static constexpr std::size_t granule() noexcept { return default_alignment; }
    [[nodiscard]] memory_kind kind() const noexcept;  ///< the pool's source's
    /// Whether both are one frame.
    friend bool operator==(frame_resource const&, frame_resource const&) noexcept = default;

private:
    friend class frame;
    explicit frame_resource(shared<detail::frame_state> state) noexcept : state_{std::move(state)} {}
    shared<detail::frame_state> state_;
};

/// From `scoped_pool::frame` to the end of the block. Memory is cut from chunks of the pool, one behind the other; at the
/// end the chunks go back, whatever is in them.
///
/// What `allocate` gives ends with the frame; it may be given back before. What is taken through `resource()`, as buffers
/// do, has an owner: if he is still there at the end, that is reported by tag, size and place as misuse, and the chunk
/// stays until he is gone. Giving back frees nothing for others before the end, only the last of a chunk can be taken
/// again; but a wrong size, a foreign pointer or a second release goes to the error sink, and changes nothing.
/// A chunk is as large as what the frame has already while that is less than a 16th of its pool, but never more is asked
/// of a source or budget than the request. Frames may be open side by side, and inside one another: each has its chunks.
///
/// Units:   bytes; blocks are multiples of 256.
/// Order:   each stream has chunks of its own. They go back in its order, after the work of all streams that gave some of
///          it back.
/// Threads: any; it ends when none uses it any more.
/// Throws:  as the pool: nothing is taken then; misuse after the end.
/// Cost:    a lock, and no more than a few loads; the end is one release for each chunk.
/// Example:
///     auto frame = pool.frame();
///     cuota::device_buffer<float> rows{n, stream, frame, "rows"};
///     void* const bins = frame.allocate(stream, 4096);      // needs no deallocate
class frame {
public:
    frame(frame const&) = delete;  // a scope is one place; hand on resource() instead
    frame& operator=(frame const&) = delete;
    ~frame();

    /// The frame for those who take a resource.
    [[nodiscard]] frame_resource resource() const noexcept { return frame_resource{state_}; }
    operator any_resource() const;  ///< the same

    /// For this frame only: nobody has to give it back. Valid in s from here on. Throws: as the class says.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, place where = place::here());
    /// Gives back before the end, in order of s: the last of a chunk can be taken again. Null does nothing.
    void deallocate(stream_ref s, void* p, std::size_t bytes, place where = place::here()) noexcept;

    /// A frame inside this one. Throws: std::bad_alloc.
    [[nodiscard]] frame inner(place where = place::here()) const;

private:
    friend class scoped_pool;
    frame(shared<detail::pool_state> const& pool, place where);

    shared<detail::frame_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/frame_state.hpp>

namespace cuota::inline v0 {

static_assert(labelled_resource<frame_resource> && sizeof(frame_resource) == 8);

#if CUOTA_SEPARATE
template class shared<detail::frame_state>;
#endif

CUOTA_INLINE void* frame_resource::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                            label const& who) {
    return state_->allocate(&s, bytes, alignment, who, detail::frame_entry::state::owned);
}

CUOTA_INLINE void frame_resource::deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t) noexcept {
    state_->deallocate(&s, p, bytes, {});
}

CUOTA_INLINE void* frame_resource::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    return state_->allocate(nullptr, bytes, alignment, who, detail::frame_entry::state::owned);
}

CUOTA_INLINE void frame_resource::deallocate_sync(void* p, std::size_t bytes, std::size_t) noexcept {
    state_->deallocate(nullptr, p, bytes, {});
}

CUOTA_INLINE memory_kind frame_resource::kind() const noexcept { return state_->kind(); }

CUOTA_INLINE frame::~frame() {
    if (!state_->is_of_parent()) state_->end();
}

CUOTA_INLINE frame::operator any_resource() const { return resource(); }

CUOTA_INLINE void* frame::allocate(stream_ref s, std::size_t bytes, std::size_t alignment, tag name,
                                   place where) {
    return state_->allocate(&s, bytes, alignment, {name, where}, detail::frame_entry::state::ends_with_frame);
}

CUOTA_INLINE void frame::deallocate(stream_ref s, void* p, std::size_t bytes, place where) noexcept {
    state_->deallocate(&s, p, bytes, where);
}

CUOTA_INLINE frame frame::inner(place where) const { return frame{state_->pool(), where}; }

CUOTA_INLINE frame::frame(shared<detail::pool_state> const& pool, place where)
    : state_{shared<detail::frame_state>::make(pool, where)} {}

}  // namespace cuota::inline v0

#endif
