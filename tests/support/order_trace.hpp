// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Records the order of work that a program requests from CUDA, and checks whether it suffices. For test programs to which CMakeLists.txt
/// adds order_trace.cpp: the linker redirects their calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

namespace support {

/// While it exists, records the events, waits and synchronizations of this thread, and the accesses passed to `touches`. Only one may exist
/// at a time. Earlier work counts as finished, so synchronize first.
class order_trace {
public:
    order_trace();
    ~order_trace();
    order_trace(order_trace const&) = delete;
    order_trace& operator=(order_trace const&) = delete;

    /// Skips the n-th wait of a stream for an event from now on, counted from 1, and returns success for it.
    void leave_out_wait(std::uint64_t nth) noexcept { left_out_ = waits_ + nth; }
    /// Requested waits, including the skipped one.
    [[nodiscard]] std::uint64_t waits() const noexcept { return waits_; }

    void touches(cudaStream_t s, void const* first, std::size_t bytes, bool writes);

    /// Returns true if two accesses overlap, one of them writes, and no requested dependency orders them. Cost: quadratic in the number of
    /// steps, by the plain transitive closure.
    [[nodiscard]] bool has_race() const;

    // For the wrapped calls.
    static order_trace* of_this_thread() noexcept;
    void records(cudaEvent_t e, cudaStream_t s);
    [[nodiscard]] bool waits(cudaStream_t s, cudaEvent_t e);  ///< returns false if the wait is to be skipped
    void host_waits_for(cudaStream_t s);
    void host_waits_for(cudaEvent_t e);
    void host_waits_for_all();

private:
    enum class what {
        records,
        waits,
        host_waits_for_stream,
        host_waits_for_event,
        host_waits_for_all,
        access
    };
    struct step {
        what kind;
        std::uint64_t stream;  // stream id; handles are reused
        cudaEvent_t event;
        std::uintptr_t begin, end;
        bool writes;
    };

    std::vector<step> steps_;
    std::uint64_t waits_ = 0;
    std::uint64_t left_out_ = 0;
};

}  // namespace support
