// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// docs/no_gpu.md links it to the simulated runtime by hand.
#include <cstdio>

__global__ void halve(float* x, int count) {
    int const at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < count) x[at] /= 2;
}

int main() {
    constexpr int count = 1000;
    static float host[count];
    for (int i = 0; i != count; ++i) host[i] = static_cast<float>(i);
    float* x = nullptr;
    if (cudaMalloc(&x, sizeof host) != cudaSuccess) return 1;
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    halve<<<(count + 255) / 256, 256>>>(x, count);
    if (cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%g\n", static_cast<double>(host[999]));
    cudaFree(x);
}
