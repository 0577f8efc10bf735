// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// libcuota_pytorch.so: PyTorch's device memory out of cuota's pools, under a budget for each device.
//
//     CUOTA_BUDGET=6GiB python3 examples/pytorch_allocator.py libcuota_pytorch.so
//
// In Python, for a part of the program or all of it (what each does when memory is refused: <cuota/interop/pytorch.hpp>):
//
//     allocator = torch.cuda.memory.CUDAPluggableAllocator("libcuota_pytorch.so", "cuota_alloc", "cuota_free")
//     pool = torch.cuda.MemPool(allocator.allocator())
//     with torch.cuda.use_mem_pool(pool): ...
//
//     torch.cuda.memory.change_current_allocator(
//         torch.cuda.memory.CUDAPluggableAllocator("libcuota_pytorch.so", "cuota_alloc_or_throw", "cuota_free"))
//
// The other functions are for ctypes. Only cuota_alloc_or_throw throws. Sizes are bytes; devices are ordinals.
#include <cuota/interop/pytorch.hpp>

#include <cstddef>
#include <fstream>
#include <string>

#include <cuota/report/memory_viz.hpp>
#include <cuota/report/timeline.hpp>

namespace {

cuota::pytorch_memory& memory() noexcept { return cuota::pytorch_memory::of_process(); }

// What `ask` returns; 0 when it fails, and cuota_last_failure says why.
template <class Ask>
std::size_t number(Ask ask) noexcept {
    std::size_t answer = 0;
    memory().try_to([&] { answer = ask(); });
    return answer;
}

// Of a device that nothing was asked of, 0: to look at it starts no CUDA context there.
template <class Ask>
std::size_t figure(int device, Ask ask) noexcept {
    return memory().is_open(device) ? number(ask) : 0;
}

// As copy_text, of what `ask` returns; nothing when that fails.
template <class Ask>
std::size_t text(char* into, std::size_t room, Ask ask) noexcept {
    std::string made;
    memory().try_to([&] { made = ask(); });
    return cuota::copy_text(made, into, room);
}

}  // namespace

#define CUOTA_EXPORTED extern "C" [[gnu::visibility("default")]]

/// For torch.cuda.MemPool: null when it is refused.
CUOTA_EXPORTED void* cuota_alloc(std::size_t bytes, int device, cudaStream_t stream) noexcept {
    return memory().try_allocate(bytes, device, stream);
}
/// For change_current_allocator, where null would be taken for memory.
CUOTA_EXPORTED void* cuota_alloc_or_throw(std::size_t bytes, int device, cudaStream_t stream) {
    return memory().allocate(bytes, device, stream);
}
/// For both.
CUOTA_EXPORTED void cuota_free(void* p, std::size_t bytes, int device, cudaStream_t stream) noexcept {
    memory().deallocate(p, bytes, device, stream);
}
/// For the allocator's set_record_stream_fn.
CUOTA_EXPORTED void cuota_record_stream(void* p, cudaStream_t stream) noexcept {
    memory().record_stream(p, stream);
}
/// For set_reset_fn, which torch.cuda.empty_cache calls.
CUOTA_EXPORTED void cuota_reset() noexcept { (void)memory().trim(); }
/// For set_memory_fraction_fn: a share of the device, 0 to 1.
CUOTA_EXPORTED void cuota_set_fraction(double share, int device) noexcept {
    memory().try_to([&] { memory().set_share(device, share); });
}

/// Limits as CUOTA_BUDGET has them, for devices that nothing was asked of yet. 0, or -1 when the text is wrong.
CUOTA_EXPORTED int cuota_configure(char const* limits) noexcept {
    return memory().try_to([&] { memory().configure(limits); }) ? 0 : -1;
}
/// 0, or -1 when there is no such device.
CUOTA_EXPORTED int cuota_set_limit(int device, std::size_t bytes) noexcept {
    return memory().try_to([&] { memory().set_limit(device, bytes); }) ? 0 : -1;
}
/// All bits set where it is unlimited. Opens the device, as a request does.
CUOTA_EXPORTED std::size_t cuota_limit(int device) noexcept {
    return number([&] { return memory().account(device).limit(); });
}
/// What was taken of the driver: whole pages, what is free in them too.
CUOTA_EXPORTED std::size_t cuota_held(int device) noexcept {
    return figure(device, [&] { return memory().account(device).held(); });
}
CUOTA_EXPORTED std::size_t cuota_peak(int device) noexcept {
    return figure(device, [&] { return memory().account(device).peak(); });
}
/// What was asked for and not given back.
CUOTA_EXPORTED std::size_t cuota_live(int device) noexcept {
    return figure(device, [&] { return memory().stats(device).requested; });
}
/// Gives back to the driver what nobody uses; returns the bytes.
CUOTA_EXPORTED std::size_t cuota_trim() noexcept { return memory().trim(); }

/// Text goes into the caller's buffer, as much as there is room for, and a 0; returned is what all of it takes.
CUOTA_EXPORTED std::size_t cuota_summary(char* into, std::size_t room) noexcept {
    return text(into, room, [] { return memory().summary_text(); });
}
/// A list, of what summary_json says of each device.
CUOTA_EXPORTED std::size_t cuota_summary_json(char* into, std::size_t room) noexcept {
    return text(into, room, [] { return memory().summary_as_json(); });
}
/// Why the last request was refused, or another of these functions did nothing.
CUOTA_EXPORTED std::size_t cuota_last_failure(char* into, std::size_t room) noexcept {
    return text(into, room, [] { return memory().last_failure(); });
}

/// From now on events are remembered for the two that follow. 0, or -1 when they are already.
CUOTA_EXPORTED int cuota_record() noexcept {
    return memory().try_to([] { memory().record(); }) ? 0 : -1;
}
/// A page for a browser: what was live when, and where. 0, or -1 when it cannot be written.
CUOTA_EXPORTED int cuota_write_timeline(char const* path) noexcept {
    return memory().try_to([&] { cuota::write_timeline_file(path, memory().recorded()); }) ? 0 : -1;
}
/// For PyTorch's viewer, pytorch.org/memory_viz. 0, or -1 when it cannot be written.
CUOTA_EXPORTED int cuota_write_memory_viz(char const* path) noexcept {
    return memory().try_to([&] {
        cuota::recording const all = memory().recorded();
        std::ofstream out{path, std::ios::binary | std::ios::trunc};
        cuota::write_memory_viz_pickle(out, all);
    })
               ? 0
               : -1;
}
