// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Device memory for PyTorch, under a budget for each device: what a shared library calls that PyTorch is told to load.
/// Not in all.hpp. Needs no header of PyTorch's: between the two are C functions (examples/pytorch_allocator.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/interop/device_limits.hpp>
#include <cuota/interop/pytorch_device.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/report/recorder.hpp>
#include <cuota/report/recording.hpp>
#include <cuota/report/snapshot.hpp>
#include <cuota/report/summary.hpp>
#include <cuota/report/summary_json.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

/// What PyTorch is served from: for each device that it asks for, a budget and a pool, made with the first request.
///
/// PyTorch has two ways to take memory of a library, and they differ in what a refusal may be:
/// - `torch.cuda.MemPool` with `use_mem_pool`: PyTorch's own cache stays, and asks for its segments. Null is a refusal:
///   it frees what it has cached, asks again, and raises torch.OutOfMemoryError. That is `try_allocate`.
/// - `change_current_allocator`: every tensor is asked for here, and null is not looked at: the first kernel would fault.
///   So it must throw, and PyTorch raises RuntimeError with the text. That is `allocate`.
///
/// Streams are PyTorch's and stay its own: one that memory was taken or marked on must not be destroyed before that memory
/// was given back. PyTorch keeps its own streams for ever; a torch.cuda.ExternalStream is its owner's to keep.
/// While a stream is captured into a graph (torch.cuda.graph), memory can be allocated on it; the capture is not invalidated. PyTorch
/// keeps the memory of a graph until the graph is reset. A block that is freed while a stream that uses it is being captured stays
/// allocated, and is reused in that capture only.
/// The memory is pages of the driver's virtual memory where the device has that: other processes cannot open it by CUDA's IPC,
/// so tensors on the device do not go through torch.multiprocessing.
/// What the budget counts is what the driver gave, in pages of 2 MiB: not the CUDA context, nor what libraries take.
/// Units:   bytes. Order: memory is valid in the stream that it is asked for on; it is given back in order of the stream
///          given then and of all that it was marked for, and the host waits for none of them.
/// Threads: any. Throws: as each says; the process's own (`of_process`) is never destroyed, so that what PyTorch gives
///          back while the program ends finds it.
/// Cost:    as scoped_pool of a native stream: a lock, the question whether the stream is captured, and at the release an event.
/// Example: examples/pytorch_allocator.cpp
class pytorch_memory {
public:
    /// The limits of devices that are asked for later.
    explicit pytorch_memory(device_limits limits = {})
        : limits_{shared_value<device_limits const>::make(std::move(limits))} {}
    pytorch_memory(pytorch_memory const&) = delete;  // PyTorch gives back where it took
    pytorch_memory& operator=(pytorch_memory const&) = delete;
    /// What is still alive is reported by the pools.
    ~pytorch_memory() {
        recorder_.reset();  // before the budgets that it looks on
        for (std::atomic<detail::pytorch_device*>& one : devices_) delete one.load();
    }

    /// The one of this process, limited as CUOTA_BUDGET says. When that text is wrong all requests are refused, with the
    /// reason, until `configure` has one that is right.
    CUOTA_PROCESS_STATE [[nodiscard]] static pytorch_memory& of_process() noexcept {
        static pytorch_memory& one = *of_environment();
        return one;
    }

    /// Limits for devices that nothing was asked of yet; see device_limits. Throws: misuse; unchanged then.
    void configure(std::string_view text) {
        auto fresh = shared_value<device_limits const>::make(text, "configure");
        detail::region_lock const lock{guard()};
        limits_ = std::move(fresh);
        wrong_limits_ = nullptr;
    }

    /// Null for 0 bytes. Throws: budget_exceeded, out_of_memory, cuda_error, misuse (a device that is not there), and
    /// what was wrong with CUOTA_BUDGET: nothing is taken then.
    [[nodiscard]] void* allocate(std::size_t bytes, int device, cudaStream_t s) {
        try {
            return at(device).allocate(s, bytes);
        } catch (...) {
            remember(std::current_exception());
            throw;
        }
    }
    /// Null when it is refused, and why is in last_failure(). What is no lack of memory goes to the error sink, too:
    /// PyTorch will say that memory is short.
    [[nodiscard]] void* try_allocate(std::size_t bytes, int device, cudaStream_t s) noexcept {
        void* p = nullptr;
        try_to([&] { p = at(device).allocate(s, bytes); });
        return p;
    }
    /// Memory of this device that is alive, with as many bytes as it was asked for; or null. Anything else goes to the error
    /// sink as misuse, and to last_failure(), and changes nothing.
    /// Does nothing in a forked child of the process that allocated it, where Python's collector may call this.
    void deallocate(void* p, std::size_t bytes, int device, cudaStream_t s) noexcept {
        if (!p || detail::process_number::is_cuda_of_parent()) return;
        try_to([&] {
            detail::kept_error const wrong;
            opened(device).deallocate(s, p, bytes, marks_.take(p));
            wrong.rethrow();
        });
    }
    /// Work of s uses p, too: when p is given back, it serves nobody before what is enqueued on s by then.
    void record_stream(void* p, cudaStream_t s) noexcept {
        if (p)
            try_to([&] {
                if (detail::process_number::is_cuda_of_parent()) detail::throw_forked();
                marks_.add(p, s);
            });
    }

    /// Gives back to the driver what nobody uses, on all devices; returns the bytes.
    std::size_t trim() noexcept {
        std::size_t given = 0;
        for_each([&](detail::pytorch_device& one) { try_to([&] { given += one.trim(0); }); });
        return given;
    }
    /// Sets a device's limit, from now on. Throws: misuse, cuda_error.
    void set_limit(int device, std::size_t bytes) { at(device).set_limit(bytes); }
    /// As set_limit, to a share of the device's memory: 0 to 1. Throws: misuse, cuda_error; unchanged then.
    void set_share(int device, double share) {
        if (!(share >= 0.0 && share <= 1.0))
            detail::throw_misuse("a share of {} is not between 0 and 1", {share});
        detail::pytorch_device& one = at(device);
        std::size_t const total = one.where().memory().total;
        one.set_limit(std::min(total, static_cast<std::size_t>(share * static_cast<double>(total))));
    }

    /// Whether a device was asked for: then its budget and its pool are there.
    [[nodiscard]] bool is_open(int device) const noexcept {
        return device >= 0 && device < most_devices &&
               devices_[static_cast<std::size_t>(device)].load() != nullptr;
    }
    /// The budget of a device, and what its pool holds. Both open the device, as a request does. Throws: as `allocate`.
    [[nodiscard]] budget const& account(int device) { return at(device).account(); }
    [[nodiscard]] pool_stats stats(int device) { return at(device).stats(); }  ///< of its pool

    /// Every device on one screen; see `summary`. Throws: std::bad_alloc.
    [[nodiscard]] std::string summary_text() {
        std::string all;
        for_each([&](detail::pytorch_device& one) {
            all += (all.empty() ? "" : "\n\n") + summary(snapshot_of(one.account(), snapshot_detail::totals));
        });
        return all.empty() ? "nothing was asked of any device" : all;
    }
    /// A list with a summary_json of each device. Throws: std::bad_alloc.
    [[nodiscard]] std::string summary_as_json() {
        std::string all;
        for_each([&](detail::pytorch_device& one) {
            all +=
                (all.empty() ? "" : ",") + summary_json(snapshot_of(one.account(), snapshot_detail::totals));
        });
        return detail::message("[{}]", {all});
    }
    /// From now on the last events of all devices are remembered, for `recorded`. Throws: misuse when they are already;
    /// as `recorder`.
    void record(recorder_options wanted = {}) {
        detail::region_lock const lock{opening()};
        if (recorder_) detail::throw_misuse("PyTorch's memory is recorded already");
        recorder fresh{wanted};
        for_each([&](detail::pytorch_device& one) { fresh.watch(one.account()); });
        recorder_.emplace(std::move(fresh));
    }
    /// For write_timeline and write_memory_viz. Throws: misuse when nothing is recorded; std::bad_alloc.
    [[nodiscard]] recording recorded() {
        detail::region_lock const lock{opening()};
        if (!recorder_) detail::throw_misuse("PyTorch's memory is not recorded");
        return recorder_->read();
    }

    /// Why a request was refused, or another call did nothing, last; empty when none was. Throws: std::bad_alloc.
    [[nodiscard]] std::string last_failure() {
        std::exception_ptr last;
        {
            detail::region_lock const lock{guard()};
            last = last_;
        }
        try {
            if (last) std::rethrow_exception(last);
        } catch (std::exception const& error) { return error.what(); } catch (...) {
            return "an exception that is not a std::exception";
        }
        return {};
    }

    /// Runs `step`; what it throws is remembered for last_failure(). True when nothing was thrown. Never throws: for C.
    template <class Step>
    bool try_to(Step&& step) noexcept {
        try {
            std::forward<Step>(step)();
            return true;
        } catch (out_of_memory const&) { remember(std::current_exception()); } catch (...) {
            std::exception_ptr const error = std::current_exception();
            remember(error);
            report_failure_of([&] { std::rethrow_exception(error); });
        }
        return false;
    }

private:
    static constexpr int most_devices = 128;

    [[nodiscard]] static pytorch_memory* of_environment() noexcept {
        auto* const made = new pytorch_memory;
        try {
            made->limits_ = shared_value<device_limits const>::make(device_limits::of_environment());
        } catch (...) { made->wrong_limits_ = std::current_exception(); }
        return made;
    }

    // Locks of the process: PyTorch may use in a child what its parent has configured, if the parent has used no CUDA. What they guard
    // is replaced by one store.
    CUOTA_PROCESS_STATE [[nodiscard]] static detail::process_lock& guard() noexcept {
        static auto& one = *new detail::process_lock;
        return one;
    }
    CUOTA_PROCESS_STATE [[nodiscard]] static detail::process_lock& opening() noexcept {
        static auto& one = *new detail::process_lock;
        return one;
    }

    void remember(std::exception_ptr failure) noexcept {
        detail::region_lock const lock{guard()};
        last_.swap(failure);  // the one before ends outside the lock
    }

    [[nodiscard]] std::atomic<detail::pytorch_device*>& place_of(int ordinal) {
        if (ordinal < 0 || ordinal >= most_devices)
            detail::throw_misuse("PyTorch named device {}: there are at most {}", {ordinal, most_devices});
        return devices_[static_cast<std::size_t>(ordinal)];
    }
    [[nodiscard]] detail::pytorch_device& at(int ordinal) {
        if (auto* const made = place_of(ordinal).load(std::memory_order_acquire)) [[likely]]
            return *made;
        return open(ordinal);
    }
    [[nodiscard]] detail::pytorch_device& opened(int ordinal) {
        if (auto* const made = place_of(ordinal).load(std::memory_order_acquire)) [[likely]]
            return *made;
        detail::throw_misuse("memory of device {} was given back, and none was ever taken there", {ordinal});
    }
    [[nodiscard]] detail::pytorch_device& open(int ordinal) {
        detail::region_lock const lock{opening()};
        if (auto* const made = place_of(ordinal).load(std::memory_order_relaxed)) return *made;
        if (int const count = device::count(); ordinal >= count)
            detail::throw_misuse("PyTorch named device {}: there are {}", {ordinal, count});
        device const where{ordinal};
        device_scope const here{where};
        auto fresh = std::make_unique<detail::pytorch_device>(where, limit_of(where));
        if (recorder_) recorder_->watch(fresh->account());
        place_of(ordinal).store(fresh.get(), std::memory_order_release);
        return *fresh.release();
    }
    [[nodiscard]] std::size_t limit_of(device where) {
        std::size_t const total = where.memory().total;
        detail::region_lock const lock{guard()};
        if (wrong_limits_) std::rethrow_exception(wrong_limits_);
        return limits_->of(where.ordinal(), total);
    }

    template <class See>
    void for_each(See see) {
        for (std::atomic<detail::pytorch_device*> const& one : devices_)
            if (auto* const made = one.load(std::memory_order_acquire)) see(*made);
    }

    std::array<std::atomic<detail::pytorch_device*>, most_devices> devices_{};
    detail::marked_streams marks_;
    std::optional<recorder> recorder_;          // under opening()
    shared_value<device_limits const> limits_;  // it and what follows: under guard()
    std::exception_ptr wrong_limits_;
    std::exception_ptr last_;
};

/// A text for C: as much of it as there is room for, and a 0 behind; returns the bytes that all of it would take, without
/// the 0. A null buffer, or one without room, only asks. What is cut is cut between characters of UTF-8.
inline std::size_t copy_text(std::string const& text, char* into, std::size_t room) noexcept {
    if (!into || room == 0) return text.size();
    std::size_t count = std::min(text.size(), room - 1);
    if (count < text.size())
        while (count != 0 && detail::continues_utf8(text[count])) --count;
    std::memcpy(into, text.data(), count);
    into[count] = '\0';
    return text.size();
}

}  // namespace cuota::inline v0
