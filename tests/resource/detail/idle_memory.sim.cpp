// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/resource/detail/idle_memory.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <cuota/core/refusal_text.hpp>
#include <cuota/core/suggestions.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/foreign_capture.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using cuota::detail::idle_holder;
using cuota::detail::idle_registry;
using cuota::detail::memory_origin;

namespace {

// Holds an idle allocation of a resource, as a pool does.
template <class Memory>
class keeper final : public idle_holder {
public:
    keeper(memory_origin from, std::size_t bytes, std::string name)
        : bytes_{bytes}, kept_{memory_.allocate_sync(bytes)}, name_{std::move(name)} {
        idle_registry::join(from, *this);
    }
    ~keeper() override {
        idle_registry::leave(*this);
        (void)reclaim(bytes_);
    }
    std::size_t reclaim(std::size_t wanted) noexcept override {
        requested.push_back(wanted);
        if (!kept_) return 0;
        memory_.deallocate_sync(std::exchange(kept_, nullptr), bytes_);
        return bytes_;
    }
    std::size_t reclaimable(std::size_t) const noexcept override { return kept_ ? bytes_ : 0; }
    std::string title() const override { return name_; }

    std::vector<std::size_t> requested;

private:
    Memory memory_;
    std::size_t const bytes_;
    void* kept_;
    std::string const name_;
};
using device_keeper = keeper<cuota::device_memory>;
using pinned_keeper = keeper<cuota::pinned_memory>;

// Reports memory that the driver has taken already, as memory of graphs may be.
class overrated final : public idle_holder {
public:
    explicit overrated(std::size_t reported) : reported_{reported} {
        idle_registry::join(cuota::device{0}, *this);
    }
    ~overrated() override { idle_registry::leave(*this); }
    std::size_t reclaim(std::size_t) noexcept override { return std::exchange(reported_, 0); }
    std::size_t reclaimable(std::size_t) const noexcept override { return reported_; }
    int priority() const noexcept override { return 1; }  // first
    std::string title() const override { return "overrated"; }

private:
    std::size_t reported_;
};

void keep_freed_memory() {
    cudaMemPool_t pool = nullptr;
    REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
    std::uint64_t keep = ~std::uint64_t{0};
    REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep) == cudaSuccess);
}

template <class Memory>
void takes_what_lies_idle(std::size_t bytes) {
    Memory memory;
    void* const p = memory.allocate_sync(bytes);
    memory.deallocate_sync(p, bytes);
}

}  // namespace

TEST_CASE("idle memory of the driver's pool is released for requests that do not fit",
          "[resource][idle_memory]") {
    support::machine const sim{{1, 80_MiB}};
    keep_freed_memory();
    cuota::stream const s;
    cuota::async_memory pooled;
    pooled.deallocate(s, pooled.allocate(s, 60_MiB), 60_MiB);
    s.synchronize();
    REQUIRE(cuota::device{0}.memory().free < 30_MiB);
    SECTION("of cudaMalloc") { takes_what_lies_idle<cuota::device_memory>(70_MiB); }
    SECTION("of managed memory") { takes_what_lies_idle<cuota::managed_memory>(70_MiB); }
    SECTION("of cudaMallocAsync") { takes_what_lies_idle<cuota::async_memory>(70_MiB); }
}

TEST_CASE("holders that report more than the driver gets do not keep others from being called",
          "[resource][idle_memory]") {
    support::machine const sim{{1, 64_MiB}};
    std::vector<cuota::detail::intrusive_ptr<overrated>> first;  // more than there are measures
    for (int i = 0; i != 6; ++i) first.push_back(cuota::detail::intrusive_ptr<overrated>::make(40_MiB));
    auto const last = cuota::detail::intrusive_ptr<device_keeper>::make(cuota::device{0}, 40_MiB, "last");
    takes_what_lies_idle<cuota::device_memory>(32_MiB);
    CHECK(last->requested.size() == 1);
    cuota::simulator::set_other_programs(0, 40_MiB);
    CHECK_THROWS_AS(takes_what_lies_idle<cuota::device_memory>(32_MiB), cuota::out_of_memory);
}

TEST_CASE("if a cache and such a holder do not suffice, the others are called", "[resource][idle_memory]") {
    support::machine const sim{{1, 64_MiB}};
    auto const first = cuota::detail::intrusive_ptr<overrated>::make(12_MiB);
    auto const second = cuota::detail::intrusive_ptr<device_keeper>::make(cuota::device{0}, 15_MiB, "second");
    auto const cache =
        cuota::detail::intrusive_ptr<device_keeper>::make(memory_origin::unknown(), 16_MiB, "cache");
    takes_what_lies_idle<cuota::device_memory>(61_MiB);
    CHECK(first->reclaimable(1) == 0);
    CHECK(second->requested == std::vector<std::size_t>{12_MiB});
}

TEST_CASE("where the driver refuses what it reports as free, all idle memory is released",
          "[resource][idle_memory]") {
    support::machine const sim{{1, 64_MiB}};
    auto const one = cuota::detail::intrusive_ptr<device_keeper>::make(cuota::device{0}, 20_MiB, "one");
    cuota::simulator::set_unusable_memory(0, 8_MiB);
    REQUIRE(cuota::device{0}.memory().free == 44_MiB);
    takes_what_lies_idle<cuota::device_memory>(40_MiB);
    CHECK(one->requested == std::vector<std::size_t>{20_MiB});
}

TEST_CASE("a request that does not fit waits for frees that have not finished", "[resource][idle_memory]") {
    support::machine const sim{{1, 80_MiB}};
    cuota::stream const s;
    cuota::simulator::set_jitter(1, std::chrono::milliseconds{20});
    for (int i = 0; i != 5; ++i) {
        cuota::async_memory pooled;
        void* const p = pooled.allocate(s, 60_MiB);
        REQUIRE(cudaMemsetAsync(p, 1, 60_MiB, s.get()) == cudaSuccess);
        pooled.deallocate(s, p, 60_MiB);
        takes_what_lies_idle<cuota::device_memory>(70_MiB);
    }
}

TEST_CASE("the wait for frees leaves foreign captures intact", "[resource][idle_memory][foreign_capture]") {
    support::machine const sim{{1, 80_MiB}};
    cuota::async_memory pooled;
    std::optional<cuota::stream> s{std::in_place};
    support::native_stream const captured;
    cuota::simulator::set_jitter(1, std::chrono::milliseconds{20});
    void* const p = pooled.allocate(*s, 60_MiB);
    REQUIRE(cudaMemsetAsync(p, 1, 60_MiB, s->get()) == cudaSuccess);
    pooled.deallocate(*s, p, 60_MiB);
    auto const mode = GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed);
    support::foreign_capture capture{captured, mode};

    takes_what_lies_idle<cuota::device_memory>(70_MiB);
    pooled.deallocate(*s, pooled.allocate(*s, 1_MiB), 1_MiB);
    s.reset();  // no later wait has to include this stream
    CHECK_THROWS_AS(takes_what_lies_idle<cuota::device_memory>(90_MiB), cuota::out_of_memory);

    support::native_graph const graph{capture.end()};
}

TEST_CASE("a request in a capture releases idle memory without waiting for the captured stream",
          "[resource][idle_memory]") {
    support::machine const sim{{1, 80_MiB}};
    keep_freed_memory();
    cuota::stream const s;
    cuota::async_memory pooled;
    pooled.deallocate(s, pooled.allocate(s, 60_MiB), 60_MiB);
    s.synchronize();
    cuota::stream const captured;
    auto const made = cuota::capture(captured, [] { takes_what_lies_idle<cuota::device_memory>(70_MiB); });
    (void)made;
}

TEST_CASE("owners of idle device memory are called when the device has too little memory",
          "[resource][idle_memory]") {
    support::machine const sim{{2, 80_MiB}};
    auto const large = cuota::detail::intrusive_ptr<device_keeper>::make(cuota::device{0}, 40_MiB, "large");
    auto const small = cuota::detail::intrusive_ptr<device_keeper>::make(cuota::device{0}, 20_MiB, "small");
    auto const pinned =
        cuota::detail::intrusive_ptr<pinned_keeper>::make(memory_origin::host(), 20_MiB, "pinned");
    std::size_t const free = cuota::device{0}.memory().free;
    cuota::device_memory memory;

    SECTION("the one with the least excess first") {
        void* const p = memory.allocate_sync(free + 10_MiB);
        CHECK(small->requested.size() == 1);
        CHECK(large->requested.empty());
        memory.deallocate_sync(p, free + 10_MiB);
    }
    SECTION("not if the driver grants the request") {
        auto const calls = cuota::simulator::calls();
        void* const p = memory.allocate_sync(free / 2);
        CHECK(cuota::simulator::calls("cudaMemPoolTrimTo") == 0);
        CHECK(cuota::simulator::calls("cudaDeviceSynchronize") == 0);
        CHECK(cuota::simulator::calls() - calls <= 4);
        CHECK(large->requested.empty());
        memory.deallocate_sync(p, free / 2);
    }
    SECTION("not if all of them together do not suffice") {
        void* const mine = memory.allocate_sync(10_MiB);
        auto const refused =
            support::thrown<cuota::out_of_memory>([&] { (void)memory.allocate_sync(75_MiB); });
        CHECK(large->requested.empty());
        CHECK(small->requested.empty());
        memory.deallocate_sync(mine, 10_MiB);
    }
    SECTION("not for another device") {
        cuota::device_memory second{cuota::device{1}};
        void* const mine = second.allocate_sync(70_MiB);
        CHECK_THROWS_AS(second.allocate_sync(20_MiB), cuota::out_of_memory);
        CHECK(large->requested.empty());
        second.deallocate_sync(mine, 70_MiB);
    }
    SECTION("not while the thread is reclaiming already") {
        cuota::detail::reclaiming const here;
        CHECK_THROWS_AS(memory.allocate_sync(free + 10_MiB), cuota::out_of_memory);
        CHECK(small->requested.empty());
    }
    CHECK(pinned->requested.empty());
}

TEST_CASE("the refusal names the reclaimers whose release did not suffice", "[resource][idle_memory]") {
    support::machine const sim{{1, 80_MiB}};
    auto const kept = cuota::detail::intrusive_ptr<device_keeper>::make(cuota::device{0}, 20_MiB, "kept");
    cuota::device_memory memory;
    std::size_t const free = cuota::device{0}.memory().free;
    cuota::simulator::fail_larger_than(free);  // as if free memory were fragmented
    auto const refused =
        support::thrown<cuota::out_of_memory>([&] { (void)memory.allocate_sync(free + 10_MiB); });
    CHECK(refused.info().reclaimed == 20_MiB);
    REQUIRE(refused.info().reclaimers->size() == 1);
    CHECK(refused.info().reclaimers->front().name == "kept");
    CHECK(refused.info().reclaimers->front().requested == 10_MiB);
    CHECK(refused.info().device->free == free + 20_MiB);
}

TEST_CASE("idle page-locked memory is released when the host has no more", "[resource][idle_memory]") {
    support::machine const sim;
    auto const kept =
        cuota::detail::intrusive_ptr<pinned_keeper>::make(memory_origin::host(), 20_MiB, "kept");
    auto const of_device =
        cuota::detail::intrusive_ptr<device_keeper>::make(cuota::device{0}, 20_MiB, "device");
    cuota::simulator::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    takes_what_lies_idle<cuota::pinned_memory>(10_MiB);
    CHECK(kept->requested == std::vector<std::size_t>{10_MiB});
    CHECK(of_device->requested.empty());
}

TEST_CASE("memory of the driver's pool has its own line in a refusal and is not external",
          "[resource][idle_memory]") {
    support::machine const sim{{1, 80_MiB}};
    keep_freed_memory();
    cuota::stream const s;
    cuota::async_memory pooled;
    void* const mine = pooled.allocate(s, 10_MiB);
    pooled.deallocate(s, pooled.allocate(s, 40_MiB), 40_MiB);
    s.synchronize();
    auto const facts = cuota::detail::facts_of(cuota::device{0});
    REQUIRE(facts);
    CHECK(facts->pooled >= 40_MiB);
    CHECK(facts->external() < 1_MiB);
    cuota::refusal r;
    r.requested = r.charged = 70_MiB;
    r.device = *facts;
    CHECK(r.device_shortfall() == 0);
    CHECK(support::has(cuota::refusal_text("cuota::out_of_memory", r),
                       "  driver's own pool     idle " + cuota::bytes_text(facts->pooled)));
    pooled.deallocate(s, mine, 10_MiB);
    s.synchronize();
}
