// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Limits of a device's memory that an administrator sets for a control group of processes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <cuda_runtime_api.h>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>

namespace cuota::inline v0 {

/// Limits of a device's memory for a control group of processes. Sizes are bytes. Example: tests/runtime/memory_limits.sim.cpp
struct memory_limits {
    /// Above it the driver may terminate the process in favor of another one that is within its own; `unlimited`: none.
    std::size_t soft = unlimited;
    std::size_t hard = unlimited;  ///< allocations above it fail
    std::size_t used = 0;          ///< by all processes of the group

    /// Returns the bytes left below the soft limit; `unlimited` without one.
    [[nodiscard]] std::size_t left() const noexcept {
        return soft == unlimited ? unlimited : soft - (used < soft ? used : soft);
    }
    friend bool operator==(memory_limits const&,
                           memory_limits const&) noexcept = default;  ///< by all members
};

namespace detail {

// The part of NVML's ABI used here, the same since driver 450; the limits since 615.
namespace nvml_abi {

using result = int;
using handle = struct nvml_device*;
inline constexpr result success = 0;

// nvmlGetMemoryLimits_v1_t
struct limits {
    char const* directory;    // of the control group
    unsigned long long soft;  // 0: none
    unsigned long long hard;  // ~0: none
    unsigned long long used;
};
static_assert(sizeof(limits) == 32);

using init_call = result();
using find_call = result(char const*, handle*);
using limits_call = result(handle, limits*);

}  // namespace nvml_abi

/// Reads NVML's memory limits; the library is loaded at run time. Threads: any. Throws: std::bad_alloc.
class nvml_limits {
public:
    explicit nvml_limits(char const* library = "libnvidia-ml.so.1");
    nvml_limits(nvml_limits const&) = delete;  // NVML counts initializations
    nvml_limits& operator=(nvml_limits const&) = delete;
    ~nvml_limits();

    /// Returns whether this NVML has memory limits.
    [[nodiscard]] bool is_available() const noexcept { return limits_ != nullptr; }
    /// Returns the limits of the device at a PCI address for the control group in `directory` and all groups above it up to `top`: the least
    /// hard one, and the soft one that leaves the fewest bytes. Returns nullopt without limits, and in a forked child.
    [[nodiscard]] std::optional<memory_limits> of(std::string const& pci, std::string directory,
                                                  std::string const& top) const;

private:
    process_mark const made_;
    void* library_ = nullptr;
    nvml_abi::init_call* shutdown_ = nullptr;
    nvml_abi::find_call* find_ = nullptr;
    nvml_abi::limits_call* limits_ = nullptr;
};

}  // namespace detail

namespace rt {

/// Returns the PCI address "00000000:3b:00.0".
[[nodiscard]] std::string pci_text(cudaDeviceProp const& p);

/// Returns the limits of a device for the control group of this process.
CUOTA_PROCESS_STATE [[nodiscard]] std::optional<memory_limits> limits_of(int device);

/// Returns the bytes available on the host for a device that uses its memory. The first file that cannot be used is reported.
CUOTA_PROCESS_STATE [[nodiscard]] std::size_t host_memory_of(int device);

}  // namespace rt

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <atomic>
#include <cstdio>

#include <dlfcn.h>

#include <cuota/runtime/host_memory.hpp>
#include <cuota/runtime/rt/call.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE nvml_limits::nvml_limits(char const* library)
    : library_{::dlopen(library, RTLD_LAZY | RTLD_LOCAL)} {
    if (!library_) return;
    auto const find = [this]<class Call>(Call*& call, char const* name) {
        call = reinterpret_cast<Call*>(::dlsym(library_, name));
        return call != nullptr;
    };
    nvml_abi::init_call* init = nullptr;
    nvml_abi::limits_call* limits = nullptr;
    bool const has_all = find(limits, "nvmlDeviceGetMemoryLimits_v1") && find(init, "nvmlInit_v2") &&
                         find(shutdown_, "nvmlShutdown") && find(find_, "nvmlDeviceGetHandleByPciBusId_v2");
    if (has_all && init() == nvml_abi::success) limits_ = limits;
}

CUOTA_INLINE nvml_limits::~nvml_limits() {
    if (made_.is_of_parent()) return;  // other threads may have held NVML's locks at the fork
    if (is_available()) (void)shutdown_();
    if (library_) ::dlclose(library_);
}

CUOTA_INLINE std::optional<memory_limits> nvml_limits::of(std::string const& pci, std::string directory,
                                                          std::string const& top) const {
    nvml_abi::handle device = nullptr;
    if (!is_available() || made_.is_of_parent() || find_(pci.c_str(), &device) != nvml_abi::success)
        return std::nullopt;
    memory_limits least;
    for (;; directory.erase(directory.rfind('/'))) {
        nvml_abi::limits here{directory.c_str(), 0, ~0ULL, 0};
        if (limits_(device, &here) == nvml_abi::success) {
            memory_limits const one{here.soft == 0 ? unlimited : std::size_t{here.soft},
                                    std::size_t{here.hard}, std::size_t{here.used}};
            std::size_t const hard = std::min(least.hard, one.hard);
            if (one.left() < least.left() || least == memory_limits{}) least = one;
            least.hard = hard;
        }
        if (directory.size() <= top.size() || directory.rfind('/') == std::string::npos) break;
    }
    if (least.soft == unlimited && least.hard == unlimited) return std::nullopt;
    return least;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0::rt {

CUOTA_INLINE std::string pci_text(cudaDeviceProp const& p) {
    char text[40];
    std::snprintf(text, sizeof text, "%08x:%02x:%02x.0", static_cast<unsigned>(p.pciDomainID),
                  static_cast<unsigned>(p.pciBusID), static_cast<unsigned>(p.pciDeviceID));
    return text;
}

CUOTA_INLINE std::optional<memory_limits> limits_of(int device) {
    if (is_simulated()) {
        memory_limits limits;
        cuota_simulator_memory_limits(device, &limits.soft, &limits.hard, &limits.used);
        if (limits.soft == 0) limits.soft = unlimited;
        if (limits.soft == unlimited && limits.hard == unlimited) return std::nullopt;
        return limits;
    }
    static auto const& nvml = *new cuota::detail::nvml_limits;  // never destroyed
    if (!nvml.is_available()) return std::nullopt;
    cuota::detail::cgroup_place const group = cuota::detail::cgroup_of_process({}, true);
    if (group.mount.empty()) return std::nullopt;
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    return nvml.of(pci_text(properties), group.mount + group.process, group.mount);
}

CUOTA_INLINE_STATE std::size_t host_memory_of(int device) {
    if (is_simulated()) return cuota_simulator_host_memory(device);
    static std::atomic<bool> is_reported = false;
    host_memory_info const host = host_memory();
    if (!host.ignored.empty() && !is_reported.exchange(true)) cuota::detail::report_ignored(host);
    return host.available;
}

}  // namespace cuota::inline v0::rt

#endif
