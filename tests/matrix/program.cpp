// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Uses the functions for which cuota/runtime/rt/older_toolkits.hpp has substitutes, on a simulated machine of two devices, and a loader, and
// looks at what is left at the end. Prints the checks that failed, and returns 1 if there are any.
#include <cstddef>
#include <cstdio>
#include <vector>

#include <cuota/all.hpp>
#include <cuota/simulator.hpp>

using namespace cuota::literals;

namespace {

int failures = 0;

void expect(bool is_true, char const* what) {
    if (is_true) return;
    std::printf("FAILED: %s\n", what);
    failures = 1;
}

void uses_substitutes() {
    // cudaStreamGetDevice: of a stream that another library created.
    for (int const device : {1, 0}) {
        cudaStream_t native = nullptr;
        expect(cudaSetDevice(device) == cudaSuccess, "cudaSetDevice");
        expect(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking) == cudaSuccess,
               "cudaStreamCreateWithFlags");
        expect(cudaSetDevice(0) == cudaSuccess, "cudaSetDevice");
        expect(cuota::stream_ref{native}.device() == cuota::device{device}, "the device of a stream");
        expect(cuota::device::current() == cuota::device{0}, "the current device stays current");
        expect(cudaStreamDestroy(native) == cudaSuccess, "cudaStreamDestroy");
    }

    // cudaDevAttrHostNumaId.
    bool const has_attribute = CUDART_VERSION >= 12020;
    auto const node = cuota::device{0}.host_numa_node();
    expect(has_attribute || !node, "no NUMA node without the attribute");

    // Driver functions by version: virtual memory of a pool, fills by words.
    cuota::budget budget{"matrix", 64 << 20};
    cuota::scoped_pool pool{budget};
    cuota::stream stream;
    cuota::device_buffer<float> values{1000, stream, pool, "values"};
    values.fill(1.5F, stream);
    std::vector<float> seen(1000);
    cudaStream_t const native = stream.get();
    expect(cudaMemcpyAsync(seen.data(), values.read(stream).data(), 1000 * sizeof(float),
                           cudaMemcpyDeviceToHost, native) == cudaSuccess,
           "cudaMemcpyAsync");
    stream.synchronize();
    expect(seen == std::vector<float>(1000, 1.5F), "the values of a filled buffer");
    expect(cuota::query_cuda().built_with == CUDART_VERSION, "the version of the headers");
}

/// In a template, where some compilers make other mistakes.
template <class T>
void streams_and_refuses(std::vector<T> values) {
    cuota::budget budget{"loader", 1_MiB};
    cuota::batch_loader loader{cuota::memory_dataset{"values", std::move(values), {10}},
                               {.batch_size = 32, .device_budget = budget}};
    std::size_t samples = 0;
    for (cuota::batch const& batch : loader.epoch(0)) samples += batch.size();
    expect(samples == 100, "the samples of an epoch");
    try {
        budget.charge(2_MiB, "too much");
        expect(false, "a refusal");
    } catch (cuota::budget_exceeded const&) {}
    loader = {cuota::memory_dataset{"others", std::vector<T>(10), {10}}, {.batch_size = 1}};
}

}  // namespace

int main() try {
    uses_substitutes();
    streams_and_refuses(std::vector<float>(1000));
    expect(cuota::simulator::live().total() == 0, "nothing is left");
    return failures;
} catch (std::exception const& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
}
