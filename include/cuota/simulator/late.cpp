// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <dirent.h>
#include <unistd.h>

// A waiting host thread runs the work that it waits for. Other work may block until that thread acts, so helper threads run it.
namespace cuota::inline v0::simulator::late {
namespace {

using namespace std::chrono_literals;

struct late_schedule {
    late_schedule() { ready.reserve(2 * most_devices); }

    schedule how = schedule::workers;
    std::uint64_t seed = 0;
    std::uint64_t unseeded = 0;
    std::mt19937_64 draw;

    std::vector<stream_handle> ready;
    std::condition_variable moved;
    std::uint64_t done = 0;  ///< finished operations
    std::uint64_t asked = 0;

    stream_line for_helpers;
    std::condition_variable wake_helper, wake_watch;
    std::vector<std::thread> threads;
    std::size_t idle_helpers = 0;
    bool has_watch = false, watch_sleeps = false, stop = false;
};

late_schedule& the_schedule() {
    static auto* const the_one = new late_schedule;
    return *the_one;
}

std::size_t one_of(std::size_t count) { return count < 2 ? 0 : the_schedule().draw() % count; }
bool coin() { return one_of(2) == 0; }

void take(stream_handle s) {  // a copy: its element of `ready` is erased
    auto& ready = the_schedule().ready;
    ready.erase(std::find(ready.begin(), ready.end(), s));
    s->state = stream::progress::running;
}

void run(guard& lock, stream_handle const& s) {
    if (step(lock, s)) simulator::make_ready(s);
}

/// Returns null if the next step is running.
stream_handle next_towards(operation_ref work) {
    for (;;) {
        auto const s = work->on;
        if (s->state == stream::progress::ready) return s;
        if (s->state != stream::progress::blocked) return nullptr;
        auto const& after = s->queue.front()->after;
        auto const open = [](auto const& first) { return first->done == 0; };
        auto left = one_of(static_cast<std::size_t>(std::count_if(after.begin(), after.end(), open)));
        work = *std::find_if(after.begin(), after.end(),
                             [&](auto const& first) { return open(first) && left-- == 0; });
    }
}

/// Returns mostly the newest: running it before older ones exposes a missing dependency.
operation_ref one_open(std::span<awaited const> all) {
    auto const is_open = [](awaited const& one) { return one.work && one.work->done == 0; };
    auto const count = std::count_if(all.begin(), all.end(), is_open);
    if (count == 0) return nullptr;
    bool const wants_newest = coin();
    auto left = wants_newest ? 0 : one_of(static_cast<std::size_t>(count));
    operation_ref const* found = nullptr;
    for (auto const& one : all) {
        if (!is_open(one)) continue;
        if (wants_newest ? !found || (*found)->turn < one.work->turn : left-- == 0) found = &one.work;
    }
    return *found;
}

// ---- Helpers, and the watch that starts them ----

using clock = std::chrono::steady_clock;
constexpr clock::duration patience = 20ms;        ///< when all threads sleep
constexpr clock::duration little = 1ms;           ///< while only helpers make progress
constexpr clock::duration much_patience = 240ms;  ///< when a thread computes

/// Sleeping threads may be waiting for work that no thread runs.
bool others_sleep() {
    auto* const tasks = opendir("/proc/self/task");
    if (!tasks) return true;
    auto const self = std::to_string(gettid());
    bool asleep = true;
    while (auto const* const entry = readdir(tasks)) {
        if (entry->d_name[0] == '.' || self == entry->d_name) continue;
        std::string line;
        std::getline(std::ifstream{std::string{"/proc/self/task/"} + entry->d_name + "/stat"}, line);
        auto const name_end = line.rfind(") ");  // a thread that has just exited has no line
        asleep = asleep && (name_end == std::string::npos || line[name_end + 2] != 'R');
    }
    closedir(tasks);
    return asleep;
}

class standstill {
public:
    void begin() {
        done_ = the_schedule().done;
        since_ = clock::now();
    }
    /// May release the lock temporarily.
    [[nodiscard]] bool reached(guard& lock, clock::duration patience_now) {
        if (the_schedule().done != done_ || the_machine().delayed != 0) begin();
        auto const lasts = clock::now() - since_;
        if (lasts < patience_now || lasts >= much_patience) return lasts >= patience_now;
        lock.unlock();
        bool const asleep = others_sleep();
        lock.lock();
        return asleep && the_schedule().done == done_;
    }

private:
    std::uint64_t done_ = the_schedule().done;
    clock::time_point since_ = clock::now();
};

void help() {
    sanitizer::quiet always;
    auto& l = the_schedule();
    guard lock{the_machine().mutex};
    while (!l.stop) {
        if (l.for_helpers.empty()) {
            ++l.idle_helpers;
            l.wake_helper.wait(lock);
            --l.idle_helpers;
            continue;
        }
        auto const s = l.for_helpers.pop();
        if (step_in_worker(lock, s)) simulator::make_ready(s);
    }
}

void give_to_helper(stream_handle s) {
    auto& l = the_schedule();
    if (l.for_helpers.size() < l.idle_helpers) l.wake_helper.notify_one();
    else start_thread(l.threads, help);
    take(s);
    l.for_helpers.push(std::move(s));
}

/// Returns also without progress: the operation may wait for this thread.
void run_aside(guard& lock, stream_handle s) {
    auto& l = the_schedule();
    auto const work = s->queue.front();
    give_to_helper(s);
    for (standstill still; work->done == 0; l.moved.wait_for(lock, patience)) {
        if (!still.reached(lock, patience) || work->done != 0) continue;
        ++l.unseeded;
        return;
    }
}

/// Serves programs that wait for stream work by other means than CUDA's.
void watch() {
    sanitizer::quiet always;
    auto& l = the_schedule();
    guard lock{the_machine().mutex};
    standstill still;
    auto helped_at = ~l.asked;
    while (!l.stop) {
        if (l.ready.empty() || !work_may_start()) {
            l.watch_sleeps = true;
            l.wake_watch.wait(lock);
            l.watch_sleeps = false;
            still.begin();
            continue;
        }
        auto const now = l.asked == helped_at ? little : patience;
        l.wake_watch.wait_for(lock, now);
        if (!still.reached(lock, now) || l.ready.empty() || !work_may_start() || l.stop) continue;
        give_to_helper(l.ready[one_of(l.ready.size())]);
        ++l.unseeded;
        helped_at = l.asked;
        still.begin();
    }
}

void keep_watch() {
    auto& l = the_schedule();
    if (l.watch_sleeps) l.wake_watch.notify_one();
    if (l.has_watch || l.stop) return;
    try {
        start_thread(l.threads, watch);
        l.has_watch = true;
    } catch (std::exception const&) {
        // The next call of make_ready tries again.
    }
}

}  // namespace

bool on() { return the_schedule().how == schedule::late; }

void choose(guard& lock, schedule how, std::uint64_t seed) {
    auto& l = the_schedule();
    while (!all_idle())
        for (auto const& d : the_machine().all_devices) wait_for_device(lock, *d);
    // ThreadSanitizer must see each stream on its own thread.
    l.how = sanitizer::watches_threads() ? schedule::workers : how;
    l.seed = seed;
    l.draw.seed(seed);
}

void expect_streams(std::size_t count) {
    auto& ready = the_schedule().ready;
    if (ready.capacity() < count) ready.reserve(2 * count);
}

void make_ready(stream_handle const& s) {
    s->state = stream::progress::ready;
    the_schedule().ready.push_back(s);  // reserved by expect_streams
    moved();
    keep_watch();
}

void one_done() {
    if (!on()) return;
    ++the_schedule().done;
    moved();
}

void moved() {
    if (!on()) return;
    auto& l = the_schedule();
    l.moved.notify_all();
    if (!l.ready.empty() && l.watch_sleeps) l.wake_watch.notify_one();  // the last hold was destroyed
}

void wait_for(guard& lock, std::span<awaited const> all) {
    auto& l = the_schedule();
    auto work = one_open(all);
    if (!work) return;
    ++l.asked;
    bool const only_what_it_must = one_of(4) != 0;
    for (; work; work = one_open(all)) {
        if (!work_may_start()) {
            l.moved.wait(lock);
            continue;
        }
        auto const needed = next_towards(work);
        bool const other = !only_what_it_must && !l.ready.empty() && coin();
        if (stream_handle const s = other ? l.ready[one_of(l.ready.size())] : needed; !s) {
            l.moved.wait(lock);
        } else if (s == needed) {
            take(s);
            run(lock, s);
        } else {
            run_aside(lock, s);
        }
    }
}

void go_on(guard& lock, std::span<awaited const> all) {
    auto& l = the_schedule();
    constexpr std::size_t most = 4;
    ++l.asked;
    for (auto steps = 1 + one_of(most); steps-- != 0;) {
        auto const work = one_open(all);
        if (!work || !work_may_start()) return;
        auto s = next_towards(work);
        if (!l.ready.empty() && one_of(4) == 0) s = l.ready[one_of(l.ready.size())];
        if (s) run_aside(lock, s);
    }
}

void threads_are_gone() {
    auto& l = the_schedule();
    new (&l.moved) std::condition_variable;
    new (&l.wake_helper) std::condition_variable;
    new (&l.wake_watch) std::condition_variable;
    new (&l.threads) std::vector<std::thread>;
    l.idle_helpers = 0;
    l.has_watch = l.watch_sleeps = false;
    if (on() && !l.ready.empty()) keep_watch();
}

std::vector<std::thread> stop() {
    auto& l = the_schedule();
    l.stop = true;
    l.wake_helper.notify_all();
    l.wake_watch.notify_all();
    return std::exchange(l.threads, {});
}

}  // namespace cuota::inline v0::simulator::late

namespace cuota::inline v0::simulator {

void set_schedule(schedule wanted, std::uint64_t seed) {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    if (the_machine().holds != 0)
        throw std::logic_error{"the simulator cannot change its schedule while a hold stops all work"};
    late::choose(lock, wanted, seed);
}

schedule_info current_schedule() {
    sanitizer::quiet quiet;
    guard lock{the_machine().mutex};
    auto const& l = late::the_schedule();
    return {l.how, l.seed, l.unseeded};
}

std::string schedule_in_words() {
    auto const& l = late::the_schedule();
    return l.how == schedule::workers ? "workers" : "late:" + std::to_string(l.seed);
}

}  // namespace cuota::inline v0::simulator
