// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One device that PyTorch is served on, and the streams that its memory is used on.
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

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/process.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/ledger.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/runtime/drain.hpp>
#include <cuota/runtime/event.hpp>

namespace cuota::inline v0::detail {

/// Streams that use memory beside the one that it is of, until it is given back. Threads: any.
class marked_streams {
public:
    /// Throws: std::bad_alloc; unchanged then.
    void add(void* p, cudaStream_t s) {
        region_lock const lock{guard_};
        std::vector<cudaStream_t>& of = streams_[p];
        if (std::ranges::find(of, s) == of.end()) of.push_back(s);
        memories_.store(streams_.size(), std::memory_order_relaxed);
    }
    /// Those of p, and it has none any more. No lock while nothing is marked.
    [[nodiscard]] std::vector<cudaStream_t> take(void* p) noexcept {
        // Whoever gives p back comes after whoever marked it, and so sees that something is.
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

/// One device's budget and pool. Threads: any.
class pytorch_device {
public:
    /// With that device current. Throws: cuda_error, std::bad_alloc.
    pytorch_device(device where, std::size_t limit)
        : where_{where},
          account_{"device " + std::to_string(where.ordinal()), limit},
          pool_{account_, {.name = "pytorch"}, {}} {}

    /// Throws: as scoped_pool.
    [[nodiscard]] void* allocate(cudaStream_t s, std::size_t bytes) {
        device_scope const here{where_};  // the default stream's handle means that of the current device
        return pool_.allocate(s, bytes, default_alignment, "pytorch", {});
    }
    /// After the work of s so far, and after that of `others`. What goes wrong is reported.
    void deallocate(cudaStream_t s, void* p, std::size_t bytes,
                    std::vector<cudaStream_t> const& others) noexcept {
        std::optional<device_scope> here;
        if (!enter(here)) return;
        if (std::optional<cudaStream_t> const captured = captured_of(others))
            return pool_.deallocate(stream_ref{*captured}, p, bytes);  // the graph may use it
        stream const* const after = others.empty() ? nullptr : gathered(s, others);
        pool_.deallocate(after ? stream_ref{*after} : stream_ref{s}, p, bytes);
    }

    /// Bytes given back to the driver. Throws: cuda_error.
    std::size_t trim(std::size_t keep) {
        device_scope const here{where_};
        return pool_.trim(keep);
    }
    /// May be under what is held: then what nobody uses is given back, and nothing more is had until there is room.
    /// Throws: cuda_error; the limit is set all the same.
    void set_limit(std::size_t bytes) {
        if (process_number::is_cuda_of_parent()) throw_forked();
        (void)budget_access::node(account_).set_limit(bytes);
        if (account_.held() > bytes) (void)trim(bytes);
    }

    [[nodiscard]] device where() const noexcept { return where_; }
    [[nodiscard]] budget const& account() const noexcept { return account_; }
    [[nodiscard]] pool_stats stats() const noexcept { return pool_.stats(); }

private:
    // Makes the device current to give something back. What fails for a passing reason must not leave a leak: it is tried
    // again, and then done without, for only the default stream means another one then. False when CUDA has ended with
    // the program: then the driver has taken all back.
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
    // One of `others` that is part of a foreign capture. What cannot be asked is reported.
    [[nodiscard]] static std::optional<cudaStream_t> captured_of(
        std::vector<cudaStream_t> const& others) noexcept {
        std::optional<cudaStream_t> captured;
        for (cudaStream_t const other : others)
            report_failure_of([&] {
                if (foreign_capture_of(other) != 0) captured = other;
            });
        return captured;
    }
    // A stream that comes after s and all others, so that none of them waits for another. Null when there is none to be
    // had: then the host has waited for the others.
    [[nodiscard]] stream const* gathered(cudaStream_t s, std::vector<cudaStream_t> const& others) noexcept {
        region_lock const lock{guard_};
        bool const is_after_all = report_failure_of([&] {
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
