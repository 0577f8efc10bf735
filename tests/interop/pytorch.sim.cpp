// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/interop/pytorch.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

#include <cuota/runtime/rt/copy.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/child_ends.hpp"
#include "support/every_failure.hpp"
#include "support/foreign_capture.hpp"
#include "support/gate.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/traffic.hpp"

using namespace cuota::literals;
using support::has;

namespace {

// A block that is freed at the end of the scope.
class taken {
public:
    taken(cuota::pytorch_allocator& of, std::size_t bytes, cudaStream_t s)
        : of_{of}, bytes_{bytes}, stream_{s}, p_{of.allocate(bytes, 0, s)} {}
    taken(taken const&) = delete;
    taken& operator=(taken const&) = delete;
    ~taken() { of_.deallocate(p_, bytes_, 0, stream_); }
    [[nodiscard]] void* get() const noexcept { return p_; }

private:
    cuota::pytorch_allocator& of_;
    std::size_t bytes_;
    cudaStream_t stream_;
    void* p_;
};

}  // namespace

TEST_CASE("memory in use on another stream is not reused before that use has finished, without a wait",
          "[interop][pytorch]") {
    support::machine const machine;
    cuota::stream const home;
    cuota::stream const side;
    cuota::pytorch_allocator memory{cuota::device_limits{"2MiB"}};
    support::gate gate{side};
    void* p = memory.allocate(2_MiB, 0, home.get());
    side.wait(cuota::event{home});
    cuota::rt::fill_bytes(p, 1, 2_MiB, side, {});
    memory.record_stream(p, side.get());
    memory.record_stream(p, side.get());
    memory.deallocate(p, 2_MiB, 0, home.get());
    home.synchronize();  // does not wait for the side stream; otherwise it would deadlock

    void* const q = memory.allocate(2_MiB, 0, home.get());  // the same memory; now the home stream waits
    CHECK(q == p);
    cuota::rt::fill_bytes(q, 2, 2_MiB, home, {});
    CHECK_FALSE(home.is_idle());
    gate.open();
    home.synchronize();
    memory.deallocate(q, 2_MiB, 0, home.get());
    CHECK(cuota::simulator::misuse().races == 0);
}

TEST_CASE("every failing CUDA call results in null or an exception, and leaks nothing",
          "[interop][pytorch]") {
    support::machine machine;
    cuota::stream const home;
    cuota::stream const side;
    auto const seen = support::survives_every_failure(machine, [&] {
        cuota::pytorch_allocator memory{cuota::device_limits{"50%"}};
        taken const p{memory, 3_MiB, home.get()};
        {
            taken const q{memory, 1_MiB, home.get()};
            memory.record_stream(q.get(), side.get());
        }
        taken const r{memory, 1_MiB, side.get()};
        memory.set_fraction(0, 0.25);
    });
    CHECK(seen.thrown > 0);
    CHECK(seen.reported > 0);
}

TEST_CASE("every failing CUDA call in try_allocate results in null with a reason", "[interop][pytorch]") {
    support::machine machine;
    cuota::stream const home;
    for (cudaError_t const code : {cudaErrorMemoryAllocation, cudaErrorUnknown})
        for (std::uint64_t nth = 1;; ++nth) {
            INFO("call " << nth << " fails with " << cudaGetErrorName(code));
            auto const live = cuota::simulator::live().total();
            auto const injected = cuota::simulator::faults_injected();
            bool was_used = false;
            {
                cuota::pytorch_allocator memory;
                cuota::simulator::fail_call(nullptr, nth, code);
                void* const p = memory.try_allocate(3_MiB, 0, home.get());
                was_used = cuota::simulator::faults_injected() != injected;
                cuota::simulator::clear_faults();
                CHECK((p != nullptr || was_used));
                CHECK((p != nullptr || !memory.last_failure().empty()));
                void* const q = memory.try_allocate(1_MiB, 0, home.get());
                CHECK(q);  // a past failure must not cause another
                memory.deallocate(p, 3_MiB, 0, home.get());
                memory.deallocate(q, 1_MiB, 0, home.get());
            }
            CHECK(cuota::simulator::live().total() == live);
            (void)machine.errors.take();
            if (!was_used) break;
        }
}

TEST_CASE("errors other than a lack of memory are reported, since PyTorch shows only out of memory",
          "[interop][pytorch]") {
    support::machine machine;
    cuota::stream const home;
    cuota::pytorch_allocator memory{cuota::device_limits{"2MiB"}};
    CHECK(memory.try_allocate(4_MiB, 0, home.get()) == nullptr);
    CHECK(machine.errors.take().empty());
    cuota::simulator::fail_call("cudaGetDevice", 1, cudaErrorInitializationError);
    CHECK(memory.try_allocate(1_MiB, 0, home.get()) == nullptr);
    CHECK(has(memory.last_failure(), "cudaGetDevice"));
    CHECK(machine.errors.take().size() == 1);
}

TEST_CASE("after CUDA has been unloaded, frees are left to the driver without a report",
          "[interop][pytorch]") {
    support::machine machine;
    cuota::stream const home;
    cuota::pytorch_allocator memory;
    void* const p = memory.allocate(1_MiB, 0, home.get());
    cuota::simulator::fail_call("cudaGetDevice", 1, cudaErrorCudartUnloading);
    memory.deallocate(p, 1_MiB, 0, home.get());
    CHECK(machine.errors.take().empty());
    cuota::simulator::fail_call("cudaGetDevice", 1, cudaErrorCudartUnloading);
    CHECK(memory.try_allocate(1_MiB, 0, home.get()) == nullptr);
    CHECK(machine.errors.take().empty());
    memory.deallocate(p, 1_MiB, 0, home.get());
}

TEST_CASE("each device has its own budget, and its memory cannot be freed on another device",
          "[interop][pytorch]") {
    support::machine machine{{.devices = 2}};
    cuota::pytorch_allocator memory{cuota::device_limits{"1=4MiB,50%"}};
    void* const first = memory.allocate(1_MiB, 0, nullptr);
    void* const second = memory.allocate(1_MiB, 1, nullptr);
    CHECK(memory.account(0).limit() == 4_GiB);
    CHECK(memory.account(1).limit() == 4_MiB);
    CHECK(memory.try_allocate(8_MiB, 1, nullptr) == nullptr);
    CHECK(cuota::device::current().ordinal() == 0);
    memory.deallocate(second, 1_MiB, 0, nullptr);
    CHECK(machine.errors.take().size() == 1);
    CHECK(memory.stats(1).requested == 1_MiB);
    memory.deallocate(second, 1_MiB, 1, nullptr);
    memory.deallocate(first, 1_MiB, 0, nullptr);
    CHECK(memory.stats(0).requested + memory.stats(1).requested == 0);
    CHECK(has(memory.summary_text(), "device 1"));
}

TEST_CASE("repeated requests allocate no more memory from the driver", "[interop][pytorch]") {
    support::machine const machine;
    cuota::pytorch_allocator memory;
    cuota::stream const s;
    memory.deallocate(memory.allocate(1_MiB, 0, s.get()), 1_MiB, 0, s.get());
    support::calls_since const created{"cuMemCreate"};
    for (int i = 0; i != 10; ++i) memory.deallocate(memory.allocate(1_MiB, 0, s.get()), 1_MiB, 0, s.get());
    CHECK(created.count() == 0);
}

TEST_CASE("a torch.cuda.graph capture allocates on any thread and frees when the graph is reset",
          "[interop][pytorch][foreign_capture]") {
    support::machine machine;
    cuota::simulator::set_capture_checks(cuota::simulator::capture_checks::every_slow_call);
    support::native_stream const side;
    support::native_stream const main;
    cuota::pytorch_allocator memory;
    memory.deallocate(memory.allocate(1_MiB, 0, main), 1_MiB, 0, main);
    void* const input = memory.allocate(1_MiB, 0, main);
    support::foreign_capture capture{side};  // global mode, as that of torch.cuda.graph
    void* const segment = memory.allocate(20_MiB, 0, side);
    void* of_backward = nullptr;
    std::thread{[&] {
        of_backward = memory.allocate(20_MiB, 0, side);
        memory.deallocate(memory.allocate(1_MiB, 0, main), 1_MiB, 0, main);  // a tensor of another thread
        (void)memory.trim();
    }}.join();
    memory.record_stream(input, side);
    memory.deallocate(input, 1_MiB, 0, main);  // the graph reads it
    CHECK(capture.is_intact());
    cuota::simulator::set_capture_checks(cuota::simulator::capture_checks::named);
    {
        auto const graph = capture.end();
        void* const other = memory.allocate(1_MiB, 0, main);
        CHECK(other != input);
        memory.deallocate(other, 1_MiB, 0, main);
        for (int i = 0; i != 3; ++i) graph.launch(main);
    }
    memory.deallocate(segment, 20_MiB, 0, side);
    memory.deallocate(of_backward, 20_MiB, 0, side);
    CHECK(memory.stats(0).live_blocks == 1);  // the input, which the graph keeps
    CHECK(machine.errors.take().empty());
    CHECK(cuota::simulator::misuse_reports().empty());
    CHECK(cuota::simulator::race_reports().empty());
}

TEST_CASE("in a child, freeing the parent's memory for PyTorch does nothing", "[interop][pytorch][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    cuota::pytorch_allocator memory;
    cuota::stream const s;
    taken const part{memory, 1_MiB, s.get()};
    int const status =
        support::status_of_ends_in_child([&] { memory.deallocate(part.get(), 1_MiB, 0, s.get()); });
    CHECK(status == 0);
}

TEST_CASE("in a child, memory for PyTorch refuses requests, also while threads of the parent use it",
          "[interop][pytorch][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const on;
    std::optional<cuota::pytorch_allocator> memory{cuota::device_limits{"8MiB"}};
    cuota::stream const s;
    cuota::stream const other;
    std::optional<taken> part{std::in_place, *memory, 1_MiB, s.get()};
    int ends = 0;
    int requests = 0;
    {
        support::traffic const beside{3,
                                      [&](std::size_t) { memory->record_stream(part->get(), other.get()); },
                                      [&](std::size_t) { (void)memory->try_allocate(1_GiB, 0, s.get()); },
                                      [&](std::size_t) { (void)memory->last_failure(); }};
        for (int i = 0; i != 20; ++i) {
            ends += support::status_of_ends_in_child([&] { memory.reset(); }) != 0;
            requests +=
                support::status_of_requests_in_child([&](support::requests_in_child& ask) {
                    auto const is_told = [&] { return has(memory->last_failure(), "after fork()"); };
                    ask.refuses("allocate", [&] { (void)memory->allocate(1_MiB, 0, s.get()); });
                    ask.reports("try_allocate", [&] { (void)memory->try_allocate(1_MiB, 0, s.get()); });
                    ask.expect("try_allocate is remembered", is_told());
                    ask.reports("record_stream", [&] { memory->record_stream(part->get(), s.get()); });
                    ask.refuses("record", [&] { memory->record(); });
                    ask.refuses("set_limit", [&] { memory->set_limit(0, 1_MiB); });
                    ask.refuses("summary_text", [&] { (void)memory->summary_text(); });
                    ask.reports("stats", [&] { (void)memory->stats(0); });
                    memory->configure("1MiB");
                }) != 0;
        }
    }
    CHECK(ends == 0);
    CHECK(requests == 0);
    part.reset();
}

TEST_CASE("a child can use a pytorch_allocator that was only configured", "[interop][pytorch][fork]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    if (!support::is_alone("a child can use a pytorch_allocator that was only configured")) return;
    cuota::pytorch_allocator memory;
    memory.configure("2MiB");
    int wrong = 0;
    {
        support::traffic const beside{1, [&](std::size_t) { memory.configure("2MiB"); }};
        for (int i = 0; i != 20; ++i)
            wrong += support::status_of_child([&] {
                         void* const p = memory.allocate(1_MiB, 0, cudaStreamLegacy);
                         memory.deallocate(p, 1_MiB, 0, cudaStreamLegacy);
                         ::_exit(p != nullptr && memory.account(0).limit() == 2_MiB ? 0 : 1);
                     }) != 0;
    }
    ::_exit(wrong);
}
