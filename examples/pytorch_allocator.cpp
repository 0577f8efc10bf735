// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// libcuota_pytorch.so: allocates PyTorch's device memory from cuota's pools, under one budget per device.
//
//     CUOTA_BUDGET=6GiB python3 examples/pytorch_allocator.py libcuota_pytorch.so
//
// In Python, for a part of the program or for all of it (<cuota/interop/pytorch.hpp> documents how each handles a refusal):
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

#include <cuota/report/export/memory_viz.hpp>
#include <cuota/report/export/timeline.hpp>

namespace {

cuota::pytorch_allocator& memory() noexcept { return cuota::pytorch_allocator::instance(); }

// Returns the result of `ask`, or 0 if it throws; cuota_last_failure returns the reason.
template <class Ask>
std::size_t number(Ask ask) noexcept {
    std::size_t answer = 0;
    memory().try_to([&] { answer = ask(); });
    return answer;
}

// Returns 0 for a device that has not been used, without creating a CUDA context there.
template <class Ask>
std::size_t figure(int device, Ask ask) noexcept {
    return memory().is_initialized(device) ? number(ask) : 0;
}

// Copies the text that `ask` returns, as copy_text does; an empty text if it throws.
template <class Ask>
std::size_t text(char* into, std::size_t room, Ask ask) noexcept {
    std::string made;
    memory().try_to([&] { made = ask(); });
    return cuota::copy_text(made, into, room);
}

}  // namespace

#define CUOTA_EXPORTED extern "C" [[gnu::visibility("default")]]

/// For torch.cuda.MemPool. Returns null if the request is refused.
CUOTA_EXPORTED void* cuota_alloc(std::size_t bytes, int device, cudaStream_t stream) noexcept {
    return memory().try_allocate(bytes, device, stream);
}
/// For change_current_allocator, which does not check for null. Throws if the request is refused.
CUOTA_EXPORTED void* cuota_alloc_or_throw(std::size_t bytes, int device, cudaStream_t stream) {
    return memory().allocate(bytes, device, stream);
}
/// Frees memory of either allocation function.
CUOTA_EXPORTED void cuota_free(void* p, std::size_t bytes, int device, cudaStream_t stream) noexcept {
    memory().deallocate(p, bytes, device, stream);
}
/// For the allocator's set_record_stream_fn.
CUOTA_EXPORTED void cuota_record_stream(void* p, cudaStream_t stream) noexcept {
    memory().record_stream(p, stream);
}
/// For set_reset_fn, which torch.cuda.empty_cache calls. Releases idle memory.
CUOTA_EXPORTED void cuota_reset() noexcept { (void)memory().trim(); }
/// For set_memory_fraction_fn: limits the device to a fraction of its memory, 0 to 1.
CUOTA_EXPORTED void cuota_set_fraction(double share, int device) noexcept {
    memory().try_to([&] { memory().set_fraction(device, share); });
}

/// Sets limits in the syntax of CUOTA_BUDGET, for devices that have not been used yet. Returns 0, or -1 if the text is invalid.
CUOTA_EXPORTED int cuota_configure(char const* limits) noexcept {
    return memory().try_to([&] { memory().configure(limits); }) ? 0 : -1;
}
/// Sets the limit of a device. Returns 0, or -1 if the device does not exist.
CUOTA_EXPORTED int cuota_set_limit(int device, std::size_t bytes) noexcept {
    return memory().try_to([&] { memory().set_limit(device, bytes); }) ? 0 : -1;
}
/// Returns the limit of a device; all bits are set if it is unlimited. Opens the device, as an allocation does.
CUOTA_EXPORTED std::size_t cuota_limit(int device) noexcept {
    return number([&] { return memory().account(device).limit(); });
}
/// Returns the bytes allocated from the driver: whole pages, including free blocks in them.
CUOTA_EXPORTED std::size_t cuota_held(int device) noexcept {
    return figure(device, [&] { return memory().account(device).held(); });
}
CUOTA_EXPORTED std::size_t cuota_peak(int device) noexcept {
    return figure(device, [&] { return memory().account(device).peak(); });
}
/// Returns the requested bytes of all live blocks.
CUOTA_EXPORTED std::size_t cuota_live(int device) noexcept {
    return figure(device, [&] { return memory().stats(device).requested; });
}
/// Releases idle memory to the driver. Returns the released bytes.
CUOTA_EXPORTED std::size_t cuota_trim() noexcept { return memory().trim(); }

/// Writes a summary and a terminating 0 to `into`, truncated to `room` bytes. Returns the size of the whole text.
CUOTA_EXPORTED std::size_t cuota_summary(char* into, std::size_t room) noexcept {
    return text(into, room, [] { return memory().summary_text(); });
}
/// Writes a JSON list with the summary_json of each device.
CUOTA_EXPORTED std::size_t cuota_summary_json(char* into, std::size_t room) noexcept {
    return text(into, room, [] { return memory().summary_as_json(); });
}
/// Writes the reason why the last allocation was refused or the last other call failed.
CUOTA_EXPORTED std::size_t cuota_last_failure(char* into, std::size_t room) noexcept {
    return text(into, room, [] { return memory().last_failure(); });
}

/// Starts recording events for the two functions below. Returns 0, or -1 if recording has already started.
CUOTA_EXPORTED int cuota_record() noexcept {
    return memory().try_to([] { memory().record(); }) ? 0 : -1;
}
/// Writes an HTML page that shows live blocks over time and address. Returns 0, or -1 if the file cannot be written.
CUOTA_EXPORTED int cuota_write_timeline(char const* path) noexcept {
    return memory().try_to([&] { cuota::write_timeline_file(path, memory().recorded()); }) ? 0 : -1;
}
/// Writes a file for PyTorch's viewer, pytorch.org/memory_viz. Returns 0, or -1 if it cannot be written.
CUOTA_EXPORTED int cuota_write_memory_viz(char const* path) noexcept {
    return memory().try_to([&] {
        cuota::recording const all = memory().recorded();
        std::ofstream out{path, std::ios::binary | std::ios::trunc};
        cuota::write_memory_viz_pickle(out, all);
    })
               ? 0
               : -1;
}
