// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes guard bytes around blocks and checks them in stream order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/guarded/guard_bytes_store.hpp>
#include <cuota/guard/detail/guarded/guard_copy.hpp>
#include <cuota/guard/detail/resource_adaptor_base.hpp>
#include <cuota/guard/detail/tracker.hpp>
#include <cuota/guard/guard_options.hpp>
#include <cuota/guard/guard_violation.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0::detail {

/// The guard bytes of a resource. Host and CUDA resources for a block are allocated before upstream is called.
///
/// A check copies guard bytes to pinned memory in stream order, by a kernel, or by two copies per block for host-accessible memory and
/// without nvcc; the host compares them afterwards. Threads: any.
class guard_keeper {
public:
    static constexpr unsigned char standing = 0xFD;  // in guard bytes
    static constexpr unsigned char fresh = 0xCD;     // in new blocks
    static constexpr unsigned char stale = 0xDD;     // in freed blocks

    guard_keeper(guard_options wanted, bool is_for_host, source_location where);
    guard_keeper(guard_keeper const&) = delete;
    guard_keeper& operator=(guard_keeper const&) = delete;
    ~guard_keeper();

    [[nodiscard]] tracker& live() noexcept { return live_; }

    /// Resources for the guard bytes of a new block; returned unless kept.
    class [[nodiscard]] lease {
    public:
        lease(guard_keeper& of, guard_bytes& f) noexcept : of_{of}, guard_bytes_{&f} {}
        lease(lease const&) = delete;
        lease& operator=(lease const&) = delete;
        ~lease();
        [[nodiscard]] guard_bytes* operator->() const noexcept { return guard_bytes_; }
        [[nodiscard]] guard_bytes& operator*() const noexcept { return *guard_bytes_; }
        guard_bytes* keep() noexcept { return taken(guard_bytes_); }

    private:
        guard_keeper& of_;
        guard_bytes* guard_bytes_;
    };

    /// Lays out a block; total is 0 if it overflows.
    lease acquire(std::size_t bytes, std::size_t alignment, label const& who);

    /// Writes the guard bytes into upstream's block. Throws: cuda_error; its enqueued work has finished.
    void put_up(guard_bytes& f, call_order const& order, void* base);

    /// Enqueues the check of a freed block, to be collected later. Reports a failure.
    void take_down(guard_bytes& f, call_order const& order) noexcept;

    /// Reports the known damage of freed blocks.
    void report_known() noexcept;

    /// Implements guarded::verify; null checks all blocks. Waits without a lock; a block freed meanwhile is freed after its check.
    void verify(stream_ref s, void const* p, source_location where);

private:
    struct probe {
        guard_bytes* of;
        unsigned char* seen;
    };
    // Enqueues checks on the stream's device, after the guard bytes were written.
    void look(std::span<probe const> some, stream_ref s) const;

    // Copies of the records of live blocks under a check, with a `seen` of their own.
    class live_check {
    public:
        explicit live_check(guard_keeper& of) noexcept : of_{of} {}
        live_check(live_check const&) = delete;
        live_check& operator=(live_check const&) = delete;
        ~live_check() {
            for (guard_bytes* const f : records_) of_.store_.put_back(*f);
            for (guard_bytes* const f : reserved_) of_.store_.put_back(*f);
        }
        // Allocates for `count` blocks; add() requires this, since it runs under a lock.
        void reserve(std::size_t count);
        [[nodiscard]] std::size_t reserved() const noexcept { return reserved_.size(); }
        [[nodiscard]] std::vector<guard_bytes*> const& records() const noexcept { return records_; }
        // Enqueues the check at once only if the block is of another device than s.
        void add(guard_bytes& f, stream_ref s, device on);
        void enqueue_rest(stream_ref s);
        // Waits for the enqueued checks after a failure.
        void drain(stream_ref s) const noexcept;

    private:
        guard_keeper& of_;
        std::vector<guard_bytes*> reserved_;
        std::vector<guard_bytes*> records_;
        std::vector<probe> here_;  // not yet enqueued
    };

    // Enqueues the check of one block or of all, or only counts them if more are live than are reserved.
    [[nodiscard]] bool enqueue_check(live_check& check, std::size_t& count, stream_ref s,
                                     void const* p) const;
    /// Returns the damage of freed blocks with a finished check; if `waits`, of all.
    [[nodiscard]] std::vector<guard_violation> collect(bool waits);
    // Removes the first freed block; unless `waits`, only if it was checked.
    [[nodiscard]] guard_bytes* take_pending(bool waits);
    void put_pending(guard_bytes& f) noexcept;
    void add_violation(guard_bytes const& f, bool found_on_free, std::vector<guard_violation>& to) const;
    void throw_if_any(std::vector<guard_violation> found, source_location where) const;

    guard_options const wanted_;
    bool const is_for_host_;
    guard_bytes_store store_;
    object_lock guard_;  // guards the list of freed blocks
    guard_bytes* first_pending_ = nullptr;
    guard_bytes* last_pending_ = nullptr;
    tracker live_;
};

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/runtime/rt/drain.hpp>

namespace cuota::inline v0::detail {

// Calls act(s); if s is of another device, with a stream of the block's device, ordered within s. If it throws, work on that stream may be
// unfinished: see drain_home.
template <class F>
void at_home(guard_bytes const& f, stream_ref s, F act) {
    if (s.device() == f.home) return act(s);
    event const before{s};
    std::optional<event> after;
    {
        device_scope const there{f.home};  // left before s is used: it may be a handle that each device has
        stream_ref const own{cudaStreamPerThread};
        own.wait(before);
        act(own);
        after.emplace(own);
    }
    s.wait(*after);
}

CUOTA_INLINE void drain_home(guard_bytes const& f) noexcept {
    report_failure_of([&] {
        device_scope const there{f.home};
        rt::drain(stream_ref{cudaStreamPerThread});
    });
}

// Calls f with the order's stream, or with the per-thread stream and synchronizes it. If it throws, the work has finished.
template <class F>
void on_stream_of(call_order const& order, void const* at, F f) {
    std::optional<device_scope> here;
    if (!order.stream()) here.emplace(rt::device_of(at).value_or(device::current()));
    stream_ref const s = order.stream() ? *order.stream() : stream_ref{cudaStreamPerThread};
    try {
        f(s);
        if (!order.stream()) s.synchronize();
    } catch (...) {
        report_failure_of([&] {
            if (!s.is_capturing()) rt::drain(s);
        });
        throw;
    }
}

CUOTA_INLINE guard_keeper::guard_keeper(guard_options wanted, bool is_for_host, source_location where)
    : wanted_{wanted},
      is_for_host_{is_for_host},
      store_{wanted.redzone_bytes, wanted.name},
      live_{"guarded memory", wanted.name} {
    if (wanted.redzone_bytes == 0)
        throw_usage_error(where, "{}: redzone_bytes must be at least 1", {live_.title()});
}

CUOTA_INLINE guard_keeper::~guard_keeper() {
    report_failure_of([this] { throw_if_any(collect(true), {}); });
}

CUOTA_INLINE guard_keeper::lease::~lease() {
    if (guard_bytes_) of_.store_.put_back(*guard_bytes_);
}

CUOTA_INLINE auto guard_keeper::acquire(std::size_t bytes, std::size_t alignment, label const& who) -> lease {
    guard_bytes& f = store_.take();
    f.bytes = bytes;
    f.alignment = alignment;
    f.name = who.name;
    f.where = who.where;
    auto const front = checked_round_up(wanted_.redzone_bytes, alignment);
    auto const block = checked_add(bytes, wanted_.redzone_bytes);
    f.front = front.value_or(0);
    f.total = front && block ? checked_add(*front, *block).value_or(0) : 0;
    return {*this, f};
}

CUOTA_INLINE void guard_keeper::put_up(guard_bytes& f, call_order const& order, void* base) {
    f.at = static_cast<unsigned char*>(base) + f.front;
    std::size_t const redzone_bytes = wanted_.redzone_bytes;
    on_stream_of(order, f.at, [&](stream_ref s) {
        rt::fill_bytes(f.at - redzone_bytes, standing, redzone_bytes, s, f.where);
        rt::fill_bytes(f.at + f.bytes, standing, redzone_bytes, s, f.where);
        if (wanted_.poison) rt::fill_bytes(f.at, fresh, f.bytes, s, f.where);
        f.home = s.device();
        f.done.emplace(s);
        if (is_for_host_) s.synchronize();  // host code may write to it at once
    });
}

CUOTA_INLINE void guard_keeper::take_down(guard_bytes& f, call_order const& order) noexcept {
    bool const is_seen = report_failure_of([&] {
        on_stream_of(order, f.at, [&](stream_ref s) {
            if (s.is_capturing())
                throw_usage_error(
                    f.where,
                    "{}: cannot check the guard bytes of a block that is freed during a stream capture: {}",
                    {live_.title(), leak_summary::line_of(f.name, {}, f.bytes)});
            try {
                at_home(f, s, [&](stream_ref own) {
                    probe const one[] = {{&f, f.seen}};
                    look(one, own);
                    f.done->record(own);
                    if (!wanted_.poison) return;
                    report_failure_of([&] {
                        rt::fill_bytes(f.at - wanted_.redzone_bytes, stale,
                                       f.bytes + 2 * wanted_.redzone_bytes, own, f.where);
                    });
                });
            } catch (...) {
                drain_home(f);
                throw;
            }
        });
    });
    if (is_seen) put_pending(f);
    else store_.put_back(f);
}

CUOTA_INLINE void guard_keeper::report_known() noexcept {
    report_failure_of([this] { throw_if_any(collect(false), {}); });
}

CUOTA_INLINE void guard_keeper::live_check::reserve(std::size_t count) {
    reserved_.reserve(count);
    records_.reserve(count);
    here_.reserve(count);
    while (reserved_.size() < count) reserved_.push_back(&of_.store_.take());
}

CUOTA_INLINE void guard_keeper::live_check::add(guard_bytes& f, stream_ref s, device on) {
    guard_bytes& mine = *reserved_.back();
    reserved_.pop_back();
    records_.push_back(&mine);
    mine.at = f.at;
    mine.bytes = f.bytes;
    mine.name = f.name;
    mine.where = f.where;
    mine.home = f.home;
    if (f.home == on) return here_.push_back({&f, mine.seen});
    at_home(f, s, [&](stream_ref own) {
        probe const one[] = {{&f, mine.seen}};
        of_.look(one, own);
        f.done->record(own);
    });
}

CUOTA_INLINE void guard_keeper::live_check::enqueue_rest(stream_ref s) {
    for (std::span<probe const> rest = here_; !rest.empty();) {
        std::size_t const next = std::min(rest.size(), copy_guard_bytes::most);
        of_.look(rest.first(next), s);
        rest = rest.subspan(next);
    }
    for (probe const& p : here_) p.of->done->record(s);  // a free of the block comes after the check
}

CUOTA_INLINE void guard_keeper::live_check::drain(stream_ref s) const noexcept {
    rt::drain(s);
    for (guard_bytes const* const f : records_) drain_home(*f);
}

CUOTA_INLINE bool guard_keeper::enqueue_check(live_check& check, std::size_t& count, stream_ref s,
                                              void const* p) const {
    bool is_enqueued = false;
    live_.at_rest([&] {
        count = 0;
        live_.for_each([&](live_record const& r) { count += !p || r.at == p; });
        if (count > check.reserved()) return;
        device const on = s.device();
        live_.for_each([&](live_record const& r) {
            if (!p || r.at == p) check.add(*static_cast<guard_bytes*>(r.extra), s, on);
        });
        check.enqueue_rest(s);
        is_enqueued = true;
    });
    return is_enqueued;
}

CUOTA_INLINE void guard_keeper::verify(stream_ref s, void const* p, source_location where) {
    std::vector<guard_violation> found = collect(true);
    live_check check{*this};
    try {
        if (s.is_capturing())
            throw_usage_error(
                where,
                "{}: verify: cannot check guard bytes during a stream capture; verify before or after it",
                {live_.title()});
        try {
            for (std::size_t count = 0; !enqueue_check(check, count, s, p);) check.reserve(count);
            s.synchronize();
        } catch (...) {
            check.drain(s);
            throw;
        }
        for (guard_bytes const* const f : check.records()) add_violation(*f, false, found);
    } catch (...) {  // as in collect
        if (found.empty()) throw;
    }
    throw_if_any(std::move(found), where);
    if (p && check.records().empty())
        throw_usage_error(where, "{}: verify: no live block begins at this address", {live_.title()});
}

CUOTA_INLINE void guard_keeper::look(std::span<probe const> some, stream_ref s) const {
    std::size_t const redzone_bytes = wanted_.redzone_bytes;
    for (probe const& p : some) s.wait(*p.of->done);
    if (!is_for_host_) {
        copy_guard_bytes all{redzone_bytes, {}};
        for (std::size_t i = 0; i != some.size(); ++i) {
            guard_bytes const& f = *some[i].of;
            all.of[i] = {f.at - redzone_bytes, f.at + f.bytes, some[i].seen};
        }
        if (try_copy_guard_bytes(s, all, some.size(), some.front().of->where)) return;
    }
    for (auto const& [f, seen] : some) {
        rt::copy_anywhere(seen, f->at - redzone_bytes, redzone_bytes, s, f->where);
        rt::copy_anywhere(seen + redzone_bytes, f->at + f->bytes, redzone_bytes, s, f->where);
    }
}

CUOTA_INLINE std::vector<guard_violation> guard_keeper::collect(bool waits) {
    std::vector<guard_violation> found;
    try {
        while (guard_bytes* const f = take_pending(waits)) {
            try {
                if (waits) f->done->synchronize();
                add_violation(*f, true, found);
            } catch (...) {
                put_pending(*f);
                throw;
            }
            store_.put_back(*f);
        }
    } catch (...) {  // a failure will recur, but damage is returned only once
        if (found.empty()) throw;
    }
    return found;
}

CUOTA_INLINE guard_bytes* guard_keeper::take_pending(bool waits) {
    region_lock const lock{guard_};
    guard_bytes* const f = first_pending_;
    if (!f || (!waits && !f->done->is_done())) return nullptr;
    first_pending_ = f->next;
    if (!first_pending_) last_pending_ = nullptr;
    return f;
}

CUOTA_INLINE void guard_keeper::put_pending(guard_bytes& f) noexcept {
    region_lock const lock{guard_};
    f.next = nullptr;
    (last_pending_ ? last_pending_->next : first_pending_) = &f;
    last_pending_ = &f;
}

CUOTA_INLINE void guard_keeper::add_violation(guard_bytes const& f, bool found_on_free,
                                              std::vector<guard_violation>& to) const {
    unsigned char const* const begin = f.seen;
    unsigned char const* const end = begin + 2 * wanted_.redzone_bytes;
    auto const is_violation = [](unsigned char byte) { return byte != standing; };
    unsigned char const* const first = std::find_if(begin, end, is_violation);
    if (first == end) return;
    auto const index = static_cast<std::size_t>(first - begin);
    std::size_t const redzone_bytes = wanted_.redzone_bytes;
    bool const is_behind = index >= redzone_bytes;
    unsigned char const* const guard_bytes_end = is_behind ? end : begin + redzone_bytes;
    guard_violation d{f.name, f.where, f.at, f.bytes, 0, 0, {}, found_on_free};
    d.offset = static_cast<std::ptrdiff_t>(is_behind ? f.bytes + (index - redzone_bytes) : index) -
               (is_behind ? 0 : static_cast<std::ptrdiff_t>(redzone_bytes));
    d.count = static_cast<std::size_t>(std::count_if(first, end, is_violation));
    d.found.assign(first, first + std::min<std::ptrdiff_t>(16, guard_bytes_end - first));
    to.push_back(std::move(d));
}

CUOTA_INLINE void guard_keeper::throw_if_any(std::vector<guard_violation> found,
                                             source_location where) const {
    if (!found.empty()) throw guard_bytes_error{live_.title(), std::move(found), where};
}

}  // namespace cuota::inline v0::detail

#endif
