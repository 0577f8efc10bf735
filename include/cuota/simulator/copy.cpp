// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "copy.hpp"
#include "virtual_memory.hpp"

#include <cstring>

namespace cuota::inline v0::simulator {
namespace {

/// One end of a copy. Memory the runtime does not know is pageable host memory.
struct place {
    allocation_ref memory;

    [[nodiscard]] bool pageable() const { return !memory; }
    [[nodiscard]] bool device() const {
        return memory && (memory->kind == memory_kind::device || memory->kind == memory_kind::managed);
    }
    [[nodiscard]] bool host() const { return !memory || memory->kind != memory_kind::device; }
    [[nodiscard]] bool holds(void const* from, std::size_t bytes, access how) const {
        return usable(memory, from, bytes, how);
    }
    [[nodiscard]] std::size_t offset(void const* address) const {
        return reinterpret_cast<std::uintptr_t>(address) - ~memory->disguise;
    }
};

bool direction_fits(place const& to, place const& from, cudaMemcpyKind kind) {
    switch (kind) {
        case cudaMemcpyHostToHost: return from.host() && to.host();
        case cudaMemcpyHostToDevice: return from.host() && to.device();
        case cudaMemcpyDeviceToHost: return from.device() && to.host();
        case cudaMemcpyDeviceToDevice: return from.device() && to.device();
        case cudaMemcpyDefault: return true;
    }
    return false;
}

/// Memory that is gone, or not there yet, when the work reaches it: what a device would call an illegal
/// address.
bool reachable(allocation_ref const& a, void const* from, std::size_t bytes, device& d, char const* what) {
    bool const there = !a || a->now == allocation::phase::live;
    if (there && (!a || !a->mapped || still_usable(a, from, bytes))) return true;
    fail_device(d, cudaErrorIllegalAddress,
                std::string{what} + (a->now == allocation::phase::pending
                                         ? " ran before the cudaMallocAsync of its memory"
                                         : " ran after its memory was freed"));
    return false;
}

operation_ref copy_task(copy_request const& c, place to, place from, stream_handle const& s) {
    return make_task([c, to = std::move(to.memory), from = std::move(from.memory), s] {
        if (failure_of(s->owner) != cudaSuccess) return;
        if (!reachable(to, c.to, c.bytes, s->owner, "a copy")) return;
        if (!reachable(from, c.from, c.bytes, s->owner, "a copy")) return;
        sanitizer::loud access;
        std::memmove(c.to, c.from, c.bytes);
    });
}

/// The source is read before the call returns; the device gets it later.
operation_ref staged_copy_task(guard& lock, copy_request c, place to, stream_handle const& s) {
    lock.unlock();
    auto staging = std::make_unique_for_overwrite<std::byte[]>(c.bytes);
    {
        sanitizer::loud access;
        std::memcpy(staging.get(), c.from, c.bytes);
    }
    lock.lock();
    c.from = staging.get();
    return make_task(
        [inner = copy_task(c, std::move(to), {}, s), keep = std::move(staging)] { inner->run(); });
}

/// Only what the runtime knows of: pageable memory is read before the call returns, or the call waits.
void check_order(copy_request const& c, place const& to, place const& from, stream const& s,
                 operation const& work) {
    std::array<ordering::access, 2> all;
    std::size_t n = 0;
    if (from.memory && c.read != source_read::now)  // read before the call returned, in no stream's order
        all[n++] = {from.memory.get(), from.offset(c.from), c.bytes, ordering::use::reads};
    if (to.memory) all[n++] = {to.memory.get(), to.offset(c.to), c.bytes, ordering::use::writes};
    ordering::accesses(s, work, name_of(caller.calling), {all.data(), n});
}

}  // namespace

cudaError_t bad_range() {
    ++the_machine().misuse.bad_ranges;
    return cudaErrorInvalidValue;
}

cudaError_t copy(guard& lock, copy_request const& c, cudaStream_t handle) {
    if (c.kind < cudaMemcpyHostToHost || c.kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    auto const s = find_stream(handle);
    if (!s) return bad_handle();
    if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
    if (c.bytes == 0) return cudaSuccess;
    if (!c.to || !c.from) return cudaErrorInvalidValue;
    place const to{find_memory(c.to)}, from{find_memory(c.from)};
    if (!direction_fits(to, from, c.kind)) {
        ++the_machine().misuse.bad_directions;
        return cudaErrorInvalidValue;
    }
    if (!to.holds(c.to, c.bytes, access::write) || !from.holds(c.from, c.bytes, access::read))
        return bad_range();

    bool const usual =
        c.read == source_read::usual && !s->capturing.in;  // else a node, which reads when it runs
    bool const staged = c.read == source_read::now || (usual && from.pageable() && to.device());
    bool const both_on_device = from.device() && to.device();
    bool const between_hosts = !from.device() && !to.device();
    bool const wait = usual && !staged && (to.pageable() || between_hosts || (c.wait && !both_on_device));
    auto work = staged ? staged_copy_task(lock, c, to, s) : copy_task(c, to, from, s);
    enqueue(lock, s, work);
    check_order(c, to, from, *s, *work);
    if (!wait) return cudaSuccess;
    wait_for(lock, work);
    return failure_of(s->owner);
}

cudaError_t set(guard& lock, void* to, int value, std::size_t bytes, cudaStream_t handle) {
    auto const s = find_stream(handle);
    if (!s) return bad_handle();
    if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
    if (bytes == 0) return cudaSuccess;
    place const where{find_memory(to)};
    if (where.pageable()) {
        ++the_machine().misuse.bad_directions;
        return cudaErrorInvalidValue;
    }
    if (!where.holds(to, bytes, access::write)) return bad_range();
    auto work = make_task([to, value, bytes, memory = where.memory, s] {
        if (failure_of(s->owner) != cudaSuccess) return;
        if (!reachable(memory, to, bytes, s->owner, "a memset")) return;
        sanitizer::loud access;
        std::memset(to, value, bytes);
    });
    enqueue(lock, s, work);
    ordering::access const written[] = {{where.memory.get(), where.offset(to), bytes, ordering::use::writes}};
    ordering::accesses(*s, *work, name_of(caller.calling), written);
    return cudaSuccess;
}

namespace {

/// Only device memory is set behind the caller's back.
cudaError_t set_and_wait(guard& lock, void* to, int value, std::size_t bytes, cudaStream_t handle) {
    auto const where = find_memory(to);
    auto const result = set(lock, to, value, bytes, handle);
    if (result != cudaSuccess || bytes == 0 || where->kind == memory_kind::device) return result;
    auto const s = find_stream(handle);
    wait_for(lock, operation_ref{s->last});
    return failure_of(s->owner);
}

}  // namespace
}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaMemcpy(void* to, void const* from, size_t bytes, cudaMemcpyKind kind) {
    return api(function::cudaMemcpy, [&](guard& lock) {
        return copy(lock, {to, from, bytes, kind, true}, cudaStreamLegacy);
    });
}

cudaError_t cudaMemcpyAsync(void* to, void const* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
    return api(function::cudaMemcpyAsync, [&](guard& lock) {
        return copy(lock, {to, from, bytes, kind, false}, s);
    });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, void const* from, int from_device, size_t bytes,
                                cudaStream_t s) {
    return api(function::cudaMemcpyPeerAsync, [&](guard& lock) {
        if (!find_device(to_device) || !find_device(from_device)) return cudaErrorInvalidDevice;
        auto const target = find_memory(to), source = find_memory(from);
        bool const placed = target && source && target->device == to_device && source->device == from_device;
        if (bytes != 0 && !placed) return cudaErrorInvalidValue;
        return copy(lock, {to, from, bytes, cudaMemcpyDeviceToDevice, false}, s);
    });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    return api(function::cudaMemset,
               [&](guard& lock) { return set_and_wait(lock, to, value, bytes, cudaStreamLegacy); });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t s) {
    return api(function::cudaMemsetAsync, [&](guard& lock) { return set(lock, to, value, bytes, s); });
}

// For programs compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM.
extern "C" {
[[gnu::visibility("default")]] cudaError_t cudaMemcpy_ptds(void* to, void const* from, size_t bytes,
                                                           cudaMemcpyKind kind) {
    return api(function::cudaMemcpy, [&](guard& lock) {
        return copy(lock, {to, from, bytes, kind, true}, cudaStreamPerThread);
    });
}

[[gnu::visibility("default")]] cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
    return api(function::cudaMemset,
               [&](guard& lock) { return set_and_wait(lock, to, value, bytes, cudaStreamPerThread); });
}
}
