// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A pool_observer that records events and checks that they agree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <cuota/pool/detail/blocks/block_pool.hpp>
#include <cuota/pool/detail/pool_observer.hpp>
#include <cuota/pool/detail/pool_state.hpp>
#include <cuota/pool/scoped_pool.hpp>

namespace pool_tests {

/// Records events, and sets is_wrong if one contradicts the earlier ones.
class diary final : public cuota::detail::pool_observer {
public:
    using address = std::uintptr_t;
    using observed_block = cuota::detail::observed_block;

    void allocated(observed_block const& b) noexcept override {
        all += 'a';
        names += b.name.text();
        last_stream = b.stream;
        is_wrong |= !covers(address_of(b.at), b.size) || !live.emplace(address_of(b.at), b).second;
        bytes += b.bytes;
        size += b.size;
    }
    void free_requested(observed_block const& b) noexcept override {
        all += 'f';
        auto const found = live.find(address_of(b.at));
        is_wrong |= found == live.end() || found->second.bytes != b.bytes || found->second.size != b.size ||
                    !(found->second.name == b.name) || found->second.where.line != b.where.line;
        if (found != live.end()) live.erase(found);
        bytes -= b.bytes;
        size -= b.size;
        ++pending;
    }
    void free_completed(observed_block const&) noexcept override {
        all += 'c';
        is_wrong |= pending == 0;
        --pending;
    }
    void segment_allocated(void const* at, std::size_t n, cuota::source_location) noexcept override {
        all += 's';
        is_wrong |= !mapped.emplace(address_of(at), n).second;
        reserved += n;
    }
    void segment_freed(void const* at, std::size_t n) noexcept override {
        all += 'r';
        is_wrong |= !covers(address_of(at), n);
        cut(address_of(at), address_of(at) + n);
        reserved -= n;
    }
    void step_begun(cuota::source_location where) noexcept override {
        all += '<';
        step_line = where.line;
    }
    void step_ended() noexcept override { all += '>'; }
    void ended() noexcept override { all += '.'; }

    std::string all;    // one letter per event
    std::string names;  // tags of all allocations
    bool is_wrong = false;
    std::map<address, observed_block> live;
    std::map<address, std::size_t> mapped;  // runs; adjacent ones are separate
    std::size_t bytes = 0;
    std::size_t size = 0;
    std::size_t reserved = 0;
    std::size_t pending = 0;
    std::uint64_t last_stream = 0;
    unsigned step_line = 0;

private:
    static address address_of(void const* p) noexcept { return reinterpret_cast<address>(p); }
    [[nodiscard]] bool covers(address at, std::size_t n) const {
        address const end = at + n;
        while (at < end) {
            auto run = mapped.upper_bound(at);
            if (run == mapped.begin()) return false;
            --run;
            if (run->first + run->second <= at) return false;
            at = run->first + run->second;
        }
        return true;
    }
    void cut(address from, address to) {
        std::map<address, std::size_t> left;
        for (auto const& [at, n] : mapped) {
            if (at < from) left[at] = std::min(at + n, from) - at;
            if (at + n > to) left[std::max(at, to)] = at + n - std::max(at, to);
        }
        mapped = std::move(left);
    }
};

/// Observes a pool; the test reads the diary.
struct observed {
    explicit observed(cuota::scoped_pool& of) : pool{cuota::detail::pool_access::state(of).blocks()} {
        pool.observe(cuota::detail::intrusive_ptr<cuota::detail::pool_observer>::of(*told));
    }
    diary* operator->() const noexcept { return told.get(); }
    diary& operator*() const noexcept { return *told; }

    cuota::detail::block_pool& pool;
    cuota::detail::intrusive_ptr<diary> told = cuota::detail::intrusive_ptr<diary>::make();
};

}  // namespace pool_tests
