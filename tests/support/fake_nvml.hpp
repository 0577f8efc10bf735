// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// State of the fake libnvidia-ml.so.1; see fake_nvml.cpp.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

/// The layout of NVML's own structure.
struct process_of_nvml {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct fake_nvml_machine {
    int begun = 0;  ///< calls of nvmlInit minus calls of nvmlShutdown
    int init_error = 0;
    int memory_error = 0;
    int list_error = 0;
    int graphics_error = 0;
    bool grows = false;  ///< each query finds one more process
    std::string driver = "580.65.06";
    std::string pci = "00000000:01:00.0";  ///< address of the simulated device 0
    unsigned long long memory[3] = {1000, 400, 600};
    std::vector<process_of_nvml> compute{};
    std::vector<process_of_nvml> graphics{};
    std::map<std::string, std::array<unsigned long long, 3>> limits{};  ///< soft, hard, used by control group
    int limits_error = 0;
};

extern fake_nvml_machine fake_nvml;  // only one test at a time
