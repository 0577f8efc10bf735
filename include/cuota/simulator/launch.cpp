// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "closed_memory.hpp"
#include "link.hpp"

#include <exception>

using namespace cuota::simulator;

namespace {

class inside {
public:
    explicit inside(activity what) : before_{std::exchange(caller.doing, what)} {}
    ~inside() { caller.doing = before_; }
    inside(inside const&) = delete;
    inside& operator=(inside const&) = delete;

private:
    activity before_;
};

/// Calls one at a time with unkindness::serial_host.
template <class Call>
void call_host_function(Call call) {
    auto& m = the_machine();
    std::unique_lock turn{m.host_function_turn, std::defer_lock};
    if (m.serial_host) turn.lock();
    inside marked{activity::callback};
    sanitizer::loud program;
    call();
}

struct kernel final : operation {
    std::string name;
    device* owner = nullptr;
    void (*body_run)(void*) = nullptr;
    void (*body_drop)(void*) = nullptr;
    void* body = nullptr;  ///< owned once set

    ~kernel() override { drop(); }

    void run() override {
        if (failure_of(*owner) == cudaSuccess) try_to_run();
        if (!node) drop();
    }

    void try_to_run() {
        timing::kernel_on_device takes{name, owner->index};
        inside marked{activity::kernel};
        if (closed_memory::in_use()) return run_watched();
        run_body();
    }

    /// An invalid access ends the kernel, as on a device.
    void run_watched() {
        closed_memory::kernel_run watched{*owner, name, from};
        if (setjmp(watched.way_out) == 0) return run_body();
        // The longjmp skipped the end of the loud scope.
        if (sanitizer::watches_threads()) sanitizer::begin_ignoring();
        fail_device(*owner, cudaErrorIllegalAddress, watched.fault);
    }

    void run_body() {
        std::string thrown;
        try {
            sanitizer::loud program;
            body_run(body);
            return;
        } catch (std::exception const& e) { thrown = e.what(); } catch (...) {
            thrown = "something that is not a std::exception";
        }
        fail_device(*owner, cudaErrorLaunchFailure,
                    call_sites::resolved("kernel " + name + call_sites::mark(from) + " threw: " + thrown));
    }

    void drop() {
        if (!body || !body_drop) return;
        inside marked{activity::kernel};
        sanitizer::observe(token());
        sanitizer::loud program;
        body_drop(std::exchange(body, nullptr));
    }
};

struct declared {
    cudaStream_t stream;
    ordering::declaration access;
};

thread_local std::vector<declared> declared_accesses;  ///< for later launches of this thread

/// The leased bytes at pointers that a kernel on `s` gets, where the leases are open on other streams only.
void add_leased_elsewhere(stream_handle const& s, std::vector<pointer_argument> const& pointers,
                          std::vector<ordering::declaration>& into) {
    for (auto const& [pointer, writes] : pointers) {
        auto const address = reinterpret_cast<std::uintptr_t>(pointer);
        auto const has = [&](auto const& one) { return address - ~one.access.disguise < one.access.bytes; };
        auto const find_in = [&](stream const& on) {
            auto const found = std::find_if(on.borrowed.begin(), on.borrowed.end(), has);
            return found == on.borrowed.end() ? nullptr : &found->access;
        };
        if (find_in(*s)) continue;
        for (auto const& [number, borrower] : the_machine().borrowers) {
            auto const other = borrower.lock();
            auto const* const leased = other ? find_in(*other) : nullptr;
            if (!leased) continue;
            into.push_back({leased->disguise, leased->bytes, writes});
            break;
        }
    }
}

/// Removes the accesses declared for the next launch, and those of destroyed streams.
std::vector<ordering::declaration> take_declared(stream_handle const& s) {
    std::vector<ordering::declaration> mine;
    for (auto const& one : s->borrowed) mine.push_back(one.access);
    std::erase_if(declared_accesses, [&](declared const& one) {
        auto const on = known_stream(one.stream);
        if (on == s) mine.push_back(one.access);
        return on == s || !on;
    });
    return mine;
}

}  // namespace

namespace cuota::inline v0::simulator {

cudaError_t enqueue_kernel(guard& lock, cudaStream_t handle, char const* name, void (*run)(void*),
                           void (*drop)(void*), void* body, std::vector<pointer_argument> const& pointers) {
    auto const s = find_stream(handle);
    // Unlike a copy, a kernel needs a stream of the current device.
    if (!s) return bad_handle();
    if (&s->owner != &current_device())
        return mixed_devices(describe(*s, the_machine().streams.made(handle)) +
                             ", but the current device is " + std::to_string(current_device().index));
    auto touched = take_declared(s);
    add_leased_elsewhere(s, pointers, touched);
    if (!run) return cudaErrorInvalidDeviceFunction;
    auto work = std::make_shared<kernel>();
    work->name = name && *name ? name : "without a name";
    work->owner = &s->owner;
    work->body_run = run;
    work->body_drop = drop;
    work->body = body;
    enqueue(lock, s, work);
    ordering::accesses(*s, *work, work->name, touched);
    return cudaSuccess;
}

}  // namespace cuota::inline v0::simulator

extern "C" [[gnu::visibility("default")]] void cuota_simulator_declare(cudaStream_t handle,
                                                                       void const* pointer, std::size_t bytes,
                                                                       int writes) {
    sanitizer::quiet quiet;
    if (caller.doing == activity::host && pointer && bytes != 0)
        declared_accesses.push_back(
            {handle, {~reinterpret_cast<std::uintptr_t>(pointer), bytes, writes != 0}});
}

extern "C" [[gnu::visibility("default")]] std::uint64_t cuota_simulator_borrow(cudaStream_t handle,
                                                                               void const* pointer,
                                                                               std::size_t bytes,
                                                                               int writes) {
    sanitizer::quiet quiet;
    if (caller.doing != activity::host || !pointer || bytes == 0) return 0;
    auto& m = the_machine();
    guard lock{m.mutex};
    auto const s = known_stream(handle);  // not a CUDA call, and not a use that a capture could forbid
    if (!s) return 0;
    auto const number = m.next_borrowing++;
    s->borrowed.push_back({number, {~reinterpret_cast<std::uintptr_t>(pointer), bytes, writes != 0}});
    m.borrowers.emplace(number, s);
    return number;
}

extern "C" [[gnu::visibility("default")]] void cuota_simulator_return(std::uint64_t number) {
    sanitizer::quiet quiet;
    auto& m = the_machine();
    guard lock{m.mutex};
    auto const found = m.borrowers.find(number);
    if (found == m.borrowers.end()) return;
    if (auto const s = found->second.lock())
        std::erase_if(s->borrowed, [&](auto const& one) { return one.number == number; });
    m.borrowers.erase(found);
}

extern "C" [[gnu::visibility("default")]] void cuota_simulator_next_call(char const* file, unsigned line,
                                                                         char const* tag) {
    caller.told_file = file;
    caller.told_line = line;
    caller.told_tag = tag;
}

extern "C" [[gnu::visibility("default")]] void cuota_simulator_name_block(void const* first,
                                                                          std::size_t bytes, char const* file,
                                                                          unsigned line, char const* tag) {
    sanitizer::quiet quiet;
    auto const site = line == 0 ? call_sites::site::unknown : call_sites::of(file, line);
    guard lock{the_machine().mutex};
    name_block(first, bytes, tag, site);
}

extern "C" [[gnu::visibility("default")]] std::size_t cuota_simulator_host_memory(int device) {
    guard lock{the_machine().mutex};
    auto const* const d = find_device(device);
    return d ? d->free() : 0;
}

extern "C" [[gnu::visibility("default")]] void cuota_simulator_memory_limits(int device, std::size_t* soft,
                                                                             std::size_t* hard,
                                                                             std::size_t* used) {
    guard lock{the_machine().mutex};
    auto const* const d = find_device(device);
    memory_limits const limits = d ? d->limits : memory_limits{};
    *soft = limits.soft;
    *hard = limits.hard;
    *used = d ? limits.used_by_others + d->used : 0;
}

extern "C" [[gnu::visibility("default")]] cudaError_t cuota_simulator_launch(
    cudaStream_t handle, char const* name, void (*run)(void*), void (*drop)(void*), void* body) {
    return api(function::cuota_simulator_launch,
               [&](guard& lock) { return enqueue_kernel(lock, handle, name, run, drop, body); });
}

extern "C" [[gnu::visibility("default")]] int cuota_simulator_in_kernel() {
    return caller.doing == activity::kernel;
}

extern "C" [[gnu::visibility("default")]] char const* cuota_simulator_fault() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    auto const& d = current_device();
    return failure_of(d) == cudaSuccess ? "" : d.failure_text.c_str();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t call, void* data) {
    return api(function::cudaLaunchHostFunc, [&](guard& lock) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
        if (!call) return cudaErrorInvalidValue;
        enqueue(lock, s, make_task([call, data, s] {
                    if (failure_of(s->owner) != cudaSuccess) return;  // as in CUDA
                    call_host_function([&] { call(data); });
                }));
        return cudaSuccess;
    });
}

// The older form of cudaLaunchHostFunc.
extern "C" [[gnu::visibility("default")]] cudaError_t cudaStreamAddCallback(cudaStream_t handle,
                                                                            cudaStreamCallback_t call,
                                                                            void* data, unsigned int flags) {
    return api(function::cudaStreamAddCallback, [&](guard& lock) {
        auto const s = find_stream(handle);
        if (!s) return bad_handle();
        if (auto const failure = failure_of(s->owner); failure != cudaSuccess) return failure;
        if (!call || flags != 0) return cudaErrorInvalidValue;
        enqueue(lock, s, make_task([call, data, handle, s] {
                    call_host_function([&] { call(handle, failure_of(s->owner), data); });
                }));
        return cudaSuccess;
    });
}
