// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Control of the simulated CUDA runtime: its shape, faults, checks and clock, and what it has seen.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuota/simulator/export.hpp>

/// Control of the simulated CUDA runtime, for tests and for programs that run where there is no GPU.
///
/// A program that links `cuota_simulator` in place of libcudart runs the same CUDA calls over host memory.
/// This header is the back door: it sets the shape of the machine, makes calls fail, stops and delays
/// streams, and tells what is still alive. It talks to the simulator only; with the real runtime these
/// functions do not link.
///
/// Where it does less than CUDA: cudaMallocAsync and cudaFreeAsync on a capturing stream are no nodes of the graph
/// but get cudaErrorStreamCaptureUnsupported and invalidate the capture; graphs are made by capture only; and
/// cudaDeviceReset waits for the work of the device instead of stopping it.
///
/// Environment, read when the library is loaded (a malformed value ends the program with one line, status 2):
///   CUOTA_SIM_DEVICES   number of devices, 0 to 16                              default 1
///   CUOTA_SIM_MEMORY    memory of each, as 8GiB, 512MiB, 64KiB or plain bytes   default 8GiB
///   CUOTA_SIM_OTHERS    memory of each that other programs hold, until `reset`  default 0
///   CUOTA_SIM_FAIL      faults, until `reset`, with commas between them, NAME being a function or any:
///                       NAME:N         the N-th call fails; with :sticky every call from the N-th on
///                       NAME:5%        calls fail by that chance; with :seed=S, else with seed 1
///                       >64MiB         larger allocations fail
///   CUOTA_SIM_JITTER    as 200us: up to that before each piece of work; with :seed=S  default none
///   CUOTA_SIM_SCHEDULE  workers, late or late:SEED, see schedule; late alone draws a seed and tells it on
///                       standard error at once                                  default workers
///   CUOTA_SIM_LINK      as 25GB/s,10us: speed both ways and latency; or h2d=25GB/s, d2h=12.5GB/s, d2d=1TB/s,
///                       latency=10us, kernel=50us, engines=2, see link_options  default no time
///   CUOTA_SIM_ORDER     off, report or fatal: what a race does, see order_checks  default report
///   CUOTA_SIM_CHECKS    off, heap or strict, see memory_checks                  default heap
///   CUOTA_SIM_MISUSE    report or fatal, see on_misuse                          default report
///   CUOTA_SIM_UNKIND    serial-host, free-at-once, stale-errors, with commas between them, or all, see unkindness
///                                                                               default none
///   CUOTA_SIM_REPORT    "stderr" or a file: at exit, `key=value` lines of what was used, leaked and misused
///
/// Threads: all of it from any, outside of kernels and host functions. What returns lists and texts throws std::bad_alloc.
/// Example: tests/simulator/control_faults.cpp, and the other tests beside it
namespace cuota::inline v0::simulator {

/// The machine that is simulated. The memory of a device is counted in units of 512 bytes.
struct options {
    int devices = 1;                              ///< 0 to 16
    std::size_t capacity = std::size_t{8} << 30;  ///< of each; bytes
    /// The NUMA node of the host memory nearest to each device, which cudaDevAttrHostNumaId tells: one for each, or one
    /// for all; -1, or no list: none.
    std::vector<int> host_nodes{};
    bool has_peer_access = true;  ///< whether one device's kernels may be allowed to reach another's memory
    bool maps_for_rdma = true;    ///< whether the memory of cuMemCreate can be made for GPUDirect RDMA
};

/// What was handed out and not yet given back.
///
/// An allocation counts from the call that made it to the call that frees it, stream-ordered ones included;
/// memory of cuMemCreate until its last handle and its last mapping are gone.
/// A graph counts from the end of its capture, a capture not at all.
/// What pools keep cached, the default streams, the default pools and registered host memory do not count.
/// Example: tests/simulator/control_counts.cpp
struct live_counts {
    std::size_t device_allocations = 0;   ///< of whatever call, cuMemCreate too
    std::size_t device_bytes = 0;         ///< a multiple of 512
    std::size_t pinned_allocations = 0;   ///< of cudaHostAlloc and cudaMallocHost
    std::size_t pinned_bytes = 0;         ///< as asked for
    std::size_t managed_allocations = 0;  ///< of cudaMallocManaged
    std::size_t managed_bytes = 0;        ///< as asked for
    std::size_t streams = 0;              ///< that were created, not the default ones
    std::size_t events = 0;               ///< recorded or not
    std::size_t pools = 0;                ///< that were created, not the default ones
    std::size_t graphs = 0;               ///< cudaGraph_t
    std::size_t graph_execs = 0;          ///< cudaGraphExec_t
    std::size_t address_ranges = 0;       ///< reserved by cuMemAddressReserve

    /// The number of live things of all kinds.
    [[nodiscard]] std::size_t total() const noexcept {
        return device_allocations + pinned_allocations + managed_allocations + streams + events + pools +
               graphs + graph_execs + address_ranges;
    }
};

/// What broke a rule of CUDA. Wrong calls are refused; work that touches what is not there fails its device; races,
/// writes beside an allocation and uninitialised reads are told, and the work goes on.
/// Example: tests/simulator/control_bugs_memory.cpp
struct misuse_counts {
    std::uint64_t double_frees = 0;        ///< freed again, while the address was not in use
    std::uint64_t foreign_frees = 0;       ///< an address that this kind of free does not own
    std::uint64_t bad_ranges = 0;          ///< a copy or memset that leaves its allocation
    std::uint64_t bad_directions = 0;      ///< a copy whose kind does not fit its pointers
    std::uint64_t bad_handles = 0;         ///< a stream, event, pool or graph that is unknown or destroyed
    std::uint64_t calls_in_callbacks = 0;  ///< CUDA calls inside a host function or a kernel
    std::uint64_t device_kernels =
        0;                           ///< launches of kernels without a body for the host: see host_kernel.hpp
    std::uint64_t bad_captures = 0;  ///< what a stream capture forbids
    std::uint64_t races = 0;         ///< pairs of accesses that nothing orders: see order_reports
    std::uint64_t host_accesses = 0;        ///< host code touched memory of a device
    std::uint64_t illegal_accesses = 0;     ///< work touched memory that is not there, or not there yet
    std::uint64_t out_of_bounds = 0;        ///< writes beside an allocation
    std::uint64_t uninitialised_reads = 0;  ///< copies to the host of bytes that nobody has written

    /// All of them together.
    [[nodiscard]] std::uint64_t total() const noexcept {
        return double_frees + foreign_frees + bad_ranges + bad_directions + bad_handles + calls_in_callbacks +
               device_kernels + bad_captures + races + host_accesses + illegal_accesses + out_of_bounds +
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
/// What memory that is allocated now is made of.
[[nodiscard]] CUOTA_SIMULATOR_API memory_checks memory_checked();

/// What misuse does besides being counted and refused.
enum class on_misuse {
    report,  ///< told in `misuse_reports()`; a kernel without a body for the host also on standard error, once
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

/// From now on; `reset` goes back to `ends`.
CUOTA_SIMULATOR_API void set_host_access(host_access wanted);

/// Host code touched memory of a device. what(): the place, the address, the allocation and where it was made.
/// Example: tests/simulator/control_bugs_host.cpp
class CUOTA_SIMULATOR_API host_access_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Whether a planned fault goes away by itself.
enum class fault_kind {
    once,          ///< one call fails
    until_cleared  ///< that call and all later ones, until clear_faults or reset
};

/// Makes the machine new: waits for all work, then forgets faults, planned faults, counters, peaks, misuse, races, what
/// was freed, other programs, delays and times of kernels; jitter, link, schedule, unkindness and checks are what the
/// environment says. What is alive stays alive.
///
/// Throws: std::logic_error when a `hold` is alive, or when something is alive and `shape` is not the present
///         one; std::invalid_argument for a shape that makes no sense. Nothing has changed then.
CUOTA_SIMULATOR_API void reset(options shape = {});

/// The shape now simulated.
[[nodiscard]] CUOTA_SIMULATOR_API options shape();

/// All of one instant.
[[nodiscard]] CUOTA_SIMULATOR_API live_counts live();

/// One line for each live device, managed or pinned allocation, oldest first; then one for each stream, event, pool,
/// reserved range of addresses and graph. All name the call that made it and its place.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> leaks();

/// What was counted since the start or `reset`.
[[nodiscard]] CUOTA_SIMULATOR_API misuse_counts misuse();

/// The most device memory in use at once since the start, `reset` or `reset_peaks`, in units of 512 bytes as
/// cudaMemGetInfo sees it: what pools keep cached is part of it, other programs' memory is not.
/// Throws: std::invalid_argument for a device that does not exist
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

/// Who runs stream work, and when.
///
/// `workers`: threads of the simulator, at once, as a device would.
/// `late`: nobody but a host thread that waits (a synchronisation, cudaFree, a copy to pageable memory), so that
/// whatever was only hoped to be done shows as not done. Three of four waits run nothing but what they must: all
/// that their work comes after, mostly the newest first where there is a choice. The others also run other work
/// that may start, so that work shows which comes too early. All choices are drawn from the seed. A query of
/// unfinished work says cudaErrorNotReady, and then up to four pieces of work run, so that a loop of queries
/// ends.
///
/// With one host thread the order of all work is a function of the program and the seed alone, but for this:
/// when no work has ended for 20 ms and all threads sleep (240 ms when one computes), a helper thread starts
/// some that may start, and goes on with one piece after the other until a host thread waits or asks again. So
/// a program goes on that waits for its work by other means, and so does work that waits for other work.
/// `schedule_facts::unseeded` counts that: as long as it stays, a seed replays.
///
/// Under ThreadSanitizer the schedule is always `workers`: a thread that runs work of two streams would order
/// them. Link and jitter take their time in whichever thread runs the work, one after the other.
enum class schedule {
    workers,  ///< threads of the simulator, at once
    late      ///< as late as the rules of order allow, drawn from a seed
};

/// The schedule of now, and whether its seed alone would replay it.
/// Example: tests/simulator/control_schedule.cpp
struct schedule_facts {
    schedule how;            ///< as it was set or the environment says
    std::uint64_t seed;      ///< of `late`
    std::uint64_t unseeded;  ///< how often since the program began a standstill has decided, and not the seed
};

/// Waits for all work, then changes the schedule; `reset` goes back to what CUOTA_SIM_SCHEDULE says, and to the
/// start of its seed.
///
/// Throws: std::logic_error when a `hold` is alive
CUOTA_SIMULATOR_API void set_schedule(schedule wanted, std::uint64_t seed = 1);

/// As of now.
[[nodiscard]] CUOTA_SIMULATOR_API schedule_facts scheduled();

/// Decisions that CUDA's documentation leaves open, taken the other way than drivers mostly take them. A program that relies
/// on the documentation alone runs as before with each of them.
/// Example: tests/simulator/control_unkind.cpp
struct unkindness {
    /// Host functions, callbacks and host nodes of graphs run one at a time in the whole process, so that one that blocks
    /// holds up those of all other streams. cudaLaunchHostFunc: "Host functions without a mandated order (such as in
    /// independent streams) execute in undefined order and may be serialized."
    bool serial_host = false;
    /// cudaFree, cudaFreeHost and cudaHostUnregister wait for no work. cudaFree: "this API may perform implicit
    /// synchronization", and for memory of pools "will not"; the other two have no such sentence. Work that may still use
    /// the memory is a race (order_checks). The memory is poisoned, closed or forbidden at once, and no later allocation
    /// gets it while that work is under way.
    bool free_at_once = false;
    /// Before each call of the runtime, except those that report errors, the thread's last error becomes cudaErrorInvalidTexture
    /// if it is cudaSuccess, as if another library had left it. No call here returns that code. A program that judges a call or
    /// a <<<>>> by cudaGetLastError takes it for its own. cudaGetLastError: "the last error that has been produced by any of the runtime
    /// calls in the same instance of the CUDA Runtime library in the host thread".
    bool stale_errors = false;
};

/// Host functions that run now are not held up any more. `reset` goes back to what CUOTA_SIM_UNKIND asked for.
CUOTA_SIMULATOR_API void set_unkindness(unkindness wanted);
/// As it was set, or as CUOTA_SIM_UNKIND says.
[[nodiscard]] CUOTA_SIMULATOR_API unkindness current_unkindness();

/// The time that work takes: that of the host by default, no less than what is set here from then on.
///
/// A copy between host and device, or in a device or between two, occupies one of the copy engines of its
/// direction on its stream's device; those that find none free wait in the order in which they start. It takes
/// `latency`, then its bytes over the speed of its direction, in real time, in which other streams go on. (The
/// rows of a 2D copy have one latency.) Memsets and copies between host and host take none. Kernels take
/// `kernel`, or what `set_kernel_time` says; as many run at once as streams allow. Events show all that.
/// Example: tests/simulator/control_link.cpp
struct link_options {
    std::uint64_t to_device = 0;          ///< bytes per second from host to device; zero: no limit
    std::uint64_t to_host = 0;            ///< likewise, from device to host
    std::uint64_t on_device = 0;          ///< from device to device, the same one or another
    std::chrono::nanoseconds latency{0};  ///< of each copy, before its bytes
    std::chrono::nanoseconds kernel{0};   ///< of each kernel that has no time of its own
    int engines = 1;                      ///< for each direction and device, 1 to 16
};

/// Work that is under way keeps its time. `reset` goes back to what CUOTA_SIM_LINK says.
///
/// Throws: std::invalid_argument for a negative time or a number of engines outside 1 to 16
CUOTA_SIMULATOR_API void set_link(link_options const& wanted);
/// As it was set, or as CUOTA_SIM_LINK says.
[[nodiscard]] CUOTA_SIMULATOR_API link_options current_link();

/// Kernels that are launched under this name take that long, until `reset`.
///
/// Throws: std::invalid_argument for no name or a negative time
CUOTA_SIMULATOR_API void set_kernel_time(const char* name, std::chrono::nanoseconds time);

/// Makes the `nth` copy over a link from now on (1 is the next to start) finish that much later.
///
/// Throws: std::invalid_argument for an `nth` of zero or a negative delay
CUOTA_SIMULATOR_API void delay_copy(std::uint64_t nth, std::chrono::nanoseconds by);

/// What can take time.
enum class traffic {
    to_device,  ///< a copy from host to device
    to_host,    ///< a copy from device to host
    on_device,  ///< a copy in a device, or from one to another
    kernel      ///< no copy
};

/// A copy on its engine, or a kernel. Example: tests/simulator/control_link.cpp
struct passage {
    traffic what;                    ///< which way, or a kernel
    int device;                      ///< its stream's
    int engine;                      ///< of its direction, from 0; kernels have none
    std::size_t bytes;               ///< zero for a kernel
    std::chrono::nanoseconds begin,  ///< since `set_link` or `reset`
        end;                         ///< likewise, exclusive
};

/// What copies and kernels have occupied since `set_link` or `reset`, the latest 10,000: how much of it was at the
/// same time is how much a program overlaps. Copies stand here from when they have an engine, kernels when they are
/// done. Noted only while something takes time.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<passage> passages();

/// Which calls invalidate the captures that CUDA forbids unsafe calls for (cudaStreamCaptureMode). CUDA does not list them.
/// Example: tests/pool/graph_blocks.sim.cpp
enum class capture_checks {
    named,  ///< those that CUDA's documentation names, and allocations and frees of all kinds
    /// Also every call that may wait, allocate, free, create or destroy something, or map memory: a driver may count it as unsafe.
    every_slow_call
};
/// From now on; `reset` goes back to `named`.
CUOTA_SIMULATOR_API void set_capture_checks(capture_checks wanted);

/// Calls of cudaEventSynchronize for events that were recorded, by how CUDA would let the thread wait.
/// Example: tests/runtime/event.sim.cpp
struct event_wait_counts {
    std::uint64_t blocking = 0;  ///< of events with cudaEventBlockingSync: the thread sleeps
    std::uint64_t active = 0;    ///< of others: the thread may occupy a core
};
/// Since the start or `reset`.
[[nodiscard]] CUOTA_SIMULATOR_API event_wait_counts event_waits();

/// How many primary contexts of a device were made since the start or `reset`. A context takes hundreds of megabytes on a GPU.
///
/// As in CUDA 12 and later, cudaSetDevice and cudaInitDevice make the context of a device that has none, and so does every call for
/// the thread's current device; but for calls that need no device, cudaEventQuery and cudaEventSynchronize. `reset` ends all contexts.
/// Throws: std::invalid_argument for a device that does not exist
/// Example: tests/runtime/device.sim.cpp
[[nodiscard]] CUOTA_SIMULATOR_API std::uint64_t contexts_made(int device);

/// While one is alive no stream work starts, on any stream, so that a missing wait shows every time. Work
/// that has already started runs to its end. Several holds may end in any order; work resumes after the last.
/// What a program does before the end of a hold comes before the work that was held, for ThreadSanitizer too.
///
/// Host calls that wait for unfinished work (synchronise, cudaFree, cudaDeviceReset, a copy to pageable memory, `reset`) never
/// return while the calling thread is also the one to end the hold.
/// Example: tests/simulator/control_graphs.cpp
class CUOTA_SIMULATOR_API hold {
public:
    hold();   ///< returns at once: work that has started runs on
    ~hold();  ///< work starts again when it was the last
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;
};

/// What the happens-before checker does about two conflicting accesses that nothing orders.
///
/// It knows what copies, memsets, cudaMallocAsync and the frees touch, in graphs as well, and what kernels may touch:
/// the memory of every lease and viewed batch that is open on their stream, and what was declared for them by
/// `cuota_simulator_declare(stream, pointer, bytes, writes)`, for the next launch of the calling thread on that stream.
/// What was freed in stream order is then a race too. Accesses of host code are ThreadSanitizer's business. A race is
/// found by the order of the calls alone, on every run, however the work happened to fall; only a query that was
/// answered cudaSuccess in time makes an order that the next run may not have.
enum class order_checks {
    off,     ///< nothing is checked, and nothing noted for later
    report,  ///< counted in `misuse().races` and told in `order_reports()`
    fatal    ///< told on standard error, and the program aborts
};

/// From now on. `reset` goes back to what CUOTA_SIM_ORDER asked for.
CUOTA_SIMULATOR_API void set_order_checks(order_checks wanted);

/// One line for each race since the start or `reset`: both operations, their streams, ranges and allocation.
/// A pair of functions on a pair of streams is told once for an allocation. After 1000 lines races are counted only.
[[nodiscard]] CUOTA_SIMULATOR_API std::vector<std::string> order_reports();

/// How much the checker has looked at. Example: tests/simulator/control_races.cpp
struct order_counts {
    std::uint64_t accesses = 0;  ///< ranges checked; those of a kernel only when borrowed or declared
    std::uint64_t conflicts =
        0;  ///< times that one met another that nothing orders it with, repeats included
};

/// Since the start or `reset`.
[[nodiscard]] CUOTA_SIMULATOR_API order_counts order_checked();

/// For people: what lives and where it was made, peaks, misuse and races with their places, faults, the schedule, and
/// calls by function.
[[nodiscard]] CUOTA_SIMULATOR_API std::string report();

}  // namespace cuota::inline v0::simulator
