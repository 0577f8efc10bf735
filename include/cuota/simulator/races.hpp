// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "call_site.hpp"
#include <cuota/simulator.hpp>

namespace cuota::inline v0::simulator {

struct allocation;
struct device;
struct graph_node;
struct operation;
struct stream;

/// The happens-before checker, under the machine's mutex; see docs/design/simulator.md.
namespace ordering {

/// A stream's index in the clocks, reused once the host has waited for the stream.
using slot = std::uint32_t;
inline constexpr slot no_slot = ~slot{0};

/// For each stream, the number of the last operation that happens before. Copies share storage.
class vector_clock {
public:
    [[nodiscard]] std::uint64_t at(slot s) const noexcept { return s < width_ ? numbers_[s] : 0; }
    void raise(slot s, std::uint64_t number) {
        if (at(s) >= number) return;
        make_own(s + 1);
        numbers_[s] = number;
    }
    void join(vector_clock const& other) {
        if (numbers_ == other.numbers_) return;
        for (slot s = 0; s < other.width_; ++s) raise(s, other.numbers_[s]);
    }

private:
    void make_own(slot width);

    std::shared_ptr<std::uint64_t[]> numbers_;
    slot width_ = 0;
};

/// Position of an operation: it is operation `number` of its stream and happens after everything in `before`.
struct moment {
    slot of = no_slot;
    std::uint64_t number = 0;
    vector_clock before;
};

struct lane {
    moment now;
    std::uint64_t gone_seen = 0;
};

/// Contains no address, because LeakSanitizer scans records.
struct record {
    char const* what = nullptr;  ///< never freed; null: no record
    call_sites::site from{};
    std::uint64_t stream_id = 0;
    std::uint64_t number = 0;
    std::size_t begin = 0, end = 0;  ///< in bytes of the allocation
    slot of = no_slot;
    bool writes = false;

    bool operator==(record const& other) const noexcept {
        return of == other.of && number == other.number && writes == other.writes;
    }
};

/// The accesses to one allocation that do not yet happen before everything later. A newer access replaces an older one if each access that
/// is unordered with the older is unordered with the newer.
struct shadow {
    struct cell {
        std::size_t end;
        std::vector<record> last;
    };

    record birth;                       ///< the cudaMallocAsync, for all bytes
    std::map<std::size_t, cell> cells;  ///< keyed by their first byte, disjoint
    std::size_t sweep_at = 64;
};

enum class use { reads, writes, begins, ends };

struct access {
    allocation* memory;
    std::size_t offset, bytes;
    use how;
};

/// An access by the next launch. The address is inverted.
struct declaration {
    std::uintptr_t disguise;
    std::size_t bytes;
    bool writes;
};

/// An access by each launch on a stream until the lease ends.
struct borrowing {
    std::uint64_t number;
    declaration access;
};

struct checker {
    race_checks mode = race_checks::report, initial = race_checks::report;
    vector_clock host;
    slot next_slot = 0;
    /// Slots of destroyed streams, with their last number.
    std::deque<std::pair<slot, std::uint64_t>> given_back;

    race_check_counts counts;
    std::vector<std::string> reports;
    std::set<std::tuple<char const*, std::uint64_t, bool, char const*, std::uint64_t, bool, std::uint64_t>>
        seen;
    std::set<std::string, std::less<>> kernel_names;
    std::deque<std::pair<std::shared_ptr<allocation>, record>> ended;  ///< freed in stream order, newest last
};

/// Returns the position of an operation that is enqueued now.
moment const& arrives(stream& s);
void learns(stream& s, moment const& m);
/// Orders all later operations, of any thread, after the moment.
void host_learns(moment const& m);
void host_learns(vector_clock const& c);
void retires(stream& s);

void accesses(stream const& s, operation const& work, char const* what, std::span<access const> all);
/// Checks a range that may continue in adjacent mappings.
void accesses(stream const& s, operation const& work, char const* what,
              std::shared_ptr<allocation> const& first, void const* from, std::size_t bytes, use how);
/// Memory that the runtime did not allocate is not checked.
void accesses(stream const& s, operation const& work, std::string const& kernel,
              std::span<declaration const> all);
void replays(stream const& s, operation const& work, graph_node const& node);
/// Called after the free's implicit wait, if any.
void host_frees(allocation& a, char const* what);
void stream_frees(std::shared_ptr<allocation> const& a, stream const& s, operation const& work);

/// Memory leased while the mode is `off` is not recorded.
void choose(race_checks wanted);
void reset();

}  // namespace ordering
}  // namespace cuota::inline v0::simulator
