// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The machinery of scoped_pool: blocks, and the segments they are cut from, taken of a source and charged to an account.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/pool/block_pool.hpp>
#include <cuota/resource/any_resource.hpp>

namespace cuota::inline v0::detail {

class pool_state final : public stakeholder {
public:
    static constexpr std::size_t granule = block::granule;

    pool_state(budget account, any_resource source, std::optional<device> where, tag name, int priority = 0)
        : account_{std::move(account)},
          source_{std::move(source)},
          device_{where},
          name_{name},
          priority_{priority},
          blocks_{name} {
        node().join(*this);
    }
    ~pool_state() {
        node().leave(*this);
        // Segments that are still in use have no owner left who could use or return them. What was freed in them may
        // still be in use by a stream, and not every source waits for that.
        blocks_.wait_for_freed();
        blocks_.for_each_segment([this](segment const& s) { give_back(s); });
    }

    [[nodiscard]] void* allocate(stream_ref s, std::size_t bytes, std::size_t alignment, label const& who,
                                 lifespan meant = lifespan::scratch) {
        check_alignment(alignment, who);
        return take(&s, bytes, who, meant);
    }
    /// Waits on the host for what may still use the bytes.
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment, label const& who,
                                      lifespan meant = lifespan::scratch) {
        check_alignment(alignment, who);
        return take(nullptr, bytes, who, meant);
    }
    /// As allocate, of what the pool has already: null when nothing there fits, and nobody is asked for more.
    [[nodiscard]] void* try_allocate(stream_ref const* s, std::size_t bytes, label const& who) {
        return blocks_.try_take(s, bytes, who);
    }
    void deallocate(stream_ref s, void* p, std::size_t bytes) noexcept {
        if (blocks_.give(&s, p, bytes)) trim(0);
    }
    void deallocate_sync(void* p, std::size_t bytes) noexcept {
        if (blocks_.give(nullptr, p, bytes)) trim(0);
    }

    /// Gives wholly free segments back until at most `keep` bytes are reserved, or none is left to give. Waits for
    /// the work that may still use them. Returns the bytes given back.
    std::size_t trim(std::size_t keep) noexcept {
        std::size_t given = 0;
        for (;;) {
            std::optional<segment> s;
            report_failure_of([&] { s = blocks_.take_out(keep); });
            if (!s) return given;
            give_back(*s);
            given += s->bytes;
        }
    }

    std::size_t reclaim(std::size_t wanted) noexcept override {
        std::size_t const reserved = blocks_.reserved();
        return trim(reserved > wanted ? reserved - wanted : 0);
    }
    [[nodiscard]] std::size_t reclaimable(std::size_t wanted) const noexcept override {
        return blocks_.could_take_out(wanted);
    }
    [[nodiscard]] int priority() const noexcept override { return priority_; }
    void holdings(std::vector<holding>& into) const override { blocks_.holdings(into); }
    [[nodiscard]] std::size_t largest_free() const noexcept override { return blocks_.largest_free(); }
    [[nodiscard]] std::string title() const override { return blocks_.title(); }

    /// Reserves a segment before anybody asks. Throws: as allocate.
    void reserve(std::size_t bytes, label const& who) {
        if (bytes == 0) return;
        (void)with_new_segment(bytes, who, [&](segment const& fresh) {
            blocks_.add(fresh);
            return nullptr;
        });
    }

    void close_to_requests() noexcept { blocks_.close(); }
    [[nodiscard]] std::string survivors() const { return blocks_.survivors(); }
    [[nodiscard]] block_pool& blocks() noexcept { return blocks_; }
    [[nodiscard]] block_pool const& blocks() const noexcept { return blocks_; }
    [[nodiscard]] pool_stats stats() const noexcept { return blocks_.stats(); }

    [[nodiscard]] budget const& account() const noexcept { return account_; }
    [[nodiscard]] memory_kind kind() const noexcept { return source_.kind(); }

private:
    [[nodiscard]] ledger& node() const noexcept { return budget_access::node(account_); }

    [[nodiscard]] void* take(stream_ref const* s, std::size_t bytes, label const& who, lifespan meant) {
        if (bytes == 0) return nullptr;
        if (void* const p = blocks_.try_take(s, bytes, who, meant)) return p;
        // Without a lock: the budget may ask other pools for memory, and they this one.
        return with_new_segment(bytes, who, [&](segment const& fresh) {
            return blocks_.take_of_new(fresh, s, bytes, who, meant);
        });
    }

    // use(segment) enters it; on a throw it goes back.
    template <class Use>
    void* with_new_segment(std::size_t bytes, label const& who, Use use) {
        segment const fresh = acquire(round_up(bytes, granule), bytes, who);
        try {
            return use(fresh);
        } catch (...) {
            give_back(fresh);
            throw;
        }
    }

    // A segment of at least `size` bytes, charged and taken. A little more than that while the account has room,
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
            facts.would_fit = std::max(facts.would_fit, facts.largest_free);
            throw budget_exceeded{std::move(facts)};
        }
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
        throw out_of_memory{std::move(r)};
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
    block_pool blocks_;
};

}  // namespace cuota::inline v0::detail
