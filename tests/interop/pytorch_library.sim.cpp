// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Tests the library that PyTorch loads, in the same way: loaded by path, called through C functions. CUOTA_STRESS=<total requests> sets the
// length of the stress test.
#include <cuota/interop/pytorch.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include <cuota/runtime/rt/copy.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/last_error.hpp"
#include "support/sink.hpp"
#include "support/temp_folder.hpp"

using namespace cuota::literals;
using support::has;
namespace simulator = cuota::simulator;

namespace {

// A copy of the library with state of its own, one for each simulated machine; it stays loaded.
class library {
public:
    library() {
        std::filesystem::copy_file(CUOTA_PYTORCH_LIBRARY, folder_.path("copy.so"));
        handle_ = dlopen(folder_.path("copy.so").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!handle_) throw std::runtime_error{dlerror()};
        find(alloc, "cuota_alloc");
        find(alloc_or_throw, "cuota_alloc_or_throw");
        find(free, "cuota_free");
        find(record_stream, "cuota_record_stream");
        find(reset, "cuota_reset");
        find(set_fraction, "cuota_set_fraction");
        find(configure, "cuota_configure");
        find(set_limit, "cuota_set_limit");
        find(limit, "cuota_limit");
        find(held, "cuota_held");
        find(peak, "cuota_peak");
        find(live, "cuota_live");
        find(trim, "cuota_trim");
        find(summary, "cuota_summary");
        find(summary_json, "cuota_summary_json");
        find(last_failure, "cuota_last_failure");
    }

    [[nodiscard]] static std::string text(std::size_t (*from)(char*, std::size_t)) {
        std::string all(from(nullptr, 0) + 64, '\0');  // figures may gain digits between the two calls
        all.resize(std::min(from(all.data(), all.size()), all.size() - 1));
        return all;
    }

    void* (*alloc)(std::size_t, int, cudaStream_t) = nullptr;
    void* (*alloc_or_throw)(std::size_t, int, cudaStream_t) = nullptr;
    void (*free)(void*, std::size_t, int, cudaStream_t) = nullptr;
    void (*record_stream)(void*, cudaStream_t) = nullptr;
    void (*reset)() = nullptr;
    void (*set_fraction)(double, int) = nullptr;
    int (*configure)(char const*) = nullptr;
    int (*set_limit)(int, std::size_t) = nullptr;
    std::size_t (*limit)(int) = nullptr;
    std::size_t (*held)(int) = nullptr;
    std::size_t (*peak)(int) = nullptr;
    std::size_t (*live)(int) = nullptr;
    std::size_t (*trim)() = nullptr;
    std::size_t (*summary)(char*, std::size_t) = nullptr;
    std::size_t (*summary_json)(char*, std::size_t) = nullptr;
    std::size_t (*last_failure)(char*, std::size_t) = nullptr;

private:
    template <class F>
    void find(F*& function, char const* name) {
        function = reinterpret_cast<F*>(dlsym(handle_, name));
        if (!function) throw std::runtime_error{std::string{name} + " is not in the library"};
    }

    support::temp_folder folder_;
    void* handle_ = nullptr;  // never closed: the library stays loaded
};

struct held {
    void* p;
    std::size_t bytes;
    cudaStream_t stream;
};

// The live blocks, as recorded by the requesters.
class shadow {
public:
    void took(held const& one) {
        std::scoped_lock const lock{guard_};
        auto const at = reinterpret_cast<std::uintptr_t>(one.p);
        auto const after = ends_.lower_bound(at);
        bool const is_apart = (after == ends_.end() || after->first >= at + one.bytes) &&
                              (after == ends_.begin() || std::prev(after)->second <= at);
        if (!is_apart) throw std::logic_error{"memory was given out that another one has"};
        ends_.emplace(at, at + one.bytes);
        bytes_ += one.bytes;
    }
    void gives(held const& one) {  // called before the block is freed
        std::scoped_lock const lock{guard_};
        ends_.erase(reinterpret_cast<std::uintptr_t>(one.p));
        bytes_ -= one.bytes;
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::size_t blocks() const noexcept { return ends_.size(); }

private:
    std::mutex guard_;
    std::map<std::uintptr_t, std::uintptr_t> ends_;
    std::size_t bytes_ = 0;
};

// Blocks that threads pass to each other.
class exchange {
public:
    [[nodiscard]] std::optional<held> swap(std::size_t place, std::optional<held> mine) {
        std::scoped_lock const lock{guard_};
        return std::exchange(places_[place % places_.size()], mine);
    }

private:
    std::mutex guard_;
    std::array<std::optional<held>, 8> places_;
};

// One of PyTorch's threads: allocates, uses, records streams, frees and passes on blocks.
class requester {
public:
    requester(library const& of, shadow& beside, exchange& between, std::vector<cuota::stream> const& streams,
              unsigned seed)
        : of_{of}, beside_{beside}, between_{between}, streams_{streams}, random_{seed} {}

    void run(std::uint64_t requests) {
        for (std::uint64_t i = 0; i != requests;) {
            std::size_t const dice = random_() % 64;
            if (dice < 36) i += ask();
            else if (dice < 62) give_any();
            else hand_over();
        }
    }
    void give_all() {
        while (!live_.empty()) give_any();
    }
    [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

private:
    [[nodiscard]] cudaStream_t any_stream() { return streams_[random_() % streams_.size()].get(); }
    [[nodiscard]] std::size_t any_bytes() {
        std::size_t const dice = random_() % 256;
        if (dice == 0) return 2_MiB * (1 + random_() % 8);  // the size of a segment
        return 1 + random_() % (dice < 64 ? 256_KiB : 8_KiB);
    }

    std::uint64_t ask() {
        held one{nullptr, any_bytes(), any_stream()};
        if (random_() % 2 == 0) one.p = of_.alloc(one.bytes, 0, one.stream);
        else try {
                one.p = of_.alloc_or_throw(one.bytes, 0, one.stream);
                if (!one.p) throw std::logic_error{"null for who looks for an exception"};
            } catch (std::bad_alloc const&) {}
        if (one.p) {
            beside_.took(one);
            live_.push_back(one);
            use(one);
        } else {
            ++refused_;
            give_any();
        }
        return 1;
    }
    // Enqueues work on the block's stream; sometimes also on another stream, ordered after it and passed to record_stream.
    void use(held const& one) {
        std::size_t const dice = random_() % 32;
        if (dice > 2) return;
        cuota::rt::fill_bytes(one.p, 1, std::min(one.bytes, std::size_t{512}), one.stream, {});
        if (dice != 0) return;
        cudaStream_t const other = any_stream();
        cuota::stream_ref{other}.wait(cuota::event{cuota::stream_ref{one.stream}});
        of_.record_stream(one.p, other);
        cuota::rt::fill_bytes(one.p, 2, std::min(one.bytes, std::size_t{512}), other, {});
    }
    void give_any() {
        if (live_.empty()) return;
        std::swap(live_[random_() % live_.size()], live_.back());
        held const one = live_.back();
        live_.pop_back();
        beside_.gives(one);
        of_.free(one.p, one.bytes, 0, one.stream);
    }
    void hand_over() {
        std::optional<held> mine;
        if (!live_.empty()) {
            mine = live_.back();
            live_.pop_back();
        }
        if (auto const got = between_.swap(random_(), mine)) live_.push_back(*got);
    }

    library const& of_;
    shadow& beside_;
    exchange& between_;
    std::vector<cuota::stream> const& streams_;
    std::minstd_rand random_;
    std::vector<held> live_;
    std::uint64_t refused_ = 0;
};

// Returns the pool statistics that the library reports for device 0.
nlohmann::json pool_of(library const& of) {
    return nlohmann::json::parse(library::text(of.summary_json)).at(0).at("pools").at(0).at("stats");
}

}  // namespace

TEST_CASE("the library serves random requests of four threads, and its figures are right",
          "[interop][pytorch][threads][stress]") {
    constexpr std::size_t threads = 4;
    constexpr std::size_t rounds = 4;
    char const* const told = std::getenv("CUOTA_STRESS");
    std::uint64_t const requests = told ? std::strtoull(told, nullptr, 10) : 20'000;
    simulator::reset({});  // no support::machine: the library keeps events and addresses of its pool
    simulator::set_race_checks(simulator::race_checks::report);
    library const pytorch;
    REQUIRE(pytorch.configure("48MiB") == 0);
    std::vector<cuota::stream> const streams(5);
    shadow beside;
    exchange between;
    std::vector<requester> all;
    for (unsigned t = 0; t != threads; ++t) all.emplace_back(pytorch, beside, between, streams, t + 1);
    std::mutex guard;
    std::string failure;

    for (std::size_t round = 0; round != rounds; ++round) {
        std::vector<std::thread> running;
        for (requester& one : all)
            running.emplace_back([&] {
                try {
                    one.run(requests / threads / rounds);
                } catch (std::exception const& error) {
                    std::scoped_lock const lock{guard};
                    failure = error.what();
                }
            });
        for (std::thread& t : running) t.join();
        REQUIRE(failure.empty());

        auto const pool = pool_of(pytorch);
        CHECK(pytorch.live(0) == beside.bytes());
        CHECK(pool.at("requested") == beside.bytes());
        CHECK(pool.at("live_blocks") == beside.blocks());
        CHECK(pool.at("reserved") == pytorch.held(0));
        CHECK(simulator::live().device_bytes == pytorch.held(0));
        CHECK(pytorch.held(0) <= pytorch.peak(0));
        CHECK(pytorch.peak(0) <= 48_MiB);
    }
    std::uint64_t refused = 0;
    for (requester const& one : all) refused += one.refused();
    CHECK(refused > 0);
    for (std::size_t place = 0; place != 8; ++place)
        if (auto const left = between.swap(place, std::nullopt)) {
            beside.gives(*left);
            pytorch.free(left->p, left->bytes, 0, left->stream);
        }
    for (requester& one : all) one.give_all();
    CHECK(pytorch.live(0) == 0);
    (void)pytorch.trim();
    CHECK(pytorch.held(0) == 0);
    CHECK(simulator::live().device_bytes == 0);
    CHECK(simulator::misuse().races == 0);
    if (told) std::printf("%ju requests, %ju refused\n", std::uintmax_t{requests}, std::uintmax_t{refused});
}

TEST_CASE("the library refuses requests beyond the limit, and later requests that fit succeed",
          "[interop][pytorch]") {
    simulator::reset({});
    library const pytorch;
    CHECK(pytorch.configure("64MB") == -1);
    CHECK(has(library::text(pytorch.last_failure), "configure: '64MB' is not a limit"));
    REQUIRE(pytorch.configure("64MiB") == 0);
    CHECK(pytorch.held(0) + pytorch.peak(0) + pytorch.live(0) == 0);
    CHECK(library::text(pytorch.summary) == "no allocations on any device");
    CHECK(pytorch.limit(0) == 64_MiB);

    void* const all = pytorch.alloc(62_MiB, 0, nullptr);
    REQUIRE(all);
    CHECK(pytorch.alloc(4_MiB, 0, nullptr) == nullptr);
    CHECK(has(library::text(pytorch.last_failure), "cannot allocate 4.0 MiB"));
    CHECK(has(library::text(pytorch.last_failure), "device 0"));
    CHECK_THROWS_AS(pytorch.alloc_or_throw(4_MiB, 0, nullptr), std::bad_alloc);
    void* const rest = pytorch.alloc(2_MiB, 0, nullptr);
    CHECK(rest);
    CHECK(has(library::text(pytorch.summary), "64.0 MiB"));
    pytorch.free(rest, 2_MiB, 0, nullptr);
    pytorch.free(all, 62_MiB, 0, nullptr);
    CHECK(pytorch.live(0) == 0);

    CHECK(pytorch.set_limit(0, 8_MiB) == 0);
    CHECK(pytorch.limit(0) == 8_MiB);
    CHECK(pytorch.held(0) <= 8_MiB);
    pytorch.set_fraction(0.5, 0);
    CHECK(pytorch.limit(0) == 4_GiB);
    CHECK(pytorch.set_limit(9, 1) == -1);
    pytorch.reset();
    CHECK(pytorch.held(0) == 0);
    CHECK(pytorch.peak(0) == 64_MiB);
}

TEST_CASE("the library reports a double free and an unknown pointer, and continues", "[interop][pytorch]") {
    simulator::reset({});
    library const pytorch;
    cuota::stream const s;
    void* const p = pytorch.alloc(1_MiB, 0, s.get());
    int foreign = 0;
    pytorch.free(&foreign, sizeof foreign, 0, s.get());
    CHECK(has(library::text(pytorch.last_failure), "unknown pointer"));
    CHECK(pytorch.live(0) == 1_MiB);
    pytorch.free(p, 1_MiB, 0, s.get());
    pytorch.free(p, 1_MiB, 0, s.get());
    CHECK(has(library::text(pytorch.last_failure), "double free"));
    CHECK(pytorch.live(0) == 0);
    (void)pytorch.trim();
}

TEST_CASE("every failing CUDA call in the library results in null or an exception, and leaks nothing",
          "[interop][pytorch]") {
    simulator::reset({});
    library const pytorch;
    cuota::stream const s;
    cuota::stream const side;
    auto const warm_up = [&] {
        void* const p = pytorch.alloc(1_MiB, 0, s.get());
        pytorch.record_stream(p, side.get());
        pytorch.free(p, 1_MiB, 0, s.get());
        pytorch.free(pytorch.alloc(1_MiB, 0, s.get()), 1_MiB, 0, s.get());
        (void)pytorch.trim();
    };
    warm_up();  // the pool keeps an event for each stream
    auto const before = simulator::live();
    for (cudaError_t const code : {cudaErrorMemoryAllocation, cudaErrorUnknown})
        for (std::uint64_t nth = 1;; ++nth) {
            INFO("call " << nth << " fails with " << cudaGetErrorName(code));
            auto const injected = simulator::faults_injected();
            simulator::fail_call(nullptr, nth, code);
            void* const p = pytorch.alloc(1_MiB, 0, s.get());
            void* q = nullptr;
            bool threw = false;
            try {
                q = pytorch.alloc_or_throw(3_MiB, 0, s.get());
            } catch (std::exception const&) { threw = true; }
            pytorch.record_stream(p, side.get());
            pytorch.free(p, 1_MiB, 0, s.get());
            pytorch.free(q, 3_MiB, 0, s.get());
            bool const was_used = simulator::faults_injected() != injected;
            simulator::clear_faults();
            CHECK(threw == (q == nullptr));
            CHECK(((p && q) || was_used));
            CHECK(pytorch.live(0) == 0);
            (void)pytorch.trim();
            CHECK(simulator::live().device_bytes == before.device_bytes);
            CHECK(simulator::live().total() == before.total());
            CHECK(support::last_error() == cudaSuccess);
            if (!was_used) break;
        }
}
