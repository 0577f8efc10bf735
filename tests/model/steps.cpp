// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Does the accesses of threads. Steps that no other thread can observe are done immediately.

#include <cxxabi.h>
#include <map>

#include "model/engine.hpp"

// Saves the callee-saved registers on the stack and its end in *from, and continues at `to`.
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
namespace detail {
void fail(char const* what) {
    inside_is const out{false};
    if (failure.empty()) failure = what;
    if (running >= 0) model_switch(&at(running).stack, search_stack);
}

namespace {
bool is_saved(std::byte const* place) {
    auto const names = [&](auto const& more) {
        return place >= more.data() && place < more.data() + more.size();
    };
    return world().has(place) || (place >= world().stacks && place < world().top(most_threads - 1)) ||
           running < 0 || std::any_of(how->also.begin(), how->also.end(), names);
}

bool others_have_fenced(fiber const& but) {
    return std::any_of(state.fibers.begin(), state.fibers.begin() + threads,
                       [&](fiber const& f) { return &f != &but && f.fenced != 0; });
}

}  // namespace

bool can(fiber const& f, operation const& op) {
    switch (op.what) {
        case act::none: return false;
        case act::load:
        case act::store:
        case act::step: return true;
        case act::wait: return op.may_go_on(seen_by(f, op.at, op.size));
        case act::lock: return f.stored == 0 && in_memory(op.at, op.size) == 0;
        case act::asymmetric_fence_heavy: return f.stored == 0 && !(how->asymmetric && others_have_fenced(f));
        default: return f.stored == 0;
    }
}

namespace {

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
    if (!reducing || op.what == act::step || op.what == act::asymmetric_fence_heavy || !can(f, op))
        return false;
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

/// Clears the bytes below the stack in use: values left there by earlier steps would make equal states look different.
__attribute__((noinline)) void clear_below() {
    std::array<std::byte, cleared> below;
    std::memset(below.data(), 0, cleared);
    asm volatile("" : : "r"(below.data()) : "memory");
}

}  // namespace

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
    at(thread).stack = top - 64;  // six registers, the entry point, no caller
}

namespace {
void do_late(fiber& of) {
    inside_is const in{true};
    if (auto* const act = std::exchange(of.late, nullptr)) act(of.late_for.data());
}

}  // namespace

void arrive(int thread, std::size_t which) {
    fiber& f = at(thread);
    if (which >= f.late_from && is_shared(f.buffer[which].at)) do_late(f);
    // A thread that sees this store also sees the fence before it.
    f.fenced = std::max(f.fenced, f.buffer[which].fenced);
    entry const e = f.buffer[which];
    std::memcpy(e.at, &e.value, e.size);
    ++f.arrived;
    for (std::size_t i = which + 1; i < f.stored; ++i) f.buffer[i - 1] = f.buffer[i];
    f.buffer[--f.stored] = {};
    for (std::size_t i = 0; i < f.stored; ++i) f.buffer[i].fenced -= which < f.buffer[i].fenced;
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

void before(operation const& op) {
    learn(op);
    if (op.at && !is_saved(op.at)) fail("an atomic or a mutex is a global that options::also does not name");
    if (running < 0) {  // during setup, always() or at_end()
        if (op.what == act::lock && in_memory(op.at, op.size) != 0)
            fail("at the end, or in always(), a mutex is held");
        if (op.what == act::wait && !op.may_go_on(in_memory(op.at, op.size)))
            fail("at the end, or in always(), somebody would wait");
        return;
    }
    fiber& me = at(running);
    if (is_nobodys_business(me, op) && ++run_length <= how->longest) return clear_below();
    if (run_length > how->longest) fail(too_long);
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
    if (me.stored == buffer_size) fail("more stores are under way than the model's buffer holds");
    me.buffer[me.stored++] = {op.at, op.size, op.value, me.to_fence, op.release};
    told(op, op.value);
    let_private_arrive(running);
    clear_below();
}

word seen(std::byte const* at, std::size_t size) {
    return running < 0 ? in_memory(at, size) : seen_by(detail::at(running), at, size);
}

void told(operation const& op, word value) {
    if (!telling || running < 0) return;
    inside_is const out{false};
    tell(running, -1, op, value);
}

void asymmetric_fence_light(site where) {
    if (running < 0) return;
    operation const op{.what = act::fence, .where = where};
    if (how->asymmetric) at(running).to_fence = at(running).stored;
    else if (at(running).stored != 0) before(op);
    told(op, 0);
}

bool asymmetric() { return how->asymmetric; }
cuota::detail::thread_slot*& record() { return running < 0 ? state.outside_record : at(running).record; }
int self() { return running; }

}  // namespace detail

void check(bool holds, char const* claim) {
    if (!holds) detail::fail(claim);
}

void outcome(std::uint64_t value) {
    detail::inside_is const out{false};
    if (detail::forgiven && detail::reducing) return;  // a random walk
    detail::outcomes.insert(value);
}

}  // namespace model
