// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the threads of a scenario in every order of their atomic steps, under a model of the processor's store buffers.
//
// The threads are fibers of one system thread. All data that exists while they run (stacks, allocations, the scenario) is in memory of the
// model. So a state is a sequence of bytes that is saved, restored and compared, and the explored code can have no state that the search
// misses. search.cpp explains the algorithm.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace cuota::inline v0::detail {
struct thread_slot;
}

namespace model {

/// When stores become visible to other threads: immediately; later, in order (x86-64); or loosely, where relaxed stores may be reordered,
/// but stores to one place stay in order and a release store follows all earlier ones. Loads are never reordered.
enum class stores { at_once, in_order, loosely };

struct options {
    stores visible = stores::in_order;
    bool asymmetric = true;  ///< result of fences_are_asymmetric()
    bool reduce = true;      ///< omits orders that cannot change the result
    std::size_t preemptions = std::numeric_limits<std::size_t>::max();  ///< limit for an execution
    std::size_t walks = 200;                   ///< random walks before the search, which learn the omissions
    std::size_t longest = 2000;                ///< limit of steps of an execution; more are a failure
    std::size_t most_states = 50'000'000;      ///< limit after which the search gives up, incomplete
    std::string schedule{};                    ///< runs this schedule only: see result::schedule
    std::vector<std::span<std::byte>> also{};  ///< globals that the scenario changes
};

struct result {
    std::string failure;   ///< empty, or the failed claim and the steps that led to it, one per line
    std::string schedule;  ///< the same steps for options::schedule
    std::size_t states = 0;
    std::size_t steps = 0;    ///< transitions between states, also to known ones
    std::size_t ends = 0;     ///< distinct states in which all threads have finished
    std::size_t deepest = 0;  ///< steps of the longest execution
    std::size_t cycles = 0;   ///< transitions to a state on the current path: a thread spins
    double executions = 0;    ///< orders of the steps that were not omitted, except those that end in a cycle
    std::vector<std::uint64_t> outcomes{};  ///< values passed to outcome(), distinct, ascending
    bool complete = false;                  ///< all states were explored
    [[nodiscard]] std::string numbers() const;
};

/// A program to explore. Its constructor runs in the model's memory; its destructor is never called. It must not use a test framework, but
/// call check().
class scenario {
public:
    virtual ~scenario() = default;
    virtual void thread(int number) = 0;
    virtual void always() {}  ///< called in every state; must change nothing. See step()
    virtual void at_end() {}  ///< called when all threads have finished
};

/// Fails with the steps that led here, unless `holds`. The calling thread does not continue.
void check(bool holds, char const* claim);

/// Adds a value to result::outcomes. For always() and at_end().
void outcome(std::uint64_t value);

namespace detail {
using word = std::uint64_t;

enum class act : std::uint8_t {
    none,
    load,
    store,
    change,
    lock,
    try_lock,
    unlock,
    fence,
    asymmetric_fence_heavy,
    wait,
    step
};

struct site {
    char const* file = __builtin_FILE();
    int line = __builtin_LINE();
};

struct operation {
    act what = act::none;
    std::byte* at = nullptr;
    std::size_t size = 0;
    word value = 0;  // value of a store; value that a wait waits for, or waits to change
    bool until_gone = false;
    bool release = false;
    site where{};

    [[nodiscard]] bool may_go_on(word now) const { return (now == value) != until_gone; }
};

void before(operation const& next);  // a point where other threads may run; returns when `next` is to be done
void stored(operation const& op);    // stores into the thread's buffer
word seen(std::byte const* at, std::size_t size);  // the thread's own buffer comes first
void told(operation const& op, word value);        // the result, for the text of a failure
void asymmetric_fence_light(site where);
constexpr std::size_t late_size = 64;
void do_later(void (*act)(void*), void const* what, std::size_t size);
void forced_step();  // does the deferred action
[[nodiscard]] bool asymmetric();
[[nodiscard]] cuota::detail::thread_slot*& record();
[[nodiscard]] int self();  // -1 outside the threads
[[nodiscard]] result explore(options const& how, int threads, std::function<scenario*()> const& make);
}  // namespace detail

/// Explores all orders of `threads` threads of an S made with `args`.
template <class S, class... Args>
[[nodiscard]] result explore(options const& how, int threads, Args const&... args) {
    return detail::explore(how, threads, [&]() -> scenario* { return new S(args...); });
}

/// Does one visible step of the scenario's own. Data that always() reads, other than atomics, must be changed in such a step: other code of
/// the scenario runs together with the step before it.
template <class Do>
void step(Do act, detail::site where = {}) {
    detail::operation const op{.what = detail::act::step, .where = where};
    detail::before(op);
    detail::told(op, 0);
    act();
}

/// For records of the history, which find more the later an operation is recorded as begun and the earlier as ended. Runs `act` immediately
/// before the thread's next step, or before a store made since then arrives. It adds no step.
template <class Do>
void just_before_next(Do act) {
    static_assert(std::is_trivially_copyable_v<Do> && sizeof(Do) <= detail::late_size,
                  "capture a few pointers and numbers");
    detail::do_later([](void* what) { (*static_cast<Do*>(what))(); }, &act, sizeof act);
}

/// Runs `act` immediately, as part of the thread's last step. If the thread has made no step since just_before_next, it makes one.
template <class Do>
void just_after_last(Do act) {
    detail::forced_step();
    act();
}

}  // namespace model
