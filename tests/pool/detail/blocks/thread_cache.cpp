// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/thread_cache.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::detail::block;
using cuota::detail::block_metadata;
using cuota::detail::thread_cache;
using cuota::detail::thread_caches;
using cuota::detail::thread_slot;
using namespace cuota::literals;
using support::has;
using support::thrown;

namespace {

std::byte* address(std::size_t offset) {
    return reinterpret_cast<std::byte*>(std::uintptr_t{0x10'0000} + offset);
}

// Records of adjacent live blocks of 512 bytes, all of stream 7.
struct row {
    std::vector<block> blocks = std::vector<block>(64);
    std::vector<block_metadata> notes = std::vector<block_metadata>(64);
    row() {
        for (std::size_t i = 0; i != blocks.size(); ++i) {
            block& b = blocks[i];
            b.size = 512;
            b.requested = 500;
            b.note = &notes[i];
            b.note->stream = 7;
            b.stand_at(address(i * 512), block::state::live);
        }
    }
    block& operator[](std::size_t i) { return blocks[i]; }
};

// Requests 500 bytes, which is the requested size of those blocks.
template <class Write>
block* take(thread_cache& from, thread_slot& me, std::uint64_t stream, std::size_t size, Write write) {
    return from.try_take(me, stream, 500, size, write);
}
block* take(thread_cache& from, thread_slot& me, std::uint64_t stream, std::size_t size) {
    return take(from, me, stream, size, [](block& b) { b.requested = 500; });
}

struct gathered {
    std::vector<block*> blocks;
    void operator()(block& b) { blocks.push_back(&b); }
};

// Upstream that returns addresses without memory; they are never accessed.
class addresses {
public:
    void* allocate(cuota::stream_ref, std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t) noexcept {}
    void* allocate_sync(std::size_t bytes, std::size_t) { return take(bytes); }
    void deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    static constexpr std::size_t granularity() noexcept { return 256; }
    static constexpr cuota::memory_kind kind() noexcept { return cuota::memory_kind::device; }
    friend bool operator==(addresses, addresses) noexcept { return true; }

    static constexpr std::uintptr_t first = std::uintptr_t{1} << 40;

private:
    static void* take(std::size_t bytes) {
        static std::atomic<std::uintptr_t> next = first;
        return reinterpret_cast<void*>(next.fetch_add(bytes));
    }
};

}  // namespace

TEST_CASE("a thread_cache returns to its owner the block that was cached last", "[pool][thread_cache]") {
    row r;
    thread_slot me;
    thread_slot other;
    auto const f = std::make_unique<thread_cache>();
    REQUIRE(!f->try_put(me, r[0].at(), 7, 500, cuota::round_up(500, 256)));  // not open
    f->open(me);
    f->remember(r[0]);
    f->remember(r[1]);

    CHECK(!f->try_put(other, r[0].at(), 7, 500, cuota::round_up(500, 256)));
    REQUIRE(f->try_put(me, r[0].at(), 7, 500, cuota::round_up(500, 256)));
    REQUIRE(f->try_put(me, r[1].at(), 7, 500, cuota::round_up(500, 256)));
    CHECK(r[1].has_state(block::state::in_transition));
    CHECK(!take(*f, other, 7, 512));
    CHECK(!take(*f, me, 8, 512));
    CHECK(!take(*f, me, 7, 768));
    CHECK(take(*f, me, 7, 512) == &r[1]);
    bool is_in_section = false;  // a revoking thread waits for the section to end
    CHECK(take(*f, me, 7, 512, [&](block&) { is_in_section = me.sections % 2 == 1; }) == &r[0]);
    CHECK(is_in_section);
    CHECK(!take(*f, me, 7, 512));
    CHECK(me.sections % 2 == 0);
}

TEST_CASE("a thread_cache accepts only blocks that it can verify", "[pool][thread_cache]") {
    row r;
    thread_slot me;
    auto const f = std::make_unique<thread_cache>();
    f->open(me);
    f->remember(r[0]);

    SECTION("no block of another stream") {
        CHECK(!f->try_put(me, r[0].at(), 8, 500, cuota::round_up(500, 256)));
    }
    SECTION("no block with a wrong size") {
        CHECK(!f->try_put(me, r[0].at(), 7, 501, cuota::round_up(501, 256)));
    }
    SECTION("no block with a wrong size of another bin") {
        CHECK(!f->try_put(me, r[0].at(), 7, 5000, cuota::round_up(5000, 256)));
    }
    SECTION("no pointer into the middle") {
        CHECK(!f->try_put(me, r[0].at() + 256, 7, 500, cuota::round_up(500, 256)));
    }
    SECTION("no pointer one byte off") {
        CHECK(!f->try_put(me, r[0].at() + 1, 7, 500, cuota::round_up(500, 256)));
    }
    SECTION("no block that it has never served") {
        CHECK(!f->try_put(me, r[40].at(), 7, 500, cuota::round_up(500, 256)));
    }
    SECTION("no block whose record has been reused") {
        std::byte* const before = r[0].at();
        r[0].stand_at(address(1 << 20), block::state::live);
        CHECK(!f->try_put(me, before, 7, 500, cuota::round_up(500, 256)));
    }
    CHECK(r[0].has_state(block::state::live));

    SECTION("no block twice") {
        REQUIRE(f->try_put(me, r[0].at(), 7, 500, cuota::round_up(500, 256)));
        CHECK(!f->try_put(me, r[0].at(), 7, 500, cuota::round_up(500, 256)));
        CHECK(take(*f, me, 7, 512) == &r[0]);
        CHECK(!take(*f, me, 7, 512));
    }
}

TEST_CASE("a thread_cache keeps a limited number of blocks of a kind, and evicts them for another kind",
          "[pool][thread_cache]") {
    row r;
    thread_slot me;
    auto const f = std::make_unique<thread_cache>();
    f->open(me);
    gathered away;
    std::size_t kept = 0;
    while (kept != r.blocks.size()) {
        REQUIRE(r[kept].claim(r[kept].at()));
        if (!f->put(r[kept], std::ref(away))) break;
        ++kept;
    }
    REQUIRE((kept > 1 && kept < r.blocks.size()));
    CHECK(away.blocks.empty());

    // Eventually a block of another stream maps to the same bin.
    block& other = r[kept];
    std::uint64_t& stream = other.note->stream;
    for (stream = 8; away.blocks.empty() && stream != 1000; ++stream) {
        gathered own;
        if (f->put(other, std::ref(own))) REQUIRE(take(*f, me, stream, 512) == &other);
        away.blocks.insert(away.blocks.end(), own.blocks.begin(), own.blocks.end());
    }
    CHECK(away.blocks.size() == kept);
    f->clear(std::ref(away));
    CHECK(away.blocks.size() == kept);
}

TEST_CASE("a thread_cache serves no more bytes than its credit", "[pool][thread_cache]") {
    row r;
    thread_slot me;
    auto const f = std::make_unique<thread_cache>();
    f->open(me);
    f->remember(r[0]);
    auto const take_for = [&](std::size_t bytes) {
        return f->try_take(me, 7, bytes, 512, [&](block& b) {
            b.requested = bytes;
            b.become(block::state::live);
        });
    };
    REQUIRE(f->try_put(me, r[0].at(), 7, 500, 512));
    CHECK(f->credit() == 500);
    CHECK(!take_for(501));
    REQUIRE(take_for(300) == &r[0]);
    CHECK(f->credit() == 200);

    REQUIRE(f->try_put(me, r[0].at(), 7, 300, 512));
    f->lend(12);
    REQUIRE(take_for(512) == &r[0]);
    CHECK(f->credit() == 0);

    REQUIRE(r[1].claim(r[1].at()));
    gathered away;
    REQUIRE(f->put(r[1], std::ref(away)));  // with its 500 requested bytes
    thread_cache::account const left = f->clear(std::ref(away));
    CHECK(away.blocks == std::vector<block*>{&r[1]});
    CHECK(r[1].requested == 0);  // they are part of the front's credit
    CHECK(left.credit == 500);
    CHECK(left.taken == 2);
    CHECK(f->credit() == 0);
}

TEST_CASE("collect empties all thread_caches", "[pool][thread_cache]") {
    row r;
    auto const all = std::make_unique<thread_caches>();
    thread_slot& me = *cuota::detail::this_thread();
    thread_cache* const mine = all->open_for(me);
    REQUIRE(mine);
    mine->remember(r[0]);
    REQUIRE(mine->try_put(me, r[0].at(), 7, 500, cuota::round_up(500, 256)));

    gathered away;
    CHECK(all->collect(std::ref(away)) == 500);
    CHECK(away.blocks == std::vector<block*>{&r[0]});
    CHECK(!take(*mine, me, 7, 512));
    CHECK(all->open_for(me) == mine);  // the owner itself has revoked it
    CHECK(all->collect(std::ref(away)) == 0);
    all->end();
    CHECK(!all->open_for(me));
}

TEST_CASE("a thread reuses the block that it freed, and statistics stay exact",
          "[pool][thread_cache][scoped_pool]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.initial_size = 4_MiB}};
    void* const warm = pool.allocate(stream, 1000);
    pool.deallocate(stream, warm, 1000);
    for (std::size_t i = 0; i != 100; ++i) {
        void* const p =
            pool.allocate(stream, 1000 + i % 20, cuota::default_alignment, "step", {"step.cpp", 3});
        CHECK(p == warm);
        if (i % 7 == 0) {
            CHECK(pool.stats().requested == 1000 + i % 20);
            CHECK(pool.stats().allocated == 1024);
            CHECK(pool.stats().live_blocks == 1);
            CHECK(has(thrown<cuota::usage_error>([&] { pool.close(); }).what(), "step.cpp:3"));
        }
        pool.deallocate(stream, p, 1000 + i % 20);
        if (i % 5 == 0) CHECK(pool.largest_free() == 4_MiB);  // the query flushes the thread cache
    }
    CHECK(pool.stats().peak_allocated == 1024);
    CHECK(pool.stats().peak_requested == 1019);
    CHECK(errors.take().empty());
}

TEST_CASE("a warm allocation and free acquire no lock, up to a size limit that depends on the pool",
          "[pool][thread_cache][scoped_pool]") {
    cuota::budget budget{"trainer", 256_MiB};
    cuota::stream const stream;
    std::size_t const bytes = GENERATE(1u, 512u, 4096u, 65'536u, 65'537u);
    cuota::scoped_pool pool{budget, addresses{}, {.initial_size = 128_MiB}};
    for (int i = 0; i != 51; ++i) pool.deallocate(stream, pool.allocate(stream, bytes), bytes);
    CHECK(pool.stats().thread_cache_hits == (bytes <= 65'536 ? 50 : 0));
    for (int i = 0; i != 11; ++i)
        pool.deallocate(cudaStreamPerThread, pool.allocate(cudaStreamPerThread, bytes), bytes);
    CHECK(pool.stats().thread_cache_hits ==
          (bytes <= 65'536 ? 50 : 0));  // blocks of native streams are not cached
}

TEST_CASE("a cached block may serve more bytes than were freed with it, unless that would set a peak",
          "[pool][thread_cache][scoped_pool]") {
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, addresses{}, {.initial_size = 16_MiB}};
    pool.deallocate(stream, pool.allocate(stream, 1_MiB), 1_MiB);
    for (std::size_t i = 0; i != 100; ++i) {
        std::size_t const bytes = 400 + i;  // rounded to 512
        pool.deallocate(stream, pool.allocate(stream, bytes), bytes);
    }
    CHECK(pool.stats().thread_cache_hits >= 97);
    CHECK(pool.stats().requested == 0);
    CHECK(pool.stats().peak_requested == 1_MiB);

    void* const large = pool.allocate(stream, 1_MiB);
    for (std::size_t i = 1; i != 100; ++i) {  // each request sets a new peak
        pool.deallocate(stream, pool.allocate(stream, i), i);
        CHECK(pool.stats().peak_requested == 1_MiB + i);
    }
    pool.deallocate(stream, large, 1_MiB);
}

TEST_CASE("cached blocks of one thread are available to requests of another",
          "[pool][thread_cache][scoped_pool]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 16_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.initial_size = 16_MiB}};
    std::array<void*, 4> blocks{};
    for (int round = 0; round != 50; ++round) {
        for (void*& p : blocks) p = pool.allocate(stream, 4096);
        for (void* p : blocks) pool.deallocate(stream, p, 4096);
        std::thread{[&] {
            cuota::stream const own;
            void* const all = pool.allocate(own, 16_MiB);  // needs the bytes of cached blocks
            pool.deallocate(own, all, 16_MiB);
        }}.join();
    }
    CHECK(pool.trim() == 16_MiB);
    CHECK(budget.held() == 0);
    CHECK(errors.take().empty());
}

TEST_CASE("a block that is large relative to its pool is not cached", "[pool][thread_cache][scoped_pool]") {
    cuota::budget budget{"trainer", 128_KiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.initial_size = 128_KiB}};
    void* const a = pool.allocate(stream, 1024);
    void* const b = pool.allocate(stream, 32_KiB);
    pool.deallocate(stream, a, 1024);
    void* const c = pool.allocate(stream, 64_KiB);  // leaves room for 33 KiB only at a, if a is not cached
    pool.deallocate(stream, b, 32_KiB);
    void* const d = pool.allocate(stream, 33_KiB);

    CHECK(d == a);
    CHECK(pool.stats().thread_cache_hits == 0);
    pool.deallocate(stream, d, 33_KiB);
    pool.deallocate(stream, c, 64_KiB);
}

TEST_CASE("a double free of a cached block is reported", "[pool][thread_cache][scoped_pool]") {
    support::captured_errors errors;
    cuota::budget budget{"trainer", 64_MiB};
    cuota::stream const stream;
    cuota::scoped_pool pool{budget, {.initial_size = 4_MiB}};
    void* p = pool.allocate(stream, 512);
    for (int i = 0; i != 3; ++i) {
        pool.deallocate(stream, p, 512);
        p = pool.allocate(stream, 512);
    }
    pool.deallocate(stream, p, 512);

    pool.deallocate(stream, p, 512);
    CHECK(errors.take().size() == 1);
    std::thread{[&] { pool.deallocate(stream, p, 512); }}.join();
    CHECK(errors.take().size() == 1);
    CHECK(pool.stats().requested == 0);
    CHECK(pool.stats().live_blocks == 0);
}

TEST_CASE("threads that free one another's blocks never share a byte, and no block is lost",
          "[pool][thread_cache][scoped_pool][threads]") {
    constexpr std::size_t cap = 4_MiB;
    constexpr std::size_t granules = cap / 256;
    support::captured_errors errors;
    cuota::budget budget{"trainer", cap};
    cuota::scoped_pool pool{budget, addresses{}, {.initial_size = cap}};
    void* const base = pool.allocate(cuota::stream{}, cap);
    pool.deallocate(cuota::stream{}, base, cap);

    struct handed {
        void* at;
        std::size_t bytes;
    };
    std::array<std::atomic<int>, granules> owners{};
    std::array<std::atomic<handed*>, 8> mailbox{};
    std::atomic<int> overlaps = 0;
    auto const mark = [&](void* at, std::size_t bytes, int from, int to) {
        auto const begin =
            (reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(base)) / 256;
        for (std::size_t i = begin; i != begin + (bytes + 255) / 256; ++i)
            if (owners[i].exchange(to) != from) ++overlaps;
    };
    cuota::stream const shared_stream;
    auto const work = [&](int me) {
        cuota::stream const own;
        std::mt19937 random{static_cast<unsigned>(me)};
        std::vector<handed> mine;
        auto const give = [&](handed h) {
            mark(h.at, h.bytes, 1, 0);
            pool.deallocate(random() % 4 == 0 ? cuota::stream_ref{shared_stream} : cuota::stream_ref{own},
                            h.at, h.bytes);
        };
        for (int i = 0; i != 20'000; ++i) {
            if (random() % 2 == 0 && mine.size() < 16) {
                std::size_t const bytes =
                    random() % 8 == 0 ? 1 + random() % 300'000 : 200 * (1 + random() % 4);
                try {
                    void* const p = pool.allocate(
                        random() % 4 == 0 ? cuota::stream_ref{shared_stream} : cuota::stream_ref{own}, bytes);
                    mark(p, bytes, 0, 1);
                    mine.push_back({p, bytes});
                } catch (cuota::out_of_memory const&) {}
            } else if (!mine.empty()) {
                std::swap(mine[random() % mine.size()], mine.back());
                handed const last = mine.back();
                mine.pop_back();
                if (random() % 4 != 0) {
                    give(last);
                } else {  // another thread frees it
                    std::unique_ptr<handed> other{
                        mailbox[random() % mailbox.size()].exchange(new handed{last})};
                    if (other) give(*other);
                }
            }
            if (i % 4096 == 4095) pool.trim(cap);
            if (i % 1000 == 999) (void)pool.stats();
        }
        for (handed const& h : mine) give(h);
    };
    {
        std::vector<std::thread> threads;
        for (int t = 1; t != 4; ++t) threads.emplace_back(work, t);
        work(4);
        for (std::thread& t : threads) t.join();
    }
    for (auto& place : mailbox)
        if (std::unique_ptr<handed> const left{place.exchange(nullptr)}; left) {
            mark(left->at, left->bytes, 1, 0);
            pool.deallocate(shared_stream, left->at, left->bytes);
        }

    CHECK(overlaps == 0);
    CHECK(pool.stats().requested == 0);
    CHECK(pool.stats().allocated == 0);
    CHECK(pool.stats().free_blocks == 1);
    CHECK(pool.largest_free() == cap);
    CHECK(errors.take().empty());
}
