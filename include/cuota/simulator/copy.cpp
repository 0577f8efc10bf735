// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "copy.hpp"
#include "closed_memory.hpp"
#include "driver.hpp"
#include "link.hpp"
#include "virtual_memory.hpp"

#include <cstring>
#include <sstream>

namespace cuota::inline v0::simulator {
namespace {

/// Memory that the runtime did not allocate is pageable.
struct copy_end {
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
    [[nodiscard]] std::byte* view(void const* address) const {
        return memory ? memory->view(address) : static_cast<std::byte*>(const_cast<void*>(address));
    }
    [[nodiscard]] bool in_pieces() const { return memory && memory->mapped; }
    [[nodiscard]] bool is_watched() const {
        return memory && memory->kind == memory_kind::device && !memory->mapped &&
               memory->block.checks == memory_checks::strict;
    }
};

/// For messages when the operation runs.
struct made_by {
    function call = caller.calling;
    call_sites::site from = here();

    [[nodiscard]] std::string text() const { return name_of(call) + call_sites::mark(from); }
};

bool direction_fits(copy_end const& to, copy_end const& from, cudaMemcpyKind kind) {
    switch (kind) {
        case cudaMemcpyHostToHost: return from.host() && to.host();
        case cudaMemcpyHostToDevice: return from.host() && to.device();
        case cudaMemcpyDeviceToHost: return from.device() && to.host();
        case cudaMemcpyDeviceToDevice: return from.device() && to.device();
        case cudaMemcpyDefault: return true;
    }
    return false;
}

/// Reports an illegal access if the memory is not allocated in stream order.
bool reachable(allocation_ref const& a, void const* from, std::size_t bytes, device& d, made_by const& what) {
    if (!a) return true;
    auto const* const hole = a->mapped ? first_unmapped(from, bytes) : nullptr;
    if (!hole && a->now == allocation::phase::live) return true;
    if (hole) {
        guard lock{the_machine().mutex};
        auto const gone = freed_memory_at(hole);
        lock.unlock();
        illegal_access(d, what.text() + " ran after its memory was freed: " + gone);
    } else if (a->now == allocation::phase::pending)
        illegal_access(d, what.text() + " ran before the " + name_of(a->made_by) + " of " + describe(*a));
    else illegal_access(d, what.text() + " ran after its memory was freed: " + describe(*a) + freed_text(*a));
    return false;
}

void move(std::vector<std::span<std::byte>> to, std::vector<std::span<std::byte>> from) {
    for (std::size_t t = 0, f = 0; t < to.size() && f < from.size();) {
        auto const n = std::min(to[t].size(), from[f].size());
        std::memmove(to[t].data(), from[f].data(), n);
        if ((to[t] = to[t].subspan(n)).empty()) ++t;
        if ((from[f] = from[f].subspan(n)).empty()) ++f;
    }
}

void move(copy_request const& c, copy_end const& to, copy_end const& from) {
    bool const in_pieces = to.in_pieces() || from.in_pieces();
    auto const there = in_pieces ? pieces(to.memory, c.to, c.bytes) : std::vector<std::span<std::byte>>{};
    auto const here = in_pieces ? pieces(from.memory, c.from, c.bytes) : std::vector<std::span<std::byte>>{};
    sanitizer::loud access;
    if (in_pieces) move(there, here);
    else std::memmove(to.view(c.to), from.view(c.from), c.bytes);
}

void look_for_poison(copy_request const& c, copy_end const& from, made_by const& what) {
    auto const at = first_poisoned(from.view(c.from), c.bytes);
    if (!at) return;
    auto const first = from.offset(c.from) + *at;
    guard lock{the_machine().mutex};
    auto const where = describe(*from.memory, first);
    lock.unlock();
    note_misuse(the_machine().misuse.uninitialized_reads, what.text() + " reads byte " +
                                                              std::to_string(first) + " of " + where +
                                                              ", which was never written");
}

operation_ref copy_task(copy_request const& c, copy_end to, copy_end from, stream_handle const& s) {
    auto const way = timing::way(from.device(), to.device());
    return make_task([c, way, to = std::move(to), from = std::move(from), s, what = made_by{}] {
        if (failure_of(s->owner) != cudaSuccess) return;
        if (!reachable(to.memory, c.to, c.bytes, s->owner, what)) return;
        if (!reachable(from.memory, c.from, c.bytes, s->owner, what)) return;
        timing::copy_on_link takes{way, s->owner.index, c.bytes, c.has_latency};
        if (from.is_watched() && to.host()) look_for_poison(c, from, what);
        move(c, to, from);
        if (from.is_watched() && to.is_watched()) carry_poison(to.view(c.to), from.view(c.from), c.bytes);
    });
}

/// Reads the source before the call returns.
operation_ref staged_copy_task(guard& lock, copy_request c, copy_end to, stream_handle const& s) {
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

/// Checks memory of the runtime only: pageable memory is read during the call, or the call waits.
void check_order(copy_request const& c, copy_end const& to, copy_end const& from, stream const& s,
                 operation const& work) {
    auto const* const what = name_of(caller.calling);
    // Otherwise it was read during the call.
    if (from.memory && c.read != source_read::now)
        ordering::accesses(s, work, what, from.memory, c.from, c.bytes, ordering::use::reads);
    if (to.memory) ordering::accesses(s, work, what, to.memory, c.to, c.bytes, ordering::use::writes);
}

}  // namespace

namespace {

std::string what_is(void const* address) {
    std::ostringstream text;
    if (auto const a = find_memory(address)) {
        auto const offset = reinterpret_cast<std::uintptr_t>(address) - ~a->disguise;
        if (offset != 0) text << "byte " << offset << " of ";
        text << describe(*a);
    } else if (closed_memory::is_closed(address) || is_reserved(address)) {
        text << closed_memory::what_lies_at(address);
    } else if (auto const gone = freed_memory_at(address); !gone.empty()) {
        text << gone;
    } else {
        text << address << ", which the runtime did not allocate";
    }
    return text.str();
}

cudaError_t bad_direction(void const* to, void const* from) {
    auto line = this_call() + " has the wrong direction: to " + what_is(to);
    if (from) line += ", from " + what_is(from);
    note_misuse(the_machine().misuse.bad_directions, std::move(line));
    return cudaErrorInvalidValue;
}

bool is_gone(void const* address) { return closed_memory::is_closed(address) && !find_memory(address); }

}  // namespace

cudaError_t bad_range(void const* first, std::size_t bytes) {
    note_misuse(the_machine().misuse.bad_ranges,
                this_call() + " requests " + in_bytes(bytes) + " from " + what_is(first));
    return cudaErrorInvalidValue;
}

cudaError_t copy(guard& lock, copy_request const& c, cudaStream_t handle) {
    if (c.kind < cudaMemcpyHostToHost || c.kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    auto const s = find_stream(handle);
    if (!s) return bad_handle();
    if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
    if (c.bytes == 0) return cudaSuccess;
    if (!c.to || !c.from) return cudaErrorInvalidValue;
    copy_end const to{find_memory(c.to)}, from{find_memory(c.from)};
    if (is_gone(c.to)) return bad_range(c.to, c.bytes);
    if (is_gone(c.from)) return bad_range(c.from, c.bytes);
    if (!direction_fits(to, from, c.kind)) return bad_direction(c.to, c.from);
    if (!to.holds(c.to, c.bytes, access::write)) return bad_range(c.to, c.bytes);
    if (!from.holds(c.from, c.bytes, access::read)) return bad_range(c.from, c.bytes);

    bool const usual =
        // A captured copy reads when it runs.
        c.read == source_read::usual && !s->capturing.in;
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

namespace {

/// Starts `done` bytes into the pattern.
void write(std::span<std::byte> to, set_value const& what, std::size_t done) {
    if (what.bytes == 1) return (void)std::memset(to.data(), static_cast<int>(what.value), to.size());
    std::byte value[sizeof what.value];
    std::memcpy(value, &what.value, sizeof value);  // little endian
    for (std::size_t i = 0; i != to.size(); ++i) to[i] = value[(done + i) % what.bytes];
}

}  // namespace

cudaError_t set(guard& lock, void* to, set_value value, std::size_t bytes, cudaStream_t handle) {
    auto const s = find_stream(handle);
    if (!s) return bad_handle();
    if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
    if (bytes == 0) return cudaSuccess;
    copy_end const where{find_memory(to)};
    if (reinterpret_cast<std::uintptr_t>(to) % value.bytes != 0) return cudaErrorInvalidValue;
    if (is_gone(to)) return bad_range(to, bytes);
    if (where.pageable()) return bad_direction(to, nullptr);
    if (!where.holds(to, bytes, access::write)) return bad_range(to, bytes);
    auto work = make_task([to, value, bytes, where, s, what = made_by{}] {
        if (failure_of(s->owner) != cudaSuccess) return;
        if (!reachable(where.memory, to, bytes, s->owner, what)) return;
        auto const all =
            where.in_pieces() ? pieces(where.memory, to, bytes) : std::vector<std::span<std::byte>>{};
        sanitizer::loud access;
        if (!where.in_pieces()) write({where.view(to), bytes}, value, 0);
        std::size_t done = 0;
        for (auto const& piece : all) {
            write(piece, value, done);
            done += piece.size();
        }
    });
    enqueue(lock, s, work);
    ordering::accesses(*s, *work, name_of(caller.calling), where.memory, to, bytes, ordering::use::writes);
    return cudaSuccess;
}

namespace driver {
namespace {

CUresult set_words(function f, CUdeviceptr to, set_value value, std::size_t count, CUstream s) {
    return driver_api(f, [&](guard& lock) {
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(count, value.bytes, &bytes)) return CUDA_ERROR_INVALID_VALUE;
        return to_driver(set(lock, reinterpret_cast<void*>(to), value, bytes, s));
    });
}

CUstream own(CUstream s) { return s ? s : cudaStreamPerThread; }

}  // namespace

CUresult memset_d8(CUdeviceptr to, unsigned char value, std::size_t count, CUstream s) {
    return set_words(function::cuMemsetD8Async, to, {value, 1}, count, s);
}
CUresult memset_d16(CUdeviceptr to, unsigned short value, std::size_t count, CUstream s) {
    return set_words(function::cuMemsetD16Async, to, {value, 2}, count, s);
}
CUresult memset_d32(CUdeviceptr to, unsigned value, std::size_t count, CUstream s) {
    return set_words(function::cuMemsetD32Async, to, {value, 4}, count, s);
}
CUresult memset_d8_ptsz(CUdeviceptr to, unsigned char value, std::size_t count, CUstream s) {
    return memset_d8(to, value, count, own(s));
}
CUresult memset_d16_ptsz(CUdeviceptr to, unsigned short value, std::size_t count, CUstream s) {
    return memset_d16(to, value, count, own(s));
}
CUresult memset_d32_ptsz(CUdeviceptr to, unsigned value, std::size_t count, CUstream s) {
    return memset_d32(to, value, count, own(s));
}

}  // namespace driver

namespace {

/// Only memsets of device memory are asynchronous with respect to the host.
cudaError_t set_and_wait(guard& lock, void* to, int value, std::size_t bytes, cudaStream_t handle) {
    auto const where = find_memory(to);
    auto const result = set(lock, to, {static_cast<unsigned>(value)}, bytes, handle);
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
    return api(function::cudaMemsetAsync,
               [&](guard& lock) { return set(lock, to, {static_cast<unsigned>(value)}, bytes, s); });
}

// For CUDA_API_PER_THREAD_DEFAULT_STREAM.
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
