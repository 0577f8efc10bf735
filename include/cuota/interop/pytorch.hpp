// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Budgeted device memory for PyTorch, which loads a shared library of C functions.
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

#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/interop/detail/pytorch_device.hpp>
#include <cuota/interop/device_limits.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/report/export/summary.hpp>
#include <cuota/report/export/summary_json.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/report/recording/recording.hpp>
#include <cuota/report/snapshot/snapshot.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0 {

/// Serves PyTorch: one budget and one pool per device, made on its first request.
///
/// PyTorch has two interfaces for an allocator:
/// - `torch.cuda.MemPool` with `use_mem_pool` requests segments. On null, PyTorch frees cached memory, retries, and raises
///   torch.OutOfMemoryError. Use `try_allocate`.
/// - `change_current_allocator` requests every tensor, and does not check for null. Use `allocate`: PyTorch raises RuntimeError with its
///   text.
///
/// A torch.cuda.ExternalStream must outlive memory that was allocated or marked on it. Allocating on a captured stream does not invalidate
/// the capture. A block that is freed while a stream that uses it is captured is reused in that capture only. Where the device supports
/// virtual memory, CUDA's IPC cannot share the memory: device tensors cannot go through torch.multiprocessing. The budget counts the
/// driver's pages of 2 MiB, but not the CUDA context and libraries' memory.
/// Order:   memory is valid in the order of its allocation's stream. Deallocation is ordered after the given stream and all marked ones,
///          without blocking the host.
/// Threads: any.
/// Throws:  std::bad_alloc from functions that return texts; others as stated.
/// Cost:    as scoped_pool on a native stream: a lock, a query for capture, and an event per deallocation.
/// Example: examples/pytorch_allocator.cpp
class pytorch_allocator {
public:
    /// Sets the limits of devices that are opened later.
    explicit pytorch_allocator(device_limits limits = {})
        : limits_{detail::light_shared_ptr<device_limits const>::make(std::move(limits))} {}
    pytorch_allocator(pytorch_allocator const&) = delete;  // PyTorch frees memory where it was allocated
    pytorch_allocator& operator=(pytorch_allocator const&) = delete;
    /// The pools report memory that is still allocated.
    ~pytorch_allocator() {
        recorder_.reset();  // before the budgets that it observes
        for (std::atomic<detail::pytorch_device*>& one : devices_) delete one.load();
    }

    /// Returns the object of this process, with limits from CUOTA_BUDGET. If that text is invalid, all requests throw the reason until
    /// `configure` succeeds. Never destroyed: PyTorch may free memory while the program exits.
    CUOTA_PROCESS_STATE [[nodiscard]] static pytorch_allocator& instance() noexcept {
        static pytorch_allocator& one = *from_environment();
        return one;
    }

    /// Sets the limits of devices that are not open yet; see device_limits. Throws: usage_error; unchanged on failure.
    void configure(std::string_view text) {
        auto fresh = detail::light_shared_ptr<device_limits const>::make(text, "configure");
        detail::region_lock const lock{guard()};
        limits_ = std::move(fresh);
        wrong_limits_ = nullptr;
    }

    /// Allocates; returns null for 0 bytes. Throws: budget_exceeded, out_of_memory, cuda_error, usage_error, and the error in CUOTA_BUDGET.
    /// On failure, nothing is allocated.
    [[nodiscard]] void* allocate(std::size_t bytes, int device, cudaStream_t s) {
        try {
            return at(device).allocate(s, bytes);
        } catch (...) {
            remember(std::current_exception());
            throw;
        }
    }
    /// Same, but returns null on failure. Errors other than lack of memory also go to the error sink: PyTorch reports them as lack of
    /// memory.
    [[nodiscard]] void* try_allocate(std::size_t bytes, int device, cudaStream_t s) noexcept {
        void* p = nullptr;
        try_to([&] { p = at(device).allocate(s, bytes); });
        return p;
    }
    /// Deallocates memory of this device with the bytes of its allocation; null is ignored. Anything else is reported to the error sink and
    /// last_failure() as misuse, without effect. Does nothing in a forked child.
    void deallocate(void* p, std::size_t bytes, int device, cudaStream_t s) noexcept {
        if (!p || detail::process_number::is_cuda_of_parent()) return;
        try_to([&] {
            detail::kept_error const wrong;
            opened(device).deallocate(s, p, bytes, marks_.take(p));
            wrong.rethrow();
        });
    }
    /// Marks p as used by s: after its deallocation, p is reused only after the work that s has by that time.
    void record_stream(void* p, cudaStream_t s) noexcept {
        if (p)
            try_to([&] {
                if (detail::process_number::is_cuda_of_parent()) detail::throw_forked();
                marks_.add(p, s);
            });
    }

    /// Releases unused memory of all devices to the driver; returns the bytes.
    std::size_t trim() noexcept {
        std::size_t given = 0;
        for_each([&](detail::pytorch_device& one) { try_to([&] { given += one.trim(0); }); });
        return given;
    }
    /// Sets a device's limit. Throws: usage_error, cuda_error.
    void set_limit(int device, std::size_t bytes) { at(device).set_limit(bytes); }
    /// Sets a device's limit to a share (0 to 1) of its memory. Throws: usage_error, cuda_error; unchanged on failure.
    void set_fraction(int device, double share) {
        if (!(share >= 0.0 && share <= 1.0))
            detail::throw_usage_error("set_fraction: {} is out of range [0, 1]", {share});
        detail::pytorch_device& one = at(device);
        std::size_t const total = one.where().memory().total;
        one.set_limit(std::min(total, static_cast<std::size_t>(share * static_cast<double>(total))));
    }

    /// Returns whether a device has a budget and a pool.
    [[nodiscard]] bool is_initialized(int device) const noexcept {
        return device >= 0 && device < max_devices &&
               devices_[static_cast<std::size_t>(device)].load() != nullptr;
    }
    /// Returns a device's budget; opens the device. Throws: as `allocate`.
    [[nodiscard]] budget const& account(int device) { return at(device).account(); }
    /// Returns the pool's statistics; opens the device.
    [[nodiscard]] pool_stats stats(int device) { return at(device).stats(); }

    /// Returns the `summary` of all devices.
    [[nodiscard]] std::string summary_text() {
        std::string all;
        for_each([&](detail::pytorch_device& one) {
            all += (all.empty() ? "" : "\n\n") + summary(snapshot_of(one.account(), snapshot_detail::totals));
        });
        return all.empty() ? "no allocations on any device" : all;
    }
    /// Returns the devices' summary_json as a JSON list.
    [[nodiscard]] std::string summary_as_json() {
        std::string all;
        for_each([&](detail::pytorch_device& one) {
            all +=
                (all.empty() ? "" : ",") + summary_json(snapshot_of(one.account(), snapshot_detail::totals));
        });
        return detail::message("[{}]", {all});
    }
    /// Starts recording all devices. Throws: usage_error if already recording; as `recorder`.
    void record(recorder_options wanted = {}) {
        detail::region_lock const lock{opening()};
        if (recorder_) detail::throw_usage_error("PyTorch's memory is already being recorded");
        recorder fresh{wanted};
        for_each([&](detail::pytorch_device& one) { fresh.watch(one.account()); });
        recorder_.emplace(std::move(fresh));
    }
    /// Returns the events. Throws: usage_error if not recording.
    [[nodiscard]] recording recorded() {
        detail::region_lock const lock{opening()};
        if (!recorder_) detail::throw_usage_error("PyTorch's memory is not being recorded");
        return recorder_->read();
    }

    /// Returns the text of the last failure, or an empty one.
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

    /// Runs `step`, keeps its exception for last_failure() and returns whether it threw none.
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
    static constexpr int max_devices = 128;

    [[nodiscard]] static pytorch_allocator* from_environment() noexcept {
        auto* const made = new pytorch_allocator;
        try {
            made->limits_ =
                detail::light_shared_ptr<device_limits const>::make(device_limits::from_environment());
        } catch (...) { made->wrong_limits_ = std::current_exception(); }
        return made;
    }

    // Process locks: a child may use its parent's configuration, if the parent has used no CUDA. The guarded value is replaced by one store.
    CUOTA_PROCESS_STATE [[nodiscard]] static detail::process_lock& guard() noexcept {
        static detail::never_destroyed<detail::process_lock> one;
        return one.value;
    }
    CUOTA_PROCESS_STATE [[nodiscard]] static detail::process_lock& opening() noexcept {
        static detail::never_destroyed<detail::process_lock> one;
        return one.value;
    }

    void remember(std::exception_ptr failure) noexcept {
        detail::region_lock const lock{guard()};
        last_.swap(failure);  // the previous one is destroyed outside the lock
    }

    [[nodiscard]] std::atomic<detail::pytorch_device*>& slot_of(int ordinal) {
        if (ordinal < 0 || ordinal >= max_devices)
            detail::throw_usage_error("PyTorch: device {} is out of range: at most {} are supported",
                                      {ordinal, max_devices});
        return devices_[static_cast<std::size_t>(ordinal)];
    }
    [[nodiscard]] detail::pytorch_device& at(int ordinal) {
        if (auto* const made = slot_of(ordinal).load(std::memory_order_acquire)) [[likely]]
            return *made;
        return open(ordinal);
    }
    [[nodiscard]] detail::pytorch_device& opened(int ordinal) {
        if (auto* const made = slot_of(ordinal).load(std::memory_order_acquire)) [[likely]]
            return *made;
        detail::throw_usage_error("PyTorch: deallocate on device {}, where nothing was allocated", {ordinal});
    }
    [[nodiscard]] detail::pytorch_device& open(int ordinal) {
        detail::region_lock const lock{opening()};
        if (auto* const made = slot_of(ordinal).load(std::memory_order_relaxed)) return *made;
        if (int const count = device::count(); ordinal >= count)
            detail::throw_usage_error("PyTorch: device {} is out of range: the number of devices is {}",
                                      {ordinal, count});
        device const where{ordinal};
        device_scope const here{where};
        auto fresh = std::make_unique<detail::pytorch_device>(where, limit_of(where));
        if (recorder_) recorder_->watch(fresh->account());
        slot_of(ordinal).store(fresh.get(), std::memory_order_release);
        return *fresh.release();
    }
    [[nodiscard]] std::size_t limit_of(device where) {
        std::size_t const total = where.memory().total;
        detail::region_lock const lock{guard()};
        if (wrong_limits_) std::rethrow_exception(wrong_limits_);
        return limits_->bytes_for(where.ordinal(), total);
    }

    template <class See>
    void for_each(See see) {
        for (std::atomic<detail::pytorch_device*> const& one : devices_)
            if (auto* const made = one.load(std::memory_order_acquire)) see(*made);
    }

    std::array<std::atomic<detail::pytorch_device*>, max_devices> devices_{};
    detail::recorded_streams marks_;
    std::optional<recorder> recorder_;                      // under opening()
    detail::light_shared_ptr<device_limits const> limits_;  // with the following, under guard()
    std::exception_ptr wrong_limits_;
    std::exception_ptr last_;
};

/// Copies a text to a C buffer, null-terminated and truncated at a UTF-8 character if too long. Returns the text's length; a null buffer is
/// permitted.
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
