// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Smart pointers that compile fast.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>

namespace cuota::inline v0::detail {

/// Returns p and sets it to null. std::exchange costs the compiler 1 ms for each type.
template <class T>
[[nodiscard]] constexpr T* taken(T*& p) noexcept {
    T* const had = p;
    p = nullptr;
    return had;
}

/// Base of reference-counted objects. The count starts at 1.
/// Threads: any. Example: tests/core/detail/smart_pointers.cpp
class ref_counted {
public:
    ref_counted() noexcept = default;
    ref_counted(ref_counted const&) = delete;
    ref_counted& operator=(ref_counted const&) = delete;

    /// The caller must be an owner.
    void add_ref() const noexcept { ref_count_.fetch_add(1, std::memory_order_relaxed); }

    /// Decrements the count. Returns true if the caller must delete the object: never in a forked child for an object of its parent.
    [[nodiscard]] bool drop_ref() const noexcept;

    /// Increments the count unless it is 0; returns whether it did. For registries: an object's destructor removes its entry under the
    /// registry's lock, so the memory still exists.
    [[nodiscard]] bool try_add_ref() const noexcept;

    /// True in a forked child for an object of its parent, which is never deleted there.
    [[nodiscard]] bool is_of_parent() const noexcept { return made_.is_of_parent(); }

    [[nodiscard]] std::size_t ref_count() const noexcept {
        return ref_count_.load(std::memory_order_acquire);
    }

protected:
    ~ref_counted() = default;

private:
    mutable std::atomic<std::uint32_t> ref_count_ = 1;
    detail::process_mark const made_;
};

/// A shared owner of a T that derives from ref_counted, in 8 bytes. T may be incomplete where handles are declared
/// (docs/design/compilation.md).
/// Threads: like std::shared_ptr.
template <class T>
class intrusive_ptr {
public:
    constexpr intrusive_ptr() noexcept = default;
    intrusive_ptr(intrusive_ptr const& other) noexcept;
    intrusive_ptr(intrusive_ptr&& other) noexcept : object_{detail::taken(other.object_)} {}
    intrusive_ptr& operator=(intrusive_ptr const& other) noexcept {
        if (this != &other) *this = intrusive_ptr{other};
        return *this;
    }
    intrusive_ptr& operator=(intrusive_ptr&& other) noexcept {
        intrusive_ptr taken{std::move(other)};
        std::swap(object_, taken.object_);
        return *this;
    }
    ~intrusive_ptr();

    template <class... Args>
    [[nodiscard]] static intrusive_ptr make(Args&&... args) {
        return adopt(new T(std::forward<Args>(args)...));
    }
    /// Takes over a count: from `new`, `detach` or a successful try_add_ref.
    [[nodiscard]] static intrusive_ptr adopt(T* object) noexcept {
        intrusive_ptr result;
        result.object_ = object;
        return result;
    }
    /// The object must have an owner.
    [[nodiscard]] static intrusive_ptr of(T& object) noexcept;
    [[nodiscard]] T* detach() noexcept { return detail::taken(object_); }

    [[nodiscard]] T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    friend bool operator==(intrusive_ptr const&, intrusive_ptr const&) noexcept = default;

private:
    T* object_ = nullptr;
};

/// The only owner of a T, like std::unique_ptr, which costs the compiler 5 ms for each T. T must be complete in the constructors and the
/// destructor of a class with such a member.
template <class T>
class light_unique_ptr {
public:
    light_unique_ptr() noexcept = default;
    light_unique_ptr(std::nullptr_t) noexcept {}
    explicit light_unique_ptr(T* object) noexcept : object_{object} {}
    light_unique_ptr(light_unique_ptr&& other) noexcept : object_{detail::taken(other.object_)} {}
    /// T must have a virtual destructor.
    template <class U>
        requires std::is_convertible_v<U*, T*> light_unique_ptr(light_unique_ptr<U> other)
    noexcept : object_{other.detach()} {}
    light_unique_ptr& operator=(light_unique_ptr&& other) noexcept {
        light_unique_ptr taken{std::move(other)};
        std::swap(object_, taken.object_);
        return *this;
    }
    ~light_unique_ptr() { delete object_; }

    template <class... Args>
    [[nodiscard]] static light_unique_ptr make(Args&&... args) {
        return light_unique_ptr{new T(std::forward<Args>(args)...)};
    }

    [[nodiscard]] T* detach() noexcept { return detail::taken(object_); }

    [[nodiscard]] T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }
    T& operator*() const noexcept { return *object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }

private:
    T* object_ = nullptr;
};

/// The only owner of an array. Its length is not stored.
template <class T>
class light_unique_array {
public:
    light_unique_array() noexcept = default;
    light_unique_array(light_unique_array&& other) noexcept : first_{detail::taken(other.first_)} {}
    light_unique_array& operator=(light_unique_array&& other) noexcept {
        light_unique_array taken{std::move(other)};
        std::swap(first_, taken.first_);
        return *this;
    }
    ~light_unique_array() { delete[] first_; }

    [[nodiscard]] static light_unique_array make(std::size_t n) {
        light_unique_array result;
        result.first_ = new T[n]{};
        return result;
    }

    [[nodiscard]] T* get() const noexcept { return first_; }
    T& operator[](std::size_t i) const noexcept { return first_[i]; }
    explicit operator bool() const noexcept { return first_ != nullptr; }

private:
    T* first_ = nullptr;
};

/// The reference-counted cell of a light_shared_ptr.
class shared_cell : public ref_counted {
public:
    CUOTA_INLINE_IN_PLACE virtual ~shared_cell();
};

template <class T>
struct cell_of final : shared_cell {
    template <class... Args>
    explicit cell_of(Args&&... args) : value(std::forward<Args>(args)...) {}
    T value;
};

/// A shared owner of a value of any type, like std::shared_ptr, which takes four times as long to compile. T may be incomplete except in
/// `make`. A move is a copy: an object with such a member stays valid when it is moved from.
/// Threads: like std::shared_ptr.
template <class T>
class light_shared_ptr {
public:
    constexpr light_shared_ptr() noexcept = default;
    constexpr light_shared_ptr(std::nullptr_t) noexcept {}
    light_shared_ptr(light_shared_ptr const& other) noexcept : value_{other.value_}, cell_{other.cell_} {}
    /// Shares the value as a base class, as const, or as void, which only keeps it alive.
    template <class U>
        requires std::is_convertible_v<U*, T*> light_shared_ptr(light_shared_ptr<U> other)
    noexcept : value_{detail::taken(other.value_)}, cell_{std::move(other.cell_)} {}
    light_shared_ptr& operator=(light_shared_ptr const& other) noexcept {
        if (this == &other) return *this;
        light_shared_ptr shared{other};
        std::swap(value_, shared.value_);
        std::swap(cell_, shared.cell_);
        return *this;
    }
    ~light_shared_ptr() = default;

    template <class... Args>
    [[nodiscard]] static light_shared_ptr make(Args&&... args) {
        auto* const cell = new detail::cell_of<T>(std::forward<Args>(args)...);
        light_shared_ptr result;
        result.value_ = &cell->value;
        result.cell_ = intrusive_ptr<detail::shared_cell>::adopt(cell);
        return result;
    }

    [[nodiscard]] T* get() const noexcept { return value_; }
    T* operator->() const noexcept { return value_; }
    template <class U = T>
    U& operator*() const noexcept {
        return *value_;
    }
    explicit operator bool() const noexcept { return value_ != nullptr; }

private:
    template <class U>
    friend class light_shared_ptr;
    T* value_ = nullptr;
    intrusive_ptr<detail::shared_cell> cell_;
};

// Not inline with separate definitions (docs/design/compilation.md).

template <class T>
CUOTA_INLINE_IN_PLACE intrusive_ptr<T>::intrusive_ptr(intrusive_ptr const& other) noexcept
    : object_{other.object_} {
    if (object_) object_->add_ref();
}

template <class T>
CUOTA_INLINE_IN_PLACE intrusive_ptr<T>::~intrusive_ptr() {
    if (object_ && object_->drop_ref()) delete object_;
}

template <class T>
CUOTA_INLINE_IN_PLACE intrusive_ptr<T> intrusive_ptr<T>::of(T& object) noexcept {
    object.add_ref();
    return adopt(&object);
}

}  // namespace cuota::inline v0::detail

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0::detail {

CUOTA_INLINE_IN_PLACE detail::shared_cell::~shared_cell() = default;

CUOTA_INLINE bool ref_counted::drop_ref() const noexcept {
    return ref_count_.fetch_sub(1, std::memory_order_acq_rel) == 1 && !is_of_parent();
}

CUOTA_INLINE bool ref_counted::try_add_ref() const noexcept {
    auto now = ref_count_.load(std::memory_order_relaxed);
    while (now != 0)
        if (ref_count_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
    return false;
}

}  // namespace cuota::inline v0::detail

#endif
