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
#include "simulator.hpp"

namespace cuota::inline v0::simulator {

struct allocation;
struct device;
struct graph_node;
struct operation;
struct stream;

/// The happens-before checker. Every operation gets a vector clock when it is enqueued, so what is found depends
/// on the calls alone and not on when the work runs. Everything here is guarded by the machine's mutex.
///
/// The host is not a component but a clock of its own: what the host has waited for comes before whatever is
/// enqueued from then on, by any thread. That is weaker than the truth for programs of several threads, and
/// never wrong. What a pool orders on its own to reuse memory is no promise to the program, and not counted.
namespace ordering {

/// A stream's place in the clocks. A later stream may have it again once the host has waited for the earlier.
using slot = std::uint32_t;
inline constexpr slot no_slot = ~slot{0};

/// How far each stream has come. Copies share their numbers until one of them learns more.
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

/// An operation's place in the order: the `number`-th of its stream, after all that `before` says.
struct moment {
    slot of = no_slot;
    std::uint64_t number = 0;
    vector_clock before;
};

/// What the next operation of a stream comes after.
struct lane {
    moment now;
    std::uint64_t gone_seen = 0;
};

/// One access that a later one may conflict with. No address: LeakSanitizer reads these too.
struct record {
    char const* what = nullptr;  ///< lives for ever; null: no record
    call_sites::site from{};
    std::uint64_t stream_id = 0;
    std::uint64_t number = 0;
    std::size_t begin = 0, end = 0;  ///< of the whole access, in bytes of the allocation
    slot of = no_slot;
    bool writes = false;

    bool operator==(record const& other) const noexcept {
        return of == other.of && number == other.number && writes == other.writes;
    }
};

/// The accesses to one allocation that are not known to come before everything. Per byte, only those that no
/// newer one stands for: whoever is unordered with one left out is unordered with one that was kept.
struct shadow {
    struct cell {
        std::size_t end;
        std::vector<record> last;
    };

    record birth;                       ///< by cudaMallocAsync, of all bytes
    std::map<std::size_t, cell> cells;  ///< by their first byte, disjoint
    std::size_t sweep_at = 64;
};

enum class use { reads, writes, begins, ends };

struct access {
    allocation* memory;
    std::size_t offset, bytes;
    use how;
};

/// An access that the launch to come will make. The address is disguised, as everywhere.
struct declaration {
    std::uintptr_t disguise;
    std::size_t bytes;
    bool writes;
};

/// Accesses that every launch on a stream may make, until the memory is given back.
struct borrowing {
    std::uint64_t number;
    declaration access;
};

struct checker {
    order_checks mode = order_checks::report, initial = order_checks::report;
    vector_clock host;
    slot next_slot = 0;
    std::deque<std::pair<slot, std::uint64_t>> given_back;  ///< slots of streams that are gone, and their end

    order_counts counts;
    std::vector<std::string> reports;
    std::set<std::tuple<char const*, std::uint64_t, bool, char const*, std::uint64_t, bool, std::uint64_t>>
        seen;
    std::set<std::string, std::less<>> kernel_names;
    std::deque<std::pair<std::shared_ptr<allocation>, record>> ended;  ///< freed in stream order, newest last
};

/// The place of an operation that the stream is given now: after what it and the default-stream rules say.
moment const& arrives(stream& s);
/// What the stream gets from now on comes after the moment. An operation must arrive next, for others to see that
/// there is news.
void learns(stream& s, moment const& m);
/// What anybody enqueues from now on comes after the moment, or after all work of streams that are gone.
void host_learns(moment const& m);
void host_learns(vector_clock const& c);
/// The stream has no work and no handle any more.
void retires(stream& s);

/// Checks the accesses of an operation that has arrived, and notes them.
void accesses(stream const& s, operation const& work, char const* what, std::span<access const> all);
/// The same for a range that starts in an allocation and may go on in mappings that follow it.
void accesses(stream const& s, operation const& work, char const* what,
              std::shared_ptr<allocation> const& first, void const* from, std::size_t bytes, use how);
/// The same for a kernel. Memory the runtime does not know is not checked.
void accesses(stream const& s, operation const& work, std::string const& kernel,
              std::span<declaration const> all);
/// The accesses of a node of a graph, now that it is launched as `work`.
void replays(stream const& s, operation const& work, graph_node const& node);
/// The host frees the memory, after the waiting that CUDA does for it, if it does.
void host_frees(allocation& a, char const* what);
/// cudaFreeAsync: an access to all of it, after which a use of it is found whenever it comes.
void stream_frees(std::shared_ptr<allocation> const& a, stream const& s, operation const& work);

/// Looks for races from now on, or not. What is borrowed while it does not is not entered.
void choose(order_checks wanted);
/// Forgets what was found, and is again what the environment asked for.
void reset();

}  // namespace ordering
}  // namespace cuota::inline v0::simulator
