// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A library with a pool of virtual functions and a C interface: with cuota. Usage: pool_after [COUNT [MIB]]
///
/// The library sums a series for each of COUNT values. Returns 2 if it needs more than MIB of device memory. Expected output:
///
///     terms: 1, first sum: 0.2500
///     terms: 4, first sum: 0.4688
///     terms: 16, first sum: 0.5000
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/stream.hpp>

#include "kernels.hpp"

// ---- The C interface.

extern "C" {
enum series_status { series_ok, series_out_of_memory, series_failed };
struct series_context;
series_status series_create(series_context** made, std::size_t memory_limit);
/// Sets result[i] to the sum of values[i] / 2^k for k in [0, terms).
series_status series_sum(series_context* context, float* result, float const* values, std::size_t count,
                         int terms);
void series_destroy(series_context* context);
/// Returns the message of this thread's last error.
char const* series_last_error();
}

// ---- The library.

namespace {

#define CUDA_CHECK(call) check(call, __FILE__, __LINE__)

void check(cudaError_t status, char const* file, int line) {
    if (status == cudaSuccess) return;
    throw std::runtime_error{std::string{file} + ":" + std::to_string(line) + ": " +
                             cudaGetErrorString(status)};
}

class pool {
public:
    virtual ~pool() = default;
    virtual void* alloc(std::size_t bytes, std::size_t* actual_bytes) = 0;
    virtual void free(void* memory, std::size_t actual_bytes) = 0;
};

/// Allocates from a pool of cuota for one stream.
class budgeted_pool final : public pool {
public:
    budgeted_pool(std::size_t limit, cuota::stream_ref stream)
        : memory_{cuota::budget{"series", limit}}, stream_{stream} {}

    void* alloc(std::size_t bytes, std::size_t* actual_bytes) override {
        *actual_bytes = bytes;
        return memory_.allocate(stream_, bytes, "scratch");
    }
    void free(void* memory, std::size_t actual_bytes) override {
        memory_.deallocate(stream_, memory, actual_bytes);
    }

private:
    cuota::scoped_pool memory_;
    cuota::stream_ref stream_;
};

/// A block of a pool, freed when the scope ends.
class pool_floats {
public:
    pool_floats(pool& from, std::size_t count) : from_{from} {
        memory_ = static_cast<float*>(from.alloc(count * sizeof(float), &actual_bytes_));
    }
    pool_floats(pool_floats const&) = delete;
    pool_floats& operator=(pool_floats const&) = delete;
    ~pool_floats() { from_.free(memory_, actual_bytes_); }
    [[nodiscard]] float* get() const { return memory_; }

private:
    pool& from_;
    float* memory_;
    std::size_t actual_bytes_ = 0;
};

thread_local std::string last_error;

/// Calls f and returns its outcome as a code, because exceptions must not cross the C interface.
template <class F>
series_status status_of(F f) {
    try {
        f();
        return series_ok;
    } catch (std::bad_alloc const& refused) {
        last_error = refused.what();
        return series_out_of_memory;
    } catch (std::exception const& error) {
        last_error = error.what();
        return series_failed;
    }
}

}  // namespace

struct series_context {
    explicit series_context(std::size_t limit) : memory{std::make_unique<budgeted_pool>(limit, stream)} {}
    cuota::stream stream;
    std::unique_ptr<pool> memory;
};

series_status series_create(series_context** made, std::size_t memory_limit) {
    return status_of([&] { *made = new series_context{memory_limit}; });
}

series_status series_sum(series_context* context, float* result, float const* values, std::size_t count,
                         int terms) {
    return status_of([&] {
        cudaStream_t const stream = context->stream.get();
        std::size_t const bytes = count * sizeof(float);
        pool_floats const sum{*context->memory, count};
        pool_floats const term{*context->memory, count};
        CUDA_CHECK(cudaMemcpyAsync(term.get(), values, bytes, cudaMemcpyHostToDevice, stream));
        CUDA_CHECK(cudaMemsetAsync(sum.get(), 0, bytes, stream));
        for (int k = 0; k != terms; ++k) {
            kernels::add_scaled(sum.get(), term.get(), 1, count, stream);
            kernels::scale(term.get(), term.get(), 0.5F, count, stream);
        }
        CUDA_CHECK(cudaMemcpyAsync(result, sum.get(), bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
    });
}

void series_destroy(series_context* context) { delete context; }

char const* series_last_error() { return last_error.c_str(); }

// ---- A program that uses it.

int main(int argc, char** argv) {
    std::size_t const count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100'000;
    std::size_t const mebibytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 64;
    if (count == 0 || mebibytes == 0) {
        std::fprintf(stderr, "usage: pool_after [COUNT [MIB]]\n");
        return EXIT_FAILURE;
    }
    series_context* context = nullptr;
    series_status status = series_create(&context, mebibytes << 20);
    std::vector<float> const values = kernels::random_values(count, 3);
    std::vector<float> result(count);
    for (int terms = 1; status == series_ok && terms <= 16; terms *= 4) {
        status = series_sum(context, result.data(), values.data(), count, terms);
        if (status == series_ok) std::printf("terms: %d, first sum: %.4f\n", terms, result.front());
    }
    series_destroy(context);
    if (status == series_ok) return EXIT_SUCCESS;
    std::fprintf(stderr, "series: %s\n", series_last_error());
    return status == series_out_of_memory ? 2 : EXIT_FAILURE;
}
