// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/steps/step_state.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::detail::step_server;
using cuota::detail::step_state;
using support::has;
using support::thrown;

namespace {

/// Upstream of addresses without memory. It tracks live blocks and can refuse one request.
class numbered_memory {
public:
    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t, cuota::label const& who = {}) {
        return allocate_sync(bytes, 256, who);
    }
    void deallocate(cuota::stream_ref, void* p, std::size_t bytes, std::size_t) noexcept {
        deallocate_sync(p, bytes, 256);
    }
    void* allocate_sync(std::size_t bytes, std::size_t, cuota::label const& who = {}) {
        std::scoped_lock const lock{all_->guard};
        if (++all_->requested == all_->refused) {
            cuota::refusal r;
            r.requested = bytes;
            r.request = who;
            throw cuota::out_of_memory{std::move(r)};
        }
        auto const at = all_->next;
        all_->live.emplace(at, bytes);
        all_->next += cuota::round_up(bytes, 256) + 256;
        return reinterpret_cast<void*>(at);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t) noexcept {
        std::scoped_lock const lock{all_->guard};
        auto const found = all_->live.find(reinterpret_cast<std::uintptr_t>(p));
        if (found == all_->live.end() || found->second != bytes) ++all_->wrong;
        else all_->live.erase(found);
    }
    [[nodiscard]] std::size_t granularity() const noexcept { return 256; }
    [[nodiscard]] cuota::memory_kind kind() const noexcept { return cuota::memory_kind::device; }
    friend bool operator==(numbered_memory const&, numbered_memory const&) noexcept = default;

    /// Refuses the n-th request from now on, or none if n is 0.
    void refuse(std::size_t n) const {
        all_->requested = 0;
        all_->refused = n;
    }
    [[nodiscard]] bool has_refused() const { return all_->refused != 0 && all_->requested >= all_->refused; }
    [[nodiscard]] std::size_t live() const { return all_->live.size(); }
    [[nodiscard]] std::size_t wrong() const { return all_->wrong; }

private:
    struct state {
        std::mutex guard;
        std::uintptr_t next = std::uintptr_t{1} << 40;
        std::map<std::uintptr_t, std::size_t> live{};
        std::size_t requested = 0, refused = 0, wrong = 0;
    };
    std::shared_ptr<state> all_ = std::make_shared<state>();
};
static_assert(cuota::labeled_resource<numbered_memory>);

/// A plan on that upstream, and a program that uses it and frees its blocks even when an exception is thrown.
struct program {
    numbered_memory upstream{};
    cuota::stream stream{};
    std::unique_ptr<step_state> owned = std::make_unique<step_state>(upstream, cuota::step_plan_options{});
    step_state& plan = *owned;

    struct block {
        program* of;
        std::size_t bytes;
        void* at;
        block(program& p, std::size_t n)
            : of{&p}, bytes{n}, at{p.plan.server().allocate(p.stream, n, 256, {"x", {"train.cpp", 1}})} {}
        block(block const&) = delete;
        block& operator=(block const&) = delete;
        ~block() { of->plan.server().deallocate(of->stream, at, bytes, 256); }
    };
    struct scope {
        step_state& of;
        explicit scope(step_state& p) : of{p} { of.begin_step({}); }
        scope(scope const&) = delete;
        scope& operator=(scope const&) = delete;
        ~scope() { of.end_step(); }
    };
    void step(std::vector<std::size_t> const& sizes) {
        scope const now{plan};
        for (std::size_t const bytes : sizes) {
            block const a{*this, bytes};
            block const b{*this, 2 * bytes};
        }
    }
};

std::vector<std::size_t> const sizes{1000, 2000, 3000};

}  // namespace

TEST_CASE("step_state: a plan survives the refusal of any upstream request", "[pool][step_state]") {
    support::captured_errors errors;
    std::size_t refused = 0;
    for (std::size_t nth = 1;; ++nth) {
        program p;
        INFO("request " << nth << " is refused");
        p.upstream.refuse(nth);
        std::unique_ptr<program::block> kept;
        auto const survive = [&](auto f) {
            try {
                f();
                return true;
            } catch (cuota::out_of_memory const&) {
                CHECK(p.upstream.has_refused());
                return false;
            }
        };
        if (survive([&] { p.step(sizes); })) survive([&] { p.plan.prepare({}); });
        survive([&] { p.step(sizes); });
        survive([&] { p.step({1000, 5000, 2000, 3000, 7000}); });
        survive([&] {
            program::scope const now{p.plan};
            kept = std::make_unique<program::block>(p, 1000);
        });
        p.plan.rerecord({});
        survive([&] { p.step({4000, 1000}); });
        survive([&] { p.step({4000, 1000}); });
        kept.reset();
        bool const was_refused = p.upstream.has_refused();
        p.upstream.refuse(0);
        p.step(sizes);  // the plan still works
        p.step(sizes);
        CHECK(p.plan.stats().live == 0);
        CHECK(p.upstream.live() == (p.plan.stats().has_slab ? 1 : 0));
        p.plan.close();
        CHECK(p.upstream.live() == 0);
        CHECK(p.upstream.wrong() == 0);
        if (!was_refused) break;
        ++refused;
    }
    CHECK(refused > 10);
    CHECK(errors.count() == 0);
}

TEST_CASE("step_state: a plan survives a lack of host memory at any allocation", "[pool][step_state]") {
    support::captured_errors errors;
    std::size_t refused = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        std::size_t left = 0;
        {
            program p;
            p.step(sizes);
            INFO("after " << allowed);
            {
                std::vector<std::size_t> const fewer{4000};
                support::failing_heap const heap{allowed};
                try {
                    p.step(sizes);
                    p.plan.rerecord({});
                    p.step(fewer);
                    p.step(fewer);
                } catch (std::bad_alloc const&) {}
                left = heap.refused();
            }
            CHECK(p.plan.stats().live == 0);
            p.plan.close();
            CHECK(p.upstream.live() == 0);
            CHECK(p.upstream.wrong() == 0);
        }
        if (left == 0) break;
        ++refused;
    }
    CHECK(refused > 20);
    (void)errors.take();  // reports of steps that could not be recorded
}

TEST_CASE("step_state: a block that is freed without the plan and allocated again is recorded twice",
          "[pool][step_state]") {
    program p;
    {
        program::scope const now{p.plan};
        auto& server = p.plan.server();
        cuota::any_resource same{p.upstream};
        void* const q = server.allocate(p.stream, 1000, 256, {});
        same.deallocate(p.stream, q, 1000, 256);  // without the plan
        void* const r = server.allocate(p.stream, 2000, 256, {});
        server.deallocate(p.stream, r, 2000, 256);
    }
    p.plan.prepare({});
    auto const planned = p.plan.planned();
    REQUIRE(planned.requests.size() == 2);
    CHECK_FALSE(planned.requests[0].is_planned);
    CHECK(planned.requests[1].is_planned);
    CHECK(p.plan.outlived().size() == 1);
    p.plan.close();
}

TEST_CASE("step_state: operations that require a closed step throw in a step and change nothing",
          "[pool][step_state]") {
    program p;
    CHECK(has(thrown<cuota::usage_error>([&] { p.plan.prepare({"train.cpp", 5}); }).what(), "train.cpp:5"));
    p.step(sizes);
    p.step(sizes);
    {
        program::scope const now{p.plan};
        program::block const a{p, 1000};
        REQUIRE_THROWS_AS(p.plan.begin_step({}), cuota::usage_error);
        REQUIRE_THROWS_AS(p.plan.prepare({}), cuota::usage_error);
        REQUIRE_THROWS_AS(p.plan.rerecord({}), cuota::usage_error);
        REQUIRE_THROWS_AS(p.plan.use({}, {}), cuota::usage_error);
        program::block const b{p, 2000};
        CHECK(p.plan.stats().served == 8);
    }
    CHECK(p.plan.stats().steps == 3);
    p.plan.close();
    REQUIRE_THROWS_AS(p.plan.begin_step({}), cuota::usage_error);
    REQUIRE_THROWS_AS(p.plan.rerecord({}), cuota::usage_error);
}

TEST_CASE("step_state: requests of zero bytes or of invalid sizes change nothing", "[pool][step_state]") {
    program p;
    p.step(sizes);
    p.step(sizes);
    auto& server = p.plan.server();
    {
        program::scope const now{p.plan};
        CHECK(server.allocate(p.stream, 0, 256, {}) == nullptr);
        CHECK(server.allocate_sync(0, 256, {}) == nullptr);
        server.deallocate(p.stream, nullptr, 0, 256);
        server.deallocate_sync(nullptr, 0, 256);
        for (std::size_t const alignment : {std::size_t{0}, std::size_t{3}, cuota::unlimited})
            REQUIRE_THROWS_AS(server.allocate(p.stream, 1000, alignment, {}), cuota::usage_error);
        p.upstream.refuse(1);
        REQUIRE_THROWS_AS(server.allocate(p.stream, cuota::unlimited, 256, {}), cuota::out_of_memory);
        program::block const a{p, 1000};
        CHECK(p.plan.stats().served == 7);
    }
    CHECK(p.plan.stats().missed_size == 1);
    CHECK(p.plan.stats().outside == 0);
    p.plan.close();
}

TEST_CASE("step_state: a plan that is closed in a step keeps its slab until the step ends",
          "[pool][step_state]") {
    support::captured_errors errors;
    program p;
    p.step(sizes);
    p.step(sizes);
    auto now = std::make_unique<program::scope>(p.plan);
    auto a = std::make_unique<program::block>(p, 1000);
    p.plan.close();
    CHECK(has(errors.take().at(0), "1 allocation is still alive: x 1000 B (train.cpp:1)"));
    REQUIRE_THROWS_AS(p.plan.server().allocate(p.stream, 2000, 256, {}), cuota::usage_error);
    REQUIRE_THROWS_AS(p.plan.server().allocate_sync(2000, 256, {}), cuota::usage_error);
    a.reset();
    now.reset();
    REQUIRE_THROWS_AS(p.plan.server().allocate(p.stream, 2000, 256, {}), cuota::usage_error);
    CHECK(p.plan.stats().live == 0);
    CHECK(p.upstream.live() == 1);
    p.owned.reset();
    CHECK(p.upstream.live() == 0);
    CHECK(errors.count() == 0);
}

TEST_CASE("step_state: successive plans free all of their slabs", "[pool][step_state]") {
    support::captured_errors errors;
    program p;
    std::vector<std::unique_ptr<program::block>> kept;
    for (std::size_t i = 0; i != 5; ++i) {
        p.step({1000 * (i + 1)});
        p.step({1000 * (i + 1)});
        {
            program::scope const now{p.plan};
            kept.push_back(std::make_unique<program::block>(p, 1000 * (i + 1)));
        }
        p.plan.rerecord({});
        CHECK(p.upstream.live() == i + 1);
        CHECK(p.plan.stats().live == i + 1);
        CHECK(p.plan.outlived().size() == i + 1);
    }
    kept.erase(kept.begin() + 1, kept.begin() + 4);
    p.plan.rerecord({});
    CHECK(p.upstream.live() == 2);
    kept.clear();
    p.plan.close();
    CHECK(p.upstream.live() == 0);
    CHECK(p.upstream.wrong() == 0);
}

TEST_CASE("step_state: threads may allocate while steps and plans begin and end", "[pool][step_state]") {
    support::captured_errors errors;
    program p;
    std::vector<std::thread> threads;
    std::vector<char> right(3, 1);
    for (std::size_t t = 0; t != right.size(); ++t)
        threads.emplace_back([&, t] {
            cuota::stream const own;
            auto& server = p.plan.server();
            for (std::size_t i = 0; i != 300; ++i) {
                std::size_t const bytes = 1000 * (1 + (i + t) % 3);
                void* const a = server.allocate(own, bytes, 256, {});
                void* const b =
                    i % 5 == 0 ? server.allocate_sync(bytes, 256, {}) : server.allocate(own, bytes, 256, {});
                if (a == b) right[t] = 0;
                if (i % 7 == 0) server.deallocate_sync(a, bytes, 256);
                else server.deallocate(own, a, bytes, 256);
                server.deallocate(own, b, bytes, 256);
            }
        });
    for (std::size_t i = 0; i != 40; ++i) {
        p.step(sizes);
        if (i % 8 == 7) p.plan.rerecord({});
        (void)p.plan.stats();
        (void)p.plan.outlived();
    }
    for (std::thread& t : threads) t.join();
    CHECK(right == std::vector<char>(3, 1));
    CHECK(p.plan.stats().live == 0);
    p.plan.close();
    CHECK(p.upstream.live() == 0);
    CHECK(p.upstream.wrong() == 0);
    CHECK(errors.count() == 0);
}
