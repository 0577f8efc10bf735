// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/recording/recorded.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/dry_run.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/lifetimes.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/managed_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>

#include "support/catch.hpp"
#include "support/resource_suite.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::dry_run_memory;
using cuota::event_kind;
using cuota::memory_event;
using cuota::recorded;
using cuota::recorder;
using cuota::recording;
using cuota::tag;

// It has the properties of the wrapped resource.
static_assert(cuota::device_accessible_resource<recorded<>> && !cuota::host_accessible_resource<recorded<>>);
static_assert(cuota::host_only_resource<recorded<cuota::pinned_memory>>);
static_assert(sizeof(recorded<cuota::any_resource>) == sizeof(void*));
static_assert(!std::is_default_constructible_v<recorded<>>);

namespace {

cuota::label labelled_as(tag name, unsigned line = 1) { return {name, {"train.cpp", line}}; }

std::uint64_t number_of(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }

char const* kind_text(event_kind k) {
    switch (k) {
        case event_kind::allocated: return "allocated";
        case event_kind::free_requested: return "free_requested";
        case event_kind::free_completed: return "free_completed";
        case event_kind::refused: return "refused";
        default: return "something else";
    }
}
std::string kinds_in(recording const& r) {
    std::string all;
    for (memory_event const& e : r.events) all += (all.empty() ? "" : " ") + std::string{kind_text(e.kind)};
    return all;
}

// Stores the events that had been recorded when it was called.
struct eavesdropper {
    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t a) { return allocate_sync(bytes, a); }
    void deallocate(cuota::stream_ref, void* p, std::size_t bytes, std::size_t a) noexcept {
        deallocate_sync(p, bytes, a);
    }
    void* allocate_sync(std::size_t, std::size_t) {
        *heard = kinds_in(to.read());
        return reinterpret_cast<void*>(std::uintptr_t{512});
    }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept { *heard = kinds_in(to.read()); }
    [[nodiscard]] static std::size_t granularity() noexcept { return 1; }
    [[nodiscard]] static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::pinned; }
    friend bool operator==(eavesdropper const&, eavesdropper const&) = default;

    recorder to;
    std::string* heard;
};

}  // namespace

TEST_CASE("recorded memory has the properties of a resource", "[report][recorded]") {
    recorder const r;
    SECTION("of device memory") { support::behaves_as_a_resource(recorded<>{r}); }
    SECTION("of async memory") { support::behaves_as_a_resource(recorded<cuota::async_memory>{r}); }
    SECTION("of managed memory") { support::behaves_as_a_resource(recorded<cuota::managed_memory>{r}); }
    SECTION("of pinned memory") { support::behaves_as_a_resource(recorded<cuota::pinned_memory>{r}); }
    SECTION("of any resource") {
        support::behaves_as_a_resource(recorded{cuota::any_resource{cuota::device_memory{}}, r});
    }
    SECTION("as any resource") { support::behaves_as_a_resource(cuota::any_resource{recorded<>{r}}); }
    SECTION("of recorded memory") { support::behaves_as_a_resource(recorded<recorded<>>{recorded<>{r}, r}); }
    recording const seen = r.read();
    CHECK(seen.dropped == 0);
    for (cuota::block_lifetime const& b : cuota::lifetimes_of(seen).blocks) {
        CHECK(b.from);
        CHECK(b.until);
    }
}

TEST_CASE("an allocation is recorded with its tag, call site, stream and sizes", "[report][recorded]") {
    recorder const r;
    recorded memory{dry_run_memory{512}, r, "scratch"};
    cuota::stream s;
    void* const p = memory.allocate(s, 1000, 256, labelled_as("weights", 7));
    void* const q = memory.allocate_sync(512, 256, labelled_as("gradients", 9));
    recording const seen = r.read();
    REQUIRE(seen.events.size() == 2);
    memory_event const& a = seen.events[0];
    CHECK(a.kind == event_kind::allocated);
    CHECK(seen.sources.at(a.source).name == "scratch");
    CHECK(seen.sites[a.site].name == tag{"weights"});
    CHECK(seen.sites[a.site].where.line == 7);
    CHECK(a.address == number_of(p));
    CHECK(a.bytes == 1000);
    CHECK(a.size == 1024);
    CHECK(a.stream == cuota::stream_ref{s}.id());
    memory_event const& b = seen.events[1];
    CHECK(b.address == number_of(q));
    CHECK(b.bytes == 512);
    CHECK(b.size == 512);
    CHECK(b.stream == memory_event::no_stream);
    CHECK(b.source == a.source);
    CHECK(b.at >= a.at);
    memory.deallocate(s, p, 1000);
    memory.deallocate_sync(q, 512);
}

TEST_CASE("a stream-ordered free is recorded as requested, a synchronous one as completed, too",
          "[report][recorded]") {
    recorder r;
    recorded memory{dry_run_memory{512}, r};
    cuota::stream s;
    void* const p = memory.allocate(s, 1000);
    void* const q = memory.allocate(cudaStreamPerThread, 1);
    r.clear();
    memory.deallocate(s, p, 1000);
    memory.deallocate_sync(q, 1);
    recording const seen = r.read();
    CHECK(kinds_in(seen) == "free_requested free_requested free_completed");
    CHECK(seen.events[0].address == number_of(p));
    CHECK(seen.events[0].bytes == 1000);
    CHECK(seen.events[0].size == 1024);
    CHECK(seen.events[0].stream == cuota::stream_ref{s}.id());
    for (std::size_t const i : {1u, 2u}) {
        CHECK(seen.events[i].address == number_of(q));
        CHECK(seen.events[i].bytes == 1);
        CHECK(seen.events[i].stream == memory_event::no_stream);
    }
}

TEST_CASE("a native stream is recorded by its id", "[report][recorded]") {
    recorder const r;
    recorded memory{dry_run_memory{}, r};
    void* const p = memory.allocate(cudaStreamPerThread, 1);
    memory.deallocate(cudaStreamPerThread, p, 1);
    recording const seen = r.read();
    REQUIRE(seen.events.size() == 2);
    CHECK(seen.events[0].stream == cuota::stream_ref{cudaStreamPerThread}.id());
    CHECK(seen.events[1].stream == seen.events[0].stream);
}

TEST_CASE("an allocation of zero bytes is not recorded", "[report][recorded]") {
    recorder const r;
    recorded memory{dry_run_memory{}, r};
    CHECK(memory.allocate_sync(0) == nullptr);
    memory.deallocate_sync(nullptr, 0);
    memory.deallocate(cudaStreamPerThread, nullptr, 0);
    CHECK(r.read().events.empty());
}

TEST_CASE("a refusal is recorded with the request and rethrown", "[report][recorded]") {
    recorder const r;
    cuota::budget b{"b", 2048};
    recorded memory{cuota::budgeted<dry_run_memory>{b, dry_run_memory{512}}, r};
    void* const p = memory.allocate_sync(1000);
    auto const refused = support::thrown<cuota::budget_exceeded>(
        [&] { (void)memory.allocate(cudaStreamPerThread, 5000, 256, labelled_as("activations", 11)); });
    CHECK(refused.info().requested == 5000);
    recording const seen = r.read();
    CHECK(kinds_in(seen) == "allocated refused");
    memory_event const& e = seen.events[1];
    CHECK(e.bytes == 5000);
    CHECK(e.size == 1024);  // charged to the budget
    CHECK(e.address == 0);
    CHECK(e.stream == cuota::stream_ref{cudaStreamPerThread}.id());
    CHECK(seen.sites[e.site].name == tag{"activations"});
    CHECK(seen.sites[e.site].where.line == 11);
    memory.deallocate_sync(p, 1000);

    recorded<> device{r};
    CHECK_THROWS_AS(device.allocate_sync(cuota::unlimited), cuota::out_of_memory);
    recording const after = r.read();
    CHECK(after.events.back().kind == event_kind::refused);
    CHECK(after.events.back().bytes == cuota::unlimited);
    CHECK(after.events.back().size == 0);  // not charged to a budget
}

TEST_CASE("a usage_error is not recorded as a refusal", "[report][recorded]") {
    recorder const r;
    recorded<> memory{r};
    CHECK_THROWS_AS(memory.allocate_sync(16, 24), cuota::usage_error);
    CHECK(r.read().events.empty());
}

TEST_CASE("an allocation is recorded after upstream's, a free before upstream's", "[report][recorded]") {
    recorder const r;
    std::string heard = "nothing";
    eavesdropper const upstream{r, &heard};
    recorded memory{upstream, r};
    CHECK(memory.upstream() == upstream);
    void* const p = memory.allocate_sync(16);
    CHECK(heard.empty());
    memory.deallocate_sync(p, 16);
    CHECK(heard == "allocated free_requested free_completed");
    memory.deallocate(cudaStreamPerThread, p, 16);  // detecting a double free is left to the upstream
    CHECK(heard == "allocated free_requested free_completed free_requested");
}

TEST_CASE("while its recorder is paused, recorded memory works without events", "[report][recorded]") {
    recorder r;
    recorded memory{dry_run_memory{}, r};
    r.pause();
    void* const p = memory.allocate(cudaStreamPerThread, 100);
    CHECK(p != nullptr);
    CHECK_THROWS_AS(memory.allocate_sync(cuota::unlimited), cuota::out_of_memory);
    memory.deallocate(cudaStreamPerThread, p, 100);
    r.resume();
    CHECK(r.read().events.empty());
    memory.deallocate_sync(memory.allocate_sync(1), 1);
    CHECK(r.read().events.size() == 3);
}

TEST_CASE("recorded memory is a source of its recorder", "[report][recorded]") {
    recorder const r;
    recorded pinned{cuota::pinned_memory{}, r};
    recorded<cuota::managed_memory> managed{r};
    recorded<> device{r, "weights"};
    recorded plain{cuota::device_memory{}, r};
    recording const seen = r.read();
    REQUIRE(seen.sources.size() == 5);
    CHECK(seen.sources[1].kind == cuota::source_kind::resource);
    CHECK(seen.sources[1].name == "pinned memory");
    CHECK(seen.sources[1].memory == cuota::memory_kind::pinned);
    CHECK_FALSE(seen.sources[1].device);
    CHECK(seen.sources[2].name == "managed memory");
    CHECK(seen.sources[2].memory == cuota::memory_kind::managed);
    CHECK(seen.sources[3].name == "weights");
    CHECK(seen.sources[3].memory == cuota::memory_kind::device);
    CHECK(seen.sources[3].device == cuota::device::current().ordinal());
    CHECK(seen.sources[4].name == "device memory");
    CHECK(seen.sources[4].budget == std::nullopt);
}

TEST_CASE("copies of recorded memory are one source, which ends with the last copy", "[report][recorded]") {
    recorder const r;
    cuota::detail::recorder_state const& state = *cuota::detail::recorder_access::state(r);
    {
        recorded const first{dry_run_memory{}, r};
        {
            recorded copy = first;
            CHECK(copy == first);
            copy.deallocate_sync(copy.allocate_sync(1), 1);
        }
        CHECK_FALSE(state.has_ended(1));
        CHECK_FALSE(first == recorded{dry_run_memory{}, r});
        CHECK(state.has_ended(2));
    }
    CHECK(state.has_ended(1));
    recording const seen = r.read();
    CHECK(seen.sources.size() == 3);
    CHECK(seen.events.size() == 3);
    CHECK(seen.events[0].source == 1);
}

TEST_CASE("recorded memory may outlive the handle of its recorder", "[report][recorded]") {
    recorded memory{dry_run_memory{}, recorder{{.capacity = 4}}};
    void* const p = memory.allocate_sync(1);
    memory.deallocate_sync(p, 1);
    CHECK(p != nullptr);
}

TEST_CASE("a recorder with too many sources refuses recorded memory", "[report][recorded]") {
    recorder const r{{.capacity = 1, .sites = 0}};
    cuota::detail::recorder_state& state = *cuota::detail::recorder_access::state(r);
    for (std::size_t i = 1; i != state.max_sources; ++i) (void)state.add_source({});
    auto const refused = support::thrown<cuota::usage_error>([&] {
        recorded<dry_run_memory> one{dry_run_memory{}, r, "one", {"train.cpp", 3}};
    });
    CHECK(refused.where().line == 3);
}

TEST_CASE("a pool over recorded memory is recorded by its segments", "[report][recorded]") {
    recorder const r;
    {
        cuota::scoped_pool pool{cuota::any_resource{recorded<cuota::pinned_memory>{r, "pinned"}}};
        auto memory = pool.resource();
        memory.deallocate_sync(memory.allocate_sync(1000), 1000);
    }
    recording const seen = r.read();
    auto const lives = cuota::lifetimes_of(seen);
    REQUIRE(lives.blocks.size() == 1);
    CHECK(lives.blocks[0].bytes >= 1000);
    CHECK(lives.blocks[0].until);
}

TEST_CASE("across threads, a free is recorded before the next allocation of the same address",
          "[report][recorded]") {
    recorder const r;
    recorded memory{cuota::pinned_memory{}, r};
    constexpr int threads = 4;
    constexpr int each = 500;
    std::vector<std::thread> workers;
    for (int t = 0; t != threads; ++t)
        workers.emplace_back([mine = memory]() mutable {
            for (int i = 0; i != each; ++i) mine.deallocate_sync(mine.allocate_sync(64), 64);
        });
    for (std::thread& w : workers) w.join();
    recording const seen = r.read();
    CHECK(seen.events.size() == static_cast<std::size_t>(threads * each * 3));
    std::map<std::uint64_t, event_kind> last;
    std::size_t wrong = 0;
    for (memory_event const& e : seen.events) {
        auto const entry = last.try_emplace(e.address, event_kind::free_completed);
        event_kind const before = entry.first->second;
        entry.first->second = e.kind;
        wrong += e.kind == event_kind::allocated        ? before != event_kind::free_completed
                 : e.kind == event_kind::free_requested ? before != event_kind::allocated
                                                        : before != event_kind::free_requested;
    }
    CHECK(wrong == 0);
}
