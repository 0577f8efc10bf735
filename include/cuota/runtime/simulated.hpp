// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the library asks of a simulated runtime, when one is linked in place of CUDA's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/label.hpp>

// Weak: null when the program is linked to the real runtime. The simulator defines them.
extern "C" {
/// Enqueues work that stands for a kernel. On success takes `body`: `run` once in stream order, then `drop`.
__attribute__((weak)) cudaError_t cuota_simulator_launch(cudaStream_t stream, char const* name,
                                                         void (*run)(void* body), void (*drop)(void* body),
                                                         void* body);
/// 1 while the calling thread runs a simulated kernel.
__attribute__((weak)) int cuota_simulator_in_kernel(void);
/// What made the simulated device fail for good, or "".
__attribute__((weak)) char const* cuota_simulator_fault(void);
/// From now on every launch on the stream is checked as one that touches these bytes. Returns a number, zero for none.
__attribute__((weak)) std::uint64_t cuota_simulator_borrow(cudaStream_t stream, void const* first,
                                                           std::size_t bytes, int writes);
/// True when no launch is checked.
__attribute__((weak)) extern std::atomic<bool> cuota_simulator_order_is_off;
/// Ends that.
__attribute__((weak)) void cuota_simulator_return(std::uint64_t number);
/// The place and the tag that messages about this thread's next call name. The texts live for ever; null: none.
__attribute__((weak)) void cuota_simulator_next_call(char const* file, unsigned line, char const* tag);
}

namespace cuota::inline v0 {

/// True when this program runs on the simulated runtime: no GPU is involved.
[[nodiscard]] inline bool is_simulated() noexcept { return cuota_simulator_launch != nullptr; }

namespace rt {

/// For whom the next CUDA call is made, so that a report of the simulator names the program's line and not ours.
/// On a GPU: nothing.
void on_behalf_of(place where, tag name = {}) noexcept;

/// Whether the simulator checks which memory kernels touch. On a GPU: false.
[[nodiscard]] bool is_order_checked() noexcept;
/// Memory that kernels on a stream may touch from now on: the simulator checks it against all other accesses. Returns a
/// number for tell_returned; 0, which may be told as well, when nobody checks. A stream has its cudaStream_t by get().
template <class Stream>
[[nodiscard]] std::uint64_t tell_borrowed(Stream s, void const* first, std::size_t bytes,
                                          bool writes) noexcept {
    return is_order_checked() ? cuota_simulator_borrow(s.get(), first, bytes, writes) : 0;
}
/// Ends what tell_borrowed began. On a GPU: nothing.
void tell_returned(std::uint64_t number) noexcept;

/// Memory that is borrowed while this lives: tell_borrowed and tell_returned. Move-only. On a GPU: nothing.
class borrowed_range {
public:
    /// `bytes` from `first`, for kernels on s to read, or to write as well.
    template <class Stream>
    borrowed_range(Stream s, void const* first, std::size_t bytes, bool writes) noexcept
        : number_{tell_borrowed(s, first, bytes, writes)} {}
    /// Takes it over: other ends nothing then.
    borrowed_range(borrowed_range&& other) noexcept : number_{std::exchange(other.number_, 0)} {}
    borrowed_range& operator=(borrowed_range&&) = delete;
    ~borrowed_range() { tell_returned(number_); }

private:
    std::uint64_t number_;
};

}  // namespace rt

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::rt {

CUOTA_INLINE void on_behalf_of(place where, tag name) noexcept {
    if (cuota_simulator_next_call && where.line != 0)
        cuota_simulator_next_call(where.file, where.line, name.text());
}

CUOTA_INLINE bool is_order_checked() noexcept {
    auto const* const is_off = &cuota_simulator_order_is_off;
    return is_off && !is_off->load(std::memory_order_relaxed);
}

CUOTA_INLINE void tell_returned(std::uint64_t number) noexcept {
    if (number != 0) cuota_simulator_return(number);
}

}  // namespace cuota::inline v0::rt

#endif
