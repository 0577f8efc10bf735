// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/free_bins.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/failing_heap.hpp"
#include "support/rounds.hpp"

using cuota::detail::block;
using cuota::detail::free_bins;

namespace {

constexpr std::size_t granularity = block::granularity;
constexpr std::size_t most = std::numeric_limits<std::size_t>::max();

// The bins never access the memory, so any addresses will do.
std::byte* address(std::size_t offset) {
    return reinterpret_cast<std::byte*>(std::uintptr_t{0x7f3a'4000'0000} + offset);
}

std::vector<block> blocks_of(std::vector<std::size_t> const& sizes) {
    std::vector<block> blocks(sizes.size());
    for (std::size_t i = 0; i != sizes.size(); ++i) {
        blocks[i].stand_at(address(i << 44), block::state::free);
        blocks[i].size = sizes[i];
    }
    return blocks;
}

std::vector<block const*> fits(free_bins const& bins, std::size_t size, std::size_t at_most = most) {
    std::vector<block const*> found;
    if (at_most == 0) return found;
    bins.for_each_fit(size, [&](block& b) {
        found.push_back(&b);
        return found.size() != at_most;
    });
    CHECK(bins.first_fit(size) == (found.empty() ? nullptr : found.front()));
    return found;
}

std::vector<block const*> from_largest(free_bins const& bins, std::size_t at_most = most) {
    std::vector<block const*> found;
    bins.for_each_from_largest([&](block& b) {
        found.push_back(&b);
        return found.size() != at_most;
    });
    return found;
}

}  // namespace

TEST_CASE("empty free_bins visit no block", "[pool][free_bins]") {
    free_bins const bins;

    CHECK(bins.count() == 0);
    CHECK(bins.largest() == 0);
    for (std::size_t size :
         {std::size_t{0}, std::size_t{1}, granularity, free_bins::largest_of_one_size, most})
        CHECK(fits(bins, size).empty());
    CHECK(from_largest(bins).empty());
}

TEST_CASE("free_bins visit the smallest block that fits first, for every size", "[pool][free_bins]") {
    // Sizes on both sides of every power of two, in whole units of granularity, which include the edges of every octave of bins.
    std::vector<std::size_t> sizes;
    for (std::size_t power = granularity; power <= (most >> 1) + 1 && power != 0; power *= 2)
        for (std::size_t size : {power - granularity, power, power + granularity})
            if (size != 0) sizes.push_back(size);
    sizes.push_back(most / granularity * granularity);
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    std::vector<block> blocks = blocks_of(sizes);
    free_bins bins;
    for (std::size_t i = 0; i != blocks.size(); ++i) bins.insert(blocks[i * 7 % blocks.size()]);
    REQUIRE(bins.count() == sizes.size());
    REQUIRE(blocks.size() % 7 != 0);

    for (std::size_t i = 0; i != sizes.size(); ++i) {
        INFO("size " << sizes[i]);
        for (std::size_t wanted : {sizes[i], sizes[i] - 1, sizes[i] - granularity + 1}) {
            REQUIRE(fits(bins, wanted).size() == sizes.size() - i);
            REQUIRE(fits(bins, wanted, 1).front() == &blocks[i]);
        }
    }
    CHECK(fits(bins, most).empty());
    CHECK(fits(bins, 0).size() == sizes.size());
    CHECK(bins.largest() == sizes.back());
    for (std::size_t i = blocks.size(); i-- != 0;) {
        REQUIRE(bins.largest() == sizes[i]);
        bins.erase(blocks[i]);
        REQUIRE(bins.count() == i);
        REQUIRE(fits(bins, sizes[i]).empty());
    }
}

TEST_CASE("of blocks of one size up to 4 MiB, the last one inserted is visited first", "[pool][free_bins]") {
    std::size_t const size =
        GENERATE(std::size_t{256}, std::size_t{4096}, std::size_t{free_bins::largest_of_one_size});
    std::vector<block> blocks = blocks_of({size, size, size, size});
    free_bins bins;
    for (std::size_t i : {2u, 0u, 3u, 1u}) bins.insert(blocks[i]);

    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[1], &blocks[3], &blocks[0], &blocks[2]});
    bins.erase(blocks[3]);  // erases from the middle, the front and the end
    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[1], &blocks[0], &blocks[2]});
    bins.erase(blocks[1]);
    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[0], &blocks[2]});
    bins.erase(blocks[2]);
    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[0]});
    bins.insert(blocks[1]);
    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[1], &blocks[0]});
}

TEST_CASE("a block whose size was reduced in free_bins is found by its new size", "[pool][free_bins]") {
    static constexpr std::size_t edge = free_bins::largest_of_one_size;
    static constexpr std::size_t huge = std::size_t{1} << 40;
    using sizes = std::pair<std::size_t, std::size_t>;
    auto const [from, to] =
        GENERATE(sizes{4096, granularity}, sizes{edge, edge - granularity},  // from list to list
                 sizes{edge + granularity, edge},                            // from a tree to a list
                 sizes{2 * edge, edge + 2 * granularity},                    // to another tree
                 sizes{huge + granularity, huge});                           // in its tree
    bool const is_alone = GENERATE(true, false);
    std::vector<block> blocks = blocks_of({from, from, from});
    free_bins bins;
    bins.insert(blocks[1]);
    if (!is_alone) bins.insert(blocks[0]);
    if (!is_alone) bins.insert(blocks[2]);

    bins.resize(blocks[1], address(granularity), to);

    CHECK(blocks[1].at() == address(granularity));
    CHECK(blocks[1].size == to);
    CHECK(blocks[1].may_merge());
    CHECK(bins.count() == (is_alone ? 1 : 3));
    CHECK(fits(bins, to, 1) == std::vector<block const*>{&blocks[1]});
    CHECK(fits(bins, to + 1).size() == (is_alone ? 0 : 2));
    bins.erase(blocks[1]);
    CHECK(fits(bins, 0).size() == (is_alone ? 0 : 2));
}

TEST_CASE("of larger blocks of one size, the one at the lowest address is visited first",
          "[pool][free_bins]") {
    std::size_t const size =
        GENERATE(free_bins::largest_of_one_size + granularity, std::size_t{1} << 23, std::size_t{1} << 42);
    std::vector<block> blocks = blocks_of({size, size, size, size});
    free_bins bins;
    for (std::size_t i : {2u, 0u, 3u, 1u}) bins.insert(blocks[i]);

    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[0], &blocks[1], &blocks[2], &blocks[3]});
    bins.erase(blocks[1]);
    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[0], &blocks[2], &blocks[3]});
    bins.insert(blocks[1]);
    bins.erase(blocks[0]);
    CHECK(fits(bins, size) == std::vector<block const*>{&blocks[1], &blocks[2], &blocks[3]});
}

TEST_CASE("the visit of free_bins ends when the visitor returns false", "[pool][free_bins]") {
    std::vector<block> blocks =
        blocks_of({granularity, granularity, 64 * granularity, 64 * granularity, 65 * granularity,
                   65 * granularity, 65 * granularity, std::size_t{1} << 40});
    free_bins bins;
    for (block& b : blocks) bins.insert(b);
    auto const all = fits(bins, 0);
    auto const backwards = from_largest(bins);
    REQUIRE(all.size() == blocks.size());
    REQUIRE(backwards.size() == blocks.size());

    for (std::size_t n = 1; n <= blocks.size(); ++n) {
        auto const end = static_cast<std::ptrdiff_t>(n);
        CHECK(fits(bins, 0, n) == std::vector<block const*>(all.begin(), all.begin() + end));
        CHECK(from_largest(bins, n) == std::vector<block const*>(backwards.begin(), backwards.begin() + end));
    }
}

TEST_CASE("free_bins make no host allocations, and erased blocks have no links", "[pool][free_bins]") {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i != 300; ++i) sizes.push_back(granularity * (1 + i * i % 200));
    std::vector<block> blocks = blocks_of(sizes);
    free_bins bins;
    {
        support::failing_heap const heap{0};
        for (block& b : blocks) bins.insert(b);
        for (block& b : blocks) bins.erase(b);
        CHECK(heap.refused() == 0);
    }

    CHECK(bins.count() == 0);
    CHECK(std::ranges::none_of(blocks, [](block const& b) { return b.left || b.right; }));
}

namespace {

// Returns random sizes: many of a few small ones, many near the edges of bins, some up to terabytes.
std::size_t random_size(std::mt19937_64& random) {
    switch (random() % 4) {
        case 0: return granularity * (1 + random() % 8);
        case 1: return granularity * (56 + random() % 80);
        case 2: return granularity * (1 + random() % (std::size_t{1} << (1 + random() % 34)));
        default: return (std::size_t{1} << (14 + random() % 30)) + granularity * (random() % 3);
    }
}

// Reference model of free_bins: ordered by size, then last in first out or lowest address first.
class reference {
public:
    struct entry {
        std::size_t size;
        std::uint64_t order;
        block const* at;
        friend auto operator<=>(entry const&, entry const&) = default;
    };
    void insert(block const& b) {
        entry const one{b.size, is_list(b) ? ~next_ : reinterpret_cast<std::uintptr_t>(b.at()), &b};
        ++next_;
        entries_.insert(one);
        orders_[&b] = one.order;
    }
    void erase(block const& b) { REQUIRE(entries_.erase({b.size, orders_.at(&b), &b}) == 1); }
    [[nodiscard]] auto from(std::size_t size) const { return entries_.lower_bound({size, 0, nullptr}); }
    [[nodiscard]] std::set<entry> const& entries() const noexcept { return entries_; }

private:
    static bool is_list(block const& b) noexcept { return b.size <= free_bins::largest_of_one_size; }

    std::set<entry> entries_;
    std::map<block const*, std::uint64_t> orders_;
    std::uint64_t next_ = 0;
};

// Compares the first blocks of at least that size with the reference, in order.
bool agree(free_bins const& bins, reference const& expected, std::size_t size, std::size_t at_most) {
    auto next = expected.from(size);
    bool same = bins.first_fit(size) == (next == expected.entries().end() ? nullptr : next->at);
    std::size_t seen = 0;
    bins.for_each_fit(size, [&](block& b) {
        same = next != expected.entries().end() && (next++)->at == &b;
        return same && ++seen != at_most;
    });
    return same && (seen == at_most || next == expected.entries().end());
}

bool agree_from_largest(free_bins const& bins, reference const& expected) {
    auto left = expected.entries();
    std::size_t size = most;
    bool same = true;
    for (block const* b : from_largest(bins)) {
        auto const found = std::ranges::find(left, b, &reference::entry::at);
        same = same && found != left.end() && b->size <= size;
        if (!same) return false;
        size = b->size;
        left.erase(found);
    }
    return left.empty();
}

}  // namespace

TEST_CASE("free_bins match an ordered set over random steps", "[pool][free_bins]") {
    std::mt19937_64 random{20'261'121};
    std::vector<block> blocks(600);
    for (std::size_t i = 0; i != blocks.size(); ++i)
        blocks[i].stand_at(address((i * 599 % 600) << 44), block::state::free);
    std::vector<block*> in;
    std::vector<block*> out;
    for (block& b : blocks) out.push_back(&b);
    free_bins bins;
    reference expected;

    auto const take_one = [&](std::vector<block*>& from) {
        std::swap(from[random() % from.size()], from.back());
        block& b = *from.back();
        from.pop_back();
        return &b;
    };
    std::size_t goal = 300;
    int const steps = support::rounds(1'000'000);
    for (int step = 0; step != steps; ++step) {
        // Alternates between nearly empty and nearly full.
        if (step % 10'000 == 0) goal = random() % blocks.size();
        bool const inserts = !out.empty() && (in.empty() || random() % 100 < (in.size() < goal ? 70 : 30));
        if (!in.empty() && random() % 4 == 0) {
            block& b = *in[random() % in.size()];
            std::size_t const size =
                b.size - random() % (b.size / granularity) / (1 + random() % 100) * granularity;
            expected.erase(b);
            bins.resize(b, b.at() + random() % 3 * granularity, size);
            expected.insert(b);
        } else if (inserts) {
            block& b = *take_one(out);
            b.size = random_size(random);
            bins.insert(b);
            expected.insert(b);
            in.push_back(&b);
        } else {
            block& b = *take_one(in);
            bins.erase(b);
            expected.erase(b);
            out.push_back(&b);
        }

        std::size_t const largest = in.empty() ? 0 : expected.entries().rbegin()->size;
        if (bins.largest() != largest || bins.count() != in.size())
            FAIL("the largest or the count differs after step " << step);
        std::size_t wanted = random_size(random) - random() % granularity;
        if (step % 64 == 0) wanted = std::vector<std::size_t>{0, most, largest, largest + 1}[random() % 4];
        if (!agree(bins, expected, wanted, 4))
            FAIL("what fits " << wanted << " bytes differs after step " << step);
        if (step % 1000 != 0) continue;
        if (!agree(bins, expected, 0, most)) FAIL("the order differs after step " << step);
        if (!agree_from_largest(bins, expected)) FAIL("from the largest differs after step " << step);
    }
}

namespace {

int height_of(block const* b) { return b ? 1 + std::max(height_of(b->left), height_of(b->right)) : 0; }

// Returns the height of the tree that these blocks of one bin form. The root is the block without a parent.
int height_of(std::vector<block> const& blocks) {
    std::set<block const*> below;
    for (block const& b : blocks)
        for (block const* child : {b.left, b.right})
            if (child) REQUIRE(below.insert(child).second);
    REQUIRE(below.size() == blocks.size() - 1);
    auto const root = std::ranges::find_if(blocks, [&](block const& b) { return !below.contains(&b); });
    return height_of(&*root);
}

}  // namespace

TEST_CASE("the tree of a bin has a small height when blocks of one size have regular distances",
          "[pool][free_bins]") {
    // A random tree of 50,000 nodes has an average depth of about 2 ln n = 22 and a height of about 40; a list has 50,000.
    static constexpr std::size_t size = free_bins::largest_of_one_size + granularity;
    std::size_t const distance = GENERATE(as<std::size_t>{}, size, size + granularity, std::size_t{1} << 21,
                                          std::size_t{3} << 20, std::size_t{1} << 26, 6765 * granularity);
    std::vector<block> blocks(50'000);
    for (std::size_t i = 0; i != blocks.size(); ++i) {
        blocks[i].stand_at(address(i * distance), block::state::free);
        blocks[i].size = size;
    }
    free_bins bins;
    SECTION("inserted upwards") {
        for (block& b : blocks) bins.insert(b);
    }
    SECTION("inserted downwards") {
        for (std::size_t i = blocks.size(); i-- != 0;) bins.insert(blocks[i]);
    }
    SECTION("every second block erased and inserted again") {
        for (block& b : blocks) bins.insert(b);
        for (std::size_t i = 0; i < blocks.size(); i += 2) bins.erase(blocks[i]);
        for (std::size_t i = 0; i < blocks.size(); i += 2) bins.insert(blocks[i]);
    }

    CHECK(height_of(blocks) < 100);
}
