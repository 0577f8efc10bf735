// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Shared by the simulated libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include <cuda_runtime_api.h>

extern "C" {
cudaError_t cuota_simulator_launch(cudaStream_t stream, char const* name, void (*run)(void*),
                                   void (*drop)(void*), void* body);
void cuota_simulator_declare(cudaStream_t stream, void const* pointer, std::size_t bytes, int writes);
}

namespace cuota_simulated {

inline constexpr std::size_t mib = std::size_t{1} << 20;

/// Device memory that a library allocates for itself.
class own_memory {
public:
    own_memory() = default;
    own_memory(own_memory const&) = delete;
    own_memory& operator=(own_memory const&) = delete;
    ~own_memory() { (void)cudaFree(p_); }

    /// Returns false without memory.
    [[nodiscard]] bool allocate(std::size_t bytes) {
        if (cudaMalloc(&p_, bytes) == cudaSuccess) return true;
        (void)cudaGetLastError();
        p_ = nullptr;
        return false;
    }
    [[nodiscard]] void* get() const noexcept { return p_; }

private:
    void* p_ = nullptr;
};

/// Members of the handle of each library.
struct library_context {
    own_memory own;
    cudaStream_t stream = nullptr;
};

/// Makes a handle that has memory of its own. Returns false without memory.
template <class Context>
[[nodiscard]] bool make_handle(Context** to, std::size_t own_bytes) {
    auto made = std::make_unique<Context>();
    if (!made->own.allocate(own_bytes)) return false;
    *to = made.release();
    return true;
}

struct access {
    void const* first;
    std::size_t bytes;
    bool writes = false;
};

/// Enqueues job() as a kernel with these accesses. Returns whether it was launched.
template <class Job>
[[nodiscard]] bool enqueue(cudaStream_t s, char const* name, std::initializer_list<access> uses, Job job) {
    for (access const& use : uses)
        if (use.bytes != 0) cuota_simulator_declare(s, use.first, use.bytes, use.writes ? 1 : 0);
    auto* const body = new Job{std::move(job)};
    auto const code = cuota_simulator_launch(
        s, name, [](void* p) { (*static_cast<Job*>(p))(); }, [](void* p) { delete static_cast<Job*>(p); },
        body);
    if (code != cudaSuccess) delete body;
    return code == cudaSuccess;
}

}  // namespace cuota_simulated
