// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

// The time that copies and kernels take. A busy machine can only prolong it, so the tests check lower bounds.

using namespace control;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

namespace {

struct memories {
    std::size_t bytes;
    void* device = device_memory(bytes);
    void* other = device_memory(bytes);
    unsigned char* pinned = pinned_memory(bytes);

    explicit memories(std::size_t n) : bytes{n} {}
    ~memories() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaFree(device) == cudaSuccess);
        CHECK(cudaFree(other) == cudaSuccess);
        CHECK(cudaFreeHost(pinned) == cudaSuccess);
    }
    memories(memories const&) = delete;
    memories& operator=(memories const&) = delete;

    void to_device(cudaStream_t s) const {
        REQUIRE(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, s) == cudaSuccess);
    }
    void to_host(cudaStream_t s) const {
        REQUIRE(cudaMemcpyAsync(pinned, other, bytes, cudaMemcpyDeviceToHost, s) == cudaSuccess);
    }
    void on_device(cudaStream_t s) const {
        REQUIRE(cudaMemcpyAsync(other, device, bytes, cudaMemcpyDeviceToDevice, s) == cudaSuccess);
    }
};

struct streams {
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    ~streams() {
        CHECK(cudaStreamDestroy(a) == cudaSuccess);
        CHECK(cudaStreamDestroy(b) == cudaSuccess);
    }
    void synchronise() const { REQUIRE(cudaDeviceSynchronize() == cudaSuccess); }
};

/// Returns the duration of `work` in its stream, measured by events.
template <class Work>
nanoseconds elapsed(cudaStream_t s, Work work) {
    auto const begin = new_event(), end = new_event();
    REQUIRE(cudaEventRecord(begin, s) == cudaSuccess);
    work();
    REQUIRE(cudaEventRecord(end, s) == cudaSuccess);
    REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
    CHECK(cudaEventDestroy(begin) == cudaSuccess);
    CHECK(cudaEventDestroy(end) == cudaSuccess);
    return nanoseconds{static_cast<std::int64_t>(static_cast<double>(ms) * 1e6) + 1000};  // float precision
}

nanoseconds together(sim::work_interval const& a, sim::work_interval const& b) {
    return std::max(nanoseconds{0}, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

}  // namespace

TEST_CASE("a copy takes the latency plus its bytes divided by the speed", "[simulator][link]") {
    machine m;
    memories const mem{1'000'000};
    streams const s;
    sim::set_link(
        {.to_device = 100'000'000, .to_host = 50'000'000, .on_device = 200'000'000, .latency = 2ms});
    CHECK(elapsed(s.a, [&] { mem.to_device(s.a); }) >= 12ms);
    CHECK(elapsed(s.a, [&] { mem.to_host(s.a); }) >= 22ms);
    CHECK(elapsed(s.a, [&] { mem.on_device(s.a); }) >= 7ms);

    auto const seen = sim::work_intervals();
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].what == sim::work_kind::to_device);
    CHECK(seen[1].what == sim::work_kind::to_host);
    CHECK(seen[2].what == sim::work_kind::on_device);
    CHECK(seen[0].end - seen[0].begin == 12ms);
    CHECK(seen[1].end - seen[1].begin == 22ms);
    CHECK(seen[2].end - seen[2].begin == 7ms);
    CHECK(seen[0].bytes == 1'000'000);
}

TEST_CASE("copies of every form use the link", "[simulator][link]") {
    machine m;
    memories const mem{4096};
    std::vector<unsigned char> pageable(4096);
    sim::set_link({.to_device = 1'000'000, .latency = 1ms});
    auto const last = [] {
        auto const all = sim::work_intervals();
        return all.empty() ? nanoseconds{0} : all.back().end - all.back().begin;
    };
    REQUIRE(cudaMemcpy(mem.device, pageable.data(), 1000, cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(last() == 2ms);
    REQUIRE(cudaMemcpy(mem.device, mem.pinned, 2000, cudaMemcpyDefault) == cudaSuccess);
    CHECK(last() == 3ms);
    REQUIRE(cudaMemcpy2D(mem.device, 1000, mem.pinned, 1000, 500, 4, cudaMemcpyHostToDevice) == cudaSuccess);
    auto const all = sim::work_intervals();
    REQUIRE(all.size() == 6);  // one for each row, and one latency
    nanoseconds rows{0};
    for (std::size_t i = 2; i < 6; ++i) rows += all[i].end - all[i].begin;
    CHECK(rows == 3ms);
    REQUIRE(cudaMemcpy(pageable.data(), mem.pinned, 4096, cudaMemcpyHostToHost) == cudaSuccess);
    REQUIRE(cudaMemset(mem.device, 0, 4096) == cudaSuccess);
    CHECK(sim::work_intervals().size() == 6);
}

TEST_CASE("copies in one direction share its engine and run one after another", "[simulator][link]") {
    machine m;
    memories const mem{100'000}, more{100'000};
    streams const s;
    sim::set_link({.to_device = 10'000'000});
    auto const begin = steady_clock::now();
    for (int i = 0; i < 3; ++i) {
        mem.to_device(s.a);
        more.to_device(s.b);
    }
    s.synchronise();
    CHECK(steady_clock::now() - begin >= 60ms);
    auto seen = sim::work_intervals();
    REQUIRE(seen.size() == 6);
    for (std::size_t i = 1; i < seen.size(); ++i) CHECK(seen[i].begin >= seen[i - 1].end);
}

TEST_CASE("directions, engines, devices and kernels are independent", "[simulator][link]") {
    machine m{{.devices = 2}};
    memories const mem{100'000}, more{100'000};
    streams const s;
    sim::set_schedule(sim::schedule::workers);
    auto const overlap = [&](sim::link_options const& link, auto first, auto second) {
        for (;;) {  // until both were started in time
            sim::set_link(link);
            {
                sim::hold both;
                first();
                second();
            }
            s.synchronise();
            REQUIRE(cudaSetDevice(1) == cudaSuccess);
            s.synchronise();
            REQUIRE(cudaSetDevice(0) == cudaSuccess);
            auto const seen = sim::work_intervals();
            REQUIRE(seen.size() == 2);
            if (together(seen[0], seen[1]) > 0ns) return seen;
        }
    };
    sim::link_options const slow{
        .to_device = 2'000'000, .to_host = 2'000'000, .on_device = 2'000'000, .kernel = 50ms};
    overlap(
        slow, [&] { mem.to_device(s.a); }, [&] { more.to_host(s.b); });
    overlap(
        slow, [&] { mem.to_device(s.a); }, [&] { more.on_device(s.b); });
    overlap(
        slow, [&] { mem.to_device(s.a); }, [&] { REQUIRE(launch(s.b, "k", [] {}) == cudaSuccess); });
    auto two = slow;
    two.engines = 2;
    auto const seen = overlap(
        two, [&] { mem.to_device(s.a); }, [&] { more.to_device(s.b); });
    CHECK(seen[0].engine != seen[1].engine);

    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    memories const far{100'000};
    auto const there = new_stream(cudaStreamNonBlocking);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    auto const apart = overlap(
        slow, [&] { mem.to_device(s.a); }, [&] { far.to_device(there); });
    CHECK(apart[0].device != apart[1].device);
    CHECK(cudaStreamDestroy(there) == cudaSuccess);
}

TEST_CASE("a kernel takes the time of its name or the general kernel time", "[simulator][link]") {
    machine m;
    auto const usual = sim::current_link().kernel;
    streams const s;
    sim::set_link({.kernel = 2ms});
    sim::set_kernel_time("slow", 9ms);
    CHECK(elapsed(s.a, [&] { REQUIRE(launch(s.a, "slow", [] {}) == cudaSuccess); }) >= 9ms);
    CHECK(elapsed(s.a, [&] { REQUIRE(launch(s.a, "other", [] {}) == cudaSuccess); }) >= 2ms);
    auto const seen = sim::work_intervals();
    REQUIRE(seen.size() == 2);
    CHECK(seen[0].what == sim::work_kind::kernel);
    CHECK(seen[0].end - seen[0].begin >= 9ms);
    CHECK(seen[1].end - seen[1].begin >= 2ms);
    sim::reset();
    CHECK(sim::current_link().kernel == usual);
    sim::set_link({});
    REQUIRE(launch(s.a, "slow", [] {}) == cudaSuccess);
    s.synchronise();
    CHECK(sim::work_intervals().empty());  // no operation takes time
}

TEST_CASE("a single copy can be delayed", "[simulator][link]") {
    machine m;
    memories const mem{1000};
    streams const s;
    sim::set_link({});
    sim::delay_copy(2, 15ms);
    for (int i = 0; i < 3; ++i) {
        mem.to_device(s.a);
        s.synchronise();
    }
    auto const seen = sim::work_intervals();
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].end == seen[0].begin);
    CHECK(seen[1].end - seen[1].begin == 15ms);
    CHECK(seen[2].end == seen[2].begin);
}

TEST_CASE("a delayed copy arrives after its delay and not before", "[simulator][link]") {
    machine m;
    memories const mem{64};
    streams const s;
    REQUIRE(cudaMemset(mem.device, 1, 64) == cudaSuccess);
    std::fill_n(mem.pinned, 64, static_cast<unsigned char>(2));
    s.synchronise();
    sim::set_link({.latency = 20ms});
    auto const begin = steady_clock::now();
    mem.to_device(s.a);
    CHECK(all_are(contents(mem.device, 64), 2));
    CHECK(steady_clock::now() - begin >= 40ms);  // in both directions
}

TEST_CASE("invalid times are refused", "[simulator][link]") {
    machine m;
    CHECK_THROWS_AS(sim::set_link({.latency = -1ns}), std::invalid_argument);
    CHECK_THROWS_AS(sim::set_link({.kernel = -1ns}), std::invalid_argument);
    CHECK_THROWS_AS(sim::set_link({.engines = 0}), std::invalid_argument);
    CHECK_THROWS_AS(sim::set_link({.engines = 17}), std::invalid_argument);
    CHECK_THROWS_AS(sim::set_kernel_time(nullptr, 1ns), std::invalid_argument);
    CHECK_THROWS_AS(sim::set_kernel_time("k", -1ns), std::invalid_argument);
    CHECK_THROWS_AS(sim::delay_copy(0, 1ns), std::invalid_argument);
    CHECK_THROWS_AS(sim::delay_copy(1, -1ns), std::invalid_argument);
}

TEST_CASE("a program with a link from the environment", "[simulator][link]") {
    machine m;
    auto const link = sim::current_link();
    std::printf("to_device=%llu\nto_host=%llu\non_device=%llu\nlatency=%lld\nkernel=%lld\nengines=%d\n",
                static_cast<unsigned long long>(link.to_device),
                static_cast<unsigned long long>(link.to_host),
                static_cast<unsigned long long>(link.on_device), static_cast<long long>(link.latency.count()),
                static_cast<long long>(link.kernel.count()), link.engines);
    CHECK(link.engines >= 1);
}

TEST_CASE("the environment can set the link", "[simulator][link]") {
    auto const link = [](std::string const& value) {
        auto const r = run_again("CUOTA_SIM_LINK=" + value, "a program with a link from the environment");
        CHECK(r.status == 0);
        return r.report;
    };
    auto const one = link("25GB/s,10us");
    CHECK(one.at("to_device") == 25'000'000'000);
    CHECK(one.at("to_host") == 25'000'000'000);
    CHECK(one.at("on_device") == 0);
    CHECK(one.at("latency") == 10'000);
    CHECK(one.at("engines") == 1);
    auto const all = link("h2d=1.5GB/s,d2h=64MiB/s,d2d=2TB/s,latency=1ms,kernel=50us,engines=2");
    CHECK(all.at("to_device") == 1'500'000'000);
    CHECK(all.at("to_host") == 64 << 20);
    CHECK(all.at("on_device") == 2'000'000'000'000);
    CHECK(all.at("latency") == 1'000'000);
    CHECK(all.at("kernel") == 50'000);
    CHECK(all.at("engines") == 2);
}

TEST_CASE("an invalid link setting ends the program with one line", "[simulator][link]") {
    auto const wrong = GENERATE("''", "fast", "25", "25GB", "0GB/s", "-1GB/s", "25GB/s,", ",10us", "h2d=10us",
                                "latency=5GB/s", "engines=0", "engines=1.5", "engines=17", "speed=1GB/s",
                                "99999999999TB/s", "infGB/s", "10m", "1e3us");
    auto const r =
        run_again(std::string{"CUOTA_SIM_LINK="} + wrong, "a program with a link from the environment");
    INFO(wrong << ": " << r.text);
    CHECK(r.status == 2);
    CHECK(r.text.find("CUOTA_SIM_LINK") != std::string::npos);
    CHECK(std::count(r.text.begin(), r.text.end(), '\n') == 1);
}
