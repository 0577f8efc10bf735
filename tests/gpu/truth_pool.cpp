// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Parts of gpu_truth about pools and budgets: a pool of several GiB that grows, trims and grows again, and four threads with memory of
// three kinds under one budget.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/rt/virtual_memory.hpp>

#include "gpu/truth.hpp"

namespace truth {
namespace {

using namespace cuota::literals;
using words = cuota::device_buffer<std::uint32_t>;

/// On a GPU the driver's free memory may decrease by this much: the driver keeps page tables and loads modules lazily. A pool that leaked
/// would keep more: this one allocates 8 GiB, or a quarter of the free memory.
constexpr std::size_t slack = 64_MiB;

/// Blocks with a pattern each, in a pool whose budget they fill.
class full_pool {
public:
    full_pool(cuota::budget budget, std::size_t page, std::uint64_t seed)
        : budget_{std::move(budget)}, page_{page}, random_{seed} {}

    /// Adds blocks of whole pages, with sizes by seed, until no more are certain to fit: to the byte, if each mapping is a page.
    void fill() {
        std::size_t const most = std::max(budget_.limit() / 6 / page_, std::size_t{1});
        try {
            while (std::size_t const room = room_for_a_block())
                add(std::min((1 + random_.below(most)) * page_, room));
        } catch (cuota::budget_exceeded const&) {
            if (by_pages_) throw;
        }
        check_accounts("full");
        if (by_pages_ && mapping_ == page_)
            expect_equal("bytes held when the pool is full", budget_.held(), budget_.limit());
    }
    /// Adds one block of the remaining bytes, on pages that are not adjacent. Segments cannot serve that.
    void add_the_rest() {
        if (by_pages_) add(room_for_a_block());
    }
    /// Frees every other block.
    void thin_out() {
        std::vector<block> left;
        for (std::size_t i = 0; i != blocks_.size(); ++i) {
            if (i % 2 == 0) live_ -= blocks_[i].memory.bytes();
            else left.push_back(std::move(blocks_[i]));
        }
        blocks_ = std::move(left);
    }
    void end_all() {
        blocks_.clear();
        live_ = 0;
    }
    /// Trims the pool, and checks that it keeps only mappings with a live block.
    void trim() {
        std::size_t const before = budget_.held();
        std::size_t const returned = pool_.trim();
        trimmed += returned;
        expect_equal("bytes returned by a trim", returned, before - budget_.held());
        if (by_pages_) {
            std::size_t const most = live_ + lost_by(blocks_.size());
            expect(budget_.held() >= live_ && budget_.held() <= most,
                   text("%zu bytes are held after a trim, expected %zu to %zu", budget_.held(), live_, most));
        }
        check_accounts("trimmed");
    }
    void verify(std::string const& when) {
        for (block const& b : blocks_) {
            verify_pattern(stream_, b.memory, b.seed, found_);
            checked_ += b.memory.size();
        }
        found_.expect_right(stream_, checked_, when);
    }
    void close() {
        end_all();
        pool_.close();
        expect_equal("bytes held after the pool", budget_.held(), 0U);
    }
    [[nodiscard]] std::uint64_t checked() const { return checked_; }
    [[nodiscard]] bool grows_by_pages() const { return by_pages_; }
    std::size_t trimmed = 0;

private:
    struct block {
        words memory;
        std::uint64_t seed;
    };
    /// Returns at most how many bytes no other block can have because they share a mapping with the first or last page of a block.
    [[nodiscard]] std::size_t lost_by(std::size_t blocks) const { return 2 * blocks * (mapping_ - page_); }
    /// Returns bytes that fit in any case, in one block of whole pages.
    [[nodiscard]] std::size_t room_for_a_block() const {
        std::size_t const taken = live_ + lost_by(blocks_.size() + 1);
        return taken < budget_.limit() ? (budget_.limit() - taken) / page_ * page_ : 0;
    }
    void add(std::size_t bytes) {
        std::uint64_t const seed = random_.next();
        blocks_.push_back({{bytes / sizeof(std::uint32_t), stream_, pool_, cuota::no_init, "block"}, seed});
        write_pattern(stream_, blocks_.back().memory, seed);
        live_ += bytes;
    }
    void check_accounts(std::string const& when) {
        cuota::pool_stats const now = pool_.stats();
        expect_equal("bytes that the pool has reserved, " + when, now.reserved, budget_.held());
        expect_equal("bytes that the pool has lent, " + when, now.requested, live_);
        expect_equal("blocks that the pool has lent, " + when, now.live_blocks, blocks_.size());
    }

    cuota::budget budget_;
    bool by_pages_ = cuota::rt::supports_virtual_memory(cuota::device::current());
    std::size_t page_;
    std::size_t mapping_ = std::max(budget_.limit() / 1024 / page_, std::size_t{1}) * page_;  // the largest
    random_numbers random_;
    cuota::stream stream_;
    cuota::scoped_pool pool_{budget_, {.name = "several GiB"}};
    device_tally found_{stream_};
    std::vector<block> blocks_;
    std::size_t live_ = 0;
    std::uint64_t checked_ = 0;
};

/// Fills a pool of `bytes` bytes, trims it and fills it again, several times.
[[nodiscard]] std::string grow_and_trim(std::size_t bytes, std::uint64_t seed) {
    int const rounds = on_a_gpu(3, 2);
    full_pool pool{cuota::budget{"growth", bytes}, 2_MiB, seed};
    for (int round = 0; round != rounds; ++round) {
        pool.fill();
        pool.verify("full");
        pool.thin_out();
        pool.trim();
        pool.verify("trimmed");
        pool.fill();
        pool.verify("full again");
        pool.thin_out();
        pool.add_the_rest();
        pool.verify("with one block in the place of many");
        pool.end_all();
        pool.trim();
    }
    pool.close();
    return text("%.0f MiB, %d times by %s; %.2f GB checked, %.2f GB trimmed",
                static_cast<double>(bytes) / static_cast<double>(1_MiB), rounds,
                pool.grows_by_pages() ? "pages" : "segments", 4e-9 * static_cast<double>(pool.checked()),
                1e-9 * static_cast<double>(pool.trimmed));
}

[[nodiscard]] std::size_t free_now() { return cuota::device::current().memory().free; }

}  // namespace

std::string pool_grows_and_trims() {
    (void)grow_and_trim(on_a_gpu(64_MiB, 8_MiB), 1);  // warm-up: loads modules and creates page tables
    std::size_t const before = free_now();
    std::size_t const most = std::min<std::size_t>(before / 4, 8_GiB);
    std::string const facts = grow_and_trim(on_a_gpu(most / 2_MiB * 2_MiB, std::size_t{24_MiB}), 2);
    std::size_t const after = free_now();
    std::size_t const missing = before > after ? before - after : 0;
    expect(missing <= (cuota::is_simulated() ? 0 : slack),
           "the driver has " + std::to_string(missing) + " bytes less free than before the pool");
    return facts + text("; %zu bytes less are free", missing);
}

// ---- Pages that are mapped elsewhere in place of growth, and mappings that are divided.

namespace {

struct phases {
    cuota::pool_options options;
    std::size_t limit;  ///< bytes
    std::size_t live;   ///< bytes of a phase's blocks
    std::size_t unit;   ///< bytes; a block has 1 to `units` of them
    std::size_t units;
    int count;
};
struct after_phases {
    cuota::pool_stats stats;
    std::string facts;
};

/// In each phase blocks have one size, so that free blocks of the phase before do not fit; all blocks are
/// verified, and about half of them freed.
after_phases run_phases(phases const& p) {
    struct block {
        words memory;
        std::uint64_t seed;
    };
    cuota::budget const budget{"phases", p.limit};
    random_numbers random{3};
    cuota::pool_stats stats;
    std::uint64_t checked = 0;
    std::chrono::steady_clock::duration allocating{};
    {
        cuota::stream const work, other;
        device_tally found{work};
        cuota::scoped_pool pool{budget, p.options};
        std::vector<block> blocks;
        std::size_t held = 0;
        for (int phase = 0; phase != p.count; ++phase) {
            std::size_t const bytes = (1 + random.below(p.units)) * p.unit;
            enqueue_delay(other, 2'000);  // the other stream is busy while pages are unmapped
            auto const begun = std::chrono::steady_clock::now();
            std::size_t const kept = blocks.size();
            for (; held + bytes <= p.live; held += bytes)
                blocks.push_back(
                    {{bytes / sizeof(std::uint32_t), work, pool, cuota::no_init, "block"}, random.next()});
            allocating += std::chrono::steady_clock::now() - begun;
            for (std::size_t i = kept; i != blocks.size(); ++i)
                write_pattern(work, blocks[i].memory, blocks[i].seed);
            for (block const& b : blocks) {
                verify_pattern(work, b.memory, b.seed, found);
                checked += b.memory.size();
            }
            for (std::size_t i = blocks.size(); i-- != 0;) {
                if (random.below(2) == 0) continue;
                held -= blocks[i].memory.bytes();
                std::swap(blocks[i], blocks.back());
                blocks.pop_back();
            }
            work.synchronize();  // else the pool grows, as it does not wait for work
        }
        stats = pool.stats();
        found.expect_right(work, checked, "blocks of all phases");
        other.synchronize();
    }
    expect(stats.mappings_removed != 0, "no page was mapped elsewhere");
    expect_equal("bytes held after the pool", budget.held(), 0U);
    return {stats,
            text("%d phases of up to %.0f MiB: %zu mappings, %zu of them removed; reserved %.3f times the "
                 "peak; %.1f ms to allocate; %.2f GB checked",
                 p.count, static_cast<double>(p.live) / static_cast<double>(1_MiB), stats.mappings_made,
                 stats.mappings_removed,
                 static_cast<double>(stats.peak_reserved) / static_cast<double>(stats.peak_allocated),
                 std::chrono::duration<double, std::milli>(allocating).count(),
                 4e-9 * static_cast<double>(checked))};
}

void expect_reserved_at_most(double times, cuota::pool_stats const& stats) {
    auto const most = static_cast<std::size_t>(times * static_cast<double>(stats.peak_allocated)) + 2_MiB;
    expect(stats.peak_reserved <= most,
           text("%zu bytes were reserved, expected at most %zu", stats.peak_reserved, most));
}

void need_virtual_memory() {
    if (!cuota::rt::supports_virtual_memory(cuota::device::current()))
        throw skipped{"the device has no virtual memory"};
}

}  // namespace

std::string pool_maps_elsewhere() {
    need_virtual_memory();
    std::size_t const live = on_a_gpu<std::size_t>(1_GiB, 48_MiB);
    auto const [stats, facts] = run_phases(
        {{.remap_above = 1.05, .largest_mapping = 2_MiB}, 2 * live, live, 2_MiB, 8, on_a_gpu(40, 12)});
    expect_reserved_at_most(1.05, stats);
    return facts;
}

/// With mappings of up to 64 MiB, random frees leave more than the bound; 1.10 times the peak on addresses without memory.
std::string pool_divides_mappings() {
    need_virtual_memory();
    auto const [stats, facts] = run_phases({{},
                                            cuota::unlimited,
                                            on_a_gpu<std::size_t>(2_GiB, 48_MiB),
                                            2_MiB,
                                            on_a_gpu<std::size_t>(100, 8),
                                            on_a_gpu(40, 12)});
    expect_reserved_at_most(1.15, stats);
    return facts;
}

// ---- Memory of three kinds, by four threads.

namespace {

/// The program of one thread: allocates, writes, verifies and frees blocks of all kinds until the time has passed.
class mixed_program {
public:
    mixed_program(cuota::budget const& budget, std::uint64_t seed)
        : random_{seed}, async_{budget}, device_{budget}, pinned_{budget, cuota::pinned_memory{}} {}

    void run_until(std::chrono::steady_clock::time_point end) {
        while (std::chrono::steady_clock::now() < end) {
            ++operations;
            if (live_.size() >= 12) drop();
            try {
                switch (random_.below(4)) {
                    case 0: take(async_); break;
                    case 1: take(device_); break;
                    case 2: through_the_host(); break;
                    default: drop();
                }
            } catch (cuota::budget_exceeded const&) {
                ++refusals;
                drop();
            }
        }
        while (!live_.empty()) drop();
        found_.expect_right(stream_, checked_, "blocks of a thread");
    }
    std::uint64_t operations = 0, refusals = 0;
    [[nodiscard]] std::uint64_t checked() const { return checked_; }

private:
    struct block {
        words memory;
        std::uint64_t seed;
    };
    [[nodiscard]] std::size_t some_words() {
        return 1 + random_.below(on_a_gpu<std::size_t>(1 << 20, 1 << 12));
    }

    void take(cuota::resource_ref const& memory) {
        block made{{some_words(), stream_, memory, cuota::no_init, "block"}, random_.next()};
        write_pattern(stream_, made.memory, made.seed);
        live_.push_back(std::move(made));
    }
    /// Writes a block on the host, verifies it on the device, and copies it back through the host.
    void through_the_host() {
        std::size_t const count = 1 + some_words() / 4;
        std::uint64_t const seed = random_.next();
        cuota::pinned_buffer<std::uint32_t> host{count, pinned_, "host"};
        std::span<std::uint32_t> const to = host.write();
        for (std::size_t i = 0; i != count; ++i) to[i] = word_of(seed, i);
        words there{count, stream_, async_, cuota::no_init, "there"};
        host.upload(there, stream_);
        verify_pattern(stream_, there, seed, found_);
        checked_ += count;
        write_pattern(stream_, there, seed + 1);
        host.download(there, stream_);
        std::span<std::uint32_t const> const back = host.read();
        for (std::size_t i = 0; i != count; ++i)
            if (back[i] != word_of(seed + 1, i)) throw failed{"a word that came back to the host is wrong"};
    }
    void drop() {
        if (live_.empty()) return;
        std::size_t const at = random_.below(live_.size());
        std::swap(live_[at], live_.back());
        verify_pattern(stream_, live_.back().memory, live_.back().seed, found_);
        checked_ += live_.back().memory.size();
        live_.pop_back();
    }

    random_numbers random_;
    cuota::stream stream_;
    device_tally found_{stream_};
    cuota::budgeted<cuota::async_memory> async_;
    cuota::budgeted<cuota::device_memory> device_;
    cuota::budgeted<cuota::pinned_memory> pinned_;
    std::vector<block> live_;
    std::uint64_t checked_ = 0;
};

}  // namespace

std::string mixed_memory() {
    constexpr std::size_t threads = 4;
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds{on_a_gpu(2000, 300)};
    // Less than the threads would hold together, so that some requests are refused.
    cuota::budget const budget{"mixed", on_a_gpu<std::size_t>(64_MiB, 256_KiB)};
    std::uint64_t operations = 0, refusals = 0, checked = 0;
    {
        std::vector<mixed_program> programs;
        programs.reserve(threads);
        for (std::size_t i = 0; i != threads; ++i) programs.emplace_back(budget, i);
        std::vector<std::exception_ptr> errors(threads);
        std::vector<std::thread> running;
        for (std::size_t i = 0; i != threads; ++i)
            running.emplace_back([&, i] {
                try {
                    programs[i].run_until(end);
                } catch (...) { errors[i] = std::current_exception(); }
            });
        for (std::thread& each : running) each.join();
        for (std::exception_ptr const& error : errors)
            if (error) std::rethrow_exception(error);
        for (mixed_program const& each : programs) {
            operations += each.operations;
            refusals += each.refusals;
            checked += each.checked();
        }
    }
    expect_equal("bytes held at the end", budget.held(), 0U);
    expect(budget.peak() <= budget.limit(), "more than the limit was held");
    return text("%llu operations of 4 threads, %llu refusals, %.0f M words checked",
                static_cast<unsigned long long>(operations), static_cast<unsigned long long>(refusals),
                1e-6 * static_cast<double>(checked));
}

}  // namespace truth
