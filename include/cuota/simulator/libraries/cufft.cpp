// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// cuFFT's plans on the simulated runtime: one-dimensional complex transforms, computed in the work area.
#if __has_include(<cufft.h>)
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include <cufft.h>

#include "simulated_library.hpp"

using namespace cuota_simulated;

namespace {

struct plan : library_context {
    bool allocates = true, is_made = false;
    void* area = nullptr;
    int n = 0, batch = 0;

    [[nodiscard]] std::size_t bytes() const {
        return static_cast<std::size_t>(n) * static_cast<std::size_t>(batch) * sizeof(cufftComplex);
    }
};

struct {
    std::mutex guard;
    std::map<cufftHandle, std::shared_ptr<plan>> all;
    cufftHandle last = 0;
} plans;

std::shared_ptr<plan> find(cufftHandle h) {
    std::lock_guard const lock{plans.guard};
    auto const found = plans.all.find(h);
    return found == plans.all.end() ? nullptr : found->second;
}

}  // namespace

cufftResult cufftCreate(cufftHandle* out) {
    if (!out) return CUFFT_INVALID_VALUE;
    std::lock_guard const lock{plans.guard};
    plans.all.emplace(++plans.last, std::make_shared<plan>());
    *out = plans.last;
    return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle h) {
    std::shared_ptr<plan> gone;
    std::lock_guard const lock{plans.guard};
    auto const found = plans.all.find(h);
    if (found == plans.all.end()) return CUFFT_INVALID_PLAN;
    gone = std::move(found->second);
    plans.all.erase(found);
    return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle h, int allocates) {
    auto const p = find(h);
    if (!p) return CUFFT_INVALID_PLAN;
    p->allocates = allocates != 0;
    return CUFFT_SUCCESS;
}

cufftResult cufftMakePlan1d(cufftHandle h, int n, cufftType type, int batch, std::size_t* bytes) {
    auto const p = find(h);
    if (!p || p->is_made) return CUFFT_INVALID_PLAN;
    if (type != CUFFT_C2C) return CUFFT_NOT_SUPPORTED;
    if (n < 1 || batch < 1) return CUFFT_INVALID_SIZE;
    p->n = n;
    p->batch = batch;
    if (p->allocates) {
        if (!p->own.allocate(p->bytes())) return CUFFT_ALLOC_FAILED;
        p->area = p->own.get();
    }
    p->is_made = true;
    if (bytes) *bytes = p->bytes();
    return CUFFT_SUCCESS;
}

cufftResult cufftGetSize(cufftHandle h, std::size_t* bytes) {
    auto const p = find(h);
    if (!p) return CUFFT_INVALID_PLAN;
    if (!bytes) return CUFFT_INVALID_VALUE;
    *bytes = p->bytes();
    return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle h, void* area) {
    auto const p = find(h);
    if (!p || !p->is_made) return CUFFT_INVALID_PLAN;
    p->area = area;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle h, cudaStream_t s) {
    auto const p = find(h);
    if (!p) return CUFFT_INVALID_PLAN;
    p->stream = s;
    return CUFFT_SUCCESS;
}

cufftResult cufftExecC2C(cufftHandle h, cufftComplex* in, cufftComplex* out, int direction) {
    auto const p = find(h);
    if (!p || !p->is_made) return CUFFT_INVALID_PLAN;
    if (!in || !out) return CUFFT_INVALID_VALUE;
    if (!p->area) return CUFFT_NO_WORKSPACE;
    auto const transform = [in, out, direction, n = p->n, batch = p->batch,
                            area = static_cast<cufftComplex*>(p->area)] {
        double const turn = (direction == CUFFT_FORWARD ? -2 : 2) * std::acos(-1.0) / n;
        auto const count = static_cast<std::ptrdiff_t>(n) * batch;
        for (std::ptrdiff_t first = 0; first != count; first += n)
            for (int k = 0; k != n; ++k) {
                double x = 0, y = 0;
                for (int i = 0; i != n; ++i) {
                    double const angle = turn * static_cast<double>(static_cast<std::int64_t>(i) * k % n);
                    x += in[first + i].x * std::cos(angle) - in[first + i].y * std::sin(angle);
                    y += in[first + i].x * std::sin(angle) + in[first + i].y * std::cos(angle);
                }
                area[first + k] = {static_cast<float>(x), static_cast<float>(y)};
            }
        for (std::ptrdiff_t i = 0; i != count; ++i) out[i] = area[i];
    };
    bool const is_enqueued =
        enqueue(p->stream, "cufftExecC2C",
                {{in, p->bytes()}, {out, p->bytes(), true}, {p->area, p->bytes(), true}}, transform);
    return is_enqueued ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}
#endif
