// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Random programs under a device's budget, beside other programs that allocate and free between their calls, or before any CUDA call, on
// devices of each kind. An oracle judges each refusal: it releases all idle memory, requests the same again, and then asks CUDA itself.
// For as long as one likes: CUOTA_ADVERSARY=<programs of each kind>.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"

using namespace cuota::literals;
using namespace std::chrono_literals;
namespace sim = cuota::simulator;

namespace {

enum class device_kind { discrete, unified, soft_limit, hard_limit, small_slice, held_by_driver };
constexpr device_kind all_kinds[] = {device_kind::discrete,    device_kind::unified,
                                     device_kind::soft_limit,  device_kind::hard_limit,
                                     device_kind::small_slice, device_kind::held_by_driver};

constexpr std::size_t hard_limit = 48_MiB;

struct counts {
    std::size_t requests = 0, refusals = 0, driver_refusals = 0, disturbed = 0, judged = 0;
    std::size_t contradicted = 0;  // refusals of requests that fit once idle memory was released
    std::size_t over_soft = 0;     // requests that were granted above the soft limit
    std::size_t unequal = 0;       // the budget's bytes were not those of the simulator
    std::string first{};
};

// Idle device memory that is released on demand.
class cache {
public:
    explicit cache(cuota::budget const& account) : memory_{account} {
        reclaimer_.emplace(
            account, "cache", [this](std::size_t) { return held(); },
            [this](std::size_t) { return release(); });
    }
    void fill(std::size_t bytes) {
        void* const p = memory_.allocate_sync(bytes, 256, {"cache", {}});
        blocks_.emplace_back(p, bytes);
    }
    std::size_t release() {
        std::size_t const given = held();
        for (auto const& [p, bytes] : std::exchange(blocks_, {})) memory_.deallocate_sync(p, bytes);
        return given;
    }
    ~cache() {
        reclaimer_.reset();
        release();
    }

private:
    [[nodiscard]] std::size_t held() const {
        std::size_t sum = 0;
        for (auto const& [p, bytes] : blocks_) sum += cuota::round_up(bytes, 512);
        return sum;
    }

    cuota::budgeted<cuota::device_memory> memory_;
    std::vector<std::pair<void*, std::size_t>> blocks_;
    std::optional<cuota::reclaimer> reclaimer_;
};

class program {
public:
    program(device_kind kind, std::uint64_t seed, counts& seen)
        : kind_{kind},
          draw_{seed},
          seen_{seen},
          share_{0.5 + 0.1 * static_cast<double>(below(6))},
          looks_always_{below(2) == 0},
          root_{cuota::budget::for_device(cuota::device{0}, share_, 0,
                                          looks_always_ ? 0ns : std::chrono::nanoseconds{10ms})},
          child_{"child", 4_MiB + below(24) * 1_MiB, root_},
          pools_{cuota::scoped_pool{root_}, cuota::scoped_pool{child_}},
          plain_{root_},
          ordered_{child_},
          idle_{std::make_unique<cache>(root_)} {
        if (kind_ == device_kind::held_by_driver) hold_in_driver();
        if (kind_ == device_kind::hard_limit) sim::set_memory_limits(0, {0, hard_limit, 0});
        is_restless_ = below(3) == 0;
        if (is_restless_) sim::set_restless_programs(0, total() / 2, 0.2, seed);
    }

    void run(int steps) {
        for (int i = 0; i != steps; ++i) {
            if (!is_restless_ && below(4) == 0) change_others();
            step();
            if (below(8) == 0) compare();
        }
        sim::set_restless_programs(0, 0, 0);
        buffers_.clear();
        for (auto const& [p, bytes] : blocks_) plain_.deallocate_sync(p, bytes);
        blocks_.clear();
        reserved_.reset();
        idle_.reset();
        for (cuota::scoped_pool& p : pools_) p.trim();
        for (cuota::stream& s : streams_) s.synchronize();
        compare();
    }

private:
    [[nodiscard]] std::size_t below(std::size_t n) { return draw_() % n; }
    [[nodiscard]] std::size_t some_bytes() {
        return below(3) == 0 ? 1 + below(4'000) : below(4) == 0 ? below(16_MiB) + 1 : below(2_MiB) + 1;
    }
    [[nodiscard]] static std::size_t total() { return cuota::device{0}.memory().total; }

    // Memory that the program took by cudaMallocAsync and freed: the driver keeps it in its pool.
    void hold_in_driver() {
        cudaMemPool_t pool = nullptr;
        std::uint64_t all = UINT64_MAX;
        REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
        REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess);
        void* p = nullptr;
        if (cudaMallocAsync(&p, total() / 2, streams_[0].get()) != cudaSuccess) return;
        REQUIRE(cudaFreeAsync(p, streams_[0].get()) == cudaSuccess);
        streams_[0].synchronize();
    }
    void change_others() {
        std::size_t const capacity = total();
        if (kind_ == device_kind::unified) sim::set_page_cache(0, below(capacity));
        // They can have no more than there is.
        std::size_t const free = cuota::device{0}.memory().free;
        if (kind_ == device_kind::soft_limit)
            sim::set_memory_limits(0, {capacity / 2, cuota::unlimited, below(capacity / 4)});
        if (kind_ == device_kind::hard_limit) {
            others_of_group_ = std::min(below(capacity / 4), others_of_group_ + free);
            sim::set_memory_limits(0, {0, hard_limit, others_of_group_});
        }
        std::size_t const most = cuota::device{0}.memory().free + sim::other_programs(0).bytes;
        sim::set_other_programs(0, below(3) == 0 ? 0 : std::min(below(capacity), most));
    }

    void step() {
        switch (below(12)) {
            case 0:
            case 1:
            case 2:
            case 3: return request_buffer();
            case 4: return request_block();
            case 5: return request_ordered();
            case 6:
            case 7:
                if (!buffers_.empty())
                    buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(below(buffers_.size())));
                return;
            case 8:
                if (blocks_.empty()) return;
                plain_.deallocate_sync(blocks_.back().first, blocks_.back().second);
                return blocks_.pop_back();
            case 9: return request([this, bytes = some_bytes()] { idle_->fill(bytes); });
            case 10: return change_limit();
            default: return change_reservation();
        }
    }
    void request_buffer() {
        auto const& pool = pools_[below(2)];
        auto const& stream = streams_[below(2)];
        std::size_t const bytes = some_bytes();
        request(
            [&] { buffers_.emplace_back(bytes, stream, cuota::any_resource{pool.resource()}, "buffer"); });
    }
    void request_ordered() {
        auto const& stream = streams_[below(2)];
        std::size_t const bytes = some_bytes();
        request([&] { buffers_.emplace_back(bytes, stream, cuota::any_resource{ordered_}, "ordered"); });
    }
    void request_block() {
        std::size_t const bytes = some_bytes();
        request([&] { blocks_.emplace_back(plain_.allocate_sync(bytes, 256, {"block", {}}), bytes); });
    }
    void change_limit() {
        std::size_t const limit = below(32_MiB);
        cuota::when_held const excess = below(3) == 0 ? cuota::when_held::keep : cuota::when_held::refuse;
        request([&] { child_.set_limit(limit, excess); });
        if (below(2) == 0) child_.set_limit(4_MiB + below(24) * 1_MiB, cuota::when_held::keep);
    }
    void change_reservation() {
        if (reserved_ && below(2) == 0) return reserved_.reset();
        std::size_t const bytes = below(4_MiB);
        if (!reserved_) return request([&] { reserved_.emplace(root_.reserve(bytes, "reserved")); });
        request([&] { reserved_->grow(bytes); });
    }

    // Makes a request, and judges a refusal.
    template <class Request>
    void request(Request make) {
        ++seen_.requests;
        auto const before = sim::other_programs(0).changes;
        std::size_t const live = sim::live().device_bytes;
        try {
            make();
            // Charges of up to 64 KiB need no query.
            auto const limits = cuota::device{0}.limits();
            if (looks_always_ && limits && sim::live().device_bytes > live &&
                limits->soft != cuota::unlimited && limits->used > limits->soft + 64_KiB)
                ++seen_.over_soft;
        } catch (cuota::out_of_memory const& refused) {
            ++seen_.refusals;
            if (!dynamic_cast<cuota::budget_exceeded const*>(&refused)) ++seen_.driver_refusals;
            if (sim::other_programs(0).changes != before) {
                ++seen_.disturbed;
                return;
            }
            judge(make, refused.what());
        }
    }
    template <class Request>
    void judge(Request make, std::string const& text) {
        if (is_restless_) sim::set_restless_programs(0, 0, 0);
        ++seen_.judged;
        for (cuota::stream& s : streams_) s.synchronize();
        idle_->release();
        for (cuota::scoped_pool& p : pools_) p.trim();
        cuota::rt::trim_default_pool(cuota::device{0});
        try {
            make();
            ++seen_.contradicted;
            if (seen_.first.empty()) seen_.first = text;
        } catch (cuota::out_of_memory const& again) {
            if (fits_by_oracle(again.info())) {
                ++seen_.contradicted;
                if (seen_.first.empty()) seen_.first = again.what();
            }
        }
        if (is_restless_) sim::set_restless_programs(0, total() / 2, 0.2, draw_());
    }
    // Returns whether the budgets of the program and CUDA have that many bytes.
    [[nodiscard]] bool fits_by_oracle(cuota::refusal const& r) {
        if (r.new_limit || r.charged == cuota::unlimited) return false;
        for (cuota::budget_info const& b : r.budgets) {
            bool const is_root = b.name == root_.name();
            std::size_t const limit =
                is_root ? static_cast<std::size_t>(share_ * static_cast<double>(total())) : b.limit;
            if (b.is_reservation || b.held + r.charged > limit) return false;
        }
        if (auto const limits = cuota::device{0}.limits();
            limits && limits->left() < r.charged + (reserved_ ? reserved_->bytes() : 0))
            return false;
        // Reserved bytes are not allocated yet, but promised.
        std::size_t const margin =
            (kind_ == device_kind::unified ? total() / 16 : 0) + (reserved_ ? reserved_->bytes() : 0);
        void* p = nullptr;
        cudaError_t const code = cudaMalloc(&p, r.charged + margin);
        (void)cudaGetLastError();
        if (code == cudaSuccess) (void)cudaFree(p);
        return code == cudaSuccess;
    }
    void compare() {
        for (cuota::stream& s : streams_) s.synchronize();
        std::size_t const unspent = reserved_ ? reserved_->bytes() : 0;
        if (root_.held() == sim::live().device_bytes + unspent) return;
        ++seen_.unequal;
        if (seen_.first.empty())
            seen_.first = "held " + std::to_string(root_.held()) + ", live " +
                          std::to_string(sim::live().device_bytes) + ", reserved " + std::to_string(unspent);
    }

    device_kind const kind_;
    std::mt19937_64 draw_;
    counts& seen_;
    bool is_restless_ = false;
    std::size_t others_of_group_ = 0;
    double const share_;
    bool const looks_always_;
    cuota::stream streams_[2];
    cuota::budget root_;
    cuota::budget child_;
    cuota::scoped_pool pools_[2];
    cuota::budgeted<cuota::device_memory> plain_;
    cuota::budgeted<cuota::async_memory> ordered_;
    std::unique_ptr<cache> idle_;
    std::optional<cuota::reservation> reserved_;
    std::vector<std::pair<void*, std::size_t>> blocks_;
    std::vector<cuota::device_buffer<char>> buffers_;
};

std::size_t programs_of_each_kind() {
    char const* const wanted = std::getenv("CUOTA_ADVERSARY");
    if (wanted) return std::strtoull(wanted, nullptr, 10);
    bool const is_slow = support::under_thread_sanitizer || support::under_address_sanitizer ||
                         std::getenv("CUOTA_SIM_CHECKS") || std::getenv("CUOTA_SIM_SCHEDULE");
    return is_slow ? 30 : 300;
}

}  // namespace

TEST_CASE("no refusal is wrong and no byte is lost beside programs that allocate at any time",
          "[programs][adversary]") {
    device_kind const kind = all_kinds[GENERATE(range(0, 6))];
    counts seen;
    for (std::uint64_t seed = 1; seed <= programs_of_each_kind(); ++seed) {
        support::machine const machine{{.capacity = kind == device_kind::small_slice ? 24_MiB : 96_MiB,
                                        .is_integrated = kind == device_kind::unified}};
        program p{kind, seed, seen};
        p.run(40);
        INFO("kind " << static_cast<int>(kind) << ", seed " << seed << ": " << seen.first);
        REQUIRE(seen.contradicted == 0);
        REQUIRE(seen.unequal == 0);
        REQUIRE(seen.over_soft == 0);
    }
    INFO("kind " << static_cast<int>(kind) << ": " << seen.requests << " requests, " << seen.refusals
                 << " refusals, " << seen.driver_refusals << " by the driver, " << seen.disturbed
                 << " disturbed, " << seen.judged << " judged");
    CHECK(2 * seen.judged > programs_of_each_kind());
    CHECK(seen.requests > 15 * programs_of_each_kind());
}
