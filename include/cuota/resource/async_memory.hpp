// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cudaMallocAsync and cudaFreeAsync as a resource.
#pragma once

#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0 {

/// Memory of one device from the driver's own stream-ordered pool.
///
/// Order:   valid in the stream from the call on; given back in stream order. The _sync calls are valid everywhere.
/// Threads: any.
/// Throws:  out_of_memory with the driver's numbers; misuse for an alignment above 256 or a stream of another device;
///          cuda_error. Nothing is taken then.
/// Cost:    a driver call each way, some us on a GPU. Accounted in 512 bytes.
class async_memory {
public:
    /// On the calling thread's current device. Throws: cuda_error.
    async_memory() : async_memory{cuota::device::current()} {}
    explicit async_memory(cuota::device where) noexcept : where_{where} {}

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {}) {
        detail::check_alignment(alignment, who);
        if (bytes == 0) return nullptr;
        device_scope const here{where_};
        if (s.device() !=
            where_)  // the driver would take the memory from the stream's device, without a word
            throw misuse{"async_memory of device " + std::to_string(where_.ordinal()) +
                             " was asked on a stream of device " + std::to_string(s.device().ordinal()),
                         who.where};
        void* const p = rt::async_allocate(bytes, s);
        if (!p) detail::refuse_on(where_, bytes, granule(), who, "cudaMallocAsync");
        detail::taken_on(where_) += round_up(bytes, granule());
        return p;
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t = default_alignment) noexcept {
        if (p && rt::async_free(p, s)) detail::taken_on(where_) -= round_up(bytes, granule());
    }

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {}) {
        device_scope const here{where_};
        void* const p = allocate(cudaStreamPerThread, bytes, alignment, who);
        try {
            if (p) stream_ref{cudaStreamPerThread}.synchronize();
        } catch (...) {
            deallocate(cudaStreamPerThread, p, bytes, alignment);
            throw;
        }
        return p;
    }
    // cudaFree takes memory of a pool as well and puts it back without waiting: all work on it has ended.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept {
        if (p && rt::device_free(p)) detail::taken_on(where_) -= round_up(bytes, granule());
    }

    [[nodiscard]] static constexpr std::size_t granule() noexcept { return 512; }
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::device; }
    [[nodiscard]] cuota::device device() const noexcept { return where_; }
    friend bool operator==(async_memory, async_memory) noexcept = default;

private:
    cuota::device where_;
};

static_assert(labelled_resource<async_memory> && device_resource<async_memory> &&
              !host_resource<async_memory>);

}  // namespace cuota::inline v0
