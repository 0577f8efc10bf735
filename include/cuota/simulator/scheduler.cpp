// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <new>
#include <system_error>
#include <thread>

// A worker, or a host thread that waits for a stream, claims a ready stream and runs operations until one must wait. Each ready
// stream has a worker, up to 128 workers, because work of two streams may wait for each other.
namespace cuota::inline v0::simulator {

/// All streams share one crew, except under ThreadSanitizer.
struct crew {
    explicit crew(std::size_t limit) : most{limit} {}

    std::condition_variable wake;
    stream_line ready;
    std::vector<std::thread> threads;
    std::size_t most;
    std::size_t idle = 0;
    std::size_t coming = 0;  ///< woken or created, but not running yet
    bool stop = false;
};

namespace {

std::shared_ptr<crew> const& crew_of(stream& s) {
    constexpr std::size_t at_once_on_a_device = 128;
    static auto* const shared =
        new std::shared_ptr<crew>{new crew{at_once_on_a_device}};  // outlives static objects
    if (!sanitizer::watches_threads()) return *shared;
    if (!s.own_crew) s.own_crew = std::make_shared<crew>(1);
    return s.own_crew;
}

void delay_by_jitter() {
    auto& m = the_machine();
    auto const longest = m.jitter_us.load(std::memory_order_relaxed);
    if (longest == 0) return;
    std::int64_t delay;
    {
        std::lock_guard lock{m.jitter_mutex};
        delay = static_cast<std::int64_t>(m.jitter() % static_cast<std::uint64_t>(longest + 1));
    }
    ++m.delayed;
    std::this_thread::sleep_for(std::chrono::microseconds{delay});
    --m.delayed;
}

void perform(stream& s, operation& work) {
    for (auto const& first : work.after) sanitizer::observe(first->token());
    if (s.legacy) sanitizer::observe(&s.owner.retired_blocking);
    if (work.held) sanitizer::observe(&the_machine().hold_token);
    sanitizer::observe(work.token());
    delay_by_jitter();
    auto const outer = std::exchange(caller.running, work.from);
    try {
        work.run();
    } catch (...) {
        caller.running = outer;
        throw;
    }
    caller.running = outer;
    sanitizer::publish(work.token());
}

/// Before returning false, registers the stream with the operation that it waits for.
bool startable(stream_handle const& s) {
    for (auto const& first : s->queue.front()->after) {
        if (first->done.load(std::memory_order_relaxed)) continue;
        first->awaited_by.push(s);
        s->state = stream::progress::blocked;
        return false;
    }
    return true;
}

void work_until_told(std::shared_ptr<crew> const& mine);

void wake_worker(std::shared_ptr<crew> const& c) {
    if (c->ready.size() <= c->coming) return;  // a waiting host thread may have claimed their work
    if (c->coming < c->idle) {
        ++c->coming;
        c->wake.notify_one();
        return;
    }
    if (c->threads.size() >= c->most || c->stop) return;
    try {
        start_thread(c->threads, [c] { work_until_told(c); });
        ++c->coming;
    } catch (std::exception const&) {
        // Another worker exists (find_worker), or the waiting thread runs the work.
    }
}

/// The crew needs a worker if no other thread may run its work.
void find_worker(std::shared_ptr<crew> const& c) {
    if (!c->threads.empty() || c->stop || late::on() || !work_may_start()) return;
    start_thread(c->threads, [c] { work_until_told(c); });
    ++c->coming;
}

void retire(stream_handle const& s) {
    std::erase(s->owner.streams, s);
    ordering::retires(*s);
    if (!s->own_crew) return;
    s->own_crew->stop = true;
    s->own_crew->wake.notify_all();
    for (auto& t : s->own_crew->threads) t.detach();  // one may be this thread
    s->own_crew->threads.clear();
}

}  // namespace

bool work_may_start() { return the_machine().holds == 0 && !the_machine().unloading; }

void make_ready(stream_handle const& s) {
    if (late::on()) return late::make_ready(s);
    auto const& c = crew_of(*s);
    c->ready.push(s);
    s->state = stream::progress::ready;
    if (work_may_start()) wake_worker(c);
}

bool step(guard& lock, stream_handle const& s) {
    s->state = stream::progress::running;
    operation_ref const work = std::move(s->queue.front());
    s->queue.pop_front();
    lock.unlock();
    bool is_lost = false;
    try {
        perform(*s, *work);
    } catch (std::bad_alloc const&) { is_lost = true; }
    lock.lock();
    auto const finished_on = std::move(work->on);
    work->after.clear();
    work->done.store(1, std::memory_order_release);
    work->done.notify_all();
    late::one_done();
    while (auto const other = work->awaited_by.pop())
        if (startable(other)) make_ready(other);
    bool const has_more = !s->queue.empty() && startable(s);
    if (s->queue.empty()) {
        s->state = stream::progress::idle;
        if (s->destroyed) retire(s);
    }
    if (is_lost) {
        if (has_more) make_ready(s);
        throw lost_operation{s->owner};
    }
    return has_more;
}

namespace {

void fail_without_memory(device& d) noexcept {
    auto none = cudaSuccess;
    d.failure.compare_exchange_strong(none, cudaErrorMemoryAllocation);
}

}  // namespace

bool step_in_worker(guard& lock, stream_handle const& s) {
    try {
        return step(lock, s);
    } catch (lost_operation const& lost) {
        fail_without_memory(lost.where);
        return false;  // the stream's next operation is ready
    }
}

namespace {

void work_until_told(std::shared_ptr<crew> const& mine) {
    sanitizer::quiet always;
    guard lock{the_machine().mutex};
    auto const came = [&] { mine->coming -= mine->coming != 0; };
    came();
    while (!mine->stop) {
        if (mine->ready.empty() || !work_may_start()) {
            ++mine->idle;
            mine->wake.wait(lock);
            --mine->idle;
            came();
            continue;
        }
        auto const s = mine->ready.pop();
        bool more = step_in_worker(lock, s);
        while (more && work_may_start()) more = step_in_worker(lock, s);
        if (more) make_ready(s);
    }
}

/// Not under ThreadSanitizer, which would take running the work for an order.
bool may_help() { return work_may_start() && !sanitizer::watches_threads() && !late::on(); }

bool claim_ready(stream_handle const& s) {
    if (s->state != stream::progress::ready || !may_help()) return false;
    crew_of(*s)->ready.remove(*s);
    return true;
}

template <class Use>
void for_each_stream(Use use) {
    for (auto const& d : the_machine().all_devices) {
        use(*d->legacy);
        for (auto const& s : d->streams) use(*s);
    }
}

void order_by_default_streams(stream& s, operation& work) {
    auto& d = s.owner;
    if (s.legacy) {
        for (auto const& other : d.streams)
            if (other->blocking() && other->last) order(work, other->last);
    } else if (s.blocking() && d.legacy->last) {
        order(work, d.legacy->last);
    }
}

}  // namespace

void order(operation& work, operation_ref const& first) {
    // ThreadSanitizer needs the edge from a finished operation as well.
    if (!first->done.load(std::memory_order_relaxed) || sanitizer::watches_threads())
        work.after.push_back(first);
}

void enqueue(guard& lock, stream_handle const& on, operation_ref work, pace when) {
    if (on->capturing.in) return add_to_capture(*on, std::move(work));
    if (!may_help()) find_worker(crew_of(*on));
    sanitizer::publish(work->token());
    order_by_default_streams(*on, *work);
    work->at = ordering::arrives(*on);
    work->from = here();
    work->on = on;
    work->turn = the_machine().next_turn++;
    work->held = the_machine().holds != 0;
    on->queue.push_back(work);
    auto const before = std::exchange(on->last, work);
    if (on->state != stream::progress::idle) return;
    try {
        if (!startable(on)) return;
        bool const now = when == pace::at_once && may_help() && the_machine().jitter_us == 0;
        if (!now || step(lock, on)) make_ready(on);  // after a step: another thread has added work
    } catch (...) {  // out of memory: the call fails, and its work must not run
        if (!on->queue.empty() && on->queue.back() == work) {
            on->queue.pop_back();
            on->last = before;
        }
        throw;
    }
}

bool all_idle() {
    bool idle = true;
    for_each_stream([&idle](stream const& s) { idle = idle && s.state == stream::progress::idle; });
    return idle;
}

void wait_for(guard& lock, operation_ref const& work) {
    if (late::on() && !work->done) {
        awaited const alone[] = {{work, {}}};
        late::wait_for(lock, alone);
    }
    while (!work->done.load(std::memory_order_acquire)) {
        if (stream_handle const s = work->on; claim_ready(s)) {
            if (step(lock, s)) make_ready(s);
            continue;
        }
        lock.unlock();
        work->done.wait(0, std::memory_order_acquire);
        lock.lock();
    }
    sanitizer::observe(work->token());
    ordering::host_learns(work->at);
}

void wait_for(guard& lock, awaited const& what) {
    if (what.work) wait_for(lock, what.work);
    ordering::host_learns(what.known);
}

void wait_for(guard& lock, std::vector<awaited> const& all) {
    if (late::on()) late::wait_for(lock, all);
    for (auto const& one : all) wait_for(lock, one);
}

void let_some_go_on(guard& lock, std::vector<awaited> const& all) {
    if (late::on()) late::go_on(lock, all);
}

std::vector<awaited> unfinished(stream const& s) {
    std::vector<awaited> all;
    auto const add = [&](stream const& one) { all.push_back({one.last, one.order_lane.now}); };
    add(s);
    if (s.legacy)
        for (auto const& other : s.owner.streams)
            if (other->blocking()) add(*other);
    return all;
}

void come_after_the_gone(stream const& s) {
    if (s.legacy) ordering::host_learns(s.owner.gone_blocking);
}

void wait_for_device(guard& lock, device& d) {
    auto all = unfinished(*d.legacy);
    for (auto const& s : d.streams)
        if (!s->blocking()) all.push_back({s->last, s->order_lane.now});
    wait_for(lock, all);
    sanitizer::observe(&d.retired);
    ordering::host_learns(d.gone);
}

void wait_before_free(guard& lock, device& d) {
    try {
        return wait_for_device(lock, d);
    } catch (lost_operation const& lost) { fail_without_memory(lost.where); } catch (std::bad_alloc const&) {
    }
    // The host has no memory for a list of the work, or had none for an operation: wait for one stream after the other.
    auto const next = [&d]() -> operation_ref {
        auto const is_open = [](stream const& s) { return s.last && s.last->done == 0; };
        if (is_open(*d.legacy)) return d.legacy->last;
        auto const found =
            std::find_if(d.streams.begin(), d.streams.end(), [&](auto const& s) { return is_open(*s); });
        return found == d.streams.end() ? nullptr : (*found)->last;
    };
    while (operation_ref const work = next()) try {
            wait_for(lock, work);
        } catch (lost_operation const& lost) {
            fail_without_memory(lost.where);
        } catch (std::bad_alloc const&) {}  // another try makes other choices
    sanitizer::observe(&d.retired);
    try {
        ordering::host_learns(d.gone);
    } catch (std::bad_alloc const&) {}
}

void let_go(guard& lock, stream_handle const& s) {
    s->destroyed = true;
    if (sanitizer::watches_threads() && s->last) {
        // Only the stream's own thread can publish this.
        s->last_of_program = s->last;
        enqueue(lock, s, make_task([s] {
                    sanitizer::publish(&s->owner.retired);
                    if (s->blocking()) sanitizer::publish(&s->owner.retired_blocking);
                }));
    } else if (s->state == stream::progress::idle) {
        retire(s);
    }
}

void resume_all() {
    late::moved();
    if (late::on()) return;
    for_each_stream([](stream& s) {
        if (s.state == stream::progress::ready) wake_worker(crew_of(s));
    });
}

void prepare_to_fork() {
    auto& mutex = the_machine().mutex;
    mutex.lock();
    for (int i = 0; i < 1000 && starting_threads != 0; ++i) {
        mutex.unlock();
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
        mutex.lock();
    }
}
void after_fork_in_parent() { the_machine().mutex.unlock(); }

void after_fork_in_child() {
    starting_threads = 0;
    new (&the_machine().host_function_turn) std::mutex;  // its owner does not exist in the child
    late::threads_are_gone();
    for_each_stream([](stream& s) {
        auto const& c = crew_of(s);  // its threads do not exist in the child
        new (&c->wake) std::condition_variable;
        new (&c->threads) std::vector<std::thread>;
        c->idle = c->coming = 0;
    });
    the_machine().mutex.unlock();
}

void stop_workers() {
    std::vector<std::thread> threads;
    {
        guard lock{the_machine().mutex};
        threads = late::stop();
        for_each_stream([&](stream& s) {
            auto const& c = crew_of(s);
            c->stop = true;
            c->wake.notify_all();
            for (auto& t : std::exchange(c->threads, {})) threads.push_back(std::move(t));
        });
    }
    for (auto& t : threads)
        if (t.get_id() == std::this_thread::get_id()) t.detach();  // a kernel that exits the program
        else t.join();
}

}  // namespace cuota::inline v0::simulator
