// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A bump allocator in a pool.
#pragma once

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/pool/pool_resource.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0 {

namespace detail {
class frame_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::frame_state>;
#endif

/// A frame as a resource: an eight-byte handle that keeps the memory valid, but does not extend the frame's scope. Its blocks have owners,
/// which free them before the frame is destroyed.
/// Order, threads, throws, cost: as `frame`. Example: tests/pool/frame.cpp
class frame_resource {
public:
    /// Refers to the same frame; a move copies.
    frame_resource(frame_resource const&) noexcept = default;
    /// Refers to the same frame.
    frame_resource& operator=(frame_resource const&) noexcept = default;
    ~frame_resource() = default;
    /// Allocates in the order of s.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {});
    /// Frees in the order of s.
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Allocates for every stream; the host waits for pending work.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {});
    /// Frees memory that no work uses.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept;
    /// Returns 256 bytes.
    [[nodiscard]] static constexpr std::size_t granularity() noexcept { return default_alignment; }
    [[nodiscard]] memory_kind kind() const noexcept;  ///< kind of the source
    /// Compares by frame.
    friend bool operator==(frame_resource const&, frame_resource const&) noexcept = default;

private:
    friend class frame;
    explicit frame_resource(detail::intrusive_ptr<detail::frame_state> state) noexcept
        : state_{std::move(state)} {}
    detail::intrusive_ptr<detail::frame_state> state_;
};

/// A bump allocator in chunks of a pool, from `scoped_pool::frame` to destruction, which frees the chunks.
///
/// Memory from `allocate` is freed with the frame, or deallocated earlier. Memory from `resource()` has an owner: if it is live at
/// destruction, it is reported as misuse by tag, size and call site, and its chunk stays until the owner frees it. Before destruction, only
/// the last block of a chunk can be reused. Invalid deallocations are reported to the error sink and ignored. Frames may be nested or open
/// side by side.
///
/// Units:   bytes; blocks are multiples of 256.
/// Order:   each stream has its own chunks, freed in its order after the work of all streams that freed parts of them.
/// Threads: any; destroy it after the last use.
/// Throws:  as the pool (on a throw, nothing is allocated); usage_error after destruction, while this thread captures the stream, and for a
///          native handle in a foreign capture.
/// Cost:    a lock and a few loads. Chunks grow with the frame, up to 1/16 of the pool; each takes one deallocation.
/// Example:
///     auto frame = pool.frame();
///     cuota::device_buffer<float> rows{n, stream, frame, "rows"};
///     void* const bins = frame.allocate(stream, 4096);      // needs no deallocate
class frame {
public:
    frame(frame const&) = delete;  // pass resource() instead
    frame& operator=(frame const&) = delete;
    ~frame();

    /// Returns the frame as a resource.
    [[nodiscard]] frame_resource resource() const noexcept { return frame_resource{state_}; }
    operator any_resource() const;  ///< same as resource()

    /// Allocates memory that is freed with the frame.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 tag name = {}, source_location where = source_location::current());
    /// Same, with the default alignment.
    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, tag name,
                                 source_location where = source_location::current()) {
        return allocate(s, bytes, default_alignment, name, where);
    }
    /// Frees early, in the order of s. Null is ignored.
    void deallocate(stream_ref s, void* p, std::size_t bytes,
                    source_location where = source_location::current()) noexcept;

    /// Begins a frame in this one. Throws: std::bad_alloc.
    [[nodiscard]] frame nested(source_location where = source_location::current()) const;

private:
    friend class scoped_pool;
    frame(detail::intrusive_ptr<detail::pool_state> const& pool, source_location where);

    detail::intrusive_ptr<detail::frame_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/pool/detail/frames/frame_state.hpp>

namespace cuota::inline v0 {

static_assert(labeled_resource<frame_resource> && sizeof(frame_resource) == 8);

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::frame_state>;
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
                                   source_location where) {
    return state_->allocate(&s, bytes, alignment, {name, where}, detail::frame_entry::state::ends_with_frame);
}

CUOTA_INLINE void frame::deallocate(stream_ref s, void* p, std::size_t bytes,
                                    source_location where) noexcept {
    state_->deallocate(&s, p, bytes, where);
}

CUOTA_INLINE frame frame::nested(source_location where) const { return frame{state_->pool(), where}; }

CUOTA_INLINE frame::frame(detail::intrusive_ptr<detail::pool_state> const& pool, source_location where)
    : state_{detail::intrusive_ptr<detail::frame_state>::make(pool, where)} {}

}  // namespace cuota::inline v0

#endif
