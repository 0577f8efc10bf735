// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Writes fences (guard bytes) around blocks and checks them in stream order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/locked_region.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/guard/accounted.hpp>
#include <cuota/guard/fence_damage.hpp>
#include <cuota/guard/tracker.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/copy.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0 {

/// Options of `fenced`. Example: tests/guard/fenced.cpp
struct fence_options {
    tag name{};              ///< for messages
    std::size_t zone = 256;  ///< bytes of the fence on each side; at least 1
    bool poison = true;      ///< fill new and freed blocks with recognizable bytes
};

namespace detail {

/// Fences of a block, with all that their check needs, so that a deallocation allocates nothing.
struct fence {
    unsigned char* at = nullptr;  // the block
    std::size_t bytes = 0;
    std::size_t alignment = 0;
    std::size_t front = 0;  // offset of the block in upstream's block
    std::size_t total = 0;  // size of upstream's block
    tag name{};
    place where{};
    device home{0};                 // of the event
    std::optional<event> done;      // live: fences written; pending: fences copied to `seen`
    unsigned char* seen = nullptr;  // pinned: front zone, rear zone
    fence* next = nullptr;
};

/// Kernel that copies the fences of some blocks to where the host compares them.
struct copy_fences {
    static constexpr std::size_t most = 16;

    struct pair {
        unsigned char const* front;
        unsigned char const* behind;
        unsigned char* seen;
    };

    std::size_t zone;
    pair of[most];

    CUOTA_KERNEL void operator()(std::size_t i) const {
        pair const& one = of[i / (2 * zone)];
        std::size_t const at = i % (2 * zone);
        one.seen[at] = at < zone ? one.front[at] : one.behind[at - zone];
    }
};

/// The fences of a resource. Host and CUDA resources for a block are allocated before upstream is called.
///
/// A check is a kernel that copies the fences of up to 16 blocks to pinned memory in stream order, and a comparison on the host after that;
/// for host-accessible memory, and in programs not compiled by nvcc, two copies per block. Threads: any.
class fence_keeper {
public:
    static constexpr unsigned char standing = 0xFD;  // in fences
    static constexpr unsigned char fresh = 0xCD;     // in new blocks
    static constexpr unsigned char stale = 0xDD;     // in freed blocks

    fence_keeper(fence_options wanted, bool is_for_host, place where);
    fence_keeper(fence_keeper const&) = delete;
    fence_keeper& operator=(fence_keeper const&) = delete;
    ~fence_keeper();

    [[nodiscard]] tracker& live() noexcept { return live_; }

    /// Resources for the fences of a new block; returned unless kept.
    class [[nodiscard]] lease {
    public:
        lease(fence_keeper& of, fence& f) noexcept : of_{of}, fence_{&f} {}
        lease(lease const&) = delete;
        lease& operator=(lease const&) = delete;
        ~lease();
        [[nodiscard]] fence* operator->() const noexcept { return fence_; }
        [[nodiscard]] fence& operator*() const noexcept { return *fence_; }
        fence* keep() noexcept { return taken(fence_); }

    private:
        fence_keeper& of_;
        fence* fence_;
    };

    /// Lays out a block; total is 0 if it overflows. Throws: std::bad_alloc; out_of_memory, cuda_error of pinned memory.
    lease acquire(std::size_t bytes, std::size_t alignment, label const& who);

    /// Writes the fences into upstream's block. Throws: cuda_error; its enqueued work has finished.
    void put_up(fence& f, call_order const& order, void* base);

    /// Enqueues the check of a freed block, already removed from live(); `collect` returns its damage later. Reports a failure.
    void take_down(fence& f, call_order const& order) noexcept;

    /// Reports the known damage of freed blocks.
    void report_known() noexcept;

    /// Checks all live blocks, or that at p, after the work enqueued on s, and all freed blocks; waits.
    /// Throws: fence_broken; misuse if no block is at p; cuda_error, std::bad_alloc.
    void verify(stream_ref s, void const* p, place where);

private:
    void look_at(fence const& f, stream_ref s) const;
    // Enqueues the check of up to copy_fences::most blocks on the stream's device, each after its fences were written, perhaps by another
    // stream.
    void look(std::span<fence const* const> some, stream_ref s) const;

    /// Returns the damage of freed blocks whose check has finished; if `waits`, of all.
    [[nodiscard]] std::vector<fence_damage> collect(bool waits);
    void add_damage(fence const& f, bool was_given_back, std::vector<fence_damage>& to) const;
    void throw_if_any(std::vector<fence_damage> found, place where) const;

    [[nodiscard]] std::size_t per_page() const noexcept;
    [[nodiscard]] std::size_t page_bytes() const;
    [[nodiscard]] fence& take_free();
    void add_page();
    void recycle(fence& f) noexcept;

    fence_options const wanted_;
    bool const is_for_host_;
    object_lock guard_;
    fence* free_ = nullptr;
    fence* first_pending_ = nullptr;
    fence* last_pending_ = nullptr;
    std::vector<sole_array<fence>> fences_;
    std::vector<void*> pages_;
    tracker live_;
};

}  // namespace detail

}  // namespace cuota::inline v0

#if CUOTA_PART_MEMORY

#include <cuota/runtime/drain.hpp>

namespace cuota::inline v0::detail {

// Calls act(s). If s is of another device, from which the block may be inaccessible, calls act with a stream of the block's device, whose
// work is ordered within s.
template <class F>
void at_home(fence const& f, stream_ref s, F act) {
    if (s.device() == f.home) return act(s);
    event const before{s};
    std::optional<event> after;
    {
        device_scope const there{f.home};  // left before s is used: it may be a handle that each device has
        stream_ref const own{cudaStreamPerThread};
        own.wait(before);
        try {
            act(own);
            after.emplace(own);
        } catch (...) {
            rt::drain(own);
            throw;
        }
    }
    try {
        s.wait(*after);
    } catch (...) {
        rt::drain(*after);
        throw;
    }
}

// Calls f with the order's stream, or with the per-thread stream and synchronizes it. If it throws, the enqueued work has finished.
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

CUOTA_INLINE fence_keeper::fence_keeper(fence_options wanted, bool is_for_host, place where)
    : wanted_{wanted}, is_for_host_{is_for_host}, live_{"fenced memory", wanted.name} {
    if (wanted.zone == 0) throw_misuse(where, "{}: zone must be at least 1 byte", {live_.title()});
}

CUOTA_INLINE fence_keeper::~fence_keeper() {
    report_failure_of([this] { throw_if_any(collect(true), {}); });
    for (void* const p : pages_) pinned_memory{}.deallocate_sync(p, page_bytes());
}

CUOTA_INLINE fence_keeper::lease::~lease() {
    if (fence_) of_.recycle(*fence_);
}

CUOTA_INLINE auto fence_keeper::acquire(std::size_t bytes, std::size_t alignment, label const& who) -> lease {
    fence& f = take_free();
    f.bytes = bytes;
    f.alignment = alignment;
    f.name = who.name;
    f.where = who.where;
    auto const front = checked_round_up(wanted_.zone, alignment);
    auto const block = checked_add(bytes, wanted_.zone);
    f.front = front.value_or(0);
    f.total = front && block ? checked_add(*front, *block).value_or(0) : 0;
    return {*this, f};
}

CUOTA_INLINE void fence_keeper::put_up(fence& f, call_order const& order, void* base) {
    f.at = static_cast<unsigned char*>(base) + f.front;
    std::size_t const zone = wanted_.zone;
    on_stream_of(order, f.at, [&](stream_ref s) {
        rt::fill_bytes(f.at - zone, standing, zone, s, f.where);
        rt::fill_bytes(f.at + f.bytes, standing, zone, s, f.where);
        if (wanted_.poison) rt::fill_bytes(f.at, fresh, f.bytes, s, f.where);
        f.home = s.device();
        f.done.emplace(s);
        if (is_for_host_) s.synchronize();  // host code may write to it at once
    });
}

CUOTA_INLINE void fence_keeper::take_down(fence& f, call_order const& order) noexcept {
    bool const is_seen = report_failure_of([&] {
        on_stream_of(order, f.at, [&](stream_ref s) {
            if (s.is_capturing())
                throw_misuse(
                    f.where,
                    "{}: cannot check the guard bytes of a block that is freed during a stream capture: {}",
                    {live_.title(), survivors::line_of(f.name, {}, f.bytes)});
            at_home(f, s, [&](stream_ref own) {
                look_at(f, own);
                f.done->record(own);
                if (!wanted_.poison) return;
                report_failure_of([&] {
                    rt::fill_bytes(f.at - wanted_.zone, stale, f.bytes + 2 * wanted_.zone, own, f.where);
                });
            });
        });
    });
    if (!is_seen) return recycle(f);
    region_lock const lock{guard_};
    f.next = nullptr;
    (last_pending_ ? last_pending_->next : first_pending_) = &f;
    last_pending_ = &f;
}

CUOTA_INLINE void fence_keeper::report_known() noexcept {
    report_failure_of([this] { throw_if_any(collect(false), {}); });
}

CUOTA_INLINE void fence_keeper::verify(stream_ref s, void const* p, place where) {
    std::vector<fence_damage> found = collect(true);
    bool is_known = p == nullptr;
    auto const look_at_all = [&] {
        auto const each = [&](auto action) {
            live_.for_each([&](live_record const& r) {
                if (!p || r.at == p) action(*static_cast<fence*>(r.extra));
            });
        };
        try {
            std::vector<fence const*> here;  // on the stream's device
            device const on = s.device();
            each([&](fence& f) {
                is_known = true;
                if (f.home == on) here.push_back(&f);
                else at_home(f, s, [&](stream_ref own) { look_at(f, own); });
            });
            for (std::span<fence const* const> rest = here; !rest.empty();) {
                std::size_t const next = std::min(rest.size(), copy_fences::most);
                look(rest.first(next), s);
                rest = rest.subspan(next);
            }
            s.synchronize();
        } catch (...) {
            rt::drain(s);
            throw;
        }
        each([&](fence& f) { add_damage(f, false, found); });
    };
    try {
        live_.at_rest(look_at_all);
    } catch (...) {  // as in collect
        if (found.empty()) throw;
    }
    throw_if_any(std::move(found), where);
    if (!is_known) throw_misuse(where, "{}: verify: no live block begins at this address", {live_.title()});
}

CUOTA_INLINE void fence_keeper::look_at(fence const& f, stream_ref s) const {
    fence const* const one[] = {&f};
    look(one, s);
}

CUOTA_INLINE void fence_keeper::look(std::span<fence const* const> some, stream_ref s) const {
    std::size_t const zone = wanted_.zone;
    for (fence const* const f : some) s.wait(*f->done);
    if (is_for_host_ || !rt::can_run<copy_fences>()) {
        for (fence const* const f : some) {
            rt::copy_anywhere(f->seen, f->at - zone, zone, s, f->where);
            rt::copy_anywhere(f->seen + zone, f->at + f->bytes, zone, s, f->where);
        }
        return;
    }
    copy_fences all{zone, {}};
    std::optional<rt::borrowed_range> read[2 * copy_fences::most];
    for (std::size_t i = 0; i != some.size(); ++i) {
        fence const& f = *some[i];
        all.of[i] = {f.at - zone, f.at + f.bytes, f.seen};
        read[2 * i].emplace(s, all.of[i].front, zone, false);
        read[2 * i + 1].emplace(s, all.of[i].behind, zone, false);
    }
    for_each_index(s, some.size() * 2 * zone, all, "fenced", some.front()->where);
}

CUOTA_INLINE std::vector<fence_damage> fence_keeper::collect(bool waits) {
    std::vector<fence_damage> found;
    region_lock const lock{guard_};
    try {
        while (fence* const f = first_pending_) {
            if (waits) f->done->synchronize();
            else if (!f->done->is_done()) break;
            add_damage(*f, true, found);
            first_pending_ = f->next;
            if (!first_pending_) last_pending_ = nullptr;
            f->next = std::exchange(free_, f);
        }
    } catch (...) {  // a failure will recur, but damage is returned only once
        if (found.empty()) throw;
    }
    return found;
}

CUOTA_INLINE void fence_keeper::add_damage(fence const& f, bool was_given_back,
                                           std::vector<fence_damage>& to) const {
    unsigned char const* const begin = f.seen;
    unsigned char const* const end = begin + 2 * wanted_.zone;
    auto const is_damage = [](unsigned char byte) { return byte != standing; };
    unsigned char const* const first = std::find_if(begin, end, is_damage);
    if (first == end) return;
    auto const index = static_cast<std::size_t>(first - begin);
    std::size_t const zone = wanted_.zone;
    bool const is_behind = index >= zone;
    unsigned char const* const fence_end = is_behind ? end : begin + zone;
    fence_damage d{f.name, f.where, f.at, f.bytes, 0, 0, {}, was_given_back};
    d.offset = static_cast<std::ptrdiff_t>(is_behind ? f.bytes + (index - zone) : index) -
               (is_behind ? 0 : static_cast<std::ptrdiff_t>(zone));
    d.count = static_cast<std::size_t>(std::count_if(first, end, is_damage));
    d.found.assign(first, first + std::min<std::ptrdiff_t>(16, fence_end - first));
    to.push_back(std::move(d));
}

CUOTA_INLINE void fence_keeper::throw_if_any(std::vector<fence_damage> found, place where) const {
    if (!found.empty()) throw fence_broken{live_.title(), std::move(found), where};
}

CUOTA_INLINE std::size_t fence_keeper::per_page() const noexcept {
    return std::clamp<std::size_t>((std::size_t{64} << 10) / wanted_.zone, 1, 64);
}

CUOTA_INLINE std::size_t fence_keeper::page_bytes() const {
    return bytes_of(2 * per_page(), {wanted_.name, {}, "bytes", wanted_.zone});
}

CUOTA_INLINE fence& fence_keeper::take_free() {
    region_lock const lock{guard_};
    if (!free_) add_page();
    return *std::exchange(free_, free_->next);
}

CUOTA_INLINE void fence_keeper::add_page() {
    std::size_t const count = per_page();
    fences_.reserve(fences_.size() + 1);
    pages_.reserve(pages_.size() + 1);
    auto more = sole_array<fence>::make(count);
    auto* const page =
        static_cast<unsigned char*>(pinned_memory{}.allocate_sync(page_bytes(), 256, {"fences", {}}));
    pages_.push_back(page);
    for (std::size_t i = 0; i != count; ++i) {
        more[i].seen = page + 2 * wanted_.zone * i;
        more[i].next = std::exchange(free_, &more[i]);
    }
    fences_.push_back(std::move(more));
}

CUOTA_INLINE void fence_keeper::recycle(fence& f) noexcept {
    region_lock const lock{guard_};
    f.next = std::exchange(free_, &f);
}

}  // namespace cuota::inline v0::detail

#endif
