// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The part of gpu_truth about streams: memory is reused across eight streams without a host wait.
#include <algorithm>
#include <array>
#include <chrono>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>

#include "gpu/truth.hpp"

namespace truth {
namespace {

using namespace cuota::literals;
using words = cuota::device_buffer<std::uint32_t>;

constexpr std::size_t streams = 8;
constexpr std::size_t pieces = 32;  ///< blocks per kernel

/// A block as a kernel argument. Its lease is open while the kernel is enqueued.
struct piece {
    std::uint32_t* at;
    std::uint64_t seed;
    std::size_t words;
};
/// A list of blocks: index i of a kernel is word i % longest of block i / longest.
struct piece_list {
    piece of[pieces];
    std::size_t count, longest;
};

struct write_pieces {
    piece_list list;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        piece const p = list.of[i / list.longest];
        std::size_t const word = i % list.longest;
        if (word < p.words) p.at[word] = word_of(p.seed, word);
    }
};
struct verify_pieces {
    piece_list list;
    cuota::device_span<tally> in;
    CUOTA_KERNEL void operator()(std::size_t i) const {
        piece const p = list.of[i / list.longest];
        std::size_t const word = i % list.longest;
        if (word >= p.words) return;
        if (word == 0) add_to(in[0].checked, p.words);
        std::uint32_t const wanted = word_of(p.seed, word);
        if (p.at[word] != wanted) note_wrong(in[0], p.seed, word, p.at[word], wanted);
    }
};

/// A random program: groups of blocks are written on one stream, read and rewritten on others, and freed; the next group reuses their
/// memory on another stream. Every read verifies every word.
class lease_program {
public:
    lease_program(cuota::budget const& budget, std::uint64_t seed)
        : random_{seed},
          pool_{budget, {.name = "leases", .initial_size = budget.limit(), .max_size = budget.limit()}} {
        for (std::size_t i = 0; i != streams; ++i) founds_.emplace_back(streams_[i]);
    }

    void step() {
        make();
        std::size_t const uses = random_.below(3);
        for (std::size_t i = 0; i != uses; ++i) use(groups_[random_.below(groups_.size())]);
    }
    /// Verifies and frees the remaining groups, then checks the tallies of all streams.
    void finish() {
        while (!groups_.empty()) end_one();
        for (std::size_t i = 0; i != streams; ++i)
            founds_[i].expect_right(streams_[i], checked_[i], "stream " + std::to_string(i));
        waits = pool_.stats().stream_waits;
        pool_.close();
    }
    [[nodiscard]] std::uint64_t words_checked() const {
        std::uint64_t sum = 0;
        for (std::uint64_t const n : checked_) sum += n;
        return sum;
    }

    std::uint64_t blocks = 0;     ///< allocated
    std::uint64_t reuses = 0;     ///< allocations that reuse memory of another block
    std::uint64_t passed_on = 0;  ///< of these, reuses from another stream
    std::uint64_t delays = 0, refusals = 0;
    std::size_t waits = 0;

private:
    struct group {
        std::size_t home, bytes;
        std::vector<words> blocks{};
        std::vector<std::uint64_t> seeds{};
    };

    /// Allocates a group in the memory of freed ones, mostly of other streams.
    void make() {
        std::size_t const most = random_.below(16) == 0 ? 4096 : random_.below(4) == 0 ? 1024 : 256;
        std::array<std::size_t, pieces> counts;
        std::size_t bytes = 0;
        for (std::size_t& count : counts) {
            count = 16 + random_.below(most - 16);
            bytes += cuota::round_up(count * sizeof(std::uint32_t), cuota::pool_resource::granularity());
        }
        while (live_ + bytes > pool_.account().limit() / 8 * 7) end_one();
        for (;;) try {
                group made{random_.below(streams), bytes};
                for (std::size_t const count : counts)
                    made.blocks.push_back({count, streams_[made.home], pool_, cuota::no_init, "block"});
                made.seeds.resize(pieces);
                write(made, made.home, 0, pieces);
                groups_.push_back(std::move(made));
                live_ += bytes;
                return;
            } catch (cuota::out_of_memory const&) {  // because of fragmentation
                ++refusals;
                expect(!groups_.empty(), "an empty pool has no memory for one group of blocks");
                end_one();
            }
    }
    void note_owner(void const* at, std::size_t home) {
        auto const [found, is_new] = owners_.try_emplace(at, home);
        ++blocks;
        if (is_new) return;
        ++reuses;
        if (std::exchange(found->second, home) != home) ++passed_on;
    }

    /// Either reads some or all blocks on another stream, or writes new patterns.
    void use(group& g) {
        std::size_t const on = random_.below(streams);
        std::size_t const first = random_.below(pieces);
        std::size_t const count = 1 + random_.below(std::min<std::size_t>(pieces - first, 6));
        if (random_.below(4) == 0) write(g, on, first, count);
        else verify(g, on, first, count);
    }
    void write(group& g, std::size_t on, std::size_t first, std::size_t count) {
        cuota::stream const& s = streams_[on];
        delay_some(s);
        std::vector<cuota::lease<std::uint32_t>> leases;
        leases.reserve(count);
        piece_list list{};
        for (std::size_t i = first; i != first + count; ++i) {
            bool const is_new = g.seeds[i] == 0;
            g.seeds[i] = random_.next() | 1;
            leases.push_back(g.blocks[i].write(s));
            add(list, leases.back().span().data(), g.seeds[i], g.blocks[i].size());
            if (is_new) note_owner(leases.back().span().data(), on);
        }
        cuota::for_each_index(s, list.count * list.longest, write_pieces{list}, "write_pieces");
    }
    void verify(group const& g, std::size_t on, std::size_t first, std::size_t count) {
        cuota::stream const& s = streams_[on];
        delay_some(s);
        std::vector<cuota::lease<std::uint32_t const>> leases;
        leases.reserve(count);
        piece_list list{};
        for (std::size_t i = first; i != first + count; ++i) {
            leases.push_back(g.blocks[i].read(s));
            add(list, const_cast<std::uint32_t*>(leases.back().span().data()), g.seeds[i],
                g.blocks[i].size());
            checked_[on] += g.blocks[i].size();
        }
        cuota::for_each_index(s, list.count * list.longest, verify_pieces{list, founds_[on].write(s)},
                              "verify_pieces");
    }
    static void add(piece_list& to, std::uint32_t* at, std::uint64_t seed, std::size_t count) {
        to.of[to.count++] = {at, seed, count};
        to.longest = std::max(to.longest, count);
    }

    /// Frees a group in random order, in most cases after verifying it on the home stream.
    void end_one() {
        std::size_t const at = random_.below(groups_.size());
        std::swap(groups_[at], groups_.back());
        group& last = groups_.back();
        if (random_.below(8) != 0) verify(last, last.home, 0, pieces);
        while (!last.blocks.empty()) {
            std::swap(last.blocks[random_.below(last.blocks.size())], last.blocks.back());
            last.blocks.pop_back();
        }
        live_ -= last.bytes;
        groups_.pop_back();
    }

    void delay_some(cuota::stream_ref s) {
        if (random_.below(6) != 0) return;
        enqueue_delay(s, static_cast<std::uint32_t>(20 + random_.below(181)));
        ++delays;
    }

    random_numbers random_;
    std::array<cuota::stream, streams> streams_;
    std::vector<device_tally> founds_;
    std::array<std::uint64_t, streams> checked_{};
    cuota::scoped_pool pool_;
    std::vector<group> groups_;
    std::size_t live_ = 0;  // bytes of live blocks
    std::unordered_map<void const*, std::size_t> owners_;
};

/// Checks that the delay delays; otherwise the test would prove nothing.
void check_delays() {
    cuota::stream const s;
    enqueue_delay(s, 20);
    s.synchronize();  // loads the kernel
    auto const begun = std::chrono::steady_clock::now();
    for (int i = 0; i != 10; ++i) enqueue_delay(s, 200);
    s.synchronize();
    auto const took = std::chrono::steady_clock::now() - begun;
    expect(cuota::is_simulated() || took >= std::chrono::microseconds{1900},
           "ten delays of 200 us took less than that: the delay kernel does not delay");
}

}  // namespace

std::string leases_on_streams() {
    check_delays();
    std::uint64_t const wanted =
        wanted_reuses != 0 ? wanted_reuses : on_a_gpu<std::uint64_t>(1'000'000, 5000);
    cuota::budget const budget{"leases", 8_MiB};
    std::string facts;
    {
        lease_program program{budget, 8};
        auto const begun = std::chrono::steady_clock::now();
        while (program.passed_on < wanted) {
            program.step();
            expect(program.blocks < 4 * wanted + 10'000,
                   text("of %llu blocks only %llu were passed on",
                        static_cast<unsigned long long>(program.blocks),
                        static_cast<unsigned long long>(program.passed_on)));
        }
        program.finish();
        double const seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
        facts = text("%llu blocks were passed from stream to stream (%.0f a second), %llu reused in all; "
                     "%llu delays, %llu refusals, %zu waits of "
                     "the pool, %.0f M words checked",
                     static_cast<unsigned long long>(program.passed_on),
                     static_cast<double>(program.passed_on) / seconds,
                     static_cast<unsigned long long>(program.reuses),
                     static_cast<unsigned long long>(program.delays),
                     static_cast<unsigned long long>(program.refusals), program.waits,
                     1e-6 * static_cast<double>(program.words_checked()));
    }
    expect_equal("bytes held at the end", budget.held(), 0U);
    return facts;
}

}  // namespace truth
