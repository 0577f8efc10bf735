// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// cudaMalloc and cudaFree as a resource.
#pragma once

#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0 {

/// Memory of one device, straight from the driver. For few, long-lived allocations, and as the source of a pool.
///
/// Order:   valid on every stream at return. Release waits for the device: cudaFree does.
/// Threads: any.
/// Throws:  out_of_memory with the driver's numbers; misuse for an alignment above 256; cuda_error. Nothing is taken then.
/// Cost:    a driver call each way, some 10 to 1000 us on a GPU. Accounted in 512 bytes.
class device_memory {
public:
    /// On the calling thread's current device. Throws: cuda_error.
    device_memory() : device_memory{cuota::device::current()} {}
    explicit device_memory(cuota::device where) noexcept : where_{where} {}

    [[nodiscard]] void* allocate(stream_ref, std::size_t bytes, std::size_t alignment = default_alignment,
                                 label const& who = {}) {
        return allocate_sync(bytes, alignment, who);
    }
    void deallocate(stream_ref, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        deallocate_sync(p, bytes, alignment);
    }

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      label const& who = {}) {
        detail::check_alignment(alignment, who);
        if (bytes == 0) return nullptr;
        device_scope const here{where_};
        void* const p = rt::device_allocate(bytes);
        if (!p) detail::refuse_on(where_, bytes, granule(), who, "cudaMalloc");
        detail::taken_on(where_) += round_up(bytes, granule());
        return p;
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept {
        if (p && rt::device_free(p)) detail::taken_on(where_) -= round_up(bytes, granule());
    }

    [[nodiscard]] static constexpr std::size_t granule() noexcept { return 512; }
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::device; }
    [[nodiscard]] cuota::device device() const noexcept { return where_; }
    friend bool operator==(device_memory, device_memory) noexcept = default;

private:
    cuota::device where_;
};

static_assert(labelled_resource<device_memory> && device_resource<device_memory> &&
              !host_resource<device_memory>);

}  // namespace cuota::inline v0
