// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

using namespace cuota::simulator;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr unsigned known_flags = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

cudaError_t create(cudaEvent_t* out, unsigned flags) {
    bool const timed_ipc = (flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming);
    if (!out || (flags & ~known_flags) != 0 || timed_ipc) return cudaErrorInvalidValue;
    auto& m = the_machine();
    auto e = std::make_shared<event>(event{current_device(), flags, nullptr, nullptr});
    *out = reinterpret_cast<cudaEvent_t>(m.events.add(std::move(e), present_call()));
    ++m.live.events;
    return cudaSuccess;
}

/// Replaces the state of the event; earlier waits keep the old state.
cudaError_t record(guard& lock, cudaEvent_t event_handle, cudaStream_t stream_handle, unsigned flags) {
    auto const e = the_machine().events.find(event_handle);
    auto const s = find_stream(stream_handle);
    if (!e || !s) return bad_handle();
    if (&e->owner != &s->owner)
        return mixed_devices(describe(*e, the_machine().events.made(event_handle)) + ", and " +
                             describe(*s, the_machine().streams.made(stream_handle)));
    if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
    if ((flags & ~unsigned{cudaEventRecordExternal}) != 0) return cudaErrorInvalidValue;
    if (s->capturing.in) return record_in_capture(*s, e, flags);
    if (flags != cudaEventRecordDefault) return cudaErrorIllegalState;
    auto when = std::make_shared<clock_type::time_point>();
    auto work = make_task([when] { *when = clock_type::now(); });
    enqueue(lock, s, work, pace::at_once);
    e->captured = {};  // unchanged if enqueue throws
    e->recorded = std::move(work);
    e->when = std::move(when);
    return cudaSuccess;
}

template <class Use>
cudaError_t with_event(function f, cudaEvent_t handle, Use use) {
    return api(f, [&](guard& lock) {
        auto const e = the_machine().events.find(handle);
        if (!e) return bad_handle();
        if (auto const failure = failure_of(e->owner); failure != cudaSuccess) return failure;
        return use(lock, *e);
    });
}

}  // namespace

cudaError_t cudaEventCreate(cudaEvent_t* out) {
    return api(function::cudaEventCreate, [&](guard&) { return create(out, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned int flags) {
    return api(function::cudaEventCreateWithFlags, [&](guard&) { return create(out, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    return api(function::cudaEventDestroy, [&](guard&) {
        if (!the_machine().events.remove(handle, here())) return bad_handle();
        --the_machine().live.events;
        return cudaSuccess;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    return api(function::cudaEventRecord,
               [&](guard& lock) { return record(lock, e, s, cudaEventRecordDefault); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned int flags) {
    return api(function::cudaEventRecordWithFlags, [&](guard& lock) { return record(lock, e, s, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    return with_event(function::cudaEventQuery, handle, [](guard& lock, event const& e) {
        if (e.captured.in) return refuse_captured(e);
        if (!e.recorded) return cudaSuccess;
        if (!e.recorded->done) return let_some_go_on(lock, {{e.recorded, {}}}), cudaErrorNotReady;
        wait_for(lock, e.recorded);  // returns at once
        return cudaSuccess;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    return api(function::cudaEventSynchronize, [&](guard& lock) {
        auto const e = the_machine().events.find(handle);
        if (!e) return bad_handle();
        if (e->captured.in) return refuse_captured(*e);
        if (auto const work = e->recorded) {
            auto& waits = the_machine().event_waits;
            ++((e->flags & cudaEventBlockingSync) != 0 ? waits.blocking : waits.active);
            wait_for(lock, work);  // a copy: the event may be recorded again during the wait
        }
        trim_at_synchronisation(e->owner);
        return failure_of(e->owner);
    });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
    return api(function::cudaEventElapsedTime, [&](guard& lock) {
        auto const& events = the_machine().events;
        auto const a = events.find(start), b = events.find(end);
        if (!a || !b) return bad_handle();
        if (&a->owner != &b->owner)
            return mixed_devices(describe(*a, events.made(start)) + ", and " +
                                 describe(*b, events.made(end)));
        if (!ms) return cudaErrorInvalidValue;
        if (a->captured.in) return refuse_captured(*a);
        if (b->captured.in) return refuse_captured(*b);
        if (((a->flags | b->flags) & cudaEventDisableTiming) || !a->recorded || !b->recorded)
            return cudaErrorInvalidResourceHandle;
        if (!a->recorded->done || !b->recorded->done)
            return let_some_go_on(lock, {{a->recorded, {}}, {b->recorded, {}}}), cudaErrorNotReady;
        *ms = std::chrono::duration<float, std::milli>(*b->when - *a->when).count();
        return cudaSuccess;
    });
}
