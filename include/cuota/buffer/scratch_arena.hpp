// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Bump allocator for kernels, in place of malloc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/buffer/detail/scratch_counts.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/kernel_overflow_error.hpp>
#include <cuota/core/config.hpp>

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// Non-owning handle through which kernels allocate from a scratch_arena.
/// Threads: any in a kernel. Throws: in checked builds usage_error for an invalid part.
class device_scratch {
public:
    /// Alignment and size unit in bytes.
    static constexpr std::size_t granularity = 16;

    /// Used by scratch_lease. `requested` has the bytes requested of each part.
    device_scratch(device_span<std::byte> all, std::size_t part_bytes,
                   device_span<detail::kernel_count> requested) noexcept;

    /// Allocates `count` uninitialized Ts from a part; the kernel's threads may use them until it has finished. Returns an empty span if
    /// the part is full; the request is counted anyway. Cost: one atomic addition.
    template <class T>
    [[nodiscard]] CUOTA_KERNEL device_span<T> take(std::size_t count, std::size_t part = 0) const {
        static_assert(alignof(T) <= granularity, "pieces are aligned to 16 bytes");
        if (count == 0) return {};
        detail::kernel_count& requested = requested_[part];
        std::size_t const most = ~std::size_t{0} - (granularity - 1);
        if (count > most / sizeof(T))
            return detail::saturate(requested, ~detail::kernel_count{0}), device_span<T>{};
        std::size_t const bytes = (count * sizeof(T) + (granularity - 1)) / granularity * granularity;
        if (bytes > part_bytes_) return detail::saturate(requested, bytes), device_span<T>{};
        detail::kernel_count const at = detail::add_to(requested, bytes);
        if (at > part_bytes_ - bytes) return {};
        std::byte* const from = all_.subspan(part * part_bytes_ + at, bytes).data();
        return {reinterpret_cast<T*>(from), count, all_.origin()};
    }
    [[nodiscard]] CUOTA_KERNEL std::size_t part_bytes() const { return part_bytes_; }  ///< bytes

private:
    device_span<std::byte> all_;
    std::size_t part_bytes_;
    device_span<detail::kernel_count> requested_;
};

/// Scratch memory for kernels: one part for a grid, or equal parts, such as one per block.
///
/// Kernels allocate pieces and do not free them; `open` empties the arena for the next kernel. `check` throws with the bytes that suffice
/// for any order of the threads.
///
/// Move-only; a moved-from arena has no parts, and any other use is misuse. Units: bytes; a piece is rounded up to a multiple of 16.
/// Threads: as device_buffer.
/// Throws:  as device_buffer; usage_error for 0 parts. Operations that throw have no effect.
/// Order:   kernels that open the arena on different streams are ordered as by write leases.
/// Cost:    memory of all parts and 16 bytes of counts per part, allocated once; `open` is two leases and a small kernel; `needed` and
///          `check` wait for the stream.
/// Example:
///     cuota::scratch_arena scratch{64_KiB, blocks, stream, pool, "bins"};
///     count_kernel<<<blocks, 256, 0, stream.get()>>>(keys.read(stream), scratch.open(stream));
///     scratch.check(stream);  // throws kernel_overflow_error with the sufficient bytes
class scratch_arena {
public:
    /// `part_bytes` is rounded up to a multiple of 256.
    scratch_arena(std::size_t part_bytes, std::size_t parts, stream_ref home, resource_ref const& memory,
                  tag name = {}, source_location where = source_location::current());
    /// Allocates one part for a whole grid.
    scratch_arena(std::size_t bytes, stream_ref home, resource_ref const& memory, tag name = {},
                  source_location where = source_location::current());

    /// Write access for one kernel.
    class scratch_lease {
    public:
        /// Returns the kernel argument, valid as long as the lease.
        operator device_scratch() const;

    private:
        friend class scratch_arena;
        scratch_lease(scratch_arena& of, stream_ref s, source_location where);
        lease<std::byte> all_;
        lease<detail::kernel_count> requested_;
        std::size_t part_bytes_;
    };

    /// Borrows the arena for the next kernel on s and empties it: earlier pieces become invalid.
    [[nodiscard]] scratch_lease open(stream_ref s, source_location where = source_location::current()) {
        check_not_moved_from(where);
        return {*this, s, where};
    }

    /// Returns the most bytes that any kernel so far, on any stream, requested of a part. Waits for s.
    [[nodiscard]] std::size_t needed(stream_ref s, source_location where = source_location::current()) const;
    /// Throws kernel_overflow_error, with sizes in bytes of a part, if a kernel exceeded its part. Waits for s.
    void check(stream_ref s, source_location where = source_location::current()) const;

    /// Returns the bytes per part, after rounding.
    [[nodiscard]] std::size_t part_bytes() const noexcept { return part_bytes_; }
    [[nodiscard]] std::size_t parts() const noexcept;  ///< at least 1; 0 if moved-from
    /// Returns the home stream.
    [[nodiscard]] stream_ref home() const noexcept { return memory_.home(); }

private:
    void check_not_moved_from(source_location where) const;
    [[nodiscard]] static std::size_t bytes_of_parts(std::size_t part_bytes, std::size_t parts, tag name,
                                                    source_location where);

    std::size_t part_bytes_;
    device_buffer<std::byte> memory_;
    device_buffer<detail::kernel_count> requested_;
    tag name_;
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#if CUOTA_DEFINE_MEMORY

#include <algorithm>

namespace cuota::inline v0::inline CUOTA_VIEWS {

CUOTA_INLINE device_scratch::device_scratch(device_span<std::byte> all, std::size_t part_bytes,
                                            device_span<detail::kernel_count> requested) noexcept
    : all_{all}, part_bytes_{part_bytes}, requested_{requested} {}

CUOTA_INLINE scratch_arena::scratch_arena(std::size_t part_bytes, std::size_t parts, stream_ref home,
                                          resource_ref const& memory, tag name, source_location where)
    : part_bytes_{round_up(part_bytes, default_alignment)},
      memory_{bytes_of_parts(part_bytes_, parts, name, where), home, memory, no_init, name, where},
      requested_{2 * parts, home, memory, zeroed, name, where},
      name_{name} {}

CUOTA_INLINE scratch_arena::scratch_arena(std::size_t bytes, stream_ref home, resource_ref const& memory,
                                          tag name, source_location where)
    : scratch_arena{bytes, 1, home, memory, name, where} {}

CUOTA_INLINE scratch_arena::scratch_lease::scratch_lease(scratch_arena& of, stream_ref s,
                                                         source_location where)
    : all_{of.memory_.write(s, where)},
      requested_{of.requested_.write(s, where)},
      part_bytes_{of.part_bytes_} {
    detail::begin_scratch_counts(s, requested_.span(), where);
}

CUOTA_INLINE scratch_arena::scratch_lease::operator device_scratch() const {
    return {all_.span(), part_bytes_, requested_.span().first(requested_.size() / 2)};
}

CUOTA_INLINE void scratch_arena::check_not_moved_from(source_location where) const {
    if (parts() == 0) detail::throw_usage_error(where, "a scratch_arena was used after it was moved from");
}

CUOTA_INLINE std::size_t scratch_arena::parts() const noexcept { return requested_.size() / 2; }

CUOTA_INLINE std::size_t scratch_arena::needed(stream_ref s, source_location where) const {
    check_not_moved_from(where);
    auto const requested = requested_.to_vector(s, where);
    return static_cast<std::size_t>(*std::ranges::max_element(requested));
}

CUOTA_INLINE void scratch_arena::check(stream_ref s, source_location where) const {
    std::size_t const most = needed(s, where);
    if (most <= part_bytes_) return;
    throw kernel_overflow_error{
        (name_.is_empty() ? "scratch_arena" : "scratch_arena \"" + std::string{name_.text()} + '"') +
            ": a kernel requested " + bytes_text(most) + ", capacity is " + bytes_text(part_bytes_) +
            (parts() == 1 ? "" : " per part"),
        part_bytes_, most, where};
}

CUOTA_INLINE std::size_t scratch_arena::bytes_of_parts(std::size_t part_bytes, std::size_t parts, tag name,
                                                       source_location where) {
    if (parts == 0) detail::throw_usage_error(where, "scratch_arena: parts must be at least 1");
    return detail::bytes_of(parts, {name, where, "parts", part_bytes});
}

}  // namespace cuota::inline v0::inline CUOTA_VIEWS

#endif
