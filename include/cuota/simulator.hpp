// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Control of the simulated CUDA runtime.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/simulator/export.hpp>
#include <cuota/simulator/host_kernel.hpp>
#include <cuota/version.hpp>

/// Control of the simulated CUDA runtime, for tests and for programs that run without a GPU.
///
/// A program that links `cuota_simulator` in place of libcudart runs the same CUDA calls over host memory.
///
/// Differences from CUDA: cudaMallocAsync and cudaFreeAsync on a capturing stream return cudaErrorStreamCaptureUnsupported and invalidate
/// the capture; nodes are added by capture only; cudaDeviceReset waits for the device's work.
///
/// Environment, read when the library is loaded (a malformed value prints one line and exits with status 2):
///   CUOTA_SIM_DEVICES   number of devices, 0 to 16                                  default 1
///   CUOTA_SIM_MEMORY    memory of each: 8GiB, 512MiB, 64KiB or plain bytes          default 8GiB
///   CUOTA_SIM_OTHERS    memory of each used by other programs, until `reset`        default 0
///   CUOTA_SIM_FAIL      faults, until `reset`, separated by commas; NAME is a function or "any":
///                       NAME:N         the N-th call fails; with :sticky, all later calls as well
///                       NAME:5%        each call fails with that probability; with :seed=S, default 1
///                       >64MiB         larger allocations fail
///   CUOTA_SIM_JITTER    maximum random delay before each operation: 200us; with :seed=S        default none
///   CUOTA_SIM_SCHEDULE  workers, late or late:SEED, see schedule; late alone prints its seed to standard error
///                       default workers
///   CUOTA_SIM_LINK      25GB/s,10us (speed of both directions, latency) or h2d=25GB/s, d2h=12.5GB/s, d2d=1TB/s,
///                       latency=10us, kernel=50us, engines=2, see link_options      default no time
///   CUOTA_SIM_RACES     off, report or fatal, see race_checks                      default report
///   CUOTA_SIM_CHECKS    off, heap or strict, see memory_checks                      default heap
///   CUOTA_SIM_MISUSE    report or fatal, see on_misuse                              default report
///   CUOTA_SIM_UNKIND    serial-host, free-at-once, stale-errors, separated by commas, or all, see unkindness
///                                                                                   default none
///   CUOTA_SIM_REPORT    "stderr" or a file, for `key=value` lines of usage, leaks and misuse at exit
///
/// Counters, peaks and reports begin at the start or the last `reset`.
/// Threads: any, outside of kernels and host functions.
/// Throws: std::invalid_argument for a device or function that does not exist and for a value outside its range; std::bad_alloc from
/// functions that return lists or texts.
/// Example: tests/simulator/control_faults.cpp and the other tests in that folder
namespace cuota::inline v0::simulator {

/// Configuration of the simulated machine. Device memory is counted in units of 512 bytes.
struct options {
    int devices = 1;                              ///< 0 to 16
    std::size_t capacity = std::size_t{8} << 30;  ///< bytes of each device
    /// NUMA node nearest to each device (cudaDevAttrHostNumaId): one entry for each device, or one for all; -1 or no entry: unknown.
    std::vector<int> host_nodes{};
    bool has_peer_access = true;  ///< whether peer access can be enabled
    bool maps_for_rdma = true;    ///< whether cuMemCreate supports GPUDirect RDMA
    /// Whether the devices use the host's memory, of which `capacity` is then the total and pinned memory a part.
    bool is_integrated = false;
};

/// Numbers of live allocations and objects.
///
/// An allocation is live until the call that frees it; memory of cuMemCreate until its last handle and mapping are released; a graph from
/// the end of its capture. Captures, memory cached by pools, default streams and pools, and registered host memory are not counted.
/// Example: tests/simulator/control_counts.cpp
struct live_counts {
    std::size_t device_allocations = 0;   ///< by any function
    std::size_t device_bytes = 0;         ///< a multiple of 512
    std::size_t pinned_allocations = 0;   ///< of cudaHostAlloc and cudaMallocHost
    std::size_t pinned_bytes = 0;         ///< as requested
    std::size_t managed_allocations = 0;  ///< of cudaMallocManaged
    std::size_t managed_bytes = 0;        ///< as requested
    std::size_t streams = 0;              ///< without the default streams
    std::size_t events = 0;               ///< recorded or not
    std::size_t pools = 0;                ///< without the default pools
    std::size_t graphs = 0;               ///< cudaGraph_t
    std::size_t graph_execs = 0;          ///< cudaGraphExec_t
    std::size_t address_ranges = 0;       ///< reserved by cuMemAddressReserve

    /// Returns the sum of all counts except bytes.
    [[nodiscard]] std::size_t total() const noexcept {
        return device_allocations + pinned_allocations + managed_allocations + streams + events + pools +
               graphs + graph_execs + address_ranges;
    }
};

/// Violations of CUDA's rules. An invalid call returns an error; work that accesses invalid memory fails its device; after races,
/// out-of-bounds writes and uninitialised reads, the work continues.
/// Example: tests/simulator/control_bugs_memory.cpp
struct misuse_counts {
    std::uint64_t double_frees = 0;        ///< frees of freed memory that was not reused
    std::uint64_t foreign_frees = 0;       ///< frees of addresses that the function cannot free
    std::uint64_t bad_ranges = 0;          ///< copies and memsets that leave their allocation
    std::uint64_t bad_directions = 0;      ///< copies whose kind contradicts their pointers
    std::uint64_t bad_handles = 0;         ///< uses of unknown or destroyed streams, events, pools, graphs
    std::uint64_t calls_in_callbacks = 0;  ///< CUDA calls inside a host function or a kernel
    /// Launches of kernels without a host body.
    std::uint64_t device_kernels = 0;
    std::uint64_t bad_launches = 0;      ///< launches with a grid, block or shared memory that CUDA rejects
    std::uint64_t bad_captures = 0;      ///< violations of the rules of stream capture
    std::uint64_t races = 0;             ///< pairs of conflicting, unordered accesses
    std::uint64_t host_accesses = 0;     ///< accesses to device memory by host code
    std::uint64_t illegal_accesses = 0;  ///< accesses by work to invalid memory
    std::uint64_t out_of_bounds = 0;     ///< writes beside an allocation
    std::uint64_t uninitialized_reads = 0;  ///< copies to the host of unwritten bytes

    /// Returns the sum of all counts.
    [[nodiscard]] std::uint64_t total() const noexcept {
        return double_frees + foreign_frees + bad_ranges + bad_directions + bad_handles + calls_in_callbacks +
               device_kernels + bad_launches + bad_captures + races + host_accesses + illegal_accesses +
               out_of_bounds + uninitialized_reads;
    }
};

/// Backing of device memory, which determines the errors that are found.
///
/// Each mode finds frees of memory that is not allocated, copies and memsets that leave their allocation or have the wrong direction, and
/// work that accesses memory before its cudaMallocAsync or after its cudaFreeAsync.
enum class memory_checks {
    off,  ///< plain host memory
    /// Host heap memory, filled with a pattern on allocation and on free; sanitizers and valgrind check it.
    heap,
    /// Memory in which host code outside of kernels and copies faults. Also finds kernels that access memory that is not allocated or of
    /// another device, which fail the device; kernels that write beside an allocation, even by one byte, or that read there first; copies to the host of unwritten bytes.
    /// Cost: pages of 4 KiB for each allocation, and a signal for each allocation that a kernel accesses.
    /// Limitations: while a kernel runs, other threads can access its memory. Under ThreadSanitizer this mode is `heap`.
    strict
};

/// Sets the mode for later allocations.
CUOTA_SIMULATOR_API void set_memory_checks(memory_checks wanted);
/// Returns the mode for later allocations.
[[nodiscard]] CUOTA_SIMULATOR_API memory_checks current_memory_checks();

/// Action on misuse.
enum class on_misuse {
    /// Listed by `misuse_reports()`. The first launch of each kernel without a host body is also printed to standard error.
    report,
    fatal  ///< prints to standard error and aborts
};

/// Sets the action on misuse except races.
CUOTA_SIMULATOR_API void set_on_misuse(on_misuse wanted);

/// Returns one line for each misuse except races, with the call sites of the call and of the creation, free or destruction of its memory or
/// handle. Call sites need debug information and llvm-addr2line or addr2line. Only the first 1000 are kept.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> misuse_reports();

/// Action when host code accesses device memory with `memory_checks::strict`.
enum class host_access {
    abort,  ///< prints to standard error and aborts
    /// Throws host_access_error from the faulting instruction; only for code compiled with -fnon-call-exceptions.
    throw_exception
};

/// Sets that action.
CUOTA_SIMULATOR_API void set_host_access(host_access wanted);

/// Host code accessed device memory. what() names the code location, the address and the allocation.
/// Example: tests/simulator/control_bugs_host.cpp
class CUOTA_SIMULATOR_API host_access_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Duration of a planned fault.
enum class fault_kind {
    once,          ///< one call fails
    until_cleared  ///< also all later calls, until clear_faults or reset
};

/// Waits for all work and sets the configuration. Clears faults, counters, peaks, misuse, races, records of freed memory, other programs'
/// memory, delays and kernel times; restores all settings from the environment, or else to their defaults. Live objects stay live.
///
/// Throws: std::logic_error when a `hold` exists, or when objects are live and `shape` differs from the current one. On failure, nothing
/// changes.
CUOTA_SIMULATOR_API void reset(options shape = {});

/// Returns the current configuration.
[[nodiscard]] CUOTA_SIMULATOR_API options shape();

/// Returns all counts at one instant.
[[nodiscard]] CUOTA_SIMULATOR_API live_counts live();

/// Returns one line for each live allocation, oldest first, then for each stream, event, pool, reserved address range and graph, with the
/// function that made it and the call site.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> leaks();

/// Returns the counts.
[[nodiscard]] CUOTA_SIMULATOR_API misuse_counts misuse();

/// Returns the peak of device memory in use since `reset_peaks`, with memory cached by pools, without other programs' memory.
/// Units: bytes, a multiple of 512.
[[nodiscard]] CUOTA_SIMULATOR_API std::size_t peak_device_bytes(int device = 0);

/// Returns the peak of pinned host memory in use, in bytes as requested.
[[nodiscard]] CUOTA_SIMULATOR_API std::size_t peak_pinned_bytes();

/// Lowers both peaks to the present use.
CUOTA_SIMULATOR_API void reset_peaks();

/// Returns the number of calls of a CUDA function, including failed ones.
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t calls(const char* function);

/// Returns the number of all calls, except those that report errors.
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t calls();

/// Returns the number of calls that allocate device, managed or pinned memory.
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t allocation_calls();

/// Plans a fault: the `nth` call from now on (1 is the next) of `function`, or of any function when it is null, returns `code` and has no
/// effect. Plans accumulate.
///
/// `code` cudaSuccess means cudaErrorMemoryAllocation in functions that allocate and cudaErrorUnknown in others. Functions that report
/// errors never fail: they are not counted, and naming one throws std::invalid_argument.
CUOTA_SIMULATOR_API void fail_call(const char* function, std::uint64_t nth, cudaError_t code = cudaSuccess,
                                   fault_kind kind = fault_kind::once);

/// Makes each later call of `function`, or of any function when it is null, fail with this probability, as by `fail_call`.
/// Order: equal sequences of calls and equal seeds give equal faults.
CUOTA_SIMULATOR_API void fail_randomly(const char* function, double probability, std::uint64_t seed,
                                       cudaError_t code = cudaSuccess);

/// Makes each later allocation of more than `bytes` bytes fail, including pinned memory and cuMemCreate.
CUOTA_SIMULATOR_API void fail_larger_than(std::size_t bytes);

/// Simulates the loss of a device: drops its queued work; its calls fail with cudaErrorDevicesUnavailable until `reset`. Functions that
/// free or destroy still do so, and return the same error.
CUOTA_SIMULATOR_API void lose_device(int device);

/// Cancels all planned faults.
CUOTA_SIMULATOR_API void clear_faults();

/// Returns the number of planned faults that occurred.
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t faults_injected();

/// Sets the memory of a device that other programs use; it may exceed the free memory.
CUOTA_SIMULATOR_API void set_other_programs(int device, std::size_t bytes);

/// Makes other programs allocate and free: before each later call of the runtime or the driver, with this probability, their memory becomes
/// a random number of bytes up to `most`, at most what is free. A probability of 0 ends this. Equal seeds draw equal numbers.
CUOTA_SIMULATOR_API void set_restless_programs(int device, std::size_t most, double probability,
                                               std::uint64_t seed = 1);

/// The memory of a device that other programs use.
struct other_programs_info {
    std::size_t bytes;      ///< now
    std::uint64_t changes;  ///< by restless programs, since the last reset
};

/// Returns the present figures.
[[nodiscard]] CUOTA_SIMULATOR_API other_programs_info other_programs(int device);

/// Sets the page cache in the memory of an integrated device. The driver does not report it as free, but allocations can have it.
CUOTA_SIMULATOR_API void set_page_cache(int device, std::size_t bytes);

/// Sets memory of a device that the driver reports as free but does not allocate, as when the free memory is in parts of pages.
CUOTA_SIMULATOR_API void set_unusable_memory(int device, std::size_t bytes);

/// Limits of a device's memory for the control group of the process, as by nvmlDeviceSetMemoryLimits_v1. Bytes.
struct memory_limits {
    std::size_t soft = 0;  ///< 0: none
    std::size_t hard =
        static_cast<std::size_t>(-1);  ///< allocations above it fail, and the driver reports no more
    std::size_t used_by_others = 0;    ///< by other processes of the group
};

/// Sets the limits of a device.
CUOTA_SIMULATOR_API void set_memory_limits(int device, memory_limits wanted);

/// Delays each operation of a stream by a random time up to `max`; zero turns this off. Equal seeds draw equal delays; their assignment to
/// operations depends on the threads.
CUOTA_SIMULATOR_API void set_jitter(std::uint64_t seed, std::chrono::microseconds max);

/// Execution of stream work.
///
/// `late`: only a waiting host thread (in a synchronisation, cudaFree, or a copy to pageable memory) runs work. Three of four waits run
/// only the dependencies of the awaited operation; the others also run other operations that may start, which exposes those that run too
/// early. A query of unfinished work returns cudaErrorNotReady and then runs up to four operations, so that a polling loop finishes.
///
/// With one host thread, the program and the seed determine the order of all work. The exception: when no operation has finished for 20 ms
/// and all threads sleep (240 ms when one computes), a helper thread runs operations until a host thread waits or queries again.
/// `schedule_info::unseeded` counts these events: a run without any can be replayed.
///
/// Under ThreadSanitizer the schedule is always `workers`. Link times and jitter pass in the thread that runs the operation.
enum class schedule {
    workers,  ///< threads of the simulator run work as soon as possible
    late      ///< as late as possible, by choices drawn from a seed
};

/// The current schedule.
/// Example: tests/simulator/control_schedule.cpp
struct schedule_info {
    schedule how;        ///< as set, or from the environment
    std::uint64_t seed;  ///< for `late`
    /// Number of choices since the program started that a timeout made.
    std::uint64_t unseeded;
};

/// Waits for all work, then changes the schedule.
///
/// Throws: std::logic_error when a `hold` exists
CUOTA_SIMULATOR_API void set_schedule(schedule wanted, std::uint64_t seed = 1);

/// Returns the current schedule.
[[nodiscard]] CUOTA_SIMULATOR_API schedule_info current_schedule();

/// Behaviour that CUDA's documentation permits but drivers rarely show.
/// Example: tests/simulator/control_unkind.cpp
struct unkindness {
    /// Host functions, callbacks and host nodes of graphs run one at a time in the process. cudaLaunchHostFunc: "Host functions without a
    /// mandated order (such as in independent streams) execute in undefined order and may be serialized."
    bool serial_host = false;
    /// cudaFree, cudaFreeHost and cudaHostUnregister do not wait for work. cudaFree: "this API may perform implicit synchronization", and
    /// for memory of pools "will not"; the other two have no such sentence. Work that may still use the memory is a race. The memory is
    /// poisoned or made inaccessible at once, and not reused before that work has finished.
    bool free_at_once = false;
    /// Before each runtime call except those that report errors, a last error of cudaSuccess becomes cudaErrorInvalidTexture, as if another
    /// library had left it. A program that checks a call by cudaGetLastError mistakes it for its own error. cudaGetLastError: "the last
    /// error that has been produced by any of the runtime calls in the same instance of the CUDA Runtime library".
    bool stale_errors = false;
};

/// Applies to later calls; running host functions no longer delay others.
CUOTA_SIMULATOR_API void set_unkindness(unkindness wanted);
/// Returns the present setting.
[[nodiscard]] CUOTA_SIMULATOR_API unkindness current_unkindness();

/// Minimum duration of work; by default, work takes only the time of the host.
///
/// A copy that reads or writes device memory occupies a copy engine of its direction on its stream's device; when all are busy, copies wait
/// in the order in which they start. It takes `latency` and its bytes divided by the speed, in real time. The rows of a 2D copy share one
/// latency. Memsets and copies between host addresses take no simulated time. Kernels run concurrently as far as streams permit. Timing
/// events measure these durations.
/// Example: tests/simulator/control_link.cpp
struct link_options {
    std::uint64_t to_device = 0;          ///< bytes per second; zero: no limit
    std::uint64_t to_host = 0;            ///< likewise
    std::uint64_t on_device = 0;          ///< likewise, also between devices
    std::chrono::nanoseconds latency{0};  ///< of each copy, before its bytes
    std::chrono::nanoseconds kernel{0};   ///< of each kernel that has no `set_kernel_time`
    int engines = 1;                      ///< for each direction and device, 1 to 16
};

/// Applies to work that starts later.
CUOTA_SIMULATOR_API void set_link(link_options const& wanted);
/// Returns the present setting.
[[nodiscard]] CUOTA_SIMULATOR_API link_options current_link();

/// Sets the duration of kernels with this name, until `reset`.
CUOTA_SIMULATOR_API void set_kernel_time(const char* name, std::chrono::nanoseconds time);

/// Delays the end of the `nth` copy over a link from now on.
CUOTA_SIMULATOR_API void delay_copy(std::uint64_t nth, std::chrono::nanoseconds by);

/// Kind of work that takes simulated time.
enum class work_kind {
    to_device,  ///< host to device
    to_host,    ///< device to host
    on_device,  ///< also between devices
    kernel      ///< a kernel
};

/// Interval in which a copy occupied its engine or a kernel ran.
/// Example: tests/simulator/control_link.cpp
struct work_interval {
    work_kind what;                  ///< kind of work
    int device;                      ///< the device of its stream
    int engine;                      ///< of its direction, from 0; 0 for kernels
    std::size_t bytes;               ///< zero for a kernel
    std::chrono::nanoseconds begin,  ///< since `set_link` or `reset`
        end;                         ///< likewise, exclusive
};

/// Returns the latest 10,000 intervals since `set_link`. A copy is listed once it is assigned to an engine, a kernel once it has finished.
/// Nothing is recorded while no duration or delay is set.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<work_interval> work_intervals();

/// Calls that invalidate a capture that forbids unsafe calls (cudaStreamCaptureMode), which CUDA does not list.
/// Example: tests/pool/detail/blocks/captured_blocks.sim.cpp
enum class capture_checks {
    /// Calls that CUDA's documentation names, and all allocations and frees.
    named,
    /// Also calls that may wait, allocate, free, create, destroy or map.
    every_slow_call
};
/// Sets the check for later calls.
CUOTA_SIMULATOR_API void set_capture_checks(capture_checks wanted);

/// Numbers of calls of cudaEventSynchronize for recorded events.
/// Example: tests/runtime/event.sim.cpp
struct event_wait_counts {
    std::uint64_t blocking = 0;  ///< for events with cudaEventBlockingSync: the thread sleeps
    std::uint64_t active = 0;    ///< for other events: the thread may spin
};
/// Returns the counts.
[[nodiscard]] CUOTA_SIMULATOR_API event_wait_counts event_waits();

/// Returns the number of primary contexts of a device that were created since `reset`, which destroys them.
///
/// Since CUDA 12, cudaSetDevice, cudaInitDevice and calls that use the thread's current device create one, except cudaEventQuery and
/// cudaEventSynchronize.
/// Example: tests/runtime/device.sim.cpp
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t contexts_made(int device);

/// While a hold exists, no stream work starts, so that a missing wait fails on every run. Work that has started runs to completion.
/// Order: the program's actions before the destruction of a hold happen before the held work.
///
/// A host call that waits for unfinished work (such as cudaFree or `reset`) deadlocks if its thread is to destroy the hold.
/// Example: tests/simulator/control_graphs.cpp
class CUOTA_SIMULATOR_API hold {
public:
    hold();   ///< returns at once
    ~hold();  ///< resumes work if no other hold exists
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;
};

/// Stops the next call of a function on its way into CUDA: the calling thread has decided to make the call, and it has no effect yet. So
/// a test can let another thread act between a check and the call that relies on it. One at a time; later calls of the function are not stopped.
/// Throws: std::invalid_argument for an unknown function, std::logic_error while another call is to be held
/// Threads: any but the one that makes the call
/// Example: tests/simulator/control_order.cpp
class CUOTA_SIMULATOR_API held_call {
public:
    explicit held_call(const char* function);  ///< returns at once
    ~held_call();                              ///< lets the call go
    held_call(held_call const&) = delete;
    held_call& operator=(held_call const&) = delete;
    void wait_until_reached();              ///< waits until a thread makes the call
    [[nodiscard]] bool is_reached() const;  ///< whether one has
    void let_go();                          ///< lets the call go; a call that has not come is not stopped
};

/// Action of the happens-before checker on two conflicting, unordered accesses.
///
/// The checker covers copies, memsets, cudaMallocAsync and frees; for a kernel, the memory of leases and viewed batches that are open on
/// its stream, and ranges declared by `cuota_simulator_declare(stream, pointer, bytes, writes)` for the calling thread's next launch on
/// that stream. Accesses of host code are left to ThreadSanitizer. Findings do not depend on timing, except that a query that returned
/// cudaSuccess adds an order.
enum class race_checks {
    off,     ///< nothing is checked or recorded
    report,  ///< counted in `misuse().races` and listed by `race_reports()`
    fatal    ///< prints to standard error and aborts
};

/// Sets the action for later races.
CUOTA_SIMULATOR_API void set_race_checks(race_checks wanted);

/// Returns one line for each race: both operations, their streams, ranges and allocation. A pair of functions on a pair of streams is
/// listed once for an allocation. After 1000 lines, races are only counted.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> race_reports();

/// Work of the checker.
/// Example: tests/simulator/control_races.cpp
struct race_check_counts {
    std::uint64_t accesses = 0;  ///< ranges checked; for kernels, leased or declared ones
    /// Conflicting, unordered pairs, including repetitions.
    std::uint64_t conflicts = 0;
};

/// Returns the counts.
[[nodiscard]] CUOTA_SIMULATOR_API race_check_counts current_race_check_counts();

/// Returns live objects, peaks, misuse, races, faults, the schedule, and calls by function as text.
[[nodiscard]] CUOTA_SIMULATOR_API std::string report();

}  // namespace cuota::inline v0::simulator
