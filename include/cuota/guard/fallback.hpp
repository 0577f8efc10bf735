// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A second resource for requests that the first one refuses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/guard/detail/resource_adaptor_base.hpp>
#include <cuota/resource/resource.hpp>

namespace cuota::inline v0 {

/// Requests to a fallback since its construction, and the second resource's blocks. Example: tests/guard/fallback.sim.cpp
struct fallback_stats {
    std::uint64_t by_primary = 0;    ///< requests that the first resource served
    std::uint64_t by_secondary = 0;  ///< requests that the second served, after the first had refused
    std::uint64_t refused = 0;       ///< requests that both refused
    std::size_t live_blocks = 0;     ///< of the second resource
    std::size_t live_bytes = 0;      ///< in these blocks, as requested
};

namespace detail {

/// Records the blocks of the second resource. Threads: any.
class fallback_accounting {
public:
    fallback_accounting();
    ~fallback_accounting();

    void count_primary() noexcept { by_primary_.fetch_add(1, std::memory_order_relaxed); }
    /// Records a block of the second resource. Throws: std::bad_alloc; nothing changes.
    void enter(void* p, std::size_t bytes);
    /// Removes the record of p; returns whether there was one.
    [[nodiscard]] bool forget(void* p) noexcept;
    [[nodiscard]] fallback_stats stats() const;

    /// Returns the label of a request to the second resource: its name ends with " (fallback)". Throws: std::bad_alloc.
    [[nodiscard]] static label label_of(label const& who);
    /// Counts a request that both refused, and throws the second refusal with the request's label and the first one as its cause.
    [[noreturn]] void refuse(label const& who, out_of_memory const& first, out_of_memory const& second);

private:
    struct table;

    light_unique_ptr<table> secondary_;
    std::atomic<std::size_t> live_blocks_ = 0;  // changed under the table's lock
    std::atomic<std::uint64_t> by_primary_ = 0, by_secondary_ = 0, refused_ = 0;
};

/// The kind of memory that is from one of two kinds: their common accessibility.
[[nodiscard]] constexpr bool have_common_kind(memory_kind a, memory_kind b) noexcept {
    return a == b || a == memory_kind::managed || b == memory_kind::managed;
}
[[nodiscard]] constexpr memory_kind common_kind(memory_kind a, memory_kind b) noexcept {
    return a == memory_kind::managed ? b : a;
}

template <resource Primary, resource Secondary>
class fallback_state final : public ref_counted {
public:
    fallback_state(Primary primary, Secondary secondary)
        : upstream_{std::move(primary)}, secondary_{std::move(secondary)} {}

    [[nodiscard]] void* allocate(call_order const& order, std::size_t bytes, std::size_t alignment,
                                 label const& who) {
        if (bytes == 0) return nullptr;
        try {
            void* const p = order.take(upstream_, bytes, alignment, who);
            accounts_.count_primary();
            return p;
        } catch (out_of_memory const& first) {
            return allocate_secondary(order, bytes, alignment, who, first);
        }
    }
    void deallocate(call_order const& order, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        if (!p) return;
        if (accounts_.forget(p)) order.give(secondary_, p, bytes, alignment);
        else order.give(upstream_, p, bytes, alignment);
    }

    [[nodiscard]] fallback_stats stats() const { return accounts_.stats(); }
    [[nodiscard]] Primary const& upstream() const noexcept { return upstream_; }
    [[nodiscard]] Secondary const& secondary() const noexcept { return secondary_; }

private:
    [[nodiscard]] void* allocate_secondary(call_order const& order, std::size_t bytes, std::size_t alignment,
                                           label const& who, out_of_memory const& first) {
        void* p = nullptr;
        try {
            p = order.take(secondary_, bytes, alignment, fallback_accounting::label_of(who));
            accounts_.enter(p, bytes);
        } catch (out_of_memory const& second) { accounts_.refuse(who, first, second); } catch (...) {
            if (p) order.give(secondary_, p, bytes, alignment);
            throw;
        }
        return p;
    }

    Primary upstream_;
    Secondary secondary_;
    fallback_accounting accounts_;
};

}  // namespace detail

/// Resource that serves a request from Secondary if Primary refuses it: pinned memory, else pageable; device memory, else managed.
///
///     cuota::fallback memory{cuota::budgeted{on_device}, cuota::budgeted{on_host, cuota::managed_memory{}}};
///
/// Secondary gets a label with " (fallback)" at the end of the name, so its budgets, refusals and recordings show which requests it served;
/// stats() counts them. If both refuse, the refusal is Secondary's, with Primary's as its cause. Both must have the same kind of memory, or
/// one of them managed memory. Copies share the same state.
///
/// Units:   bytes; the granularity is the larger one.
/// Order:   that of the resource which served.
/// Threads: any, if both allow it.
/// Throws:  what Secondary throws, and errors of Primary other than out_of_memory; nothing is allocated. usage_error on construction if one
///          has device memory and the other pinned memory.
/// Cost:    an atomic addition for each of Primary's blocks; for Secondary's blocks, and for frees while it has any, a lock and a table entry.
/// Example: tests/guard/fallback.sim.cpp
template <resource Primary, resource Secondary>
class fallback : public detail::resource_adaptor_base<Primary, detail::fallback_state<Primary, Secondary>> {
public:
    /// Keeps both while a copy exists.
    fallback(Primary primary, Secondary secondary, source_location where = source_location::current())
        : fallback::resource_adaptor_base{
              detail::intrusive_ptr<detail::fallback_state<Primary, Secondary>>::make(std::move(primary),
                                                                                      std::move(secondary))} {
        if (!detail::have_common_kind(this->state().upstream().kind(), this->state().secondary().kind()))
            detail::throw_usage_error(
                where, "fallback: kernels can access the memory of one resource and not that of the other");
    }

    /// Returns the figures of this moment.
    [[nodiscard]] fallback_stats stats() const { return this->state().stats(); }

    /// Returns the larger granularity of the two.
    [[nodiscard]] std::size_t granularity() const noexcept {
        std::size_t const first = this->state().upstream().granularity();
        std::size_t const second = this->state().secondary().granularity();
        return first < second ? second : first;
    }
    /// Returns the kind of both; if one has managed memory, that of the other.
    [[nodiscard]] static constexpr memory_kind kind() noexcept requires detail::kind_is_static<Primary> &&
        detail::kind_is_static<Secondary> {
        static_assert(detail::have_common_kind(Primary::kind(), Secondary::kind()),
                      "kernels can access the memory of one resource and not that of the other");
        return detail::common_kind(Primary::kind(), Secondary::kind());
    }
    /// Same, known at run time.
    [[nodiscard]] memory_kind kind() const noexcept
        requires(!(detail::kind_is_static<Primary> && detail::kind_is_static<Secondary>)) {
        return detail::common_kind(this->state().upstream().kind(), this->state().secondary().kind());
    }
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/error_sink.hpp>

namespace cuota::inline v0::detail {

struct fallback_accounting::table {
    object_lock guard{};
    std::unordered_map<void*, std::size_t> blocks{};
    std::size_t bytes = 0;
};

CUOTA_INLINE fallback_accounting::fallback_accounting() : secondary_{light_unique_ptr<table>::make()} {}

CUOTA_INLINE fallback_accounting::~fallback_accounting() = default;

CUOTA_INLINE void fallback_accounting::enter(void* p, std::size_t bytes) {
    {
        region_lock const lock{secondary_->guard};
        secondary_->blocks.emplace(p, bytes);
        secondary_->bytes += bytes;
        live_blocks_.store(secondary_->blocks.size(), std::memory_order_release);
    }
    by_secondary_.fetch_add(1, std::memory_order_relaxed);
}

CUOTA_INLINE bool fallback_accounting::forget(void* p) noexcept {
    if (live_blocks_.load(std::memory_order_acquire) == 0) return false;
    region_lock const lock{secondary_->guard};
    auto const found = secondary_->blocks.find(p);
    if (found == secondary_->blocks.end()) return false;
    secondary_->bytes -= found->second;
    secondary_->blocks.erase(found);
    live_blocks_.store(secondary_->blocks.size(), std::memory_order_release);
    return true;
}

CUOTA_INLINE fallback_stats fallback_accounting::stats() const {
    region_lock const lock{secondary_->guard};
    return {by_primary_.load(), by_secondary_.load(), refused_.load(), secondary_->blocks.size(),
            secondary_->bytes};
}

CUOTA_INLINE label fallback_accounting::label_of(label const& who) {
    label second = who;
    second.name =
        tag::named(std::string{who.name.text()} + (who.name.is_empty() ? "(fallback)" : " (fallback)"));
    return second;
}

CUOTA_INLINE void fallback_accounting::refuse(label const& who, out_of_memory const& first,
                                              out_of_memory const& second) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    refusal facts = second.info();
    facts.request = who;
    std::string_view text = first.what();
    text = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.find(": ") + 2, text.size()));  // the name of the exception
    facts.cause =
        "first resource: " + std::string{text} + (facts.cause.empty() ? "" : "; second: " + facts.cause);
    if (dynamic_cast<budget_exceeded const*>(&second)) throw budget_exceeded{std::move(facts)};
    throw out_of_memory{std::move(facts)};
}

}  // namespace cuota::inline v0::detail

#endif
