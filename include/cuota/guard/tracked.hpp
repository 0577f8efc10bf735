// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Records live blocks and reports leaks.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/resource_adaptor_base.hpp>
#include <cuota/guard/detail/tracker.hpp>
#include <cuota/guard/tracked_report.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

template <resource Upstream>
class tracked;

namespace detail {

/// State shared by a tracked resource, its snapshots and checks.
class tracked_accounting : public ref_counted {
public:
    explicit tracked_accounting(tag name) : live_{"tracked memory", name} {}
    CUOTA_INLINE_IN_PLACE virtual ~tracked_accounting();

    [[nodiscard]] tracker& live() noexcept { return live_; }

    [[nodiscard]] std::vector<tracked_block> blocks(std::uint64_t& next) const;
    /// Changes since the report `then`, at which `next` was the next number.
    [[nodiscard]] tracked_diff since(std::uint64_t next, tracked_report const& then,
                                     tracked_order first) const;

private:
    [[nodiscard]] static tracked_block block_of(live_record const& r, std::uint64_t next);

    tracker live_;
};

template <resource Upstream>
class tracked_state final : public tracked_accounting {
public:
    tracked_state(Upstream upstream, tag name) : tracked_accounting{name}, upstream_{std::move(upstream)} {}

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (bytes == 0) return order.take(upstream_, bytes, alignment, who);
        live_record r{nullptr, bytes, 0, live_record::no_stream, who.name, who.where, nullptr};
        if (order.stream()) r.stream = order.stream()->id();
        tracker::reservation available = live().reserve(who.where);
        r.at = order.take(upstream_, bytes, alignment, who);
        if (r.at) available.enter(r);
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

/// The live blocks of a tracked resource at one moment. Keeps the resource alive.
/// Threads: as a value. Throws: std::bad_alloc. Cost: a copy copies the blocks.
class tracked_snapshot {
public:
    /// Returns the blocks, oldest first.
    [[nodiscard]] tracked_report const& live() const noexcept { return live_; }

private:
    template <resource Upstream>
    friend class tracked;
    tracked_report live_;
    std::uint64_t next_ = 0;
    detail::intrusive_ptr<detail::tracked_accounting> of_;
};

/// Checks that no tag's live memory grows, from `tracked::expect_no_growth` to its destruction.
///
/// Counts by tag, untagged blocks by call site. If a tag has more blocks or bytes at the end than at the beginning, its blocks allocated
/// since are reported as misuse. Checks may overlap. Each covers the whole resource, other threads' allocations included.
///
/// Threads: any may allocate and free.
/// Throws:  std::bad_alloc at the beginning.
/// Cost:    visits each live block at the beginning and the end; allocations are blocked meanwhile.
/// Example:
///     for (cuota::batch b : loader.epoch(0)) {
///         auto const check = memory.expect_no_growth("step");
///         train_step(b);
///     }
class growth_check {
public:
    growth_check(growth_check const&) = delete;  // bound to its scope
    growth_check& operator=(growth_check const&) = delete;
    ~growth_check();

    /// Ends the check now. Throws: usage_error that names the tags that grew.
    void close();

private:
    template <resource Upstream>
    friend class tracked;

    struct totals;

    growth_check(detail::intrusive_ptr<detail::tracked_accounting> state, tag name, source_location where);

    detail::intrusive_ptr<detail::tracked_accounting> state_;
    tag name_;
    source_location where_;
    std::uint64_t next_ = 0;
    detail::light_unique_ptr<totals> begun_with_;
    bool is_over_ = false;
};

/// Resource adaptor that records Upstream's live blocks: tag, call site, stream, size and age.
///
/// Above a pool it records its users' blocks, below a pool its segments. Blocks that are live when the last copy is destroyed, or at
/// program exit, are reported as misuse. Copies share the same state.
///
/// Invalid deallocations (wrong size, unknown or interior pointer, double free) are reported to the error sink as misuse and change
/// nothing. Limitation: a double free frees a block of the same size that reuses the address.
///
/// Units:   bytes as requested.
/// Order:   that of Upstream.
/// Threads: any, if Upstream allows it.
/// Throws:  what Upstream throws; std::bad_alloc before Upstream is called; usage_error after close. Nothing is allocated.
/// Cost:    no lock if a thread frees its own allocations. 64 bytes of host memory per table slot, of which at most three quarters are
///          used. A driver call for the id of a native stream handle.
/// Example:
///     cuota::tracked memory{pool.resource(), "trainer"};
///     auto const before = memory.snapshot();
///     evaluate(memory);
///     std::puts(memory.diff(before).text().c_str());
template <resource Upstream = device_memory>
class tracked : public detail::resource_adaptor_base<Upstream, detail::tracked_state<Upstream>> {
public:
    /// Uses a default-constructed Upstream, without a name.
    tracked() requires std::default_initializable<Upstream> : tracked{Upstream{}} {}
    /// name: for messages.
    // No other type: a tracked<any_resource> could be converted to its own upstream.
    template <std::same_as<Upstream> U>
    explicit tracked(U upstream, tag name = {})
        : tracked::resource_adaptor_base{
              detail::intrusive_ptr<detail::tracked_state<Upstream>>::make(std::move(upstream), name)} {}

    /// Returns the live blocks. Cost: visits each block while allocations are blocked, as the queries below.
    [[nodiscard]] tracked_report live(tracked_order first = tracked_order::oldest) const {
        std::uint64_t next = 0;
        return detail::report_of(state().blocks(next), first);
    }
    /// Returns them as one line, by tag and call site, most bytes first.
    [[nodiscard]] std::string leaks() const {
        return state().live().survivors_of([](detail::live_record const&) { return true; }).text();
    }

    /// Returns the live blocks, for `diff`.
    [[nodiscard]] tracked_snapshot snapshot() const {
        tracked_snapshot now;
        now.of_ = owner();
        now.live_ = detail::report_of(state().blocks(now.next_), tracked_order::oldest);
        return now;
    }
    /// Returns the changes since a snapshot. Throws: usage_error for a snapshot of another resource.
    [[nodiscard]] tracked_diff diff(tracked_snapshot const& since,
                                    tracked_order first = tracked_order::oldest) const {
        if (since.of_ != owner())
            detail::throw_usage_error("diff: the snapshot was taken from a different resource");
        return state().since(since.next_, since.live_, first);
    }

    /// Begins a step in which no tag should grow.
    [[nodiscard]] growth_check expect_no_growth(tag name = {},
                                                source_location where = source_location::current()) const {
        return growth_check{owner(), name, where};
    }

    /// Closes the resource: later allocations throw usage_error. Throws: usage_error that names the live blocks; it stays open.
    void close(source_location where = source_location::current()) { state().live().close(where); }

    /// Returns the upstream resource.
    [[nodiscard]] Upstream const& upstream() const noexcept { return state().upstream(); }

private:
    [[nodiscard]] detail::intrusive_ptr<detail::tracked_accounting> owner() const noexcept {
        return detail::intrusive_ptr<detail::tracked_accounting>::of(state());
    }
    [[nodiscard]] detail::tracked_state<Upstream>& state() const noexcept {
        return *tracked::resource_adaptor_base::owner();
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

CUOTA_INLINE_IN_PLACE tracked_accounting::~tracked_accounting() = default;

CUOTA_INLINE std::vector<tracked_block> tracked_accounting::blocks(std::uint64_t& next) const {
    std::vector<tracked_block> all;
    live_.at_rest([&] {
        next = live_.next_number();
        live_.for_each([&](live_record const& r) { all.push_back(block_of(r, next)); });
    });
    return all;
}

CUOTA_INLINE tracked_diff tracked_accounting::since(std::uint64_t next, tracked_report const& then,
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

CUOTA_INLINE tracked_block tracked_accounting::block_of(live_record const& r, std::uint64_t next) {
    tracked_block b{r.at, r.bytes, r.name, r.where, std::nullopt, r.number, next - 1 - r.number};
    if (r.stream != live_record::no_stream) b.stream = r.stream;
    return b;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

static_assert(labeled_resource<tracked<device_memory>> && device_accessible_resource<tracked<device_memory>>);
static_assert(!host_accessible_resource<tracked<device_memory>> && sizeof(tracked<device_memory>) == 8);

/// Live memory by tag; untagged memory by call site.
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
    detail::leak_summary grown;
    detail::tracker const& live = state_->live();
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
    detail::throw_usage_error(where_, "{} of {} ended with more memory in use: {}",
                              {name, live.title(), grown.text()});
}

CUOTA_INLINE growth_check::growth_check(detail::intrusive_ptr<detail::tracked_accounting> state, tag name,
                                        source_location where)
    : state_{std::move(state)}, name_{name}, where_{where} {
    detail::tracker const& live = state_->live();
    live.at_rest([&] {
        next_ = live.next_number();
        begun_with_ = detail::light_unique_ptr<totals>::make(live);
    });
}

}  // namespace cuota::inline v0

#endif
