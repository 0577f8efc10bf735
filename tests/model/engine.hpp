// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Declarations that the parts of the model share. search.cpp explains the algorithm.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <sys/mman.h>
#include <utility>

#include "model/interleavings.hpp"

namespace model::detail {

constexpr int most_threads = 4;
constexpr std::size_t heap_size = 1U << 18U, stack_size = 1U << 16U, buffer_size = 24;
constexpr std::size_t guard_size = 4096, cleared = 1024;
constexpr char const* too_long = "an execution is longer than options::longest";
constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();

struct entry {
    std::byte* at;
    std::size_t size;
    word value;
    std::size_t fenced;  // number of earlier stores that preceded an asymmetric_fence_light when it was made
    bool release;
};

struct hash {
    word a = 0x243f6a8885a308d3, b = 0x13198a2e03707344;
    friend bool operator==(hash const&, hash const&) = default;

    static word fold(word x, word y) {
        __extension__ using wide = unsigned __int128;
        auto const product = static_cast<wide>(x) * y;
        return static_cast<word>(product) ^ static_cast<word>(product >> 64U);
    }
    void mix(word x, word y) {
        a = fold(a ^ x ^ 0xa4093822299f31d0, y ^ 0x9e3779b97f4a7c15) + y;
        b = fold(b ^ y ^ 0x082efa98ec4e6c89, x ^ 0xd1b54a32d192ed03) + x;
    }
    // Hashing takes most of a search's time. Each half hashes every other 16 bytes; at the end both halves are mixed.
    void bytes(std::byte const* from, std::size_t size) {
        for (; size >= 32; from += 32, size -= 32) {
            std::array<word, 4> four;
            std::memcpy(four.data(), from, 32);
            a = fold(a ^ four[0] ^ 0xa4093822299f31d0, four[1] ^ 0x9e3779b97f4a7c15) + four[1];
            b = fold(b ^ four[2] ^ 0x082efa98ec4e6c89, four[3] ^ 0xd1b54a32d192ed03) + four[3];
        }
        mix(b, a);
        for (; size >= 16; from += 16, size -= 16) {
            std::array<word, 2> two;
            std::memcpy(two.data(), from, 16);
            mix(two[0], two[1]);
        }
        std::array<word, 2> rest{};
        std::memcpy(rest.data(), from, size);
        mix(rest[0], rest[1] + size);
    }
};

/// A thread of the scenario; part of the saved bytes.
struct fiber {
    std::byte* stack = nullptr;  // lower end of the part in use
    hash stack_hash{};
    bool done = false;
    operation next{};
    std::size_t stored = 0, fenced = 0,
                to_fence = 0;  // entries; those before an asymmetric_fence_light; those before a pending one
    std::size_t arrived = 0;   // number of its stores that have arrived
    std::array<entry, buffer_size> buffer{};
    cuota::detail::thread_slot* record = nullptr;
    void (*late)(void*) = nullptr;  // deferred action, see just_before_next()
    std::array<word, late_size / sizeof(word)> late_for{};
    std::size_t late_from = 0;          // first store after it
    std::array<void*, 2> exceptions{};  // the runtime's data of exceptions in flight
};

struct shared_state {
    std::array<std::size_t, most_threads + 1> allocated{};  // of each heap; the last: outside the threads
    std::array<std::size_t, most_threads + 1> latest{};     // its topmost block
    cuota::detail::thread_slot* outside_record = nullptr;
    int last = -1;  // latest thread; this and the number of preemptions count with options::preemptions only
    std::size_t preempted = 0;
    std::array<fiber, most_threads> fibers{};
};

/// Stores arrive, the oldest of each named buffer in turn, and then a thread does its step. Without reduction it is one step, or one
/// arrival (without a thread).
struct choice {
    int thread = -1;
    int entry = 0;  // index of the arriving store in the first named buffer, if it need not be the oldest
    bool preempts = false;
    std::uint8_t count = 0;
    std::array<std::int8_t, 32> arrivals{};

    static choice arrival(int of, std::size_t which) {
        choice c;
        c.entry = static_cast<int>(which);
        c.add(of);
        return c;
    }
    bool add(int of) {
        if (count == arrivals.size()) return false;
        arrivals[count++] = static_cast<std::int8_t>(of);
        return true;
    }
};

// Knowledge about a place: a bit for each thread that uses it, and these bits.
constexpr std::uint16_t by_always = 1U << 8U, is_written = 1U << 9U, is_tried = 1U << 10U;

struct memory {
    std::byte* heaps = static_cast<std::byte*>(map((most_threads + 1) * heap_size));
    std::byte* stacks = static_cast<std::byte*>(map(most_threads * stack_size));
    memory() {
        for (int t = 0; t < most_threads; ++t) mprotect(top(t) - stack_size, guard_size, PROT_NONE);
    }
    static void* map(std::size_t size) {
        void* const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) std::abort();
        return p;
    }
    [[nodiscard]] std::byte* heap(std::size_t number) const { return heaps + number * heap_size; }
    [[nodiscard]] std::byte* top(int thread) const {
        return stacks + (static_cast<std::size_t>(thread) + 1) * stack_size;
    }
    [[nodiscard]] bool has(void const* p) const {
        auto const* const at = static_cast<std::byte const*>(p);
        return at >= heaps && at < heaps + (most_threads + 1) * heap_size;
    }
};

inline shared_state state;
inline options const* how = nullptr;
inline scenario* explored = nullptr;
inline int threads = 0;
inline int running = -1;
inline std::size_t run_length = 0;  // steps done immediately since the last choice
inline bool asking = false;         // inside always()
inline bool forgiven = true;        // new knowledge needs no restart, because nothing has been omitted yet
inline bool mistaken = false;
inline bool reducing = false;
inline bool telling = false;
inline std::byte* search_stack = nullptr;
inline std::string failure, text;
inline std::set<std::uint64_t> outcomes;
inline std::array<std::uint16_t, (most_threads + 1) * heap_size> known;

inline thread_local bool inside = false;  // code of the scenario runs and allocates from the model's memory
struct [[nodiscard]] inside_is {
    bool before;
    explicit inside_is(bool now) : before{std::exchange(inside, now)} {}
    inside_is(inside_is const&) = delete;
    inside_is& operator=(inside_is const&) = delete;
    ~inside_is() { inside = before; }
};

inline memory const& world() {
    static memory const it;
    return it;
}

// steps.cpp
void fail(char const* what);  // does not return in a thread
void prepare(int thread);
void run(int thread);  // runs to its next choice
void arrive(int thread, std::size_t which);
void let_private_arrive(int thread);
[[nodiscard]] bool can(fiber const& f, operation const& op);  // if arrivals are separate choices

// choices.cpp
void list_choices(std::vector<choice>& into);
[[nodiscard]] bool all_done();

inline fiber& at(int thread) { return state.fibers[static_cast<std::size_t>(thread)]; }

inline word in_memory(std::byte const* at, std::size_t size) {
    word value = 0;
    std::memcpy(&value, at, size);
    return value;
}

inline bool overlap(entry const& e, std::byte const* at, std::size_t size) {
    return e.at < at + size && at < e.at + e.size;
}

inline word seen_by(fiber const& by, std::byte const* at, std::size_t size) {
    for (std::size_t i = by.stored; i-- > 0;)
        if (overlap(by.buffer[i], at, size)) return by.buffer[i].value;
    return in_memory(at, size);
}

inline std::uint16_t* known_of(std::byte const* place) {
    return world().has(place) ? &known[static_cast<std::size_t>(place - world().heaps)] : nullptr;
}

inline bool is_shared(std::uint16_t known_here) {
    return (known_here & is_written) != 0 && std::popcount(known_here & (is_written - 1U)) > 1;
}

inline bool is_shared(std::byte const* place) {
    auto const* const here = known_of(place);
    return !here || is_shared(*here);
}

}  // namespace model::detail
