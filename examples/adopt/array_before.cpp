// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// An array with a host side and a device side, and a limit on device memory: before cuota. Usage: array_before [SAMPLES [MIB]]
///
/// Solves a kernel ridge regression by coordinate descent: the host chooses the coordinate, and the device updates the residuals. The limit
/// is set after the arrays are made. Returns 2 if it is exceeded. Expected output:
///
///     step 0: residual -1.0000 of sample 2
///     step 10: residual -0.9271 of sample 691
///     step 20: residual 0.5600 of sample 378
///     step 30: residual 0.2700 of sample 443
///     sum of the solution -0.4608, of squared residuals 2.3807
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "kernels.hpp"

#define CUDA_CHECK(call) check(call, #call, __FILE__, __LINE__)

static void check(cudaError_t status, char const* call, char const* file, int line) {
    if (status == cudaSuccess) return;
    if (status == cudaErrorMemoryAllocation) throw std::bad_alloc{};
    throw std::runtime_error{std::string{file} + ":" + std::to_string(line) + ": " + call + ": " +
                             cudaGetErrorString(status)};
}

/// An array of floats. Each side is allocated and copied when it is accessed.
class sync_array {
public:
    explicit sync_array(std::size_t size) : size_{size} {}
    sync_array(sync_array const&) = delete;
    sync_array& operator=(sync_array const&) = delete;
    ~sync_array() {
        cudaFreeHost(host_);
        cudaFree(device_);
        if (device_) held_ -= bytes();
    }

    static void set_limit(std::size_t bytes) { limit_ = bytes; }

    [[nodiscard]] float const* host_data() {
        to_host();
        return host_;
    }
    [[nodiscard]] float* mutable_host_data() {
        to_host();
        head_ = head::host;
        return host_;
    }
    [[nodiscard]] float const* device_data() {
        to_device();
        return device_;
    }
    [[nodiscard]] float* mutable_device_data() {
        to_device();
        head_ = head::device;
        return device_;
    }

private:
    enum class head { uninitialized, host, device, synced };

    [[nodiscard]] std::size_t bytes() const { return size_ * sizeof(float); }

    void allocate_host() {
        if (!host_) CUDA_CHECK(cudaMallocHost(&host_, bytes()));
    }

    void allocate_device() {
        if (device_) return;
        if (bytes() > limit_ || held_ > limit_ - bytes()) throw std::bad_alloc{};
        CUDA_CHECK(cudaMalloc(&device_, bytes()));
        held_ += bytes();
    }

    void to_host() {
        allocate_host();
        switch (head_) {
            case head::uninitialized:
                std::fill_n(host_, size_, 0.0F);
                head_ = head::host;
                break;
            case head::device:
                CUDA_CHECK(cudaMemcpy(host_, device_, bytes(), cudaMemcpyDeviceToHost));
                head_ = head::synced;
                break;
            case head::host:
            case head::synced: break;
        }
    }

    void to_device() {
        allocate_device();
        switch (head_) {
            case head::uninitialized:
                CUDA_CHECK(cudaMemset(device_, 0, bytes()));
                head_ = head::device;
                break;
            case head::host:
                CUDA_CHECK(cudaMemcpy(device_, host_, bytes(), cudaMemcpyHostToDevice));
                head_ = head::synced;
                break;
            case head::device:
            case head::synced: break;
        }
    }

    static inline std::size_t limit_ = SIZE_MAX, held_ = 0;

    std::size_t size_;
    float* host_ = nullptr;
    float* device_ = nullptr;
    head head_ = head::uninitialized;
};

int main(int argc, char** argv) try {
    constexpr std::size_t features = 64;
    std::size_t const samples = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
    std::size_t const mebibytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 64;
    if (samples == 0 || mebibytes == 0) {
        std::fprintf(stderr, "usage: array_before [SAMPLES [MIB]]\n");
        return EXIT_FAILURE;
    }
    sync_array inputs{samples * features}, row{samples}, residuals{samples}, solution{samples};
    std::vector<float> const data = kernels::random_values(samples * features, 2);
    std::copy(data.begin(), data.end(), inputs.mutable_host_data());
    for (std::size_t i = 0; i != samples; ++i) residuals.mutable_host_data()[i] = data[i * features];

    sync_array::set_limit(mebibytes << 20);
    for (int step = 0; step != 40; ++step) {
        float const* const r = residuals.host_data();
        auto const is_smaller = [](float a, float b) { return std::abs(a) < std::abs(b); };
        auto const chosen = static_cast<std::size_t>(std::max_element(r, r + samples, is_smaller) - r);
        if (step % 10 == 0) std::printf("step %d: residual %.4f of sample %zu\n", step, r[chosen], chosen);

        kernels::dot_rows(row.mutable_device_data(), inputs.device_data(),
                          inputs.device_data() + chosen * features, samples, features);
        CUDA_CHECK(cudaGetLastError());
        float const change = r[chosen] / (row.host_data()[chosen] + 1);
        solution.mutable_host_data()[chosen] += change;
        kernels::add_scaled(residuals.mutable_device_data(), row.device_data(), -change, samples);
        CUDA_CHECK(cudaGetLastError());
        residuals.mutable_host_data()[chosen] -= change;
    }
    float const* const found = solution.host_data();
    float const* const r = residuals.host_data();
    std::printf("sum of the solution %.4f, of squared residuals %.4f\n",
                std::accumulate(found, found + samples, 0.0), std::inner_product(r, r + samples, r, 0.0));
} catch (std::bad_alloc const& refused) {
    std::fprintf(stderr, "out of memory: %s\n", refused.what());
    return 2;
} catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
}
