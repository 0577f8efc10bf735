// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What a program asks of CUDA about the order of its work, and whether that was enough. For test programs that
/// CMakeLists.txt adds order_trace.cpp to: their calls go through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

namespace support {

/// While it lives: the events, waits and synchronisations of this thread, as they were asked for, and the accesses that it is
/// told of. One at a time. What was enqueued before it counts as done: synchronise first.
class order_trace {
public:
    order_trace();
    ~order_trace();
    order_trace(order_trace const&) = delete;
    order_trace& operator=(order_trace const&) = delete;

    /// From now on the n-th wait of a stream for an event is not made, though the program is told that it was. From 1.
    void leave_out_wait(std::uint64_t nth) noexcept { left_out_ = waits_ + nth; }
    [[nodiscard]] std::uint64_t waits() const noexcept { return waits_; }  ///< asked for, that left out too

    /// Work that the stream was given touches these bytes.
    void touches(cudaStream_t s, void const* first, std::size_t bytes, bool writes);

    /// True when two of the accesses touch the same byte, one of them writes, and nothing that was asked for puts one of them
    /// after the other: by the closure of all that was asked for, and no cleverness. Cost: the square of the steps.
    [[nodiscard]] bool has_race() const;

    // For the calls.
    static order_trace* of_this_thread() noexcept;
    void records(cudaEvent_t e, cudaStream_t s);
    [[nodiscard]] bool waits(cudaStream_t s, cudaEvent_t e);  ///< false: to be left out
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
        std::uint64_t stream;  // by its id: handles come again
        cudaEvent_t event;
        std::uintptr_t begin, end;
        bool writes;
    };

    std::vector<step> steps_;
    std::uint64_t waits_ = 0;
    std::uint64_t left_out_ = 0;
};

}  // namespace support
