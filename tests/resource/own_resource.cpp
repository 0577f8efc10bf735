// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A resource as a user would write one. CONTRIBUTING.md shows the part between the marks; tests/lint/contributing.py checks that both are
// equal.
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;

namespace {

// ---- shown in CONTRIBUTING.md
/// Upstream's memory, and how many blocks of it are alive. Copies are the same resource.
/// Order, threads: those of Upstream. Throws: what Upstream throws; nothing is counted then.
template <cuota::resource Upstream>
class counted {
public:
    explicit counted(Upstream upstream) : upstream_{std::move(upstream)} {}

    [[nodiscard]] void* allocate(
        cuota::stream_ref s, std::size_t bytes, std::size_t alignment,
        cuota::label const& who = {}) {  // tag and call site, for accounts and messages
        return count(cuota::allocate_labeled(upstream_, s, bytes, alignment, who));
    }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        upstream_.deallocate(s, p, bytes, alignment);
        if (p) --*live_;
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment,
                                      cuota::label const& who = {}) {
        return count(cuota::allocate_sync_labeled(upstream_, bytes, alignment, who));
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        upstream_.deallocate_sync(p, bytes, alignment);
        if (p) --*live_;
    }
    [[nodiscard]] std::size_t granularity() const noexcept { return upstream_.granularity(); }
    [[nodiscard]] cuota::memory_kind kind() const noexcept { return upstream_.kind(); }
    friend bool operator==(counted const& a, counted const& b) noexcept { return a.live_ == b.live_; }

    [[nodiscard]] std::size_t live() const noexcept { return *live_; }

private:
    [[nodiscard]] void* count(void* p) noexcept {
        if (p) ++*live_;
        return p;
    }

    Upstream upstream_;
    std::shared_ptr<std::atomic<std::size_t>> live_ = std::make_shared<std::atomic<std::size_t>>(0);
};
static_assert(cuota::labeled_resource<counted<cuota::device_memory>>);
// ---- to here

}  // namespace

TEST_CASE("a user-defined resource behaves as a resource over any upstream", "[resource][own_resource]") {
    SECTION("on device memory") {
        counted memory{cuota::device_memory{}};
        support::behaves_as_a_resource(memory);
        REQUIRE(memory.live() == 0);
    }
    SECTION("on pinned memory") {
        counted memory{cuota::pinned_memory{}};
        support::behaves_as_a_resource(memory);
        REQUIRE(memory.live() == 0);
    }
    SECTION("as any_resource") {
        support::behaves_as_a_resource(cuota::any_resource{counted{cuota::device_memory{}}});
    }
}

TEST_CASE("a user-defined resource counts live allocations, but no refused ones",
          "[resource][own_resource]") {
    counted memory{cuota::device_memory{}};
    counted copy{memory};
    cuota::stream const s;
    void* const p = memory.allocate(s, 1000, 256);
    void* const q = copy.allocate_sync(1000, 256);
    REQUIRE(memory.live() == 2);
    REQUIRE_THROWS_AS(memory.allocate_sync(cuota::unlimited, 256), cuota::out_of_memory);
    REQUIRE(memory.allocate_sync(0, 256) == nullptr);
    REQUIRE(memory.live() == 2);
    copy.deallocate(s, p, 1000, 256);
    memory.deallocate_sync(q, 1000, 256);
    REQUIRE(copy.live() == 0);
}

TEST_CASE("a user-defined resource works with budgets, pools and buffers", "[resource][own_resource]") {
    counted const memory{cuota::device_memory{}};
    cuota::budget const budget{"program", 4_MiB};
    {
        cuota::scoped_pool const pool{budget, memory};
        cuota::stream const s;
        cuota::device_buffer<int> const x{1000, 7, s, pool};
        REQUIRE(x.to_vector(s) == std::vector<int>(1000, 7));
        REQUIRE(memory.live() == 1);
        REQUIRE(support::thrown<cuota::budget_exceeded>([&] {
                    cuota::device_buffer<int> const y{2'000'000, s, pool};
                })
                    .info()
                    .refusing_budget()
                    ->name == "program");
    }
    REQUIRE(memory.live() == 0);
    REQUIRE(budget.held() == 0);
}
