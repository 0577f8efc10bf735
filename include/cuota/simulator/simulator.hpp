// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#define CUOTA_SIMULATOR_API [[gnu::visibility("default")]]

/// Control of the simulated CUDA runtime, for tests and for programs that run where there is no GPU.
///
/// A program that links `cuota_simulator` in place of libcudart runs the same CUDA calls over host memory.
/// This header is the back door: it sets the shape of the machine, makes calls fail, stops and delays
/// streams, and tells what is still alive. It talks to the simulator only; with the real runtime these
/// functions do not link.
///
/// Environment, read when the library is loaded (a malformed value ends the program with one line, status 2):
///   CUOTA_SIM_DEVICES  number of devices, 0 to 16                              default 1
///   CUOTA_SIM_MEMORY   memory of each, as 8GiB, 512MiB, 64KiB or plain bytes   default 8GiB
///   CUOTA_SIM_FAIL     NAME:N or any:N fails the N-th call; with :sticky every call from the N-th on
///   CUOTA_SIM_ORDER    off, report or fatal: what a race does, see order_checks        default report
///   CUOTA_SIM_CHECKS   off, heap or strict: see memory_checks                          default heap
///   CUOTA_SIM_MISUSE   report or fatal: see on_misuse                                  default report
///   CUOTA_SIM_REPORT   "stderr" or a file: at exit, `key=value` lines of what was used, leaked and misused
namespace cuota::inline v0::simulator {

/// The machine that is simulated. The memory of a device is counted in units of 512 bytes.
struct options {
    int devices = 1;
    std::size_t capacity = std::size_t{8} << 30;
};

/// What was handed out and not yet given back.
///
/// An allocation counts from the call that made it to the call that frees it, stream-ordered ones included;
/// memory of cuMemCreate until its last handle and its last mapping are gone.
/// What pools keep cached, the default streams, the default pools and registered host memory do not count.
struct live_counts {
    std::size_t device_allocations = 0;
    std::size_t device_bytes = 0;  ///< in units of 512 bytes
    std::size_t pinned_allocations = 0;
    std::size_t pinned_bytes = 0;  ///< as asked for
    std::size_t managed_allocations = 0;
    std::size_t managed_bytes = 0;  ///< as asked for
    std::size_t streams = 0;
    std::size_t events = 0;
    std::size_t pools = 0;
    std::size_t address_ranges = 0;  ///< reserved by cuMemAddressReserve

    /// The number of live things of all kinds.
    [[nodiscard]] std::size_t total() const noexcept {
        return device_allocations + pinned_allocations + managed_allocations + streams + events + pools +
               address_ranges;
    }
};

/// Calls that broke a rule of CUDA. All but `races` were refused.
struct misuse_counts {
    std::uint64_t double_frees = 0;         ///< freed again, while the address was not in use
    std::uint64_t foreign_frees = 0;        ///< an address that this kind of free does not own
    std::uint64_t bad_ranges = 0;           ///< a copy or memset that leaves its allocation
    std::uint64_t bad_directions = 0;       ///< a copy whose kind does not fit its pointers
    std::uint64_t bad_handles = 0;          ///< a stream, event or pool that is unknown or destroyed
    std::uint64_t calls_in_callbacks = 0;   ///< CUDA calls inside a host function or a kernel
    std::uint64_t device_kernels = 0;       ///< launches of code that exists for a device only
    std::uint64_t races = 0;                ///< pairs of accesses that nothing orders: see order_reports
    std::uint64_t host_accesses = 0;        ///< host code touched memory of a device
    std::uint64_t illegal_accesses = 0;     ///< work touched memory that is not there, or not there yet
    std::uint64_t out_of_bounds = 0;        ///< writes beside an allocation
    std::uint64_t uninitialised_reads = 0;  ///< copies to the host of bytes that nobody has written

    [[nodiscard]] std::uint64_t total() const noexcept {
        return double_frees + foreign_frees + bad_ranges + bad_directions + bad_handles + calls_in_callbacks +
               device_kernels + races + host_accesses + illegal_accesses + out_of_bounds +
               uninitialised_reads;
    }
};

/// What the memory of devices is made of, and so which mistakes with it are found.
///
/// What is refused or reported whatever the choice: frees of what is not owned or was freed before, copies and
/// memsets that leave their allocation or have the wrong direction, and work that reaches memory before its
/// cudaMallocAsync or after its cudaFreeAsync.
enum class memory_checks {
    off,  ///< plain memory of the host, as fast as it is
    heap,  ///< the same, poisoned when it is new and when it is freed: what AddressSanitizer, LeakSanitizer and
           ///< valgrind know of heap memory they know of this
    /// Memory that faults when host code touches it, outside of kernels and copies. Found as well: kernels that touch
    /// what is freed, not there yet, another device's or nobody's, which fail the device as they would on a GPU; kernels
    /// that write beside an allocation, by one byte at either end, or start with a read there; copies to the host of
    /// bytes that nobody has written. Messages name the two places in the program's own code, with their callers. Takes
    /// pages of 4 KiB for every allocation and a signal for every allocation that a kernel touches. While a kernel runs,
    /// what it uses is open to other threads, too. Under ThreadSanitizer: the same as heap.
    strict
};

/// For memory that is allocated from now on. `reset` goes back to what CUOTA_SIM_CHECKS asked for.
CUOTA_SIMULATOR_API void set_memory_checks(memory_checks wanted);
[[nodiscard]] CUOTA_SIMULATOR_API memory_checks memory_checked();

/// What misuse does besides being counted and refused.
enum class on_misuse {
    report,  ///< told in `misuse_reports()`
    fatal    ///< told on standard error, and the program aborts
};

/// Races have a choice of their own: `set_order_checks`. `reset` goes back to what CUOTA_SIM_MISUSE asked for.
CUOTA_SIMULATOR_API void set_on_misuse(on_misuse wanted);

/// One line for each misuse but the races: the call and its place, and the memory or handle with the place where it was
/// made, freed or destroyed. Places need debug information and the program addr2line. The first 1000 since the start
/// or `reset`.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> misuse_reports();

/// What becomes of host code that touches memory of a device, with `memory_checks::strict`.
enum class host_access {
    ends,  ///< a message on standard error, and the program aborts
    throws  ///< host_access_error, out of the very instruction: only for code compiled with -fnon-call-exceptions
};

CUOTA_SIMULATOR_API void set_host_access(host_access wanted);

/// Host code touched memory of a device. what(): the place, the address, the allocation and where it was made.
class CUOTA_SIMULATOR_API host_access_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Whether a planned fault goes away by itself.
enum class fault_kind { once, until_cleared };

/// Makes the machine new: waits for all work, then forgets faults, planned faults, counters, peaks, jitter,
/// races and other programs, and checks order as CUOTA_SIM_ORDER says. What is alive stays alive.
///
/// Throws: std::logic_error when a `hold` is alive, or when something is alive and `shape` is not the present
///         one; std::invalid_argument for a shape that makes no sense. Nothing has changed then.
CUOTA_SIMULATOR_API void reset(options shape = {});

/// The shape now simulated.
[[nodiscard]] CUOTA_SIMULATOR_API options shape();

[[nodiscard]] CUOTA_SIMULATOR_API live_counts live();

/// One line for each live device, managed or pinned allocation, oldest first; then one for each stream, event, pool
/// and reserved range of addresses. All name the call that made it and its place.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> leaks();

[[nodiscard]] CUOTA_SIMULATOR_API misuse_counts misuse();

/// The most device memory in use at once since the start, `reset` or `reset_peaks`, in units of 512 bytes as
/// cudaMemGetInfo sees it: what pools keep cached is part of it, other programs' memory is not.
[[nodiscard]] CUOTA_SIMULATOR_API std::size_t peak_device_bytes(int device = 0);

/// The most pinned host memory in use at once, in bytes as asked for.
[[nodiscard]] CUOTA_SIMULATOR_API std::size_t peak_pinned_bytes();

/// Lowers both peaks to what is in use now.
CUOTA_SIMULATOR_API void reset_peaks();

/// How often a CUDA function was called, refused calls included.
///
/// Throws: std::invalid_argument for a name the simulator does not define
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t calls(const char* function);

/// All calls but those of cudaGetLastError, cudaPeekAtLastError and the four that name an error.
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t calls();

/// Calls of all functions that allocate device, managed or pinned memory.
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t allocation_calls();

/// Plans a fault: the `nth` call from now on (1 is the next) of `function`, or of any function when it is
/// null, returns `code` and does nothing else; `until_cleared`: that call and all later ones. Plans add up.
///
/// `code` cudaSuccess stands for cudaErrorMemoryAllocation in functions that allocate, cudaErrorUnknown
/// elsewhere. The functions that report errors never fail and do not count as calls of "any".
///
/// Throws: std::invalid_argument for an unknown name or an `nth` of zero
CUOTA_SIMULATOR_API void fail_call(const char* function, std::uint64_t nth, cudaError_t code = cudaSuccess,
                                   fault_kind kind = fault_kind::once);

/// From now on each call of `function`, or of any function when it is null, fails with this probability, as
/// `fail_call` would make it fail. The same calls in the same order fail the same way for the same seed; calls
/// of several threads have no such order. Plans add up.
///
/// Throws: std::invalid_argument for an unknown name, one that never fails, or a probability outside 0 to 1
CUOTA_SIMULATOR_API void fail_randomly(const char* function, double probability, std::uint64_t seed,
                                       cudaError_t code = cudaSuccess);

/// From now on every allocation of more than `bytes` is out of memory: device, managed, pinned and
/// stream-ordered memory, and cuMemCreate.
CUOTA_SIMULATOR_API void fail_larger_than(std::size_t bytes);

/// The device is gone: its queued work is dropped, and its calls fail with cudaErrorDevicesUnavailable until
/// `reset`. Those that free or destroy still give back, and say so with the same error.
///
/// Throws: std::invalid_argument for a device that does not exist
CUOTA_SIMULATOR_API void lose_device(int device);

/// Ends all that `fail_call`, `fail_randomly` and `fail_larger_than` have planned.
CUOTA_SIMULATOR_API void clear_faults();

/// How many calls failed because that was planned.
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t faults_injected();

/// Memory of a device that somebody else holds; it may be more than there is.
///
/// Throws: std::invalid_argument for a device that does not exist
CUOTA_SIMULATOR_API void set_other_programs(int device, std::size_t bytes);

/// Waits a random time up to `max` before each piece of stream work; zero ends that. Shows ordering that held
/// by luck. The same seed draws the same delays, but which work draws which depends on the threads.
CUOTA_SIMULATOR_API void set_jitter(std::uint64_t seed, std::chrono::microseconds max);

/// While one is alive no stream work starts, on any stream, so that a missing wait shows every time. Work
/// that has already started runs to its end. Several holds may end in any order; work resumes after the last.
/// What a program does before the end of a hold comes before the work that was held, for ThreadSanitizer too.
///
/// Host calls that wait for unfinished work (synchronise, cudaFree, a copy to pageable memory, `reset`) never
/// return while the calling thread is also the one to end the hold.
class CUOTA_SIMULATOR_API hold {
public:
    hold();
    ~hold();
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;
};

/// What the happens-before checker does about two conflicting accesses that nothing orders.
///
/// It knows what copies, memsets, cudaMallocAsync and the frees touch, and what kernels have declared: the
/// launcher calls `cuota_simulator_declare(stream, pointer, bytes, writes)` before a launch, for the next launch of
/// its own thread on that stream; what was freed in stream order is then a race too. Accesses of host code are ThreadSanitizer's business. A race is found by the
/// order of the calls alone, on every run, however the work happened to fall; only a query that was answered
/// cudaSuccess in time makes an order that the next run may not have.
enum class order_checks {
    off,     ///< nothing is checked, and nothing noted for later
    report,  ///< counted in `misuse().races` and told in `order_reports()`
    fatal    ///< told on standard error, and the program aborts
};

CUOTA_SIMULATOR_API void set_order_checks(order_checks wanted);

/// One line for each race since the start or `reset`: both operations, their streams, ranges and allocation.
/// A pair of functions on a pair of streams is told once for an allocation. After 1000 lines races are counted only.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> order_reports();

/// How much the checker has looked at.
struct order_counts {
    std::uint64_t accesses = 0;  ///< ranges checked; those of a kernel only when declared
    std::uint64_t conflicts =
        0;  ///< times that one met another that nothing orders it with, repeats included
};

[[nodiscard]] CUOTA_SIMULATOR_API order_counts order_checked();

/// One screen for people: calls by function, what lives, peaks, faults, misuse and races.
[[nodiscard]] CUOTA_SIMULATOR_API std::string report();

}  // namespace cuota::inline v0::simulator
