// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory that migrates between host and device, as a resource.
#pragma once

#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0 {

/// Managed memory of the current device: reachable from both sides, moved by the driver on demand.
///
/// Order:   valid on every stream at return. Release waits for the device: cudaFree does.
/// Threads: any.
/// Throws:  out_of_memory with the driver's numbers; misuse for an alignment above 256; cuda_error. Nothing is taken then.
/// Cost:    a driver call each way. Accounted in 512 bytes, as if it were resident, which it may not be.
class managed_memory {
public:
    /// On the calling thread's current device. Throws: cuda_error.
    managed_memory() : managed_memory{cuota::device::current()} {}
    explicit managed_memory(cuota::device where) noexcept : where_{where} {}

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
        void* const p = rt::managed_allocate(bytes);
        if (!p) detail::refuse_on(where_, bytes, granule(), who, "cudaMallocManaged");
        detail::taken_on(where_) += round_up(bytes, granule());
        return p;
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept {
        if (p && rt::device_free(p)) detail::taken_on(where_) -= round_up(bytes, granule());
    }

    [[nodiscard]] static constexpr std::size_t granule() noexcept { return 512; }
    [[nodiscard]] static constexpr memory_kind kind() noexcept { return memory_kind::managed; }
    [[nodiscard]] cuota::device device() const noexcept { return where_; }
    friend bool operator==(managed_memory, managed_memory) noexcept = default;

private:
    cuota::device where_;
};

static_assert(labelled_resource<managed_memory> && device_resource<managed_memory> &&
              host_resource<managed_memory>);

}  // namespace cuota::inline v0
