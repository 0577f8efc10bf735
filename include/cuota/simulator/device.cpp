// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "state.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace cuota::inline v0::simulator {

device::device(int number)
    : index{number},
      legacy{std::make_shared<stream>(*this, cudaStreamDefault, 0, true)},
      default_pool{std::make_shared<pool>()},
      managed_pool{std::make_shared<pool>()} {
    managed_pool->kind = memory_kind::managed;
    for (auto const& p : {default_pool, managed_pool}) {
        p->device = number;
        p->is_default = true;
        pools.push_back(p);
    }
}

std::size_t device::unused() const noexcept {
    auto const& m = the_machine();
    auto const less = [](std::size_t from, std::size_t bytes) { return from - std::min(from, bytes); };
    std::size_t left = less(capacity - used, others);
    if (m.is_integrated) left = less(left, m.live.pinned_bytes);
    return std::min(left, less(less(limits.hard, limits.used_by_others), used));
}

std::size_t device::free() const noexcept { return unused() - std::min(unused(), unusable); }

std::size_t device::reported_free() const noexcept { return unused() - std::min(unused(), page_cache); }

device* find_device(int index) {
    auto& m = the_machine();
    return index >= 0 && index < m.devices ? m.all_devices[static_cast<std::size_t>(index)].get() : nullptr;
}

void make_context(device& d) {
    if (!std::exchange(d.has_context, true)) ++d.contexts_made;
}

void let_others_allocate() {
    auto& m = the_machine();
    if (!m.has_restless_programs) return;
    for (auto const& d : m.all_devices) {
        if (d->others_probability == 0) continue;
        if (std::uniform_real_distribution<>{}(m.restless) >= d->others_probability) continue;
        std::size_t const wanted = std::uniform_int_distribution<std::size_t>{0, d->most_others}(m.restless);
        d->others = std::min(wanted, d->capacity - d->used);
        ++d->others_changes;
    }
}

void make_context_for(function f) {
    auto const kind = trait_of(f);
    if (kind == trait::free_of || kind == trait::about) return;
    if (f == function::cudaEventQuery || f == function::cudaEventSynchronize) return;
    if (the_machine().devices != 0) make_context(current_device());
}

device& current_device() {
    if (caller.contexts != 0)
        if (auto* const d = find_device(caller.context_of[caller.contexts - 1])) return *d;
    if (auto* const d = find_device(caller.device)) return *d;
    caller.device = 0;  // a reset has removed its device
    return *the_machine().all_devices.front();
}

void fail_device(device& d, cudaError_t code, std::string text) {
    guard lock{the_machine().mutex};
    if (d.failure.load() != cudaSuccess) return;
    d.failure_text = std::move(text);
    d.failure.store(code, std::memory_order_release);
}

namespace {

cudaDeviceProp properties_of(device const& d) {
    cudaDeviceProp p{};
    std::strncpy(p.name, "simulated", sizeof p.name - 1);
    std::memcpy(p.uuid.bytes, "cuota simulator", 15);
    p.uuid.bytes[15] = static_cast<char>(d.index);
    p.totalGlobalMem = d.capacity;
    p.sharedMemPerBlock = 48 << 10;
    p.sharedMemPerBlockOptin = 227 << 10;
    p.sharedMemPerMultiprocessor = 228 << 10;
    p.reservedSharedMemPerBlock = 1 << 10;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.memPitch = 0x7fffffff;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.totalConstMem = 64 << 10;
    p.major = 9;
    p.minor = 0;
    p.textureAlignment = 512;
    p.texturePitchAlignment = 32;
    p.multiProcessorCount = 8;
    p.maxThreadsPerMultiProcessor = 2048;
    p.integrated = the_machine().is_integrated;
    p.maxBlocksPerMultiProcessor = 32;
    p.canMapHostMemory = 1;
    p.concurrentKernels = 1;
    p.pciBusID = 1 + d.index;
    p.asyncEngineCount = 2;
    p.unifiedAddressing = 1;
    p.memoryBusWidth = 1024;
    p.l2CacheSize = 4 << 20;
    p.streamPrioritiesSupported = 1;
    p.managedMemory = 1;
    p.concurrentManagedAccess = 1;
    p.canUseHostPointerForRegisteredMem = 1;
    p.hostRegisterSupported = 1;
    p.memoryPoolsSupported = 1;
#if CUDART_VERSION >= 13000
    p.hostNumaId = d.host_numa_node;
#endif
    return p;
}

}  // namespace

/// Attributes that are not listed are zero: the device lacks the feature.
int attribute_of(device const& d, cudaDeviceAttr which) {
    auto const p = properties_of(d);
    switch (which) {
        case cudaDevAttrMaxThreadsPerBlock: return p.maxThreadsPerBlock;
        case cudaDevAttrMaxBlockDimX: return p.maxThreadsDim[0];
        case cudaDevAttrMaxBlockDimY: return p.maxThreadsDim[1];
        case cudaDevAttrMaxBlockDimZ: return p.maxThreadsDim[2];
        case cudaDevAttrMaxGridDimX: return p.maxGridSize[0];
        case cudaDevAttrMaxGridDimY: return p.maxGridSize[1];
        case cudaDevAttrMaxGridDimZ: return p.maxGridSize[2];
        case cudaDevAttrMaxSharedMemoryPerBlock: return static_cast<int>(p.sharedMemPerBlock);
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: return static_cast<int>(p.sharedMemPerBlockOptin);
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            return static_cast<int>(p.sharedMemPerMultiprocessor);
        case cudaDevAttrReservedSharedMemoryPerBlock: return static_cast<int>(p.reservedSharedMemPerBlock);
        case cudaDevAttrTotalConstantMemory: return static_cast<int>(p.totalConstMem);
        case cudaDevAttrWarpSize: return p.warpSize;
        case cudaDevAttrMaxPitch: return static_cast<int>(p.memPitch);
        case cudaDevAttrMaxRegistersPerBlock:
        case cudaDevAttrMaxRegistersPerMultiprocessor: return p.regsPerBlock;
        case cudaDevAttrClockRate: return 1'000'000;
        case cudaDevAttrMemoryClockRate: return 1'000'000;
        case cudaDevAttrTextureAlignment: return static_cast<int>(p.textureAlignment);
        case cudaDevAttrTexturePitchAlignment: return static_cast<int>(p.texturePitchAlignment);
        case cudaDevAttrGpuOverlap:
        case cudaDevAttrCanMapHostMemory:
        case cudaDevAttrConcurrentKernels:
        case cudaDevAttrUnifiedAddressing:
        case cudaDevAttrStreamPrioritiesSupported:
        case cudaDevAttrManagedMemory:
        case cudaDevAttrConcurrentManagedAccess:
        case cudaDevAttrCanUseHostPointerForRegisteredMem:
        case cudaDevAttrHostRegisterSupported:
        case cudaDevAttrMemoryPoolsSupported: return 1;
        case cudaDevAttrIntegrated: return p.integrated;
        case cudaDevAttrMultiProcessorCount: return p.multiProcessorCount;
        case cudaDevAttrPciBusId: return p.pciBusID;
        case cudaDevAttrGlobalMemoryBusWidth: return p.memoryBusWidth;
        case cudaDevAttrL2CacheSize: return p.l2CacheSize;
        case cudaDevAttrMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
        case cudaDevAttrMaxBlocksPerMultiprocessor: return p.maxBlocksPerMultiProcessor;
        case cudaDevAttrAsyncEngineCount: return p.asyncEngineCount;
        case cudaDevAttrComputeCapabilityMajor: return p.major;
        case cudaDevAttrComputeCapabilityMinor: return p.minor;
#if CUDART_VERSION >= 12020
        case cudaDevAttrHostNumaId: return d.host_numa_node;
#endif
        default: return 0;
    }
}

}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaGetDeviceCount(int* count) {
    return api(function::cudaGetDeviceCount, [&](guard&) {
        if (!count) return cudaErrorInvalidValue;
        *count = the_machine().devices;
        return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
    });
}

cudaError_t cudaGetDevice(int* index) {
    return api(function::cudaGetDevice, [&](guard&) {
        if (!index) return cudaErrorInvalidValue;
        if (the_machine().devices == 0) return cudaErrorNoDevice;
        *index = current_device().index;
        return cudaSuccess;
    });
}

cudaError_t cudaSetDevice(int index) {
    return api(function::cudaSetDevice, [&](guard&) {
        if (!find_device(index))
            return the_machine().devices == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice;
        if (caller.contexts != 0) caller.context_of[caller.contexts - 1] = index;
        else caller.device = index;
        make_context(*find_device(index));
        return cudaSuccess;
    });
}

cudaError_t cudaInitDevice(int index, unsigned, unsigned flags) {
    return api(function::cudaInitDevice, [&](guard&) {
        auto* const d = find_device(index);
        if (!d) return the_machine().devices == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice;
        if ((flags & ~unsigned{cudaInitDeviceFlagsAreValid}) != 0) return cudaErrorInvalidValue;
        make_context(*d);
        return cudaSuccess;
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int index) {
    return api(function::cudaGetDeviceProperties, [&](guard&) {
        if (!out) return cudaErrorInvalidValue;
        auto const* const d = find_device(index);
        if (!d) return cudaErrorInvalidDevice;
        *out = properties_of(*d);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int index) {
    return api(function::cudaDeviceGetAttribute, [&](guard&) {
        if (!value || which < 1 || which >= cudaDevAttrMax) return cudaErrorInvalidValue;
        auto const* const d = find_device(index);
        if (!d) return cudaErrorInvalidDevice;
        *value = attribute_of(*d, which);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int index, int peer) {
    return api(function::cudaDeviceCanAccessPeer, [&](guard&) {
        if (!can) return cudaErrorInvalidValue;
        if (!find_device(index) || !find_device(peer)) return cudaErrorInvalidDevice;
        *can = index != peer && the_machine().has_peer_access;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceSynchronize() {
    return api(function::cudaDeviceSynchronize, [](guard& lock) {
        auto& d = current_device();
        wait_for_device(lock, d);
        trim_at_synchronisation(d);
        return failure_of(d);
    });
}

cudaError_t cudaDriverGetVersion(int* version) {
    return api(function::cudaDriverGetVersion, [&](guard&) {
        if (!version) return cudaErrorInvalidValue;
        *version = CUDART_VERSION;
        return cudaSuccess;
    });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    return api(function::cudaRuntimeGetVersion, [&](guard&) {
        if (!version) return cudaErrorInvalidValue;
        *version = CUDART_VERSION;
        return cudaSuccess;
    });
}
