// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Stream-ordered copies and fills with an explicit direction. 0 bytes or words make no call.
/// The caller keeps both ends alive, and the source unchanged, until the stream has passed this point.
/// A copy with a host end makes one CUDA call for each piece between multiples of registered_part on either end. All throw cuda_error:
/// nothing is enqueued, or the host has waited for the earlier pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuota/core/config.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0::rt {

/// Copies from pinned host memory.
void copy_to_device(void* to, void const* from, std::size_t bytes, stream_ref s,
                    source_location where = source_location::current());

/// Copies to pinned host memory.
void copy_to_host(void* to, void const* from, std::size_t bytes, stream_ref s,
                  source_location where = source_location::current());

/// Copies within device memory. The ends must not overlap.
void copy_on_device(void* to, void const* from, std::size_t bytes, stream_ref s,
                    source_location where = source_location::current());

/// Copies between any memory (cudaMemcpyDefault). May block for pageable host memory.
void copy_anywhere(void* to, void const* from, std::size_t bytes, stream_ref s,
                   source_location where = source_location::current());

/// Sets every byte.
void fill_bytes(void* to, unsigned char value, std::size_t bytes, stream_ref s,
                source_location where = source_location::current());

/// A value that a fill repeats.
struct fill_word {
    std::uint32_t bits;     ///< in memory order; bytes beyond `bytes` are ignored
    std::size_t bytes = 1;  ///< 1, 2 or 4
};

/// Fills device memory with `count` copies of a word; `to` must be aligned to it. Needs no kernel.
void fill_words(void* to, fill_word value, std::size_t count, stream_ref s,
                source_location where = source_location::current());

}  // namespace cuota::inline v0::rt

#if CUOTA_DEFINE_MEMORY

#include <cuda.h>

#include <cuota/runtime/rt/drain.hpp>
#include <cuota/runtime/rt/driver_call.hpp>

namespace cuota::inline v0::rt::driver {

/// The runtime can only set bytes.
struct memset_calls {
    decltype(&cuMemsetD16Async) of_16_bits;
    decltype(&cuMemsetD32Async) of_32_bits;
    bool is_complete;
};

/// Looks the functions up once. Threads: any. Throws: cuda_error.
[[nodiscard]] memset_calls const& memsets();

CUOTA_INLINE memset_calls const& memsets() {
    constexpr unsigned since = 7000;  // added the form for per-thread default streams
    static memset_calls const found = [] {
        memset_calls calls{};
        calls.is_complete = find_call(calls.of_16_bits, "cuMemsetD16Async", since) &&
                            find_call(calls.of_32_bits, "cuMemsetD32Async", since);
        return calls;
    }();
    return found;
}

}  // namespace cuota::inline v0::rt::driver

namespace cuota::inline v0::rt {

namespace detail {

void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, stream_ref s,
          source_location where);

CUOTA_INLINE void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, stream_ref s,
                       source_location where) {
    cuota::detail::on_device_of const here{s, where};
    auto* const target = static_cast<std::byte*>(to);
    auto const* const source = static_cast<std::byte const*>(from);
    for (std::size_t done = 0; done != bytes;) {
        std::size_t const part = within_part(target + done, within_part(source + done, bytes - done));
        set_call_site(where);
        cudaError_t const code = cudaMemcpyAsync(target + done, source + done, part, kind, s.get());
        if (code != cudaSuccess && done != 0) drain(s);
        check(code, "cudaMemcpyAsync", where);
        done += part;
    }
}

}  // namespace detail

CUOTA_INLINE void copy_to_device(void* to, void const* from, std::size_t bytes, stream_ref s,
                                 source_location where) {
    detail::copy(to, from, bytes, cudaMemcpyHostToDevice, s, where);
}

CUOTA_INLINE void copy_to_host(void* to, void const* from, std::size_t bytes, stream_ref s,
                               source_location where) {
    detail::copy(to, from, bytes, cudaMemcpyDeviceToHost, s, where);
}

CUOTA_INLINE void copy_on_device(void* to, void const* from, std::size_t bytes, stream_ref s,
                                 source_location where) {
    if (bytes == 0) return;
    cuota::detail::on_device_of const here{s, where};
    set_call_site(where);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s.get()), "cudaMemcpyAsync", where);
}

CUOTA_INLINE void copy_anywhere(void* to, void const* from, std::size_t bytes, stream_ref s,
                                source_location where) {
    detail::copy(to, from, bytes, cudaMemcpyDefault, s, where);
}

CUOTA_INLINE void fill_bytes(void* to, unsigned char value, std::size_t bytes, stream_ref s,
                             source_location where) {
    if (bytes == 0) return;
    cuota::detail::on_device_of const here{s, where};
    set_call_site(where);
    check(cudaMemsetAsync(to, value, bytes, s.get()), "cudaMemsetAsync", where);
}

CUOTA_INLINE void fill_words(void* to, fill_word value, std::size_t count, stream_ref s,
                             source_location where) {
    auto const byte = static_cast<unsigned char>(value.bits);
    std::uint32_t const all =
        value.bytes == 4 ? ~std::uint32_t{0} : (std::uint32_t{1} << (8 * value.bytes)) - 1;
    bool const is_one_byte = ((value.bits ^ byte * std::uint32_t{0x0101'0101}) & all) == 0;
    if (is_one_byte) return fill_bytes(to, byte, count * value.bytes, s, where);
    if (count == 0) return;
    s.check_reachable(where);
    device const on = s.device();
    device_scope const here{on};
    driver::memset_calls const& native = driver::memsets();
    check(native.is_complete ? cudaSuccess : cudaErrorNotSupported, "cuMemsetD32Async", where);
    auto const at = reinterpret_cast<CUdeviceptr>(to);
    auto const set = [&] {
        return value.bytes == 2
                   ? native.of_16_bits(at, static_cast<unsigned short>(value.bits), count, s.get())
                   : native.of_32_bits(at, value.bits, count, s.get());
    };
    set_call_site(where);
    CUresult code = set();
    if (code == CUDA_ERROR_INVALID_CONTEXT) {  // the thread has not called the runtime yet
        check(cudaSetDevice(on.ordinal()), "cudaSetDevice", where);
        code = set();
    }
    check(driver::as_runtime(code), value.bytes == 2 ? "cuMemsetD16Async" : "cuMemsetD32Async", where);
}

}  // namespace cuota::inline v0::rt

#endif
