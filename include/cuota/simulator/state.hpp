// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call_site.hpp"
#include "export.hpp"
#include "functions.hpp"
#include "memory.hpp"
#include "races.hpp"
#include "registry.hpp"
#include "sanitizer.hpp"
#include "work.hpp"
#include <cuota/simulator.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

/// State of the simulated runtime. `machine::mutex` guards the members that are not atomic and name no other mutex; work runs without it.
namespace cuota::inline v0::simulator {

struct capture;
struct graph;
struct graph_exec;
struct graph_node;

/// Device memory of allocation nodes, in bytes.
struct graph_bytes {
    std::size_t used = 0;  ///< by executables, running or not, until a trim
    std::size_t lost = 0;  ///< of launches for which the rest was missing
    std::size_t most_used = 0, most_reserved = 0;
    struct last_launch {
        operation_ref work;
        unsigned long long stream;
        std::size_t bytes;
    };
    std::vector<last_launch> of_destroyed{};  ///< executables that may still run

    [[nodiscard]] std::size_t reserved() const noexcept { return used + lost; }
    void note_peaks() noexcept {
        if (used > most_used) most_used = used;
        if (reserved() > most_reserved) most_reserved = reserved();
    }
};

struct device {
    explicit device(int number);

    int index;
    std::size_t capacity = 0;
    int host_numa_node = -1;
    std::size_t used = 0;  ///< bytes of plain allocations and of pools' reservations
    std::size_t peak = 0;
    std::size_t others = 0;
    std::size_t most_others = 0;    ///< of restless programs
    double others_probability = 0;  ///< that they change before a call
    std::uint64_t others_changes = 0;
    std::size_t page_cache = 0;  ///< of an integrated device: the kernel drops it on demand
    std::size_t unusable = 0;    ///< reported as free, but not allocated
    memory_limits limits{};
    bool has_context = false;
    std::uint64_t contexts_made = 0;
    std::uint32_t reaches = 0;  ///< bit mask of peers that it may access
    std::atomic<cudaError_t> failure{cudaSuccess};
    std::string failure_text;
    stream_handle legacy;
    std::vector<stream_handle>
        streams;                ///< also destroyed ones until they are drained; without the legacy one
    char retired = 0;           ///< token for the work of destroyed streams
    char retired_blocking = 0;  ///< same for blocking ones
    ordering::vector_clock gone, gone_blocking;  ///< same for the race checker
    std::uint64_t gone_version = 0;
    std::shared_ptr<pool> default_pool;
    std::shared_ptr<pool> managed_pool;
    cudaMemPool_t default_pool_handle = nullptr;
    cudaMemPool_t managed_pool_handle = nullptr;
    cudaMemPool_t current_pool_handle = nullptr;
    cudaMemPool_t current_managed_pool_handle = nullptr;
    std::vector<std::weak_ptr<pool>> pools;
    graph_bytes graphs{};

    /// Bytes that no program uses, within the hard limit.
    [[nodiscard]] std::size_t unused() const noexcept;
    /// Bytes that can be allocated.
    [[nodiscard]] std::size_t free() const noexcept;
    /// Bytes that the driver reports as free.
    [[nodiscard]] std::size_t reported_free() const noexcept;
};

// ---- calls and faults ----

struct planned_fault {
    std::optional<function> only;
    std::uint64_t calls_left;
    cudaError_t code;
    fault_kind kind;
};

struct random_fault {
    std::optional<function> only;
    double probability;
    cudaError_t code;
    std::mt19937_64 draw;
};

struct misuse_counters {
    std::atomic<std::uint64_t> double_frees, foreign_frees, bad_ranges, bad_directions, bad_handles;
    std::atomic<std::uint64_t> calls_in_callbacks, device_kernels, bad_launches, races, bad_captures;
    std::atomic<std::uint64_t> host_accesses, illegal_accesses, out_of_bounds, uninitialized_reads;
};

inline constexpr int most_devices = 16;
inline constexpr std::size_t host_page = 4096;

struct machine {
    machine();

    std::mutex mutex;
    std::atomic<int> devices{1};
    std::size_t capacity = options{}.capacity;
    std::vector<int> host_nodes;
    bool has_peer_access = true;
    bool maps_for_rdma = true;
    bool is_integrated = false;
    bool has_restless_programs = false;
    std::mt19937_64 restless;
    std::vector<std::unique_ptr<device>> all_devices;  ///< only grows: references stay valid

    registry<stream> streams{0x53};
    registry<event> events{0x45};
    registry<pool> pools{0x50};
    registry<graph> graphs{0x47};
    registry<graph_node> graph_nodes{0x4e};
    registry<graph_exec> graph_execs{0x58};
    std::vector<std::shared_ptr<capture>> captures;
    std::map<std::uintptr_t, allocation_ref> memory;  ///< by ~address
    std::deque<allocation_ref> recently_freed;        ///< newest last
    std::uint64_t next_allocation = 1;
    unsigned long long next_stream = 1;
    std::map<std::uint64_t, std::weak_ptr<stream>> borrowers;  ///< by the number of the borrowing
    std::uint64_t next_borrowing = 1;
    live_counts live;
    std::size_t pinned_peak = 0;

    std::array<std::atomic<std::uint64_t>, function_count> calls{};
    std::vector<planned_fault> faults;
    std::vector<random_fault> random_faults;
    std::size_t largest_allocation = SIZE_MAX;
    std::atomic<bool> has_plans{false};  ///< of faults, or of restless programs
    std::atomic<std::uint64_t> injected{0};
    misuse_counters misuse{};
    std::mutex misuse_mutex;                ///< guards the next two
    std::vector<std::string> misuse_lines;  ///< with placeholders for call sites
    on_misuse misuse_mode = on_misuse::report, initial_misuse = on_misuse::report;
    host_access on_host_access = host_access::abort;
    capture_checks capture_mode = capture_checks::named;
    event_wait_counts event_waits{};
    memory_checks memory_mode = memory_checks::heap, initial_memory = memory_checks::heap;
    std::atomic<bool> deep_sites{false};
    ordering::checker race_checker;
    std::atomic<std::uint64_t> epoch{1};  ///< incremented by reset; older errors of threads are ignored
    std::atomic<bool> unloading{false};

    std::atomic<int> holds{0};
    std::atomic<bool> has_held_call{false};
    std::mutex held_mutex;  ///< guards the next three, acquired without the machine's lock
    std::condition_variable held_changes;
    std::optional<function> held_function;
    bool is_held_reached = false;
    char hold_token = 0;  ///< published when a hold is destroyed
    std::atomic<std::int64_t> jitter_us{0};
    std::mt19937_64 jitter;
    std::mutex jitter_mutex;
    std::chrono::microseconds initial_jitter{0};
    std::uint64_t initial_jitter_seed = 1;
    std::atomic<int> delayed{0};  ///< operations that the simulator is delaying now

    std::uint64_t next_turn = 1;

    std::atomic<bool> serial_host{false}, free_at_once{false}, stale_errors{false};
    unkindness initial_unkindness;
    std::mutex host_function_turn;        ///< acquired without the machine's lock
    std::vector<resting_memory> resting;  ///< freed while work may still access it
    std::vector<leaving_memory> leaving;

    schedule initial_schedule = schedule::workers;
    std::uint64_t initial_seed = 0;
};

/// Returns the one machine, never destroyed, because static objects may free memory late.
machine& the_machine();

enum class activity { host, callback, kernel };

struct thread_info {
    static constexpr std::size_t most_contexts = 16;

    int device = 0;
    std::size_t contexts = 0;         ///< stack of cuCtxPushCurrent
    int context_of[most_contexts]{};  ///< the current one last
    cudaError_t last_error = cudaSuccess;
    std::uint64_t last_error_epoch = 0;
    activity doing = activity::host;
    call_sites::site running{};  ///< the call that enqueued this thread's work
    function calling = function::cudaGetLastError;
    call_sites::stack from{};
    char const* tag = nullptr;
    char const* told_file = nullptr;  ///< file, tag and line for the next call
    char const* told_tag = nullptr;
    unsigned told_line = 0;
    cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
    cudaError_t refused = cudaSuccess;  ///< why this call cannot use a stream
};

extern thread_local constinit thread_info caller;

// ---- scheduler.cpp ----

/// Whether an operation without a simulated duration may run in the enqueuing call.
enum class pace { queued, at_once };

/// Appends work to a stream. May release the lock temporarily.
void enqueue(guard& lock, stream_handle const& on, operation_ref work, pace when = pace::queued);
void order(operation& work, operation_ref const& first);
/// Waits for the work, helping to run it, and orders the calling thread after it.
void wait_for(guard& lock, operation_ref const& work);

/// `known` is the moment that the host is ordered after, which may be later than the work.
struct awaited {
    operation_ref work;  ///< null for a stream without work
    ordering::moment known;
};
void wait_for(guard& lock, awaited const& what);
void wait_for(guard& lock, std::vector<awaited> const& all);
/// Runs some operations, because with `schedule::late` no other thread does.
void let_some_go_on(guard& lock, std::vector<awaited> const& all);
std::vector<awaited> unfinished(stream const& s);
/// Orders the host after the work of destroyed streams that a synchronisation includes.
void come_after_the_gone(stream const& s);
void wait_for_device(guard& lock, device& d);
/// The same, also if the host has no memory: a free cannot fail. An operation that is lost meanwhile fails its device.
void wait_before_free(guard& lock, device& d);
/// The stream is removed when its work has finished.
void let_go(guard& lock, stream_handle const& s);
void resume_all();
void stop_workers();
/// Returns the schedule in the syntax of CUOTA_SIM_SCHEDULE.
std::string schedule_in_words();
/// The child has no workers.
void prepare_to_fork();
void after_fork_in_parent();
void after_fork_in_child();

// ---- launch.cpp, kernel_launch.cpp, kernels.cpp ----

struct pointer_argument {
    void const* at;
    bool writes;
};

/// On failure, the caller keeps the body.
cudaError_t enqueue_kernel(guard& lock, cudaStream_t handle, char const* name, void (*run)(void*),
                           void (*drop)(void*), void* body,
                           std::vector<pointer_argument> const& pointers = {});
void note_kernel(void const* address, char const* mangled_name);
int dynamic_shared_of(void const* kernel);

// ---- stream.cpp, device.cpp, pool.cpp ----

stream_handle known_stream(cudaStream_t handle);
/// Also returns null when a capture forbids the use; bad_handle() returns that error.
stream_handle find_stream(cudaStream_t handle);
/// Requires that a device exists.
device& current_device();
device* find_device(int index);
int attribute_of(device const& d, cudaDeviceAttr which);
/// The first failure is kept, until `reset`.
void fail_device(device& d, cudaError_t code, std::string text);
/// Releases memory that pools cache beyond their thresholds.
void trim_at_synchronisation(device& d);
void trim_pool(pool& p, std::size_t keep);
void return_to_pool(pool& p, std::size_t units);

inline constexpr std::size_t unit = 512;
inline std::size_t in_units(std::size_t bytes) { return (bytes + unit - 1) / unit * unit; }

// ---- calls.cpp ----

struct admission {
    cudaError_t error;
    bool run;
};
admission admit(function f);
cudaError_t remember(cudaError_t error);
void leave_stale_error();
cudaError_t failure_of(device const& d);
cudaError_t default_code(function f);
char const* text_of(cudaError_t code);
std::optional<function> function_named(std::string const& name);

// ---- faults.cpp ----

/// Called under the lock.
cudaError_t drawn(function f);
/// Counts the fault. Under the lock.
bool too_large(std::size_t bytes);

// ---- misuse.cpp. Any thread, with or without the lock. ----

call_sites::site here();
origin present_call();
std::string this_call();
void note_misuse(std::atomic<std::uint64_t>& counter, std::string line);
/// Fails the device.
void illegal_access(device& d, std::string line);
/// Reports an invalid handle, or one that a capture forbids.
cudaError_t bad_handle();
cudaError_t mixed_devices(std::string const& things);
std::string describe(event const& e, origin const& from);
std::string describe(stream const& s, origin const& from);
std::string describe(pool const& p, origin const& from);

// ---- capture.cpp ----

/// Returns the error of ongoing captures for the function.
cudaError_t refusal(function f);
inline cudaError_t refused_by_captures(function f) {
    caller.refused = cudaSuccess;
    return the_machine().captures.empty() ? cudaSuccess : refusal(f);
}
void add_to_capture(stream& s, operation_ref work);

/// Called under the lock.
void make_context(device& d);
/// Makes the current device's context, if the function needs one.
void make_context_for(function f);
/// Changes the memory of restless programs. Under the lock.
void let_others_allocate();

template <class F>
cudaError_t api(function f, F&& body) noexcept {
    sanitizer::quiet quiet;
    auto const admitted = admit(f);
    leave_stale_error();
    cudaError_t error = admitted.error;
    if (admitted.run) {
        try {
            guard lock{the_machine().mutex};
            make_context_for(f);
            auto const refused = refused_by_captures(f);
            auto const result = refused == cudaSuccess ? body(lock) : refused;
            if (error == cudaSuccess) error = result;
        } catch (std::bad_alloc const&) { error = cudaErrorMemoryAllocation; } catch (...) {
            error = cudaErrorUnknown;
        }
    }
    return remember(error);
}

}  // namespace cuota::inline v0::simulator
