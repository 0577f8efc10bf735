// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Test suite for every class that models resource. It does not need the simulator and runs on a GPU too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/kernels.hpp"
#include "support/rounds.hpp"
#include "support/thrown.hpp"

namespace support {

namespace detail {

struct block {
    void* at = nullptr;
    std::size_t bytes = 0;
    unsigned salt = 0;
};

inline void write(block const& b, cuota::stream_ref s) {
    cuota::for_each_index(s, (b.bytes + 7) / 8,
                          write_pattern_words{static_cast<unsigned char*>(b.at), b.bytes, b.salt});
}

/// Returns true if the bytes are those that `write` left. Waits for s.
inline bool reads_back(block const& b, cuota::memory_kind kind, cuota::stream_ref s) {
    if (kind == cuota::memory_kind::pinned) {
        s.synchronize();
        return has_pattern(b.at, b.bytes, b.salt);
    }
    std::vector<unsigned char> host(b.bytes);
    cuota::rt::copy_to_host(host.data(), b.at, b.bytes, s);
    s.synchronize();
    return has_pattern(host.data(), b.bytes, b.salt);
}

inline bool is_aligned(void const* p, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

inline bool are_distinct(std::vector<block> blocks) {
    std::ranges::sort(blocks, std::less<>{}, [](block const& b) { return static_cast<char*>(b.at); });
    for (std::size_t i = 1; i < blocks.size(); ++i)
        if (static_cast<char*>(blocks[i - 1].at) + blocks[i - 1].bytes > blocks[i].at) return false;
    return true;
}

/// A resource of any class behind pointers to functions, so that the suite is compiled once and not for every class.
class resource_under_test {
public:
    template <cuota::resource R>
    explicit resource_under_test(R& memory)
        : memory_{&memory},
          kind_{[](void const* m) { return static_cast<R const*>(m)->kind(); }},
          granularity_{[](void const* m) { return static_cast<R const*>(m)->granularity(); }},
          allocate_{[](void* m, cuota::stream_ref s, std::size_t bytes, std::size_t alignment) {
              return static_cast<R*>(m)->allocate(s, bytes, alignment);
          }},
          deallocate_{[](void* m, cuota::stream_ref s, void* p, std::size_t bytes, std::size_t alignment) {
              static_cast<R*>(m)->deallocate(s, p, bytes, alignment);
          }},
          allocate_sync_{[](void* m, std::size_t bytes, std::size_t alignment) {
              return static_cast<R*>(m)->allocate_sync(bytes, alignment);
          }},
          deallocate_sync_{[](void* m, void* p, std::size_t bytes, std::size_t alignment) {
              static_cast<R*>(m)->deallocate_sync(p, bytes, alignment);
          }} {
        if constexpr (cuota::labeled_resource<R>) {
            allocate_labeled_ = [](void* m, cuota::stream_ref s, std::size_t bytes, cuota::label const& who) {
                return static_cast<R*>(m)->allocate(s, bytes, cuota::default_alignment, who);
            };
            allocate_sync_labeled_ = [](void* m, std::size_t bytes, cuota::label const& who) {
                return static_cast<R*>(m)->allocate_sync(bytes, cuota::default_alignment, who);
            };
        }
    }

    [[nodiscard]] cuota::memory_kind kind() const { return kind_(memory_); }
    [[nodiscard]] std::size_t granularity() const { return granularity_(memory_); }
    void* allocate(cuota::stream_ref s, std::size_t bytes, std::size_t alignment = cuota::default_alignment) {
        return allocate_(memory_, s, bytes, alignment);
    }
    void deallocate(cuota::stream_ref s, void* p, std::size_t bytes,
                    std::size_t alignment = cuota::default_alignment) {
        deallocate_(memory_, s, p, bytes, alignment);
    }
    void* allocate_sync(std::size_t bytes, std::size_t alignment = cuota::default_alignment) {
        return allocate_sync_(memory_, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = cuota::default_alignment) {
        deallocate_sync_(memory_, p, bytes, alignment);
    }

    [[nodiscard]] bool takes_labels() const { return allocate_labeled_ != nullptr; }
    void* allocate(cuota::stream_ref s, std::size_t bytes, cuota::label const& who) {
        return allocate_labeled_(memory_, s, bytes, who);
    }
    void* allocate_sync(std::size_t bytes, cuota::label const& who) {
        return allocate_sync_labeled_(memory_, bytes, who);
    }

private:
    void* memory_;
    cuota::memory_kind (*kind_)(void const*);
    std::size_t (*granularity_)(void const*);
    void* (*allocate_)(void*, cuota::stream_ref, std::size_t, std::size_t);
    void (*deallocate_)(void*, cuota::stream_ref, void*, std::size_t, std::size_t);
    void* (*allocate_sync_)(void*, std::size_t, std::size_t);
    void (*deallocate_sync_)(void*, void*, std::size_t, std::size_t);
    void* (*allocate_labeled_)(void*, cuota::stream_ref, std::size_t, cuota::label const&) = nullptr;
    void* (*allocate_sync_labeled_)(void*, std::size_t, cuota::label const&) = nullptr;
};

/// The two ways to allocate and deallocate: in stream order, and at once.
struct way {
    resource_under_test memory;
    cuota::stream_ref s;
    bool is_at_once;

    void* take(std::size_t bytes, std::size_t alignment = cuota::default_alignment) {
        return is_at_once ? memory.allocate_sync(bytes, alignment) : memory.allocate(s, bytes, alignment);
    }
    void give(void* p, std::size_t bytes, std::size_t alignment = cuota::default_alignment) {
        if (!is_at_once) return memory.deallocate(s, p, bytes, alignment);
        s.synchronize();
        memory.deallocate_sync(p, bytes, alignment);
    }
};

/// Where tests take fewer rounds, the two largest blocks are smaller.
inline void serves_every_size(way way) {
    cuota::memory_kind const kind = way.memory.kind();
    std::vector<block> blocks;
    for (std::size_t const bytes :
         {std::size_t{1}, std::size_t{2}, std::size_t{255}, std::size_t{256}, std::size_t{257},
          std::size_t{511}, std::size_t{512}, std::size_t{513}, std::size_t{4096}, std::size_t{65'537},
          rounds(std::size_t{1} << 20), rounds(std::size_t{3} << 20) + 1}) {
        void* const p = way.take(bytes);
        REQUIRE(p != nullptr);
        REQUIRE(is_aligned(p, cuota::default_alignment));
        blocks.push_back({p, bytes, static_cast<unsigned>(blocks.size())});
    }
    REQUIRE(are_distinct(blocks));

    for (block const& b : blocks) write(b, way.s);
    for (block const& b : blocks) {
        INFO("of " << b.bytes << " bytes");
        REQUIRE(reads_back(b, kind, way.s));
    }
    if (kind != cuota::memory_kind::device) {
        for (block const& b : blocks)
            std::fill_n(static_cast<unsigned char*>(b.at), b.bytes, static_cast<unsigned char>(7));
        for (block const& b : blocks) REQUIRE(static_cast<unsigned char*>(b.at)[b.bytes - 1] == 7);
    }
    // The order is neither that of allocation nor its reverse.
    for (std::size_t i = 0; i < blocks.size(); i += 2) way.give(blocks[i].at, blocks[i].bytes);
    for (std::size_t i = 1; i < blocks.size(); i += 2) way.give(blocks[i].at, blocks[i].bytes);
}

inline void honours_or_refuses_alignments(way way) {
    auto const is_refused = [&](std::size_t alignment) {
        INFO("alignment " << alignment);
        void* first = nullptr;
        try {
            first = way.take(3, alignment);  // an odd size, so that the next block is not aligned by chance
        } catch (cuota::usage_error const&) { return true; }
        void* const p = way.take(24, alignment);
        REQUIRE(p != nullptr);
        REQUIRE(is_aligned(first, alignment));
        REQUIRE(is_aligned(p, alignment));
        way.give(p, 24, alignment);
        way.give(first, 3, alignment);
        return false;
    };
    std::size_t honoured = 1;
    while (!is_refused(honoured)) honoured *= 2;
    REQUIRE(honoured > cuota::default_alignment);
    for (std::size_t larger = honoured; larger != 0; larger *= 2) REQUIRE(is_refused(larger));
    for (std::size_t const none : {std::size_t{0}, std::size_t{3}, std::size_t{24}, std::size_t{257},
                                   std::numeric_limits<std::size_t>::max()})
        REQUIRE(is_refused(none));
}

inline void refuses_the_impossible(way way) {
    for (std::size_t const bytes :
         {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() - 255,
          std::numeric_limits<std::size_t>::max() / 2}) {
        auto const refused = thrown<cuota::out_of_memory>([&] { (void)way.take(bytes); });
        REQUIRE(refused.info().requested == bytes);
        REQUIRE(refused.info().charged >= bytes);
    }
    void* const p = way.take(1000);  // the resource is still usable
    REQUIRE(p != nullptr);
    way.give(p, 1000);
}

/// The sections of behaves_as_a_resource, for a resource and a copy of it.
inline void behaves_as_a_resource(resource_under_test memory, resource_under_test copy, bool are_equal) {
    cuota::stream stream;
    way ordered{memory, stream, false};
    way synced{memory, stream, true};

    SECTION("its granularity is a power of two") { REQUIRE(cuota::is_power_of_two(memory.granularity())); }

    SECTION("zero bytes are null, and can be given back") {
        REQUIRE(ordered.take(0) == nullptr);
        REQUIRE(synced.take(0) == nullptr);
        ordered.give(nullptr, 0);
        synced.give(nullptr, 0);
    }
    SECTION("it serves every size with memory that works, in stream order") { serves_every_size(ordered); }
    SECTION("it serves every size with memory that works, at once") { serves_every_size(synced); }
    SECTION("alignments up to 256, and perhaps larger ones, are honoured, others refused") {
        honours_or_refuses_alignments(ordered);
        honours_or_refuses_alignments(synced);
    }
    SECTION("more than any machine has is refused, and changes nothing") {
        refuses_the_impossible(ordered);
        refuses_the_impossible(synced);
    }
    SECTION("a copy is equal, and gives back what the original took") {
        REQUIRE(are_equal);
        void* const p = memory.allocate(stream, 5000, 256);
        void* const q = copy.allocate_sync(5000, 256);
        copy.deallocate(stream, p, 5000, 256);
        memory.deallocate_sync(q, 5000, 256);
    }
    SECTION("memory can be given back on another thread") {
        void* const p = memory.allocate(stream, 5000, 256);
        void* const q = memory.allocate_sync(5000, 256);
        std::thread{[&] {
            memory.deallocate(stream, p, 5000, 256);
            memory.deallocate_sync(q, 5000, 256);
        }}.join();
    }
    SECTION("work enqueued before a release still has its memory") {
        auto const kind = memory.kind();
        constexpr std::size_t bytes = 40'000;
        for (unsigned round = 0; round != 8; ++round) {
            void* const to = kind == cuota::memory_kind::pinned ? nullptr : cuota::rt::pinned_allocate(bytes);
            block const b{memory.allocate(stream, bytes, 256), bytes, round};
            write(b, stream);
            if (to) cuota::rt::copy_to_host(to, b.at, bytes, stream);
            memory.deallocate(stream, b.at, bytes, 256);
            block const next{memory.allocate(stream, bytes, 256), bytes, round + 100};
            write(next, stream);
            REQUIRE(reads_back(next, kind, stream));
            memory.deallocate(stream, next.at, bytes, 256);
            REQUIRE((!to || has_pattern(to, bytes, round)));
            if (to) cuota::rt::pinned_free(to);
        }
    }
    SECTION("the label of a request is in its refusal") {
        if (memory.takes_labels()) {
            cuota::label const who{"weights", {"train.cpp", 17}, "floats", 4};
            auto const refused =
                thrown<cuota::out_of_memory>([&] { (void)memory.allocate(stream, cuota::unlimited, who); });
            REQUIRE(refused.info().request.name == cuota::tag{"weights"});
            REQUIRE(refused.info().request.where.line == 17);
            REQUIRE(std::string{refused.info().request.unit} == "floats");
            void* const p = memory.allocate_sync(4, who);
            memory.deallocate_sync(p, 4, 256);
        }
    }
    SECTION("threads may use it at once") {
        auto const work = [&](unsigned salt) {
            cuota::stream own;
            bool is_right = true;
            for (unsigned round = 0; round != 20; ++round) {
                block const b{memory.allocate(own, 1000 + salt, 256), 1000 + salt, salt + round};
                write(b, own);
                is_right = is_right && reads_back(b, memory.kind(), own);
                memory.deallocate(own, b.at, b.bytes, 256);
            }
            return is_right;
        };
        std::vector<std::thread> threads;
        std::vector<char> right(4, 0);
        for (unsigned i = 0; i != 4; ++i) threads.emplace_back([&, i] { right[i] = work(i * 10); });
        for (std::thread& t : threads) t.join();
        REQUIRE(right == std::vector<char>(4, 1));
    }
}

}  // namespace detail

/// Checks the contract of `resource`, section by section. The caller must check that the upstream has no leak afterwards.
template <cuota::resource R>
void behaves_as_a_resource(R memory) {
    static_assert(std::is_nothrow_move_constructible_v<R> && std::is_nothrow_destructible_v<R>);
    static_assert(std::is_nothrow_copy_constructible_v<R>, "a resource is a cheap handle");
    R copy{memory};
    detail::behaves_as_a_resource(detail::resource_under_test{memory}, detail::resource_under_test{copy},
                                  copy == memory);
}

}  // namespace support
