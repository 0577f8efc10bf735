// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Idle memory: a registry of the objects that hold it, the order in which they are asked to release it, and the measures that are
/// taken when the driver refuses a request.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/dynamic_array.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/core/shared.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0::detail {

/// An object that holds unused memory and can release it, as a pool or a loader does. The functions are called outside every lock, from
/// the thread whose request does not fit.
class idle_holder : public ref_counted {
public:
    virtual ~idle_holder() = default;

    /// Releases at least `wanted` bytes of unused memory, or all there is, and as little more as possible. Returns the bytes released.
    virtual std::size_t reclaim(std::size_t wanted) noexcept = 0;

    /// The bytes that reclaim(wanted) would release now. Where they are not known exactly, an upper bound.
    [[nodiscard]] virtual std::size_t reclaimable(std::size_t wanted) const noexcept = 0;

    /// The bytes that it could release if all memory of these holdings had been freed before.
    [[nodiscard]] virtual std::size_t reclaimable_if(std::span<holding const>) const {
        return reclaimable(unlimited);
    }

    /// Holders with a higher priority are asked first; among equals, the one that releases the least excess over what is missing.
    [[nodiscard]] virtual int priority() const noexcept { return 0; }

    /// True when reclaim() returns a figure of a function of the program. It is then checked against the account.
    [[nodiscard]] virtual bool speaks_for_program() const noexcept { return false; }
    /// Total bytes so far that were freed in it and stayed charged, as blocks of a pool do; reclaim() can release them. Never decreases.
    [[nodiscard]] virtual std::size_t freed() const noexcept { return 0; }
    /// Reports to the error sink that reclaim() returned a larger figure than `shown`, the bytes that the account got back.
    virtual void report_false_claim(std::size_t, std::size_t, std::string const&) const noexcept {}

    /// Its name in messages.
    [[nodiscard]] virtual std::string title() const = 0;
};

/// While one exists, this thread asks no holder to release memory: it is inside such a call already, or its request is optional.
class reclaiming {
public:
    reclaiming() noexcept : before_{std::exchange(is_on(), true)} {}
    reclaiming(reclaiming const&) = delete;
    reclaiming& operator=(reclaiming const&) = delete;
    ~reclaiming() { is_on() = before_; }

    CUOTA_PROCESS_STATE [[nodiscard]] static bool& is_on() noexcept;

private:
    bool before_;
};

/// The holders that are asked for one lack of memory: by priority, and among equals so that as little as possible is given in excess.
class idle_round {
public:
    explicit idle_round(dynamic_array<shared<idle_holder>> asked);

    /// Whether the holders that were not asked yet could release `missing` bytes together.
    [[nodiscard]] bool can_give(std::size_t missing) const noexcept;
    [[nodiscard]] bool is_over() const noexcept { return left_.empty(); }
    /// Removes and returns the holder to be asked next for `missing` bytes. Requires: !is_over().
    [[nodiscard]] shared<idle_holder> next(std::size_t missing) noexcept;

private:
    dynamic_array<shared<idle_holder>> left_;
};

/// Where memory of the driver comes from.
class memory_origin {
public:
    /// Of a device.
    memory_origin(device where) noexcept : ordinal_{where.ordinal()} {}
    /// Page-locked memory of the host.
    [[nodiscard]] static memory_origin host() noexcept { return memory_origin{-1}; }
    /// Memory of a device or of the host; which of them is not known.
    [[nodiscard]] static memory_origin unknown() noexcept { return memory_origin{-2}; }

    [[nodiscard]] bool is_host() const noexcept { return ordinal_ == -1; }
    /// Requires: the origin is a device.
    [[nodiscard]] device where() const noexcept { return device{ordinal_}; }
    friend bool operator==(memory_origin, memory_origin) noexcept = default;

private:
    explicit memory_origin(int ordinal) noexcept : ordinal_{ordinal} {}
    int ordinal_;
};

/// All holders of this process, of every budget: the driver does not know of budgets. Threads: any.
class idle_registry {
public:
    /// Registers a holder, which is asked when the driver refuses memory of that origin. It must leave before it is destroyed.
    /// Throws: std::bad_alloc.
    static void join(memory_origin from, idle_holder& who);
    static void leave(idle_holder& who) noexcept;
    /// The holders of that origin. Throws: std::bad_alloc.
    [[nodiscard]] static dynamic_array<shared<idle_holder>> of(memory_origin from);

private:
    struct shelf;
    CUOTA_PROCESS_STATE [[nodiscard]] static shelf& all() noexcept;
};

/// The measures that are taken for one request that the driver has refused, before the program gets the refusal. They are taken one
/// after the other, and the request is tried again after each that released memory. A request that the driver grants runs none of them.
///
///     1  if the device's default pool (cudaMallocAsync) holds unused memory or frees that have not completed, those frees are waited
///        for, and the pool is trimmed
///     2  pools and loaders of the same origin, of every budget, are asked for what is missing
///     3  the program's own caches (a reclaimer does not state the origin of its memory) are asked, and then pools again
///
/// No holder is asked from inside a call that releases memory (`reclaiming`). Frees by `async_memory` on streams that are not
/// captured are waited for, and those of other code are not: a wait for the whole device would spoil the captures of others.
/// Threads: one at a time. Cost: calls of the driver, and a wait for the device where its default pool has memory that is not in use.
class driver_relief {
public:
    explicit driver_relief(memory_origin from) noexcept : from_{from} {}

    /// Takes measures until one releases memory for `bytes`: true then, false when none is left. Errors go to the error sink.
    [[nodiscard]] bool relieve(std::size_t bytes) noexcept;
    /// The holders that were asked, and the bytes that each released.
    [[nodiscard]] std::vector<reclaimer_facts> const& told() const noexcept { return told_; }

private:
    enum class measure { trim, ask_holders, ask_program, none };

    // Each returns whether it released memory. Throws: cuda_error, std::bad_alloc.
    [[nodiscard]] bool take(measure next, std::size_t bytes);
    [[nodiscard]] bool trim();
    // Asks none of them when they, and the `others` bytes of holders that are asked later, could not cover what is missing.
    [[nodiscard]] bool ask(dynamic_array<shared<idle_holder>> whom, std::size_t bytes,
                           std::size_t others = 0);
    // The bytes that are missing on the device, `unlimited` for more than its whole memory. For the host, whose free memory is not
    // known, all of them.
    [[nodiscard]] std::size_t lacking(std::size_t bytes) const;

    memory_origin const from_;
    measure next_ = measure::trim;
    std::vector<reclaimer_facts> told_{};
};

/// Returns call(), which is repeated after each measure of relief while it returns null.
template <class Call>
[[nodiscard]] void* call_with_relief(driver_relief& relief, std::size_t bytes, Call call) {
    void* p = call();
    while (!p && relief.relieve(bytes)) p = call();
    return p;
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/error_sink.hpp>
#include <cuota/core/process.hpp>
#include <cuota/core/sort_stably.hpp>
#include <cuota/core/std_parts.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/memory.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE bool& reclaiming::is_on() noexcept {
    static thread_local bool on = false;
    return on;
}

CUOTA_INLINE idle_round::idle_round(dynamic_array<shared<idle_holder>> asked) : left_{std::move(asked)} {
    sort_stably(left_, std::greater{}, [](auto const& left) { return left->priority(); });
}

CUOTA_INLINE bool idle_round::can_give(std::size_t missing) const noexcept {
    std::size_t sum = 0;
    for (auto const& left : left_) sum = saturating_add(sum, left->reclaimable(missing));
    return sum >= missing;
}

CUOTA_INLINE shared<idle_holder> idle_round::next(std::size_t missing) noexcept {
    // Of those with the highest priority: the one that covers it with the least excess, else the one that releases most.
    auto* best = left_.begin();
    std::size_t most = (*best)->reclaimable(missing);
    for (auto* at = best + 1; at != left_.end() && (*at)->priority() == (*best)->priority(); ++at) {
        std::size_t const gives = (*at)->reclaimable(missing);
        if (most >= missing ? gives >= missing && gives < most : gives > most) {
            best = at;
            most = gives;
        }
    }
    shared<idle_holder> next = std::move(*best);
    left_.erase(best);
    return next;
}

struct idle_registry::shelf {
    process_lock guard;
    dynamic_array<std::pair<memory_origin, idle_holder*>> holders;  // each leaves before it is destroyed
};

CUOTA_INLINE idle_registry::shelf& idle_registry::all() noexcept {
    union forever {  // never destroyed: static pools leave it during exit
        forever() noexcept : kept{} {}
        ~forever() {}
        shelf kept;
    };
    static forever one;
    return one.kept;
}

CUOTA_INLINE void idle_registry::join(memory_origin from, idle_holder& who) {
    std::lock_guard const lock{all().guard};
    all().holders.emplace_back(from, &who);
}

CUOTA_INLINE void idle_registry::leave(idle_holder& who) noexcept {
    std::lock_guard const lock{all().guard};
    all().holders.erase_if([&](auto const& entry) { return entry.second == &who; });
}

CUOTA_INLINE dynamic_array<shared<idle_holder>> idle_registry::of(memory_origin from) {
    dynamic_array<shared<idle_holder>> found;
    std::lock_guard const lock{all().guard};
    // A throw of a later push_back would release owners, perhaps the last ones, under the lock.
    found.reserve(all().holders.size());
    for (auto const& [origin, who] : all().holders)
        if (origin == from && who->try_add_owner()) found.push_back(shared<idle_holder>::adopt(who));
    return found;
}

CUOTA_INLINE bool driver_relief::relieve(std::size_t bytes) noexcept {
    bool was_of_use = false;
    while (!was_of_use && next_ != measure::none && !reclaiming::is_on()) {
        measure const now = next_;
        next_ = static_cast<measure>(static_cast<int>(now) + 1);
        report_failure_of([&] { was_of_use = take(now, bytes); });
    }
    return was_of_use;
}

CUOTA_INLINE bool driver_relief::take(measure next, std::size_t bytes) {
    reclaiming const here;
    if (next == measure::trim) return trim();
    if (next == measure::ask_holders) return ask(idle_registry::of(from_), bytes);
    auto holders = idle_registry::of(from_);
    std::size_t idle = 0;
    for (auto const& one : holders) idle = saturating_add(idle, one->reclaimable(unlimited));
    if (!ask(idle_registry::of(memory_origin::unknown()), bytes, idle)) return false;
    (void)ask(std::move(holders), bytes);  // caches may have freed blocks of pools
    return true;
}

CUOTA_INLINE bool driver_relief::trim() {
    if (from_.is_host()) return false;
    device const where = from_.where();
    // Is any of it not ours, so unused or not freed yet?
    if (rt::in_default_pool(where).reserved <= taken_from_pool_of(where).load()) return false;
    (void)wait_for_async_frees(where);
    rt::trim_default_pool(where);
    return true;
}

CUOTA_INLINE std::size_t driver_relief::lacking(std::size_t bytes) const {
    if (from_.is_host()) return bytes;
    device::memory_info const memory = from_.where().memory();
    if (bytes > memory.total) return unlimited;
    return bytes > memory.free ? bytes - memory.free : bytes;  // enough is free, but in pieces
}

CUOTA_INLINE bool driver_relief::ask(dynamic_array<shared<idle_holder>> whom, std::size_t bytes,
                                     std::size_t others) {
    if (whom.empty()) return false;
    std::size_t const missing = lacking(bytes);
    idle_round round{std::move(whom)};
    // How much of the host's memory is missing is not known.
    if (!from_.is_host() && !round.can_give(missing - std::min(missing, others))) return false;
    std::size_t got = 0;
    while (got < missing && !round.is_over()) {
        std::size_t const wanted = missing - got;
        shared<idle_holder> const who = round.next(wanted);
        std::size_t const given = who->reclaim(wanted);
        if (given == 0) continue;
        told_.push_back({who->title(), wanted, given, 0});
        got = saturating_add(got, given);
    }
    if (got != 0) (void)trim();  // a pool's source may be the driver's pool
    return got != 0;
}

}  // namespace cuota::inline v0::detail

#endif
