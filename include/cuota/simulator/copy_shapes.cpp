// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "copy.hpp"
#include "graph.hpp"
#include "virtual_memory.hpp"

#include <algorithm>

// Copies of rectangles and batches, and copies between two devices.
namespace cuota::inline v0::simulator {
namespace {

struct rectangle {
    std::size_t width, height;

    [[nodiscard]] bool empty() const { return width == 0 || height == 0; }
    [[nodiscard]] std::optional<std::size_t> extent(std::size_t pitch) const {
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(pitch, height - 1, &bytes) || __builtin_add_overflow(bytes, width, &bytes))
            return std::nullopt;
        return bytes;
    }
};

cudaError_t check(void const* start, std::size_t pitch, rectangle shape, access how) {
    auto const bytes = shape.extent(pitch);
    bool const fits = bytes && usable(find_memory(start), start, *bytes, how);
    return fits ? cudaSuccess : bad_range(start, bytes.value_or(SIZE_MAX));
}

cudaError_t copy_rows(guard& lock, copy_request row, std::size_t to_pitch, std::size_t from_pitch,
                      rectangle shape, cudaStream_t s) {
    if (shape.width > to_pitch || shape.width > from_pitch) return cudaErrorInvalidPitchValue;
    if (shape.empty()) return find_stream(s) ? cudaSuccess : bad_handle();
    if (!row.to || !row.from) return cudaErrorInvalidValue;
    if (auto const error = check(row.to, to_pitch, shape, access::write); error != cudaSuccess) return error;
    if (auto const error = check(row.from, from_pitch, shape, access::read); error != cudaSuccess)
        return error;
    row.bytes = shape.width;
    auto result = cudaSuccess;
    for (std::size_t y = 0; y < shape.height && result == cudaSuccess; ++y) {
        result = copy(lock, row, s);
        row.has_latency = false;
        row.to = static_cast<std::byte*>(row.to) + to_pitch;
        row.from = static_cast<std::byte const*>(row.from) + from_pitch;
    }
    return result;
}

cudaError_t copy_2d(function f, copy_request row, std::size_t to_pitch, std::size_t from_pitch,
                    rectangle shape, cudaStream_t s) {
    return api(f, [&](guard& lock) { return copy_rows(lock, row, to_pitch, from_pitch, shape, s); });
}

cudaError_t set_rows(guard& lock, void* to, std::size_t pitch, int value, rectangle shape, cudaStream_t s) {
    if (shape.width > pitch) return cudaErrorInvalidValue;
    if (shape.empty()) return find_stream(s) ? cudaSuccess : bad_handle();
    if (auto const error = check(to, pitch, shape, access::write); error != cudaSuccess) return error;
    auto result = cudaSuccess;
    for (std::size_t y = 0; y < shape.height && result == cudaSuccess; ++y)
        result = set(lock, static_cast<std::byte*>(to) + y * pitch, {static_cast<unsigned>(value)},
                     shape.width, s);
    return result;
}

cudaError_t set_2d(function f, void* to, std::size_t pitch, int value, rectangle shape, cudaStream_t s,
                   bool wait) {
    return api(f, [&](guard& lock) {
        auto const where = find_memory(to);
        auto const result = set_rows(lock, to, pitch, value, shape, s);
        bool const device_alone = where && where->kind == memory_kind::device;
        if (result != cudaSuccess || !wait || device_alone || shape.empty()) return result;
        auto const on = find_stream(s);
        wait_for(lock, operation_ref{on->last});
        return failure_of(on->owner);
    });
}

/// Orders the stream after all present work of the devices.
void come_after_all(guard& lock, stream_handle const& s, std::vector<device*> const& devices) {
    auto barrier = make_task([] {});
    auto const come_after = [&](stream const& other) {
        if (other.last) order(*barrier, other.last);
        ordering::learns(*s, other.order_lane.now);
    };
    for (auto const* const d : devices) {
        come_after(*d->legacy);
        for (auto const& other : d->streams) come_after(*other);
    }
    enqueue(lock, s, std::move(barrier));
}

void go_before_all(guard& lock, operation_ref const& work, std::vector<device*> const& devices) {
    for (auto* const d : devices) {
        auto barrier = make_task([] {});
        order(*barrier, work);
        ordering::learns(*d->legacy, work->at);
        enqueue(lock, d->legacy, std::move(barrier));
    }
}

#if CUDART_VERSION >= 13000
struct batch {
    void* const* to;
    void const* const* from;
    std::size_t const* sizes;
    std::size_t count;
    cudaMemcpyAttributes const* attributes;
    std::size_t const* first_of;  ///< index of the first copy of each attribute
    std::size_t attribute_count;

    [[nodiscard]] bool makes_sense() const {
        if (!to || !from || !sizes || !attributes || !first_of) return false;
        if (count == 0 || attribute_count == 0 || attribute_count > count || first_of[0] != 0) return false;
        for (std::size_t i = 1; i < attribute_count; ++i)
            if (first_of[i] <= first_of[i - 1] || first_of[i] >= count) return false;
        return true;
    }
    [[nodiscard]] std::optional<source_read> read_of(std::size_t index) const {
        auto const* const next = std::upper_bound(first_of, first_of + attribute_count, index);
        switch (attributes[next - first_of - 1].srcAccessOrder) {
            case cudaMemcpySrcAccessOrderStream:
            // Both permit a read in stream order.
            case cudaMemcpySrcAccessOrderAny: return source_read::in_order;
            case cudaMemcpySrcAccessOrderDuringApiCall: return source_read::now;
            default: return std::nullopt;
        }
    }
    [[nodiscard]] cudaError_t check(std::size_t i) const {
        if (!read_of(i) || !to[i] || !from[i] || sizes[i] == 0) return cudaErrorInvalidValue;
        if (!usable(find_memory(to[i]), to[i], sizes[i], access::write)) return bad_range(to[i], sizes[i]);
        bool const source = usable(find_memory(from[i]), from[i], sizes[i], access::read);
        return source ? cudaSuccess : bad_range(from[i], sizes[i]);
    }
};

/// Enqueues the copies in reverse, which exposes programs that rely on an order.
cudaError_t copy_batch(guard& lock, batch const& b, cudaStream_t s) {
    if (s == nullptr || s == cudaStreamLegacy || !b.makes_sense()) return cudaErrorInvalidValue;
    auto const on = find_stream(s);
    if (!on) return bad_handle();
    for (std::size_t i = 0; i < b.count; ++i) {
        if (auto const error = b.check(i); error != cudaSuccess) return error;
        if (on->capturing.in && b.read_of(i) == source_read::now)  // a node reads when it runs
            return invalidate(*on->capturing.in, cudaErrorStreamCaptureUnsupported);
    }
    auto result = cudaSuccess;
    for (auto i = b.count; i-- != 0 && result == cudaSuccess;)
        result = copy(lock, {b.to[i], b.from[i], b.sizes[i], cudaMemcpyDefault, false, *b.read_of(i)}, s);
    return result;
}
#endif

}  // namespace
}  // namespace cuota::inline v0::simulator

using namespace cuota::simulator;

cudaError_t cudaMemcpyPeer(void* to, int to_device, void const* from, int from_device, size_t bytes) {
    return api(function::cudaMemcpyPeer, [&](guard& lock) {
        auto *const target = find_device(to_device), *const source = find_device(from_device);
        if (!target || !source) return cudaErrorInvalidDevice;
        auto const there = find_memory(to), here = find_memory(from);
        bool const placed = there && here && there->device == to_device && here->device == from_device;
        if (bytes != 0 && !placed) return cudaErrorInvalidValue;
        auto const s = current_device().legacy;
        come_after_all(lock, s, {&current_device(), target, source});
        auto const result = copy(lock, {to, from, bytes, cudaMemcpyDeviceToDevice, false}, cudaStreamLegacy);
        if (result == cudaSuccess) go_before_all(lock, operation_ref{s->last}, {target, source});
        return result;
    });
}

#define CUOTA_2D_COPY(name, suffix, waits, parameters_end, stream_of)                                        \
    extern "C" [[gnu::visibility("default")]] cudaError_t name##suffix(                                      \
        void* to, size_t to_pitch, void const* from, size_t from_pitch, size_t width, size_t height,         \
        cudaMemcpyKind kind parameters_end) {                                                                \
        return copy_2d(function::name, {to, from, 0, kind, waits}, to_pitch, from_pitch, {width, height},    \
                       stream_of);                                                                           \
    }
#define CUOTA_2D_SET(name, suffix, waits, parameters_end, stream_of)                                         \
    extern "C" [[gnu::visibility("default")]] cudaError_t name##suffix(                                      \
        void* to, size_t pitch, int value, size_t width, size_t height parameters_end) {                     \
        return set_2d(function::name, to, pitch, value, {width, height}, stream_of, waits);                  \
    }
#define CUOTA_NO_MORE
#define CUOTA_AND_STREAM , cudaStream_t s

CUOTA_2D_COPY(cudaMemcpy2D, , true, CUOTA_NO_MORE, cudaStreamLegacy)
CUOTA_2D_COPY(cudaMemcpy2D, _ptds, true, CUOTA_NO_MORE, cudaStreamPerThread)
CUOTA_2D_COPY(cudaMemcpy2DAsync, , false, CUOTA_AND_STREAM, s)
CUOTA_2D_COPY(cudaMemcpy2DAsync, _ptsz, false, CUOTA_AND_STREAM, s ? s : cudaStreamPerThread)
CUOTA_2D_SET(cudaMemset2D, , true, CUOTA_NO_MORE, cudaStreamLegacy)
CUOTA_2D_SET(cudaMemset2D, _ptds, true, CUOTA_NO_MORE, cudaStreamPerThread)
CUOTA_2D_SET(cudaMemset2DAsync, , false, CUOTA_AND_STREAM, s)
CUOTA_2D_SET(cudaMemset2DAsync, _ptsz, false, CUOTA_AND_STREAM, s ? s : cudaStreamPerThread)

#if CUDART_VERSION >= 13000  // has a different signature in 12
cudaError_t cudaMemcpyBatchAsync(void* const* to, void const* const* from, size_t const* sizes, size_t count,
                                 cudaMemcpyAttributes* attributes, size_t* first_of, size_t attribute_count,
                                 cudaStream_t s) {
    return api(function::cudaMemcpyBatchAsync, [&](guard& lock) {
        return copy_batch(lock, {to, from, sizes, count, attributes, first_of, attribute_count}, s);
    });
}

extern "C" [[gnu::visibility("default")]] cudaError_t cudaMemcpyBatchAsync_ptsz(
    void* const* to, void const* const* from, size_t const* sizes, size_t count,
    cudaMemcpyAttributes* attributes, size_t* first_of, size_t attribute_count, cudaStream_t s) {
    return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first_of, attribute_count,
                                s ? s : cudaStreamPerThread);
}
#endif
