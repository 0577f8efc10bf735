// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory resources as users would write them for the installed version of CCCL alone.
#pragma once

#include <cuota/interop/cuda_mr_concepts.hpp>

#include <cstddef>
#include <memory>
#include <new>

#include <cuda_runtime_api.h>

namespace theirs {

inline void* by_cuda_malloc(std::size_t bytes) {
    void* p = nullptr;
    if (cudaMalloc(&p, bytes) == cudaSuccess) return p;
    (void)cudaGetLastError();
    throw std::bad_alloc{};
}
inline void* by_cuda_malloc_async(std::size_t bytes, cudaStream_t s) {
    void* p = nullptr;
    if (cudaMallocAsync(&p, bytes, s) == cudaSuccess) return p;
    (void)cudaGetLastError();
    throw std::bad_alloc{};
}

/// Allocates synchronously only, as CCCL's pinned resource without a memory pool.
struct at_once {
#if CCCL_VERSION < 3001000
    void* allocate(std::size_t bytes, std::size_t) { return by_cuda_malloc(bytes); }
    void deallocate(void* p, std::size_t, std::size_t) { (void)cudaFree(p); }
#else
    void* allocate_sync(std::size_t bytes, std::size_t) { return by_cuda_malloc(bytes); }
    void deallocate_sync(void* p, std::size_t, std::size_t) { (void)cudaFree(p); }
#endif
    friend bool operator==(at_once const&, at_once const&) noexcept { return true; }
    friend bool operator!=(at_once const&, at_once const&) noexcept { return false; }
    friend void get_property(at_once const&, cuda::mr::device_accessible) noexcept {}
};

/// Allocates from the driver's pool; cannot be copied.
struct in_order {
    in_order() = default;
    in_order(in_order&&) = default;
    in_order& operator=(in_order&&) = default;

    void* take(std::size_t bytes) {
        void* const p = take(bytes, cudaStreamPerThread);
        (void)cudaStreamSynchronize(cudaStreamPerThread);
        return p;
    }
    void* take(std::size_t bytes, cudaStream_t s) { return by_cuda_malloc_async(bytes, s); }
    void give(void* p) { (void)cudaFree(p); }
    void give(void* p, cudaStream_t s) { (void)cudaFreeAsync(p, s); }

#if CCCL_VERSION < 3001000
    void* allocate(std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate(void* p, std::size_t, std::size_t) { give(p); }
    void* allocate_async(std::size_t bytes, std::size_t, cuda::stream_ref s) { return take(bytes, s.get()); }
    void deallocate_async(void* p, std::size_t, std::size_t, cuda::stream_ref s) { give(p, s.get()); }
#else
    void* allocate_sync(std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate_sync(void* p, std::size_t, std::size_t) { give(p); }
    void* allocate(cuda::stream_ref s, std::size_t bytes, std::size_t) { return take(bytes, s.get()); }
    void deallocate(cuda::stream_ref s, void* p, std::size_t, std::size_t) { give(p, s.get()); }
#endif
    friend bool operator==(in_order const&, in_order const&) noexcept { return true; }
    friend bool operator!=(in_order const&, in_order const&) noexcept { return false; }
    friend void get_property(in_order const&, cuda::mr::device_accessible) noexcept {}

private:
    std::unique_ptr<int> not_to_be_copied_;
};

/// Runs functions of the test: Take(bytes), Give(p).
template <class Take, class Give>
struct told {
    Take take;
    Give give;
#if CCCL_VERSION < 3001000
    void* allocate(std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate(void* p, std::size_t, std::size_t) { give(p); }
#else
    void* allocate_sync(std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate_sync(void* p, std::size_t, std::size_t) { give(p); }
#endif
    friend bool operator==(told const&, told const&) noexcept { return true; }
    friend bool operator!=(told const&, told const&) noexcept { return false; }
    friend void get_property(told const&, cuda::mr::device_accessible) noexcept {}
    friend void get_property(told const&, cuda::mr::host_accessible) noexcept {}
};
template <class Take, class Give>
told(Take, Give) -> told<Take, Give>;

}  // namespace theirs
