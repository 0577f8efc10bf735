// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "simulator/process.hpp"

#include <array>
#include <bitset>
#include <random>
#include <string>

// The happens-before checker compared with a reference that stores every operation and all its predecessors.

using namespace control;

namespace {

constexpr std::size_t most_steps = 64;
using node_set = std::bitset<most_steps>;

/// All operations of one small program, each with the set of its predecessors.
class reference {
public:
    static constexpr int streams = 4, events = 3;

    /// Adds an operation of a stream and returns its number. Stream 0 is the default one, 1 and 2 are blocking.
    int add(int stream) {
        auto const before = next(stream);
        auto const number = static_cast<int>(before_.size());
        before_.push_back(before);
        of_stream_[at(stream)] = before;
        of_stream_[at(stream)].set(at(number));
        return number;
    }
    [[nodiscard]] bool follows(int stream, int operation) const { return next(stream)[at(operation)]; }
    void record(int event, int stream) {
        auto const number = add(stream);
        of_event_[at(event)] = before_.back();
        of_event_[at(event)].set(at(number));
    }
    void wait(int stream, int event) {
        add(stream);
        of_stream_[at(stream)] |= of_event_[at(event)];
    }
    void synchronise(int stream) {
        host_ |= of_stream_[at(stream)];
        if (stream == 0) host_ |= of_stream_[1] | of_stream_[2];
    }
    void synchronise_event(int event) { host_ |= of_event_[at(event)]; }
    void synchronise_all() {
        for (auto const& s : of_stream_) host_ |= s;
    }

    /// Adds an access and returns whether an earlier one conflicts with it and does not precede it.
    bool races(int operation, int block, std::size_t begin, std::size_t end, bool writes) {
        bool found = false;
        for (auto const& x : accesses_) {
            bool const meet = x.block == block && x.begin < end && begin < x.end && (x.writes || writes);
            bool const unordered = x.operation != operation && !before_[at(operation)][at(x.operation)];
            found |= meet && unordered;
        }
        accesses_.push_back({operation, block, begin, end, writes});
        return found;
    }

private:
    struct access {
        int operation, block;
        std::size_t begin, end;
        bool writes;
    };

    static std::size_t at(int i) { return static_cast<std::size_t>(i); }

    /// Returns the predecessors of the stream's next operation.
    [[nodiscard]] node_set next(int stream) const {
        auto before = host_ | of_stream_[at(stream)];
        if (stream == 0) before |= of_stream_[1] | of_stream_[2];
        if (stream == 1 || stream == 2) before |= of_stream_[0];
        return before;
    }

    std::vector<node_set> before_;
    std::array<node_set, streams> of_stream_;
    std::array<node_set, events> of_event_;
    node_set host_;
    std::vector<access> accesses_;
};

/// The objects that the programs use. Every program has its own bytes and records its events anew, so programs are independent.
struct world {
    world() {
        sim::set_race_checks(sim::race_checks::report);
        sim::set_unkindness({});  // frees wait, as in the reference
        streams = {nullptr, new_stream(), new_stream(), new_stream(cudaStreamNonBlocking)};
        device = static_cast<char*>(device_memory(bytes));
        pinned = reinterpret_cast<char*>(pinned_memory(bytes));
        for (auto& e : events) e = new_event(cudaEventDisableTiming);
    }
    ~world() {
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        for (std::size_t i = 1; i < 4; ++i) CHECK(cudaStreamDestroy(streams[i]) == cudaSuccess);
        for (auto const e : events) CHECK(cudaEventDestroy(e) == cudaSuccess);
        CHECK(cudaFree(device) == cudaSuccess);
        CHECK(cudaFreeHost(pinned) == cudaSuccess);
    }
    world(world const&) = delete;
    world& operator=(world const&) = delete;

    static constexpr std::size_t bytes = 1 << 16, of_each = 32;

    machine m;
    std::array<cudaStream_t, 4> streams{};
    std::array<cudaEvent_t, reference::events> events{};
    char *device = nullptr, *pinned = nullptr;
};

/// A random program, executed call by call on the simulator and on the reference.
class program {
public:
    program(world& w, std::uint64_t seed)
        : w_{w}, random_{seed}, base_{seed * world::of_each % world::bytes} {
        auto const used = draw(2, reference::streams);
        count_ = static_cast<int>(used);
        first_ = static_cast<int>(draw(0, reference::streams - used));
        for (int e = 0; e < reference::events; ++e) {
            good_ &= cudaEventRecord(event(e), w_.streams[3]) == cudaSuccess;  // replaces an older record
            known_.record(e, 3);
        }
    }

    /// Returns false if the two disagree about a step; `story` ends with that step.
    bool run(std::size_t steps) {
        for (std::size_t i = 0; i < steps && good_; ++i) step();
        for (auto& p : pooled_)
            if (p && good_) free_pooled(p, any_stream());
        return good_;
    }

    [[nodiscard]] std::string const& story() const { return story_; }
    [[nodiscard]] bool raced() const { return raced_; }

private:
    std::size_t draw(std::size_t from, std::size_t to) { return from + random_() % (to - from + 1); }
    int any_stream() { return first_ + static_cast<int>(draw(0, static_cast<std::size_t>(count_ - 1))); }
    int any_event() { return static_cast<int>(draw(0, reference::events - 1)); }
    cudaStream_t stream(int s) const { return w_.streams[static_cast<std::size_t>(s)]; }
    cudaEvent_t event(int e) const { return w_.events[static_cast<std::size_t>(e)]; }

    void step() {
        auto const s = any_stream();
        switch (draw(0, 15)) {
            case 0:
            case 1:
            case 2: return set(s);
            case 3:
            case 4: return copy(s);
            case 5:
            case 6: return use_kernel(s);
            case 7:
            case 8: return record(s);
            case 9:
            case 10:
            case 11: return wait(s);
            case 12: return allocate(s);
            case 13: return use_pooled(s);
            case 14: return synchronise(s);
            default: return give_back(s);
        }
    }

    void say(char const* what, int s, std::size_t x = 0, std::size_t y = 0) {
        story_ += std::string{what} + " stream " + std::to_string(s) + " [" + std::to_string(x) + ", " +
                  std::to_string(y) + ")\n";
    }

    /// Compares the checker's result for the latest call with the reference's.
    void compare(cudaError_t result, bool expected) {
        auto const conflicts = sim::current_race_check_counts().conflicts;
        bool const found = conflicts != conflicts_;
        if (found != expected)
            story_ += expected ? "  a race that was not found\n" : "  found, but no race\n";
        good_ &= result == cudaSuccess && found == expected;
        raced_ |= found;
        conflicts_ = conflicts;
    }

    std::pair<std::size_t, std::size_t> any_range() {
        auto const begin = draw(0, world::of_each - 1);
        return {begin, draw(begin + 1, world::of_each)};
    }

    /// Only under ThreadSanitizer, which would see the races, declared kernels replace memsets and copies.
    void set(int s) {
        if (under_thread_sanitizer) return use_kernel(s);
        auto const [begin, end] = any_range();
        say("set", s, begin, end);
        auto const result = cudaMemsetAsync(w_.device + base_ + begin, 1, end - begin, stream(s));
        compare(result, known_.races(known_.add(s), 0, begin, end, true));
    }

    void copy(int s) {
        if (under_thread_sanitizer) return use_kernel(s);
        auto const [begin, end] = any_range();
        auto const bytes = std::min(end - begin, world::of_each / 2), to = draw(0, world::of_each - bytes);
        auto const way = draw(0, 2);  // to the device, to the host, on the device
        say(way == 0 ? "up" : way == 1 ? "down" : "copy", s, begin, begin + bytes);
        auto* const target = (way == 1 ? w_.pinned : w_.device) + base_ + to;
        auto const* const source = (way == 0 ? w_.pinned : w_.device) + base_ + begin;
        auto const result = cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream(s));
        auto const operation = known_.add(s);
        bool const reading = known_.races(operation, way == 0 ? 1 : 0, begin, begin + bytes, false);
        bool const writing = known_.races(operation, way == 1 ? 1 : 0, to, to + bytes, true);
        compare(result, reading || writing);
    }

    void use_kernel(int s) {
        auto const [begin, end] = any_range();
        bool const writes = draw(0, 1) == 0;
        say(writes ? "kernel writes" : "kernel reads", s, begin, end);
        cuota_simulator_declare(stream(s), w_.device + base_ + begin, end - begin, writes);
        compare(empty_kernel(s), known_.races(known_.add(s), 0, begin, end, writes));
    }

    cudaError_t empty_kernel(int s) {
        return cuota_simulator_launch(
            stream(s), "k", [](void*) {}, nullptr, nullptr);
    }

    void record(int s) {
        auto const e = any_event();
        say("record", s, static_cast<std::size_t>(e));
        auto const result = cudaEventRecord(event(e), stream(s));
        known_.record(e, s);
        compare(result, false);
    }

    void wait(int s) {
        auto const e = any_event();
        say("wait", s, static_cast<std::size_t>(e));
        auto const result = cudaStreamWaitEvent(stream(s), event(e), 0);
        known_.wait(s, e);
        compare(result, false);
    }

    void synchronise(int s) {
        auto const how = draw(0, 5);
        auto const e = any_event();
        say(how == 0  ? "device sync"
            : how < 3 ? "event sync"
                      : "stream sync",
            s, static_cast<std::size_t>(e));
        if (how == 0) {
            auto const result = cudaDeviceSynchronize();
            known_.synchronise_all();
            compare(result, false);
        } else if (how < 3) {
            auto const result = cudaEventSynchronize(event(e));
            known_.synchronise_event(e);
            compare(result, false);
        } else {
            auto const result = cudaStreamSynchronize(stream(s));
            known_.synchronise(s);
            compare(result, false);
        }
    }

    void allocate(int s) {
        auto const i = draw(0, pooled_.size() - 1);
        if (pooled_[i]) return;
        say("malloc", s, i);
        auto const result = cudaMallocAsync(&pooled_[i], world::of_each, stream(s));
        blocks_[i] = ++last_block_;
        born_[i] = known_.add(s);
        compare(result, known_.races(born_[i], blocks_[i], 0, world::of_each, true));
    }

    void use_pooled(int s) {
        auto const i = draw(0, pooled_.size() - 1);
        if (!pooled_[i]) return;
        auto const [begin, end] = any_range();
        bool const writes = draw(0, 1) == 0;
        say(writes ? "kernel writes pooled" : "kernel reads pooled", s, begin, end);
        cuota_simulator_declare(stream(s), static_cast<char*>(pooled_[i]) + begin, end - begin, writes);
        compare(empty_kernel(s), known_.races(known_.add(s), blocks_[i], begin, end, writes));
    }

    void give_back(int s) {
        auto& p = pooled_[draw(0, pooled_.size() - 1)];
        if (p) free_pooled(p, s);
    }

    /// A free that may run before its allocation would fail the device, so the host frees in that case.
    void free_pooled(void*& p, int s) {
        auto const i = static_cast<std::size_t>(&p - pooled_.data());
        bool const by_host = draw(0, 3) == 0 || !known_.follows(s, born_[i]);
        if (by_host) {
            say("free by the host", s, i);
            auto const result = cudaFree(p);
            known_.synchronise_all();
            compare(result, false);
        } else {
            say("free", s, i);
            auto const result = cudaFreeAsync(p, stream(s));
            compare(result, known_.races(known_.add(s), blocks_[i], 0, world::of_each, true));
        }
        p = nullptr;
    }

    world& w_;
    std::mt19937_64 random_;
    std::size_t base_;
    int first_ = 0, count_ = 2;
    reference known_;
    std::array<void*, 2> pooled_{};
    std::array<int, 2> blocks_{}, born_{};
    int last_block_ = 1;
    std::uint64_t conflicts_ = sim::current_race_check_counts().conflicts;
    std::string story_;
    bool good_ = true, raced_ = false;
};

}  // namespace

TEST_CASE("the race check agrees with a reference on random programs", "[simulator][races]") {
    constexpr std::uint64_t programs = under_thread_sanitizer    ? 5'000
                                       : under_address_sanitizer ? 20'000
                                                                 : 40'000;
    world w;
    std::uint64_t raced = 0;
    for (std::uint64_t seed = 0; seed < programs; ++seed) {
        if (seed * world::of_each % world::bytes == 0)  // bytes are reused from here on
            REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
        program p{w, seed};
        if (!p.run(6 + seed % 12)) {
            INFO("seed " << seed << '\n' << p.story());
            FAIL("the two disagree about the last step");
        }
        raced += p.raced();
    }
    INFO(raced << " of " << programs << " programs had a race");
    CHECK(raced > programs / 10);
    CHECK(raced < programs / 10 * 9);
}
