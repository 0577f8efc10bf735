// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"
#include "state.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sstream>

extern "C" {
[[gnu::visibility("default")]] std::atomic<bool> cuota_simulator_order_is_off{false};
}

namespace cuota::inline v0::simulator::ordering {
namespace {

constexpr std::size_t most_reports = 1000;
constexpr std::size_t ended_kept = 256;

checker& the_checker() { return the_machine().race_checker; }

void take_slot(lane& l) {
    if (l.now.of != no_slot) return;
    auto& c = the_checker();
    if (!c.given_back.empty()) {
        auto const [free, last] = c.given_back.front();
        c.given_back.pop_front();
        if (c.host.at(free) >= last) {  // all later operations happen after this slot's
            l.now.of = free;
            l.now.number = last;
            return;
        }
        c.given_back.emplace_back(free, last);
    }
    l.now.of = c.next_slot++;
}

/// A moment includes its past: one comparison shows whether it is new.
void learn(lane& l, moment const& m) {
    if (m.of == no_slot || m.of == l.now.of) return;
    if (l.now.before.at(m.of) >= m.number || the_checker().host.at(m.of) >= m.number) return;
    l.now.before.join(m.before);
    l.now.before.raise(m.of, m.number);
}

bool host_knows(record const& r) { return the_checker().host.at(r.of) >= r.number; }

bool ordered(record const& r, moment const& m) {
    return r.of == m.of || m.before.at(r.of) >= r.number || host_knows(r);
}

std::string place_of(record const& r) {
    auto text = r.what + call_sites::mark(r.from);
    if (r.of == no_slot) return text;
    return text +
           (r.stream_id <= 1 ? " on the default stream" : " on stream #" + std::to_string(r.stream_id));
}

std::string range_of(record const& r) {
    return "bytes [" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ')';
}

void publish(std::string line) {
    auto& c = the_checker();
    ++the_machine().misuse.races;
    if (c.mode == race_checks::fatal) {
        std::fprintf(stderr, "cuota simulator: race: %s (schedule %s)\n",
                     call_sites::resolved(std::move(line)).c_str(), schedule_in_words().c_str());
        std::fflush(stderr);
        std::abort();
    }
    c.reports.push_back(std::move(line));
}

/// Reports each pair of functions on a pair of streams and an allocation once.
bool is_news(allocation const& a, record const& now, record const& before) {
    auto& c = the_checker();
    if (c.mode == race_checks::fatal) return true;
    if (c.seen.size() < most_reports)
        return c.seen
            .emplace(now.what, now.stream_id, now.writes, before.what, before.stream_id, before.writes,
                     a.number)
            .second;
    ++the_machine().misuse.races;
    return false;
}

bool runs_nothing(int index) {
    auto const& all = the_machine().all_devices;
    auto const i = static_cast<std::size_t>(index);
    return i < all.size() && failure_of(*all[i]) != cudaSuccess;
}

void conflict(allocation const& a, record const& now, record const& before, bool ordered_but_freed = false) {
    if (a.kind == memory_kind::device && runs_nothing(a.device)) return;
    ++the_checker().counts.conflicts;
    if (!is_news(a, now, before)) return;
    std::ostringstream line;
    line << place_of(now) << (now.writes ? " writes " : " reads ") << range_of(now) << " of "
         << describe(a, std::max(now.begin, before.begin))
         << (ordered_but_freed ? "; it was freed before by " : "; nothing orders it after ")
         << place_of(before);
    if (!ordered_but_freed) line << ", which " << (before.writes ? "writes " : "reads ") << range_of(before);
    publish(line.str());
}

using cell_map = std::map<std::size_t, shadow::cell>;

/// Replaces the accesses that the new one represents.
void meet(allocation const& a, std::vector<record>& last, record const& now, moment const& m) {
    std::erase_if(last, [&](record const& r) {
        if (host_knows(r)) return true;
        if (ordered(r, m)) return now.writes || !r.writes;
        if (now.writes || r.writes) conflict(a, now, r);
        return false;
    });
    last.push_back(now);
}

cell_map::iterator split(cell_map& cells, cell_map::iterator at, std::size_t where) {
    auto const right = cells.emplace_hint(std::next(at), where, at->second);
    at->second.end = where;
    return right;
}

void merge(cell_map& cells, cell_map::iterator at, std::size_t end) {
    for (auto next = std::next(at); next != cells.end() && next->first < end; next = std::next(at)) {
        if (at->second.end == next->first && at->second.last == next->second.last) {
            at->second.end = next->second.end;
            cells.erase(next);
        } else {
            at = next;
        }
    }
}

/// Runs when the number of cells has doubled.
void sweep(shadow& s) {
    for (auto at = s.cells.begin(); at != s.cells.end();) {
        std::erase_if(at->second.last, host_knows);
        at = at->second.last.empty() ? s.cells.erase(at) : std::next(at);
    }
    if (!s.cells.empty()) merge(s.cells, s.cells.begin(), ~std::size_t{0});
    s.sweep_at = std::max<std::size_t>(64, 2 * s.cells.size());
}

void check_birth(allocation& a, record const& now, moment const& m) {
    auto& birth = a.order_shadow.birth;
    if (!birth.what || ordered(birth, m)) return;
    conflict(a, now, birth);
}

void note(allocation& a, record const& now, moment const& m) {
    check_birth(a, now, m);
    auto& cells = a.order_shadow.cells;
    auto at = cells.upper_bound(now.begin);
    if (at != cells.begin() && std::prev(at)->second.end > now.begin) --at;
    auto first = cells.end();
    for (auto from = now.begin; from < now.end; from = at++->second.end) {
        if (at == cells.end() || at->first > from) {
            auto const end = at == cells.end() ? now.end : std::min(now.end, at->first);
            at = cells.emplace_hint(at, from, shadow::cell{end, {now}});
        } else {
            if (at->first < from) at = split(cells, at, from);
            if (at->second.end > now.end) split(cells, at, now.end);
            meet(a, at->second.last, now, m);
        }
        if (first == cells.end()) first = at;
    }
    merge(cells, first, now.end);
    if (cells.size() > a.order_shadow.sweep_at) sweep(a.order_shadow);
}

void finish(allocation& a, record const& now, moment const& m) {
    check_birth(a, now, m);
    for (auto const& [begin, cell] : a.order_shadow.cells)
        for (auto const& r : cell.last)
            if (!ordered(r, m)) conflict(a, now, r);
    a.order_shadow = {};
}

record record_of(stream const& s, operation const& work, char const* what, bool writes) {
    record r;
    r.what = what;
    r.from = work.from;
    r.stream_id = s.legacy ? 1 : s.id;
    r.number = work.at.number;
    r.of = work.at.of;
    r.writes = writes;
    return r;
}

std::uintptr_t address_of(allocation const& a) { return ~a.disguise; }

/// The host's heap may have reused the address.
void check_ended(record now, std::uintptr_t address, std::size_t bytes, moment const& m) {
    auto const& ended = the_checker().ended;
    for (auto e = ended.rbegin(); e != ended.rend(); ++e) {
        auto const& [a, death] = *e;
        if (address - address_of(*a) >= a->bytes) continue;
        now.begin = address - address_of(*a);
        now.end = now.begin + bytes;
        return conflict(*a, now, death, ordered(death, m));
    }
}

constexpr char const* in_a_graph = " in a graph";

char const* lasting(std::string name) {
    return the_checker().kernel_names.insert(std::move(name)).first->c_str();
}

void note(graph_node& node, char const* what, std::span<access const> all) {
    for (auto const& one : all)
        node.touches.emplace_back(
            lasting(what + std::string{in_a_graph}),
            declaration{one.memory->disguise - one.offset, one.bytes, one.how != use::reads});
}

/// Memory that the runtime did not allocate is not checked.
void declared(stream const& s, operation const& work, char const* what, std::span<declaration const> all) {
    if (the_checker().mode == race_checks::off) return;
    for (auto const& one : all) {
        if (one.bytes == 0) continue;
        auto const address = ~one.disguise;
        auto const* const from = reinterpret_cast<void const*>(address);
        if (auto const a = find_memory(from))
            accesses(s, work, what, a, from, one.bytes, one.writes ? use::writes : use::reads);
        else check_ended(record_of(s, work, what, one.writes), address, one.bytes, work.at);
    }
}

}  // namespace

void vector_clock::make_own(slot width) {
    width = std::max(width, width_);
    if (width == width_ && numbers_.use_count() == 1) return;
    auto const room = (width + 7) / 8 * 8;  // rounded up, to grow rarely
    auto fresh = std::make_shared<std::uint64_t[]>(room);
    if (numbers_) std::copy_n(numbers_.get(), width_, fresh.get());
    numbers_ = std::move(fresh);
    width_ = room;
}

moment const& arrives(stream& s) {
    auto& l = s.order_lane;
    auto& d = s.owner;
    take_slot(l);
    if (s.legacy) {
        for (auto const& other : d.streams)
            if (other->blocking()) learn(l, other->order_lane.now);
        if (l.gone_seen != d.gone_version) {
            l.now.before.join(d.gone_blocking);
            l.gone_seen = d.gone_version;
        }
    } else if (s.blocking()) {
        learn(l, d.legacy->order_lane.now);
    }
    ++l.now.number;
    return l.now;
}

void learns(stream& s, moment const& m) { learn(s.order_lane, m); }

void host_learns(moment const& m) {
    auto& host = the_checker().host;
    if (m.of == no_slot || host.at(m.of) >= m.number) return;
    host.join(m.before);
    host.raise(m.of, m.number);
}

void host_learns(vector_clock const& c) { the_checker().host.join(c); }

void retires(stream& s) {
    auto const& m = s.order_lane.now;
    if (m.of == no_slot) return;
    auto& c = the_checker();
    c.given_back.emplace_back(m.of, m.number);
    if (c.host.at(m.of) >= m.number) return;
    auto const join = [&m](vector_clock& gone) {
        gone.join(m.before);
        gone.raise(m.of, m.number);
    };
    join(s.owner.gone);
    if (!s.blocking()) return;
    join(s.owner.gone_blocking);
    ++s.owner.gone_version;
}

void accesses(stream const& s, operation const& work, char const* what, std::span<access const> all) {
    auto& c = the_checker();
    if (work.node) return note(*work.node, what, all);
    if (c.mode == race_checks::off) return;
    for (auto const& one : all) {
        auto& a = *one.memory;
        auto now = record_of(s, work, what, one.how != use::reads);
        now.begin = one.offset;
        now.end = one.offset + one.bytes;
        ++c.counts.accesses;
        switch (one.how) {
            case use::reads:
            case use::writes: note(a, now, work.at); break;
            case use::begins: a.order_shadow.birth = now; break;
            case use::ends: finish(a, now, work.at); break;
        }
    }
}

void accesses(stream const& s, operation const& work, char const* what, allocation_ref const& first,
              void const* from, std::size_t bytes, use how) {
    auto a = first;
    for (auto at = reinterpret_cast<std::uintptr_t>(from); a && bytes != 0;) {
        auto const offset = at - address_of(*a);
        auto const n = std::min(bytes, a->bytes - offset);
        access const one[] = {{a.get(), offset, n, how}};
        accesses(s, work, what, one);
        at += n;
        bytes -= n;
        a = a->mapped && bytes != 0 ? find_memory(reinterpret_cast<void const*>(at)) : nullptr;
    }
}

void stream_frees(allocation_ref const& a, stream const& s, operation const& work) {
    auto const* const what = name_of(function::cudaFreeAsync);
    access const whole[] = {{a.get(), 0, a->bytes, use::ends}};
    accesses(s, work, what, whole);
    auto& c = the_checker();
    if (c.mode == race_checks::off) return;
    c.ended.emplace_back(a, record_of(s, work, what, true));
    if (c.ended.size() > ended_kept) c.ended.pop_front();
}

void replays(stream const& s, operation const& work, graph_node const& node) {
    for (auto const& [what, one] : node.touches) declared(s, work, what, {&one, 1});
}

void accesses(stream const& s, operation const& work, std::string const& kernel,
              std::span<declaration const> all) {
    if (work.node)
        for (auto const& one : all)
            work.node->touches.emplace_back(lasting("kernel " + kernel + in_a_graph), one);
    else if (!all.empty() && the_checker().mode != race_checks::off)
        declared(s, work, lasting("kernel " + kernel), all);
}

void host_frees(allocation& a, char const* what) {
    if (the_checker().mode == race_checks::off) return;
    record now;
    now.what = what;
    now.from = here();
    now.writes = true;
    now.end = a.bytes;
    finish(a, now, moment{});
}

void choose(race_checks wanted) {
    the_checker().mode = wanted;
    cuota_simulator_order_is_off.store(wanted == race_checks::off, std::memory_order_relaxed);
}

void reset() {
    auto& c = the_checker();
    choose(c.initial);
    c.counts = {};
    c.reports.clear();
    c.seen.clear();
    c.ended.clear();
}

}  // namespace cuota::inline v0::simulator::ordering
