// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// The search behind interleavings.hpp. A fiber stops before each of its steps and tells which one; the search picks who
// goes on. It is depth-first, puts saved bytes back to try the next choice, and goes on from no state twice (by 128 bits
// of hash over all bytes: stacks in use with the saved registers, allocations, store buffers).
//
// A step that needs an empty store buffer (a locked instruction, a fence) waits; emptying is a choice of its own, entry
// by entry. heavy_fence waits until no other buffer holds what was stored before its owner's latest light_fence: not
// more, so a light fence that is missing is seen, though the code runs in program order here.
//
// What options::reduce leaves out: a step that commutes with all that the other threads may do before it, and that
// always() cannot see, is done at once, with the step before it. That is
//   - a store into the own buffer: nobody sees it, and it hinders no fence while no light_fence follows;
//   - any access to a place that one thread alone uses, and a load from a place that nobody changes; the former leaves
//     the buffer at once too. Which these are is learnt while exploring, from random walks at first: whenever a place
//     turns out to be used otherwise, all is explored again. This is sound because the first use that breaks the belief
//     does not depend on the step that was done early, so it still happens in the reduced search and is noticed there;
//   - the unlocking of a mutex that nobody try_locks: whoever wants it can only wait.
// light_fence is no step: it may as well be done with the next one, as it only hinders others.

#include "model/interleavings.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <sys/mman.h>
#include <utility>

// Saves the registers that a call preserves on the stack, its end in *from, and goes on from `to`.
extern "C" void model_switch(std::byte** from, std::byte* to);
asm(R"(
.text
.globl model_switch
.type model_switch, @function
model_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size model_switch, . - model_switch
)");

namespace model {
namespace {
using namespace detail;

constexpr int most_threads = 4;
constexpr std::size_t heap_size = 1U << 18U, stack_size = 1U << 16U, buffer_size = 24;
constexpr std::size_t guard_size = 4096, cleared = 1024;
constexpr char const* too_long = "an execution is longer than options::longest";
constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();

struct entry {
    std::byte* at;
    std::size_t size;
    word value;
    bool release;
};

struct hash {
    word a = 0x243f6a8885a308d3, b = 0x13198a2e03707344;
    friend bool operator==(hash const&, hash const&) = default;

    static word fold(word x, word y) {
        __extension__ using wide = unsigned __int128;
        auto const product = static_cast<wide>(x) * y;
        return static_cast<word>(product) ^ static_cast<word>(product >> 64U);
    }
    void mix(word x, word y) {
        a = fold(a ^ x ^ 0xa4093822299f31d0, y ^ 0x9e3779b97f4a7c15) + y;
        b = fold(b ^ y ^ 0x082efa98ec4e6c89, x ^ 0xd1b54a32d192ed03) + x;
    }
    void bytes(std::byte const* from, std::size_t size) {
        for (; size >= 16; from += 16, size -= 16) {
            std::array<word, 2> two;
            std::memcpy(two.data(), from, 16);
            mix(two[0], two[1]);
        }
        std::array<word, 2> rest{};
        std::memcpy(rest.data(), from, size);
        mix(rest[0], rest[1] + size);
    }
};

/// A thread of the scenario. Part of the saved bytes.
struct fiber {
    std::byte* stack = nullptr;  // the lower end of what is in use
    hash stack_hash{};
    bool done = false;
    operation next{};
    std::size_t stored = 0, fenced = 0,
                to_fence = 0;  // entries; those before a light_fence; before one not yet done
    std::array<entry, buffer_size> buffer{};
    cuota::detail::thread_record* record = nullptr;
    void (*late)(void*) = nullptr;  // just_before_next()
    std::array<word, late_size / sizeof(word)> late_for{};
    std::size_t late_from = 0;          // the first store after it
    std::array<void*, 2> exceptions{};  // what the runtime keeps per thread about those in flight
};

struct shared_state {
    std::array<std::size_t, most_threads + 1> allocated{};  // the last heap: what no thread allocated
    cuota::detail::thread_record* outside_record = nullptr;
    int last = -1;  // who ran, and how often it was stopped though it could go on: with options::preemptions
    std::size_t preempted = 0;
    std::array<fiber, most_threads> fibers{};
} state;

/// Stores arrive, the oldest of each named buffer in turn; then a thread does its step. Without reduction it is a step
/// alone, or one arrival (no thread).
struct choice {
    int thread = -1;
    int entry = 0;  // which store of the first named buffer arrives, where that need not be the oldest
    bool preempts = false;
    std::uint8_t count = 0;
    std::array<std::int8_t, 32> arrivals{};

    static choice arrival(int of, std::size_t which) {
        choice c;
        c.entry = static_cast<int>(which);
        c.add(of);
        return c;
    }
    bool add(int of) {
        if (count == arrivals.size()) return false;
        arrivals[count++] = static_cast<std::int8_t>(of);
        return true;
    }
};

// What is known of a place: bits of the threads that use it, and these.
constexpr std::uint16_t by_always = 1U << 8U, is_written = 1U << 9U, is_tried = 1U << 10U;

struct memory {
    std::byte* heaps = static_cast<std::byte*>(map((most_threads + 1) * heap_size));
    std::byte* stacks = static_cast<std::byte*>(map(most_threads * stack_size));
    memory() {
        for (int t = 0; t < most_threads; ++t) mprotect(top(t) - stack_size, guard_size, PROT_NONE);
    }
    static void* map(std::size_t size) {
        void* const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) std::abort();
        return p;
    }
    [[nodiscard]] std::byte* heap(std::size_t number) const { return heaps + number * heap_size; }
    [[nodiscard]] std::byte* top(int thread) const {
        return stacks + (static_cast<std::size_t>(thread) + 1) * stack_size;
    }
    [[nodiscard]] bool has(void const* p) const {
        auto const* const at = static_cast<std::byte const*>(p);
        return at >= heaps && at < heaps + (most_threads + 1) * heap_size;
    }
};

options const* how = nullptr;
scenario* explored = nullptr;
int threads = 0;
int running = -1;
std::size_t run_length = 0;  // steps done at once since the last choice
bool asking = false;         // in always()
bool forgiven = true;        // what is learnt needs no new start: nothing has been left out yet
bool mistaken = false;
bool reducing = false;
bool telling = false;
std::byte* search_stack = nullptr;
std::string failure, text;
std::set<std::uint64_t> outcomes;
std::array<std::uint16_t, (most_threads + 1) * heap_size> known;

thread_local bool inside = false;  // code of the scenario runs: it allocates from the model's memory
struct [[nodiscard]] inside_is {
    bool before;
    explicit inside_is(bool now) : before{std::exchange(inside, now)} {}
    inside_is(inside_is const&) = delete;
    inside_is& operator=(inside_is const&) = delete;
    ~inside_is() { inside = before; }
};

memory const& world() {
    static memory const it;
    return it;
}

void fail(std::string const& what) {
    if (failure.empty()) failure = what;
    if (running >= 0) model_switch(&state.fibers[static_cast<std::size_t>(running)].stack, search_stack);
}

// ---- What a thread's step needs.

fiber& at(int thread) { return state.fibers[static_cast<std::size_t>(thread)]; }

bool is_saved(std::byte const* place) {
    auto const names = [&](auto const& more) {
        return place >= more.data() && place < more.data() + more.size();
    };
    return world().has(place) || (place >= world().stacks && place < world().top(most_threads - 1)) ||
           running < 0 || std::any_of(how->also.begin(), how->also.end(), names);
}

word in_memory(std::byte const* at, std::size_t size) {
    word value = 0;
    std::memcpy(&value, at, size);
    return value;
}

bool overlap(entry const& e, std::byte const* at, std::size_t size) {
    return e.at < at + size && at < e.at + e.size;
}

word seen_by(fiber const& by, std::byte const* at, std::size_t size) {
    for (std::size_t i = by.stored; i-- > 0;)
        if (overlap(by.buffer[i], at, size)) return by.buffer[i].value;
    return in_memory(at, size);
}

bool others_have_fenced(fiber const& but) {
    return std::any_of(state.fibers.begin(), state.fibers.begin() + threads,
                       [&](fiber const& f) { return &f != &but && f.fenced != 0; });
}

bool can(fiber const& f, operation const& op) {
    switch (op.what) {
        case act::none: return false;
        case act::load:
        case act::store:
        case act::step: return true;
        case act::wait: return seen_by(f, op.at, op.size) == op.value;
        case act::lock: return f.stored == 0 && in_memory(op.at, op.size) == 0;
        case act::heavy_fence: return f.stored == 0 && !(how->asymmetric && others_have_fenced(f));
        default: return f.stored == 0;
    }
}

bool may_arrive(fiber const& f, std::size_t entry) {
    if (entry == 0) return true;
    if (how->visible != stores::loosely || f.buffer[entry].release) return false;
    auto const& e = f.buffer[entry];
    return std::none_of(f.buffer.begin(), f.buffer.begin() + static_cast<std::ptrdiff_t>(entry),
                        [&](model::entry const& earlier) { return overlap(earlier, e.at, e.size); });
}

// ---- What is known of places.

std::uint16_t* known_of(std::byte const* place) {
    return world().has(place) ? &known[static_cast<std::size_t>(place - world().heaps)] : nullptr;
}

bool is_shared(std::uint16_t known_here) {
    return (known_here & is_written) != 0 && std::popcount(known_here & (is_written - 1U)) > 1;
}

bool is_shared(std::byte const* place) {
    auto const* const here = known_of(place);
    return !here || is_shared(*here);
}

void learn(operation const& op) {
    if (!op.at || (running < 0 && !asking)) return;
    auto* const here = known_of(op.at);
    if (!here) return;
    bool const was = is_shared(*here);
    bool const reads = op.what == act::load || op.what == act::wait;
    unsigned now = *here | (running < 0 ? by_always : 1U << static_cast<unsigned>(running));
    if (!reads) now |= is_written;
    if (op.what == act::try_lock) now |= is_tried;
    bool const is = is_shared(static_cast<std::uint16_t>(now));
    if (!forgiven && (was != is || (now & ~*here & (is_tried | by_always)) != 0)) mistaken = true;
    *here = static_cast<std::uint16_t>(now);
}

bool is_nobodys_business(fiber const& f, operation const& op) {
    if (op.what == act::fence) return can(f, op);
    if (!reducing || op.what == act::step || op.what == act::heavy_fence || !can(f, op)) return false;
    if (op.what == act::unlock) return known_of(op.at) && (*known_of(op.at) & is_tried) == 0 && !f.late;
    return !is_shared(op.at);
}

// ---- The text of a failure.

std::string name_of(std::byte const* place) {
    static std::map<std::byte const*, std::size_t> names;
    if (text.empty()) names.clear();
    return "#" + std::to_string(names.emplace(place, names.size() + 1).first->second);
}

char const* word_for(act what) {
    static constexpr std::array words{"",         "load",   "store",       "change",      "lock",
                                      "try_lock", "unlock", "light fence", "heavy fence", "waited for",
                                      "step"};
    return words[static_cast<std::size_t>(what)];
}

void tell(int thread, int entry, operation const& op, word value) {
    std::string line =
        "  thread " + std::to_string(thread) + "  " + (entry < 0 ? word_for(op.what) : "  arrives:");
    if (op.at) line += " " + name_of(op.at);
    if (op.at && op.what != act::lock && op.what != act::unlock && op.what != act::try_lock)
        line += (op.what == act::load || op.what == act::wait ? " is " : " = ") +
                (value < 1'000'000'000      ? std::to_string(value)
                 : value > ~word{1'000'000} ? "-" + std::to_string(-value)
                                            : "(large)");
    if (op.where.file && entry < 0)
        line += "  (" +
                std::string{std::strrchr(op.where.file, '/') ? std::strrchr(op.where.file, '/') + 1
                                                             : op.where.file} +
                ":" + std::to_string(op.where.line) + ")";
    text += line + "\n";
}

// ---- States: saved, put back, recognised.

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
    for_all_bytes([&](std::byte* to, std::size_t size) {  // the first bytes tell where the others go
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
                  f.buffer[i].value ^ (word{f.buffer[i].release} << 63U));
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

/// The states that were met, each with the number of executions from there on: negative while it is on the path.
class met_states {
public:
    struct one {
        hash key{0, 0};
        double executions = 0;
    };
    /// The state's entry, and whether it is new.
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

// ---- Running a thread.

void take_over(std::array<void*, 2>& exceptions) {
    auto* const runtime = reinterpret_cast<std::byte*>(abi::__cxa_get_globals());
    std::array<void*, 2> before;
    std::memcpy(before.data(), runtime, sizeof before);
    std::memcpy(runtime, exceptions.data(), sizeof before);
    exceptions = before;
}

void thread_starts() {
    try {
        explored->thread(running);
        forced_step();
    } catch (...) { fail("an exception left the thread"); }
    fiber& me = at(running);
    me.done = true;
    me.next = {};
    model_switch(&me.stack, search_stack);
}

/// What lies below the stack in use is left of some step before, and would make equal states look different.
__attribute__((noinline)) void clear_below() {
    std::array<std::byte, cleared> below;
    std::memset(below.data(), 0, cleared);
    asm volatile("" : : "r"(below.data()) : "memory");
}

/// Until its next choice.
void run(int thread) {
    fiber& f = at(thread);
    running = thread;
    run_length = 0;
    std::memset(f.stack - cleared, 0, cleared);
    take_over(f.exceptions);
    {
        inside_is const in{true};
        model_switch(&search_stack, f.stack);
    }
    running = -1;
    take_over(f.exceptions);
    f.stack_hash = {};
    f.stack_hash.bytes(f.stack, static_cast<std::size_t>(world().top(thread) - f.stack));
}

void prepare(int thread) {
    std::byte* const top = world().top(thread);
    std::memset(top - 256, 0, 256);
    void (*const start)() = thread_starts;
    std::memcpy(top - 16, &start, sizeof start);
    at(thread) = {};
    at(thread).stack = top - 64;  // six registers, where to start, no caller
}

void do_late(fiber& of) {
    inside_is const in{true};
    if (auto* const act = std::exchange(of.late, nullptr)) act(of.late_for.data());
}

void arrive(int thread, std::size_t which) {
    fiber& f = at(thread);
    if (which >= f.late_from && is_shared(f.buffer[which].at)) do_late(f);
    entry const e = f.buffer[which];
    std::memcpy(e.at, &e.value, e.size);
    for (std::size_t i = which + 1; i < f.stored; ++i) f.buffer[i - 1] = f.buffer[i];
    f.buffer[--f.stored] = {};
    f.fenced -= which < f.fenced;
    f.to_fence -= which < f.to_fence;
    f.late_from -= which < f.late_from;
    if (!telling) return;
    inside_is const out{false};
    tell(thread, static_cast<int>(which), {.what = act::store, .at = e.at}, e.value);
}

void let_private_arrive(int thread) {
    while (reducing && at(thread).stored != 0 && !is_shared(at(thread).buffer[0].at)) arrive(thread, 0);
}

void do_choice(choice const& c) {
    for (std::size_t i = 0; i < c.count; ++i) {
        arrive(c.arrivals[i], static_cast<std::size_t>(c.entry));
        let_private_arrive(c.arrivals[i]);
    }
    if (c.thread < 0) return;
    state.preempted += c.preempts;
    state.last = c.thread;
    run(c.thread);
}

// ---- Which choices there are.

bool needs_empty_buffer(operation const& op) {
    return op.what != act::load && op.what != act::store && op.what != act::wait && op.what != act::step;
}

template <class Fits>
bool any_stored(int of, std::size_t first, Fits fits) {
    auto const& buffer = at(of).buffer;
    return std::any_of(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(first), fits);
}

/// The steps of a thread with what must arrive for them, no store earlier than it has to: see the top of this file.
class groups {
public:
    groups(int thread, std::vector<choice>& into) : thread_{thread}, op_{at(thread).next}, into_{into} {
        if (op_.what != act::none) choose(0);
    }

private:
    // How many stores of each buffer.
    void choose(int of) {
        if (of == threads) return order_if_needed();
        fiber const& f = at(of);
        std::size_t least = 0;
        if (of == thread_ && needs_empty_buffer(op_)) least = f.stored;
        if (of != thread_ && op_.what == act::heavy_fence && how->asymmetric) least = f.fenced;
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
    // Stores that others overwrite, or the other way round, arrive in every order; else it does not matter.
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
        return value == op_.value;
    }
    std::size_t& count(int of) { return counts_[static_cast<std::size_t>(of)]; }

    int thread_;
    operation const& op_;
    std::vector<choice>& into_;
    std::array<std::size_t, most_threads> counts_{};  // so many stores of each thread arrive
};

bool all_done() {
    return std::all_of(state.fibers.begin(), state.fibers.begin() + threads,
                       [](fiber const& f) { return f.done; });
}

bool arrivals_wait() { return reducing && how->visible != stores::loosely; }

void list_steps(int thread, std::vector<choice>& into) {
    if (arrivals_wait()) return void(groups{thread, into});
    choice c;
    c.thread = thread;
    if (can(at(thread), at(thread).next)) into.push_back(c);
}

/// When the last stores have arrived, nobody may be able to go on.
bool may_end(fiber const& f) {
    return f.done || f.next.what == act::wait ||
           (f.next.what == act::lock && in_memory(f.next.at, f.next.size) != 0);
}

/// Arrivals as choices of their own: all without reduction, else those that always() would see and the last ones.
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

/// After a step: what always() and at_end() say, and whether anybody can go on.
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

/// What is known of places, as that decides what is a choice; then the choices.
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

    /// Until each thread's first choice.
    void restart() {
        put_back(start);
        text.clear();
        for (int t = 0; t < threads && failure.empty(); ++t) run(t);
    }

    void random_walks(int count) {
        std::minstd_rand random{1};
        std::vector<choice> choices;
        for (int i = 0; i < count; ++i) {
            restart();
            for (std::size_t length = 0; length < how->longest && failure.empty(); ++length) {
                list_choices(choices);
                look(choices, length);
                if (choices.empty()) break;
                do_choice(choices[random() % choices.size()]);
            }
            failure.clear();  // will be found again, in order
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

    /// The same path once more, every step of it told.
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
    if (reducing) s.random_walks(200);
    forgiven = !reducing;
    do {
        mistaken = false;
        s.explore_all();
    } while (mistaken && failure.empty());
    if (!failure.empty()) s.tell_failure();
    return s.found;
}
}  // namespace

// ---- What the scenario's code calls.

void check(bool holds, char const* claim) {
    if (holds) return;
    inside_is const out{false};
    fail(claim);
}

void outcome(std::uint64_t value) {
    inside_is const out{false};
    if (forgiven && reducing) return;  // a random walk
    outcomes.insert(value);
}

namespace detail {
void before(operation const& op) {
    learn(op);
    if (op.at && !is_saved(op.at)) fail("an atomic or a mutex is a global that options::also does not name");
    if (running < 0) {  // the scenario is being set up, or asked
        inside_is const out{false};
        if (op.what == act::lock && in_memory(op.at, op.size) != 0)
            fail("at the end, or in always(), a mutex is held");
        if (op.what == act::wait && in_memory(op.at, op.size) != op.value)
            fail("at the end, or in always(), somebody would wait");
        return;
    }
    fiber& me = at(running);
    if (is_nobodys_business(me, op) && ++run_length <= how->longest) return clear_below();
    if (run_length > how->longest) {
        inside_is const out{false};
        fail(too_long);
    }
    me.next = op;
    model_switch(&me.stack, search_stack);
    me.fenced = me.to_fence;
    do_late(me);
}

void do_later(void (*act)(void*), void const* what, std::size_t size) {
    forced_step();
    if (running < 0) return act(const_cast<void*>(what));
    fiber& me = at(running);
    me.late = act;
    me.late_from = me.stored;
    me.late_for = {};
    std::memcpy(me.late_for.data(), what, size);
}

void forced_step() {
    operation const op{.what = act::step};
    if (running < 0 || !at(running).late) return;
    before(op);
    told(op, 0);
}

void stored(operation const& op) {
    learn(op);
    if (running < 0 || how->visible == stores::at_once) {
        before(op);
        std::memcpy(op.at, &op.value, op.size);
        return told(op, op.value);
    }
    if (!reducing) before(op);
    fiber& me = at(running);
    if (me.stored == buffer_size) {
        inside_is const out{false};
        fail("more stores are under way than the model's buffer holds");
    }
    me.buffer[me.stored++] = {op.at, op.size, op.value, op.release};
    told(op, op.value);
    let_private_arrive(running);
    clear_below();
}

word seen(std::byte const* at, std::size_t size) {
    return running < 0 ? in_memory(at, size) : seen_by(model::at(running), at, size);
}

void told(operation const& op, word value) {
    if (!telling || running < 0) return;
    inside_is const out{false};
    tell(running, -1, op, value);
}

void light_fence(site where) {
    if (running < 0) return;
    operation const op{.what = act::fence, .where = where};
    if (how->asymmetric) at(running).to_fence = at(running).stored;
    else if (at(running).stored != 0) before(op);
    told(op, 0);
}

bool asymmetric() { return how->asymmetric; }
cuota::detail::thread_record*& record() { return running < 0 ? state.outside_record : at(running).record; }
int self() { return running; }

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
    options simpler = as;  // the same is easier to read with few switches
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

// ---- Allocation: code of the scenario gets memory that is part of the state, each thread from a heap of its own, so
// that addresses do not depend on the order. Nothing is used twice.

extern "C" {
void* __libc_malloc(std::size_t size) noexcept;
void* __libc_calloc(std::size_t count, std::size_t size) noexcept;
void* __libc_realloc(void* p, std::size_t size) noexcept;
void* __libc_memalign(std::size_t align, std::size_t size) noexcept;
void __libc_free(void* p) noexcept;

static void* from_model(std::size_t size, std::size_t align) {
    using namespace model;
    std::size_t const heap = running < 0 ? most_threads : static_cast<std::size_t>(running);
    std::size_t& used = state.allocated[heap];
    std::size_t const from = (used + 16 + align - 1) / align * align;  // its size lies before it
    if (size > heap_size || from + size > heap_size) std::abort();
    std::memset(world().heap(heap) + used, 0, from + size - used);
    used = (from + size + 15) / 16 * 16;
    std::byte* const p = world().heap(heap) + from;
    std::memcpy(p - sizeof size, &size, sizeof size);
    return p;
}

void* malloc(std::size_t size) noexcept { return model::inside ? from_model(size, 16) : __libc_malloc(size); }
void free(void* p) noexcept {
    if (p && !model::world().has(p)) __libc_free(p);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
    return model::inside ? from_model(count * size, 16) : __libc_calloc(count, size);
}
void* realloc(void* p, std::size_t size) noexcept {
    if (!model::inside) return __libc_realloc(p, size);
    void* const moved = from_model(size, 16);
    std::size_t before = 0;
    if (p && model::world().has(p))
        std::memcpy(&before, static_cast<std::byte*>(p) - sizeof before, sizeof before);
    else if (p) std::abort();
    if (p) std::memcpy(moved, p, std::min(before, size));
    return moved;
}
void* memalign(std::size_t align, std::size_t size) noexcept {
    return model::inside ? from_model(size, std::max<std::size_t>(align, 16)) : __libc_memalign(align, size);
}
void* aligned_alloc(std::size_t align, std::size_t size) noexcept { return memalign(align, size); }
int posix_memalign(void** p, std::size_t align, std::size_t size) noexcept {
    *p = memalign(align, size);
    return *p ? 0 : 12;
}
}
