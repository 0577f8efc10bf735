// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Memory that graphs allocate for themselves, under a budget.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/label.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/graph.hpp>

namespace cuota::inline v0 {

namespace detail {
class graph_memory_state;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::graph_memory_state>;
#endif

/// Charges to a budget what the driver allocates for the graphs of a device: memory of code that calls cudaMallocAsync in a capture, such as
/// a library's. The driver allocates it at a graph's first launch, shares it between the graphs of a stream, and keeps it until it is
/// trimmed, also after the graphs were destroyed.
///
/// A launch of a graph that was captured here first charges the memory that the driver will allocate, and throws budget_exceeded if it does
/// not fit. After the launch the charge is what the driver reports. A request that does not fit the budget, and `trim`, release the memory of
/// graphs that do not run; their next launch allocates it again. Before a launch is refused, the host waits for graphs that run, and their
/// memory is released, too.
///
/// A device has at most one graph_memory, because the driver reports one sum: memory of graphs that were captured elsewhere, and of launches
/// that failed, is charged at the next change, also above the limit. A destroyed graph's memory is in use until its last launch has ended; if
/// that was on a native stream, which may be destroyed next, the destructor of the graph waits for it. The object's state lives until the last
/// graph that was captured with it is destroyed; then it waits for launches that still run, and all of its memory is refunded.
/// Units:   bytes, in pieces of 2 MiB.
/// Order:   none: charges take effect at once.
/// Threads: any; several threads may launch graphs of one object.
/// Cost:    a launch that needs no memory: a few atomic operations. One that does: locks, queries of the driver, and an allocation of
///          those bytes by the driver, which is freed at once: a launch that the driver refuses loses memory.
/// Example: examples/serve_shapes.cpp
class graph_memory {
public:
    /// Charges memory of graphs on device `on`; `name` and `where` identify it in refusals. Throws: usage_error if the device has a
    /// graph_memory; std::bad_alloc.
    explicit graph_memory(budget account, device on = device::current(), tag name = "graphs",
                          source_location where = source_location::current());
    graph_memory(graph_memory&&) noexcept = default;  ///< moves it; a use of `other` throws usage_error
    /// Ends the current one and moves the other.
    graph_memory& operator=(graph_memory&&) noexcept = default;
    graph_memory(graph_memory const&) = delete;
    graph_memory& operator=(graph_memory const&) = delete;
    ~graph_memory();

    /// Same as `cuota::capture`. The graph's launches charge the budget; their exceptions are those of graph_exec::launch and
    /// budget_exceeded, after which nothing is launched.
    template <std::invocable F>
    [[nodiscard]] graph_exec capture(std::span<stream_ref const> streams, F&& f,
                                     source_location where = source_location::current()) {
        return cuota::capture(
            streams,
            [&] {
                join();
                std::forward<F>(f)();
            },
            where);
    }
    /// Captures the streams `{a, b}`.
    template <std::invocable F>
    [[nodiscard]] graph_exec capture(std::initializer_list<stream_ref> streams, F&& f,
                                     source_location where = source_location::current()) {
        return capture(std::span<stream_ref const>{streams.begin(), streams.size()}, std::forward<F>(f),
                       where);
    }
    /// Captures one stream.
    template <std::invocable F>
    [[nodiscard]] graph_exec capture(stream_ref s, F&& f,
                                     source_location where = source_location::current()) {
        return capture(std::span<stream_ref const>{&s, 1}, std::forward<F>(f), where);
    }

    /// Releases the memory of graphs that do not run, also of graphs that were captured elsewhere; nothing while another thread is in a
    /// launch. Returns the bytes refunded. Throws: cuda_error.
    std::size_t trim();

    /// Returns the bytes charged.
    [[nodiscard]] std::size_t held() const;

private:
    // Adds the capture in progress.
    void join();
    // Throws: usage_error if moved from.
    [[nodiscard]] detail::graph_memory_state& state() const;

    detail::intrusive_ptr<detail::graph_memory_state> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/memory_of_graph.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>

namespace cuota::inline v0 {

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::graph_memory_state>;
#endif

CUOTA_INLINE graph_memory::graph_memory(budget account, device on, tag name, source_location where)
    : state_{detail::intrusive_ptr<detail::graph_memory_state>::make(std::move(account), on,
                                                                     label{name, where})} {}

CUOTA_INLINE graph_memory::~graph_memory() = default;

CUOTA_INLINE void graph_memory::join() {
    detail::capture_scope& scope = *detail::capture_scope::here();
    (void)scope.use_of<detail::memory_of_graph>(
        &state(), [&] { return detail::intrusive_ptr<detail::memory_of_graph>::make(state_); });
}

CUOTA_INLINE detail::graph_memory_state& graph_memory::state() const {
    if (!state_) detail::throw_usage_error("graph_memory: cannot be used after it was moved from");
    return *state_;
}

CUOTA_INLINE std::size_t graph_memory::trim() { return state().trim(); }
CUOTA_INLINE std::size_t graph_memory::held() const { return state().held(); }

}  // namespace cuota::inline v0

#endif
