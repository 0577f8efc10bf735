// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The machinery of scoped_pool: blocks, and the pages and segments they are cut from, charged to an account.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/block_pool.hpp>
#include <cuota/pool/growing_range.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0::detail {

/// What becomes of memory that has come: its first block, taken for a request.
struct taking {
    block_pool& blocks;
    stream_ref const* s;
    block_request const& r;

    [[nodiscard]] void* operator()(segment const& fresh) const { return blocks.take_of_new(fresh, s, r); }
    [[nodiscard]] void* operator()(grow_window const& window) const {
        return blocks.take_of_grown(window, s, r);
    }
};
/// What becomes of memory that has come: a free block.
struct adding {
    block_pool& blocks;

    void* operator()(segment const& fresh) const {
        blocks.add(fresh);
        return fresh.at;
    }
    void* operator()(grow_window const& window) const {
        blocks.add_grown(window);
        return window.at;
    }
};

class pool_state final : public stakeholder {
public:
    static constexpr std::size_t granule = block::granule;
    static constexpr std::size_t largest_alignment = std::size_t{2} << 20;  ///< a page, as a rule

    /// Grows by `pages` of that device, if there are any, and by segments of the source where pages do not do. Every block
    /// is aligned to `alignment`, and a multiple of it: a power of two up to the largest.
    pool_state(budget account, any_resource source, std::optional<device> where, tag name, int priority = 0,
               std::unique_ptr<page_range> pages = nullptr, std::size_t alignment = granule)
        : account_{std::move(account)},
          source_{std::move(source)},
          device_{where},
          name_{name},
          priority_{priority},
          pages_{std::move(pages)},
          alignment_{std::max(alignment, granule)},
          blocks_{name, alignment_} {
        if (pages_) blocks_.add_range(pages_->at(), pages_->bytes(), pages_->page());
        node().join(*this);
    }
    ~pool_state() {
        node().leave(*this);
        // What is still in use has no owner left who could use or return it. What was freed may still be in use by a
        // stream, and not every source waits for that.
        blocks_.wait_for_freed();
        if (pages_ && device_ &&
            blocks_.stats().live_blocks != 0)  // what is lost may be in use: unmapping waits for nothing
            report_failure_of([&] { device_->synchronize(); });
        blocks_.for_each_segment([this](segment const& s) { give_back(s); });
        blocks_.for_each_mapped([this](std::byte* at, std::size_t bytes) {
            (void)pages_->unmap(at, bytes);
            account_.refund(bytes);
        });
    }

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment, label const& who,
                                 lifespan meant = lifespan::scratch) {
        check_alignment(alignment, who, largest_alignment);
        if (void* const p = blocks_.take_ready(s, bytes, alignment, who.name, who.where, meant)) return p;
        return take_in_order(s, bytes, alignment, who, meant);
    }
    /// Waits on the host for what may still use the bytes.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment, label const& who,
                                      lifespan meant = lifespan::scratch) {
        check_alignment(alignment, who, largest_alignment);
        return take(nullptr, {bytes, who, meant, std::max(alignment, alignment_)});
    }
    /// As allocate, of what the pool has already: null when nothing there fits, and nobody is asked for more.
    [[nodiscard]] void* try_allocate(stream_ref const* s, std::size_t bytes, label const& who) {
        if (s)
            if (void* const p =
                    blocks_.take_ready(*s, bytes, granule, who.name, who.where, lifespan::scratch))
                return p;
        return blocks_.try_take(s, {bytes, who, lifespan::scratch, alignment_});
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept {
        if (!blocks_.put_ready(s, p, bytes)) give_in_order(s, p, bytes);
    }
    void deallocate_sync(void* p, std::size_t bytes) noexcept {
        if (blocks_.give(nullptr, p, bytes)) trim(0);
    }

    /// Gives whole pages and segments back that are free until at most `keep` bytes are reserved, or none is left to give.
    /// Waits for the work that may still use them. Returns the bytes given back.
    std::size_t trim(std::size_t keep) noexcept {
        return give_back_all([&](std::size_t) { return blocks_.take_out_above(keep); });
    }

    std::size_t reclaim(std::size_t wanted) noexcept override {
        kept_addresses const kept = kept_here();
        std::size_t const given = give_back_all(
            [&](std::size_t so_far) { return blocks_.take_out(wanted - std::min(wanted, so_far), kept); });
        return given >= wanted ? given : given + wait_for_others();
    }
    [[nodiscard]] std::size_t reclaimable(std::size_t wanted) const noexcept override {
        wait_for_refunds();
        return blocks_.could_take_out(wanted, kept_here());
    }
    [[nodiscard]] int priority() const noexcept override { return priority_; }
    void holdings(std::vector<holding>& into) const override { blocks_.holdings(into); }
    [[nodiscard]] std::size_t largest_free() const noexcept override { return blocks_.largest_free(); }
    [[nodiscard]] std::string title() const override { return blocks_.title(); }

    /// Reserves memory before anybody asks. Throws: as allocate.
    void reserve(std::size_t bytes, label const& who) {
        if (bytes == 0) return;
        // What was planned is taken to the byte: a budget may have been made for it.
        bool const is_whole_pages = pages_ && bytes % pages_->page() == 0;
        if (is_whole_pages && grow(bytes, who, growth_aim::least_missing, asking::nobody, adding{blocks_}))
            return;
        (void)with_new_segment(bytes, bytes, who, adding{blocks_});
    }

    void close_to_requests() noexcept { blocks_.close(); }
    [[nodiscard]] std::string survivors() const { return blocks_.survivors(); }
    [[nodiscard]] block_pool& blocks() noexcept { return blocks_; }
    [[nodiscard]] block_pool const& blocks() const noexcept { return blocks_; }
    [[nodiscard]] pool_stats stats() const noexcept { return blocks_.stats(); }

    [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }  ///< the least of any block
    [[nodiscard]] budget const& account() const noexcept { return account_; }
    [[nodiscard]] memory_kind kind() const noexcept { return source_.kind(); }

private:
    [[nodiscard]] ledger& node() const noexcept { return budget_access::node(account_); }

    // By the lock, and out of line: with their arguments by value, who needs neither makes no copies of them.
    [[nodiscard, gnu::noinline]] void* take_in_order(stream_ref s, std::size_t bytes, std::size_t alignment,
                                                     label who, lifespan meant) {
        return take(&s, {bytes, who, meant, std::max(alignment, alignment_)});
    }
    [[gnu::noinline]] void give_in_order(stream_ref s, void* p, std::size_t bytes) noexcept {
        if (blocks_.give(&s, p, bytes)) trim(0);
    }
    [[nodiscard]] void* take(stream_ref const* s, block_request const& r) {
        if (r.bytes == 0) return nullptr;
        if (void* const p = blocks_.try_take(s, r)) return p;
        // Without a lock: the budget may ask other pools for memory, and they this one.
        if (r.alignment > granule) return take_aligned(s, r);
        taking const enter{blocks_, s, r};
        if (pages_)
            if (void* const p = by_pages(r.bytes, r.who, enter)) return p;
        return with_new_segment(r.bytes, r.bytes, r.who, enter);
    }
    // Room is made wherever it begins, and looked for again: others may have been there first.
    [[nodiscard]] void* take_aligned(stream_ref const* s, block_request const& r) {
        std::size_t const skipped = r.alignment - granule;
        std::size_t const room = checked_add(round_up(r.bytes, alignment_), skipped).value_or(unlimited);
        for (;;) {
            if (!pages_ || !by_pages(room, r.who, adding{blocks_}))
                (void)with_new_segment(room, r.bytes, r.who, adding{blocks_});
            if (void* const p = blocks_.try_take(s, r)) return p;
        }
    }

    // --- pages ---

    // By pages, or by a segment where the account has room for that and for no page; then by what others can give back
    // for pages. Null when all that was of no use.
    template <class Enter>
    [[nodiscard]] void* by_pages(std::size_t bytes, label const& who, Enter enter) {
        if (void* const p = grow(bytes, who, growth_aim::least_missing, asking::nobody, enter)) return p;
        std::size_t const exact = round_up(round_up(bytes, granule), source_.granule());
        if (node().try_charge(exact))
            if (auto const fresh = acquire_charged(exact)) return use_segment(*fresh, enter);
        if (void* const p = grow(bytes, who, growth_aim::least_missing, asking::all_who_can_give, enter))
            return p;
        return grow(bytes, who, growth_aim::least_in_all, asking::all_who_can_give, enter);
    }

    enum class asking { nobody, all_who_can_give };
    [[nodiscard]] bool try_charge(std::size_t bytes, asking asks) {
        if (asks == asking::nobody) return node().try_charge(bytes);
        std::vector<reclaimer_facts> told;
        return try_charge_by([&] { return node().charge_or_say(bytes); }, node(), bytes, told);
    }

    // Charges what a window for the request lacks, maps that, and makes it a block by enter(window).
    // Null, and nothing done, when the budget, the device or the addresses do not suffice.
    template <class Enter>
    [[nodiscard]] void* grow(std::size_t bytes, label const& who, growth_aim aim, asking asks, Enter enter) {
        for (;;) {
            auto const plan = blocks_.could_grow(bytes, aim);
            if (!plan) return nullptr;
            kept_scope const keep{*this, {plan->at, plan->end, plan->idle}};
            if (!try_charge(plan->missing, asks)) return nullptr;
            if (auto const held = hold(bytes, aim, plan->missing)) return map(*held, who, enter);
            // Others have been there meanwhile.
        }
    }
    // A window for what is charged; what it does not need, and everything if there is none, is refunded.
    [[nodiscard]] std::optional<grow_window> hold(std::size_t bytes, growth_aim aim, std::size_t charged) {
        std::optional<grow_window> window;
        try {
            window = blocks_.hold(bytes, aim, charged);
        } catch (...) {
            account_.refund(charged);
            throw;
        }
        std::size_t const needed = window ? window->missing : 0;
        if (charged != needed) account_.refund(charged - needed);
        return window;
    }
    template <class Enter>
    [[nodiscard]] void* map(grow_window const& window, label const& who, Enter enter) {
        std::byte* done = window.at;  // up to there it is mapped
        try {
            if (map_holes(window, who, done)) return enter(window);
        } catch (...) {
            unmap_holes(window, done);
            throw;
        }
        unmap_holes(window, done);
        return nullptr;
    }
    [[nodiscard]] bool map_holes(grow_window const& window, label const& who, std::byte*& done) {
        bool all = true;
        block_index::for_each_part(*window.first, window.end, [&](block const& part) {
            if (part.has_state(block::state::growing))
                all = all && pages_->map(part.at, part.size, {name_, who.where});
            if (all) done = part.end();
        });
        return all;
    }
    // Nothing has used them yet.
    void unmap_holes(grow_window const& window, std::byte const* done) noexcept {
        block_index::for_each_part(*window.first, window.end, [&](block const& part) {
            if (part.has_state(block::state::growing) && part.end() <= done)
                (void)pages_->unmap(part.at, part.size);
        });
        blocks_.give_up(window);
        account_.refund(window.missing);
    }

    // --- what is given back ---

    // take_out(so_far) until it has no more.
    template <class TakeOut>
    std::size_t give_back_all(TakeOut take_out) noexcept {
        std::size_t given = 0;
        for (;;) {
            std::optional<idle_memory> out;
            report_failure_of([&] { out = take_out(given); });
            if (!out) return given;
            std::size_t const bytes = give_back(*out);
            given += bytes;
            if (bytes == 0) return given;
        }
    }
    std::size_t give_back(idle_memory const& out) noexcept {
        std::size_t bytes = out.bytes;
        if (out.is_paged) bytes = pages_->unmap(out.at, out.bytes);
        else source_.deallocate_sync(out.at, out.bytes, granule);
        ++refunding_;
        blocks_.gone(out, bytes);
        if (bytes != 0) account_.refund(bytes);
        --refunding_;
        return bytes;
    }
    // What other threads are giving back could be had as well. Returns the bytes.
    std::size_t wait_for_others() noexcept {
        std::size_t const gone = blocks_.wait_for_leaving();
        wait_for_refunds();
        return gone;
    }
    // What is gone is refunded in an instant. Not waited for without end: who watches the budget is called then, by the
    // thread that refunds, and may wait for this one, or be this one.
    void wait_for_refunds() const noexcept {
        for (int i = 0; refunding_.load() != 0 && i != 10'000; ++i) std::this_thread::yield();
    }

    // While one lives, its thread's reclaims leave these addresses of the pool alone: it is about to grow there.
    class kept_scope {
    public:
        kept_scope(pool_state const& of, kept_addresses const& kept) noexcept
            : of_{&of}, kept_{kept}, outer_{std::exchange(innermost(), this)} {}
        kept_scope(kept_scope const&) = delete;
        kept_scope& operator=(kept_scope const&) = delete;
        ~kept_scope() { innermost() = outer_; }

        [[nodiscard]] static kept_addresses of(pool_state const& pool) noexcept {
            for (kept_scope const* s = innermost(); s; s = s->outer_)
                if (s->of_ == &pool) return s->kept_;
            return {};
        }

    private:
        [[nodiscard]] static kept_scope const*& innermost() noexcept {
            static thread_local kept_scope const* scope = nullptr;
            return scope;
        }

        pool_state const* of_;
        kept_addresses kept_;
        kept_scope const* outer_;
    };
    [[nodiscard]] kept_addresses kept_here() const noexcept { return kept_scope::of(*this); }

    // --- segments ---

    // use(segment) enters it; on a throw it goes back.
    template <class Use>
    void* with_new_segment(std::size_t bytes, std::size_t asked, label const& who, Use use) {
        return use_segment(acquire(round_up(bytes, granule), asked, who), use);
    }
    template <class Use>
    void* use_segment(segment const& fresh, Use use) {
        try {
            return use(fresh);
        } catch (...) {
            give_back(fresh);
            throw;
        }
    }

    // A segment of at least `size` bytes, charged and taken, for a request that may need less of it. A little more than that while the account has room,
    // so that small requests do not each become a call: an eighth of what there is, the most that may be wasted, in
    // whole multiples of the request, so that requests of one size fill the account to its last byte.
    [[nodiscard]] segment acquire(std::size_t size, std::size_t asked, label const& who) {
        std::size_t const step = source_.granule();
        std::size_t const exact = round_up(size, step);
        std::size_t const ample = std::max(exact, round_up(blocks_.reserved() / 8 / size * size, step));
        if (ample > exact && node().try_charge(ample))
            if (auto const s = acquire_charged(ample)) return *s;

        charge_request const request{asked, std::max(step, granule), who, device_};
        charge_or_explain(exact, request);
        if (auto const s = acquire_charged(exact)) return *s;
        // The device has less than the budget says. What this pool does not use may be what is missing.
        std::size_t const trimmed = trim(0);
        if (trimmed != 0) {
            charge_or_explain(exact, request);
            if (auto const s = acquire_charged(exact)) return *s;
        }
        refuse(exact, request, trimmed);
    }

    // Takes a segment that has been charged; gives the charge back and answers nothing when the source refuses.
    [[nodiscard]] std::optional<segment> acquire_charged(std::size_t bytes) {
        void* p = nullptr;
        try {
            p = source_.allocate_sync(bytes, granule, label{name_, {}});
        } catch (out_of_memory const&) {
            account_.refund(bytes);
            return std::nullopt;
        } catch (...) {
            account_.refund(bytes);
            throw;
        }
        if (reinterpret_cast<std::uintptr_t>(p) % granule != 0) {
            give_back({p, bytes});
            throw misuse{title() + ": its source does not align memory to the " + std::to_string(granule) +
                         " bytes that it was asked for"};
        }
        return segment{p, bytes};
    }

    void charge_or_explain(std::size_t bytes, charge_request const& request) {
        try {
            charge(node(), bytes, request);
        } catch (budget_exceeded const& refused) {
            refusal facts = refused.facts();
            facts.largest_free = largest_free();  // the one that is ours to give
            facts.would_fit = std::max({facts.would_fit, facts.largest_free, largest_grown(facts.would_fit)});
            facts.would_fit -= std::min(facts.would_fit, skipped_of(bytes, request));
            throw budget_exceeded{std::move(facts)};
        }
    }

    // What is perhaps lost before an aligned address.
    [[nodiscard]] static std::size_t skipped_of(std::size_t exact, charge_request const& request) noexcept {
        return exact - std::min(exact, round_up(request.asked, request.granule));
    }

    [[noreturn]] void refuse(std::size_t exact, charge_request const& request, std::size_t trimmed) {
        refusal r = detail::facts_of(node(), exact, request);
        if (trimmed != 0) r.reclaimers->insert(r.reclaimers->begin(), {title(), exact, trimmed, 0});
        r.reclaimed = trimmed;
        r.cause = "the budget would allow it, but " + title() + " got too little memory from its source";
        r.largest_free = r.would_fit = largest_free();
        if (r.device)
            r.would_fit =
                std::max(r.would_fit, round_down(std::min(r.device->free, account_.room()), request.granule));
        r.would_fit -= std::min(r.would_fit, skipped_of(exact, request));
        throw out_of_memory{std::move(r)};
    }

    // As refused requests tell it: what fits beside what lies free, when that many bytes of pages may be in use.
    [[nodiscard]] std::size_t largest_grown(std::size_t spent) const noexcept {
        return pages_ ? blocks_.largest_grown(spent) : 0;
    }

    void give_back(segment const& s) noexcept {
        source_.deallocate_sync(s.at, s.bytes, granule);
        account_.refund(s.bytes);
    }

    budget account_;
    any_resource source_;
    std::optional<device> const device_;
    tag const name_;
    int const priority_;
    std::unique_ptr<page_range> const pages_;
    std::size_t const alignment_;
    block_pool blocks_;
    std::atomic<int> refunding_ = 0;  // threads that give back what is gone already
};

}  // namespace cuota::inline v0::detail
