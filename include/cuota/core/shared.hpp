// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Ownership: `shared` among several in one pointer, which lets a stateful resource be an eight-byte handle, or `sole`;
/// `sole_array`, and `shared_value` of what does not know that it is shared.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuota/core/config.hpp>
#include <cuota/core/process.hpp>

namespace cuota::inline v0 {

namespace detail {

/// What p pointed to; p is null then. As std::exchange, which for each type costs the compiler a millisecond.
template <class T>
[[nodiscard]] constexpr T* taken(T*& p) noexcept {
    T* const had = p;
    p = nullptr;
    return had;
}

}  // namespace detail

/// Base of state that handles share. Made with one owner; `shared` counts the rest.
/// Threads: any. Cost: an atomic operation for each change. Example: tests/core/shared.cpp
class ref_counted {
public:
    ref_counted() noexcept = default;
    ref_counted(ref_counted const&) = delete;
    ref_counted& operator=(ref_counted const&) = delete;

    /// One more, by somebody who owns it already.
    void add_owner() const noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }

    /// True when the caller was the last owner and must delete the object. Always false in a forked child for an object of its parent.
    [[nodiscard]] bool drop_owner() const noexcept;

    /// One more owner unless there is none left. For registries whose entries leave, under the registry's lock, in
    /// the destructor of what they name: the memory is then still there to ask.
    [[nodiscard]] bool try_add_owner() const noexcept;

    /// True in a forked child for an object that its parent made: it must not be used there, and is never deleted.
    [[nodiscard]] bool is_of_parent() const noexcept { return made_.is_of_parent(); }

    /// How many at this moment; another thread may change that at once.
    [[nodiscard]] std::size_t owners() const noexcept { return owners_.load(std::memory_order_acquire); }

protected:
    ~ref_counted() = default;

private:
    mutable std::atomic<std::uint32_t> owners_ = 1;
    detail::process_mark const made_;
};

/// An owner among several of a T that derives from ref_counted. Eight bytes; copies share, the last one deletes.
/// T may be incomplete where handles are declared; a file that copies or drops them knows it, or that
/// `template class shared<T>` is instantiated in cuota.cpp.
/// Threads: as std::shared_ptr: different handles on one object from any thread.
/// Cost: a copy is an atomic addition; a move is none. Example: tests/core/shared.cpp
template <class T>
class shared {
public:
    constexpr shared() noexcept = default;
    /// One more owner of the same object.
    shared(shared const& other) noexcept;
    /// Takes it over: other is empty then.
    shared(shared&& other) noexcept : object_{detail::taken(other.object_)} {}
    /// Owns the same as other; what it owned before is dropped.
    shared& operator=(shared other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~shared();

    /// Makes the object, with one owner. Throws: std::bad_alloc, what its constructor throws.
    template <class... Args>
    [[nodiscard]] static shared make(Args&&... args) {
        return adopt(new T(std::forward<Args>(args)...));
    }
    /// Takes over a count that the caller has: from `new`, `detach` or a successful try_add_owner.
    [[nodiscard]] static shared adopt(T* object) noexcept {
        shared result;
        result.object_ = object;
        return result;
    }
    /// One more owner of an object that somebody owns already.
    [[nodiscard]] static shared of(T& object) noexcept;
    /// Gives the count up to the caller.
    [[nodiscard]] T* detach() noexcept { return detail::taken(object_); }

    [[nodiscard]] T* get() const noexcept { return object_; }               ///< null when empty
    T* operator->() const noexcept { return object_; }                      ///< not when empty
    T& operator*() const noexcept { return *object_; }                      ///< not when empty
    explicit operator bool() const noexcept { return object_ != nullptr; }  ///< false when empty
    /// Whether both own one object, or neither any.
    friend bool operator==(shared const&, shared const&) noexcept = default;

private:
    T* object_ = nullptr;
};

/// The only owner of a T. T may be incomplete where a class has one; its constructors and its destructor, which know T, are
/// defined apart then. As std::unique_ptr, but that reading a class with one of those costs the compiler 5 ms.
/// Threads: as a pointer. Example: tests/core/shared.cpp
template <class T>
class sole {
public:
    sole() noexcept = default;
    sole(std::nullptr_t) noexcept {}  ///< empty
    /// Takes over what `new` made.
    explicit sole(T* object) noexcept : object_{object} {}
    /// Takes it over: other is empty then.
    sole(sole&& other) noexcept : object_{detail::taken(other.object_)} {}
    /// Takes over what derives from T, whose destructor is virtual then: other is empty.
    template <class U>
        requires std::is_convertible_v<U*, T*> sole(sole<U> other)
    noexcept : object_{other.detach()} {}
    /// Deletes what it owned before, and takes over the other's.
    sole& operator=(sole other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~sole() { delete object_; }

    /// Throws: std::bad_alloc, what its constructor throws.
    template <class... Args>
    [[nodiscard]] static sole make(Args&&... args) {
        return sole{new T(std::forward<Args>(args)...)};
    }

    /// Gives it up to the caller.
    [[nodiscard]] T* detach() noexcept { return detail::taken(object_); }

    [[nodiscard]] T* get() const noexcept { return object_; }               ///< null when empty
    T* operator->() const noexcept { return object_; }                      ///< not when empty
    T& operator*() const noexcept { return *object_; }                      ///< not when empty
    explicit operator bool() const noexcept { return object_ != nullptr; }  ///< false when empty

private:
    T* object_ = nullptr;
};

/// The only owner of an array that is as long as somebody else knows. Threads: as a pointer. Example: tests/core/shared.cpp
template <class T>
class sole_array {
public:
    sole_array() noexcept = default;
    /// Takes it over: other is empty then.
    sole_array(sole_array&& other) noexcept : first_{detail::taken(other.first_)} {}
    /// Deletes what it owned before, and takes over the other's.
    sole_array& operator=(sole_array other) noexcept {
        std::swap(first_, other.first_);
        return *this;
    }
    ~sole_array() { delete[] first_; }

    /// Of n elements, each initialised by {}. Throws: std::bad_alloc, what their constructor throws.
    [[nodiscard]] static sole_array make(std::size_t n) {
        sole_array result;
        result.first_ = new T[n]{};
        return result;
    }

    [[nodiscard]] T* get() const noexcept { return first_; }               ///< null when empty
    T& operator[](std::size_t i) const noexcept { return first_[i]; }      ///< not when empty
    explicit operator bool() const noexcept { return first_ != nullptr; }  ///< false when empty

private:
    T* first_ = nullptr;
};

namespace detail {

/// Where a shared_value lives, and who knows how it ends.
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

}  // namespace detail

/// An owner among several of a value of any type. As std::shared_ptr, but that reading it costs the compiler a quarter of the
/// time; T may be incomplete anywhere but where it is made.
/// A move is a copy: what holds one, such as a source, is still valid after it was moved from.
/// Threads: as std::shared_ptr: different handles on one value from any thread.
/// Cost: a copy is an atomic addition. Example: tests/core/shared.cpp
template <class T>
class shared_value {
public:
    constexpr shared_value() noexcept = default;
    constexpr shared_value(std::nullptr_t) noexcept {}  ///< empty
    /// One more owner of the same value.
    shared_value(shared_value const& other) noexcept : value_{other.value_}, cell_{other.cell_} {}
    /// Owns the same as other, of which it sees less: a base, a constant, nothing but that it lives.
    template <class U>
        requires std::is_convertible_v<U*, T*> shared_value(shared_value<U> other)
    noexcept : value_{detail::taken(other.value_)}, cell_{std::move(other.cell_)} {}
    /// Owns the same as other; what it owned before is dropped.
    shared_value& operator=(shared_value other) noexcept {
        std::swap(value_, other.value_);
        std::swap(cell_, other.cell_);
        return *this;
    }
    ~shared_value() = default;

    /// Makes the value, with one owner. Throws: std::bad_alloc, what its constructor throws.
    template <class... Args>
    [[nodiscard]] static shared_value make(Args&&... args) {
        auto* const cell = new detail::cell_of<T>(std::forward<Args>(args)...);
        shared_value result;
        result.value_ = &cell->value;
        result.cell_ = shared<detail::shared_cell>::adopt(cell);
        return result;
    }

    [[nodiscard]] T* get() const noexcept { return value_; }  ///< null when empty
    T* operator->() const noexcept { return value_; }         ///< not when empty
    /// Not when empty.
    template <class U = T>
    U& operator*() const noexcept {
        return *value_;
    }
    explicit operator bool() const noexcept { return value_ != nullptr; }  ///< false when empty

private:
    template <class U>
    friend class shared_value;
    T* value_ = nullptr;
    shared<detail::shared_cell> cell_;
};

// Not inline where definitions are apart: then who says `extern template class shared<T>` needs no more of T than its name.

template <class T>
CUOTA_INLINE_IN_PLACE shared<T>::shared(shared const& other) noexcept : object_{other.object_} {
    if (object_) object_->add_owner();
}

template <class T>
CUOTA_INLINE_IN_PLACE shared<T>::~shared() {
    if (object_ && object_->drop_owner()) delete object_;
}

template <class T>
CUOTA_INLINE_IN_PLACE shared<T> shared<T>::of(T& object) noexcept {
    object.add_owner();
    return adopt(&object);
}

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

namespace cuota::inline v0 {

CUOTA_INLINE_IN_PLACE detail::shared_cell::~shared_cell() = default;

CUOTA_INLINE bool ref_counted::drop_owner() const noexcept {
    return owners_.fetch_sub(1, std::memory_order_acq_rel) == 1 && !is_of_parent();
}

CUOTA_INLINE bool ref_counted::try_add_owner() const noexcept {
    auto now = owners_.load(std::memory_order_relaxed);
    while (now != 0)
        if (owners_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
    return false;
}

}  // namespace cuota::inline v0

#endif
