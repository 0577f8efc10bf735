// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The interface to a simulated runtime, linked instead of CUDA's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

// Null if the program is linked to the real runtime.
extern "C" {
/// Enqueues a kernel. On success owns `body`: calls `run` once in stream order, then `drop`.
__attribute__((weak)) cudaError_t cuota_simulator_launch(cudaStream_t stream, char const* name,
                                                         void (*run)(void* body), void (*drop)(void* body),
                                                         void* body);
/// Returns 1 in a simulated kernel.
__attribute__((weak)) int cuota_simulator_in_kernel(void);
/// Returns why the simulated device failed permanently, or "".
__attribute__((weak)) char const* cuota_simulator_fault(void);
/// Checks later launches on the stream as accesses to these bytes. Returns an id; 0 if checks are off.
__attribute__((weak)) std::uint64_t cuota_simulator_borrow(cudaStream_t stream, void const* first,
                                                           std::size_t bytes, int writes);
/// True if launches are not checked.
__attribute__((weak)) extern std::atomic<bool> cuota_simulator_order_is_off;
/// Ends the check with that id.
__attribute__((weak)) void cuota_simulator_return(std::uint64_t number);
/// Sets call site and tag for messages about this thread's next call; null: none. The texts are never freed.
__attribute__((weak)) void cuota_simulator_next_call(char const* file, unsigned line, char const* tag);
/// Sets call site and tag of a block of a pool for messages about its memory. The texts are never freed.
__attribute__((weak)) void cuota_simulator_name_block(void const* first, std::size_t bytes, char const* file,
                                                      unsigned line, char const* tag);
/// Returns the bytes that the host has available, page cache included, if simulated devices use the host's memory.
__attribute__((weak)) std::size_t cuota_simulator_host_memory(int device);
/// Returns the limits of a device's memory for the control group of the process, in bytes as in nvmlGetMemoryLimits_v1_t.
__attribute__((weak)) void cuota_simulator_memory_limits(int device, std::size_t* soft, std::size_t* hard,
                                                         std::size_t* used);
}

namespace cuota::inline v0 {

/// Returns whether this program runs on the simulated runtime.
[[nodiscard]] inline bool is_simulated() noexcept { return cuota_simulator_launch != nullptr; }

namespace rt {

/// Sets the call site in the simulator's messages about the next CUDA call.
void set_call_site(source_location where, tag name = {}) noexcept;

/// Returns whether the simulator checks kernels' accesses.
[[nodiscard]] inline bool is_race_checked() noexcept {
    auto const* const is_off = &cuota_simulator_order_is_off;
    return is_off && !is_off->load(std::memory_order_relaxed);
}
/// Names a block of a pool in the messages of a simulator that checks accesses, and returns its address `p`, which may be null.
[[nodiscard]] inline void* named_block(void* p, std::size_t bytes, label const& who) noexcept {
    if (is_race_checked() && p) [[unlikely]]
        cuota_simulator_name_block(p, bytes, who.where.file, who.where.line, who.name.text());
    return p;
}
/// Annotates that kernels on `s` may access [first, first + bytes), until annotate_access_end is called with the returned id, 0 if checks
/// are off. Stream: a type with `cudaStream_t get()`.
template <class Stream>
[[nodiscard]] std::uint64_t annotate_access_begin(Stream s, void const* first, std::size_t bytes,
                                                  bool writes) noexcept {
    return is_race_checked() ? cuota_simulator_borrow(s.get(), first, bytes, writes) : 0;
}
/// Ends an annotation.
void annotate_access_end(std::uint64_t number) noexcept;

/// An annotation for its lifetime. Move-only.
class access_annotation {
public:
    /// See annotate_access_begin.
    template <class Stream>
    access_annotation(Stream s, void const* first, std::size_t bytes, bool writes) noexcept
        : number_{annotate_access_begin(s, first, bytes, writes)} {}
    /// Transfers the annotation.
    access_annotation(access_annotation&& other) noexcept : number_{std::exchange(other.number_, 0)} {}
    access_annotation& operator=(access_annotation&&) = delete;
    ~access_annotation() { annotate_access_end(number_); }

private:
    std::uint64_t number_;
};

}  // namespace rt

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::rt {

CUOTA_INLINE void set_call_site(source_location where, tag name) noexcept {
    if (cuota_simulator_next_call && where.line != 0)
        cuota_simulator_next_call(where.file, where.line, name.text());
}

CUOTA_INLINE void annotate_access_end(std::uint64_t number) noexcept {
    if (number != 0) cuota_simulator_return(number);
}

}  // namespace cuota::inline v0::rt

#endif
