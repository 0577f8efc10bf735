// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// What the tests' libnvidia-ml.so.1 says: see fake_nvml.cpp.
#pragma once

#include <string>
#include <vector>

/// As NVML has it.
struct process_of_nvml {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct fake_nvml_machine {
    int begun = 0;  ///< calls of nvmlInit less those of nvmlShutdown
    int init_error = 0;
    int memory_error = 0;
    int list_error = 0;
    int graphics_error = 0;
    bool grows = false;  ///< a process comes with every question
    std::string driver = "580.65.06";
    std::string pci = "00000000:01:00.0";  ///< of the simulated device 0
    unsigned long long memory[3] = {1000, 400, 600};
    std::vector<process_of_nvml> compute{};
    std::vector<process_of_nvml> graphics{};
};

extern fake_nvml_machine fake_nvml;  // one test at a time
