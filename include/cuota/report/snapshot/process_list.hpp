// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Lists other programs on a device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/nvml.hpp>

namespace cuota::inline v0 {

namespace detail {

[[nodiscard]] std::string process_text(nvml_process const& p);

}  // namespace detail

/// Lists other processes: "other programs 3.1 GiB: python3 (4711) 2.9 GiB, Xorg (812) 204.0 MiB"; the total is "at least" if some sizes are
/// unknown. Otherwise "no other program uses it", or "other programs unknown: <reason>".
/// Throws: std::bad_alloc.
[[nodiscard]] std::string other_programs_text(nvml_result<std::vector<nvml_process>> const& all,
                                              std::size_t max_processes = 4);

/// Queries a device now. Throws: cuda_error if it does not exist; std::bad_alloc. Cost: an NVML query. Threads: any.
/// Example: std::puts(cuota::other_programs_text(cuota::device::current()).c_str());
[[nodiscard]] std::string other_programs_text(device d, nvml const& management = nvml::system(),
                                              std::size_t max_processes = 4);

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_REPORT

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string process_text(nvml_process const& p) {
    std::string const name = p.name.empty() ? "process" : shown(p.name, 24);
    return name + " (" + std::to_string(p.pid) + ") " + (p.bytes ? bytes_text(*p.bytes) : "of unknown size");
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE std::string other_programs_text(nvml_result<std::vector<nvml_process>> const& all,
                                             std::size_t max_processes) {
    if (!all) return "other programs unknown: " + detail::printable(all.error());
    std::string list;
    std::size_t sum = 0, others = 0;
    bool is_whole = true;
    for (nvml_process const& p : *all) {
        if (p.is_current) continue;
        if (others++ < max_processes) list += (list.empty() ? "" : ", ") + detail::process_text(p);
        sum = detail::saturating_add(sum, p.bytes.value_or(0));
        is_whole = is_whole && p.bytes;
    }
    if (others == 0) return "no other program uses it";
    if (others > max_processes)
        list += (list.empty() ? "" : " and ") + count_text(others - max_processes) + " more";
    std::string const held = is_whole   ? bytes_text(sum) + ": "
                             : sum != 0 ? "at least " + bytes_text(sum) + ": "
                                        : "";
    return "other programs " + held + list;
}

CUOTA_INLINE std::string other_programs_text(device d, nvml const& management, std::size_t max_processes) {
    return other_programs_text(management.processes(pci_bus_id(d)), max_processes);
}

}  // namespace cuota::inline v0

#endif
