// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One device of pytorch_allocator.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

/// Additional streams that use a block. Threads: any.
class recorded_streams {
public:
    /// Unchanged on failure.
    void add(void* p, cudaStream_t s) {
        region_lock const lock{guard_};
        std::vector<cudaStream_t>& of = streams_[p];
        if (std::ranges::find(of, s) == of.end()) of.push_back(s);
        memories_.store(streams_.size(), std::memory_order_relaxed);
    }
    /// Returns and removes the streams of p. Takes no lock while no block is marked.
    [[nodiscard]] std::vector<cudaStream_t> take(void* p) noexcept {
        // A deallocation of p happens after its marks, so it sees a nonzero number.
        if (memories_.load(std::memory_order_relaxed) == 0) return {};
        region_lock const lock{guard_};
        auto const of = streams_.find(p);
        if (of == streams_.end()) return {};
        std::vector<cudaStream_t> const all = std::move(of->second);
        streams_.erase(of);
        memories_.store(streams_.size(), std::memory_order_relaxed);
        return all;
    }

private:
    std::mutex guard_;
    std::unordered_map<void*, std::vector<cudaStream_t>> streams_;
    std::atomic<std::size_t> memories_ = 0;
};

/// A device's budget and pool. Threads: any.
class pytorch_device {
public:
    /// Requires that the device is current.
    pytorch_device(device where, std::size_t limit)
        : where_{where},
          account_{"device " + std::to_string(where.ordinal()), limit},
          pool_{account_, {.name = "pytorch"}, {}} {}

    [[nodiscard]] void* allocate(cudaStream_t s, std::size_t bytes) {
        device_scope const here{where_};  // the default stream's handle refers to the current device
        return pool_.allocate(s, bytes, default_alignment, "pytorch", {});
    }
    /// Deallocates after the present work of s and `others`. Errors are reported.
    void deallocate(cudaStream_t s, void* p, std::size_t bytes,
                    std::vector<cudaStream_t> const& others) noexcept {
        std::optional<device_scope> here;
        if (!enter(here)) return;
        if (std::optional<cudaStream_t> const captured = captured_of(others))
            return pool_.deallocate(stream_ref{*captured}, p, bytes);  // the graph may use it
        stream const* const after = others.empty() ? nullptr : gathered(s, others);
        pool_.deallocate(after ? stream_ref{*after} : stream_ref{s}, p, bytes);
    }

    /// Returns the bytes released to the driver.
    std::size_t trim(std::size_t keep) {
        device_scope const here{where_};
        return pool_.trim(keep);
    }
    /// Below the held bytes, releases unused memory.
    void set_limit(std::size_t bytes) {
        if (process_number::is_cuda_of_parent()) throw_forked();
        account_.set_limit(bytes, when_held::keep);
    }

    [[nodiscard]] device where() const noexcept { return where_; }
    [[nodiscard]] budget const& account() const noexcept { return account_; }
    [[nodiscard]] pool_stats stats() const noexcept { return pool_.stats(); }

private:
    // Makes the device current for a deallocation. Retries once, then continues: an error must not leak memory, and matters only for a
    // default stream's handle. Returns false if CUDA has shut down and freed everything.
    [[nodiscard]] bool enter(std::optional<device_scope>& here) const noexcept {
        for (int tries = 0; tries != 2; ++tries) try {
                here.emplace(where_);
                return true;
            } catch (cuda_error const& error) {
                if (error.code() == cudaErrorCudartUnloading) return false;
                report_error(error);
            } catch (...) {  // no memory for the error's text
            }
        return true;
    }
    // Returns one of `others` in a foreign capture.
    [[nodiscard]] static std::optional<cudaStream_t> captured_of(
        std::vector<cudaStream_t> const& others) noexcept {
        std::optional<cudaStream_t> captured;
        for (cudaStream_t const other : others)
            report_failure_of([&] {
                if (foreign_capture_of(other) != 0) captured = other;
            });
        return captured;
    }
    // Returns a stream that waits for s and all others. On failure, the host waits for the others, and the result is null.
    [[nodiscard]] stream const* gathered(cudaStream_t s, std::vector<cudaStream_t> const& others) noexcept {
        bool const is_after_all = report_failure_of([&] {
            region_lock const lock{guard_};
            if (!gathering_) gathering_.emplace();
            gathering_->wait(event{s});
            for (cudaStream_t const other : others) gathering_->wait(event{other});
        });
        if (is_after_all) return &*gathering_;
        for (cudaStream_t const other : others) rt::drain(other);
        return nullptr;
    }

    device const where_;
    budget account_;
    scoped_pool pool_;
    std::mutex guard_;
    std::optional<stream> gathering_;
};

}  // namespace cuota::inline v0::detail
