// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A random walk of one thread through a pool whose state is known exactly at every step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/pool/scoped_pool.hpp>

#include "pool/shadowed.hpp"
#include "pool/walked_frame.hpp"
#include "pool/walker.hpp"
#include "support/machine.hpp"
#include "support/sink.hpp"

namespace pool_tests {

struct walk_options {
    grown_by how = grown_by::segments;
    std::size_t cap = 4_MiB;
    std::size_t streams = 1;
    std::uint64_t seed = 1;
    bool has_scopes = false;  ///< every second operation uses steps and frames
    std::size_t release_threshold = cuota::unlimited;
    std::size_t largest_mapping = 2_MiB;
};

class walk {
public:
    walk(support::machine& on, walk_options const& wanted)
        : machine_{on},
          options_{wanted},
          streams_{wanted.streams},
          me_{pool_, shadow_, streams_, wanted.seed,
              wanted.how == grown_by::pages ? sizes_about_a_page : small_sizes} {}

    /// Walks `operations`, and on until these counts are reached. Throws if they are not after 100 * `operations` + 10'000.
    void run(std::uint64_t operations, walk_counts const& least) {
        std::uint64_t until_check = 1;
        walk_until(operations, least, [&](std::uint64_t) {
            act();
            if (--until_check != 0) return;
            check();
            until_check = 1 + me_.random()() % 256;
        });
    }
    /// Does the same, with failing driver calls.
    void run_with_faults(std::uint64_t operations, walk_counts const& least) {
        walk_until(operations, least, [&](std::uint64_t i) {
            if (me_.once_in(2)) act();
            else act_with_faults();
            if (i % 64 == 0) check();
        });
    }

    [[nodiscard]] std::string figures() const { return text_of(did_, pool_.stats()); }
    [[nodiscard]] walk_counts const& did() const { return did_; }
    [[nodiscard]] cuota::pool_stats stats() const { return pool_.stats(); }

private:
    template <class Step>
    void walk_until(std::uint64_t operations, walk_counts const& least, Step step) {
        for (std::uint64_t i = 0; i < operations || !did_.reach(least); ++i) {
            if (i == 100 * operations + 10'000) throw std::logic_error{"too little happens in this walk"};
            step(i);
        }
        end();
    }

    void act() {
        if (options_.has_scopes && me_.once_in(2)) return act_in_scopes();
        std::size_t const dice = me_.random()() % 1024;
        if (dice < 910) allocate_or_release();
        else if (dice < 930) allocate_aligned();
        else if (dice < 970) pairs();
        else if (dice < 985) wrongly(me_.give_wrongly());
        else if (dice < 995) wrongly(me_.give_twice());
        else if (dice < 1005) trim();
        else if (dice < 1012) take_the_largest();
        else if (dice < 1018) streams_[me_.any_stream()].synchronize();
        else if (dice < 1022) ask_for_nonsense();
        else renew_a_stream();
    }
    // Keeps the allocated bytes near a target that changes, from almost none to more than the cap.
    void allocate_or_release() {
        if (--until_aim_ == 0) {
            aim_ = me_.random()() % 10;
            until_aim_ = 1 + me_.random()() % 8192;
        }
        bool const more = shadow_.allocated() < options_.cap / 8 * aim_;
        if (me_.random()() % 8 < (more ? 5 : 3)) allocate();
        else me_.give_any();
    }
    void allocate() {
        std::size_t const bytes = me_.any_bytes();
        bool const sync = me_.once_in(64);
        ask(bytes, [&] {
            if (sync) me_.allocate_sync(bytes);
            else me_.allocate(me_.any_stream(), bytes);
        });
    }
    // Alignment can cost memory, so the growth of the pool is not checked here.
    void allocate_aligned() {
        std::size_t const alignment = std::size_t{512} << me_.random()() % 13;
        std::size_t const bytes = me_.any_bytes();
        std::size_t const stream = me_.any_stream();
        try {
            void* const p = pool_.allocate(streams_[stream], bytes, alignment);
            me_.keep({p, bytes, stream});
            ++did_.allocations;
            if (reinterpret_cast<std::uintptr_t>(p) % alignment != 0)
                throw std::logic_error{"an alignment is honoured or refused"};
        } catch (cuota::out_of_memory const&) { ++did_.refusals; }
    }
    void pairs() {
        try {
            me_.pairs();
            did_.allocations += 3;
        } catch (cuota::out_of_memory const&) { ++did_.refusals; }
    }
    template <class Ask>
    void ask(std::size_t bytes, Ask take) {
        shadow_.wants(bytes);
        try {
            take();
            ++did_.allocations;
        } catch (cuota::out_of_memory const&) {
            ++did_.refusals;
            shadow_.refused(bytes, options_.cap);
        }
        shadow_.wants(0);
    }
    void wrongly(std::size_t releases) {
        did_.wrong_releases += releases;
        if (machine_.errors.take().size() != releases)
            throw std::logic_error{"a wrong release is reported, once"};
    }
    void trim() {
        std::size_t const keep = me_.once_in(2) ? 0 : me_.random()() % options_.cap;
        std::size_t const before = shadow_.reserved();
        auto const expected = shadow_.to_trim(keep);
        std::size_t const given = pool_.trim(keep);
        if (before - shadow_.reserved() != given) throw std::logic_error{"a trim says what it gave"};
        if (expected && (given < expected->first || given > expected->second))
            throw std::logic_error{"a trim gives whole idle mappings, and as few as will do"};
        shadow_.trimmed(keep);
    }
    void take_the_largest() {
        std::size_t const bytes = pool_.largest_free();
        if (bytes == 0) return;
        std::size_t const before = shadow_.reserved();
        me_.allocate(me_.any_stream(), bytes);
        ++did_.allocations;
        if (before != shadow_.reserved())
            throw std::logic_error{"the largest free block needs no more from the source"};
        me_.give(me_.drop(me_.live().size() - 1));
    }
    void ask_for_nonsense() {
        cuota::stream_ref const s = streams_[me_.any_stream()];
        auto const is_refused = [&](std::size_t bytes, std::size_t alignment) {
            try {
                return pool_.allocate(s, bytes, alignment) == nullptr;
            } catch (cuota::out_of_memory const&) { return true; } catch (cuota::usage_error const&) {
                return true;
            }
        };
        if (!is_refused(0, 256) || !is_refused(options_.cap + 1, 256) || !is_refused(SIZE_MAX, 256) ||
            !is_refused(256, 4_MiB) || !is_refused(256, 3))
            throw std::logic_error{"what makes no sense is refused"};
    }
    void renew_a_stream() {
        std::size_t const s = me_.any_stream();
        me_.give_all_of(s);
        for (auto const& f : frames_) f->give_all_of(s);
        forget_given_frames();
        streams_.renew(s);
    }

    // --- steps and frames ---

    void act_in_scopes() {
        std::size_t const dice = me_.random()() % 256;
        if (dice < 16) begin_or_end_step();
        else if (dice < 24) open_frame();
        else if (dice < 32) end_frame();
        else if (dice < 36 && !frames_.empty()) wrongly(any_frame().give_wrongly());
        else if (dice < 38) fail_to_close();
        else if (dice < 84) allocate_to_live(cuota::lifetime_hint::persistent);
        else if (dice < 134) allocate_to_live(cuota::lifetime_hint::step);
        else if (dice < 200) allocate_in_frame();
        else if (!frames_.empty()) {
            any_frame().give_any();
            forget_given_frames();
        }
    }
    void begin_or_end_step() {
        if (!step_) begin_step();
        else end_step();
    }
    void begin_step() {
        step_.reset(new cuota::pool_step{pool_.begin_step(here)});
        step_memory_ = step_->resource();
        shadow_.step_begins();
    }
    void end_step() {
        if (me_.once_in(4))
            for (std::size_t i = me_.live().size(); i-- != 0;)
                if (shadow_.is_for_the_step(me_.live()[i].p)) me_.give(me_.drop(i));
        std::vector<std::string> parts;
        std::size_t count = 0;
        for (auto const& [tag, bytes] : shadow_.meant_for_the_step()) {
            parts.push_back(alive_text(tag, bytes));
            count += bytes.size();
        }
        if (count != 0) parts.push_back(alive_count(count));
        step_.reset();
        shadow_.step_ends();
        reported(parts, "a step tells what was meant for it and is alive, once");
        if (options_.release_threshold != cuota::unlimited) shadow_.trimmed(options_.release_threshold);
        ++did_.steps;
        did_.survivors += count;
    }
    void reported(std::vector<std::string> const& parts, char const* what) {
        auto const texts = machine_.errors.take();
        bool good = texts.size() == !parts.empty();
        for (std::string const& part : parts) good = good && support::has(texts.front(), part);
        if (!good) throw std::logic_error{what + (texts.empty() ? std::string{} : ": " + texts.front())};
    }
    void allocate_to_live(cuota::lifetime_hint lifetime) {
        std::size_t const bytes = me_.any_bytes();
        std::size_t const stream = me_.any_stream();
        if (lifetime == cuota::lifetime_hint::step && !step_) return ask_for_step_memory(bytes);
        ask(bytes, [&] {
            cuota::tag const name = me_.any_tag();
            me_.keep({take_to_live(lifetime, stream, bytes, name), bytes, stream}, name, lifetime);
        });
    }
    [[nodiscard]] void* take_to_live(cuota::lifetime_hint lifetime, std::size_t stream, std::size_t bytes,
                                     cuota::tag name) {
        cuota::stream_ref const s = streams_[stream];
        if (lifetime == cuota::lifetime_hint::persistent)
            return pool_.persistent().allocate(s, bytes, 256, {name, here});
        return me_.once_in(2) ? step_->allocate(s, bytes, 256, name, here)
                              : step_memory_->allocate(s, bytes, 256, {name, here});
    }
    void ask_for_step_memory(std::size_t bytes) {
        if (!step_memory_) return;
        try {
            (void)step_memory_->allocate(streams_[me_.any_stream()], bytes);
        } catch (cuota::usage_error const&) { return; }
        throw std::logic_error{"memory of a step is given only while one is open"};
    }

    [[nodiscard]] walked_frame& any_frame() { return *frames_[me_.random()() % frames_.size()]; }
    void open_frame() {
        if (frames_.size() == 4) return;
        walked_frame const* const outer = frames_.empty() || me_.once_in(3) ? nullptr : &any_frame();
        frames_.push_back(std::make_unique<walked_frame>(pool_, shadow_, streams_, me_, outer));
    }
    void end_frame() {
        if (frames_.empty()) return;
        walked_frame& ending = any_frame();
        if (!ending.is_open()) return;
        if (me_.once_in(2)) ending.give_all();
        reported(ending.end(), "a frame tells whose owner is still there, once");
        ++did_.frames_ended;
        forget_given_frames();
    }
    void forget_given_frames() {
        std::erase_if(frames_, [](auto const& f) { return !f->is_open() && f->live() == 0; });
    }
    void allocate_in_frame() {
        if (frames_.empty()) return open_frame();
        walked_frame& in = any_frame();
        if (!in.is_open()) return in.give_any(), forget_given_frames();
        if (in.live() > 40) return in.give_any();
        std::size_t const bytes = me_.any_bytes();
        ask(bytes, [&] { in.keep(in.take(bytes)); });
    }
    void fail_to_close() {
        std::size_t const live = shadow_.expected().live_blocks;
        if (live == 0) return;
        try {
            pool_.close();
        } catch (cuota::usage_error const& alive) {
            if (support::has(alive.what(), alive_count(live))) return;
        }
        throw std::logic_error{"a pool in use does not close, and says how much is alive"};
    }

    // --- faults ---

    // Runs an operation in which one driver call fails, or each call with a probability. The operation must throw, report or use a
    // fallback; if it throws, it must have changed nothing.
    void act_with_faults() {
        // Functions that destroy are not among them, because an object that the driver fails to destroy is leaked.
        constexpr std::array calls{"cudaMalloc",           "cudaFree",
                                   "cudaEventRecord",      "cudaEventQuery",
                                   "cudaEventSynchronize", "cudaEventCreateWithFlags",
                                   "cudaStreamWaitEvent",  "cudaStreamSynchronize",
                                   "cudaStreamGetId",      "cudaStreamGetDevice",
                                   "cudaGetDevice",        "cudaSetDevice",
                                   "cuMemCreate",          "cuMemMap",
                                   "cuMemUnmap",           "cuMemSetAccess"};
        constexpr std::size_t of_pages = 4;
        constexpr std::array codes{cudaErrorMemoryAllocation, cudaErrorUnknown};
        auto& random = me_.random();
        bool const by_pages = options_.how == grown_by::pages;
        std::size_t const first = by_pages && me_.once_in(2) ? calls.size() - of_pages : 0;
        std::size_t const last = by_pages ? calls.size() : calls.size() - of_pages;
        char const* const call = calls[first + random() % (last - first)];
        cudaError_t const code = codes[random() % codes.size()];
        std::size_t const bytes = me_.once_in(2) ? pool_.largest_free() + 1 : me_.any_bytes();
        std::size_t const stream = me_.any_stream();
        std::optional<held> given;
        if (me_.once_in(4) && !me_.live().empty()) given = me_.drop(me_.any_live());
        walked_frame* const frame = !given && !frames_.empty() && me_.once_in(4) ? &any_frame() : nullptr;
        bool const gives = given || (frame && (!frame->is_open() || me_.once_in(3)));
        std::optional<walked_frame::taken> taken;
        auto const injected = cuota::simulator::faults_injected();
        // In a deallocation only one call fails: if the wait failed as well, no way to order it would be left.
        if (gives || me_.once_in(2)) cuota::simulator::fail_call(call, 1 + random() % 3, code);
        else cuota::simulator::fail_randomly(call, 0.3, random(), code);
        void* p = nullptr;
        cuota::tag const name = me_.any_tag();
        cuota::lifetime_hint lifetime = cuota::lifetime_hint::scratch;
        bool threw = false;
        try {
            if (given) me_.give(*given);
            else if (gives && frame->is_open() && me_.once_in(2)) (void)frame->end(), ++did_.frames_ended;
            else if (gives) frame->give_first();
            else if (frame) taken = frame->take(bytes);
            else if (me_.once_in(8)) pool_.trim(random() % options_.cap);
            else if (me_.once_in(8)) p = pool_.resource().allocate_sync(bytes, 256, {name, here});
            else if (step_ && me_.once_in(4))
                p = take_to_live(lifetime = cuota::lifetime_hint::step, stream, bytes, name);
            else if (me_.once_in(8))
                p = take_to_live(lifetime = cuota::lifetime_hint::persistent, stream, bytes, name);
            else p = pool_.allocate(streams_[stream], bytes, 256, name, here);
        } catch (cuota::out_of_memory const&) { threw = true; } catch (cuota::cuda_error const&) {
            threw = true;
        }
        cuota::simulator::clear_faults();
        bool const was_used = cuota::simulator::faults_injected() != injected;
        auto const reports = machine_.errors.take();
        if (p) me_.keep({p, bytes, stream}, name, lifetime);
        if (taken) frame->keep(*taken);
        forget_given_frames();
        did_.failed += was_used && (threw || !reports.empty());
        if (!was_used && !reports.empty() && !gives)
            throw std::logic_error{"nothing failed, and there was a report: " + reports.front()};
        for (void* const lost : shadow_.take_lost()) cudaFree(lost);
        if (!threw) return;
        shadow_.failed();
        check();
    }

    void check() {
        agree(pool_, shadow_, budget_.held());
        if (cuota::simulator::live().device_bytes != shadow_.reserved())
            throw std::logic_error{"the device holds what the pool has not"};
        cuota::pool_stats const now = pool_.stats();
        did_.thread_cache_hits = now.thread_cache_hits;
        did_.stream_waits = now.stream_waits;
    }
    void end() {
        check();
        if (step_) end_step();
        for (auto const& f : frames_) {
            f->give_all();
            if (f->is_open()) reported(f->end(), "a frame of which nothing is left ends without a word");
        }
        frames_.clear();
        me_.give_all();
        check();
        if (shadow_.allocated() != 0) throw std::logic_error{"all has been given back"};
        pool_.trim();
        check();
        if (shadow_.reserved() != 0 && shadow_.is_exact())
            throw std::logic_error{"a trim of an idle pool leaves nothing"};
        cuota::device::current().synchronize();
    }

    support::machine& machine_;
    walk_options const options_;
    shadow shadow_;
    cuota::budget budget_{"walk", options_.cap};
    streams streams_;
    cuota::scoped_pool pool_ =
        make_pool(budget_, shadow_, options_.how, options_.cap,
                  {.release_threshold = options_.release_threshold}, options_.largest_mapping);
    walker me_;
    std::unique_ptr<cuota::pool_step> step_;
    std::optional<cuota::pool_resource_for<cuota::lifetime_hint::step>> step_memory_;
    std::vector<std::unique_ptr<walked_frame>> frames_;
    std::size_t aim_ = 9;  // in eighths of the cap
    std::uint64_t until_aim_ = 800;
    walk_counts did_;
};

}  // namespace pool_tests
