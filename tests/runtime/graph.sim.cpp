// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Captures from begin to end, including captures that fail, and the state of the streams afterwards.
#include <cuota/runtime/graph.hpp>

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/calls.hpp"
#include "support/catch.hpp"
#include "support/every_failure.hpp"
#include "support/kernels.hpp"
#include "support/last_error.hpp"
#include "support/machine.hpp"
#include "support/thrown.hpp"

using support::calls_since;

namespace simulator = cuota::simulator;

static_assert(!std::is_copy_constructible_v<cuota::graph_exec>);
static_assert(std::is_nothrow_move_constructible_v<cuota::graph_exec> &&
              std::is_nothrow_move_assignable_v<cuota::graph_exec>);

namespace {

struct pinned_ints {
    explicit pinned_ints(std::size_t count)
        : at{static_cast<int*>(cuota::rt::pinned_allocate(count * sizeof(int)))} {
        for (std::size_t i = 0; i != count; ++i) at[i] = 0;
    }
    ~pinned_ints() { cuota::rt::pinned_free(at); }
    pinned_ints(pinned_ints const&) = delete;
    pinned_ints& operator=(pinned_ints const&) = delete;
    int* at;
};

template <class Action>
std::string why_refused(Action action) {
    return support::thrown<cuota::usage_error>(action).what();
}

bool is_usable(cuota::stream const& s, int* at) {
    int const before = *at;
    cuota::for_each_index(s, 1, support::add_one{at, at});
    s.synchronize();
    return *at == before + 1;
}

}  // namespace

TEST_CASE("captured work runs at each launch, on any stream, and not at the capture", "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::stream const other;
    pinned_ints const x{1};
    auto graph = cuota::capture(s, [&] {
        cuota::for_each_index(s, 1, support::add_one{x.at, x.at});
        cuota::for_each_index(s, 1, support::add_one{x.at, x.at});
    });
    s.synchronize();
    CHECK(*x.at == 0);
    graph.launch(s);
    graph.launch(other);
    other.synchronize();
    CHECK(*x.at == 4);
    CHECK(is_usable(s, x.at));
}

TEST_CASE("all streams of a capture fork from its first stream and join it at the end", "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::stream const a;
    cuota::stream const b;
    pinned_ints const x{4};
    auto graph = cuota::capture({s, a, b}, [&] {
        cuota::for_each_index(a, 1, support::write_value{x.at + 1, 1});
        cuota::for_each_index(b, 1, support::write_value{x.at + 2, 2});
        cuota::event const done{a};
        b.wait(done);
        cuota::for_each_index(b, 1, support::add_one{x.at + 3, x.at + 1});
    });
    graph.launch(s);
    s.synchronize();
    CHECK(x.at[1] == 1);
    CHECK(x.at[2] == 2);
    CHECK(x.at[3] == 2);
    for (cuota::stream const* const each : {&s, &a, &b}) CHECK(is_usable(*each, x.at));
}

TEST_CASE("capture waits for the earlier work of its streams", "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::stream const a;
    pinned_ints const x{2};
    cuota::for_each_index(s, 1, support::write_value{x.at, 3});
    cuota::for_each_index(a, 1, support::write_value{x.at + 1, 4});
    auto const graph = cuota::capture({s, a}, [&] {
        CHECK(x.at[0] == 3);
        CHECK(x.at[1] == 4);
    });
}

TEST_CASE("an exception of the captured function ends the capture and is rethrown", "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::stream const a;
    pinned_ints const x{1};
    CHECK_THROWS_AS((void)cuota::capture({s, a},
                                         [&] {
                                             cuota::for_each_index(s, 1, support::write_value{x.at, 3});
                                             throw std::out_of_range{"f"};
                                         }),
                    std::out_of_range);
    CHECK(simulator::live().graphs == 0);
    CHECK(is_usable(s, x.at));
    CHECK(is_usable(a, x.at));
    CHECK(*x.at == 2);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("a CUDA call that cannot be captured invalidates the capture, and the error names the call",
          "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    pinned_ints const x{1};
    SECTION("the function does not catch the error") {
        std::string const why =
            support::thrown<cuota::cuda_error>([&] {
                (void)cuota::capture(s, [&] {
                    void* p = nullptr;
                    cuota::rt::check(cudaMalloc(&p, 64), "cudaMalloc", cuota::source_location::current());
                });
            }).what();
        CHECK(why.find("cudaMalloc failed with cudaErrorStreamCaptureUnsupported") != std::string::npos);
    }
    SECTION("the function catches the error") {
        std::string const why =
            support::thrown<cuota::cuda_error>([&] {
                (void)cuota::capture(s, [&] {
                    void* p = nullptr;
                    try {
                        cuota::rt::check(cudaMalloc(&p, 64), "cudaMalloc", cuota::source_location::current());
                    } catch (cuota::cuda_error const&) {}
                });
            }).what();
        CHECK(why.find("the capture was invalidated by cudaMalloc at graph.sim.cpp:") != std::string::npos);
    }
    SECTION("the function ignores the error") {
        std::string const why = support::thrown<cuota::cuda_error>([&] {
                                    (void)cuota::capture(s, [&] {
                                        void* p = nullptr;
                                        (void)cudaMalloc(&p, 64);
                                        (void)cudaGetLastError();
                                    });
                                }).what();
        CHECK(why.find("cudaStreamEndCapture failed with cudaErrorStreamCaptureInvalidated") !=
              std::string::npos);
    }
    CHECK(support::last_error() == cudaSuccess);
    CHECK(is_usable(s, x.at));
}

TEST_CASE("an operation that would invalidate the capture is refused before its CUDA call",
          "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    cuota::stream const other;
    pinned_ints const x{1};
    cuota::event const outside{other};
    std::optional<cuota::event> inside;
    auto graph = cuota::capture(s, [&] {
        inside.emplace(s);
        CHECK(why_refused([&] {
                  s.synchronize();
              }).find("stream::synchronize: not allowed while the stream is being captured") !=
              std::string::npos);
        CHECK(why_refused([&] { (void)s.is_idle(); }).find("stream::is_idle: not allowed") !=
              std::string::npos);
        CHECK(why_refused([&] { s.wait(outside); }).find("recorded outside it") != std::string::npos);
        CHECK(why_refused([&] { other.wait(*inside); }).find("pass all streams to capture") !=
              std::string::npos);
        CHECK(why_refused([&] { inside->synchronize(); }).find("recorded during a capture") !=
              std::string::npos);
        CHECK(why_refused([&] { (void)inside->is_done(); }).find("recorded during a capture") !=
              std::string::npos);
        CHECK(why_refused([&] { cuota::device::current().synchronize(); }).find("device::synchronize") !=
              std::string::npos);
        CHECK(why_refused([&] { cuota::timed_event const now{s}; }).find("before or after the launches") !=
              std::string::npos);
        CHECK(why_refused([&] { (void)cuota::capture(other, [] {}); }).find("within another capture") !=
              std::string::npos);
        outside.synchronize();
        CHECK(outside.is_done());
        other.synchronize();
        cuota::rt::device_free(cuota::rt::device_allocate(64));
        std::thread{[&] {
            CHECK(why_refused([&] { s.synchronize(); }).find("while the stream is being captured") !=
                  std::string::npos);
            CHECK(why_refused([&] { cuota::device::current().synchronize(); }).find("device::synchronize") !=
                  std::string::npos);
            cuota::rt::device_free(cuota::rt::device_allocate(64));
        }}.join();
        cuota::for_each_index(s, 1, support::add_one{x.at, x.at});
    });
    CHECK(why_refused([&] { inside->synchronize(); }).find("recorded during a capture") != std::string::npos);
    CHECK(why_refused([&] { s.wait(*inside); }).find("cannot wait outside a capture") != std::string::npos);
    inside->record(s);
    inside->synchronize();
    graph.launch(s);
    s.synchronize();
    CHECK(*x.at == 1);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("streams that cannot be captured are refused before a capture begins", "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    calls_since const begun{"cudaStreamBeginCapture"};
    auto const refused = [](auto const& streams) {
        return why_refused([&] { (void)cuota::capture(streams, [] {}); });
    };
    CHECK(refused(std::span<cuota::stream_ref const>{}).find("the list of streams is empty") !=
          std::string::npos);
    CHECK(why_refused([&] { (void)cuota::capture({s, s}, [] {}); }).find("twice") != std::string::npos);
    CHECK(refused(cuota::stream_ref{cudaStreamLegacy}).find("legacy default stream") != std::string::npos);
    CHECK(refused(cuota::stream_ref{static_cast<cudaStream_t>(nullptr)}).find("legacy default stream") !=
          std::string::npos);
    CHECK(begun.count() == 0);

    REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed) == cudaSuccess);
    CHECK(refused(cuota::stream_ref{s}).find("already being captured") != std::string::npos);
    auto other = cuota::capture(cuota::stream{}, [] {});
    CHECK(why_refused([&] { other.launch(s); }).find("cannot launch on a stream that is being captured") !=
          std::string::npos);
    cudaGraph_t others = nullptr;
    REQUIRE(cudaStreamEndCapture(s.get(), &others) == cudaSuccess);
    CHECK(cudaGraphDestroy(others) == cudaSuccess);
}

TEST_CASE("a graph that was moved from refuses to launch, and assignment destroys the previous graph",
          "[runtime][graph]") {
    support::machine const sim;
    cuota::stream const s;
    pinned_ints const x{1};
    auto a = cuota::capture(s, [&] { cuota::for_each_index(s, 1, support::write_value{x.at, 1}); });
    auto b = cuota::capture(s, [&] { cuota::for_each_index(s, 1, support::write_value{x.at, 2}); });
    a = std::move(b);
    CHECK(simulator::live().graph_execs == 1);
    CHECK(why_refused([&] { b.launch(s); }).find("moved from") != std::string::npos);
    a.launch(s);
    s.synchronize();
    CHECK(*x.at == 2);
    a = cuota::capture(s, [&] { cuota::for_each_index(s, 1, support::write_value{x.at, 3}); });
    a.launch(s);
    s.synchronize();
    CHECK(*x.at == 3);
}

TEST_CASE("a capture keeps its stream alive, and a graph does not need its streams", "[runtime][graph]") {
    support::machine const sim;
    pinned_ints const x{1};
    std::optional<cuota::stream> s{std::in_place};
    auto graph = cuota::capture(*s, [&] {
        cuota::for_each_index(*s, 1, support::write_value{x.at, 1});
        s.reset();
    });
    cuota::stream const other;
    graph.launch(other);
    other.synchronize();
    CHECK(*x.at == 1);
}

TEST_CASE("threads may capture their own streams at the same time", "[runtime][graph]") {
    support::machine const sim;
    std::atomic<int> wrong = 0;
    auto const program = [&wrong](int value) {
        for (int i = 0; i != 10; ++i) {
            cuota::stream const s;
            pinned_ints const x{1};
            auto graph = cuota::capture(s, [&] {
                cuota::for_each_index(s, 1, support::write_value{x.at, value});
                cuota::rt::device_free(cuota::rt::device_allocate(64));
                cuota::for_each_index(s, 1, support::add_one{x.at, x.at});
            });
            graph.launch(s);
            s.synchronize();
            wrong += *x.at != value + 1;
        }
    };
    std::thread one{program, 10};
    std::thread two{program, 20};
    one.join();
    two.join();
    CHECK(wrong == 0);
    CHECK(simulator::misuse_reports().empty());
}

TEST_CASE("whichever CUDA call fails, a capture leaks no graph and its streams stay usable",
          "[runtime][graph]") {
    support::machine sim;
    cuota::stream const s;
    cuota::stream const a;
    pinned_ints const x{1};
    auto const seen =
        support::survives_every_failure(sim,
                                        [&] {
                                            auto graph = cuota::capture({s, a}, [&] {
                                                cuota::for_each_index(a, 1, support::write_value{x.at, 1});
                                                cuota::rt::device_free(cuota::rt::device_allocate(64));
                                                cuota::event const done{a};
                                                s.wait(done);
                                            });
                                            graph.launch(a);
                                            a.synchronize();
                                        },
                                        {cudaErrorUnknown});
    CHECK(seen.silent == 0);
    CHECK(is_usable(s, x.at));
    CHECK(is_usable(a, x.at));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(mode == cudaStreamCaptureModeGlobal);  // a thread's initial mode
}
