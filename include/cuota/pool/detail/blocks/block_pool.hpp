// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The blocks of a pool for any number of threads.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/pool/detail/blocks/block_heap.hpp>
#include <cuota/pool/detail/blocks/live_report.hpp>
#include <cuota/pool/detail/blocks/thread_cache.hpp>
#include <cuota/pool/detail/pool_notifier.hpp>
#include <cuota/pool/pool_stats.hpp>
#include <cuota/runtime/simulator_hooks.hpp>

namespace cuota::inline v0::detail {

/// A scope in which this thread releases memory. An alert on the budget may allocate in it, and must not wait for memory that is being
/// released.
class giving_back {
public:
    giving_back() noexcept : before_{std::exchange(is_on(), true)} {}
    giving_back(giving_back const&) = delete;
    giving_back& operator=(giving_back const&) = delete;
    ~giving_back() { is_on() = before_; }

    CUOTA_PROCESS_STATE [[nodiscard]] static bool& is_on() noexcept {
        static constinit thread_local bool on = false;
        return on;
    }

private:
    bool const before_;
};

struct growth_figures {
    std::size_t peak;     ///< peak of live bytes, including the request
    std::size_t staying;  ///< reserved, without memory that is being released
};

/// A block_heap under a lock, and thread caches, which are revoked before figures are read and when their blocks are needed. Threads: any.
/// Throws, guarantee: as block_heap.
class block_pool {
public:
    /// `granularity` is a power of two, at least 256.
    explicit block_pool(tag name, std::size_t granularity = block::granularity)
        : name_{name}, heap_{granularity} {}
    block_pool(block_pool const&) = delete;
    block_pool& operator=(block_pool const&) = delete;

    // --- blocks; a null stream stands for the host, which waits itself ---

    /// Allocates from this thread's cache, or returns null. Arguments by value stay in registers.
    [[nodiscard]] void* take_cached(stream_ref s, std::size_t bytes, std::size_t alignment, tag name,
                                    source_location where, lifetime_hint lifetime, bool keeps) noexcept;
    /// Frees into this thread's cache, or returns false.
    [[nodiscard, gnu::always_inline]] bool put_cached(stream_ref s, void* p, std::size_t bytes) noexcept {
        thread_slot* const me = this_thread_slot();
        if (!me || bytes > thread_cache::largest || !s.is_owned()) return false;
        return thread_caches_.of(*me).try_put(*me, p, s.id(), bytes, heap_.size_of_small(bytes));
    }

    /// Allocates from free blocks, or returns null. The host waits without the lock. Throws: usage_error after close(), and for
    /// lifetime_hint::step without an open step. With `split`: if the block would share an idle mapping of a fragmented pool, returns null
    /// and that mapping, held as by take_out.
    [[nodiscard]] void* try_take(stream_ref const* s, block_request const& r,
                                 std::optional<mapping_split>* split = nullptr);

    /// The alignment is at most 256.
    [[nodiscard]] void* take_of_new(segment const& fresh, stream_ref const* s, block_request const& r);
    void add(segment const& fresh);

    /// Frees in the order of s; reports invalid calls and ignores them. In a closed pool, calls while_closed(is_last) under the lock;
    /// is_last: no other block keeps the pool alive.
    template <class WhileClosed>
    void give(stream_ref const* s, void* p, std::size_t bytes, WhileClosed while_closed) noexcept {
        if (!p) return;
        late_free late;
        report_failure_of([&] {
            region_lock const lock{guard_};
            block& b = claim(p, bytes);
            if (is_special_) give_specially(b, s, late, while_closed);
            else if (!s) heap_.give(b, {});
            else put_in_order(b, *s, late);
        });
        if (late.what) give_late(*s, late, while_closed);
    }

    /// Makes thread caches reject a live block. Throws: usage_error if it does not exist.
    void keep_for_graph(void* p, std::size_t bytes);

    // --- release of idle memory ---

    /// Calls block_heap::take_out, and waits on the host without the lock. Returns nothing if surplus is 0.
    [[nodiscard]] std::optional<idle_memory> take_out(std::size_t surplus, kept_addresses const& kept = {},
                                                      idle_choice which = idle_choice::any);
    [[nodiscard]] std::optional<idle_memory> take_out_above(std::size_t keep);
    void gone(idle_memory const& out, bool is_gone) noexcept;
    /// Waits until some of the memory that is being released was released or kept. Returns the bytes released; 0 at once in a giving_back.
    std::size_t wait_for_leaving() noexcept;
    /// Returns the bytes that take_out would yield; if too little, plus those being released.
    [[nodiscard]] std::size_t could_take_out(std::size_t wanted,
                                             kept_addresses const& kept = {}) const noexcept;

    // --- growth by pages ---

    void add_range(std::byte* at, std::size_t bytes, std::size_t page);

    /// Returns the best window, which is not held and may change.
    [[nodiscard]] std::optional<growth_candidate> could_grow(std::size_t bytes, growth_aim aim) const;
    /// hold, take_of_grown, add_grown and give_up are those of block_heap.
    [[nodiscard]] std::optional<growth_candidate> hold(std::size_t bytes, growth_aim aim, std::size_t most);
    /// hold_at, note_excess and is_fragmented are those of block_heap, too.
    [[nodiscard]] std::optional<growth_candidate> hold_at(std::byte* at, std::size_t bytes);
    void note_excess() noexcept;
    [[nodiscard]] bool is_fragmented() const noexcept;
    /// The host's waits in `left` are for waited_for.
    [[nodiscard]] void* take_of_grown(growth_candidate const& window, stream_ref const* s,
                                      block_request const& r, host_waits*& left);
    /// Waits on the host for `left`, if any, without the lock, deletes it, completes the allocation and returns p. On a throw, p is free again.
    /// Throws: cuda_error, std::bad_alloc; usage_error after close().
    [[nodiscard]] void* waited_for(host_waits* left, void* p, stream_ref const* s, block_request const& r) {
        return rt::named_block(left ? wait_for(light_unique_ptr<host_waits>{left}, s, r) : p, r.bytes, r.who);
    }
    void add_grown(growth_candidate const& window);
    std::size_t give_up(growth_candidate const& window) noexcept;
    [[nodiscard]] std::size_t largest_grown(std::size_t spent) const noexcept;

    // --- end ---

    /// Rejects further allocations. Returns whether live blocks keep the pool alive; false after the first call.
    [[nodiscard]] bool close() noexcept;
    /// These three functions are for the destructor.
    void wait_for_freed() noexcept;
    template <class Visit>
    void for_each_segment(Visit visit) const {
        heap_.for_each_segment(visit);
    }
    template <class Visit>
    void for_each_mapped(Visit visit) const {
        heap_.blocks().for_each_mapped(visit);
    }

    // --- observer ---

    /// Notifies `told` of all events, without thread caches. Throws: usage_error if an observer exists.
    void observe(intrusive_ptr<pool_observer> told);
    intrusive_ptr<pool_observer> observe_no_more() noexcept;

    // --- figures ---

    [[nodiscard]] pool_stats stats() const noexcept;
    /// Calls see(heap, stats, peaks by tag) under the lock, after notifying of completed frees. Without an observer, the peaks are null.
    template <class See>
    void at_rest(See see) const {
        auto const lock = lock_all();
        pool_stats const now = stats_now();
        see(heap_, now, watch_ ? &watch_->peaks() : nullptr);
    }
    [[nodiscard]] std::size_t largest_free() const noexcept;
    [[nodiscard]] std::size_t reserved() const noexcept;
    [[nodiscard]] idle_pieces idle_if_released(std::span<allocation_group const> released) const;
    [[nodiscard]] std::size_t size_of(std::size_t bytes) const noexcept { return heap_.size_of(bytes); }
    /// The figures that bound a growth for a request of `bytes`.
    [[nodiscard]] growth_figures figures_with(std::size_t bytes) const noexcept;
    [[nodiscard]] std::size_t freed() const noexcept;

    void allocation_groups(std::vector<allocation_group>& into) const;

    [[nodiscard]] std::vector<tag_stats> stats_by_tag() const;

    [[nodiscard]] std::string survivors() const;

    /// Throws: usage_error if a step is open.
    void begin_step(source_location where);
    /// Ends the step, also on a throw; describes its live blocks.
    [[nodiscard]] std::string end_step();

    [[nodiscard]] tag name() const noexcept { return name_; }
    [[nodiscard]] std::string title() const;

private:
    // Names a block of a thread cache, by its note, in the simulator's reports.
    static void name_in_reports(block const& b) noexcept;

    // A claimed block to be freed after the host has waited without the lock, since its free could not be ordered.
    struct late_free {
        block* what = nullptr;
        std::exception_ptr why{};
        std::optional<observed_block> seen{};
    };
    static void wait_for_stream(stream_ref s) noexcept;
    template <class WhileClosed>
    [[gnu::noinline]] void give_late(stream_ref s, late_free const& late,
                                     WhileClosed& while_closed) noexcept {
        wait_for_stream(s);
        report_failure_of([&] {
            {
                region_lock const lock{guard_};
                bool const keeps = closed_ && late.what->note->keeps;
                heap_.give(*late.what, {});
                if (late.seen && watch_) watch_->is_free(*late.seen, false, heap_.order());
                if (closed_) while_closed(keeps && --keepers_ == 0);
            }
            std::rethrow_exception(late.why);
        });
    }

    [[nodiscard]] bool is_out_of_step(lifetime_hint lifetime) const noexcept;
    [[nodiscard]] void* take_free(stream_ref const* s, block_request const& r, host_waits*& left,
                                  std::optional<mapping_split>* split);
    [[nodiscard, gnu::noinline]] void* wait_for(light_unique_ptr<host_waits> left, stream_ref const* s,
                                                block_request const& r) {
        block& b = left->waiting();
        try {
            left->wait();
            region_lock const lock{guard_};
            heap_.order().note_done(*left);
            if (is_special_) throw_if_closed(r);
            collect();  // a peak is exact
            heap_.arrived(b);
            return is_special_ ? found_and_told(b, s, r) : found(b, s, r.keeps);
        } catch (...) {
            wait_set pending = left->points_or_drain();
            region_lock const lock{guard_};
            heap_.did_not_come(b, std::move(pending));
            throw;
        }
    }

    // The members below require the lock.

    // Nothing if the mapping cannot be held, as in a foreign capture.
    [[nodiscard, gnu::noinline]] std::optional<mapping_split> take_out_to_split(
        block& b, block_request const& r) noexcept {
        try {
            auto split = heap_.take_out_to_split(b, r);
            if (split && watch_) watch_->goes(split->whole.at, split->whole.bytes);
            return split;
        } catch (...) { return std::nullopt; }
    }

    [[nodiscard]] pool_stats stats_now() const noexcept;
    // --- closed or observed pool: out of line ---

    [[gnu::noinline]] void throw_if_closed(block_request const& r) const {
        if (closed_) throw_usage_error(r.who.where, "{}: allocation after close() or destruction", {title()});
    }
    [[nodiscard, gnu::noinline]] void* found_and_told(block& b, stream_ref const* s,
                                                      block_request const& r) noexcept {
        void* const p = found(b, s, r.keeps);
        if (watch_) watch_->taken(b, s);
        return p;
    }
    template <class WhileClosed>
    [[gnu::noinline]] void give_specially(block& b, stream_ref const* s, late_free& late,
                                          WhileClosed& while_closed) noexcept {
        bool const keeps = closed_ && b.note->keeps;
        if (watch_) late.seen = watch_->given(b, s);
        if (!s) heap_.give(b, {});
        else put_in_order(b, *s, late);
        if (late.what) return;
        if (late.seen) watch_->is_free(*late.seen, s != nullptr, heap_.order());
        if (closed_) while_closed(keeps && --keepers_ == 0);
    }

    // Revokes the caches if the request would raise a peak.
    void make_peak_known(std::size_t bytes) noexcept;
    [[nodiscard, gnu::always_inline]] void* found(block& b, stream_ref const* s, bool keeps) noexcept {
        b.note->keeps = keeps;
        if (s && ((keeps && s->is_owned()) || may_be_ready(b, *s))) expect_back(b, *s);
        return b.at();
    }

    // Leaves the waits for a withheld block to waited_for, and returns its address.
    [[nodiscard]] void* left_to_host(block& withheld, host_waits*& left) noexcept {
        heap_.order().host_waits_now().set_block(withheld);
        left = heap_.order().take_host_waits().detach();
        return withheld.at();
    }
    // Returns the live block of that size at p, now held. Throws: usage_error.
    [[nodiscard]] block& claim(void* p, std::size_t bytes);

    // Frees a held block in the order of s, or caches it. If the order cannot be recorded, it stays held and is `late`.
    void put_in_order(block& b, stream_ref s, late_free& late) noexcept;

    // --- thread caches ---

    // Cached blocks do not merge, so they must be a small part of the pool.
    [[nodiscard]] bool may_be_ready(block const& b, stream_ref s) const noexcept;
    // Binds a block to its `stream`, and prepares this thread's cache.
    void expect_back(block& b, stream_ref s) noexcept;
    // Caches a held block, or returns false.
    [[nodiscard]] bool keep_ready(block& b, stream_ref s, std::uint32_t stream_index) noexcept;
    // Evicts a cached block; its next user waits for all present work of its stream.
    void give_ready(block& b) const noexcept;
    void collect() const noexcept;
    class [[nodiscard]] lock_of_all {
    public:
        explicit lock_of_all(block_pool const& of) : lock_{of.guard_} { of.collect(); }

    private:
        region_lock<object_lock> const lock_;
    };
    lock_of_all lock_all() const { return lock_of_all{*this}; }
    [[nodiscard]] block_user user_of(stream_ref const* s);
    // Revokes the caches before registering a new stream: cached blocks refer to stream indices.
    [[nodiscard]] std::uint32_t stream_index_of(stream_ref s);
    [[nodiscard, gnu::noinline]] std::uint32_t look_up(stream_ref s) {
        if (auto const known = heap_.order().find(s)) return *known;
        collect();
        return heap_.order().index_of(s);
    }

    template <class Surplus>
    [[nodiscard]] std::optional<idle_memory> take_out_of(Surplus surplus, kept_addresses const& kept,
                                                         idle_choice which) {
        light_unique_ptr<host_waits> busy;
        std::optional<idle_memory> out;
        {
            auto const lock = lock_all();
            std::size_t const bytes = surplus();
            if (bytes == 0 || !(out = heap_.take_out(bytes, kept, which))) return std::nullopt;
            busy = heap_.order().take_host_waits();
            // First: after the release, this pool may get the address again.
            if (watch_) watch_->goes(out->at, out->bytes);
        }
        try {
            if (busy) busy->wait();
        } catch (...) {
            gone(*out, false);
            throw;
        }
        return out;
    }

    tag const name_;

    // Protects the members below.
    mutable object_lock guard_;
    mutable block_heap heap_;
    mutable thread_caches thread_caches_;
    std::size_t gone_ = 0;          // total bytes released
    std::condition_variable left_;  // memory was released or kept
    bool closed_ = false;
    bool is_special_ = false;  // closed_ || watch_
    std::unique_ptr<pool_notifier> watch_;
    std::size_t keepers_ = 0;  // after close(): live blocks that keep the pool
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/guard/detail/reclaimable_holder.hpp>
#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

[[gnu::noinline, gnu::cold]] CUOTA_INLINE void block_pool::name_in_reports(block const& b) noexcept {
    (void)rt::named_block(b.at(), b.requested, {b.note->name, b.note->where});
}

CUOTA_INLINE void* block_pool::take_cached(stream_ref s, std::size_t bytes, std::size_t alignment, tag name,
                                           source_location where, lifetime_hint lifetime,
                                           bool keeps) noexcept {
    thread_slot* const me = this_thread_slot();
    if (!me || bytes > thread_cache::largest || !s.is_owned() || alignment > heap_.granularity())
        return nullptr;
    if (lifetime == lifetime_hint::persistent || is_out_of_step(lifetime)) return nullptr;
    void* taken = nullptr;
    block* mine = nullptr;
    auto const write = [&](block& b) {
        b.requested = bytes;
        block_metadata& note = *b.note;
        note.name = name;
        // one by one: a copy of the whole waits for the stores of its parts
        note.where.file = where.file;
        note.where.line = where.line;
        note.epoch = {heap_.steps().now(), lifetime};
        note.keeps = keeps;
        mine = &b;
        taken = b.at();
        b.stand_at(taken, block::state::live);
    };
    (void)thread_caches_.of(*me).try_take(*me, s.id(), bytes, heap_.size_of_small(bytes), write);
    if (rt::is_race_checked() && taken) [[unlikely]]
        name_in_reports(*mine);
    return taken;
}

CUOTA_INLINE void* block_pool::try_take(stream_ref const* s, block_request const& r,
                                        std::optional<mapping_split>* split) {
    host_waits* left = nullptr;
    void* const p = take_free(s, r, left, split);
    return waited_for(left, p, s, r);
}

CUOTA_INLINE void* block_pool::take_free(stream_ref const* s, block_request const& r, host_waits*& left,
                                         std::optional<mapping_split>* split) {
    region_lock const lock{guard_};
    if (is_out_of_step(r.lifetime))
        throw_usage_error(r.who.where, "{}: step allocation outside of a step; call begin_step first",
                          {title()});
    bool const is_special = is_special_;
    if (is_special) throw_if_closed(r);
    make_peak_known(r.bytes);
    block_user const user = user_of(s);  // first: registering a new stream merges cached blocks
    block* b = heap_.find(r, user.stream_index);
    if (!b) {
        collect();
        b = heap_.find(r, user.stream_index);
    }
    if (!b) return nullptr;
    if (split && heap_.splits()) [[unlikely]]
        if ((*split = take_out_to_split(*b, r))) return nullptr;
    block& taken = heap_.take(*b, r, user);
    if (heap_.order().has_host_waits()) [[unlikely]]
        return left_to_host(taken, left);
    return is_special ? found_and_told(taken, s, r) : found(taken, s, r.keeps);
}

CUOTA_INLINE void* block_pool::take_of_new(segment const& fresh, stream_ref const* s,
                                           block_request const& r) {
    region_lock const lock{guard_};
    make_peak_known(r.bytes);
    if (!watch_) return found(heap_.take_of_new(fresh, r), s, r.keeps);
    block& taken = heap_.take_of_new(fresh, r);
    watch_->came(fresh, r.who.where);
    return found_and_told(taken, s, r);
}

CUOTA_INLINE void block_pool::add(segment const& fresh) {
    region_lock const lock{guard_};
    heap_.add(fresh);
    if (watch_) watch_->came(fresh, {});
}

CUOTA_INLINE void block_pool::keep_for_graph(void* p, std::size_t bytes) {
    region_lock const lock{guard_};
    block& b = claim(p, bytes);
    b.note->stream = block_metadata::no_stream;
    b.become(block::state::live);
}

CUOTA_INLINE std::optional<idle_memory> block_pool::take_out(std::size_t surplus, kept_addresses const& kept,
                                                             idle_choice which) {
    return take_out_of([surplus] { return surplus; }, kept, which);
}

CUOTA_INLINE std::optional<idle_memory> block_pool::take_out_above(std::size_t keep) {
    return take_out_of(
        [&] { return heap_.counters().staying() - std::min(heap_.counters().staying(), keep); }, {},
        idle_choice::any);
}

CUOTA_INLINE void block_pool::gone(idle_memory const& out, bool is_gone) noexcept {
    {
        region_lock const lock{guard_};
        if (watch_ && !is_gone) watch_->came({out.at, out.bytes}, {});
        heap_.gone(out, is_gone);
        if (is_gone) gone_ += out.bytes;
    }
    left_.notify_all();
}

CUOTA_INLINE std::size_t block_pool::wait_for_leaving() noexcept {
    if (giving_back::is_on()) return 0;
    std::unique_lock<std::mutex> lock{guard_};
    std::size_t const before = heap_.counters().leaving();
    std::size_t const gone_before = gone_;
    left_.wait(lock, [&] {
        return heap_.counters().leaving() < before || heap_.counters().leaving() == 0 || gone_ != gone_before;
    });
    return gone_ - gone_before;
}

CUOTA_INLINE std::size_t block_pool::could_take_out(std::size_t wanted,
                                                    kept_addresses const& kept) const noexcept {
    auto const lock = lock_all();
    std::size_t const given = could_be_idle(heap_.blocks(), wanted, kept);
    return given >= wanted ? given : given + heap_.counters().leaving();
}

CUOTA_INLINE void block_pool::add_range(std::byte* at, std::size_t bytes, std::size_t page) {
    heap_.blocks().add_range(at, bytes, page);
}

CUOTA_INLINE std::optional<growth_candidate> block_pool::could_grow(std::size_t bytes, growth_aim aim) const {
    auto const lock = lock_all();
    return choose_window(heap_.blocks(), heap_.size_of(bytes), aim);
}

CUOTA_INLINE std::optional<growth_candidate> block_pool::hold(std::size_t bytes, growth_aim aim,
                                                              std::size_t most) {
    auto const lock = lock_all();
    return heap_.hold(heap_.size_of(bytes), aim, most);
}

CUOTA_INLINE std::optional<growth_candidate> block_pool::hold_at(std::byte* at, std::size_t bytes) {
    region_lock const lock{guard_};
    return heap_.hold_at(at, bytes);
}

CUOTA_INLINE void block_pool::note_excess() noexcept {
    region_lock const lock{guard_};
    heap_.note_excess();
}

CUOTA_INLINE bool block_pool::is_fragmented() const noexcept {
    region_lock const lock{guard_};
    return heap_.is_fragmented();
}

CUOTA_INLINE void* block_pool::take_of_grown(growth_candidate const& window, stream_ref const* s,
                                             block_request const& r, host_waits*& left) {
    region_lock const lock{guard_};
    make_peak_known(r.bytes);
    block_user const user = user_of(s);  // first: cached blocks may become free beside the window
    if (!watch_) {
        block& taken = heap_.take_of_grown(window, r, user);
        if (heap_.order().has_host_waits()) [[unlikely]]
            return left_to_host(taken, left);
        return found(taken, s, r.keeps);
    }
    pool_notifier::growth const grown{window};
    block& taken = heap_.take_of_grown(window, r, user);
    watch_->came(grown, r.who.where);
    if (heap_.order().has_host_waits()) [[unlikely]]
        return left_to_host(taken, left);
    return found_and_told(taken, s, r);
}

CUOTA_INLINE void block_pool::add_grown(growth_candidate const& window) {
    region_lock const lock{guard_};
    if (!watch_) return heap_.add_grown(window);
    pool_notifier::growth const grown{window};
    heap_.add_grown(window);
    watch_->came(grown, {});
}

CUOTA_INLINE std::size_t block_pool::give_up(growth_candidate const& window) noexcept {
    region_lock const lock{guard_};
    return heap_.give_up(window);
}

CUOTA_INLINE std::size_t block_pool::largest_grown(std::size_t spent) const noexcept {
    auto const lock = lock_all();
    return largest_window(heap_.blocks(), spent);
}

CUOTA_INLINE bool block_pool::close() noexcept {
    auto const lock = lock_all();
    thread_caches_.end();
    is_special_ = true;
    if (std::exchange(closed_, true)) return false;
    heap_.blocks().for_each_live([this](block const& b) { keepers_ += b.note->keeps; });
    return keepers_ != 0;
}

CUOTA_INLINE void block_pool::wait_for_freed() noexcept {
    { auto const lock = lock_all(); }  // revokes the caches
    heap_.wait_for_freed();
}

CUOTA_INLINE void block_pool::observe(intrusive_ptr<pool_observer> told) {
    auto fresh = std::make_unique<pool_notifier>(std::move(told));
    auto const lock = lock_all();
    if (watch_) throw_usage_error("{}: cannot record: the pool already has a recorder", {title()});
    watch_ = std::move(fresh);
    is_special_ = true;
    thread_caches_.end();
    heap_.blocks().for_each_live([this](block const& b) { watch_->found(b); });
}

CUOTA_INLINE intrusive_ptr<pool_observer> block_pool::observe_no_more() noexcept {
    std::unique_ptr<pool_notifier> before;
    region_lock const lock{guard_};
    if (!watch_) return {};
    before = std::move(watch_);
    before->settle(heap_.order());
    is_special_ = closed_;
    if (!closed_) thread_caches_.go_on();
    return before->told();
}

CUOTA_INLINE pool_stats block_pool::stats() const noexcept {
    auto const lock = lock_all();
    return stats_now();
}

CUOTA_INLINE std::size_t block_pool::largest_free() const noexcept {
    auto const lock = lock_all();
    return heap_.blocks().largest_free();
}

CUOTA_INLINE std::size_t block_pool::reserved() const noexcept {
    region_lock const lock{guard_};
    return heap_.counters().reserved();
}

CUOTA_INLINE idle_pieces block_pool::idle_if_released(std::span<allocation_group const> released) const {
    auto const lock = lock_all();
    return idle_if(heap_.blocks(),
                   [&](block const& b) { return is_one_of(released, b.note->name, b.note->where); });
}

CUOTA_INLINE growth_figures block_pool::figures_with(std::size_t bytes) const noexcept {
    auto const lock = lock_all();
    std::size_t const live = saturating_add(heap_.counters().allocated(), bytes);
    return {std::max(heap_.counters().peak_allocated(), live), heap_.counters().staying()};
}

CUOTA_INLINE std::size_t block_pool::freed() const noexcept {
    auto const lock = lock_all();
    return heap_.counters().freed();
}

CUOTA_INLINE void block_pool::allocation_groups(std::vector<allocation_group>& into) const {
    auto const lock = lock_all();
    append_allocation_groups(heap_.blocks(), into);
    if (std::size_t const cached = heap_.counters().reserved() - heap_.counters().allocated(); cached != 0)
        into.push_back({tag::named("cached in " + title()), {}, cached, true});
}

CUOTA_INLINE std::vector<tag_stats> block_pool::stats_by_tag() const {
    auto const lock = lock_all();
    return detail::stats_by_tag(heap_.blocks(), heap_.steps().now());
}

CUOTA_INLINE std::string block_pool::survivors() const {
    auto const lock = lock_all();
    return survivors_of(heap_.blocks(), heap_.steps().now(), [](block const&) { return true; }).text();
}

CUOTA_INLINE void block_pool::begin_step(source_location where) {
    region_lock const lock{guard_};
    if (heap_.steps().is_open())
        throw_usage_error(where, "{}: begin_step: a step is already open; end it first", {title()});
    (void)heap_.steps().go_on();
    if (watch_) watch_->step_begun(where, heap_.order());
}

CUOTA_INLINE std::string block_pool::end_step() {
    auto const lock = lock_all();
    step_time const now = heap_.steps().go_on();
    if (watch_) watch_->step_ended(heap_.order());
    allocation_epoch const in_it{now, lifetime_hint::step};
    return survivors_of(heap_.blocks(), now, [&](block const& b) { return b.note->epoch == in_it; }).text();
}

CUOTA_INLINE std::string block_pool::title() const {
    return name_.is_empty() ? "a pool" : "pool " + std::string{name_.text()};
}

CUOTA_INLINE void block_pool::wait_for_stream(stream_ref s) noexcept { rt::drain(s); }

CUOTA_INLINE bool block_pool::is_out_of_step(lifetime_hint lifetime) const noexcept {
    return lifetime == lifetime_hint::step && !heap_.steps().is_open();
}

CUOTA_INLINE pool_stats block_pool::stats_now() const noexcept {
    if (watch_) watch_->settle(heap_.order());
    // last: later readers use the stream states that it queried
    pool_stats now = heap_.stats();
    now.thread_cache_hits = thread_caches_.taken();
    return now;
}

CUOTA_INLINE void block_pool::make_peak_known(std::size_t bytes) noexcept {
    if (heap_.would_peak(bytes)) collect();
}

CUOTA_INLINE block& block_pool::claim(void* p, std::size_t bytes) {
    block* const b = heap_.blocks().find_live(p);
    if (!b || !b->claim(p))
        throw_usage_error("{}: deallocate of an unknown pointer (double free, or allocated elsewhere)",
                          {title()});
    if (b->requested != bytes) {
        usage_error const wrong{title() + ": deallocate with the wrong size: " + bytes_text(bytes) + " of " +
                                    describe(*b),
                                b->note->where};
        b->become(block::state::live);
        throw wrong;
    }
    return *b;
}

CUOTA_INLINE void block_pool::put_in_order(block& b, stream_ref s, late_free& late) noexcept {
    try {
        std::uint32_t const stream_index = stream_index_of(s);
        if (keep_ready(b, s, stream_index)) return;
        heap_.give(b, wait_set{heap_.order().release_on(stream_index)});
    } catch (...) {
        late.what = &b;
        late.why = std::current_exception();
        return;
    }
    if (heap_.is_mark_due()) [[unlikely]]
        report_failure_of([this] { heap_.order().look_and_mark(); });
}

CUOTA_INLINE bool block_pool::may_be_ready(block const& b, stream_ref s) const noexcept {
    return b.size <= thread_cache::largest && s.is_owned() && b.size <= heap_.counters().reserved() / 2048;
}

CUOTA_INLINE void block_pool::expect_back(block& b, stream_ref s) noexcept {
    auto const stream_index = heap_.order().find(s);
    if (!stream_index) return;
    heap_.keep_stream(b, *stream_index);
    if (!may_be_ready(b, s)) return;
    thread_slot* const me = this_thread();
    if (!me) return;  // as in a capture: the block belongs to the graph
    b.note->stream = s.id();
    if (!thread_caches_.of(*me).is_of(*me)) return;
    thread_cache& mine = thread_caches_.of(*me);
    mine.remember(b);
    if (mine.credit() < thread_cache::loan) mine.lend(heap_.counters().lend(thread_cache::loan));
}

CUOTA_INLINE bool block_pool::keep_ready(block& b, stream_ref s, std::uint32_t stream_index) noexcept {
    if (!may_be_ready(b, s)) return false;
    thread_slot* const me = this_thread();
    thread_cache* const mine = me ? thread_caches_.open_for(*me) : nullptr;
    if (!mine) return false;
    b.note->stream = s.id();
    heap_.keep_stream(b, stream_index);
    return mine->put(b, [this](block& other) { give_ready(other); });
}

CUOTA_INLINE void block_pool::give_ready(block& b) const noexcept {
    heap_.give(b, wait_set{heap_.order().release_on_owned(b.note->stream_index)});
}

CUOTA_INLINE void block_pool::collect() const noexcept {
    heap_.counters().take_back(thread_caches_.collect([this](block& b) { give_ready(b); }));
}

CUOTA_INLINE block_user block_pool::user_of(stream_ref const* s) {
    return s ? block_user{s, stream_index_of(*s)} : block_user{};
}

CUOTA_INLINE std::uint32_t block_pool::stream_index_of(stream_ref s) {
    if (heap_.order().was_last(s)) [[likely]]
        return heap_.order().last();
    return look_up(s);
}

}  // namespace cuota::inline v0::detail

#endif
