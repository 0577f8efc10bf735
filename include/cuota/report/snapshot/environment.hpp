// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Describes the toolkit, driver and devices.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/runtime/cuda_info.hpp>
#include <cuota/runtime/nvml.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0 {

/// Returns the oldest Linux driver for a toolkit, by NVIDIA's release notes; null if unknown. `toolkit` is encoded as by CUDA: 13020 is
/// 13.2.
[[nodiscard]] constexpr char const* min_driver_for(int toolkit) noexcept {
    switch (toolkit / 1000) {
        case 11: return "450.80.02";
        case 12: return "525.60.13";
        case 13: return "580.65.06";
        default: return nullptr;
    }
}

/// Toolkit, driver and devices.
struct environment_info {
    cuda_info cuda{};                     ///< versions and devices
    bool is_simulated = false;            ///< the simulated runtime is linked
    std::string driver_release{};         ///< "580.65.06", or empty
    std::string why_no_nvml{};            ///< empty if NVML is available
    std::string visible_devices{};        ///< CUDA_VISIBLE_DEVICES; empty if not set
    bool is_visible_devices_set = false;  ///< CUDA_VISIBLE_DEVICES is set

    /// Returns the problem and its remedy in one sentence; nothing if devices are usable.
    [[nodiscard]] std::optional<std::string> problem() const;
    /// Returns lines for the versions, devices and the problem.
    [[nodiscard]] std::string text() const;
};

namespace detail {

/// Formats "13.2".
[[nodiscard]] std::string cuda_version_text(int version);

[[nodiscard]] std::string driver_to_install(int toolkit);

[[nodiscard]] std::string no_driver_text(environment_info const& e);

[[nodiscard]] std::string no_device_text(environment_info const& e);

[[nodiscard]] std::string mismatch_text(environment_info const& e);

[[nodiscard]] std::string trouble_text(environment_info const& e);

}  // namespace detail

/// Queries the machine. A missing driver or device is a result, not an exception.
/// Throws: std::bad_alloc. Cost: initializes the driver if necessary. Threads: any.
/// Example: std::puts(cuota::environment().text().c_str());
[[nodiscard]] environment_info environment(nvml const& management = nvml::system());

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string cuda_version_text(int version) {
    return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

CUOTA_INLINE std::string driver_to_install(int toolkit) {
    char const* const oldest = min_driver_for(toolkit);
    return oldest ? "driver " + std::string{oldest} + " or newer"
                  : "the driver that the release notes of CUDA " + cuda_version_text(toolkit) + " require";
}

CUOTA_INLINE std::string no_driver_text(environment_info const& e) {
    std::string const built = cuda_version_text(e.cuda.built_with);
    std::string const install = "install " + driver_to_install(e.cuda.built_with);
    if (e.cuda.driver == 0)
        return "no NVIDIA driver was found, and this program was built with CUDA " + built + ": " + install +
               ", or start the container with the host's driver (--gpus all)";
    std::string const driver = cuda_version_text(e.cuda.driver);
    std::string const release = e.driver_release.empty() ? "" : ' ' + e.driver_release;
    return "the driver" + release + " supports CUDA up to " + driver + ", this program was built with " +
           built + ": " + install + ", or build with a toolkit of " + driver + " or older";
}

CUOTA_INLINE std::string no_device_text(environment_info const& e) {
    if (e.is_visible_devices_set)
        return "no device is visible, because CUDA_VISIBLE_DEVICES is \"" + printable(e.visible_devices) +
               "\": unset it, or name a device that nvidia-smi -L lists";
    return "the driver is installed but finds no device: check that nvidia-smi -L lists one, and that a "
           "container has access to it (--gpus all)";
}

CUOTA_INLINE std::string mismatch_text(environment_info const& e) {
    return "the driver's library" + (e.driver_release.empty() ? "" : ' ' + e.driver_release) +
           " and its kernel module have different versions: restart the machine, as after every update of "
           "the driver, or remove CUDA's compatibility package from the container";
}

CUOTA_INLINE std::string trouble_text(environment_info const& e) {
    switch (e.cuda.status) {
        case cuda_status::none: return {};
        case cuda_status::driver_missing_or_old: return no_driver_text(e);
        case cuda_status::driver_is_stub:
            return "the toolkit's stub of libcuda was found instead of the driver's library: remove the "
                   "folder \"stubs\" from LD_LIBRARY_PATH, and install " +
                   driver_to_install(e.cuda.built_with) + " if none is installed";
        case cuda_status::no_device: return no_device_text(e);
        case cuda_status::library_mismatch: return mismatch_text(e);
        case cuda_status::no_forward_compatibility:
            return "CUDA's compatibility package is installed, but this device does not support it: remove "
                   "the package and install " +
                   driver_to_install(e.cuda.built_with);
        case cuda_status::not_ready:
            return "the services for the devices are not running: start nvidia-fabricmanager, in the same "
                   "version as the driver, and wait until it is ready";
        case cuda_status::not_permitted:
            return "no permission to use the devices: grant this user access to /dev/nvidia*";
        case cuda_status::other: break;
    }
    return "CUDA does not start: " + e.cuda.error +
           ": check that nvidia-smi works, and restart the machine if the driver was updated";
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE environment_info environment(nvml const& management) {
    environment_info found;
    found.cuda = query_cuda();
    found.is_simulated = is_simulated();
    if (auto const release = management.driver_version()) found.driver_release = *release;
    found.why_no_nvml = management.error();
    char const* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    found.is_visible_devices_set = visible != nullptr;
    found.visible_devices = visible ? visible : "";
    return found;
}

CUOTA_INLINE std::optional<std::string> environment_info::problem() const {
    if (std::string const trouble = detail::trouble_text(*this); !trouble.empty()) return trouble;
    if (cuda.runtime == 0 || cuda.runtime / 1000 == cuda.built_with / 1000) return std::nullopt;
    return "this program was built with CUDA " + detail::cuda_version_text(cuda.built_with) +
           " but runs with the library of " + detail::cuda_version_text(cuda.runtime) +
           ": make LD_LIBRARY_PATH lead to libcudart.so." + std::to_string(cuda.built_with / 1000);
}

CUOTA_INLINE std::string environment_info::text() const {
    std::string result = "built with CUDA " + detail::cuda_version_text(cuda.built_with);
    if (is_simulated) result += ", on the simulated runtime: no GPU is involved";
    else if (cuda.runtime != 0) result += ", runs with " + detail::cuda_version_text(cuda.runtime);
    if (!is_simulated && cuda.driver != 0)
        result += "; driver" + (driver_release.empty() ? "" : ' ' + driver_release) + " for CUDA up to " +
                  detail::cuda_version_text(cuda.driver);
    if (!is_simulated && !why_no_nvml.empty()) result += "; no NVML: " + detail::printable(why_no_nvml);
    for (device_properties const& d : cuda.devices)
        result += "\n  device " + std::to_string(d.ordinal) + ": " + detail::printable(d.name) +
                  ", compute capability " + std::to_string(d.major) + '.' + std::to_string(d.minor) + ", " +
                  bytes_text(d.total) + ", at " + d.pci;
    if (auto const what = problem()) result += "\n  " + *what;
    return result;
}

}  // namespace cuota::inline v0

#endif
