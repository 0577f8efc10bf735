// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/pool/graph_memory.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/rt/graph_memory.hpp>
#include <cuota/runtime/rt/memory.hpp>
#include <cuota/simulator.hpp>

#include "programs/adversary_counts.hpp"
#include "support/catch.hpp"

/// Random programs beside other programs that allocate and free at any time: the state that the threads of a program share, and the oracle.
namespace adversary {

/// Threads that stop for each other: between their steps, or while they are refused.
class meeting {
public:
    explicit meeting(std::size_t threads) noexcept : threads_{threads} {}

    /// Waits while another thread is alone.
    void pass() {
        if (!is_wanted_) return;
        std::unique_lock lock{guard_};
        wait(lock, [] { return true; });
    }
    /// Runs f while all other threads wait.
    template <class F>
    void alone(F f) {
        std::unique_lock lock{guard_};
        if (is_wanted_) wait(lock, [] { return true; });
        is_wanted_ = true;
        changed_.wait(lock, [this] { return waiting_ + 1 == threads_; });
        lock.unlock();
        f();
        lock.lock();
        is_wanted_ = false;
        changed_.notify_all();
    }
    /// Waits for all threads; the last one runs f before the others go on.
    template <class F>
    void meet(F f) {
        std::unique_lock lock{guard_};
        if (++arrived_ == threads_) {
            f();
            arrived_ = 0;
            ++meetings_;
            changed_.notify_all();
            return;
        }
        wait(lock, [this, before = meetings_] { return meetings_ != before; });
    }

private:
    template <class Condition>
    void wait(std::unique_lock<std::mutex>& lock, Condition is_over) {
        ++waiting_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !is_wanted_ && is_over(); });
        --waiting_;
    }

    std::size_t const threads_;
    std::mutex guard_;
    std::condition_variable changed_;
    std::atomic<bool> is_wanted_ = false;  // changed under the lock
    std::size_t waiting_ = 0, arrived_ = 0, meetings_ = 0;
};

/// Idle device memory that is released on demand.
class cache {
public:
    explicit cache(cuota::budget const& account) : memory_{account} {
        reclaimer_.emplace(
            account, "cache", [this](std::size_t) { return held(); },
            [this](std::size_t) { return release(); });
    }
    void fill(std::size_t bytes) {
        void* const p = memory_.allocate_sync(bytes, 256, {"cache", {}});
        std::scoped_lock const lock{guard_};
        blocks_.emplace_back(p, bytes);
    }
    std::size_t release() {
        std::vector<std::pair<void*, std::size_t>> all;
        {
            std::scoped_lock const lock{guard_};
            all.swap(blocks_);
        }
        for (auto const& [p, bytes] : all) memory_.deallocate_sync(p, bytes);
        return sum_of(all);
    }
    ~cache() {
        reclaimer_.reset();
        release();
    }

private:
    [[nodiscard]] std::size_t held() const {
        std::scoped_lock const lock{guard_};
        return sum_of(blocks_);
    }
    [[nodiscard]] static std::size_t sum_of(std::vector<std::pair<void*, std::size_t>> const& blocks) {
        std::size_t sum = 0;
        for (auto const& [p, bytes] : blocks) sum += cuota::round_up(bytes, 512);
        return sum;
    }

    cuota::budgeted<cuota::device_memory> memory_;
    mutable std::mutex guard_;
    std::vector<std::pair<void*, std::size_t>> blocks_;
    std::optional<cuota::reclaimer> reclaimer_;
};

/// The objects of one thread that the oracle looks at while the thread waits.
struct holdings {
    cuota::stream streams[2];
    std::optional<cuota::reservation> reserved;
    std::optional<cuota::batch_loader> loader;
    bool is_loader_idle = false;  // between epochs, and may be asked for its memory
    std::atomic<bool> has_graphs = false;
    std::size_t in_graphs = 0;  // bytes of blocks of graphs, which the simulator counts as live

    [[nodiscard]] std::size_t unspent() const { return reserved ? reserved->bytes() : 0; }
};

/// A device of one kind, budgets, and holders of memory.
class scene {
public:
    scene(device_kind kind, std::uint64_t seed, std::size_t threads = 1)
        : kind_{kind},
          draw_{seed},
          share_{0.5 + 0.1 * static_cast<double>(draw_() % 6)},
          is_single{threads == 1},
          looks_always{draw_() % 2 == 0},
          root{cuota::budget::for_device(cuota::device{0}, share_, 0,
                                         std::chrono::milliseconds{looks_always ? 0 : 10})},
          child{"child", 4_MiB + draw_() % 24 * 1_MiB, root},
          pools{cuota::scoped_pool{root}, cuota::scoped_pool{child}},
          plain{root},
          ordered{child},
          idle{std::make_unique<cache>(root)},
          graphs{root},
          others{threads} {
        if (!std::getenv("CUOTA_SIM_CHECKS"))
            sim::set_memory_checks(sim::memory_checks::off);  // no content matters
        bool const has_soft_limit = kind_ == device_kind::soft_limit;
        if (kind_ == device_kind::held_by_driver || (has_soft_limit && draw_() % 2 == 0)) hold_in_driver();
        if (kind_ == device_kind::hard_limit) sim::set_memory_limits(0, {0, hard_limit, 0});
        is_restless = draw_() % 3 == 0;
        resume_others();
    }

    void enter(holdings& of) {
        std::scoped_lock const lock{guard_};
        all_.push_back(&of);
    }
    void leave(holdings& of) {
        std::scoped_lock const lock{guard_};
        std::erase(all_, &of);
    }

    /// Changes what other programs use, and what the driver keeps.
    void change_others(std::mt19937_64& draw) {
        std::scoped_lock const lock{guard_};
        std::size_t const capacity = total();
        if (kind_ == device_kind::unified) sim::set_page_cache(0, draw() % capacity);
        if (kind_ == device_kind::refuses_below_free) sim::set_unusable_memory(0, draw() % (capacity / 8));
        // They can have no more than there is.
        std::size_t const free = cuota::device{0}.memory().free;
        if (kind_ == device_kind::soft_limit)
            sim::set_memory_limits(0, {capacity / 2, cuota::unlimited, draw() % (capacity / 4)});
        if (kind_ == device_kind::hard_limit) {
            of_group_ = std::min(draw() % (capacity / 4), of_group_ + free);
            sim::set_memory_limits(0, {0, hard_limit, of_group_});
        }
        std::size_t const most = cuota::device{0}.memory().free + sim::other_programs(0).bytes;
        sim::set_other_programs(0, draw() % 3 == 0 ? 0 : std::min(draw() % capacity, most));
    }
    void pause_others() {
        if (is_restless) sim::set_restless_programs(0, 0, 0);
    }
    void resume_others() {
        if (is_restless) sim::set_restless_programs(0, total() / 2, 0.2, draw_());
    }

    /// Returns whether graphs may run: their memory is in use. A stream of another thread may be captured, which a query would end.
    [[nodiscard]] bool has_running_graphs(holdings const& of) {
        std::scoped_lock const lock{guard_};
        for (holdings const* const one : all_)
            if (one->has_graphs && (one != &of || !of.streams[0].is_idle() || !of.streams[1].is_idle()))
                return true;
        return false;
    }
    /// Returns the bytes of graphs that are charged, but that the driver has taken for other allocations.
    [[nodiscard]] std::size_t taken_back_of_graphs() const {
        std::size_t const held = graphs.held();
        return held - std::min(held, cuota::rt::memory_of_graphs(cuota::device{0}));
    }
    /// Waits for all work. No other thread runs.
    static void wait_for_streams() { cuota::device{0}.synchronize(); }
    /// Releases all idle memory. No other thread runs.
    void release_idle() {
        wait_for_streams();
        idle->release();
        for (holdings* const of : all_)
            if (of->is_loader_idle) {
                of->loader.reset();
                of->is_loader_idle = false;
            }
        for (cuota::scoped_pool& p : pools) p.trim();
        (void)graphs.trim();
        cuota::rt::trim_default_pool(cuota::device{0});
    }
    /// Returns whether the budgets of the program and CUDA have that many bytes. No other thread runs.
    [[nodiscard]] bool fits(cuota::refusal const& r) {
        if (r.new_limit || r.charged == cuota::unlimited) return false;
        for (cuota::budget_info const& b : r.budgets) {
            bool const is_root = b.name == root.name();
            std::size_t const limit =
                is_root ? static_cast<std::size_t>(share_ * static_cast<double>(total())) : b.limit;
            if (b.is_reservation || b.held + r.charged > limit) return false;
        }
        // Reserved bytes are not allocated yet, but promised.
        std::size_t const promised = unspent();
        if (auto const limits = cuota::device{0}.limits(); limits && limits->left() < r.charged + promised)
            return false;
        std::size_t const margin = kind_ == device_kind::unified ? total() / 16 : 0;
        void* p = nullptr;
        cudaError_t const code = cudaMalloc(&p, r.charged + margin + promised);
        (void)cudaGetLastError();
        if (code == cudaSuccess) (void)cudaFree(p);
        return code == cudaSuccess;
    }
    /// Compares the account of the budget with the simulator's. No other thread runs.
    void compare(counts& seen) {
        wait_for_streams();
        std::size_t live = sim::live().device_bytes;
        for (holdings const* const of : all_) live -= of->in_graphs;
        std::size_t const of_graphs = graphs.held(),
                          by_driver = cuota::rt::memory_of_graphs(cuota::device{0});
        // The driver may release memory of graphs by itself.
        if (root.held() == live + unspent() + of_graphs && of_graphs >= by_driver) return;
        seen.note(seen.unequal, "held " + std::to_string(root.held()) + ", live " + std::to_string(live) +
                                    ", reserved " + std::to_string(unspent()) + ", of graphs " +
                                    std::to_string(of_graphs) + ", of graphs by the driver " +
                                    std::to_string(by_driver));
    }
    /// Releases all that the program's threads did not hold; nothing may be left.
    void end(counts& seen) {
        sim::set_restless_programs(0, 0, 0);
        idle.reset();
        release_holders();
        compare(seen);
        // The driver keeps a part of each launch that it refuses.
        std::size_t const held = root.held(), lost = cuota::rt::memory_of_graphs(cuota::device{0});
        if (held != lost) seen.note(seen.unequal, std::to_string(held) + " bytes are left");
        if (!is_restless && lost != 0) ++seen.lost;
    }

    [[nodiscard]] static std::size_t total() { return cuota::device{0}.memory().total; }
    /// Counts actions of all threads that may take or release memory.
    std::atomic<std::size_t> actions = 0;

private:
    static constexpr std::size_t hard_limit = 48_MiB;

    // Memory that the program took by cudaMallocAsync and freed: the driver keeps it in its pool.
    static void hold_in_driver() {
        cuota::stream const s;
        cudaMemPool_t pool = nullptr;
        std::uint64_t all = UINT64_MAX;
        REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
        REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess);
        void* p = nullptr;
        if (cudaMallocAsync(&p, total() / 2, s.get()) != cudaSuccess) return;
        REQUIRE(cudaFreeAsync(p, s.get()) == cudaSuccess);
        s.synchronize();
    }
    void release_holders() {
        for (cuota::scoped_pool& p : pools) p.trim();
        (void)graphs.trim();
    }
    [[nodiscard]] std::size_t unspent() const {
        std::size_t sum = 0;
        for (holdings const* const of : all_) sum += of->unspent();
        return sum;
    }

    device_kind const kind_;
    std::mutex guard_;
    std::mt19937_64 draw_;
    double const share_;
    std::size_t of_group_ = 0;
    std::vector<holdings*> all_;

public:
    bool const is_single;
    bool const looks_always;
    bool is_restless = false;
    cuota::budget root;
    cuota::budget child;
    cuota::scoped_pool pools[2];
    std::atomic<bool> is_in_step[2] = {};
    cuota::budgeted<cuota::device_memory> plain;
    cuota::budgeted<cuota::async_memory> ordered;
    std::unique_ptr<cache> idle;
    cuota::graph_memory graphs;
    meeting others;
};

}  // namespace adversary
