// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The design of the peers: a mutex and, for each stream, a best-fit list in address order with coalescing. If the list of a stream has no
/// fit, blocks are moved from the lists of other streams and merged.
#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

namespace bench {

/// Allocates offsets in one segment. Waits are counted but not made.
class listed_pool {
public:
    listed_pool(std::size_t streams, std::size_t bytes) : lists_(streams) { lists_[0].push_back({0, bytes}); }

    [[nodiscard]] std::optional<std::size_t> allocate(std::size_t stream, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        if (auto const p = best_fit(stream, bytes)) return p;
        for (std::size_t i = 0; i != lists_.size(); ++i) {
            if (i == stream) continue;
            if (auto const p = best_fit(i, bytes)) {
                ++waits_;
                return p;
            }
        }
        for (std::size_t i = 0; i != lists_.size(); ++i) {
            if (i == stream || lists_[i].empty()) continue;
            ++waits_;
            for (run const& r : lists_[i]) put(stream, r);
            lists_[i].clear();
            if (auto const p = best_fit(stream, bytes)) return p;
        }
        return std::nullopt;
    }
    void deallocate(std::size_t stream, std::size_t at, std::size_t bytes) {
        std::scoped_lock const lock{guard_};
        put(stream, {at, bytes});
    }
    [[nodiscard]] std::size_t waits() const { return waits_; }

private:
    struct run {
        std::size_t at;
        std::size_t bytes;
    };
    [[nodiscard]] std::optional<std::size_t> best_fit(std::size_t stream, std::size_t bytes) {
        auto& list = lists_[stream];
        auto best = list.end();
        for (auto r = list.begin(); r != list.end(); ++r)
            if (r->bytes >= bytes && (best == list.end() || r->bytes < best->bytes)) best = r;
        if (best == list.end()) return std::nullopt;
        std::size_t const at = best->at;
        best->at += bytes;
        if ((best->bytes -= bytes) == 0) list.erase(best);
        return at;
    }
    void put(std::size_t stream, run r) {
        auto& list = lists_[stream];
        auto after = list.begin();
        while (after != list.end() && after->at < r.at) ++after;
        if (after != list.end() && r.at + r.bytes == after->at) {
            after->at = r.at;
            after->bytes += r.bytes;
        } else {
            after = list.insert(after, r);
        }
        if (after == list.begin()) return;
        auto const before = std::prev(after);
        if (before->at + before->bytes != after->at) return;
        before->bytes += after->bytes;
        list.erase(after);
    }
    std::mutex guard_;
    std::vector<std::list<run>> lists_;
    std::size_t waits_ = 0;
};

}  // namespace bench
