// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the threads of a scenario in every order of their atomic steps, under a model of the processor's store buffers.
//
// The threads are fibers of one system thread. All that lives while they run (their stacks, what they allocate, the
// scenario) lies in memory of the model's own, so a state is its bytes: it is saved, put back and recognised as such,
// and nothing that the explored code remembers can be forgotten by the search. How it works is told in search.cpp.

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
struct thread_record;
}

namespace model {

/// How stores reach the others: at once; in order, some time after (x86-64); or relaxed ones even out of order, but
/// those to one place in order and a release store after all before it. Loads are never out of order.
enum class stores { at_once, in_order, loosely };

struct options {
    stores visible = stores::in_order;
    bool asymmetric = true;  ///< what fences_are_asymmetric() says
    bool reduce = true;      ///< leaves out orders that cannot matter
    std::size_t preemptions = std::numeric_limits<std::size_t>::max();  ///< at most so many per execution
    std::size_t walks = 200;                   ///< random ones ahead, to learn what need not be explored
    std::size_t longest = 2000;                ///< steps of an execution; more are a failure
    std::size_t most_states = 50'000'000;      ///< then it gives up: not complete
    std::string schedule{};                    ///< runs this one only: result::schedule
    std::vector<std::span<std::byte>> also{};  ///< globals that the scenario changes
};

struct result {
    std::string failure;   ///< empty, or what failed and the steps that led there, one line each
    std::string schedule;  ///< the same steps for options::schedule
    std::size_t states = 0;
    std::size_t steps = 0;    ///< between states, those to a known one included
    std::size_t ends = 0;     ///< different states in which all threads were done
    std::size_t deepest = 0;  ///< steps of the longest execution
    std::size_t cycles = 0;   ///< ways back to a state before: somebody spins
    double executions = 0;    ///< orders of the steps that were not left out, ends by cycles not counted
    std::vector<std::uint64_t> outcomes{};  ///< what outcome() was told, each once, the least first
    bool complete = false;                  ///< everything was explored
    [[nodiscard]] std::string numbers() const;
};

/// What is explored: its constructor sets up, in the model's memory, and its destructor is never run.
/// Nothing of a test framework may be used inside; say check().
class scenario {
public:
    virtual ~scenario() = default;
    virtual void thread(int number) = 0;
    virtual void always() {}  ///< asked in every state; must change nothing. See step()
    virtual void at_end() {}  ///< asked when all threads are done
};

/// A failure, with the steps that led here, unless `holds`. The thread that says it goes no further.
void check(bool holds, char const* claim);

/// For always() and at_end(): one of the values of result::outcomes.
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
    heavy_fence,
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
    word value = 0;  // of a store; what is waited for, or to be gone
    bool until_gone = false;
    bool release = false;
    site where{};

    [[nodiscard]] bool may_go_on(word now) const { return (now == value) != until_gone; }
};

void before(operation const& next);  // where others may come in; returns when `next` can be done and is to be
void stored(operation const& op);    // a store, into the thread's buffer
word seen(std::byte const* at, std::size_t size);  // own buffer first
void told(operation const& op, word value);        // what came of it, for the text of a failure
void light_fence(site where);
constexpr std::size_t late_size = 64;
void do_later(void (*act)(void*), void const* what, std::size_t size);
void forced_step();  // does what is put off
[[nodiscard]] bool asymmetric();
[[nodiscard]] cuota::detail::thread_record*& record();
[[nodiscard]] int self();  // -1 outside the threads
[[nodiscard]] result explore(options const& how, int threads, std::function<scenario*()> const& make);
}  // namespace detail

/// All orders of the `threads` of an S made with `args`.
template <class S, class... Args>
[[nodiscard]] result explore(options const& how, int threads, Args const&... args) {
    return detail::explore(how, threads, [&]() -> scenario* { return new S(args...); });
}

/// One visible step of the scenario's own. What always() reads, other than atomics, must be changed in one of these:
/// other code of the scenario is done together with the step before it.
template <class Do>
void step(Do act, detail::site where = {}) {
    detail::operation const op{.what = detail::act::step, .where = where};
    detail::before(op);
    detail::told(op, 0);
    act();
}

/// For books on what happens, which find more the later an operation is said to begin and the earlier it is said to
/// have ended: `act` is done with the thread's next step, just before it, or before a store made since then arrives.
/// It costs no step of its own.
template <class Do>
void just_before_next(Do act) {
    static_assert(std::is_trivially_copyable_v<Do> && sizeof(Do) <= detail::late_size,
                  "capture a few pointers and numbers");
    detail::do_later([](void* what) { (*static_cast<Do*>(what))(); }, &act, sizeof act);
}

/// And `act` is done with the thread's last step, at once, if there was one since just_before_next.
template <class Do>
void just_after_last(Do act) {
    detail::forced_step();
    act();
}

}  // namespace model
