// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Lists the choices of a state: which thread takes the next step, and which stores arrive before it.
//
// A store can arrive, that is become visible to all threads, at any time. The time matters only when a thread reads or overwrites the
// place, or waits for the buffer to be empty. So with options::reduce, and except for stores::loosely, it arrives together with the first
// step that depends on it: any execution can be changed into one of these, with the same results of all loads, by delaying arrivals past
// steps that do not depend on them. Arrivals on which no step depends come last, when all threads have finished or may be stuck. A place
// that always() reads counts as read in every state.

#include "model/engine.hpp"

namespace model::detail {
namespace {
bool may_arrive(fiber const& f, std::size_t which) {
    if (which == 0) return true;
    auto const& e = f.buffer[which];
    if (how->visible != stores::loosely || e.release) return false;
    return std::none_of(f.buffer.begin(), f.buffer.begin() + static_cast<std::ptrdiff_t>(which),
                        [&](entry const& earlier) { return overlap(earlier, e.at, e.size); });
}

bool needs_empty_buffer(operation const& op) {
    return op.what != act::load && op.what != act::store && op.what != act::wait && op.what != act::step;
}

template <class Fits>
bool any_stored(int of, std::size_t first, Fits fits) {
    auto const& buffer = at(of).buffer;
    return std::any_of(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(first), fits);
}

/// The steps of a thread, each with the stores that may arrive before it.
class groups {
public:
    groups(int thread, std::vector<choice>& into) : thread_{thread}, op_{at(thread).next}, into_{into} {
        if (op_.what != act::none) choose(0);
    }

private:
    // Chooses how many stores of each buffer arrive.
    void choose(int of) {
        if (of == threads) return order_if_needed();
        fiber const& f = at(of);
        std::size_t least = 0;
        if (of == thread_ && needs_empty_buffer(op_)) least = f.stored;
        if (of != thread_ && op_.what == act::asymmetric_fence_heavy && how->asymmetric) least = f.fenced;
        auto& here = count(of);
        for (here = least; here <= f.stored; ++here)
            if (here == least || may_be_needed(of, f.buffer[here - 1])) choose(of + 1);
        here = 0;
    }
    bool may_be_needed(int of, entry const& e) const {
        if (of != thread_ && op_.at && overlap(e, op_.at, op_.size)) return true;
        return meets_another(of, e, [](int t) { return at(t).stored; });
    }
    template <class Count>
    bool meets_another(int of, entry const& e, Count first) const {
        for (int t = 0; t < threads; ++t)
            if (t != of && any_stored(t, first(t), [&](entry const& o) { return overlap(o, e.at, e.size); }))
                return true;
        return false;
    }
    // Stores that overlap stores of other threads arrive in every order; otherwise the order does not matter.
    void order_if_needed() {
        bool matters = false;
        for (int t = 0; t < threads; ++t)
            matters = matters || any_stored(t, count(t), [&](entry const& e) {
                          return meets_another(t, e, [&](int o) { return count(o); });
                      });
        order({}, matters);
    }
    void order(choice const& so_far, bool every) {
        bool complete = true;
        for (int t = 0; t < threads && (complete || every); ++t) {
            if (count(t) == 0) continue;
            complete = false;
            choice next = so_far;
            if (!next.add(t)) return fail("more stores are under way than a choice holds");
            --count(t);
            order(next, every);
            ++count(t);
        }
        if (!complete) return;
        choice last = so_far;
        last.thread = thread_;
        if (can_after(last)) into_.push_back(last);
    }
    bool can_after(choice const& c) const {
        if (op_.what == act::lock) return in_memory(op_.at, op_.size) == 0;
        if (op_.what != act::wait) return true;
        std::array<std::size_t, most_threads> gone{};
        word value = in_memory(op_.at, op_.size);
        for (std::size_t i = 0; i < c.count; ++i) {
            int const t = c.arrivals[i];
            entry const& e = at(t).buffer[gone[static_cast<std::size_t>(t)]++];
            if (overlap(e, op_.at, op_.size)) value = e.value;
        }
        fiber const& me = at(thread_);
        for (std::size_t i = gone[static_cast<std::size_t>(thread_)]; i < me.stored; ++i)
            if (overlap(me.buffer[i], op_.at, op_.size)) value = me.buffer[i].value;
        return op_.may_go_on(value);
    }
    std::size_t& count(int of) { return counts_[static_cast<std::size_t>(of)]; }

    int thread_;
    operation const& op_;
    std::vector<choice>& into_;
    std::array<std::size_t, most_threads> counts_{};  // number of arriving stores of each thread
};

}  // namespace

bool all_done() {
    return std::all_of(state.fibers.begin(), state.fibers.begin() + threads,
                       [](fiber const& f) { return f.done; });
}

namespace {
bool arrivals_wait() { return reducing && how->visible != stores::loosely; }

void list_steps(int thread, std::vector<choice>& into) {
    if (arrivals_wait()) return void(groups{thread, into});
    choice c;
    c.thread = thread;
    if (can(at(thread), at(thread).next)) into.push_back(c);
}

/// Returns true if the thread may be stuck when the last stores have arrived.
bool may_end(fiber const& f) {
    return f.done || f.next.what == act::wait ||
           (f.next.what == act::lock && in_memory(f.next.at, f.next.size) != 0);
}

/// Lists arrivals as separate choices: all without reduction, otherwise those that always() would see and the last ones.
void list_arrivals(std::vector<choice>& into) {
    bool const some =
        arrivals_wait() && !std::all_of(state.fibers.begin(), state.fibers.begin() + threads, may_end);
    auto const is_seen = [](entry const& e) { return !known_of(e.at) || (*known_of(e.at) & by_always) != 0; };
    for (int t = 0; t < threads; ++t) {
        if (some && !any_stored(t, at(t).stored, is_seen)) continue;
        for (std::size_t i = 0; i < at(t).stored; ++i)
            if (may_arrive(at(t), i)) into.push_back(choice::arrival(t, i));
    }
}

}  // namespace

void list_choices(std::vector<choice>& into) {
    into.clear();
    list_arrivals(into);
    auto const before = into.size();
    if (state.last >= 0) list_steps(state.last, into);
    bool const goes_on = into.size() != before;
    if (goes_on && state.preempted >= how->preemptions) return;
    auto const own = into.size();
    for (int t = 0; t < threads; ++t)
        if (t != state.last) list_steps(t, into);
    for (std::size_t i = own; i < into.size(); ++i) into[i].preempts = goes_on;
}

}  // namespace model::detail
