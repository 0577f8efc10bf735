// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A resource that knows who has its memory: leaks by name, at the end of a step, of a scope and of the program.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/guard/accounted.hpp>
#include <cuota/guard/tracked_report.hpp>
#include <cuota/guard/tracker.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

template <resource Upstream>
class tracked;

namespace detail {

/// What a tracked resource, its snapshots and its checks share, whatever the upstream.
class tracked_books : public ref_counted {
public:
    explicit tracked_books(tag name) : live_{"tracked memory", name} {}
    CUOTA_INLINE_IN_PLACE virtual ~tracked_books();

    [[nodiscard]] tracker& live() noexcept { return live_; }

    [[nodiscard]] std::vector<tracked_block> blocks(std::uint64_t& next) const;
    /// What came and went since `then`, when `next` was the next number.
    [[nodiscard]] tracked_diff since(std::uint64_t next, tracked_report const& then,
                                     tracked_order first) const;

private:
    [[nodiscard]] static tracked_block block_of(live_record const& r, std::uint64_t next);

    tracker live_;
};

template <resource Upstream>
class tracked_state final : public tracked_books {
public:
    tracked_state(Upstream upstream, tag name) : tracked_books{name}, upstream_{std::move(upstream)} {}

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (bytes == 0) return order.take(upstream_, bytes, alignment, who);
        live_record r{nullptr, bytes, 0, live_record::no_stream, who.name, who.where, nullptr};
        if (order.stream()) r.stream = order.stream()->id();
        tracker::reservation room = live().reserve(who.where);
        r.at = order.take(upstream_, bytes, alignment, who);
        if (r.at) room.enter(r);
        return r.at;
    }
    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (p && !live().try_take_out(p, bytes) &&
            !report_failure_of([&] { (void)live().take_out(p, bytes); }))
            return;
        order.give(upstream_, p, bytes, alignment);
    }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

private:
    Upstream upstream_;
};

}  // namespace detail

/// What was alive in a tracked resource at one moment. Keeps the resource.
/// Threads: as a value. Throws: std::bad_alloc when it is copied. Cost: of a copy, that of its blocks.
/// Example: tests/guard/tracked.cpp
class tracked_snapshot {
public:
    /// The oldest first.
    [[nodiscard]] tracked_report const& live() const noexcept { return live_; }

private:
    template <resource Upstream>
    friend class tracked;
    tracked_report live_;
    std::uint64_t next_ = 0;
    shared<detail::tracked_books> of_;
};

/// From `tracked::expect_no_growth` to the end of the block, in which as much should be given back as is taken: a step.
///
/// Counted by tag, and what has no tag by place: a block that takes the place of another of its tag is no growth, and a
/// cache that went does not pay for a leak. A tag that has more blocks or bytes at the end than at the begin is reported
/// as misuse, with those taken since by size and place; they stay valid. Checks may be open side by side and inside one
/// another; each looks at the whole resource, so what other threads take belongs to it.
///
/// Threads: any may take and give.
/// Throws:  std::bad_alloc at the begin.
/// Cost:    a look at each live block at the begin and at the end, while nobody takes or gives.
/// Example:
///     for (cuota::batch b : loader.epoch(0)) {
///         auto const check = memory.expect_no_growth("step");
///         train_step(b);
///     }
class growth_check {
public:
    growth_check(growth_check const&) = delete;  // a scope is one place
    growth_check& operator=(growth_check const&) = delete;
    ~growth_check();

    /// Ends it now; its end says nothing more then. Throws: misuse that names what grew.
    void close();

private:
    template <resource Upstream>
    friend class tracked;

    struct totals;

    growth_check(shared<detail::tracked_books> books, tag name, place where);

    shared<detail::tracked_books> books_;
    tag name_;
    place where_;
    std::uint64_t next_ = 0;
    sole<totals> begun_with_;
    bool is_over_ = false;
};

/// Upstream's memory, with a record of each live block: tag, place, stream, size, and its age.
///
/// Over a pool or a budget it knows what their users have, below a pool the pool's segments. A name tells several
/// apart in messages. What is alive when the last copy is gone is reported by tag, size and place, as misuse; at the end
/// of the program also what a forgotten owner keeps alive together with its resource. Shared state: copies are the same.
/// A `resource`: its calls are those of the concept.
///
/// A wrong size, a foreign pointer, one into a block, or a second release goes to the error sink as misuse that names the
/// block, and changes nothing. (A second release of an address that is another's by now, with the same size, is his.)
///
/// Units:   bytes, as asked for.
/// Order:   that of Upstream.
/// Threads: any, if Upstream allows it.
/// Throws:  what Upstream throws; std::bad_alloc, before Upstream is asked; misuse after close. Nothing is taken then.
/// Cost:    no lock while a thread gives back itself what it took; else one or more. 64 bytes of host memory a block, at
///          three quarters full; to give back takes none. A native handle is asked for its stream's id by a driver call.
/// Example:
///     cuota::tracked memory{pool.resource(), "trainer"};
///     auto const before = memory.snapshot();
///     evaluate(memory);
///     std::puts(memory.diff(before).text().c_str());
template <resource Upstream = device_memory>
class tracked : public detail::accounted<Upstream, detail::tracked_state<Upstream>> {
public:
    /// Over a new Upstream, without a name. Throws: std::bad_alloc.
    tracked() requires std::default_initializable<Upstream> : tracked{Upstream{}} {}
    /// The name is for messages. Throws: std::bad_alloc.
    // Of no other type: a tracked<any_resource> could be converted to its own upstream.
    template <std::same_as<Upstream> U>
    explicit tracked(U upstream, tag name = {})
        : tracked::accounted{shared<detail::tracked_state<Upstream>>::make(std::move(upstream), name)} {}

    /// What is alive now. Throws: std::bad_alloc. Cost: a look at each live block, while nobody takes or gives.
    [[nodiscard]] tracked_report live(tracked_order first = tracked_order::oldest) const {
        std::uint64_t next = 0;
        return detail::report_of(books().blocks(next), first);
    }
    /// What is alive now, grouped by tag and place on one line, most bytes first; empty when nothing is. Throws, cost:
    /// as live.
    [[nodiscard]] std::string leaks() const {
        return books().live().survivors_of([](detail::live_record const&) { return true; }).text();
    }

    /// What is alive now, to compare with later. Throws, cost: as live.
    [[nodiscard]] tracked_snapshot snapshot() const {
        tracked_snapshot now;
        now.of_ = owner();
        now.live_ = detail::report_of(books().blocks(now.next_), tracked_order::oldest);
        return now;
    }
    /// What was taken since and is still alive, and what was alive then and is gone. Throws: misuse for a snapshot of
    /// another resource; as live.
    [[nodiscard]] tracked_diff diff(tracked_snapshot const& since,
                                    tracked_order first = tracked_order::oldest) const {
        if (since.of_ != owner())
            detail::throw_misuse("a snapshot was compared with what it was not taken of");
        return books().since(since.next_, since.live_, first);
    }

    /// Begins a step that should leave no more behind than it found. Throws, cost: as live.
    [[nodiscard]] growth_check expect_no_growth(tag name = {}, place where = place::here()) const {
        return growth_check{owner(), name, where};
    }

    /// Ends the resource now: who asks it for memory later gets a misuse. Throws: misuse that names what is still alive;
    /// it goes on then.
    void close(place where = place::here()) { books().live().close(where); }

    /// What it takes its memory from.
    [[nodiscard]] Upstream const& upstream() const noexcept { return books().upstream(); }

private:
    [[nodiscard]] shared<detail::tracked_books> owner() const noexcept {
        return shared<detail::tracked_books>::of(books());
    }
    [[nodiscard]] detail::tracked_state<Upstream>& books() const noexcept {
        return *tracked::accounted::owner();
    }
};

/// `tracked memory{pool.resource()}`
template <resource Upstream>
tracked(Upstream) -> tracked<Upstream>;
/// `tracked memory{pool.resource(), "trainer"}`
template <resource Upstream>
tracked(Upstream, tag) -> tracked<Upstream>;

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace cuota::inline v0::detail {

CUOTA_INLINE_IN_PLACE tracked_books::~tracked_books() = default;

CUOTA_INLINE std::vector<tracked_block> tracked_books::blocks(std::uint64_t& next) const {
    std::vector<tracked_block> all;
    live_.at_rest([&] {
        next = live_.next_number();
        live_.for_each([&](live_record const& r) { all.push_back(block_of(r, next)); });
    });
    return all;
}

CUOTA_INLINE tracked_diff tracked_books::since(std::uint64_t next, tracked_report const& then,
                                               tracked_order first) const {
    std::uint64_t now = 0;
    std::vector<tracked_block> taken = blocks(now);
    std::set<std::pair<std::uint64_t, void const*>> still;
    std::erase_if(taken, [&](tracked_block const& b) {
        if (b.number < next) still.emplace(b.number, b.at);
        return b.number < next;
    });
    std::vector<tracked_block> gone = then.blocks;
    std::erase_if(gone, [&](tracked_block const& b) { return still.contains({b.number, b.at}); });
    return {report_of(std::move(taken), first), report_of(std::move(gone), first)};
}

CUOTA_INLINE tracked_block tracked_books::block_of(live_record const& r, std::uint64_t next) {
    tracked_block b{r.at, r.bytes, r.name, r.where, std::nullopt, r.number, next - 1 - r.number};
    if (r.stream != live_record::no_stream) b.stream = r.stream;
    return b;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(labelled_resource<tracked<device_memory>> && device_resource<tracked<device_memory>>);
static_assert(!host_resource<tracked<device_memory>> && sizeof(tracked<device_memory>) == 8);

/// What is alive, by tag, and what has none by place.
struct growth_check::totals {
    using key = std::tuple<std::string_view, std::string_view, unsigned>;
    struct total {
        std::size_t blocks = 0;
        std::size_t bytes = 0;
    };

    explicit totals(detail::tracker const& live) {
        live.for_each([&](detail::live_record const& r) {
            total& t = all[key_of(r)];
            ++t.blocks;
            t.bytes += r.bytes;
        });
    }

    [[nodiscard]] static key key_of(detail::live_record const& r) noexcept {
        return r.name.is_empty() ? key{{}, r.where.file, r.where.line} : key{r.name.text(), {}, 0};
    }
    [[nodiscard]] total of(detail::live_record const& r) const {
        auto const found = all.find(key_of(r));
        return found == all.end() ? total{} : found->second;
    }

    std::map<key, total> all;
};

CUOTA_INLINE growth_check::~growth_check() {
    report_failure_of([this] { close(); });
}

CUOTA_INLINE void growth_check::close() {
    if (std::exchange(is_over_, true)) return;
    detail::survivors grown;
    detail::tracker const& live = books_->live();
    live.at_rest([&] {
        totals const now{live};
        live.for_each([&](detail::live_record const& r) {
            if (r.number < next_) return;
            totals::total const before = begun_with_->of(r);
            totals::total const after = now.of(r);
            if (after.blocks > before.blocks || after.bytes > before.bytes)
                grown.add(r.name, r.where, r.bytes);
        });
    });
    if (grown.count() == 0) return;
    std::string const name = name_.is_empty() ? "a step" : name_.text();
    detail::throw_misuse(where_, "{} of {} ended while {}", {name, live.title(), grown.text()});
}

CUOTA_INLINE growth_check::growth_check(shared<detail::tracked_books> books, tag name, place where)
    : books_{std::move(books)}, name_{name}, where_{where} {
    detail::tracker const& live = books_->live();
    live.at_rest([&] {
        next_ = live.next_number();
        begun_with_ = sole<totals>::make(live);
    });
}

}  // namespace cuota::inline v0

#endif
