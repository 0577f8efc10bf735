// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Serves requests of steps from a slab or upstream.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/threads/biased_lock.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/pool/detail/steps/step_router.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/runtime/detail/capture_scope.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0::detail {

/// A step_router and its upstream resource. Upstream and the error sink are called without the lock. Threads: any.
class step_server {
public:
    explicit step_server(any_resource upstream) noexcept : upstream_{std::move(upstream)} {}
    step_server(step_server const&) = delete;
    step_server& operator=(step_server const&) = delete;
    ~step_server();

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment, label const& who);
    void deallocate(stream_ref s, void* p, std::size_t bytes, std::size_t alignment) noexcept;
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment, label const& who);
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment) noexcept;
    [[nodiscard]] memory_kind kind() const noexcept { return upstream_.kind(); }

    template <class F>
    decltype(auto) with_router(F f) {
        return lock_.run_alone([&]() -> decltype(auto) { return f(router_); });
    }
    template <class F>
    decltype(auto) with_router(F f) const {
        return lock_.run_alone([&]() -> decltype(auto) { return f(router_); });
    }

    /// Allocates the slab of a step with offsets. One call at a time. Strong guarantee. Throws: as upstream; std::bad_alloc.
    void take_slab(planned_step const& step, tag name);
    /// Frees idle retired slabs; keeps and reports those that cannot be waited for.
    void give_back_idle() noexcept;

private:
    // In a capture: upstream memory would have another address at each launch.
    void refuse_deviation(stream_ref s, std::size_t bytes, label const& who);
    // Later steps use the slab, and cannot be ordered with launches of a foreign graph.
    void refuse_foreign_capture(stream_ref s, label const& who);
    [[nodiscard]] void* allocate_unplanned(stream_ref s, std::size_t bytes, std::size_t alignment,
                                           label const& who);
    // Passes alignments upstream that the slab does not have.
    [[nodiscard, gnu::noinline]] void* allocate_outside(stream_ref s, std::size_t bytes,
                                                        std::size_t alignment, label const& who) {
        if (bytes == 0) return nullptr;
        lock_.run([&] { router_.note_outside(who); });
        return upstream_.allocate(s, bytes, alignment, who);
    }
    static void wait_for_device_of(void const* p);
    // Returns p after the host has waited; cancels the request on a throw.
    [[nodiscard, gnu::noinline]] void* wait_for(host_waits const& left, void* p, std::size_t bytes) {
        try {
            left.wait();
            return p;
        } catch (...) {
            lock_.run([&] { router_.cancel(p, bytes); });
            throw;
        }
    }
    [[nodiscard]] bool give(stream_ref const* s, void const* p, std::size_t bytes);
    void give_back(planned_slab const& slab) noexcept;

    any_resource upstream_;
    mutable biased_lock lock_;
    step_router router_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE step_server::~step_server() {
    // Live blocks have no owner left, but may be in use by a stream.
    while (auto const slab = router_.slabs().take_any()) {
        bool const is_over =
            slab->live() == 0 && report_failure_of([&] { router_.slabs().wait_for_releases(*slab); });
        if (!is_over) report_failure_of([&] { wait_for_device_of(slab->at()); });
        give_back(*slab);
    }
}

CUOTA_INLINE void* step_server::allocate(stream_ref s, std::size_t bytes, std::size_t alignment,
                                         label const& who) {
    if (alignment != block::granularity) [[unlikely]] {
        check_alignment(alignment, who, unlimited);
        if (alignment > block::granularity) return allocate_outside(s, bytes, alignment, who);
    }
    if (bytes == 0) return nullptr;
    if (!s.is_owned()) [[unlikely]]
        refuse_foreign_capture(s, who);
    step_router::position before;
    step_router::position after;
    host_waits* left = nullptr;  // not an owner on the usual path
    void* const planned = lock_.run([&] {
        before = router_.now();
        void* const p = router_.try_take(s, bytes, who);
        stream_order& order = router_.slabs().order();
        if (p && !order.has_host_waits()) [[likely]]
            return p;
        left = order.take_host_waits().detach();
        after = router_.now();
        return p;
    });
    if (planned && !left) [[likely]]
        return planned;
    light_unique_ptr<host_waits> const waits{left};
    try {
        if (planned) return wait_for(*waits, planned, bytes);
        if (capture_scope::here()) [[unlikely]]
            refuse_deviation(s, bytes, who);
        return allocate_unplanned(s, bytes, alignment, who);
    } catch (...) {
        lock_.run([&] { router_.note_refused(before, after); });
        throw;
    }
}

CUOTA_INLINE void step_server::deallocate(stream_ref s, void* p, std::size_t bytes,
                                          std::size_t alignment) noexcept {
    if (!p || lock_.is_of_parent()) return;
    try {
        if (give(&s, p, bytes)) return;
    } catch (usage_error const& error) { return report_error(error); } catch (std::exception const& error) {
        report_error(error);
        rt::drain(s);
        return deallocate_sync(p, bytes, alignment);
    }
    upstream_.deallocate(s, p, bytes, alignment);
}

CUOTA_INLINE void* step_server::allocate_sync(std::size_t bytes, std::size_t alignment, label const& who) {
    // upstream reports if it supports less
    check_alignment(alignment, who, unlimited);
    if (bytes == 0) return nullptr;
    lock_.run([&] { router_.note_outside(who); });
    return upstream_.allocate_sync(bytes, alignment, who);
}

CUOTA_INLINE void step_server::deallocate_sync(void* p, std::size_t bytes, std::size_t alignment) noexcept {
    if (!p || lock_.is_of_parent()) return;
    bool is_given = true;
    report_failure_of([&] { is_given = give(nullptr, p, bytes); });
    if (!is_given) upstream_.deallocate_sync(p, bytes, alignment);
}

CUOTA_INLINE void step_server::take_slab(planned_step const& step, tag name) {
    void* const at = upstream_.allocate_sync(step.peak, block::granularity, label{name, {}});
    try {
        auto fresh = std::make_unique<planned_slab>(step, at);
        with_router([&](step_router& r) { r.slabs().put(std::move(fresh)); });
    } catch (...) {
        upstream_.deallocate_sync(at, step.peak, block::granularity);
        throw;
    }
}

CUOTA_INLINE void step_server::give_back_idle() noexcept {
    if (lock_.is_of_parent()) return;
    for (;;) {
        std::unique_ptr<planned_slab> idle;
        light_unique_ptr<host_waits> left;
        bool const is_known = report_failure_of([&] {
            with_router([&](step_router& r) {
                idle = r.slabs().take_idle();
                left = r.slabs().order().take_host_waits();
            });
            if (left) left->wait();
        });
        if (idle) give_back(*idle);
        else if (!is_known || !left) return;
    }
}

CUOTA_INLINE void step_server::refuse_deviation(stream_ref s, std::size_t bytes, label const& who) {
    if (!capture_of(s) || !with_router([](step_router const& r) { return r.is_served(); })) return;
    throw_usage_error(
        who.where,
        "step_plan: during capture, the request of {}{} deviates from the recorded step; capture "
        "the same step, or record this one",
        {as_bytes(bytes), who.name.is_empty() ? "" : std::string{" "} + who.name.text()});
}

CUOTA_INLINE void step_server::refuse_foreign_capture(stream_ref s, label const& who) {
    if (foreign_capture_of(s) == 0 || !with_router([](step_router const& r) { return r.is_served(); }))
        return;
    throw_usage_error(who.where,
                      "step_plan: cannot allocate on a stream that is captured outside cuota::capture; "
                      "capture the step with cuota::capture");
}

CUOTA_INLINE void* step_server::allocate_unplanned(stream_ref s, std::size_t bytes, std::size_t alignment,
                                                   label const& who) {
    void* const p = upstream_.allocate(s, bytes, alignment, who);
    try {
        lock_.run([&] { router_.note_taken(p, bytes, who); });
    } catch (...) {
        upstream_.deallocate(s, p, bytes, alignment);
        throw;
    }
    return p;
}

CUOTA_INLINE void step_server::wait_for_device_of(void const* p) {
    rt::device_of(p).value_or(device::current()).synchronize();
}

CUOTA_INLINE bool step_server::give(stream_ref const* s, void const* p, std::size_t bytes) {
    return lock_.run([&] { return router_.try_give(s, p, bytes); });
}

CUOTA_INLINE void step_server::give_back(planned_slab const& slab) noexcept {
    upstream_.deallocate_sync(slab.at(), slab.bytes(), block::granularity);
}

}  // namespace cuota::inline v0::detail

#endif
