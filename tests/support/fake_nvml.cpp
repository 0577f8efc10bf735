// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Fake libnvidia-ml.so.1: a machine with one device, whose processes and errors are set by the test. Programs that link it have it loaded
// under that name, so that dlopen finds it.
#include "support/fake_nvml.hpp"

#include <cstring>

fake_nvml_machine fake_nvml;

namespace {

// The layout of nvmlGetMemoryLimits_v1_t.
struct limits_of_nvml {
    char const* directory;
    unsigned long long soft;
    unsigned long long hard;
    unsigned long long used;
};

int answer(unsigned* count, process_of_nvml* to, std::vector<process_of_nvml> const& from) {
    if (fake_nvml.list_error != 0) return fake_nvml.list_error;
    if (fake_nvml.grows) fake_nvml.compute.push_back({900 + static_cast<unsigned>(from.size()), 1, 0, 0});
    unsigned const room = *count;
    *count = static_cast<unsigned>(from.size());
    if (room < from.size()) return 7;
    for (std::size_t i = 0; i != from.size(); ++i) to[i] = from[i];
    return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
    if (fake_nvml.init_error == 0) ++fake_nvml.begun;
    return fake_nvml.init_error;
}
int nvmlShutdown() {
    --fake_nvml.begun;
    return 0;
}
char const* nvmlErrorString(int code) {
    return code == 3    ? "Not Supported"
           : code == 6  ? "Not Found"
           : code == 18 ? "Driver/library version mismatch"
                        : nullptr;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    // Pads with zeros; no terminator if the text is longer.
    std::strncpy(text, fake_nvml.driver.c_str(), length);
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(char const* pci, void** device) {
    *device = &fake_nvml;
    return fake_nvml.pci == pci ? 0 : 6;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
    if (device != &fake_nvml || fake_nvml.memory_error != 0) return fake_nvml.memory_error;
    for (int i = 0; i != 3; ++i) total_free_used[i] = fake_nvml.memory[i];
    return 0;
}
int nvmlDeviceGetMemoryLimits_v1(void* device, limits_of_nvml* limits) {
    if (device != &fake_nvml || fake_nvml.limits_error != 0) return fake_nvml.limits_error;
    auto const found = fake_nvml.limits.find(limits->directory);
    if (found == fake_nvml.limits.end()) return 6;
    limits->soft = found->second[0];
    limits->hard = found->second[1];
    limits->used = found->second[2];
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, process_of_nvml* to) {
    return answer(count, to, fake_nvml.compute);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void*, unsigned* count, process_of_nvml* to) {
    return answer(count, to, fake_nvml.compute);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void*, unsigned* count, process_of_nvml* to) {
    return fake_nvml.graphics_error != 0 ? fake_nvml.graphics_error : answer(count, to, fake_nvml.graphics);
}
}
