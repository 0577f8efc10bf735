// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The search behind interleavings.hpp. A fiber stops before each of its steps and announces it; the search chooses the fiber that
// continues. It is depth-first, restores saved bytes to try the next choice, and continues from no state twice (compared by a 128-bit hash
// over all bytes: stacks in use with the saved registers, allocations, store buffers).
//
// A step that needs an empty store buffer (a locked instruction, a fence) waits for that. asymmetric_fence_heavy waits until no other
// buffer has stores from before its owner's latest asymmetric_fence_light, and no longer, so that a missing light fence is found although
// the code runs in program order here. asymmetric_fence_light is not a step: it only delays others, so it can be combined with its thread's
// next step.
//
// Besides the omissions of choices.cpp, with options::reduce a step is done immediately, together with the step before it, if it commutes
// with all steps that others may do before it and always() cannot observe it. These are
//   - a store into the thread's own buffer: others cannot see it, and it delays no fence unless an asymmetric_fence_light follows;
//   - any access to a place that one thread alone uses, and a load from a place that is never changed. These places are learnt while
//     exploring, from random walks at first: when a place turns out to be used otherwise, the exploration starts again. The first use
//     that contradicts the assumption does not depend on the step that was done early, so the reduced search still reaches and detects it;
//   - the unlock of a mutex on which no thread calls try_lock: a thread that needs it can only wait.
// litmus.cpp compares the reduced search with the full one on random programs.

#include <cstdio>
#include <random>
#include <sstream>

#include "model/engine.hpp"

namespace model {
namespace detail {
namespace {
// ---- States: saved, restored, compared.

template <class Do>
void for_all_bytes(Do act) {
    act(reinterpret_cast<std::byte*>(&state),
        offsetof(shared_state, fibers) + sizeof(fiber) * static_cast<std::size_t>(threads));
    for (std::size_t h = 0; h <= most_threads; ++h) act(world().heap(h), state.allocated[h]);
    for (int t = 0; t < threads; ++t)
        act(at(t).stack, static_cast<std::size_t>(world().top(t) - at(t).stack));
    for (auto const& more : how->also) act(more.data(), more.size());
}

void save(std::vector<std::byte>& into) {
    into.clear();
    for_all_bytes(
        [&](std::byte const* from, std::size_t size) { into.insert(into.end(), from, from + size); });
}

void put_back(std::vector<std::byte> const& saved) {
    std::byte const* from = saved.data();
    for_all_bytes([&](std::byte* to, std::size_t size) {  // the first bytes hold the addresses of the others
        std::memcpy(to, from, size);
        from += size;
    });
}

hash hash_of_state() {
    hash h;
    for (int t = 0; t < threads; ++t) {
        fiber const& f = at(t);
        h.mix(f.stack_hash.a ^ std::bit_cast<word>(f.stack), f.stack_hash.b);
        h.mix(f.stored | f.fenced << 16U | f.to_fence << 32U, std::bit_cast<word>(f.record));
        for (std::size_t i = 0; i < f.stored; ++i)
            h.mix(std::bit_cast<word>(f.buffer[i].at),
                  f.buffer[i].value ^ (word{f.buffer[i].release} << 63U) ^ (f.buffer[i].fenced << 48U));
        h.mix(std::bit_cast<word>(f.exceptions[0]), std::bit_cast<word>(f.exceptions[1]));
        h.mix(std::bit_cast<word>(f.next.at), f.next.value ^ static_cast<word>(f.next.what) << 56U);
        if (!f.late) continue;
        h.mix(std::bit_cast<word>(f.late), f.late_from);
        h.bytes(reinterpret_cast<std::byte const*>(f.late_for.data()), late_size);
    }
    if (how->preemptions != unbounded) h.mix(static_cast<word>(state.last), state.preempted);
    for (std::size_t i = 0; i <= most_threads; ++i) {
        h.mix(i, state.allocated[i]);
        h.bytes(world().heap(i), state.allocated[i]);
    }
    for (auto const& more : how->also) h.bytes(more.data(), more.size());
    return h;
}

/// States that were reached, each with the number of executions from it: negative while it is on the path.
class met_states {
public:
    struct one {
        hash key{0, 0};
        double executions = 0;
    };
    /// Returns the state's entry, and whether it is new.
    std::pair<one*, bool> add(hash const& key) {
        if (2 * (size_ + 1) > table_.size()) grow();
        one& found = *find(key);
        if (found.key == key) return {&found, false};
        found = {key, -1};
        ++size_;
        return {&found, true};
    }
    one* find(hash const& key) {
        for (std::size_t i = key.a;; ++i)
            if (one& here = table_[i & (table_.size() - 1)]; here.key == key || here.key == hash{0, 0})
                return &here;
    }
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    void grow() {
        std::vector<one> old(table_.size() * 2);
        old.swap(table_);
        for (one const& o : old)
            if (o.key != hash{0, 0}) *find(o.key) = o;
    }
    std::vector<one> table_{1U << 12U};
    std::size_t size_ = 0;
};

void do_choice(choice const& c) {
    std::array<std::size_t, most_threads> wanted{};
    for (int t = 0; t < threads; ++t) wanted[static_cast<std::size_t>(t)] = at(t).arrived;
    for (std::size_t i = 0; i < c.count; ++i) {
        int const t = c.arrivals[i];
        if (at(t).arrived >= ++wanted[static_cast<std::size_t>(t)])
            continue;  // private, and has arrived with the last one
        arrive(t, static_cast<std::size_t>(c.entry));
        let_private_arrive(t);
    }
    if (c.thread < 0) return;
    state.preempted += c.preempts;
    state.last = c.thread;
    run(c.thread);
}

/// After a step: calls always() and at_end(), and fails if all remaining threads are stuck.
void look(std::vector<choice> const& choices, std::size_t depth) {
    inside_is const in{true};
    if (!failure.empty()) return;
    asking = true;
    explored->always();
    asking = false;
    if (!choices.empty()) {
        if (depth > how->longest) fail(too_long);
        return;
    }
    all_done() ? explored->at_end() : fail("deadlock: no thread can go on");
}

// ---- The search.

struct level {
    std::vector<std::byte> saved;
    std::vector<choice> choices;
    std::size_t next = 0;
    hash key;
    double executions = 0;
};

/// Returns the knowledge about places, which determines the choices, and then the choices.
std::string written(std::vector<choice> const& taken) {
    std::string all;
    for (std::size_t i = 0; i < known.size(); ++i)
        if (known[i] != 0) all += std::to_string(i) + "=" + std::to_string(known[i]) + " ";
    all += "|";
    for (choice const& c : taken) {
        all += " " + std::to_string(c.thread) + "." + std::to_string(c.entry);
        for (std::size_t i = 0; i < c.count; ++i) all += ":" + std::to_string(c.arrivals[i]);
    }
    return all;
}

std::vector<choice> read(std::string const& schedule) {
    std::istringstream in{schedule};
    std::string item;
    while (in >> item && item != "|") {
        auto const equals = item.find('=');
        known[std::stoul(item) % known.size()] =
            static_cast<std::uint16_t>(std::stoul(item.substr(equals + 1)));
    }
    std::vector<choice> choices;
    while (in >> item) {
        choice c;
        std::istringstream parts{item};
        char mark = 0;
        parts >> c.thread >> mark >> c.entry;
        for (int of = 0; parts >> mark >> of;) c.add(of);
        choices.push_back(c);
    }
    return choices;
}

struct search {
    std::vector<std::byte> start;
    std::vector<level> path;  // as long as the longest execution so far; the first `depth` are in use
    std::size_t depth = 0;
    result found;

    void begin(std::function<scenario*()> const& make) {
        state = {};
        for (int t = 0; t < threads; ++t) prepare(t);
        {
            inside_is const in{true};
            explored = make();
        }
        save(start);
    }

    /// Restores the start and runs each thread to its first choice.
    void restart() {
        put_back(start);
        text.clear();
        for (int t = 0; t < threads && failure.empty(); ++t) run(t);
    }

    void random_walks(std::size_t count) {
        std::minstd_rand random{1};
        std::vector<choice> choices;
        for (std::size_t i = 0; i < count; ++i) {
            restart();
            for (std::size_t length = 0; length < how->longest && failure.empty(); ++length) {
                list_choices(choices);
                look(choices, length);
                if (choices.empty()) break;
                do_choice(choices[random() % choices.size()]);
            }
            failure.clear();  // the search finds it again, in order
        }
    }

    void enter(met_states& met) {
        if (path.size() == depth) path.emplace_back();
        level& here = path[depth];
        list_choices(here.choices);
        look(here.choices, depth);
        here.next = 0;
        here.executions = 0;
        if (here.choices.empty()) {
            ++found.ends;
            here.executions = 1;
        } else if (here.choices.size() > 1) save(here.saved);
        ++depth;
        found.deepest = std::max(found.deepest, depth - 1);
        found.states = met.size();
    }

    void explore_all() {
        met_states met;
        found = {};
        outcomes.clear();
        depth = 0;
        restart();
        path.resize(std::max<std::size_t>(path.size(), 1));
        path[0].key = hash_of_state();
        met.add(path[0].key);
        enter(met);
        while (depth != 0 && failure.empty() && !mistaken) {
            level& here = path[depth - 1];
            if (here.next == here.choices.size()) {
                met.find(here.key)->executions = here.executions;
                if (--depth != 0) path[depth - 1].executions += here.executions;
                continue;
            }
            if (here.next != 0) put_back(here.saved);
            do_choice(here.choices[here.next++]);
            ++found.steps;
            hash const key = hash_of_state();
            auto const [one, is_new] = met.add(key);
            if (!is_new) {
                if (one->executions < 0) ++found.cycles;
                else here.executions += one->executions;
                if (failure.empty()) continue;
            }
            if (met.size() > how->most_states) return;
            if (path.size() == depth) path.emplace_back();
            path[depth].key = key;
            enter(met);
        }
        found.executions = path[0].executions;
        found.outcomes.assign(outcomes.begin(), outcomes.end());
        found.complete = failure.empty() && !mistaken;
    }

    /// Repeats the path and records each step.
    void tell_failure() {
        std::vector<choice> taken;
        for (std::size_t i = 0; i < depth; ++i)
            if (path[i].next != 0) taken.push_back(path[i].choices[path[i].next - 1]);
        follow(taken, failure);
    }

    void follow(std::vector<choice> const& taken, std::string const& expected) {
        std::string const said = expected;
        std::vector<choice> choices;
        failure.clear();
        telling = true;
        restart();
        list_choices(choices);
        if (failure.empty()) look(choices, 0);
        for (std::size_t i = 0; i < taken.size() && failure.empty(); ++i) {
            do_choice(taken[i]);
            list_choices(choices);
            look(choices, i);
        }
        telling = false;
        if (failure.empty() && !said.empty()) failure = said;
        found.failure = failure.empty() ? "" : failure + "\n" + text;
        found.schedule = written(taken);
    }
};

result searched(options const& as, std::function<scenario*()> const& make) {
    how = &as;
    failure.clear();
    known.fill(0);
    telling = mistaken = false;
    reducing = as.reduce;
    forgiven = true;
    search s;
    s.begin(make);
    if (!as.schedule.empty()) {
        s.follow(read(as.schedule), "");
        return s.found;
    }
    if (reducing) s.random_walks(as.walks);
    forgiven = !reducing;
    do {
        mistaken = false;
        s.explore_all();
    } while (mistaken && failure.empty());
    if (!failure.empty()) s.tell_failure();
    return s.found;
}
}  // namespace

result explore(options const& as, int count, std::function<scenario*()> const& make) {
    if (count < 1 || count > most_threads || inside) std::abort();
    threads = count;
    std::vector<std::vector<std::byte>> globals;
    for (auto const& more : as.also) globals.emplace_back(more.begin(), more.end());
    auto const once = [&](options const& o) {
        result r = searched(o, make);
        for (std::size_t i = 0; i < globals.size(); ++i)
            std::copy(globals[i].begin(), globals[i].end(), as.also[i].begin());
        return r;
    };
    result const r = once(as);
    if (r.failure.empty() || !as.schedule.empty()) return r;
    options simpler = as;  // the same failure is easier to read with few switches
    for (simpler.preemptions = 0; simpler.preemptions < std::min<std::size_t>(as.preemptions, 4);
         ++simpler.preemptions)
        if (result few = once(simpler); !few.failure.empty()) return few;
    return r;
}
}  // namespace detail

std::string result::numbers() const {
    std::array<char, 256> line{};
    std::snprintf(line.data(), line.size(),
                  "%zu states, %zu steps, %zu ends, %.3g executions, the longest of %zu steps%s", states,
                  steps, ends, executions, deepest, complete ? "" : " (not complete)");
    return line.data();
}

}  // namespace model
