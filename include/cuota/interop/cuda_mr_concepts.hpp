// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Version-independent names of CCCL's memory-resource concepts, from 2.8 on: `cuda::mr::resource` is synchronous before CCCL 3.1, and
/// stream-ordered since.
#pragma once

#include <cuda/version>

// CCCL requires this macro before the first inclusion: before 3.1 for everything, in 3.1 for resource_ref.
#if CCCL_VERSION < 3002000 && !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#if CCCL_VERSION < 3001000 && (defined(_CUDA_MEMORY_RESOURCE) || defined(_CUDA__MEMORY_RESOURCE_RESOURCE_H))
#error                                                                                                       \
    "cuota: <cuda/memory_resource> was included before this header, and defines nothing in this CCCL version: define \
LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE for the whole program, or include cuota's header first"
#endif
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#include <cuda/memory_resource>
#if __has_include(<cuda/stream>)
#include <cuda/stream>
#else
#include <cuda/stream_ref>
#endif

#include <cstddef>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

namespace detail {

#if CCCL_VERSION < 3001000

template <class R>
concept cuda_mr_synchronous = ::cuda::mr::resource<R>;
template <class R>
concept cuda_mr_stream_ordered = ::cuda::mr::async_resource<R>;

template <cuda_mr_synchronous R>
[[nodiscard]] void* take_at_once(R& r, std::size_t bytes, std::size_t alignment) {
    return r.allocate(bytes, alignment);
}
template <cuda_mr_synchronous R>
void give_at_once(R& r, void* p, std::size_t bytes, std::size_t alignment) {
    r.deallocate(p, bytes, alignment);
}
template <cuda_mr_stream_ordered R>
[[nodiscard]] void* take_in_order(R& r, ::cuda::stream_ref s, std::size_t bytes, std::size_t alignment) {
    return r.allocate_async(bytes, alignment, s);
}
template <cuda_mr_stream_ordered R>
void give_in_order(R& r, ::cuda::stream_ref s, void* p, std::size_t bytes, std::size_t alignment) {
    r.deallocate_async(p, bytes, alignment, s);
}

#else

template <class R>
concept cuda_mr_synchronous = ::cuda::mr::synchronous_resource<R>;
template <class R>
concept cuda_mr_stream_ordered = ::cuda::mr::resource<R>;

template <cuda_mr_synchronous R>
[[nodiscard]] void* take_at_once(R& r, std::size_t bytes, std::size_t alignment) {
    return r.allocate_sync(bytes, alignment);
}
template <cuda_mr_synchronous R>
void give_at_once(R& r, void* p, std::size_t bytes, std::size_t alignment) {
    r.deallocate_sync(p, bytes, alignment);
}
template <cuda_mr_stream_ordered R>
[[nodiscard]] void* take_in_order(R& r, ::cuda::stream_ref s, std::size_t bytes, std::size_t alignment) {
    return r.allocate(s, bytes, alignment);
}
template <cuda_mr_stream_ordered R>
void give_in_order(R& r, ::cuda::stream_ref s, void* p, std::size_t bytes, std::size_t alignment) {
    r.deallocate(s, p, bytes, alignment);
}

#endif

template <class R>
concept is_device_accessible = ::cuda::has_property<R, ::cuda::mr::device_accessible>;
template <class R>
concept is_host_accessible = ::cuda::has_property<R, ::cuda::mr::host_accessible>;

}  // namespace detail

/// A CCCL memory resource of any version.
template <class R>
concept any_cuda_mr = detail::cuda_mr_synchronous<R>;

}  // namespace cuota::inline v0
