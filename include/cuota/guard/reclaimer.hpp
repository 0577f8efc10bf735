// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Caches of the program that release memory under pressure.
#pragma once

#include <cstddef>
#include <string>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/guard/budget.hpp>

namespace cuota::inline v0 {

namespace detail {
class registered_cache;
}
#if !CUOTA_DEFINE_MEMORY
extern template class detail::intrusive_ptr<detail::registered_cache>;
#endif

/// Registers a cache of the program with the budget of its memory, for the lifetime of this object.
///
/// When a charge does not fit, holders of memory of that budget and its descendants are called: reclaimers, pools, and, between epochs,
/// loaders that set a `reclaim_priority`. Higher priorities come first; among equal ones, the holder that would overshoot least. If all
/// together cannot release the shortfall, none is called.
///
///     reclaimable(wanted)  returns the bytes that reclaim(wanted) would release now, or an upper bound
///     reclaim(wanted)      releases at least `wanted` bytes, or all it has, by refunds or into a pool of the budget; returns the bytes
///
/// A cache that claims more than the account got back is reported to the error sink; it is not called again for the same request, nor is
/// one that returns 0.
///
/// Both are called by the charging thread, one call at a time, outside the library's locks. They may charge and refund; a charge inside
/// them that does not fit calls no cache. Their exceptions go to the error sink. While another thread is in a call, the cache counts as
/// empty.
///
/// Locks: the charging thread may hold the cache's own lock, for an insertion. So neither function may wait for a lock under which the
/// program charges, or for a thread that charges: they try to lock and return 0 if that fails. Use a std::binary_semaphore, because a
/// thread must not try to lock a std::mutex that it owns.
///
/// The destructor waits for a call on another thread; a call may destroy its own reclaimer.
/// Threads: any. Throws: std::bad_alloc on construction.
/// Cost:    a lock on construction and destruction; nothing for a charge that fits.
/// Example: tests/guard/reclaimer.cpp
class reclaimer {
public:
    /// Registers the cache; `name` and `where` identify it in refusals.
    reclaimer(budget const& account, tag name, std::function<std::size_t(std::size_t)> reclaimable,
              std::function<std::size_t(std::size_t)> reclaim, int priority = 0,
              source_location where = source_location::current());
    reclaimer(reclaimer&&) noexcept = default;  ///< moves the registration
    /// Ends its registration and moves the other's.
    reclaimer& operator=(reclaimer&& other) noexcept;
    ~reclaimer() { end(); }

private:
    void end() noexcept;
    detail::intrusive_ptr<detail::registered_cache> cache_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/core/detail/text/message.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/guard/detail/reclaim.hpp>

namespace cuota::inline v0::detail {

class registered_cache final : public reclaimable_holder {
public:
    using estimate = std::function<std::size_t(std::size_t)>;

    registered_cache(intrusive_ptr<ledger> node, label const& who, int priority, estimate reclaimable,
                     estimate reclaim);
    CUOTA_INLINE_IN_PLACE ~registered_cache() override;

    std::size_t reclaim(std::size_t wanted) noexcept override { return ask(reclaim_, "reclaim", wanted); }
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::size_t reclaimable(std::size_t wanted) const noexcept override;
    [[nodiscard]] int priority() const noexcept override { return priority_; }
    [[nodiscard]] bool speaks_for_program() const noexcept override { return true; }
    CUOTA_INLINE_IN_PLACE void report_false_claim(std::size_t claimed, std::size_t shown,
                                                  std::string const& account) const noexcept override;
    [[nodiscard]] CUOTA_INLINE_IN_PLACE std::string title() const override;
    CUOTA_INLINE_IN_PLACE void allocation_groups(std::vector<allocation_group>& into) const override;

    /// Waits for a call on another thread; none starts afterwards.
    void end() noexcept;

private:
    // Returns 0 if it throws, which is reported, or if another thread is in a call: waiting could deadlock.
    [[nodiscard]] std::size_t ask(estimate const& question, char const* name,
                                  std::size_t wanted) const noexcept;

    intrusive_ptr<ledger> node_;
    label const who_;
    int const priority_;
    estimate const reclaimable_;
    estimate const reclaim_;
    // Held during the program's functions, which may call end(). Only end() waits for it.
    mutable std::recursive_mutex calling_;
    bool ended_ = false;
};

CUOTA_INLINE registered_cache::registered_cache(intrusive_ptr<ledger> node, label const& who, int priority,
                                                estimate reclaimable, estimate reclaim)
    : node_{std::move(node)},
      who_{who},
      priority_{priority},
      reclaimable_{std::move(reclaimable)},
      reclaim_{std::move(reclaim)} {
    node_->join(*this);
    try {
        idle_registry::join(memory_origin::unknown(), *this);
    } catch (...) {
        node_->leave(*this);
        throw;
    }
}

CUOTA_INLINE_IN_PLACE registered_cache::~registered_cache() {
    idle_registry::leave(*this);
    node_->leave(*this);
}

CUOTA_INLINE_IN_PLACE std::size_t registered_cache::reclaimable(std::size_t wanted) const noexcept {
    return ask(reclaimable_, "reclaimable", wanted);
}

CUOTA_INLINE_IN_PLACE void registered_cache::report_false_claim(std::size_t claimed, std::size_t shown,
                                                                std::string const& account) const noexcept {
    report_failure_of([&] {
        throw_usage_error(
            who_.where,
            "reclaimer {}: it returned {}, but {} were refunded to budget {}; it is not called again for "
            "this request",
            {title(), as_bytes(claimed), as_bytes(shown), account});
    });
}

CUOTA_INLINE_IN_PLACE std::string registered_cache::title() const {
    return who_.name.is_empty() ? "a cache" : who_.name.text();
}

CUOTA_INLINE_IN_PLACE void registered_cache::allocation_groups(std::vector<allocation_group>& into) const {
    if (std::size_t const cached = reclaimable(unlimited); cached != 0)
        into.push_back({who_.name, who_.where, cached, true});
}

CUOTA_INLINE void registered_cache::end() noexcept {
    std::lock_guard const lock{calling_};
    ended_ = true;
}

CUOTA_INLINE std::size_t registered_cache::ask(estimate const& question, char const* name,
                                               std::size_t wanted) const noexcept {
    std::unique_lock const lock{calling_, std::try_to_lock};
    if (!lock) return 0;
    expect_no_region("a reclaimer");
    reclaiming const here;
    std::size_t answer = 0;
    if (ended_) return 0;
    report_failure_of([&] {
        try {
            answer = question(wanted);
        } catch (std::exception const& failed) {
            throw std::runtime_error{message("reclaimer {}: {}() threw: {}", {title(), name, failed.what()})};
        } catch (...) {
            throw std::runtime_error{message(
                "reclaimer {}: {}() threw an exception that is not a std::exception", {title(), name})};
        }
    });
    return answer;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

#if CUOTA_SEPARATE_COMPILATION
template class detail::intrusive_ptr<detail::registered_cache>;
#endif

CUOTA_INLINE reclaimer::reclaimer(budget const& account, tag name,
                                  std::function<std::size_t(std::size_t)> reclaimable,
                                  std::function<std::size_t(std::size_t)> reclaim, int priority,
                                  source_location where)
    : cache_{detail::intrusive_ptr<detail::registered_cache>::make(
          detail::intrusive_ptr<detail::ledger>::of(detail::budget_access::node(account)), label{name, where},
          priority, std::move(reclaimable), std::move(reclaim))} {}

CUOTA_INLINE reclaimer& reclaimer::operator=(reclaimer&& other) noexcept {
    if (this != &other) {
        end();
        cache_ = std::move(other.cache_);
    }
    return *this;
}

CUOTA_INLINE void reclaimer::end() noexcept {
    if (cache_ && !cache_->is_of_parent()) cache_->end();
}

}  // namespace cuota::inline v0

#endif
