// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Holders of idle memory, and the measures taken when the driver refuses a request.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/dynamic_array.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/refusal.hpp>
#include <cuota/runtime/detail/relief.hpp>
#include <cuota/runtime/device.hpp>

namespace cuota::inline v0::detail {

/// Holder of unused memory, such as a pool or a loader. Members are called outside every lock, by the thread that requests more memory than
/// fits.
class idle_holder : public ref_counted {
public:
    virtual ~idle_holder() = default;

    /// Releases at least `wanted` bytes of unused memory, or all of it, with little overshoot. Returns the bytes released.
    virtual std::size_t reclaim(std::size_t wanted) noexcept = 0;

    /// Returns the bytes that reclaim(wanted) would release now, or an upper bound.
    [[nodiscard]] virtual std::size_t reclaimable(std::size_t wanted) const noexcept = 0;

    /// Returns the bytes that it could release after these allocation groups were freed.
    [[nodiscard]] virtual std::size_t reclaimable_if(std::span<allocation_group const>) const {
        return reclaimable(unlimited);
    }

    /// Holders of higher priority come first.
    [[nodiscard]] virtual int priority() const noexcept { return 0; }

    /// Returns true if reclaim() calls a function of the program; its result is then checked against the account.
    [[nodiscard]] virtual bool speaks_for_program() const noexcept { return false; }
    /// Returns the total of all bytes ever freed into it that stayed charged, such as blocks of a pool; reclaim() can release them.
    [[nodiscard]] virtual std::size_t freed() const noexcept { return 0; }
    /// Reports to the error sink that reclaim() claimed the first number of bytes, but the account got back only the second.
    virtual void report_false_claim(std::size_t, std::size_t, std::string const&) const noexcept {}

    /// Returns its name in messages.
    [[nodiscard]] virtual std::string title() const = 0;
};

/// While one exists, this thread calls no holder: it is inside such a call, or its request is optional.
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

/// The holders to call for one shortfall, in order of priority.
class idle_round {
public:
    explicit idle_round(dynamic_array<intrusive_ptr<idle_holder>> requested);

    /// Returns whether the remaining holders could together release `missing` bytes.
    [[nodiscard]] bool can_give(std::size_t missing) const noexcept;
    [[nodiscard]] bool is_over() const noexcept { return left_.empty(); }
    /// Removes and returns the next holder to call. Requires: !is_over().
    [[nodiscard]] intrusive_ptr<idle_holder> next(std::size_t missing) noexcept;

private:
    dynamic_array<intrusive_ptr<idle_holder>> left_;
};

/// Origin of driver memory: a device, the host, or unknown.
class memory_origin {
public:
    memory_origin(device where) noexcept : ordinal_{where.ordinal()} {}
    /// Page-locked host memory.
    [[nodiscard]] static memory_origin host() noexcept { return memory_origin{-1}; }
    /// Device or host memory.
    [[nodiscard]] static memory_origin unknown() noexcept { return memory_origin{-2}; }

    [[nodiscard]] bool is_host() const noexcept { return ordinal_ == -1; }
    [[nodiscard]] device where() const noexcept { return device{ordinal_}; }
    friend bool operator==(memory_origin, memory_origin) noexcept = default;

private:
    explicit memory_origin(int ordinal) noexcept : ordinal_{ordinal} {}
    int ordinal_;
};

/// All holders of this process, over all budgets. Threads: any. Throws: std::bad_alloc, except `leave`.
class idle_registry {
public:
    /// Registers a holder for memory of that origin. It must leave before it is destroyed.
    static void join(memory_origin from, idle_holder& who);
    static void leave(idle_holder& who) noexcept;
    [[nodiscard]] static dynamic_array<intrusive_ptr<idle_holder>> of(memory_origin from);

private:
    struct shelf;
    CUOTA_PROCESS_STATE [[nodiscard]] static shelf& all() noexcept;
};

/// Measures against a refusal by the driver, taken in turn for one request, which is retried after each that released memory. All but the first
/// are repeated while they release any.
///
///     1  waits for pending frees in the device's default pool (cudaMallocAsync) and trims it
///     2  pools and loaders of the same origin, of every budget, release the shortfall
///     3  the program's caches, which are of unknown origin, release it, and then pools again
///     4  if the driver reports enough memory as free, which it does not allocate: all of them release all that is idle
///
/// Waits for frees by `async_memory` on streams that are not capturing, but not for those of other code: a wait for the whole device would
/// invalidate captures.
/// Threads: one at a time.
class driver_relief {
public:
    explicit driver_relief(memory_origin from) noexcept : from_{from} {}

    /// Takes measures until one releases memory; returns false if none is left or this thread is `reclaiming`. Errors are reported to the
    /// error sink.
    [[nodiscard]] bool relieve(std::size_t bytes) noexcept;
    /// Returns the holders called, with the bytes released.
    [[nodiscard]] std::vector<reclaimer_info> const& told() const noexcept { return told_; }

private:
    enum class measure { trim, ask_holders, ask_program, ask_for_all, none };

    // Each returns whether it released memory.
    [[nodiscard]] bool take(measure next, std::size_t bytes);
    [[nodiscard]] bool trim();
    // Calls no holder if these, together with the `others` bytes of later ones, cannot cover the shortfall.
    [[nodiscard]] bool ask(dynamic_array<intrusive_ptr<idle_holder>> whom, std::size_t bytes,
                           std::size_t others = 0);
    [[nodiscard]] bool ask_for_all(std::size_t bytes);
    // Returns by how much `bytes` exceed the free memory of the device; `unlimited` if they exceed its total memory. On the host, where
    // free memory is unknown, returns `bytes`.
    [[nodiscard]] std::size_t lacking(std::size_t bytes) const;

    memory_origin const from_;
    measure next_ = measure::trim;
    int repetitions_ = 0;
    std::vector<reclaimer_info> told_{};
};

/// Returns call(), repeated after each successful measure while it returns null. Requires that this thread holds no lock of the library,
/// because holders may be functions of the program.
template <class Call>
[[nodiscard]] void* call_with_relief(driver_relief& relief, std::size_t bytes, Call call) {
    expect_no_region("an allocation by the driver");
    void* p = call();
    while (!p && relief.relieve(bytes)) p = call();
    return p;
}

/// The relief_function of programs that have a holder.
CUOTA_PROCESS_STATE cudaError_t repeat_with_driver_relief(short_call const& what, refusal& told);

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

#include <cuota/core/detail/never_destroyed.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/stable_sort.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace cuota::inline v0::detail {

CUOTA_INLINE_STATE bool& reclaiming::is_on() noexcept {
    static thread_local bool on = false;
    return on;
}

CUOTA_INLINE idle_round::idle_round(dynamic_array<intrusive_ptr<idle_holder>> requested)
    : left_{std::move(requested)} {
    sort_stably(left_, std::greater{}, [](auto const& left) { return left->priority(); });
}

CUOTA_INLINE bool idle_round::can_give(std::size_t missing) const noexcept {
    std::size_t sum = 0;
    for (auto const& left : left_) sum = saturating_add(sum, left->reclaimable(missing));
    return sum >= missing;
}

CUOTA_INLINE intrusive_ptr<idle_holder> idle_round::next(std::size_t missing) noexcept {
    // Among holders of the highest priority, prefers the one that covers the shortfall with the least overshoot, else the one that releases
    // most.
    auto* best = left_.begin();
    std::size_t most = (*best)->reclaimable(missing);
    for (auto* at = best + 1; at != left_.end() && (*at)->priority() == (*best)->priority(); ++at) {
        std::size_t const gives = (*at)->reclaimable(missing);
        if (most >= missing ? gives >= missing && gives < most : gives > most) {
            best = at;
            most = gives;
        }
    }
    intrusive_ptr<idle_holder> next = std::move(*best);
    left_.erase(best);
    return next;
}

struct idle_registry::shelf {
    process_lock guard;
    dynamic_array<std::pair<memory_origin, idle_holder*>> holders;
};

CUOTA_INLINE_STATE idle_registry::shelf& idle_registry::all() noexcept {
    static never_destroyed<shelf> one;  // static pools leave it during exit
    return one.value;
}

CUOTA_INLINE void idle_registry::join(memory_origin from, idle_holder& who) {
    relief::function.store(&repeat_with_driver_relief, std::memory_order_release);
    std::lock_guard const lock{all().guard};
    all().holders.emplace_back(from, &who);
}

CUOTA_INLINE void idle_registry::leave(idle_holder& who) noexcept {
    std::lock_guard const lock{all().guard};
    all().holders.erase_if([&](auto const& entry) { return entry.second == &who; });
}

CUOTA_INLINE dynamic_array<intrusive_ptr<idle_holder>> idle_registry::of(memory_origin from) {
    dynamic_array<intrusive_ptr<idle_holder>> found;
    std::lock_guard const lock{all().guard};
    // Reserved: a throwing push_back would release owners, perhaps the last ones, under the lock.
    found.reserve(all().holders.size());
    for (auto const& [origin, who] : all().holders)
        if (origin == from && who->try_add_ref()) found.push_back(intrusive_ptr<idle_holder>::adopt(who));
    return found;
}

CUOTA_INLINE bool driver_relief::relieve(std::size_t bytes) noexcept {
    constexpr int most_repetitions = 16;
    bool was_of_use = false;
    while (!was_of_use && next_ != measure::none && !reclaiming::is_on()) {
        measure const now = next_;
        next_ = static_cast<measure>(static_cast<int>(now) + 1);
        report_failure_of([&] { was_of_use = take(now, bytes); });
        // Holders may have released less than they report: memory of graphs that the driver had taken for this very request.
        if (was_of_use && now != measure::trim && ++repetitions_ <= most_repetitions) next_ = now;
    }
    return was_of_use;
}

CUOTA_INLINE bool driver_relief::take(measure next, std::size_t bytes) {
    reclaiming const here;
    if (next == measure::trim) return trim();
    if (next == measure::ask_holders) return ask(idle_registry::of(from_), bytes);
    if (next == measure::ask_for_all) return ask_for_all(bytes);
    auto holders = idle_registry::of(from_);
    std::size_t idle = 0;
    for (auto const& one : holders) idle = saturating_add(idle, one->reclaimable(unlimited));
    bool const by_program = ask(idle_registry::of(memory_origin::unknown()), bytes, idle);
    // Caches may have freed blocks into pools; when repeated, pools may suffice.
    bool const by_pools = ask(std::move(holders), bytes);
    return by_program || by_pools;
}

CUOTA_INLINE bool driver_relief::trim() {
    if (from_.is_host()) return false;
    device const where = from_.where();
    // Only memory that no resource of ours uses can be trimmed: unused, or with a pending free.
    if (rt::in_default_pool(where).reserved <= taken_from_pool_of(where).load()) return false;
    (void)wait_for_async_frees(where);
    rt::trim_default_pool(where);
    return true;
}

CUOTA_INLINE std::size_t driver_relief::lacking(std::size_t bytes) const {
    if (from_.is_host()) return bytes;
    device::memory_info const memory = from_.where().memory();
    if (bytes > memory.total) return unlimited;
    return bytes > memory.free ? bytes - memory.free : bytes;  // enough is free, but fragmented
}

CUOTA_INLINE bool driver_relief::ask(dynamic_array<intrusive_ptr<idle_holder>> whom, std::size_t bytes,
                                     std::size_t others) {
    if (whom.empty()) return false;
    std::size_t const missing = lacking(bytes);
    idle_round round{std::move(whom)};
    // The shortfall on the host is unknown.
    if (!from_.is_host() && !round.can_give(missing - std::min(missing, others))) return false;
    std::size_t got = 0;
    while (got < missing && !round.is_over()) {
        std::size_t const wanted = missing - got;
        intrusive_ptr<idle_holder> const who = round.next(wanted);
        std::size_t const given = who->reclaim(wanted);
        if (given == 0) continue;
        told_.push_back({who->title(), wanted, given, 0});
        got = saturating_add(got, given);
    }
    if (got != 0) (void)trim();  // the upstream of a pool may be the driver's pool
    return got != 0;
}

CUOTA_INLINE bool driver_relief::ask_for_all(std::size_t bytes) {
    if (from_.is_host()) return false;
    auto const caches = idle_registry::of(memory_origin::unknown()), pools = idle_registry::of(from_);
    if ((caches.empty() && pools.empty()) || from_.where().memory().free < bytes) return false;
    std::size_t got = 0;
    for (auto const* all : {&caches, &pools})  // in this order, because caches may free blocks into pools
        for (auto const& who : *all) {
            std::size_t const wanted = who->reclaimable(unlimited);
            std::size_t const given = wanted == 0 ? 0 : who->reclaim(wanted);
            if (given == 0) continue;
            told_.push_back({who->title(), wanted, given, 0});
            got = saturating_add(got, given);
        }
    if (got != 0) (void)trim();
    return got != 0;
}

CUOTA_INLINE cudaError_t repeat_with_driver_relief(short_call const& what, refusal& told) {
    expect_no_region(what.name);
    device const where = device::current();
    driver_relief by{where};
    cudaError_t code = cudaErrorMemoryAllocation;
    while (code == cudaErrorMemoryAllocation && by.relieve(what.bytes)) code = what.again(what.of);
    if (code == cudaErrorMemoryAllocation) describe_device(told, where, by.told());
    return code;
}

}  // namespace cuota::inline v0::detail

#endif
