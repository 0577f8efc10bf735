// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/control.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

using namespace control;

TEST_CASE("no work starts during a hold, and all work runs afterwards", "[simulator][order]") {
    machine m;
    auto const a = new_stream(), b = new_stream(cudaStreamNonBlocking);
    auto const e = new_event();
    std::atomic<int> runs{0};
    {
        sim::hold first;
        auto second = std::make_unique<sim::hold>();
        REQUIRE(launch(a, "k", [&] { ++runs; }) == cudaSuccess);
        REQUIRE(launch(b, "k", [&] { ++runs; }) == cudaSuccess);
        REQUIRE(cudaEventRecord(e, a) == cudaSuccess);
        second.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
        CHECK(runs == 0);
        CHECK(cudaStreamQuery(a) == cudaErrorNotReady);
        CHECK(cudaStreamQuery(b) == cudaErrorNotReady);
        CHECK(cudaEventQuery(e) == cudaErrorNotReady);
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(runs == 2);
    CHECK(cudaStreamDestroy(a) == cudaSuccess);
    CHECK(cudaStreamDestroy(b) == cudaSuccess);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
}

TEST_CASE("held work starts without a wait when the hold ends", "[simulator][order]") {
    machine m;
    auto const s = new_stream();
    std::promise<void> ran;
    {
        sim::hold all;
        REQUIRE(launch(s, "k", [&] { ran.set_value(); }) == cudaSuccess);
    }
    ran.get_future().wait();  // without synchronization
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("a hold shows whether the host waited", "[simulator][order]") {
    machine m;
    auto const s = new_stream();
    auto* const d = device_memory(4);
    auto* const pinned = pinned_memory(4);
    pinned[0] = 1;
    {
        sim::hold all;
        REQUIRE(cudaMemsetAsync(d, 2, 4, s) == cudaSuccess);
        REQUIRE(cudaMemcpyAsync(pinned, d, 4, cudaMemcpyDeviceToHost, s) == cudaSuccess);
        CHECK(pinned[0] == 1);
    }
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(pinned[0] == 2);
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("the machine cannot be reset during a hold", "[simulator][order]") {
    machine m;
    sim::hold all;
    CHECK_THROWS_AS(sim::reset(), std::logic_error);
}

TEST_CASE("requested order is kept with any delays", "[simulator][order]") {
    machine m;
    sim::set_jitter(GENERATE(1u, 2u, 3u), std::chrono::microseconds{200});
    auto const a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking), c = new_stream();
    auto const e = new_event(cudaEventDisableTiming);
    auto* const d = static_cast<int*>(device_memory(400));
    auto const all_to = [d](int from, int to) {
        return [=] {
            for (int i = 0; i < 100; ++i)
                if (d[i] == from || from < 0) d[i] = to;
        };
    };
    auto const hand_over = [e](cudaStream_t from, cudaStream_t to) {
        REQUIRE(cudaEventRecord(e, from) == cudaSuccess);
        REQUIRE(cudaStreamWaitEvent(to, e, 0) == cudaSuccess);
    };
    REQUIRE(launch(a, "set", all_to(-1, 0)) == cudaSuccess);
    for (int i = 0; i < 30; i += 3) {
        hand_over(a, b);
        REQUIRE(launch(b, "first", all_to(i, i + 1)) == cudaSuccess);
        hand_over(b, c);
        REQUIRE(launch(nullptr, "second", all_to(i + 1, i + 2)) ==
                cudaSuccess);  // after c by the default stream's rules
        REQUIRE(launch(c, "third", all_to(i + 2, i + 3)) == cudaSuccess);
        hand_over(c, a);
    }
    std::vector<int> host(100);
    REQUIRE(cudaMemcpyAsync(host.data(), d, 400, cudaMemcpyDeviceToHost, a) == cudaSuccess);
    CHECK(host == std::vector<int>(100, 30));
    CHECK(cudaFree(d) == cudaSuccess);
    CHECK(cudaEventDestroy(e) == cudaSuccess);
    for (auto const s : {a, b, c}) CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

TEST_CASE("several threads can use the device concurrently", "[simulator][order]") {
    machine m;
    sim::set_jitter(7, std::chrono::microseconds{20});
    auto const drive = [](int value) {
        bool good = true;
        cudaStream_t s = nullptr;
        good &= cudaStreamCreate(&s) == cudaSuccess;
        for (int i = 0; i < 40; ++i) {
            void* p = nullptr;
            unsigned char seen[64] = {};
            bool const plain = i % 4 == 0;
            good &= (plain ? cudaMalloc(&p, 64) : cudaMallocAsync(&p, 64, s)) == cudaSuccess;
            good &= cudaMemsetAsync(p, value + i, 64, s) == cudaSuccess;
            good &= cudaMemcpyAsync(seen, p, 64, cudaMemcpyDeviceToHost, s) == cudaSuccess;
            good &= seen[63] == static_cast<unsigned char>(value + i);
            good &= (plain ? cudaFree(p) : cudaFreeAsync(p, s)) == cudaSuccess;
        }
        return good && cudaStreamDestroy(s) == cudaSuccess;
    };
    std::vector<std::future<bool>> threads;
    for (int i = 0; i < 4; ++i) threads.push_back(std::async(std::launch::async, drive, 50 * i));
    for (auto& t : threads) CHECK(t.get());
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a held call has no effect before it is let go", "[simulator][order]") {
    machine m;
    cudaStream_t s = nullptr;
    std::atomic<bool> is_made = false;
    sim::held_call call{"cudaStreamCreate"};
    CHECK(!call.is_reached());
    CHECK_THROWS_AS(sim::held_call{"cudaStreamCreate"}, std::logic_error);
    cudaError_t made = cudaErrorUnknown;  // checked in this thread: the test framework is not thread-safe
    std::thread maker{[&] {
        made = cudaStreamCreate(&s);
        is_made = true;
    }};
    call.wait_until_reached();
    CHECK(call.is_reached());
    CHECK(!is_made);
    CHECK(sim::live().streams == 0);
    cudaStream_t second = nullptr;
    CHECK(cudaStreamCreate(&second) == cudaSuccess);  // the next one only
    CHECK(sim::live().streams == 1);
    call.let_go();
    maker.join();
    CHECK(made == cudaSuccess);
    CHECK(sim::live().streams == 2);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
    CHECK(cudaStreamDestroy(second) == cudaSuccess);
}

TEST_CASE("a call that never comes can be held, an unknown one cannot", "[simulator][order]") {
    machine m;
    { sim::held_call const call{"cudaMalloc"}; }
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 1) == cudaSuccess);
    CHECK(cudaFree(p) == cudaSuccess);
    CHECK_THROWS_AS(sim::held_call{"cudaMallocs"}, std::invalid_argument);
}
