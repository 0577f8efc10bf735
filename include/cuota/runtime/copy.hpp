// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Copies and fills, in stream order, with the direction said by name.
/// Raw: whoever calls these answers for both ends' lifetimes. Programs use buffers and rings, which do.
/// A copy between host and device is one call of CUDA, or two where it passes a multiple of registered_part; if the second fails, the
/// host has waited for the first.
#pragma once

#include <cstddef>

#include <cuota/core/config.hpp>
#include <cuota/runtime/memory.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::rt {

/// From pinned host memory: the source must stay as it is until the stream has passed this point. 0 bytes are no call.
/// Throws: cuda_error; nothing is enqueued then.
void copy_to_device(void* to, void const* from, std::size_t bytes, stream_ref s, place where = place::here());

/// To pinned host memory: not there until the stream has passed this point. 0 bytes are no call.
/// Throws: cuda_error; nothing is enqueued then.
void copy_to_host(void* to, void const* from, std::size_t bytes, stream_ref s, place where = place::here());

/// Both ends device memory, without overlap, which must stay until the stream has passed this point. 0 bytes are no call.
/// Throws: cuda_error; nothing is enqueued then.
void copy_on_device(void* to, void const* from, std::size_t bytes, stream_ref s, place where = place::here());

/// Where both ends are CUDA finds out: for code that has memory of any kind. Of host memory that is not pinned it may wait.
/// Throws: cuda_error; nothing is enqueued then.
void copy_anywhere(void* to, void const* from, std::size_t bytes, stream_ref s, place where = place::here());

/// Sets every byte. Not done until the stream has passed this point. 0 bytes are no call.
/// Throws: cuda_error; nothing is enqueued then.
void fill_bytes(void* to, unsigned char value, std::size_t bytes, stream_ref s, place where = place::here());

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE

namespace cuota::inline v0::rt {

namespace detail {

// In one call, but for memory of two registrations (lock_pages).
void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, stream_ref s, place where);

CUOTA_INLINE void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, stream_ref s,
                       place where) {
    auto* const target = static_cast<std::byte*>(to);
    auto const* const source = static_cast<std::byte const*>(from);
    for (std::size_t done = 0; done != bytes;) {
        std::size_t const part = within_part(target + done, within_part(source + done, bytes - done));
        on_behalf_of(where);
        cudaError_t const code = cudaMemcpyAsync(target + done, source + done, part, kind, s.get());
        if (code != cudaSuccess && done != 0) drain(s);
        check(code, "cudaMemcpyAsync", where);
        done += part;
    }
}

}  // namespace detail

CUOTA_INLINE void copy_to_device(void* to, void const* from, std::size_t bytes, stream_ref s, place where) {
    detail::copy(to, from, bytes, cudaMemcpyHostToDevice, s, where);
}

CUOTA_INLINE void copy_to_host(void* to, void const* from, std::size_t bytes, stream_ref s, place where) {
    detail::copy(to, from, bytes, cudaMemcpyDeviceToHost, s, where);
}

CUOTA_INLINE void copy_on_device(void* to, void const* from, std::size_t bytes, stream_ref s, place where) {
    if (bytes == 0) return;
    on_behalf_of(where);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s.get()), "cudaMemcpyAsync", where);
}

CUOTA_INLINE void copy_anywhere(void* to, void const* from, std::size_t bytes, stream_ref s, place where) {
    detail::copy(to, from, bytes, cudaMemcpyDefault, s, where);
}

CUOTA_INLINE void fill_bytes(void* to, unsigned char value, std::size_t bytes, stream_ref s, place where) {
    if (bytes == 0) return;
    on_behalf_of(where);
    check(cudaMemsetAsync(to, value, bytes, s.get()), "cudaMemsetAsync", where);
}

}  // namespace cuota::inline v0::rt

#endif
