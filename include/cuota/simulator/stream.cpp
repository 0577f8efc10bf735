// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"
#include "scheduler.hpp"

#include <algorithm>

namespace cuota::inline v0::simulator {

stream::stream(device& d, unsigned flag_bits, int prio, bool is_legacy)
    : owner{d}, flags{flag_bits}, priority{prio}, legacy{is_legacy}, id{0} {}

stream_handle make_stream(device& d, unsigned flags, int priority) {
    std::size_t streams = 1;
    for (auto const& other : the_machine().all_devices)
        streams += other->streams.size() + 1;  // one for the legacy stream
    late::expect_streams(streams);
    auto s = std::make_shared<stream>(d, flags, priority);
    s->id = ++the_machine().next_stream;  // 1 is the legacy stream
    d.streams.push_back(s);
    return s;
}

namespace {

constexpr int lowest_priority = 0, highest_priority = -5;

struct per_thread_streams {
    std::array<stream_handle, most_devices> of_device;

    ~per_thread_streams() {
        sanitizer::quiet quiet;
        std::vector<std::shared_ptr<graph>> never_ended;
        guard lock{the_machine().mutex};
        for (auto const& s : of_device) {
            if (!s) continue;
            never_ended.push_back(leave_capture(*s));
            let_go(lock, s);
        }
    }
};

stream_handle per_thread_stream() {
    thread_local per_thread_streams mine;
    auto& s = mine.of_device[static_cast<std::size_t>(current_device().index)];
    if (!s) s = make_stream(current_device(), cudaStreamDefault, lowest_priority);
    return s;
}

bool is_default(cudaStream_t s) { return s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread; }

cudaError_t create(cudaStream_t* out, unsigned flags, int priority) {
    if (!out || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) return cudaErrorInvalidValue;
    auto& m = the_machine();
    auto const s =
        make_stream(current_device(), flags, std::clamp(priority, highest_priority, lowest_priority));
    *out = reinterpret_cast<cudaStream_t>(m.streams.add(s, present_call()));
    ++m.live.streams;
    return cudaSuccess;
}

/// Whether the default-stream rules cannot order the wait with other streams.
bool orders_nothing(stream const& s, event const& e) {
    auto const over = [](operation_ref const& work) { return !work || work->done; };
    if (sanitizer::watches_threads() || s.legacy || !over(e.recorded)) return false;
    return !s.blocking() || over(s.owner.legacy->last);
}

template <class Use>
cudaError_t with_stream(function f, cudaStream_t handle, Use use) {
    return api(f, [&](guard& lock) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
        return use(lock, s);
    });
}

}  // namespace

stream_handle known_stream(cudaStream_t handle) {
    if (handle == nullptr || handle == cudaStreamLegacy) return current_device().legacy;
    if (handle == cudaStreamPerThread) return per_thread_stream();
    return the_machine().streams.find(handle);
}

stream_handle find_stream(cudaStream_t handle) {
    auto s = known_stream(handle);
    if (!s || the_machine().captures.empty()) return s;
    caller.refused = refusal_of_use(*s, caller.calling);
    return caller.refused == cudaSuccess ? s : nullptr;
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaStreamCreate(cudaStream_t* out) {
    return api(function::cudaStreamCreate,
               [&](guard&) { return create(out, cudaStreamDefault, lowest_priority); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned int flags) {
    return api(function::cudaStreamCreateWithFlags,
               [&](guard&) { return create(out, flags, lowest_priority); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned int flags, int priority) {
    return api(function::cudaStreamCreateWithPriority, [&](guard&) { return create(out, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    dropped_after<std::shared_ptr<graph>> never_ended;
    return api(function::cudaStreamDestroy, [&](guard& lock) {
        auto& m = the_machine();
        if (is_default(handle)) return bad_handle();
        auto const s = m.streams.remove(handle, here());
        if (!s) return bad_handle();
        --m.live.streams;
        never_ended.value = leave_capture(*s);
        let_go(lock, s);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    return api(function::cudaStreamSynchronize, [&](guard& lock) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        wait_for(lock, unfinished(*s));
        come_after_the_gone(*s);
        trim_at_synchronisation(s->owner);
        return failure_of(s->owner);
    });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    return with_stream(function::cudaStreamQuery, handle, [](guard& lock, stream_handle const& s) {
        auto const all = unfinished(*s);
        for (auto const& one : all)
            if (one.work && !one.work->done) return let_some_go_on(lock, all), cudaErrorNotReady;
        for (auto const& one : all) wait_for(lock, one);  // returns at once
        come_after_the_gone(*s);
        return failure_of(s->owner);
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int flags) {
    return with_stream(function::cudaStreamWaitEvent, handle, [&](guard& lock, stream_handle const& s) {
        auto const e = the_machine().events.find(event_handle);
        if (!e) return bad_handle();
        if ((flags & ~unsigned{cudaEventWaitExternal}) != 0) return cudaErrorInvalidValue;
        if (s->capturing.in || e->captured.in) return wait_in_capture(s, e, flags);
        if (flags != cudaEventWaitDefault) return cudaErrorIllegalState;
        if (!e->recorded) return cudaSuccess;
        ordering::learns(*s, e->recorded->at);
        if (orders_nothing(*s, *e)) {
            ordering::arrives(*s);
            return cudaSuccess;
        }
        auto work = make_task([] {});
        order(*work, e->recorded);
        enqueue(lock, s, std::move(work), pace::at_once);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
    return with_stream(function::cudaStreamGetId, handle, [&](guard&, stream_handle const& s) {
        if (!id) return cudaErrorInvalidValue;
        *id = s->legacy ? 1 + (static_cast<unsigned long long>(s->owner.index) << 32) : s->id;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
    return with_stream(function::cudaStreamGetFlags, handle, [&](guard&, stream_handle const& s) {
        if (!flags) return cudaErrorInvalidValue;
        *flags = s->flags;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
    return with_stream(function::cudaStreamGetPriority, handle, [&](guard&, stream_handle const& s) {
        if (!priority) return cudaErrorInvalidValue;
        *priority = s->priority;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* index) {
    return with_stream(function::cudaStreamGetDevice, handle, [&](guard&, stream_handle const& s) {
        if (!index) return cudaErrorInvalidValue;
        *index = s->owner.index;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return api(function::cudaDeviceGetStreamPriorityRange, [&](guard&) {
        if (least) *least = lowest_priority;
        if (greatest) *greatest = highest_priority;
        return cudaSuccess;
    });
}
