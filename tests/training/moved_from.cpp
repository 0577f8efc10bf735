// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The rule of docs/lifetimes.md for moved-from objects of every public class: a handle stays valid, a container is empty, any other owner
// refuses. The lint moved_from requires each class of fwd.hpp in a list here, or in a test beside the library that it needs.

#include <cuota/all.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using support::captured_errors;
using support::has;
using support::thrown;

// ---- Values that own nothing: a move copies their bytes.
template <class... T>
constexpr bool are_plain = (std::is_trivially_copyable_v<T> && ...);
static_assert(
    are_plain<cuota::tag, cuota::element_count, cuota::device, cuota::device_set, cuota::stream_ref,
              cuota::device_memory, cuota::async_memory, cuota::pinned_memory, cuota::registered_memory,
              cuota::managed_memory, cuota::alert_threshold, cuota::device_span<float>,
              cuota::batch_view<float>, cuota::device_matrix<float>, cuota::device_appender<float>,
              cuota::device_scratch, cuota::sequential_sampler, cuota::shuffle_sampler,
              cuota::block_shuffle_sampler, cuota::stage_context, cuota::loss_scaler, cuota::micro_batches>);

// ---- Classes that cannot be moved.
template <class... T>
constexpr bool stay = (!std::is_move_constructible_v<T> && ...);
static_assert(stay<cuota::nvml, cuota::resource_ref, cuota::growth_check, cuota::pool_step, cuota::frame,
                   cuota::scoped_pool, cuota::step_plan, cuota::pipeline, cuota::checkpointed,
                   cuota::live_view, cuota::refusal_log>);

// ---- Errors: a moved-from one still has what() and its facts.
template <class... T>
constexpr bool are_copied = (std::is_nothrow_copy_constructible_v<T> && ...);
static_assert(are_copied<cuota::cuda_error, cuota::out_of_memory, cuota::budget_exceeded, cuota::usage_error,
                         cuota::data_error, cuota::kernel_overflow_error, cuota::placement_error,
                         cuota::rank_lost_error, cuota::sample_too_long_error>);

/// Moves an object around: `make()` returns a new object, `use(x)` throws if x is not intact, and `left(x)` checks a moved-from object.
template <class Make, class Use, class Left>
void walk(Make const& make, Use const& use, Left const& left) {
    auto first = make();
    use(first);
    auto second{std::move(first)};
    use(second);
    left(first);
    using object = decltype(first);
    if constexpr (std::is_move_assignable_v<object>) {
        auto third = make();
        third = std::move(second);
        use(third);
        left(second);
        object& itself = third;
        third = std::move(itself);
        use(third);
        first = std::move(third);  // a moved-from object can be assigned to
        use(first);
        left(third);
    }
}

/// Checks a handle: a moved-from one remains usable.
template <class Make, class Use>
void stays_valid(Make const& make, Use const& use) {
    walk(make, use, [&](auto& x) { use(x); });
}

/// Checks an owner: every use of a moved-from one is misuse, and the message names the class.
template <class Make, class Use>
void refuses(std::string const& what, Make const& make, Use const& use) {
    walk(make, use, [&](auto& x) {
        std::string const said = thrown<cuota::usage_error>([&] { use(x); }).what();
        INFO(said);
        CHECK(has(said, what));
        CHECK(has(said, "moved from"));
    });
}

cuota::loader_options few() {
    cuota::loader_options how;
    how.batch_size = 4;
    return how;
}
cuota::memory_dataset numbers() { return {"numbers", std::vector<float>(64, 1.0f)}; }

}  // namespace

TEST_CASE("a handle that was moved from is still valid", "[training][moved_from]") {
    cuota::budget whole{"whole", 64u << 20};
    cuota::scoped_pool pool{whole};
    cuota::stream s;
    auto const allocates = [&](auto& memory) {
        void* const p = memory.allocate(s, 256, 256);
        REQUIRE(p != nullptr);
        memory.deallocate(s, p, 256, 256);
    };

    SECTION("budget") {
        stays_valid(
            [&] {
                return cuota::budget{"part", 1000, whole};
            },
            [](cuota::budget& b) {
                REQUIRE(b.limit() == 1000);
                REQUIRE(b.try_charge(10));
                b.refund(10);
            });
    }
    SECTION("resources") {
        stays_valid([&] { return pool.resource(); }, allocates);
        stays_valid([&] { return pool.persistent(); }, allocates);
        static_assert(std::is_same_v<decltype(pool.resource()),
                                     cuota::pool_resource_for<cuota::lifetime_hint::scratch>>);
        stays_valid([&] { return cuota::any_resource{pool.resource()}; }, allocates);
        stays_valid([&] { return cuota::budgeted<cuota::device_memory>{whole}; }, allocates);
        stays_valid([&] { return cuota::tracked<cuota::device_memory>{}; }, allocates);
        stays_valid([&] { return cuota::guarded{cuota::device_memory{}}; }, allocates);
        stays_valid([&] { return cuota::measured{cuota::device_memory{}}; }, allocates);
        stays_valid([&] { return cuota::dry_run_memory{}; }, allocates);
        auto frame = pool.frame();
        static_assert(std::is_same_v<decltype(frame.resource()), cuota::frame_resource>);
        stays_valid([&] { return frame.resource(); }, allocates);
        cuota::step_plan plan{pool};
        static_assert(std::is_same_v<decltype(plan.resource()), cuota::step_resource>);
        stays_valid([&] { return plan.resource(); }, allocates);
    }
    SECTION("staging_ring and its copies in flight") {
        stays_valid(
            [] {
                return cuota::staging_ring{2, 1024};
            },
            [](cuota::staging_ring& ring) {
                REQUIRE(ring.slots() == 2);
                REQUIRE(ring.acquire().bytes().size() == 1024);
            });
        cuota::staging_ring ring{2, 1024};
        cuota::device_buffer<std::byte> to{1024, s, pool};
        stays_valid(
            [&] {
                auto const lease = to.write(s);
                return ring.acquire().submit(s, lease, 10);
            },
            [](cuota::staging_ring::in_flight& copy) { copy.synchronize(); });
    }
    SECTION("recorder") {
        stays_valid([] { return cuota::recorder{}; }, [](cuota::recorder& r) { REQUIRE(r.is_recording()); });
    }
    SECTION("datasets") {
        support::temp_folder const folder;
        std::string const raw = folder.write("raw.bin", std::string(64, 'x'));
        auto const reads = [](auto& from) {
            REQUIRE(from.size() == 64);
            REQUIRE(!from.name().empty());
            REQUIRE(!support::gathered(from, {3, 4}).front().empty());
        };
        stays_valid(numbers, reads);
        cuota::raw_layout const byte{.fields = {{"x", cuota::element_type::u8, {}}}};
        stays_valid([&] { return cuota::raw_dataset{raw, byte}; }, reads);
        cuota::raw_dataset const half{folder.write("half.bin", std::string(32, 'x')), byte};
        stays_valid([&] { return cuota::concat_dataset{half, half}; }, reads);
        stays_valid([&] { return cuota::zip_dataset{numbers(), cuota::raw_dataset{raw, byte}}; }, reads);
        stays_valid([&] { return cuota::subset_dataset{numbers(), 0, 64}; }, reads);
        stays_valid(
            [&] {
                return cuota::callable_dataset{
                    "made", 64, {{"x", cuota::element_type::u8, {}}}, [](auto const&, auto const& out) {
                        out[0][0] = std::byte{1};
                    }};
            },
            reads);
        std::string npy = std::string{"\x93NUMPY\1\0", 8} + std::string{"\x76\0", 2};
        npy += "{'descr': '|u1', 'fortran_order': False, 'shape': (64,), }";
        npy += std::string(10 + 0x76 - npy.size() - 1, ' ') + '\n' + std::string(64, 'y');
        std::string const array = folder.write("x.npy", npy);
        stays_valid([&] { return cuota::npy_dataset{array}; }, reads);
        std::string idx{"\0\0\x08\1\0\0\0\x40", 8};
        std::string const bytes = folder.write("x.idx", idx + std::string(64, 'z'));
        stays_valid([&] { return cuota::idx_dataset{bytes}; }, reads);
        std::string const images = folder.write("x.bin", std::string(64 * 3073, '\1'));
        stays_valid([&] { return cuota::cifar_dataset{cuota::cifar_set::cifar_10, {images}}; }, reads);
        stays_valid([&] { return cuota::file{raw}; }, [](cuota::file& f) { REQUIRE(f.size() == 64); });
        stays_valid(
            [&] {
                return cuota::device_resident_dataset{numbers(), few()};
            },
            [](cuota::device_resident_dataset& d) { REQUIRE(d.bytes() != 0); });
    }
    SECTION("samplers") {
        auto const draws = [](auto& order) {
            std::vector<std::uint64_t> drawn(4);
            order.draw(64, 0, 0, drawn);
            for (std::uint64_t const sample : drawn) REQUIRE(sample < 64);
        };
        stays_valid([] { return cuota::any_sampler{cuota::shuffle_sampler{1}}; }, draws);
        stays_valid([] { return cuota::subset_sampler{support::first_samples(64)}; }, draws);
        stays_valid([] { return cuota::bucket_sampler{1, std::vector<std::uint64_t>(64, 3), 16, 4}; }, draws);
        std::vector<double> const weights(64, 1.0);
        stays_valid([&] { return cuota::weighted_sampler{1, weights, 64}; }, draws);
        stays_valid([&] { return cuota::weighted_shuffle_sampler{1, weights, 64}; }, draws);
    }
    SECTION("thread_group, stop_signal") {
        stays_valid([] { return cuota::thread_group{2}; },
                    [](cuota::thread_group& group) { REQUIRE(group.ranks() == 2); });
        std::stop_source stop;
        stop.request_stop();
        stays_valid([&] { return cuota::stop_signal{stop.get_token()}; },
                    [](cuota::stop_signal& signal) { REQUIRE(signal.stop_requested()); });
    }
    SECTION("errors") {
        auto const says = [](auto& e) { REQUIRE(std::string{e.what()}.size() > 10); };
        stays_valid([&] { return thrown<cuota::budget_exceeded>([&] { whole.charge(1u << 30); }); },
                    [&](cuota::budget_exceeded& e) {
                        says(e);
                        REQUIRE(e.info().requested == 1u << 30);
                    });
        stays_valid(
            [] {
                return cuota::data_error{"file.bin", 3, "it ends there"};
            },
            [&](cuota::data_error& e) { REQUIRE(e.file() == "file.bin"); });
        stays_valid(
            [] {
                return cuota::guard_bytes_error{"memory", std::vector<cuota::guard_violation>(1)};
            },
            [&](cuota::guard_bytes_error& e) { REQUIRE(e.violations().size() == 1); });
        // Texts of classes derived from the standard library's are empty, as that library leaves them.
        walk([] { return cuota::usage_error{"for a test"}; }, says,
             [](cuota::usage_error& e) { (void)e.what(); });
    }
    SECTION("values with members of the standard library are as good as new") {
        stays_valid(
            [] {
                cuota::footprint plan;
                return plan;
            },
            [](cuota::footprint& plan) { (void)plan.bytes(); });
        cuota::tracked<cuota::device_memory> memory;
        stays_valid([&] { return memory.snapshot(); },
                    [](cuota::tracked_snapshot& now) { REQUIRE(now.live().blocks.empty()); });
        stays_valid([] { return cuota::nvml_result<int>{3}; },
                    [](cuota::nvml_result<int>& answer) { REQUIRE(answer.has_value()); });
    }
}

TEST_CASE("a container that was moved from has no elements", "[training][moved_from]") {
    cuota::budget const whole{"whole", 64u << 20};
    cuota::scoped_pool pool{whole};
    cuota::stream s;
    auto const is_empty = [](auto& x) {
        CHECK(x.size() == 0);
        CHECK(x.bytes() == 0);
    };
    auto const is_whole = [](auto& x) { REQUIRE(x.size() == 10); };

    walk(
        [&] {
            return cuota::device_buffer<float>{10, 1.0f, s, pool};
        },
        [&](auto& x) { REQUIRE(x.to_vector(s) == std::vector<float>(10, 1.0f)); },
        [&](auto& x) {
            is_empty(x);
            CHECK(x.read(s).size() == 0);
            CHECK(x.to_vector(s).empty());
            x.resize(3);
            CHECK(x.to_vector(s) == std::vector<float>(3, 0.0f));
        });
    using released = cuota::released_buffer<float>;
    walk(
        [&]() -> released {
            return cuota::device_buffer<float>{10, 1.0f, s, pool}.release();
        },
        is_whole,
        [&](released& x) {
            is_empty(x);
            CHECK(x.get() == nullptr);
            x.used_on(s);
            x.reset();
        });
    walk([&] { return cuota::pinned_buffer<float>{10}; }, is_whole,
         [&](auto& x) {
             is_empty(x);
             CHECK(x.read().empty());
             CHECK(x.write().empty());
         });
    walk(
        [&] {
            return cuota::mirrored_buffer<float>{10, s, pool.resource()};
        },
        [&](auto& x) { REQUIRE(x.read_host().size() == 10); },
        [&](auto& x) {
            is_empty(x);
            CHECK(x.read_host().empty());
            CHECK(x.read(s).size() == 0);
        });
    cuota::device_buffer<float> dense{10, 1.0f, s, pool};
    walk([&] { return cuota::pruned<float>::pack(s, dense.read(s), 0.5f, pool); }, is_whole, is_empty);
    walk([&] { return cuota::quantized_moments<>{10, s, pool}; }, is_whole, is_empty);
    std::vector<float> const host(10, 1.0f);
    walk([&] { return cuota::master_weights<cuota::half>{host, s, pool}; }, is_whole, is_empty);
    cuota::staging_ring ring{2, 1024};
    walk([&] { return ring.acquire(); }, [](auto& slot) { REQUIRE(slot.bytes().size() == 1024); },
         [&](auto& slot) {
             CHECK(slot.bytes().empty());
             CHECK(ring.try_acquire());  // the moved-from lease holds no slot
         });
    walk([&] { return dense.read(s); }, is_whole, [](auto& lease) { CHECK(lease.size() == 0); });
    static_assert(std::is_same_v<decltype(dense.read(s)), cuota::lease<float const>>);
}

TEST_CASE("any other owner that was moved from refuses every use and names its class",
          "[training][moved_from]") {
    cuota::budget whole{"whole", 64u << 20};
    cuota::scoped_pool pool{whole};
    cuota::stream s;

    SECTION("stream") {
        auto const make = [] { return cuota::stream{}; };
        refuses("a stream", make, [](cuota::stream& x) { x.synchronize(); });
        refuses("a stream", make, [](cuota::stream& x) { cuota::stream_ref{x}.synchronize(); });
        refuses("a stream", make, [](cuota::stream& x) { (void)x.get(); });
        refuses("a stream", make, [](cuota::stream& x) { (void)x.id(); });
        refuses("a stream", make, [](cuota::stream& x) { (void)x.device(); });
        refuses("a stream", make, [](cuota::stream& x) { (void)x.is_idle(); });
        refuses("a stream", make, [&](cuota::stream& x) { x.wait(cuota::event{s}); });
        refuses("a stream", make, [&](cuota::stream& x) { cuota::device_buffer<float>{10, x, pool}; });
    }
    SECTION("event and timed_event") {
        auto const make = [&] { return cuota::event{s}; };
        refuses("an event", make, [](cuota::event& x) { (void)x.is_done(); });
        refuses("an event", make, [](cuota::event& x) { x.synchronize(); });
        refuses("an event", make, [&](cuota::event& x) { x.record(s); });
        refuses("an event", make, [&](cuota::event& x) { s.wait(x); });
        walk(
            make, [](cuota::event& x) { REQUIRE(x.get() != nullptr); },
            [](cuota::event& x) { CHECK(x.get() == nullptr); });
        auto const mark = [&] { return cuota::timed_event{s}; };
        cuota::timed_event const earlier{s};
        refuses("a timed_event", mark, [&](cuota::timed_event& x) { x.record(s); });
        refuses("a timed_event", mark, [&](cuota::timed_event& x) { (void)x.since(earlier); });
        refuses("a timed_event", mark, [&](cuota::timed_event& x) { (void)earlier.since(x); });
    }
    SECTION("graph_exec") {
        refuses(
            "a graph", [&] { return cuota::capture(s, [] {}); }, [&](cuota::graph_exec& x) { x.launch(s); });
    }
    SECTION("reservation") {
        auto const make = [&] { return whole.reserve(100); };
        refuses("a reservation", make, [](cuota::reservation& x) { (void)x.bytes(); });
        refuses("a reservation", make, [](cuota::reservation& x) { (void)x.as_budget(); });
        refuses("a reservation", make, [](cuota::reservation& x) { x.grow(1); });
        refuses("a reservation", make, [](cuota::reservation& x) { x.shrink(1); });
        REQUIRE(whole.held() == 0);
    }
    SECTION("pending_copy") {
        cuota::device_buffer<float> const x{10, 1.0f, s, pool};
        auto const make = [&] { return cuota::download(x, s); };
        using pending = cuota::pending_copy<float>;
        refuses("a pending_copy", make, [](pending& copy) { (void)copy.get(); });
        refuses("a pending_copy", make, [](pending& copy) { (void)copy.is_done(); });
        refuses("a pending_copy", make, [&](pending& copy) { copy.make_wait(s); });
    }
    SECTION("device_scalar and non_finite_check") {
        refuses(
            "a device_scalar",
            [&] {
                return cuota::device_scalar<float>{s, pool};
            },
            [&](cuota::device_scalar<float>& x) { (void)x.get(s); });
        auto const check = [&] { return cuota::non_finite_check{s, pool}; };
        refuses("a device_scalar", check, [&](cuota::non_finite_check& x) { (void)x.found(s); });
    }
    SECTION("append_buffer") {
        using found = cuota::append_buffer<float>;
        auto const make = [&] { return found{10, s, pool}; };
        refuses("an append_buffer", make, [&](found& x) { (void)x.append(s); });
        refuses("an append_buffer", make, [&](found& x) { x.clear(s); });
        refuses("an append_buffer", make, [&](found& x) { (void)x.size(s); });
        refuses("an append_buffer", make, [&](found& x) { (void)x.stored_size(s); });
        refuses("an append_buffer", make, [&](found& x) { (void)x.read(s); });
        refuses("an append_buffer", make, [&](found& x) { (void)x.to_vector(s); });
        refuses("an append_buffer", make, [&](found& x) { x.restart(10); });
    }
    SECTION("scratch_arena") {
        using arena = cuota::scratch_arena;
        auto const make = [&] { return arena{1024, 2, s, pool}; };
        refuses("a scratch_arena", make, [&](arena& x) { (void)x.open(s); });
        refuses("a scratch_arena", make, [&](arena& x) { (void)x.needed(s); });
        refuses("a scratch_arena", make, [&](arena& x) { x.check(s); });
    }
    SECTION("batch_loader, epoch_range and batch") {
        auto const make = [] { return cuota::batch_loader{numbers(), few()}; };
        using loads = cuota::batch_loader;
        refuses("a loader", make, [](loads& x) { (void)x.epoch(0); });
        refuses("a loader", make, [](loads& x) { (void)x.state(); });
        refuses("a loader", make, [](loads& x) { (void)x.stats(); });
        refuses("a loader", make, [](loads& x) { (void)x.plan(); });
        refuses("a loader", make, [](loads& x) { (void)x.size(); });
        refuses("a loader", make, [](loads& x) { (void)x.fields(); });
        loads loader = make();
        auto const epoch = [&] { return loader.epoch(0); };
        refuses("an epoch", epoch, [](cuota::epoch_range& x) { (void)x.next(); });
        refuses("an epoch", epoch, [](cuota::epoch_range& x) { (void)x.begin(); });
        refuses("an epoch", epoch, [](cuota::epoch_range& x) { (void)x.wait_for(std::chrono::seconds{60}); });
        auto of = loader.epoch(0);
        cuota::batch one = *of.next();
        cuota::batch other{std::move(one)};
        auto const refused = [&](auto const& use) {
            return has(thrown<cuota::usage_error>(use).what(), "a batch was used after it was moved from");
        };
        CHECK(refused([&] { (void)one.view<float>(s); }));
        CHECK(refused([&] { (void)one.samples(); }));
        CHECK(refused([&] { (void)one.size(); }));
        CHECK(refused([&] { (void)one.fields(); }));
        CHECK(refused([&] { one.used_on(s); }));
        cuota::batch& itself = other;
        other = std::move(itself);
        CHECK(other.size() == 4);
        one = std::move(other);
        CHECK(one.size() == 4);
        walk(
            [&] {
                return cuota::cached_loader{cuota::batch_loader{numbers(), few()}, 0};
            },
            [](cuota::cached_loader& x) { REQUIRE(x.loader.size() == 64); },
            [](cuota::cached_loader& x) { CHECK_THROWS_AS((void)x.loader.size(), cuota::usage_error); });
    }
    SECTION("rank_consensus") {
        // The message names the question and states that the rank does not take part.
        walk([] { return cuota::rank_consensus{}; },
             [](cuota::rank_consensus& x) { REQUIRE(x.all_of(true, "a question")); },
             [](cuota::rank_consensus& x) {
                 CHECK_THROWS_AS(x.all_of(true, "a question"), cuota::usage_error);
             });
    }
}

TEST_CASE("a moved budget_alert, reclaimer, step_scope or progress_bar works in its new owner",
          "[training][moved_from]") {
    captured_errors errors;
    cuota::budget whole{"whole", 100};
    int calls = 0;
    {
        auto const make = [&] {
            return cuota::budget_alert{whole, {0.5}, 0.1, [&](cuota::alert_event const&) { ++calls; }};
        };
        auto const tells = [&](cuota::budget_alert&) {
            int const before = calls;
            whole.charge(60);
            whole.refund(60);
            REQUIRE(calls > before);
        };
        walk(make, tells, [](cuota::budget_alert&) {});
    }
    int const before = calls;
    whole.charge(60);
    whole.refund(60);
    CHECK(calls == before);  // no watch is left

    std::size_t cached = 0;
    {
        auto const make = [&] {
            return cuota::reclaimer{whole, "cache", [&](std::size_t) { return cached; },
                                    [&](std::size_t) {
                                        whole.refund(std::exchange(cached, 0));
                                        return std::size_t{50};
                                    }};
        };
        auto const gives = [&](cuota::reclaimer&) {
            cached = 50;
            whole.charge(50);
            whole.charge(80);  // reclaims the cache's 50
            REQUIRE(cached == 0);
            whole.refund(80);
        };
        walk(make, gives, [](cuota::reclaimer&) {});
    }
    {
        cuota::scoped_pool pool{cuota::budget{"pool", 64u << 20}};
        cuota::step_plan plan{pool};
        cuota::step_scope first = plan.begin();
        cuota::step_scope second{std::move(first)};
        CHECK(second.is_recorded());
        CHECK(!first.is_recorded());  // has no step
        auto& itself = second;
        second = std::move(itself);
        CHECK(second.is_recorded());
        first = std::move(second);
        CHECK(first.is_recorded());
        CHECK_THROWS_AS((void)plan.begin(), cuota::usage_error);  // one step is open
    }
    cuota::progress_bar first{nullptr};
    cuota::progress_bar const second{std::move(first)};
    CHECK(first.is_disabled());
    CHECK(errors.take().empty());
}
