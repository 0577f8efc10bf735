// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Replaces include/cuota/core/detail/threads/asymmetric_fence.hpp in the model: each access is a step that the search may delay. A program
// that includes this header explores the unchanged text of the headers that use it.

#include <atomic>
#include <cstring>
#include <type_traits>

#include "model/interleavings.hpp"

namespace cuota::inline v0::detail {

/// Like std::atomic, with its named functions only. A weak exchange fails only if the value differs.
template <class T>
class atomic {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(model::detail::word));
    using act = model::detail::act;
    using site = model::detail::site;

public:
    constexpr atomic() noexcept = default;
    constexpr atomic(T value) noexcept : value_{value} {}
    atomic(atomic const&) = delete;
    atomic& operator=(atomic const&) = delete;

    [[nodiscard]] T load(std::memory_order = std::memory_order_seq_cst, site where = {}) const noexcept {
        auto const op = about(act::load, where);
        model::detail::before(op);
        auto const value = model::detail::seen(op.at, op.size);
        model::detail::told(op, value);
        return of(value);
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst, site where = {}) noexcept {
        if (order == std::memory_order_seq_cst) return void(exchange(value, order, where));
        auto op = about(act::store, where);
        op.value = bits(value);
        op.release = order == std::memory_order_release;
        model::detail::stored(op);
    }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst, site where = {}) noexcept {
        return change([&](T) { return value; }, where);
    }
    T fetch_add(T value, std::memory_order = std::memory_order_seq_cst, site where = {}) noexcept {
        return change([&](T now) { return static_cast<T>(now + value); }, where);
    }
    T fetch_sub(T value, std::memory_order = std::memory_order_seq_cst, site where = {}) noexcept {
        return change([&](T now) { return static_cast<T>(now - value); }, where);
    }
    T fetch_or(T value, std::memory_order = std::memory_order_seq_cst, site where = {}) noexcept {
        return change([&](T now) { return static_cast<T>(now | value); }, where);
    }
    T fetch_and(T value, std::memory_order = std::memory_order_seq_cst, site where = {}) noexcept {
        return change([&](T now) { return static_cast<T>(now & value); }, where);
    }
    bool compare_exchange_strong(T& expected, T value, std::memory_order = std::memory_order_seq_cst,
                                 site where = {}) noexcept {
        T const had = change([&](T now) { return bits(now) == bits(expected) ? value : now; }, where);
        if (bits(had) == bits(expected)) return true;
        expected = had;
        return false;
    }
    bool compare_exchange_strong(T& expected, T value, std::memory_order order, std::memory_order,
                                 site where = {}) noexcept {
        return compare_exchange_strong(expected, value, order, where);
    }
    bool compare_exchange_weak(T& expected, T value, std::memory_order order = std::memory_order_seq_cst,
                               site where = {}) noexcept {
        return compare_exchange_strong(expected, value, order, where);
    }
    bool compare_exchange_weak(T& expected, T value, std::memory_order order, std::memory_order,
                               site where = {}) noexcept {
        return compare_exchange_strong(expected, value, order, where);
    }

    [[nodiscard]] T peek() const noexcept { return value_; }
    void poke(T value) noexcept { value_ = value; }

    void wait(T value, bool until_gone, site where) const noexcept {
        auto op = about(act::wait, where);
        op.value = bits(value);
        op.until_gone = until_gone;
        model::detail::before(op);
        model::detail::told(op, op.value);
    }

private:
    [[nodiscard]] static model::detail::word bits(T value) noexcept {
        model::detail::word word = 0;
        std::memcpy(&word, &value, sizeof(T));
        return word;
    }
    [[nodiscard]] static T of(model::detail::word word) noexcept {
        T value;
        std::memcpy(&value, &word, sizeof(T));
        return value;
    }
    [[nodiscard]] model::detail::operation about(act what, site where) const noexcept {
        auto* const at = reinterpret_cast<std::byte*>(const_cast<T*>(&value_));
        return {.what = what, .at = at, .size = sizeof(T), .where = where};
    }
    template <class To>
    T change(To to, site where) noexcept {
        auto const op = about(act::change, where);
        model::detail::before(op);
        T const had = value_;
        value_ = to(had);
        model::detail::told(op, bits(value_));
        return had;
    }

    T value_{};
};

/// If false, data that is published under a lock is written and read without steps of its own, for programs that would have too many
/// states. Smaller programs, with steps, show that a reader that observes a change takes the lock.
inline bool publishes_in_steps = false;

template <class T>
class published {
public:
    constexpr published() noexcept = default;
    constexpr published(T value) noexcept : value_{value} {}
    [[nodiscard]] T load(std::memory_order order, model::detail::site where = {}) const noexcept {
        return publishes_in_steps ? value_.load(order, where) : value_.peek();
    }
    void store(T value, std::memory_order order, model::detail::site where = {}) noexcept {
        if (publishes_in_steps) value_.store(value, order, where);
        else value_.poke(value);
    }

private:
    atomic<T> value_;
};

/// Always a step, because readers detect a change by it.
class seqlock_version {
public:
    void step(model::detail::site where = {}) noexcept {
        std::size_t const next = n_.load(std::memory_order_relaxed, where) + 1;
        if (publishes_in_steps) n_.store(next, std::memory_order_release, where);
        else n_.exchange(next, std::memory_order_release, where);
    }
    [[nodiscard]] std::size_t now(model::detail::site where = {}) const noexcept {
        return n_.load(std::memory_order_acquire, where);
    }

private:
    atomic<std::size_t> n_ = 0;
};

class mutex {
public:
    constexpr mutex() noexcept = default;
    mutex(mutex const&) = delete;
    mutex& operator=(mutex const&) = delete;

    void lock(model::detail::site where = {}) noexcept {
        take(model::detail::act::lock, where);
        holder_ = model::detail::self() + 2;
    }
    [[nodiscard]] bool try_lock(model::detail::site where = {}) noexcept {
        take(model::detail::act::try_lock, where);
        if (holder_ != 0) return false;
        holder_ = model::detail::self() + 2;
        return true;
    }
    [[nodiscard]] bool is_of_parent() const noexcept { return false; }
    void unlock(model::detail::site where = {}) noexcept {
        take(model::detail::act::unlock, where);
        model::check(holder_ == model::detail::self() + 2, "a mutex is unlocked by the one who holds it");
        holder_ = 0;
    }

private:
    void take(model::detail::act what, model::detail::site where) noexcept {
        model::detail::operation const op{.what = what,
                                          .at = reinterpret_cast<std::byte*>(&holder_),
                                          .size = sizeof holder_,
                                          .where = where};
        model::detail::before(op);
        model::detail::told(op, 0);
    }
    std::int32_t holder_ = 0;
};

inline void asymmetric_fence_light(model::detail::site where = {}) noexcept {
    model::detail::asymmetric_fence_light(where);
}
inline void asymmetric_fence_heavy(model::detail::site where = {}) noexcept {
    model::detail::operation const op{.what = model::detail::act::asymmetric_fence_heavy, .where = where};
    model::detail::before(op);
    model::detail::told(op, 0);
}
[[nodiscard]] inline bool fences_are_asymmetric() noexcept { return model::detail::asymmetric(); }

template <class T>
void wait_until(atomic<T> const& what, std::type_identity_t<T> value,
                model::detail::site where = {}) noexcept {
    what.wait(value, false, where);
}
template <class T>
void wait_while(atomic<T> const& what, std::type_identity_t<T> value,
                model::detail::site where = {}) noexcept {
    what.wait(value, true, where);
}

[[nodiscard]] inline thread_slot*& this_thread_slot() noexcept { return model::detail::record(); }

}  // namespace cuota::inline v0::detail
