// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Stored streams, and the streams of default handles.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda_runtime_api.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0::detail {

/// A number, unique in the process also among past threads, and the system's id.
struct host_thread {
    std::uint64_t number = 0;
    long system_id = 0;

    CUOTA_PROCESS_STATE [[nodiscard]] static host_thread current() noexcept;
};

/// A `stream`, which the last owner destroys, or a default stream, which CUDA owns.
struct stream_state final : ref_counted {
    stream_state(cudaStream_t handle, std::uint64_t stream_id, device where,
                 host_thread named_in = {}) noexcept
        : native{handle}, id{stream_id}, home{where}, thread{named_in} {}
    ~stream_state();
    cudaStream_t native;
    std::uint64_t id;
    device home;
    /// For cudaStreamPerThread, its thread; otherwise number 0.
    host_thread thread;
    std::atomic<bool> thread_has_ended = false;
    std::atomic<bool> has_async_frees = false;  // is in async_frees
};

/// Returns whether the handle refers to another stream on each device, and possibly in each thread.
[[nodiscard]] inline bool is_default_handle(cudaStream_t native) noexcept {
    return reinterpret_cast<std::uintptr_t>(native) <= 2;
}

/// Returns the calling thread's stream of a default handle on its current device. Throws: cuda_error, std::bad_alloc.
[[nodiscard]] intrusive_ptr<stream_state> default_stream(cudaStream_t native);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <unistd.h>

#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/runtime/detail/async_frees.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/rt/relaxed_capture_mode.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE_STATE host_thread host_thread::current() noexcept {
    static constinit std::atomic<std::uint64_t> threads = 0;
    static constinit thread_local host_thread mine{};
    if (mine.number == 0) mine = {threads.fetch_add(1, std::memory_order_relaxed) + 1, ::gettid()};
    return mine;
}

/// The default streams of one thread, or the legacy streams of all devices.
struct default_streams {
    dynamic_array<intrusive_ptr<stream_state>> named;

    [[nodiscard]] intrusive_ptr<stream_state> of(cudaStream_t native, device where, host_thread thread) {
        for (intrusive_ptr<stream_state> const& s : named)
            if (s->home == where) return s;
        named.reserve(named.size() + 1);
        intrusive_ptr<stream_state> made = fresh(native, where, thread);
        named.push_back(made);
        return made;
    }
    CUOTA_PROCESS_STATE [[nodiscard]] static intrusive_ptr<stream_state> fresh(cudaStream_t native,
                                                                               device where,
                                                                               host_thread thread) {
        // CUDA's ids count from 1, and it does not report a captured stream's.
        constexpr std::uint64_t mark = std::uint64_t{3} << 62;
        static constinit std::atomic<std::uint64_t> made = 0;
        std::uint64_t const id = mark | (made.fetch_add(1, std::memory_order_relaxed) + 1);
        return intrusive_ptr<stream_state>::make(native, id, where, thread);
    }

    CUOTA_PROCESS_STATE [[nodiscard]] static intrusive_ptr<stream_state> legacy(device where) {
        struct legacy_streams {
            process_lock guard;
            default_streams streams;
        };
        static never_destroyed<legacy_streams> all;
        std::lock_guard const lock{all.value.guard};
        return all.value.streams.of(cudaStreamLegacy, where, {});
    }
    /// While thread-local objects are being destroyed, each call makes a new stream.
    CUOTA_PROCESS_STATE [[nodiscard]] static intrusive_ptr<stream_state> per_thread(device where) {
        static constinit thread_local bool has_ended = false;
        struct until_thread_end : default_streams {
            ~until_thread_end() {
                has_ended = true;
                for (intrusive_ptr<stream_state> const& s : named) s->thread_has_ended = true;
            }
        };
        if (has_ended) return fresh(cudaStreamPerThread, where, host_thread::current());
        static thread_local until_thread_end mine;
        return mine.of(cudaStreamPerThread, where, host_thread::current());
    }
};

CUOTA_INLINE intrusive_ptr<stream_state> default_stream(cudaStream_t native) {
    device const where = device::current();
    return native == cudaStreamPerThread ? default_streams::per_thread(where)
                                         : default_streams::legacy(where);
}

CUOTA_INLINE stream_state::~stream_state() {
    if (is_default_handle(native)) return;
    if (has_async_frees.load(std::memory_order_relaxed)) async_frees::leave(*this);
    rt::relaxed_capture_mode const beside;
    rt::give_back("cudaStreamDestroy", [this] { return cudaStreamDestroy(native); });
}

}  // namespace cuota::inline v0::detail

#endif
