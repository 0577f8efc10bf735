// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A library with a pool of virtual functions and a C interface: before cuota. Usage: pool_before [COUNT [MIB]]
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
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime.h>

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

struct cuda_error : std::runtime_error {
    cuda_error(cudaError_t status, std::string const& where)
        : runtime_error{where + ": " + cudaGetErrorString(status)}, code{status} {}
    cudaError_t code;
};

#define CUDA_CHECK(call) check(call, __FILE__, __LINE__)

void check(cudaError_t status, char const* file, int line) {
    if (status != cudaSuccess) throw cuda_error{status, std::string{file} + ":" + std::to_string(line)};
}

class pool {
public:
    virtual ~pool() = default;
    virtual void* alloc(std::size_t bytes, std::size_t* actual_bytes) = 0;
    virtual void free(void* memory, std::size_t actual_bytes) = 0;
};

/// Allocates for one stream, from the smallest cached block that suffices or by cudaMalloc. Freed blocks are cached.
class caching_pool final : public pool {
public:
    explicit caching_pool(std::size_t limit) : limit_{limit} {}
    caching_pool(caching_pool const&) = delete;
    caching_pool& operator=(caching_pool const&) = delete;
    ~caching_pool() override {
        for (block const& b : idle_) cudaFree(b.memory);
    }

    void* alloc(std::size_t bytes, std::size_t* actual_bytes) override {
        auto best = idle_.end();
        for (auto it = idle_.begin(); it != idle_.end(); ++it)
            if (it->bytes >= bytes && (best == idle_.end() || it->bytes < best->bytes)) best = it;
        if (best != idle_.end()) {
            block const found = *best;
            idle_.erase(best);
            *actual_bytes = found.bytes;
            return found.memory;
        }
        std::size_t const rounded = (bytes + alignment - 1) / alignment * alignment;
        if (!fits(rounded)) release_idle();
        if (!fits(rounded)) throw cuda_error{cudaErrorMemoryAllocation, "caching_pool"};
        void* memory = nullptr;
        CUDA_CHECK(cudaMalloc(&memory, rounded));
        held_ += rounded;
        *actual_bytes = rounded;
        return memory;
    }

    void free(void* memory, std::size_t actual_bytes) override { idle_.push_back({memory, actual_bytes}); }

private:
    struct block {
        void* memory;
        std::size_t bytes;
    };
    static constexpr std::size_t alignment = 256;

    [[nodiscard]] bool fits(std::size_t bytes) const { return bytes <= limit_ && held_ <= limit_ - bytes; }

    void release_idle() {
        for (; !idle_.empty(); idle_.pop_back()) {
            CUDA_CHECK(cudaFree(idle_.back().memory));
            held_ -= idle_.back().bytes;
        }
    }

    std::size_t limit_;
    std::size_t held_ = 0;
    std::vector<block> idle_;
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
    } catch (cuda_error const& error) {
        last_error = error.what();
        return error.code == cudaErrorMemoryAllocation ? series_out_of_memory : series_failed;
    } catch (std::exception const& error) {
        last_error = error.what();
        return series_failed;
    }
}

}  // namespace

struct series_context {
    explicit series_context(std::size_t limit) : memory{std::make_unique<caching_pool>(limit)} {
        CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    series_context(series_context const&) = delete;
    series_context& operator=(series_context const&) = delete;
    ~series_context() {
        cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
    }
    std::unique_ptr<pool> memory;
    cudaStream_t stream = nullptr;
};

series_status series_create(series_context** made, std::size_t memory_limit) {
    return status_of([&] { *made = new series_context{memory_limit}; });
}

series_status series_sum(series_context* context, float* result, float const* values, std::size_t count,
                         int terms) {
    return status_of([&] {
        cudaStream_t const stream = context->stream;
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
        std::fprintf(stderr, "usage: pool_before [COUNT [MIB]]\n");
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
